//! Batches with fewer records, as log compaction leaves them.
//!
//! A batch keeps its offsets, its producer, its leader epoch and its codec whatever it loses. Its first deletion sets the
//! *delete horizon* (KIP-534): the time from which its tombstones, or its transaction marker, may go. The horizon takes the place of
//! the base timestamp, and bit 6 of the attributes says so. Record timestamps are relative to the base timestamp, so setting it
//! rewrites them.

use bytes::{BufMut, Bytes, BytesMut};

use crate::{
    compression::Compression,
    error::InvalidBatch,
    header::{
        ATTRIBUTES_AT, BatchHeader, COMPRESSION_MASK, CRC_AT, DELETE_HORIZON_BIT, HEADER_BYTES,
        LENGTH_END, TimestampType,
    },
    records::{Records, records_of},
    varint,
};

/// The base timestamp of a batch without records.
const NO_TIMESTAMP: i64 = -1;

/// The batch with those of its records that `kept` names, by their position. `set_delete_horizon` sets the delete horizon, in
/// milliseconds; without it, a horizon that is set stays.
///
/// # Errors
/// A record is malformed.
///
/// # Panics
/// Compression into memory fails only when memory does.
pub fn retain_records(
    records: &Records,
    kept: &[bool],
    set_delete_horizon: Option<i64>,
) -> Result<Bytes, InvalidBatch> {
    let before = *records.header();
    let mut header = before;
    if let Some(horizon_ms) = set_delete_horizon {
        header.attributes |= DELETE_HORIZON_BIT;
        header.base_timestamp = horizon_ms;
    }
    let (mut plain, mut count, mut max_timestamp) = (BytesMut::new(), 0, NO_TIMESTAMP);
    let mut rest = &records.data()[..];
    for (index, &keep) in (0..before.count).zip(kept) {
        let malformed = |reason| InvalidBatch::Record { index, reason };
        let record = RecordParts::read(&mut rest).ok_or(malformed("no record"))?;
        if !keep {
            continue;
        }
        let timestamp = before.base_timestamp.wrapping_add(record.timestamp_delta);
        max_timestamp = max_timestamp.max(timestamp);
        count += 1;
        if header.base_timestamp == before.base_timestamp {
            plain.extend_from_slice(record.whole);
        } else {
            record.write_at(timestamp.wrapping_sub(header.base_timestamp), &mut plain);
        }
    }
    header.count = count;
    if before.timestamp_type() == TimestampType::CreateTime {
        header.max_timestamp = max_timestamp;
    }
    let room = vec![0; HEADER_BYTES];
    let packed = before.compression()?.compress_onto(&plain, room, None);
    Ok(finished(&header, packed.expect("writing to memory")))
}

/// The batch without records. It still tells its offsets and its producer's sequence.
#[must_use]
pub fn without_records(header: &BatchHeader) -> Bytes {
    let mut header = *header;
    header.attributes &= !(COMPRESSION_MASK | DELETE_HORIZON_BIT);
    header.attributes |= Compression::None as i16;
    header.base_timestamp = NO_TIMESTAMP;
    header.count = 0;
    finished(&header, vec![0; HEADER_BYTES])
}

/// Writes the header over the first bytes of `batch`.
fn finished(header: &BatchHeader, mut batch: Vec<u8>) -> Bytes {
    let length = i32::try_from(batch.len() - LENGTH_END).expect("no larger than what was read");
    let mut head = BytesMut::with_capacity(HEADER_BYTES);
    head.put_i64(header.base_offset);
    head.put_i32(length);
    head.put_i32(header.leader_epoch);
    head.put_i8(header.magic);
    head.put_u32(0);
    head.put_i16(header.attributes);
    head.put_i32(header.last_offset_delta);
    head.put_i64(header.base_timestamp);
    head.put_i64(header.max_timestamp);
    head.put_i64(header.producer_id);
    head.put_i16(header.producer_epoch);
    head.put_i32(header.base_sequence);
    head.put_i32(header.count);
    batch[..HEADER_BYTES].copy_from_slice(&head);
    let crc = millrace_model::crc32c(&batch[ATTRIBUTES_AT..]);
    batch[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
    batch.into()
}

/// Where the timestamp stands in a record's bytes.
struct RecordParts<'a> {
    whole: &'a [u8],
    attributes: u8,
    timestamp_delta: i64,
    behind_timestamp: &'a [u8],
}

impl<'a> RecordParts<'a> {
    fn read(bytes: &mut &'a [u8]) -> Option<Self> {
        let mut rest = *bytes;
        let length = usize::try_from(varint::read_i32(&mut rest)?).ok()?;
        let (mut body, after) = rest.split_at_checked(length)?;
        let (whole, _) = bytes.split_at_checked(bytes.len() - after.len())?;
        *bytes = after;
        let (&attributes, behind) = body.split_first()?;
        body = behind;
        Some(Self {
            whole,
            attributes,
            timestamp_delta: varint::read_i64(&mut body)?,
            behind_timestamp: body,
        })
    }

