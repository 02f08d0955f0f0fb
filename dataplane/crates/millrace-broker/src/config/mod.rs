//! The broker's configuration: properties to typed settings.
//!
//! Names are Kafka's own, the `s3.*` names are those that users of Kafka on S3 know, and ours stand
//! where neither has one. Every error names the key, where it was set and what to write instead.

mod accepted;
mod authorization;
mod cluster;
mod compaction;
mod connections;
mod consumer_groups;
mod control_link;
mod delegation;
pub(crate) mod keys;
mod listeners;
mod memory;
mod oauth;
mod reader;
mod security;
mod share_groups;
mod storage;
mod topic_defaults;
mod wal_uri;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt,
    num::ParseIntError,
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use millrace_api::{QuotaConfig, ReplicaSelector, ShareConfig, settings::SettingKind};
use millrace_coordinator::{GroupConfig, GroupConfigs, ShareStateConfig, TransactionConfig};
use millrace_log::LogDefaults;
use millrace_model::{NodeId, limits::CLUSTER_ID_BYTES_MAX};
use millrace_net::{ListenerLimits, NetConfig};
use millrace_properties::{Origin, Properties};
use millrace_record::TimestampType;
use millrace_security::{
    acl::AuthorizerConfig, delegation::TokenConfig, quota::Windows, sasl::Mechanism,
};
use millrace_tasks::{Task, UnknownTask};

use self::{
    authorization::read_authorizer,
    cluster::{add_listener, read_cluster, read_replica_selector},
    connections::{
        RequestLimits, read_limits, read_listener_limits, read_quotas, read_request_limits,
    },
    control_link::read_control_link,
    delegation::read_delegation,
    listeners::Endpoints,
    memory::read_memory,
    reader::{Reader, Shown},
    security::read_protections,
    storage::read_storage,
    topic_defaults::read_topic_defaults,
};

pub(crate) use self::{
    accepted::{nearest, reason},
    cluster::INTER_BROKER,
    reader::parse_bytes,
    storage::{
        CACHE_BYTES_DEFAULT, CACHE_BYTES_MIN, PREFETCH_BYTES_DEFAULT, PREFETCH_BYTES_MAX,
        UPLOAD_THRESHOLD_BYTES_MIN, default_upload_threshold,
    },
};
pub use self::{
    cluster::ClusterConfig,
    control_link::ControlLinkConfig,
    listeners::{Endpoint, HostPort, InvalidListener},
    memory::MemoryConfig,
    oauth::{KeySource, OauthConfig},
    security::{Keystore, Protection, SaslConfig, TlsConfig, Truststore},
    storage::StorageConfig,
    wal_uri::{InvalidWalUri, WalBackend, WalFence, WalUri},
};

const MIB: usize = 1 << 20;
/// An upper bound for sizes that only has to catch slips: 1 PiB.
pub(crate) const BYTES_MAX: i64 = 1 << 50;
/// An upper bound for times that only has to catch slips: ten years, in milliseconds.
const MILLIS_MAX: i64 = 10 * 366 * 24 * 3_600 * 1_000;

/// `admin.listener` without a port.
const NO_ADMIN: &str = "none";

