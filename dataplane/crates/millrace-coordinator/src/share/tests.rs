use proptest::prelude::*;

use super::{
    assignor::{Spec, SpecMember, assign},
    *,
};
use crate::{
    GroupError, ShareStateError,
    config::{SHARE_INITIALIZING_INTERVAL, SHARE_MEMBER_TOPICS_MAX, SHARE_STATES_RETRY},
    messages::{ConsumerHeartbeatAnswer, JOIN_EPOCH, LEAVE_EPOCH, ShareHeartbeat},
    records::{GroupRecord, Key},
    topics::memory::MemoryTopics,
};

const SESSION: Duration = Duration::from_secs(45);

fn at(seconds: u64) -> Now {
    Now {
        at: Duration::from_secs(seconds),
        ms: 1_000_000 + i64::try_from(seconds).expect("small") * 1_000,
    }
}

fn group(topics: &Arc<MemoryTopics>) -> ShareGroup {
    with_config(topics, GroupConfig::default())
}

fn with_config(topics: &Arc<MemoryTopics>, config: GroupConfig) -> ShareGroup {
    ShareGroup::new("g".into(), Arc::new(config), topics.clone())
}

fn joining(member: &str, names: &[&str]) -> ShareHeartbeat {
    ShareHeartbeat {
        group_id: "g".into(),
        member_id: member.into(),
        member_epoch: JOIN_EPOCH,
        rack_id: Some("r".into()),
        names: Some(names.iter().map(|&name| name.to_owned()).collect()),
        client_id: "c".into(),
        client_host: "/h".into(),
    }
}

fn going_on(member: &str, member_epoch: i32) -> ShareHeartbeat {
    ShareHeartbeat {
        member_epoch,
        rack_id: None,
        names: None,
        ..joining(member, &[])
    }
}

type Heard = Result<ConsumerHeartbeatAnswer, GroupError>;

fn beat(group: &mut ShareGroup, request: &ShareHeartbeat, seconds: u64) -> Heard {
    group.heartbeat(request, at(seconds))
}

/// The share coordinator does everything that it is asked for.
fn initialize(group: &mut ShareGroup, seconds: u64) -> usize {
    let Some(asked) = group.begin_initialization(at(seconds)) else {
        return 0;
    };
    let done: StateResults = { asked.partitions().into_iter() }
        .map(|of| (of, Ok(())))
        .collect();
    group.initialization_finished(&done, None, at(seconds));
    done.len()
}

fn count(partitions: Option<&TopicPartitions>) -> usize {
    let numbers = partitions.into_iter().flatten();
    numbers.map(|(_, numbers)| numbers.len()).sum()
}

/// A member joins and has its share of the partitions.
fn joined(group: &mut ShareGroup, member: &str, names: &[&str]) -> (i32, usize) {
    beat(group, &joining(member, names), 1).expect("joined");
    initialize(group, 1);
    told(group, member)
}

/// The member's epoch and how many partitions it has, once it has been heard from again.
fn told(group: &mut ShareGroup, member: &str) -> (i32, usize) {
    let epoch = group.members.get(member).expect("a member").current.epoch;
    let heard = beat(group, &going_on(member, epoch), 1).expect("heard");
    let current = &group.members.get(member).expect("a member").current;
    assert_eq!(heard.member_epoch, current.epoch);
    (heard.member_epoch, count(Some(&current.assigned)))
}

/// All that was pushed reaches the log.
fn written(group: &mut ShareGroup) {
    let records = group.take_records(true);
    group.write_finished(records, true);
}

fn parts(group: &ShareGroup) -> Parts {
    let part = |record| match record {
        GroupRecord::Share(Key::Share { part, .. }, value) => Some((part, value?)),
        _ => None,
    };
    group.durable_records().filter_map(part).collect()
}

fn restored(topics: &Arc<MemoryTopics>, parts: Parts) -> Option<ShareGroup> {
    let config = Arc::new(GroupConfig::default());
    ShareGroup::restore("g".into(), config, topics.clone(), parts, at(100))
}

