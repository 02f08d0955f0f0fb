//! What a reader gets.

use std::{task::Waker, time::Duration};

use bytes::Bytes;
use millrace_record::{
    BatchHeader, Compression, DECOMPRESSED_BYTES_MAX, InvalidBatch, Records, header::ATTRIBUTES_AT,
    records_within,
};

use super::{
    Flow, PartitionId, WaiterId,
    budget::FrameId,
    partition::{OpenBatch, Partition},
};
use crate::consumer::{
    config::AutoCommit,
    error::ConsumerError,
    record::{ConsumerRecord, RecordBatch},
};

/// Whose records a reader wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::consumer) enum Scope {
    /// Those of all partitions without a stream of their own.
    All,
    /// Those of one partition.
    One(PartitionId),
}

/// What a reader gets.
#[derive(Debug)]
pub(in crate::consumer) enum Taken {
    /// One record.
    Record(ConsumerRecord),
    /// What is left of a batch.
    Batch(RecordBatch),
    /// The next batch, for [`open`] or [`open_within`]; then `opened`, then `take` again.
    Open(Opening),
    /// An error.
    Fault(ConsumerError),
    /// Nothing now.
    Empty,
    /// Nothing ever again.
    End,
}

/// A batch that must be checked and decompressed.
#[derive(Debug)]
pub(in crate::consumer) struct Opening {
    id: PartitionId,
    token: u64,
    header: BatchHeader,
    batch: Bytes,
    frame: FrameId,
    check_crc: bool,
}

#[cfg(test)]
impl Opening {
    pub(super) fn len(&self) -> usize {
        self.batch.len()
    }
}

/// Checks and decompresses a batch. The slow part of a delivery; needs no lock.
pub(in crate::consumer) fn open(opening: &Opening) -> Result<Records, String> {
    let opened = open_within(opening, DECOMPRESSED_BYTES_MAX);
    opened.unwrap_or_else(|| Err(InvalidBatch::DecompressedTooLarge.to_string()))
}

/// As [`open`]; nothing where it would decompress to more than `bytes_max`.
pub(in crate::consumer) fn open_within(
    opening: &Opening,
    bytes_max: usize,
) -> Option<Result<Records, String>> {
    if opening.check_crc {
        let signed = opening.batch.get(ATTRIBUTES_AT..).unwrap_or_default();
        let computed = millrace_model::crc32c(signed);
        if computed != opening.header.crc {
            return Some(Err(format!(
                "its checksum is {:#010x}, but its content has {computed:#010x}",
                opening.header.crc
            )));
        }
    }
    match records_within(&opening.batch, bytes_max) {
        Err(InvalidBatch::DecompressedTooLarge) => None,
        opened => Some(opened.map_err(|reason| reason.to_string())),
    }
}

impl Flow {
    /// The next record, or with `whole` the rest of the next batch. Asking is demand.
    pub(in crate::consumer) fn take(&mut self, scope: Scope, whole: bool, now: Duration) -> Taken {
        if self.is_closed {
            return self.failure.take().map_or(Taken::End, Taken::Fault);
        }
        match scope {
            Scope::All => {
                self.ask_all(now);
                self.take_any(whole)
            }
            Scope::One(id) => {
                if self.get(id).is_none() {
                    return Taken::End;
                }
                self.ask_one(id, now);
                let taken = self.take_from(id, whole);
                self.want(id);
                taken
            }
        }
    }

    /// The reader waits; `waker` is called when `take` may have something.
    pub(in crate::consumer) fn wait(&mut self, scope: Scope, waiter: WaiterId, waker: &Waker) {
        let is_first = match scope {
            Scope::All => self.demand.wait(waiter, waker),
            Scope::One(id) => self
                .get_mut(id)
                .is_some_and(|partition| partition.demand.wait(waiter, waker)),
        };
        // The demand that `take` told of may have ended before the fetcher looked.
        self.has_work |= is_first;
    }

    /// The reader does not wait any more.
    pub(in crate::consumer) fn leave(&mut self, scope: Scope, waiter: WaiterId) {
        match scope {
            Scope::All => self.demand.leave(waiter),
            Scope::One(id) => {
                if let Some(partition) = self.get_mut(id) {
                    partition.demand.leave(waiter);
                }
            }
        }
    }

    fn ask_all(&mut self, now: Duration) {
        let idle = self.config.prefetch_idle;
        if !self.demand.is_active(now, idle) {
            self.has_work = true;
        }
        self.demand.ask(now);
        if let Some(id) = self.last_taken
            && let Some(partition) = self.get_mut(id)
        {
            partition.progress.ask(partition.next);
        }
    }

