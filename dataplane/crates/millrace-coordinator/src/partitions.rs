//! Which partitions this broker serves: it loads those whose logs it gains, and resigns from
//! those that it loses.
//!
//! | partition | requests for what it keeps get |
//! |---|---|
//! | led elsewhere | `NotCoordinator` |
//! | gained, its log is being read | `CoordinatorLoading` |
//! | its log cannot be read | `CoordinatorNotAvailable` |
//! | its log has been read | their answer |
//!
//! Logs are compared by their ids, so that a partition that was lost and gained again between two
//! comparisons is resigned from and loaded again. Such a load waits until the writer of the former
//! shard has ended, because it has to read what that writer acknowledged last.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use millrace_model::TopicName;
use millrace_tasks::Supervisor;
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{OnceCell, Semaphore, mpsc, watch},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    LoadError,
    config::ID_BYTES_MAX,
    kept::{Kept, Unserved},
    load::{Loaded, load},
    log::{StateLog, StateTopic},
    shard::{Ground, Shard, WRITES_MAX},
    writer::Writer,
};

/// How long a start waits for the logs. Those that take longer, because the bucket does not answer or
/// they are long, are loaded while others are served.
const LOAD_WAIT: Duration = Duration::from_secs(10);

/// Reads of logs at one time while they are loaded: enough to hide a cold read's round trip.
const LOADS_MAX: usize = 8;

/// Deleted topics that one partition remembers while it is loaded. A deletion past it waits for the
/// load.
const DELETED_TOPICS_MAX: usize = 10_000;

/// See the module.
pub(crate) struct Partitions<K: Kept> {
    topic: Arc<dyn StateTopic>,
    ground: Ground<K>,
    supervisor: Supervisor,
    reads: Arc<Semaphore>,
    /// By index; `None` before the topic exists. A partition is gained, served and lost only while
    /// `work` is held.
    table: RwLock<Option<Vec<Partition<K>>>>,
    work: Mutex<Work>,
    /// How many partitions are being loaded.
    loading: watch::Sender<usize>,
    /// Set once what the logs of a start hold is served, as far as they could be read in time.
    started: OnceCell<()>,
}

#[derive(Default)]
struct Work {
    follower: Option<AbortOnDropHandle<()>>,
    loads: HashMap<usize, AbortOnDropHandle<()>>,
    /// Those of shards that resigned as well, until they have ended.
    writers: Vec<JoinHandle<()>>,
    closed: bool,
}

struct Partition<K: Kept> {
    /// The log, while this broker leads the partition. Kept so that no other log gets its id.
    log: Option<Arc<dyn StateLog>>,
    state: State<K>,
    /// Cancelled once the last writer has ended.
    settled: CancellationToken,
}

enum State<K: Kept> {
    Elsewhere,
    /// With the topics that were deleted meanwhile.
    Loading(BTreeSet<TopicName>),
    Unavailable,
    Serving(Arc<Shard<K>>),
}

impl<K: Kept> Partition<K> {
    fn new() -> Self {
        let settled = CancellationToken::new();
        settled.cancel();
        Self {
            log: None,
            state: State::Elsewhere,
            settled,
        }
    }

    fn has(&self, log: Option<&Arc<dyn StateLog>>) -> bool {
        self.log.as_ref().map(|log| log.id()) == log.map(|log| log.id())
    }

    fn serving(&self) -> Option<&Arc<Shard<K>>> {
        match &self.state {
            State::Serving(shard) => Some(shard),
            State::Elsewhere | State::Loading(_) | State::Unavailable => None,
        }
    }
}

impl<K: Kept> Partitions<K> {
    pub(crate) fn new(
        topic: Arc<dyn StateTopic>,
        ground: Ground<K>,
        supervisor: Supervisor,
    ) -> Arc<Self> {
        Arc::new(Self {
            topic,
            ground,
            supervisor,
            reads: Arc::new(Semaphore::new(LOADS_MAX)),
            table: RwLock::new(None),
            work: Mutex::default(),
            loading: watch::Sender::new(0),
            started: OnceCell::new(),
        })
    }

    /// Takes on the partitions that this broker leads now, and follows all changes. Returns once they are
    /// served, or [`LOAD_WAIT`] is over. Without the topic there is nothing to wait for.
    pub(crate) async fn open(self: &Arc<Self>) {
        self.follow();
        if self.exists() {
            self.started.get_or_init(|| self.wait_for_loads()).await;
        }
    }

    /// Makes sure that the topic exists; what the partitions that this broker leads hold is served once this
    /// has returned.
    pub(crate) async fn ready(self: &Arc<Self>) -> Result<(), LoadError> {
        let start = || async {
            self.create().await?;
            self.wait_for_loads().await;
            Ok(())
        };
        self.started.get_or_try_init(start).await.copied()
    }

    async fn wait_for_loads(&self) {
        let what = K::NAMES.what;
        if timeout(LOAD_WAIT, self.loads_ended()).await.is_err() {
            tracing::warn!("not all {what} could be loaded in time; the others are served");
        }
        let serving = self.serving();
        let count: usize = serving.iter().map(|shard| shard.cells().len()).sum();
        tracing::info!(count, partitions = serving.len(), "{what} loaded");
    }

