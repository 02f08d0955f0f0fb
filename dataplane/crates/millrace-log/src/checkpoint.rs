//! The persistent form of what the broker knows about a partition's data.
//!
//! ```text
//!  u8   version          5; numbered by hand, never reused, below 128. 1 ends before the log's bytes, 2 before
//!                        the transactional producers, 3 before the first dirty offset, 4 before the bytes of the meta stream
//!  u64  end offset       the state covers every batch below it
//!  u32  producers        each:
//!         i64  producer id
//!         i16  epoch
//!         i64  written at, milliseconds of the wall clock
//!         u8   batches, at most 5, oldest first; each:
//!                i32 first sequence | i32 last sequence | u64 base offset | u64 last offset
//!                | i64 log append time, -1 for none
//!  u64  stride of the time index, bytes
//!  u8   1 if there is a largest timestamp, then: i64 timestamp | u64 base offset of its batch
//!  u32  marks            each: varint offset − the mark's before, varint max timestamp − the
//!                        mark's before; the first is relative to offset 0 and timestamp −2⁶³
//!  u64  the log's bytes  of all batches that were ever written
//!  u32  segments         each: varint offset − the one's before, varint position − the one's
//!                        before, varint max timestamp − the one's before, in zigzag; the first is
//!                        relative to 0
//!  u32  leader epochs    each: varint epoch − the one's before, varint offset − the one's before;
//!                        the first is relative to 0
//!  u32  transactional producers
//!                        those of the above with a coordinator epoch or an open transaction, each:
//!         i64  producer id
//!         i32  coordinator epoch, -1 for none
//!         u8   1 if a transaction is open, then: u64 its first offset
//!  u32  aborted transactions
//!                        the newest, in the order of their markers, each: i64 producer id | varint marker's
//!                        offset − the one's before | varint marker's offset − first offset; the
//!                        first marker is relative to 0
//!  u64  first dirty offset   everything below has been cleaned by log compaction
//!  u64  bytes of the meta stream before this checkpoint, about
//!  u32  blocks of older aborted transactions
//!                        each: varint offset in the meta stream | varint bytes of the meta stream before it | varint its bytes
//!                        | varint transactions | varint last marker's offset − the one's before | varint last marker's offset − first
//!                        offset of all; the first last marker is relative to 0
//! ```
//!
//! The stream has these blocks between its checkpoints ([`crate::aborted_index`]).
//!
//! Numbers are big-endian, varints are LEB128. The stream below guards every byte with a checksum.
//! A version 1 is read with sizes estimated from the time index, and without leader epochs. Versions 1
//! and 2 are of partitions that took no transactions.

use std::collections::{HashMap, VecDeque};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use millrace_model::Offset;

use crate::{
    aborted_index::{AbortedIndex, get_aborted, get_index, put_aborted, put_index},
    leader_epochs::{EPOCHS_MAX, EpochStart, LeaderEpochs},
    producers::{BATCHES_KEPT, Producer, Producers, WrittenBatch},
    segments::{SEGMENTS_MAX, Segment, Segments},
    time_index::{Latest, MARKS_MAX, Mark, TimeIndex},
    transactions::{TRANSACTIONS_MAX, Transactions},
};

const VERSION: u8 = 5;
/// The version that had all aborted transactions in itself.
const WITHOUT_BLOCKS: u8 = 4;
/// The version that did not know how far log compaction has come.
const WITHOUT_FIRST_DIRTY: u8 = 3;
/// The version that knew no transactions.
const WITHOUT_TRANSACTIONS: u8 = 2;
/// The first version, which knew neither segments nor leader epochs.
const WITHOUT_SEGMENTS: u8 = 1;

/// What a partition knows about its data below `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) end: Offset,
    pub(crate) producers: Producers,
    pub(crate) transactions: Transactions,
    pub(crate) time_index: TimeIndex,
    pub(crate) segments: Segments,
    pub(crate) leader_epochs: LeaderEpochs,
    /// Everything below has been cleaned by log compaction.
    pub(crate) first_dirty: Offset,
}

