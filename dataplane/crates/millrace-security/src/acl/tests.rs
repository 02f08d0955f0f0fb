//! Decisions compared with those of a model that reads every rule, and what Kafka's semantics say.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    time::{Duration, Instant},
};

use proptest::prelude::*;

use super::{
    index::{Asked, Index},
    *,
};
use crate::principal::Principal;

/// A rule as a text: `allow User:alice read topic orders* from host`; a `*` behind a name is a prefix.
fn rule(
    permission: Permission,
    principal: &str,
    operation: Operation,
    (resource_type, name): (ResourceType, &str),
    host: &str,
) -> Rule {
    let (pattern, name) = match name.strip_suffix('*') {
        Some(prefix) if !prefix.is_empty() => (PatternType::Prefixed, prefix),
        _ => (PatternType::Literal, name),
    };
    RuleCodes {
        resource_type: resource_type.code(),
        resource_name: name.to_owned(),
        pattern: pattern.code(),
        principal: principal.to_owned(),
        host: host.to_owned(),
        operation: operation.code(),
        permission: permission.code(),
    }
    .check()
    .expect("a legal rule")
}

fn allow(principal: &str, operation: Operation, topic: &str) -> Rule {
    let resource = (ResourceType::Topic, topic);
    rule(Permission::Allow, principal, operation, resource, "*")
}

fn deny(principal: &str, operation: Operation, topic: &str) -> Rule {
    let resource = (ResourceType::Topic, topic);
    rule(Permission::Deny, principal, operation, resource, "*")
}

const ALICE: Client<'static> = Client {
    principal: "User:alice",
    host: "10.0.0.1",
};
const BOB: Client<'static> = Client {
    principal: "User:bob",
    host: "10.0.0.2",
};

fn authorizer(rules: impl IntoIterator<Item = Rule>) -> Authorizer {
    Authorizer::new(AuthorizerConfig::default(), rules)
}

fn may(authorizer: &Authorizer, client: Client<'_>, operation: Operation, topic: &str) -> bool {
    authorizer.allows(client, operation, ResourceType::Topic, topic)
}

#[test]
fn allowing_implies_describing_and_denying_implies_nothing() {
    for operation in ResourceType::Topic.operations() {
        let implies = |what: &[Operation]| what.contains(operation);
        let allowed = authorizer([allow("User:alice", *operation, "t")]);
        let describes = implies(&[
            Operation::Read,
            Operation::Write,
            Operation::Delete,
            Operation::Alter,
            Operation::Describe,
        ]);
        assert_eq!(may(&allowed, ALICE, Operation::Describe, "t"), describes);
        let configs = implies(&[Operation::AlterConfigs, Operation::DescribeConfigs]);
        let has_configs = may(&allowed, ALICE, Operation::DescribeConfigs, "t");
        assert_eq!(has_configs, configs, "{operation:?}");
        assert!(may(&allowed, ALICE, *operation, "t"));
        assert!(!may(&allowed, BOB, *operation, "t"));

        let denied = authorizer([
            allow("User:alice", Operation::All, "t"),
            deny("User:alice", *operation, "t"),
        ]);
        for other in ResourceType::Topic.operations() {
            let allowed = may(&denied, ALICE, *other, "t");
            assert_eq!(allowed, other != operation, "{operation:?} {other:?}");
        }
    }
}

#[test]
fn deny_wins_whatever_pattern_it_stands_on() {
    for denying in ["t-1", "t-*", "t*", "*"] {
        for allowing in ["t-1", "t-*", "*"] {
            let both = authorizer([
                allow("User:alice", Operation::Read, allowing),
                deny("User:*", Operation::Read, denying),
            ]);
            assert!(!may(&both, ALICE, Operation::Read, "t-1"), "{denying}");
        }
    }
}

#[test]
fn prefixes_and_wildcards_name_what_they_say() {
    let rules = ["a", "ab*", "abcd*", "b*"];
    let some = authorizer(rules.map(|name| allow("User:alice", Operation::Read, name)));
    for (name, expected) in [
        ("a", true),
        ("aa", false),
        ("ab", true),
        ("abc", true),
        ("abcd", true),
        ("abce", true),
        ("ac", false),
        ("bz", true),
        ("A", false),
        ("", false),
    ] {
        assert_eq!(may(&some, ALICE, Operation::Read, name), expected, "{name}");
    }
    let all = authorizer([allow("User:alice", Operation::Read, "*")]);
    assert!(may(&all, ALICE, Operation::Read, "anything"));
    assert!(!all.allows(ALICE, Operation::Read, ResourceType::Group, "anything"));
}

