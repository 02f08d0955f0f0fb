//! What all parts of a client share: where the cluster is, how long to wait, how much to hold.

use std::{sync::Arc, time::Duration};

use millrace_time::{SharedClock, SharedRandom, SystemClock, SystemRandom};

use crate::{
    authenticate::Authenticate,
    transport::{BrokerAddress, Connector, InvalidAddress, TcpConnector},
};

/// The bound of one response frame, in bytes: above the largest fetch that a consumer asks for,
/// far below what a wrong length could make a client allocate.
const RESPONSE_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Requests of one connection that may wait for their turn, in bytes: more than a producer's
/// requests in flight, less than what a slow broker may make a client hold.
const QUEUED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The settings of a [`Client`](crate::Client). Names and defaults are those of Kafka's clients.
///
/// ```
/// use std::time::Duration;
/// use millrace_client::ClientConfig;
///
/// let mut config = ClientConfig::new("kafka-1:9092, kafka-2:9092")?;
/// config.client_id = "orders".to_owned();
/// config.request_timeout = Duration::from_secs(10);
/// # Ok::<(), millrace_client::transport::InvalidAddress>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ClientConfig {
    /// `bootstrap.servers`: brokers to ask first, and again when no other answers.
    pub bootstrap_servers: Vec<BrokerAddress>,
    /// `client.id`: the client's name in the broker's logs, metrics and quotas.
    pub client_id: String,
    /// `request.timeout.ms`: how long one request may take. A connection whose broker is later
    /// than this is closed. 30 s.
    pub request_timeout: Duration,
    /// `socket.connection.setup.timeout.ms`: how long connecting and authenticating may take. 10 s.
    pub connect_timeout: Duration,
    /// `reconnect.backoff.ms`: the pause after the first failed connection to a broker. It doubles
    /// with each further one and varies by 20 %. 50 ms.
    pub reconnect_backoff: Duration,
    /// `reconnect.backoff.max.ms`: the longest such pause. 1 s.
    pub reconnect_backoff_max: Duration,
    /// `retry.backoff.ms`: the pause before a request's first retry; grows as above. 100 ms.
    pub retry_backoff: Duration,
    /// `retry.backoff.max.ms`: the longest such pause. 1 s.
    pub retry_backoff_max: Duration,
    /// `metadata.max.age.ms`: metadata is refreshed at least this often. 5 min.
    pub metadata_max_age: Duration,
    /// `allow.auto.create.topics`: whether asking for a topic may create it, where the broker does
    /// that. Off, unlike in Kafka's clients: a misspelt name should be an error.
    pub allow_auto_create_topics: bool,
    /// The largest response that is accepted, in bytes. 128 MiB.
    pub response_bytes_max: usize,
    /// The most bytes of requests that wait for their turn on one connection; further callers
    /// wait. 64 MiB.
    pub queued_bytes_max: usize,
    /// How connections are opened. Plain TCP.
    pub connector: Arc<dyn Connector>,
    /// How connections are authenticated. None.
    pub authenticate: Option<Arc<dyn Authenticate>>,
    /// The clock. The machine's.
    pub clock: SharedClock,
    /// The randomness of pauses and partitioners. The machine's.
    pub random: SharedRandom,
}

impl ClientConfig {
    /// The defaults, for a cluster that is found through `bootstrap_servers`: addresses of the form
    /// `host:port`, separated by commas.
    ///
    /// # Errors
    /// One of them is no address.
    pub fn new(bootstrap_servers: &str) -> Result<Self, InvalidAddress> {
        let addresses = bootstrap_servers
            .split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        Ok(Self::with_addresses(addresses))
    }

    /// The defaults, for a cluster that is found through these brokers.
    #[must_use]
    pub fn with_addresses(bootstrap_servers: Vec<BrokerAddress>) -> Self {
        Self {
            bootstrap_servers,
            client_id: "millrace".to_owned(),
            request_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            reconnect_backoff: Duration::from_millis(50),
            reconnect_backoff_max: Duration::from_secs(1),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            metadata_max_age: Duration::from_mins(5),
            allow_auto_create_topics: false,
            response_bytes_max: RESPONSE_BYTES_MAX,
            queued_bytes_max: QUEUED_BYTES_MAX,
            connector: Arc::new(TcpConnector),
            authenticate: None,
            clock: SystemClock::shared(),
            random: SystemRandom::shared(),
        }
    }
}
