//! What can be wrong with a batch.

use crate::{compression::DECOMPRESSED_BYTES_MAX, header::HEADER_BYTES};

/// Why bytes are not an acceptable record batch. The text is for the client's operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBatch {
    /// The bytes end inside a batch.
    #[error("a batch needs {need} bytes, but only {have} are left")]
    Truncated {
        /// Bytes that are there.
        have: usize,
        /// Bytes that the batch says it has, or the smallest batch's.
        need: usize,
    },
    /// The length field cannot be true of any batch.
    #[error("the batch length {0} is too small; the minimum is {least}", least = HEADER_BYTES - 12)]
    Length(i32),
    /// Message format 0 or 1, or one that does not exist.
    #[error("the batch has message format {0}; only version 2 is supported")]
    Magic(i8),
    /// Larger than the topic allows.
    #[error("the batch has {bytes} bytes; the maximum is {max}")]
    TooLarge {
        /// The batch's size.
        bytes: usize,
        /// The bound, inclusive.
        max: usize,
    },
    /// The CRC32C over everything from the attributes on does not match.
    #[error("the batch's checksum is {stored:#010x}, but its content has {computed:#010x}")]
    Checksum {
        /// The header's.
        stored: u32,
        /// The bytes'.
        computed: u32,
    },
    /// The record count is not positive or does not match the offsets.
    #[error(
        "the batch has a record count of {count}, but its last offset delta is {last_offset_delta}"
    )]
    Count {
        /// The header's record count.
        count: i32,
        /// The header's last offset, relative to the first.
        last_offset_delta: i32,
    },
    /// The batch has a producer id and a negative sequence.
    #[error("the batch of producer id {producer_id} has the invalid base sequence {base_sequence}")]
    Sequence {
        /// The header's producer id.
        producer_id: i64,
        /// The header's first sequence.
        base_sequence: i32,
    },
    /// A control batch from someone who may not write one.
    #[error("clients must not write control records")]
    Control,
    /// The attributes name a compression that does not exist.
    #[error("compression type {0} is unknown")]
    UnknownCompression(u8),
    /// The compressed records cannot be decompressed.
    #[error("the records cannot be decompressed")]
    Decompress,
    /// The records decompress to more than [`DECOMPRESSED_BYTES_MAX`].
    #[error("the decompressed records exceed {DECOMPRESSED_BYTES_MAX} bytes")]
    DecompressedTooLarge,
    /// A record inside is broken.
    #[error("record {index} of the batch is malformed: {reason}")]
    Record {
        /// Its position in the batch, from 0.
        index: i32,
        /// What is wrong.
        reason: &'static str,
    },
}

/// What to tell the client, without Kafka's numbers, which belong to the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchFault {
    /// The bytes were damaged: Kafka's `CORRUPT_MESSAGE`, which a client retries.
    Corrupt,
    /// The client built a wrong batch: Kafka's `INVALID_RECORD`.
    InvalidRecord,
    /// Kafka's `MESSAGE_TOO_LARGE`.
    TooLarge,
    /// Kafka's `UNSUPPORTED_COMPRESSION_TYPE`.
    UnsupportedCompression,
    /// Kafka's `UNSUPPORTED_FOR_MESSAGE_FORMAT`.
    UnsupportedFormat,
}

impl InvalidBatch {
    /// The class of the fault.
    #[must_use]
    pub fn fault(&self) -> BatchFault {
        match self {
            Self::Truncated { .. } | Self::Length(_) | Self::Checksum { .. } => BatchFault::Corrupt,
            Self::Magic(0 | 1) => BatchFault::UnsupportedFormat,
            // No format ever had this number.
            Self::Magic(_) => BatchFault::Corrupt,
            Self::TooLarge { .. } | Self::DecompressedTooLarge => BatchFault::TooLarge,
            Self::UnknownCompression(_) => BatchFault::UnsupportedCompression,
            Self::Decompress => BatchFault::Corrupt,
            Self::Count { .. } | Self::Sequence { .. } | Self::Control | Self::Record { .. } => {
                BatchFault::InvalidRecord
            }
        }
    }
}
