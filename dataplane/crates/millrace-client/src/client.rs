//! A client of one cluster: what producers, consumers and admins share.
//!
//! - `metadata`: which brokers and topics exist, who leads what
//! - `refresh`: keeps that fresh, with at most one request at a time
//! - `brokers`: connections, opened when they are needed, with pauses after failures
//! - `calls`: requests to a node, to any node, to the controller, to a group's coordinator
//!
//! A broker answers a connection's requests in order. Whatever may wait at the broker (a fetch) or
//! must not wait behind something that does (a heartbeat) therefore has a [`Lane`] of its own:
//! connections are per broker and lane.

mod brokers;
mod calls;
mod metadata;
mod refresh;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::metadata::{Broker, Metadata, PartitionMetadata, TopicMetadata};
use self::{brokers::Brokers, metadata::MetadataCache, refresh::Refresh};
pub(crate) use self::{brokers::Lane, calls::Retry};
use crate::{
    backoff::Backoff,
    config::ClientConfig,
    connection::Limits,
    error::RequestError,
    metrics::{Metrics, MetricsSnapshot},
};

/// A client of one cluster. Clones share connections and metadata; the connections close when the
/// last clone, producer, consumer and admin of it are dropped.
///
/// ```no_run
/// use millrace_client::{Client, ClientConfig};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::new(ClientConfig::new("localhost:9092")?);
/// let topic = client.topic("orders").await?;
/// println!("{} has {} partitions", topic.name, topic.partitions.len());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

/// What all clones share.
struct Inner {
    config: ClientConfig,
    metrics: Arc<Metrics>,
    brokers: Brokers,
    /// The newest metadata; receivers are told of each change.
    metadata: watch::Sender<Arc<Metadata>>,
    cache: Mutex<MetadataCache>,
    refresh: Refresh,
    next_lane: AtomicU64,
    /// Ends the task that refreshes metadata.
    _refreshing: DropGuard,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("bootstrap_servers", &self.inner.config.bootstrap_servers)
            .field("client_id", &self.inner.config.client_id)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client that connects when it first needs to.
    ///
    /// # Panics
    /// It is not called from within a tokio runtime.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        let ended = CancellationToken::new();
        let metrics = Arc::<Metrics>::default();
        let inner = Arc::new(Inner {
            brokers: Brokers::new(config.clone(), Arc::clone(&metrics)),
            metrics,
            metadata: watch::Sender::new(Arc::default()),
            cache: Mutex::default(),
            refresh: Refresh::default(),
            next_lane: AtomicU64::new(Lane::FIRST_FREE),
            _refreshing: ended.clone().drop_guard(),
            config,
        });
        let wake = inner.refresh.wake();
        // Not supervised: it ends with the client, and its failures are retried and logged.
        tokio::spawn(refresh::keep_fresh(Arc::downgrade(&inner), wake, ended));
        Self { inner }
    }

    /// The settings that it was made with.
    #[must_use]
    pub fn config(&self) -> &ClientConfig {
        &self.inner.config
    }

    /// What it has done so far.
    #[must_use]
    pub fn metrics(&self) -> MetricsSnapshot {
        self.inner.metrics.snapshot()
    }

    /// The newest metadata that it has; of no topic that nobody asked for.
    #[must_use]
    pub fn metadata(&self) -> Arc<Metadata> {
        Arc::clone(&self.inner.metadata.borrow())
    }

    /// The topic's metadata: what is known, or the broker's answer.
    ///
    /// # Errors
    /// No broker answers, or it has no such topic.
    pub async fn topic(&self, name: &str) -> Result<Arc<TopicMetadata>, RequestError> {
        if let Some(topic) = self.metadata().topic(name)
            && topic.error.is_none()
        {
            return Ok(Arc::clone(topic));
        }
        let metadata = self.refresh_topics(&[name]).await?;
        let topic = metadata.topic(name).cloned();
        let topic = topic.ok_or(crate::ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        let topic = topic.map_err(crate::BrokerError::from)?;
        match topic.error {
            None => Ok(topic),
            Some(code) => Err(crate::BrokerError::from(code).into()),
        }
    }

    /// Told of each change of the metadata.
    pub(crate) fn watch_metadata(&self) -> watch::Receiver<Arc<Metadata>> {
        self.inner.metadata.subscribe()
    }

    /// Keeps a topic's metadata fresh for as long as the returned value lives.
    pub(crate) fn interest(&self, name: &str) -> Interest {
        let name: Arc<str> = name.into();
        self.inner.refresh.track(&name);
        Interest {
            client: Arc::downgrade(&self.inner),
            name,
        }
    }

    /// A lane that nobody else uses, and how much each of its connections may do at once.
    pub(crate) fn new_lane(&self, limits: Limits) -> Lane {
        let number = self.inner.next_lane.fetch_add(1, Ordering::Relaxed);
        Lane { number, limits }
    }

    /// Pauses between retries of a request.
    pub(crate) fn retry_backoff(&self) -> Backoff {
        Backoff {
            first: self.inner.config.retry_backoff,
            max: self.inner.config.retry_backoff_max,
        }
    }

    /// The clock's time.
    pub(crate) fn now(&self) -> Duration {
        self.inner.config.clock.now()
    }
}

/// Keeps a topic's metadata fresh; see [`Client::interest`].
pub(crate) struct Interest {
    client: Weak<Inner>,
    name: Arc<str>,
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interest({})", self.name)
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        if let Some(client) = self.client.upgrade() {
            client.refresh.untrack(&self.name);
        }
    }
}

/// Names of topics and how many parts of the client need each.
type Interests = HashMap<Arc<str>, usize>;
/// Wakes the task that refreshes metadata.
type Wake = Arc<Notify>;
