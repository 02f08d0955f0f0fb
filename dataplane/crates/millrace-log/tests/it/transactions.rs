//! Transactions through crashes, restarts and checkpoints: what a partition knows of them is what its log tells.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::FutureExt;
use millrace_log::{
    AbortedBounds, AbortedTransaction, AppendOrigin, Isolation, LogDefaults, PartitionLog,
    TransactionMarker, Verification,
    error::{AppendError, ReadError},
};
use millrace_meta::MetaStore as _;
use millrace_model::Offset;
use millrace_record::{
    Batch, BatchBuilder, BatchHeader, Compression, TransactionEnd, header_of, split,
};
use millrace_testkit::Crash;
use proptest::prelude::*;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    broker::{Broker, MIB, append, batch, create, open, open_with, partition, read_all},
    world::{World, small},
};

fn transactional((id, epoch, sequence): (i64, i16, i32), count: usize) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None)
        .producer(id, epoch, sequence)
        .transactional();
    for n in 0..count {
        builder.push(1, None, Some(&[n as u8]), &[]);
    }
    split(builder.build()).expect("sound").remove(0)
}

/// Appends as the produce handler does: with a guard where one is needed.
async fn send(log: &PartitionLog, producer: (i64, i16, i32), count: usize) -> Offset {
    let origin = match log.verification(producer.0, producer.1) {
        Verification::NotNeeded => AppendOrigin::Client,
        Verification::Needed(guard) => AppendOrigin::Verified(guard),
    };
    let ticket = log.append(vec![transactional(producer, count)], origin);
    let appended = ticket.await.expect("accepted").await.expect("durable");
    appended.base_offset
}

fn marker(id: i64, epoch: i16, committed: bool) -> TransactionMarker {
    TransactionMarker {
        producer_id: id,
        producer_epoch: epoch,
        coordinator_epoch: 0,
        committed,
        transaction_version: 1,
    }
}

async fn end(log: &PartitionLog, id: i64, epoch: i16, committed: bool) -> Offset {
    let ticket = log.append_marker(marker(id, epoch, committed)).await;
    let appended = ticket.expect("accepted").await.expect("durable");
    appended.base_offset
}

fn aborted(producer_id: i64, first_offset: Offset) -> AbortedTransaction {
    AbortedTransaction {
        producer_id,
        first_offset,
    }
}

#[tokio::test]
async fn committed_reads_end_at_the_oldest_open_transaction_and_tell_what_was_aborted() {
    let world = World::new(1, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[]).await;
    let seen = Arc::new(AtomicU64::new(0));
    let told = (Arc::downgrade(&log), Arc::clone(&seen));
    log.on_advance(Arc::new(move |_| {
        if let Some(log) = told.0.upgrade() {
            told.1.store(log.last_stable_offset(), Ordering::SeqCst);
        }
    }));
    assert_eq!(send(&log, (1, 0, 0), 2).await, 0);
    assert_eq!(send(&log, (2, 0, 0), 3).await, 2);
    let plain = log.append(vec![batch(None, &[1])], AppendOrigin::Client);
    plain.await.expect("accepted").await.expect("durable");
    assert_eq!((log.last_stable_offset(), log.high_watermark()), (0, 6));
    let read = log.read_isolated(Isolation::ReadCommitted, 0, 10_000, true);
    let read = read.await.expect("in range");
    assert_eq!((read.batches.len(), read.last_stable_offset), (0, 0));
    assert_eq!(read.aborted_transactions, Some(Vec::new()));
    assert_eq!(end(&log, 1, 0, false).await, 6);
    assert_eq!(log.last_stable_offset(), 2);
    assert_eq!(end(&log, 2, 0, true).await, 7);
    assert_eq!(log.last_stable_offset(), 8);
    assert_eq!(seen.load(Ordering::SeqCst), 8, "a listener sees it moved");
    let read = log.try_read_cached(Isolation::ReadCommitted, 0, 10_000, true);
    let read = read.expect("in range").expect("in memory");
    assert_eq!(read.batches.len(), 5);
    assert_eq!(read.aborted_transactions, Some(vec![aborted(1, 0)]));
    let read = log.try_read_cached(Isolation::ReadUncommitted, 0, 10_000, true);
    let read = read.expect("in range").expect("in memory");
    assert_eq!(read.aborted_transactions, None);
    let later = log.read_isolated(Isolation::ReadCommitted, 7, 10_000, true);
    let later = later.await.expect("in range");
    assert_eq!(later.aborted_transactions, Some(Vec::new()));
    broker.close().await;
}

