//! All rules, arranged so that a decision takes a few lookups whatever their number.
//!
//! Rules of one type of resource stand by their pattern: literal names in a hash table, `*` apart, and
//! prefixes sorted, each with a link to the longest other prefix that it begins with. All prefixes of
//! a name are then the chain of links from the last prefix that is not greater than the name: whatever
//! stands between a prefix of the name and the name itself begins with that prefix, too.
//!
//! Within a pattern, rules stand by principal and, where they name one, by host, as two sets of
//! operations. So a decision costs a binary search and, per pattern that fits, at most four lookups.
//!
//! Decisions go on while rules change, so a change is made to a copy. The copy shares what does not change: a
//! change of one rule copies the tables on the way to it, whose entries are pointers, and the rules of one principal
//! on one pattern. What these say is computed anew once per change, however many of them are removed.

use std::{
    collections::{BTreeMap, HashMap, HashSet, hash_map::Entry},
    net::IpAddr,
    sync::Arc,
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
#[derive(Debug, Clone, Default)]
struct ByHost {
    everywhere: Verdicts,
    hosts: HashMap<Box<str>, Verdicts>,
    /// What these follow from.
    rules: Vec<Rule>,
}

impl ByHost {
    fn apply(&mut self, changes: &Changes<'_>) {
        for rule in &changes.added {
            self.count(rule);
            self.rules.push((*rule).clone());
        }
        if !changes.removed.is_empty() {
            self.rules.retain(|rule| !changes.removed.contains(rule));
            self.recount();
        }
    }

    fn count(&mut self, rule: &Rule) {
        let verdicts = match &*rule.host {
            WILDCARD => &mut self.everywhere,
            host => self.hosts.entry(canonical(host)).or_default(),
        };
        verdicts.add(rule);
    }

    fn recount(&mut self) {
        #[cfg(test)]
        RECOUNTS.with(|recounts| recounts.set(recounts.get() + 1));
        let rules = std::mem::take(self).rules;
        rules.iter().for_each(|rule| self.count(rule));
        self.rules = rules;
    }
}

#[cfg(test)]
thread_local! {
    /// How often the rules of a principal on a pattern were counted anew.
    pub(super) static RECOUNTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The rules on one pattern.
#[derive(Debug, Clone, Default)]
struct ByPrincipal {
    everyone: Arc<ByHost>,
    /// None of them is empty.
    principals: HashMap<Arc<str>, Arc<ByHost>>,
}

impl ByPrincipal {
    fn apply(&mut self, principal: &str, changes: &Changes<'_>) {
        if principal == EVERY_USER {
            return Arc::make_mut(&mut self.everyone).apply(changes);
        }
        let mut held = match self.principals.entry(principal.into()) {
            Entry::Occupied(held) => held,
            Entry::Vacant(place) => place.insert_entry(Arc::default()),
        };
        Arc::make_mut(held.get_mut()).apply(changes);
        if held.get().rules.is_empty() {
            held.remove();
        }
    }

    fn is_empty(&self) -> bool {
        self.principals.is_empty() && self.everyone.rules.is_empty()
    }

    /// Those that speak of everybody, and of this principal.
    fn of(&self, principal: &str) -> impl Iterator<Item = &ByHost> {
        let own = self.principals.get(principal);
        [Some(&self.everyone), own]
            .into_iter()
            .flatten()
            .map(|held| &**held)
    }

    fn look_up(&self, asked: &Asked<'_>, found: &mut Found) {
        found.any_rule = true;
        for by_host in self.of(asked.principal) {
            found.take(by_host.everywhere, asked.operation);
            if !by_host.hosts.is_empty()
                && let Some(verdicts) = by_host.hosts.get(asked.host)
            {
                found.take(*verdicts, asked.operation);
            }
        }
    }
}

/// Whose rules change, on which pattern of a type of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place<'a> {
    pattern: PatternType,
    name: &'a str,
    principal: &'a str,
}

impl<'a> Place<'a> {
    fn of(rule: &'a Rule) -> Self {
        Self {
            pattern: rule.pattern,
            name: &rule.resource_name,
            principal: rule.principal.as_str(),
        }
    }
}

/// What changes in one place. A rule that is added and removed is removed.
#[derive(Debug, Default)]
struct Changes<'a> {
    added: Vec<&'a Rule>,
    removed: HashSet<&'a Rule>,
}

/// What changes in one type of resource.
type OfPlaces<'a> = HashMap<Place<'a>, Changes<'a>>;

#[derive(Debug, Clone)]
struct Prefix {
    text: Arc<str>,
    /// The longest other prefix that this one begins with.
    parent: Option<usize>,
    rules: Arc<ByPrincipal>,
}

/// The rules of one type of resource. None of their patterns is empty.
#[derive(Debug, Clone, Default)]
struct OfType {
    literal: HashMap<Arc<str>, Arc<ByPrincipal>>,
    wildcard: Option<Arc<ByPrincipal>>,
    /// In the order of their texts.
    prefixes: Vec<Prefix>,
}

/// Prefixes while they change.
type Prefixes = BTreeMap<Arc<str>, Arc<ByPrincipal>>;