/// What of a partition's state goes into a checkpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept<'a> {
    pub(crate) producers: &'a Producers,
    pub(crate) transactions: &'a Transactions,
    pub(crate) time_index: &'a TimeIndex,
    pub(crate) segments: &'a Segments,
    pub(crate) leader_epochs: &'a LeaderEpochs,
    pub(crate) first_dirty: Offset,
}

/// Why bytes are not a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCheckpoint {
    /// It is of a version that this broker does not know.
    #[error("version {0} is unknown; it was written by a newer broker")]
    Version(u8),
    /// It ends before its layout does.
    #[error("it ends early")]
    Short,
    /// Bytes follow its end.
    #[error("{0} bytes follow its end")]
    Trailing(usize),
    /// Its parts contradict each other.
    #[error("{0}")]
    Unsound(&'static str),
}

/// Writes a checkpoint of `kept` as of `end`. Producers that have been silent since before `since_ms`
/// are left out.
pub(crate) fn encode(end: Offset, since_ms: i64, kept: Kept<'_>) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(VERSION);
    out.put_u64(end);
    encode_producers(&mut out, kept.producers, since_ms);
    encode_time_index(&mut out, kept.time_index);
    encode_segments(&mut out, kept.segments);
    encode_leader_epochs(&mut out, kept.leader_epochs);
    encode_transactional(&mut out, kept.producers, since_ms);
    put_aborted(&mut out, kept.transactions.aborted().iter());
    out.put_u64(kept.first_dirty);
    put_index(&mut out, kept.transactions.index());
    out.freeze()
}

fn encode_producers(out: &mut BytesMut, producers: &Producers, since_ms: i64) {
    let recent = producers.since(since_ms);
    out.put_u32(u32::try_from(recent.len()).unwrap_or(u32::MAX));
    for (id, producer) in recent {
        out.put_i64(id);
        out.put_i16(producer.epoch);
        out.put_i64(producer.written_at_ms);
        out.put_u8(u8::try_from(producer.batches.len()).unwrap_or(u8::MAX));
        for batch in &producer.batches {
            out.put_i32(batch.first_sequence);
            out.put_i32(batch.last_sequence);
            out.put_u64(batch.base_offset);
            out.put_u64(batch.last_offset);
            out.put_i64(batch.log_append_time);
        }
    }
}

fn encode_transactional(out: &mut BytesMut, producers: &Producers, since_ms: i64) {
    let mut recent = producers.since(since_ms);
    recent.retain(|_, producer| producer.coordinator_epoch >= 0 || producer.transaction.is_some());
    out.put_u32(u32::try_from(recent.len()).unwrap_or(u32::MAX));
    for (id, producer) in recent {
        out.put_i64(id);
        out.put_i32(producer.coordinator_epoch);
        out.put_u8(u8::from(producer.transaction.is_some()));
        if let Some(first) = producer.transaction {
            out.put_u64(first);
        }
    }
}

fn encode_segments(out: &mut BytesMut, segments: &Segments) {
    out.put_u64(segments.position());
    out.put_u32(u32::try_from(segments.list().len()).unwrap_or(u32::MAX));
    let mut before = Segment {
        base_offset: 0,
        position: 0,
        max_timestamp: 0,
    };
    for &segment in segments.list() {
        put_varint(out, segment.base_offset.wrapping_sub(before.base_offset));
        put_varint(out, segment.position.wrapping_sub(before.position));
        let time = segment.max_timestamp.wrapping_sub(before.max_timestamp);
        put_varint(out, zigzag(time));
        before = segment;
    }
}

