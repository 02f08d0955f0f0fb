//! The flow control against a model of brokers and readers.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use millrace_record::{BatchBuilder, Compression};
use proptest::prelude::*;

use super::{deliver::Opening, *};
use crate::consumer::record::ConsumerRecord;

const PARTITIONS: usize = 3;
const NODES: i32 = 2;
const IDLE: Duration = Duration::from_millis(500);
/// Small, so that budget and shares bind all the time.
const TOTAL: usize = 1_500;
const EPOCH: i32 = 4;

fn name(partition: usize) -> TopicPartition {
    TopicPartition::new("t", i32::try_from(partition).expect("small"))
}

fn leader(name: &TopicPartition) -> Result<Leader, NoLeader> {
    Ok(Leader {
        node: name.partition % NODES,
        epoch: Some(EPOCH),
        topic_id: None,
    })
}

fn config() -> ConsumerConfig {
    ConsumerConfig {
        prefetch_bytes: TOTAL,
        prefetch_partition_bytes: TOTAL,
        max_partition_fetch_bytes: 300,
        fetch_max_bytes: 500,
        prefetch_idle: IDLE,
        ..ConsumerConfig::default()
    }
}

/// One batch of a model log.
#[derive(Debug, Clone)]
struct Batch {
    next: i64,
    bytes: Bytes,
}

/// The log of one partition.
#[derive(Debug, Clone, Default)]
struct Log {
    batches: Vec<Batch>,
    /// Offsets of records that readers see.
    offsets: Vec<i64>,
}

/// How a batch is written: records, codec, whether it is a marker, offsets that were compacted
/// away behind it.
type Shape = (usize, u8, bool, i64);

impl Log {
    fn new(partition: usize, shapes: &[Shape]) -> Self {
        let mut log = Self::default();
        let mut offset = 0;
        for &(records, codec, is_marker, gap) in shapes {
            let codec = [Compression::None, Compression::Lz4][usize::from(codec % 2)];
            let mut builder = BatchBuilder::new(codec).base_offset(offset);
            if is_marker {
                builder = BatchBuilder::new(Compression::None)
                    .base_offset(offset)
                    .control();
            }
            for _ in 0..records.max(1) {
                let value = format!("{partition}/{offset}/{}", "x".repeat(30));
                builder.push(1_000, Some(&[0, 0, 0, 1]), Some(value.as_bytes()), &[]);
                if !is_marker {
                    log.offsets.push(offset);
                }
                offset += 1;
            }
            let mut bytes = builder.build();
            bytes[12..16].copy_from_slice(&EPOCH.to_be_bytes());
            log.batches.push(Batch {
                next: offset,
                bytes: bytes.freeze(),
            });
            offset += gap;
        }
        log
    }

    /// What a broker returns: whole batches up to `max_bytes`, at least one where `at_least_one`,
    /// and the beginning of the next one where `cut`.
    fn read(&self, from: i64, max_bytes: usize, at_least_one: bool, cut: bool) -> (Bytes, usize) {
        let mut out = BytesMut::new();
        for batch in self.batches.iter().filter(|batch| batch.next > from) {
            let fits = out.len() + batch.bytes.len() <= max_bytes;
            if !fits && (!at_least_one || !out.is_empty()) {
                let part = if cut && !out.is_empty() {
                    batch.bytes.len() / 2
                } else {
                    0
                };
                out.extend_from_slice(&batch.bytes[..part]);
                return (out.freeze(), part);
            }
            out.extend_from_slice(&batch.bytes);
        }
        (out.freeze(), 0)
    }

    fn end(&self) -> i64 {
        self.batches.last().map_or(0, |batch| batch.next)
    }
}

#[derive(Debug, Clone)]
enum Op {
    Take { stream: Option<usize>, whole: bool },
    Plan,
    Answer { nth: usize, cut: bool },
    Fail { nth: usize },
    Leaderless { nth: usize },
    Opened { nth: usize },
    Pause(usize),
    Resume(usize),
    Seek(usize, i64),
    Revoke(usize),
    Assign(usize),
    Stream(usize, bool),
    Advance(u64),
}

