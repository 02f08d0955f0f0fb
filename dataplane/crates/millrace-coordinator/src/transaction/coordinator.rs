//! The transaction coordinator as the rest of the broker sees it.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Weak, atomic::AtomicUsize},
    time::Duration,
};

use millrace_budget::Budget;
use millrace_log::TransactionMarker;
use millrace_model::{Cause, TopicPartition};
use millrace_purgatory::Timers;
use millrace_tasks::{Supervisor, Task};
use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::{
    MarkerWriter, NONE, ProducerEpoch, Step, Transaction,
    ending::{Endings, end_for_ever},
    kept::Settings,
    messages::{
        InitProducer, TRANSACTION_WRITES_BYTES_MAX, TRANSACTIONS_MAX, TransactionConfig,
        TransactionDescription, TransactionError, TransactionFilter, TransactionListing,
        TransactionMetrics, TransactionState, VerifiedPartitions,
    },
};
use crate::{
    LoadError,
    kept::Now,
    log::{BoxFuture, StateTopic},
    partitions::Partitions,
    pattern::whole_match,
    shard::{self, Ground, Refusals},
};

type Shard = shard::Shard<Transaction>;

/// Gives out producer ids, each once.
pub trait ProducerIdSource: fmt::Debug + Send + Sync + 'static {
    /// An id that nobody else has.
    ///
    /// # Errors
    /// The metadata store could not allocate a block of ids.
    fn next_id(&self) -> BoxFuture<'_, Result<i64, Cause>>;
}

/// What the coordinator is built on.
pub struct TransactionParts {
    /// The topic that keeps the transactions.
    pub topic: Arc<dyn StateTopic>,
    /// Producer ids.
    pub producer_ids: Arc<dyn ProducerIdSource>,
    /// Writes the ends of transactions.
    pub markers: Arc<dyn MarkerWriter>,
    /// Time.
    pub clock: SharedClock,
    /// Alarms.
    pub timers: Timers,
    /// Supervises the coordinator's tasks.
    pub tasks: Supervisor,
    /// Settings.
    pub config: TransactionConfig,
}

/// All transactions that the broker coordinates. Cheap to clone.
#[derive(Clone)]
pub struct TransactionCoordinator(Arc<Inner>);

pub(super) struct Inner {
    partitions: Arc<Partitions<Transaction>>,
    ground: Ground<Transaction>,
    producer_ids: Arc<dyn ProducerIdSource>,
    markers: Arc<dyn MarkerWriter>,
    background: Mutex<Vec<AbortOnDropHandle<()>>>,
}

impl fmt::Debug for TransactionCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionCoordinator")
            .finish_non_exhaustive()
    }
}

impl TransactionCoordinator {
    /// Loads what the topic holds of the partitions that this broker leads, and follows which ones it gains and loses.
    ///
    /// # Errors
    /// The topic could not be created.
    pub async fn open(parts: TransactionParts) -> Result<Self, LoadError> {
        let ground = Ground {
            memory: Budget::new(parts.config.memory_bytes),
            writes: Budget::new(TRANSACTION_WRITES_BYTES_MAX),
            refusals: Refusals::new::<Transaction>(),
            rewrite_after_records: parts.config.rewrite_after_records,
            count: Arc::new(AtomicUsize::new(0)),
            count_max: TRANSACTIONS_MAX,
            config: Arc::new(Settings {
                config: parts.config,
                endings: Endings::default(),
            }),
            clock: parts.clock,
            timers: parts.timers,
        };
        let inner = Arc::new(Inner {
            partitions: Partitions::new(parts.topic, ground.clone(), parts.tasks.clone()),
            ground,
            producer_ids: parts.producer_ids,
            markers: parts.markers,
            background: Mutex::default(),
        });
        let ending = end_for_ever(Arc::downgrade(&inner));
        let ending = parts.tasks.spawn(Task::TransactionEnd, ending);
        let sweeping = sweep_for_ever(Arc::downgrade(&inner));
        let sweeping = parts.tasks.spawn(Task::TransactionSweep, sweeping);
        let background = [ending, sweeping].map(AbortOnDropHandle::new);
        inner.background.lock().extend(background);
        let coordinator = Self(inner);
        coordinator.0.partitions.open().await;
        Ok(coordinator)
    }

