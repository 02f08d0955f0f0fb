//! Consumers under load.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use millrace_client::{
    Client, Consumer, ConsumerConfig, ConsumerError, TopicPartition,
    consumer::{ConsumerMetrics, OffsetReset, RecordBatch, RecordRef, StartAt},
};

use crate::{
    ending::Reason,
    error::PerfError,
    mark::{Mark, Marked},
    options::Workload,
    phases::Phase,
    recorder::ByPhase,
    run::Run,
};

/// How often a reader that gets nothing looks whether it is through.
const LOOK: Duration = Duration::from_millis(500);
/// A run without a time limit that gets no record for so long will get no more.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Between two attempts after an error.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
/// A reader has caught up once what it reads was due less than this ago.
const CAUGHT_UP_US: u64 = 1_000_000;

/// Offsets by partition.
pub(crate) type Offsets = HashMap<TopicPartition, i64>;

/// When a reader is through, besides the end of the run.
#[derive(Debug)]
pub(crate) enum Goal {
    None,
    /// These partitions are read up to these offsets.
    Offsets(Offsets),
    /// These partitions are read up to what is being written; the reader goes on then.
    CaughtUp(HashSet<TopicPartition>),
}

/// What a reader's records count for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// `consumed`, with latencies.
    Consume,
    /// `replayed`.
    Replay,
    /// Nothing but the verification.
    Verify,
}

/// One consumer.
#[derive(Debug)]
pub(crate) struct Reader {
    run: Arc<Run>,
    consumer: Consumer,
    goal: Goal,
    role: Role,
}

/// Consumers that share the partitions evenly; fewer where there are not as many partitions.
pub(crate) fn consumers(
    client: &Client,
    partitions: &[TopicPartition],
    count: usize,
    start: &Start,
) -> Result<Vec<(Consumer, Vec<TopicPartition>)>, PerfError> {
    let count = count.min(partitions.len());
    let consumer = |index: usize| {
        let mut config = ConsumerConfig::default();
        config.auto_offset_reset = OffsetReset::Earliest;
        let consumer = Consumer::new(client, config);
        let share = partitions.iter().skip(index).step_by(count);
        let share: Vec<TopicPartition> = share.cloned().collect();
        consumer.assign(share.iter().cloned(), StartAt::Beginning)?;
        if let Start::At(offsets) = start {
            for partition in &share {
                let offset = offsets.get(partition).copied().unwrap_or(0);
                consumer.seek(partition, StartAt::Offset(offset))?;
            }
        }
        Ok((consumer, share))
    };
    (0..count).map(consumer).collect()
}

/// Where consumers start.
#[derive(Debug)]
pub(crate) enum Start {
    Beginning,
    At(Offsets),
}

impl Reader {
    pub(crate) fn new(run: &Arc<Run>, consumer: Consumer, goal: Goal, role: Role) -> Self {
        Self {
            run: Arc::clone(run),
            consumer,
            goal,
            role,
        }
    }

    /// Reads until the goal is reached or the readers are ended.
    pub(crate) async fn read(mut self) -> ConsumerMetrics {
        let run = Arc::clone(&self.run);
        let consumer = self.consumer.clone();
        while !self.is_through() {
            let next = tokio::time::timeout(LOOK, consumer.next_batch());
            let next = tokio::select! {
                biased;
                () = run.readers_end.cancelled() => break,
                next = next => next,
            };
            match next {
                Ok(Ok(batch)) => self.take(batch),
                Ok(Err(ConsumerError::Closed)) => break,
                Ok(Err(error)) => self.failed(&error).await,
                Err(_) => self.look().await,
            }
        }
        consumer.metrics()
    }

    fn is_through(&self) -> bool {
        matches!(&self.goal, Goal::Offsets(left) if left.is_empty())
    }

    /// A damaged batch is not delivered again, so the partition would stand still.
    async fn failed(&self, error: &ConsumerError) {
        self.run.consume_failed(error);
        if let ConsumerError::Corrupt { .. } = error {
            self.run.ending.fail(error);
            self.run.readers_end.cancel();
        }
        tokio::time::sleep(ERROR_PAUSE).await;
    }

    fn take(&mut self, mut batch: RecordBatch) {
        let now_us = self.run.phases.now_us();
        let partition = batch.topic_partition().clone();
        let next_offset = batch.next_offset();
        let run = Arc::clone(&self.run);
        let recorder = match self.role {
            Role::Consume => Some(&run.consumed),
            Role::Replay => Some(&run.replayed),
            Role::Verify => None,
        };
        let mut read = Read::new(&run, self.role, partition.partition, now_us);
        let mut taken = Ok(());
        match recorder {
            Some(recorder) => recorder.with(|to| taken = read.batch(&mut batch, Some(to))),
            None => taken = read.batch(&mut batch, None),
        }
        let (records, bytes, newest_due_us) = (read.records, read.bytes, read.newest_due_us);
        if let Err(error) = taken {
            run.ending.fail(error);
            run.readers_end.cancel();
            return;
        }
        let in_total = run.progress.add(records, bytes, now_us);
        self.note(&partition, next_offset, newest_due_us, now_us);
        if self.role == Role::Consume && run.plan.workload == Workload::Consume {
            let is_enough = run.plan.run.num_records.is_some_and(|max| in_total >= max);
            if is_enough {
                run.ending.end(Reason::Records);
            }
            run.ending.allows(bytes);
        }
    }

