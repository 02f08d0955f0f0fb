//! Deleting records against a model: appends with any timestamps, retention by time and size,
//! deletions on request, changes of configuration, uploads, crashes and restarts in any order. The
//! log start never moves back nor above the high watermark, what is kept is all there, what goes had
//! to go, sizes are as exact as they say, and objects that hold nothing any more are deleted.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::{Future, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use crate::world::{World, small};
use bytes::Bytes;
use millrace_log::{
    AppendOrigin, LogDefaults, LogManager, LogParts, PartitionLog,
    error::{SetTopicConfigsError, TrimError},
};
use millrace_meta::MetaStore;
use millrace_model::{ObjectId, Offset, TopicName, TopicPartition};
use millrace_record::{Batch, BatchBuilder, Compression, header_of, split};
use millrace_stream::{StreamConfig, StreamStore};
use millrace_tasks::Supervisor;
use millrace_testkit::{Crash, property_cases, two_threads};
use millrace_time::{Clock, SharedClock};
use proptest::prelude::*;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// What a segment has at least, and how it divides a large log, as the crate promises it.
const STEP_BYTES_MIN: u64 = 256 * KIB;
const STEPS: u64 = 128;

/// More than any batch of these tests.
const BATCH_BYTES_MAX: u64 = 52 * KIB;

/// A clock whose wall time the test moves; waits go by the machine's.
#[derive(Debug)]
struct WallClock {
    wall_ms: AtomicI64,
    machine: SharedClock,
}

impl WallClock {
    fn new(machine: SharedClock) -> Arc<Self> {
        Arc::new(Self {
            wall_ms: AtomicI64::new(1_000_000_000),
            machine,
        })
    }

    fn advance(&self, ms: i64) -> i64 {
        self.wall_ms.fetch_add(ms, Ordering::SeqCst) + ms
    }
}

impl Clock for WallClock {
    fn now(&self) -> Duration {
        self.machine.now()
    }

    fn wall_ms(&self) -> i64 {
        self.wall_ms.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Clone)]
