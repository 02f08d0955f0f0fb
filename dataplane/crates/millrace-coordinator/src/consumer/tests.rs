use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{
    messages::{
        ConsumerHeartbeat, ConsumerHeartbeatAnswer, JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH,
    },
    topics::memory::MemoryTopics,
};

const SESSION: Duration = Duration::from_secs(45);
const REBALANCE_MS: i32 = 60_000;

fn at(seconds: u64) -> Now {
    Now {
        at: Duration::from_secs(seconds),
        ms: 1_000_000 + i64::try_from(seconds).expect("small") * 1_000,
    }
}

fn group(topics: &Arc<MemoryTopics>) -> ConsumerGroup {
    with_config(topics, GroupConfig::default())
}

fn with_config(topics: &Arc<MemoryTopics>, config: GroupConfig) -> ConsumerGroup {
    ConsumerGroup::new("g".into(), Arc::new(config), topics.clone())
}

fn joining(member: &str, names: &[&str]) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        group_id: "g".into(),
        member_id: member.into(),
        member_epoch: JOIN_EPOCH,
        rebalance_timeout_ms: Some(REBALANCE_MS),
        names: Some(names.iter().map(|&name| name.to_owned()).collect()),
        owned: Some(TopicPartitions::new()),
        client_id: "c".into(),
        client_host: "/h".into(),
        ..ConsumerHeartbeat::default()
    }
}

fn going_on(member: &str, epoch: i32, owned: Option<TopicPartitions>) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        group_id: "g".into(),
        member_id: member.into(),
        member_epoch: epoch,
        owned,
        client_id: "c".into(),
        client_host: "/h".into(),
        ..ConsumerHeartbeat::default()
    }
}

fn beat(
    group: &mut ConsumerGroup,
    request: &ConsumerHeartbeat,
    seconds: u64,
) -> Result<ConsumerHeartbeatAnswer, GroupError> {
    group.heartbeat(request, &|_| true, at(seconds))
}

fn count(partitions: Option<&TopicPartitions>) -> usize {
    partitions
        .into_iter()
        .flatten()
        .map(|(_, numbers)| numbers.len())
        .sum()
}

/// A client: what it uses, and what it was told last.
#[derive(Debug, Default)]
struct Client {
    epoch: i32,
    told: TopicPartitions,
    using: BTreeSet<(TopicId, u32)>,
}

fn flat(partitions: &TopicPartitions) -> BTreeSet<(TopicId, u32)> {
    let all = partitions.iter();
    all.flat_map(|(topic, numbers)| numbers.iter().map(|n| (*topic, *n)))
        .collect()
}

impl Client {
    /// Gives up what it was told to give up, then sends a heartbeat.
    fn beat(&mut self, group: &mut ConsumerGroup, id: &str, names: &[&str]) {
        self.using = flat(&self.told);
        let request = match self.epoch {
            JOIN_EPOCH => joining(id, names),
            epoch => going_on(id, epoch, Some(self.told.clone())),
        };
        let answer = beat(group, &request, 1).expect("heard");
        self.epoch = answer.member_epoch;
        if let Some(assignment) = answer.assignment {
            self.using.extend(flat(&assignment));
            self.told = assignment;
        }
    }
}

fn assert_exclusive(clients: &BTreeMap<String, Client>) {
    let mut used = BTreeSet::new();
    for client in clients.values() {
        for partition in &client.using {
            assert!(used.insert(*partition), "{partition:?} is used twice");
        }
    }
}