#[test]
fn partitions_are_assigned_once_their_state_is_initialized() {
    let topics = MemoryTopics::with(&[("t", 4)]);
    let mut group = group(&topics);
    let heard = beat(&mut group, &joining("a", &["t", "none"]), 1).expect("joined");
    assert_eq!(
        (heard.member_epoch, count(heard.assignment.as_ref())),
        (1, 0)
    );
    let asked = group.begin_initialization(at(1)).expect("something to ask");
    let all = (0..4).map(|number| ((topics.id("t"), number), None));
    assert_eq!(asked, StateRequest::Initialize(1, all.collect()));
    // Members ask again soon, and the share coordinator is asked once.
    assert_eq!(group.heartbeat_interval(), SHARE_INITIALIZING_INTERVAL);
    assert_eq!(group.begin_initialization(at(1)), None);
    let heard = beat(&mut group, &going_on("a", 1), 2).expect("heard");
    assert_eq!((heard.member_epoch, heard.assignment), (1, None));

    let results = asked.partitions().into_iter().map(|of| (of, Ok(())));
    group.initialization_finished(&results.collect(), None, at(2));
    let heard = beat(&mut group, &going_on("a", 1), 2).expect("heard");
    assert_eq!(
        (heard.member_epoch, count(heard.assignment.as_ref())),
        (2, 4)
    );
    assert_eq!(group.heartbeat_interval(), Duration::from_secs(5));
    let heard = beat(&mut group, &going_on("a", 2), 2).expect("heard");
    assert_eq!((heard.member_epoch, heard.assignment), (2, None));
    assert_eq!(group.begin_initialization(at(2)), None);
}

#[test]
fn partitions_whose_state_cannot_be_initialized_are_tried_again_later() {
    let topics = MemoryTopics::with(&[("t", 2)]);
    let mut group = group(&topics);
    beat(&mut group, &joining("a", &["t"]), 1).expect("joined");
    group.begin_initialization(at(1)).expect("something to ask");
    let id = topics.id("t");
    let results = [
        ((id, 0), Ok(())),
        ((id, 1), Err(ShareStateError::NotAvailable)),
    ];
    group.initialization_finished(&results.into(), None, at(1));
    assert_eq!(told(&mut group, "a"), (2, 1));
    assert_eq!(group.begin_initialization(at(1)), None);
    let later = 1 + SHARE_STATES_RETRY.as_secs();
    let asked = group.begin_initialization(at(later));
    let missing = vec![((id, 1), None)];
    assert_eq!(asked, Some(StateRequest::Initialize(2, missing)));
}

#[test]
fn states_of_a_former_group_of_the_same_id_are_replaced() {
    let topics = MemoryTopics::with(&[("t", 1)]);
    let mut group = group(&topics);
    beat(&mut group, &joining("a", &["t"]), 1).expect("joined");
    group.begin_initialization(at(1)).expect("something to ask");
    let fenced = [((topics.id("t"), 0), Err(ShareStateError::FencedStateEpoch))];
    group.initialization_finished(&fenced.into(), Some(7), at(1));
    let asked = group.begin_initialization(at(100));
    let again = vec![((topics.id("t"), 0), None)];
    assert_eq!(asked, Some(StateRequest::Initialize(8, again)));
}

#[test]
fn groups_have_times_of_their_own() {
    let topics = MemoryTopics::with(&[("t", 1)]);
    let config = GroupConfig::default();
    let of_group = [
        ("share.session.timeout.ms", "50000"),
        ("share.heartbeat.interval.ms", "7000"),
    ];
    let of_group = of_group.map(|(key, value)| (key.to_owned(), value.to_owned()));
    config.of_groups.replace([("g", &of_group.into())]);
    let mut group = with_config(&topics, config);
    joined(&mut group, "a", &["t"]);
    assert_eq!(group.heartbeat_interval(), Duration::from_secs(7));
    assert_eq!(group.wake_at(), Some(Duration::from_secs(51)));
}

