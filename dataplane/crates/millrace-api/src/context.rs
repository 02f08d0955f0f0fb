//! The dependencies of handlers.

use std::{fmt, sync::Arc, time::Duration};

use millrace_coordinator::{
    GroupCoordinator, ShareCoordinator, ShareStates, TransactionCoordinator,
};
use millrace_limiter::Network;
use millrace_log::LogManager;
use millrace_meta::{MetaStore, StoreFailure};
use millrace_model::{NodeId, TopicPartition};
use millrace_purgatory::{Purgatory, PurgatoryConfig, Timers, Wait};
use millrace_security::quota::LiveQuotas;
use millrace_share::ShareConfig;
use millrace_tasks::Supervisor;
use millrace_time::{SharedClock, SharedRandom};
use millrace_wire::{StrBytes, messages::BrokerId, service::Peer};

use crate::{
    acl_changes::AclChanges,
    authorization::{Authorization, Rights},
    call::Call,
    client_metrics::ClientMetrics,
    cold_reads::ColdReads,
    delegation_tokens::TokenChanges,
    fetch_sessions::FetchSessions,
    inspection::Inspection,
    members::{Members, broker_id},
    metrics::Metrics,
    producer_ids::ProducerIds,
    quota::{QuotaConfig, Quotas},
    quota_changes::QuotaChanges,
    resource_configs::{ResourceConfigs, StoredConfigs},
    scram_changes::ScramChanges,
    security_changes::SecurityChanges,
    settings::BrokerSettings,
    share_partitions::{SharePartitions, ShareParts},
    sign_in::{Security, SignIn},
    topic_changes::TopicChanges,
    transactions::TransactionPeers,
    wakeups::Wakeups,
    zones::{Redirects, ReplicaSelector},
};

/// What the service is built on.
pub struct ApiParts {
    /// The partitions.
    pub logs: LogManager,
    /// The groups.
    pub groups: GroupCoordinator,
    /// The transactions.
    pub transactions: TransactionCoordinator,
    /// The other brokers, as transactions need them.
    pub transaction_peers: Arc<dyn TransactionPeers>,
    /// The share partitions that this broker keeps.
    pub share_coordinator: ShareCoordinator,
    /// The state of all share partitions.
    pub share_states: Arc<dyn ShareStates>,
    /// Gives out producer ids.
    pub producer_ids: Arc<ProducerIds>,
    /// Keeps users' credentials.
    pub meta: Arc<dyn MetaStore>,
    /// Time.
    pub clock: SharedClock,
    /// Chance.
    pub random: SharedRandom,
    /// Deadlines of waiting requests.
    pub timers: Timers,
    /// What requests and answers move over.
    pub network: Network,
    /// Supervises the service's tasks.
    pub tasks: Supervisor,
    /// What DescribeConfigs shows of the broker, and how it is changed.
    pub settings: Arc<dyn BrokerSettings>,
    /// Who may sign in.
    pub security: Security,
    /// What clients may use.
    pub quotas: Arc<LiveQuotas>,
    /// What is set for groups and client metrics.
    pub resource_configs: StoredConfigs,
    /// What the broker says of itself.
    pub config: ApiConfig,
}

/// What the broker says of itself, and bounds.
#[derive(Debug, Clone)]
pub struct ApiConfig {
    /// `node.id`
    pub node_id: NodeId,
    /// The cluster's id.
    pub cluster_id: String,
    /// What clients are told to connect to, by listener; never empty.
    pub endpoints: Vec<AdvertisedEndpoint>,
    /// `fetch.max.bytes`: the most that one fetch answers, whatever the client allows.
    pub fetch_bytes_max: usize,
    /// `telemetry.max.bytes`: the most that a client may push of its metrics at a time.
    pub telemetry_bytes_max: usize,
    /// What clients may move.
    pub quotas: QuotaConfig,
    /// `broker.rack`: the zone that this broker is in.
    pub rack: Option<String>,
    /// The brokers of the cluster; `None` where this one is alone.
    pub members: Option<Members>,
    /// The settings of share groups.
    pub share: ShareConfig,
    /// `replica.selector.class`: who serves consumers of other zones.
    pub replica_selector: ReplicaSelector,
}

/// Where clients of a listener are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdvertisedEndpoint {
    /// The listener's name.
    pub listener: String,
    /// The host that clients are told.
    pub host: String,
    /// The port that clients are told.
    pub port: u16,
}

/// `fetch.max.bytes` by default: Kafka's 55 MiB.
pub const FETCH_BYTES_MAX: usize = 55 * 1024 * 1024;

/// What handlers share.
pub(crate) struct Context {
    pub(crate) logs: LogManager,
    pub(crate) groups: GroupCoordinator,
    pub(crate) transactions: TransactionCoordinator,
    pub(crate) transaction_peers: Arc<dyn TransactionPeers>,
    pub(crate) share_coordinator: ShareCoordinator,
    #[expect(dead_code, reason = "the handlers of share groups read and write it")]
    pub(crate) share_states: Arc<dyn ShareStates>,
    pub(crate) clock: SharedClock,
    pub(crate) network: Network,
    /// Fetches that wait for data.
    pub(crate) purgatory: Purgatory<TopicPartition, Wait>,
    pub(crate) wakeups: Wakeups,
    /// Share partitions that this broker leads.
    pub(crate) share: SharePartitions,
    pub(crate) producer_ids: Arc<ProducerIds>,
    pub(crate) authorization: Arc<Authorization>,
    /// Nothing where there is no authorizer.
    pub(crate) acl_changes: Option<Arc<AclChanges>>,
    pub(crate) scram_changes: Arc<ScramChanges>,
    /// Nothing where delegation tokens are disabled.
    pub(crate) token_changes: Option<Arc<TokenChanges>>,
    pub(crate) quota_changes: Arc<QuotaChanges>,
    pub(crate) client_metrics: Arc<ClientMetrics>,
    /// What is set for groups and client metrics.
    pub(crate) resource_configs: Arc<ResourceConfigs>,
    /// Where changes of ACLs, credentials, tokens, quotas and configurations of groups and client metrics are made.
    pub(crate) security_changes: SecurityChanges,
    pub(crate) fetch_sessions: FetchSessions,
    /// Reads of what has left memory.
    pub(crate) cold_reads: ColdReads,
    /// Consumers that were sent to brokers of their zones.
    pub(crate) redirects: Redirects,
    pub(crate) inspection: Inspection,
    pub(crate) quotas: Quotas,
    pub(crate) topic_changes: TopicChanges,
    pub(crate) metrics: Metrics,
    pub(crate) settings: Arc<dyn BrokerSettings>,
    pub(crate) sign_in: SignIn,
    pub(crate) config: ApiConfig,
}

