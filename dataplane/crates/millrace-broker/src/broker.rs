//! The composition root: starts every part in order, drains and stops them in the opposite order.

use std::{collections::HashMap, convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use millrace_api::{
    AdvertisedEndpoint, ApiConfig, ApiParts, ApiService, SaslListener, Security, StoredConfigs,
    authorizer, client_quotas, delegation_tokens, resource_configs, scram_users,
};
use millrace_client::{Client, ClientConfig};
use millrace_cluster::Cluster;
use millrace_coordinator::GroupCoordinator;
use millrace_log::{LogManager, LogParts, Shared};
use millrace_meta::BrokerEndpoint;
use millrace_model::Cause;
use millrace_net::{BindError, ListenerConfig, ListenerSecurity, Listeners, Server};
use millrace_purgatory::Timers;
use millrace_records::Records;
use millrace_security::{credentials::ScramUsers, quota::LiveQuotas};
use millrace_stream::Closed;
use millrace_tasks::{Failure, Supervisor, Task};
use millrace_time::SharedClock;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    admin::{Admin, AdminError, AdminListener, AdminState, Token},
    catch_up::{CatchUp, Pressure, Tracker},
    cluster,
    config::{BrokerConfig, Endpoint, HostPort, INTER_BROKER, InjectedPanic},
    control_link::{ControlLink, LinkParts},
    coordinators::Coordinators,
    folder::{DataFolder, FolderError},
    memory::{MemoryBudgets, MemoryError},
    own_client,
    settings::LiveSettings,
    state::{Identity, Phase, Serving, State},
    storage::{Seams, Storage, StorageError},
    telemetry::{Telemetry, TelemetryError},
    tls::{CertificateError, Certificates},
    token_keys::{KeySetError, KeySets},
};

/// How often metric samples are folded into their buckets: bounds the memory of unread samples.
const FOLD_INTERVAL: Duration = Duration::from_secs(5);

/// How long a broker that failed answers requests that are in flight.
const ABANDON_DRAIN: Duration = Duration::from_secs(1);

/// Unwinding a task takes microseconds.
const PANIC_ARRIVES_WITHIN: Duration = Duration::from_millis(50);

/// Timeout of requests to other brokers: for the ends of their partitions, and about transactions.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);

