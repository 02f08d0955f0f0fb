//! Keeps the metadata fresh, with at most one request at a time.

use std::{
    collections::HashSet,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::FutureExt;
use millrace_wire::{
    StrBytes,
    messages::{
        BrokerId, MetadataRequest, TopicName, find_coordinator_response::Coordinator,
        metadata_request::MetadataRequestTopic, produce_response::NodeEndpoint,
    },
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{Broker, Client, Inner, Interests, Metadata, Wake};
use crate::{
    error::{BrokerError, ErrorCode, RequestError},
    transport::BrokerAddress,
};

/// Since this version a request for no topics means no topics.
const EMPTY_LIST_FROM: i16 = 1;
/// Since this version a request can forbid that topics are created.
const NO_AUTO_CREATE_FROM: i16 = 4;

/// Who needs what, and which requests have run.
#[derive(Debug, Default)]
pub(super) struct Refresh {
    interests: Mutex<Interests>,
    /// What the next request is about.
    scope: Mutex<Scope>,
    /// Wakes the task for a refresh that nobody waits for.
    wake: Wake,
    /// Numbers the callers.
    tickets: AtomicU64,
    /// Held during a request.
    served: tokio::sync::Mutex<Served>,
}

/// Topics that a request is about.
#[derive(Debug, Default, Clone)]
struct Scope {
    /// All of interest.
    is_all: bool,
    names: HashSet<Arc<str>>,
}

impl Scope {
    fn all() -> Self {
        let names = HashSet::new();
        Self {
            is_all: true,
            names,
        }
    }

    fn add(&mut self, names: &[&str]) {
        self.is_all |= names.is_empty();
        self.names.extend(names.iter().map(|&name| Arc::from(name)));
    }

    fn remove(&mut self, asked: &Self) {
        self.is_all &= !asked.is_all;
        self.names.retain(|name| !asked.names.contains(name));
    }
}

/// The last request for metadata.
#[derive(Debug, Default)]
struct Served {
    /// It served all callers with a lower number,
    before: u64,
    /// and failed: all of them get the error, instead of a time-out each, one after the other.
    error: Option<RequestError>,
}

impl Refresh {
    pub(super) fn wake(&self) -> Wake {
        Arc::clone(&self.wake)
    }

    pub(super) fn track(&self, name: &Arc<str>) {
        *self.interests.lock().entry(Arc::clone(name)).or_default() += 1;
    }

    pub(super) fn untrack(&self, name: &Arc<str>) {
        let mut interests = self.interests.lock();
        if let Some(count) = interests.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                interests.remove(name);
            }
        }
    }
}

impl Client {
    /// Asks for a refresh of all topics of interest, without waiting for it.
    pub(crate) fn request_refresh(&self) {
        self.inner.refresh.wake.notify_one();
    }

    /// Asks a broker about these topics, or about all of interest where none are given. Concurrent
    /// callers share requests.
    pub(crate) async fn refresh_topics(
        &self,
        names: &[&str],
    ) -> Result<Arc<Metadata>, RequestError> {
        let interests: Vec<_> = names.iter().map(|name| self.interest(name)).collect();
        self.inner.refresh.scope.lock().add(names);
        let ticket = self.inner.refresh.tickets.fetch_add(1, Ordering::SeqCst);
        let mut served = self.inner.refresh.served.lock().await;
        if served.before > ticket {
            let error = served.error.clone();
            return error.map_or_else(|| Ok(self.metadata()), Err);
        }
        // Every caller that has a ticket by now has also registered its topics. One that has registered them but has no ticket
        // yet registers them again here, in case an earlier request has removed them.
        let serves = self.inner.refresh.tickets.load(Ordering::SeqCst);
        let scope = {
            let mut scope = self.inner.refresh.scope.lock();
            scope.add(names);
            scope.clone()
        };
        let mut metadata = self.ask(&scope).await;
        if let Err(RequestError::Broker(error)) = &metadata
            && error.code == ErrorCode::REBOOTSTRAP_REQUIRED
        {
            // The brokers that the client knows are not those of its cluster any more (KIP-1102).
            tracing::warn!("the cluster asks the client to start over with its bootstrap servers");
            let forgotten = self.inner.cache.lock().forget_brokers();
            self.inner.metadata.send_replace(forgotten);
            metadata = self.ask(&Scope::all()).await;
        }
        // Only after the request: if this caller is cancelled, the topics of the others stay registered.
        self.inner.refresh.scope.lock().remove(&scope);
        *served = Served {
            before: serves,
            error: metadata.as_ref().err().cloned(),
        };
        drop(interests);
        metadata
    }