fn op(disturbed: bool) -> impl Strategy<Value = Op> {
    let partition = 0..PARTITIONS;
    let ops = prop_oneof![
        8 => (prop::option::weighted(0.3, 0..PARTITIONS), any::<bool>())
            .prop_map(|(stream, whole)| Op::Take { stream, whole }),
        6 => Just(Op::Plan),
        6 => (0_usize..4, any::<bool>()).prop_map(|(nth, cut)| Op::Answer { nth, cut }),
        1 => (0_usize..4).prop_map(|nth| Op::Fail { nth }),
        1 => (0_usize..4).prop_map(|nth| Op::Leaderless { nth }),
        4 => (0_usize..3).prop_map(|nth| Op::Opened { nth }),
        2 => partition.clone().prop_map(Op::Pause),
        3 => partition.clone().prop_map(Op::Resume),
        1 => (partition.clone(), 0_i64..60).prop_map(|(at, to)| Op::Seek(at, to)),
        1 => partition.clone().prop_map(Op::Revoke),
        2 => partition.clone().prop_map(Op::Assign),
        1 => (partition, any::<bool>()).prop_map(|(at, on)| Op::Stream(at, on)),
        2 => (0_u64..800).prop_map(Op::Advance),
    ];
    ops.prop_map(move |op| match op {
        Op::Seek(..) | Op::Revoke(_) if !disturbed => Op::Plan,
        op => op,
    })
}

/// What the model knows of a partition.
#[derive(Debug, Clone, Default)]
struct Seen {
    /// The next offset; nothing while it is not assigned.
    cursor: Option<i64>,
    is_paused: bool,
    has_stream: bool,
    asked_at: Option<Duration>,
}

struct World {
    flow: Flow,
    logs: Vec<Log>,
    seen: Vec<Seen>,
    asked_at: Option<Duration>,
    now: Duration,
    fetches: Vec<Fetch>,
    openings: Vec<Opening>,
    cut_bytes: u64,
    /// The fetcher would plan: a request has ended, or a pause.
    is_due: bool,
    retry_at: Option<Duration>,
    delivered: BTreeMap<usize, Vec<i64>>,
}

impl World {
    fn new(logs: Vec<Log>) -> Self {
        let mut world = Self {
            flow: Flow::new(config()),
            seen: vec![Seen::default(); logs.len()],
            logs,
            asked_at: None,
            now: Duration::from_secs(1),
            fetches: Vec::new(),
            openings: Vec::new(),
            cut_bytes: 0,
            is_due: true,
            retry_at: None,
            delivered: BTreeMap::new(),
        };
        for at in 0..world.logs.len() {
            world.assign(at);
        }
        world
    }

    fn id(&self, at: usize) -> Option<PartitionId> {
        self.flow.id(&name(at))
    }

