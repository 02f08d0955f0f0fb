//! A transactional id as shards keep it: what its writes do, and how its log is read back.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use millrace_log::TRANSACTION_STATE_TOPIC;
use millrace_model::{TopicName, TopicPartition};
use millrace_tasks::Task;

use super::{
    NO_EPOCH, Reply, Transaction,
    ending::Endings,
    messages::{TransactionConfig, TransactionError},
    record::{Metadata, decode_key, encode_key},
};
use crate::{
    kept::{Found, Kept, Names, Now, ProducerEpoch, Unserved, Written},
    records::MalformedRecord,
};

/// What an id costs with nothing in it, bytes: its state, its lock, its alarm, its place in the shard.
const ID_BYTES: u64 = 1_024;
/// What a partition of a transaction costs, bytes. Its topic's name is shared.
const PARTITION_BYTES: u64 = 96;

/// What transactions share.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(super) config: TransactionConfig,
    /// Those whose markers are to be written.
    pub(super) endings: Endings,
}

/// What a write is about.
pub(crate) enum Outcome {
    /// What the log holds from then on, the epoch before, and who waits for it.
    Change(Box<(Metadata, i16, Reply)>),
    /// The id is forgotten.
    Forget,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change(change) => f.debug_tuple("Change").field(&change.0).finish(),
            Self::Forget => f.write_str("Forget"),
        }
    }
}

impl From<Unserved> for TransactionError {
    fn from(reason: Unserved) -> Self {
        match reason {
            Unserved::Loading => Self::CoordinatorLoading,
            Unserved::NotAvailable => Self::CoordinatorNotAvailable,
            Unserved::NotCoordinator => Self::NotCoordinator,
            Unserved::InvalidId => Self::InvalidRequest,
            Unserved::TooMany | Unserved::MemoryFull => Self::NoRoom,
        }
    }
}

/// What partitions cost, in bytes.
pub(super) fn partitions_bytes(partitions: &BTreeSet<TopicPartition>) -> u64 {
    partitions.len() as u64 * PARTITION_BYTES
}

impl Kept for Transaction {
    type Config = Settings;
    type Error = TransactionError;
    type Outcome = Outcome;
    type Loading = HashMap<String, Metadata>;

    const NAMES: Names = Names {
        what: "transactions",
        topic: TRANSACTION_STATE_TOPIC,
        bounds: ["transactional_ids", "transaction_memory"],
        load: Task::TransactionLoad,
        writer: Task::TransactionWriter,
    };

    fn new(id: String, settings: Arc<Settings>, _now: Now) -> Self {
        Self {
            id,
            settings,
            stored: None,
            last_epoch: NO_EPOCH,
            is_writing: false,
            is_dead: false,
            writes: Vec::new(),
            late_at: None,
            wake_at: None,
        }
    }

    fn empty_bytes(id: &str) -> u64 {
        ID_BYTES + 2 * id.len() as u64
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn memory_bytes(&self) -> u64 {
        let stored = self.stored.as_ref();
        Self::empty_bytes(&self.id)
            + stored.map_or(0, |stored| partitions_bytes(&stored.partitions))
    }

    fn wake_at(&self) -> Option<Duration> {
        self.wake_at
    }

    fn expire(&mut self, now: Now) {
        self.wake_at = None;
        if self.ending().is_some() {
            // It was loaded so, or its end could not be written.
            self.settings.endings.push(&self.id);
        }
        self.abort_if_late(now);
    }

    fn take_writes(&mut self) -> Vec<(Written, Outcome)> {
        std::mem::take(&mut self.writes)
    }

    fn write_bytes(outcome: &Outcome) -> (u64, bool) {
        match outcome {
            // Held here, encoded, and copied into a batch that grows by doubling.
            Outcome::Change(change) => {
                (ID_BYTES + 4 * partitions_bytes(&change.0.partitions), false)
            }
            Outcome::Forget => (ID_BYTES, true),
        }
    }

    fn apply(&mut self, outcome: Outcome, result: Result<(), TransactionError>, now: Now) -> bool {
        match outcome {
            Outcome::Change(change) => {
                let (next, last_epoch, reply) = *change;
                self.is_writing = false;
                if result.is_ok() {
                    self.stored = Some(next);
                    self.last_epoch = last_epoch;
                    if self.ending().is_some() {
                        self.settings.endings.push(&self.id);
                    }
                    self.schedule(now);
                } else {
                    self.try_again_later(now);
                }
                reply.send(result);
                false
            }
            Outcome::Forget => {
                self.is_dead = result.is_ok();
                result.is_ok()
            }
        }
    }

    fn answer(outcome: Outcome, result: Result<(), TransactionError>) {
        if let Outcome::Change(change) = outcome {
            change.2.send(result);
        }
    }

    fn refuse_waiting(&mut self, _error: &TransactionError, _now: Now) {
        // Everybody waits for a write.
    }

    fn durable(&self) -> Vec<Written> {
        let stored = self.stored.as_ref().filter(|_| !self.is_dead);
        let record = stored.map(|stored| (encode_key(&self.id), Some(stored.encode())));
        vec![Written::Records(record.into_iter().collect())]
    }

    fn durable_count(&self) -> usize {
        usize::from(self.stored.is_some())
    }

    fn end_if_nothing(&mut self, _now: Now) -> bool {
        let is_nothing = self.stored.is_none() && !self.is_writing;
        self.is_dead |= is_nothing;
        is_nothing
    }

    fn topics_deleted(&mut self, _topics: &BTreeSet<TopicName>) -> Vec<(Written, Outcome)> {
        // Markers find out that a partition is gone.
        Vec::new()
    }

    fn transaction_ended(&mut self, _producer: ProducerEpoch, _committed: bool) {
        // Nothing is written to this topic in transactions.
    }

    fn load(loading: &mut Self::Loading, found: Found) -> Result<(), MalformedRecord> {
        let (Found::Record(_, record) | Found::Copy(record)) = found else {
            return Ok(());
        };
        if let Some(id) = decode_key(&record.key.unwrap_or_default())? {
            match record.value {
                Some(value) => drop(loading.insert(id, Metadata::decode(&value)?)),
                None => drop(loading.remove(&id)),
            }
        }
        Ok(())
    }

    fn loaded(loading: Self::Loading, settings: &Arc<Settings>, now: Now) -> Vec<Self> {
        let loaded = |(id, stored): (String, Metadata)| {
            let mut transaction = Self::new(id, Arc::clone(settings), now);
            transaction.stored = Some(stored);
            transaction.schedule(now);
            if transaction.ending().is_some() {
                // Once the shard serves.
                transaction.wake_at = Some(now.at);
            }
            transaction
        };
        loading.into_iter().map(loaded).collect()
    }
}
