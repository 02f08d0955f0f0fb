//! The records of `__transaction_state`, in Kafka's own format.
//!
//! ```text
//! key:      i16 version (0) | text transactional id
//! value 0:  i16 version | i64 producer id | i16 epoch | i32 timeout ms | i8 state |
//!           list of (text topic, list of i32 partitions), null in state Empty |
//!           i64 last update ms | i64 start ms
//! value 1:  the same with compact lengths and the tagged fields
//!           0 i64 previous producer id, 1 i64 next producer id, 2 i16 client's transaction version
//! ```
//!
//! Version 1 is written, both are read.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, Bytes, BytesMut};
use millrace_model::{TopicName, TopicPartition};

use super::messages::TransactionState;
use crate::records::{
    Cursor, Form, MalformedRecord, put_compact_text, put_count, put_text, put_varint,
};

const KEY_VERSION: i16 = 0;
const VERSION: i16 = 1;
const FIRST_FLEXIBLE: i16 = 1;
/// No producer id, epoch or time.
pub(super) const NONE: i64 = -1;

/// What the log keeps of a transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(super) producer_id: i64,
    /// The producer id of the transaction before, where that was another one.
    pub(super) previous_producer_id: i64,
    /// The producer id from the completion of this transaction on, where that will be another one.
    pub(super) next_producer_id: i64,
    pub(super) epoch: i16,
    pub(super) timeout_ms: i32,
    pub(super) state: TransactionState,
    pub(super) partitions: BTreeSet<TopicPartition>,
    pub(super) update_ms: i64,
    pub(super) start_ms: i64,
    /// The transaction protocol that the client spoke last.
    pub(super) client_version: i16,
}

pub(super) fn encode_key(id: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(4 + id.len());
    out.put_i16(KEY_VERSION);
    put_text(&mut out, Some(id));
    out.freeze()
}

/// The transactional id; `None` where the record is about something else.
pub(super) fn decode_key(bytes: &[u8]) -> Result<Option<String>, MalformedRecord> {
    let mut cursor = Cursor::new(bytes);
    match cursor.i16()? {
        KEY_VERSION => cursor.text(Form::Fixed).map(Some),
        _ => Ok(None),
    }
}

