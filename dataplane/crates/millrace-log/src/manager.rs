//! All topics of the broker.

mod cleaning;
mod leadership;
mod opening;
mod registry;
mod retention;

use std::{collections::BTreeMap, convert::Infallible, fmt, sync::Arc, time::Duration};

use futures_util::{StreamExt, TryStreamExt, stream};
use millrace_budget::Budget;
use millrace_meta::{self as meta, MetaStore, NewTopic, PartitionStreams};
use millrace_model::{
    Cause, StreamId, TopicId, TopicName, TopicPartition, limits::TOPIC_PARTITIONS_MAX,
};
use millrace_stream::StreamStore;
use millrace_tasks::{Supervisor, Task};
use millrace_time::{SharedClock, SharedRandom};
use tokio::{sync::Notify, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use self::{cleaning::Cleaner, leadership::Following, opening::Opening, registry::Registry};
pub use self::{
    cleaning::{
        CompactionFailure, CompactionReport, CompactionRun, CompactionTotals, WaitingPartition,
    },
    leadership::Shared,
};
use crate::{
    SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC,
    config::{InvalidTopicConfig, LogDefaults, TopicConfig},
    error::{
        CreatePartitionsError, CreateTopicError, DeleteTopicError, OpenError, SetTopicConfigsError,
        TooManyPartitions,
    },
    partition::{DeletionMetrics, PartitionLog, PartitionParts, Patience},
    producers::PRODUCER_BYTES,
    replay_debt::ReplayDebt,
    topic::{Partition, Topic},
};

/// What is allowed for a partition, bytes. An empty one takes about 2 KiB (measured with 10,000); its
/// time index, its segments and its ranges in the metadata index grow with its
/// data.
pub const PARTITION_BYTES: u64 = 32 * 1024;

/// Partitions that are opened at the same time: enough to hide the round trip to the bucket that
/// each may need for its checkpoint.
const OPENS_AT_ONCE: usize = 64;

/// Streams that one metadata transaction opens: bounds how long it blocks others.
const STREAMS_PER_TRANSACTION: usize = 512;

/// Checkpoints that are written at the same time.
const CHECKPOINTS_AT_ONCE: usize = 8;

/// How long closing waits for the last checkpoints; they only save work.
const CLOSE_WAIT: Duration = Duration::from_secs(20);

/// Pause between two looks at which checkpoints are due by age.
const CHECKPOINT_TICK: Duration = Duration::from_secs(5);

/// What the logs are built on.
pub struct LogParts {
    /// Where topics are recorded.
    pub meta: Arc<dyn MetaStore>,
    /// Where their bytes are.
    pub store: StreamStore,
    /// Time.
    pub clock: SharedClock,
    /// Randomness, for topic ids.
    pub random: SharedRandom,
    /// Supervises the tasks of all logs.
    pub tasks: Supervisor,
    /// The broker's defaults.
    pub defaults: LogDefaults,
    /// The other brokers of the cluster; `None` where the broker is alone.
    pub shared: Option<Shared>,
}

/// What the logs hold, and what they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogMetrics {
    /// Partitions of all topics.
    pub partitions: u64,
    /// [`LogDefaults::partitions_max`]
    pub partitions_max: u64,
    /// Producers whose sequences are remembered, counted in each partition.
    pub producers: u64,
    /// [`LogDefaults::producer_ids_max`]
    pub producers_max: u64,
}

/// All topics of the broker. Cheap to clone. Dropping the last clone without [`LogManager::close`]
/// leaves the logs as a crash would.
#[derive(Debug, Clone)]
pub struct LogManager {
    inner: Arc<Inner>,
    _tasks: Arc<[AbortOnDropHandle<()>; 9]>,
}

