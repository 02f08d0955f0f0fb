//! A record batch: unique bytes, validated and re-stamped in place.

use std::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};
use millrace_model::{Offset, limits::BATCH_BYTES_MAX};

use crate::{
    compression::{Compression, DECOMPRESSED_BYTES_MAX},
    error::InvalidBatch,
    header::{
        ATTRIBUTES_AT, BatchHeader, COMPRESSION_MASK, CRC_AT, HEADER_BYTES, LEADER_EPOCH_AT,
        LENGTH_END, LOG_APPEND_TIME_BIT, MAX_TIMESTAMP_AT, TimestampType, header_of,
    },
    records::{RecordsSummary, summarize},
};

/// One batch: its header and all its bytes, header included.
#[derive(Debug)]
pub struct Batch {
    header: BatchHeader,
    bytes: BytesMut,
    /// Size of the buffer that `bytes` are a part of.
    buffer_bytes: usize,
}

/// What a writer may append.
#[derive(Debug, Clone, Copy)]
pub struct BatchLimits {
    /// The largest batch, header included: `max.message.bytes`.
    pub bytes_max: usize,
    /// Whether control batches are allowed: only the broker's own parts write them.
    pub control: bool,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            bytes_max: BATCH_BYTES_MAX,
            control: false,
        }
    }
}

/// Cuts a record set into its batches, without copying. An empty set has none.
///
/// # Errors
/// The first batch whose header is broken or that is cut off.
pub fn split(mut bytes: BytesMut) -> Result<Vec<Batch>, InvalidBatch> {
    let buffer_bytes = bytes.len();
    let mut batches = Vec::new();
    while !bytes.is_empty() {
        let header = header_of(&bytes)?;
        let (have, need) = (bytes.len(), header.size_bytes());
        if have < need {
            return Err(InvalidBatch::Truncated { have, need });
        }
        batches.push(Batch {
            header,
            bytes: bytes.split_to(need),
            buffer_bytes,
        });
    }
    Ok(batches)
}

impl Batch {
    /// The header as it is now.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The same batch, known to be a part of a buffer of `bytes`, such as a request's frame.
    #[must_use]
    pub fn in_buffer(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes.max(self.bytes.len());
        self
    }