/// The broker did not start. The text is for the operator and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The settings ask for more memory than there is.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A task failed while the broker started.
    #[error("{0}")]
    Task(Failure),
    /// The metrics.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The data folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A Kafka listener.
    #[error("{0}; is another program listening there?")]
    Bind(#[from] BindError),
    /// The certificate of a listener.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The keys of a listener's tokens.
    #[error(transparent)]
    KeySet(#[from] KeySetError),
    /// The admin HTTP.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The storage engine.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The partitions.
    #[error("the partitions cannot be opened: {0}")]
    Logs(#[from] millrace_log::error::OpenError),
    /// The consumer groups, or the transactions.
    #[error("the coordinators cannot start: {0}")]
    Coordinators(#[from] millrace_coordinator::LoadError),
}

/// Why a running broker has to end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokerFailure {
    /// The log's device failed, or another broker took over.
    #[error("the storage failed: {0}")]
    Storage(Cause),
    /// A task failed.
    #[error("{0}")]
    Task(Failure),
}

/// How a broker stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReport {
    /// Connections whose requests took too long.
    pub cut: usize,
    /// What became of the data.
    pub storage: Closed,
}

/// A running broker.
pub struct Broker {
    state: Arc<State>,
    addresses: Vec<(String, SocketAddr)>,
    server: Server,
    service: Arc<ApiService>,
    coordinators: Coordinators,
    logs: LogManager,
    storage: Storage,
    cluster: Option<Cluster>,
    admin: Option<Admin>,
    link: Option<ControlLink>,
    drain: Duration,
    tasks: Supervisor,
    _folding: AbortOnDropHandle<()>,
    _tracking: AbortOnDropHandle<()>,
    _following: Option<AbortOnDropHandle<()>>,
    _telling: Option<AbortOnDropHandle<()>>,
    _asking: Option<AbortOnDropHandle<()>>,
    /// Last, so that the folder is free only when everything else has gone.
    _folder: DataFolder,
}

impl Broker {
    /// Starts a broker on the machine's clock and randomness. Clients are served when this returns.
    ///
    /// # Errors
    /// The first part that did not start; what had started before is gone again.
    pub async fn start(config: BrokerConfig) -> Result<Self, StartError> {
        Self::start_with(config, Seams::system()).await
    }

    /// The same on a clock and randomness of the caller's.
    ///
    /// # Errors
    /// See [`Broker::start`].
    pub async fn start_with(config: BrokerConfig, seams: Seams) -> Result<Self, StartError> {
        let (tasks, injected) = (seams.tasks.clone(), config.injected_panic);
        announce(injected, &tasks);
        let broker = tokio::select! {
            biased;
            failure = tasks.failed() => return Err(StartError::Task(failure)),
            started = Self::start_parts(config, seams) => started?,
        };
        inject_later(injected, tasks);
        Ok(broker)
    }

    async fn start_parts(mut config: BrokerConfig, seams: Seams) -> Result<Self, StartError> {
        let tasks = &seams.tasks;
        let telemetry = Telemetry::install()?;
        let memory = MemoryBudgets::divide(&mut config, &*seams.machine)?;
        report(&config, &memory);
        let folder = DataFolder::lock(&config.data_dir)?;
        let (listeners, following) = bind(&config, tasks).await?;
        let settings = Arc::new(LiveSettings::new(&config, &memory));
        let state = new_state(&config, &settings, memory, &seams);
        let (admin, link) = start_admin(&config, &state, &telemetry, &seams).await?;
        let folding = fold(telemetry, tasks.clone());
        let folding = AbortOnDropHandle::new(tasks.spawn(Task::TelemetryFold, folding));
        let addresses = listeners.addresses();
        let advertised = advertised(&config, &addresses);
        let told = endpoints(&advertised);
        let storage = Storage::open(&config, &settings, &folder, told, &seams).await?;
        identify(&state, &storage);
        let logs = open_logs(&config, &storage, &seams).await?;
        let cluster = join_cluster(&config, &storage, &logs, &seams).await;
        let timers = Timers::new(seams.clock.clone(), tasks.clone());
        let opening = Coordinators::open(&config, (&storage, &logs), &timers, &seams);
        let coordinators = opening.await?;
        let tracker = tracker(&coordinators.groups, &logs, &storage, &seams);
        let quotas = quotas(&storage).await?;
        let built = (&storage, &logs, &coordinators, &timers);
        let api = api_config(&config, &storage, &advertised, cluster.as_ref());
        let security = security(&config, &storage, &seams).await?;
        let stored = stored_configs(&storage).await?;
        let guards = (security, Arc::clone(&quotas), stored);
        let parts = api_parts(built, settings, guards, api, &seams);
        let service = Arc::new(ApiService::new(parts));
        let telling = tell_changes(cluster.as_ref(), &service, &seams);
        let shared = (quotas, &seams.clock, &storage.tasks);
        let server = serve(&config, listeners, &service, timers, shared)?;
        let own_client = || own_client(&server, &advertised, &storage);
        let kept = (&storage, &logs, &coordinators);
        let serving = serving(
            (&config, &seams),
            (&server, own_client(), &advertised),
            kept,
            (cluster.as_ref(), &service, &tracker),
        );
        let asking = ask_others(cluster.as_ref(), &tracker, own_client(), tasks);
        if cluster.is_some() {
            coordinators.ask_others_with(impatient(own_client()));
        }
        let _ = state.serving.set(serving);
        ready(&state, &addresses);
        Ok(Self {
            state,
            addresses,
            server,
            service,
            coordinators,
            logs,
            storage,
            cluster,
            admin,
            link,
            drain: config.drain,
            _folding: folding,
            _tracking: track(tracker, tasks),
            _following: following,
            _telling: telling,
            _asking: asking,
            tasks: seams.tasks,
            _folder: folder,
        })
    }

    /// Each Kafka listener's name and address.
    #[must_use]
    pub fn addresses(&self) -> &[(String, SocketAddr)] {
        &self.addresses
    }

    /// Where the admin HTTP listens, if it does.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Admin::address)
    }

    /// Resolves once the broker cannot go on. `/readyz` says why from then on. The process has to end
    /// by [`Broker::abandon`], not by [`Broker::stop`]; the next start recovers what was acknowledged.
    pub async fn failed(&self) -> BrokerFailure {
        tokio::select! {
            biased;
            failure = self.tasks.failed() => BrokerFailure::Task(failure),
            reason = self.storage.store.failed() => {
                // A task that panics may take the storage down before its panic has arrived here.
                match timeout(PANIC_ARRIVES_WITHIN, self.tasks.failed()).await {
                    Ok(failure) => BrokerFailure::Task(failure),
                    Err(_) => BrokerFailure::Storage(reason),
                }
            }
        }
    }

    /// Ends a broker that has failed: answers what can still be answered, for a second at most, and
    /// leaves log and bucket as a crash would. A task that panicked may have left its part half
    /// changed, so nothing is written on the strength of that.
    pub async fn abandon(self) {
        self.state.stop_records();
        self.server.stop_reading();
        self.service.stop_waiting();
        self.coordinators.groups.stop_waiting();
        let report = self.server.drain(ABANDON_DRAIN).await;
        tracing::info!(cut = report.cut, "the broker has stopped serving");
    }

    /// Stops reading from clients, answers what is in flight, uploads, closes. Bounded by
    /// `shutdown.drain.ms` and by the store's own bound for the upload.
    pub async fn stop(self) -> StopReport {
        self.state.enter(Phase::Stopping);
        if let Some(cluster) = &self.cluster {
            tracing::info!("stopping: other brokers take over the partitions");
            cluster.drain().await;
        }
        tracing::info!("stopping: requests in flight are answered");
        self.state.stop_records();
        self.server.stop_reading();
        self.service.stop_waiting();
        self.coordinators.groups.stop_waiting();
        let report = self.server.drain(self.drain).await;
        if report.cut > 0 {
            tracing::warn!(
                connections = report.cut,
                "cut: their requests took too long"
            );
        }
        self.coordinators.close(self.drain).await;
        self.logs.close().await;
        let storage = self.storage.store.close().await;
        if let Some(cluster) = &self.cluster {
            cluster.leave(&storage).await;
        }
        if let Some(admin) = self.admin {
            admin.stop();
        }
        if let Some(link) = self.link {
            link.stop().await;
        }
        tracing::info!(?storage, "stopped");
        StopReport {
            cut: report.cut,
            storage,
        }
    }
}

