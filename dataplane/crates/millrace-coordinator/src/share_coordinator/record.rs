//! The records of `__share_group_state`, in Kafka's own format.
//!
//! ```text
//! key:        i16 kind | text group | 16 bytes topic id | i32 partition
//! kind 0, a snapshot:
//!             i16 version (0) | i32 snapshot epoch | i32 state epoch | i32 leader epoch | i64 start offset |
//!             i64 created ms | i64 written ms | batches | tagged fields
//! kind 1, an update of the last snapshot:
//!             i16 version (0) | i32 snapshot epoch | i32 leader epoch | i64 start offset | batches | tagged fields
//! batches:    compact list of (i64 first offset, i64 last offset, i8 state, i16 deliveries, tagged fields)
//! ```
//!
//! A start offset of −1 stands for none in a snapshot, and for the same as before in an update. A snapshot without a value
//! deletes the share partition.

use bytes::{BufMut, Bytes, BytesMut};
use millrace_model::{Offset, TopicId};
use uuid::Uuid;

use crate::{
    records::{Cursor, Form, MalformedRecord, put_count, put_text, put_varint},
    share_state::{SharePartition, ShareStateBatch},
};

const SNAPSHOT: i16 = 0;
const UPDATE: i16 = 1;
const VERSION: i16 = 0;
const NO_OFFSET: i64 = -1;

/// What the log keeps of a share partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Grows with every snapshot.
    pub(super) snapshot_epoch: i32,
    pub(super) state_epoch: i32,
    pub(super) leader_epoch: i32,
    pub(super) start_offset: Option<Offset>,
    pub(super) created_ms: i64,
    pub(super) written_ms: i64,
    pub(super) batches: Vec<ShareStateBatch>,
}

/// A change of the last snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Update {
    pub(super) snapshot_epoch: i32,
    /// −1 where it stays as it is.
    pub(super) leader_epoch: i32,
    /// `None` where it stays as it is.
    pub(super) start_offset: Option<Offset>,
    pub(super) batches: Vec<ShareStateBatch>,
}

/// What a key is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Snapshot,
    Update,
}

pub(super) fn encode_key(kind: Kind, partition: &SharePartition) -> Bytes {
    let mut out = BytesMut::with_capacity(24 + partition.group_id.len());
    out.put_i16(match kind {
        Kind::Snapshot => SNAPSHOT,
        Kind::Update => UPDATE,
    });
    put_text(&mut out, Some(&partition.group_id));
    out.put_slice(partition.topic_id.0.as_bytes());
    out.put_i32(partition.partition);
    out.freeze()
}

/// `None` where the record is about something else.
pub(super) fn decode_key(bytes: &[u8]) -> Result<Option<(Kind, SharePartition)>, MalformedRecord> {
    let mut cursor = Cursor::new(bytes);
    let kind = match cursor.i16()? {
        SNAPSHOT => Kind::Snapshot,
        UPDATE => Kind::Update,
        _ => return Ok(None),
    };
    let partition = SharePartition {
        group_id: cursor.text(Form::Fixed)?,
        topic_id: TopicId(Uuid::from_bytes(cursor.array()?)),
        partition: cursor.i32()?,
    };
    Ok(Some((kind, partition)))
}

impl Snapshot {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(48 + BATCH_BYTES * self.batches.len());
        out.put_i16(VERSION);
        out.put_i32(self.snapshot_epoch);
        out.put_i32(self.state_epoch);
        out.put_i32(self.leader_epoch);
        put_offset(&mut out, self.start_offset);
        out.put_i64(self.created_ms);
        out.put_i64(self.written_ms);
        put_batches(&mut out, &self.batches);
        put_varint(&mut out, 0);
        out.freeze()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, MalformedRecord> {
        let mut cursor = versioned(bytes)?;
        let snapshot = Self {
            snapshot_epoch: cursor.i32()?,
            state_epoch: cursor.i32()?,
            leader_epoch: cursor.i32()?,
            start_offset: start_offset(&mut cursor)?,
            created_ms: cursor.i64()?,
            written_ms: cursor.i64()?,
            batches: batches(&mut cursor)?,
        };
        cursor.tagged_fields(Form::Compact)?;
        Ok(snapshot)
    }
}

impl Update {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(32 + BATCH_BYTES * self.batches.len());
        out.put_i16(VERSION);
        out.put_i32(self.snapshot_epoch);
        out.put_i32(self.leader_epoch);
        put_offset(&mut out, self.start_offset);
        put_batches(&mut out, &self.batches);
        put_varint(&mut out, 0);
        out.freeze()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, MalformedRecord> {
        let mut cursor = versioned(bytes)?;
        let update = Self {
            snapshot_epoch: cursor.i32()?,
            leader_epoch: cursor.i32()?,
            start_offset: start_offset(&mut cursor)?,
            batches: batches(&mut cursor)?,
        };
        cursor.tagged_fields(Form::Compact)?;
        Ok(update)
    }
}

/// Bytes of an encoded batch.
const BATCH_BYTES: usize = 20;

fn versioned(bytes: &[u8]) -> Result<Cursor<'_>, MalformedRecord> {
    let mut cursor = Cursor::new(bytes);
    match cursor.i16()? {
        VERSION => Ok(cursor),
        other => Err(MalformedRecord::Version(other)),
    }
}

fn put_offset(out: &mut BytesMut, offset: Option<Offset>) {
    let offset = offset.and_then(|offset| i64::try_from(offset).ok());
    out.put_i64(offset.unwrap_or(NO_OFFSET));
}