#[tokio::test]
async fn a_batch_that_was_verified_before_a_marker_opens_no_transaction() {
    let world = World::new(2, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[]).await;
    let Verification::Needed(guard) = log.verification(1, 0) else {
        panic!("nothing is open");
    };
    // Without an open transaction, the marker is written nevertheless.
    assert_eq!(end(&log, 1, 0, false).await, 0);
    let late = vec![transactional((1, 0, 0), 1)];
    let late = log.append(late, AppendOrigin::Verified(guard)).await;
    let refused = AppendError::NotVerified { producer_id: 1 };
    assert_eq!(late.expect_err("late"), refused);
    assert_eq!(log.last_stable_offset(), 1);
    assert_eq!(log.aborted_transactions(0, 1).await.expect("readable"), []);
    assert_eq!(send(&log, (1, 0, 0), 1).await, 1);
    assert_eq!(log.verification(1, 0), Verification::NotNeeded);
    broker.close().await;
}

/// As group coordinators commit offsets in transactions.
#[tokio::test]
async fn coordinators_write_in_transactions_without_sequences() {
    let world = World::new(3, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[]).await;
    for _ in 0..2 {
        let batches = vec![transactional((9, 4, -1), 1)];
        let ticket = log.append(batches, AppendOrigin::Coordinator).await;
        ticket.expect("accepted").await.expect("durable");
    }
    assert_eq!(log.last_stable_offset(), 0);
    broker.close().await;
    let broker = open(&world).await;
    let log = partition(&broker, "t");
    let status = log.producers()[0];
    assert_eq!(
        (status.last_sequence, status.transaction_start),
        (-1, Some(0))
    );
    end(&log, 9, 4, true).await;
    assert_eq!(log.last_stable_offset(), 3);
    broker.close().await;
}

#[derive(Debug, Clone)]
enum Step {
    /// A producer appends; whether that is waited for.
    Send {
        id: i64,
        count: usize,
        wait: bool,
    },
    /// Its transaction ends, with an epoch that is higher or not.
    End {
        id: i64,
        committed: bool,
        bump: bool,
        wait: bool,
    },
    Flush,
    /// The checkpoint is waited for, or still under way when the next step comes.
    Checkpoint {
        wait: bool,
    },
    Trim(u64),
    Crash {
        power: bool,
    },
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => (0i64..4, 1usize..4, any::<bool>())
            .prop_map(|(id, count, wait)| Step::Send { id, count, wait }),
        8 => (0i64..4, prop::bool::weighted(0.3), any::<bool>(), any::<bool>())
            .prop_map(|(id, committed, bump, wait)| Step::End { id, committed, bump, wait }),
        1 => Just(Step::Flush),
        3 => any::<bool>().prop_map(|wait| Step::Checkpoint { wait }),
        1 => (0u64..30).prop_map(Step::Trim),
        1 => any::<bool>().prop_map(|power| Step::Crash { power }),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..100)
}

/// So few that most aborted transactions are in blocks, and that blocks are merged and moved.
const FEW: AbortedBounds = AbortedBounds {
    in_memory: 3,
    per_block: 2,
    merged: 6,
    slack_bytes: 200,
};

fn defaults(aborted_transactions: AbortedBounds) -> LogDefaults {
    LogDefaults {
        aborted_transactions,
        ..LogDefaults::default()
    }
}

/// What the log tells of one producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    epoch: i16,
    last_sequence: i32,
    coordinator_epoch: i32,
    open: Option<Offset>,
}

/// Every batch that was ever seen, those below the log start too.
#[derive(Default)]
struct Model {
    batches: BTreeMap<Offset, (BatchHeader, Option<TransactionEnd>)>,
}

impl Model {
    /// Takes over what is durable now.
    async fn look(&mut self, log: &PartitionLog) {
        self.batches.split_off(&log.high_watermark());
        for batch in read_all(log).await {
            self.see(&batch);
        }
    }

    fn see(&mut self, batch: &Bytes) {
        let header = header_of(batch).expect("a batch");
        let end = TransactionEnd::of(batch).expect("sound");
        let offset = u64::try_from(header.base_offset).expect("not negative");
        self.batches.insert(offset, (header, end));
    }

