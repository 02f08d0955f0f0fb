//! Several brokers of one cluster: who is there, who leads which partition, who owns which stream.

use millrace_model::{NodeEpoch, NodeId, StreamId, TopicId, TopicPartition};
use serde::{Deserialize, Serialize};

use crate::{Fenced, StoreFailure, Topic};

/// Where clients reach a broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerEndpoint {
    /// The listener's name.
    pub listener: String,
    /// The host that clients are told.
    pub host: String,
    /// The port that clients are told.
    pub port: u16,
}

/// What a broker tells the others when it joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joining {
    /// Its node.
    pub node: NodeId,
    /// Its advertised listeners.
    pub endpoints: Vec<BrokerEndpoint>,
    /// Its zone (`broker.rack`).
    pub rack: Option<String>,
    /// The version of its program.
    pub version: String,
    /// The address of its write-ahead log in the form of `s3.wal.path`, for whoever takes it over. The store does not read it.
    pub log: String,
    /// The id in the log's header.
    pub log_id: u64,
}

/// Where a broker is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerState {
    /// It renews its lease, or its lease has run out and nobody has fenced it yet.
    Active,
    /// Its lease ran out. Its log is to be taken over, by the start with this epoch where there is one.
    Fenced {
        /// Who takes the log over.
        adopter: Option<NodeEpoch>,
    },
    /// It has stopped; its log is empty and its streams have no owner.
    Left,
}

/// A broker that has joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// What it told when it joined.
    pub joined: Joining,
    /// The node's current epoch. That of a fenced node is nobody's until its log is taken over.
    pub epoch: NodeEpoch,
    /// Where it is in its life.
    pub state: BrokerState,
    /// It is about to stop, and is given nothing more to lead.
    pub is_draining: bool,
}

impl Broker {
    /// Whether it may be given partitions to lead.
    #[must_use]
    pub fn may_lead(&self) -> bool {
        self.state == BrokerState::Active && !self.is_draining
    }
}

/// Who leads a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leader {
    /// The node; `None` where no broker had joined when the partition was created.
    pub node: Option<NodeId>,
    /// Grows with each change of the leader.
    pub epoch: u64,
    /// The node that is to lead it next; the leader hands it over.
    pub moving_to: Option<NodeId>,
    /// The node that leads it whenever it can; `None`: any node does.
    pub preferred: Option<NodeId>,
}

/// A partition and the node that is to lead it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The partition.
    pub partition: TopicPartition,
    /// Where it goes.
    pub to: NodeId,
}

/// What a planned move makes of a partition's preferred leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preferred {
    /// It stays what it is.
    Keep,
    /// It is the node that the partition moves to.
    Set,
}

/// What a broker has to do for the partitions that it leads, in bytes per second; each request adds some.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrokerLoad {
    /// For all of them.
    pub total: u64,
    /// For the busiest of them.
    pub partitions: Vec<PartitionLoad>,
}

/// What a broker has to do for one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionLoad {
    /// The partition.
    pub partition: TopicPartition,
    /// As in [`BrokerLoad::total`].
    pub load: u64,
}

/// A topic and who leads its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedTopic {
    /// The topic.
    pub topic: Topic,
    /// By partition.
    pub leaders: Vec<Leader>,
}

/// What has changed since a revision, all as it is at one later revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// The revision that all of this is at.
    pub revision: u64,
    /// Topics that may have changed.
    pub topics: ChangedTopics,
    /// All brokers, where any may have changed.
    pub brokers: Option<Vec<Broker>>,
    /// Whether credentials, quotas, access control lists, delegation tokens or configurations of groups and of client
    /// metrics may have changed.
    pub security: bool,
}

/// Topics that may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangedTopics {
    /// Those of `named` that are not among `present` are gone.
    Some {
        /// Ids of all that have changed.
        named: Vec<TopicId>,
        /// Those of them that exist, in the order of their names.
        present: Vec<LedTopic>,
    },
    /// All topics that exist, in the order of their names.
    All(Vec<LedTopic>),
}

/// A broker that was fenced, and where its partitions went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FencedBroker {
    /// Its node.
    pub node: NodeId,
    /// Partitions that it led and others lead now.
    pub partitions_moved: u64,
}

/// What happened to the brokers of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterEventKind {
    /// A broker joined.
    Joined,
    /// A broker's lease ran out.
    Fenced,
    /// Another broker takes over the log of a fenced one.
    Takeover,
    /// A broker is about to stop.
    Draining,
    /// A broker has stopped, or its log has been taken over.
    Left,
    /// Partitions are to move.
    Moving,
}

impl ClusterEventKind {
    const ALL: [Self; 6] = [
        Self::Joined,
        Self::Fenced,
        Self::Takeover,
        Self::Draining,
        Self::Left,
        Self::Moving,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::Fenced => "fenced",
            Self::Takeover => "takeover",
            Self::Draining => "draining",
            Self::Left => "left",
            Self::Moving => "moving",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Something that happened to the brokers of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterEvent {
    /// When, by the database's clock, in milliseconds since 1970.
    pub at_ms: i64,
    /// What.
    pub kind: ClusterEventKind,
    /// To which broker; `None`: to the cluster.
    pub node: Option<NodeId>,
    /// In words.
    pub text: String,
}

/// What a start needs to take over a fenced node's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    /// The epoch under which it acts for the node. Whoever had the log before is fenced.
    pub epoch: NodeEpoch,
    /// Where the log is.
    pub log: String,
}

/// Why a broker did not join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Another broker uploads what is in the node's log. The node may join once that is done.
    #[error(
        "node {node} was fenced because its lease ran out, and another broker is taking over its log: try again"
    )]
    BeingAdopted {
        /// The node that would join.
        node: NodeId,
    },
    /// Records that are not in the bucket may be in the log that the node had before.
    #[error(
        "node {node} owns {streams} streams whose newest records may be in another write-ahead log than this one: \
         start it with the log at {log}, whose id is {expected:016x}; if that log is lost, stop this broker and wait until \
         the others have fenced the node"
    )]
    OtherLog {
        /// The node that would join.
        node: NodeId,
        /// Streams that it owns.
        streams: u64,
        /// Where the log was.
        log: String,
        /// The id of the log that it joined with before.
        expected: u64,
    },
    /// The store failed; try again.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

/// Why a start may not do something to the cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The caller has been replaced or fenced: stop.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// The node that was named has not joined, or is not in the state that this needs.
    #[error("node {0} is not {1}")]
    NodeNot(NodeId, &'static str),
    /// Another start, whose lease is good, takes the log over.
    #[error("the log of node {node} is being taken over by the start with epoch {adopter}")]
    Adopted {
        /// The fenced node.
        node: NodeId,
        /// Who takes its log over.
        adopter: NodeEpoch,
    },
    /// The stream belongs to another owner, or to none, or does not exist.
    #[error("stream {0} is not open under this node epoch")]
    NotOwner(StreamId),
    /// There is no such partition.
    #[error("there is no partition {0}")]
    UnknownPartition(TopicPartition),
    /// The store failed; try again.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}