impl OfType {
    fn apply(&mut self, place: Place<'_>, changes: &Changes<'_>, prefixes: &mut Prefixes) {
        let Place {
            pattern,
            name,
            principal,
        } = place;
        match pattern {
            PatternType::Literal if name == WILDCARD => {
                let held = self.wildcard.get_or_insert_default();
                Arc::make_mut(held).apply(principal, changes);
                self.wildcard.take_if(|held| held.is_empty());
            }
            PatternType::Literal => {
                let held = self.literal.entry(name.into()).or_default();
                Arc::make_mut(held).apply(principal, changes);
                if held.is_empty() {
                    self.literal.remove(name);
                }
            }
            PatternType::Prefixed => {
                let held = prefixes.entry(name.into()).or_default();
                Arc::make_mut(held).apply(principal, changes);
                if held.is_empty() {
                    prefixes.remove(name);
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.literal.is_empty() && self.wildcard.is_none() && self.prefixes.is_empty()
    }

    fn patterns(&self) -> impl Iterator<Item = &ByPrincipal> {
        let prefixes = self.prefixes.iter().map(|prefix| &prefix.rules);
        let all = self.literal.values().chain(&self.wildcard).chain(prefixes);
        all.map(|held| &**held)
    }

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

/// All rules. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    /// None of them is empty.
    types: HashMap<ResourceType, Arc<OfType>>,
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
        index.change(rules, []);
        index
    }

    /// Adds rules that are not there, and removes some that are.
    pub(super) fn change<'a>(
        &mut self,
        added: impl IntoIterator<Item = &'a Rule>,
        removed: impl IntoIterator<Item = &'a Rule>,
    ) {
        let mut by_type: HashMap<ResourceType, OfPlaces<'a>> = HashMap::new();
        for rule in added {
            let places = by_type.entry(rule.resource_type).or_default();
            places.entry(Place::of(rule)).or_default().added.push(rule);
        }
        for rule in removed {
            let places = by_type.entry(rule.resource_type).or_default();
            let changes = places.entry(Place::of(rule)).or_default();
            changes.removed.insert(rule);
        }
        for (resource_type, places) in by_type {
            let of_type = Arc::make_mut(self.types.entry(resource_type).or_default());
            let prefixed = |place: &Place<'_>| place.pattern == PatternType::Prefixed;
            let relinks = places.keys().any(prefixed);
            let mut prefixes = Prefixes::new();
            if relinks {
                let former = std::mem::take(&mut of_type.prefixes).into_iter();
                prefixes.extend(former.map(|prefix| (prefix.text, prefix.rules)));
            }
            for (place, changes) in places {
                of_type.apply(place, &changes, &mut prefixes);
            }
            if relinks {
                of_type.prefixes = link(prefixes);
            }
            if of_type.is_empty() {
                self.types.remove(&resource_type);
            }
        }
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
            (&*rule.host == WILDCARD || &*canonical(&rule.host) == host)
                && (rule.operation == operation || rule.operation == Operation::All)
        };
        let of_type = self.types.get(&resource_type).into_iter();
        let (denying, allowing): (Vec<&Rule>, Vec<&Rule>) = of_type
            .flat_map(|of_type| of_type.patterns())
            .flat_map(|by_principal| by_principal.of(principal))
            .flat_map(|by_host| &by_host.rules)
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
fn link(sorted: Prefixes) -> Vec<Prefix> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::RuleCodes;

    fn rule(user: &str, name: &str, pattern: PatternType) -> Rule {
        let codes = RuleCodes {
            resource_type: ResourceType::Topic.code(),
            resource_name: name.to_owned(),
            pattern: pattern.code(),
            principal: format!("User:{user}"),
            host: "*".to_owned(),
            operation: Operation::Read.code(),
            permission: Permission::Allow.code(),
        };
        codes.check().expect("legal")
    }

    /// A change of one among 10,000 rules built all of them anew, which took 6 ms, and 20 on busy cores.
    #[test]
    fn a_change_shares_all_other_rules_with_the_index_before() {
        let mut rules = Vec::new();
        for n in 0..1_000 {
            let name = format!("t{n}");
            rules.push(rule("a", &name, PatternType::Literal));
            rules.push(rule("a", &name, PatternType::Prefixed));
            rules.push(rule(&n.to_string(), "*", PatternType::Literal));
        }
        let before = Index::new(&rules);
        let mut after = before.clone();
        let new = [
            rule("b", "t7", PatternType::Literal),
            rule("b", "t7", PatternType::Prefixed),
            rule("b", "*", PatternType::Literal),
        ];
        after.change(&new, []);
        let topics = |index: &Index| Arc::clone(&index.types[&ResourceType::Topic]);
        let (old, new_ones) = (topics(&before), topics(&after));
        let copied =
            |(one, other): (&Arc<ByPrincipal>, &Arc<ByPrincipal>)| !Arc::ptr_eq(one, other);
        let literals = old.literal.iter();
        let literals = literals.map(|(name, rules)| (rules, &new_ones.literal[name]));
        assert_eq!(literals.filter(|pair| copied(*pair)).count(), 1);
        let prefixes = old.prefixes.iter().zip(&new_ones.prefixes);
        let prefixes = prefixes.map(|(one, other)| (&one.rules, &other.rules));
        assert_eq!(prefixes.filter(|pair| copied(*pair)).count(), 1);
        let everywhere = |of_type: &OfType| of_type.wildcard.clone().expect("rules");
        let (old, new_ones) = (everywhere(&old), everywhere(&new_ones));
        let users = old.principals.iter();
        assert!(users.clone().count() == 1_000);
        for (user, rules) in users {
            assert!(Arc::ptr_eq(rules, &new_ones.principals[user]), "{user}");
        }
        // Nothing is left of what has gone.
        after.change([], rules.iter().chain(&new));
        assert!(after.types.is_empty());
    }
}
