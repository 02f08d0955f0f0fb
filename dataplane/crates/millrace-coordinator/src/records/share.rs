//! The records of a share group (KIP-932): what each key and value holds. All values have version 0 and Kafka's compact form; a
//! tagged field that is not known is skipped.
//!
//! | kind | about | value |
//! |---|---|---|
//! | 10 | a member | rack, client id, host, topic names |
//! | 11 | the group | epoch (32 bits), hash of the topics (64) |
//! | 12 | the target assignment | epoch (32) |
//! | 13 | a member's target | partitions |
//! | 14 | a member's current assignment | epoch (32), previous epoch (32), state (8), partitions |
//! | 15 | the state of share partitions | partitions that are being initialized, partitions that are, topics whose state is being deleted; each with the topic's name |
//!
//! Kind 9, the metadata of topics, is what early brokers wrote; it is skipped.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, Bytes, BytesMut};
use millrace_model::TopicId;
use uuid::Uuid;

use super::{
    MalformedRecord,
    consumer::{put_partitions, put_texts, read_partitions, read_texts},
    cursor::{Cursor, Form, put_compact_text, put_count, put_text, put_varint},
};
use crate::messages::TopicPartitions;

const VERSION: i16 = 0;
/// The state of every member, by Kafka's number: it has what it is to have as of its epoch.
const STABLE: u8 = 0;

/// What a record of a share group is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SharePart {
    /// A member.
    Member(String),
    /// The group.
    Group,
    /// The target assignment as a whole.
    Target,
    /// What a member is to have.
    TargetMember(String),
    /// What a member has.
    Current(String),
    /// Which share partitions have state.
    States,
}

const MEMBER: i16 = 10;
const GROUP: i16 = 11;
const TARGET: i16 = 12;
const TARGET_MEMBER: i16 = 13;
const CURRENT: i16 = 14;
const STATES: i16 = 15;

impl SharePart {
    /// The member that it is about.
    pub(crate) const fn member(&self) -> Option<&String> {
        match self {
            Self::Member(id) | Self::TargetMember(id) | Self::Current(id) => Some(id),
            Self::Group | Self::Target | Self::States => None,
        }
    }

    pub(super) fn encode(&self, group: &str, out: &mut BytesMut) {
        out.put_i16(match self {
            Self::Member(_) => MEMBER,
            Self::Group => GROUP,
            Self::Target => TARGET,
            Self::TargetMember(_) => TARGET_MEMBER,
            Self::Current(_) => CURRENT,
            Self::States => STATES,
        });
        put_text(out, Some(group));
        if let Some(member) = self.member() {
            put_text(out, Some(member));
        }
    }

    /// The group and the part; none where the kind is not one of a share group.
    pub(super) fn decode(
        kind: i16,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<(String, Self)>, MalformedRecord> {
        let named: fn(String) -> Self = match kind {
            GROUP => |_| Self::Group,
            TARGET => |_| Self::Target,
            STATES => |_| Self::States,
            MEMBER => Self::Member,
            TARGET_MEMBER => Self::TargetMember,
            CURRENT => Self::Current,
            _ => return Ok(None),
        };
        let group = cursor.text(Form::Fixed)?;
        let name = match kind {
            GROUP | TARGET | STATES => String::new(),
            _ => cursor.text(Form::Fixed)?,
        };
        Ok(Some((group, named(name))))
    }
}

/// What a record of a share group says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShareValue {
    /// See [`StoredShareMember`].
    Member(StoredShareMember),
    /// The group's epoch, and what its topics looked like then.
    Group {
        /// The group's epoch.
        epoch: i32,
        /// A hash of the topics that the members subscribe to; 0 for none.
        metadata_hash: i64,
    },
    /// The group epoch that the target assignment was made for.
    Target {
        /// The epoch.
        epoch: i32,
    },
    /// What a member is to have.
    TargetMember(TopicPartitions),
    /// What a member has.
    Current(StoredShareCurrent),
    /// See [`StoredStates`].
    States(StoredStates),
}

/// A member of a share group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredShareMember {
    pub(crate) rack_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) names: Vec<String>,
}

/// What a member has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredShareCurrent {
    pub(crate) epoch: i32,
    /// A member that has not seen the answer with its epoch still sends this one.
    pub(crate) previous_epoch: i32,
    pub(crate) assigned: TopicPartitions,
}

/// A topic's name, and partitions of it.
pub(crate) type StoredPartitions = BTreeMap<TopicId, (String, BTreeSet<u32>)>;

/// Which share partitions have state at the share coordinator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredStates {
    /// Those whose state was asked for, and may be there.
    pub(crate) initializing: StoredPartitions,
    /// Those whose state is there.
    pub(crate) initialized: StoredPartitions,
    /// Topics whose state is being deleted, with their names.
    pub(crate) deleting: BTreeMap<TopicId, String>,
}

