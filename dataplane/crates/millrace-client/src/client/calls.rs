//! Requests to a node, to any node, to the controller, to a group's coordinator.
//!
//! A request is made by a function of the version that was negotiated, because versions differ in
//! the fields that they have.

use std::time::Duration;

use futures_util::{StreamExt, stream::FuturesUnordered};
use millrace_wire::{
    StrBytes,
    messages::{FindCoordinatorRequest, find_coordinator_response::Coordinator},
};

use tokio::time::timeout;

use super::{Client, Lane};
use crate::{
    backoff::Backoff,
    connection::Connection,
    error::{BrokerError, ErrorCode, RequestError},
    throttle::Call,
    transport::BrokerAddress,
};

/// Since this version FindCoordinator asks for several keys at once.
const COORDINATOR_KEYS_FROM: i16 = 4;
/// How long a broker is waited for before another one is asked as well: far longer than a healthy one takes, and short beside
/// the time of a failover.
const ANSWER_WAIT: Duration = Duration::from_secs(1);
/// The kind of a coordinator: of a group.
const GROUP_COORDINATOR: i8 = 0;

/// Retries of one operation: pauses between them, and the time at which it fails for good.
#[derive(Debug)]
pub(crate) struct Retry<'a> {
    client: &'a Client,
    backoff: Backoff,
    deadline: Duration,
    failures: u32,
}

impl<'a> Retry<'a> {
    pub(crate) fn new(client: &'a Client, timeout: Duration) -> Self {
        Self {
            client,
            backoff: client.retry_backoff(),
            deadline: client.now() + timeout,
            failures: 0,
        }
    }

    /// Whether an attempt has failed.
    pub(crate) fn has_retried(&self) -> bool {
        self.failures > 0
    }

    /// Waits before the next attempt. The error, where there should be none or no time is left.
    pub(crate) async fn after(&mut self, error: RequestError) -> Result<(), RequestError> {
        if !error.is_retriable() {
            return Err(error);
        }
        self.again(error).await
    }

