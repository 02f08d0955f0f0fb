//! What can go wrong, one enum per operation.

use millrace_meta::OpenStreamError;
use millrace_model::{Cause, Classified, FailureClass, Offset, StreamId};

use crate::{entry::InvalidLoggedEntry, recovery::Straddles};

/// Why an entry was not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Larger than one entry may ever be. Make it smaller.
    #[error("an entry of {bytes} bytes is larger than the most that fits, {max}")]
    TooLarge {
        /// The payload's size.
        bytes: usize,
        /// The bound.
        max: u64,
    },
    /// There was no room for the whole bounded wait, because uploads are behind. Retry later.
    #[error("the {0} is full")]
    Overloaded(Bottleneck),
    /// The entry does not begin at the stream's next offset, or covers none. A fault of the caller.
    #[error("the next offset is {expected}; the entry begins at {got} and covers {count}")]
    OutOfOrder {
        /// The stream's next offset.
        expected: Offset,
        /// The entry's first offset.
        got: Offset,
        /// Offsets that it covers.
        count: u32,
    },
    /// The stream was deleted or the store is closing. Look the stream up again.
    #[error("the stream is closed")]
    Closed,
    /// A record of the stream in the log is damaged. Restore the log's volume, or delete the stream.
    #[error("the stream is halted: {0}")]
    Halted(Cause),
    /// The device or the ownership failed. Whether the entry survives is not known; the broker stops.
    #[error("storage failed: {0}")]
    Failed(Cause),
}

impl Classified for AppendError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Overloaded(_) => FailureClass::Transient,
            Self::TooLarge { .. } | Self::OutOfOrder { .. } => FailureClass::Rejected,
            Self::Closed => FailureClass::Gone,
            Self::Halted(cause) | Self::Failed(cause) => cause.class(),
        }
    }
}

/// What was full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// The ring on the device.
    WriteAheadLog,
    /// The memory for entries that are not uploaded.
    LogCache,
}

impl std::fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::WriteAheadLog => "write-ahead log",
            Self::LogCache => "log cache",
        })
    }
}

/// Why a read gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The offset was trimmed away. Begin at `start`.
    #[error("offset {offset} is below the start {start}")]
    BelowStart {
        /// What was asked for.
        offset: Offset,
        /// The first offset that can be read.
        start: Offset,
    },
    /// Committed entries are not where the metadata says. Report it.
    #[error("entries of stream {stream} from offset {offset} are missing")]
    Missing {
        /// The stream.
        stream: StreamId,
        /// The first missing offset.
        offset: Offset,
    },
    /// The log or objects could not be read. The class of the cause says whether to retry.
    #[error("storage could not be read: {0}")]
    Storage(Cause),
}

impl Classified for FetchError {
    fn class(&self) -> FailureClass {
        match self {
            Self::BelowStart { .. } | Self::Missing { .. } => FailureClass::Gone,
            Self::Storage(cause) => cause.class(),
        }
    }
}

/// Why a stream was not trimmed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrimError {
    /// Above what is durable. Fix the request.
    #[error("offset {offset} is above the durable end {confirmed}")]
    AboveConfirmed {
        /// What was asked for.
        offset: Offset,
        /// The highest offset that may be asked for.
        confirmed: Offset,
    },
    /// The metadata store did not take it. The class of the cause says whether to retry.
    #[error("metadata store: {0}")]
    Meta(Cause),
}

impl Classified for TrimError {
    fn class(&self) -> FailureClass {
        match self {
            Self::AboveConfirmed { .. } => FailureClass::Rejected,
            Self::Meta(cause) => cause.class(),
        }
    }
}

/// Why the store or a stream did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No such stream.
    #[error("stream {0} does not exist")]
    UnknownStream(StreamId),
    /// The metadata store did not answer, or refused this broker.
    #[error("the metadata store did not open the streams")]
    Meta(#[from] OpenStreamError),
    /// The log has a record that this version does not understand. Use the version that wrote it.
    #[error("record at position {position} of the log: {source}")]
    Record {
        /// Where in the log.
        position: u64,
        /// What is wrong with it.
        source: InvalidLoggedEntry,
    },
    /// The log does not belong to the metadata.
    #[error(transparent)]
    Straddles(#[from] Straddles),
    /// The store is closing.
    #[error("the store is closed")]
    Closed,
}

impl Classified for OpenError {
    fn class(&self) -> FailureClass {
        match self {
            Self::UnknownStream(_) | Self::Closed => FailureClass::Gone,
            Self::Meta(error) => error.class(),
            Self::Record { .. } | Self::Straddles(_) => FailureClass::Rejected,
        }
    }
}

/// Why not everything was uploaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlushError {
    /// The store failed.
    #[error("storage failed: {0}")]
    Failed(Cause),
    /// The store was dropped.
    #[error("the store is closed")]
    Closed,
}

impl Classified for FlushError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Failed(cause) => cause.class(),
            Self::Closed => FailureClass::Gone,
        }
    }
}