    /// The same record with another timestamp delta.
    fn write_at(&self, timestamp_delta: i64, out: &mut BytesMut) {
        let length = 1 + varint::len(timestamp_delta) + self.behind_timestamp.len();
        varint::write(out, length as i64);
        out.put_u8(self.attributes);
        varint::write(out, timestamp_delta);
        out.extend_from_slice(self.behind_timestamp);
    }
}

/// Whether `rewritten` holds exactly the records of `records` that `kept` names, with the same offsets, timestamps, keys, values and
/// headers.
///
/// # Errors
/// One of the two cannot be read.
pub fn holds_exactly(
    rewritten: &Bytes,
    records: &Records,
    kept: &[bool],
) -> Result<bool, InvalidBatch> {
    let mut expected = records_of(records.header(), records.data().clone());
    let mut found = crate::records::records(rewritten)?;
    for &keep in kept {
        let Some(record) = expected.next_view() else {
            return Ok(false);
        };
        let expected = record?.fingerprint();
        if !keep {
            continue;
        }
        let found = found.next_view().transpose()?;
        if found.is_none_or(|found| found.fingerprint() != expected) {
            return Ok(false);
        }
    }
    Ok(found.next_view().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{BatchBuilder, header_of, records, split};

    const COMPRESSIONS: [Compression; 5] = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];

    fn batch(compression: Compression, stamps: &[i64]) -> Bytes {
        let mut builder = BatchBuilder::new(compression)
            .base_offset(1_000)
            .producer(7, 3, 40)
            .transactional();
        for (n, &timestamp) in stamps.iter().enumerate() {
            let (key, value) = (format!("k{n}"), format!("v{n}"));
            let value = (n % 3 != 0).then_some(value.as_bytes());
            builder.push(
                timestamp,
                Some(key.as_bytes()),
                value,
                &[("h", Some(b"x")), ("none", None)],
            );
        }
        builder.build().freeze()
    }

    proptest! {
        #[test]
        fn what_is_kept_stays_as_it_was(
            stamps in prop::collection::vec((0i64..1 << 41, any::<bool>()), 1..40),
            codec in 0usize..5, horizon in prop::option::of(0i64..1 << 42),
        ) {
            let times: Vec<i64> = stamps.iter().map(|(time, _)| *time).collect();
            let kept: Vec<bool> = stamps.iter().map(|(_, kept)| *kept).collect();
            let original = batch(COMPRESSIONS[codec], &times);
            let all = records(&original).expect("reads");
            let rewritten = retain_records(&all, &kept, horizon).expect("rewrites");
            let (before, after) = (header_of(&original).expect("reads"), header_of(&rewritten).expect("reads"));
            prop_assert_eq!(after.delete_horizon_ms(), horizon);
            prop_assert_eq!(after.last_offset(), before.last_offset());
            prop_assert_eq!(after.last_sequence(), before.last_sequence());
            prop_assert_eq!(after.compression(), before.compression());
            let expected: Vec<_> = records(&original).expect("reads").map(|record| record.expect("sound"))
                .zip(&kept).filter_map(|(record, &kept)| kept.then_some(record)).collect();
            let found: Vec<_> = records(&rewritten).expect("reads").map(|record| record.expect("sound")).collect();
            prop_assert_eq!(after.max_timestamp, expected.iter().map(|record| record.timestamp).max().unwrap_or(-1));
            prop_assert_eq!(&found, &expected);
            prop_assert!(holds_exactly(&rewritten, &all, &kept).expect("reads"));
            // A second cleaning keeps the horizon.
            let all = records(&rewritten).expect("reads");
            let again = retain_records(&all, &vec![true; found.len()], None).expect("rewrites");
            prop_assert_eq!(header_of(&again).expect("reads").delete_horizon_ms(), horizon);
            let found: Vec<_> = records(&again).expect("reads").map(|record| record.expect("sound")).collect();
            prop_assert_eq!(found, expected);
            if let Some(first) = kept.iter().position(|&kept| kept) {
                let mut fewer = kept.clone();
                fewer[first] = false;
                let all = records(&original).expect("reads");
                prop_assert!(!holds_exactly(&rewritten, &all, &fewer).expect("reads"));
            }
        }
    }

    #[test]
    fn an_empty_batch_tells_its_offsets_and_its_sequence() {
        let original = batch(Compression::Zstd, &[5, 6, 7]);
        let header = header_of(&original).expect("reads");
        let empty = without_records(&header);
        assert_eq!(empty.len(), HEADER_BYTES);
        let after = header_of(&empty).expect("reads");
        assert_eq!((after.count, after.delete_horizon_ms()), (0, None));
        assert_eq!(
            (after.base_offset, after.last_offset()),
            (header.base_offset, header.last_offset())
        );
        assert_eq!(after.last_sequence(), header.last_sequence());
        assert_eq!(after.max_timestamp, header.max_timestamp);
        assert!(after.is_transactional());
        assert_eq!(records(&empty).expect("reads").count(), 0);
        let read = split(BytesMut::from(&empty[..])).expect("one batch");
        assert_eq!(read.len(), 1);
    }
}
