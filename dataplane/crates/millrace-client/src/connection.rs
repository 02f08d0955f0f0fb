//! One connection to one broker.
//!
//! Callers put requests into a queue ([`Connection::send`], [`Connection::call`]); one task per
//! connection numbers them, writes as many as may be in flight, and hands each answer to the caller
//! that waits for it. Kafka answers the requests of a connection in their order, so what is in flight is
//! a queue as well, and an answer out of order means that the connection is broken.
//!
//! | bound | what | at the bound |
//! |---|---|---|
//! | `Limits::in_flight_max` | requests that were written and are not answered | later ones wait in the queue |
//! | `ClientConfig::queued_bytes_max` | bytes of requests that are not written | `send` waits |
//! | `ClientConfig::response_bytes_max` | bytes of one response | the connection ends |
//! | the request's deadline | time from `send`, or the end of a pause that the broker asked for, to the answer | in the queue: the request fails; in flight: the connection ends, since everything behind waits as well |
//!
//! A caller that gives up (drops its future) takes its request out of the queue if it is not yet
//! written; otherwise its answer is dropped when it comes. When the last handle is dropped, the
//! connection ends.

mod negotiate;
mod queue;
mod task;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use millrace_time::SharedClock;
use millrace_wire::{
    ApiKey, RequestMessage,
    client::{RequestFrame, decode_response, encode_request},
};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::queue::{Outgoing, Queue};
pub(crate) use self::{negotiate::BrokerVersions, queue::Reply};
use crate::{
    config::ClientConfig,
    error::RequestError,
    metrics::Metrics,
    throttle::{Call, Throttled},
    transport::{BrokerAddress, Transport},
};

/// How much one connection may do at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// `max.in.flight.requests.per.connection`.
    pub(crate) in_flight_max: usize,
}

impl Default for Limits {
    /// Requests of admin calls and coordinators are small and few; Kafka's brokers stop reading at
    /// about this many anyway.
    fn default() -> Self {
        Self {
            in_flight_max: millrace_model::limits::CONNECTION_IN_FLIGHT_MAX,
        }
    }
}

/// A handle on one connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Connection {
    inner: Arc<Inner>,
    /// Ends the task once the last handle is gone.
    _open: Arc<DropGuard>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({})", self.inner.address)
    }
}

/// What handles and task share.
struct Inner {
    address: BrokerAddress,
    client_id: String,
    request_timeout: Duration,
    response_bytes_max: usize,
    limits: Limits,
    clock: SharedClock,
    metrics: Arc<Metrics>,
    versions: OnceLock<BrokerVersions>,
    queue: Queue,
}

impl Connection {
    /// Connects, learns the broker's versions and authenticates, all within
    /// [`ClientConfig::connect_timeout`].
    pub(crate) async fn open(
        config: &ClientConfig,
        metrics: &Arc<Metrics>,
        address: &BrokerAddress,
        limits: Limits,
    ) -> Result<Self, RequestError> {
        let opening = async {
            let stream = config.connector.connect(address).await;
            let stream = stream.map_err(|source| RequestError::Connect {
                address: address.clone(),
                source: Arc::new(source),
            })?;
            let connection = Self::start(config, metrics, address, limits, stream);
            connection.negotiate().await?;
            if let Some(authenticate) = &config.authenticate {
                let mut exchange = crate::authenticate::SaslExchange::new(&connection);
                authenticate.authenticate(&mut exchange).await?;
            }
            Ok(connection)
        };
        let opened = tokio::time::timeout(config.connect_timeout, opening).await;
        let opened = opened.unwrap_or_else(|_| {
            Err(RequestError::TimedOut {
                what: format!("connecting to {address}"),
                after: config.connect_timeout,
            })
        });
        Metrics::count(match &opened {
            Ok(_) => &metrics.connections_opened,
            Err(_) => &metrics.connections_failed,
        });
        opened
    }

    fn start(
        config: &ClientConfig,
        metrics: &Arc<Metrics>,
        address: &BrokerAddress,
        limits: Limits,
        stream: Box<dyn Transport>,
    ) -> Self {
        let inner = Arc::new(Inner {
            address: address.clone(),
            client_id: config.client_id.clone(),
            request_timeout: config.request_timeout,
            response_bytes_max: config.response_bytes_max,
            limits,
            clock: Arc::clone(&config.clock),
            metrics: Arc::clone(metrics),
            versions: OnceLock::new(),
            queue: Queue::new(config.queued_bytes_max),
        });
        let token = CancellationToken::new();
        // Not supervised: it ends with its connection, and its failure is every waiting request's.
        tokio::spawn(task::run(Arc::clone(&inner), stream, token.clone()));
        Self {
            inner,
            _open: Arc::new(token.drop_guard()),
        }
    }