fn encode_leader_epochs(out: &mut BytesMut, leader_epochs: &LeaderEpochs) {
    let starts = leader_epochs.starts();
    out.put_u32(u32::try_from(starts.len()).unwrap_or(u32::MAX));
    let mut before = EpochStart {
        epoch: 0,
        offset: 0,
    };
    for &start in starts {
        let epochs = start.epoch.wrapping_sub(before.epoch);
        put_varint(out, u64::from(epochs.cast_unsigned()));
        put_varint(out, start.offset.wrapping_sub(before.offset));
        before = start;
    }
}

fn encode_time_index(out: &mut BytesMut, time_index: &TimeIndex) {
    out.put_u64(time_index.stride_bytes());
    match time_index.latest() {
        None => out.put_u8(0),
        Some(Latest { timestamp, batch }) => {
            out.put_u8(1);
            out.put_i64(timestamp);
            out.put_u64(batch);
        }
    }
    out.put_u32(u32::try_from(time_index.marks().len()).unwrap_or(u32::MAX));
    let mut before = Mark {
        offset: 0,
        max_timestamp: i64::MIN,
    };
    for &mark in time_index.marks() {
        put_varint(out, mark.offset.wrapping_sub(before.offset));
        put_varint(
            out,
            mark.max_timestamp
                .wrapping_sub(before.max_timestamp)
                .cast_unsigned(),
        );
        before = mark;
    }
}

/// Reads a checkpoint back.
///
/// # Errors
/// See [`InvalidCheckpoint`].
pub(crate) fn decode(mut bytes: Bytes) -> Result<Checkpoint, InvalidCheckpoint> {
    let short = |_| InvalidCheckpoint::Short;
    let version = bytes.try_get_u8().map_err(short)?;
    if !(WITHOUT_SEGMENTS..=VERSION).contains(&version) {
        return Err(InvalidCheckpoint::Version(version));
    }
    let end = bytes.try_get_u64().map_err(short)?;
    let count = bytes.try_get_u32().map_err(short)?;
    let mut by_id = HashMap::new();
    for _ in 0..count {
        let id = bytes.try_get_i64().map_err(short)?;
        by_id.insert(id, decode_producer(&mut bytes)?);
    }
    let time_index = decode_time_index(&mut bytes)?;
    let (segments, leader_epochs) = match version {
        WITHOUT_SEGMENTS => (
            Segments::estimated(&time_index, end),
            LeaderEpochs::default(),
        ),
        _ => (
            decode_segments(&mut bytes, end)?,
            decode_leader_epochs(&mut bytes)?,
        ),
    };
    let mut aborted = Vec::new();
    if version > WITHOUT_TRANSACTIONS {
        decode_transactional(&mut bytes, &mut by_id)?;
        aborted = get_aborted(&mut bytes, TRANSACTIONS_MAX)?;
    }
    let mut first_dirty = 0;
    if version > WITHOUT_FIRST_DIRTY {
        first_dirty = bytes.try_get_u64().map_err(short)?;
    }
    let mut index = AbortedIndex::default();
    if version > WITHOUT_BLOCKS {
        index = get_index(&mut bytes)?;
    }
    if bytes.has_remaining() {
        return Err(InvalidCheckpoint::Trailing(bytes.remaining()));
    }
    let producers = Producers::from_parts(by_id);
    let open = producers.open_transactions();
    let transactions = Transactions::from_parts(open, index, aborted).ok_or(
        InvalidCheckpoint::Unsound("the aborted transactions are out of order"),
    )?;
    Ok(Checkpoint {
        end,
        producers,
        transactions,
        time_index,
        segments,
        leader_epochs,
        first_dirty,
    })
}

