//! A share partition as shards keep it: what its writes do, and how its log is read back.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use millrace_log::SHARE_GROUP_STATE_TOPIC;
use millrace_model::TopicName;
use millrace_tasks::Task;

use super::{
    Change, KeptPartition, Reply,
    messages::{ShareError, ShareStateConfig},
    record::{Kind, Snapshot, Update, decode_key, encode_key},
};
use crate::{
    kept::{Found, Kept, Names, Now, ProducerEpoch, Unserved, Written},
    partitions::share_partition_of,
    records::MalformedRecord,
    share_state::{SharePartition, ShareStateBatch},
    topics::SharedTopics,
};

/// What a share partition costs with nothing in it, bytes: its state, its lock, its place in the shard.
const PARTITION_BYTES: u64 = 1_024;

/// What share partitions share.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(super) config: ShareStateConfig,
    pub(super) topics: SharedTopics,
}

/// What a write is about, and who waits for it.
pub(crate) struct Outcome {
    pub(super) change: Change,
    pub(super) reply: Reply,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Outcome").field(&self.change).finish()
    }
}

/// What the log says of a share partition so far.
#[derive(Debug)]
pub(crate) struct LoadingPartition {
    state: Snapshot,
    updates: u32,
}

impl From<Unserved> for ShareError {
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

/// What batches cost, in bytes.
pub(super) fn batches_bytes(count: usize) -> u64 {
    count as u64 * size_of::<ShareStateBatch>() as u64
}

impl KeptPartition {
    pub(super) fn of(partition: SharePartition, settings: Arc<Settings>) -> Self {
        Self {
            id: partition.coordinator_key(),
            partition,
            settings,
            durable: None,
            latest: None,
            pending: 0,
            is_uncertain: false,
            updates: 0,
            is_dead: false,
            writes: Vec::new(),
        }
    }
}

impl Kept for KeptPartition {
    type Config = Settings;
    type Error = ShareError;
    type Outcome = Outcome;
    type Loading = HashMap<SharePartition, LoadingPartition>;

    const NAMES: Names = Names {
        what: "share partitions",
        topic: SHARE_GROUP_STATE_TOPIC,
        bounds: ["share_partitions", "share_state_memory"],
        load: Task::ShareStateLoad,
        writer: Task::ShareStateWriter,
    };

    fn new(id: String, settings: Arc<Settings>, _now: Now) -> Self {
        let partition = SharePartition::of_coordinator_key(&id);
        let partition = partition.expect("the ids of share partitions are their keys");
        Self::of(partition, settings)
    }

    fn empty_bytes(id: &str) -> u64 {
        PARTITION_BYTES + 3 * id.len() as u64
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn memory_bytes(&self) -> u64 {
        let states = [&self.durable, &self.latest].into_iter().flatten();
        let batches = states.map(|state| state.batches.len()).sum();
        Self::empty_bytes(&self.id) + batches_bytes(batches)
    }

    fn wake_at(&self) -> Option<Duration> {
        None
    }

    fn expire(&mut self, _now: Now) {
        // There is no alarm.
    }

    fn take_writes(&mut self) -> Vec<(Written, Outcome)> {
        std::mem::take(&mut self.writes)
    }

    fn write_bytes(outcome: &Outcome) -> (u64, bool) {
        let (batches, frees) = match &outcome.change {
            Change::Snapshot(snapshot) => (snapshot.batches.len(), false),
            Change::Update(update) => (update.batches.len(), false),
            Change::Delete => (0, true),
            Change::Nothing => (0, false),
        };
        // Held here, encoded, and copied into a batch that grows by doubling.
        (PARTITION_BYTES + 4 * batches_bytes(batches), frees)
    }

    fn apply(&mut self, outcome: Outcome, result: Result<(), ShareError>, _now: Now) -> bool {
        let Outcome { change, reply } = outcome;
        let result = match change {
            // It was judged by a change that the log does not have.
            Change::Nothing if self.is_uncertain => {
                result.and(Err(ShareError::CoordinatorNotAvailable))
            }
            _ => result,
        };
        self.settle(&change, result);
        reply.send(self.durable.as_ref(), result);
        let is_deleted = matches!(change, Change::Delete) && result.is_ok() && self.is_nothing();
        self.is_dead |= is_deleted;
        is_deleted
    }

    fn answer(outcome: Outcome, result: Result<(), ShareError>) {
        let result = match (&outcome.change, &outcome.reply) {
            // The state is no longer here, nor is it known whether the changes before have failed.
            (Change::Nothing, _) | (_, Reply::State(_)) => Err(ShareError::NotCoordinator),
            _ => result,
        };
        outcome.reply.send(None, result);
    }

    fn refuse_waiting(&mut self, _error: &ShareError, _now: Now) {
        // Everybody waits for a write.
    }

    fn durable(&self) -> Vec<Written> {
        let record = self.durable.as_ref().map(|durable| {
            let key = encode_key(Kind::Snapshot, &self.partition);
            (key, Some(durable.encode()))
        });
        vec![Written::Records(record.into_iter().collect())]
    }

    fn durable_count(&self) -> usize {
        usize::from(self.durable.is_some())
    }

    fn end_if_nothing(&mut self, _now: Now) -> bool {
        self.is_dead |= self.is_nothing();
        self.is_dead
    }

    fn topics_deleted(&mut self, _topics: &BTreeSet<TopicName>) -> Vec<(Written, Outcome)> {
        self.delete_if_orphaned();
        Vec::new()
    }

    fn transaction_ended(&mut self, _producer: ProducerEpoch, _committed: bool) {
        // Nothing is written to this topic in transactions.
    }

    fn load(loading: &mut Self::Loading, found: Found) -> Result<(), MalformedRecord> {
        let (Found::Record(_, record) | Found::Copy(record)) = found else {
            return Ok(());
        };
        let Some((kind, partition)) = decode_key(&record.key.unwrap_or_default())? else {
            return Ok(());
        };
        match (kind, record.value) {
            (Kind::Snapshot, Some(value)) => {
                let mut state = Snapshot::decode(&value)?;
                // Kafka writes no leader epoch when it initializes a share partition again, and still fences by the old one.
                if let Some(known) = loading.get(&partition) {
                    state.leader_epoch = state.leader_epoch.max(known.state.leader_epoch);
                }
                let loaded = LoadingPartition { state, updates: 0 };
                loading.insert(partition, loaded);
            }
            (Kind::Snapshot, None) => drop(loading.remove(&partition)),
            (Kind::Update, Some(value)) => {
                let update = Update::decode(&value)?;
                let known = loading
                    .entry(partition)
                    .or_insert_with(|| LoadingPartition {
                        state: Snapshot::before(&update, record.timestamp),
                        updates: 0,
                    });
                known.state.apply(&update);
                known.updates = known.updates.saturating_add(1);
            }
            (Kind::Update, None) => {}
        }
        Ok(())
    }

    fn loaded(loading: Self::Loading, settings: &Arc<Settings>, _now: Now) -> Vec<Self> {
        let loaded = |(partition, loaded): (SharePartition, LoadingPartition)| Self {
            durable: Some(loaded.state),
            updates: loaded.updates,
            ..Self::of(partition, Arc::clone(settings))
        };
        loading.into_iter().map(loaded).collect()
    }

    /// As in Kafka, which takes the absolute value of the hash here.
    fn partition_of(id: &str, partitions: usize) -> usize {
        share_partition_of(id, partitions)
    }
}
