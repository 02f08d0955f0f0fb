use std::time::Duration;

use bytes::Bytes;
use millrace_model::TopicId;
use millrace_record::records;
use millrace_tasks::Supervisor;
use millrace_time::ManualClock;
use tokio::time::sleep;

use super::{messages::ShareStateConfig, record::decode_key, *};
use crate::{log::memory::MemoryTopic, share_state::ShareStateBatch, topics::memory::MemoryTopics};

struct World {
    topic: Arc<MemoryTopic>,
    topics: Arc<MemoryTopics>,
    coordinator: ShareCoordinator,
}

const AVAILABLE: i8 = 0;
const ACKNOWLEDGED: i8 = 2;

impl World {
    async fn new() -> Self {
        Self::with(ShareStateConfig::default()).await
    }

    async fn with(config: ShareStateConfig) -> Self {
        let topic = MemoryTopic::new(1);
        topic.create_elsewhere();
        topic.gain(0);
        let clock = ManualClock::shared();
        let topics = MemoryTopics::with(&[("t", 2)]);
        let coordinator = ShareCoordinator::open(ShareCoordinatorParts {
            topic: topic.clone(),
            topics: topics.clone(),
            clock: clock.clone(),
            timers: millrace_purgatory::Timers::new(clock, Supervisor::new()),
            tasks: Supervisor::new(),
            config,
        })
        .await
        .expect("a good log");
        Self {
            topic,
            topics,
            coordinator,
        }
    }

    fn partition(&self, partition: i32) -> SharePartition {
        SharePartition {
            group_id: "g".into(),
            topic_id: self.topics.id("t"),
            partition,
        }
    }

    async fn initialize(&self, epoch: i32, start: Option<Offset>) -> Result<(), ShareError> {
        let partition = self.partition(0);
        self.coordinator.initialize(&partition, epoch, start).await
    }

    async fn read(&self, leader_epoch: i32) -> Result<ShareState, ShareError> {
        let partition = self.partition(0);
        self.coordinator.read(&partition, leader_epoch).await
    }

    async fn write(&self, change: ShareState) -> Result<(), ShareError> {
        self.coordinator.write(&self.partition(0), change).await
    }

    async fn lose_and_gain(&self) {
        self.topic.lose(0);
        sleep(Duration::from_millis(10)).await;
        self.topic.gain(0);
        sleep(Duration::from_millis(10)).await;
    }

    /// What the log holds, oldest first.
    fn history(&self) -> Vec<(Kind, Option<Bytes>)> {
        let mut history = Vec::new();
        for batch in self.topic.logs[0].batches() {
            for record in records(&batch).expect("sound") {
                let record = record.expect("sound");
                let key = decode_key(&record.key.expect("a key")).expect("a key");
                history.push((key.expect("a known kind").0, record.value));
            }
        }
        history
    }

    fn kinds(&self) -> Vec<Kind> {
        self.history().into_iter().map(|(kind, _)| kind).collect()
    }
}

fn batch(
    first_offset: Offset,
    last_offset: Offset,
    delivery_state: i8,
    delivery_count: i16,
) -> ShareStateBatch {
    ShareStateBatch {
        first_offset,
        last_offset,
        delivery_state,
        delivery_count,
    }
}

