//! What exists and who owns it: topics, streams, objects, nodes, epochs. Knows nothing of Kafka's
//! wire.
//!
//! [`MetaStore`] is the contract. [`sqlite::SqliteMeta`] keeps it for one broker in one file, and
//! [`postgres::PostgresMeta`] for all brokers of a cluster in one database, where it keeps [`ClusterStore`] as well. Every id comes
//! from a sequence and is never reused; each change of a stream or an object names the epoch of its
//! start, and a store that knows a newer one refuses ([`Fenced`]).

mod acl;
mod class;
mod cluster;
mod cluster_store;
mod compaction;
mod compaction_check;
mod delegation_token;
mod failure;
mod index;
mod number;
mod object;
pub mod postgres;
mod quota;
mod resource_config;
mod retired;
mod scram;
pub mod sqlite;
mod store;
mod stream;
mod topic;
mod topic_row;

pub use acl::AclRow;
pub use cluster::{
    Adoption, Broker, BrokerEndpoint, BrokerLoad, BrokerState, ChangedTopics, Changes,
    ClusterError, ClusterEvent, ClusterEventKind, FencedBroker, JoinError, Joining, Leader,
    LedTopic, Move, PartitionLoad, Preferred,
};
pub use cluster_store::ClusterStore;
pub use compaction::{
    Compaction, CompactionError, LiveRange, ObjectContents, StreamSetSummary, StreamSummary,
};
pub use delegation_token::{DelegationTokenChange, DelegationTokenRow};
pub use object::{
    CommitError, ObjectKind, ObjectRange, ReserveError, StreamObject, StreamSetObject, SweepError,
    Upload,
};
pub use quota::{QuotaChange, QuotaEntityRow, QuotaRow};
pub use resource_config::{ResourceConfigChange, ResourceConfigRow};
pub use scram::{ScramChange, ScramRow};
pub use store::{Fenced, MetaStore, StoreFailure};
pub use stream::{OpenStreamError, StreamMeta, TrimError};
pub use topic::{
    CreatePartitionsError, CreateTopicError, NewTopic, PartitionStreams, Topic, TopicError,
};
