//! A view of the records inside a batch.
//!
//! ```text
//! record:  length varint | attributes i8 | timestamp delta varlong | offset delta varint
//!          | key length varint (negative: null) | key | value length varint | value
//!          | header count varint | headers
//! header:  key length varint | key | value length varint (negative: null) | value
//! ```

use std::{borrow::Cow, ops::RangeInclusive};

use bytes::Bytes;

use crate::{
    compression::DECOMPRESSED_BYTES_MAX,
    error::InvalidBatch,
    header::{BatchHeader, HEADER_BYTES, TimestampType, header_of},
    varint,
};

/// The least bytes that a header takes: two lengths.
const RECORD_HEADER_BYTES_MIN: usize = 2;

/// One record. Keys and values share the batch's bytes, or the decompressed ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Absolute offset.
    pub offset: i64,
    /// Milliseconds since 1970; the batch's append time where the broker gave it.
    pub timestamp: i64,
    /// The key.
    pub key: Option<Bytes>,
    /// The value; none is a tombstone.
    pub value: Option<Bytes>,
    /// Headers, in order; keys may repeat.
    pub headers: Vec<Header>,
}

/// One header of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// UTF-8 by convention, unchecked.
    pub key: Bytes,
    /// The value.
    pub value: Option<Bytes>,
}

/// How many records with illegal timestamps, and how many without a key, are noted of one batch.
pub const RECORD_ERRORS_MAX: usize = 128;

/// A record whose timestamp is not legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidTimestamp {
    /// Its position in the batch, from 0.
    pub index: i32,
    /// Milliseconds since 1970.
    pub timestamp: i64,
}

/// What a look at every record found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsSummary {
    /// The largest timestamp, milliseconds.
    pub max_timestamp: i64,
    /// The offset of the first record that has it, relative to the batch's first.
    pub max_timestamp_offset_delta: i32,
    /// Records without a key, which a compacted topic refuses, by their position: the first [`RECORD_ERRORS_MAX`] of them.
    pub keyless: Vec<i32>,
    /// The first [`RECORD_ERRORS_MAX`] records whose timestamps are outside of the range that was given. A record without
    /// a timestamp, which is -1, is not one of them.
    pub invalid_timestamps: Vec<InvalidTimestamp>,
}

/// The records of one batch, in order. Ends after the first error.
#[derive(Debug)]
pub struct Records {
    header: BatchHeader,
    data: Bytes,
    /// Where the next record begins.
    at: usize,
    next: i32,
    failed: bool,
}

/// Bytes, and what has to live as long as they do.
struct Guarded<G> {
    data: Bytes,
    _guard: G,
}

impl<G> AsRef<[u8]> for Guarded<G> {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

/// One record that borrows the batch: reading it costs no reference count.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    /// Absolute offset.
    pub offset: i64,
    /// Milliseconds since 1970; the batch's append time where the broker gave it.
    pub timestamp: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; none is a tombstone.
    pub value: Option<&'a [u8]>,
    raw: RawRecord<'a>,
}

impl<'a> RecordView<'a> {
    /// Offset, timestamp, and a CRC32C over key, value and headers.
    pub(crate) fn fingerprint(&self) -> (i64, i64, u32) {
        let field = |crc: u32, bytes: Option<&[u8]>| {
            let length = bytes.map_or(-1, |bytes| bytes.len() as i64);
            let crc = millrace_model::crc32c_append(crc, &length.to_be_bytes());
            millrace_model::crc32c_append(crc, bytes.unwrap_or_default())
        };
        let crc = field(field(0, self.key), self.value);
        let crc = millrace_model::crc32c_append(crc, self.raw.header_bytes);
        (self.offset, self.timestamp, crc)
    }

    /// Keys and values of the headers, in order; nothing follows one that is malformed.
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        self.raw.headers().map_while(Result::ok)
    }
}

/// Looks inside a batch, decompressing it within [`crate::DECOMPRESSED_BYTES_MAX`]. Bytes after
/// the batch are ignored. The CRC is not checked.
///
/// # Errors
/// The header is broken, the batch is cut off, or it cannot be decompressed; a broken record is an
/// error of the iterator.
pub fn records(batch: &Bytes) -> Result<Records, InvalidBatch> {
    records_within(batch, DECOMPRESSED_BYTES_MAX)
}

