//! Judges the leases of the others, and takes over the logs of those that are gone. Each broker does both; the metadata lets
//! one of them win.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use millrace_meta::{Broker, BrokerState, ClusterError, FencedBroker};
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

/// What failover does to other brokers.
#[async_trait]
trait Actions: Send + Sync + 'static {
    /// Fences the brokers whose leases have run out.
    async fn fence_expired(&self) -> Result<Vec<FencedBroker>, ClusterError>;

    /// Whether only brokers of its own broker's zone can open the log at this address.
    fn is_zonal(&self, log: &str) -> bool;

    /// Adopts the log of a fenced broker, unless another broker is faster, and takes it over.
    async fn take_over(&self, broker: Broker);
}

/// See the module.
pub(crate) struct Failover {
    /// This broker's present start.
    epoch: NodeEpoch,
    session_timeout: Duration,
    brokers: watch::Receiver<Arc<Vec<Broker>>>,
    actions: Arc<dyn Actions>,
    tasks: Supervisor,
    /// Takeovers that are under way, one for each node.
    running: BTreeMap<NodeId, JoinHandle<()>>,
    /// Fenced epochs whose logs nobody can take over, which was said.
    stranded: BTreeSet<NodeEpoch>,
    /// The last look at the leases failed, which was said.
    last_check_failed: bool,
}

impl Failover {
    pub(crate) fn new(parts: FailoverParts) -> Self {
        let FailoverParts {
            membership,
            brokers,
            takeover,
            tasks,
        } = parts;
        let (epoch, session_timeout) = (membership.epoch, membership.session_timeout);
        let actions = Arc::new(OnCluster {
            membership,
            takeover,
        });
        Self::with(actions, (epoch, session_timeout), brokers, tasks)
    }

    fn with(
        actions: Arc<dyn Actions>,
        (epoch, session_timeout): (NodeEpoch, Duration),
        brokers: watch::Receiver<Arc<Vec<Broker>>>,
        tasks: Supervisor,
    ) -> Self {
        Self {
            epoch,
            session_timeout,
            brokers,
            actions,
            tasks,
            running: BTreeMap::new(),
            stranded: BTreeSet::new(),
            last_check_failed: false,
        }
    }

    /// Judges and takes over for ever.
    pub(crate) async fn run(mut self) -> Infallible {
        let interval = self.session_timeout / LOOKS_PER_LEASE;
        let mut looks = tokio::time::interval(interval);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = looks.tick() => self.judge().await,
                // Somebody may have been fenced, by this broker or another one. The sender lives as long as the broker.
                _ = self.brokers.changed() => {}
            }
            self.running.retain(|_, takeover| !takeover.is_finished());
            let brokers = Arc::clone(&self.brokers.borrow_and_update());
            for broker in brokers.iter() {
                self.take_over(broker, &brokers);
            }
        }
    }

    async fn judge(&mut self) {
        let Ok(judged) = timeout(ANSWER_WAIT, self.actions.fence_expired()).await else {
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
                .any(|other| other.epoch == epoch && epoch != self.epoch)
        });
        if by_another || self.running.contains_key(&node) {
            return;
        }
        let is_zonal = self.actions.is_zonal(&broker.joined.log);
        match reach((broker, is_zonal), self.epoch, all) {
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
        let (actions, broker) = (Arc::clone(&self.actions), broker.clone());
        // Leases are judged meanwhile.
        let taking_over = async move { actions.take_over(broker).await };
        let running = self.tasks.spawn(Task::Failover, taking_over);
        self.running.insert(node, running);
    }
}

/// Acts on the brokers of the cluster.
struct OnCluster {
    membership: Membership,
    takeover: Takeover,
}

#[async_trait]
impl Actions for OnCluster {
    async fn fence_expired(&self) -> Result<Vec<FencedBroker>, ClusterError> {
        let Membership { store, epoch, .. } = &self.membership;
        store.fence_expired(*epoch).await
    }

    fn is_zonal(&self, log: &str) -> bool {
        self.takeover.logs.is_zonal(log)
    }

