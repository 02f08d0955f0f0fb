//! The requests and responses of the transaction coordinator, its settings and its errors.

use std::{collections::BTreeSet, time::Duration};

use millrace_model::TopicPartition;

/// Partitions of one transaction. Each costs about a hundred bytes in memory and in the log.
pub(crate) const TRANSACTION_PARTITIONS_MAX: usize = 20_000;

/// Transactional ids that one broker coordinates.
pub(crate) const TRANSACTIONS_MAX: usize = 100_000;

/// What is on its way to the log, in bytes of memory.
pub const TRANSACTION_WRITES_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Settings of the coordinator. The names in quotes are the broker's properties.
#[derive(Debug, Clone)]
pub struct TransactionConfig {
    /// `transaction.max.timeout.ms`: the longest timeout that a producer may ask for.
    pub timeout_max: Duration,
    /// `transactional.id.expiration.ms`: an id without a transaction for this long is forgotten.
    pub id_expiration: Duration,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`.
    pub cleanup_interval: Duration,
    /// What all transactions may take in memory, bytes.
    pub memory_bytes: u64,
    /// Records that the log of one partition gathers before its live state is rewritten.
    pub rewrite_after_records: u64,
}

impl Default for TransactionConfig {
    fn default() -> Self {
        Self {
            timeout_max: Duration::from_secs(15 * 60),
            id_expiration: Duration::from_secs(7 * 24 * 60 * 60),
            cleanup_interval: Duration::from_secs(60 * 60),
            memory_bytes: 128 * 1024 * 1024,
            rewrite_after_records: 50_000,
        }
    }
}

/// A producer asks for its id and epoch.
#[derive(Debug, Clone)]
pub struct InitProducer {
    /// Its transactional id.
    pub transactional_id: String,
    /// After so long without an end, its transactions are aborted.
    pub timeout: Duration,
    /// The id and epoch that the producer has (KIP-360).
    pub expected: Option<(i64, i16)>,
}

/// The state of a transaction, by Kafka's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionState {
    /// None has begun since the producer got its id.
    Empty = 0,
    /// It has partitions.
    Ongoing = 1,
    /// It is committed; markers are being written.
    PrepareCommit = 2,
    /// It is aborted; markers are being written.
    PrepareAbort = 3,
    /// It is committed.
    CompleteCommit = 4,
    /// It is aborted.
    CompleteAbort = 5,
}

impl TransactionState {
    const ALL: [Self; 6] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
    ];

    /// Kafka's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
        }
    }

    /// The state of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    pub(super) fn of_number(number: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as i8 == number)
    }

    /// Whether markers are being written.
    pub(super) const fn is_ending(self) -> bool {
        matches!(self, Self::PrepareCommit | Self::PrepareAbort)
    }
}

/// All that is shown of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionDescription {
    /// Its state.
    pub state: TransactionState,
    /// After so long without an end it is aborted.
    pub timeout: Duration,
    /// When it began, in milliseconds since 1970; `None` where none has.
    pub start_ms: Option<i64>,
    /// The producer.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// What it writes to.
    pub partitions: BTreeSet<TopicPartition>,
}

/// A transaction in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionListing {
    /// The transactional id.
    pub transactional_id: String,
    /// The producer.
    pub producer_id: i64,
    /// The state.
    pub state: TransactionState,
}

/// What all transactions hold, and what they may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransactionMetrics {
    /// Transactional ids.
    pub ids: usize,
    /// Open transactions.
    pub ongoing: usize,
    /// Transactions that are decided on and whose markers are not all written.
    pub ending: usize,
    /// What all of that costs, in bytes.
    pub memory_bytes: u64,
    /// What it may cost, in bytes.
    pub memory_bytes_max: u64,
    /// What is on its way to the log, in bytes of memory.
    pub writes_bytes: u64,
}

/// Partitions, each with whether it is in a transaction.
pub type VerifiedPartitions = Vec<(TopicPartition, Result<(), TransactionError>)>;

/// Which transactions are listed; an empty or missing condition admits all.
#[derive(Debug, Clone, Default)]
pub struct TransactionFilter {
    /// In one of these states.
    pub states: Vec<TransactionState>,
    /// Of one of these producers.
    pub producer_ids: Vec<i64>,
    /// Begun longer ago, as Kafka counts: ids without a transaction have begun in 1970.
    pub longer_than: Option<Duration>,
    /// With an id that matches this regular expression as a whole (KIP-1152).
    pub id_pattern: Option<String>,
}

/// Why the coordinator refuses, in the words of Kafka's protocol; the wire code of each has the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// The log of the id is still being read. The caller retries.
    #[error("the coordinator is loading the transaction's log; retry")]
    CoordinatorLoading,
    /// The log of the id is not there, is overloaded or failed.
    #[error("the coordinator is not available; look it up again and retry")]
    CoordinatorNotAvailable,
    /// Another broker coordinates the id.
    #[error("this broker does not coordinate the transactional id; look the coordinator up again")]
    NotCoordinator,
    /// The transactional id is empty or longer than [`ID_BYTES_MAX`](crate::config::ID_BYTES_MAX).
    #[error("the transactional id is empty or too long")]
    InvalidRequest,
    /// A pattern is not a regular expression.
    #[error("the pattern is not a regular expression")]
    InvalidPattern,
    /// The timeout is not positive, or longer than the broker allows.
    #[error("the timeout is not between 1 ms and transaction.max.timeout.ms")]
    InvalidTimeout,
    /// There is no such transactional id.
    #[error("no producer has this transactional id")]
    IdNotFound,
    /// The producer id is not that of the transactional id.
    #[error("the producer id is not the transactional id's")]
    InvalidProducerIdMapping,
    /// Another producer with the same transactional id has a newer epoch.
    #[error("a newer producer uses the transactional id")]
    ProducerFenced,
    /// The transaction is not in a state for this.
    #[error("the transaction is not in a state for this")]
    InvalidState,
    /// The id's previous transaction is being ended. The caller retries.
    #[error("the previous transaction is being ended; retry")]
    Concurrent,
    /// The partition is not in the transaction. The producer aborts.
    #[error("the partition is not in the transaction; abort it")]
    Abortable,
    /// The broker has as many transactional ids, or as large ones, as it can.
    #[error("the broker has no room for more transactional ids or partitions of them")]
    NoRoom,
}