#[test]
fn hosts_are_compared_as_addresses() {
    let topic = (ResourceType::Topic, "t");
    let from = |host| {
        authorizer([rule(
            Permission::Allow,
            "User:alice",
            Operation::Read,
            topic,
            host,
        )])
    };
    assert!(may(&from("10.0.0.1"), ALICE, Operation::Read, "t"));
    assert!(!may(&from("10.0.0.2"), ALICE, Operation::Read, "t"));
    let v6 = Client {
        principal: "User:alice",
        host: "::1",
    };
    assert!(may(&from("0:0:0:0:0:0:0:1"), v6, Operation::Read, "t"));
    assert!(may(&from("::ffff:10.0.0.1"), ALICE, Operation::Read, "t"));
}

#[test]
fn super_users_and_resources_without_rules() {
    let root: Principal = "User:root".parse().expect("legal");
    let config = |allow_if_no_rule| AuthorizerConfig {
        super_users: [root.clone()].into(),
        allow_if_no_rule,
    };
    let rules = || {
        [
            deny("User:*", Operation::All, "t"),
            allow("User:x", Operation::Read, "u*"),
        ]
    };
    let client = Client {
        principal: "User:root",
        host: "h",
    };
    let strict = Authorizer::new(config(false), rules());
    assert!(may(&strict, client, Operation::Write, "t"));
    assert!(!may(&strict, ALICE, Operation::Write, "other"));
    let open = Authorizer::new(config(true), rules());
    assert!(may(&open, ALICE, Operation::Write, "other"));
    assert!(!may(&open, ALICE, Operation::Write, "t"));
    assert!(
        !may(&open, ALICE, Operation::Write, "u1"),
        "a rule speaks of it"
    );
    assert!(open.allows_any(ALICE, Operation::Write, ResourceType::Topic));
    assert!(!strict.allows_any(ALICE, Operation::Write, ResourceType::Topic));
}

/// Otherwise everybody could create or read the tokens of a super user, and become one.
#[test]
fn users_and_tokens_without_rules_are_not_everybodys() {
    let config = AuthorizerConfig {
        allow_if_no_rule: true,
        ..AuthorizerConfig::default()
    };
    let user = (ResourceType::User, "User:bob");
    let granted = rule(
        Permission::Allow,
        "User:alice",
        Operation::CreateTokens,
        user,
        "*",
    );
    let open = Authorizer::new(config, [granted]);
    let may = |client, operation, resource_type, name| {
        open.allows(client, operation, resource_type, name)
    };
    for (operation, kind, name) in [
        (Operation::CreateTokens, ResourceType::User, "User:root"),
        (Operation::DescribeTokens, ResourceType::User, "User:root"),
        (Operation::Describe, ResourceType::DelegationToken, "id"),
    ] {
        assert!(!may(ALICE, operation, kind, name), "{operation:?}");
    }
    assert!(may(ALICE, Operation::CreateTokens, user.0, user.1));
    assert!(may(ALICE, Operation::Write, ResourceType::Topic, "t"));
}

#[test]
fn some_topic_that_may_be_written_is_enough_for_an_idempotent_producer() {
    let any = |rules: Vec<Rule>| {
        authorizer(rules).allows_any(ALICE, Operation::Write, ResourceType::Topic)
    };
    let write = |name| allow("User:alice", Operation::Write, name);
    let never = |name| deny("User:alice", Operation::Write, name);
    assert!(any(vec![write("t")]));
    assert!(any(vec![write("t"), never("u")]));
    assert!(any(vec![write("t*"), never("t")]), "other names are left");
    assert!(!any(vec![write("t"), never("t")]));
    assert!(!any(vec![write("tuv"), never("t*")]));
    assert!(!any(vec![write("tuv*"), never("tu*")]));
    assert!(!any(vec![write("t"), write("*"), never("*")]));
    assert!(any(vec![write("*"), never("t*")]));
    assert!(!any(vec![allow("User:bob", Operation::Write, "t")]));
    assert!(any(vec![allow("User:*", Operation::All, "t")]));
}