/// The whole configuration of a broker.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// `node.id`
    pub node_id: NodeId,
    /// `cluster.id`; `None` lets the broker make one at its first start.
    pub cluster_id: Option<String>,
    /// The other brokers of the cluster; `None` where this one is alone.
    pub cluster: Option<ClusterConfig>,
    /// `broker.rack`: the zone that the broker is in.
    pub rack: Option<String>,
    /// `replica.selector.class`: who serves consumers that state another zone.
    pub replica_selector: ReplicaSelector,
    /// `listeners`
    pub listeners: Vec<Endpoint>,
    /// How the clients of each listener are protected, by its name.
    pub protections: BTreeMap<String, Protection>,
    /// How many connections each listener takes, by its name.
    pub listener_limits: HashMap<String, ListenerLimits>,
    /// Who may do what; nothing where `authorizer.class.name` is empty.
    pub authorizer: Option<AuthorizerConfig>,
    /// Delegation tokens; nothing where they are disabled.
    pub delegation: Option<TokenConfig>,
    /// `advertised.listeners`: what clients are told, one for each listener. A port of 0 means the
    /// port that the listener got.
    pub advertised: Vec<Endpoint>,
    /// `admin.listener`; `None` where it is `none`, the default with a control link: no port for the admin HTTP.
    pub admin_listener: Option<HostPort>,
    /// `control.link.*`; `None` where no address is set.
    pub control_link: Option<ControlLinkConfig>,
    /// `admin.token.file`
    pub admin_token_file: Option<PathBuf>,
    /// `admin.sasl.enabled`: the control plane signs in at listeners with SCRAM, with the admin token as its
    /// password.
    pub admin_sasl: bool,
    /// `admin.records.enabled`: whoever has the admin token reads and writes records over the admin HTTP.
    pub admin_records: bool,
    /// `data.dir`: the metadata and the lock.
    pub data_dir: PathBuf,
    /// `shutdown.drain.ms`: how long requests in flight may take when the broker stops.
    pub drain: Duration,
    /// What may be in memory, as far as it was set; the fields of `net`, `log` and `group` that follow
    /// from it are filled in at the start.
    pub memory: MemoryConfig,
    /// The storage engine.
    pub storage: StorageConfig,
    /// The network layer.
    pub net: NetConfig,
    /// What one request may ask for or bring.
    pub requests: RequestLimits,
    /// What clients may use where nobody set a quota, and how use is measured.
    pub quotas: QuotaConfig,
    /// The logs.
    pub log: LogDefaults,
    /// The transaction coordinator.
    pub transactions: TransactionConfig,
    /// The share coordinator.
    pub share_states: ShareStateConfig,
    /// The leaders of share partitions.
    pub share: ShareConfig,
    /// The group coordinator.
    pub group: GroupConfig,
    /// `test.panic.task`, FOR TESTS ONLY: a task that panics.
    pub injected_panic: Option<InjectedPanic>,
    /// Every setting that has an effect, sorted by key, secrets hidden.
    pub settings: Vec<Setting>,
    /// Keys that mean nothing here, in words.
    pub unknown: Vec<String>,
}

/// FOR TESTS ONLY: a task that panics while the broker starts, as `upload`, or so many milliseconds
/// after it is ready, as `upload@500`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InjectedPanic {
    /// The task.
    pub task: Task,
    /// How long after the broker is ready; zero is at once, while it starts.
    pub after: Duration,
}

