use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::{
    BatchBuilder, BatchFault, Compression, DECOMPRESSED_BYTES_MAX, header::MAGIC_AT, records,
};

fn batch_of(count: i32) -> BytesMut {
    let mut builder = BatchBuilder::new(Compression::None);
    for n in 0..count {
        builder.push(1_000 + i64::from(n), None, Some(b"value"), &[]);
    }
    builder.build()
}

fn only(bytes: BytesMut) -> Batch {
    let mut batches = split(bytes).expect("whole batches");
    assert_eq!(batches.len(), 1);
    batches.remove(0)
}

fn limits() -> BatchLimits {
    BatchLimits::default()
}

/// Writes a field and makes the CRC true again.
fn forge(mut bytes: BytesMut, at: usize, field: &[u8]) -> Batch {
    bytes[at..at + field.len()].copy_from_slice(field);
    let crc = millrace_model::crc32c(&bytes[ATTRIBUTES_AT..]);
    bytes[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
    only(bytes)
}

#[test]
fn batches_are_cut_without_a_copy() {
    let mut set = BytesMut::new();
    let sizes: Vec<_> = (1..5)
        .map(|count| {
            let batch = batch_of(count);
            set.extend_from_slice(&batch);
            batch.len()
        })
        .collect();
    let mut at = set.as_ptr();
    let batches = split(set).expect("whole batches");
    assert_eq!(batches.len(), 4);
    for (batch, size) in batches.iter().zip(sizes) {
        assert_eq!((batch.bytes().as_ptr(), batch.bytes().len()), (at, size));
        at = at.wrapping_add(size);
        batch.validate(&limits()).expect("valid");
    }
    assert!(split(BytesMut::new()).expect("nothing").is_empty());
}

#[test]
fn restamping_happens_in_place_and_keeps_the_batch_valid() {
    let bytes = batch_of(3);
    let place = bytes.as_ptr();
    let mut batch = only(bytes);
    let crc = batch.header().crc;
    batch.restamp(5_000_000_000, 9, None);
    assert_eq!(batch.header().crc, crc, "offsets are outside the CRC");
    batch.validate(&limits()).expect("valid");
    let frozen = batch.freeze();
    assert_eq!(frozen.as_ptr(), place);
    let header = header_of(&frozen).expect("a header");
    assert_eq!(
        (header.base_offset, header.leader_epoch),
        (5_000_000_000, 9)
    );
    assert_eq!(
        (header.last_offset(), header.next_offset()),
        (5_000_000_002, 5_000_000_003)
    );
}

#[test]
fn append_time_replaces_all_timestamps() {
    let mut batch = only(batch_of(2));
    batch.restamp(10, 0, Some(77));
    batch.validate(&limits()).expect("the CRC is new");
    assert_eq!(
        batch.header().timestamp_type(),
        TimestampType::LogAppendTime
    );
    assert_eq!(
        batch
            .inspect_records(DECOMPRESSED_BYTES_MAX)
            .expect("readable")
            .max_timestamp,
        77
    );
    let header = *batch.header();
    let frozen = batch.freeze();
    assert_eq!(header_of(&frozen), Ok(header));
    for record in records(&frozen).expect("a header") {
        assert_eq!(record.expect("readable").timestamp, 77);
    }
}

#[test]
fn a_wrong_largest_timestamp_is_corrected() {
    let mut batch = forge(batch_of(2), MAX_TIMESTAMP_AT, &0i64.to_be_bytes());
    batch.validate(&limits()).expect("not checked");
    let summary = batch
        .inspect_records(DECOMPRESSED_BYTES_MAX)
        .expect("readable");
    assert_eq!(
        (summary.max_timestamp, summary.max_timestamp_offset_delta),
        (1_001, 1)
    );
    batch.set_max_timestamp(summary.max_timestamp);
    batch.validate(&limits()).expect("the CRC is new");
    assert_eq!(batch.freeze(), batch_of(2).freeze());
}

#[test]
fn every_flaw_has_its_error_and_its_fault() {
    let fault = |batch: Batch| {
        let error = batch.validate(&limits()).expect_err("a flaw");
        (error.to_string(), error.fault())
    };
    let mut flipped = batch_of(1);
    *flipped.last_mut().expect("not empty") ^= 1;
    assert_eq!(fault(only(flipped)).1, BatchFault::Corrupt);
    let count = fault(forge(batch_of(1), 57, &2i32.to_be_bytes()));
    assert_eq!(count.1, BatchFault::InvalidRecord);
    assert_eq!(
        count.0,
        "the batch has a record count of 2, but its last offset delta is 0"
    );
    assert_eq!(
        fault(forge(batch_of(1), 57, &[0xff; 4])).1,
        BatchFault::InvalidRecord
    );
    assert_eq!(fault(only(batch_of(0))).1, BatchFault::InvalidRecord);
    let unknown = fault(forge(batch_of(1), ATTRIBUTES_AT, &7i16.to_be_bytes()));
    assert_eq!(unknown.1, BatchFault::UnsupportedCompression);
    let producer = fault(forge(batch_of(1), 43, &5i64.to_be_bytes()));
    assert_eq!(producer.1, BatchFault::InvalidRecord);
    let control = only(BatchBuilder::new(Compression::None).control().build());
    assert_eq!(control.count(), 0);
    let mut control = BatchBuilder::new(Compression::None).control();
    control.push(0, Some(&[0, 0, 0, 1]), Some(&[0; 6]), &[]);
    let control = only(control.build());
    assert_eq!(control.validate(&limits()), Err(InvalidBatch::Control));
    let allowed = BatchLimits {
        control: true,
        ..limits()
    };
    assert_eq!(control.validate(&allowed), Ok(()));
}

#[test]
fn the_size_bound_is_inclusive() {
    let batch = only(batch_of(1));
    let bytes = batch.bytes().len();
    assert_eq!(
        batch.validate(&BatchLimits {
            bytes_max: bytes,
            ..limits()
        }),
        Ok(())
    );
    let over = batch.validate(&BatchLimits {
        bytes_max: bytes - 1,
        ..limits()
    });
    assert_eq!(
        over,
        Err(InvalidBatch::TooLarge {
            bytes,
            max: bytes - 1
        })
    );
    assert_eq!(
        over.map_err(|error| error.fault()),
        Err(BatchFault::TooLarge)
    );
}

#[test]
fn broken_frames_are_refused() {
    let whole = batch_of(1);
    let need = whole.len();
    let cut = split(BytesMut::from(&whole[..need - 1])).expect_err("cut off");
    assert_eq!(
        cut,
        InvalidBatch::Truncated {
            have: need - 1,
            need
        }
    );
    let stub = split(BytesMut::from(&whole[..16])).expect_err("a stub");
    assert_eq!(
        stub,
        InvalidBatch::Truncated {
            have: 16,
            need: HEADER_BYTES
        }
    );
    let mut old = whole.clone();
    old[MAGIC_AT] = 1;
    // Messages of format 1 may be shorter than this format's header.
    let old = split(BytesMut::from(&old[..34])).expect_err("an old format");
    assert_eq!(
        (old.fault(), old),
        (BatchFault::UnsupportedFormat, InvalidBatch::Magic(1))
    );
    let mut none = whole.clone();
    none[MAGIC_AT] = 7;
    let none = split(none).expect_err("no format");
    assert_eq!(none.fault(), BatchFault::Corrupt);
    for length in [48i32, 0, -1, i32::MIN] {
        let mut short = whole.clone();
        short[8..12].copy_from_slice(&length.to_be_bytes());
        assert_eq!(
            split(short).expect_err("too short"),
            InvalidBatch::Length(length)
        );
    }
    let mut long = whole;
    long[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    assert!(matches!(split(long), Err(InvalidBatch::Truncated { .. })));
}

#[test]
fn sequences_wrap_to_zero() {
    let mut builder = BatchBuilder::new(Compression::None).producer(1, 0, i32::MAX - 1);
    (0..4).for_each(|n| builder.push(n, None, None, &[]));
    assert_eq!(only(builder.build()).header().last_sequence(), 1);
}

proptest! {
    #[test]
    fn a_flipped_bit_under_the_crc_is_found(at in ATTRIBUTES_AT..120usize, bit in 0..8u32) {
        let mut bytes = batch_of(6);
        prop_assume!(at < bytes.len());
        bytes[at] ^= 1 << bit;
        let fault = only(bytes).validate(&limits()).expect_err("damaged").fault();
        prop_assert_eq!(fault, BatchFault::Corrupt);
    }

    #[test]
    fn restamped_offsets_are_those_that_readers_see(base in 0..i64::MAX as u64 - 10) {
        let mut batch = only(batch_of(3));
        batch.restamp(base, 1, None);
        let bytes: Bytes = batch.freeze();
        let read: Vec<_> =
            records(&bytes).unwrap().map(|record| record.unwrap().offset as u64).collect();
        prop_assert_eq!(read, vec![base, base + 1, base + 2]);
    }
}

#[test]
fn a_recompressed_batch_has_the_same_records_and_header() {
    const ALL: [Compression; 5] = [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    let build = |compression| {
        let mut builder = BatchBuilder::new(compression).producer(7, 1, 3);
        for number in 0..100_i64 {
            builder.push(
                1_000 + number,
                Some(b"key"),
                Some(&[b'x'; 300]),
                &[("h", None)],
            );
        }
        split(builder.build()).unwrap().remove(0)
    };
    let levels = |compression| match compression {
        Compression::Gzip => vec![None, Some(1), Some(9)],
        Compression::Lz4 => vec![None, Some(1), Some(17)],
        Compression::Zstd => vec![None, Some(-5), Some(3), Some(22)],
        Compression::None | Compression::Snappy => vec![None],
    };
    let plain = build(Compression::None);
    let expected: Vec<_> = crate::records(&plain.freeze())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for from in ALL {
        for to in ALL {
            for level in levels(to) {
                let batch = build(from).recompressed(to, level).unwrap();
                batch.validate(&BatchLimits::default()).unwrap();
                let header = *batch.header();
                assert_eq!(header.compression(), Ok(to));
                assert_eq!(
                    (header.producer_id, header.base_sequence, header.count),
                    (7, 3, 100)
                );
                assert_eq!(header.max_timestamp, 1_099);
                assert_eq!(batch.buffer_bytes(), batch.bytes().len());
                let records = crate::records(&batch.freeze()).unwrap();
                assert_eq!(*records.header(), header);
                assert_eq!(records.map(Result::unwrap).collect::<Vec<_>>(), expected);
            }
        }
    }
}

#[test]
fn records_outside_of_a_range_of_time_are_noted() {
    let mut builder = BatchBuilder::new(Compression::Lz4);
    for timestamp in [50, 101, -1, 9, 100, 10] {
        builder.push(timestamp, None, None, &[]);
    }
    let batch = split(builder.build()).unwrap().remove(0);
    let summary = batch.inspect_records_of(1 << 20, &(10..=100)).unwrap();
    let noted: Vec<_> = summary
        .invalid_timestamps
        .iter()
        .map(|m| (m.index, m.timestamp))
        .collect();
    assert_eq!(noted, [(1, 101), (3, 9)]);
    let mut builder = BatchBuilder::new(Compression::None);
    for _ in 0..crate::RECORD_ERRORS_MAX * 2 {
        builder.push(7, None, None, &[]);
    }
    let batch = split(builder.build()).unwrap().remove(0);
    let summary = batch.inspect_records_of(1 << 20, &(10..=100)).unwrap();
    assert_eq!(summary.invalid_timestamps.len(), crate::RECORD_ERRORS_MAX);
}
