mod bounds;
mod consumers;
mod partitions;
mod share;
mod transactional;

use std::{pin::pin, sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use millrace_log::TransactionMarker;
use millrace_tasks::Supervisor;
use millrace_time::{ManualClock, SeededRandom};

use self::share::MemoryShareStates;
use super::*;
use crate::{
    config::ID_BYTES_MAX, log::memory::MemoryTopic, messages::Protocol, partitions::partition_of,
    topics::memory::MemoryTopics,
};

struct World {
    topic: Arc<MemoryTopic>,
    topics: Arc<MemoryTopics>,
    clock: Arc<ManualClock>,
    timers: Timers,
    coordinator: GroupCoordinator,
    states: Arc<MemoryShareStates>,
}

async fn open(topic: &Arc<MemoryTopic>, config: GroupConfig) -> World {
    open_with(topic, config, Arc::default()).await
}

async fn open_with(
    topic: &Arc<MemoryTopic>,
    config: GroupConfig,
    states: Arc<MemoryShareStates>,
) -> World {
    let clock = ManualClock::shared();
    let timers = Timers::new(clock.clone(), Supervisor::new());
    let topics = MemoryTopics::with(&[("t", 4)]);
    let parts = CoordinatorParts {
        tasks: Supervisor::new(),
        topic: topic.clone(),
        topics: topics.clone(),
        share_states: states.clone(),
        clock: clock.clone(),
        random: SeededRandom::shared(1),
        timers: timers.clone(),
        config,
    };
    let coordinator = GroupCoordinator::open(parts).await.expect("a good log");
    World {
        topic: topic.clone(),
        topics,
        clock,
        timers,
        coordinator,
        states,
    }
}

async fn ready(partitions: usize, config: GroupConfig) -> World {
    let world = open(&MemoryTopic::new(partitions), config).await;
    world.coordinator.ready().await.expect("created");
    world
}

fn partition(topic: &str) -> TopicPartition {
    TopicPartition {
        topic: TopicName::new(topic).expect("legal"),
        partition: 0,
    }
}

fn at(offset: i64) -> CommittedOffset {
    CommittedOffset {
        offset,
        leader_epoch: 3,
        metadata: "note".into(),
        commit_ms: 0,
        expire_ms: None,
    }
}

fn nobody() -> Caller {
    Caller {
        generation: -1,
        ..Caller::default()
    }
}

fn join_request(group_id: &str, member_id: &str) -> JoinRequest {
    JoinRequest {
        group_id: group_id.into(),
        member_id: member_id.into(),
        instance_id: None,
        client_id: "c".into(),
        client_host: "/127.0.0.1".into(),
        session_timeout: Duration::from_secs(10),
        rebalance_timeout: Duration::from_secs(10),
        protocol_type: "consumer".into(),
        protocols: vec![Protocol {
            name: "range".into(),
            metadata: Bytes::from_static(b"m"),
        }],
        requires_known_member_id: false,
        can_skip_assignment: false,
    }
}

async fn stable_member(coordinator: &GroupCoordinator, group_id: &str) -> Caller {
    let joined = coordinator
        .join(join_request(group_id, ""))
        .await
        .expect("alone");
    let caller = Caller {
        member_id: joined.member_id.clone(),
        instance_id: None,
        generation: joined.generation,
    };
    let request = SyncRequest {
        group_id: group_id.into(),
        caller: caller.clone(),
        protocol_type: None,
        protocol: None,
        assignments: vec![(joined.member_id, Bytes::from_static(b"all"))],
    };
    assert_eq!(
        coordinator.sync(request).await.expect("leader").assignment,
        "all"
    );
    caller
}

#[test]
fn groups_live_where_kafka_puts_them() {
    // From java.lang.String.hashCode.
    assert_eq!(partition_of("", 50), 0);
    assert_eq!(partition_of("a", 50), 97 % 50);
    assert_eq!(partition_of("console-consumer-1", 50), {
        let hash = "console-consumer-1"
            .bytes()
            .fold(0_i64, |h, b| (h * 31 + i64::from(b)) % (1 << 32));
        usize::try_from((hash & 0x7fff_ffff) % 50).expect("small")
    });
    // "polygenelubricants" hashes to the smallest 32-bit number, whose absolute value overflows.
    assert_eq!(partition_of("polygenelubricants", 50), 0);
}

#[tokio::test]
async fn nothing_is_served_before_the_topic_exists() {
    let world = open(&MemoryTopic::new(2), GroupConfig::default()).await;
    let commit = world
        .coordinator
        .commit("g", &nobody(), vec![(partition("t"), at(1))]);
    assert_eq!(commit.await, Err(GroupError::CoordinatorNotAvailable));
    assert_eq!(world.coordinator.list(), []);
    world.coordinator.ready().await.expect("created");
    let commit = world
        .coordinator
        .commit("g", &nobody(), vec![(partition("t"), at(1))]);
    assert_eq!(commit.await, Ok(()));
}

#[tokio::test]
async fn a_commit_is_seen_and_answered_only_when_it_is_durable() {
    let world = ready(1, GroupConfig::default()).await;
    world.topic.logs[0].durable.send_replace(false);
    let mut commit = world
        .coordinator
        .commit("g", &nobody(), vec![(partition("t"), at(7))]);
    let early = tokio::time::timeout(Duration::from_millis(20), &mut commit).await;
    assert!(early.is_err(), "answered before it was durable");
    assert_eq!(
        world.coordinator.offsets("g", &[partition("t")]),
        Ok(vec![None])
    );
    world.topic.logs[0].durable.send_replace(true);
    assert_eq!(commit.await, Ok(()));
    let found = world
        .coordinator
        .offsets("g", &[partition("t"), partition("u")]);
    assert_eq!(found, Ok(vec![Some(at(7)), None]));
    assert_eq!(
        world.coordinator.all_offsets("g"),
        Ok(vec![(partition("t"), at(7))])
    );
}

#[tokio::test]
async fn groups_and_offsets_survive_a_restart() {
    let world = ready(4, GroupConfig::default()).await;
    for group in ["a", "b", "c", "d", "e"] {
        let caller = stable_member(&world.coordinator, group).await;
        for offset in [5, 6] {
            let offsets = vec![
                (partition("t"), at(offset)),
                (partition("u"), at(offset + 10)),
            ];
            world
                .coordinator
                .commit(group, &caller, offsets)
                .await
                .expect("a member");
        }
    }
    let before = world.coordinator.describe("b").expect("a group");
    world.coordinator.close().await;

    let again = open(&world.topic, GroupConfig::default()).await;
    assert_eq!(again.coordinator.list().len(), 5);
    assert_eq!(again.coordinator.describe("b"), Ok(before.clone()));
    let offsets = again.coordinator.all_offsets("e").expect("loaded");
    assert_eq!(
        offsets,
        vec![(partition("t"), at(6)), (partition("u"), at(16))]
    );
    let member = &before.members[0].member_id;
    let caller = Caller {
        member_id: member.clone(),
        instance_id: None,
        generation: 1,
    };
    assert_eq!(again.coordinator.heartbeat("b", &caller), Ok(()));
}

#[tokio::test]
async fn groups_of_a_corrupt_log_are_not_available_and_all_others_are() {
    let world = ready(2, GroupConfig::default()).await;
    let on = |index| {
        let names = (0..).map(|n| format!("g{n}"));
        let mut there = names.filter(move |name| partition_of(name, 2) == index);
        there.next().expect("one of many")
    };
    let (lost, served) = (on(0), on(1));
    for group in [&lost, &served] {
        let offsets = vec![(partition("t"), at(5))];
        let committed = world.coordinator.commit(group, &nobody(), offsets);
        committed.await.expect("durable");
    }
    world.coordinator.close().await;

    world.topic.logs[0].corrupt.store(true, Ordering::SeqCst);
    let again = open(&world.topic, GroupConfig::default()).await;
    let offsets = |group: &str| again.coordinator.offsets(group, &[partition("t")]);
    // An empty answer would send its consumers to the beginning or the end.
    assert_eq!(offsets(&lost), Err(GroupError::CoordinatorNotAvailable));
    let commit = vec![(partition("t"), at(6))];
    let refused = again.coordinator.commit(&lost, &nobody(), commit).await;
    assert_eq!(refused, Err(GroupError::CoordinatorNotAvailable));
    assert_eq!(offsets(&served), Ok(vec![Some(at(5))]));
}

#[tokio::test]
async fn a_long_log_is_rewritten_and_says_the_same() {
    let config = GroupConfig {
        rewrite_after_records: 100,
        ..GroupConfig::default()
    };
    let world = ready(1, config.clone()).await;
    let caller = stable_member(&world.coordinator, "g").await;
    for round in 0..50 {
        let commits: Vec<_> = (0..20)
            .map(|i| {
                let offsets = vec![(partition("t"), at(round * 20 + i))];
                world.coordinator.commit("g", &caller, offsets)
            })
            .collect();
        for commit in commits {
            commit.await.expect("a member");
        }
    }
    assert!(
        world.topic.logs[0].records() < 250,
        "{} records",
        world.topic.logs[0].records()
    );
    let before = world.coordinator.describe("g");
    world.coordinator.close().await;
    let again = open(&world.topic, config).await;
    assert_eq!(
        again.coordinator.offsets("g", &[partition("t")]),
        Ok(vec![Some(at(999))])
    );
    assert_eq!(again.coordinator.describe("g"), before);
}

#[tokio::test]
async fn the_last_of_many_commits_in_flight_wins() {
    let world = ready(1, GroupConfig::default()).await;
    world.topic.logs[0].durable.send_replace(false);
    let commit = |offset| {
        world
            .coordinator
            .commit("g", &nobody(), vec![(partition("t"), at(offset))])
    };
    let commits: Vec<_> = (0..1_000).map(commit).collect();
    tokio::task::yield_now().await;
    world.topic.logs[0].durable.send_replace(true);
    for commit in commits {
        commit.await.expect("durable");
    }
    assert_eq!(
        world.coordinator.offsets("g", &[partition("t")]),
        Ok(vec![Some(at(999))])
    );
    assert!(
        world.topic.logs[0].batches().len() < 100,
        "what waits shares batches"
    );
}

#[tokio::test]
async fn a_broken_log_is_told_and_loses_nothing_that_was_acknowledged() {
    let world = ready(1, GroupConfig::default()).await;
    world
        .coordinator
        .commit("g", &nobody(), vec![(partition("t"), at(1))])
        .await
        .expect("good");
    world.topic.logs[0].broken.store(true, Ordering::SeqCst);
    let commit = world
        .coordinator
        .commit("g", &nobody(), vec![(partition("t"), at(2))]);
    assert_eq!(commit.await, Err(GroupError::CoordinatorNotAvailable));
    assert_eq!(
        world.coordinator.offsets("g", &[partition("t")]),
        Ok(vec![Some(at(1))])
    );
    assert_eq!(
        world.coordinator.delete("g").await,
        Err(GroupError::CoordinatorNotAvailable)
    );
    world.topic.logs[0].broken.store(false, Ordering::SeqCst);
    assert_eq!(world.coordinator.delete("g").await, Ok(()));
}

#[tokio::test]
async fn a_deleted_group_is_gone_for_good() {
    let world = ready(1, GroupConfig::default()).await;
    assert_eq!(
        world.coordinator.delete("g").await,
        Err(GroupError::GroupIdNotFound)
    );
    let caller = stable_member(&world.coordinator, "g").await;
    world
        .coordinator
        .commit("g", &caller, vec![(partition("t"), at(1))])
        .await
        .expect("durable");
    assert_eq!(
        world.coordinator.delete("g").await,
        Err(GroupError::NonEmptyGroup)
    );
    let leaving = Leaving {
        member_id: caller.member_id,
        instance_id: None,
    };
    assert_eq!(world.coordinator.leave("g", &[leaving]), Ok(vec![Ok(())]));
    assert_eq!(world.coordinator.delete("g").await, Ok(()));
    assert_eq!(
        world.coordinator.describe("g"),
        Err(GroupError::GroupIdNotFound)
    );
    world.coordinator.close().await;
    let again = open(&world.topic, GroupConfig::default()).await;
    assert_eq!(again.coordinator.list(), []);
    assert_eq!(
        again.coordinator.offsets("g", &[partition("t")]),
        Ok(vec![None])
    );
}

#[tokio::test]
async fn alarms_end_the_sessions_of_the_silent() {
    let world = ready(1, GroupConfig::default()).await;
    stable_member(&world.coordinator, "g").await;
    world.clock.advance(Duration::from_secs(9));
    world.timers.fire_due();
    assert_eq!(
        world.coordinator.describe("g").expect("a group").state,
        GroupState::Stable
    );
    world.clock.advance(Duration::from_secs(2));
    world.timers.fire_due();
    assert_eq!(
        world.coordinator.describe("g").expect("a group").state,
        GroupState::Empty
    );
}

#[tokio::test]
async fn a_group_that_came_to_nothing_leaves_nothing() {
    let world = ready(1, GroupConfig::default()).await;
    let mut request = join_request("g", "");
    request.requires_known_member_id = true;
    let refused = world.coordinator.join(request).await;
    assert!(matches!(refused, Err(GroupError::MemberIdRequired(_))));
    assert_eq!(world.coordinator.list().len(), 1);
    world.clock.advance(Duration::from_secs(11));
    world.timers.fire_due();
    assert_eq!(world.coordinator.list(), []);
    assert_eq!(world.coordinator.0.ground.count.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn offsets_in_deleted_topics_go() {
    let world = ready(1, GroupConfig::default()).await;
    let offsets = vec![(partition("t"), at(1)), (partition("u"), at(2))];
    world
        .coordinator
        .commit("g", &nobody(), offsets)
        .await
        .expect("durable");
    world
        .coordinator
        .topics_deleted(&BTreeSet::from([partition("t").topic]))
        .await;
    assert_eq!(
        world.coordinator.all_offsets("g"),
        Ok(vec![(partition("u"), at(2))])
    );
}

#[tokio::test]
async fn a_commit_that_was_under_way_when_its_topic_was_deleted_leaves_no_offset() {
    let world = ready(1, GroupConfig::default()).await;
    world.topic.logs[0].durable.send_replace(false);
    let offsets = vec![(partition("t"), at(1)), (partition("u"), at(2))];
    let commit = world.coordinator.commit("g", &nobody(), offsets);
    let gone = BTreeSet::from([partition("t").topic]);
    let mut deleted = pin!(world.coordinator.topics_deleted(&gone));
    let early = tokio::time::timeout(Duration::from_millis(20), &mut deleted).await;
    assert!(early.is_err(), "done before the offsets could go");
    world.topic.logs[0].durable.send_replace(true);
    deleted.await;
    assert_eq!(commit.await, Ok(()));
    let left = Ok(vec![(partition("u"), at(2))]);
    assert_eq!(world.coordinator.all_offsets("g"), left);

    let again = open(&world.topic, GroupConfig::default()).await;
    assert_eq!(again.coordinator.all_offsets("g"), left);
}

#[tokio::test]
async fn expired_offsets_and_then_the_group_are_swept() {
    let world = ready(1, GroupConfig::default()).await;
    world
        .coordinator
        .commit("g", &nobody(), vec![(partition("t"), at(1))])
        .await
        .expect("durable");
    // Each barrier in a group of its own: the sweep takes the one before.
    let sweep = async |barrier: &str| {
        let shard = world.coordinator.0.partitions.serving().remove(0);
        shard.cells().iter().for_each(|cell| sweep(&shard, cell));
        let barrier = world.coordinator.commit(barrier, &nobody(), Vec::new());
        barrier.await.expect("an empty commit is finished in order");
    };
    sweep("first").await;
    assert_eq!(world.coordinator.all_offsets("g").expect("ready").len(), 1);
    world
        .clock
        .advance(GroupConfig::default().offsets_retention);
    sweep("second").await;
    assert_eq!(world.coordinator.all_offsets("g"), Ok(Vec::new()));
    sweep("third").await;
    assert_eq!(
        world.coordinator.describe("g"),
        Err(GroupError::GroupIdNotFound)
    );
}

#[tokio::test]
async fn closing_answers_everyone() {
    let world = ready(1, GroupConfig::default()).await;
    let commit = world
        .coordinator
        .commit("g", &nobody(), vec![(partition("t"), at(1))]);
    world.coordinator.close().await;
    assert_eq!(commit.await, Ok(()), "taken before the end");
    let late = world
        .coordinator
        .commit("g", &nobody(), vec![(partition("t"), at(2))]);
    assert_eq!(late.await, Err(GroupError::CoordinatorNotAvailable));
}

#[tokio::test]
async fn what_is_being_committed_can_be_waited_for() {
    let world = ready(1, GroupConfig::default()).await;
    assert!(world.coordinator.settling("g").is_none());
    world.topic.logs[0].durable.send_replace(false);
    let commit = world
        .coordinator
        .commit("g", &nobody(), vec![(partition("t"), at(1))]);
    let mut settled = world
        .coordinator
        .settling("g")
        .expect("a commit is under way");
    let early = tokio::time::timeout(Duration::from_millis(20), &mut settled).await;
    assert!(early.is_err(), "settled before it was durable");
    world.topic.logs[0].durable.send_replace(true);
    assert_eq!((settled.await, commit.await), (Ok(()), Ok(())));
    assert_eq!(
        world.coordinator.offsets("g", &[partition("t")]),
        Ok(vec![Some(at(1))])
    );
    assert!(world.coordinator.settling("g").is_none());
}

/// The bucket may be away for longer than any session.
#[tokio::test(start_paused = true)]
async fn groups_that_load_late_keep_their_members_and_until_then_no_topic_may_be_deleted() {
    let world = ready(1, GroupConfig::default()).await;
    assert!(!world.coordinator.is_loading());
    let caller = stable_member(&world.coordinator, "g").await;
    world.coordinator.close().await;
    let log = &world.topic.logs[0];
    log.broken.store(true, Ordering::SeqCst);
    let again = open(&world.topic, GroupConfig::default()).await;
    assert!(again.coordinator.is_loading());
    assert_eq!(
        again.coordinator.heartbeat("g", &caller),
        Err(GroupError::CoordinatorLoading)
    );
    again.clock.advance(Duration::from_secs(3_600));
    log.broken.store(false, Ordering::SeqCst);
    while again.coordinator.is_loading() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(again.coordinator.heartbeat("g", &caller), Ok(()));
}