    fn assign(&mut self, at: usize) {
        if self.id(at).is_none() {
            let id = self.flow.assign(&name(at), Standing::Stuck);
            self.flow.seek(id, 0, None);
            self.seen[at] = Seen {
                cursor: Some(0),
                ..Seen::default()
            };
        }
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Take { stream, whole } => self.take(stream, whole),
            Op::Plan => self.plan(),
            Op::Answer { nth, cut } => self.answer(nth, cut, false),
            Op::Leaderless { nth } => self.answer(nth, false, true),
            Op::Fail { nth } => {
                if nth < self.fetches.len() {
                    let fetch = self.fetches.swap_remove(nth);
                    self.is_due = true;
                    self.flow.fetch_failed(&fetch);
                }
            }
            Op::Opened { nth } => self.opened(nth),
            Op::Pause(at) => self.pause(at, true),
            Op::Resume(at) => self.pause(at, false),
            Op::Seek(at, to) => {
                let to = to.min(self.logs[at].end());
                if let Some(id) = self.id(at) {
                    self.flow.seek(id, to, None);
                    self.seen[at].cursor = Some(to);
                }
            }
            Op::Revoke(at) => {
                self.flow.unassign(&name(at));
                self.seen[at] = Seen::default();
            }
            Op::Assign(at) => self.assign(at),
            Op::Stream(at, on) => self.stream(at, on),
            Op::Advance(ms) => self.now += Duration::from_millis(ms),
        }
        self.check();
    }

    fn pause(&mut self, at: usize, paused: bool) {
        if let Some(id) = self.id(at) {
            if paused {
                self.flow.pause(id);
            } else {
                self.flow.resume(id);
            }
            self.seen[at].is_paused = paused;
        }
    }

    fn stream(&mut self, at: usize, on: bool) {
        if let Some(id) = self.id(at) {
            let seen = &mut self.seen[at];
            assert_eq!(self.flow.set_stream(id, on), !(on && seen.has_stream));
            if seen.has_stream != on {
                seen.asked_at = None;
            }
            seen.has_stream = on;
        }
    }

    fn take(&mut self, stream: Option<usize>, whole: bool) {
        let scope = match stream {
            None => {
                self.asked_at = Some(self.now);
                Scope::All
            }
            Some(at) => {
                let Some(id) = self.id(at).filter(|_| self.seen[at].has_stream) else {
                    return;
                };
                self.seen[at].asked_at = Some(self.now);
                Scope::One(id)
            }
        };
        match self.flow.take(scope, whole, self.now) {
            Taken::Record(record) => self.delivered(stream, &record),
            Taken::Batch(batch) => {
                let at = usize::try_from(batch.name.partition).expect("small");
                let next = batch.next_offset();
                for record in batch {
                    self.delivered(stream, &record.expect("a record"));
                }
                self.seen[at].cursor = Some(next);
            }
            Taken::Open(opening) => self.openings.push(opening),
            Taken::Empty => {}
            other => panic!("{other:?}"),
        }
    }

    /// Each record is the next one of its partition, which is not paused and belongs to the reader.
    fn delivered(&mut self, stream: Option<usize>, record: &ConsumerRecord) {
        let at = usize::try_from(record.partition).expect("small");
        let seen = &mut self.seen[at];
        assert!(!seen.is_paused, "{record:?} of a paused partition");
        assert_eq!(stream == Some(at), seen.has_stream, "{record:?}");
        let cursor = seen.cursor.expect("only of assigned partitions");
        let mut offsets = self.logs[at].offsets.iter();
        let expected = offsets.find(|offset| **offset >= cursor);
        assert_eq!(Some(&record.offset), expected, "partition {at} at {cursor}");
        let value = format!("{at}/{}/", record.offset);
        let told = record.value.as_deref().expect("a value");
        assert!(told.starts_with(value.as_bytes()));
        assert_eq!(record.leader_epoch, Some(EPOCH));
        seen.cursor = Some(record.offset + 1);
        self.delivered.entry(at).or_default().push(record.offset);
    }

    fn plan(&mut self) {
        let is_due = std::mem::take(&mut self.flow.has_work)
            || std::mem::take(&mut self.is_due)
            || self.retry_at.is_some_and(|at| at <= self.now);
        let busy: Vec<_> = self.fetches.iter().map(|fetch| fetch.node).collect();
        // It tells the fetcher once it finds nothing any more.
        let has_other = self.flow.has_ready() || self.flow.is_held_back;
        let has_nothing: Vec<_> = (0..self.logs.len())
            .map(|at| {
                self.id(at)
                    .and_then(|id| self.flow.get(id))
                    .is_some_and(|one| one.buffered == 0 && (one.has_stream || !has_other))
            })
            .collect();
        let plan = self
            .flow
            .plan(self.now, |node, _| !busy.contains(&node), leader);
        assert!(plan.lookups.is_empty() && !plan.needs_metadata, "{plan:?}");
        self.retry_at = plan.retry_at;
        for fetch in &plan.fetches {
            for part in &fetch.parts {
                let seen = &self.seen[usize::try_from(part.name.partition).expect("small")];
                let asked_at = if seen.has_stream {
                    seen.asked_at
                } else {
                    self.asked_at
                };
                let asked = asked_at.is_some_and(|at| self.now < at + IDLE);
                assert!(!seen.is_paused && asked, "{part:?} is fetched for nobody");
                // A reader with records asks for more when the next of them is delivered.
                let waits = has_nothing[usize::try_from(part.name.partition).expect("small")];
                assert!(is_due || !waits, "nobody told the fetcher of {part:?}");
            }
        }
        self.fetches.extend(plan.fetches);
    }

    fn answer(&mut self, nth: usize, cut: bool, leaderless: bool) {
        if nth >= self.fetches.len() {
            return;
        }
        let fetch = self.fetches.swap_remove(nth);
        self.is_due = true;
        let mut answers = Vec::new();
        let mut left = fetch.max_bytes;
        for (at, part) in fetch.parts.iter().enumerate() {
            let log = &self.logs[usize::try_from(part.name.partition).expect("small")];
            let (records, cut) = log.read(
                part.offset,
                part.max_bytes.min(left),
                left == fetch.max_bytes,
                cut,
            );
            let mut answer = Answer {
                high_watermark: log.end(),
                last_stable_offset: log.end(),
                ..Answer::default()
            };
            if leaderless {
                answer.error = Some(crate::ErrorCode::NOT_LEADER_OR_FOLLOWER);
            } else {
                left = left.saturating_sub(records.len());
                self.cut_bytes += cut as u64;
                answer.records = records;
            }
            answers.push((at, answer));
        }
        self.flow
            .fetched(&fetch, answers, self.now, &|_| Duration::from_millis(100));
    }

    fn opened(&mut self, nth: usize) {
        if nth < self.openings.len() {
            let opening = self.openings.swap_remove(nth);
            let outcome = open(&opening);
            self.flow.opened(opening, outcome, self.now);
        }
    }

    fn check(&self) {
        let budget = &self.flow.budget;
        // Each partition may have one batch that is larger than its part, each frame waste.
        let largest = self.logs.iter().flat_map(|log| &log.batches);
        let largest = largest.map(|batch| batch.bytes.len()).max().unwrap_or(0);
        // A compressed batch is charged with its records while they are delivered.
        let bound = TOTAL + 2 * PARTITIONS * largest.max(500);
        assert!(budget.charged() <= bound, "{} > {bound}", budget.charged());
        let opening: usize = self.openings.iter().map(|one| one.len()).sum();
        let buffered = self.flow.partitions.iter().flatten();
        let buffered: usize = buffered.map(|partition| partition.buffered).sum();
        assert!(budget.live() <= buffered + opening, "bytes that nobody has");
        assert!(budget.live() >= buffered, "bytes that nobody paid for");
        assert!(budget.charged() >= budget.live());
    }

    /// Lets everything that was begun end, reads all that is left, and gives everything back.
    fn finish(&mut self) {
        for _ in 0..self.fetches.len() {
            self.answer(0, false, false);
        }
        for _ in 0..self.openings.len() {
            self.opened(0);
        }
        for at in 0..PARTITIONS {
            self.stream(at, false);
            self.pause(at, false);
        }
        self.now += Duration::from_secs(1);
        let left = |world: &Self| {
            (0..PARTITIONS).any(|at| {
                let last = world.logs[at].offsets.last().copied();
                let cursor = world.seen[at].cursor;
                cursor.is_some_and(|cursor| last.is_some_and(|last| last >= cursor))
            })
        };
        let mut rounds = 0;
        while left(self) {
            rounds += 1;
            assert!(rounds < 5_000, "a partition is stuck: {:?}", self.seen);
            self.take(None, rounds % 3 == 0);
            self.opened(0);
            self.plan();
            self.answer(0, rounds % 2 == 0, false);
            self.check();
        }
        for _ in 0..self.fetches.len() {
            self.answer(0, false, false);
        }
        for at in 0..PARTITIONS {
            self.flow.unassign(&name(at));
        }
        let budget = &self.flow.budget;
        assert_eq!(
            (budget.charged(), budget.reserved(), budget.live()),
            (0, 0, 0)
        );
    }
}

