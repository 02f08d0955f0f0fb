//! The cluster as one broker takes part in it.

use std::{sync::Arc, time::Duration};

use millrace_log::LogManager;
use millrace_meta::{Broker, ClusterStore};
use millrace_model::{NodeEpoch, NodeId};
use millrace_stream::{Closed, StreamStore};
use millrace_tasks::{Supervisor, Task};
use millrace_time::SharedClock;
use tokio::{sync::watch, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    balance, drain,
    failover::{Failover, FailoverParts},
    feed::{ChangesOfOthers, Feed},
    lease::Lease,
    load,
    takeover::Takeover,
};

/// How long a start waits for the partitions that it leads. Those that another broker still has come later.
const OPEN_WAIT: Duration = Duration::from_secs(10);

/// The pause before the metadata is asked again, and how often it is looked at what is open.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a broker that stops gives its partitions away. What is left then, the others take over.
const DRAIN_WAIT: Duration = Duration::from_secs(60);

/// A broker that has joined its cluster.
#[derive(Clone)]
pub struct Membership {
    /// The metadata of all brokers.
    pub store: Arc<dyn ClusterStore>,
    /// This broker.
    pub node: NodeId,
    /// Its present start.
    pub epoch: NodeEpoch,
    /// What the brokers sign in with at each other.
    pub secret: Arc<str>,
    /// How long its lease lasts.
    pub session_timeout: Duration,
    /// Its lease.
    pub lease: Lease,
}

/// The secret is not shown.
impl std::fmt::Debug for Membership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Membership")
            .field("node", &self.node)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// The cluster as this broker knows it.
#[derive(Debug, Clone)]
pub struct View {
    /// This broker.
    pub membership: Membership,
    /// Its logs, which know who leads what.
    pub logs: LogManager,
    /// All brokers.
    pub brokers: watch::Receiver<Arc<Vec<Broker>>>,
}

/// What keeps the broker a part of its cluster, for as long as this is kept.
#[derive(Debug)]
pub struct Cluster {
    view: View,
    changes: Arc<ChangesOfOthers>,
    _tasks: [AbortOnDropHandle<()>; 6],
}

/// What a broker takes part in its cluster with.
#[derive(Debug)]
pub struct ClusterParts {
    /// This broker, which has joined.
    pub membership: Membership,
    /// Its logs.
    pub logs: LogManager,
    /// What they are built on.
    pub store: StreamStore,
    /// How logs are taken over.
    pub takeover: Takeover,
    /// How often partitions are evened out; zero: never.
    pub balance_interval: Duration,
    /// Supervises all of it.
    pub tasks: Supervisor,
}

impl Cluster {
    /// Reads what there is, and follows it from now on. Resolves when the partitions that this broker leads are open, as far as
    /// no other broker has them.
    pub async fn start(parts: ClusterParts) -> Self {
        let ClusterParts {
            membership,
            logs,
            store,
            takeover,
            balance_interval,
            tasks,
        } = parts;
        let mut feed = Feed::new(membership.clone(), logs.clone(), store.clone());
        while let Err(error) = feed.step().await {
            tracing::warn!(%error, "waiting for the metadata database");
            tokio::time::sleep(PAUSE).await;
        }
        let clock = SharedClock::clone(&takeover.clock);
        let (brokers, changes) = (feed.brokers(), feed.changes_of_others());
        let failover = Failover::new(FailoverParts {
            membership: membership.clone(),
            brokers: brokers.clone(),
            takeover,
            tasks: tasks.clone(),
        });
        let ending = end_when_replaced(membership.lease.clone(), store);
        let view = View {
            membership,
            logs,
            brokers,
        };
        let handles = [
            tasks.spawn(Task::MetadataFeed, feed.run()),
            tasks.spawn(Task::Failover, failover.run()),
            tasks.spawn(Task::LeaseRenewal, ending),
            tasks.spawn(Task::PartitionMove, drain::keep_drained(view.clone())),
            tasks.spawn(
                Task::PartitionMove,
                balance::run(view.clone(), balance_interval, SharedClock::clone(&clock)),
            ),
            tasks.spawn(
                Task::LoadReport,
                load::run(view.clone(), load::interval(balance_interval), clock),
            ),
        ];
        let opened = async {
            while !view.logs.is_all_open() {
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
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// What other brokers change and parts of this one have to take over.
    #[must_use]
    pub fn changes_of_others(&self) -> Arc<ChangesOfOthers> {
        Arc::clone(&self.changes)
    }

    /// Gives everything that this broker leads to the others, within bounds, while clients are served.
    pub async fn drain(&self) {
        if timeout(DRAIN_WAIT, drain::drain(&self.view)).await.is_err() {
            tracing::warn!(
                wait = ?DRAIN_WAIT,
                "not all partitions could be moved in time; other brokers take over what is left"
            );
        }
    }

    /// Leaves the cluster, where nothing is left that other brokers would have to take over.
    pub async fn leave(&self, storage: &Closed) {
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
