//! The metadata that several brokers share.

use std::{collections::BTreeMap, fmt, ops::RangeInclusive, time::Duration};

use millrace_api::ReplicaSelector;
use millrace_security::{
    credentials::{PlainUsers, ScramHash},
    sasl::Mechanism,
};

use super::{
    Endpoint, HostPort,
    reader::Reader,
    security::{Protection, SaslConfig},
};

/// The listener that the brokers of a cluster use among each other.
pub(crate) const INTER_BROKER: &str = "INTER_BROKER";

const DATABASE: &str = "metadata.database.url";
const SESSION_TIMEOUT: &str = "broker.session.timeout.ms";
const LISTENER: &str = "inter.broker.listener";
const BALANCE_INTERVAL: &str = "leader.balance.interval.ms";
const REPLICA_SELECTOR: &str = "replica.selector.class";

const LEADER_SELECTOR: &str = "org.apache.kafka.common.replica.LeaderSelector";
const RACK_AWARE_SELECTOR: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";

/// Shorter, and a pause of the machine looks like a death. Longer than an hour, and nobody is ever replaced.
const SESSION_TIMEOUT_MS: RangeInclusive<i64> = 1_000..=3_600_000;

/// Several brokers are one cluster: they share their metadata in a PostgreSQL database.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// `metadata.database.url`, with its password.
    pub database_url: String,
    /// `broker.session.timeout.ms`: a broker that has not renewed its lease for so long is replaced.
    pub session_timeout: Duration,
    /// `inter.broker.listener`: where the other brokers reach this one; by default a free port of the first listener's host.
    pub listener: Option<HostPort>,
    /// `leader.balance.interval.ms`: how often it is looked whether some brokers lead more partitions than others; 0 never
    /// moves any for that.
    pub balance_interval: Duration,
}

impl fmt::Debug for ClusterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterConfig")
            .field("session_timeout", &self.session_timeout)
            .finish_non_exhaustive()
    }
}

/// `None` where the broker is alone.
pub(super) fn read_cluster(r: &mut Reader<'_>) -> Option<ClusterConfig> {
    let database_url = r.secret(DATABASE);
    let session_timeout = r.millis(SESSION_TIMEOUT, Duration::from_secs(3), SESSION_TIMEOUT_MS);
    let listener = match r.optional(LISTENER).map(|text| text.parse::<HostPort>()) {
        None => None,
        Some(Ok(at)) if !at.is_wildcard() => Some(at),
        Some(Ok(_)) => {
            let problem = "the other brokers are told this address, and cannot use it";
            r.fail(
                LISTENER,
                problem,
                "write the host name or address of this machine",
            );
            None
        }
        Some(Err(error)) => {
            r.fail(LISTENER, error, "write host:port, such as 10.0.1.7:9095");
            None
        }
    };
    let balance_interval = r.millis(BALANCE_INTERVAL, Duration::from_secs(30), 0..=3_600_000);
    Some(ClusterConfig {
        listener,
        balance_interval,
        database_url: database_url?,
        session_timeout,
    })
}

/// Who serves consumers that state their zone, by the names of Kafka's classes.
pub(super) fn read_replica_selector(r: &mut Reader<'_>) -> ReplicaSelector {
    match r.optional(REPLICA_SELECTOR).as_deref() {
        None => ReplicaSelector::default(),
        Some(LEADER_SELECTOR) => ReplicaSelector::Leader,
        Some(RACK_AWARE_SELECTOR) => ReplicaSelector::ListedZone,
        Some(other) => {
            let remedy =
                format!("use {RACK_AWARE_SELECTOR} or {LEADER_SELECTOR}, or remove the setting");
            r.fail(
                REPLICA_SELECTOR,
                format!("unknown replica selector {other}"),
                &remedy,
            );
            ReplicaSelector::default()
        }
    }
}

/// Adds the listener for the other brokers, which sign in there with a secret of the cluster. The network between them is
/// not encrypted; what passes is records that are read or written over the admin HTTP, and offsets.
pub(super) fn add_listener(
    cluster: &ClusterConfig,
    listeners: &mut Vec<Endpoint>,
    advertised: &mut Vec<Endpoint>,
    protections: &mut BTreeMap<String, Protection>,
) {
    let host_of = |list: &[Endpoint]| list.first().map(|first| first.at.host.clone());
    let free = |host: Option<String>| HostPort {
        host: host.unwrap_or_default(),
        port: 0,
    };
    let endpoint = |at| Endpoint {
        name: INTER_BROKER.to_owned(),
        at,
    };
    let told = cluster.listener.clone();
    let told = told.unwrap_or_else(|| free(host_of(advertised)));
    let bound = match &cluster.listener {
        Some(at) => at.clone(),
        None => free(host_of(listeners)),
    };
    listeners.push(endpoint(bound));
    advertised.push(endpoint(told));
    let protection = Protection {
        tls: None,
        sasl: Some(SaslConfig {
            mechanisms: vec![Mechanism::Scram(ScramHash::Sha256)],
            plain: PlainUsers::new([]),
            oauth: None,
            session_max: None,
        }),
    };
    protections.insert(INTER_BROKER.to_owned(), protection);
}