fn logs() -> impl Strategy<Value = Vec<Log>> {
    let shape = (
        1_usize..6,
        any::<u8>(),
        prop::bool::weighted(0.15),
        0_i64..3,
    );
    let shapes = prop::collection::vec(shape, 0..14);
    prop::collection::vec(shapes, PARTITIONS..=PARTITIONS).prop_map(|all| {
        let log = |(at, shapes): (usize, &Vec<Shape>)| Log::new(at, shapes);
        all.iter().enumerate().map(log).collect()
    })
}

proptest! {
    /// No interleaving of pause, resume, seek, revoke and demand loses, repeats or reorders a
    /// record, or leaks budget.
    #[test]
    fn no_interleaving_loses_repeats_or_reorders_a_record_or_leaks_budget(
        logs in logs(),
        ops in prop::collection::vec(op(true), 0..150),
    ) {
        let mut world = World::new(logs);
        for op in &ops {
            world.run(op);
        }
        world.finish();
    }

    /// Without seeks and revocations every byte is fetched once, but for batches that the broker
    /// cut off.
    #[test]
    fn whatever_is_paused_no_byte_is_fetched_twice(
        logs in logs(),
        ops in prop::collection::vec(op(false), 0..150),
    ) {
        let mut world = World::new(logs);
        for op in &ops {
            world.run(op);
        }
        world.finish();
        let metrics = world.flow.metrics();
        let bytes = world.logs.iter().flat_map(|log| &log.batches);
        let bytes: usize = bytes.map(|batch| batch.bytes.len()).sum();
        let fetched = metrics.fetched_bytes - world.cut_bytes;
        prop_assert!(fetched <= bytes as u64, "{fetched} of {bytes}");
        for at in 0..PARTITIONS {
            let delivered = world.delivered.remove(&at).unwrap_or_default();
            prop_assert_eq!(&delivered, &world.logs[at].offsets);
        }
    }
}

