//! Connections by broker and lane.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    backoff::Backoff,
    config::ClientConfig,
    connection::{Connection, Limits},
    error::RequestError,
    metrics::Metrics,
    transport::BrokerAddress,
};

/// Whose requests share a connection; see the module above.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lane {
    pub(super) number: u64,
    pub(super) limits: Limits,
}

impl Lane {
    /// The first number for [`Client::new_lane`](crate::Client::new_lane).
    pub(super) const FIRST_FREE: u64 = 1;

    /// The lane of short requests: metadata, admin calls.
    pub(crate) fn shared() -> Self {
        Self {
            number: 0,
            limits: Limits::default(),
        }
    }
}

/// The connections. Their number is bounded by the brokers that metadata names, times the lanes
/// that producers and consumers have open.
#[derive(Debug)]
pub(super) struct Brokers {
    config: ClientConfig,
    metrics: Arc<Metrics>,
    slots: Mutex<HashMap<(BrokerAddress, u64), Arc<Slot>>>,
}

/// One connection, or the pause until the next attempt to open it.
#[derive(Debug, Default)]
struct Slot {
    /// Held while connecting and during the pause before it, so that callers share one attempt.
    state: tokio::sync::Mutex<SlotState>,
    /// Attempts that have begun.
    attempts: AtomicU64,
}

#[derive(Debug, Default)]
struct SlotState {
    connection: Option<Connection>,
    failures: u32,
    retry_at: Duration,
    /// Which attempt was the last one that failed, and why.
    failed: Option<(u64, RequestError)>,
}

impl Brokers {
    pub(super) fn new(config: ClientConfig, metrics: Arc<Metrics>) -> Self {
        Self {
            config,
            metrics,
            slots: Mutex::default(),
        }
    }

    /// The open connection to a broker, or a new one, after the pause that earlier failures demand.
    pub(super) async fn connection(
        &self,
        address: &BrokerAddress,
        lane: Lane,
    ) -> Result<Connection, RequestError> {
        let slot = self.slot(address, lane);
        let begun = slot.attempts.load(Ordering::SeqCst);
        let mut state = slot.state.lock().await;
        if let Some(connection) = state.open() {
            return Ok(connection);
        }
        // Each of many callers would otherwise wait for the attempts of all before it.
        if let Some((attempt, error)) = &state.failed
            && *attempt > begun
        {
            return Err(error.clone());
        }
        let pause = state.retry_at.saturating_sub(self.config.clock.now());
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        // Counted before the attempt: a caller that gives up meanwhile has seen it fail.
        state.failures += 1;
        let backoff = Backoff {
            first: self.config.reconnect_backoff,
            max: self.config.reconnect_backoff_max,
        };
        let pause = backoff.after(state.failures, &*self.config.random);
        state.retry_at = self.config.clock.now() + pause;
        let attempt = slot.attempts.fetch_add(1, Ordering::SeqCst) + 1;
        let opened = Connection::open(&self.config, &self.metrics, address, lane.limits).await;
        match opened {
            Ok(connection) => {
                state.failures = 0;
                state.connection = Some(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                state.retry_at = self.config.clock.now() + pause;
                state.failed = Some((attempt, error.clone()));
                Err(error)
            }
        }
    }

    /// The connection if it is open; never waits.
    pub(super) fn open(&self, address: &BrokerAddress, lane: Lane) -> Option<Connection> {
        let slot = self.slot(address, lane);
        let mut state = slot.state.try_lock().ok()?;
        state.open()
    }

    /// For how long nobody should connect to a broker; zero where it is open or was never tried. One that somebody is
    /// connecting to, or waits to connect to, is no better than one that was cut.
    pub(super) fn pause(&self, address: &BrokerAddress, lane: Lane) -> Duration {
        let slot = self.slot(address, lane);
        let Ok(mut state) = slot.state.try_lock() else {
            return self.config.reconnect_backoff;
        };
        match state.open() {
            Some(_) => Duration::ZERO,
            None => state.retry_at.saturating_sub(self.config.clock.now()),
        }
    }

    /// Closes the connections of a lane that nobody uses any more.
    pub(super) fn close_lane(&self, lane: Lane) {
        self.slots
            .lock()
            .retain(|(_, number), _| *number != lane.number);
    }

    /// Forgets brokers that are not known any more; their connections stay open while they are used.
    pub(super) fn retain(&self, is_known: impl Fn(&BrokerAddress) -> bool) {
        self.slots
            .lock()
            .retain(|(address, _), _| is_known(address));
    }

    fn slot(&self, address: &BrokerAddress, lane: Lane) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        let key = (address.clone(), lane.number);
        Arc::clone(slots.entry(key).or_default())
    }
}

impl SlotState {
    fn open(&mut self) -> Option<Connection> {
        if self.connection.as_ref().is_some_and(Connection::is_closed) {
            self.connection = None;
            // The retry after a cut comes at once; a broker that keeps cutting is found by
            // connecting, which counts.
        }
        self.connection.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use futures_util::future::join_all;
    use tokio::time::timeout;

    use super::*;

    /// Each waited for the attempts of all that came before, with pauses of up to a second between them.
    #[tokio::test]
    async fn callers_that_wait_for_one_attempt_share_its_failure() {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let address = BrokerAddress::new("127.0.0.1", port);
        let config = ClientConfig::with_addresses(vec![address.clone()]);
        let brokers = Brokers::new(config, Arc::default());
        let callers = (0..100).map(|_| brokers.connection(&address, Lane::shared()));
        let all = timeout(Duration::from_secs(10), join_all(callers)).await;
        let all = all.expect("one attempt is enough for all, or two");
        assert!(all.iter().all(Result::is_err));
        assert!(
            brokers
                .slot(&address, Lane::shared())
                .attempts
                .load(Ordering::SeqCst)
                <= 2
        );
    }

    #[tokio::test]
    async fn a_broker_that_somebody_is_connecting_to_is_not_preferred() {
        let address = BrokerAddress::new("127.0.0.1", 1);
        let config = ClientConfig::with_addresses(vec![address.clone()]);
        let brokers = Brokers::new(config, Arc::default());
        assert_eq!(brokers.pause(&address, Lane::shared()), Duration::ZERO);
        let slot = brokers.slot(&address, Lane::shared());
        let _connecting = slot.state.lock().await;
        assert!(brokers.pause(&address, Lane::shared()) > Duration::ZERO);
    }
}