struct Inner {
    meta: Arc<dyn MetaStore>,
    store: StreamStore,
    clock: SharedClock,
    random: SharedRandom,
    defaults: LogDefaults,
    registry: Registry,
    debt: Arc<ReplayDebt>,
    deletions: Arc<DeletionMetrics>,
    cleaner: Cleaner,
    /// What the producers of all partitions may cost.
    producer_memory: Budget,
    /// Held while topics are created, changed, opened or deleted: one at a time. Nobody waits for the
    /// bucket with it.
    changing: tokio::sync::Mutex<()>,
    /// Told of each topic that is to be opened once it is backed up.
    recorded: Notify,
    /// `None` where the broker is alone.
    following: Option<Following>,
    tasks: Supervisor,
}

impl LogManager {
    /// Opens all partitions, many at a time. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// See [`OpenError`]. A partition whose stored state is corrupt or missing, or in a bucket that does
    /// not answer, fails nothing else: it is offline, and [`LogManager::offline_partitions`] says why.
    /// What the bucket did not give is tried again until it does.
    pub async fn open(parts: LogParts) -> Result<Self, OpenError> {
        let LogParts {
            meta,
            store,
            clock,
            random,
            tasks,
            defaults,
            shared,
        } = parts;
        // With others, the feed of changes brings the topics.
        let topics = match shared {
            Some(_) => Vec::new(),
            None => meta.topics().await?,
        };
        let registry = Registry::default();
        let changing = tokio::sync::Mutex::new(());
        let producer_bytes = defaults.producer_ids_max.saturating_mul(PRODUCER_BYTES);
        let inner = Arc::new(Inner {
            producer_memory: Budget::new(producer_bytes),
            meta,
            store,
            clock,
            random,
            defaults,
            registry,
            debt: Arc::default(),
            deletions: Arc::new(DeletionMetrics::new()),
            cleaner: Cleaner::new(),
            changing,
            recorded: Notify::new(),
            following: shared.map(Following::new),
            tasks: tasks.clone(),
        });
        inner.open_topics(topics).await?;
        let shared = || Arc::clone(&inner);
        let handles = [
            tasks.spawn(Task::LogCheckpoint, checkpoint_for_ever(shared())),
            tasks.spawn(Task::LogRetention, retention::retain_for_ever(shared())),
            tasks.spawn_background(Task::LogCompaction, cleaning::clean_for_ever(shared())),
            tasks.spawn(Task::LogMeasure, retention::measure_for_ever(shared())),
            tasks.spawn(Task::TopicOpening, opening::open_for_ever(shared())),
            tasks.spawn(Task::PartitionReopening, opening::reopen_for_ever(shared())),
            tasks.spawn(
                Task::LedPartitionOpening,
                leadership::open_for_ever(shared()),
            ),
            tasks.spawn(Task::StreamRelease, leadership::release_for_ever(shared())),
            tasks.spawn(Task::PartitionMove, leadership::move_for_ever(shared())),
        ];
        Ok(Self {
            inner,
            _tasks: Arc::new(handles.map(AbortOnDropHandle::new)),
        })
    }

    /// The broker's defaults.
    #[must_use]
    pub fn defaults(&self) -> &LogDefaults {
        &self.inner.defaults
    }

    /// Creates a topic; `partitions` of `None` means the default. Resolves once the topic is served.
    ///
    /// # Errors
    /// See [`CreateTopicError`].
    pub async fn create_topic(
        &self,
        name: &TopicName,
        partitions: Option<u32>,
        configs: BTreeMap<String, String>,
    ) -> Result<Arc<Topic>, CreateTopicError> {
        let served = self.begin_create_topic(name, partitions, configs).await?;
        served.await
    }

