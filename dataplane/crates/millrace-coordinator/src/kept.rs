//! The entries that shards keep: consumer groups or transactions. Shards, writers and loads know entries by this trait alone.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_model::TopicName;
use millrace_record::Record;
use millrace_tasks::Task;

use crate::{partitions::partition_of, records::MalformedRecord};

/// The time, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// Monotonic, for sessions, rebalances and timers.
    pub(crate) at: Duration,
    /// Wall clock in milliseconds, for what is stored.
    pub(crate) ms: i64,
}

/// A record of the log: its key and its value, or `None` for a tombstone.
pub(crate) type StateRecord = (Bytes, Option<Bytes>);

/// The key of the header that marks a record as a [`Found::Copy`].
pub(crate) const COPY: &str = "copy";

/// A producer and its epoch.
pub(crate) type ProducerEpoch = (i64, i16);

/// What is to be written to the log.
#[derive(Debug, Clone)]
pub(crate) enum Written {
    /// Records that take effect once they are durable.
    Records(Vec<StateRecord>),
    /// Records that take effect once the producer's transaction is committed.
    Transactional(ProducerEpoch, Vec<StateRecord>),
}

impl Written {
    /// The producer, if the records are part of its transaction, and the records.
    pub(crate) fn into_parts(self) -> (Option<ProducerEpoch>, Vec<StateRecord>) {
        match self {
            Self::Records(records) => (None, records),
            Self::Transactional(producer, records) => (Some(producer), records),
        }
    }
}

/// What was read from the log.
#[derive(Debug)]
pub(crate) enum Found {
    /// A record, with its producer if it is part of a transaction.
    Record(Option<ProducerEpoch>, Record),
    /// A copy of a record that was in effect at this position. It does not override earlier records.
    Copy(Record),
    /// The end of a producer's transaction, and whether it was committed.
    End(ProducerEpoch, bool),
}

/// Why a shard does not serve a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unserved {
    Loading,
    NotAvailable,
    NotCoordinator,
    InvalidId,
    TooMany,
    MemoryFull,
}

/// The names of one kind of entry in metrics and in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    /// The plural, as in "consumer groups are refused".
    pub(crate) what: &'static str,
    /// The internal topic.
    pub(crate) topic: &'static str,
    /// The bound on their number and the bound on their memory.
    pub(crate) bounds: [&'static str; 2],
    pub(crate) load: Task,
    pub(crate) writer: Task,
}

/// A kind of entry that shards keep. Each entry has an id.
pub(crate) trait Kept: Sized + Send + 'static {
    type Config: fmt::Debug + Send + Sync + 'static;
    type Error: From<Unserved> + Clone + PartialEq + fmt::Debug + fmt::Display + Send;
    /// What a write changes once it is durable, and who waits for it.
    type Outcome: Send + 'static;
    /// The state that was read from the log so far.
    type Loading: Default + Send;

    const NAMES: Names;

    fn new(id: String, config: Arc<Self::Config>, now: Now) -> Self;
    /// Memory of a new entry, bytes.
    fn empty_bytes(id: &str) -> u64;
    fn id(&self) -> &str;
    /// Memory of the entry, bytes.
    fn memory_bytes(&self) -> u64;
    /// When its timer is due.
    fn wake_at(&self) -> Option<Duration>;
    /// Called when the timer is due.
    fn expire(&mut self, now: Now);
    /// Takes the writes that the entry has pending, in order.
    fn take_writes(&mut self) -> Vec<(Written, Self::Outcome)>;
    /// Memory of a write and its records until it is durable, bytes, and whether the write frees memory
    /// afterwards.
    fn write_bytes(outcome: &Self::Outcome) -> (u64, bool);
    /// Called when a write is durable or has failed. Returns whether the entry is empty and is to be removed.
    fn apply(&mut self, outcome: Self::Outcome, result: Result<(), Self::Error>, now: Now) -> bool;
    /// Answers whoever waits for a write of an entry that the shard no longer has.
    fn answer(outcome: Self::Outcome, result: Result<(), Self::Error>);
    /// Refuses all waiting requests that do not wait for a write.
    fn refuse_waiting(&mut self, error: &Self::Error, now: Now);
    /// The live state of the entry: all that the log must hold.
    fn durable(&self) -> Vec<Written>;
    /// The number of records in [`durable`](Self::durable).
    fn durable_count(&self) -> usize;
    /// Returns whether the entry is empty and has no records in the log. If so, it accepts no more requests.
    fn end_if_nothing(&mut self, now: Now) -> bool;
    /// Called with the topics that were deleted while the log was read.
    fn topics_deleted(&mut self, topics: &BTreeSet<TopicName>) -> Vec<(Written, Self::Outcome)>;
    /// The producer, if a write is part of its transaction.
    fn transaction_of(_outcome: &Self::Outcome) -> Option<i64> {
        None
    }
    /// The producers whose open transactions have changed the entry.
    fn open_transactions(&self) -> Vec<i64> {
        Vec::new()
    }
    /// Called when a marker in the log has ended a producer's transaction.
    fn transaction_ended(&mut self, producer: ProducerEpoch, committed: bool);

    /// Adds what was read next from the log.
    ///
    /// # Errors
    /// The record is malformed.
    fn load(loading: &mut Self::Loading, found: Found) -> Result<(), MalformedRecord>;
    /// The partition of the topic that keeps the entry with this id.
    fn partition_of(id: &str, partitions: usize) -> usize {
        partition_of(id, partitions)
    }
    /// The entries, once the whole log was read.
    fn loaded(loading: Self::Loading, config: &Arc<Self::Config>, now: Now) -> Vec<Self>;
}
