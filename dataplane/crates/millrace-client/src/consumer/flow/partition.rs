//! One assigned partition: where it stands, what is buffered of it.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use millrace_record::{BatchHeader, Records, header_of};

use super::{
    aborted::Aborted,
    budget::{Budget, FrameId},
    demand::Demand,
    plan::Unknown,
    progress::Progress,
};
use crate::{
    consumer::{config::OffsetReset, error::ConsumerError},
    topic_partition::TopicPartition,
};

/// What has to happen before the partition can be fetched.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::consumer) enum Standing {
    /// The group's committed offset must be found out.
    Committed,
    /// An offset must be found out, for a reason that an error can name.
    Reset(OffsetReset, Option<i64>),
    /// As above: the first record that is not older than this.
    At(i64),
    /// The log may have been truncated since the position was taken (KIP-320).
    Validate,
    /// Nothing: it can be fetched.
    Ready,
    /// The caller has to seek.
    Stuck,
}

/// What is buffered of one answer.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Whole batches, back to back.
    pub(super) bytes: Bytes,
    pub(super) frame: FrameId,
    pub(super) aborted: Aborted,
}

/// The batch that is being delivered.
#[derive(Debug)]
pub(super) struct OpenBatch {
    pub(super) records: Records,
    pub(super) header: BatchHeader,
    pub(super) frame: FrameId,
    /// What it is charged in its frame.
    pub(super) bytes: usize,
    /// The batch as it was fetched, and its frame, where its records take more than the partition's
    /// part of the budget: see [`Partition::pack`].
    pub(super) packed: Option<(Bytes, FrameId)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) name: TopicPartition,
    pub(super) serial: u64,
    /// Changes when what is fetched under an older one is of no use any more.
    pub(super) token: u64,
    pub(super) standing: Standing,
    pub(super) is_paused: bool,
    /// It is about to be revoked: nothing is delivered or fetched any more.
    pub(super) is_leaving: bool,
    /// It has a stream of its own, which alone gets its records.
    pub(super) has_stream: bool,
    pub(super) demand: Demand,
    /// The offset of the next record to deliver.
    pub(super) next: i64,
    /// The epoch of the last batch that was delivered.
    pub(super) next_epoch: Option<i32>,
    /// The offset to fetch next: behind all that is buffered.
    pub(super) fetch_offset: i64,
    /// The epoch of the last batch that was fetched.
    pub(super) fetch_epoch: Option<i32>,
    /// The leader's epoch under which the position was last known to be valid.
    pub(super) leader_epoch: Option<i32>,
    pub(super) chunks: VecDeque<Chunk>,
    pub(super) open: Option<OpenBatch>,
    /// A reader is opening the next batch; see [`Flow`](super::Flow).
    pub(super) is_opening: bool,
    /// Bytes that are charged for it.
    pub(super) buffered: usize,
    /// It is part of a request that is not answered.
    pub(super) in_flight: bool,
    /// The fetcher has been told that there is something to fetch.
    pub(super) is_wanted: bool,
    pub(super) is_ready: bool,
    pub(super) failures: u32,
    pub(super) retry_at: Duration,
    /// The cluster does not know it.
    pub(super) unknown: Option<Unknown>,
    /// The offset at which a damaged batch was found.
    pub(super) corrupt_at: Option<i64>,
    pub(super) fault: Option<ConsumerError>,
    pub(super) progress: Progress,
    pub(super) high_watermark: Option<i64>,
    pub(super) last_stable_offset: Option<i64>,
}

impl Partition {
    pub(super) fn new(name: TopicPartition, serial: u64, standing: Standing) -> Self {
        Self {
            name,
            serial,
            token: serial,
            standing,
            is_paused: false,
            is_leaving: false,
            has_stream: false,
            demand: Demand::default(),
            next: 0,
            next_epoch: None,
            fetch_offset: 0,
            fetch_epoch: None,
            leader_epoch: None,
            chunks: VecDeque::new(),
            open: None,
            is_opening: false,
            buffered: 0,
            in_flight: false,
            is_wanted: false,
            is_ready: false,
            failures: 0,
            retry_at: Duration::ZERO,
            unknown: None,
            corrupt_at: None,
            fault: None,
            progress: Progress::default(),
            high_watermark: None,
            last_stable_offset: None,
        }
    }

    /// Whether the next offset is known.
    pub(super) fn has_position(&self) -> bool {
        matches!(self.standing, Standing::Ready | Standing::Validate)
    }

    pub(super) fn has_records(&self) -> bool {
        self.open.is_some() || !self.chunks.is_empty()
    }

