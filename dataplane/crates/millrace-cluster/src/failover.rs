//! Judges the leases of the others, and takes over the logs of those that are gone. Each broker does both; the metadata lets
//! one of them win.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use millrace_meta::{Broker, BrokerState, ClusterError};
use millrace_model::{NodeEpoch, NodeId};
use millrace_tasks::{Supervisor, Task};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{MissedTickBehavior, timeout},
};

use crate::{
    cluster::Membership,
    takeover::{Takeover, TakeoverError},
};

/// Looks at the leases within the time of one.
const LOOKS_PER_LEASE: u32 = 12;

/// How long to wait until a broker is fenced or its log is adopted: longer than the statements may take, however much a dead broker led.
/// It ends the wait for an answer that never comes. Looking at leases takes the time of a lease at most, which the store bounds.
const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// The pause after a log could not be taken over.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// The same where its records are damaged: an operator restores its volume, or deletes topics.
const HALTED_PAUSE: Duration = Duration::from_secs(60);

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
    /// Fenced epochs whose logs nobody can take over, which was said.
    stranded: BTreeSet<NodeEpoch>,
    /// The last look at the leases failed, which was said.
    last_check_failed: bool,
}

impl Failover {
    pub(crate) fn new(parts: FailoverParts) -> Self {
        Self {
            parts,
            running: BTreeMap::new(),
            stranded: BTreeSet::new(),
            last_check_failed: false,
        }
    }

    /// Judges and takes over for ever.
    pub(crate) async fn run(mut self) -> Infallible {
        let interval = self.parts.membership.session_timeout / LOOKS_PER_LEASE;
        let mut looks = tokio::time::interval(interval);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = looks.tick() => self.judge().await,
                // Somebody may have been fenced, by this broker or another one. The sender lives as long as the broker.
                _ = self.parts.brokers.changed() => {}
            }
            self.running.retain(|_, takeover| !takeover.is_finished());
            let brokers = Arc::clone(&self.parts.brokers.borrow_and_update());
            for broker in brokers.iter() {
                self.take_over(broker, &brokers);
            }
        }
    }

    async fn judge(&mut self) {
        let Membership { store, epoch, .. } = &self.parts.membership;
        let Ok(judged) = timeout(ANSWER_WAIT, store.fence_expired(*epoch)).await else {
            tracing::warn!(
                "the metadata database does not answer; it is not known whether expired leases were fenced; trying again"
            );
            self.last_check_failed = true;
            return;
        };
        let had_failed = std::mem::replace(&mut self.last_check_failed, judged.is_err());
        match judged {
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
            // It looks several times a second.
            Err(error) if had_failed => tracing::debug!(%error, "leases cannot be looked at"),
            Err(error) => tracing::warn!(%error, "leases cannot be looked at; trying again"),
        }
    }

    /// Takes over the log of a broker that is fenced, unless another one does.
    fn take_over(&mut self, broker: &Broker, all: &[Broker]) {
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
        let is_zonal = self.parts.takeover.logs.is_zonal(&broker.joined.log);
        match reach((broker, is_zonal), self.parts.membership.epoch, all) {
            Reach::Here => {}
            Reach::Others => return,
            Reach::Nobody => {
                if self.stranded.insert(broker.epoch) {
                    let zone = broker.joined.rack.as_deref().unwrap_or_default();
                    tracing::error!(%node, zone, "the log of a fenced broker is on a volume that can be attached in its \
                        availability zone only, and no broker runs there: its partitions wait until one does");
                }
                return;
            }
        }
        let (membership, takeover) = (&self.parts.membership, &self.parts.takeover);
        let adopting = adopt(membership.clone(), takeover.clone(), broker.clone());
        let running = self.parts.tasks.spawn(Task::Failover, adopting);
        self.running.insert(node, running);
    }
}

/// Adopts the log of a fenced broker, unless another one is faster, and takes it over. Leases are judged meanwhile.
async fn adopt(membership: Membership, takeover: Takeover, broker: Broker) {
    let node = broker.joined.node;
    let Membership { store, epoch, .. } = membership;
    let Ok(adopted) = timeout(ANSWER_WAIT, store.adopt_log(node, epoch)).await else {
        tracing::warn!(%node, "the log of a fenced broker waits to be taken over: the metadata database does not answer");
        return;
    };
    let adoption = match adopted {
        Ok(adoption) => adoption,
        // Another one was faster, or the broker is back, or gone for good.
        Err(ClusterError::Adopted { .. } | ClusterError::NodeNot(..)) => return,
        Err(error) => {
            tracing::warn!(%node, %error, "the log of a fenced broker waits to be taken over");
            return;
        }
    };
    if let Err(error) = takeover.run(&broker, adoption).await {
        tell(node, &error);
        let is_halted = matches!(error, TakeoverError::Halted { .. });
        let pause = if is_halted { HALTED_PAUSE } else { RETRY_PAUSE };
        tokio::time::sleep(pause).await;
    }
}

/// Who can take a log over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// This broker.
    Here,
    /// Not this broker, but others.
    Others,
    /// No broker that runs.
    Nobody,
}

/// Volumes are attached in their own zone only, which is that of the broker that had them (`broker.rack`).
fn reach((fenced, is_zonal): (&Broker, bool), own_epoch: NodeEpoch, all: &[Broker]) -> Reach {
    let in_zone = |broker: &&Broker| broker.joined.rack == fenced.joined.rack;
    let mut able = all
        .iter()
        .filter(|broker| broker.state == BrokerState::Active)
        .filter(|broker| !is_zonal || in_zone(broker))
        .peekable();
    if able.peek().is_none() {
        Reach::Nobody
    } else if able.any(|broker| broker.epoch == own_epoch) {
        Reach::Here
    } else {
        Reach::Others
    }
}

fn tell(node: NodeId, error: &TakeoverError) {
    let error = error as &dyn std::error::Error;
    tracing::error!(%node, error, "the log of a fenced broker was not taken over; trying again");
}

#[cfg(test)]
mod tests {
    use millrace_meta::Joining;

    use super::*;

    fn broker(node: u32, zone: &str, state: BrokerState) -> Broker {
        Broker {
            joined: Joining {
                node: NodeId(node),
                endpoints: Vec::new(),
                rack: Some(zone.to_owned()),
                version: String::new(),
                log: String::new(),
                log_id: 1,
            },
            epoch: NodeEpoch(u64::from(node)),
            state,
            is_draining: false,
        }
    }

    #[test]
    fn a_log_on_a_volume_is_taken_over_in_its_zone() {
        const FENCED: BrokerState = BrokerState::Fenced { adopter: None };
        let all = [
            broker(1, "a", FENCED),
            broker(2, "a", BrokerState::Active),
            broker(3, "b", BrokerState::Active),
            broker(4, "c", FENCED),
        ];
        let [of_a, .., of_c] = &all;
        assert_eq!(reach((of_a, true), NodeEpoch(2), &all), Reach::Here);
        assert_eq!(reach((of_a, true), NodeEpoch(3), &all), Reach::Others);
        assert_eq!(reach((of_c, true), NodeEpoch(2), &all), Reach::Nobody);
        // A file of one machine has no zone.
        assert_eq!(reach((of_c, false), NodeEpoch(2), &all), Reach::Here);
    }
}
