//! Judges the leases of the others, and takes over the logs of those that are gone. Each broker does both; the metadata lets
//! one of them win.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use millrace_meta::{Adoption, Broker, BrokerState, ClusterError};
use millrace_model::NodeId;
use millrace_tasks::{Supervisor, Task};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    cluster::Membership,
    takeover::{Takeover, TakeoverError},
};

/// Looks at the leases within the time of one.
const LOOKS_PER_LEASE: u32 = 12;

/// The pause after a log could not be taken over.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// What the failover works with.
pub(crate) struct FailoverParts {
    /// This broker.
    pub(crate) membership: Membership,
    /// All brokers.
    pub(crate) brokers: watch::Receiver<Arc<Vec<Broker>>>,
    /// How logs are taken over.
    pub(crate) takeover: Takeover,
    /// Supervises takeovers.
    pub(crate) tasks: Supervisor,
}

/// See the module.
pub(crate) struct Failover {
    parts: FailoverParts,
    /// Takeovers that are under way, one for each node.
    running: BTreeMap<NodeId, JoinHandle<()>>,
}

impl Failover {
    pub(crate) fn new(parts: FailoverParts) -> Self {
        Self {
            parts,
            running: BTreeMap::new(),
        }
    }

    /// Judges and takes over for ever.
    pub(crate) async fn run(mut self) -> Infallible {
        let interval = self.parts.membership.session_timeout / LOOKS_PER_LEASE;
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep(interval) => self.judge().await,
                // Somebody may have been fenced, by this broker or another one. The sender lives as long as the broker.
                _ = self.parts.brokers.changed() => {}
            }
            self.running.retain(|_, takeover| !takeover.is_finished());
            let brokers = Arc::clone(&self.parts.brokers.borrow_and_update());
            for broker in brokers.iter() {
                self.take_over(broker, &brokers).await;
            }
        }
    }

    async fn judge(&self) {
        let Membership { store, epoch, .. } = &self.parts.membership;
        match store.fence_expired(*epoch).await {
            Ok(fenced) => {
                for broker in fenced {
                    tracing::warn!(
                        node = %broker.node,
                        partitions = broker.partitions_moved,
                        "a broker's lease has run out: it is fenced, and others lead its partitions"
                    );
                    metrics::counter!("millrace_brokers_fenced_total").increment(1);
                }
            }
            // The lease learns it, too, and ends the broker.
            Err(ClusterError::Fenced(_)) => {}
            Err(error) => tracing::debug!(%error, "leases were not looked at"),
        }
    }

    /// Takes over the log of a broker that is fenced, unless another one does.
    async fn take_over(&mut self, broker: &Broker, all: &[Broker]) {
        let node = broker.joined.node;
        let BrokerState::Fenced { adopter } = broker.state else {
            return;
        };
        let is_active = |by: &&Broker| by.state == BrokerState::Active;
        let by_another = adopter.is_some_and(|epoch| {
            all.iter()
                .filter(is_active)
                .any(|other| other.epoch == epoch && epoch != self.parts.membership.epoch)
        });
        if by_another || self.running.contains_key(&node) {
            return;
        }
        let Membership { store, epoch, .. } = &self.parts.membership;
        match store.adopt_log(node, *epoch).await {
            Ok(adoption) => self.start(broker.clone(), adoption),
            // Another one was faster, or the broker is back, or gone for good.
            Err(ClusterError::Adopted { .. } | ClusterError::NodeNot(..)) => {}
            Err(error) => {
                tracing::warn!(%node, %error, "the log of a fenced broker waits to be taken over")
            }
        }
    }

    fn start(&mut self, broker: Broker, adoption: Adoption) {
        let takeover = self.parts.takeover.clone();
        let node = broker.joined.node;
        let running = self.parts.tasks.spawn(Task::Failover, async move {
            if let Err(error) = takeover.run(&broker, adoption).await {
                tell(node, &error);
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        });
        self.running.insert(node, running);
    }
}

fn tell(node: NodeId, error: &TakeoverError) {
    let error = error as &dyn std::error::Error;
    tracing::error!(%node, error, "the log of a fenced broker was not taken over; trying again");
}
