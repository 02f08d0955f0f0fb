//! Changes of ACLs: checked, stored, and only then used.

use std::sync::Arc;

use millrace_meta::{AclRow, MetaStore, StoreFailure};
use millrace_security::acl::{Authorizer, Filter, Rule, RuleCodes};
use millrace_wire::error_code::ErrorCode;

use crate::{authorization::stored_rules, code, topics::Refused};

/// The most ACLs that one request may add, and delete: Kafka's bound for what one request changes.
const CHANGES_MAX: usize = 10_000;

/// The most filters of one request. Each is compared with every rule, which takes up to a millisecond.
const FILTERS_MAX: usize = 1_000;

/// Carries changes out. Changes run in [`SecurityChanges`](crate::security_changes::SecurityChanges), one
/// after the other.
#[derive(Debug)]
pub(crate) struct AclChanges {
    meta: Arc<dyn MetaStore>,
    authorizer: Arc<Authorizer>,
}

impl AclChanges {
    pub(crate) fn new(meta: Arc<dyn MetaStore>, authorizer: Arc<Authorizer>) -> Self {
        Self { meta, authorizer }
    }

    /// Replaces all rules by those that are stored.
    pub(crate) async fn reload(&self) -> Result<(), StoreFailure> {
        self.authorizer.replace(stored_rules(&*self.meta).await?);
        Ok(())
    }

    /// The rules that a filter finds, in the order of their resources.
    pub(crate) fn find(&self, filter: &Filter) -> Vec<Rule> {
        self.authorizer.find(filter)
    }

    /// Adds rules: those that are legal, if all of them have room. What became of each.
    pub(crate) async fn create(&self, asked: Vec<RuleCodes<String>>) -> Vec<Result<Rule, Refused>> {
        if asked.len() > CHANGES_MAX {
            let refused = too_many("create", CHANGES_MAX, "ACLs");
            return asked.iter().map(|_| Err(refused.clone())).collect();
        }
        let check = |codes: RuleCodes<String>| {
            let checked = codes.check();
            checked.map_err(|error| Refused::new(ErrorCode::InvalidRequest, error.to_string()))
        };
        let mut results: Vec<Result<Rule, Refused>> = asked.into_iter().map(check).collect();
        let legal: Vec<Rule> = results.iter().flatten().cloned().collect();
        if let Err(refused) = self.add(legal).await {
            for result in results.iter_mut().filter(|result| result.is_ok()) {
                *result = Err(refused.clone());
            }
        }
        results
    }

    async fn add(&self, rules: Vec<Rule>) -> Result<(), Refused> {
        let full = self.authorizer.has_room(&rules);
        full.map_err(|error| Refused::new(ErrorCode::PolicyViolation, error.to_string()))?;
        self.store(&rules, &[]).await?;
        self.authorizer.change(rules, &[]);
        Ok(())
    }

    /// Deletes what filters find: all of it or nothing. What each legal filter has found.
    pub(crate) async fn delete(
        &self,
        filters: Vec<Result<Filter, Refused>>,
    ) -> Vec<Result<Vec<Rule>, Refused>> {
        let refuse_all = |refused: Refused, filters: usize| vec![Err(refused); filters];
        let asked = filters.len();
        if asked > FILTERS_MAX {
            return refuse_all(too_many("delete by", FILTERS_MAX, "filters"), asked);
        }
        let mut found = Vec::with_capacity(asked);
        let mut total = 0;
        for filter in filters {
            let rules = filter.map(|filter| self.authorizer.find(&filter));
            total += rules.as_ref().map_or(0, Vec::len);
            if total > CHANGES_MAX {
                return refuse_all(too_many("delete", CHANGES_MAX, "ACLs"), asked);
            }
            found.push(rules);
            tokio::task::yield_now().await;
        }
        let removed: Vec<Rule> = found.iter().flatten().flatten().cloned().collect();
        if let Err(refused) = self.store(&[], &removed).await {
            for result in found.iter_mut().filter(|result| result.is_ok()) {
                *result = Err(refused.clone());
            }
            return found;
        }
        self.authorizer.change([], &removed);
        found
    }

    async fn store(&self, added: &[Rule], removed: &[Rule]) -> Result<(), Refused> {
        if added.is_empty() && removed.is_empty() {
            return Ok(());
        }
        let rows = |rules: &[Rule]| rules.iter().map(row).collect();
        let stored = self.meta.change_acls(rows(added), rows(removed)).await;
        stored.map_err(|error| {
            tracing::warn!(%error, "ACLs could not be stored");
            Refused::from(code::of_storage(&error))
        })
    }
}

fn too_many(verb: &str, max: usize, what: &str) -> Refused {
    let message = format!("Unable to {verb} more than {max} {what} at once; send several requests");
    Refused::new(ErrorCode::PolicyViolation, message)
}

fn row(rule: &Rule) -> AclRow {
    let codes = rule.codes();
    AclRow {
        resource_type: codes.resource_type,
        resource_name: codes.resource_name,
        pattern_type: codes.pattern,
        principal: codes.principal,
        host: codes.host,
        operation: codes.operation,
        permission: codes.permission,
    }
}