#[test]
fn filters_find_what_they_name() {
    let rules = [
        allow("User:alice", Operation::Read, "orders"),
        allow("User:alice", Operation::Read, "ord*"),
        deny("User:bob", Operation::Write, "*"),
    ];
    let some = authorizer(rules.clone());
    let filter = |name: Option<&str>, pattern: i8, principal: Option<&str>| {
        let filter = RuleCodes {
            resource_type: 1,
            resource_name: name.map(str::to_owned),
            pattern,
            principal: principal.map(str::to_owned),
            host: None,
            operation: 1,
            permission: 1,
        };
        some.find(&filter.check_filter().expect("legal"))
    };
    assert_eq!(filter(None, 1, None).len(), 3);
    assert_eq!(filter(Some("orders"), 1, None), [rules[0].clone()]);
    assert_eq!(filter(Some("orders"), 2, None).len(), 3);
    assert_eq!(filter(Some("other"), 2, None), [rules[2].clone()]);
    assert_eq!(filter(Some("ord"), 4, None), [rules[1].clone()]);
    assert_eq!(filter(Some("ord"), 3, None), []);
    assert_eq!(filter(None, 1, Some("User:bob")), [rules[2].clone()]);
    let unknown = RuleCodes {
        resource_type: 0,
        resource_name: None,
        pattern: 1,
        principal: None,
        host: None,
        operation: 1,
        permission: 1,
    };
    assert!(unknown.check_filter().is_err());
}

#[test]
fn illegal_rules_are_refused() {
    let legal = allow("User:alice", Operation::Read, "t").codes();
    let refused = |change: &dyn Fn(&mut RuleCodes<String>)| {
        let mut codes = legal.clone();
        change(&mut codes);
        codes.check().expect_err("illegal")
    };
    assert_eq!(legal.clone().check().expect("legal").codes(), legal);
    for code in [-1, 0, 1, 8, 99] {
        refused(&|codes| codes.resource_type = code);
    }
    for code in [0, 1, 2, 5] {
        refused(&|codes| codes.pattern = code);
    }
    for code in [0, 1, 4] {
        refused(&|codes| codes.permission = code);
    }
    refused(&|codes| codes.operation = 16);
    refused(&|codes| codes.operation = 1);
    refused(&|codes| codes.resource_name = String::new());
    refused(&|codes| codes.resource_name = "x".repeat(RESOURCE_NAME_BYTES_MAX + 1));
    refused(&|codes| codes.host = String::new());
    refused(&|codes| codes.host = "x".repeat(HOST_BYTES_MAX + 1));
    refused(&|codes| codes.principal = "alice".to_owned());
    let cluster = refused(&|codes| {
        codes.resource_type = 4;
        codes.operation = 8;
    });
    assert_eq!(cluster, InvalidRule::ResourceName);
}

#[test]
fn rules_are_replaced_as_a_whole() {
    let (read, write) = (Operation::Read, Operation::Write);
    let kept = allow("User:alice", read, "kept");
    let some = authorizer([kept.clone(), allow("User:alice", read, "gone")]);
    some.replace([
        kept,
        deny("User:alice", write, "kept"),
        allow("User:alice", write, "new"),
    ]);
    assert_eq!(some.len(), 3);
    assert!(may(&some, ALICE, read, "kept"));
    assert!(!may(&some, ALICE, read, "gone"));
    assert!(!may(&some, ALICE, write, "kept"));
    assert!(may(&some, ALICE, write, "new"));
    some.replace([]);
    assert!(some.is_empty());
    assert!(!may(&some, ALICE, read, "kept"));
}

#[test]
fn the_number_of_rules_has_a_bound() {
    let names = 0..RULES_MAX;
    let full = authorizer(names.map(|n| allow("User:a", Operation::Read, &format!("t{n}"))));
    assert_eq!(full.len(), RULES_MAX);
    let known = allow("User:a", Operation::Read, "t0");
    assert_eq!(
        full.has_room(std::slice::from_ref(&known)),
        Ok(()),
        "it is there already"
    );
    let new = allow("User:a", Operation::Read, "one more");
    assert_eq!(full.has_room(std::slice::from_ref(&new)), Err(TooManyRules));
    full.change([], &[known]);
    assert_eq!(full.has_room(&[new]), Ok(()));
}

