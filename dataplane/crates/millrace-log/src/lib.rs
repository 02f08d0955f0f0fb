//! Kafka partitions on streams: offsets, epochs, producer state, time index. Knows nothing of S3.
//!
//! A partition is two streams. Its *data* stream holds the record batches, one batch per entry, and
//! its offsets are the partition's offsets. Its *meta* stream holds checkpoints of what the broker
//! knows about the data: the last sequences of each idempotent producer, the time index, sizes, and
//! leader epochs. A checkpoint is written only when everything it was based on is durable; a
//! partition opens from the newest checkpoint plus the batch headers written after it.
//!
//! | module | what it holds |
//! |---|---|
//! | `manager` | all topics: create, change, delete, look up; retention; compaction; which partitions are served here |
//! | `topic` | a topic as the broker sees it |
//! | `committed` | a partition that another broker leads, as far as it is in objects |
//! | `partition` | one partition: append, read, trim, compact (COMPACTION.md) |
//! | `producers` | sequence checks of idempotent producers, and which of them have a transaction open |
//! | `transactions` | the last stable offset, and the aborted transactions |
//! | `time_index` | timestamp → offset |
//! | `segments` | bytes by offset, and where the log may be cut |
//! | `leader_epochs` | leader epoch → its last offset |
//! | `checkpoint` | the persistent form of the five above |
//! | `replay_debt` | what a restart would replay, and when a checkpoint is due for it |
//! | `config` | topic configurations over the broker's defaults |
//! | `error` | one enum per operation |

mod checkpoint;
mod committed;
mod config;
pub mod error;
mod leader_epochs;
mod manager;
mod partition;
mod producers;
mod replay_debt;
mod segments;
mod time_index;
mod topic;
mod transactions;

pub use checkpoint::InvalidCheckpoint;
pub use committed::CommittedLog;
pub use config::{ConfigKind, LogDefaults, TopicConfig, TopicConfigDefinition};
pub use leader_epochs::EpochEnd;
pub use manager::{LogManager, LogParts, PARTITION_BYTES, Shared};
pub use partition::{
    AppendOrigin, AppendTicket, Appended, Isolation, PartitionLog, ReadResult, TimestampOffset,
    Usage,
};
pub use producers::{PRODUCER_BYTES, ProducerStatus, Verification, VerificationGuard};
pub use topic::{Arrival, Partition, Topic};
pub use transactions::{AbortedTransaction, TransactionMarker};

/// The topic in which consumer groups keep their state (Kafka's own name).
pub const CONSUMER_OFFSETS_TOPIC: &str = "__consumer_offsets";

/// The topic in which transactions keep their state (Kafka's own name).
pub const TRANSACTION_STATE_TOPIC: &str = "__transaction_state";

/// The topic in which share partitions keep their state (Kafka's own name).
pub const SHARE_GROUP_STATE_TOPIC: &str = "__share_group_state";

/// Whether the broker keeps its own state in a topic of this name.
#[must_use]
pub fn is_internal(topic: &str) -> bool {
    [
        CONSUMER_OFFSETS_TOPIC,
        TRANSACTION_STATE_TOPIC,
        SHARE_GROUP_STATE_TOPIC,
    ]
    .contains(&topic)
}