    /// Creates a topic in the metadata, which takes a moment. The future that this gives resolves once
    /// the topic is served, which takes the bucket; without it, that happens all the same.
    ///
    /// # Errors
    /// See [`CreateTopicError`].
    pub async fn begin_create_topic(
        &self,
        name: &TopicName,
        partitions: Option<u32>,
        configs: BTreeMap<String, String>,
    ) -> Result<
        impl Future<Output = Result<Arc<Topic>, CreateTopicError>> + Send + use<>,
        CreateTopicError,
    > {
        let _one_at_a_time = self.inner.changing.lock().await;
        match self.validate_topic(name, partitions, &configs) {
            // Recorded, and not served yet: whoever asks again waits for it as well.
            Err(CreateTopicError::Exists(_)) if self.topic(name).is_none() => {}
            valid => valid?,
        }
        let id = uuid::Builder::from_random_bytes(self.inner.random.next_bytes16()).into_uuid();
        let topic = NewTopic {
            name: name.clone(),
            id: TopicId(id),
            partitions: partitions.unwrap_or(self.inner.defaults.num_partitions),
            configs,
        };
        let (opening, exists) = match self.inner.meta.create_topic(topic).await {
            Ok(created) => (Some(self.inner.open_later(created)), false),
            Err(meta::CreateTopicError::Exists(name)) => (self.inner.unserved(&name).await?, true),
            Err(meta::CreateTopicError::Partitions { asked, max }) => {
                let requested = asked;
                return Err(CreateTopicError::InvalidPartitions { requested, max });
            }
            Err(meta::CreateTopicError::Store(failure)) => {
                return Err(CreateTopicError::Meta(failure));
            }
        };
        let name = name.clone();
        Ok(async move {
            let served = match opening {
                Some(opening) => opening.served().await?,
                None => None,
            };
            match served {
                _ if exists => Err(CreateTopicError::Exists(name)),
                Some(topic) => Ok(topic),
                None => Err(CreateTopicError::NotBackedUp(name)),
            }
        })
    }

    /// Checks what [`LogManager::create_topic`] would check and creates nothing.
    ///
    /// # Errors
    /// See [`CreateTopicError`].
    pub fn validate_topic(
        &self,
        name: &TopicName,
        partitions: Option<u32>,
        configs: &BTreeMap<String, String>,
    ) -> Result<(), CreateTopicError> {
        if self.inner.registry.partitions_of(name) > 0 {
            return Err(CreateTopicError::Exists(name.clone()));
        }
        let (requested, max) = (
            partitions.unwrap_or(self.inner.defaults.num_partitions),
            TOPIC_PARTITIONS_MAX,
        );
        if requested == 0 || requested > max {
            return Err(CreateTopicError::InvalidPartitions { requested, max });
        }
        // Coordinators cannot do without their topics, however many partitions there are.
        if !crate::is_internal(name.as_str()) {
            self.inner.check_partitions(requested)?;
        }
        self.validate_topic_configs(configs)?;
        Ok(())
    }

    /// An internal topic, created when it is missing.
    ///
    /// # Errors
    /// See [`CreateTopicError`].
    pub async fn internal_topic(&self, name: &str) -> Result<Arc<Topic>, CreateTopicError> {
        let defaults = &self.inner.defaults;
        let partitions = match name {
            TRANSACTION_STATE_TOPIC => defaults.transaction_topic_partitions,
            SHARE_GROUP_STATE_TOPIC => defaults.share_state_topic_partitions,
            _ => defaults.offsets_topic_partitions,
        };
        let name = TopicName::new(name).expect("Kafka's own names are legal");
        // The coordinator compacts it itself; tools like to see the policy.
        let configs = BTreeMap::from([("cleanup.policy".to_owned(), "compact".to_owned())]);
        match self.topic(&name) {
            Some(topic) => Ok(topic),
            None => match self.create_topic(&name, Some(partitions), configs).await {
                // Someone else was faster.
                Err(CreateTopicError::Exists(_)) => {
                    self.topic(&name).ok_or(CreateTopicError::Exists(name))
                }
                created => created,
            },
        }
    }

