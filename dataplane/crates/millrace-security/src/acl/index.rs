//! All rules, arranged so that a decision takes a few lookups whatever their number.
//!
//! Rules of one type of resource stand by their pattern: literal names in a hash table, `*` apart, and
//! prefixes sorted, each with a link to the longest other prefix that it begins with. All prefixes of
//! a name are then the chain of links from the last prefix that is not greater than the name: whatever
//! stands between a prefix of the name and the name itself begins with that prefix, too.
//!
//! Within a pattern, rules stand by principal and, where they name one, by host, as two sets of
//! operations. So a decision costs a binary search and, per pattern that fits, at most four lookups.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::IpAddr,
};

use crate::acl::{
    kinds::{Operation, Operations, PatternType, Permission, ResourceType},
    rule::{Rule, WILDCARD, is_wildcard},
};

/// Every user, as a rule's principal.
pub(super) const EVERY_USER: &str = "User:*";

/// What some rules together say.
#[derive(Debug, Clone, Copy, Default)]
struct Verdicts {
    allowed: Operations,
    denied: Operations,
}

impl Verdicts {
    fn add(&mut self, rule: &Rule) {
        match rule.permission {
            Permission::Allow => self.allowed.add(Operations::allowed_by(rule.operation)),
            Permission::Deny => self.denied.add(Operations::denied_by(rule.operation)),
        }
    }
}

/// The rules of one principal on one pattern.
#[derive(Debug, Default)]
struct ByHost {
    everywhere: Verdicts,
    hosts: HashMap<Box<str>, Verdicts>,
}

/// The rules on one pattern.
#[derive(Debug, Default)]
struct ByPrincipal {
    everyone: ByHost,
    principals: HashMap<Box<str>, ByHost>,
}

impl ByPrincipal {
    fn add(&mut self, rule: &Rule) {
        let by_host = match rule.principal.as_str() {
            EVERY_USER => &mut self.everyone,
            name => self.principals.entry(name.into()).or_default(),
        };
        let verdicts = match &*rule.host {
            WILDCARD => &mut by_host.everywhere,
            host => by_host.hosts.entry(canonical(host)).or_default(),
        };
        verdicts.add(rule);
    }

    fn look_up(&self, asked: &Asked<'_>, found: &mut Found) {
        found.any_rule = true;
        for by_host in [Some(&self.everyone), self.principals.get(asked.principal)] {
            let Some(by_host) = by_host else { continue };
            found.take(by_host.everywhere, asked.operation);
            if !by_host.hosts.is_empty()
                && let Some(verdicts) = by_host.hosts.get(asked.host)
            {
                found.take(*verdicts, asked.operation);
            }
        }
    }
}

#[derive(Debug)]
struct Prefix {
    text: Box<str>,
    /// The longest other prefix that this one begins with.
    parent: Option<usize>,
    rules: ByPrincipal,
}

/// The rules of one type of resource.
#[derive(Debug, Default)]
struct OfType {
    literal: HashMap<Box<str>, ByPrincipal>,
    wildcard: Option<ByPrincipal>,
    /// In the order of their texts.
    prefixes: Vec<Prefix>,
}

impl OfType {
    fn look_up(&self, asked: &Asked<'_>, found: &mut Found) {
        if let Some(rules) = &self.wildcard {
            rules.look_up(asked, found);
        }
        // The wildcard is a pattern, not a resource whose name is `*`; it has been looked at.
        if let Some(rules) = self.literal.get(asked.name) {
            rules.look_up(asked, found);
        }
        let behind = self
            .prefixes
            .partition_point(|prefix| &*prefix.text <= asked.name);
        let mut at = behind.checked_sub(1);
        while let Some(prefix) = at.and_then(|at| self.prefixes.get(at)) {
            if found.denied {
                return;
            }
            if asked.name.starts_with(&*prefix.text) {
                prefix.rules.look_up(asked, found);
            }
            at = prefix.parent;
        }
    }
}

/// All rules.
#[derive(Debug, Default)]
pub(super) struct Index {
    types: HashMap<ResourceType, OfType>,
    /// For questions about any resource of a type.
    by_type: HashMap<ResourceType, Vec<Rule>>,
}

/// One question.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) principal: &'a str,
    pub(super) host: &'a str,
    pub(super) operation: Operation,
    pub(super) name: &'a str,
}

/// What the rules say to it.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// A rule speaks of the resource, whatever it says.
    pub(super) any_rule: bool,
    pub(super) allowed: bool,
    pub(super) denied: bool,
}