    /// Where the connection leads.
    pub(crate) fn address(&self) -> &BrokerAddress {
        &self.inner.address
    }

    /// Whether it has ended; then every `send` fails.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.queue.is_closed()
    }

    /// The newest version of a request that both sides speak, at most `newest`.
    pub(crate) fn version<M: RequestMessage>(&self, newest: i16) -> Result<i16, RequestError> {
        let versions = self.inner.versions.get();
        versions
            .and_then(|versions| versions.negotiate::<M>(newest))
            .ok_or_else(|| RequestError::Unsupported {
                address: self.inner.address.clone(),
                api: ApiKey::try_from(M::KEY)
                    .map_or_else(|_| M::KEY.to_string(), |key| format!("{key:?}")),
            })
    }

    /// Sends a request and waits for its answer, for at most
    /// [`ClientConfig::request_timeout`].
    pub(crate) async fn call<M: Call>(
        &self,
        version: i16,
        message: &M,
    ) -> Result<M::Response, RequestError> {
        let timeout = self.inner.request_timeout;
        self.call_within(version, message, timeout).await
    }

    /// Sends the request that `make` makes of the version: the newest that both sides speak, at most
    /// `newest`. Waits for its answer, for at most `timeout` and at least
    /// [`ClientConfig::request_timeout`].
    pub(crate) async fn ask<M: Call>(
        &self,
        newest: i16,
        timeout: Duration,
        make: impl FnOnce(i16) -> M,
    ) -> Result<M::Response, RequestError> {
        let version = self.version::<M>(newest)?;
        let timeout = timeout.max(self.inner.request_timeout);
        self.call_within(version, &make(version), timeout).await
    }

    /// As [`Self::call`], with a time-out of its own: some requests wait at the broker.
    pub(crate) async fn call_within<M: Call>(
        &self,
        version: i16,
        message: &M,
        timeout: Duration,
    ) -> Result<M::Response, RequestError> {
        let frame = self.call_raw(version, message, timeout).await?;
        self.decode::<M>(version, frame)
    }

    /// Sends a request; the frame of its answer.
    async fn call_raw<M: RequestMessage>(
        &self,
        version: i16,
        message: &M,
        timeout: Duration,
    ) -> Result<Bytes, RequestError> {
        let api_key = ApiKey::try_from(M::KEY).expect("every message of the codec has a key of it");
        let frame = encode_request(version, &self.inner.client_id, message);
        let frame = frame.map_err(|error| RequestError::Protocol {
            address: self.inner.address.clone(),
            reason: error.to_string(),
        })?;
        let (reply, answer) = oneshot::channel();
        self.send(api_key, frame, Reply::Once(reply), timeout)
            .await?;
        answer.await.unwrap_or(Err(RequestError::Closed))
    }

    /// Puts a request into the queue, after waiting for room in it. `reply` gets the answer's frame,
    /// or why there is none, exactly once; an error of this call is the only exception.
    pub(crate) async fn send(
        &self,
        api_key: ApiKey,
        frame: RequestFrame,
        reply: Reply,
        timeout: Duration,
    ) -> Result<(), RequestError> {
        self.inner.queue.room(frame.len(), &self.inner).await?;
        self.send_now(api_key, frame, reply, timeout)
    }

    /// As [`Self::send`], but never waits: for a caller that bounds its own bytes in flight.
    pub(crate) fn send_now(
        &self,
        api_key: ApiKey,
        frame: RequestFrame,
        reply: Reply,
        timeout: Duration,
    ) -> Result<(), RequestError> {
        let outgoing = Outgoing {
            counters: self.inner.metrics.of(api_key),
            api_key,
            frame,
            reply,
            timeout,
            deadline: self.inner.clock.now() + timeout,
        };
        self.inner.queue.push(outgoing)
    }

    /// Reads an answer, and pauses the connection where the broker asks for that (KIP-219).
    pub(crate) fn decode<M: Call>(
        &self,
        version: i16,
        frame: Bytes,
    ) -> Result<M::Response, RequestError> {
        let response = decode_response::<M>(version, frame)
            .map_err(|error| RequestError::malformed(&self.inner.address, &error))?;
        self.throttle(response.throttle_ms());
        Ok(response)
    }

    /// Sends nothing for so many milliseconds.
    fn throttle(&self, ms: i32) {
        let Ok(ms @ 1..) = u64::try_from(ms) else {
            return;
        };
        let pause = Duration::from_millis(ms);
        self.inner.metrics.throttled(pause);
        self.inner
            .queue
            .throttle_until(self.inner.clock.now() + pause);
    }
}
