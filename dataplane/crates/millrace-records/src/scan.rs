//! A scan: batches of some partitions up to given offsets, within bounds of time and bytes.

use std::{collections::BTreeMap, pin::Pin, time::Duration};

use futures_util::FutureExt;
use millrace_client::{
    Consumer, TopicPartition,
    consumer::{RecordBatch, RecordRef},
};
use tokio::time::{Sleep, sleep};

use crate::{
    error::RecordsError,
    lane::{Lane, assign},
    limits::{POSITION_CHECK, SCANNED_BYTES_MAX},
    record::size_bytes,
};

/// See the module.
pub(crate) struct Scan {
    consumer: Consumer,
    deadline: Pin<Box<Sleep>>,
    /// The partitions that are read now, and where each ends.
    ends: Ends,
    /// Records that were looked at.
    pub(crate) records: u64,
    /// Their keys, values and headers.
    pub(crate) bytes: u64,
}

/// By partition.
type Ends = BTreeMap<i32, (TopicPartition, i64)>;

/// What comes next.
pub(crate) enum Step {
    Batch(RecordBatch),
    /// A partition has no more records before its end.
    Ended(i32),
    /// All have been read to their ends, or left.
    Done,
    /// Time or bytes have run out.
    OutOfBudget,
}

impl Scan {
    pub(crate) fn new(consumer: Consumer, wait: Duration) -> Self {
        Self {
            consumer,
            deadline: Box::pin(sleep(wait)),
            ends: BTreeMap::new(),
            records: 0,
            bytes: 0,
        }
    }

    /// Reads each of these partitions from where it stands to its offset, and no others.
    pub(crate) fn read<'a>(
        &mut self,
        lanes: impl Iterator<Item = (&'a Lane, i64)> + Clone,
    ) -> Result<(), RecordsError> {
        let open = lanes.filter(|(lane, end)| lane.next < *end);
        let end = |(lane, end): (&Lane, i64)| (lane.name.partition, (lane.name.clone(), end));
        self.ends = open.clone().map(end).collect();
        assign(&self.consumer, open.map(|(lane, _)| lane))
    }

    /// The partitions that have more to read.
    pub(crate) fn open(&self) -> impl Iterator<Item = i32> {
        self.ends.keys().copied()
    }

    /// Where the scan of a partition ends.
    pub(crate) fn end(&self, partition: i32) -> i64 {
        self.ends.get(&partition).map_or(0, |(_, end)| *end)
    }

    /// Reads no more of a partition.
    pub(crate) fn leave(&mut self, partition: i32) -> Result<(), RecordsError> {
        if let Some((name, _)) = self.ends.remove(&partition) {
            self.consumer.pause(&[name])?;
        }
        Ok(())
    }

    pub(crate) fn count(&mut self, record: &RecordRef<'_>) {
        self.records += 1;
        self.bytes += size_bytes(record) as u64;
    }

    /// Cancel-safe.
    pub(crate) async fn step(&mut self) -> Result<Step, RecordsError> {
        if self.ends.is_empty() {
            return Ok(Step::Done);
        }
        if self.bytes >= SCANNED_BYTES_MAX {
            return Ok(Step::OutOfBudget);
        }
        let partition = {
            // One call over all checks: a batch that waits for its turn keeps its place.
            let batch = self.consumer.next_batch();
            tokio::pin!(batch);
            loop {
                tokio::select! {
                    biased;
                    () = &mut self.deadline => {
                        return self.out_of_time(self.consumer.is_waiting_for_gate());
                    }
                    batch = &mut batch => return Ok(Step::Batch(batch?)),
                    () = sleep(POSITION_CHECK) => {}
                }
                if let Some(partition) = passed(&self.consumer, &self.ends) {
                    break partition;
                }
            }
        };
        self.leave(partition)?;
        Ok(Step::Ended(partition))
    }

    /// A read that has seen nothing because others have the memory for large batches says so: an answer
    /// without records and without progress would be asked for again and again.
    fn out_of_time(&self, waits_for_memory: bool) -> Result<Step, RecordsError> {
        if waits_for_memory && self.records == 0 {
            return Err(RecordsError::no_memory_for_batch());
        }
        Ok(Step::OutOfBudget)
    }
}

/// A partition whose position has passed its end without a record: what is left of it are markers of
/// transactions.
fn passed(consumer: &Consumer, ends: &Ends) -> Option<i32> {
    let mut ends = ends.iter();
    ends.find_map(|(partition, (name, end))| {
        let position = consumer.position(name).now_or_never()?.ok()?;
        (position >= *end).then_some(*partition)
    })
}