/// A text that names no [`InjectedPanic`].
#[derive(Debug, thiserror::Error)]
pub enum InvalidPanic {
    /// The task.
    #[error(transparent)]
    Task(#[from] UnknownTask),
    /// The time.
    #[error("after the @ stands no number of milliseconds: {0}")]
    After(#[from] ParseIntError),
}

impl FromStr for InjectedPanic {
    type Err = InvalidPanic;

    fn from_str(text: &str) -> Result<Self, InvalidPanic> {
        let (task, after_ms) = text.split_once('@').unwrap_or((text, "0"));
        Ok(Self {
            task: task.parse()?,
            after: Duration::from_millis(u64::from(after_ms.parse::<u32>()?)),
        })
    }
}

/// One setting as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub key: &'static str,
    /// Its value; `None` where it may hold credentials.
    pub value: Option<String>,
    /// Whether nobody set it.
    pub is_default: bool,
    /// What holds where nobody sets it; `None` where that is nothing.
    pub default: Option<String>,
    /// What kind of value it is.
    pub kind: SettingKind,
    /// The least and the most that it may be, where it is a number.
    pub range: Option<(i64, i64)>,
}

/// One thing that is wrong with the configuration. The text is for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The key.
    pub key: Cow<'static, str>,
    /// Where it was set, if it was.
    pub origin: Option<Origin>,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            origin,
            problem,
            remedy,
        } = self;
        match origin {
            Some(origin) => write!(f, "{key} ({origin}): {problem}; {remedy}"),
            None => write!(f, "{key}: {problem}; {remedy}"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl BrokerConfig {
    /// Gives the properties their meaning.
    ///
    /// # Errors
    /// Everything that is wrong, not only the first.
    pub fn new(properties: &Properties) -> Result<Self, Vec<ConfigError>> {
        let mut reader = Reader::new(properties);
        let r = &mut reader;
        let node_id = u32::try_from(r.number("node.id", 0, 0..=i64::from(i32::MAX))).unwrap_or(0);
        let cluster_id = read_cluster_id(r);
        let cluster = read_cluster(r);
        let rack = r.optional("broker.rack");
        let replica_selector = read_replica_selector(r);
        let (mut listeners, mut advertised) = read_listeners(r);
        let mut protections = read_protections(r, &listeners);
        let authorizer = read_authorizer(r);
        let delegation = read_delegation(r);
        let control_link = read_control_link(r, cluster_id.as_deref());
        let admin_listener = read_admin(r, control_link.is_some());
        let admin_token_file = r.optional("admin.token.file").map(PathBuf::from);
        let admin_sasl = read_admin_sasl(r, admin_token_file.is_some(), (&listeners, &protections));
        let admin_records = r.flag("admin.records.enabled", true);
        if let Some(cluster) = &cluster {
            add_listener(cluster, &mut listeners, &mut advertised, &mut protections);
        }
        let data_dir = absolute(&r.text("data.dir", "millrace-data"));
        let drain = r.millis("shutdown.drain.ms", Duration::from_secs(10), 0..=600_000);
        let memory = read_memory(r);
        let storage = read_storage(r, &data_dir);
        let quotas = read_quotas(r);
        let net = read_net(r, quotas.windows);
        let listener_limits = read_listener_limits(r, &listeners);
        let requests = read_request_limits(r);
        let (log, group) = (read_log(r), read_group(r));
        let (transactions, share_states) = (read_transactions(r), read_share_states(r));
        let record_lock = group.of_groups.limits().share_record_lock_duration.default;
        let share = share_groups::read_share_partitions(r, record_lock);
        let injected_panic = read_injected_panic(r);
        check_zone(r, (cluster.as_ref(), rack.as_deref()), storage.as_ref());
        check_broker_id(r, node_id);
        let unknown = reader.rest();
        let settings = reader.finish()?;
        // The reader has reported an error wherever something is missing here.
        let storage = storage.ok_or_else(Vec::new)?;
        Ok(Self {
            node_id: NodeId(node_id),
            cluster_id,
            cluster,
            rack,
            replica_selector,
            listeners,
            protections,
            listener_limits,
            authorizer,
            delegation,
            advertised,
            admin_listener,
            control_link,
            admin_token_file,
            admin_sasl,
            admin_records,
            data_dir,
            drain,
            memory,
            storage,
            net,
            requests,
            quotas,
            log,
            group,
            transactions,
            share_states,
            share,
            injected_panic,
            settings,
            unknown,
        })
    }
}

/// Kafka's other name of `node.id` must not contradict it.
fn check_broker_id(r: &mut Reader<'_>, node_id: u32) {
    let Some(broker_id) = r.number_if_set("broker.id", -1..=i64::from(i32::MAX)) else {
        return;
    };
    if broker_id != -1 && broker_id != i64::from(node_id) {
        let problem = format!("it is {broker_id}, but node.id is {node_id}");
        r.fail(
            "broker.id",
            problem,
            "write the same number for both, or remove the line",
        );
    }
}

/// Other brokers have to know which of them can attach the log's volume.
fn check_zone(
    r: &mut Reader<'_>,
    (cluster, rack): (Option<&ClusterConfig>, Option<&str>),
    storage: Option<&StorageConfig>,
) {
    let fence = storage.and_then(|storage| storage.wal.fence);
    if cluster.is_some() && rack.is_none() && fence.is_some_and(WalFence::is_zonal) {
        let problem =
            "the log is on a volume that only brokers of its availability zone can take over";
        r.fail(
            "broker.rack",
            problem,
            "write the zone of this broker, such as eu-central-1a",
        );
    }
}

fn absolute(path: &str) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path))
}

/// A broker with a control link needs no port.
fn read_admin(r: &mut Reader<'_>, has_link: bool) -> Option<HostPort> {
    let default = if has_link { NO_ADMIN } else { "127.0.0.1:9644" };
    let text = r.text("admin.listener", default);
    if text.eq_ignore_ascii_case(NO_ADMIN) {
        return None;
    }
    match text.parse() {
        Ok(at) => Some(at),
        Err(error) => {
            let remedy = "write host:port, such as 127.0.0.1:9644, or none for no admin HTTP";
            r.fail("admin.listener", error, remedy);
            None
        }
    }
}