    /// Grows a topic to `total` partitions. Resolves once all are served.
    ///
    /// # Errors
    /// See [`CreatePartitionsError`].
    pub async fn create_partitions(
        &self,
        name: &TopicName,
        total: u32,
    ) -> Result<Arc<Topic>, CreatePartitionsError> {
        self.begin_create_partitions(name, total).await?.await
    }

    /// Grows a topic in the metadata, which takes a moment. The future that this gives resolves once all
    /// partitions are served, which takes the bucket; without it, that happens all the same.
    ///
    /// # Errors
    /// See [`CreatePartitionsError`].
    pub async fn begin_create_partitions(
        &self,
        name: &TopicName,
        total: u32,
    ) -> Result<
        impl Future<Output = Result<Arc<Topic>, CreatePartitionsError>> + Send + use<>,
        CreatePartitionsError,
    > {
        let _one_at_a_time = self.inner.changing.lock().await;
        let max = TOPIC_PARTITIONS_MAX;
        self.validate_growth(name, total)?;
        let grown = self.inner.meta.create_partitions(name, total).await;
        let grown = grown.map_err(|error| match error {
            meta::CreatePartitionsError::Unknown(name) => CreatePartitionsError::UnknownTopic(name),
            meta::CreatePartitionsError::NotMore { current, asked } => {
                CreatePartitionsError::InvalidTotal {
                    current,
                    requested: asked,
                    max,
                }
            }
            meta::CreatePartitionsError::TooMany { asked, max } => {
                let current = self.topic(name).map_or(0, |topic| topic.partitions.len());
                let current = u32::try_from(current).unwrap_or(max);
                CreatePartitionsError::InvalidTotal {
                    current,
                    requested: asked,
                    max,
                }
            }
            meta::CreatePartitionsError::Store(failure) => CreatePartitionsError::Meta(failure),
        })?;
        let (opening, name) = (self.inner.open_later(grown), name.clone());
        Ok(async move {
            let served = opening.served().await?;
            served.ok_or(CreatePartitionsError::NotBackedUp(name))
        })
    }

    /// Checks whether there may be as many partitions as [`LogManager::create_partitions`] would make,
    /// and makes none.
    ///
    /// # Errors
    /// There would be too many.
    pub fn validate_growth(&self, name: &TopicName, total: u32) -> Result<(), TooManyPartitions> {
        let current = self.inner.registry.partitions_of(name);
        let current = u32::try_from(current).unwrap_or(u32::MAX);
        self.inner.check_partitions(total.saturating_sub(current))
    }

    /// A topic, served or not yet, whose name differs from `name` only in dots and underscores. Kafka's
    /// metrics write one as the other.
    #[must_use]
    pub fn colliding_topic(&self, name: &TopicName) -> Option<TopicName> {
        let folded = |name: &TopicName| name.as_str().replace('.', "_");
        let own = folded(name);
        let collides = |other: &TopicName| other != name && folded(other) == own;
        self.inner.registry.find_name(collides)
    }

    /// What the logs hold, and what they may.
    #[must_use]
    pub fn metrics(&self) -> LogMetrics {
        let Inner {
            defaults,
            registry,
            producer_memory,
            ..
        } = &*self.inner;
        LogMetrics {
            partitions: registry.partitions(),
            partitions_max: defaults.partitions_max,
            producers: producer_memory.used() / PRODUCER_BYTES,
            producers_max: defaults.producer_ids_max,
        }
    }

