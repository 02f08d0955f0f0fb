use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn topic(number: u8) -> TopicId {
    TopicId(Uuid::from_u128(u128::from(number) + 1))
}

type Members = Vec<(Option<String>, BTreeSet<TopicId>, TopicPartitions)>;

fn run(
    assignor: Assignor,
    members: &Members,
    topics: &BTreeMap<TopicId, u32>,
) -> Vec<TopicPartitions> {
    let ids: Vec<String> = (0..members.len()).map(|n| format!("m{n:04}")).collect();
    let spec = Spec {
        members: members
            .iter()
            .zip(&ids)
            .map(|((instance_id, topics, current), id)| SpecMember {
                id,
                instance_id: instance_id.as_deref(),
                topics,
                current,
            })
            .collect(),
        topics: topics.clone(),
    };
    assignor.assign(&spec)
}

fn load(partitions: &TopicPartitions) -> usize {
    partitions.values().map(BTreeSet::len).sum()
}

fn fresh(count: usize, topics: &BTreeSet<TopicId>) -> Members {
    vec![(None, topics.clone(), TopicPartitions::new()); count]
}

/// Every partition that somebody subscribes to has exactly one member, and it subscribes to it.
fn assert_complete(
    assigned: &[TopicPartitions],
    members: &Members,
    topics: &BTreeMap<TopicId, u32>,
) {
    let mut seen = BTreeSet::new();
    for (partitions, (_, subscribed, _)) in assigned.iter().zip(members) {
        for (topic, numbers) in partitions {
            assert!(subscribed.contains(topic), "not subscribed");
            for number in numbers {
                assert!(*number < topics[topic], "no such partition");
                assert!(seen.insert((*topic, *number)), "assigned twice");
            }
        }
    }
    let subscribed: BTreeSet<TopicId> = members.iter().flat_map(|m| m.1.clone()).collect();
    let all: usize = subscribed.iter().map(|topic| topics[topic] as usize).sum();
    assert_eq!(seen.len(), all, "some partition has no member");
}

fn worlds() -> impl Strategy<Value = (BTreeMap<TopicId, u32>, Vec<BTreeSet<TopicId>>, bool)> {
    let topics = prop::collection::vec(0_u32..12, 1..6);
    (
        topics,
        prop::collection::vec(any::<u8>(), 1..8),
        any::<bool>(),
    )
        .prop_map(|(counts, masks, same)| {
            let topics: BTreeMap<TopicId, u32> = (0_u8..).map(topic).zip(counts).collect();
            let of = |mask: u8| {
                let chosen = topics
                    .keys()
                    .enumerate()
                    .filter(|(n, _)| mask & (1 << n) != 0);
                chosen.map(|(_, topic)| *topic).collect::<BTreeSet<_>>()
            };
            let first = of(masks[0]);
            let subscriptions = masks
                .iter()
                .map(|&m| if same { first.clone() } else { of(m) });
            (topics.clone(), subscriptions.collect(), same)
        })
}

proptest! {
    #[test]
    fn every_partition_has_one_subscriber((topics, subscriptions, same) in worlds()) {
        for assignor in [Assignor::Uniform, Assignor::Range] {
            let members: Members = subscriptions
                .iter()
                .map(|topics| (None, topics.clone(), TopicPartitions::new()))
                .collect();
            let assigned = run(assignor, &members, &topics);
            assert_complete(&assigned, &members, &topics);
            if same && assignor == Assignor::Uniform {
                let loads: Vec<usize> = assigned.iter().map(load).collect();
                let (min, max) = (loads.iter().min(), loads.iter().max());
                prop_assert!(max.expect("a member") - min.expect("a member") <= 1);
            }
        }
    }

    #[test]
    fn the_same_group_keeps_its_uniform_assignment((topics, subscriptions, _) in worlds()) {
        let with = |current: Vec<TopicPartitions>| -> Members {
            let both = subscriptions.iter().cloned().zip(current);
            both.map(|(topics, current)| (None, topics, current)).collect()
        };
        let none = vec![TopicPartitions::new(); subscriptions.len()];
        let first = run(Assignor::Uniform, &with(none), &topics);
        let second = run(Assignor::Uniform, &with(first.clone()), &topics);
        prop_assert_eq!(first, second);
    }

    #[test]
    fn a_member_that_leaves_moves_only_its_own(members in 2_usize..9, partitions in 0_u32..60) {
        let topics = BTreeMap::from([(topic(0), partitions)]);
        let subscribed: BTreeSet<TopicId> = topics.keys().copied().collect();
        let before = run(Assignor::Uniform, &fresh(members, &subscribed), &topics);
        let stayed = before[1..].iter().map(|p| (None, subscribed.clone(), p.clone()));
        let stayed: Members = stayed.collect();
        let after = run(Assignor::Uniform, &stayed, &topics);
        assert_complete(&after, &stayed, &topics);
        for (after, (_, _, before)) in after.iter().zip(&stayed) {
            for (topic, numbers) in before {
                prop_assert!(after.get(topic).is_some_and(|now| now.is_superset(numbers)));
            }
        }
    }
}

#[test]
fn different_subscriptions_are_levelled() {
    let topics = BTreeMap::from([(topic(0), 6), (topic(1), 6)]);
    let both: BTreeSet<TopicId> = topics.keys().copied().collect();
    let one = BTreeSet::from([topic(0)]);
    // The second member had nothing so far.
    let all = TopicPartitions::from([(topic(0), (0..6).collect()), (topic(1), (0..6).collect())]);
    let members: Members = vec![(None, both, all), (None, one, TopicPartitions::new())];
    let assigned = run(Assignor::Uniform, &members, &topics);
    assert_complete(&assigned, &members, &topics);
    assert_eq!((load(&assigned[0]), load(&assigned[1])), (6, 6));
}

#[test]
fn ranges_are_contiguous_and_co_partitioned() {
    let topics = BTreeMap::from([(topic(0), 5), (topic(1), 5)]);
    let subscribed: BTreeSet<TopicId> = topics.keys().copied().collect();
    let assigned = run(Assignor::Range, &fresh(2, &subscribed), &topics);
    for topic in topics.keys() {
        assert_eq!(assigned[0][topic], (0..3).collect());
        assert_eq!(assigned[1][topic], (3..5).collect());
    }
}

#[test]
fn static_members_have_ranges_by_their_names() {
    let topics = BTreeMap::from([(topic(0), 3)]);
    let subscribed: BTreeSet<TopicId> = topics.keys().copied().collect();
    let member = |name: Option<&str>| {
        (
            name.map(str::to_owned),
            subscribed.clone(),
            TopicPartitions::new(),
        )
    };
    let members = vec![member(None), member(Some("b")), member(Some("a"))];
    let assigned = run(Assignor::Range, &members, &topics);
    let first = |n: usize| assigned[n][&topic(0)].first().copied();
    assert_eq!([first(0), first(1), first(2)], [Some(2), Some(1), Some(0)]);
}

#[test]
fn names_are_kafkas() {
    for assignor in [Assignor::Uniform, Assignor::Range] {
        assert_eq!(Assignor::named(assignor.name()), Some(assignor));
    }
    assert_eq!(Assignor::named("sticky"), None);
}