proptest! {
    #[test]
    fn no_partition_is_ever_used_twice_and_the_group_settles(
        steps in prop::collection::vec((0_usize..6, 0_u8..10), 1..80),
        partitions in 1_u32..20,
    ) {
        let topics = MemoryTopics::with(&[("t", partitions)]);
        let mut group = group(&topics);
        let mut clients: BTreeMap<String, Client> = BTreeMap::new();
        for (member, action) in steps {
            let id = format!("m{member}");
            match action {
                0 if clients.remove(&id).is_some() => {
                    let request = going_on(&id, LEAVE_EPOCH, None);
                    beat(&mut group, &request, 1).expect("left");
                }
                1 => topics.set("t", partitions + u32::try_from(member).expect("small")),
                _ => clients.entry(id.clone()).or_default().beat(&mut group, &id, &["t"]),
            }
            assert_exclusive(&clients);
        }
        for _ in 0..6 {
            for (id, client) in &mut clients {
                client.beat(&mut group, id, &["t"]);
            }
            assert_exclusive(&clients);
        }
        if !clients.is_empty() {
            prop_assert_eq!(group.state(), GroupState::Stable);
            let used: usize = clients.values().map(|client| client.using.len()).sum();
            prop_assert_eq!(used, topics_count(&topics));
        }
    }

    /// What the log holds makes the same group.
    #[test]
    fn a_group_is_restored_from_its_records(
        steps in prop::collection::vec((0_usize..5, 0_u8..6), 1..40),
    ) {
        let topics = MemoryTopics::with(&[("t", 7), ("u", 3)]);
        let mut group = group(&topics);
        let mut clients: BTreeMap<String, Client> = BTreeMap::new();
        for (member, action) in steps {
            let id = format!("m{member}");
            if action == 0 && clients.remove(&id).is_some() {
                beat(&mut group, &going_on(&id, LEAVE_EPOCH, None), 1).expect("left");
            } else {
                clients.entry(id.clone()).or_default().beat(&mut group, &id, &["t", "u"]);
            }
            let records = group.take_records(true);
            group.write_finished(records, true);
        }
        let parts: Parts = group
            .durable_records()
            .filter_map(|record| match record {
                crate::records::GroupRecord::Consumer(
                    crate::records::Key::Consumer { part, .. },
                    value,
                ) => Some((part, value?)),
                _ => None,
            })
            .collect();
        let restored = restored(&topics, parts).expect("a group");
        prop_assert_eq!(restored.describe(), group.describe());
        prop_assert_eq!(&restored.owned, &group.owned);
        prop_assert_eq!(restored.memory_bytes(), group.memory_bytes());
    }
}

fn restored(topics: &Arc<MemoryTopics>, parts: Parts) -> Option<ConsumerGroup> {
    let config = Arc::new(GroupConfig::default());
    ConsumerGroup::restore("g".into(), config, topics.clone(), parts, at(100))
}

fn topics_count(topics: &MemoryTopics) -> usize {
    use crate::topics::Topics as _;
    topics.find("t").expect("a topic").1 as usize
}

#[test]
fn the_first_member_has_all_and_shares_with_the_second() {
    let topics = MemoryTopics::with(&[("t", 4)]);
    let mut group = group(&topics);
    let a = beat(&mut group, &joining("a", &["t"]), 1).expect("joined");
    assert_eq!((a.member_epoch, count(a.assignment.as_ref())), (1, 4));
    let b = beat(&mut group, &joining("b", &["t"]), 1).expect("joined");
    // It waits until the first one has given up its part.
    assert_eq!((b.member_epoch, count(b.assignment.as_ref())), (2, 0));
    assert_eq!(group.state(), GroupState::Reconciling);
    let a = beat(&mut group, &going_on("a", 1, None), 2).expect("heard");
    assert_eq!(
        (a.member_epoch, count(a.assignment.as_ref())),
        (1, 2),
        "asked to revoke"
    );
    let b = beat(&mut group, &going_on("b", 2, None), 2).expect("heard");
    assert_eq!(b.assignment, None, "nothing is free yet");
    let a = beat(&mut group, &going_on("a", 1, a.assignment), 3).expect("revoked");
    assert_eq!((a.member_epoch, a.assignment), (2, None));
    let b = beat(&mut group, &going_on("b", 2, None), 3).expect("heard");
    assert_eq!(count(b.assignment.as_ref()), 2);
    assert_eq!(group.state(), GroupState::Stable);
}

#[test]
fn a_heartbeat_that_changes_nothing_writes_nothing() {
    let topics = MemoryTopics::with(&[("t", 4)]);
    let mut group = group(&topics);
    beat(&mut group, &joining("a", &["t"]), 1).expect("joined");
    assert_ne!(group.take_records(true), []);
    let answer = beat(&mut group, &going_on("a", 1, None), 2).expect("heard");
    assert_eq!((answer.member_epoch, answer.assignment), (1, None));
    assert_eq!(group.take_records(true), []);
}

#[test]
fn epochs_are_checked() {
    let topics = MemoryTopics::with(&[("t", 4)]);
    let mut group = group(&topics);
    let unknown = beat(&mut group, &going_on("a", 1, None), 1);
    assert_eq!(unknown, Err(GroupError::UnknownMemberId));
    let joined = beat(&mut group, &joining("a", &["t"]), 1).expect("joined");
    let ahead = beat(&mut group, &going_on("a", 2, None), 1);
    assert_eq!(ahead, Err(GroupError::FencedMemberEpoch));
    beat(&mut group, &joining("b", &["t", "u"]), 1).expect("joined");
    let owned = |numbers: &[u32]| {
        Some(TopicPartitions::from([(
            topics.id("t"),
            numbers.iter().copied().collect(),
        )]))
    };
    let told = beat(&mut group, &going_on("a", 1, None), 1)
        .expect("heard")
        .assignment;
    beat(&mut group, &going_on("a", 1, told.clone()), 1).expect("revoked");
    // Its answer, with epoch 2, was lost: with a part of what it has, it may repeat the epoch before.
    let again = beat(&mut group, &going_on("a", 1, told), 1).expect("repeated");
    assert_eq!(again.member_epoch, 2);
    assert_eq!(count(joined.assignment.as_ref()), 4);
    let too_much = beat(&mut group, &going_on("a", 1, owned(&[0, 1, 2, 3])), 1);
    assert_eq!(too_much, Err(GroupError::FencedMemberEpoch));
    assert_eq!(group.check_epoch("a", 1), Err(GroupError::StaleMemberEpoch));
    assert_eq!(group.check_epoch("a", 2), Ok(()));
    assert_eq!(group.check_epoch("x", 2), Err(GroupError::UnknownMemberId));
}

