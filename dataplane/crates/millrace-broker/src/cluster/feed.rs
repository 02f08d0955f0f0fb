//! What other brokers have changed in the metadata: topics, leaders, brokers, credentials.

use std::{sync::Arc, time::Duration};

use millrace_log::LogManager;
use millrace_meta::{Broker, BrokerState, Changes, StoreFailure};
use millrace_stream::{Share, StreamStore};
use tokio::sync::watch;

use super::Membership;

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
            revision: 0,
        }
    }

    /// The brokers as they are known, and as they will be.
    pub(crate) fn brokers(&self) -> watch::Receiver<Arc<Vec<Broker>>> {
        self.brokers.subscribe()
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
            ..
        } = store.changes_since(self.revision).await?;
        if let Some(brokers) = brokers {
            self.store.set_share(share(&brokers, &self.membership));
            self.brokers.send_replace(Arc::new(brokers));
        }
        self.logs.follow(revision, topics).await;
        self.revision = revision;
        Ok(())
    }

    /// Follows for ever.
    pub(crate) async fn run(mut self) -> std::convert::Infallible {
        loop {
            let pause = match self.step().await {
                Ok(()) => INTERVAL,
                Err(error) => {
                    tracing::warn!(%error, "the changes of the metadata cannot be read; trying again");
                    FAILURE_PAUSE
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.logs.hurried() => {}
            }
        }
    }
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
