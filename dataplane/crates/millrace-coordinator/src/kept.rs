//! What shards keep: consumer groups, or transactions. Shards, writers and loads know no more of either than this.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_model::TopicName;
use millrace_record::Record;
use millrace_tasks::Task;

use crate::{partitions::partition_of, records::MalformedRecord};

/// The time, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// Monotonic: sessions, rebalances, alarms.
    pub(crate) at: Duration,
    /// Wall: what is written down.
    pub(crate) ms: i64,
}

/// A record of the log: its key, and its value, unless it deletes.
pub(crate) type StateRecord = (Bytes, Option<Bytes>);

/// The key of the header that tells a [`Found::Copy`] from other records.
pub(crate) const COPY: &str = "copy";

/// A producer and its epoch.
pub(crate) type ProducerEpoch = (i64, i16);

/// Something for the log.
#[derive(Debug, Clone)]
pub(crate) enum Written {
    /// Records that count once they are durable.
    Records(Vec<StateRecord>),
    /// Records that count if the producer's transaction is committed.
    Transactional(ProducerEpoch, Vec<StateRecord>),
}

impl Written {
    /// The producer whose transaction they are part of, and the records.
    pub(crate) fn into_parts(self) -> (Option<ProducerEpoch>, Vec<StateRecord>) {
        match self {
            Self::Records(records) => (None, records),
            Self::Transactional(producer, records) => (Some(producer), records),
        }
    }
}

/// A record as it was found in the log.
#[derive(Debug)]
pub(crate) enum Found {
    /// A record; the producer if it is part of a transaction.
    Record(Option<ProducerEpoch>, Record),
    /// A copy of a record that counted where the copy stands: it changes nothing that came before it.
    Copy(Record),
    /// The end of a producer's transaction, and whether it was committed.
    End(ProducerEpoch, bool),
}

/// Why a shard serves nothing, or not that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unserved {
    Loading,
    NotAvailable,
    NotCoordinator,
    InvalidId,
    TooMany,
    MemoryFull,
}

/// The names under which one kind appears in metrics and in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    /// What is kept, as in "consumer groups are refused".
    pub(crate) what: &'static str,
    /// The topic.
    pub(crate) topic: &'static str,
    /// The bound on their number, and the one on their memory.
    pub(crate) bounds: [&'static str; 2],
    pub(crate) load: Task,
    pub(crate) writer: Task,
}

/// A kind of thing that shards keep, each with an id.
pub(crate) trait Kept: Sized + Send + 'static {
    type Config: fmt::Debug + Send + Sync + 'static;
    type Error: From<Unserved> + Clone + PartialEq + fmt::Debug + fmt::Display + Send;
    /// What a write is about: what it changes once it is durable, and who waits for it.
    type Outcome: Send + 'static;
    /// What the log says so far, while it is read.
    type Loading: Default + Send;

    const NAMES: Names;

    fn new(id: String, config: Arc<Self::Config>, now: Now) -> Self;
    /// What one costs that is new, in bytes.
    fn empty_bytes(id: &str) -> u64;
    fn id(&self) -> &str;
    /// What it costs, in bytes.
    fn memory_bytes(&self) -> u64;
    /// When its alarm is to ring.
    fn wake_at(&self) -> Option<Duration>;
    /// The alarm rings.
    fn expire(&mut self, now: Now);
    /// What it wants to be written, in order.
    fn take_writes(&mut self) -> Vec<(Written, Self::Outcome)>;
    /// What a write costs in memory with its records until it is durable, in bytes, and whether it gives memory back
    /// then.
    fn write_bytes(outcome: &Self::Outcome) -> (u64, bool);
    /// A write is durable, or is not. Gives whether nothing is left of the thing.
    fn apply(&mut self, outcome: Self::Outcome, result: Result<(), Self::Error>, now: Now) -> bool;
    /// Tells who waits for a write, where the thing is no longer here.
    fn answer(outcome: Self::Outcome, result: Result<(), Self::Error>);
    /// Tells who waits for something else than a write.
    fn refuse_waiting(&mut self, error: &Self::Error, now: Now);
    /// Everything that the log must hold of it.
    fn durable(&self) -> Vec<Written>;
    /// How many records these are.
    fn durable_count(&self) -> usize;
    /// Whether it has come to nothing, and the log knows nothing of it. It takes nothing on any more then.
    fn end_if_nothing(&mut self, now: Now) -> bool;
    /// These topics were deleted while the log was read.
    fn topics_deleted(&mut self, topics: &BTreeSet<TopicName>) -> Vec<(Written, Self::Outcome)>;
    /// The producer whose transaction a write is part of, if it is.
    fn transaction_of(_outcome: &Self::Outcome) -> Option<i64> {
        None
    }
    /// The producers whose open transactions have changed it.
    fn open_transactions(&self) -> Vec<i64> {
        Vec::new()
    }
    /// A marker in the log has ended a producer's transaction.
    fn transaction_ended(&mut self, producer: ProducerEpoch, committed: bool);

    /// Takes note of what the log says next.
    ///
    /// # Errors
    /// The bytes are not a record that can be read.
    fn load(loading: &mut Self::Loading, found: Found) -> Result<(), MalformedRecord>;
    /// Which partition of the topic keeps the thing of this id.
    fn partition_of(id: &str, partitions: usize) -> usize {
        partition_of(id, partitions)
    }
    /// What the log has said, at its end.
    fn loaded(loading: Self::Loading, config: &Arc<Self::Config>, now: Now) -> Vec<Self>;
}