/// A batch of zeros that is far smaller on the wire than in memory.
fn expanding_log() -> Log {
    let mut builder = BatchBuilder::new(Compression::Zstd);
    for _ in 0..4 {
        builder.push(1_000, None, Some(&[0; 50_000]), &[]);
    }
    let bytes = builder.build().freeze();
    assert!(bytes.len() < 1_000, "{}", bytes.len());
    Log {
        batches: vec![Batch { next: 4, bytes }],
        offsets: (0..4).collect(),
    }
}

#[test]
fn batches_that_expand_stay_within_the_budget_while_their_partitions_are_paused() {
    const COUNT: usize = 20;
    const BATCH: usize = 4 * 50_100;
    let config = ConsumerConfig {
        prefetch_bytes: 1_000_000,
        ..ConsumerConfig::default()
    };
    let log = expanding_log();
    let mut flow = Flow::new(config);
    let now = Duration::from_secs(1);
    let ids: Vec<_> = (0..COUNT)
        .map(|at| flow.assign(&name(at), Standing::Stuck))
        .collect();
    for id in &ids {
        flow.seek(*id, 0, None);
    }
    assert!(matches!(flow.take(Scope::All, false, now), Taken::Empty));
    for fetch in flow.plan(now, |_, _| true, leader).fetches {
        let answer = || Answer {
            records: log.batches[0].bytes.clone(),
            ..Answer::default()
        };
        let answers = (0..fetch.parts.len()).map(|at| (at, answer())).collect();
        flow.fetched(&fetch, answers, now, &|_| Duration::ZERO);
    }
    ids.iter().for_each(|id| flow.pause(*id));
    for offset in 0..4 {
        for id in &ids {
            flow.resume(*id);
            let record = loop {
                match flow.take(Scope::All, false, now) {
                    Taken::Record(record) => break record,
                    Taken::Open(opening) => {
                        let outcome = open(&opening);
                        flow.opened(opening, outcome, now);
                    }
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!(record.offset, offset);
            let charged = flow.budget.charged();
            assert!(charged <= 1_000_000 + BATCH, "{charged}");
            flow.pause(*id);
        }
    }
    assert_eq!((flow.budget.charged(), flow.budget.live()), (0, 0));
}

#[test]
fn a_log_that_does_not_know_the_epoch_any_more_is_read_from_where_the_policy_says() {
    for (policy, expected) in [
        (
            OffsetReset::Earliest,
            Some(Question::Reset(OffsetReset::Earliest)),
        ),
        (OffsetReset::None, None),
    ] {
        let mut flow = Flow::new(ConsumerConfig {
            auto_offset_reset: policy,
            ..ConsumerConfig::default()
        });
        let now = Duration::from_secs(1);
        let id = flow.assign(&name(0), Standing::Stuck);
        flow.seek(id, 10, Some(EPOCH - 1));
        let lookup = flow.plan(now, |_, _| true, leader).lookups.remove(0);
        assert_eq!(lookup.question, Question::EpochEnd(EPOCH - 1));
        flow.looked_up(&lookup, None);
        let lookups = flow.plan(now, |_, _| true, leader).lookups;
        assert_eq!(lookups.first().map(|lookup| lookup.question), expected);
        let taken = flow.take(Scope::All, false, now);
        let is_told = matches!(
            taken,
            Taken::Fault(ConsumerError::Truncated { offset: 10, .. })
        );
        assert_eq!(is_told, expected.is_none(), "{taken:?}");
    }
}

#[test]
fn a_position_that_was_sought_or_reset_is_committed_and_one_that_was_read_from_a_commit_is_not() {
    let mut flow = Flow::new(ConsumerConfig {
        auto_commit: AutoCommit::WhenAsked,
        ..ConsumerConfig::in_group("g")
    });
    let now = Duration::from_secs(1);
    flow.assign(&name(0), Standing::Committed);
    flow.assign(&name(1), Standing::Reset(OffsetReset::Latest, None));
    for lookup in flow.plan(now, |_, _| true, leader).lookups {
        flow.looked_up(&lookup, Some((100, None)));
    }
    let due = flow.to_commit(false);
    assert_eq!(offsets(&due), [(name(1), 100)]);
    let id = flow.id(&name(0)).expect("assigned");
    flow.seek(id, 7, None);
    flow.committed(&name(1), due[0].token, 100);
    assert_eq!(offsets(&flow.to_commit(true)), [(name(0), 7)]);
}

fn offsets(due: &[DueCommit]) -> Vec<(TopicPartition, i64)> {
    let offset = |one: &DueCommit| (one.name.clone(), one.offset);
    due.iter().map(offset).collect()
}

#[test]
fn the_answer_to_a_commit_does_not_undo_a_seek_or_an_assignment_after_it() {
    let mut flow = Flow::new(ConsumerConfig::in_group("g"));
    let id = flow.assign(&name(0), Standing::Stuck);
    flow.seek(id, 100, None);
    let older = flow.to_commit(false);
    assert_eq!(offsets(&older), [(name(0), 100)]);
    flow.seek(id, 7, None);
    flow.committed(&name(0), older[0].token, 100);
    let newer = flow.to_commit(false);
    assert_eq!(offsets(&newer), [(name(0), 7)]);
    flow.unassign(&name(0));
    let id = flow.assign(&name(0), Standing::Stuck);
    flow.seek(id, 7, None);
    flow.committed(&name(0), newer[0].token, 7);
    let newest = flow.to_commit(false);
    assert_eq!(offsets(&newest), [(name(0), 7)]);
    flow.committed(&name(0), newest[0].token, 7);
    assert_eq!(flow.to_commit(false), []);
}

#[test]
fn the_fetcher_is_told_of_a_reader_that_waits_after_its_demand_was_overlooked() {
    for has_stream in [false, true] {
        let mut flow = Flow::new(config());
        let id = flow.assign(&name(0), Standing::Stuck);
        flow.seek(id, 0, None);
        flow.set_stream(id, has_stream);
        let scope = if has_stream {
            Scope::One(id)
        } else {
            Scope::All
        };
        let now = Duration::from_secs(1);
        assert!(matches!(flow.take(scope, false, now), Taken::Empty));
        // The reader's clock was read some time before it had the lock.
        assert!(
            flow.plan(now + IDLE, |_, _| true, leader)
                .fetches
                .is_empty()
        );
        flow.has_work = false;
        let waker = Waker::noop();
        flow.wait(scope, WaiterId(1), waker);
        assert!(std::mem::take(&mut flow.has_work), "{scope:?}");
        assert_eq!(flow.plan(now + IDLE, |_, _| true, leader).fetches.len(), 1);
        flow.wait(scope, WaiterId(1), waker);
        assert!(!flow.has_work, "once is enough");
    }
}

#[test]
fn a_reader_that_has_records_left_gets_no_more_than_the_budget_and_a_batch_from_each_node() {
    const COUNT: usize = 60;
    let shapes = [(5, 0, false, 0); 4];
    let logs: Vec<_> = (0..COUNT).map(|at| Log::new(at, &shapes)).collect();
    let largest = logs.iter().flat_map(|log| &log.batches);
    let largest = largest.map(|batch| batch.bytes.len()).max().expect("many");
    assert!(COUNT * largest > 10 * TOTAL);
    let mut world = World::new(logs);
    let mut rounds = 0;
    while world.delivered.values().map(Vec::len).sum::<usize>() < COUNT * 20 {
        rounds += 1;
        assert!(rounds < 5_000, "a partition is stuck: {:?}", world.seen);
        world.take(None, true);
        // The fetcher has time for all that it is allowed.
        for _ in 0..COUNT {
            world.plan();
            world.answer(0, false, false);
        }
        let charged = world.flow.budget.charged();
        let nodes = usize::try_from(NODES).expect("small");
        assert!(charged <= TOTAL + nodes * largest, "{charged}");
        world.opened(0);
    }
}

#[test]
fn a_reader_is_told_of_a_partition_that_stays_unknown_and_it_is_asked_for_ever_more_rarely() {
    let mut flow = Flow::new(config());
    let id = flow.assign(&name(0), Standing::Stuck);
    flow.seek(id, 10, None);
    let mut now = Duration::from_secs(1);
    let begin = now;
    let (mut asked, mut told) = (Vec::new(), Vec::new());
    while now < begin + Duration::from_hours(1) {
        let plan = flow.plan(now, |_, _| true, |_| Err(NoLeader::Unknown));
        assert!(plan.fetches.is_empty() && plan.lookups.is_empty());
        if plan.needs_metadata {
            asked.push(now);
        }
        while let Taken::Fault(error) = flow.take(Scope::All, false, now) {
            let code = match &error {
                ConsumerError::Partition { error, .. } => Some(error.code),
                _ => None,
            };
            let unknown = crate::error::ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            assert_eq!(code, Some(unknown), "{error}");
            told.push(now);
        }
        now = plan.retry_at.expect("it is asked for again");
    }
    let first = told.first().expect("an error");
    assert!((30..60).contains(&(*first - begin).as_secs()), "{first:?}");
    assert!(asked.len() < 30 && told.len() > 10, "{asked:?}");
    let pauses: Vec<_> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.is_sorted(), "{pauses:?}");
    // Once the topic is there again, nothing has to be waited for.
    flow.plan(now, |_, _| true, |_| Err(NoLeader::Unknown));
    while matches!(flow.take(Scope::All, false, now), Taken::Fault(_)) {}
    let plan = flow.plan(now, |_, _| true, leader);
    assert_eq!(plan.fetches.len(), 1);
}