fn decode_producer(bytes: &mut Bytes) -> Result<Producer, InvalidCheckpoint> {
    let short = |_| InvalidCheckpoint::Short;
    let epoch = bytes.try_get_i16().map_err(short)?;
    let written_at_ms = bytes.try_get_i64().map_err(short)?;
    let count = usize::from(bytes.try_get_u8().map_err(short)?);
    if count > BATCHES_KEPT {
        return Err(InvalidCheckpoint::Unsound(
            "a producer has too many batches",
        ));
    }
    let mut batches = VecDeque::with_capacity(BATCHES_KEPT);
    for _ in 0..count {
        batches.push_back(WrittenBatch {
            first_sequence: bytes.try_get_i32().map_err(short)?,
            last_sequence: bytes.try_get_i32().map_err(short)?,
            base_offset: bytes.try_get_u64().map_err(short)?,
            last_offset: bytes.try_get_u64().map_err(short)?,
            log_append_time: bytes.try_get_i64().map_err(short)?,
        });
    }
    Ok(Producer {
        epoch,
        batches,
        written_at_ms,
        coordinator_epoch: -1,
        transaction: None,
        verifiable_from: 0,
    })
}

fn decode_transactional(
    bytes: &mut Bytes,
    by_id: &mut HashMap<i64, Producer>,
) -> Result<(), InvalidCheckpoint> {
    let short = |_| InvalidCheckpoint::Short;
    let count = bytes.try_get_u32().map_err(short)?;
    for _ in 0..count {
        let id = bytes.try_get_i64().map_err(short)?;
        let producer = by_id.get_mut(&id).ok_or(InvalidCheckpoint::Unsound(
            "a transactional producer is not among the producers",
        ))?;
        producer.coordinator_epoch = bytes.try_get_i32().map_err(short)?;
        producer.transaction = match bytes.try_get_u8().map_err(short)? {
            0 => None,
            _ => Some(bytes.try_get_u64().map_err(short)?),
        };
    }
    Ok(())
}

fn decode_time_index(bytes: &mut Bytes) -> Result<TimeIndex, InvalidCheckpoint> {
    let short = |_| InvalidCheckpoint::Short;
    let stride_bytes = bytes.try_get_u64().map_err(short)?;
    let latest = match bytes.try_get_u8().map_err(short)? {
        0 => None,
        _ => Some(Latest {
            timestamp: bytes.try_get_i64().map_err(short)?,
            batch: bytes.try_get_u64().map_err(short)?,
        }),
    };
    let count = bytes.try_get_u32().map_err(short)? as usize;
    if count > MARKS_MAX {
        return Err(InvalidCheckpoint::Unsound(
            "the time index has too many marks",
        ));
    }
    let mut marks = Vec::with_capacity(count);
    let mut before = Mark {
        offset: 0,
        max_timestamp: i64::MIN,
    };
    for _ in 0..count {
        let offset = before.offset.wrapping_add(get_varint(bytes)?);
        let delta = get_varint(bytes)?.cast_signed();
        before = Mark {
            offset,
            max_timestamp: before.max_timestamp.wrapping_add(delta),
        };
        marks.push(before);
    }
    TimeIndex::from_parts(marks, latest, stride_bytes)
        .ok_or(InvalidCheckpoint::Unsound("the time index is out of order"))
}

fn decode_segments(bytes: &mut Bytes, end: Offset) -> Result<Segments, InvalidCheckpoint> {
    let short = |_| InvalidCheckpoint::Short;
    let position = bytes.try_get_u64().map_err(short)?;
    let count = bytes.try_get_u32().map_err(short)? as usize;
    if count > SEGMENTS_MAX {
        return Err(InvalidCheckpoint::Unsound("there are too many segments"));
    }
    let mut list = Vec::with_capacity(count);
    let mut before = Segment {
        base_offset: 0,
        position: 0,
        max_timestamp: 0,
    };
    for _ in 0..count {
        let base_offset = before.base_offset.wrapping_add(get_varint(bytes)?);
        let position = before.position.wrapping_add(get_varint(bytes)?);
        let time = unzigzag(get_varint(bytes)?);
        before = Segment {
            base_offset,
            position,
            max_timestamp: before.max_timestamp.wrapping_add(time),
        };
        list.push(before);
    }
    Segments::from_parts(list, end, position)
        .ok_or(InvalidCheckpoint::Unsound("the segments are out of order"))
}