    /// Compares what was read with the goal.
    fn note(
        &mut self,
        partition: &TopicPartition,
        next_offset: i64,
        newest_due_us: Option<u64>,
        now_us: u64,
    ) {
        match &mut self.goal {
            Goal::None => {}
            Goal::Offsets(left) => {
                if left.get(partition).is_some_and(|end| next_offset >= *end) {
                    left.remove(partition);
                }
            }
            Goal::CaughtUp(behind) => {
                let is_fresh =
                    newest_due_us.is_some_and(|due| now_us.saturating_sub(due) < CAUGHT_UP_US);
                let is_at_end = || self.consumer.lag(partition) == Some(0);
                if behind.contains(partition) && (is_fresh || is_at_end()) {
                    behind.remove(partition);
                    if behind.is_empty() {
                        self.run.progress.caught_up(&self.run);
                    }
                }
            }
        }
    }

    /// Nothing came for a while: the end of a partition may have nothing to deliver.
    async fn look(&mut self) {
        let left: Vec<TopicPartition> = match &self.goal {
            Goal::None => Vec::new(),
            Goal::Offsets(left) => left.keys().cloned().collect(),
            Goal::CaughtUp(behind) => behind.iter().cloned().collect(),
        };
        for partition in left {
            if let Ok(position) = self.consumer.position(&partition).await {
                self.note(&partition, position, None, 0);
            }
        }
        let run = &self.run;
        let is_bounded = run.plan.run.duration.is_some() || run.plan.workload != Workload::Consume;
        let idle_us = run.phases.now_us().saturating_sub(run.progress.last_us());
        if !is_bounded && Duration::from_micros(idle_us) > IDLE_MAX {
            run.ending.fail(format!(
                "no record came for {} s; {} were consumed",
                IDLE_MAX.as_secs(),
                run.progress.records()
            ));
        }
    }
}

/// One batch while it is read.
struct Read<'a> {
    run: &'a Run,
    role: Role,
    partition: i32,
    now_us: u64,
    phase: Phase,
    records: u64,
    bytes: u64,
    newest_due_us: Option<u64>,
}

impl<'a> Read<'a> {
    fn new(run: &'a Run, role: Role, partition: i32, now_us: u64) -> Self {
        Self {
            run,
            role,
            partition,
            now_us,
            phase: run.phases.at(now_us),
            records: 0,
            bytes: 0,
            newest_due_us: None,
        }
    }

    fn batch(
        &mut self,
        batch: &mut RecordBatch,
        mut tallies: Option<&mut ByPhase>,
    ) -> Result<(), String> {
        let verifies = self.role != Role::Replay && self.run.verifier.is_some();
        let reads_marks = verifies || self.run.plan.marks_records();
        while let Some(record) = batch.next_ref() {
            let record = record.map_err(|error| error.to_string())?;
            let marked = match record.value {
                Some(value) if reads_marks => Mark::read(value, verifies),
                _ => Marked::No,
            };
            if let Some(verifier) = self.run.verifier.as_ref().filter(|_| verifies) {
                let checked = verifier
                    .lock()
                    .check(self.partition, record.offset, &marked);
                checked.map_err(|error| error.to_string())?;
            }
            self.count(&record, &marked, tallies.as_deref_mut());
        }
        Ok(())
    }

    fn count(&mut self, record: &RecordRef<'_>, marked: &Marked, tallies: Option<&mut ByPhase>) {
        let length = |bytes: Option<&[u8]>| bytes.map_or(0, |bytes| bytes.len() as u64);
        let bytes = length(record.key) + length(record.value);
        self.records += 1;
        self.bytes += bytes;
        let due_us = match marked {
            Marked::Sound(mark) if mark.run == self.run.id => Some(mark.due_us),
            _ => None,
        };
        self.newest_due_us = self.newest_due_us.max(due_us);
        let is_backlog = self.run.plan.workload == Workload::CatchUp;
        let phase = match due_us {
            // A record of the warm-up is not measured, whenever it comes.
            Some(due) if !is_backlog => self.run.phases.at(due),
            _ => self.phase,
        };
        let latency = due_us.map(|due| self.now_us.saturating_sub(due));
        let latency = latency.filter(|_| self.role == Role::Consume);
        if let Some(tallies) = tallies {
            tallies[phase as usize].add(bytes, latency);
        }
    }
}
