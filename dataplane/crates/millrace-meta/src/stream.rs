//! Streams: who owns one, where it begins and ends.

use millrace_model::{Offset, StreamEpoch, StreamId};

use crate::{Fenced, StoreFailure};

/// A stream as it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamMeta {
    /// The stream.
    pub id: StreamId,
    /// Counts its openings; goes into every entry that is appended.
    pub epoch: StreamEpoch,
    /// The first offset that has not been trimmed.
    pub start: Offset,
    /// One past the last offset that is committed to objects; what lies behind is in the WAL. Below
    /// `start` where records were trimmed before they were uploaded.
    pub end: Offset,
}

/// Why a stream was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenStreamError {
    /// The opener has been replaced: stop.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// There is no such stream, or it has been deleted, or it belongs to another node.
    #[error("there is no stream {0}, or it belongs to another node")]
    Unknown(StreamId),
    /// The store failed; try again.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

/// Why a stream was not trimmed.
#[derive(Debug, thiserror::Error)]
pub enum TrimError {
    /// The caller has been replaced: stop.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// The caller has not opened the stream, or another has since: open it again.
    #[error("stream {0} is not open under this node epoch")]
    NotOwner(StreamId),
    /// There is no such stream, or it has been deleted.
    #[error("there is no stream {0}")]
    Unknown(StreamId),
    /// The store failed; try again.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}