/// As [`records`], but decompresses to at most `bytes_max`. Without compression the batch may be
/// larger.
///
/// # Errors
/// As [`records`]; [`InvalidBatch::DecompressedTooLarge`] where it would decompress to more.
pub fn records_within(batch: &Bytes, bytes_max: usize) -> Result<Records, InvalidBatch> {
    let header = header_of(batch)?;
    let size = header.size_bytes();
    if batch.len() < size {
        return Err(InvalidBatch::Truncated {
            have: batch.len(),
            need: size,
        });
    }
    if header.count < 0 {
        let BatchHeader {
            count,
            last_offset_delta,
            ..
        } = header;
        return Err(InvalidBatch::Count {
            count,
            last_offset_delta,
        });
    }
    let packed = batch.slice(HEADER_BYTES..size);
    let data = match header.compression()?.decompress(&packed, bytes_max)? {
        Cow::Borrowed(_) => packed,
        Cow::Owned(data) => data.into(),
    };
    Ok(records_of(&header, data))
}

/// The records of a batch whose records, decompressed, are `data`.
pub(crate) fn records_of(header: &BatchHeader, data: Bytes) -> Records {
    Records {
        header: *header,
        data,
        at: 0,
        next: 0,
        failed: false,
    }
}

/// Reads every record of a batch whose records, still compressed, are `packed`, as long as they
/// decompress to at most `bytes_max`. Timestamps outside of `timestamps` are noted.
pub(crate) fn summarize(
    header: &BatchHeader,
    packed: &[u8],
    bytes_max: usize,
    timestamps: &RangeInclusive<i64>,
) -> Result<RecordsSummary, InvalidBatch> {
    let data = header.compression()?.decompress(packed, bytes_max)?;
    let mut rest = &data[..];
    let mut summary = RecordsSummary {
        max_timestamp: -1,
        max_timestamp_offset_delta: 0,
        keyless: Vec::new(),
        invalid_timestamps: Vec::new(),
    };
    for index in 0..header.count {
        let malformed = |reason| InvalidBatch::Record { index, reason };
        let record = RawRecord::read(&mut rest).map_err(malformed)?;
        let timestamp = record.timestamp(header).map_err(malformed)?;
        if record.offset_delta != index {
            return Err(malformed("offsets have a gap"));
        }
        record
            .headers()
            .try_for_each(|header| header.map(drop))
            .map_err(malformed)?;
        if index == 0 || timestamp > summary.max_timestamp {
            summary.max_timestamp = timestamp;
            summary.max_timestamp_offset_delta = index;
        }
        if record.key.is_none() && summary.keyless.len() < RECORD_ERRORS_MAX {
            summary.keyless.push(index);
        }
        let is_legal = timestamp == -1 || timestamps.contains(&timestamp);
        if !is_legal && summary.invalid_timestamps.len() < RECORD_ERRORS_MAX {
            summary
                .invalid_timestamps
                .push(InvalidTimestamp { index, timestamp });
        }
    }
    if rest.is_empty() {
        return Ok(summary);
    }
    Err(InvalidBatch::Record {
        index: header.count,
        reason: "bytes follow the last record",
    })
}

impl Records {
    /// The batch's header.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Bytes of the records that are not yet read, decompressed.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        self.data.len() - self.at
    }

    /// Bytes of all records, read or not, decompressed.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.data.len()
    }

    /// All records, read or not, decompressed.
    pub(crate) fn data(&self) -> &Bytes {
        &self.data
    }

    /// Keeps `guard` for as long as the records' bytes are in memory: until the batch and every key,
    /// value and header that was read from it is dropped.
    #[must_use]
    pub fn guarded(mut self, guard: impl Send + 'static) -> Self {
        self.data = Bytes::from_owner(Guarded {
            data: self.data,
            _guard: guard,
        });
        self
    }

    /// The next record, as [`Iterator::next`] gives it, without a share in the batch's bytes.
    pub fn next_view(&mut self) -> Option<Result<RecordView<'_>, InvalidBatch>> {
        let index = match self.step()? {
            Ok(index) => index,
            Err(error) => return Some(Err(error)),
        };
        let mut rest = self.data.get(self.at..).unwrap_or_default();
        let parsed = RawRecord::read(&mut rest).and_then(|raw| {
            Ok(RecordView {
                offset: raw.offset(&self.header)?,
                timestamp: raw.timestamp(&self.header)?,
                key: raw.key,
                value: raw.value,
                raw,
            })
        });
        self.at = self.data.len() - rest.len();
        self.failed = parsed.is_err();
        Some(parsed.map_err(|reason| InvalidBatch::Record { index, reason }))
    }

    /// The offset of the next record, or of the first that it may have; nothing at the end.
    #[must_use]
    pub fn next_offset(&self) -> Option<i64> {
        if self.failed || self.data_bytes() == 0 {
            return None;
        }
        let mut rest = self.data.get(self.at..).unwrap_or_default();
        let raw = RawRecord::read(&mut rest);
        let offset = raw.and_then(|raw| raw.offset(&self.header));
        // What is malformed is found when it is read.
        Some(offset.unwrap_or(i64::MAX))
    }

    /// The index of the next record; an error where there is something else, nothing at the end.
    fn step(&mut self) -> Option<Result<i32, InvalidBatch>> {
        if self.failed {
            return None;
        }
        let index = self.next;
        if index < self.header.count {
            self.next = index.saturating_add(1);
            return Some(Ok(index));
        }
        if self.at == self.data.len() {
            return None;
        }
        self.failed = true;
        let reason = "bytes follow the last record";
        Some(Err(InvalidBatch::Record { index, reason }))
    }

    fn parse_next(&mut self) -> Result<Record, &'static str> {
        let mut rest = self.data.get(self.at..).unwrap_or_default();
        let raw = RawRecord::read(&mut rest)?;
        let share = |bytes: &[u8]| self.data.slice_ref(bytes);
        let headers = raw.headers().map(|header| {
            header.map(|(key, value)| Header {
                key: share(key),
                value: value.map(share),
            })
        });
        let record = Record {
            offset: raw.offset(&self.header)?,
            timestamp: raw.timestamp(&self.header)?,
            key: raw.key.map(share),
            value: raw.value.map(share),
            headers: headers.collect::<Result<_, _>>()?,
        };
        self.at = self.data.len() - rest.len();
        Ok(record)
    }
}