fn change(leader_epoch: i32, start: Option<Offset>, batches: &[ShareStateBatch]) -> ShareState {
    ShareState {
        state_epoch: 1,
        leader_epoch,
        start_offset: start,
        batches: batches.to_vec(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_is_initialized_written_read_and_deleted() {
    let world = World::new().await;
    assert_eq!(world.read(3).await, Err(ShareError::Uninitialized));
    let early = world.write(change(3, None, &[])).await;
    assert_eq!(early, Err(ShareError::Uninitialized));
    let summary = world.coordinator.read_summary(&world.partition(0));
    assert_eq!(summary, Ok(ShareState::default()));
    assert_eq!(world.initialize(1, None).await, Ok(()));
    assert_eq!(world.read(3).await, Ok(change(3, None, &[])));
    let first = [batch(10, 19, AVAILABLE, 1)];
    assert_eq!(world.write(change(3, Some(10), &first)).await, Ok(()));
    let second = [batch(10, 11, ACKNOWLEDGED, 1)];
    assert_eq!(world.write(change(3, None, &second)).await, Ok(()));
    let expected = [second[0], batch(12, 19, AVAILABLE, 1)];
    assert_eq!(world.read(3).await, Ok(change(3, Some(10), &expected)));
    let summary = world.coordinator.read_summary(&world.partition(0));
    assert_eq!(summary, Ok(change(3, Some(10), &[])));
    // The other partition is another one.
    let other = world.coordinator.read(&world.partition(1), 3).await;
    assert_eq!(other, Err(ShareError::Uninitialized));
    world.lose_and_gain().await;
    assert_eq!(world.read(3).await, Ok(change(3, Some(10), &expected)));
    for _ in 0..2 {
        let deleted = world.coordinator.delete(&world.partition(0)).await;
        assert_eq!(deleted, Ok(()));
        assert_eq!(world.read(3).await, Err(ShareError::Uninitialized));
        world.lose_and_gain().await;
    }
    assert_eq!(world.coordinator.metrics().partitions, 0);
    assert_eq!(world.initialize(1, Some(5)).await, Ok(()));
    assert_eq!(world.read(0).await, Ok(change(0, Some(5), &[])));
}

#[tokio::test(start_paused = true)]
async fn a_newer_leader_fences_older_ones() {
    let world = World::new().await;
    world.initialize(1, Some(0)).await.expect("new");
    world.read(5).await.expect("the leader");
    let fenced = Err(ShareError::FencedLeaderEpoch);
    assert_eq!(world.read(4).await.map(drop), fenced);
    assert_eq!(world.write(change(4, None, &[])).await, fenced);
    world.lose_and_gain().await;
    assert_eq!(
        world.write(change(4, None, &[])).await,
        fenced,
        "it is in the log"
    );
    // A write of no leader, as an administrator's.
    assert_eq!(world.write(change(NO_EPOCH, Some(3), &[])).await, Ok(()));
    let restarted = world.initialize(2, Some(0)).await;
    assert_eq!(restarted, Ok(()));
    assert_eq!(
        world.read(4).await.map(drop),
        fenced,
        "also by a state that was restarted"
    );
    assert_eq!(
        world.write(change(5, None, &[])).await,
        Err(ShareError::FencedStateEpoch)
    );
    let read = world.read(5).await.expect("the leader");
    assert_eq!((read.state_epoch, read.start_offset), (2, Some(0)));
}

/// Once the read of a new leader is on its way, no write of an older one may come behind it.
#[tokio::test(start_paused = true)]
async fn a_read_on_its_way_fences_and_sees_all_earlier_writes() {
    let world = World::new().await;
    world.initialize(1, Some(0)).await.expect("new");
    world.topic.logs[0].durable.send_replace(false);
    let acknowledged = [batch(0, 4, ACKNOWLEDGED, 1)];
    let earlier = world.write(change(1, None, &acknowledged));
    let read = world.read(2);
    let late = async {
        sleep(Duration::from_millis(1)).await;
        let late = world
            .write(change(1, None, &[batch(5, 9, ACKNOWLEDGED, 1)]))
            .await;
        world.topic.logs[0].durable.send_replace(true);
        late
    };
    let (earlier, read, late) = tokio::join!(earlier, read, late);
    assert_eq!(earlier, Ok(()));
    assert_eq!(late, Err(ShareError::FencedLeaderEpoch));
    assert_eq!(read, Ok(change(2, Some(0), &acknowledged)));
}

#[tokio::test(start_paused = true)]
async fn a_state_epoch_is_initialized_once() {
    let world = World::new().await;
    world.initialize(4, Some(7)).await.expect("new");
    let written = ShareState {
        state_epoch: 4,
        ..change(0, Some(9), &[batch(10, 10, ACKNOWLEDGED, 1)])
    };
    world.write(written.clone()).await.expect("written");
    assert_eq!(world.initialize(4, Some(7)).await, Ok(()));
    assert_eq!(world.read(0).await, Ok(written));
    assert_eq!(
        world.initialize(3, None).await,
        Err(ShareError::FencedStateEpoch)
    );
    assert_eq!(world.initialize(5, None).await, Ok(()));
    let restarted = ShareState {
        state_epoch: 5,
        ..ShareState::default()
    };
    assert_eq!(world.read(0).await, Ok(restarted));
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_follows_so_many_updates() {
    let config = ShareStateConfig {
        updates_per_snapshot: 2,
        ..ShareStateConfig::default()
    };
    let world = World::with(config).await;
    world.initialize(1, Some(0)).await.expect("new");
    for offset in 0..5 {
        let batches = [batch(offset, offset, ACKNOWLEDGED, 1)];
        world
            .write(change(0, None, &batches))
            .await
            .expect("written");
    }
    use Kind::{Snapshot as S, Update as U};
    assert_eq!(world.kinds(), [S, U, U, S, U, U]);
    let (_, snapshot) = world.history().swap_remove(3);
    let snapshot = Snapshot::decode(&snapshot.expect("a value")).expect("sound");
    assert_eq!(snapshot.snapshot_epoch, 1);
    assert_eq!(snapshot.batches, [batch(0, 2, ACKNOWLEDGED, 1)]);
    world.lose_and_gain().await;
    let all = change(0, Some(0), &[batch(0, 4, ACKNOWLEDGED, 1)]);
    assert_eq!(world.read(0).await, Ok(all));
    // The updates since the snapshot were counted while the log was read.
    world.write(change(0, Some(5), &[])).await.expect("written");
    assert_eq!(world.kinds().pop(), Some(S));
    assert_eq!(world.read(0).await, Ok(change(0, Some(5), &[])));
}

#[tokio::test(start_paused = true)]
async fn a_log_is_rewritten_by_snapshots() {
    let config = ShareStateConfig {
        rewrite_after_records: 20,
        ..ShareStateConfig::default()
    };
    let world = World::with(config).await;
    world.initialize(1, Some(0)).await.expect("new");
    for offset in 0..50 {
        let batches = [batch(2 * offset, 2 * offset, ACKNOWLEDGED, 1)];
        world
            .write(change(0, None, &batches))
            .await
            .expect("written");
    }
    assert!(world.topic.logs[0].records() < 25);
    let before = world.read(0).await.expect("read");
    assert_eq!(before.batches.len(), 50);
    world.lose_and_gain().await;
    assert_eq!(world.read(0).await, Ok(before));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_overtaken_does_not_move_the_start_back() {
    let world = World::new().await;
    world.initialize(1, Some(0)).await.expect("new");
    world
        .write(change(0, Some(20), &[]))
        .await
        .expect("written");
    let late = [batch(5, 25, ACKNOWLEDGED, 1)];
    world
        .write(change(0, Some(10), &late))
        .await
        .expect("written");
    let expected = change(0, Some(20), &[batch(20, 25, ACKNOWLEDGED, 1)]);
    assert_eq!(world.read(0).await, Ok(expected.clone()));
    world.lose_and_gain().await;
    assert_eq!(world.read(0).await, Ok(expected));
}

#[tokio::test(start_paused = true)]
async fn what_is_malformed_or_too_large_is_refused() {
    let world = World::new().await;
    world.initialize(1, Some(0)).await.expect("new");
    for malformed in [
        batch(5, 4, ACKNOWLEDGED, 1),
        batch(0, u64::MAX, ACKNOWLEDGED, 1),
        batch(0, 1, 1, 1),
        batch(0, 1, ACKNOWLEDGED, -1),
    ] {
        let written = world.write(change(0, None, &[malformed])).await;
        assert_eq!(written, Err(ShareError::InvalidRequest), "{malformed:?}");
    }
    assert_eq!(
        world.initialize(-2, None).await,
        Err(ShareError::InvalidRequest)
    );
    let apart = |from: Offset, count: usize| -> Vec<ShareStateBatch> {
        let offsets = (from..).step_by(2).take(count);
        offsets.map(|at| batch(at, at, ACKNOWLEDGED, 1)).collect()
    };
    let half = SHARE_STATE_BATCHES_MAX / 2;
    world
        .write(change(0, None, &apart(0, half)))
        .await
        .expect("fits");
    let more = apart(2 * half as u64, half + 1);
    let refused = world.write(change(0, None, &more)).await;
    assert_eq!(refused, Err(ShareError::TooManyBatches));
    let moved = world.write(change(0, Some(4), &more)).await;
    assert_eq!(moved, Ok(()), "the start drops enough of them");
    let unknown = SharePartition {
        topic_id: TopicId(uuid::Uuid::from_u128(99)),
        ..world.partition(0)
    };
    for partition in [world.partition(2), unknown] {
        let refused = world.coordinator.read(&partition, 0).await;
        assert_eq!(refused, Err(ShareError::UnknownPartition));
    }
    for partition in [
        world.partition(-1),
        SharePartition {
            group_id: String::new(),
            ..world.partition(0)
        },
    ] {
        let refused = world.coordinator.initialize(&partition, 1, None).await;
        assert_eq!(refused, Err(ShareError::InvalidRequest));
    }
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let config = ShareStateConfig {
        memory_bytes: 4_000,
        ..ShareStateConfig::default()
    };
    let world = World::with(config).await;
    world.initialize(1, Some(0)).await.expect("new");
    let apart = (0..100).map(|at| batch(2 * at, 2 * at, ACKNOWLEDGED, 1));
    let apart: Vec<_> = apart.collect();
    let refused = world.write(change(0, None, &apart)).await;
    assert_eq!(refused, Err(ShareError::NoRoom));
    world
        .write(change(0, None, &apart[..5]))
        .await
        .expect("fits");
    assert!(world.coordinator.metrics().memory_bytes > 1_000);
    world
        .coordinator
        .delete(&world.partition(0))
        .await
        .expect("deleted");
    assert_eq!(world.coordinator.metrics().memory_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_does_not_take_writes_is_not_available() {
    let world = World::new().await;
    world.initialize(1, Some(0)).await.expect("new");
    let log = &world.topic.logs[0];
    log.broken.store(true, std::sync::atomic::Ordering::SeqCst);
    let failed = world
        .write(change(0, None, &[batch(0, 0, ACKNOWLEDGED, 1)]))
        .await;
    assert_eq!(failed, Err(ShareError::CoordinatorNotAvailable));
    let other = world
        .coordinator
        .initialize(&world.partition(1), 1, None)
        .await;
    assert_eq!(other, Err(ShareError::CoordinatorNotAvailable));
    assert_eq!(
        world.coordinator.metrics().partitions,
        1,
        "nothing stays of it"
    );
    log.broken.store(false, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(world.read(0).await, Ok(change(0, Some(0), &[])));
    log.durable.send_replace(false);
    let slow = world.write(change(0, Some(1), &[])).await;
    assert_eq!(
        slow,
        Err(ShareError::CoordinatorNotAvailable),
        "after the timeout"
    );
    log.durable.send_replace(true);
    assert_eq!(world.read(0).await, Ok(change(0, Some(1), &[])));
}

const NOW: Now = Now {
    at: Duration::ZERO,
    ms: 0,
};

/// A share partition without a log.
fn kept(config: ShareStateConfig) -> KeptPartition {
    let settings = Settings {
        config,
        topics: MemoryTopics::with(&[]),
    };
    let partition = SharePartition {
        group_id: "g".into(),
        topic_id: TopicId(uuid::Uuid::from_u128(1)),
        partition: 0,
    };
    KeptPartition::of(partition, Arc::new(settings))
}

fn settle(kept: &mut KeptPartition, outcome: Outcome, result: Result<(), ShareError>) {
    crate::kept::Kept::apply(kept, outcome, result, NOW);
}

#[test]
fn who_waits_for_a_change_that_fails_is_told_so() {
    const FAILED: ShareError = ShareError::CoordinatorNotAvailable;
    let mut kept = kept(ShareStateConfig::default());
    let mut answers = Vec::new();
    for _ in 0..2 {
        match kept.initialize(1, Some(0), NOW).expect("new") {
            Step::Written(answer) => answers.push(answer),
            Step::Done(()) => unreachable!("it is not durable"),
        }
    }
    let writes = std::mem::take(&mut kept.writes);
    // The second one has no record, so the log cannot refuse it.
    for ((_, outcome), result) in writes.into_iter().zip([Err(FAILED), Ok(())]) {
        settle(&mut kept, outcome, result);
    }
    for mut answer in answers {
        assert_eq!(answer.try_recv(), Ok(Err(FAILED)));
    }
    assert!(kept.is_nothing());
}

#[test]
fn whether_a_change_has_failed_is_unknown_once_the_share_partition_is_elsewhere() {
    use crate::kept::Kept as _;
    let mut kept = kept(ShareStateConfig::default());
    let mut answers = Vec::new();
    for _ in 0..2 {
        match kept.initialize(1, Some(0), NOW).expect("new") {
            Step::Written(answer) => answers.push(answer),
            Step::Done(()) => unreachable!("it is not durable"),
        }
    }
    for (_, outcome) in kept.take_writes() {
        KeptPartition::answer(outcome, Ok(()));
    }
    let told: Vec<_> = answers.iter_mut().map(|answer| answer.try_recv()).collect();
    // The first one is durable wherever it is now.
    assert_eq!(told, [Ok(Ok(())), Ok(Err(ShareError::NotCoordinator))]);
}

#[test]
fn a_snapshot_has_no_write_that_failed() {
    let config = ShareStateConfig {
        updates_per_snapshot: 0,
        ..ShareStateConfig::default()
    };
    let (mut kept, now) = (kept(config), NOW);
    let take = |kept: &mut KeptPartition| std::mem::take(&mut kept.writes).remove(0).1;
    kept.initialize(1, Some(0), now).map(drop).expect("new");
    let outcome = take(&mut kept);
    settle(&mut kept, outcome, Ok(()));
    let write = |kept: &mut KeptPartition, offset| {
        let change = change(0, None, &[batch(offset, offset, ACKNOWLEDGED, 1)]);
        kept.write(change, now).map(drop).expect("taken");
        take(kept)
    };
    let (first, second) = (write(&mut kept, 0), write(&mut kept, 5));
    settle(&mut kept, first, Err(ShareError::CoordinatorNotAvailable));
    let third = write(&mut kept, 9);
    assert!(matches!(third.change, Change::Update(_)));
    settle(&mut kept, second, Err(ShareError::CoordinatorNotAvailable));
    settle(&mut kept, third, Ok(()));
    let durable = kept.durable.clone().expect("initialized");
    assert_eq!(durable.batches, [batch(9, 9, ACKNOWLEDGED, 1)]);
    assert!(matches!(write(&mut kept, 12).change, Change::Snapshot(_)));
}

#[tokio::test(start_paused = true)]
async fn the_state_goes_with_its_topic() {
    let world = World::new().await;
    world.initialize(1, Some(0)).await.expect("new");
    let gone =
        std::collections::BTreeSet::from([millrace_model::TopicName::new("t").expect("legal")]);
    world.coordinator.topics_deleted(&gone).await;
    assert_eq!(
        world.coordinator.metrics().partitions,
        1,
        "the topic is there"
    );
    let partition = world.partition(0);
    world.topics.set("t", 0);
    world.coordinator.topics_deleted(&gone).await;
    sleep(Duration::from_millis(10)).await;
    assert_eq!(world.coordinator.metrics().partitions, 0);
    assert_eq!(world.history().pop(), Some((Kind::Snapshot, None)));
    let deleted = world.coordinator.delete(&partition).await;
    assert_eq!(deleted, Err(ShareError::UnknownPartition));
}

/// The sweep finds what was deleted while nobody kept it.
#[tokio::test(start_paused = true)]
async fn topics_that_were_deleted_meanwhile_are_found() {
    let world = World::new().await;
    world.initialize(1, Some(0)).await.expect("new");
    world.topic.lose(0);
    world.topics.set("t", 0);
    sleep(Duration::from_millis(10)).await;
    world.topic.gain(0);
    sleep(Duration::from_secs(11 * 60)).await;
    assert_eq!(world.coordinator.metrics().partitions, 0);
}

#[test]
fn keys_and_partitions_are_kafkas() {
    let partition = SharePartition {
        group_id: "a:b".into(),
        topic_id: TopicId(uuid::Uuid::from_u128(u128::MAX - 1)),
        partition: 7,
    };
    let key = partition.coordinator_key();
    assert_eq!(key, "a:b:_____________________g:7");
    assert_eq!(SharePartition::of_coordinator_key(&key), Some(partition));
    for malformed in [
        "",
        "g",
        "g:x:1",
        "g:_____________________g",
        "g:_____________________g:x",
    ] {
        assert_eq!(
            SharePartition::of_coordinator_key(malformed),
            None,
            "{malformed}"
        );
    }
    // As Kafka 4.1.1 computes them. The hashes of all but the second are negative, and that of the first has no absolute
    // value.
    for (key, expected) in [
        ("polygenelubricants", 0),
        ("g:_____________________g:7", 38),
        ("share:AAAAAAAAAAAAAAAAAAAAAQ:0", 23),
        ("sg1:AAAAAAAAAAAAAAAAAAAAAQ:2", 9),
    ] {
        assert_eq!(crate::share_partition_of(key, 50), expected, "{key}");
    }
}