    fn follow(self: &Arc<Self>) {
        // Subscribed first, so that no change is missed.
        let changes = self.topic.changes();
        self.reconcile();
        let following = follow(Arc::downgrade(self), changes);
        let task = K::NAMES.load;
        let following = self.supervisor.spawn(task, following);
        self.work.lock().follower = Some(AbortOnDropHandle::new(following));
    }

    async fn create(self: &Arc<Self>) -> Result<(), LoadError> {
        let created = self.topic.create().await;
        let topic = K::NAMES.topic;
        created.map_err(|fault| LoadError::Create { topic, fault })?;
        self.reconcile();
        Ok(())
    }

    /// Starts to load what was gained, and resigns from what was lost.
    fn reconcile(self: &Arc<Self>) {
        // Held while the topic is asked, so that an older answer never replaces a newer one.
        let mut work = self.work.lock();
        if work.closed {
            return;
        }
        let logs = self.topic.partitions();
        let mut resigning = Vec::new();
        {
            let mut table = self.table.write();
            if let Some(logs) = &logs {
                table.get_or_insert_with(|| logs.iter().map(|_| Partition::new()).collect());
            }
            let mut logs = logs.into_iter().flatten();
            for (index, partition) in table.iter_mut().flatten().enumerate() {
                let log = logs.next().flatten();
                if partition.has(log.as_ref()) {
                    continue;
                }
                work.loads.remove(&index);
                let state = match &log {
                    None => State::Elsewhere,
                    Some(log) => {
                        let load = self.start_load(index, log, partition.settled.clone());
                        work.loads.insert(index, load);
                        State::Loading(BTreeSet::new())
                    }
                };
                partition.log = log;
                if let State::Serving(shard) = std::mem::replace(&mut partition.state, state) {
                    resigning.push((index, shard));
                }
            }
        }
        self.loading.send_replace(work.loads.len());
        for (partition, shard) in resigning {
            let count = shard.resign();
            let what = K::NAMES.what;
            tracing::info!(partition, count, "resigned as coordinator of {what}");
        }
    }

    fn start_load(
        self: &Arc<Self>,
        index: usize,
        log: &Arc<dyn StateLog>,
        settled: CancellationToken,
    ) -> AbortOnDropHandle<()> {
        let (partitions, log) = (Arc::downgrade(self), Arc::clone(log));
        let (reads, ground) = (Arc::clone(&self.reads), self.ground.clone());
        let task = K::NAMES.load;
        let loading = self.supervisor.spawn(task, async move {
            settled.cancelled().await;
            let loaded = load(index, &*log, &reads, &ground).await;
            if let Some(partitions) = partitions.upgrade() {
                partitions.loaded(index, &log, loaded);
            }
        });
        AbortOnDropHandle::new(loading)
    }

    /// Serves the groups of a log that has been read, unless the partition was lost meanwhile.
    fn loaded(&self, index: usize, log: &Arc<dyn StateLog>, loaded: Result<Loaded<K>, LoadError>) {
        let mut work = self.work.lock();
        let is_current = |partition: &Partition<K>| partition.has(Some(log));
        let current = self
            .table
            .read()
            .iter()
            .flatten()
            .nth(index)
            .is_some_and(is_current);
        if work.closed || !current {
            return;
        }
        let (state, settled) = match loaded {
            Ok(loaded) => {
                let settled = CancellationToken::new();
                let shard = self.serve(&mut work, log, loaded, settled.clone());
                (State::Serving(shard), Some(settled))
            }
            // Nothing may be served from a part of its state.
            Err(error) => {
                tracing::error!(%error, "the {} of this partition are not available", K::NAMES.what);
                (State::Unavailable, None)
            }
        };
        self.replace_loading(index, state, settled);
        // This task's own; nothing is left for it to do.
        work.loads.remove(&index);
        self.loading.send_replace(work.loads.len());
    }

    fn replace_loading(&self, index: usize, state: State<K>, settled: Option<CancellationToken>) {
        let mut table = self.table.write();
        let Some(partition) = table.iter_mut().flatten().nth(index) else {
            return;
        };
        let before = std::mem::replace(&mut partition.state, state);
        partition.settled = settled.unwrap_or_else(|| partition.settled.clone());
        let shard = partition.serving().cloned();
        drop(table);
        // Later deletions find the shard in the table.
        if let (State::Loading(deleted), Some(shard)) = (before, shard)
            && !deleted.is_empty()
        {
            shard.topics_deleted(&deleted);
        }
    }

    fn serve(
        &self,
        work: &mut Work,
        log: &Arc<dyn StateLog>,
        loaded: Loaded<K>,
        settled: CancellationToken,
    ) -> Arc<Shard<K>> {
        let (writes, queue) = mpsc::channel(WRITES_MAX);
        let Loaded {
            kept,
            records,
            aborts,
        } = loaded;
        let shard = Shard::new(self.ground.clone(), log.epoch(), kept, writes);
        let (ground, log) = (self.ground.clone(), Arc::clone(log));
        let writer = Writer::new(shard.clone(), ground, log, queue, (records, aborts));
        let task = K::NAMES.writer;
        let writing = self.supervisor.spawn(task, async move {
            let _settled = settled.drop_guard();
            writer.run().await;
        });
        work.writers.retain(|writer| !writer.is_finished());
        work.writers.push(writing);
        shard
    }