#[test]
fn a_silent_member_loses_its_partitions() {
    let topics = MemoryTopics::with(&[("t", 4)]);
    let mut group = group(&topics);
    beat(&mut group, &joining("a", &["t"]), 1).expect("joined");
    beat(&mut group, &joining("b", &["t"]), 40).expect("joined");
    group.expire(Now {
        at: Duration::from_secs(1) + SESSION,
        ms: 0,
    });
    assert_eq!(group.members_count(), 1);
    let b = beat(&mut group, &going_on("b", 2, None), 50).expect("heard");
    assert_eq!((b.member_epoch, count(b.assignment.as_ref())), (3, 4));
    assert_eq!(group.wake_at(), Some(Duration::from_secs(40) + SESSION));
}

#[test]
fn a_member_that_does_not_revoke_in_time_is_removed() {
    let topics = MemoryTopics::with(&[("t", 4)]);
    let mut group = group(&topics);
    let slow = ConsumerHeartbeat {
        rebalance_timeout_ms: Some(10_000),
        ..joining("a", &["t"])
    };
    beat(&mut group, &slow, 1).expect("joined");
    beat(&mut group, &joining("b", &["t"]), 1).expect("joined");
    beat(&mut group, &going_on("a", 1, None), 2).expect("asked to revoke");
    group.expire(at(11));
    assert_eq!(group.members_count(), 2);
    group.expire(at(12));
    assert_eq!(group.members_count(), 1);
    let gone = beat(&mut group, &going_on("a", 1, None), 13);
    assert_eq!(gone, Err(GroupError::UnknownMemberId));
}

#[test]
fn a_static_member_leaves_for_a_while_and_finds_its_partitions() {
    let topics = MemoryTopics::with(&[("t", 4)]);
    let mut group = group(&topics);
    let named = |request: ConsumerHeartbeat| ConsumerHeartbeat {
        instance_id: Some("i".into()),
        ..request
    };
    beat(&mut group, &named(joining("a", &["t"])), 1).expect("joined");
    let early = beat(&mut group, &named(joining("b", &["t"])), 1);
    assert_eq!(early, Err(GroupError::UnreleasedInstanceId));
    let left = named(going_on("a", LEAVE_STATIC_EPOCH, None));
    assert_eq!(
        beat(&mut group, &left, 1).map(|a| a.member_epoch),
        Ok(LEAVE_STATIC_EPOCH)
    );
    let epoch = group.epoch;
    let b = beat(&mut group, &named(joining("b", &["t"])), 2).expect("joined");
    assert_eq!(count(b.assignment.as_ref()), 4);
    assert_eq!(group.epoch, epoch, "nothing was assigned again");
    let old = beat(&mut group, &named(going_on("a", 1, None)), 2);
    assert_eq!(old, Err(GroupError::FencedInstanceId));
    assert_eq!(group.members_count(), 1);
}

#[test]
fn topics_that_come_and_grow_are_assigned() {
    let topics = MemoryTopics::with(&[]);
    let mut group = group(&topics);
    let a = beat(&mut group, &joining("a", &["t"]), 1).expect("joined");
    assert_eq!(count(a.assignment.as_ref()), 0);
    for (partitions, epoch) in [(2, 2), (5, 3)] {
        topics.set("t", partitions);
        let a = beat(&mut group, &going_on("a", epoch - 1, None), 2).expect("heard");
        assert_eq!(a.member_epoch, epoch);
        assert_eq!(count(a.assignment.as_ref()), partitions as usize);
    }
    // Others do not matter.
    topics.set("other", 9);
    let a = beat(&mut group, &going_on("a", 3, None), 2).expect("heard");
    assert_eq!((a.member_epoch, a.assignment), (3, None));
}

fn with_pattern(member: &str, pattern: &str) -> ConsumerHeartbeat {
    ConsumerHeartbeat {
        names: None,
        pattern: Some(pattern.into()),
        ..joining(member, &[])
    }
}

