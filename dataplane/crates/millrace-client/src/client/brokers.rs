//! Connections by broker and lane.

use std::{collections::HashMap, sync::Arc, time::Duration};

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
    /// Held while connecting, so that callers share one attempt.
    state: tokio::sync::Mutex<SlotState>,
}

#[derive(Debug, Default)]
struct SlotState {
    connection: Option<Connection>,
    failures: u32,
    retry_at: Duration,
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
        let mut state = slot.state.lock().await;
        if let Some(connection) = state.open() {
            return Ok(connection);
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
        let opened = Connection::open(&self.config, &self.metrics, address, lane.limits).await;
        match opened {
            Ok(connection) => {
                state.failures = 0;
                state.connection = Some(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                state.retry_at = self.config.clock.now() + pause;
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

    /// For how long nobody should connect to a broker; zero where it is open or was never tried.
    pub(super) fn pause(&self, address: &BrokerAddress, lane: Lane) -> Duration {
        let slot = self.slot(address, lane);
        let Ok(mut state) = slot.state.try_lock() else {
            return Duration::ZERO;
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
