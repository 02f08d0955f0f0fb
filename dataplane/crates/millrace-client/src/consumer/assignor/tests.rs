use proptest::prelude::*;

use super::*;

fn topics(counts: &[(&str, i32)]) -> BTreeMap<Arc<str>, i32> {
    let topic = |(name, count): &(&str, i32)| ((*name).into(), *count);
    counts.iter().map(topic).collect()
}

fn member(id: &str, topics: &[&str]) -> Member {
    Member {
        id: id.to_owned(),
        topics: topics.iter().map(|topic| (*topic).into()).collect(),
        ..Member::default()
    }
}

fn owning(mut member: Member, owned: &[(&str, i32)]) -> Member {
    member.owned = owned.iter().map(|&name| name.into()).collect();
    member.generation = Some(1);
    member
}

fn names(names: &[(&str, i32)]) -> Vec<TopicPartition> {
    names.iter().map(|&name| name.into()).collect()
}

/// The assignment in the order of the members' ids, each sorted.
fn sorted(assignment: Assignment) -> Vec<(String, Vec<TopicPartition>)> {
    let mut all: Vec<_> = assignment.into_iter().collect();
    all.iter_mut().for_each(|(_, names)| names.sort());
    all.sort();
    all
}

fn check(assignment: Assignment, expected: &[(&str, &[(&str, i32)])]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(id, owned)| ((*id).to_owned(), names(owned)))
        .collect();
    assert_eq!(sorted(assignment), expected);
}

// The examples of RangeAssignor's documentation in Kafka, and of its tests.
#[test]
fn range_cuts_each_topic_by_itself() {
    let both = ["t0", "t1"];
    let members = [member("C0", &both), member("C1", &both)];
    check(
        Assignor::Range.assign(&topics(&[("t0", 3), ("t1", 3)]), &members),
        &[
            ("C0", &[("t0", 0), ("t0", 1), ("t1", 0), ("t1", 1)]),
            ("C1", &[("t0", 2), ("t1", 2)]),
        ],
    );
    let members = [
        member("a", &["t0"]),
        member("b", &both),
        member("c", &["t0"]),
    ];
    check(
        Assignor::Range.assign(&topics(&[("t0", 3), ("t1", 2)]), &members),
        &[
            ("a", &[("t0", 0)]),
            ("b", &[("t0", 1), ("t1", 0), ("t1", 1)]),
            ("c", &[("t0", 2)]),
        ],
    );
}

#[test]
fn range_puts_static_members_first_by_their_instance() {
    let mut members = [
        member("z", &["t"]),
        member("a", &["t"]),
        member("m", &["t"]),
    ];
    members[0].instance_id = Some("1".to_owned());
    members[2].instance_id = Some("0".to_owned());
    check(
        Assignor::Range.assign(&topics(&[("t", 4)]), &members),
        &[
            ("a", &[("t", 3)]),
            ("m", &[("t", 0), ("t", 1)]),
            ("z", &[("t", 2)]),
        ],
    );
}

// The examples of StickyAssignor's documentation in Kafka.
#[test]
fn sticky_deals_out_in_turns_and_keeps_what_members_have() {
    let all = topics(&[("t0", 2), ("t1", 2), ("t2", 2), ("t3", 2)]);
    let read = ["t0", "t1", "t2", "t3"];
    let members = [
        member("C0", &read),
        member("C1", &read),
        member("C2", &read),
    ];
    let first = Assignor::Sticky.assign(&all, &members);
    check(
        first.clone(),
        &[
            ("C0", &[("t0", 0), ("t1", 1), ("t3", 0)]),
            ("C1", &[("t0", 1), ("t2", 0), ("t3", 1)]),
            ("C2", &[("t1", 0), ("t2", 1)]),
        ],
    );
    // C1 leaves: the others keep theirs.
    let left = ["C0", "C2"].map(|id| {
        let mut member = member(id, &read);
        member.owned = first[id].clone();
        member.generation = Some(1);
        member
    });
    check(
        Assignor::Sticky.assign(&all, &left),
        &[
            ("C0", &[("t0", 0), ("t0", 1), ("t1", 1), ("t3", 0)]),
            ("C2", &[("t1", 0), ("t2", 0), ("t2", 1), ("t3", 1)]),
        ],
    );
}

#[test]
fn sticky_balances_members_with_different_topics() {
    let all = topics(&[("t0", 1), ("t1", 2), ("t2", 3)]);
    let members = [
        member("C0", &["t0"]),
        member("C1", &["t0", "t1"]),
        member("C2", &["t0", "t1", "t2"]),
    ];
    check(
        Assignor::Sticky.assign(&all, &members),
        &[
            ("C0", &[("t0", 0)]),
            ("C1", &[("t1", 0), ("t1", 1)]),
            ("C2", &[("t2", 0), ("t2", 1), ("t2", 2)]),
        ],
    );
}

