//! The format: what is written is what is read, byte for byte, and no damage goes unseen.

use bytes::Bytes;
use millrace_model::{ObjectId, StreamEpoch, StreamId, StreamRange, limits::ENTRY_BYTES_MAX};
use millrace_objects::{
    Built, InvalidEntry, ObjectBuilder, ObjectKey, ObjectReader, ObjectStorage, ReadError,
    StreamEntry,
};
use millrace_time::{ManualClock, SeededRandom};
use proptest::prelude::*;

fn storage() -> ObjectStorage {
    ObjectStorage::memory(ManualClock::shared(), SeededRandom::shared(1))
}

fn key(id: u64) -> ObjectKey {
    ObjectKey::of("test", ObjectId(id))
}

fn entry(stream: u64, base_offset: u64, count: u32, payload: impl Into<Bytes>) -> StreamEntry {
    let (stream, epoch) = (StreamId(stream), StreamEpoch(7));
    StreamEntry {
        stream,
        epoch,
        base_offset,
        count,
        payload: payload.into(),
    }
}

fn build(block_bytes: usize, entries: &[StreamEntry]) -> Built {
    let mut builder = ObjectBuilder::new(block_bytes);
    for entry in entries {
        builder.add(entry.clone()).expect("in order");
    }
    let foretold = builder.size();
    let built = builder.finish();
    assert_eq!(built.size, foretold);
    assert_eq!(
        built.size,
        built
            .chunks
            .iter()
            .map(|chunk| chunk.len() as u64)
            .sum::<u64>()
    );
    built
}

/// Reads every entry of an object.
async fn read_all(
    storage: &ObjectStorage,
    key: ObjectKey,
    size: u64,
) -> Result<Vec<StreamEntry>, ReadError> {
    let reader = ObjectReader::open(storage, key, size).await?;
    let mut entries = Vec::new();
    for block in reader.blocks() {
        entries.extend(reader.read_block(storage, block).await?);
    }
    Ok(entries)
}

fn small_object() -> Vec<StreamEntry> {
    vec![
        entry(1, 10, 5, "hello"),
        entry(1, 15, 1, ""),
        entry(1, 1 << 40, 2, "far away"),
        entry(u64::MAX, 0, 1, "last"),
    ]
}

/// The layout of version 1, which objects in buckets have for ever: never change this text.
const GOLDEN: &str = "
4d524442 0001 0000 0000000000000001 00000003 00000055 9680aa5b
0000000000000007 000000000000000a 00000005 00000005 68656c6c6f
0000000000000007 000000000000000f 00000001 00000000
0000000000000007 0000010000000000 00000002 00000008 6661722061776179
4d524442 0001 0000 ffffffffffffffff 00000001 0000001c 8ad1151f
0000000000000007 0000000000000000 00000001 00000004 6c617374
0000000000000001 000000000000000a 0000010000000002 0000000000000000 00000071 00000003
ffffffffffffffff 0000000000000000 0000000000000001 0000000000000071 00000038 00000001
3b5e493d
00000000000000a9 0000000000000054 00000002 0001 0000 244ebb68 4d494c4c52414345
";

#[test]
fn the_layout_is_the_one_that_was_agreed() {
    let bytes = build(1_024, &small_object()).chunks.concat();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GOLDEN.split_whitespace().collect::<String>());
}

#[tokio::test]
async fn every_flipped_bit_is_detected() {
    let storage = storage();
    let sound = build(1_024, &small_object()).chunks.concat();
    for at in 0..sound.len() {
        for bit in 0..8 {
            let mut flipped = sound.clone();
            flipped[at] ^= 1 << bit;
            let key = key((at * 8 + bit) as u64);
            storage
                .put(&key, vec![flipped.into()])
                .await
                .expect("memory takes it");
            let read = read_all(&storage, key, sound.len() as u64).await;
            let unseen = format!("bit {bit} of byte {at} went unseen");
            assert!(
                matches!(read.expect_err(&unseen), ReadError::Corrupt { .. }),
                "byte {at}"
            );
        }
    }
}

// The clock is paused because a range behind an object's end is tried again, like any failure.
#[tokio::test(start_paused = true)]
async fn every_cut_is_detected() {
    let storage = storage();
    let sound: Bytes = build(1_024, &small_object()).chunks.concat().into();
    for len in 0..sound.len() {
        let key = key(len as u64);
        storage
            .put(&key, vec![sound.slice(..len)])
            .await
            .expect("memory takes it");
        // Whether the metadata has the full size or the cut one, nothing is given out.
        for size in [sound.len(), len] {
            read_all(&storage, key.clone(), size as u64)
                .await
                .expect_err("cut off");
        }
    }
}

#[tokio::test]
async fn foreign_bytes_are_an_error() {
    let storage = storage();
    let foreign = [vec![], vec![0; 1], vec![0xff; 36], vec![0; 100_000]];
    for (id, bytes) in foreign.into_iter().enumerate() {
        let (key, size) = (key(id as u64), bytes.len() as u64);
        storage
            .put(&key, vec![bytes.into()])
            .await
            .expect("memory takes it");
        assert!(matches!(
            read_all(&storage, key, size).await,
            Err(ReadError::Corrupt { .. })
        ));
    }
}

