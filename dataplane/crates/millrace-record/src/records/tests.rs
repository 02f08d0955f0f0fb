use bytes::{Bytes, BytesMut};
use kafka_protocol::{
    indexmap::IndexMap,
    protocol::StrBytes,
    records::{
        Compression as TheirCompression, Record as TheirRecord, RecordBatchDecoder,
        RecordBatchEncoder, RecordEncodeOptions, TimestampType as TheirTimestampType,
    },
};
use proptest::prelude::*;

use super::*;
use crate::{BatchBuilder, Compression, split};

mod damaged;

const ALL: [(Compression, TheirCompression); 5] = [
    (Compression::None, TheirCompression::None),
    (Compression::Gzip, TheirCompression::Gzip),
    (Compression::Snappy, TheirCompression::Snappy),
    (Compression::Lz4, TheirCompression::Lz4),
    (Compression::Zstd, TheirCompression::Zstd),
];

fn blob() -> impl Strategy<Value = Option<Vec<u8>>> {
    proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200))
}

/// Headers with distinct keys: the other implementation keeps one per key.
fn headers() -> impl Strategy<Value = Vec<(String, Option<Vec<u8>>)>> {
    let headers = proptest::collection::btree_map("[a-z]{0,4}", blob(), 0..4);
    headers.prop_map(|headers| headers.into_iter().collect())
}

type Given = (
    i64,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Vec<(String, Option<Vec<u8>>)>,
);

fn given() -> impl Strategy<Value = Vec<Given>> {
    let record = (0..4_102_444_800_000i64, blob(), blob(), headers());
    proptest::collection::vec(record, 1..12)
}

fn build(compression: Compression, given: &[Given]) -> BytesMut {
    let mut builder = BatchBuilder::new(compression)
        .base_offset(1_000)
        .producer(7, 3, 40);
    for (timestamp, key, value, headers) in given {
        let headers: Vec<_> = headers
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_deref()))
            .collect();
        builder.push(*timestamp, key.as_deref(), value.as_deref(), &headers);
    }
    builder.build()
}

fn record_of(offset: i64, given: &Given) -> Record {
    let (timestamp, key, value, headers) = given.clone();
    let share = |bytes: Option<Vec<u8>>| bytes.map(Bytes::from);
    let header = |(key, value): (String, _)| Header {
        key: key.into_bytes().into(),
        value: share(value),
    };
    let headers = headers.into_iter().map(header).collect();
    Record {
        offset,
        timestamp,
        key: share(key),
        value: share(value),
        headers,
    }
}

fn theirs(offset: i64, given: &Given) -> TheirRecord {
    let record = record_of(offset, given);
    let mut headers = IndexMap::new();
    for header in record.headers {
        headers.insert(
            StrBytes::from_utf8(header.key).expect("ASCII"),
            header.value,
        );
    }
    TheirRecord {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: -1,
        producer_id: 7,
        producer_epoch: 3,
        timestamp_type: TheirTimestampType::Creation,
        offset,
        sequence: 40 + i32::try_from(offset - 1_000).expect("small"),
        timestamp: record.timestamp,
        key: record.key,
        value: record.value,
        headers,
    }
}

