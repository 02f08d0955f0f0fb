//! Decisions, and the exchange of the rules while decisions go on.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use parking_lot::{Mutex, RwLock};

use crate::{
    acl::{
        RULES_MAX,
        index::{Asked, Index},
        kinds::{Operation, ResourceType},
        own::OwnPrincipal,
        rule::{Filter, Rule},
    },
    principal::Principal,
};

/// What is configured and not stored with the rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizerConfig {
    /// `super.users`: they may do everything.
    pub super_users: HashSet<Principal>,
    /// `allow.everyone.if.no.acl.found`: resources that no rule speaks of are everybody's. It does not apply to
    /// users and delegation tokens: whoever gets another user's token becomes that user.
    pub allow_if_no_rule: bool,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    /// Who it is.
    pub principal: &'a str,
    /// Its address as `IpAddr::to_canonical` gives it.
    pub host: &'a str,
}

/// There is no room for the new rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cluster has {RULES_MAX} ACLs at most; delete some, or use prefixed patterns")]
pub struct TooManyRules;

/// Decides who may do what. Decisions take a few hundred nanoseconds and wait for nobody: a change
/// is made to a copy of the index, which shares what does not change, and exchanges it.
#[derive(Debug)]
pub struct Authorizer {
    super_users: HashSet<Box<str>>,
    allow_if_no_rule: bool,
    index: RwLock<Arc<Index>>,
    rules: Mutex<BTreeSet<Rule>>,
}

impl Authorizer {
    /// An authorizer with the rules that are stored.
    #[must_use]
    pub fn new(config: AuthorizerConfig, rules: impl IntoIterator<Item = Rule>) -> Self {
        let rules: BTreeSet<Rule> = rules.into_iter().collect();
        let names = config.super_users.iter();
        Self {
            super_users: names.map(|name| name.as_str().into()).collect(),
            allow_if_no_rule: config.allow_if_no_rule,
            index: RwLock::new(Arc::new(Index::new(&rules))),
            rules: Mutex::new(rules),
        }
    }

    /// Whether the client may do this to the resource of this name.
    #[must_use]
    pub fn allows(
        &self,
        client: Client<'_>,
        operation: Operation,
        resource_type: ResourceType,
        name: &str,
    ) -> bool {
        if let Some(own) = OwnPrincipal::of(client.principal) {
            return own.may(operation, resource_type, name);
        }
        if self.super_users.contains(client.principal) {
            return true;
        }
        let asked = Asked {
            principal: client.principal,
            host: client.host,
            operation,
            name,
        };
        let found = self.index().look_up(resource_type, &asked);
        let open = self.allow_if_no_rule && !gives_identities(resource_type);
        !found.denied && (found.allowed || (!found.any_rule && open))
    }

    /// Whether the client may do this to some resource of the type: what an idempotent producer needs
    /// is a topic that it may write to (KIP-679).
    #[must_use]
    pub fn allows_any(
        &self,
        client: Client<'_>,
        operation: Operation,
        resource_type: ResourceType,
    ) -> bool {
        // Kafka asks for a name that nobody uses, for super users and where there are no rules.
        self.allows(client, operation, resource_type, "hardcode")
            || self
                .index()
                .any_allowed(resource_type, (client.principal, client.host), operation)
    }

    /// The index of now. The lock is not held while it is searched, which takes long for
    /// [`Self::allows_any`]: a change would wait for it, and all decisions for the change.
    pub(super) fn index(&self) -> Arc<Index> {
        Arc::clone(&self.index.read())
    }

    /// Every operation on the resource that the client may do, as Kafka's bits (KIP-430).
    #[must_use]
    pub fn allowed_bits(&self, client: Client<'_>, resource_type: ResourceType, name: &str) -> i32 {
        let allowed = resource_type
            .operations()
            .iter()
            .filter(|operation| self.allows(client, **operation, resource_type, name));
        allowed.fold(0, |bits, operation| bits | 1 << operation.code())
    }

    /// The rules that a filter finds, in order.
    #[must_use]
    pub fn find(&self, filter: &Filter) -> Vec<Rule> {
        let rules = self.rules.lock();
        rules
            .iter()
            .filter(|rule| filter.matches(rule))
            .cloned()
            .collect()
    }

    /// Whether so many new rules have room.
    ///
    /// # Errors
    /// They do not.
    pub fn has_room(&self, new: &[Rule]) -> Result<(), TooManyRules> {
        let rules = self.rules.lock();
        let new: BTreeSet<&Rule> = new.iter().filter(|rule| !rules.contains(rule)).collect();
        match rules.len() + new.len() {
            0..=RULES_MAX => Ok(()),
            _ => Err(TooManyRules),
        }
    }

    /// Adds and removes rules, all at one moment. They are to be stored before.
    pub fn change(&self, added: impl IntoIterator<Item = Rule>, removed: &[Rule]) {
        let mut rules = self.rules.lock();
        let mut added: Vec<Rule> = added.into_iter().collect();
        added.retain(|rule| rules.insert(rule.clone()));
        let removed = removed.iter().filter(|rule| rules.remove(*rule));
        self.change_index(&added, removed);
    }

    /// Replaces all rules at one moment by those that are stored. Costs what a change of the rules in which
    /// they differ costs.
    pub fn replace(&self, stored: impl IntoIterator<Item = Rule>) {
        let stored: BTreeSet<Rule> = stored.into_iter().collect();
        let mut rules = self.rules.lock();
        let added: Vec<Rule> = stored.difference(&rules).cloned().collect();
        let removed = rules.difference(&stored);
        self.change_index(&added, removed);
        *rules = stored;
    }

    /// Must be called while the rules are locked.
    fn change_index<'a>(&self, added: &'a [Rule], removed: impl Iterator<Item = &'a Rule>) {
        let mut index = Index::clone(&self.index());
        index.change(added, removed);
        let index = Arc::new(index);
        // The old one is dropped outside of the lock that decisions take.
        let _old = std::mem::replace(&mut *self.index.write(), index);
    }

    /// How many rules there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rules.lock().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.lock().is_empty()
    }
}

/// Whether a right on such a resource lets its holder authenticate as somebody else.
const fn gives_identities(resource_type: ResourceType) -> bool {
    matches!(
        resource_type,
        ResourceType::User | ResourceType::DelegationToken
    )
}