impl Metadata {
    /// Whether the producer was told to go on so, and comes before the transaction that it has ended is complete.
    pub(super) fn is_next(&self, producer: (i64, i16)) -> bool {
        self.state.is_ending()
            && self.next_producer_id != NONE
            && producer == (self.next_producer_id, 0)
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64 + 16 * self.partitions.len());
        out.put_i16(VERSION);
        out.put_i64(self.producer_id);
        out.put_i16(self.epoch);
        out.put_i32(self.timeout_ms);
        out.put_i8(self.state as i8);
        self.encode_partitions(&mut out);
        out.put_i64(self.update_ms);
        out.put_i64(self.start_ms);
        self.encode_tagged(&mut out);
        out.freeze()
    }

    fn encode_partitions(&self, out: &mut BytesMut) {
        if self.state == TransactionState::Empty {
            return put_varint(out, 0);
        }
        let mut topics: BTreeMap<&TopicName, Vec<u32>> = BTreeMap::new();
        for partition in &self.partitions {
            let indexes = topics.entry(&partition.topic).or_default();
            indexes.push(partition.partition);
        }
        put_count(out, topics.len());
        for (topic, indexes) in topics {
            put_compact_text(out, Some(topic.as_str()));
            put_count(out, indexes.len());
            indexes.iter().for_each(|index| out.put_u32(*index));
            put_varint(out, 0);
        }
    }

    fn encode_tagged(&self, out: &mut BytesMut) {
        let ids = [self.previous_producer_id, self.next_producer_id];
        let ids = (0_u8..).zip(ids).filter(|(_, id)| *id != NONE);
        let ids: Vec<(u8, i64)> = ids.collect();
        let is_versioned = self.client_version != 0;
        let fields = ids.len() + usize::from(is_versioned);
        put_varint(out, u32::try_from(fields).unwrap_or(0));
        for (tag, id) in ids {
            out.put_u8(tag);
            put_varint(out, i64::BITS / 8);
            out.put_i64(id);
        }
        if is_versioned {
            out.put_u8(2);
            put_varint(out, i16::BITS / 8);
            out.put_i16(self.client_version);
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, MalformedRecord> {
        let mut cursor = Cursor::new(bytes);
        let version = cursor.i16()?;
        if !(0..=VERSION).contains(&version) {
            return Err(MalformedRecord::Version(version));
        }
        let form = if version >= FIRST_FLEXIBLE {
            Form::Compact
        } else {
            Form::Fixed
        };
        let producer_id = cursor.i64()?;
        let epoch = cursor.i16()?;
        let timeout_ms = cursor.i32()?;
        let state = TransactionState::of_number(cursor.i8()?).ok_or(MalformedRecord::Illegal)?;
        let partitions = decode_partitions(&mut cursor, form)?;
        let mut metadata = Self {
            producer_id,
            previous_producer_id: NONE,
            next_producer_id: NONE,
            epoch,
            timeout_ms,
            state,
            partitions,
            update_ms: cursor.i64()?,
            start_ms: cursor.i64()?,
            client_version: 0,
        };
        cursor.each_tagged_field(form, |tag, mut value| {
            match tag {
                0 => metadata.previous_producer_id = value.i64()?,
                1 => metadata.next_producer_id = value.i64()?,
                2 => metadata.client_version = value.i16()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(metadata)
    }
}

fn decode_partitions(
    cursor: &mut Cursor<'_>,
    form: Form,
) -> Result<BTreeSet<TopicPartition>, MalformedRecord> {
    let mut partitions = BTreeSet::new();
    for _ in 0..cursor.count_or_null(form)?.unwrap_or(0) {
        let topic = TopicName::new(cursor.text(form)?).map_err(|_| MalformedRecord::Illegal)?;
        for _ in 0..cursor.count(form)? {
            let index = u32::try_from(cursor.i32()?).map_err(|_| MalformedRecord::Illegal)?;
            partitions.insert(TopicPartition {
                topic: topic.clone(),
                partition: index,
            });
        }
        cursor.tagged_fields(form)?;
    }
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn metadata() -> impl Strategy<Value = Metadata> {
        let partition = ("[a-z]{1,9}", 0_u32..300).prop_map(|(topic, partition)| TopicPartition {
            topic: TopicName::new(topic).expect("legal"),
            partition,
        });
        let ids = (0_i64..9, -1_i64..9, -1_i64..9, -1_i16..9);
        let times = (1_i32..9, -1_i64..9, -1_i64..9);
        let partitions = prop::collection::btree_set(partition, 0..200);
        (ids, times, 0_i8..6, partitions, 0_i16..3).prop_map(|(ids, times, state, all, version)| {
            let state = TransactionState::of_number(state).expect("a state");
            let is_empty = state == TransactionState::Empty;
            Metadata {
                producer_id: ids.0,
                previous_producer_id: ids.1,
                next_producer_id: ids.2,
                epoch: ids.3,
                timeout_ms: times.0,
                state,
                partitions: if is_empty { BTreeSet::new() } else { all },
                update_ms: times.1,
                start_ms: times.2,
                client_version: version,
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(metadata in metadata(), id in ".{0,20}") {
            prop_assert_eq!(Metadata::decode(&metadata.encode()), Ok(metadata));
            prop_assert_eq!(decode_key(&encode_key(&id)), Ok(Some(id)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            drop(Metadata::decode(&bytes));
            drop(decode_key(&bytes));
        }
    }

    /// A value of version 0, as older Kafka writes it.
    #[test]
    fn the_older_version_is_read() {
        let mut old = BytesMut::new();
        old.put_i16(0);
        old.put_i64(7);
        old.put_i16(3);
        old.put_i32(60_000);
        old.put_i8(1);
        old.put_i32(1);
        put_text(&mut old, Some("t"));
        old.put_i32(1);
        old.put_i32(5);
        old.put_i64(11);
        old.put_i64(10);
        let read = Metadata::decode(&old).expect("legal");
        assert_eq!((read.producer_id, read.epoch, read.start_ms), (7, 3, 10));
        assert_eq!(read.partitions.len(), 1);
        assert_eq!(read.previous_producer_id, NONE);
    }
}
