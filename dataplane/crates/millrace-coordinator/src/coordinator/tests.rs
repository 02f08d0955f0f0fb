mod consumers;
mod partitions;
mod transactional;

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, AtomicI32, Ordering},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use millrace_log::TransactionMarker;
use millrace_model::{Cause, FailureClass, Offset};
use millrace_record::{TransactionEnd, split};
use millrace_tasks::Supervisor;
use millrace_time::{ManualClock, SeededRandom};
use tokio::sync::watch;

use super::*;
use crate::{
    config::ID_BYTES_MAX,
    log::{BoxFuture, Durable, LogFault, StateLog},
    messages::Protocol,
    partitions::partition_of,
    topics::memory::MemoryTopics,
};

/// A log in memory whose device can be held up or broken.
#[derive(Debug)]
pub(crate) struct MemoryLog {
    batches: Mutex<Vec<(Offset, Bytes)>>,
    start: Mutex<Offset>,
    end: Mutex<Offset>,
    /// Appends become durable while this is true.
    pub(crate) durable: watch::Sender<bool>,
    pub(crate) broken: AtomicBool,
    /// Its bytes in storage are not what was written.
    corrupt: AtomicBool,
    /// Trims take place later than anybody looks.
    pub(crate) keep_all: AtomicBool,
    /// The epoch of its last leader.
    epoch: AtomicI32,
}

impl MemoryLog {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            batches: Mutex::default(),
            start: Mutex::new(0),
            end: Mutex::new(0),
            durable: watch::Sender::new(true),
            broken: AtomicBool::new(false),
            corrupt: AtomicBool::new(false),
            keep_all: AtomicBool::new(false),
            epoch: AtomicI32::new(0),
        })
    }

    pub(crate) fn records(&self) -> Offset {
        *self.end.lock() - *self.start.lock()
    }

    /// Its batches, oldest first.
    pub(crate) fn batches(&self) -> Vec<Bytes> {
        let batches = self.batches.lock();
        batches.iter().map(|(_, batch)| batch.clone()).collect()
    }

    /// Loses what never became durable.
    pub(crate) fn truncate(&self, end: Offset) {
        *self.end.lock() = end;
        self.batches.lock().retain(|(base, _)| *base < end);
    }
}

/// A log in memory, for as long as this broker leads its partition.
pub(crate) struct Led {
    log: Arc<MemoryLog>,
    lost: watch::Sender<bool>,
    epoch: i32,
}

impl Led {
    fn new(log: &Arc<MemoryLog>) -> Arc<Self> {
        Arc::new(Self {
            log: log.clone(),
            lost: watch::Sender::new(false),
            epoch: log.epoch.fetch_add(1, Ordering::SeqCst) + 1,
        })
    }

    fn lost() -> LogFault {
        LogFault(Cause::of(FailureClass::Gone, "led elsewhere"))
    }

    fn check(&self) -> Result<(), LogFault> {
        if *self.lost.borrow() {
            return Err(Self::lost());
        }
        if self.log.broken.load(Ordering::SeqCst) {
            return Err(LogFault(Cause::of(FailureClass::Transient, "broken")));
        }
        Ok(())
    }
}

impl StateLog for Led {
    fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    fn epoch(&self) -> i32 {
        self.epoch
    }

