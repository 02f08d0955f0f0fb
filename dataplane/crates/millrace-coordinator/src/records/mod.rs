//! The records of `__consumer_offsets`, in Kafka's own formats, so that its tools read our log and
//! a log copied from Kafka loads here.
//!
//! A key starts with a 16-bit number that tells its kind: 0 and 1 an offset, 2 a classic group, 3, 5 to 8 and 16
//! the records of a consumer group (KIP-848), 10 to 15 those of a share group (KIP-932). Kinds that are not known are skipped, as Kafka does. A value starts
//! with its own version. A record without a value deletes what its key names.

mod consumer;
mod cursor;
mod group_metadata;
mod key;
mod offset_commit;
mod share;

use bytes::Bytes;

pub(crate) use consumer::{
    ConsumerPart, ConsumerValue, MemberState, StoredClassic, StoredConsumer, StoredCurrent,
    StoredPattern,
};
pub(crate) use cursor::{Cursor, Form, put_compact_text, put_count, put_text, put_varint};
pub(crate) use group_metadata::{GroupMetadata, StoredMember};
pub(crate) use key::Key;
pub(crate) use share::{
    SharePart, ShareValue, StoredPartitions, StoredShareCurrent, StoredShareMember, StoredStates,
};

use crate::messages::CommittedOffset;

/// One record: what it is about, and its new value; without one the thing is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroupRecord {
    /// A committed offset.
    Offset(Key, Option<CommittedOffset>),
    /// A group's generation.
    Group(Key, Option<GroupMetadata>),
    /// A part of a consumer group.
    Consumer(Key, Option<ConsumerValue>),
    /// A part of a share group.
    Share(Key, Option<ShareValue>),
}

/// The bytes are not a record in Kafka's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MalformedRecord {
    /// The bytes end inside a field.
    #[error("the record ends inside a field")]
    Truncated,
    /// A length or count is negative or longer than the record.
    #[error("a length is out of bounds")]
    Length,
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// The value's version is not known.
    #[error("value version {0} is not known")]
    Version(i16),
    /// A topic name, partition or offset that cannot be.
    #[error("a topic, partition or offset is not legal")]
    Illegal,
}

impl GroupRecord {
    /// The key's bytes, and the value's unless the record deletes.
    #[must_use]
    pub(crate) fn encode(&self) -> (Bytes, Option<Bytes>) {
        match self {
            Self::Offset(key, value) => (key.encode(), value.as_ref().map(offset_commit::encode)),
            Self::Group(key, value) => (key.encode(), value.as_ref().map(GroupMetadata::encode)),
            Self::Consumer(key, value) => (key.encode(), value.as_ref().map(ConsumerValue::encode)),
            Self::Share(key, value) => (key.encode(), value.as_ref().map(ShareValue::encode)),
        }
    }

    /// Reads a record; none where its kind is not known.
    ///
    /// # Errors
    /// Says what is wrong with the bytes.
    pub(crate) fn decode(
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<Option<Self>, MalformedRecord> {
        let Some(key) = Key::decode(key)? else {
            return Ok(None);
        };
        Ok(Some(match &key {
            Key::Offset { .. } => Self::Offset(key, value.map(offset_commit::decode).transpose()?),
            Key::Group { .. } => Self::Group(key, value.map(GroupMetadata::decode).transpose()?),
            Key::Consumer { part, .. } => {
                let value = value.map(|value| ConsumerValue::decode(part, value));
                let value = value.transpose()?;
                Self::Consumer(key, value)
            }
            Key::Share { part, .. } => {
                let value = value.map(|value| ShareValue::decode(part, value));
                let value = value.transpose()?;
                Self::Share(key, value)
            }
        }))
    }
}

#[cfg(test)]
mod tests;