    /// Replaces what a topic sets itself; it lives by that from now on, durably. Retention takes
    /// effect at its next check, all else with the next append.
    ///
    /// # Errors
    /// See [`SetTopicConfigsError`].
    pub async fn set_topic_configs(
        &self,
        name: &TopicName,
        overrides: BTreeMap<String, String>,
    ) -> Result<Arc<Topic>, SetTopicConfigsError> {
        let one_at_a_time = self.inner.changing.lock().await;
        let config = Arc::new(self.validate_topic_configs(&overrides)?);
        let unknown = || SetTopicConfigsError::UnknownTopic(name.clone());
        let known = self.topic(name).ok_or_else(unknown)?;
        let stored = self.inner.meta.set_topic_configs(name, overrides).await;
        let stored = stored.map_err(|error| match error {
            meta::TopicError::Unknown(name) => SetTopicConfigsError::UnknownTopic(name),
            meta::TopicError::Store(failure) => SetTopicConfigsError::Meta(failure),
        })?;
        if let Some(following) = &self.inner.following {
            drop(one_at_a_time);
            following.catch_up().await;
            return self.topic(name).ok_or_else(unknown);
        }
        for log in known.logs() {
            log.set_config(Arc::clone(&config));
        }
        Ok(self.inner.registry.insert(Topic {
            id: known.id,
            name: known.name.clone(),
            overrides: stored.configs,
            config,
            partitions: known.partitions.clone(),
        }))
    }

    /// Checks what [`LogManager::set_topic_configs`] would check and changes nothing.
    ///
    /// # Errors
    /// The first configuration that is unknown or has an illegal value.
    pub fn validate_topic_configs(
        &self,
        overrides: &BTreeMap<String, String>,
    ) -> Result<TopicConfig, InvalidTopicConfig> {
        TopicConfig::resolve(&self.inner.defaults, overrides)
    }

    /// Deletes a topic and frees its storage. Work on its partitions that is under way may still
    /// succeed; later work is refused as closed.
    ///
    /// # Errors
    /// See [`DeleteTopicError`].
    pub async fn delete_topic(&self, name: &TopicName) -> Result<(), DeleteTopicError> {
        let one_at_a_time = self.inner.changing.lock().await;
        let deleted = self
            .inner
            .meta
            .delete_topic(name)
            .await
            .map_err(|error| match error {
                meta::TopicError::Unknown(name) => DeleteTopicError::UnknownTopic(name),
                meta::TopicError::Store(failure) => DeleteTopicError::Meta(failure),
            })?;
        if let Some(following) = &self.inner.following {
            drop(one_at_a_time);
            following.catch_up().await;
            return Ok(());
        }
        if let Some(topic) = self.inner.registry.remove(name) {
            topic.logs().for_each(|log| log.shut());
        }
        self.inner
            .store
            .discard_streams(&streams_of(&deleted.partitions));
        retention::forget_size(name);
        Ok(())
    }

    /// All topics, by name.
    #[must_use]
    pub fn topics(&self) -> Vec<Arc<Topic>> {
        self.inner.registry.all()
    }

    /// One topic.
    #[must_use]
    pub fn topic(&self, name: &TopicName) -> Option<Arc<Topic>> {
        self.inner.registry.by_name(name)
    }

    /// One topic.
    #[must_use]
    pub fn topic_by_id(&self, id: TopicId) -> Option<Arc<Topic>> {
        self.inner.registry.by_id(id)
    }

    /// The partitions that did not open, and why.
    #[must_use]
    pub fn offline_partitions(&self) -> Vec<(TopicPartition, Cause)> {
        let topics = self.topics();
        let logs = topics.iter().flat_map(|topic| topic.logs());
        logs.filter_map(|log| Some((log.id().clone(), log.offline()?)))
            .collect()
    }

    /// One partition; `None` where this broker does not serve it.
    #[must_use]
    pub fn partition(&self, id: &TopicPartition) -> Option<Arc<PartitionLog>> {
        self.topic(&id.topic)?.log(id.partition as usize).cloned()
    }

    /// Whether there is such a partition, here or at another broker.
    #[must_use]
    pub fn exists(&self, id: &TopicPartition) -> bool {
        let topic = self.topic(&id.topic);
        topic.is_some_and(|topic| (id.partition as usize) < topic.partitions.len())
    }