fn read_admin_sasl(
    r: &mut Reader<'_>,
    has_token: bool,
    (listeners, protections): (&[Endpoint], &BTreeMap<String, Protection>),
) -> bool {
    const KEY: &str = "admin.sasl.enabled";
    let enabled = r.flag(KEY, false);
    let with_scram = listeners.iter().filter_map(|listener| {
        let protection = protections.get(&listener.name)?;
        let mut mechanisms = protection.sasl.as_ref()?.mechanisms.iter();
        let has_scram = mechanisms.any(|mechanism| matches!(mechanism, Mechanism::Scram(_)));
        has_scram.then_some((listener, protection))
    });
    let with_scram: Vec<_> = with_scram.collect();
    // Who can listen to an exchange can guess the password at leisure.
    let exposed = with_scram
        .iter()
        .find(|(listener, protection)| protection.tls.is_none() && !listener.at.is_loopback());
    if let Some((listener, _)) = exposed.filter(|_| enabled) {
        let problem = format!(
            "the control plane could sign in at the listener {} without TLS, over the network",
            listener.name
        );
        let remedy = "give the listener TLS (SASL_SSL), bind it to 127.0.0.1, or leave SCRAM out of its sasl.enabled.mechanisms";
        r.fail(KEY, problem, remedy);
    }
    if enabled && (!has_token || with_scram.is_empty()) {
        let problem = "the control plane needs a password and a listener that asks for it";
        let remedy = "set admin.token.file, and SCRAM-SHA-512 in sasl.enabled.mechanisms of a listener with SASL, or remove it";
        r.fail(KEY, problem, remedy);
    }
    enabled
}

fn read_injected_panic(r: &mut Reader<'_>) -> Option<InjectedPanic> {
    let text = r.for_tests("test.panic.task")?;
    let parsed = text.parse::<InjectedPanic>();
    let remedy = "remove it, or write TASK or TASK@MILLISECONDS";
    let problem = |error| r.fail("test.panic.task", error, remedy);
    parsed.map_err(problem).ok()
}

fn read_cluster_id(r: &mut Reader<'_>) -> Option<String> {
    let cluster_id = r.optional("cluster.id")?;
    if cluster_id.is_empty() || cluster_id.len() > CLUSTER_ID_BYTES_MAX {
        let problem = format!("a cluster id has 1 to {CLUSTER_ID_BYTES_MAX} bytes");
        let remedy = "shorten it, or leave the key out to let the broker make one";
        r.fail("cluster.id", problem, remedy);
    }
    Some(cluster_id)
}

fn read_listeners(r: &mut Reader<'_>) -> (Vec<Endpoint>, Vec<Endpoint>) {
    const FORM: &str = "write NAME://host:port, such as PLAINTEXT://127.0.0.1:9092";
    let controllers = r.optional("controller.listener.names").unwrap_or_default();
    let controllers: Vec<&str> = controllers.split(',').map(str::trim).collect();
    let default = "PLAINTEXT://127.0.0.1:9092";
    let parsed: Option<Endpoints> = r.parsed("listeners", default, Shown::Plainly, FORM);
    let Some(Endpoints(mut listeners)) = parsed else {
        return (Vec::new(), Vec::new());
    };
    if listeners
        .iter()
        .any(|listener| listener.name == INTER_BROKER)
    {
        let problem = format!("{INTER_BROKER} is the listener that brokers use among each other");
        r.fail("listeners", problem, "give it another name");
    }
    listeners.retain(|listener| !controllers.contains(&listener.name.as_str()));
    if listeners.is_empty() {
        let problem = "all of them are in controller.listener.names, and none is left for clients";
        r.fail("listeners", problem, "add a listener for clients");
    }
    let advertised = r
        .optional("advertised.listeners")
        .map(|text| text.parse::<Endpoints>());
    let advertised = match advertised {
        None => listeners.clone(),
        Some(Ok(Endpoints(list))) => list,
        Some(Err(error)) => {
            r.fail("advertised.listeners", error, FORM);
            return (listeners, Vec::new());
        }
    };
    for listener in &listeners {
        let told = advertised
            .iter()
            .find(|endpoint| endpoint.name == listener.name);
        if told.is_none_or(|endpoint| endpoint.at.is_wildcard()) {
            let problem = format!(
                "clients of {} are told no address they can use",
                listener.name
            );
            let remedy = format!(
                "write {}://<a host name that clients reach>:<port>",
                listener.name
            );
            r.fail("advertised.listeners", problem, &remedy);
        }
    }
    (listeners, advertised)
}

