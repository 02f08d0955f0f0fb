//! The persistent form of what the broker knows about a partition's data.
//!
//! ```text
//!  u8   version          1; numbered by hand, never reused
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
//! ```
//!
//! Numbers are big-endian, varints are LEB128. The stream below guards every byte with a checksum.

use std::collections::{HashMap, VecDeque};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use millrace_model::Offset;

use crate::{
    producers::{BATCHES_KEPT, Producer, Producers, WrittenBatch},
    time_index::{Latest, MARKS_MAX, Mark, TimeIndex},
};

const VERSION: u8 = 1;

/// What a partition knows about its data below `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) end: Offset,
    pub(crate) producers: Producers,
    pub(crate) time_index: TimeIndex,
}

/// Why bytes are not a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidCheckpoint {
    #[error("version {0} is unknown; it was written by a newer broker")]
    Version(u8),
    #[error("it ends early")]
    Short,
    #[error("{0} bytes follow its end")]
    Trailing(usize),
    #[error("{0}")]
    Unsound(&'static str),
}

/// Writes a checkpoint of `producers` and `time_index` as of `end`. Producers that have been silent
/// since before `since_ms` are left out.
pub(crate) fn encode(
    end: Offset,
    producers: &Producers,
    since_ms: i64,
    time_index: &TimeIndex,
) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(VERSION);
    out.put_u64(end);
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
    encode_time_index(&mut out, time_index);
    out.freeze()
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
    match bytes.try_get_u8().map_err(short)? {
        VERSION => {}
        version => return Err(InvalidCheckpoint::Version(version)),
    }
    let end = bytes.try_get_u64().map_err(short)?;
    let count = bytes.try_get_u32().map_err(short)?;
    let mut by_id = HashMap::new();
    for _ in 0..count {
        let id = bytes.try_get_i64().map_err(short)?;
        by_id.insert(id, decode_producer(&mut bytes)?);
    }
    let time_index = decode_time_index(&mut bytes)?;
    if bytes.has_remaining() {
        return Err(InvalidCheckpoint::Trailing(bytes.remaining()));
    }
    Ok(Checkpoint {
        end,
        producers: Producers::from_parts(by_id),
        time_index,
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
    })
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

fn put_varint(out: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

fn get_varint(bytes: &mut Bytes) -> Result<u64, InvalidCheckpoint> {
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
            written_at_ms in 0i64..1_000,
        ) -> Producer {
            Producer { epoch, batches, written_at_ms }
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

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(
            end: u64, producers in prop::collection::hash_map(any::<i64>(), producer(), 0..20),
            time_index in time_index(),
        ) {
            let producers = Producers::from_parts(producers);
            let bytes = encode(end, &producers, 0, &time_index);
            for cut in 0..bytes.len().min(40) {
                prop_assert_eq!(decode(bytes.slice(..cut)), Err(InvalidCheckpoint::Short));
            }
            prop_assert_eq!(decode(bytes), Ok(Checkpoint { end, producers, time_index }));
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(bytes.clone().into());
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            let _ = decode(bytes.into());
        }
    }

    #[test]
    fn strangers_are_refused_and_the_silent_left_out() {
        let index = TimeIndex::default();
        let silent = Producer {
            epoch: 0,
            batches: VecDeque::new(),
            written_at_ms: 4,
        };
        let producers = Producers::from_parts(HashMap::from([(1, silent)]));
        let bytes = encode(9, &producers, 5, &index);
        assert_eq!(
            decode(bytes.clone()).expect("sound").producers,
            Producers::default()
        );

        let mut longer = BytesMut::from(&bytes[..]);
        longer.put_u8(0);
        assert_eq!(decode(longer.freeze()), Err(InvalidCheckpoint::Trailing(1)));
        let mut newer = BytesMut::from(&bytes[..]);
        newer[0] = 2;
        assert_eq!(decode(newer.freeze()), Err(InvalidCheckpoint::Version(2)));
    }
}
