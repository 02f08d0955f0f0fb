//! An entry, and its form in the write-ahead log.
//!
//! ```text
//!  at  size  field          all numbers big-endian
//!   0     1  kind           1 = entry; kinds are numbered by hand and never reused
//!   1     8  stream id
//!   9     8  stream epoch   the opening of the stream under which the entry was appended
//!  17     8  base offset
//!  25     4  count          offsets that the entry covers, at least 1
//!  29        payload        to the end of the log's record
//! ```
//!
//! The log guards every record with a checksum, so there is none here.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use millrace_model::{Offset, StreamEpoch, StreamId};

/// Bytes that the log's record has before the payload.
pub(crate) const HEADER_BYTES: usize = 29;

const _: () = assert!(
    HEADER_BYTES <= millrace_wal::RECORD_HEAD_BYTES,
    "the log hands a record's header over when it opens"
);

/// The only kind of record that a stream writes.
const KIND_ENTRY: u8 = 1;

/// What is appended to a stream and read from it: a run of offsets with opaque bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The first offset.
    pub base_offset: Offset,
    /// How many offsets it covers, at least 1.
    pub count: u32,
    /// The bytes, opaque here.
    pub payload: Bytes,
}

impl Entry {
    /// One past the last offset.
    #[must_use]
    pub fn end_offset(&self) -> Offset {
        self.base_offset.saturating_add(u64::from(self.count))
    }
}

/// What the caller of an append knows of the payload.
#[derive(Debug, Clone, Copy)]
pub struct PayloadFacts {
    /// Bytes of the buffer that it is a part of.
    pub buffer_bytes: usize,
    /// Its CRC32C, where that is known: log and object do not sum the bytes again then.
    pub sum: Option<u32>,
}

/// A record of the log, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoggedEntry {
    pub(crate) stream: StreamId,
    pub(crate) epoch: StreamEpoch,
    pub(crate) entry: Entry,
}

/// What stands before the payload of a record of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHeader {
    /// The stream.
    pub stream: StreamId,
    /// The opening of the stream under which the entry was appended.
    pub epoch: StreamEpoch,
    /// The first offset.
    pub base_offset: Offset,
    /// How many offsets the entry covers.
    pub count: u32,
}

impl EntryHeader {
    /// Reads the first bytes of a record of the log; `None` where they are no entry's.
    #[must_use]
    pub fn of(record: &[u8]) -> Option<Self> {
        decode_header(record).ok()
    }
}

/// Why a record of the log is not an entry. The checksum was right, so another version wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLoggedEntry {
    /// Shorter than its header.
    #[error("{0} bytes are too few")]
    Short(usize),
    /// Written by a version that knows more kinds.
    #[error("record kind {0} is unknown")]
    Kind(u8),
    /// It covers no offset, or runs past the last one.
    #[error("{count} offsets from {base_offset} is no range")]
    Range {
        /// The first offset.
        base_offset: Offset,
        /// How many.
        count: u32,
    },
}

/// The header that stands before the payload of `entry` in the log.
pub(crate) fn encode_header(stream: StreamId, epoch: StreamEpoch, entry: &Entry) -> Bytes {
    let mut header = BytesMut::with_capacity(HEADER_BYTES);
    header.put_u8(KIND_ENTRY);
    header.put_u64(stream.get());
    header.put_u64(epoch.get());
    header.put_u64(entry.base_offset);
    header.put_u32(entry.count);
    header.freeze()
}

/// Reads what stands before the payload; `record` may be cut short behind it.
///
/// # Errors
/// See [`InvalidLoggedEntry`].
pub(crate) fn decode_header(mut record: &[u8]) -> Result<EntryHeader, InvalidLoggedEntry> {
    if record.len() < HEADER_BYTES {
        return Err(InvalidLoggedEntry::Short(record.len()));
    }
    match record.get_u8() {
        KIND_ENTRY => {}
        kind => return Err(InvalidLoggedEntry::Kind(kind)),
    }
    let stream = StreamId(record.get_u64());
    let epoch = StreamEpoch(record.get_u64());
    let base_offset = record.get_u64();
    let count = record.get_u32();
    if count == 0 || base_offset.checked_add(u64::from(count)).is_none() {
        return Err(InvalidLoggedEntry::Range { base_offset, count });
    }
    Ok(EntryHeader {
        stream,
        epoch,
        base_offset,
        count,
    })
}

/// Reads a record of the log back. The payload shares the record's bytes.
///
/// # Errors
/// See [`InvalidLoggedEntry`].
pub(crate) fn decode(mut record: Bytes) -> Result<LoggedEntry, InvalidLoggedEntry> {
    let header = decode_header(&record)?;
    record.advance(HEADER_BYTES);
    Ok(LoggedEntry {
        stream: header.stream,
        epoch: header.epoch,
        entry: Entry {
            base_offset: header.base_offset,
            count: header.count,
            payload: record,
        },
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record_of(logged: &LoggedEntry) -> Bytes {
        let mut record = BytesMut::new();
        record.extend_from_slice(&encode_header(logged.stream, logged.epoch, &logged.entry));
        record.extend_from_slice(&logged.entry.payload);
        record.freeze()
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(
            stream: u64, epoch: u64, base_offset in 0..u64::MAX / 2, count in 1u32..,
            payload in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            let entry = Entry { base_offset, count, payload: payload.into() };
            let logged = LoggedEntry { stream: StreamId(stream), epoch: StreamEpoch(epoch), entry };
            prop_assert_eq!(decode(record_of(&logged)), Ok(logged));
        }

        #[test]
        fn no_bytes_make_it_panic(record in prop::collection::vec(any::<u8>(), 0..64)) {
            let length = record.len();
            let decoded = decode(record.into());
            prop_assert_eq!(
                matches!(decoded, Err(InvalidLoggedEntry::Short(_))), length < HEADER_BYTES
            );
        }
    }

    #[test]
    fn foreign_records_are_refused() {
        let entry = Entry {
            base_offset: 7,
            count: 1,
            payload: Bytes::from_static(b"x"),
        };
        let logged = LoggedEntry {
            stream: StreamId(1),
            epoch: StreamEpoch(1),
            entry,
        };
        let mut record = BytesMut::from(&record_of(&logged)[..]);
        record[0] = 2;
        assert_eq!(decode(record.freeze()), Err(InvalidLoggedEntry::Kind(2)));

        for (base_offset, count) in [(7, 0), (u64::MAX, 1)] {
            let entry = Entry {
                base_offset,
                count,
                payload: Bytes::new(),
            };
            let logged = LoggedEntry {
                stream: StreamId(1),
                epoch: StreamEpoch(1),
                entry,
            };
            let expected = Err(InvalidLoggedEntry::Range { base_offset, count });
            assert_eq!(decode(record_of(&logged)), expected);
        }
    }
}