/// Each removed rule had all others of its principal on its pattern counted anew, which took 17 ms for 10,000 of
/// them: minutes for one DeleteAcls that removed them all.
#[test]
fn many_rules_of_one_principal_are_removed_at_once() {
    let address = |n: usize| format!("10.0.{}.{}", n / 256, n % 256);
    let from = |n| {
        let topic = (ResourceType::Topic, "t");
        rule(
            Permission::Allow,
            "User:alice",
            Operation::Read,
            topic,
            &address(n),
        )
    };
    let rules: Vec<Rule> = (0..10_000).map(from).collect();
    let full = authorizer(rules.clone());
    let reads = |n| {
        let host = &*address(n);
        let client = Client { host, ..ALICE };
        may(&full, client, Operation::Read, "t")
    };
    assert!(reads(0) && reads(9_999));
    let before = index::RECOUNTS.get();
    full.change([], &rules[1..]);
    assert_eq!(index::RECOUNTS.get() - before, 1);
    assert!(reads(0) && !reads(1) && !reads(9_999));
    assert_eq!(full.len(), 1);
}

/// The same decisions, rule by rule.
fn model(rules: &[Rule], asked: (&str, &str, Operation, ResourceType, &str), open: bool) -> bool {
    let (principal, host, operation, resource_type, name) = asked;
    let named: Vec<&Rule> = rules
        .iter()
        .filter(|rule| rule.resource_type == resource_type)
        .filter(|rule| match rule.pattern {
            PatternType::Literal => [name, "*"].contains(&&*rule.resource_name),
            PatternType::Prefixed => name.starts_with(&*rule.resource_name),
        })
        .collect();
    let address = |host: &str| host.parse::<IpAddr>().expect("an address");
    let fits = |rule: &&&Rule| {
        [principal, "User:*"].contains(&rule.principal.as_str())
            && (&*rule.host == "*" || address(&rule.host) == address(host))
    };
    let implied: &[Operation] = match operation {
        Operation::Describe => &[
            Operation::Read,
            Operation::Write,
            Operation::Delete,
            Operation::Alter,
        ],
        Operation::DescribeConfigs => &[Operation::AlterConfigs],
        _ => &[],
    };
    let is_it = |rule: &Rule| [operation, Operation::All].contains(&rule.operation);
    let fitting: Vec<&&Rule> = named.iter().filter(fits).collect();
    let denies = |rule: &&&&Rule| rule.permission == Permission::Deny && is_it(rule);
    if fitting.iter().any(|rule| denies(&rule)) {
        return false;
    }
    let allows = fitting.iter().any(|rule| {
        rule.permission == Permission::Allow && (is_it(rule) || implied.contains(&rule.operation))
    });
    allows || (named.is_empty() && open)
}

const PRINCIPALS: [&str; 4] = ["User:a", "User:b", "User:*", "Group:a"];
/// Two of them are one address.
const HOSTS: [&str; 5] = ["10.0.0.1", "10.0.0.2", "*", "::1", "0:0:0:0:0:0:0:1"];
const TYPES: [ResourceType; 3] = [
    ResourceType::Topic,
    ResourceType::Group,
    ResourceType::TransactionalId,
];

fn any_rule() -> impl Strategy<Value = Rule> {
    let kinds = (
        0..TYPES.len(),
        any::<prop::sample::Index>(),
        any::<bool>(),
        any::<bool>(),
    );
    let names = ("([ab]{1,4}|\\*)", 0..PRINCIPALS.len(), 0..HOSTS.len());
    (kinds, names).prop_map(
        |((kind, operation, prefixed, denies), (name, principal, host))| {
            let resource_type = TYPES[kind];
            let mut operations = resource_type.operations().to_vec();
            operations.push(Operation::All);
            Rule {
                resource_type,
                resource_name: name.into(),
                pattern: [PatternType::Literal, PatternType::Prefixed][usize::from(prefixed)],
                principal: PRINCIPALS[principal].parse().expect("legal"),
                host: HOSTS[host].into(),
                operation: operations[operation.index(operations.len())],
                permission: [Permission::Allow, Permission::Deny][usize::from(denies)],
            }
        },
    )
}

/// The rules that a change adds, and which of those that are there by then it removes; all of them now and then.
type Step = (Vec<Rule>, Vec<prop::sample::Index>, bool);

fn any_step() -> impl Strategy<Value = Step> {
    (
        prop::collection::vec(any_rule(), 0..12),
        prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        prop::bool::weighted(0.1),
    )
}