    pub(super) fn is_deliverable(&self, unprocessed_max: usize) -> bool {
        let has_room = self.progress.unprocessed() < unprocessed_max;
        let is_open = !self.is_paused && !self.is_opening && self.has_position();
        let has_records = is_open && self.has_records() && has_room;
        !self.is_leaving && (has_records || self.fault.is_some())
    }

    /// Drops what is buffered and what is on its way.
    pub(super) fn invalidate(&mut self, token: u64, budget: &mut Budget) {
        self.token = token;
        self.in_flight = false;
        self.is_opening = false;
        self.fault = None;
        for chunk in self.chunks.drain(..) {
            budget.release(chunk.frame, chunk.bytes.len());
        }
        if let Some(open) = self.open.take() {
            self.close(open, budget);
        }
        self.buffered = 0;
    }

    /// Gives back what an open batch took; its records.
    pub(super) fn close(&mut self, open: OpenBatch, budget: &mut Budget) -> Records {
        self.release(open.frame, open.bytes, budget);
        if let Some((batch, frame)) = open.packed {
            self.release(frame, batch.len(), budget);
        }
        open.records
    }

    /// Puts an open batch back as it was fetched, if its records take more than the partition's part
    /// of the budget. The next read opens it again.
    pub(super) fn pack(&mut self, budget: &mut Budget) {
        let Some(open) = self.open.take_if(|open| open.packed.is_some()) else {
            return;
        };
        self.release(open.frame, open.bytes, budget);
        if let Some((batch, frame)) = open.packed {
            self.put_back(batch, frame);
        }
    }

    /// Makes a batch that was taken the next one again.
    pub(super) fn put_back(&mut self, batch: Bytes, frame: FrameId) {
        self.chunks.push_front(Chunk {
            bytes: batch,
            frame,
            // It was admitted already, and a data batch says nothing about those behind it.
            aborted: Aborted::default(),
        });
    }

    /// Goes on at an offset; what is buffered must have been dropped.
    pub(super) fn restart(&mut self, offset: i64, epoch: Option<i32>) {
        debug_assert!(!self.has_records(), "the buffer belongs to another offset");
        self.standing = Standing::Ready;
        self.next = offset;
        self.next_epoch = epoch;
        self.fetch_offset = offset;
        self.fetch_epoch = epoch;
        self.leader_epoch = None;
        self.retry_at = Duration::ZERO;
        self.failures = 0;
    }

    /// Takes the next batch out of the buffer, unless it has nothing to deliver: control batches,
    /// aborted transactions, offsets before the position.
    pub(super) fn next_batch(
        &mut self,
        budget: &mut Budget,
    ) -> Option<(BatchHeader, Bytes, FrameId)> {
        loop {
            let chunk = self.chunks.front_mut()?;
            let frame = chunk.frame;
            let header = header_of(&chunk.bytes).ok();
            let header = header.filter(|header| header.size_bytes() <= chunk.bytes.len());
            let Some(header) = header else {
                debug_assert!(false, "only whole batches are buffered");
                let len = chunk.bytes.len();
                self.release(frame, len, budget);
                self.chunks.pop_front();
                continue;
            };
            let batch = chunk.bytes.split_to(header.size_bytes());
            let admitted = chunk.aborted.admits(&header, &batch);
            if chunk.bytes.is_empty() {
                self.chunks.pop_front();
            }
            if admitted && header.next_offset() > self.next {
                return Some((header, batch, frame));
            }
            self.pass(&header);
            self.release(frame, batch.len(), budget);
        }
    }

    /// All of a batch is delivered or skipped.
    pub(super) fn pass(&mut self, header: &BatchHeader) {
        self.next = self.next.max(header.next_offset());
        self.next_epoch = Some(header.leader_epoch).filter(|epoch| *epoch >= 0);
    }

    pub(super) fn release(&mut self, frame: FrameId, bytes: usize, budget: &mut Budget) {
        self.buffered = self.buffered.saturating_sub(bytes);
        budget.release(frame, bytes);
    }

    /// Copies out what is buffered in a frame.
    pub(super) fn unshare(&mut self, frame: FrameId, budget: &mut Budget) {
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.frame == frame) {
            let copy = Bytes::copy_from_slice(&chunk.bytes);
            chunk.frame = budget.charge(copy.len(), copy.len());
            budget.release(frame, copy.len());
            chunk.bytes = copy;
        }
    }

    /// How far the position is behind the end, as the last answer told it.
    pub(super) fn lag(&self, end: Option<i64>) -> Option<i64> {
        self.has_position()
            .then_some(end?.saturating_sub(self.next).max(0))
    }
}
