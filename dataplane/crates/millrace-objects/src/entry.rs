//! What an object holds.

use bytes::Bytes;
use millrace_model::{Offset, StreamEpoch, StreamId};

/// One entry of a stream. The payload is opaque here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEntry {
    /// The stream that the entry belongs to.
    pub stream: StreamId,
    /// The epoch under which it was appended.
    pub epoch: StreamEpoch,
    /// The offset of its first record.
    pub base_offset: Offset,
    /// How many offsets it covers; at least 1.
    pub count: u32,
    /// The bytes, as they were appended.
    pub payload: Bytes,
}

impl StreamEntry {
    /// One past the last offset; `None` where the sum leaves 64 bits, which no sound entry does.
    #[must_use]
    pub fn end_offset(&self) -> Option<Offset> {
        self.base_offset.checked_add(u64::from(self.count))
    }
}