    /// The producers, and the aborted transactions with the offsets of their markers.
    fn replay(&self) -> (BTreeMap<i64, Known>, Vec<(AbortedTransaction, Offset)>) {
        let (mut known, mut all) = (BTreeMap::new(), Vec::new());
        for (&offset, (header, end)) in &self.batches {
            let one = known.entry(header.producer_id).or_insert(Known {
                epoch: header.producer_epoch,
                last_sequence: -1,
                coordinator_epoch: -1,
                open: None,
            });
            if one.epoch != header.producer_epoch {
                (one.epoch, one.last_sequence) = (header.producer_epoch, -1);
            }
            match end {
                None => {
                    one.last_sequence = header.last_sequence();
                    one.open.get_or_insert(offset);
                }
                Some(end) => {
                    one.coordinator_epoch = end.coordinator_epoch;
                    if let Some(first) = one.open.take().filter(|_| !end.committed) {
                        all.push((aborted(header.producer_id, first), offset));
                    }
                }
            }
        }
        (known, all)
    }

    async fn compare(&mut self, log: &PartitionLog) {
        self.look(log).await;
        let (known, aborted) = self.replay();
        let end = log.high_watermark();
        let open = known.values().filter_map(|one| one.open).min();
        let stable = open.map_or(end, |open| open.max(log.start_offset()));
        assert_eq!(log.last_stable_offset(), stable);
        let start = log.start_offset();
        let expected = |from, upper| {
            let overlaps = |(one, last): &&(AbortedTransaction, Offset)| {
                *last >= from && one.first_offset < upper
            };
            let expected = aborted.iter().filter(overlaps).map(|(one, _)| *one);
            expected.collect::<Vec<_>>()
        };
        let third = (stable - start) / 3;
        for (from, upper) in [
            (start, stable),
            (start + third, stable),
            (start, stable - third),
        ] {
            let found = log.aborted_transactions(from, upper).await;
            assert_eq!(found.expect("readable"), expected(from, upper));
        }
        for from in start..stable {
            for max_bytes in [1, 200 + from as usize % 7 * 200, 100_000] {
                let committed = Isolation::ReadCommitted;
                let read = log.read_isolated(committed, from, max_bytes, true).await;
                let read = read.expect("readable");
                let last = header_of(read.batches.last().expect("some")).expect("a batch");
                let end = u64::try_from(last.next_offset()).expect("not negative");
                assert_eq!(read.aborted_transactions, Some(expected(from, end)));
                let local = log.read_local(committed, from, max_bytes, true).await;
                for found in [
                    local.expect("in range"),
                    log.try_read_cached(committed, from, max_bytes, true)
                        .expect("in range"),
                ]
                .into_iter()
                .flatten()
                {
                    let last = header_of(found.batches.last().expect("some")).expect("a batch");
                    let end = u64::try_from(last.next_offset()).expect("not negative");
                    assert_eq!(found.aborted_transactions, Some(expected(from, end)));
                }
            }
        }
        let statuses = log.producers();
        let statuses = statuses.iter().map(|one| {
            let known = Known {
                epoch: one.epoch,
                last_sequence: one.last_sequence,
                coordinator_epoch: one.coordinator_epoch,
                open: one.transaction_start,
            };
            (one.producer_id, known)
        });
        assert_eq!(statuses.collect::<BTreeMap<_, _>>(), known);
    }
}

struct Run {
    world: World,
    bounds: AbortedBounds,
    broker: Option<Broker>,
    checkpointing: Vec<AbortOnDropHandle<()>>,
    model: Model,
    /// The last stable offset, which never moves back while the broker lives.
    stable: Offset,
}

impl Run {
    async fn new(seed: u64, bounds: AbortedBounds) -> Self {
        let world = World::new(seed, small(), 4 * MIB).await;
        let broker = open_with(&world, defaults(bounds)).await;
        create(&broker, "t", &[]).await;
        Self {
            world,
            bounds,
            broker: Some(broker),
            checkpointing: Vec::new(),
            model: Model::default(),
            stable: 0,
        }
    }

    fn log(&self) -> Arc<PartitionLog> {
        partition(self.broker.as_ref().expect("open"), "t")
    }

    async fn reopen(&mut self) {
        self.broker = Some(open_with(&self.world, defaults(self.bounds)).await);
        let log = self.log();
        self.model.compare(&log).await;
        self.stable = log.last_stable_offset();
    }