/// Binds the listeners, and follows their certificates where they have any.
async fn bind(
    config: &BrokerConfig,
    tasks: &Supervisor,
) -> Result<(Listeners, Option<AbortOnDropHandle<()>>), StartError> {
    let certificates = Certificates::read(config)?;
    let listeners = Listeners::bind(&listener_configs(config, &certificates)).await?;
    let following = (!certificates.is_empty())
        .then(|| tasks.spawn(Task::CertificateReload, certificates.follow()));
    Ok((listeners, following.map(AbortOnDropHandle::new)))
}

fn ready(state: &State, addresses: &[(String, SocketAddr)]) {
    state.enter(Phase::Running);
    tracing::info!(listeners = ?addresses, "the broker is ready");
}

fn identify(state: &State, storage: &Storage) {
    let _ = state.identity.set(Identity {
        cluster_id: storage.cluster_id.clone(),
        node_epoch: storage.node_epoch,
    });
}

/// What the log says of the settings before anything is opened.
fn report(config: &BrokerConfig, memory: &MemoryBudgets) {
    memory.report();
    for unknown in &config.unknown {
        tracing::warn!("unknown setting, it has no effect: {unknown}");
    }
}

fn new_state(
    config: &BrokerConfig,
    settings: &Arc<LiveSettings>,
    memory: MemoryBudgets,
    seams: &Seams,
) -> Arc<State> {
    let (clock, tasks) = (seams.clock.clone(), seams.tasks.clone());
    let settings = Arc::clone(settings);
    Arc::new(State::new(config, settings, memory, clock, tasks))
}