    /// Size of the buffer that stays in memory for as long as the batch does, in bytes.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes
    }

    /// All bytes of the batch.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of offsets that the batch takes.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.header.count).unwrap_or(0)
    }

    /// Checks size, count, sequence, compression and CRC. Looks at no record.
    ///
    /// The header's timestamps are not checked: some clients leave the largest one unset, and
    /// Kafka corrects it ([`Batch::set_max_timestamp`]).
    ///
    /// # Errors
    /// Says what is wrong with the batch.
    pub fn validate(&self, limits: &BatchLimits) -> Result<(), InvalidBatch> {
        let BatchHeader {
            count,
            last_offset_delta,
            producer_id,
            base_sequence,
            ..
        } = self.header;
        let (bytes, max) = (self.bytes.len(), limits.bytes_max);
        if bytes > max {
            return Err(InvalidBatch::TooLarge { bytes, max });
        }
        let computed = self.checksum();
        if computed != self.header.crc {
            return Err(InvalidBatch::Checksum {
                stored: self.header.crc,
                computed,
            });
        }
        self.header.compression()?;
        if count <= 0 || last_offset_delta != count - 1 {
            return Err(InvalidBatch::Count {
                count,
                last_offset_delta,
            });
        }
        if self.header.has_producer_id() && base_sequence < 0 && !self.header.is_control() {
            return Err(InvalidBatch::Sequence {
                producer_id,
                base_sequence,
            });
        }
        if self.header.is_control() && !limits.control {
            return Err(InvalidBatch::Control);
        }
        Ok(())
    }

    /// Looks at every record, decompressing where needed: well-formed, as many as the header
    /// counts, offsets without a gap. Compressed records are decompressed to at most `bytes_max`
    /// bytes, or [`crate::DECOMPRESSED_BYTES_MAX`] where that is less.
    ///
    /// # Errors
    /// Says which record is wrong, or why the records cannot be decompressed;
    /// [`InvalidBatch::DecompressedTooLarge`] where they are more than `bytes_max`.
    pub fn inspect_records(&self, bytes_max: usize) -> Result<RecordsSummary, InvalidBatch> {
        self.inspect_records_of(bytes_max, &(i64::MIN..=i64::MAX))
    }

    /// As [`Self::inspect_records`], and notes the records whose timestamps are outside of `timestamps`.
    ///
    /// # Errors
    /// As [`Self::inspect_records`].
    pub fn inspect_records_of(
        &self,
        bytes_max: usize,
        timestamps: &RangeInclusive<i64>,
    ) -> Result<RecordsSummary, InvalidBatch> {
        summarize(
            &self.header,
            self.bytes.get(HEADER_BYTES..).unwrap_or_default(),
            bytes_max,
            timestamps,
        )
    }

    /// The same records with another compression, at this level or the default one, in a buffer of their own. Up to
    /// [`crate::DECOMPRESSED_BYTES_MAX`] bytes are in memory twice meanwhile. The batch has passed [`Batch::validate`].
    ///
    /// # Errors
    /// The records cannot be decompressed.
    pub fn recompressed(
        &self,
        compression: Compression,
        level: Option<i32>,
    ) -> Result<Self, InvalidBatch> {
        let packed = self.bytes.get(HEADER_BYTES..).unwrap_or_default();
        let from = self.header.compression()?;
        let records = from.decompress(packed, DECOMPRESSED_BYTES_MAX)?;
        let header = self.bytes.get(..HEADER_BYTES).unwrap_or_default().to_vec();
        let mut bytes = compression
            .compress_onto(&records, header, level)
            .map_err(|_| InvalidBatch::DecompressedTooLarge)?;
        // Compressors ask for more room than they need, which would stay with the batch.
        bytes.shrink_to_fit();
        let bytes = BytesMut::from(Bytes::from(bytes));
        let length = i32::try_from(bytes.len() - LENGTH_END);
        let mut header = self.header;
        header.length = length.map_err(|_| InvalidBatch::DecompressedTooLarge)?;
        header.attributes = (header.attributes & !COMPRESSION_MASK) | compression as i16;
        let mut batch = Self {
            header,
            buffer_bytes: bytes.len(),
            bytes,
        };
        batch.write(LENGTH_END - 4, header.length.to_be_bytes());
        batch.write(ATTRIBUTES_AT, header.attributes.to_be_bytes());
        batch.sign();
        Ok(batch)
    }

    /// Writes what the broker assigned into the batch's own bytes: the first offset, the leader's
    /// epoch and, where the topic wants it, the append time in milliseconds, which alone costs a
    /// new CRC.
    pub fn restamp(
        &mut self,
        base_offset: Offset,
        leader_epoch: i32,
        log_append_time: Option<i64>,
    ) {
        self.header.base_offset = i64::try_from(base_offset).unwrap_or(i64::MAX);
        self.header.leader_epoch = leader_epoch;
        self.write(0, self.header.base_offset.to_be_bytes());
        self.write(LEADER_EPOCH_AT, leader_epoch.to_be_bytes());
        if let Some(time) = log_append_time {
            self.set_times(TimestampType::LogAppendTime, time);
        }
    }

    /// Corrects the header's largest timestamp to the one that the records have, keeping their
    /// create times.
    pub fn set_max_timestamp(&mut self, max_timestamp: i64) {
        let is_stamped = self.header.timestamp_type() == TimestampType::LogAppendTime;
        if is_stamped || self.header.max_timestamp != max_timestamp {
            self.set_times(TimestampType::CreateTime, max_timestamp);
        }
    }

    /// The CRC32C of all bytes, by the one that the header has, where the batch is large enough for that to be cheaper than
    /// to sum them again. The header's must be right: it is once the batch was [validated](Self::validate).
    #[must_use]
    pub fn known_sum(&self) -> Option<u32> {
        let signed = self.bytes.len() - ATTRIBUTES_AT;
        (signed >= millrace_model::COMBINE_BYTES_MIN).then(|| {
            let front = millrace_model::crc32c(&self.bytes[..ATTRIBUTES_AT]);
            debug_assert_eq!(
                self.header.crc,
                self.checksum(),
                "the header's sum is right"
            );
            millrace_model::crc32c_combine(front, self.header.crc, signed as u64)
        })
    }

    /// The finished bytes.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        self.bytes.freeze()
    }

    fn set_times(&mut self, kind: TimestampType, max_timestamp: i64) {
        match kind {
            TimestampType::CreateTime => self.header.attributes &= !LOG_APPEND_TIME_BIT,
            TimestampType::LogAppendTime => self.header.attributes |= LOG_APPEND_TIME_BIT,
        }
        self.header.max_timestamp = max_timestamp;
        self.write(ATTRIBUTES_AT, self.header.attributes.to_be_bytes());
        self.write(MAX_TIMESTAMP_AT, max_timestamp.to_be_bytes());
        self.sign();
    }

    /// Writes the checksum of what it covers.
    fn sign(&mut self) {
        self.header.crc = self.checksum();
        self.write(CRC_AT, self.header.crc.to_be_bytes());
    }

    fn checksum(&self) -> u32 {
        debug_assert!(self.bytes.len() >= HEADER_BYTES, "split checked the length");
        millrace_model::crc32c(&self.bytes[ATTRIBUTES_AT..])
    }

    fn write<const N: usize>(&mut self, at: usize, field: [u8; N]) {
        debug_assert!(at + N <= HEADER_BYTES, "a field of the header");
        self.bytes[at..at + N].copy_from_slice(&field);
    }
}

#[cfg(test)]
mod tests;