fn put_batches(out: &mut BytesMut, batches: &[ShareStateBatch]) {
    put_count(out, batches.len());
    for batch in batches {
        put_offset(out, Some(batch.first_offset));
        put_offset(out, Some(batch.last_offset));
        out.put_i8(batch.delivery_state);
        out.put_i16(batch.delivery_count);
        put_varint(out, 0);
    }
}

fn start_offset(cursor: &mut Cursor<'_>) -> Result<Option<Offset>, MalformedRecord> {
    match cursor.i64()? {
        NO_OFFSET => Ok(None),
        offset => Ok(Some(
            Offset::try_from(offset).map_err(|_| MalformedRecord::Illegal)?,
        )),
    }
}

fn batches(cursor: &mut Cursor<'_>) -> Result<Vec<ShareStateBatch>, MalformedRecord> {
    let count = cursor.count(Form::Compact)?;
    let mut batches = Vec::with_capacity(count.min(cursor.remaining() / BATCH_BYTES));
    for _ in 0..count {
        let offset = |cursor: &mut Cursor<'_>| {
            Offset::try_from(cursor.i64()?).map_err(|_| MalformedRecord::Illegal)
        };
        let batch = ShareStateBatch {
            first_offset: offset(cursor)?,
            last_offset: offset(cursor)?,
            delivery_state: cursor.i8()?,
            delivery_count: cursor.i16()?,
        };
        cursor.tagged_fields(Form::Compact)?;
        if batch.first_offset > batch.last_offset {
            return Err(MalformedRecord::Illegal);
        }
        batches.push(batch);
    }
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batches() -> impl Strategy<Value = Vec<ShareStateBatch>> {
        let batch = (0_u64..1 << 62, 0_u64..1 << 40, 0_i8..5, 0_i16..9);
        let batch =
            batch.prop_map(
                |(first, more, delivery_state, delivery_count)| ShareStateBatch {
                    first_offset: first,
                    last_offset: first + more,
                    delivery_state,
                    delivery_count,
                },
            );
        prop::collection::vec(batch, 0..200)
    }

    fn start() -> impl Strategy<Value = Option<Offset>> {
        prop::option::of(0_u64..1 << 62)
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
        let byte = |pair: &[u32]| u8::try_from(16 * pair[0] + pair[1]).expect("a byte");
        digits.chunks(2).map(byte).collect()
    }

    /// What Kafka 4.1.1 writes.
    #[test]
    fn the_bytes_are_kafkas() {
        let batch = |first_offset, last_offset, delivery_state, delivery_count| ShareStateBatch {
            first_offset,
            last_offset,
            delivery_state,
            delivery_count,
        };
        let snapshot = Snapshot {
            snapshot_epoch: 3,
            state_epoch: 2,
            leader_epoch: 5,
            start_offset: Some(10),
            created_ms: 100,
            written_ms: 200,
            batches: vec![batch(10, 19, 2, 1)],
        };
        let expected = "0000 00000003 00000002 00000005 000000000000000a 0000000000000064 \
                        00000000000000c8 02 000000000000000a 0000000000000013 02 0001 00 00";
        assert_eq!(snapshot.encode(), bytes(expected));
        let update = Update {
            snapshot_epoch: 3,
            leader_epoch: 5,
            start_offset: None,
            batches: vec![batch(20, 21, 4, 2)],
        };
        let expected = "0000 00000003 00000005 ffffffffffffffff \
                        02 0000000000000014 0000000000000015 04 0002 00 00";
        assert_eq!(update.encode(), bytes(expected));
        let partition = SharePartition {
            group_id: "g".into(),
            topic_id: TopicId(Uuid::from_u64_pair(1, 2)),
            partition: 7,
        };
        let expected = "0001 0001 67 0000000000000001 0000000000000002 00000007";
        assert_eq!(encode_key(Kind::Update, &partition), bytes(expected));
    }

    proptest! {
        #[test]
        fn snapshots_are_read_as_written(
            epochs in (0_i32..9, -1_i32..9, -1_i32..9),
            start_offset in start(),
            times in (0_i64..9, 0_i64..9),
            batches in batches(),
        ) {
            let snapshot = Snapshot {
                snapshot_epoch: epochs.0,
                state_epoch: epochs.1,
                leader_epoch: epochs.2,
                start_offset,
                created_ms: times.0,
                written_ms: times.1,
                batches,
            };
            prop_assert_eq!(Snapshot::decode(&snapshot.encode()), Ok(snapshot));
        }

        #[test]
        fn updates_are_read_as_written(
            epochs in (0_i32..9, -1_i32..9),
            start_offset in start(),
            batches in batches(),
        ) {
            let update = Update {
                snapshot_epoch: epochs.0,
                leader_epoch: epochs.1,
                start_offset,
                batches,
            };
            prop_assert_eq!(Update::decode(&update.encode()), Ok(update));
        }

        #[test]
        fn keys_are_read_as_written(group_id in ".{0,20}", id in any::<u128>(), partition in 0_i32..9) {
            let topic_id = TopicId(Uuid::from_u128(id));
            let partition = SharePartition { group_id, topic_id, partition };
            for kind in [Kind::Snapshot, Kind::Update] {
                let read = decode_key(&encode_key(kind, &partition));
                prop_assert_eq!(read, Ok(Some((kind, partition.clone()))));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            drop(Snapshot::decode(&bytes));
            drop(Update::decode(&bytes));
            drop(decode_key(&bytes));
        }
    }
}