/// The admin HTTP: on its port, on the control link, or on both.
async fn start_admin(
    config: &BrokerConfig,
    state: &Arc<State>,
    telemetry: &Telemetry,
    seams: &Seams,
) -> Result<(Option<Admin>, Option<ControlLink>), AdminError> {
    let token = admin_token(config)?;
    let admin_state = AdminState::new(state.clone(), telemetry.clone(), token, &seams.tasks);
    let admin = match &config.admin_listener {
        Some(at) => Some(listen_admin(at, admin_state.clone(), &seams.tasks).await?),
        None => None,
    };
    let link = config.control_link.clone().zip(state.control_link.clone());
    let link = link.map(|(link, state)| {
        let parts = LinkParts {
            node_id: config.node_id,
            router: admin_state.for_link(),
            state,
            clock: seams.clock.clone(),
            random: seams.random.clone(),
        };
        ControlLink::start(link, parts, &seams.tasks)
    });
    Ok((admin, link))
}

/// What callers show at the port of the admin HTTP; no token where there is no port.
fn admin_token(config: &BrokerConfig) -> Result<Token, AdminError> {
    match (&config.admin_listener, &config.admin_token_file) {
        (None, _) => Ok(Token::none()),
        (Some(_), Some(file)) => Token::read(file),
        (Some(_), None) => {
            tracing::warn!(
                "admin.token.file is not set: the admin HTTP answers only /healthz and the status code of /readyz"
            );
            Ok(Token::none())
        }
    }
}

async fn listen_admin(
    at: &HostPort,
    state: AdminState,
    tasks: &Supervisor,
) -> Result<Admin, AdminError> {
    let failed = |source| AdminError::Listen {
        address: at.to_string(),
        source,
    };
    let HostPort { host, port } = at;
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    let listener = AdminListener::bind(host, *port).await.map_err(failed)?;
    let admin = Admin::serve(listener, state, tasks).map_err(failed)?;
    tracing::info!(address = %admin.address(), "the admin HTTP listens");
    Ok(admin)
}

fn listener_configs(config: &BrokerConfig, certificates: &Certificates) -> Vec<ListenerConfig> {
    let listener = |endpoint: &Endpoint| {
        let protection = config.protections.get(&endpoint.name);
        let tls = protection.and_then(|protection| protection.tls.as_ref());
        ListenerConfig {
            name: endpoint.name.clone(),
            host: endpoint.at.host.clone(),
            port: endpoint.at.port,
            security: ListenerSecurity {
                tls: certificates.of(&endpoint.name),
                sasl: protection.is_some_and(|protection| protection.sasl.is_some()),
                mapping: tls.map_or_else(Arc::default, |tls| Arc::clone(&tls.mapping)),
            },
            limits: config
                .listener_limits
                .get(&endpoint.name)
                .copied()
                .unwrap_or_default(),
        }
    };
    config.listeners.iter().map(listener).collect()
}

