//! Random rules and questions, close enough to each other that most rules matter to some question.

use fastrand::Rng;
use millrace_security::acl::{
    CLUSTER_NAME, Operation, PatternType, Permission, ResourceType, Rule, RuleCodes,
};

const RULES_MAX: usize = 14;
const QUESTIONS: usize = 40;
/// One in so many asks about any resource of a type.
const ANY_EVERY: usize = 5;
const PRINCIPALS: [&str; 5] = [
    "User:alice",
    "User:bob",
    "User:root",
    "User:CN=service,O=Example",
    "Service:alice",
];
const EVERYBODY: &str = "User:*";
/// As Java writes addresses.
const HOSTS: [&str; 3] = ["10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1"];
/// Names that begin with each other, and some that do not.
const NAMES: [&str; 10] = [
    "o",
    "orders",
    "orders-",
    "orders-eu",
    "orders-eu-1",
    "orders.eu",
    "p",
    "pâtés",
    "Orders",
    "zebra",
];
const WILDCARD: &str = "*";
/// Who may do everything, where a set has super users.
pub(crate) const SUPER_USER: &str = "User:root";

/// Rules, settings, and what is asked.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) rules: Vec<Rule>,
    pub(crate) has_super_user: bool,
    pub(crate) allow_if_no_rule: bool,
    pub(crate) questions: Vec<Question>,
}

/// May this client do this to the resource of this name, or to any of the type?
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) principal: &'static str,
    pub(crate) host: &'static str,
    pub(crate) operation: Operation,
    pub(crate) resource_type: ResourceType,
    pub(crate) name: Option<&'static str>,
}

impl Set {
    pub(crate) fn random(random: &mut Rng) -> Self {
        // Few types, so that the rules meet.
        let kinds: Vec<ResourceType> = (0..2)
            .map(|_| one_of(random, ResourceType::ALL_KINDS))
            .collect();
        let mut rules: Vec<Rule> = (0..random.usize(..=RULES_MAX))
            .map(|_| rule(random, &kinds))
            .collect();
        rules.sort();
        rules.dedup();
        let questions = (0..QUESTIONS).map(|_| question(random, &kinds)).collect();
        // `allow.everyone.if.no.acl.found` gives Kafka's clients the tokens of others, and not ours.
        let gives_tokens = [ResourceType::User, ResourceType::DelegationToken]
            .iter()
            .any(|kind| kinds.contains(kind));
        Self {
            rules,
            has_super_user: random.bool(),
            allow_if_no_rule: random.bool() && !gives_tokens,
            questions,
        }
    }
}

fn rule(random: &mut Rng, kinds: &[ResourceType]) -> Rule {
    let resource_type = one_of(random, kinds);
    let pattern = one_of(random, PatternType::ALL_KINDS);
    let any = random.u8(..4) == 0;
    let name = match resource_type {
        ResourceType::Cluster => CLUSTER_NAME,
        _ if any => WILDCARD,
        _ => one_of(random, &NAMES),
    };
    let operation = if random.u8(..6) == 0 {
        Operation::All
    } else {
        one_of(random, resource_type.operations())
    };
    let principal = if random.u8(..4) == 0 {
        EVERYBODY
    } else {
        one_of(random, &PRINCIPALS)
    };
    let host = if random.bool() {
        WILDCARD
    } else {
        one_of(random, &HOSTS)
    };
    // Denials win; with as many of them hardly anything would be allowed.
    let permission = if random.u8(..4) == 0 {
        Permission::Deny
    } else {
        Permission::Allow
    };
    let codes = RuleCodes {
        resource_type: resource_type.code(),
        resource_name: name.to_owned(),
        pattern: pattern.code(),
        principal: principal.to_owned(),
        host: host.to_owned(),
        operation: operation.code(),
        permission: permission.code(),
    };
    codes.check().expect("the parts are legal")
}

fn question(random: &mut Rng, kinds: &[ResourceType]) -> Question {
    let resource_type = one_of(random, kinds);
    let name = match resource_type {
        _ if random.usize(..ANY_EVERY) == 0 => None,
        ResourceType::Cluster => Some(CLUSTER_NAME),
        _ => Some(one_of(random, &NAMES)),
    };
    Question {
        principal: one_of(random, &PRINCIPALS),
        host: one_of(random, &HOSTS),
        operation: one_of(random, resource_type.operations()),
        resource_type,
        name,
    }
}

fn one_of<T: Copy>(random: &mut Rng, things: &[T]) -> T {
    things[random.usize(..things.len())]
}
