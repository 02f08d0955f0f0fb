//! What other brokers have changed in the metadata: topics, leaders, brokers, credentials.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use millrace_log::LogManager;
use millrace_meta::{Broker, BrokerState, Changes, StoreFailure};
use millrace_model::TopicName;
use millrace_stream::{Share, StreamStore};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::cluster::Membership;

/// How often the revision is looked at where nobody waits for it: one query of one row.
const INTERVAL: Duration = Duration::from_millis(50);

/// The pause after a failure.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// Follows the feed of changes.
pub(crate) struct Feed {
    membership: Membership,
    logs: LogManager,
    store: StreamStore,
    brokers: watch::Sender<Arc<Vec<Broker>>>,
    others: Arc<ChangesOfOthers>,
    revision: u64,
}

impl Feed {
    /// A feed that has not read anything yet.
    pub(crate) fn new(membership: Membership, logs: LogManager, store: StreamStore) -> Self {
        Self {
            membership,
            logs,
            store,
            brokers: watch::Sender::new(Arc::default()),
            others: Arc::default(),
            revision: 0,
        }
    }

    /// The brokers as they are known, and as they will be.
    pub(crate) fn brokers(&self) -> watch::Receiver<Arc<Vec<Broker>>> {
        self.brokers.subscribe()
    }

    /// What concerns more than topics and brokers.
    pub(crate) fn changes_of_others(&self) -> Arc<ChangesOfOthers> {
        Arc::clone(&self.others)
    }

    /// Takes over what has changed.
    ///
    /// # Errors
    /// The database failed; nothing was taken over.
    pub(crate) async fn step(&mut self) -> Result<(), StoreFailure> {
        let store = &self.membership.store;
        if self.revision > 0 && store.cluster_revision().await? == self.revision {
            return Ok(());
        }
        let Changes {
            revision,
            topics,
            brokers,
            security,
        } = store.changes_since(self.revision).await?;
        if let Some(brokers) = brokers {
            self.store.set_share(share(&brokers, &self.membership));
            self.brokers.send_replace(Arc::new(brokers));
        }
        let deleted = self.logs.follow(revision, topics).await;
        self.others.note(deleted, security);
        self.revision = revision;
        Ok(())
    }

    /// Follows for ever.
    pub(crate) async fn run(mut self) -> Infallible {
        loop {
            let pause = match self.step().await {
                Ok(()) => INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, "the changes of the metadata cannot be read; trying again");
                    FAILURE_PAUSE
                }
            };
            tokio::select! {
                biased;
                () = tokio::time::sleep(pause) => {}
                () = self.logs.hurried() => {}
            }
        }
    }
}

/// What other brokers, or this one, have changed and parts of the broker have not taken over yet.
#[derive(Debug, Default)]
pub struct ChangesOfOthers {
    pending: Mutex<Pending>,
    told: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    /// Topics that were deleted; no more than there were.
    deleted: BTreeSet<TopicName>,
    /// Credentials, quotas, access control lists, delegation tokens or configurations of groups and of client metrics.
    security: bool,
}

impl ChangesOfOthers {
    fn note(&self, deleted: BTreeSet<TopicName>, security: bool) {
        if deleted.is_empty() && !security {
            return;
        }
        let mut pending = self.pending.lock();
        pending.deleted.extend(deleted);
        pending.security |= security;
        drop(pending);
        self.told.notify_one();
    }

    /// Waits until something has changed.
    pub async fn next(&self) -> Changed {
        loop {
            self.told.notified().await;
            let Pending { deleted, security } = std::mem::take(&mut *self.pending.lock());
            if security || !deleted.is_empty() {
                return Changed { deleted, security };
            }
        }
    }

    /// Credentials, quotas and access control lists are to be read again.
    pub fn note_security(&self) {
        self.note(BTreeSet::new(), true);
    }
}

/// What other brokers, or this one, have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Topics that were deleted.
    pub deleted: BTreeSet<TopicName>,
    /// Whether credentials, quotas, access control lists or delegation tokens may have changed.
    pub security: bool,
}

/// The active brokers share the work on objects equally.
fn share(brokers: &[Broker], membership: &Membership) -> Share {
    let active = brokers
        .iter()
        .filter(|broker| broker.state == BrokerState::Active);
    let mut nodes: Vec<_> = active.map(|broker| broker.joined.node).collect();
    nodes.sort_unstable();
    let Some(index) = nodes.iter().position(|&node| node == membership.node) else {
        return Share::ALL;
    };
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    Share {
        index: number(index),
        of: number(nodes.len()),
    }
}