    /// Writes a checkpoint of every partition that has changed since its last one, as happens by
    /// itself from time to time: whatever is covered need not be replayed by the next start.
    pub async fn checkpoint(&self) {
        self.inner
            .each_partition(|log| async move { log.checkpoint().await }, |_| true)
            .await;
    }

    /// Deletes the records that no retention keeps, as happens by itself every
    /// `log.retention.check.interval.ms`.
    pub async fn apply_retention(&self) {
        self.inner.apply_retention().await;
    }

    /// Compacts the logs that are due, as happens by itself every `log.cleaner.backoff.ms`.
    pub async fn compact_logs(&self) {
        self.inner.clean_due().await;
    }

    /// What log compaction does and has done since the start.
    #[must_use]
    pub fn compaction(&self) -> CompactionReport {
        self.inner.compaction_report()
    }

    /// Refuses further appends and writes the last checkpoints, within bounds. The stream store is
    /// closed after this. What cannot be written is replayed by the next start.
    pub async fn close(&self) {
        for topic in self.inner.registry.all() {
            topic.logs().for_each(|log| log.shut());
        }
        let closing = self
            .inner
            .each_partition(|log| async move { log.close().await }, |_| true);
        if timeout(CLOSE_WAIT, closing).await.is_err() {
            tracing::warn!("not all checkpoints were written in time; the next start replays more");
        }
    }
}

impl Inner {
    /// Whether there may be `asked` partitions more.
    fn check_partitions(&self, asked: u32) -> Result<(), TooManyPartitions> {
        let (have, asked) = (self.registry.partitions(), u64::from(asked));
        let max = self.defaults.partitions_max;
        if have + asked <= max {
            return Ok(());
        }
        metrics::counter!("millrace_bound_refusals_total", "bound" => "partitions").increment(1);
        Err(TooManyPartitions { have, asked, max })
    }

    /// Opens what the metadata says exists: first all streams, in few transactions, then all
    /// partitions.
    async fn open_topics(&self, topics: Vec<meta::Topic>) -> Result<(), OpenError> {
        let streams: Vec<StreamId> = topics
            .iter()
            .flat_map(|topic| streams_of(&topic.partitions))
            .collect();
        self.open_streams(&streams).await?;
        let patience = Patience::of_start();
        stream::iter(topics)
            .map(Ok)
            .try_for_each_concurrent(OPENS_AT_ONCE, async |topic| {
                self.open_topic(topic, &patience).await.map(|_| ())
            })
            .await
    }

    /// Opens streams in few transactions of the metadata; those that are open already cost none.
    async fn open_streams(&self, streams: &[StreamId]) -> Result<(), OpenError> {
        for chunk in streams.chunks(STREAMS_PER_TRANSACTION) {
            self.store.open_streams(chunk).await?;
        }
        Ok(())
    }

    /// A topic that is recorded and not served: its creation waits, or was broken off half-way.
    async fn unserved(self: &Arc<Self>, name: &TopicName) -> Result<Option<Opening>, OpenError> {
        let topics = self.meta.topics().await?;
        let topic = topics.into_iter().find(|topic| topic.name == *name);
        Ok(topic.map(|topic| self.open_later(topic)))
    }

    /// Opens the partitions of `topic` that are not open yet, and makes it known.
    async fn open_topic(
        &self,
        topic: meta::Topic,
        patience: &Patience,
    ) -> Result<Arc<Topic>, OpenError> {
        let known = self
            .registry
            .by_name(&topic.name)
            .filter(|known| known.id == topic.id);
        let mut partitions = known
            .as_ref()
            .map_or_else(Vec::new, |known| known.partitions.clone());
        // Its configurations may have changed since it was recorded.
        let overrides = known.map_or(topic.configs, |known| known.overrides.clone());
        let config = Arc::new(self.stored_config(&topic.name, &overrides));
        let missing = &topic.partitions[partitions.len().min(topic.partitions.len())..];
        // One by one, 10,000 partitions would be 10,000 transactions, and longer than clients wait.
        let streams = streams_of(missing);
        self.open_streams(&streams).await?;
        let (name, id) = (&topic.name, topic.id);
        let opened: Vec<Partition> = stream::iter(missing.to_vec())
            .map(async |streams| {
                let config = (Arc::clone(&config), None);
                let log = self
                    .open_partition((name, id), streams, config, patience)
                    .await;
                log.map(|log| Partition::alone(streams, log))
            })
            .buffered(OPENS_AT_ONCE)
            .try_collect()
            .await?;
        partitions.extend(opened);
        Ok(self.registry.insert(Topic {
            id,
            name: topic.name,
            overrides,
            config,
            partitions,
        }))
    }