    /// Makes sure that transactions are served: creates their topic where there is none.
    ///
    /// # Errors
    /// The topic could not be created.
    pub async fn ready(&self) -> Result<(), LoadError> {
        self.0.partitions.ready().await
    }

    /// Stops taking writes and waits until those taken are durable and answered.
    pub async fn close(&self) {
        self.0.background.lock().clear();
        self.0.partitions.close().await;
    }

    /// What the transactions cost now, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.0.ground.memory.used()
    }

    /// Whether ids of a partition that this broker leads may still appear.
    #[must_use]
    pub fn is_loading(&self) -> bool {
        self.0.partitions.is_loading()
    }

    /// What the transactions hold now. Looks at every id.
    #[must_use]
    pub fn metrics(&self) -> TransactionMetrics {
        let Ground { memory, writes, .. } = &self.0.ground;
        let mut metrics = TransactionMetrics {
            memory_bytes: memory.used(),
            memory_bytes_max: memory.capacity(),
            writes_bytes: writes.used(),
            ..TransactionMetrics::default()
        };
        let serving = self.0.partitions.serving().into_iter();
        for cell in serving.flat_map(|shard| shard.cells()) {
            let Ok(state) = cell.read(Transaction::state) else {
                continue;
            };
            metrics.ids += 1;
            metrics.ongoing += usize::from(state == Some(TransactionState::Ongoing));
            metrics.ending += usize::from(state.is_some_and(TransactionState::is_ending));
        }
        metrics
    }

    /// Gives a producer its id and the next epoch; aborts what an older producer of the id has left open.
    ///
    /// # Errors
    /// See [`TransactionError`].
    pub async fn init_producer_id(
        &self,
        request: InitProducer,
    ) -> Result<ProducerEpoch, TransactionError> {
        let InitProducer {
            transactional_id,
            timeout,
            expected,
        } = request;
        if transactional_id.is_empty() {
            return Err(TransactionError::InvalidRequest);
        }
        let allowed = Duration::from_millis(1)..=self.0.settings().config.timeout_max;
        let timeout_ms = i32::try_from(timeout.as_millis());
        let (true, Ok(timeout_ms)) = (allowed.contains(&timeout), timeout_ms) else {
            return Err(TransactionError::InvalidTimeout);
        };
        self.with_producer_id(&transactional_id, true, |transaction, fresh, now| {
            transaction.init(timeout_ms, expected, fresh, now)
        })
        .await
    }

    /// Adds partitions to a producer's transaction.
    ///
    /// # Errors
    /// See [`TransactionError`].
    pub async fn add_partitions(
        &self,
        transactional_id: &str,
        producer: ProducerEpoch,
        partitions: &[TopicPartition],
    ) -> Result<(), TransactionError> {
        let shard = self.shard(transactional_id)?;
        let cell = shard.cell(transactional_id)?;
        let cell = cell.ok_or(TransactionError::InvalidProducerIdMapping)?;
        let bytes = super::kept::partitions_bytes(&partitions.iter().cloned().collect());
        let added = shard.with(&cell, |turn| {
            let _room = self.0.ground.room(bytes)?;
            turn.kept.add(producer, partitions, turn.now)
        })?;
        settle(added?).await
    }

    /// Which of these partitions are in the producer's transaction; those that are not get
    /// [`TransactionError::Abortable`].
    ///
    /// # Errors
    /// See [`TransactionError`].
    pub fn verify_partitions(
        &self,
        transactional_id: &str,
        producer: ProducerEpoch,
        partitions: &[TopicPartition],
    ) -> Result<VerifiedPartitions, TransactionError> {
        let cell = self.shard(transactional_id)?.cell(transactional_id)?;
        let cell = cell.ok_or(TransactionError::InvalidProducerIdMapping)?;
        cell.read(|transaction| transaction.verify(producer, partitions))?
    }

    /// Commits or aborts a producer's transaction; the answer, with which the producer goes on, comes when that is
    /// durable. `protocol` is the version of the transaction protocol that the producer speaks.
    ///
    /// # Errors
    /// See [`TransactionError`].
    pub async fn end(
        &self,
        transactional_id: &str,
        producer: ProducerEpoch,
        committed: bool,
        protocol: i16,
    ) -> Result<ProducerEpoch, TransactionError> {
        self.with_producer_id(transactional_id, false, |transaction, fresh, now| {
            transaction.end(producer, committed, (protocol, fresh), now)
        })
        .await
    }

    /// Takes a step that may need a new producer id.
    async fn with_producer_id(
        &self,
        id: &str,
        creates: bool,
        mut step: impl FnMut(
            &mut Transaction,
            Option<i64>,
            Now,
        ) -> Result<Step<ProducerEpoch>, TransactionError>,
    ) -> Result<ProducerEpoch, TransactionError> {
        let mut fresh = None;
        loop {
            let shard = self.shard(id)?;
            let cell = match shard.cell(id)? {
                Some(cell) => cell,
                None if creates => shard.cell_or_new(id)?,
                None => return Err(TransactionError::InvalidProducerIdMapping),
            };
            let taken = shard.with(&cell, |turn| step(turn.kept, fresh, turn.now))?;
            // An id that was made for a producer that is refused must not stay.
            let taken = taken.inspect_err(|_| shard.forget_if_nothing(&cell))?;
            if !matches!(taken, Step::NeedsProducerId) {
                return settle(taken).await;
            }
            let next = self.0.producer_ids.next_id().await;
            fresh = Some(next.map_err(|cause| {
                tracing::warn!(%cause, "could not allocate a producer id");
                shard.forget_if_nothing(&cell);
                TransactionError::CoordinatorNotAvailable
            })?);
        }
    }

    /// All that is shown of a transaction.
    ///
    /// # Errors
    /// There is no such id, or it is not here.
    pub fn describe(&self, id: &str) -> Result<TransactionDescription, TransactionError> {
        let cell = self.shard(id)?.cell(id)?;
        let cell = cell.ok_or(TransactionError::IdNotFound)?;
        let described = cell.read(Transaction::describe)?;
        described.ok_or(TransactionError::IdNotFound)
    }

    /// The transactions that are coordinated here, by id.
    ///
    /// # Errors
    /// The pattern cannot be read, or logs are still being read.
    pub fn list(
        &self,
        filter: &TransactionFilter,
    ) -> Result<Vec<TransactionListing>, TransactionError> {
        let pattern = filter.id_pattern.as_deref().filter(|text| !text.is_empty());
        let pattern = pattern.map(whole_match).transpose();
        let pattern = pattern.map_err(|_| TransactionError::InvalidPattern)?;
        if self.0.partitions.is_loading() {
            return Err(TransactionError::CoordinatorLoading);
        }
        let now = self.0.ground.now();
        let mut listed = Vec::new();
        for cell in { self.0.partitions.serving() }
            .iter()
            .flat_map(|shard| shard.cells())
        {
            let listing = cell.read(|transaction| {
                let description = transaction.describe()?;
                let id = &transaction.id;
                let is_wanted = admits(filter, &description, now)
                    && pattern.as_ref().is_none_or(|pattern| pattern.is_match(id));
                is_wanted.then(|| TransactionListing {
                    transactional_id: id.clone(),
                    producer_id: description.producer_id,
                    state: description.state,
                })
            });
            listed.extend(listing.ok().flatten());
        }
        listed.sort_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
        Ok(listed)
    }

    fn shard(&self, id: &str) -> Result<Arc<Shard>, TransactionError> {
        match id.is_empty() {
            true => Err(TransactionError::InvalidRequest),
            false => self.0.partitions.shard(id),
        }
    }
}