impl ShareValue {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        out.put_i16(VERSION);
        match self {
            Self::Member(member) => member.encode(&mut out),
            Self::Group {
                epoch,
                metadata_hash,
            } => {
                out.put_i32(*epoch);
                out.put_i64(*metadata_hash);
            }
            Self::Target { epoch } => out.put_i32(*epoch),
            Self::TargetMember(partitions) => put_partitions(&mut out, partitions),
            Self::Current(current) => {
                out.put_i32(current.epoch);
                out.put_i32(current.previous_epoch);
                out.put_u8(STABLE);
                put_partitions(&mut out, &current.assigned);
            }
            Self::States(states) => states.encode(&mut out),
        }
        put_varint(&mut out, 0);
        out.freeze()
    }

    pub(super) fn decode(part: &SharePart, bytes: &[u8]) -> Result<Self, MalformedRecord> {
        let mut cursor = Cursor::new(bytes);
        let version = cursor.i16()?;
        if version != VERSION {
            return Err(MalformedRecord::Version(version));
        }
        let cursor = &mut cursor;
        let value = match part {
            SharePart::Member(_) => Self::Member(StoredShareMember::decode(cursor)?),
            SharePart::Group => Self::Group {
                epoch: cursor.i32()?,
                metadata_hash: cursor.i64()?,
            },
            SharePart::Target => Self::Target {
                epoch: cursor.i32()?,
            },
            SharePart::TargetMember(_) => Self::TargetMember(read_partitions(cursor)?),
            SharePart::Current(_) => {
                let (epoch, previous_epoch) = (cursor.i32()?, cursor.i32()?);
                cursor.u8()?;
                Self::Current(StoredShareCurrent {
                    epoch,
                    previous_epoch,
                    assigned: read_partitions(cursor)?,
                })
            }
            SharePart::States => Self::States(StoredStates::decode(cursor)?),
        };
        cursor.tagged_fields(Form::Compact)?;
        Ok(value)
    }
}

impl StoredShareMember {
    fn encode(&self, out: &mut BytesMut) {
        put_compact_text(out, self.rack_id.as_deref());
        put_compact_text(out, Some(&self.client_id));
        put_compact_text(out, Some(&self.client_host));
        put_texts(out, &self.names);
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, MalformedRecord> {
        Ok(Self {
            rack_id: cursor.text_or_null(Form::Compact)?,
            client_id: cursor.text(Form::Compact)?,
            client_host: cursor.text(Form::Compact)?,
            names: read_texts(cursor)?,
        })
    }
}

impl StoredStates {
    fn encode(&self, out: &mut BytesMut) {
        put_named(out, &self.initializing);
        put_named(out, &self.initialized);
        put_count(out, self.deleting.len());
        for (topic, name) in &self.deleting {
            out.put_slice(topic.0.as_bytes());
            put_compact_text(out, Some(name));
            put_varint(out, 0);
        }
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, MalformedRecord> {
        let (initializing, initialized) = (read_named(cursor)?, read_named(cursor)?);
        let mut deleting = BTreeMap::new();
        for _ in 0..cursor.count(Form::Compact)? {
            let topic = TopicId(Uuid::from_bytes(cursor.array()?));
            deleting.insert(topic, cursor.text(Form::Compact)?);
            cursor.tagged_fields(Form::Compact)?;
        }
        Ok(Self {
            initializing,
            initialized,
            deleting,
        })
    }
}

fn put_named(out: &mut BytesMut, partitions: &StoredPartitions) {
    put_count(out, partitions.len());
    for (topic, (name, numbers)) in partitions {
        out.put_slice(topic.0.as_bytes());
        put_compact_text(out, Some(name));
        put_count(out, numbers.len());
        for number in numbers {
            out.put_u32(*number);
        }
        put_varint(out, 0);
    }
}

fn read_named(cursor: &mut Cursor<'_>) -> Result<StoredPartitions, MalformedRecord> {
    let mut partitions = StoredPartitions::new();
    for _ in 0..cursor.count(Form::Compact)? {
        let topic = TopicId(Uuid::from_bytes(cursor.array()?));
        let name = cursor.text(Form::Compact)?;
        let count = cursor.count(Form::Compact)?;
        let number = |_| u32::try_from(cursor.i32()?).map_err(|_| MalformedRecord::Illegal);
        let numbers: BTreeSet<u32> = (0..count).map(number).collect::<Result<_, _>>()?;
        cursor.tagged_fields(Form::Compact)?;
        partitions.insert(topic, (name, numbers));
    }
    Ok(partitions)
}
