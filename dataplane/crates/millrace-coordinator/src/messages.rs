//! The coordinator's requests and responses, independent of the wire's versions.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use millrace_model::{TopicId, TopicName, TopicPartition};

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
    /// The next record that the group wants. Some clients reset a group by committing a negative one: its consumers then begin
    /// where their `auto.offset.reset` says.
    pub offset: i64,
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
    /// A consumer group whose members have changed since its target assignment was made.
    Assigning,
    /// A consumer group whose members move towards their target assignment.
    Reconciling,
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
            Self::Assigning => "Assigning",
            Self::Reconciling => "Reconciling",
            Self::Dead => "Dead",
        }
    }
}

/// The protocol of a group, by Kafka's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupKind {
    /// A member of the group assigns.
    Classic,
    /// The broker assigns (KIP-848).
    Consumer,
    /// The members share partitions, and the broker assigns (KIP-932).
    Share,
}

impl GroupKind {
    /// The name that clients see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Share => "share",
        }
    }
}

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListing {
    /// The group's id.
    pub group_id: String,
    /// Its protocol.
    pub kind: GroupKind,
    /// Its protocol type; empty for a group that only commits offsets.
    pub protocol_type: String,
    /// Its state.
    pub state: GroupState,
}

/// All that is shown of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its protocol.
    pub kind: GroupKind,
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

/// A durable offset, as consumers see it that wait for transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StableOffset {
    /// No open transaction changes it; `None` where there is none.
    Stable(Option<CommittedOffset>),
    /// An open transaction has another offset for the partition.
    Unstable,
}

/// Offsets by partition, in the order of the request.
pub type PartitionOffsets = Vec<(TopicPartition, CommittedOffset)>;

/// Partitions of some topics. No topic is without partitions.
pub type TopicPartitions = BTreeMap<TopicId, BTreeSet<u32>>;

/// A ConsumerGroupHeartbeat request. What is `None` has not changed since the member's last one.
#[derive(Debug, Clone, Default)]
pub struct ConsumerHeartbeat {
    /// The member's group.
    pub group_id: String,
    /// Empty where the member has none yet, which only clients of version 0 do.
    pub member_id: String,
    /// 0 to join, −1 to leave, −2 where a static member leaves for a while.
    pub member_epoch: i32,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<String>,
    /// `client.rack`
    pub rack_id: Option<String>,
    /// How long the member may take to give up partitions, in milliseconds.
    pub rebalance_timeout_ms: Option<i32>,
    /// The topics that it subscribes to by name.
    pub names: Option<Vec<String>>,
    /// The pattern of the topics that it subscribes to; empty for none.
    pub pattern: Option<String>,
    /// The assignor that it votes for.
    pub assignor: Option<String>,
    /// What it has.
    pub owned: Option<TopicPartitions>,
    /// The client's own name.
    pub client_id: String,
    /// Where the client connects from, for display.
    pub client_host: String,
}

/// The epoch with which a member joins.
pub const JOIN_EPOCH: i32 = 0;
/// The epoch with which a member leaves.
pub const LEAVE_EPOCH: i32 = -1;
/// The epoch with which a static member leaves for a while.
pub const LEAVE_STATIC_EPOCH: i32 = -2;

/// The answer to a ConsumerGroupHeartbeat or ShareGroupHeartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerHeartbeatAnswer {
    /// The member's id from now on.
    pub member_id: String,
    /// The member's epoch from now on.
    pub member_epoch: i32,
    /// When the next heartbeat is due.
    pub heartbeat_interval: Duration,
    /// What the member has from now on; `None` where that has not changed.
    pub assignment: Option<TopicPartitions>,
}

/// All that is shown of a consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerGroupDescription {
    /// Its state.
    pub state: GroupState,
    /// Counts the changes of its members and topics.
    pub group_epoch: i32,
    /// The group epoch that the target assignment was made for.
    pub assignment_epoch: i32,
    /// The assignor that made it.
    pub assignor: &'static str,
    /// Its members, by id.
    pub members: Vec<ConsumerDescription>,
}

/// Partitions of a topic, with its name.
pub type NamedPartitions = (TopicId, TopicName, BTreeSet<u32>);

/// All that is shown of a member of a consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerDescription {
    /// The member's id.
    pub member_id: String,
    /// Its static name.
    pub instance_id: Option<String>,
    /// Its rack.
    pub rack_id: Option<String>,
    /// Its epoch.
    pub member_epoch: i32,
    /// The client's own name.
    pub client_id: String,
    /// Where it connects from.
    pub client_host: String,
    /// The topics that it subscribes to by name.
    pub names: Vec<String>,
    /// The pattern that it subscribes to.
    pub pattern: Option<String>,
    /// What it has.
    pub assignment: Vec<NamedPartitions>,
    /// What it is to have.
    pub target: Vec<NamedPartitions>,
    /// Whether it uses the classic protocol.
    pub is_classic: bool,
}

/// A ShareGroupHeartbeat request. What is `None` has not changed since the member's last one.
#[derive(Debug, Clone, Default)]
pub struct ShareHeartbeat {
    /// The member's group.
    pub group_id: String,
    /// The id that the member has given itself.
    pub member_id: String,
    /// 0 to join, −1 to leave.
    pub member_epoch: i32,
    /// `client.rack`
    pub rack_id: Option<String>,
    /// The topics that it subscribes to.
    pub names: Option<Vec<String>>,
    /// The client's own name.
    pub client_id: String,
    /// Where the client connects from, for display.
    pub client_host: String,
}

/// All that is shown of a share group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareGroupDescription {
    /// Its state.
    pub state: GroupState,
    /// Counts the changes of its members, its topics and the partitions that can be assigned.
    pub group_epoch: i32,
    /// The group epoch that the target assignment was made for.
    pub assignment_epoch: i32,
    /// The assignor that made it.
    pub assignor: &'static str,
    /// Its members, by id.
    pub members: Vec<ShareMemberDescription>,
}

/// All that is shown of a member of a share group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareMemberDescription {
    /// The member's id.
    pub member_id: String,
    /// Its rack.
    pub rack_id: Option<String>,
    /// Its epoch.
    pub member_epoch: i32,
    /// The client's own name.
    pub client_id: String,
    /// Where it connects from.
    pub client_host: String,
    /// The topics that it subscribes to.
    pub names: Vec<String>,
    /// What it has.
    pub assignment: Vec<NamedPartitions>,
}

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