#[test]
fn patterns_match_whole_names_of_topics_that_may_be_described() {
    let topics = MemoryTopics::with(&[("orders", 2), ("orders-2", 3), ("secret", 1)]);
    let mut group = group(&topics);
    let may_describe = |name: &str| name != "secret";
    let request = with_pattern("a", "orders|secret");
    let a = group
        .heartbeat(&request, &may_describe, at(1))
        .expect("joined");
    assert_eq!(count(a.assignment.as_ref()), 2);
    assert!(group.is_subscribed("orders") && !group.is_subscribed("secret"));
    // The pattern is matched again when topics come.
    let request = ConsumerHeartbeat {
        owned: a.assignment,
        member_epoch: 1,
        ..with_pattern("a", "orders.*")
    };
    let a = group
        .heartbeat(&request, &may_describe, at(2))
        .expect("changed");
    assert_eq!(count(a.assignment.as_ref()), 5);
    topics.set("orders-3", 4);
    let a = group
        .heartbeat(&going_on("a", 2, None), &may_describe, at(4))
        .expect("heard");
    assert_eq!((a.member_epoch, count(a.assignment.as_ref())), (3, 9));
    // The pattern that nobody has any more is forgotten, and the other one is kept.
    let parts: Vec<&ConsumerPart> = group.stored_parts().collect();
    assert!(parts.contains(&&ConsumerPart::Pattern("orders.*".into())));
    assert!(!parts.contains(&&ConsumerPart::Pattern("orders|secret".into())));
}

#[test]
fn a_pattern_that_is_none_changes_nothing() {
    let topics = MemoryTopics::with(&[("t", 2)]);
    let mut group = group(&topics);
    for pattern in ["(", ")|(", "a{1000000}", &"x".repeat(5_000)] {
        let refused = beat(&mut group, &with_pattern("a", pattern), 1);
        assert!(
            matches!(refused, Err(GroupError::InvalidRegularExpression(_))),
            "{pattern}"
        );
    }
    assert_eq!(
        (group.members_count(), group.take_records(true)),
        (0, Vec::new())
    );
}

#[test]
fn a_full_group_takes_no_more_members() {
    let topics = MemoryTopics::with(&[("t", 2)]);
    let mut config = GroupConfig::default();
    config.consumer.group_size_max = 1;
    let mut group = with_config(&topics, config);
    beat(&mut group, &joining("a", &["t"]), 1).expect("joined");
    let full = beat(&mut group, &joining("b", &["t"]), 1);
    assert_eq!(full, Err(GroupError::GroupMaxSizeReached));
    beat(&mut group, &joining("a", &["t"]), 1).expect("joins again");
}

#[test]
fn most_votes_choose_the_assignor() {
    let topics = MemoryTopics::with(&[("t", 4), ("u", 4)]);
    let mut group = group(&topics);
    assert_eq!(group.describe().assignor, "uniform");
    for member in ["a", "b"] {
        let request = ConsumerHeartbeat {
            assignor: Some("range".into()),
            ..joining(member, &["t", "u"])
        };
        beat(&mut group, &request, 1).expect("joined");
    }
    assert_eq!(group.describe().assignor, "range");
    let target = &group.describe().members[0].target;
    assert_eq!(target.len(), 2);
    assert_eq!(target[0].2, target[1].2, "co-partitioned");
}

/// A failed write is repaired by the next one.
#[test]
fn what_the_log_lacks_is_written_again() {
    let topics = MemoryTopics::with(&[("t", 4)]);
    let mut group = group(&topics);
    beat(&mut group, &joining("a", &["t"]), 1).expect("joined");
    let records = group.take_records(true);
    group.write_finished(records.clone(), false);
    let mut again = group.take_records(true);
    assert_eq!(
        again.len(),
        records
            .iter()
            .map(|r| format!("{:?}", r.encode().0))
            .collect::<BTreeSet<_>>()
            .len()
    );
    group.write_finished(std::mem::take(&mut again), true);
    assert_eq!(group.take_records(true), []);
    assert_eq!(group.durable_count(), group.stored_parts().count());
}

#[test]
fn a_large_group_settles() {
    let topics = MemoryTopics::with(&[("t", 1_500)]);
    let mut group = group(&topics);
    let mut clients: BTreeMap<String, Client> = BTreeMap::new();
    for _ in 0..4 {
        for number in 0..300 {
            let id = format!("m{number:04}");
            clients
                .entry(id.clone())
                .or_default()
                .beat(&mut group, &id, &["t"]);
        }
    }
    assert_exclusive(&clients);
    assert_eq!(group.state(), GroupState::Stable);
    assert!(clients.values().all(|client| client.using.len() == 5));
}
