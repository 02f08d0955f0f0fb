//! What the network layer counts. Handles are made once; an event costs one atomic addition.

use metrics::{Counter, Gauge, counter, gauge};

/// Why a connection is not being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MuteReason {
    /// It has as many requests in flight as it may.
    InFlight,
    /// It has as many bytes in flight as it may.
    ConnectionBytes,
    /// All connections together have as many bytes in flight as the broker may.
    BrokerMemory,
}

impl MuteReason {
    const ALL: [Self; 3] = [Self::InFlight, Self::ConnectionBytes, Self::BrokerMemory];

    /// The label's value in the metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::ConnectionBytes => "connection_bytes",
            Self::BrokerMemory => "broker_memory",
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::InFlight => 0,
            Self::ConnectionBytes => 1,
            Self::BrokerMemory => 2,
        }
    }
}

/// The network layer's metrics.
pub(crate) struct Meters {
    pub(crate) connections: Gauge,
    pub(crate) opened: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) bytes_in_flight: Gauge,
    muted: [(Counter, Gauge); MuteReason::ALL.len()],
}

impl Meters {
    pub(crate) fn new() -> Self {
        Self {
            connections: gauge!("millrace_connections"),
            opened: counter!("millrace_connections_opened_total"),
            bytes_in: counter!("millrace_network_bytes_in_total"),
            bytes_out: counter!("millrace_network_bytes_out_total"),
            bytes_in_flight: gauge!("millrace_network_in_flight_bytes"),
            muted: MuteReason::ALL.map(|reason| {
                (
                    counter!("millrace_network_muted_total", "reason" => reason.as_str()),
                    gauge!("millrace_network_muted_connections", "reason" => reason.as_str()),
                )
            }),
        }
    }

    /// Counts a connection as muted until the guard is dropped.
    pub(crate) fn mute(&self, reason: MuteReason) -> Muted<'_> {
        let (episodes, now) = &self.muted[reason.index()];
        episodes.increment(1);
        now.increment(1.0);
        Muted(now)
    }

    /// Counts a closed connection. Rare enough to look the handle up.
    #[expect(clippy::unused_self, reason = "reads like its siblings")]
    pub(crate) fn closed(&self, reason: &'static str) {
        counter!("millrace_connections_closed_total", "reason" => reason).increment(1);
    }
}

/// One muted connection.
pub(crate) struct Muted<'a>(&'a Gauge);

impl Drop for Muted<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