#[test]
fn members_share_partitions_evenly() {
    let topics = MemoryTopics::with(&[("t", 2)]);
    let mut group = group(&topics);
    assert_eq!(joined(&mut group, "a", &["t"]).1, 2);
    assert_eq!(joined(&mut group, "b", &["t"]).1, 1);
    assert_eq!(told(&mut group, "a").1, 1);
    // More members than partitions: every partition has two of them.
    joined(&mut group, "c", &["t"]);
    joined(&mut group, "d", &["t"]);
    let counts: Vec<usize> = ["a", "b", "c", "d"]
        .into_iter()
        .map(|id| told(&mut group, id).1)
        .collect();
    assert_eq!(counts, [1, 1, 1, 1]);
    let id = topics.id("t");
    let of = |partition: u32| {
        let assigned = group
            .members
            .values()
            .map(|member| &member.current.assigned);
        let has = |assigned: &&TopicPartitions| assigned[&id].contains(&partition);
        assigned.filter(has).count()
    };
    assert_eq!((of(0), of(1)), (2, 2));
}

#[test]
fn topics_that_grow_or_go_change_the_assignment() {
    let topics = MemoryTopics::with(&[("t", 1), ("u", 1)]);
    let mut group = group(&topics);
    let (epoch, partitions) = joined(&mut group, "a", &["t", "u", "later"]);
    assert_eq!(partitions, 2);
    topics.set("t", 3);
    topics.set("later", 1);
    let (grown, partitions) = told(&mut group, "a");
    assert_eq!((grown, partitions), (epoch + 1, 2));
    assert_eq!(initialize(&mut group, 1), 3);
    assert_eq!(told(&mut group, "a"), (epoch + 2, 5));
    topics.set("t", 0);
    assert_eq!(told(&mut group, "a"), (epoch + 3, 2));
    assert!(
        group
            .states
            .initialized
            .values()
            .all(|(name, _)| name != "t")
    );
    // It has another id.
    topics.set("t", 1);
    assert_eq!(told(&mut group, "a").1, 2);
    assert_eq!(initialize(&mut group, 1), 1);
    assert_eq!(told(&mut group, "a").1, 3);
}

#[test]
fn deleted_topics_are_forgotten() {
    let topics = MemoryTopics::with(&[("t", 2), ("u", 1)]);
    let mut group = group(&topics);
    joined(&mut group, "a", &["t", "u"]);
    written(&mut group);
    topics.set("t", 0);
    group.forget_gone_topics();
    assert_eq!(group.take_records(true).len(), 1);
    group.forget_gone_topics();
    assert_eq!(group.take_records(true).len(), 0);
    let known: Vec<_> = group.with_state().values().cloned().collect();
    assert_eq!(known, [("u".to_owned(), BTreeSet::from([0]))]);
}

/// The group may be told of a deletion after the topic was created again.
#[test]
fn a_topic_that_was_created_again_keeps_its_states() {
    let topics = MemoryTopics::with(&[("t", 2)]);
    let mut group = group(&topics);
    joined(&mut group, "a", &["t"]);
    topics.set("t", 0);
    topics.set("t", 1);
    told(&mut group, "a");
    assert_eq!(initialize(&mut group, 1), 1);
    group.forget_gone_topics();
    let known: Vec<_> = group.with_state().clone().into_iter().collect();
    let again = ("t".to_owned(), BTreeSet::from([0]));
    assert_eq!(known, [(topics.id("t"), again)]);
}

#[test]
fn silent_members_are_removed() {
    let topics = MemoryTopics::with(&[("t", 2)]);
    let mut group = group(&topics);
    joined(&mut group, "a", &["t"]);
    beat(&mut group, &joining("b", &["t"]), 10).expect("joined");
    assert_eq!(group.wake_at(), Some(Duration::from_secs(1) + SESSION));
    let epoch = group.epoch;
    group.expire(at(45));
    assert_eq!((group.members_count(), group.epoch), (2, epoch));
    group.expire(at(46));
    assert_eq!((group.members_count(), group.epoch), (1, epoch + 1));
    assert_eq!(group.wake_at(), Some(Duration::from_secs(10) + SESSION));
    assert_eq!(told(&mut group, "b").1, 2);
    let unknown = beat(&mut group, &going_on("a", 2), 46);
    assert_eq!(unknown, Err(GroupError::UnknownMemberId));
    group.expire(at(200));
    assert_eq!((group.state(), group.wake_at()), (GroupState::Empty, None));
}