#[tokio::test]
async fn an_index_larger_than_the_guess_takes_a_second_read() {
    let storage = storage();
    let entries: Vec<_> = (0..3_000).map(|stream| entry(stream, 0, 1, "x")).collect();
    let built = build(1, &entries);
    storage
        .put(&key(1), built.chunks)
        .await
        .expect("memory takes it");
    assert_eq!(
        read_all(&storage, key(1), built.size).await.expect("sound"),
        entries
    );
}

#[tokio::test]
async fn find_gives_the_blocks_that_overlap() {
    let storage = storage();
    let entries: Vec<_> = (0..10)
        .map(|nth| entry(5, nth * 10, 10, "0123456789"))
        .collect();
    let mut around = vec![entry(4, 0, 1_000, "x")];
    around.extend(entries);
    around.push(entry(6, 0, 1_000, "x"));
    // Two entries of 34 bytes fill a block.
    let built = build(60, &around);
    storage
        .put(&key(1), built.chunks)
        .await
        .expect("memory takes it");
    let reader = ObjectReader::open(&storage, key(1), built.size)
        .await
        .expect("sound");
    let found = |start, end| -> Vec<(u64, u64)> {
        let blocks = reader.find(StreamId(5), start, end);
        blocks
            .iter()
            .map(|block| (block.start, block.end))
            .collect()
    };
    assert_eq!(found(0, 1), [(0, 20)]);
    assert_eq!(found(19, 20), [(0, 20)]);
    assert_eq!(found(19, 21), [(0, 20), (20, 40)]);
    assert_eq!(found(85, u64::MAX), [(80, 100)]);
    assert_eq!(found(100, u64::MAX), []);
    assert_eq!(found(50, 50), [(40, 60)]);
    assert!(reader.find(StreamId(7), 0, u64::MAX).is_empty());
}

#[test]
fn large_payloads_are_not_copied() {
    let payload = Bytes::from(vec![1; 100_000]);
    let built = build(1 << 20, &[entry(1, 0, 1, payload.clone())]);
    assert!(
        built
            .chunks
            .iter()
            .any(|chunk| chunk.as_ptr() == payload.as_ptr())
    );
}

#[test]
fn the_builder_refuses_what_a_reader_could_not_trust() {
    let mut builder = ObjectBuilder::new(1_024);
    builder.add(entry(5, 10, 10, "x")).expect("the first");
    let last = StreamRange {
        stream: StreamId(5),
        start: 10,
        end: 20,
    };
    for (stream, base_offset) in [(4, 100), (5, 10), (5, 19)] {
        let stream = StreamId(stream);
        let error = builder.add(entry(stream.get(), base_offset, 1, "x"));
        assert_eq!(
            error,
            Err(InvalidEntry::OutOfOrder {
                stream,
                base_offset,
                last
            })
        );
    }
    for (base_offset, count) in [(20, 0), (u64::MAX, 1)] {
        let stream = StreamId(5);
        let error = builder.add(entry(5, base_offset, count, "x"));
        assert_eq!(
            error,
            Err(InvalidEntry::Count {
                stream,
                base_offset,
                count
            })
        );
    }
    let large = Bytes::from(vec![0; ENTRY_BYTES_MAX + 1]);
    let error = builder.add(entry(5, 20, 1, large));
    assert_eq!(
        error,
        Err(InvalidEntry::PayloadTooLarge(ENTRY_BYTES_MAX + 1))
    );
    builder
        .add(entry(5, 20, 1, "x"))
        .expect("a refusal changes nothing");
    let range = StreamRange {
        stream: StreamId(5),
        start: 10,
        end: 21,
    };
    assert_eq!(builder.finish().ranges, [range]);
}

/// A gap before the entry, its count, its payload's length; and whether a new stream begins.
fn any_entry() -> impl Strategy<Value = (u64, u32, usize, bool)> {
    let gap = prop_oneof![8 => Just(0), 1 => 1..100_u64, 1 => Just(1 << 33)];
    let len = prop_oneof![4 => 0..300_usize, 1 => 4_000..6_000_usize];
    (gap, 1..1_000_u32, len, prop::bool::weighted(0.2))
}

fn entries_from(seeds: &[(u64, u32, usize, bool)]) -> Vec<StreamEntry> {
    let (mut stream, mut next) = (1, 0);
    let mut entries = Vec::new();
    for (nth, &(gap, count, len, new_stream)) in seeds.iter().enumerate() {
        if new_stream {
            (stream, next) = (stream + 1 + gap, gap);
        }
        let payload: Vec<u8> = (0..len).map(|at| (at * 7 + nth) as u8).collect();
        entries.push(entry(stream, next + gap, count, payload));
        next += gap + u64::from(count);
    }
    entries
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_goes_in_comes_out(
        seeds in prop::collection::vec(any_entry(), 0..60), block_bytes in 1..20_000_usize,
    ) {
        let entries = entries_from(&seeds);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let storage = storage();
            let built = build(block_bytes, &entries);
            storage.put(&key(1), built.chunks).await.expect("memory takes it");
            let read = read_all(&storage, key(1), built.size).await.expect("sound");
            prop_assert_eq!(&read, &entries);
            for range in &built.ranges {
                let of_stream = || entries.iter().filter(|entry| entry.stream == range.stream);
                let first = of_stream().next().map(|entry| entry.base_offset);
                let end = of_stream().next_back().and_then(StreamEntry::end_offset);
                prop_assert_eq!((first, end), (Some(range.start), Some(range.end)));
            }
            Ok(())
        })?;
    }
}