proptest! {
    #[test]
    fn views_and_records_agree(given in given(), which in 0..ALL.len()) {
        let batch = build(ALL[which].0, &given).freeze();
        let mut views = records(&batch).expect("a batch");
        for record in records(&batch).expect("a batch") {
            let record = record.expect("a record");
            prop_assert_eq!(views.next_offset(), Some(record.offset));
            let view = views.next_view().expect("as many").expect("a record");
            prop_assert_eq!((view.offset, view.timestamp), (record.offset, record.timestamp));
            prop_assert_eq!(view.key, record.key.as_deref());
            prop_assert_eq!(view.value, record.value.as_deref());
            let headers = record.headers.iter();
            let headers: Vec<_> = headers.map(|one| (&one.key[..], one.value.as_deref())).collect();
            prop_assert_eq!(view.headers().collect::<Vec<_>>(), headers);
        }
        prop_assert!(views.next_view().is_none() && views.next_offset().is_none());
    }

    #[test]
    fn what_is_built_is_read_back(given in given(), which in 0..ALL.len()) {
        let batch = build(ALL[which].0, &given).freeze();
        let read: Vec<_> = records(&batch).unwrap().collect::<Result<_, _>>().unwrap();
        let expected: Vec<_> = (1_000..).zip(&given).map(|(at, one)| record_of(at, one)).collect();
        prop_assert_eq!(read, expected);
        let summary = split(BytesMut::from(&batch[..])).unwrap()[0].inspect_records(DECOMPRESSED_BYTES_MAX).unwrap();
        let max = given.iter().map(|one| one.0).max().unwrap();
        let at = given.iter().position(|one| one.0 == max).unwrap();
        prop_assert_eq!(summary.max_timestamp, max);
        prop_assert_eq!(summary.max_timestamp_offset_delta as usize, at);
        let keyless = (0..).zip(&given).filter(|(_, one)| one.1.is_none());
        let keyless: Vec<i32> = keyless.map(|(index, _)| index).take(RECORD_ERRORS_MAX).collect();
        prop_assert_eq!(summary.keyless, keyless);
    }

    #[test]
    fn an_independent_implementation_reads_what_is_built(
        given in given(),
        which in 0..ALL.len(),
    ) {
        let mut batch = build(ALL[which].0, &given).freeze();
        let set = RecordBatchDecoder::decode(&mut batch).expect("readable");
        let expected: Vec<_> = (1_000..).zip(&given).map(|(at, one)| theirs(at, one)).collect();
        prop_assert_eq!(set.records, expected);
    }

    #[test]
    fn what_an_independent_implementation_builds_is_valid(
        given in given(),
        which in 0..ALL.len(),
    ) {
        let given: Vec<_> = given;
        let all: Vec<_> = (1_000..).zip(&given).map(|(at, one)| theirs(at, one)).collect();
        let mut bytes = BytesMut::new();
        let options = RecordEncodeOptions { version: 2, compression: ALL[which].1 };
        RecordBatchEncoder::encode(&mut bytes, &all, &options).expect("encodable");
        let batch = split(bytes).unwrap().remove(0);
        batch.validate(&crate::BatchLimits::default()).unwrap();
        batch.inspect_records(DECOMPRESSED_BYTES_MAX).unwrap();
        prop_assert_eq!(batch.header().compression(), Ok(ALL[which].0));
        let batch = batch.freeze();
        let read: Vec<_> = records(&batch).unwrap().collect::<Result<_, _>>().unwrap();
        let expected: Vec<_> = (1_000..).zip(&given).map(|(at, one)| record_of(at, one)).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let bytes = Bytes::from(bytes);
        let _ = split(BytesMut::from(&bytes[..]));
        if let Ok(records) = records(&bytes) {
            let _ = records.collect::<Vec<_>>();
        }
    }

    /// Damage behind an intact frame: reaches the record parser and every decompressor.
    #[test]
    fn damaged_batches_never_panic(
        given in given(),
        which in 0..ALL.len(),
        damage in proptest::collection::vec((HEADER_BYTES - 20..2_000usize, any::<u8>()), 1..8),
    ) {
        let mut bytes = build(ALL[which].0, &given);
        for (at, byte) in damage {
            let at = at % bytes.len();
            if at >= crate::header::CRC_AT {
                bytes[at] = byte;
            }
        }
        let batch = split(bytes).unwrap().remove(0);
        let _ = batch.inspect_records(DECOMPRESSED_BYTES_MAX);
        if let Ok(records) = records(&batch.freeze()) {
            let _ = records.take(10_000).collect::<Vec<_>>();
        }
    }
}