    /// The same, whatever the error is.
    pub(crate) async fn again(&mut self, error: RequestError) -> Result<(), RequestError> {
        self.failures += 1;
        let random = &*self.client.config().random;
        let pause = self.backoff.after(self.failures, random);
        if self.client.now() + pause >= self.deadline {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

impl Client {
    /// The connection to a node in a lane; opened where it is not. Waits for the pause that earlier
    /// failures demand.
    pub(crate) async fn connection(
        &self,
        node: i32,
        lane: Lane,
    ) -> Result<Connection, RequestError> {
        let address = match self.address_of(node) {
            Some(address) => address,
            None => {
                self.refresh_topics(&[]).await?;
                match self.address_of(node) {
                    Some(address) => address,
                    None => {
                        // A caller that retries at once would ask for metadata without a pause.
                        tokio::time::sleep(self.inner.config.retry_backoff).await;
                        return Err(BrokerError::from(ErrorCode::LEADER_NOT_AVAILABLE).into());
                    }
                }
            }
        };
        self.inner.brokers.connection(&address, lane).await
    }

    /// The connection to a node in a lane if it is open; never waits.
    pub(crate) fn open_connection(&self, node: i32, lane: Lane) -> Option<Connection> {
        self.inner.brokers.open(&self.address_of(node)?, lane)
    }

    /// Closes the connections of a lane.
    pub(crate) fn close_lane(&self, lane: Lane) {
        self.inner.brokers.close_lane(lane);
    }

    fn address_of(&self, node: i32) -> Option<BrokerAddress> {
        let metadata = self.inner.metadata.borrow();
        metadata
            .brokers
            .get(&node)
            .map(|broker| broker.address.clone())
    }

    /// One request to one node.
    pub(crate) async fn call_node<M: Call>(
        &self,
        node: i32,
        newest: i16,
        make: impl FnOnce(i16) -> M,
    ) -> Result<M::Response, RequestError> {
        let connection = self.connection(node, Lane::shared()).await?;
        connection.ask(newest, Duration::ZERO, make).await
    }

    /// One request to whichever broker answers: those that metadata names, then the bootstrap
    /// servers, round after round until [`ClientConfig::request_timeout`](crate::ClientConfig). One that does not answer
    /// within [`ANSWER_WAIT`] is not waited for alone: the next one is asked as well, and the first answer counts.
    pub(crate) async fn call_any<M: Call>(
        &self,
        newest: i16,
        make: impl Fn(i16) -> M,
    ) -> Result<M::Response, RequestError> {
        let deadline = self.now() + self.inner.config.request_timeout;
        loop {
            let failed = match self.ask_in_turn(newest, &make).await {
                Err(error) if error.is_retriable() => error,
                answer => return answer,
            };
            if self.now() >= deadline {
                return Err(failed);
            }
            // Even where connecting does not fail, a round takes a little time.
            tokio::time::sleep(self.inner.config.reconnect_backoff).await;
        }
    }

    /// Asks one broker after the other until one answers, or says what is not to be retried.
    async fn ask_in_turn<M: Call>(
        &self,
        newest: i16,
        make: &impl Fn(i16) -> M,
    ) -> Result<M::Response, RequestError> {
        let ask = |address: BrokerAddress| async move {
            let lane = Lane::shared();
            let connection = self.inner.brokers.connection(&address, lane).await?;
            connection.ask(newest, Duration::ZERO, make).await
        };
        let mut failed = RequestError::Closed;
        let mut candidates = self.candidates().into_iter();
        let mut asked: FuturesUnordered<_> = candidates.next().map(ask).into_iter().collect();
        loop {
            let answer = match candidates.len() {
                0 => Ok(asked.next().await),
                _ => timeout(ANSWER_WAIT, asked.next()).await,
            };
            match answer {
                Ok(Some(Err(error))) if error.is_retriable() => failed = error,
                Ok(Some(answer)) => return answer,
                Ok(None) if candidates.len() == 0 => return Err(failed),
                // Nobody is asked, or not answering.
                Ok(None) | Err(_) => {}
            }
            asked.extend(candidates.next().map(ask));
        }
    }

    /// Every broker that may be asked, in the order in which to try: known ones first, those that
    /// failed lately last, the others at random.
    fn candidates(&self) -> Vec<BrokerAddress> {
        let metadata = self.metadata();
        let known = metadata.brokers.values().map(|broker| &broker.address);
        let bootstrap = self.inner.config.bootstrap_servers.iter();
        let random = &self.inner.config.random;
        let rank = |is_bootstrap: bool, address: &BrokerAddress| {
            let pause = self.inner.brokers.pause(address, Lane::shared());
            (pause, is_bootstrap, random.next_u64())
        };
        let mut ranked: Vec<_> = known
            .map(|address| (rank(false, address), address.clone()))
            .chain(bootstrap.map(|address| (rank(true, address), address.clone())))
            .collect();
        ranked.sort();
        let mut addresses: Vec<BrokerAddress> = Vec::with_capacity(ranked.len());
        for (_, address) in ranked {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// One request to the controller, or to any broker where none is known.
    pub(crate) async fn call_controller<M: Call>(
        &self,
        newest: i16,
        make: impl Fn(i16) -> M,
    ) -> Result<M::Response, RequestError> {
        if self.metadata().controller.is_none() {
            self.refresh_topics(&[]).await?;
        }
        match self.metadata().controller {
            Some(node) => self.call_node(node, newest, make).await,
            None => self.call_any(newest, make).await,
        }
    }

    /// The node that coordinates a group. Asks a broker on each call.
    pub(crate) async fn find_coordinator(&self, group: &str) -> Result<i32, RequestError> {
        let key = StrBytes::from_string(group.to_owned());
        let response = self
            .call_any::<FindCoordinatorRequest>(i16::MAX, |version| {
                let request = FindCoordinatorRequest::default();
                let request = if version >= 1 {
                    request.with_key_type(GROUP_COORDINATOR)
                } else {
                    request
                };
                if version >= COORDINATOR_KEYS_FROM {
                    request.with_coordinator_keys(vec![key.clone()])
                } else {
                    request.with_key(key.clone())
                }
            })
            .await?;
        // Before version 4 the answer itself is the coordinator.
        let coordinator = response.coordinators.first().cloned().unwrap_or_else(|| {
            Coordinator::default()
                .with_node_id(response.node_id)
                .with_host(response.host.clone())
                .with_port(response.port)
                .with_error_code(response.error_code)
                .with_error_message(response.error_message.clone())
        });
        let message = coordinator.error_message.as_deref();
        BrokerError::check(coordinator.error_code, message)?;
        self.learn_coordinator(&coordinator);
        Ok(coordinator.node_id.0)
    }
}
