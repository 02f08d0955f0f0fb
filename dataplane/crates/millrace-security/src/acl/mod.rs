//! Access control lists with the semantics of Kafka's `StandardAuthorizer` (KIP-11, KIP-290, KIP-801).
//!
//! A [`Rule`] allows or denies one operation on the resources that a pattern names, to one principal
//! from one host. A request is denied if any rule that fits denies it, else allowed if one that fits
//! allows it, else denied, unless no rule at all speaks of the resource and
//! `allow.everyone.if.no.acl.found` is set. Super users may do everything.
//!
//! | part | what it is |
//! |---|---|
//! | `kinds` | types of resources, patterns, operations, with Kafka's codes |
//! | `rule` | one rule, its checks and bounds, and filters over rules |
//! | `index` | all rules, arranged so that a decision takes a few lookups |
//! | `own` | what the broker's own principals may do, whatever the rules are |
//! | `authorizer` | decisions, and the exchange of the index while decisions go on |

mod authorizer;
mod index;
mod kinds;
mod own;
mod rule;
#[cfg(test)]
mod tests;

pub use authorizer::{Authorizer, AuthorizerConfig, Client, TooManyRules};
pub use kinds::{Operation, PatternType, Permission, ResourceType};
pub use rule::{CLUSTER_NAME, Filter, InvalidFilter, InvalidRule, PatternFilter, Rule, RuleCodes};

/// The most rules of one cluster. At 200 bytes each their index takes some ten mebibytes; a cluster that
/// needs more should use prefixed patterns.
pub const RULES_MAX: usize = 50_000;

/// The longest resource name of a rule, in bytes: group and transactional ids have no bound of their
/// own below a frame's, topic names have 249.
pub const RESOURCE_NAME_BYTES_MAX: usize = 1_024;

/// The longest host of a rule, in bytes: an IPv6 address with a zone has 60.
pub const HOST_BYTES_MAX: usize = 64;
