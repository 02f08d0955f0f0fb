//! The coordinators of consumer groups, of transactions and of share partitions, and what they need of the other brokers.

use std::{sync::Arc, time::Duration};

use millrace_api::{Markers, ProducerIds, ShareStateRouter, TransactionPeers};
use millrace_client::{Client, ClientConfig};
use millrace_coordinator::{
    CoordinatorParts, GroupCoordinator, LoadError, ShareCoordinator, ShareCoordinatorParts,
    ShareStates, TransactionCoordinator, TransactionParts,
};
use millrace_log::LogManager;
use millrace_purgatory::Timers;
use tokio::time::timeout;

use crate::{
    config::BrokerConfig,
    share_peers::OtherShareCoordinators,
    storage::{Seams, Storage},
    transaction_peers::OtherBrokers,
};

/// All coordinators. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Coordinators {
    pub(crate) groups: GroupCoordinator,
    pub(crate) transactions: TransactionCoordinator,
    pub(crate) shares: ShareCoordinator,
    /// The state of all share partitions, whoever keeps it.
    pub(crate) share_states: Arc<dyn ShareStates>,
    pub(crate) others: Arc<OtherBrokers>,
    pub(crate) other_shares: Arc<OtherShareCoordinators>,
    pub(crate) producer_ids: Arc<ProducerIds>,
}

impl Coordinators {
    /// Loads what this broker coordinates.
    ///
    /// # Errors
    /// An internal topic could not be created.
    pub(crate) async fn open(
        config: &BrokerConfig,
        (storage, logs): (&Storage, &LogManager),
        timers: &Timers,
        seams: &Seams,
    ) -> Result<Self, LoadError> {
        let shares = ShareCoordinator::open(ShareCoordinatorParts {
            topic: millrace_coordinator::share_group_state(logs),
            topics: Arc::new(logs.clone()),
            clock: seams.clock.clone(),
            timers: timers.clone(),
            tasks: seams.tasks.clone(),
            config: config.share_states.clone(),
        })
        .await?;
        let other_shares = Arc::new(OtherShareCoordinators::default());
        let router = ShareStateRouter::new(logs.clone(), shares.clone(), other_shares.clone());
        let share_states: Arc<dyn ShareStates> = Arc::new(router);
        let groups = GroupCoordinator::open(CoordinatorParts {
            topic: millrace_coordinator::consumer_offsets(logs),
            topics: Arc::new(logs.clone()),
            share_states: Arc::clone(&share_states),
            clock: seams.clock.clone(),
            random: seams.random.clone(),
            timers: timers.clone(),
            tasks: seams.tasks.clone(),
            config: config.group.clone(),
        })
        .await?;
        let others = Arc::new(OtherBrokers::default());
        let peers: Arc<dyn TransactionPeers> = others.clone();
        let producer_ids = Arc::new(ProducerIds::new(Arc::clone(&storage.meta)));
        let transactions = TransactionCoordinator::open(TransactionParts {
            topic: millrace_coordinator::transaction_state(logs),
            producer_ids: producer_ids.clone(),
            markers: Arc::new(Markers::new(logs.clone(), groups.clone(), peers)),
            clock: seams.clock.clone(),
            timers: timers.clone(),
            tasks: seams.tasks.clone(),
            config: config.transactions.clone(),
        })
        .await?;
        Ok(Self {
            groups,
            transactions,
            shares,
            share_states,
            others,
            other_shares,
            producer_ids,
        })
    }

    /// Starts sending requests to other brokers with this client. Not called on a single broker: its in-process client
    /// would keep the broker alive.
    pub(crate) fn ask_others_with(&self, client: ClientConfig) {
        let client = Client::new(client);
        self.other_shares.ask_with(client.clone());
        self.others.ask_with(client);
    }

    /// Waits until what was taken is durable and answered, for at most `patience` each.
    pub(crate) async fn close(&self, patience: Duration) {
        if timeout(patience, self.shares.close()).await.is_err() {
            tracing::warn!(
                "timed out waiting for pending writes of share partitions; their leaders were not told the outcome"
            );
        }
        if timeout(patience, self.transactions.close()).await.is_err() {
            tracing::warn!(
                "timed out waiting for pending transaction writes; clients were not told the outcome"
            );
        }
        if timeout(patience, self.groups.close()).await.is_err() {
            tracing::warn!(
                "timed out waiting for pending consumer group writes; clients were not told the outcome"
            );
        }
    }
}
