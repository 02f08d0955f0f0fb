//! The value of a group record: versions 0 to 4 are read, 3 is written.
//!
//! Version 3 is: protocol type (text), generation (32 bits), protocol (text or none), leader (text
//! or none), time of the state (64), then the members, each: id, static name (or none), client id,
//! client host (texts), rebalance and session timeout (32 each, in milliseconds), subscription and
//! assignment (bytes).

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    MalformedRecord,
    cursor::{Cursor, Form, put_bytes, put_text},
};

const VERSION: i16 = 3;
const FIRST_WITH_REBALANCE_TIMEOUT: i16 = 1;
const FIRST_WITH_TIME: i16 = 2;
const FIRST_WITH_INSTANCE_ID: i16 = 3;
const FIRST_FLEXIBLE: i16 = 4;
const LAST: i16 = 4;

/// One generation of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupMetadata {
    /// `consumer`, `connect`, …; empty for a group that never had a member.
    pub protocol_type: String,
    /// The generation.
    pub generation: i32,
    /// The protocol agreed on; none without members.
    pub protocol: Option<String>,
    /// Which member assigns.
    pub leader: Option<String>,
    /// When the group came into this state, in milliseconds since 1970; −1 for unknown.
    pub state_ms: i64,
    /// The members with what each was assigned.
    pub members: Vec<StoredMember>,
}

/// One member of a generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredMember {
    /// The member's id.
    pub member_id: String,
    /// Its static name.
    pub instance_id: Option<String>,
    /// The client's own name.
    pub client_id: String,
    /// Where it connected from.
    pub client_host: String,
    /// In milliseconds.
    pub rebalance_timeout_ms: i32,
    /// In milliseconds.
    pub session_timeout_ms: i32,
    /// Its metadata for the protocol agreed on.
    pub subscription: Bytes,
    /// What it was assigned.
    pub assignment: Bytes,
}

impl GroupMetadata {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64 + 256 * self.members.len());
        out.put_i16(VERSION);
        put_text(&mut out, Some(&self.protocol_type));
        out.put_i32(self.generation);
        put_text(&mut out, self.protocol.as_deref());
        put_text(&mut out, self.leader.as_deref());
        out.put_i64(self.state_ms);
        out.put_u32(u32::try_from(self.members.len()).unwrap_or(0));
        for member in &self.members {
            member.encode(&mut out);
        }
        out.freeze()
    }

    /// Bytes that the members' metadata and assignments take; the rest of a value is small.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.members
            .iter()
            .map(|m| m.subscription.len() + m.assignment.len() + 512)
            .sum()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, MalformedRecord> {
        let mut cursor = Cursor::new(bytes);
        let version = cursor.i16()?;
        if !(0..=LAST).contains(&version) {
            return Err(MalformedRecord::Version(version));
        }
        let form = if version >= FIRST_FLEXIBLE {
            Form::Compact
        } else {
            Form::Fixed
        };
        let protocol_type = cursor.text(form)?;
        let generation = cursor.i32()?;
        let protocol = cursor.text_or_null(form)?;
        let leader = cursor.text_or_null(form)?;
        let state_ms = if version >= FIRST_WITH_TIME {
            cursor.i64()?
        } else {
            -1
        };
        let count = cursor.count(form)?;
        let members = (0..count)
            .map(|_| StoredMember::decode(&mut cursor, version, form))
            .collect::<Result<_, _>>()?;
        cursor.tagged_fields(form)?;
        Ok(Self {
            protocol_type,
            generation,
            protocol,
            leader,
            state_ms,
            members,
        })
    }
}

impl StoredMember {
    fn encode(&self, out: &mut BytesMut) {
        put_text(out, Some(&self.member_id));
        put_text(out, self.instance_id.as_deref());
        put_text(out, Some(&self.client_id));
        put_text(out, Some(&self.client_host));
        out.put_i32(self.rebalance_timeout_ms);
        out.put_i32(self.session_timeout_ms);
        put_bytes(out, &self.subscription);
        put_bytes(out, &self.assignment);
    }

    fn decode(cursor: &mut Cursor<'_>, version: i16, form: Form) -> Result<Self, MalformedRecord> {
        let member_id = cursor.text(form)?;
        let has_instance_id = version >= FIRST_WITH_INSTANCE_ID;
        let instance_id = if has_instance_id {
            cursor.text_or_null(form)?
        } else {
            None
        };
        let client_id = cursor.text(form)?;
        let client_host = cursor.text(form)?;
        let has_rebalance_timeout = version >= FIRST_WITH_REBALANCE_TIMEOUT;
        let rebalance_timeout_ms = if has_rebalance_timeout {
            cursor.i32()?
        } else {
            -1
        };
        let session_timeout_ms = cursor.i32()?;
        let subscription = Bytes::copy_from_slice(cursor.bytes(form)?);
        let assignment = Bytes::copy_from_slice(cursor.bytes(form)?);
        cursor.tagged_fields(form)?;
        Ok(Self {
            member_id,
            instance_id,
            client_id,
            client_host,
            rebalance_timeout_ms,
            session_timeout_ms,
            subscription,
            assignment,
        })
    }
}