#[test]
fn epochs_are_checked() {
    let topics = MemoryTopics::with(&[("t", 2)]);
    let mut group = group(&topics);
    let unknown = beat(&mut group, &going_on("a", 1), 1);
    assert_eq!(unknown, Err(GroupError::UnknownMemberId));
    joined(&mut group, "a", &["t"]);
    joined(&mut group, "b", &["t"]);
    let current = group.members["a"].current.clone();
    let (epoch, _) = told(&mut group, "a");
    assert_eq!(epoch, current.epoch + 1);
    for wrong in [epoch + 1, current.epoch - 1] {
        let fenced = beat(&mut group, &going_on("a", wrong), 1);
        assert_eq!(fenced, Err(GroupError::FencedMemberEpoch), "{wrong}");
    }
    // Whoever missed the last answer is told again; and so is who joins again.
    for again in [current.epoch, JOIN_EPOCH] {
        let heard = beat(&mut group, &going_on("a", again), 1).expect("heard");
        assert_eq!(
            (heard.member_epoch, count(heard.assignment.as_ref())),
            (epoch, 1)
        );
    }
}

#[test]
fn members_leave() {
    let topics = MemoryTopics::with(&[("t", 2)]);
    let mut group = group(&topics);
    joined(&mut group, "a", &["t"]);
    joined(&mut group, "b", &["t"]);
    let unknown = beat(&mut group, &going_on("c", LEAVE_EPOCH), 1);
    assert_eq!(unknown, Err(GroupError::UnknownMemberId));
    let left = beat(&mut group, &going_on("a", LEAVE_EPOCH), 1).expect("left");
    assert_eq!((left.member_epoch, left.assignment), (LEAVE_EPOCH, None));
    assert_eq!(told(&mut group, "b").1, 2);
    beat(&mut group, &going_on("b", LEAVE_EPOCH), 1).expect("left");
    assert_eq!(group.state(), GroupState::Empty);
    let stored: Vec<&SharePart> = group.stored.latest().keys().collect();
    let group_only = [&SharePart::Group, &SharePart::Target, &SharePart::States];
    assert_eq!(stored, group_only);
}

#[test]
fn bounds_hold() {
    let topics = MemoryTopics::with(&[("t", 2)]);
    let mut config = GroupConfig::default();
    config.share.group_size_max = 1;
    let mut group = with_config(&topics, config);
    joined(&mut group, "a", &["t"]);
    let full = beat(&mut group, &joining("b", &["t"]), 1);
    assert_eq!(full, Err(GroupError::GroupMaxSizeReached));
    joined(&mut group, "a", &["t"]);
    let names = (0..=SHARE_MEMBER_TOPICS_MAX).map(|number| number.to_string());
    let many = ShareHeartbeat {
        names: Some(names.collect()),
        ..joining("a", &[])
    };
    let refused = beat(&mut group, &many, 1);
    assert_eq!(refused, Err(GroupError::MetadataTooLarge));
}

#[test]
fn offsets_are_altered_without_members() {
    let topics = MemoryTopics::with(&[("t", 2), ("u", 2)]);
    let mut group = group(&topics);
    joined(&mut group, "a", &["t"]);
    let (t, u) = (topics.id("t"), topics.id("u"));
    let offsets = vec![((t, 0), 7), ((u, 1), 9)];
    let refused = group.begin_alter(offsets.clone());
    assert_eq!(refused, Err(GroupError::NonEmptyGroup));
    beat(&mut group, &going_on("a", LEAVE_EPOCH), 1).expect("left");
    let epoch = group.epoch;
    let asked = group.begin_alter(offsets).expect("altered");
    let expected = vec![((t, 0), Some(7)), ((u, 1), Some(9))];
    assert_eq!(asked, StateRequest::Initialize(epoch + 1, expected));
    let busy = group.begin_delete_states();
    assert_eq!(busy, Err(GroupError::CoordinatorNotAvailable));
    let results = asked.partitions().into_iter().map(|of| (of, Ok(())));
    group.initialization_finished(&results.collect(), None, at(1));
    let known: BTreeMap<_, _> = { group.with_state().iter() }
        .map(|(id, (_, numbers))| (*id, numbers.len()))
        .collect();
    assert_eq!(known, BTreeMap::from([(t, 2), (u, 1)]));
}