enum Step {
    Append {
        batches: usize,
        records: i64,
        length: usize,
        /// How far the records' clock is from the broker's.
        skew_ms: i64,
    },
    Wait {
        ms: i64,
    },
    Configure {
        retention_ms: i64,
        retention_bytes: i64,
    },
    Retain,
    Delete {
        permille: u64,
    },
    Checkpoint,
    Flush,
    Crash {
        power: bool,
    },
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let skew = prop_oneof![
        8 => Just(0),
        2 => -60_000i64..0,
        1 => 0i64..600_000,
    ];
    let retention_ms = prop_oneof![1 => Just(-1), 3 => 0i64..300_000];
    let retention_bytes = prop_oneof![1 => Just(-1), 3 => 0i64..3_000_000];
    let step = prop_oneof![
        10 => (1usize..14, 1i64..6, 10usize..50_000, skew).prop_map(
            |(batches, records, length, skew_ms)| Step::Append { batches, records, length, skew_ms }
        ),
        6 => (0i64..60_000).prop_map(|ms| Step::Wait { ms }),
        2 => (retention_ms, retention_bytes).prop_map(
            |(retention_ms, retention_bytes)| Step::Configure { retention_ms, retention_bytes }
        ),
        4 => Just(Step::Retain),
        1 => (0u64..=1_000).prop_map(|permille| Step::Delete { permille }),
        1 => Just(Step::Checkpoint),
        1 => Just(Step::Flush),
        1 => any::<bool>().prop_map(|power| Step::Crash { power }),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

#[derive(Debug)]
struct Written {
    base_offset: Offset,
    end_offset: Offset,
    max_timestamp: i64,
    bytes: Bytes,
}

/// What the partition should have. All that is in it was acknowledged.
#[derive(Debug, Default)]
struct Model {
    batches: Vec<Written>,
    /// The log start that is durable.
    start: Offset,
    /// The most bytes that the log has held.
    most_bytes: u64,
    retention_ms: i64,
    retention_bytes: i64,
}

impl Model {
    fn end(&self) -> Offset {
        self.batches.last().map_or(0, |last| last.end_offset)
    }

    /// Batches that hold anything from `from` on.
    fn from(&self, from: Offset) -> &[Written] {
        let gone = self.batches.partition_point(|b| b.end_offset <= from);
        &self.batches[gone..]
    }

    fn bytes_from(&self, from: Offset) -> u64 {
        let bytes = self.from(from).iter().map(|b| b.bytes.len() as u64);
        bytes.sum()
    }

    fn step_bytes(&self) -> u64 {
        (self.most_bytes / STEPS).max(STEP_BYTES_MIN)
    }

    /// What retention has done when the start is `start` now.
    fn check_retained(&self, start: Offset, now_ms: i64) {
        let kept_bytes = self.bytes_from(start);
        let too_old = |batch: &Written| {
            self.retention_ms >= 0 && batch.max_timestamp < now_ms - self.retention_ms
        };
        // Whatever is gone was too old, or there was enough behind it.
        let gone = self.from(self.start).iter();
        let gone = gone.take_while(|batch| batch.end_offset <= start);
        if let Some(young) = gone.filter(|batch| !too_old(batch)).last() {
            let behind = self.bytes_from(young.end_offset);
            let enough = u64::try_from(self.retention_bytes).is_ok_and(|keep| behind >= keep);
            assert!(enough, "{behind} behind {young:?} of {self:?} at {now_ms}");
        }
        // Nothing stays that had to go, but for the segment that is not wholly due.
        let slack = self.step_bytes() + BATCH_BYTES_MAX;
        if let Ok(keep) = u64::try_from(self.retention_bytes) {
            assert!(kept_bytes <= keep + slack, "{kept_bytes} kept of {keep}");
        }
        // A deleted record still counts for the segment of which it was a part.
        let near = self.batches[..self.batches.len() - self.from(start).len()].iter();
        let reaches = |batch: &&Written| self.bytes_from(batch.base_offset) <= kept_bytes + slack;
        if near.rev().take_while(reaches).any(|b| !too_old(b)) {
            return;
        }
        let old = self.from(start).iter().take_while(|batch| too_old(batch));
        let old_bytes: u64 = old.map(|batch| batch.bytes.len() as u64).sum();
        assert!(old_bytes <= slack, "{old_bytes} bytes are too old");
    }
}

struct Broker {
    logs: LogManager,
    store: StreamStore,
}

struct Run {
    world: World,
    clock: Arc<WallClock>,
    model: Model,
    broker: Option<Broker>,
    log: Option<Arc<PartitionLog>>,
}

fn name() -> TopicName {
    TopicName::new("t").expect("legal")
}

async fn open(world: &World, clock: &Arc<WallClock>) -> Broker {
    let store = world.open().await;
    let logs = LogManager::open(LogParts {
        shared: None,
        tasks: Supervisor::new(),
        meta: Arc::new(world.meta.clone()),
        store: store.clone(),
        clock: clock.clone(),
        random: world.random.clone(),
        // Never by itself.
        defaults: LogDefaults {
            retention_ms: -1,
            retention_check_interval: Duration::from_secs(3_600),
            ..LogDefaults::default()
        },
    });
    Broker {
        logs: logs.await.expect("opens"),
        store,
    }
}

impl Run {
    async fn new(seed: u64) -> Self {
        Self::with(seed, small()).await
    }

    async fn with(seed: u64, config: StreamConfig) -> Self {
        let world = World::new(seed, config, 16 * MIB).await;
        let clock = WallClock::new(world.clock.clone());
        let broker = open(&world, &clock).await;
        let (logs, name) = (&broker.logs, name());
        let created = logs.create_topic(&name, Some(1), BTreeMap::new());
        created.await.expect("created");
        let model = Model {
            retention_ms: -1,
            retention_bytes: -1,
            ..Model::default()
        };
        let mut run = Self {
            world,
            clock,
            model,
            broker: Some(broker),
            log: None,
        };
        run.find();
        run
    }

    fn broker(&self) -> &Broker {
        self.broker.as_ref().expect("open")
    }

    fn log(&self) -> &Arc<PartitionLog> {
        self.log.as_ref().expect("open")
    }

    fn find(&mut self) {
        let id = TopicPartition {
            topic: name(),
            partition: 0,
        };
        self.log = self.broker().logs.partition(&id);
    }

    async fn reopen(&mut self) {
        self.broker = Some(open(&self.world, &self.clock).await);
        self.find();
        let log = self.log();
        assert_eq!(log.start_offset(), self.model.start, "what was durable");
        assert_eq!(log.high_watermark(), self.model.end());
        self.check().await;
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Append {
                batches,
                records,
                length,
                skew_ms,
            } => {
                for _ in 0..batches {
                    self.append(records, length, skew_ms).await;
                }
            }
            Step::Wait { ms } => {
                self.clock.advance(ms);
            }
            Step::Configure {
                retention_ms,
                retention_bytes,
            } => self.configure(retention_ms, retention_bytes).await,
            Step::Retain => {
                self.broker().logs.apply_retention().await;
                let start = self.log().start_offset();
                self.model.check_retained(start, self.clock.wall_ms());
                self.moved(start);
            }
            Step::Delete { permille } => self.delete(permille).await,
            Step::Checkpoint => self.broker().logs.checkpoint().await,
            Step::Flush => self.broker().store.flush().await.expect("uploads"),
            Step::Crash { power } => {
                self.world.disk.crash(match power {
                    true => Crash::PowerLoss,
                    false => Crash::Killed,
                });
                (self.broker, self.log) = (None, None);
                self.reopen().await;
            }
            Step::Restart => {
                self.log = None;
                let Broker { logs, store } = self.broker.take().expect("open");
                logs.close().await;
                store.close().await;
                self.reopen().await;
            }
        }
        self.check_sizes();
    }

    async fn append(&mut self, records: i64, length: usize, skew_ms: i64) {
        // A second between batches.
        let now = self.clock.advance(1_000) + skew_ms;
        let mut builder = BatchBuilder::new(Compression::None);
        let value = vec![b'x'; length / usize::try_from(records).expect("positive")];
        for n in 0..records {
            builder.push(now - n, None, Some(&value), &[]);
        }
        let batch = split(builder.build()).expect("sound").remove(0);
        let ticket = self.log().append(vec![batch], AppendOrigin::Client).await;
        let appended = ticket.expect("accepted").await.expect("durable");
        let end_offset = appended.last_offset + 1;
        let read = self.log().read(appended.base_offset, 1, true).await;
        self.model.batches.push(Written {
            base_offset: appended.base_offset,
            end_offset,
            max_timestamp: now,
            bytes: read.expect("readable").batches.remove(0),
        });
        let bytes = self.model.bytes_from(self.model.start);
        self.model.most_bytes = self.model.most_bytes.max(bytes);
    }

    async fn configure(&mut self, retention_ms: i64, retention_bytes: i64) {
        let overrides = BTreeMap::from([
            ("retention.ms".to_owned(), retention_ms.to_string()),
            ("retention.bytes".to_owned(), retention_bytes.to_string()),
        ]);
        let logs = &self.broker().logs;
        let set = logs.set_topic_configs(&name(), overrides).await;
        assert_eq!(set.expect("legal").config.retention_ms, retention_ms);
        self.model.retention_ms = retention_ms;
        self.model.retention_bytes = retention_bytes;
    }

    async fn delete(&mut self, permille: u64) {
        let (start, end) = (self.model.start, self.model.end());
        let above = self.log().trim(end + 1).await;
        assert!(
            matches!(above, Err(TrimError::OutOfRange { .. })),
            "{above:?}"
        );
        let new_start = start + (end - start) * permille / 1_000;
        assert_eq!(self.log().trim(new_start).await, Ok(new_start));
        assert_eq!(
            self.log().trim(0).await,
            Ok(new_start),
            "it never moves back"
        );
        self.moved(new_start);
    }

    /// The start is `start` now, durably.
    fn moved(&mut self, start: Offset) {
        assert!(start >= self.model.start && start <= self.model.end());
        assert_eq!(self.log().start_offset(), start);
        self.model.start = start;
    }

    fn check_sizes(&self) {
        let (log, model) = (self.log(), &self.model);
        let slack = model.step_bytes() + BATCH_BYTES_MAX;
        let (told, truth) = (log.size_bytes(), model.bytes_from(model.start));
        assert!(told.abs_diff(truth) <= slack, "{told} of {truth}");
        for part in 1..4 {
            let from = model.start + (model.end() - model.start) * part / 4;
            let told = log.bytes_between(from, model.end());
            let truth = model.bytes_from(from);
            assert!(
                told.abs_diff(truth) <= slack,
                "{told} of {truth} from {from}"
            );
        }
        assert_eq!(log.bytes_between(0, Offset::MAX), log.size_bytes());
    }

    /// Everything from the start on is there and as it was.
    async fn check(&self) {
        let (log, mut at) = (self.log(), self.model.start);
        for expected in self.model.from(self.model.start) {
            let read = log.read(at, 1, true).await.expect("readable");
            assert_eq!(read.batches, std::slice::from_ref(&expected.bytes));
            let header = header_of(&expected.bytes).expect("a batch");
            assert_eq!(Ok(expected.base_offset), u64::try_from(header.base_offset));
            at = expected.end_offset;
        }
        if let Some(below) = self.model.start.checked_sub(1) {
            log.read(below, 1, true).await.expect_err("it is deleted");
        }
        self.check_sizes();
    }

    /// When all is deleted, no object is left but those that metadata says hold something.
    async fn check_swept(&mut self) {
        self.delete(1_000).await;
        assert_eq!(self.log().size_bytes(), 0);
        self.broker().store.flush().await.expect("uploads");
        let referenced = self.referenced().await;
        let mut stored = BTreeSet::new();
        for _ in 0..200 {
            let listed = self.world.storage().list("", None, 10_000).await;
            let ids = listed.expect("listed").into_iter();
            stored = ids.filter_map(|listed| listed.key.object_id()).collect();
            if stored == referenced {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("stored: {stored:?}, referenced: {referenced:?}");
    }

    async fn referenced(&self) -> BTreeSet<ObjectId> {
        let meta = &self.world.meta;
        let mut referenced = BTreeSet::new();
        for topic in meta.topics().await.expect("topics") {
            for partition in &topic.partitions {
                let data = meta.objects_of(partition.data, 0, 10_000).await;
                assert_eq!(data.expect("ranges"), [], "all records are deleted");
                let kept = meta.objects_of(partition.meta, 0, 10_000).await;
                referenced.extend(kept.expect("ranges").iter().map(|range| range.object));
            }
        }
        referenced
    }
}

/// A batch of one record of `length` bytes.
fn batch(timestamp: i64, length: usize) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(timestamp, None, Some(&vec![b'x'; length]), &[]);
    split(builder.build()).expect("sound").remove(0)
}

fn retention_bytes(bytes: u64) -> BTreeMap<String, String> {
    BTreeMap::from([("retention.bytes".to_owned(), bytes.to_string())])
}

#[tokio::test]
async fn what_is_not_durable_is_not_deleted() {
    // Nothing that is not durable can leave memory.
    let config = StreamConfig {
        cache_bytes: 4 * MIB,
        ..small()
    };
    let mut run = Run::with(1, config).await;
    for _ in 0..7 {
        run.append(1, 50_000, 0).await;
    }
    run.configure(0, 0).await;
    run.clock.advance(1_000_000);
    run.world.disk.crash(Crash::Killed);
    let mut tickets = Vec::new();
    for _ in 0..3 {
        let ticket = run
            .log()
            .append(vec![batch(0, 50_000)], AppendOrigin::Client);
        tickets.push(ticket.await.expect("accepted"));
    }
    run.broker().logs.apply_retention().await;
    let log = run.log();
    assert_eq!((log.high_watermark(), log.end_offset()), (7, 10));
    // The segment in which the high watermark lies stays whole.
    assert_eq!(log.start_offset(), 5);
    run.moved(5);
    drop(tickets);
    (run.broker, run.log) = (None, None);
    run.reopen().await;
    run.broker().logs.apply_retention().await;
    assert_eq!(run.log().start_offset(), 7);
}

/// As a broker runs it: by itself, on what the topic says now.
#[tokio::test]
async fn a_deletion_goes_on_when_nobody_waits_for_it() {
    let mut run = Run::new(7).await;
    for _ in 0..5 {
        run.append(3, 10_000, 0).await;
    }
    let (log, end) = (Arc::clone(run.log()), run.model.end());
    let mut deletion = Box::pin(log.trim(end));
    let started = poll_fn(|cx| Poll::Ready(deletion.as_mut().poll(cx))).await;
    assert!(started.is_pending(), "it takes a transaction");
    drop(deletion);
    let is_done = async {
        while log.size_bytes() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let wait = Duration::from_secs(10);
    tokio::time::timeout(wait, is_done).await.expect("goes on");
    assert_eq!(log.start_offset(), end);
}

async fn gone(log: &PartitionLog) {
    while log.size_bytes() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn retention_goes_on_by_itself_and_follows_the_topics() {
    let world = World::new(2, small(), 16 * MIB).await;
    let store = world.open().await;
    let logs = LogManager::open(LogParts {
        shared: None,
        tasks: Supervisor::new(),
        meta: Arc::new(world.meta.clone()),
        store,
        clock: world.clock.clone(),
        random: world.random.clone(),
        defaults: LogDefaults {
            retention_check_interval: Duration::from_millis(20),
            ..LogDefaults::default()
        },
    });
    let logs = logs.await.expect("opens");
    let compact = BTreeMap::from([("cleanup.policy".to_owned(), "compact".to_owned())]);
    let mut partitions = Vec::new();
    for (name, overrides) in [
        ("deleted", retention_bytes(0)),
        ("kept", BTreeMap::new()),
        (
            "compact",
            compact.into_iter().chain(retention_bytes(0)).collect(),
        ),
    ] {
        let name = TopicName::new(name).expect("legal");
        let topic = logs.create_topic(&name, Some(1), overrides).await;
        partitions.push(topic.expect("created").log(0).expect("served").clone());
    }
    let now = world.clock.wall_ms();
    for log in &partitions {
        let ticket = log.append(vec![batch(now, 100)], AppendOrigin::Client);
        ticket.await.expect("accepted").await.expect("durable");
    }
    let [deleted, kept, compact] = &partitions[..] else {
        panic!("three")
    };
    let wait = Duration::from_secs(10);
    tokio::time::timeout(wait, gone(deleted))
        .await
        .expect("deleted");
    assert_eq!(deleted.start_offset(), 1);
    assert_eq!((kept.start_offset(), compact.start_offset()), (0, 0));

    let name = &kept.id().topic;
    let wrong = BTreeMap::from([("retention.bytes".to_owned(), "much".to_owned())]);
    let refused = logs.set_topic_configs(name, wrong).await;
    assert!(matches!(
        refused,
        Err(SetTopicConfigsError::InvalidConfig(_))
    ));
    let unknown = TopicName::new("none").expect("legal");
    let refused = logs.set_topic_configs(&unknown, retention_bytes(0)).await;
    assert!(matches!(
        refused,
        Err(SetTopicConfigsError::UnknownTopic(_))
    ));
    assert_eq!(logs.topic(name).expect("there").overrides, BTreeMap::new());

    let changed = logs.set_topic_configs(name, retention_bytes(0)).await;
    assert_eq!(changed.expect("legal").overrides, retention_bytes(0));
    tokio::time::timeout(wait, gone(kept))
        .await
        .expect("deleted");
    let stored = world.meta.topics().await.expect("topics");
    let stored = stored.iter().find(|topic| topic.name == *name);
    assert_eq!(stored.expect("stored").configs, retention_bytes(0));
    assert_eq!(compact.start_offset(), 0);
}

/// Cases of an ordinary run.
const CASES: u32 = 24;

proptest! {
    #![proptest_config(property_cases(CASES))]

    #[test]
    fn what_retention_keeps_is_there_and_what_it_does_not_goes(steps in steps(), seed: u64) {
        let runtime = two_threads();
        runtime.block_on(async {
            let mut run = Run::new(seed).await;
            for step in steps {
                run.step(step).await;
            }
            run.check().await;
            run.step(Step::Crash { power: true }).await;
            run.step(Step::Restart).await;
            run.check_swept().await;
        });
    }
}