    fn append_marker(&self, marker: TransactionMarker) -> BoxFuture<'_, Result<Durable, LogFault>> {
        let end = TransactionEnd {
            committed: marker.committed,
            coordinator_epoch: marker.coordinator_epoch,
        };
        self.append(end.batch((marker.producer_id, marker.producer_epoch), 1))
    }

    fn append(&self, batch: BytesMut) -> BoxFuture<'_, Result<Durable, LogFault>> {
        Box::pin(async {
            self.check()?;
            let mut batch = split(batch).expect("built here").remove(0);
            let base = {
                let mut end = self.log.end.lock();
                let base = *end;
                batch.restamp(base, 0, None);
                *end += u64::from(batch.count());
                self.log.batches.lock().push((base, batch.freeze()));
                base
            };
            let mut durable = self.log.durable.subscribe();
            let mut lost = self.lost.subscribe();
            let durable: Durable = Box::pin(async move {
                tokio::select! {
                    biased;
                    _ = durable.wait_for(|durable| *durable) => Ok(base),
                    _ = lost.wait_for(|lost| *lost) => Err(Self::lost()),
                }
            });
            Ok(durable)
        })
    }

    fn start(&self) -> Offset {
        *self.log.start.lock()
    }

    fn end(&self) -> Offset {
        *self.log.end.lock()
    }

    fn read(&self, offset: Offset) -> BoxFuture<'_, Result<Vec<Bytes>, LogFault>> {
        if self.log.corrupt.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(LogFault::corrupt("a flipped byte"))));
        }
        if let Err(fault) = self.check() {
            return Box::pin(std::future::ready(Err(fault)));
        }
        let batches = self.log.batches.lock();
        let found = batches.iter().rev().find(|(base, _)| *base <= offset);
        let found = found.map(|(_, batch)| batch.clone()).into_iter().collect();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn trim(&self, new_start: Offset) -> BoxFuture<'_, Result<(), LogFault>> {
        let trimmed = self.check().map(|()| {
            if self.log.keep_all.load(Ordering::SeqCst) {
                return;
            }
            *self.log.start.lock() = new_start;
            let mut batches = self.log.batches.lock();
            batches.retain(|(base, _)| *base >= new_start);
        });
        Box::pin(std::future::ready(trimmed))
    }
}

pub(crate) struct MemoryTopic {
    pub(crate) logs: Vec<Arc<MemoryLog>>,
    /// Nothing before the topic exists.
    led: Mutex<Option<Vec<Option<Arc<Led>>>>>,
    changes: watch::Sender<u64>,
}

impl MemoryTopic {
    pub(crate) fn new(partitions: usize) -> Arc<Self> {
        Self::of((0..partitions).map(|_| MemoryLog::new()).collect())
    }

    /// The topic as a broker sees it. Several can share its logs.
    pub(crate) fn of(logs: Vec<Arc<MemoryLog>>) -> Arc<Self> {
        Arc::new(Self {
            logs,
            led: Mutex::new(None),
            changes: watch::Sender::new(0),
        })
    }

    /// Another broker creates the topic, and leads all of it.
    pub(crate) fn create_elsewhere(&self) {
        *self.led.lock() = Some(vec![None; self.logs.len()]);
        self.changed();
    }

    pub(crate) fn gain(&self, index: usize) {
        let led = Some(Led::new(&self.logs[index]));
        self.led.lock().as_mut().expect("created")[index] = led;
        self.changed();
    }

    pub(crate) fn lose(&self, index: usize) {
        self.lose_unnoticed(index);
        self.changed();
    }

    fn lose_unnoticed(&self, index: usize) {
        let led = self.led.lock().as_mut().expect("created")[index].take();
        led.expect("led").lost.send_replace(true);
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }
}

impl StateTopic for MemoryTopic {
    fn partitions(&self) -> Option<Vec<Option<Arc<dyn StateLog>>>> {
        let led = self.led.lock();
        let log = |led: &Option<Arc<Led>>| led.clone().map(|led| led as Arc<dyn StateLog>);
        Some(led.as_ref()?.iter().map(log).collect())
    }