    async fn send(&self, id: i64, count: usize, wait: bool) {
        let log = self.log();
        let status = log
            .producers()
            .into_iter()
            .find(|one| one.producer_id == id);
        let (epoch, next) = status.map_or((0, 0), |one| (one.epoch, one.last_sequence + 1));
        let origin = match log.verification(id, epoch) {
            Verification::NotNeeded => AppendOrigin::Client,
            Verification::Needed(guard) => AppendOrigin::Verified(guard),
        };
        let batches = vec![transactional((id, epoch, next), count)];
        let ticket = log.append(batches, origin).await.expect("accepted");
        if wait {
            ticket.await.expect("durable");
        }
    }

    async fn end(&self, id: i64, (committed, bump): (bool, bool), wait: bool) {
        let log = self.log();
        let status = log
            .producers()
            .into_iter()
            .find(|one| one.producer_id == id);
        let (epoch, coordinator_epoch) = status.map_or((0, 0), |one| {
            (one.epoch, one.coordinator_epoch.max(0) + i32::from(bump))
        });
        let marker = TransactionMarker {
            producer_id: id,
            producer_epoch: epoch + i16::from(bump),
            coordinator_epoch,
            committed,
            transaction_version: if bump { 2 } else { 1 },
        };
        let ticket = log.append_marker(marker).await.expect("accepted");
        if wait {
            ticket.await.expect("durable");
        }
    }

    async fn step(&mut self, step: Step) {
        match step {
            Step::Send { id, count, wait } => self.send(id, count, wait).await,
            Step::End {
                id,
                committed,
                bump,
                wait,
            } => self.end(id, (committed, bump), wait).await,
            Step::Flush => {
                let broker = self.broker.as_ref().expect("open");
                broker.store.flush().await.expect("uploads");
            }
            Step::Checkpoint { wait } => {
                let logs = self.broker.as_ref().expect("open").logs.clone();
                let writing = tokio::spawn(async move { logs.checkpoint().await });
                if wait {
                    writing.await.expect("no panic");
                } else {
                    let micros = self.world.random.below(600);
                    tokio::time::sleep(Duration::from_micros(micros)).await;
                    self.checkpointing.push(AbortOnDropHandle::new(writing));
                }
            }
            Step::Trim(back) => {
                // Otherwise a crash would forget producers whose records are all deleted.
                self.broker.as_ref().expect("open").logs.checkpoint().await;
                let log = self.log();
                self.model.look(&log).await;
                let start = log.high_watermark().saturating_sub(back);
                log.trim(start).await.expect("trimmed");
            }
            Step::Crash { power } => {
                self.world.disk.crash(if power {
                    Crash::PowerLoss
                } else {
                    Crash::Killed
                });
                (self.broker, self.checkpointing) = (None, Vec::new());
                self.reopen().await;
            }
            Step::Restart => {
                self.broker.take().expect("open").close().await;
                self.reopen().await;
            }
        }
        let stable = self.log().last_stable_offset();
        assert!(stable >= self.stable, "it moved back");
        self.stable = stable;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_a_partition_knows_is_what_its_log_tells(
        steps in steps(), seed: u64, bounds in prop_oneof![4 => Just(FEW), 1 => Just(AbortedBounds::default())],
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let mut run = Run::new(seed, bounds).await;
            for step in steps {
                run.step(step).await;
            }
            run.step(Step::Crash { power: true }).await;
            run.step(Step::Restart).await;
        });
    }
}

/// A marker that is not durable yet keeps its transaction unstable, although nothing is open.
#[tokio::test]
async fn a_transaction_is_stable_only_once_its_marker_is_durable() {
    let world = World::new(5, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[]).await;
    send(&log, (1, 0, 0), 1).await;
    let ticket = log.append_marker(marker(1, 0, true)).await;
    let mut ticket = ticket.expect("accepted");
    // Whichever comes first: either it is durable and stable, or neither.
    let stable = log.last_stable_offset();
    if (&mut ticket).now_or_never().is_none() {
        assert_eq!(stable, 0);
    }
    ticket.await.expect("durable");
    assert_eq!(log.last_stable_offset(), 2);
    broker.close().await;
}