impl Found {
    fn take(&mut self, verdicts: Verdicts, operation: Operation) {
        self.allowed |= verdicts.allowed.has(operation);
        self.denied |= verdicts.denied.has(operation);
    }
}

impl Index {
    pub(super) fn new<'a>(rules: impl IntoIterator<Item = &'a Rule>) -> Self {
        let mut index = Self::default();
        let mut prefixes: HashMap<ResourceType, BTreeMap<Box<str>, ByPrincipal>> = HashMap::new();
        for rule in rules {
            let of_type = index.types.entry(rule.resource_type).or_default();
            let name = || rule.resource_name.clone();
            let by_principal = match rule.pattern {
                PatternType::Literal if is_wildcard(rule) => {
                    of_type.wildcard.get_or_insert_default()
                }
                PatternType::Literal => of_type.literal.entry(name()).or_default(),
                PatternType::Prefixed => {
                    let of_type = prefixes.entry(rule.resource_type).or_default();
                    of_type.entry(name()).or_default()
                }
            };
            by_principal.add(rule);
            let of_type = index.by_type.entry(rule.resource_type).or_default();
            of_type.push(rule.clone());
        }
        for (resource_type, sorted) in prefixes {
            index.types.entry(resource_type).or_default().prefixes = link(sorted);
        }
        index
    }

    /// What the rules say about one resource.
    pub(super) fn look_up(&self, resource_type: ResourceType, asked: &Asked<'_>) -> Found {
        let mut found = Found::default();
        if let Some(of_type) = self.types.get(&resource_type) {
            of_type.look_up(asked, &mut found);
        }
        found
    }

    /// Whether there is at least one resource of the type on which the operation is allowed and not
    /// denied (KIP-679). As in Kafka, only rules on the operation itself and on all count.
    pub(super) fn any_allowed(
        &self,
        resource_type: ResourceType,
        (principal, host): (&str, &str),
        operation: Operation,
    ) -> bool {
        let is_asked = |rule: &&Rule| {
            (rule.principal.as_str() == principal || rule.principal.as_str() == EVERY_USER)
                && (&*rule.host == WILDCARD || &*canonical(&rule.host) == host)
                && (rule.operation == operation || rule.operation == Operation::All)
        };
        let of_type = self.by_type.get(&resource_type);
        let (denying, allowing): (Vec<&Rule>, Vec<&Rule>) = of_type
            .into_iter()
            .flatten()
            .filter(is_asked)
            .partition(|rule| rule.permission == Permission::Deny);
        if denying.iter().any(|rule| is_wildcard(rule)) {
            return false;
        }
        let denied: HashSet<(PatternType, &str)> = denying
            .iter()
            .map(|rule| (rule.pattern, &*rule.resource_name))
            .collect();
        allowing.iter().any(|rule| {
            let name = &*rule.resource_name;
            let by_literal = rule.pattern == PatternType::Literal
                && denied.contains(&(PatternType::Literal, name));
            let beginnings = name
                .char_indices()
                .map(|(at, c)| &name[..at + c.len_utf8()]);
            let mut beginnings = beginnings.map(|text| (PatternType::Prefixed, text));
            let mut by_prefix = || beginnings.any(|prefix| denied.contains(&prefix));
            is_wildcard(rule) || !(by_literal || by_prefix())
        })
    }
}

/// One way to write an address: `0:0:0:0:0:0:0:1` is `::1`, and an IPv4 address mapped to IPv6 is itself.
fn canonical(host: &str) -> Box<str> {
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string().into(),
        Err(_) => host.into(),
    }
}

/// Links each prefix to the longest other one that it begins with. In the order of texts, these are
/// on a stack: what the next prefix does not begin with, no later one does.
fn link(sorted: BTreeMap<Box<str>, ByPrincipal>) -> Vec<Prefix> {
    let mut prefixes: Vec<Prefix> = Vec::with_capacity(sorted.len());
    let mut open: Vec<usize> = Vec::new();
    for (text, rules) in sorted {
        let begins_with = |at: &usize| {
            let other: Option<&Prefix> = prefixes.get(*at);
            other.is_some_and(|other| text.starts_with(&*other.text))
        };
        while open.last().is_some_and(|at| !begins_with(at)) {
            open.pop();
        }
        let parent = open.last().copied();
        open.push(prefixes.len());
        prefixes.push(Prefix {
            text,
            parent,
            rules,
        });
    }
    prefixes
}