    /// Whether the topic exists, as far as this broker has seen.
    fn exists(&self) -> bool {
        self.table.read().is_some()
    }

    /// The shards whose groups are served.
    pub(crate) fn serving(&self) -> Vec<Arc<Shard<K>>> {
        let table = self.table.read();
        let serving = table.iter().flatten().filter_map(Partition::serving);
        serving.cloned().collect()
    }

    /// The shard of a partition.
    pub(crate) fn shard_at(&self, index: usize) -> Result<Arc<Shard<K>>, K::Error> {
        let table = self.table.read();
        let partitions = table.as_ref().ok_or(Unserved::NotAvailable)?;
        Self::serving_at(partitions, index)
    }

    fn serving_at(partitions: &[Partition<K>], index: usize) -> Result<Arc<Shard<K>>, K::Error> {
        match partitions.get(index).map(|partition| &partition.state) {
            Some(State::Serving(shard)) => Ok(Arc::clone(shard)),
            Some(State::Loading(_)) => Err(Unserved::Loading.into()),
            Some(State::Elsewhere) => Err(Unserved::NotCoordinator.into()),
            Some(State::Unavailable) | None => Err(Unserved::NotAvailable.into()),
        }
    }

    /// The shard that keeps the thing of this id, by Kafka's rule. An empty id is legal for offsets alone.
    pub(crate) fn shard(&self, id: &str) -> Result<Arc<Shard<K>>, K::Error> {
        if id.len() > ID_BYTES_MAX {
            return Err(Unserved::InvalidId.into());
        }
        let table = self.table.read();
        let partitions = table.as_ref().ok_or(Unserved::NotAvailable)?;
        Self::serving_at(partitions, K::partition_of(id, partitions.len()))
    }

    /// Whether logs are being read.
    pub(crate) fn is_loading(&self) -> bool {
        *self.loading.borrow() > 0
    }

    /// Resolves once no log is being read.
    async fn loads_ended(&self) {
        let mut loading = self.loading.subscribe();
        // The sender lives in `self`, so it is there for as long as this waits.
        drop(loading.wait_for(|loading| *loading == 0).await);
    }

    /// Tells what is being loaded, once it has been, that these topics are gone.
    pub(crate) async fn topics_deleted_in_loads(&self, topics: &BTreeSet<TopicName>) {
        let mut loading = self.loading.subscribe();
        while !self.remember_deleted(topics) {
            drop(loading.changed().await);
        }
    }

    /// Tells all loads under way that these topics are gone. False where one cannot remember more.
    fn remember_deleted(&self, topics: &BTreeSet<TopicName>) -> bool {
        let mut all = true;
        for partition in self.table.write().iter_mut().flatten() {
            if let State::Loading(deleted) = &mut partition.state {
                let new: Vec<TopicName> = topics.difference(deleted).cloned().collect();
                let room = DELETED_TOPICS_MAX.saturating_sub(deleted.len());
                all &= new.len() <= room;
                deleted.extend(new.into_iter().take(room));
            }
        }
        all
    }

    /// Ends all loads, stops taking writes and waits until those taken are durable and answered.
    pub(crate) async fn close(&self) {
        let writers = {
            let mut work = self.work.lock();
            work.closed = true;
            work.follower = None;
            // What has not been loaded never is; `loading` goes on saying so.
            work.loads.clear();
            std::mem::take(&mut work.writers)
        };
        for shard in self.serving() {
            shard.close();
        }
        for writer in writers {
            // A writer that panicked has answered nobody; there is nothing left to wait for.
            drop(writer.await);
        }
    }
}

/// Reconciles after every change of the topic, until nobody is left to change it.
async fn follow<K: Kept>(partitions: Weak<Partitions<K>>, mut changes: watch::Receiver<u64>) {
    while changes.changed().await.is_ok() {
        let Some(partitions) = partitions.upgrade() else {
            return;
        };
        partitions.reconcile();
    }
}

/// Which partition of an internal topic keeps a group or a transactional id: Java's `String.hashCode` without its sign
/// bit, as in Kafka, so that tools that look into the topic find it where they expect it.
#[must_use]
pub fn partition_of(id: &str, partitions: usize) -> usize {
    let positive = usize::try_from(java_hash(id) & i32::MAX).unwrap_or(0);
    positive % partitions.max(1)
}

/// Which partition of `__share_group_state` keeps a share partition, by its
/// [key](crate::SharePartition::coordinator_key): the absolute value of Java's `String.hashCode`, as in Kafka.
#[must_use]
pub fn share_partition_of(key: &str, partitions: usize) -> usize {
    // The least number has no absolute value; Kafka takes 0 for it.
    let absolute = java_hash(key).checked_abs().unwrap_or(0);
    usize::try_from(absolute).unwrap_or(0) % partitions.max(1)
}

/// Java's `String.hashCode`.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}