    async fn ask(&self, scope: &Scope) -> Result<Arc<Metadata>, RequestError> {
        let mut names = scope.names.clone();
        if scope.is_all {
            names.extend(self.inner.refresh.interests.lock().keys().cloned());
        }
        let topic = |name: &Arc<str>| {
            let name = TopicName(StrBytes::from_string(name.to_string()));
            MetadataRequestTopic::default().with_name(Some(name))
        };
        let topics: Vec<_> = names.iter().map(topic).collect();
        let create = self.inner.config.allow_auto_create_topics;
        let response = self
            .call_any::<MetadataRequest>(i16::MAX, |version| {
                // Version 0 cannot ask for no topic: it would get all.
                debug_assert!(
                    version >= EMPTY_LIST_FROM,
                    "no supported broker is that old"
                );
                let request = MetadataRequest::default().with_topics(Some(topics.clone()));
                if version >= NO_AUTO_CREATE_FROM {
                    request.with_allow_auto_topic_creation(create)
                } else {
                    request
                }
            })
            .await?;
        BrokerError::check(response.error_code, None)?;
        let mut cache = self.inner.cache.lock();
        let interests = self.inner.refresh.interests.lock();
        cache.retain(|name| interests.contains_key(name));
        drop(interests);
        let metadata = cache.update(&response);
        self.inner.metadata.send_replace(Arc::clone(&metadata));
        drop(cache);
        let bootstrap = &self.inner.config.bootstrap_servers;
        self.inner.brokers.retain(|address| {
            let mut known = metadata.brokers.values().map(|broker| &broker.address);
            bootstrap.contains(address) || known.any(|known| known == address)
        });
        Ok(metadata)
    }

    /// Takes in a leader that an error named. True where that was news.
    pub(crate) fn learn_leader(
        &self,
        topic: &str,
        partition: i32,
        leader: (i32, i32),
        endpoints: &[NodeEndpoint],
    ) -> bool {
        let endpoint = endpoints
            .iter()
            .find(|one| one.node_id == BrokerId(leader.0));
        let endpoint = endpoint.and_then(|one| {
            Some(Broker {
                id: one.node_id.0,
                address: BrokerAddress::new(&one.host, u16::try_from(one.port).ok()?),
                rack: one.rack.as_deref().map(Into::into),
            })
        });
        let mut cache = self.inner.cache.lock();
        let updated = cache.update_leader(topic, partition, leader, endpoint);
        let is_news = updated.is_some();
        if let Some(metadata) = updated {
            self.inner.metadata.send_replace(metadata);
        }
        is_news
    }

    /// Takes in the address of a coordinator, which metadata may not name yet.
    pub(super) fn learn_coordinator(&self, coordinator: &Coordinator) {
        let Ok(port) = u16::try_from(coordinator.port) else {
            return;
        };
        let broker = Broker {
            id: coordinator.node_id.0,
            address: BrokerAddress::new(&coordinator.host, port),
            rack: None,
        };
        let mut cache = self.inner.cache.lock();
        if self
            .metadata()
            .brokers
            .get(&broker.id)
            .map(|one| &one.address)
            != Some(&broker.address)
        {
            let metadata = cache.add_broker(Some(broker));
            self.inner.metadata.send_replace(metadata);
        }
    }
}

/// Refreshes when asked to and when the metadata is old, until the client is gone.
pub(super) async fn keep_fresh(client: Weak<Inner>, wake: Wake, ended: CancellationToken) {
    let (mut failures, mut in_a_row) = (0, 0);
    let Some(mut pause) = client.upgrade().map(|inner| inner.config.metadata_max_age) else {
        return;
    };
    loop {
        let asked = async {
            match failures {
                0 => wake.notified().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ended.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
            () = asked => {}
        }
        let Some(inner) = client.upgrade() else {
            return;
        };
        let client = Client { inner };
        let random = Arc::clone(&client.inner.config.random);
        in_a_row += 1;
        // Asked again at once, it waits: an election takes some time, and a topic that is gone stays
        // gone.
        let rest = client.retry_backoff().after(in_a_row, &*random);
        match client.refresh_topics(&[]).await {
            Ok(_) => {
                failures = 0;
                pause = client.inner.config.metadata_max_age;
            }
            Err(error) => {
                failures += 1;
                pause = client.retry_backoff().after(failures, &*random);
                tracing::warn!(%error, "metadata could not be refreshed; retrying in {pause:?}");
            }
        }
        drop(client);
        tokio::select! {
            () = ended.cancelled() => return,
            () = tokio::time::sleep(rest) => {}
        }
        match wake.notified().now_or_never() {
            Some(()) => wake.notify_one(),
            None => in_a_row = 0,
        }
    }
}