    async fn take_over(&self, broker: Broker) {
        let node = broker.joined.node;
        let Membership { store, epoch, .. } = &self.membership;
        let Ok(adopted) = timeout(ANSWER_WAIT, store.adopt_log(node, *epoch)).await else {
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
        if let Err(error) = self.takeover.run(&broker, adoption).await {
            tell(node, &error);
            let is_halted = matches!(error, TakeoverError::Halted { .. });
            let pause = if is_halted { HALTED_PAUSE } else { RETRY_PAUSE };
            tokio::time::sleep(pause).await;
        }
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
    use std::future::pending;

    use millrace_meta::Joining;
    use parking_lot::Mutex;
    use tokio::time::sleep;

    use super::*;

    const FENCED: BrokerState = BrokerState::Fenced { adopter: None };
    const SESSION: Duration = Duration::from_secs(12);
    /// Between two looks at the leases.
    const LOOK: Duration = Duration::from_secs(1);
    const TICK: Duration = Duration::from_millis(1);

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

    /// Notes what is done, and takes these times for it.
    #[derive(Default)]
    struct Noted {
        fencing: Duration,
        /// `None`: it never ends.
        takeover: Option<Duration>,
        looks: Mutex<u32>,
        /// Looks that were not cut off.
        fenced: Mutex<u32>,
        begun: Mutex<Vec<NodeId>>,
    }

    #[async_trait]
    impl Actions for Noted {
        async fn fence_expired(&self) -> Result<Vec<FencedBroker>, ClusterError> {
            *self.looks.lock() += 1;
            sleep(self.fencing).await;
            *self.fenced.lock() += 1;
            Ok(Vec::new())
        }

        fn is_zonal(&self, _log: &str) -> bool {
            true
        }

        async fn take_over(&self, broker: Broker) {
            self.begun.lock().push(broker.joined.node);
            match self.takeover {
                Some(takes) => sleep(takes).await,
                None => pending().await,
            }
        }
    }

    /// Broker 2 of these, which runs for so long.
    async fn run_for(
        time: Duration,
        actions: Noted,
        brokers: Vec<Broker>,
        then: impl AsyncFnOnce(&watch::Sender<Arc<Vec<Broker>>>),
    ) -> Arc<Noted> {
        let actions = Arc::new(actions);
        let (told, seen) = watch::channel(Arc::new(brokers));
        let own = (NodeEpoch(2), SESSION);
        let failover = Failover::with(actions.clone(), own, seen, Supervisor::new());
        let driving = async {
            then(&told).await;
            sleep(time).await;
        };
        tokio::select! {
            never = failover.run() => match never {},
            () = driving => {}
        }
        actions
    }

    fn one_fenced() -> Vec<Broker> {
        vec![broker(1, "a", FENCED), broker(2, "a", BrokerState::Active)]
    }

    /// An adoption without an answer kept the judge waiting.
    #[tokio::test(start_paused = true)]
    async fn leases_are_judged_while_a_log_is_taken_over() {
        let noted = run_for(LOOK * 30, Noted::default(), one_fenced(), async |_| {}).await;
        assert!(*noted.looks.lock() >= 30, "{}", noted.looks.lock());
        assert_eq!(*noted.begun.lock(), [NodeId(1)], "once at a time");
    }

    /// Whatever a dead broker led, fencing it takes one transaction.
    #[tokio::test(start_paused = true)]
    async fn a_fencing_is_not_cut_off_before_its_statements_are() {
        let slow = Noted {
            fencing: ANSWER_WAIT - TICK,
            ..Noted::default()
        };
        let noted = run_for(ANSWER_WAIT, slow, Vec::new(), async |_| {}).await;
        assert_eq!(*noted.fenced.lock(), 1);
        let hangs = Noted {
            fencing: ANSWER_WAIT * 100,
            ..Noted::default()
        };
        let noted = run_for(ANSWER_WAIT + LOOK * 2, hangs, Vec::new(), async |_| {}).await;
        assert_eq!((*noted.looks.lock(), *noted.fenced.lock()), (2, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_takeover_that_ends_without_success_is_tried_again() {
        let short = || Noted {
            takeover: Some(LOOK * 4),
            ..Noted::default()
        };
        let noted = run_for(LOOK * 11, short(), one_fenced(), async |_| {}).await;
        assert_eq!(*noted.begun.lock(), [NodeId(1); 3]);
        let left = async |told: &watch::Sender<Arc<Vec<Broker>>>| {
            sleep(LOOK).await;
            let gone = vec![
                broker(1, "a", BrokerState::Left),
                broker(2, "a", BrokerState::Active),
            ];
            told.send_replace(Arc::new(gone));
        };
        let noted = run_for(LOOK * 20, short(), one_fenced(), left).await;
        assert_eq!(*noted.begun.lock(), [NodeId(1)], "it has left");
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_that_an_active_broker_adopts_is_left_to_it() {
        let adopted = |state| {
            let adopter = Some(NodeEpoch(3));
            let fenced = broker(1, "a", BrokerState::Fenced { adopter });
            vec![
                fenced,
                broker(2, "a", BrokerState::Active),
                broker(3, "a", state),
            ]
        };
        let active = adopted(BrokerState::Active);
        let noted = run_for(LOOK * 5, Noted::default(), active, async |_| {}).await;
        assert_eq!(*noted.begun.lock(), []);
        let died = adopted(BrokerState::Left);
        let noted = run_for(LOOK * 5, Noted::default(), died, async |_| {}).await;
        assert_eq!(*noted.begun.lock(), [NodeId(1)]);
    }

    #[test]
    fn a_log_on_a_volume_is_taken_over_in_its_zone() {
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
