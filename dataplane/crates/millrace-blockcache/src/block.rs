//! A data block in memory.

use std::sync::Arc;

use bytes::Bytes;
use millrace_budget::Charge;
use millrace_model::{ObjectId, Offset, StreamEpoch, StreamId};
use millrace_objects::{BlockRef, Corrupt, ObjectReader, StreamEntry};

/// Where a block stands: objects never change, so this names its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockId {
    /// The object.
    pub(crate) object: ObjectId,
    /// The block's first byte in it.
    pub(crate) position: u64,
}

/// What a block costs beside its bytes and entries: its places in the tables.
const OVERHEAD_BYTES: u64 = 256;

/// What `block` costs in memory, bytes; known before it is loaded.
pub(crate) fn cost(block: &BlockRef) -> u64 {
    u64::from(block.size) + u64::from(block.entries) * size_of::<EntryAt>() as u64 + OVERHEAD_BYTES
}

/// A block whose checksum was right. Its memory is its own, and is given back when the last answer
/// that holds a slice of it has left.
#[derive(Debug)]
pub(crate) struct Block {
    stream: StreamId,
    bytes: Bytes,
    entries: Box<[EntryAt]>,
    charge: Charge,
}

/// Where an entry's payload lies in its block.
#[derive(Debug)]
struct EntryAt {
    epoch: StreamEpoch,
    base_offset: Offset,
    count: u32,
    from: u32,
    length: u32,
}

/// The entries of a block, found and checked, before it has its place in memory.
#[derive(Debug)]
pub(crate) struct Decoded {
    stream: StreamId,
    bytes: Bytes,
    /// As long as it is charged for: a vector would keep what the decoder's entries took.
    entries: Box<[EntryAt]>,
}

impl Decoded {
    /// Checks `bytes` against the index's word on them.
    pub(crate) fn check(block: &BlockRef, bytes: Bytes) -> Result<Self, Corrupt> {
        let begin = bytes.as_ptr() as usize;
        let located = |entry: StreamEntry| {
            let length = entry.payload.len();
            let from = (entry.payload.as_ptr() as usize).wrapping_sub(begin);
            EntryAt {
                epoch: entry.epoch,
                base_offset: entry.base_offset,
                count: entry.count,
                // An empty slice points anywhere.
                from: if length == 0 { 0 } else { from as u32 },
                length: length as u32,
            }
        };
        let entries = ObjectReader::decode(block, &bytes)?;
        let entries = entries.into_iter().map(located).collect();
        Ok(Self {
            stream: block.stream,
            bytes,
            entries,
        })
    }

    pub(crate) fn charged(self, charge: Charge) -> Arc<Block> {
        Arc::new(Block {
            stream: self.stream,
            bytes: self.bytes,
            entries: self.entries,
            charge,
        })
    }
}

/// Keeps a block in memory for as long as a slice of it is somewhere.
struct Held(Arc<Block>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Block {
    /// What it costs in memory, in bytes.
    pub(crate) fn cost(&self) -> u64 {
        self.charge.bytes()
    }

    /// The entries that end behind `offset`, in order. Their payloads hold the block.
    pub(crate) fn entries_from(
        self: &Arc<Self>,
        offset: Offset,
    ) -> impl Iterator<Item = StreamEntry> {
        let whole = Bytes::from_owner(Held(Arc::clone(self)));
        let first = self.first_behind(offset);
        let entries = self.entries.get(first..).unwrap_or_default();
        entries.iter().map(move |at| {
            let from = at.from as usize;
            StreamEntry {
                stream: self.stream,
                epoch: at.epoch,
                base_offset: at.base_offset,
                count: at.count,
                payload: whole.slice(from..from + at.length as usize),
            }
        })
    }

    /// Payload bytes of the entries that end behind `offset`.
    pub(crate) fn bytes_from(&self, offset: Offset) -> u64 {
        let entries = self.entries.get(self.first_behind(offset)..);
        let entries = entries.unwrap_or_default();
        entries.iter().map(|at| u64::from(at.length)).sum()
    }

    fn first_behind(&self, offset: Offset) -> usize {
        let ends = |at: &EntryAt| at.base_offset.saturating_add(u64::from(at.count));
        self.entries.partition_point(|at| ends(at) <= offset)
    }
}