#[test]
fn states_are_deleted_without_members() {
    let topics = MemoryTopics::with(&[("t", 2), ("u", 1)]);
    let mut group = group(&topics);
    joined(&mut group, "a", &["t", "u"]);
    let (t, u) = (topics.id("t"), topics.id("u"));
    let refused = group.begin_delete_offsets(&[t].into());
    assert_eq!(refused, Err(GroupError::NonEmptyGroup));
    beat(&mut group, &going_on("a", LEAVE_EPOCH), 1).expect("left");
    let asked = group.begin_delete_offsets(&[t].into()).expect("idle");
    assert_eq!(asked, Some(StateRequest::Delete(vec![(t, 0), (t, 1)])));
    let failed = [
        ((t, 0), Ok(())),
        ((t, 1), Err(ShareStateError::NotAvailable)),
    ];
    group.deletion_finished(&failed.into());
    // It is known that states may be left, also after a restart.
    written(&mut group);
    let mut group = restored(&topics, parts(&group)).expect("a group");
    assert_eq!(group.states.deleting, BTreeMap::from([(t, "t".into())]));
    let asked = group.begin_delete_states().expect("idle");
    let all = vec![(t, 0), (t, 1), (u, 0)];
    let mut known = asked.expect("something to ask").partitions();
    known.sort_unstable();
    let mut all_sorted = all.clone();
    all_sorted.sort_unstable();
    assert_eq!(known, all_sorted);
    group.deletion_finished(&all.into_iter().map(|of| (of, Ok(()))).collect());
    assert_eq!(group.states, StoredStates::default());
    assert_eq!(group.begin_delete_states(), Ok(None));
}

#[test]
fn a_failed_write_is_made_up_for() {
    let topics = MemoryTopics::with(&[("t", 2)]);
    let mut group = group(&topics);
    joined(&mut group, "a", &["t"]);
    let lost = group.take_records(true);
    assert!(!lost.is_empty());
    group.write_finished(lost, false);
    written(&mut group);
    let restored = restored(&topics, parts(&group)).expect("a group");
    assert_eq!(restored.describe(), group.describe());
}

#[test]
fn leftovers_of_a_group_are_none() {
    let topics = MemoryTopics::with(&[]);
    let target = (
        SharePart::Target,
        crate::records::ShareValue::Target { epoch: 3 },
    );
    assert!(restored(&topics, Parts::from([target])).is_none());
}

/// What members have, and what they are to have.
fn assignments() -> impl Strategy<Value = Vec<(BTreeSet<usize>, bool)>> {
    let names = prop::collection::btree_set(0..4_usize, 0..4);
    prop::collection::vec((names, any::<bool>()), 1..12)
}

fn id(number: usize) -> TopicId {
    TopicId(uuid::Uuid::from_u128(number as u128))
}

/// Assigns, from what was assigned before.
fn assigned(
    members: &[BTreeSet<TopicId>],
    partitions: &TopicPartitions,
    before: &[TopicPartitions],
) -> Vec<TopicPartitions> {
    let nothing = TopicPartitions::new();
    let members = members
        .iter()
        .enumerate()
        .map(|(index, topics)| SpecMember {
            topics,
            current: before.get(index).unwrap_or(&nothing),
        });
    assign(&Spec {
        members: members.collect(),
        partitions: partitions.clone(),
    })
}

