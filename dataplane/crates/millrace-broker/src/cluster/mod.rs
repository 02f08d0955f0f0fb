//! The broker among the other brokers of its cluster.
//!
//! | module | what it does |
//! |---|---|
//! | `lease` | renews the lease; a broker that was replaced ends |
//! | `feed` | keeps topics, leaders and brokers as the metadata has them |
//! | `failover` | fences brokers whose lease has run out, and has their logs taken over |
//! | `takeover` | uploads what the log of a fenced broker has |
//! | `balance` | evens out how many partitions each broker leads |
//! | `drain` | gives everything away before the broker stops |

mod balance;
mod drain;
mod failover;
mod feed;
mod lease;
mod takeover;

use std::{sync::Arc, time::Duration};

use millrace_api::ApiService;
use millrace_log::LogManager;
use millrace_meta::{Broker, ClusterStore};
use millrace_model::{NodeEpoch, NodeId};
use millrace_stream::{Closed, StreamStore};
use millrace_tasks::{Supervisor, Task};
use tokio::{sync::watch, time::timeout};
use tokio_util::task::AbortOnDropHandle;

#[cfg(test)]
pub(crate) use self::takeover::{AdoptedLog, TakeoverError};
pub(crate) use self::{drain::drain_another, lease::Lease};
use self::{
    failover::{Failover, FailoverParts},
    feed::{ChangesOfOthers, Feed},
    takeover::Takeover,
};
use crate::storage::{Seams, Storage};

/// How long a start waits for the partitions that it leads. Those that another broker still has come later.
const OPEN_WAIT: Duration = Duration::from_secs(10);

/// The pause before the metadata is asked again, and how often it is looked at what is open.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a broker that stops gives its partitions away. What is left then, the others take over.
const DRAIN_WAIT: Duration = Duration::from_secs(60);

/// A broker that has joined its cluster.
#[derive(Clone)]
pub(crate) struct Membership {
    /// The metadata of all brokers.
    pub(crate) store: Arc<dyn ClusterStore>,
    /// This broker.
    pub(crate) node: NodeId,
    /// Its present start.
    pub(crate) epoch: NodeEpoch,
    /// What the brokers sign in with at each other.
    pub(crate) secret: Arc<str>,
    /// How long its lease lasts.
    pub(crate) session_timeout: Duration,
    /// Its lease.
    pub(crate) lease: Lease,
}

/// The cluster as this broker knows it.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) membership: Membership,
    pub(crate) logs: LogManager,
    pub(crate) brokers: watch::Receiver<Arc<Vec<Broker>>>,
}

/// What keeps the broker a part of its cluster, for as long as this is kept.
pub(crate) struct Cluster {
    view: View,
    changes: Arc<ChangesOfOthers>,
    _tasks: [AbortOnDropHandle<()>; 4],
}

impl Cluster {
    /// Reads what there is, and follows it from now on. Resolves when the partitions that this broker leads are open, as far as
    /// no other broker has them.
    pub(crate) async fn start(
        membership: Membership,
        logs: &LogManager,
        storage: &Storage,
        (seams, balance_interval): (&Seams, Duration),
    ) -> Self {
        let mut feed = Feed::new(membership.clone(), logs.clone(), storage.store.clone());
        while let Err(error) = feed.step().await {
            tracing::warn!(%error, "waiting for the metadata database");
            tokio::time::sleep(PAUSE).await;
        }
        let (brokers, changes) = (feed.brokers(), feed.changes_of_others());
        let failover = Failover::new(FailoverParts {
            membership: membership.clone(),
            brokers: brokers.clone(),
            takeover: Takeover {
                store: Arc::clone(&membership.store),
                cluster_id: storage.cluster_id.clone(),
                storage: storage.bucket.clone(),
                block_cache: storage.block_cache.clone(),
                seams: seams.clone(),
            },
            tasks: seams.tasks.clone(),
        });
        let ending = end_when_replaced(membership.lease.clone(), storage.store.clone());
        let view = View {
            membership,
            logs: logs.clone(),
            brokers,
        };
        let tasks = &seams.tasks;
        let handles = [
            tasks.spawn(Task::MetadataFeed, feed.run()),
            tasks.spawn(Task::Failover, failover.run()),
            tasks.spawn(Task::LeaseRenewal, ending),
            tasks.spawn(
                Task::PartitionMove,
                balance::run(view.clone(), balance_interval),
            ),
        ];
        let opened = async {
            while !logs.is_all_open() {
                tokio::time::sleep(PAUSE).await;
            }
        };
        if timeout(OPEN_WAIT, opened).await.is_err() {
            tracing::warn!("not all partitions could be opened in time; the others are served");
        }
        Self {
            view,
            changes,
            _tasks: handles.map(AbortOnDropHandle::new),
        }
    }

    /// The cluster as it is known, and as it will be.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Has the service take over what other brokers change, for as long as the handle is kept.
    pub(crate) fn tell(
        &self,
        service: &Arc<ApiService>,
        tasks: &Supervisor,
    ) -> AbortOnDropHandle<()> {
        let telling = Arc::clone(&self.changes).tell(Arc::clone(service));
        AbortOnDropHandle::new(tasks.spawn(Task::MetadataFeed, telling))
    }

    /// Gives everything that this broker leads to the others, within bounds, while clients are served.
    pub(crate) async fn drain(&self) {
        let View {
            membership,
            logs,
            brokers,
        } = &self.view;
        let draining = drain::drain(membership, logs, brokers);
        if timeout(DRAIN_WAIT, draining).await.is_err() {
            tracing::warn!(
                wait = ?DRAIN_WAIT,
                "not all partitions could be moved in time; other brokers take over what is left"
            );
        }
    }

    /// Leaves the cluster, where nothing is left that other brokers would have to take over.
    pub(crate) async fn leave(&self, storage: &Closed) {
        if *storage != Closed::Uploaded {
            return;
        }
        let Membership {
            store,
            epoch,
            session_timeout,
            ..
        } = &self.view.membership;
        match timeout(*session_timeout, store.leave(*epoch)).await {
            Ok(Ok(())) => tracing::info!("left the cluster"),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the cluster was not told that this broker stops")
            }
            Err(_) => tracing::warn!(
                "the metadata database does not answer; the others learn that this broker is gone when its lease runs out"
            ),
        }
    }
}

/// Another broker may acknowledge in this one's place now: nothing goes on here.
async fn end_when_replaced(lease: Lease, store: StreamStore) {
    let reason = lease.lost().await;
    store.fail(&reason);
}