#[test]
fn sticky_ignores_claims_of_older_generations_and_those_that_two_make() {
    let all = topics(&[("t", 3)]);
    let mut old = owning(member("a", &["t"]), &[("t", 0), ("t", 1), ("t", 2)]);
    old.generation = Some(0);
    let current = owning(member("b", &["t"]), &[("t", 2), ("t", 1)]);
    let assignment = Assignor::Sticky.assign(&all, &[old, current]);
    assert_eq!(assignment["b"], names(&[("t", 2), ("t", 1)]));
    let twice = [
        owning(member("a", &["t"]), &[("t", 0), ("t", 1)]),
        owning(member("b", &["t"]), &[("t", 1), ("t", 2)]),
    ];
    let assignment = Assignor::Sticky.assign(&all, &twice);
    assert!(assignment["a"].contains(&("t", 0).into()));
    assert!(assignment["b"].contains(&("t", 2).into()));
}

#[test]
fn cooperative_members_get_a_partition_only_after_its_owner_gave_it_up() {
    let all = topics(&[("t", 4)]);
    let owner = owning(
        member("a", &["t"]),
        &[("t", 0), ("t", 1), ("t", 2), ("t", 3)],
    );
    let joined = member("b", &["t"]);
    let first = Assignor::CooperativeSticky.assign(&all, &[owner, joined.clone()]);
    check(first, &[("a", &[("t", 0), ("t", 1)]), ("b", &[])]);
    let owner = owning(member("a", &["t"]), &[("t", 0), ("t", 1)]);
    let second = Assignor::CooperativeSticky.assign(&all, &[owner, joined]);
    check(
        second,
        &[("a", &[("t", 0), ("t", 1)]), ("b", &[("t", 2), ("t", 3)])],
    );
}

fn assignor() -> impl Strategy<Value = Assignor> {
    prop::sample::select(&[Assignor::Range, Assignor::Sticky][..])
}

proptest! {
    /// Every partition that somebody reads has one owner; with equal topics the sticky assignor is
    /// even to one partition, and assigning again changes nothing.
    #[test]
    fn every_partition_has_one_owner_and_a_second_round_moves_nothing(
        assignor in assignor(),
        counts in prop::collection::vec(0_i32..9, 1..4),
        reads in prop::collection::vec(prop::collection::vec(any::<bool>(), 4), 1..6),
        equal: bool,
        claims in prop::collection::vec((0_usize..6, 0_usize..4, 0_i32..9), 0..12),
    ) {
        let topic_names: Vec<Arc<str>> = (0..counts.len()).map(|n| format!("t{n}").into()).collect();
        let all: BTreeMap<_, _> = topic_names.iter().cloned().zip(counts.iter().copied()).collect();
        let mut members: Vec<Member> = reads.iter().enumerate().map(|(nth, reads)| {
            let topics = topic_names.iter().zip(reads).filter(|(_, reads)| equal || **reads);
            Member {
                id: format!("m{nth}"),
                topics: topics.map(|(topic, _)| topic.clone()).collect(),
                generation: Some(1),
                ..Member::default()
            }
        }).collect();
        for (member, topic, index) in claims {
            if let (Some(member), Some(topic)) = (members.get_mut(member), topic_names.get(topic)) {
                member.owned.push(TopicPartition::of(topic.clone(), index));
                member.owned.sort();
                member.owned.dedup();
            }
        }
        let assignment = assignor.assign(&all, &members);
        let mut owners: HashMap<TopicPartition, usize> = HashMap::new();
        for member in &members {
            for name in &assignment[&member.id] {
                prop_assert!(member.topics.contains(&name.topic));
                *owners.entry(name.clone()).or_default() += 1;
            }
        }
        for (topic, count) in &all {
            let read = members.iter().any(|member| member.topics.contains(topic));
            for index in 0..*count {
                let owners = owners.get(&TopicPartition::of(topic.clone(), index));
                prop_assert_eq!(owners.copied().unwrap_or(0), usize::from(read));
            }
        }
        if assignor == Assignor::Sticky && equal {
            let sizes = assignment.values().map(Vec::len);
            let (min, max) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
            prop_assert!(max - min <= 1);
        }
        for member in &mut members {
            member.owned = assignment[&member.id].clone();
        }
        let again = assignor.assign(&all, &members);
        prop_assert_eq!(sorted(again), sorted(assignment));
    }
}