/// Who may sign in at which listener, and do what. The keys of tokens are fetched from now on.
async fn security(
    config: &BrokerConfig,
    storage: &Storage,
    seams: &Seams,
) -> Result<Security, StartError> {
    let mut key_sets = KeySets::new(seams.clock.clone());
    let mut sasl = HashMap::new();
    for (name, protection) in &config.protections {
        let Some(settings) = protection.sasl.clone() else {
            continue;
        };
        let oauth = settings.oauth.as_ref();
        let tokens = oauth.map(|oauth| key_sets.add(name, oauth)).transpose()?;
        let of_brokers = storage
            .membership
            .as_ref()
            .filter(|_| name == INTER_BROKER)
            .map(|membership| ScramUsers::new([]).with_brokers(&membership.secret));
        let listener = SaslListener {
            only: of_brokers.map(Arc::new),
            mechanisms: settings.mechanisms,
            plain: settings.plain,
            tokens,
            session_max: settings.session_max,
        };
        sasl.insert(name.clone(), listener);
    }
    if !key_sets.is_empty() {
        key_sets.fetch().await;
        seams.tasks.spawn(Task::TokenKeys, key_sets.follow());
    }
    let users = scram_users(&*storage.meta).await;
    let users = users.map_err(StorageError::MetaUse)?;
    let users = match control_plane_token(config)?.secret() {
        Some(password) => users.with_control_plane(password),
        None => users,
    };
    let authorizer = match &config.authorizer {
        Some(config) => {
            let loaded = authorizer(&*storage.meta, config.clone()).await;
            Some(Arc::new(loaded.map_err(StorageError::MetaUse)?))
        }
        None => None,
    };
    let delegation = match &config.delegation {
        Some(config) => {
            let clock = seams.clock.clone();
            let loaded = delegation_tokens(&*storage.meta, config.clone(), clock).await;
            Some(Arc::new(loaded.map_err(StorageError::MetaUse)?))
        }
        None => None,
    };
    Ok(Security {
        authorizer,
        delegation,
        sasl,
        scram: Arc::new(users),
    })
}

/// What the control plane signs in with; no token where it does not.
fn control_plane_token(config: &BrokerConfig) -> Result<Token, AdminError> {
    let file = config.admin_token_file.as_ref();
    let file = file.filter(|_| config.admin_sasl);
    file.map_or_else(|| Ok(Token::none()), |file| Token::read(file))
}

/// Accepts clients from now on.
fn serve(
    config: &BrokerConfig,
    listeners: Listeners,
    service: &Arc<ApiService>,
    timers: Timers,
    (quotas, clock, tasks): (Arc<LiveQuotas>, &SharedClock, &Supervisor),
) -> Result<Server, BindError> {
    let (net, service, clock) = (config.net.clone(), service.clone(), clock.clone());
    listeners.serve(net, service, clock, timers, (quotas, tasks))
}

/// Asks the other brokers, where there are any, where their partitions end.
fn ask_others(
    cluster: Option<&Cluster>,
    tracker: &Tracker,
    client: ClientConfig,
    tasks: &Supervisor,
) -> Option<AbortOnDropHandle<()>> {
    cluster.map(|_| {
        let asking = tracker
            .elsewhere()
            .clone()
            .run(Client::new(impatient(client)));
        AbortOnDropHandle::new(tasks.spawn(Task::CatchUpTracker, asking))
    })
}

/// A broker that does not answer must not hold the others' answers back for long.
fn impatient(mut client: ClientConfig) -> ClientConfig {
    client.request_timeout = ASK_TIMEOUT;
    client
}

/// Has the service take over what other brokers change.
fn tell_changes(
    cluster: Option<&Cluster>,
    service: &Arc<ApiService>,
    seams: &Seams,
) -> Option<AbortOnDropHandle<()>> {
    cluster.map(|cluster| cluster::tell(cluster, service, seams))
}

/// Records over the admin HTTP; nothing where they are disabled.
fn records(config: &BrokerConfig, client: ClientConfig, service: &ApiService) -> Option<Records> {
    config
        .admin_records
        .then(|| Records::new(client, service.inspection_places()))
}

