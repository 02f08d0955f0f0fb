//! Transactions that have been decided on: their markers are written to all partitions, and then they are complete.
//!
//! Nothing here is lost with the broker: the log says which transactions are decided on and not complete, and whoever
//! coordinates them next goes on. A marker that is written twice does no harm.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use millrace_log::TransactionMarker;
use millrace_model::TopicPartition;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};

use super::{coordinator::Inner, messages::TransactionError};
use crate::log::BoxFuture;

/// Transactions whose markers are written at one time. Those that wait until they are tried again, for example because a
/// partition has no leader, hold no place.
const ENDINGS_AT_ONCE: usize = 1_000;

/// The first pause before markers are written again, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What became of a marker in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkerOutcome {
    /// It is durable, and in effect.
    Done,
    /// The partition does not exist any more.
    Gone,
    /// It has to be written again.
    Retry,
    /// Another coordinator has taken over.
    Fenced,
}

/// Writes markers to partitions, wherever they are.
pub trait MarkerWriter: fmt::Debug + Send + Sync + 'static {
    /// Writes a marker to each of these partitions. One that is missing from the result is tried again.
    fn write(
        &self,
        marker: TransactionMarker,
        partitions: Vec<TopicPartition>,
    ) -> BoxFuture<'_, Vec<(TopicPartition, MarkerOutcome)>>;
}

/// The ids of transactions whose markers are to be written: each at most once, and not while they are being written. A
/// second marker that is on its way when the transaction is complete could end the next one of its producer.
#[derive(Debug)]
pub(crate) struct Endings {
    ids: Mutex<Ids>,
    added: Notify,
    places: Semaphore,
}

impl Default for Endings {
    fn default() -> Self {
        Self {
            ids: Mutex::default(),
            added: Notify::new(),
            places: Semaphore::new(ENDINGS_AT_ONCE),
        }
    }
}

#[derive(Debug, Default)]
struct Ids {
    waiting: HashSet<String>,
    under_way: HashSet<String>,
}

impl Endings {
    pub(super) fn push(&self, id: &str) {
        self.ids.lock().waiting.insert(id.to_owned());
        self.added.notify_one();
    }

    /// Those that are not under way, which they are from now on.
    fn take(&self) -> Vec<String> {
        let mut ids = self.ids.lock();
        let Ids { waiting, under_way } = &mut *ids;
        let free = waiting.iter().filter(|id| !under_way.contains(*id));
        let taken: Vec<String> = free.cloned().collect();
        for id in &taken {
            waiting.remove(id);
            under_way.insert(id.clone());
        }
        taken
    }

    fn finished(&self, id: &str) {
        self.ids.lock().under_way.remove(id);
    }

    async fn wait(&self) {
        self.added.notified().await;
    }
}

/// Writes markers for as long as the coordinator is. As many can be under way as there are ids.
pub(super) async fn end_for_ever(coordinator: Weak<Inner>) {
    let mut under_way = FuturesUnordered::new();
    loop {
        let Some(inner) = coordinator.upgrade() else {
            return;
        };
        for id in inner.endings().take() {
            under_way.push(end(coordinator.clone(), id));
        }
        let settings = Arc::clone(inner.settings());
        drop(inner);
        tokio::select! {
            Some(id) = under_way.next(), if !under_way.is_empty() => settings.endings.finished(&id),
            () = settings.endings.wait() => {}
        }
    }
}

/// Writes the markers of one transaction until all are written or another coordinator goes on.
async fn end(coordinator: Weak<Inner>, id: String) -> String {
    write_markers(coordinator, &id).await;
    id
}

async fn write_markers(coordinator: Weak<Inner>, id: &str) {
    let mut pause = PAUSE_MIN;
    let mut done: BTreeSet<TopicPartition> = BTreeSet::new();
    let mut ending = None;
    loop {
        let Some(inner) = coordinator.upgrade() else {
            return;
        };
        match inner.ending(id) {
            Ok(Some((marker, partitions))) => {
                if ending.replace(marker) != Some(marker) {
                    done.clear();
                }
                let left: Vec<_> = partitions.difference(&done).cloned().collect();
                if left.is_empty() {
                    return inner.complete(id, &marker);
                }
                let place = inner.endings().places.acquire().await;
                let outcomes = inner.markers().write(marker, left).await;
                drop(place);
                for (partition, outcome) in outcomes {
                    match outcome {
                        MarkerOutcome::Done | MarkerOutcome::Gone => drop(done.insert(partition)),
                        MarkerOutcome::Retry => {}
                        MarkerOutcome::Fenced => {
                            tracing::info!(id, %partition, "another coordinator ends the transaction");
                            return;
                        }
                    }
                }
                if partitions.is_subset(&done) {
                    return inner.complete(id, &marker);
                }
            }
            // Its log is being read.
            Err(TransactionError::CoordinatorLoading) => {}
            // There is nothing left to do, or another coordinator does it.
            Ok(None) | Err(_) => return,
        }
        drop(inner);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

impl Inner {
    pub(super) fn endings(&self) -> &Endings {
        &self.settings().endings
    }
}