fn with_body(count: i32, attributes: u8, body: &[u8]) -> Bytes {
    let mut batch = BatchBuilder::new(Compression::None).build();
    batch[22] = attributes;
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    batch.extend_from_slice(body);
    let length = i32::try_from(batch.len() - 12).expect("small");
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch.freeze()
}

fn first_reason(batch: &Bytes) -> &'static str {
    let errors = records(batch).expect("a header").filter_map(Result::err);
    match errors.last().expect("an error") {
        InvalidBatch::Record { reason, .. } => reason,
        other => panic!("{other}"),
    }
}

#[test]
fn counts_that_the_bytes_cannot_hold_are_refused_without_allocating() {
    // A record of 7 bytes that claims 2^31 - 1 headers.
    let body = [20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f];
    assert_eq!(
        first_reason(&with_body(1, 0, &body)),
        "more headers than bytes"
    );
    // A batch that claims 2^31 - 1 records and has one.
    let one = [12, 0, 0, 0, 1, 1, 0];
    let mut all = records(&with_body(i32::MAX, 0, &one)).expect("a header");
    assert!(all.next().expect("one").is_ok());
    assert!(all.next().expect("the next").is_err());
    assert!(all.next().is_none(), "ends after the first error");
}

#[test]
fn surplus_and_missing_bytes_are_refused() {
    let one = [12, 0, 0, 0, 1, 1, 0];
    assert_eq!(
        first_reason(&with_body(1, 0, &[&one[..], &[0]].concat())),
        TRAILING_RECORD
    );
    assert_eq!(
        first_reason(&with_body(1, 0, &[14, 0, 0, 0, 1, 1, 0, 0])),
        TRAILING
    );
    assert_eq!(
        first_reason(&with_body(1, 0, &[40, 0, 0])),
        "longer than the batch"
    );
    assert_eq!(first_reason(&with_body(1, 0, &[1])), "negative length");
    assert_eq!(
        first_reason(&with_body(1, 0, &[12, 0, 0, 0, 20, 1, 0])),
        "broken key"
    );
}

const TRAILING_RECORD: &str = "bytes follow the last record";

#[test]
fn bombs_are_refused() {
    let zeros = vec![0u8; DECOMPRESSED_BYTES_MAX + 1];
    for (compression, _) in ALL.into_iter().skip(1) {
        let packed = compression
            .compress_onto(&zeros, Vec::new(), None)
            .expect("in memory");
        let batch = with_body(1, compression as u8, &packed);
        let error = records(&batch).expect_err("too large");
        assert_eq!(error, InvalidBatch::DecompressedTooLarge, "{compression:?}");
    }
}

#[test]
fn a_snappy_block_that_claims_too_much_is_refused_before_memory_is_taken() {
    // A raw block that claims 60 MiB and has four bytes.
    let claim = [0x80, 0x80, 0x80, 0x1e, 0, 0, 0];
    let error = records(&with_body(1, Compression::Snappy as u8, &claim)).expect_err("a claim");
    assert_eq!(error, InvalidBatch::Decompress);
}

#[test]
fn raw_snappy_is_read() {
    let body = [12, 0, 0, 0, 1, 1, 0];
    let packed = snap::raw::Encoder::new()
        .compress_vec(&body)
        .expect("in memory");
    let batch = with_body(1, Compression::Snappy as u8, &packed);
    assert_eq!(
        records(&batch)
            .expect("a header")
            .filter(Result::is_ok)
            .count(),
        1
    );
}

#[test]
fn offsets_with_a_gap_are_refused() {
    let body = [12, 0, 0, 2, 1, 1, 0];
    let batch = split(BytesMut::from(&with_body(1, 0, &body)[..]))
        .expect("a batch")
        .remove(0);
    let expected = InvalidBatch::Record {
        index: 0,
        reason: "offsets have a gap",
    };
    assert_eq!(batch.inspect_records(DECOMPRESSED_BYTES_MAX), Err(expected));
}