    fn ask_one(&mut self, id: PartitionId, now: Duration) {
        let idle = self.config.prefetch_idle;
        let Some(partition) = self.get_mut(id) else {
            return;
        };
        let is_new = !partition.demand.is_active(now, idle);
        partition.demand.ask(now);
        if partition.has_position() {
            partition.progress.ask(partition.next);
        }
        self.has_work |= is_new;
    }

    fn take_any(&mut self, whole: bool) -> Taken {
        let unprocessed_max = self.unprocessed_max();
        while let Some(&id) = self.ready.front() {
            let deliverable = self
                .get(id)
                .is_some_and(|one| !one.has_stream && one.is_deliverable(unprocessed_max));
            if deliverable {
                let taken = self.take_from(id, whole);
                self.rotate(id);
                self.want(id);
                if !matches!(taken, Taken::Empty) {
                    self.last_taken = Some(id);
                    return taken;
                }
            } else {
                self.ready.pop_front();
                if let Some(partition) = self.get_mut(id) {
                    partition.is_ready = false;
                }
            }
        }
        self.has_work |= std::mem::take(&mut self.is_held_back);
        Taken::Empty
    }

    /// After a whole batch it is the next partition's turn. A partition whose batch is being opened
    /// keeps its turn: `opened` puts it back to the front.
    fn rotate(&mut self, id: PartitionId) {
        let unprocessed_max = self.unprocessed_max();
        let Some(partition) = self.get_mut(id) else {
            return;
        };
        if partition.open.is_some() {
            return;
        }
        let deliverable = partition.is_deliverable(unprocessed_max);
        partition.is_ready = deliverable;
        let front = self.ready.pop_front();
        debug_assert_eq!(front, Some(id), "it was at the front");
        if deliverable {
            self.ready.push_back(id);
        }
    }

    fn take_from(&mut self, id: PartitionId, whole: bool) -> Taken {
        let tracks = self.config.auto_commit == AutoCommit::WhenProcessed;
        let unprocessed_max = self.unprocessed_max();
        let check_crc = self.config.check_crcs;
        let slot = self.partitions.get_mut(id.index).and_then(Option::as_mut);
        let Some(partition) = slot.filter(|slot| slot.serial == id.serial) else {
            return Taken::End;
        };
        if !partition.is_deliverable(unprocessed_max) {
            return Taken::Empty;
        }
        if let Some(fault) = partition.fault.take() {
            return Taken::Fault(fault);
        }
        let from = partition.next;
        if let Some(open) = partition.open.take() {
            let taken = if whole {
                Some(Taken::Batch(partition.hand_over(open, &mut self.budget)))
            } else {
                let taken = partition.deliver(open, &mut self.budget);
                self.metrics.delivered_records +=
                    u64::from(matches!(taken, Some(Taken::Record(_))));
                taken
            };
            self.metrics.delivered_batches += u64::from(partition.open.is_none());
            if let Some(taken) = taken {
                match &taken {
                    Taken::Record(record) if tracks => {
                        partition.progress.delivered(from, record.offset + 1);
                    }
                    Taken::Batch(batch) if tracks => {
                        partition.progress.delivered(from, batch.next_offset);
                    }
                    _ => {}
                }
                return taken;
            }
        }
        match partition.next_batch(&mut self.budget) {
            None => Taken::Empty,
            Some((header, batch, frame)) => {
                partition.is_opening = true;
                Taken::Open(Opening {
                    id,
                    token: partition.token,
                    header,
                    batch,
                    frame,
                    check_crc,
                })
            }
        }
    }

