//! The records of a consumer group (KIP-848): what each key and value holds. All values have version
//! 0 and Kafka's compact form; a tagged field that is not known is skipped.
//!
//! | kind | about | value |
//! |---|---|---|
//! | 3 | the group | epoch (32 bits); tag 0: hash of the topics (64) |
//! | 5 | a member | instance id, rack, client id, host, topic names, pattern, rebalance timeout (32), assignor; tag 0: a classic member's session timeout (32) and protocols |
//! | 6 | the target assignment | epoch (32) |
//! | 7 | a member's target | partitions |
//! | 8 | a member's current assignment | epoch (32), previous epoch (32), state (8), partitions, partitions to be revoked |
//! | 16 | a pattern | topics, version (64), time (64) |
//!
//! Kind 4, the metadata of topics, is what brokers before the hash wrote; it is skipped.

use std::collections::BTreeSet;

use bytes::{BufMut, Bytes, BytesMut};
use millrace_model::TopicId;
use uuid::Uuid;

use super::{
    MalformedRecord,
    cursor::{Cursor, Form, put_compact_bytes, put_compact_text, put_count, put_text, put_varint},
};
use crate::messages::{Protocol, TopicPartitions};

const VERSION: i16 = 0;
/// The tag of the hash in a group's value, and of the classic member's part in a member's value.
const FIRST_TAG: u32 = 0;
/// Says that a structure that may be missing is there.
const PRESENT: u8 = 1;

/// What a record of a consumer group is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ConsumerPart {
    /// The group.
    Group,
    /// A member.
    Member(String),
    /// The target assignment as a whole.
    Target,
    /// What a member is to have.
    TargetMember(String),
    /// What a member has.
    Current(String),
    /// A regular expression that members subscribe to.
    Pattern(String),
}

const GROUP: i16 = 3;
const MEMBER: i16 = 5;
const TARGET: i16 = 6;
const TARGET_MEMBER: i16 = 7;
const CURRENT: i16 = 8;
const PATTERN: i16 = 16;

impl ConsumerPart {
    pub(super) fn encode(&self, group: &str, out: &mut BytesMut) {
        let (kind, name) = match self {
            Self::Group => (GROUP, None),
            Self::Member(id) => (MEMBER, Some(id)),
            Self::Target => (TARGET, None),
            Self::TargetMember(id) => (TARGET_MEMBER, Some(id)),
            Self::Current(id) => (CURRENT, Some(id)),
            Self::Pattern(pattern) => (PATTERN, Some(pattern)),
        };
        out.put_i16(kind);
        put_text(out, Some(group));
        if let Some(name) = name {
            put_text(out, Some(name));
        }
    }

    /// The group and the part; none where the kind is not one of a consumer group.
    pub(super) fn decode(
        kind: i16,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<(String, Self)>, MalformedRecord> {
        let named: fn(String) -> Self = match kind {
            GROUP => |_| Self::Group,
            TARGET => |_| Self::Target,
            MEMBER => Self::Member,
            TARGET_MEMBER => Self::TargetMember,
            CURRENT => Self::Current,
            PATTERN => Self::Pattern,
            _ => return Ok(None),
        };
        let group = cursor.text(Form::Fixed)?;
        let name = match kind {
            GROUP | TARGET => String::new(),
            _ => cursor.text(Form::Fixed)?,
        };
        Ok(Some((group, named(name))))
    }
}

/// What a record of a consumer group says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConsumerValue {
    /// The group's epoch, and what its topics looked like then.
    Group {
        /// The group's epoch.
        epoch: i32,
        /// A hash of the topics that the members subscribe to; 0 for none.
        metadata_hash: i64,
    },
    /// See [`StoredConsumer`].
    Member(StoredConsumer),
    /// The group epoch that the target assignment was made for.
    Target {
        /// The epoch.
        epoch: i32,
    },
    /// What a member is to have.
    TargetMember(TopicPartitions),
    /// What a member has.
    Current(StoredCurrent),
    /// What a pattern matches.
    Pattern(StoredPattern),
}

/// A member of a consumer group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredConsumer {
    pub(crate) instance_id: Option<String>,
    pub(crate) rack_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) names: Vec<String>,
    pub(crate) pattern: Option<String>,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) assignor: Option<String>,
    /// Of a member that uses the classic protocol.
    pub(crate) classic: Option<StoredClassic>,
}

/// What is kept of a member that uses the classic protocol in a consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredClassic {
    pub(crate) session_timeout_ms: i32,
    pub(crate) protocols: Vec<Protocol>,
}