#[tokio::test]
async fn more_transactions_than_a_partition_may_have_open_are_refused_until_one_ends() {
    const MAX: usize = 5_000;
    let world = World::new(6, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[]).await;
    let begin = async |id: i64| {
        let Verification::Needed(guard) = log.verification(id, 0) else {
            panic!("nothing is open");
        };
        let batches = vec![transactional((id, 0, 0), 1)];
        log.append(batches, AppendOrigin::Verified(guard)).await
    };
    for id in 0..MAX as i64 {
        begin(id).await.expect("there is room");
    }
    let refused = AppendError::TooManyTransactions {
        bound: "open_transactions",
        max: MAX,
    };
    assert_eq!(begin(5_000).await.expect_err("too many"), refused);
    // Those that are open go on, and others write without transactions.
    let next = vec![transactional((0, 0, 1), 1)];
    let next = log.append(next, AppendOrigin::Client).await;
    next.expect("open").await.expect("durable");
    let plain = log.append(vec![batch(None, &[1])], AppendOrigin::Client);
    plain.await.expect("accepted").await.expect("durable");
    end(&log, 0, 0, false).await;
    begin(5_000).await.expect("one has ended");
    broker.close().await;
}

/// Sends one batch and aborts it, so many times, without waiting for each; gives the first offset of each.
async fn abort_many(log: &PartitionLog, count: usize) -> Vec<Offset> {
    let mut firsts = Vec::new();
    for _ in 0..count {
        let sequence = log
            .producers()
            .first()
            .map_or(0, |one| one.last_sequence + 1);
        let origin = match log.verification(7, 0) {
            Verification::NotNeeded => AppendOrigin::Client,
            Verification::Needed(guard) => AppendOrigin::Verified(guard),
        };
        firsts.push(log.end_offset());
        let batches = vec![transactional((7, 0, sequence), 1)];
        drop(log.append(batches, origin).await.expect("accepted"));
        let ticket = log.append_marker(marker(7, 0, false)).await;
        let ticket = ticket.expect("accepted");
        if firsts.len() % 100 == 0 || firsts.len() == count {
            ticket.await.expect("durable");
        }
    }
    firsts
}

/// With unlimited retention, a partition refused all transactions once 10,000 of them had been aborted.
#[tokio::test]
async fn aborted_transactions_have_no_limit() {
    const COUNT: usize = 11_000;
    let world = World::new(8, small(), 16 * MIB).await;
    let broker = open(&world).await;
    let log = create(&broker, "t", &[]).await;
    let firsts = abort_many(&log, COUNT).await;
    let check = async |log: &PartitionLog| {
        let told = log.aborted_transactions(0, log.last_stable_offset()).await;
        let told = told.expect("readable").into_iter();
        let told: Vec<_> = told.map(|one| one.first_offset).collect();
        assert_eq!(told, firsts);
        for n in [0, 1, 4_095, 4_096, 5_000, 9_000, COUNT - 1] {
            let read = log.read_isolated(Isolation::ReadCommitted, firsts[n], 1, true);
            let told = read.await.expect("readable").aborted_transactions;
            assert_eq!(told, Some(vec![aborted(7, firsts[n])]));
        }
    };
    check(&log).await;
    drop(log);
    broker.close().await;
    let broker = open(&world).await;
    let log = partition(&broker, "t");
    check(&log).await;
    // Below the log start, nothing is told and nothing is kept.
    log.trim(firsts[10_000]).await.expect("trimmed");
    let told = log.aborted_transactions(0, log.last_stable_offset()).await;
    assert_eq!(told.expect("readable").len(), COUNT - 10_000);
    broker.close().await;
}

/// Where the meta stream of the only partition begins.
async fn meta_start(world: &World) -> Offset {
    let topics = world.meta.topics().await.expect("found");
    let meta = topics[0].partitions[0].meta;
    let streams = world.meta.stream_summaries(None, 10).await.expect("found");
    let meta = streams.into_iter().find(|stream| stream.stream == meta);
    meta.expect("there").start
}

