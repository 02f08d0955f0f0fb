//! Batches that Kafka's own writer has made, and what becomes of them when they are damaged and their checksum is true
//! again: a client decides about every byte of a batch.

use super::*;
use crate::{
    Batch, BatchLimits, DECOMPRESSED_BYTES_MAX, TransactionEnd,
    header::{ATTRIBUTES_AT, CRC_AT, HEADER_BYTES},
    holds_exactly, retain_records,
};

/// Written by `corpus/Batches.java`.
const CORPUS: &str = include_str!("../../../corpus/batches.txt");
/// Of each batch of the corpus.
const RECORDS: usize = 6;
/// Enough for what the corpus holds, so that what claims more is refused early.
const BYTES_MAX: usize = 1 << 20;

fn corpus() -> Vec<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("hex") as u8;
    let bytes = |line: &str| {
        let pairs = line.as_bytes().chunks(2);
        pairs
            .map(|two| digit(two[0]) << 4 | digit(two[1]))
            .collect()
    };
    CORPUS.lines().map(bytes).collect()
}

/// Does with a batch what the broker does with one that it has received, and with one that it reads from its log.
fn use_up(bytes: &[u8]) {
    let Ok(batches) = split(BytesMut::from(bytes)) else {
        return;
    };
    for batch in batches {
        let is_valid = batch.validate(&BatchLimits::default()).is_ok();
        let is_sound = batch.inspect_records(BYTES_MAX).is_ok();
        if is_valid && is_sound {
            let _ = batch.recompressed(Compression::Lz4, None);
        }
        read(batch);
    }
}

fn read(batch: Batch) {
    let bytes = batch.freeze();
    let _ = TransactionEnd::of(&bytes);
    if let Ok(all) = crate::records_within(&bytes, BYTES_MAX) {
        // Each record takes a byte at least.
        assert!(all.take_while(Result::is_ok).count() <= BYTES_MAX);
    }
    if let Ok(all) = crate::records_within(&bytes, BYTES_MAX) {
        // As compaction does.
        let kept = [true, false, true, true, false, true];
        if let Ok(rewritten) = retain_records(&all, &kept, Some(9)) {
            let _ = holds_exactly(&rewritten, &all, &kept);
        }
    }
    if let Ok(mut views) = crate::records_within(&bytes, BYTES_MAX) {
        while let Some(Ok(view)) = views.next_view() {
            let _ = view.headers().count();
        }
    }
}

/// The checksum of what the batch has now.
fn sign(bytes: &mut [u8]) {
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let crc = millrace_model::crc32c(&bytes[ATTRIBUTES_AT..]);
    bytes[CRC_AT..ATTRIBUTES_AT].copy_from_slice(&crc.to_be_bytes());
}

#[test]
fn batches_of_kafkas_writer_are_read() {
    for bytes in corpus() {
        let batch = split(BytesMut::from(&bytes[..])).expect("whole").remove(0);
        if batch.header().is_control() {
            let end = TransactionEnd::of(&batch.freeze()).expect("sound");
            assert_eq!(end.expect("a marker").coordinator_epoch, 11);
            continue;
        }
        batch.validate(&BatchLimits::default()).expect("valid");
        let summary = batch
            .inspect_records(DECOMPRESSED_BYTES_MAX)
            .expect("sound");
        assert_eq!(summary.keyless, [0, 3]);
        let bytes = batch.freeze();
        let read: Vec<_> = records(&bytes)
            .expect("sound")
            .map(|one| one.expect("sound"))
            .collect();
        assert_eq!(read.len(), RECORDS);
        for (number, record) in read.iter().enumerate() {
            assert_eq!(record.offset, 100 + number as i64);
            let value = (number % 4 != 1).then(|| "value ".repeat(number).into_bytes());
            assert_eq!(record.value.as_deref(), value.as_deref());
            assert_eq!(record.headers.len(), number % 3);
        }
    }
}

#[test]
fn damaged_at_one_byte_no_batch_panics() {
    for batch in corpus() {
        for at in 0..batch.len() {
            for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
                let mut bytes = batch.clone();
                bytes[at] = value;
                use_up(&bytes);
                sign(&mut bytes);
                use_up(&bytes);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn damaged_batches_never_panic(
        batch in prop::sample::select(corpus()),
        damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = batch;
        for (at, value) in damages {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
            // The length says what is there, so that the records are read.
            if bytes.len() >= HEADER_BYTES {
                let length = i32::try_from(bytes.len() - 12).expect("small");
                bytes[8..12].copy_from_slice(&length.to_be_bytes());
            }
        }
        sign(&mut bytes);
        use_up(&bytes);
    }
}

/// `PROPTEST_CASES` asks for another number.
fn cases() -> u32 {
    const CASES: u32 = 4_000;
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return ProptestConfig::default().cases;
    }
    CASES
}