impl Iterator for Records {
    type Item = Result<Record, InvalidBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let index = match self.step()? {
            Ok(index) => index,
            Err(error) => return Some(Err(error)),
        };
        let result = self.parse_next();
        self.failed = result.is_err();
        Some(result.map_err(|reason| InvalidBatch::Record { index, reason }))
    }
}

/// A record whose outer fields are read; the headers are still bytes.
#[derive(Debug, Clone, Copy)]
struct RawRecord<'a> {
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    header_count: usize,
    header_bytes: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// Reads one record and leaves what follows it.
    fn read(bytes: &mut &'a [u8]) -> Result<Self, &'static str> {
        let length = varint::read_i32(bytes).ok_or("no length")?;
        let length = usize::try_from(length).map_err(|_| "negative length")?;
        let (mut body, after) = bytes
            .split_at_checked(length)
            .ok_or("longer than the batch")?;
        *bytes = after;
        let rest = &mut body;
        let (_attributes, after) = rest.split_first().ok_or("no attributes")?;
        *rest = after;
        let timestamp_delta = varint::read_i64(rest).ok_or("no timestamp")?;
        let offset_delta = varint::read_i32(rest).ok_or("no offset")?;
        let key = read_bytes(rest).ok_or("broken key")?;
        let value = read_bytes(rest).ok_or("broken value")?;
        let count = varint::read_i32(rest).ok_or("no header count")?;
        let header_count = usize::try_from(count).map_err(|_| "negative header count")?;
        if header_count > rest.len() / RECORD_HEADER_BYTES_MIN {
            return Err("more headers than bytes");
        }
        if header_count == 0 && !rest.is_empty() {
            return Err(TRAILING);
        }
        Ok(Self {
            timestamp_delta,
            offset_delta,
            key,
            value,
            header_count,
            header_bytes: rest,
        })
    }

    fn offset(&self, header: &BatchHeader) -> Result<i64, &'static str> {
        let offset = header.base_offset.checked_add(i64::from(self.offset_delta));
        offset.ok_or("offset overflows")
    }

    fn timestamp(&self, header: &BatchHeader) -> Result<i64, &'static str> {
        match header.timestamp_type() {
            TimestampType::LogAppendTime => Ok(header.max_timestamp),
            TimestampType::CreateTime => {
                let sum = header.base_timestamp.checked_add(self.timestamp_delta);
                sum.ok_or("timestamp overflows")
            }
        }
    }

    fn headers(&self) -> impl Iterator<Item = Result<RawHeader<'a>, &'static str>> + use<'a> {
        let mut rest = self.header_bytes;
        let count = self.header_count;
        (1..=count).map(move |nth| {
            let key = read_bytes(&mut rest).flatten().ok_or("broken header key")?;
            let value = read_bytes(&mut rest).ok_or("broken header value")?;
            if nth == count && !rest.is_empty() {
                return Err(TRAILING);
            }
            Ok((key, value))
        })
    }
}

/// A header's key and value.
type RawHeader<'a> = (&'a [u8], Option<&'a [u8]>);

const TRAILING: &str = "bytes follow the last header";

/// Reads a length and that many bytes; outer nothing when they are not there, inner nothing for
/// null.
fn read_bytes<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let Ok(length) = usize::try_from(varint::read_i32(bytes)?) else {
        return Some(None);
    };
    let (value, after) = bytes.split_at_checked(length)?;
    *bytes = after;
    Some(Some(value))
}

#[cfg(test)]
mod tests;