/// What the admin HTTP shows and changes, once clients are served.
fn serving(
    (config, seams): (&BrokerConfig, &Seams),
    (server, own_client, advertised): (&Server, ClientConfig, &[Endpoint]),
    (storage, logs, coordinators): (&Storage, &LogManager, &Coordinators),
    (cluster, service, tracker): (Option<&Cluster>, &Arc<ApiService>, &Tracker),
) -> Serving {
    Serving {
        server: server.clone(),
        logs: logs.clone(),
        groups: coordinators.groups.clone(),
        listeners: advertised.iter().map(ToString::to_string).collect(),
        wal: storage.wal.clone(),
        store: storage.store.clone(),
        bucket: storage.bucket.clone(),
        held_back: storage.held_back.clone(),
        cluster: cluster.map(|all| all.view().clone()),
        catch_up: catch_up(config, storage, tracker.clone(), seams),
        service: service.clone(),
        records: records(config, own_client, service),
        elsewhere: tracker.elsewhere().clone(),
    }
}

/// How the broker's own client reaches the broker, or all brokers of its cluster.
fn own_client(server: &Server, advertised: &[Endpoint], storage: &Storage) -> ClientConfig {
    let named = |name: &str| advertised.iter().find(|endpoint| endpoint.name == name);
    match (&storage.membership, named(INTER_BROKER)) {
        (Some(membership), Some(endpoint)) => {
            own_client::among_brokers(endpoint, &membership.secret)
        }
        _ => {
            let endpoint = advertised.first();
            let endpoint = endpoint.expect("a configuration without a listener is refused");
            own_client::alone(server, endpoint)
        }
    }
}

/// What the service is built on.
fn api_parts(
    (storage, logs, coordinators, timers): (&Storage, &LogManager, &Coordinators, &Timers),
    settings: Arc<LiveSettings>,
    (security, quotas, resource_configs): (Security, Arc<LiveQuotas>, StoredConfigs),
    config: ApiConfig,
    seams: &Seams,
) -> ApiParts {
    ApiParts {
        logs: logs.clone(),
        groups: coordinators.groups.clone(),
        transactions: coordinators.transactions.clone(),
        transaction_peers: coordinators.others.clone(),
        share_coordinator: coordinators.shares.clone(),
        share_states: Arc::clone(&coordinators.share_states),
        producer_ids: coordinators.producer_ids.clone(),
        meta: Arc::clone(&storage.meta),
        clock: seams.clock.clone(),
        random: seams.random.clone(),
        timers: timers.clone(),
        network: storage.network.clone(),
        tasks: seams.tasks.clone(),
        settings,
        security,
        quotas,
        resource_configs,
        config,
    }
}

/// What clients may use.
async fn quotas(storage: &Storage) -> Result<Arc<LiveQuotas>, StartError> {
    let table = client_quotas(&*storage.meta).await;
    let table = table.map_err(StorageError::MetaUse)?;
    Ok(Arc::new(LiveQuotas::new(table)))
}

/// What is set for groups and client metrics.
async fn stored_configs(storage: &Storage) -> Result<StoredConfigs, StartError> {
    let configs = resource_configs(&*storage.meta).await;
    Ok(configs.map_err(StorageError::MetaUse)?)
}

/// What clients are told; a port of 0 becomes the port that the listener got.
fn advertised(config: &BrokerConfig, addresses: &[(String, SocketAddr)]) -> Vec<Endpoint> {
    let real_port = |name: &str| {
        addresses
            .iter()
            .find(|(listener, _)| listener == name)
            .map(|(_, at)| at.port())
    };
    let told = |endpoint: &Endpoint| {
        let mut endpoint = endpoint.clone();
        if endpoint.at.port == 0 {
            endpoint.at.port = real_port(&endpoint.name).unwrap_or(0);
        }
        endpoint
    };
    config.advertised.iter().map(told).collect()
}

async fn open_logs(
    config: &BrokerConfig,
    storage: &Storage,
    seams: &Seams,
) -> Result<LogManager, millrace_log::error::OpenError> {
    LogManager::open(LogParts {
        meta: Arc::clone(&storage.meta),
        store: storage.store.clone(),
        clock: seams.clock.clone(),
        random: seams.random.clone(),
        tasks: storage.tasks.clone(),
        defaults: config.log.clone(),
        shared: storage.membership.as_ref().map(|membership| Shared {
            store: Arc::clone(&membership.store),
            node: membership.node,
            epoch: membership.epoch,
        }),
    })
    .await
}