    /// A batch has been opened, or cannot be.
    pub(in crate::consumer) fn opened(
        &mut self,
        opening: Opening,
        outcome: Result<Records, String>,
        now: Duration,
    ) {
        let Opening {
            id,
            token,
            header,
            batch,
            frame,
            ..
        } = opening;
        let share = self.share();
        let slot = self.partitions.get_mut(id.index).and_then(Option::as_mut);
        let current = slot.filter(|slot| slot.serial == id.serial && slot.token == token);
        let Some(partition) = current else {
            // Its partition was sought or revoked, which could not see this batch.
            self.budget.release(frame, batch.len());
            return;
        };
        partition.is_opening = false;
        match outcome {
            Ok(records) => {
                let mut open = OpenBatch {
                    records,
                    header,
                    frame,
                    bytes: batch.len(),
                    packed: None,
                };
                if header.compression() != Ok(Compression::None) {
                    open.bytes = open.records.data_bytes();
                    open.frame = self.budget.charge(open.bytes, open.bytes);
                    partition.buffered += open.bytes;
                    if open.bytes > share {
                        open.packed = Some((batch, frame));
                    } else {
                        partition.release(frame, batch.len(), &mut self.budget);
                    }
                }
                partition.open = Some(open);
                self.pack_idle(id, now);
            }
            Err(reason) => {
                partition.release(frame, batch.len(), &mut self.budget);
                self.metrics.discarded_bytes += batch.len() as u64;
                self.damaged(id, reason, now);
            }
        }
        self.offer(id, true);
        self.want(id);
    }

    /// Whether a batch that is being opened is still of use: its partition was not sought or revoked.
    pub(in crate::consumer) fn is_current(&mut self, opening: &Opening) -> bool {
        self.current(opening.id, opening.token).is_some()
    }

    /// A batch was not opened after all: it is the next one of its partition again.
    pub(in crate::consumer) fn unopened(&mut self, opening: Opening) {
        let Opening {
            id,
            token,
            batch,
            frame,
            ..
        } = opening;
        let Some(partition) = self.current(id, token) else {
            self.budget.release(frame, batch.len());
            return;
        };
        partition.is_opening = false;
        partition.put_back(batch, frame);
        self.offer(id, true);
    }

    /// Where the budget is exceeded, packs the large batches that nobody is reading now. So only those
    /// of active readers exceed it, by one batch each.
    fn pack_idle(&mut self, opened: PartitionId, now: Duration) {
        for index in 0..self.partitions.len() {
            if self.budget.charged() <= self.budget.total() {
                return;
            }
            let slot = self.partitions[index].as_ref();
            let is_idle = slot.is_some_and(|one| {
                index != opened.index && (one.is_paused || !self.has_demand(one, now))
            });
            if let Some(partition) = self.partitions[index].as_mut().filter(|_| is_idle) {
                partition.pack(&mut self.budget);
            }
        }
    }

    /// Fetches a damaged batch once more: the connection may have done it. Then it is an error.
    pub(super) fn damaged(&mut self, id: PartitionId, reason: String, now: Duration) {
        let Some(partition) = self.invalidate(id) else {
            return;
        };
        let (offset, epoch) = (partition.next, partition.next_epoch);
        let is_first = partition.corrupt_at != Some(offset);
        partition.restart(offset, epoch);
        partition.corrupt_at = Some(offset);
        if is_first {
            partition.retry_at = now;
            return;
        }
        partition.standing = super::Standing::Stuck;
        partition.fault = Some(ConsumerError::Corrupt {
            partition: partition.name.clone(),
            offset,
            reason,
        });
    }
}

impl Partition {
    /// The next record of the open batch, which stays open while it has more.
    fn deliver(&mut self, mut open: OpenBatch, budget: &mut super::Budget) -> Option<Taken> {
        loop {
            match open.records.next() {
                Some(Ok(record)) if record.offset < self.next => {}
                Some(Ok(record)) => {
                    self.next = record.offset + 1;
                    let epoch = Some(open.header.leader_epoch).filter(|epoch| *epoch >= 0);
                    self.next_epoch = epoch;
                    let record = ConsumerRecord::new(&self.name, epoch, record);
                    if open.records.data_bytes() > 0 {
                        self.open = Some(open);
                    } else {
                        self.pass(&open.header);
                        self.close(open, budget);
                    }
                    return Some(Taken::Record(record));
                }
                Some(Err(reason)) => {
                    let partition = self.name.clone();
                    let offset = self.next;
                    self.close(open, budget);
                    self.standing = super::Standing::Stuck;
                    return Some(Taken::Fault(ConsumerError::Corrupt {
                        partition,
                        offset,
                        reason: reason.to_string(),
                    }));
                }
                None => {
                    self.pass(&open.header);
                    self.close(open, budget);
                    return None;
                }
            }
        }
    }

    /// All that is left of the open batch.
    fn hand_over(&mut self, open: OpenBatch, budget: &mut super::Budget) -> RecordBatch {
        let from = self.next;
        self.pass(&open.header);
        let records = self.close(open, budget);
        let offsets = (from, self.next);
        RecordBatch::new(self.name.clone(), self.next_epoch, offsets, records)
    }
}
