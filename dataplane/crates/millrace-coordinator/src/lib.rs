//! Consumer groups: Kafka's classic protocol, kept in `__consumer_offsets`. Knows nothing of sockets
//! nor of the wire's versions.
//!
//! | part | what it is |
//! |---|---|
//! | `group` | the pure state machine of one group |
//! | `records` | Kafka's record formats |
//! | `log` | the seam to the partitions that keep the records |
//! | `load` | reads a partition back into groups |
//! | `shard` | the groups of one partition |
//! | `writer` | the only writer of a shard's log |
//! | `coordinator` | finds the shard, keeps time, removes expired state; loads shards and resigns from them |
//!
//! A group's state changes in memory under its lock. Durable changes go to the shard's writer under
//! the same lock, so the log has the order of the changes. The writer puts all waiting changes into
//! one batch; once it is durable, it applies and answers them in log order. When a log has grown
//! long, the writer waits until nothing is in flight, writes the live state at the tail and trims the
//! rest.

pub mod config;
mod coordinator;
mod error;
mod group;
mod kept;
mod load;
mod log;
pub mod messages;
mod partitions;
mod records;
mod shard;
mod subscription;
mod transaction;
mod writer;

pub use config::GroupConfig;
pub use coordinator::{CoordinatorParts, GroupCoordinator, Waiting};
pub use error::GroupError;
pub use load::LoadError;
pub use log::{
    BoxFuture, Durable, LogFault, StateLog, StateTopic, consumer_offsets, transaction_state,
};
pub use partitions::partition_of;
pub use shard::TransactionalToken;
pub use transaction::{
    MarkerOutcome, MarkerWriter, ProducerIdSource, TransactionCoordinator, TransactionParts,
    messages::{
        InitProducer, TransactionConfig, TransactionDescription, TransactionError,
        TransactionFilter, TransactionListing, TransactionState,
    },
};
