//! A block on its way to the bucket, with its payloads in memory or offloaded to the log.

use std::{fmt, sync::Arc};

use millrace_budget::Charge;
use millrace_model::{StreamEpoch, StreamId};
use parking_lot::Mutex;

use super::{Block, CachedEntry, Durability};

/// A block that takes no more entries.
pub(crate) struct SealedBlock {
    /// Counts the blocks of this store, from 0.
    pub(crate) sequence: u64,
    /// Bytes of payload.
    pub(crate) bytes: u64,
    /// The most that it costs the cache while it is uploaded.
    pub(crate) cost: u64,
    /// The log may be trimmed up to here once this block and all before it are committed.
    pub(crate) wal_end: u64,
    pub(crate) durability: Arc<Durability>,
    contents: Mutex<Contents>,
}

/// Where a sealed block's payloads are.
#[derive(Debug)]
pub(crate) enum Contents {
    /// In memory.
    Memory(Arc<Block>),
    /// Only the log has them.
    Device(Places),
    /// An upload has taken them.
    Taken,
}

/// Where in the log the payloads of a block are.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Of each stream in offset order.
    pub(crate) entries: Vec<LocatedEntry>,
    /// What it costs to know them.
    pub(crate) charge: Option<Charge>,
}

/// An entry whose payload the log has.
#[derive(Debug, Clone)]
pub(crate) struct LocatedEntry {
    pub(crate) stream: StreamId,
    /// The opening of the stream under which it was appended, or a later entry of its block.
    pub(crate) epoch: StreamEpoch,
    pub(crate) entry: CachedEntry,
}

impl SealedBlock {
    /// A block that was filled in memory.
    pub(crate) fn in_memory(block: Block) -> Self {
        Self {
            sequence: block.sequence,
            bytes: block.bytes,
            cost: block.charged_bytes(),
            wal_end: block.wal_end,
            durability: Arc::clone(&block.durability),
            contents: Mutex::new(Contents::Memory(Arc::new(block))),
        }
    }

    /// A block of durable entries that only the log has.
    pub(crate) fn on_device(sequence: u64, places: Places, wal_end: u64) -> Self {
        let bytes = |located: &LocatedEntry| u64::from(located.entry.payload_bytes);
        let bytes = places.entries.iter().map(bytes).sum();
        Self {
            sequence,
            bytes,
            cost: bytes + places.charge.as_ref().map_or(0, Charge::bytes),
            wal_end,
            durability: Arc::default(),
            contents: Mutex::new(Contents::Device(places)),
        }
    }

    /// Gives the contents to the one upload of this block.
    pub(crate) fn take(&self) -> Contents {
        std::mem::replace(&mut *self.contents.lock(), Contents::Taken)
    }

    /// The block, where it is in memory and no upload has taken it.
    pub(crate) fn in_hand(&self) -> Option<Arc<Block>> {
        match &*self.contents.lock() {
            Contents::Memory(block) => Some(Arc::clone(block)),
            Contents::Device(_) | Contents::Taken => None,
        }
    }

    /// Leaves the payloads to the log; false where an upload was faster.
    pub(crate) fn offload(&self, places: Places) -> bool {
        let mut contents = self.contents.lock();
        let still_here = matches!(*contents, Contents::Memory(_));
        if still_here {
            *contents = Contents::Device(places);
        }
        still_here
    }
}

impl fmt::Debug for SealedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedBlock")
            .field("sequence", &self.sequence)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
