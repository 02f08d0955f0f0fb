//! A block of the log cache: what was appended between two uploads, of all streams.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use millrace_budget::Charge;
use millrace_model::{Offset, StreamEpoch, StreamId};
use millrace_wal::WalRange;
use tokio::sync::Notify;

use crate::entry::Entry;

/// The entries of one stream in one block: contiguous.
#[derive(Debug)]
pub(crate) struct StreamRun {
    /// The opening of the stream under which the last entry was appended.
    pub(crate) epoch: StreamEpoch,
    pub(crate) entries: Vec<Entry>,
    /// The CRC32C of each one's payload, where it is known.
    pub(crate) payload_sums: Vec<Option<u32>>,
    /// Where in the log the record of each is.
    pub(crate) places: Vec<WalRange>,
    /// Bytes of payload.
    pub(crate) bytes: u64,
}

impl StreamRun {
    pub(crate) fn end(&self) -> Offset {
        self.entries.last().map_or(0, Entry::end_offset)
    }

    pub(crate) fn offsets(&self) -> Range<Offset> {
        self.entries.first().map_or(0, |first| first.base_offset)..self.end()
    }
}

/// How many entries of a block are not durable yet.
#[derive(Debug, Default)]
pub(crate) struct Durability {
    pending: AtomicU64,
    settled: Notify,
}

impl Durability {
    /// One more entry waits for the device.
    pub(crate) fn begin(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// An entry is durable.
    pub(crate) fn done(&self) {
        // Release: a thread that sees zero also sees what was written before.
        if self.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.settled.notify_waiters();
        }
    }

    /// Resolves when every entry is durable. Only on a sealed block: else more entries may follow.
    pub(crate) async fn settled(&self) {
        loop {
            // Before the look, so that what is notified after it is not missed.
            let settled = self.settled.notified();
            if self.pending.load(Ordering::Acquire) == 0 {
                return;
            }
            settled.await;
        }
    }
}

/// A block. The open one takes appends; a sealed one is never changed again.
#[derive(Debug)]
pub(crate) struct Block {
    /// Counts the blocks of this store, from 0.
    pub(crate) sequence: u64,
    pub(crate) streams: HashMap<StreamId, StreamRun>,
    /// Bytes of payload.
    pub(crate) bytes: u64,
    /// What its entries cost the budget; given back when the block is dropped.
    charge: Option<Charge>,
    /// The log's position before its first record; `None` while it is empty.
    wal_start: Option<u64>,
    /// The log's position after its last record: up to here the log may be trimmed once this block
    /// and all before it are committed.
    pub(crate) wal_end: u64,
    /// When the first entry came in.
    opened_at: Option<Duration>,
    /// Its payloads had been left to the log: its streams have only their places.
    pub(crate) read_back: bool,
    pub(crate) durability: Arc<Durability>,
}

impl Block {
    pub(crate) fn new(sequence: u64) -> Self {
        Self {
            sequence,
            streams: HashMap::new(),
            bytes: 0,
            charge: None,
            wal_start: None,
            wal_end: 0,
            opened_at: None,
            read_back: false,
            durability: Arc::default(),
        }
    }

    /// A block to be filled with what is read back, at the price of `charge` in all.
    pub(crate) fn read_back(sequence: u64, charge: Charge) -> Self {
        Self {
            charge: Some(charge),
            read_back: true,
            ..Self::new(sequence)
        }
    }

    /// What its entries cost the budget.
    pub(crate) fn charged_bytes(&self) -> u64 {
        self.charge.as_ref().map_or(0, Charge::bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Bytes of the log that wait for this block.
    pub(crate) fn wal_span(&self) -> u64 {
        self.wal_start
            .map_or(0, |start| self.wal_end.saturating_sub(start))
    }

    /// How long the first entry has been here.
    pub(crate) fn age(&self, now: Duration) -> Duration {
        self.opened_at
            .map_or(Duration::ZERO, |opened| now.saturating_sub(opened))
    }

    pub(crate) fn push(&mut self, placed: Placed, now: Duration) {
        let Placed {
            stream,
            epoch,
            entry,
            payload_sum,
            wal,
            charge,
        } = placed;
        self.bytes += entry.payload.len() as u64;
        self.wal_start.get_or_insert(wal.start);
        self.wal_end = self.wal_end.max(wal.end);
        self.opened_at.get_or_insert(now);
        match &mut self.charge {
            Some(mine) => mine.absorb(charge),
            none => *none = Some(charge),
        }
        let run = self.streams.entry(stream).or_insert_with(|| StreamRun {
            epoch,
            entries: Vec::new(),
            payload_sums: Vec::new(),
            places: Vec::new(),
            bytes: 0,
        });
        run.epoch = epoch;
        run.bytes += entry.payload.len() as u64;
        run.entries.push(entry);
        run.payload_sums.push(payload_sum);
        run.places.push(WalRange {
            start: wal.start,
            end: wal.end,
        });
    }
}

/// An entry with its place in the log and what it costs.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) stream: StreamId,
    pub(crate) epoch: StreamEpoch,
    pub(crate) entry: Entry,
    pub(crate) payload_sum: Option<u32>,
    /// Its record's positions in the log.
    pub(crate) wal: Range<u64>,
    pub(crate) charge: Charge,
}