/// Where a member stands on its way to the target assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberState {
    /// It has what it is to have, as of its epoch.
    Stable,
    /// It has yet to give up partitions.
    UnrevokedPartitions,
    /// It waits for partitions that other members have yet to give up.
    UnreleasedPartitions,
    /// A newer broker wrote it.
    Unknown,
}

/// What a member has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredCurrent {
    pub(crate) epoch: i32,
    /// A member that has not seen the answer with its epoch still sends this one.
    pub(crate) previous_epoch: i32,
    pub(crate) state: MemberState,
    pub(crate) assigned: TopicPartitions,
    /// What it has yet to give up.
    pub(crate) revoking: TopicPartitions,
}

/// What a pattern matched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StoredPattern {
    pub(crate) topics: Vec<String>,
    /// The revision of the topics that it was matched with.
    pub(crate) version: i64,
    /// When, in milliseconds since 1970.
    pub(crate) timestamp_ms: i64,
}

impl ConsumerValue {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64);
        out.put_i16(VERSION);
        match self {
            Self::Group {
                epoch,
                metadata_hash,
            } => {
                out.put_i32(*epoch);
                // As Kafka: a field with its default value is not written.
                if *metadata_hash == 0 {
                    put_varint(&mut out, 0);
                } else {
                    put_varint(&mut out, 1);
                    put_varint(&mut out, FIRST_TAG);
                    put_varint(&mut out, 8);
                    out.put_i64(*metadata_hash);
                }
            }
            Self::Member(member) => member.encode(&mut out),
            Self::Target { epoch } => {
                out.put_i32(*epoch);
                put_varint(&mut out, 0);
            }
            Self::TargetMember(partitions) => {
                put_partitions(&mut out, partitions);
                put_varint(&mut out, 0);
            }
            Self::Current(current) => current.encode(&mut out),
            Self::Pattern(pattern) => pattern.encode(&mut out),
        }
        out.freeze()
    }

    pub(super) fn decode(part: &ConsumerPart, bytes: &[u8]) -> Result<Self, MalformedRecord> {
        let mut cursor = Cursor::new(bytes);
        let version = cursor.i16()?;
        if version != VERSION {
            return Err(MalformedRecord::Version(version));
        }
        let cursor = &mut cursor;
        Ok(match part {
            ConsumerPart::Group => {
                let epoch = cursor.i32()?;
                let mut metadata_hash = 0;
                cursor.each_tagged_field(Form::Compact, |tag, mut field| {
                    if tag == FIRST_TAG {
                        metadata_hash = field.i64()?;
                    }
                    Ok(())
                })?;
                Self::Group {
                    epoch,
                    metadata_hash,
                }
            }
            ConsumerPart::Member(_) => Self::Member(StoredConsumer::decode(cursor)?),
            ConsumerPart::Target => {
                let epoch = cursor.i32()?;
                cursor.tagged_fields(Form::Compact)?;
                Self::Target { epoch }
            }
            ConsumerPart::TargetMember(_) => {
                let partitions = read_partitions(cursor)?;
                cursor.tagged_fields(Form::Compact)?;
                Self::TargetMember(partitions)
            }
            ConsumerPart::Current(_) => Self::Current(StoredCurrent::decode(cursor)?),
            ConsumerPart::Pattern(_) => Self::Pattern(StoredPattern::decode(cursor)?),
        })
    }
}