fn read_net(r: &mut Reader<'_>, windows: Windows) -> NetConfig {
    let default = NetConfig::default();
    let depth_max = i64::try_from(default.pipeline_depth).unwrap_or(i64::MAX);
    let frame_max = i64::from(i32::MAX);
    let count = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
    NetConfig {
        request_bytes_max: r.bytes(
            "socket.request.max.bytes",
            default.request_bytes_max,
            1_024..=frame_max,
        ),
        pipeline_depth: count(r.number("network.pipeline.depth", depth_max, 1..=depth_max)),
        connection_bytes_max: r.bytes(
            "network.connection.max.bytes",
            default.connection_bytes_max,
            65_536..=BYTES_MAX,
        ),
        broker_bytes_max: default.broker_bytes_max,
        idle_max: r.millis(
            "connections.max.idle.ms",
            default.idle_max,
            1_000..=MILLIS_MAX,
        ),
        connections_max: count(r.number("max.connections", 16_384, 1..=i64::from(i32::MAX))),
        limits: read_limits(r, windows),
    }
}

fn read_log(r: &mut Reader<'_>) -> LogDefaults {
    let default = LogDefaults::default();
    let offsets_topic_partitions = read_offsets_partitions(r);
    r.number("default.replication.factor", 1, 1..=i64::from(i16::MAX));
    let partitions = |number: i64| u32::try_from(number).unwrap_or(1);
    LogDefaults {
        num_partitions: partitions(r.number("num.partitions", 1, 1..=10_000)),
        auto_create_topics: r.flag("auto.create.topics.enable", default.auto_create_topics),
        message_max_bytes: r.bytes(
            "message.max.bytes",
            default.message_max_bytes,
            0..=i64::from(i32::MAX),
        ),
        timestamp_type: read_timestamp_type(r),
        retention_ms: read_retention(r, default.retention_ms),
        retention_bytes: r.number(
            "log.retention.bytes",
            default.retention_bytes,
            -1..=i64::MAX,
        ),
        topic: read_topic_defaults(r),
        retention_check_interval: r.millis(
            "log.retention.check.interval.ms",
            default.retention_check_interval,
            1..=MILLIS_MAX,
        ),
        offsets_topic_partitions,
        transaction_topic_partitions: partitions(r.number(
            "transaction.state.log.num.partitions",
            8,
            1..=1_000,
        )),
        share_state_topic_partitions: partitions(r.number(
            "share.coordinator.state.topic.num.partitions",
            default.share_state_topic_partitions.into(),
            1..=1_000,
        )),
        producer_id_expiration_ms: r.number(
            "producer.id.expiration.ms",
            default.producer_id_expiration_ms,
            1..=MILLIS_MAX,
        ),
        cleaner_enabled: r.flag("log.cleaner.enable", default.cleaner_enabled),
        cleaner_backoff: r.millis(
            "log.cleaner.backoff.ms",
            default.cleaner_backoff,
            1..=MILLIS_MAX,
        ),
        ..default
    }
}

/// Kafka's default of 50 suits a fleet; each partition costs a broker of this size two streams.
fn read_offsets_partitions(r: &mut Reader<'_>) -> u32 {
    u32::try_from(r.number("offsets.topic.num.partitions", 8, 1..=1_000)).unwrap_or(8)
}

fn read_timestamp_type(r: &mut Reader<'_>) -> TimestampType {
    let text = r.text("log.message.timestamp.type", "CreateTime");
    match text.as_str() {
        "CreateTime" => TimestampType::CreateTime,
        "LogAppendTime" => TimestampType::LogAppendTime,
        other => {
            let problem = format!("{other:?} is not a timestamp type");
            r.fail(
                "log.message.timestamp.type",
                problem,
                "write CreateTime or LogAppendTime",
            );
            TimestampType::CreateTime
        }
    }
}