    fn create(&self) -> BoxFuture<'_, Result<(), LogFault>> {
        let all = || self.logs.iter().map(Led::new).map(Some).collect();
        self.led.lock().get_or_insert_with(all);
        Box::pin(std::future::ready(Ok(())))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

struct World {
    topic: Arc<MemoryTopic>,
    clock: Arc<ManualClock>,
    timers: Timers,
    coordinator: GroupCoordinator,
}

async fn open(topic: &Arc<MemoryTopic>, config: GroupConfig) -> World {
    let clock = ManualClock::shared();
    let timers = Timers::new(clock.clone(), Supervisor::new());
    let parts = CoordinatorParts {
        tasks: Supervisor::new(),
        topic: topic.clone(),
        topics: MemoryTopics::with(&[("t", 4)]),
        clock: clock.clone(),
        random: SeededRandom::shared(1),
        timers: timers.clone(),
        config,
    };
    let coordinator = GroupCoordinator::open(parts).await.expect("a good log");
    World {
        topic: topic.clone(),
        clock,
        timers,
        coordinator,
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
        world.topic.logs[0].batches.lock().len() < 100,
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
async fn what_is_out_of_bounds_is_refused() {
    let world = ready(1, GroupConfig::default()).await;
    let join = |request| world.coordinator.join(request);
    assert_eq!(
        join(join_request("", "")).await,
        Err(GroupError::InvalidGroupId)
    );
    let long = "g".repeat(ID_BYTES_MAX + 1);
    assert_eq!(
        join(join_request(&long, "")).await,
        Err(GroupError::InvalidGroupId)
    );
    assert_eq!(
        join(join_request("g", "x")).await,
        Err(GroupError::UnknownMemberId)
    );
    for seconds in [5, 1_801] {
        let mut request = join_request("g", "");
        request.session_timeout = Duration::from_secs(seconds);
        assert_eq!(join(request).await, Err(GroupError::InvalidSessionTimeout));
    }
    let stale = Caller {
        member_id: "x".into(),
        instance_id: None,
        generation: 4,
    };
    let commit = world.coordinator.commit("none", &stale, Vec::new());
    assert_eq!(commit.await, Err(GroupError::GroupIdNotFound));
    assert_eq!(
        world.coordinator.heartbeat("none", &stale),
        Err(GroupError::UnknownMemberId)
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

const MEMORY: u64 = 1 << 20;

/// A world with a group that is stable and has committed, and others that fill the memory to the
/// last offset; how many of those with large subscriptions were let in.
async fn full() -> (World, Caller, usize) {
    let config = GroupConfig {
        memory_bytes: MEMORY,
        ..GroupConfig::default()
    };
    let world = ready(4, config).await;
    let coordinator = &world.coordinator;
    let caller = stable_member(coordinator, "first").await;
    let offsets = vec![(partition("t"), at(1))];
    let committed = coordinator.commit("first", &caller, offsets.clone());
    committed.await.expect("there is room");
    let mut joined = 0;
    for group in 0..1_000 {
        let mut request = join_request(&format!("large-{group}"), "");
        request.protocols[0].metadata = Bytes::from(vec![0; 100_000]);
        match coordinator.join(request).await {
            Ok(_) => joined += 1,
            Err(error) => assert_eq!(error, GroupError::MemoryFull),
        }
        assert!(coordinator.memory_bytes() <= MEMORY);
    }
    for small in 0.. {
        let commit = coordinator.commit(&format!("small-{small}"), &nobody(), offsets.clone());
        if commit.await.is_err() {
            break;
        }
    }
    for topic in 0.. {
        let offsets = vec![(partition(&format!("t{topic}")), at(1))];
        if coordinator.commit("first", &caller, offsets).await.is_err() {
            break;
        }
    }
    (world, caller, joined)
}

/// A hundred thousand groups with large subscriptions, scaled down: what fits is served, what does not
/// is refused, and nothing of the refused stays.
#[tokio::test]
async fn all_groups_together_have_a_bound() {
    let (world, _, joined) = full().await;
    let coordinator = &world.coordinator;
    assert!(MEMORY - coordinator.memory_bytes() < 1_000);
    let large = |listing: &GroupListing| listing.group_id.starts_with("large");
    assert!((5..=10).contains(&joined), "{joined} of 100 KB in 1 MiB");
    assert_eq!(
        coordinator.list().iter().filter(|l| large(l)).count(),
        joined
    );
    // Whoever goes makes room.
    let commit = || coordinator.commit("new", &nobody(), vec![(partition("t"), at(1))]);
    assert_eq!(commit().await, Err(GroupError::MemoryFull));
    coordinator.delete("small-0").await.expect("empty");
    assert_eq!(commit().await, Ok(()));
}

#[tokio::test]
async fn a_group_that_is_there_goes_on_where_groups_have_all_their_memory() {
    let (world, caller, _) = full().await;
    let coordinator = &world.coordinator;
    let again = coordinator.commit("first", &caller, vec![(partition("t"), at(2))]);
    assert_eq!(again.await, Ok(()));
    let rejoined = coordinator.join(join_request("first", &caller.member_id));
    let rejoined = rejoined.await.expect("nothing more is asked for");
    let caller = Caller {
        generation: rejoined.generation,
        ..caller
    };
    let request = SyncRequest {
        group_id: "first".into(),
        caller: caller.clone(),
        protocol_type: None,
        protocol: None,
        assignments: vec![(caller.member_id.clone(), Bytes::from_static(b"all"))],
    };
    let synced = coordinator.sync(request).await.expect("leads");
    assert_eq!(synced.assignment, "all");
    assert_eq!(coordinator.heartbeat("first", &caller), Ok(()));
    let more = vec![(partition("t"), at(3)), (partition("other"), at(1))];
    let refused = coordinator.commit("first", &caller, more).await;
    assert_eq!(refused, Err(GroupError::MemoryFull));
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

/// The bound may have become smaller, with a smaller machine.
#[tokio::test]
async fn groups_that_were_there_are_loaded_whatever_they_may_have_now() {
    let (world, caller, _) = full().await;
    let used = world.coordinator.memory_bytes();
    world.coordinator.close().await;
    let smaller = GroupConfig {
        memory_bytes: 1_000,
        ..GroupConfig::default()
    };
    let again = open(&world.topic, smaller).await.coordinator;
    assert!(again.memory_bytes() > 1_000 && again.memory_bytes() <= used);
    assert_eq!(again.heartbeat("first", &caller), Ok(()));
    let new = again.join(join_request("new", ""));
    assert_eq!(new.await, Err(GroupError::MemoryFull));
}

/// Members that never come back with the id they were given, and writes that the device does not take,
/// cost memory as well.
#[tokio::test]
async fn what_waits_is_charged_until_it_is_gone() {
    let world = ready(1, GroupConfig::default()).await;
    let coordinator = &world.coordinator;
    let empty = coordinator.memory_bytes();
    let mut request = join_request("g", "");
    request.requires_known_member_id = true;
    request.client_id = "c".repeat(10_000);
    let answer = coordinator.join(request).await;
    assert!(matches!(answer, Err(GroupError::MemberIdRequired(_))));
    assert!(coordinator.memory_bytes() > empty + 10_000);
    world.clock.advance(Duration::from_secs(11));
    world.timers.fire_due();
    assert_eq!(coordinator.memory_bytes(), empty);

    world.topic.logs[0].durable.send_replace(false);
    let mut waiting = Vec::new();
    let refused = loop {
        let offsets = (0..1_000).map(|p| TopicPartition {
            partition: p,
            ..partition("t")
        });
        let offsets = offsets.map(|partition| (partition, at(1))).collect();
        let mut commit = pin!(coordinator.commit("g", &nobody(), offsets));
        match futures_util::poll!(commit.as_mut()) {
            Poll::Ready(refused) => break refused,
            Poll::Pending => waiting.push(()),
        }
        assert!(
            waiting.len() < 1_000,
            "nothing bounds what waits for the device"
        );
    };
    assert_eq!(refused, Err(GroupError::CoordinatorNotAvailable));
    assert!(coordinator.metrics().writes_bytes <= GROUP_WRITES_BYTES_MAX);
    world.topic.logs[0].durable.send_replace(true);
    let offsets = vec![(partition("t"), at(1))];
    while coordinator
        .commit("g", &nobody(), offsets.clone())
        .await
        .is_err()
    {
        tokio::task::yield_now().await;
    }
    assert_eq!(coordinator.metrics().offsets, 1_000);
}
