//! The coordinator's requests and responses, independent of the wire's versions.

use std::time::Duration;

use bytes::Bytes;
use millrace_model::{Offset, TopicPartition};

use crate::subscription;

/// One assignor that a member offers, with the metadata for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protocol {
    /// The assignor's name: `range`, `cooperative-sticky`, …
    pub name: String,
    /// Opaque to the broker; for consumers, the subscription.
    pub metadata: Bytes,
}

/// A JoinGroup request.
#[derive(Debug, Clone)]
pub struct JoinRequest {
    /// The group to join.
    pub group_id: String,
    /// Empty where the member has none yet.
    pub member_id: String,
    /// `group.instance.id` of a static member (KIP-345).
    pub instance_id: Option<String>,
    /// The client's own name; new member ids start with it.
    pub client_id: String,
    /// Where the client connects from, for display.
    pub client_host: String,
    /// How long the member may be silent.
    pub session_timeout: Duration,
    /// How long the member may take to join again in a rebalance.
    pub rebalance_timeout: Duration,
    /// `consumer`, `connect`, …
    pub protocol_type: String,
    /// What the member offers, its favourite first.
    pub protocols: Vec<Protocol>,
    /// The client understands MEMBER_ID_REQUIRED (KIP-394; JoinGroup from version 4).
    pub requires_known_member_id: bool,
    /// The client understands `skip_assignment` (KIP-814; JoinGroup from version 9).
    pub can_skip_assignment: bool,
}

/// The answer to a JoinGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// The member's id from now on.
    pub member_id: String,
    /// The group's generation.
    pub generation: i32,
    /// The group's protocol type.
    pub protocol_type: String,
    /// The protocol that the members agreed on.
    pub protocol: String,
    /// Which member assigns.
    pub leader: String,
    /// The leader need not assign: the assignment that stands still holds.
    pub skip_assignment: bool,
    /// All members, for the leader; empty for everybody else.
    pub members: Vec<JoinedMember>,
}

/// What the leader is told about a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedMember {
    /// The member's id.
    pub member_id: String,
    /// Its static name.
    pub instance_id: Option<String>,
    /// Its metadata for the protocol agreed on.
    pub metadata: Bytes,
}

/// Who speaks, in requests that a member sends in the course of a generation.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The member's id; empty for none.
    pub member_id: String,
    /// The member's static name.
    pub instance_id: Option<String>,
    /// The generation that the member believes in; −1 for none.
    pub generation: i32,
}

/// A SyncGroup request.
#[derive(Debug, Clone)]
pub struct SyncRequest {
    /// The member's group.
    pub group_id: String,
    /// The member.
    pub caller: Caller,
    /// The type and name of the protocol that the member believes in (from version 5).
    pub protocol_type: Option<String>,
    /// See `protocol_type`.
    pub protocol: Option<String>,
    /// From the leader: what each member is to have.
    pub assignments: Vec<(String, Bytes)>,
}

/// The answer to a SyncGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synced {
    /// The group's protocol type.
    pub protocol_type: String,
    /// The protocol agreed on.
    pub protocol: String,
    /// What the member is to have.
    pub assignment: Bytes,
}

/// One member that leaves.
#[derive(Debug, Clone)]
pub struct Leaving {
    /// The member's id; may be empty for a static member that its name identifies.
    pub member_id: String,
    /// The member's static name.
    pub instance_id: Option<String>,
}

/// An offset that a group has committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next record that the group wants.
    pub offset: Offset,
    /// The leader epoch of the last record consumed; −1 for unknown.
    pub leader_epoch: i32,
    /// The client's own text.
    pub metadata: String,
    /// When it was committed, in milliseconds since 1970.
    pub commit_ms: i64,
    /// When it may be dropped, where the client said so itself (only old formats do).
    pub expire_ms: Option<i64>,
}

/// A group's state, by Kafka's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupState {
    /// No members; there may be offsets.
    Empty,
    /// Waiting for the members to join.
    PreparingRebalance,
    /// Waiting for the leader's assignment.
    CompletingRebalance,
    /// Every member has its assignment.
    Stable,
    /// Deleted, or never was.
    Dead,
}

impl GroupState {
    /// The name that clients see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
            Self::Dead => "Dead",
        }
    }
}

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListing {
    /// The group's id.
    pub group_id: String,
    /// Its protocol type; empty for a group that only commits offsets.
    pub protocol_type: String,
    /// Its state.
    pub state: GroupState,
}

/// All that is shown of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its state.
    pub state: GroupState,
    /// Its protocol type.
    pub protocol_type: String,
    /// The protocol agreed on; empty unless the group is stable.
    pub protocol: String,
    /// Its members, by id.
    pub members: Vec<MemberDescription>,
}

/// All that is shown of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDescription {
    /// The member's id.
    pub member_id: String,
    /// Its static name.
    pub instance_id: Option<String>,
    /// The client's own name.
    pub client_id: String,
    /// Where it connects from.
    pub client_host: String,
    /// Its metadata for the protocol agreed on; empty unless the group is stable.
    pub metadata: Bytes,
    /// Its assignment; empty unless the group is stable.
    pub assignment: Bytes,
}

impl MemberDescription {
    /// The partitions that its assignment names, `max` at most; none where it cannot be read.
    #[must_use]
    pub fn assigned(&self, max: usize) -> Vec<TopicPartition> {
        subscription::assigned(&self.assignment, max)
    }
}

/// What all groups hold, and what they may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupMetrics {
    /// Groups.
    pub groups: usize,
    /// Their members, with those that were given an id and have not joined.
    pub members: usize,
    /// Their committed offsets.
    pub offsets: usize,
    /// What all of that costs, in bytes.
    pub memory_bytes: u64,
    /// What it may cost, in bytes.
    pub memory_bytes_max: u64,
    /// What is on its way to the groups' log, in bytes of memory.
    pub writes_bytes: u64,
}

/// Offsets by partition, in the order of the request.
pub type PartitionOffsets = Vec<(TopicPartition, CommittedOffset)>;

/// Offsets to be committed in a producer's transaction.
#[derive(Debug, Clone)]
pub struct TransactionalCommit {
    /// The producer's id and epoch.
    pub producer: (i64, i16),
    /// The member; none where the producer does not tell it.
    pub caller: Caller,
    /// The offsets.
    pub offsets: PartitionOffsets,
}