fn decode_leader_epochs(bytes: &mut Bytes) -> Result<LeaderEpochs, InvalidCheckpoint> {
    let count = bytes.try_get_u32().map_err(|_| InvalidCheckpoint::Short)? as usize;
    if count > EPOCHS_MAX {
        return Err(InvalidCheckpoint::Unsound(
            "there are too many leader epochs",
        ));
    }
    let mut starts = Vec::with_capacity(count);
    let mut before = EpochStart {
        epoch: 0,
        offset: 0,
    };
    for _ in 0..count {
        let epochs = get_varint(bytes)? as u32;
        before = EpochStart {
            epoch: before.epoch.wrapping_add(epochs.cast_signed()),
            offset: before.offset.wrapping_add(get_varint(bytes)?),
        };
        starts.push(before);
    }
    LeaderEpochs::from_parts(starts).ok_or(InvalidCheckpoint::Unsound(
        "the leader epochs are out of order",
    ))
}

/// Small numbers of either sign become small ones.
const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

pub(crate) fn put_varint(out: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

pub(crate) fn get_varint(bytes: &mut Bytes) -> Result<u64, InvalidCheckpoint> {
    let mut value = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = bytes.try_get_u8().map_err(|_| InvalidCheckpoint::Short)?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(InvalidCheckpoint::Unsound("a number is too long"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::aborted_index::Block;

    /// What follows the aborted transactions where there are no blocks.
    const NO_BLOCKS_BYTES: usize = 12;

    prop_compose! {
        fn written_batch()(
            first_sequence: i32, last_sequence: i32, base_offset: u64, last_offset: u64,
            log_append_time: i64,
        ) -> WrittenBatch {
            WrittenBatch { first_sequence, last_sequence, base_offset, last_offset, log_append_time }
        }
    }

    prop_compose! {
        fn producer()(
            epoch: i16, batches in prop::collection::vec_deque(written_batch(), 0..=BATCHES_KEPT),
            written_at_ms in 0i64..1_000, coordinator_epoch in -1i32..5, transaction: Option<Offset>,
        ) -> Producer {
            Producer {
                epoch, batches, written_at_ms, coordinator_epoch, transaction, verifiable_from: 0,
            }
        }
    }

    prop_compose! {
        fn time_index()(
            steps in prop::collection::vec((1u64..1 << 40, 0i64..1 << 40), 0..50),
            first: i32, latest: Option<(i64, u64)>, stride in 1u64 << 18..1 << 50,
        ) -> TimeIndex {
            let mut at = Mark { offset: 0, max_timestamp: i64::from(first) };
            let marks = steps.into_iter().map(|(offset, time)| {
                at = Mark { offset: at.offset + offset, max_timestamp: at.max_timestamp + time };
                at
            });
            let latest = latest.map(|(timestamp, batch)| Latest { timestamp, batch });
            TimeIndex::from_parts(marks.collect(), latest, stride).expect("ascending")
        }
    }

    prop_compose! {
        fn segments(end: Offset)(
            steps in prop::collection::vec((1u64..1 << 40, 0u64..1 << 40, any::<i64>()), 0..50),
            rest in 0u64..1 << 40,
        ) -> Segments {
            let (mut base_offset, mut position) = (0, 0);
            let mut list = Vec::new();
            for (offsets, bytes, max_timestamp) in steps {
                (base_offset, position) = (base_offset + offsets, position + bytes);
                if base_offset < end {
                    list.push(Segment { base_offset, position, max_timestamp });
                }
            }
            Segments::from_parts(list, end, position + rest).expect("ascending")
        }
    }

    prop_compose! {
        fn leader_epochs()(
            steps in prop::collection::vec((1i32..1 << 20, 1u64..1 << 40), 0..50),
        ) -> LeaderEpochs {
            let mut at = EpochStart { epoch: -1, offset: 0 };
            let starts = steps.into_iter().map(|(epoch, offset)| {
                at = EpochStart { epoch: at.epoch + epoch, offset: at.offset + offset };
                at
            });
            LeaderEpochs::from_parts(starts.collect()).expect("ascending")
        }
    }

    prop_compose! {
        fn aborted()(
            steps in prop::collection::vec((any::<i64>(), 1u64..1 << 20, 1u64..1 << 20), 0..20),
        ) -> Vec<(i64, Offset, Offset)> {
            let mut last = 1 << 20;
            let steps = steps.into_iter().map(|(id, step, records)| {
                last += step;
                (id, last - records, last)
            });
            steps.collect()
        }
    }

    prop_compose! {
        /// Of transactions whose markers are below those of [`aborted`].
        fn index()(
            steps in prop::collection::vec((any::<u64>(), any::<u32>(), 1u64..1 << 30, 1u64..1 << 10), 0..20),
            position: u64,
        ) -> AbortedIndex {
            let mut last_max = 0;
            let blocks = steps.into_iter().map(|(at, position, bytes, count)| {
                last_max += count;
                let first_min = last_max.saturating_sub(2 * count);
                Block { at, position: position.into(), bytes, count, first_min, last_max }
            });
            AbortedIndex::from_parts(blocks.collect(), position).expect("in order")
        }
    }

    prop_compose! {
        fn checkpoint()(end in any::<u64>())(
            end in Just(end),
            producers in prop::collection::hash_map(any::<i64>(), producer(), 0..20),
            time_index in time_index(), segments in segments(end), leader_epochs in leader_epochs(),
            aborted in aborted(), index in index(), first_dirty in any::<Offset>(),
        ) -> Checkpoint {
            let producers = Producers::from_parts(producers);
            let open = producers.open_transactions();
            let transactions = Transactions::from_parts(open, index, aborted);
            let transactions = transactions.expect("in order");
            Checkpoint {
                end, producers, transactions, time_index, segments, leader_epochs, first_dirty,
            }
        }
    }

    fn encoded(checkpoint: &Checkpoint, since_ms: i64) -> Bytes {
        let Checkpoint {
            end,
            producers,
            transactions,
            time_index,
            segments,
            leader_epochs,
            first_dirty,
        } = checkpoint;
        let kept = Kept {
            producers,
            transactions,
            time_index,
            segments,
            leader_epochs,
            first_dirty: *first_dirty,
        };
        encode(*end, since_ms, kept)
    }

    fn without_transactions(producers: Producers) -> Producers {
        let plain = |(id, producer): (i64, &Producer)| {
            let producer = Producer {
                coordinator_epoch: -1,
                transaction: None,
                ..producer.clone()
            };
            (id, producer)
        };
        let all = producers.since(i64::MIN);
        Producers::from_parts(all.into_iter().map(plain).collect())
    }

    fn without_blocks(mut checkpoint: Checkpoint) -> Checkpoint {
        *checkpoint.transactions.index_mut() = AbortedIndex::default();
        checkpoint
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(checkpoint in checkpoint()) {
            let bytes = encoded(&checkpoint, 0);
            for cut in 0..bytes.len().min(40) {
                prop_assert_eq!(decode(bytes.slice(..cut)), Err(InvalidCheckpoint::Short));
            }
            prop_assert_eq!(decode(bytes), Ok(checkpoint));
        }

        /// A broker that is new reads what one before it wrote.
        #[test]
        fn the_first_version_is_read_with_estimated_sizes(checkpoint in checkpoint()) {
            let (Checkpoint { end, producers, time_index, .. }, first_dirty) = (checkpoint, 0);
            let producers = without_transactions(producers);
            let mut bytes = BytesMut::new();
            bytes.put_u8(WITHOUT_SEGMENTS);
            bytes.put_u64(end);
            encode_producers(&mut bytes, &producers, 0);
            encode_time_index(&mut bytes, &time_index);
            let segments = Segments::estimated(&time_index, end);
            let leader_epochs = LeaderEpochs::default();
            let transactions = Transactions::default();
            let expected =
                Checkpoint {
                end, producers, transactions, time_index, segments, leader_epochs, first_dirty,
            };
            prop_assert_eq!(decode(bytes.freeze()), Ok(expected));
        }

        #[test]
        fn the_second_version_is_read_without_transactions(checkpoint in checkpoint()) {
            let producers = without_transactions(checkpoint.producers);
            let transactions = Transactions::default();
            let checkpoint = Checkpoint { producers, transactions, first_dirty: 0, ..checkpoint };
            let bytes = encoded(&checkpoint, 0);
            // Two counts of nothing, an offset and no blocks follow what the version has.
            let mut bytes = BytesMut::from(&bytes[..bytes.len() - 16 - NO_BLOCKS_BYTES]);
            bytes[0] = WITHOUT_TRANSACTIONS;
            prop_assert_eq!(decode(bytes.freeze()), Ok(checkpoint));
        }

        #[test]
        fn the_third_version_is_read_as_not_compacted(checkpoint in checkpoint()) {
            let checkpoint = Checkpoint { first_dirty: 0, ..without_blocks(checkpoint) };
            let bytes = encoded(&checkpoint, 0);
            let mut bytes = BytesMut::from(&bytes[..bytes.len() - 8 - NO_BLOCKS_BYTES]);
            bytes[0] = WITHOUT_FIRST_DIRTY;
            prop_assert_eq!(decode(bytes.freeze()), Ok(checkpoint));
        }

        #[test]
        fn the_fourth_version_is_read_with_all_aborted_transactions_in_memory(checkpoint in checkpoint()) {
            let checkpoint = without_blocks(checkpoint);
            let bytes = encoded(&checkpoint, 0);
            let mut bytes = BytesMut::from(&bytes[..bytes.len() - NO_BLOCKS_BYTES]);
            bytes[0] = WITHOUT_BLOCKS;
            prop_assert_eq!(decode(bytes.freeze()), Ok(checkpoint));
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(bytes.clone().into());
            for version in WITHOUT_SEGMENTS..=VERSION {
                if let Some(first) = bytes.first_mut() {
                    *first = version;
                }
                let _ = decode(bytes.clone().into());
            }
        }
    }

    #[test]
    fn strangers_are_refused_and_the_silent_left_out() {
        let silent = Producer {
            epoch: 0,
            batches: VecDeque::new(),
            written_at_ms: 4,
            coordinator_epoch: 3,
            transaction: None,
            verifiable_from: 0,
        };
        let open = Producer {
            transaction: Some(7),
            ..silent.clone()
        };
        let producers = Producers::from_parts(HashMap::from([(1, silent), (2, open.clone())]));
        let index = AbortedIndex::default();
        let open_offsets = producers.open_transactions();
        let transactions = Transactions::from_parts(open_offsets, index, Vec::new());
        let checkpoint = Checkpoint {
            end: 9,
            producers,
            transactions: transactions.expect("in order"),
            time_index: TimeIndex::default(),
            segments: Segments::default(),
            leader_epochs: LeaderEpochs::default(),
            first_dirty: 7,
        };
        let bytes = encoded(&checkpoint, 5);
        assert_eq!(
            decode(bytes.clone()).expect("sound").producers,
            Producers::from_parts(HashMap::from([(2, open)])),
            "a producer with an open transaction is never left out"
        );

        let mut longer = BytesMut::from(&bytes[..]);
        longer.put_u8(0);
        assert_eq!(decode(longer.freeze()), Err(InvalidCheckpoint::Trailing(1)));
        let mut newer = BytesMut::from(&bytes[..]);
        newer[0] = 6;
        assert_eq!(decode(newer.freeze()), Err(InvalidCheckpoint::Version(6)));
    }
}