    /// What a topic lives by whose overrides are stored.
    fn stored_config(
        &self,
        topic: &TopicName,
        overrides: &BTreeMap<String, String>,
    ) -> TopicConfig {
        let (config, skipped) = TopicConfig::resolve_stored(&self.defaults, overrides);
        for error in skipped {
            tracing::warn!(%topic, %error, "a stored configuration has no effect any more");
        }
        config
    }

    async fn open_partition(
        &self,
        (topic, topic_id): (&TopicName, TopicId),
        streams: PartitionStreams,
        (config, leader_epoch): (Arc<TopicConfig>, Option<i32>),
        patience: &Patience,
    ) -> Result<Arc<PartitionLog>, OpenError> {
        let id = TopicPartition {
            topic: topic.clone(),
            partition: streams.index,
        };
        let data = self.store.open_stream(streams.data).await?;
        let meta = self.store.open_stream(streams.meta).await?;
        let parts = PartitionParts {
            id,
            topic_id,
            data,
            meta,
            config,
            leader_epoch,
            producer_expiration_ms: self.defaults.producer_id_expiration_ms,
            producer_memory: self.producer_memory.clone(),
            aborted_bounds: self.defaults.aborted_transactions,
            clock: Arc::clone(&self.clock),
            debt: Arc::clone(&self.debt),
            deletions: Arc::clone(&self.deletions),
            tasks: self.tasks.clone(),
        };
        PartitionLog::open(parts, patience).await
    }

    /// Works on the partitions that `wanted` names, some at a time; what fails is only told.
    async fn each_partition<E, F>(
        &self,
        work: impl Fn(Arc<PartitionLog>) -> F,
        wanted: impl Fn(&PartitionLog) -> bool,
    ) where
        E: fmt::Display,
        F: Future<Output = Result<(), E>>,
    {
        let topics = self.registry.all();
        let partitions = topics.iter().flat_map(|topic| topic.logs());
        stream::iter(partitions.filter(|partition| wanted(partition)))
            .for_each_concurrent(CHECKPOINTS_AT_ONCE, |partition| async {
                if let Err(error) = work(Arc::clone(partition)).await {
                    tracing::warn!(partition = %partition.id(), %error, "no checkpoint written");
                }
            })
            .await;
    }
}

/// The first look is at once: a broker that dies soon after each start, over and over, would else
/// replay more at every one.
async fn checkpoint_for_ever(inner: Arc<Inner>) -> Infallible {
    loop {
        let topics = inner.registry.all();
        let partitions = topics.iter().map(|topic| topic.logs().count()).sum();
        let bytes_max = inner.debt.due_from(partitions);
        let write = |log: Arc<PartitionLog>| async move { log.checkpoint().await };
        inner
            .each_partition(write, |log| log.checkpoint_is_due(bytes_max))
            .await;
        // Either way it is time to look again.
        let _ = timeout(CHECKPOINT_TICK, inner.debt.grown()).await;
    }
}

fn streams_of(partitions: &[PartitionStreams]) -> Vec<StreamId> {
    partitions
        .iter()
        .flat_map(|partition| [partition.data, partition.meta])
        .collect()
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogManager")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}
