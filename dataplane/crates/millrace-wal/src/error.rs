//! What can go wrong, one enum per operation.

use std::{io, sync::Arc, time::Duration};

use millrace_model::{Classified, FailureClass};

use crate::fence::FenceError;

/// The device failed, and with it the log, for good: what was in flight may or may not be durable.
/// The process should end and start again, which recovers.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the write-ahead log's device failed to {operation} at byte {offset}: {source}")]
pub struct WalFailure {
    /// What was tried: `write`, `write the header`.
    pub operation: &'static str,
    /// Byte of the device.
    pub offset: u64,
    /// What the device answered.
    pub source: Arc<io::Error>,
}

/// Why there is no room for a record.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReserveError {
    /// The log stayed full for the whole wait. Nothing was written; try again later.
    #[error("the write-ahead log was full for {0:?}; it drains as data is uploaded")]
    Full(Duration),
    /// The record is larger than this log can take. Trying again does not help.
    #[error("a record of {bytes} bytes exceeds the write-ahead log's limit of {bytes_max} bytes")]
    TooLarge {
        /// Its payload.
        bytes: usize,
        /// The largest payload.
        bytes_max: usize,
    },
    /// The device failed.
    #[error(transparent)]
    Failed(#[from] WalFailure),
    /// The log is closed or closing.
    #[error("the write-ahead log is closed")]
    Closed,
}

/// Why a record was not acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// The device failed: the record may or may not be found by the next recovery.
    #[error(transparent)]
    Failed(#[from] WalFailure),
    /// The log was closed before the record was handed over; it was not written.
    #[error("the write-ahead log is closed")]
    Closed,
    /// The record is larger than its reservation; it was not written. A fault of the caller.
    #[error("a record of {bytes} bytes exceeds its reservation of {reserved} bytes")]
    Oversized {
        /// Its payload.
        bytes: usize,
        /// What was reserved.
        reserved: usize,
    },
}

/// Why the log was not closed in peace. All acknowledged records are safe none the less.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CloseError {
    /// The device failed.
    #[error(transparent)]
    Failed(#[from] WalFailure),
}

/// Why a log did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The device failed while it was read or prepared.
    #[error("the write-ahead log's device failed to {operation}: {source}")]
    Device {
        /// What was tried.
        operation: &'static str,
        /// What the device answered.
        source: io::Error,
    },
    /// The log's owner cannot be written down.
    #[error(transparent)]
    Fence(#[from] FenceError),
    /// The device is too small to hold a log.
    #[error("a write-ahead log needs more than {0} bytes; give it a larger capacity")]
    TooSmall(u64),
    /// The device's I/O unit is not this format's.
    #[error("the device works in units of {0} bytes; a write-ahead log needs {unit}", unit = crate::BLOCK_BYTES)]
    BlockSize(u32),
    /// The device holds something else, which is not overwritten.
    #[error(
        "the device is neither blank nor a write-ahead log; to use it, overwrite its first 128 KiB with zeros, which destroys its content"
    )]
    NotALog,
    /// The log was written in another version of the format.
    #[error(
        "the write-ahead log has format version {0}, but this program only supports {known}; stop the broker version that wrote it after it has uploaded everything, then start with an empty log",
        known = crate::format::header::VERSION
    )]
    Version(u32),
    /// The log was formatted for another size.
    #[error("the write-ahead log was formatted for {formatted} bytes, but the device has {device}")]
    Capacity {
        /// What the header says.
        formatted: u64,
        /// What the device has.
        device: u64,
    },
    /// Bytes that were durable are damaged: acknowledged records may be lost. The log is left as
    /// it is, so that the volume can be restored from a snapshot.
    #[error(
        "the write-ahead log is corrupt at position {position}: {what}; restore its volume, or start with an empty log and lose the records that were not uploaded"
    )]
    Damaged {
        /// Where.
        position: u64,
        /// What was found there.
        what: &'static str,
    },
    /// Crash after crash without one upload in between left more pieces than the header can list.
    #[error(
        "the write-ahead log is in {0} fragments after too many crashes without an upload in between"
    )]
    TooFragmented(usize),
}

/// Why a record cannot be read back.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It was trimmed, or the position never held a record.
    #[error("the write-ahead log does not hold this range")]
    Absent,
    /// Its bytes do not match their sums.
    #[error("the record at position {0} is corrupt")]
    Damaged(u64),
    /// The device failed.
    #[error("the write-ahead log's device failed to read: {0}")]
    Device(#[from] io::Error),
}

impl WalFailure {
    /// Who has the log now, where it failed because it was taken over: its device is not broken.
    #[must_use]
    pub fn fenced(&self) -> Option<&FenceError> {
        let source = self.source.get_ref()?.downcast_ref();
        source.filter(|fenced| !matches!(fenced, FenceError::Io(_)))
    }
}

impl Classified for WalFailure {
    /// The log is closed for good and nothing in this process retries; a restart opens it again, unless another start has it.
    fn class(&self) -> FailureClass {
        match self.fenced() {
            Some(_) => FailureClass::Fenced,
            None => FailureClass::Transient,
        }
    }
}

impl Classified for ReserveError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Full(_) => FailureClass::Transient,
            Self::TooLarge { .. } => FailureClass::Rejected,
            Self::Failed(failure) => failure.class(),
            Self::Closed => FailureClass::Gone,
        }
    }
}

impl Classified for AppendError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Failed(failure) => failure.class(),
            Self::Closed => FailureClass::Gone,
            Self::Oversized { .. } => FailureClass::Rejected,
        }
    }
}

impl Classified for CloseError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Failed(failure) => failure.class(),
        }
    }
}

impl Classified for ReadError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Absent => FailureClass::Gone,
            Self::Damaged(_) => FailureClass::Corrupt,
            Self::Device(_) => FailureClass::Transient,
        }
    }
}