proptest! {
    #[test]
    fn equal_members_share_evenly(
        counts in prop::collection::vec(0..9_u32, 1..4),
        members in prop::collection::vec(1..12_usize, 1..6),
    ) {
        let partitions: TopicPartitions = counts.iter().enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(topic, count)| (id(topic), (0..*count).collect()))
            .collect();
        let total = count(Some(&partitions));
        let topics: BTreeSet<TopicId> = partitions.keys().copied().collect();
        let mut before = Vec::new();
        // Members come and go.
        for size in members {
            let all = vec![topics.clone(); size];
            let now = assigned(&all, &partitions, &before);
            let sizes: Vec<usize> = now.iter().map(|of| count(Some(of))).collect();
            let (least, most) = (sizes.iter().min(), sizes.iter().max());
            prop_assert!(most.zip(least).is_none_or(|(most, least)| most - least <= 1), "{sizes:?}");
            let sharing = if total == 0 { 0 } else { size.div_ceil(total) };
            for (topic, numbers) in &partitions {
                for number in numbers {
                    let has = |of: &&TopicPartitions| of.get(topic).is_some_and(|n| n.contains(number));
                    prop_assert_eq!(now.iter().filter(has).count(), sharing);
                }
            }
            // Nothing moves where nothing changes.
            prop_assert_eq!(&assigned(&all, &partitions, &now), &now);
            before = now;
        }
    }

    #[test]
    fn every_partition_has_a_member_and_every_member_a_partition(
        counts in prop::collection::vec(0..9_u32, 4),
        subscriptions in prop::collection::vec(assignments(), 1..4),
    ) {
        let partitions: TopicPartitions = counts.iter().enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(topic, count)| (id(topic), (0..*count).collect()))
            .collect();
        let mut before = Vec::new();
        for members in subscriptions {
            let members: Vec<BTreeSet<TopicId>> = members.into_iter()
                .map(|(topics, _)| topics.into_iter().map(id).collect())
                .collect();
            let now = assigned(&members, &partitions, &before);
            for (topics, of) in members.iter().zip(&now) {
                prop_assert!(of.keys().all(|topic| topics.contains(topic)));
                prop_assert!(of.iter().all(|(topic, numbers)| numbers.is_subset(&partitions[topic])));
                let could = topics.iter().any(|topic| partitions.contains_key(topic));
                prop_assert_eq!(could, count(Some(of)) > 0);
            }
            for (topic, numbers) in &partitions {
                let is_wanted = members.iter().any(|topics| topics.contains(topic));
                for number in numbers {
                    let has = |of: &TopicPartitions| of.get(topic).is_some_and(|n| n.contains(number));
                    prop_assert_eq!(is_wanted, now.iter().any(has));
                }
            }
            before = now;
        }
    }

    /// Whatever members do, the log has it; and each partition has a member where there are any.
    #[test]
    fn a_group_is_read_back_as_it_was(
        steps in prop::collection::vec((0..4_u8, 0..3_u8), 1..30),
    ) {
        let topics = MemoryTopics::with(&[("t", 3), ("u", 2)]);
        let mut group = group(&topics);
        for (member, action) in steps {
            let name = format!("m{member}");
            let is_known = group.members.contains_key(&name);
            match action {
                0 if is_known => {
                    beat(&mut group, &going_on(&name, LEAVE_EPOCH), 1).expect("left");
                }
                1 if is_known => {
                    told(&mut group, &name);
                }
                _ => {
                    joined(&mut group, &name, &["t", "u"]);
                }
            }
            let members: Vec<String> = group.members.keys().cloned().collect();
            for member in &members {
                told(&mut group, member);
            }
            let assigned: BTreeSet<(TopicId, u32)> = { group.members.values() }
                .flat_map(|member| &member.current.assigned)
                .flat_map(|(topic, numbers)| numbers.iter().map(|number| (*topic, *number)))
                .collect();
            prop_assert_eq!(assigned.len(), if members.is_empty() { 0 } else { 5 });
            written(&mut group);
        }
        let restored = restored(&topics, parts(&group)).expect("a group");
        prop_assert_eq!(restored.describe(), group.describe());
        prop_assert_eq!(&restored.states, &group.states);
        prop_assert_eq!(restored.memory_bytes(), group.memory_bytes());
    }
}