/// Blocks keep the checkpoints behind them in the stream.
#[tokio::test]
async fn the_meta_stream_is_trimmed_although_it_has_blocks() {
    let world = World::new(9, small(), 16 * MIB).await;
    let broker = open_with(&world, defaults(FEW)).await;
    let log = create(&broker, "t", &[]).await;
    let mut firsts = Vec::new();
    for round in 0..120 {
        if round < 20 {
            firsts.extend(abort_many(&log, 1).await);
        } else {
            append(&log, batch(None, &[1])).await.expect("appended");
        }
        broker.logs.checkpoint().await;
    }
    let start = meta_start(&world).await;
    assert!(start > 80, "120 checkpoints or more, from {start} on");
    let read = log.aborted_transactions(0, log.last_stable_offset()).await;
    let told = read.expect("readable").into_iter();
    assert_eq!(told.map(|one| one.first_offset).collect::<Vec<_>>(), firsts);
    drop(log);
    world.disk.crash(Crash::Killed);
    drop(broker);
    let broker = open_with(&world, defaults(FEW)).await;
    let log = partition(&broker, "t");
    let read = log.aborted_transactions(0, log.last_stable_offset()).await;
    assert_eq!(read.expect("readable").len(), firsts.len());
    broker.close().await;
}

/// Retention deletes the records of a partition that nobody writes to any more. Without records, no checkpoint was written, and the
/// blocks stayed.
#[tokio::test]
async fn blocks_of_deleted_transactions_do_not_stay_in_the_meta_stream() {
    let world = World::new(10, small(), 16 * MIB).await;
    let broker = open_with(&world, defaults(FEW)).await;
    let log = create(&broker, "t", &[]).await;
    for _ in 0..20 {
        abort_many(&log, 2).await;
        broker.logs.checkpoint().await;
    }
    let before = meta_start(&world).await;
    log.trim(log.end_offset()).await.expect("trimmed");
    broker.logs.checkpoint().await;
    let after = meta_start(&world).await;
    assert!(after >= before + 10, "{before} to {after}");
    // The same where the broker stops in between.
    for _ in 0..20 {
        abort_many(&log, 2).await;
        broker.logs.checkpoint().await;
    }
    let before = meta_start(&world).await;
    log.trim(log.end_offset()).await.expect("trimmed");
    drop(log);
    world.disk.crash(Crash::Killed);
    drop(broker);
    let broker = open_with(&world, defaults(FEW)).await;
    broker.logs.checkpoint().await;
    let after = meta_start(&world).await;
    assert!(after >= before + 10, "{before} to {after}");
    broker.close().await;
}

/// Fetches committed records of a log in which every second batch is the marker that aborts the one before it, from many offsets,
/// until it is told to stop. Gives how many it has read.
async fn fetch_until(log: Arc<PartitionLog>, stop: Arc<AtomicBool>, step: u64) -> u64 {
    let (mut reads, mut at) = (0, step);
    while !stop.load(Ordering::SeqCst) {
        tokio::task::yield_now().await;
        let (start, stable) = (log.start_offset(), log.last_stable_offset());
        if start >= stable {
            continue;
        }
        at = at.wrapping_mul(31).wrapping_add(step);
        let from = start + at % (stable - start);
        let read = log.read_isolated(Isolation::ReadCommitted, from, 1_000, true);
        let read = match read.await {
            Ok(read) => read,
            Err(ReadError::OutOfRange { .. }) if from < log.start_offset() => continue,
            Err(error) => panic!("{from}: {error}"),
        };
        let last = header_of(read.batches.last().expect("some")).expect("a batch");
        let end = u64::try_from(last.next_offset()).expect("not negative");
        let expected = (from / 2 * 2..end).step_by(2);
        let expected: Vec<_> = expected.map(|first| aborted(7, first)).collect();
        assert_eq!(read.aborted_transactions, Some(expected), "{from}..{end}");
        reads += 1;
    }
    reads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetches_are_told_of_all_aborted_transactions_while_blocks_are_rewritten_and_trimmed() {
    let world = World::new(11, small(), 4 * MIB).await;
    let bounds = AbortedBounds {
        slack_bytes: 0,
        ..FEW
    };
    let broker = open_with(&world, defaults(bounds)).await;
    let log = create(&broker, "t", &[]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let fetching = [7, 11, 13].map(|step| {
        let fetching = fetch_until(Arc::clone(&log), Arc::clone(&stop), step);
        AbortOnDropHandle::new(tokio::spawn(fetching))
    });
    for round in 0..200 {
        abort_many(&log, 3).await;
        broker.logs.checkpoint().await;
        if round % 10 == 0 {
            broker.store.flush().await.expect("uploads");
        }
        if round % 25 == 24 {
            let start = log.high_watermark() - 101;
            log.trim(start).await.expect("trimmed");
        }
    }
    stop.store(true, Ordering::SeqCst);
    for fetching in fetching {
        assert!(fetching.await.expect("no panic") > 100);
    }
    broker.close().await;
}
