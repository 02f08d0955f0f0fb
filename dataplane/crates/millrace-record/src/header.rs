//! The fixed header of a batch.
//!
//! ```text
//!  at  size  field                 covered by the CRC
//!   0     8  base offset           no
//!   8     4  length                no    bytes that follow this field
//!  12     4  leader epoch          no
//!  16     1  magic (2)             no
//!  17     4  CRC32C                no
//!  21     2  attributes            yes   bits 0-2 compression, 3 log append time, 4 transactional,
//!                                        5 control, 6 delete horizon
//!  23     4  last offset delta     yes
//!  27     8  base timestamp        yes   milliseconds since 1970
//!  35     8  max timestamp         yes
//!  43     8  producer id           yes   -1: none
//!  51     2  producer epoch        yes
//!  53     4  base sequence         yes
//!  57     4  record count          yes
//!  61        records               yes   compressed as one, header excluded
//! ```
//!
//! All numbers are big-endian. The first four fields are outside the CRC so that a broker can
//! assign offsets without touching what the client signed.

use bytes::Buf;

use crate::{compression::Compression, error::InvalidBatch};

/// Size of the fixed header, which is also the smallest batch.
pub const HEADER_BYTES: usize = 61;
/// Bytes up to and including the length field.
pub const LENGTH_END: usize = 12;
/// Where the leader epoch stands.
pub const LEADER_EPOCH_AT: usize = 12;
/// Where the magic byte stands, in every message format.
pub const MAGIC_AT: usize = 16;
/// Where the CRC stands.
pub const CRC_AT: usize = 17;
/// Where the bytes that the CRC covers begin.
pub const ATTRIBUTES_AT: usize = 21;
/// Where the largest timestamp stands.
pub const MAX_TIMESTAMP_AT: usize = 35;
/// Where the idempotent producer's id, epoch and base sequence stand.
pub const PRODUCER_AT: usize = 43;
/// The only message format accepted.
pub const MAGIC: i8 = 2;

pub(crate) const COMPRESSION_MASK: i16 = 0b111;
pub(crate) const LOG_APPEND_TIME_BIT: i16 = 1 << 3;
pub(crate) const TRANSACTIONAL_BIT: i16 = 1 << 4;
pub(crate) const CONTROL_BIT: i16 = 1 << 5;
pub(crate) const DELETE_HORIZON_BIT: i16 = 1 << 6;

/// A decoded batch header. The numbers are as the bytes have them, unchecked except for `length`
/// and `magic`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record; assigned by the broker.
    pub base_offset: i64,
    /// Bytes after the length field, at least 49.
    pub length: i32,
    /// Epoch of the leader that appended the batch.
    pub leader_epoch: i32,
    /// Message format, 2.
    pub magic: i8,
    /// CRC32C from the attributes to the end.
    pub crc: u32,
    /// Flags, see the module.
    pub attributes: i16,
    /// Offset of the last record, relative to the first.
    pub last_offset_delta: i32,
    /// Timestamp of the first record, milliseconds.
    pub base_timestamp: i64,
    /// Largest timestamp in the batch, milliseconds.
    pub max_timestamp: i64,
    /// Idempotent producer's id, or -1.
    pub producer_id: i64,
    /// Its epoch, or -1.
    pub producer_epoch: i16,
    /// Sequence of the first record, or -1.
    pub base_sequence: i32,
    /// Number of records.
    pub count: i32,
}

/// Who gave the records their timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer.
    CreateTime,
    /// The broker, when it appended.
    LogAppendTime,
}

impl BatchHeader {
    /// The compression of the records.
    ///
    /// # Errors
    /// [`InvalidBatch::UnknownCompression`].
    pub fn compression(&self) -> Result<Compression, InvalidBatch> {
        Compression::from_id((self.attributes & COMPRESSION_MASK) as u8)
    }

    /// Part of a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Holds a marker for consumers, no records of an application.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// From when on compaction may drop the batch's tombstones, or its marker, in milliseconds; `None` where no compaction has met them
    /// yet (KIP-534).
    #[must_use]
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        (self.attributes & DELETE_HORIZON_BIT != 0).then_some(self.base_timestamp)
    }

    /// Written by an idempotent producer.
    #[must_use]
    pub fn has_producer_id(&self) -> bool {
        self.producer_id >= 0
    }

    /// Who gave the timestamps.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & LOG_APPEND_TIME_BIT == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Offset of the last record.
    #[must_use]
    pub fn last_offset(&self) -> i64 {
        self.base_offset
            .saturating_add(i64::from(self.last_offset_delta))
    }

    /// Offset that follows the last record's.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.last_offset().saturating_add(1)
    }

    /// Sequence of the last record; sequences wrap from 2^31 - 1 to 0.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 {
            return self.base_sequence;
        }
        let sum = i64::from(self.base_sequence) + i64::from(self.last_offset_delta.max(0));
        i32::try_from(sum % (i64::from(i32::MAX) + 1)).unwrap_or(0)
    }

    /// Size of the whole batch in bytes, header included.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        usize::try_from(self.length).unwrap_or(0) + LENGTH_END
    }
}

/// Reads the header that `bytes` begin with; they may go on after the batch, and may hold only
/// the header of a longer one.
///
/// # Errors
/// [`InvalidBatch::Truncated`], [`InvalidBatch::Magic`] or [`InvalidBatch::Length`].
pub fn header_of(mut bytes: &[u8]) -> Result<BatchHeader, InvalidBatch> {
    let have = bytes.len();
    // The magic first: a batch of an older format may be shorter than this format's header.
    match bytes.get(MAGIC_AT) {
        Some(&magic) if magic as i8 != MAGIC => return Err(InvalidBatch::Magic(magic as i8)),
        _ if have < HEADER_BYTES => {
            return Err(InvalidBatch::Truncated {
                have,
                need: HEADER_BYTES,
            });
        }
        _ => {}
    }
    let header = BatchHeader {
        base_offset: bytes.get_i64(),
        length: bytes.get_i32(),
        leader_epoch: bytes.get_i32(),
        magic: bytes.get_i8(),
        crc: bytes.get_u32(),
        attributes: bytes.get_i16(),
        last_offset_delta: bytes.get_i32(),
        base_timestamp: bytes.get_i64(),
        max_timestamp: bytes.get_i64(),
        producer_id: bytes.get_i64(),
        producer_epoch: bytes.get_i16(),
        base_sequence: bytes.get_i32(),
        count: bytes.get_i32(),
    };
    if header.size_bytes() < HEADER_BYTES {
        return Err(InvalidBatch::Length(header.length));
    }
    Ok(header)
}