impl StoredConsumer {
    fn encode(&self, out: &mut BytesMut) {
        put_compact_text(out, self.instance_id.as_deref());
        put_compact_text(out, self.rack_id.as_deref());
        put_compact_text(out, Some(&self.client_id));
        put_compact_text(out, Some(&self.client_host));
        put_texts(out, &self.names);
        put_compact_text(out, self.pattern.as_deref());
        out.put_i32(self.rebalance_timeout_ms);
        put_compact_text(out, self.assignor.as_deref());
        let Some(classic) = &self.classic else {
            return put_varint(out, 0);
        };
        put_varint(out, 1);
        put_varint(out, FIRST_TAG);
        let mut field = BytesMut::new();
        field.put_u8(PRESENT);
        classic.encode(&mut field);
        // A varint of the length itself, not of one more.
        put_varint(out, u32::try_from(field.len()).unwrap_or(0));
        out.put_slice(&field);
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, MalformedRecord> {
        let mut member = Self {
            instance_id: cursor.text_or_null(Form::Compact)?,
            rack_id: cursor.text_or_null(Form::Compact)?,
            client_id: cursor.text(Form::Compact)?,
            client_host: cursor.text(Form::Compact)?,
            names: read_texts(cursor)?,
            pattern: cursor.text_or_null(Form::Compact)?,
            rebalance_timeout_ms: cursor.i32()?,
            assignor: cursor.text_or_null(Form::Compact)?,
            classic: None,
        };
        cursor.each_tagged_field(Form::Compact, |tag, mut field| {
            if tag == FIRST_TAG && field.u8()? == PRESENT {
                member.classic = Some(StoredClassic::decode(&mut field)?);
            }
            Ok(())
        })?;
        Ok(member)
    }
}

impl StoredClassic {
    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.session_timeout_ms);
        put_count(out, self.protocols.len());
        for protocol in &self.protocols {
            put_compact_text(out, Some(&protocol.name));
            put_compact_bytes(out, &protocol.metadata);
            put_varint(out, 0);
        }
        put_varint(out, 0);
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, MalformedRecord> {
        let session_timeout_ms = cursor.i32()?;
        let count = cursor.count(Form::Compact)?;
        let mut protocols = Vec::new();
        for _ in 0..count {
            protocols.push(Protocol {
                name: cursor.text(Form::Compact)?,
                metadata: Bytes::copy_from_slice(cursor.bytes(Form::Compact)?),
            });
            cursor.tagged_fields(Form::Compact)?;
        }
        cursor.tagged_fields(Form::Compact)?;
        Ok(Self {
            session_timeout_ms,
            protocols,
        })
    }
}

impl MemberState {
    const fn number(self) -> u8 {
        match self {
            Self::Stable => 0,
            Self::UnrevokedPartitions => 1,
            Self::UnreleasedPartitions => 2,
            Self::Unknown => 127,
        }
    }

    const fn numbered(number: u8) -> Self {
        match number {
            0 => Self::Stable,
            1 => Self::UnrevokedPartitions,
            2 => Self::UnreleasedPartitions,
            _ => Self::Unknown,
        }
    }
}

impl StoredCurrent {
    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.epoch);
        out.put_i32(self.previous_epoch);
        out.put_u8(self.state.number());
        put_partitions(out, &self.assigned);
        put_partitions(out, &self.revoking);
        put_varint(out, 0);
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, MalformedRecord> {
        let current = Self {
            epoch: cursor.i32()?,
            previous_epoch: cursor.i32()?,
            state: MemberState::numbered(cursor.u8()?),
            assigned: read_partitions(cursor)?,
            revoking: read_partitions(cursor)?,
        };
        cursor.tagged_fields(Form::Compact)?;
        Ok(current)
    }
}

impl StoredPattern {
    fn encode(&self, out: &mut BytesMut) {
        put_texts(out, &self.topics);
        out.put_i64(self.version);
        out.put_i64(self.timestamp_ms);
        put_varint(out, 0);
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, MalformedRecord> {
        let pattern = Self {
            topics: read_texts(cursor)?,
            version: cursor.i64()?,
            timestamp_ms: cursor.i64()?,
        };
        cursor.tagged_fields(Form::Compact)?;
        Ok(pattern)
    }
}

pub(super) fn put_texts(out: &mut BytesMut, texts: &[String]) {
    put_count(out, texts.len());
    for text in texts {
        put_compact_text(out, Some(text));
    }
}

pub(super) fn read_texts(cursor: &mut Cursor<'_>) -> Result<Vec<String>, MalformedRecord> {
    let count = cursor.count(Form::Compact)?;
    (0..count).map(|_| cursor.text(Form::Compact)).collect()
}

pub(super) fn put_partitions(out: &mut BytesMut, partitions: &TopicPartitions) {
    put_count(out, partitions.len());
    for (topic, numbers) in partitions {
        out.put_slice(topic.0.as_bytes());
        put_count(out, numbers.len());
        for number in numbers {
            out.put_u32(*number);
        }
        put_varint(out, 0);
    }
}

pub(super) fn read_partitions(cursor: &mut Cursor<'_>) -> Result<TopicPartitions, MalformedRecord> {
    let mut partitions = TopicPartitions::new();
    for _ in 0..cursor.count(Form::Compact)? {
        let topic = TopicId(Uuid::from_bytes(cursor.array()?));
        let count = cursor.count(Form::Compact)?;
        let number = |_| u32::try_from(cursor.i32()?).map_err(|_| MalformedRecord::Illegal);
        let numbers: BTreeSet<u32> = (0..count).map(number).collect::<Result<_, _>>()?;
        cursor.tagged_fields(Form::Compact)?;
        partitions.entry(topic).or_default().extend(numbers);
    }
    Ok(partitions)
}