/// Kafka's three names for one setting: milliseconds win over minutes, minutes over hours.
fn read_retention(r: &mut Reader<'_>, default_ms: i64) -> i64 {
    const HOUR_MS: i64 = 3_600_000;
    const MINUTE_MS: i64 = 60_000;
    let scaled = |number: i64, unit: i64| {
        if number < 0 {
            -1
        } else {
            number.saturating_mul(unit)
        }
    };
    let hours = r.number("log.retention.hours", default_ms / HOUR_MS, -1..=MILLIS_MAX);
    let minutes = r.number_if_set("log.retention.minutes", -1..=MILLIS_MAX);
    let millis = r.number_if_set("log.retention.ms", -1..=i64::MAX);
    let from_minutes = minutes.map(|minutes| scaled(minutes, MINUTE_MS));
    millis
        .or(from_minutes)
        .unwrap_or_else(|| scaled(hours, HOUR_MS))
}

fn read_transactions(r: &mut Reader<'_>) -> TransactionConfig {
    let default = TransactionConfig::default();
    TransactionConfig {
        timeout_max: r.millis(
            "transaction.max.timeout.ms",
            default.timeout_max,
            1..=i64::from(i32::MAX),
        ),
        id_expiration: r.millis(
            "transactional.id.expiration.ms",
            default.id_expiration,
            1..=MILLIS_MAX,
        ),
        cleanup_interval: r.millis(
            "transaction.remove.expired.transaction.cleanup.interval.ms",
            default.cleanup_interval,
            1..=MILLIS_MAX,
        ),
        ..default
    }
}

fn read_share_states(r: &mut Reader<'_>) -> ShareStateConfig {
    let default = ShareStateConfig::default();
    let updates = r.number(
        "share.coordinator.snapshot.update.records.per.snapshot",
        default.updates_per_snapshot.into(),
        0..=500,
    );
    ShareStateConfig {
        updates_per_snapshot: u32::try_from(updates).unwrap_or(default.updates_per_snapshot),
        write_timeout: r.millis(
            "share.coordinator.write.timeout.ms",
            default.write_timeout,
            1..=i64::from(i32::MAX),
        ),
        ..default
    }
}

fn read_group(r: &mut Reader<'_>) -> GroupConfig {
    let (consumer, mut limits) = consumer_groups::read_consumer_groups(r);
    let share = share_groups::read_share_groups(r, &mut limits);
    let default = GroupConfig::default();
    let minutes = r.number(
        "offsets.retention.minutes",
        7 * 24 * 60,
        1..=i64::from(i32::MAX),
    );
    let session_timeout_min = r.millis(
        "group.min.session.timeout.ms",
        default.session_timeout_min,
        1..=MILLIS_MAX,
    );
    let session_timeout_max = r.millis(
        "group.max.session.timeout.ms",
        default.session_timeout_max,
        1..=MILLIS_MAX,
    );
    if session_timeout_min > session_timeout_max {
        let problem = "it is larger than group.max.session.timeout.ms";
        r.fail(
            "group.min.session.timeout.ms",
            problem,
            "lower it or raise the other",
        );
    }
    GroupConfig {
        session_timeout_min,
        session_timeout_max,
        initial_rebalance_delay: r.millis(
            "group.initial.rebalance.delay.ms",
            default.initial_rebalance_delay,
            0..=MILLIS_MAX,
        ),
        group_size_max: usize::try_from(r.number(
            "group.max.size",
            10_000,
            1..=i64::from(i32::MAX),
        ))
        .unwrap_or(default.group_size_max),
        offsets_retention: Duration::from_secs(u64::try_from(minutes).unwrap_or(0) * 60),
        retention_check_interval: r.millis(
            "offsets.retention.check.interval.ms",
            default.retention_check_interval,
            1..=MILLIS_MAX,
        ),
        offset_metadata_bytes_max: r.bytes(
            "offset.metadata.max.bytes",
            default.offset_metadata_bytes_max,
            0..=1 << 20,
        ),
        consumer,
        share,
        of_groups: GroupConfigs::new(limits),
        ..default
    }
}

#[cfg(test)]
mod tests;
