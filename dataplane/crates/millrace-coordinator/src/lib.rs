//! Consumer groups: Kafka's classic protocol and the one of KIP-848; share groups (KIP-932); both kept in
//! `__consumer_offsets`; transactions, kept in `__transaction_state`; and the state of share partitions, kept in
//! `__share_group_state`. Knows nothing of sockets nor of the wire's versions.
//!
//! | part | what it is |
//! |---|---|
//! | `group` | the pure state machine of one group; classic unless it has a consumer group |
//! | `consumer` | the pure state machine of a consumer group (KIP-848), and its assignors |
//! | `share` | the pure state machine of a share group (KIP-932), and its assignor |
//! | `stored` | what the log holds of a consumer group or a share group |
//! | `topics` | the seam to the topics that assignors see |
//! | `records` | Kafka's record formats |
//! | `log` | the seam to the partitions that keep the records |
//! | `transaction` | the pure state machine of one transactional id; its coordinator; the markers that end transactions |
//! | `kept` | what groups and transactions have in common: the seam of the parts below |
//! | `partitions` | loads the shards of partitions that are gained, and resigns from those that are lost |
//! | `load` | reads a partition back |
//! | `shard` | what one partition keeps |
//! | `writer` | the only writer of a shard's log |
//! | `group_configs` | what is set for single groups over the broker's settings |
//! | `share_state` | the seam to the state of share partitions |
//! | `share_coordinator` | the pure state machine of one share partition; its coordinator |
//! | `coordinator` | the groups as the broker sees them; removes expired state |
//!
//! State changes in memory under the lock of the group or transaction. Durable changes go to the shard's writer under
//! the same lock, so the log has the order of the changes. The writer puts all waiting changes into
//! one batch; once it is durable, it applies and answers them in log order. When a log has grown
//! long, the writer waits until nothing is in flight, writes the live state at the tail and trims the
//! rest.

pub mod config;
mod consumer;
mod coordinator;
mod error;
mod group;
mod group_configs;
mod kept;
mod load;
mod log;
pub mod messages;
mod partitions;
mod pattern;
mod records;
mod shard;
mod share;
mod share_coordinator;
mod share_state;
mod stored;
mod subscription;
mod topics;
mod transaction;
mod writer;

pub use config::GroupConfig;
pub use consumer::Assignor;
pub use coordinator::{CoordinatorParts, GroupCoordinator, ShareStateResults, Waiting};
pub use error::GroupError;
pub use group_configs::{
    AllowedTime, GroupConfigDefinition, GroupConfigKind, GroupConfigLimits, GroupConfigs,
    GroupOverrides, InvalidGroupConfig, ShareGroupSettings, ShareIsolation, ShareOffsetReset,
};
pub use load::LoadError;
pub use log::{
    BoxFuture, Durable, LogFault, StateLog, StateTopic, consumer_offsets, share_group_state,
    transaction_state,
};
pub use partitions::{partition_of, share_partition_of};
pub use shard::TransactionalToken;
pub use share_coordinator::{
    ShareCoordinator, ShareCoordinatorParts,
    messages::{
        SHARE_STATE_BATCHES_MAX, SHARE_STATE_WRITES_BYTES_MAX, ShareError, ShareStateConfig,
        ShareStateMetrics,
    },
};
pub use share_state::{
    NoShareStates, SharePartition, ShareState, ShareStateBatch, ShareStateError, ShareStates,
};
pub use topics::Topics;
pub use transaction::{
    MarkerOutcome, MarkerWriter, ProducerIdSource, TransactionCoordinator, TransactionParts,
    messages::{
        InitProducer, TRANSACTION_WRITES_BYTES_MAX, TransactionConfig, TransactionDescription,
        TransactionError, TransactionFilter, TransactionListing, TransactionMetrics,
        TransactionState, VerifiedPartitions,
    },
};