/// Nothing where the broker is alone.
async fn join_cluster(
    config: &BrokerConfig,
    storage: &Storage,
    logs: &LogManager,
    seams: &Seams,
) -> Option<Cluster> {
    let membership = storage.membership.clone()?;
    let interval = config.cluster.as_ref()?.balance_interval;
    Some(cluster::start(membership, logs, storage, (seams, interval)).await)
}

/// What the other brokers tell clients.
fn endpoints(advertised: &[Endpoint]) -> Vec<BrokerEndpoint> {
    let endpoint = |endpoint: &Endpoint| BrokerEndpoint {
        listener: endpoint.name.clone(),
        host: endpoint.at.host.clone(),
        port: endpoint.at.port,
    };
    advertised.iter().map(endpoint).collect()
}

fn tracker(
    groups: &GroupCoordinator,
    logs: &LogManager,
    storage: &Storage,
    seams: &Seams,
) -> Tracker {
    let pressure = Pressure::new(storage.network.clone(), storage.bucket.clone());
    Tracker::new(groups.clone(), logs.clone(), pressure, seams.clock.clone())
}

/// Follows the groups until the handle is dropped.
fn track(tracker: Tracker, tasks: &Supervisor) -> AbortOnDropHandle<()> {
    let tracking = tracker.run(tasks.clone());
    AbortOnDropHandle::new(tasks.spawn(Task::CatchUpTracker, tracking))
}

fn catch_up(config: &BrokerConfig, storage: &Storage, tracker: Tracker, seams: &Seams) -> CatchUp {
    CatchUp {
        node_id: config.node_id,
        clock: seams.clock.clone(),
        tracker,
        block_cache: storage.block_cache.clone(),
        network: storage.network.clone(),
        bucket: storage.bucket.clone(),
    }
}

fn api_config(
    config: &BrokerConfig,
    storage: &Storage,
    advertised: &[Endpoint],
    cluster: Option<&Cluster>,
) -> ApiConfig {
    let told = |endpoint: &Endpoint| AdvertisedEndpoint {
        listener: endpoint.name.clone(),
        host: endpoint.at.host.clone(),
        port: endpoint.at.port,
    };
    ApiConfig {
        node_id: config.node_id,
        cluster_id: storage.cluster_id.clone(),
        endpoints: advertised.iter().map(told).collect(),
        fetch_bytes_max: config.requests.fetch_bytes_max,
        telemetry_bytes_max: config.requests.telemetry_bytes_max,
        quotas: config.quotas,
        rack: config.rack.clone(),
        members: cluster.map(|cluster| cluster.view().brokers.clone()),
        replica_selector: config.replica_selector,
        share: config.share.clone(),
    }
}

/// FOR TESTS ONLY: says loudly that a task will panic, and makes it panic at once if it shall.
fn announce(panic: Option<InjectedPanic>, tasks: &Supervisor) {
    let Some(InjectedPanic { task, after }) = panic else {
        return;
    };
    tracing::warn!(
        task = task.name(),
        ?after,
        "FOR TESTS ONLY: this task will panic and the broker will stop; remove test.panic.task for \
         any other use"
    );
    tasks.allow_faults();
    if after.is_zero() {
        tasks.inject_panic(task);
    }
}

/// FOR TESTS ONLY: the broker is ready; makes a task panic some time later if it shall.
fn inject_later(panic: Option<InjectedPanic>, tasks: Supervisor) {
    let Some(InjectedPanic { task, after }) = panic else {
        return;
    };
    // Not supervised: it is itself the fault.
    tokio::spawn(async move {
        tokio::time::sleep(after).await;
        tasks.inject_panic(task);
    });
}

async fn fold(telemetry: Telemetry, tasks: Supervisor) -> Infallible {
    loop {
        tokio::time::sleep(FOLD_INTERVAL).await;
        let telemetry = telemetry.clone();
        if let Err(error) = tasks.compute(move || telemetry.fold()).await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}