fn admits(filter: &TransactionFilter, of: &TransactionDescription, now: Now) -> bool {
    let is_longer = filter.longer_than.is_none_or(|longest| {
        let begun_ms = now.ms.saturating_sub(of.start_ms.unwrap_or(NONE));
        u128::try_from(begun_ms).is_ok_and(|begun_ms| begun_ms > longest.as_millis())
    });
    (filter.states.is_empty() || filter.states.contains(&of.state))
        && (filter.producer_ids.is_empty() || filter.producer_ids.contains(&of.producer_id))
        && is_longer
}

async fn settle<T>(step: Step<T>) -> Result<T, TransactionError> {
    match step {
        Step::Done(answer) => Ok(answer),
        // Whoever would have answered is gone: the broker stops.
        Step::Written(waiting) => match waiting.await {
            Ok(answer) => answer,
            Err(_) => Err(TransactionError::CoordinatorNotAvailable),
        },
        Step::NeedsProducerId => Err(TransactionError::CoordinatorNotAvailable),
    }
}

impl Inner {
    pub(super) fn settings(&self) -> &Arc<Settings> {
        &self.ground.config
    }

    pub(super) fn markers(&self) -> &dyn MarkerWriter {
        &*self.markers
    }

    /// The marker of a transaction that is being ended, and where it goes.
    pub(super) fn ending(
        &self,
        id: &str,
    ) -> Result<Option<(TransactionMarker, BTreeSet<TopicPartition>)>, TransactionError> {
        let shard = self.partitions.shard(id)?;
        let Some(cell) = shard.cell(id)? else {
            return Ok(None);
        };
        cell.read(|transaction| {
            let (stored, committed) = transaction.ending()?;
            let marker = TransactionMarker {
                producer_id: stored.producer_id,
                producer_epoch: stored.epoch,
                coordinator_epoch: shard.epoch(),
                committed,
                transaction_version: stored.client_version,
            };
            Some((marker, stored.partitions.clone()))
        })
    }

