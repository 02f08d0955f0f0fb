//! A stretch of one stream.

use serde::{Deserialize, Serialize};

use crate::{Offset, StreamId};

/// The offsets `start..end` of one stream, `end` excluded. Both are 64-bit: a compacted stretch may
/// span more than 2³¹ offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StreamRange {
    /// The stream.
    pub stream: StreamId,
    /// The first offset.
    pub start: Offset,
    /// One past the last offset.
    pub end: Offset,
}