impl Context {
    pub(crate) fn new(parts: ApiParts) -> Arc<Self> {
        let purgatory = Purgatory::with_timers(parts.timers, PurgatoryConfig::default());
        let share = ShareParts {
            config: parts.config.share.clone(),
            of_groups: parts.groups.config().of_groups.clone(),
            states: Arc::clone(&parts.share_states),
            purgatory: purgatory.clone(),
            timers: purgatory.timers().clone(),
            clock: parts.clock.clone(),
            tasks: parts.tasks.clone(),
        };
        let authorizer = parts.security.authorizer.clone();
        let tokens = parts.security.delegation.clone();
        let token_changes =
            tokens.map(|tokens| Arc::new(TokenChanges::new(Arc::clone(&parts.meta), tokens)));
        let authorization = Arc::new(Authorization::new(authorizer.clone(), parts.clock.clone()));
        let client_metrics = Arc::new(ClientMetrics::new(
            parts.clock.clone(),
            parts.random.clone(),
            parts.config.telemetry_bytes_max,
        ));
        let cold_reads = ColdReads::new(parts.network.egress.clone(), parts.clock.clone());
        Arc::new(Self {
            logs: parts.logs,
            resource_configs: Arc::new(ResourceConfigs::new(
                Arc::clone(&parts.meta),
                parts.resource_configs,
                parts.groups.config().of_groups.clone(),
                Arc::clone(&client_metrics),
            )),
            client_metrics,
            groups: parts.groups,
            transactions: parts.transactions,
            transaction_peers: parts.transaction_peers,
            share_coordinator: parts.share_coordinator,
            share_states: parts.share_states,
            clock: parts.clock.clone(),
            network: parts.network,
            wakeups: Wakeups::new(purgatory.clone()),
            share: SharePartitions::new(share),
            purgatory,
            producer_ids: parts.producer_ids,
            quota_changes: Arc::new(QuotaChanges::new(
                Arc::clone(&parts.meta),
                Arc::clone(&parts.quotas),
            )),
            acl_changes: authorizer
                .map(|authorizer| Arc::new(AclChanges::new(Arc::clone(&parts.meta), authorizer))),
            authorization: Arc::clone(&authorization),
            scram_changes: Arc::new(ScramChanges::new(
                parts.meta,
                Arc::clone(&parts.security.scram),
                token_changes.clone(),
            )),
            security_changes: SecurityChanges::start(&parts.tasks, token_changes.clone()),
            token_changes,
            fetch_sessions: FetchSessions::new(parts.random),
            cold_reads,
            redirects: Redirects::default(),
            inspection: Inspection::new(),
            quotas: Quotas::new(parts.config.quotas, parts.quotas),
            topic_changes: TopicChanges::start(&parts.tasks),
            metrics: Metrics::new(),
            settings: parts.settings,
            sign_in: SignIn::new(parts.security, authorization),
            config: parts.config,
        })
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// What the client of a request may do.
    pub(crate) fn rights(&self, call: &Call) -> Rights {
        Rights::new(&self.authorization, call)
    }

    /// Replaces security settings by those that are stored. Runs in [`SecurityChanges`], between changes.
    pub(crate) async fn reload_security(&self) -> Result<(), StoreFailure> {
        let tokens = match &self.token_changes {
            Some(tokens) => tokens.reload().await,
            None => Ok(()),
        };
        let credentials = self.scram_changes.reload().await;
        let acls = match &self.acl_changes {
            Some(acls) => acls.reload().await,
            None => Ok(()),
        };
        let quotas = self.quota_changes.reload().await;
        self.quotas.reconsider(self.now());
        let mut result = Ok(());
        let configs = self.resource_configs.reload().await;
        for reloaded in [tokens, credentials, acls, quotas, configs] {
            if let Err(error) = &reloaded {
                tracing::warn!(%error, "security settings could not be reloaded; tried again later");
            }
            result = result.and(reloaded);
        }
        result
    }

    /// This broker's id as the wire writes it.
    pub(crate) fn broker_id(&self) -> BrokerId {
        broker_id(self.config.node_id)
    }

    /// Where the peer's listener sends clients.
    pub(crate) fn endpoint(&self, peer: &Peer) -> (StrBytes, i32) {
        let endpoints = &self.config.endpoints;
        let own = endpoints
            .iter()
            .find(|endpoint| endpoint.listener == peer.listener);
        match own.or(endpoints.first()) {
            Some(endpoint) => (text(endpoint.host.clone()), i32::from(endpoint.port)),
            None => (StrBytes::default(), -1),
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// A text for the wire.
pub(crate) fn text(text: impl Into<String>) -> StrBytes {
    StrBytes::from_string(text.into())
}