    /// All these markers of a transaction are written. Where this cannot be written down, because the partition was lost,
    /// the next coordinator writes them once more.
    pub(super) fn complete(&self, id: &str, marker: &TransactionMarker) {
        let completed = self.partitions.shard(id).and_then(|shard| {
            let Some(cell) = shard.cell(id)? else {
                return Ok(());
            };
            // Lost and gained again meanwhile: the id may have ended further transactions elsewhere.
            if shard.epoch() != marker.coordinator_epoch {
                return Err(TransactionError::NotCoordinator);
            }
            let epoch = marker.producer_epoch;
            shard.with(&cell, |turn| turn.kept.complete(epoch, turn.now))
        });
        if let Err(error) = completed {
            tracing::debug!(id, %error, "the end of a transaction could not be written");
        }
    }
}

/// Forgets unused ids at the set interval, for as long as the coordinator is.
async fn sweep_for_ever(coordinator: Weak<Inner>) {
    loop {
        let Some(interval) = coordinator
            .upgrade()
            .map(|inner| inner.settings().config.cleanup_interval)
        else {
            return;
        };
        tokio::time::sleep(interval).await;
        let Some(inner) = coordinator.upgrade() else {
            return;
        };
        for shard in inner.partitions.serving() {
            for cell in shard.cells() {
                // Expired or not is for the next coordinator to say.
                let _resigned = shard.with(&cell, |turn| turn.kept.forget_if_expired(turn.now));
                // Made for a producer that went away before it had its id.
                shard.forget_if_nothing(&cell);
            }
            tokio::task::yield_now().await;
        }
    }
}