/// What an index says to every question about these names.
fn answers(index: &Index, names: &[String]) -> Vec<(bool, bool, bool, bool)> {
    let mut answers = Vec::new();
    for (resource_type, operation, Client { principal, host }) in questions() {
        let any = index.any_allowed(resource_type, (principal, host), operation);
        for name in names {
            let asked = Asked {
                principal,
                host,
                operation,
                name,
            };
            let found = index.look_up(resource_type, &asked);
            answers.push((any, found.any_rule, found.allowed, found.denied));
        }
    }
    answers
}

fn questions() -> impl Iterator<Item = (ResourceType, Operation, Client<'static>)> {
    TYPES.into_iter().flat_map(|resource_type| {
        resource_type
            .operations()
            .iter()
            .flat_map(move |operation| {
                ["User:a", "User:b", "User:c", "Group:a"]
                    .into_iter()
                    .flat_map(move |principal| {
                        ["10.0.0.1", "10.0.0.3", "::1"]
                            .map(|host| (resource_type, *operation, Client { principal, host }))
                    })
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    /// Rules come and go in many steps. After each, the index answers as one that is built of the rules that are
    /// left; those before keep their answers. In the end, each decision is that of the model.
    #[test]
    fn decisions_are_those_of_the_model(
        steps in prop::collection::vec(any_step(), 1..6),
        names in prop::collection::vec("([ab]{0,5}|\\*)", 1..4),
        open in any::<bool>(),
    ) {
        let config = AuthorizerConfig { allow_if_no_rule: open, ..AuthorizerConfig::default() };
        let authorizer = Authorizer::new(config.clone(), []);
        let mut left: BTreeSet<Rule> = BTreeSet::new();
        let mut before = Vec::new();
        for (added, removed, removes_all) in steps {
            left.extend(added.iter().cloned());
            let there: Vec<Rule> = left.iter().cloned().collect();
            let gone: Vec<Rule> = match (removes_all, there.is_empty()) {
                (true, _) => there,
                (false, true) => Vec::new(),
                (false, false) => removed.iter().map(|at| at.get(&there).clone()).collect(),
            };
            authorizer.change(added, &gone);
            left.retain(|rule| !gone.contains(rule));
            let anew = Authorizer::new(config.clone(), left.clone());
            let now = answers(&authorizer.index(), &names);
            prop_assert_eq!(&now, &answers(&anew.index(), &names));
            before.push((authorizer.index(), now));
        }
        for (index, then) in before {
            prop_assert_eq!(answers(&index, &names), then);
        }
        let left: Vec<Rule> = left.into_iter().collect();
        for (resource_type, operation, client) in questions() {
            for name in &names {
                let asked = (client.principal, client.host, operation, resource_type, &**name);
                let decided = authorizer.allows(client, operation, resource_type, name);
                prop_assert_eq!(decided, model(&left, asked, open), "{:?}", asked);
            }
        }
    }
}

/// The least of several runs, so that a busy machine does not fail it. Not optimised, and with room.
#[test]
#[expect(clippy::disallowed_methods, reason = "measures real time")]
fn ten_thousand_rules_do_not_slow_a_decision_down() {
    let mut rules = Vec::new();
    for n in 0..2_500 {
        rules.push(allow(
            &format!("User:{n}"),
            Operation::Read,
            &format!("topic-{n}"),
        ));
        rules.push(allow(
            &format!("User:{n}"),
            Operation::Read,
            &format!("team-{n}-*"),
        ));
        rules.push(allow(&format!("User:{n}"), Operation::Describe, "*"));
        rules.push(deny(
            "User:*",
            Operation::Delete,
            &format!("{}*", "x".repeat(1 + n % 200)),
        ));
    }
    let (many, few) = (authorizer(rules), authorizer([]));
    let client = Client {
        principal: "User:77",
        host: "10.0.0.1",
    };
    let time = |authorizer: &Authorizer| {
        let run = || {
            let began = Instant::now();
            for n in 0..1_000 {
                let name = [
                    "topic-77",
                    "team-77-orders",
                    "elsewhere",
                    "xxxxxxxxxxxxxxxxy",
                ][n % 4];
                std::hint::black_box(may(authorizer, client, Operation::Read, name));
            }
            began.elapsed() / 1_000
        };
        (0..20).map(|_| run()).min().unwrap_or(Duration::MAX)
    };
    assert!(may(&many, client, Operation::Read, "team-77-orders"));
    let (with, without) = (time(&many), time(&few));
    println!("one decision: {with:?} with 10,000 rules, {without:?} with none");
    assert!(
        with < Duration::from_micros(if cfg!(debug_assertions) { 20 } else { 1 }),
        "{with:?}"
    );
}
