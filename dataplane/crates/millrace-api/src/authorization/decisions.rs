//! Counts decisions. Labels are operations and types of resources, never names of clients or resources.

use std::{fmt::Debug, sync::OnceLock};

use metrics::Counter;
use millrace_security::acl::{Operation, ResourceType};

use crate::metrics::screaming;

/// A counter for each operation, type and result, registered when it first counts.
pub(super) struct Decisions(Vec<OnceLock<Counter>>);

const OPERATIONS: usize = Operation::ALL_KINDS.len();
const TYPES: usize = ResourceType::ALL_KINDS.len();
/// Kafka's codes of both begin here.
const FIRST_CODE: usize = 2;

impl Decisions {
    pub(super) fn new() -> Self {
        let counters = (0..OPERATIONS * TYPES * 2).map(|_| OnceLock::new());
        Self(counters.collect())
    }

    pub(super) fn count(&self, operation: Operation, kind: ResourceType, allowed: bool) {
        let place = |code: i8| usize::from(code.unsigned_abs()) - FIRST_CODE;
        let pair = place(operation.code()) * TYPES + place(kind.code());
        let Some(counter) = self.0.get(pair * 2 + usize::from(allowed)) else {
            return;
        };
        let registered = counter.get_or_init(|| {
            metrics::counter!(
                "millrace_authorizations_total",
                "operation" => name(operation),
                "resource_type" => name(kind),
                "result" => if allowed { "allowed" } else { "denied" }
            )
        });
        registered.increment(1);
    }
}

impl Debug for Decisions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decisions")
    }
}

/// An operation or type as Kafka writes it: `TRANSACTIONAL_ID`.
pub(super) fn name(kind: impl Debug) -> String {
    screaming(&format!("{kind:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_has_a_counter_of_its_own() {
        let decisions = Decisions::new();
        for operation in Operation::ALL_KINDS {
            for kind in ResourceType::ALL_KINDS {
                decisions.count(*operation, *kind, false);
                decisions.count(*operation, *kind, true);
            }
        }
        assert!(decisions.0.iter().all(|counter| counter.get().is_some()));
    }
}
