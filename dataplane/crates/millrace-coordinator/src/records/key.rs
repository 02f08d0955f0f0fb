//! Record keys.

use bytes::{BufMut, Bytes, BytesMut};
use millrace_model::{TopicName, TopicPartition};

use super::{
    MalformedRecord,
    consumer::ConsumerPart,
    cursor::{Cursor, Form, put_text},
    share::SharePart,
};

/// Kind of a key that names an offset. 0 has the same fields.
const OFFSET: i16 = 1;
/// Kind of a key that names a group.
const GROUP: i16 = 2;

/// What a record is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Key {
    /// A group's offset in one partition.
    Offset {
        /// The group's id.
        group: String,
        /// The partition.
        partition: TopicPartition,
    },
    /// A group's generation.
    Group {
        /// The group's id.
        group: String,
    },
    /// A part of a consumer group.
    Consumer {
        /// The group's id.
        group: String,
        /// Which part.
        part: ConsumerPart,
    },
    /// A part of a share group.
    Share {
        /// The group's id.
        group: String,
        /// Which part.
        part: SharePart,
    },
}

impl Key {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        match self {
            Self::Offset { group, partition } => {
                out.put_i16(OFFSET);
                put_text(&mut out, Some(group));
                put_text(&mut out, Some(partition.topic.as_str()));
                out.put_u32(partition.partition);
            }
            Self::Group { group } => {
                out.put_i16(GROUP);
                put_text(&mut out, Some(group));
            }
            Self::Consumer { group, part } => part.encode(group, &mut out),
            Self::Share { group, part } => part.encode(group, &mut out),
        }
        out.freeze()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Option<Self>, MalformedRecord> {
        let mut cursor = Cursor::new(bytes);
        match cursor.i16()? {
            0 | OFFSET => {
                let group = cursor.text(Form::Fixed)?;
                let topic = TopicName::new(cursor.text(Form::Fixed)?);
                let topic = topic.map_err(|_| MalformedRecord::Illegal)?;
                let index = u32::try_from(cursor.i32()?).map_err(|_| MalformedRecord::Illegal)?;
                let partition = TopicPartition {
                    topic,
                    partition: index,
                };
                Ok(Some(Self::Offset { group, partition }))
            }
            GROUP => Ok(Some(Self::Group {
                group: cursor.text(Form::Fixed)?,
            })),
            kind => {
                if let Some((group, part)) = ConsumerPart::decode(kind, &mut cursor)? {
                    return Ok(Some(Self::Consumer { group, part }));
                }
                let share = SharePart::decode(kind, &mut cursor)?;
                Ok(share.map(|(group, part)| Self::Share { group, part }))
            }
        }
    }
}
