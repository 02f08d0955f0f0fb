//! What the network layer counts. Handles are made once; an event costs one atomic addition.

use metrics::{Counter, Gauge, counter, gauge};

/// Why a connection is not being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MuteReason {
    /// It has as many requests in flight as it may.
    InFlight,
    /// It has as many bytes in flight as it may: its bound, or its share of the broker's memory.
    ConnectionBytes,
    /// All connections together have as many bytes in flight as the broker may.
    BrokerMemory,
    /// Its client has moved more than its quota.
    QuotaThrottle,
}

impl MuteReason {
    const ALL: [Self; 4] = [
        Self::InFlight,
        Self::ConnectionBytes,
        Self::BrokerMemory,
        Self::QuotaThrottle,
    ];

    /// The label's value in the metrics.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::ConnectionBytes => "connection_bytes",
            Self::BrokerMemory => "broker_memory",
            Self::QuotaThrottle => "quota_throttle",
        }
    }
}

/// Reasons that hold at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Reasons(u8);

impl Reasons {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) fn with(self, reason: MuteReason, holds: bool) -> Self {
        let bit = u8::from(holds) << reason as u8;
        Self(self.0 | bit)
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Self::NONE
    }

    fn has(self, reason: MuteReason) -> bool {
        self.0 & (1 << reason as u8) != 0
    }
}

/// The network layer's metrics.
pub(crate) struct Metrics {
    pub(crate) connections: Gauge,
    pub(crate) opened: Counter,
    pub(crate) bytes_in: Counter,
    pub(crate) bytes_out: Counter,
    pub(crate) bytes_in_flight: Gauge,
    muted: [(Counter, Gauge); MuteReason::ALL.len()],
}

impl Metrics {
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

    /// A connection that is not muted yet.
    pub(crate) fn unmuted(&self) -> Muted<'_> {
        Muted {
            metrics: self,
            reasons: Reasons::NONE,
        }
    }

    /// Counts a connection as muted for one reason until the guard is dropped.
    pub(crate) fn mute(&self, reason: MuteReason) -> Muted<'_> {
        let mut muted = self.unmuted();
        muted.become_of(Reasons::NONE.with(reason, true));
        muted
    }

    /// Counts a closed connection. Rare enough to look the handle up.
    #[expect(clippy::unused_self, reason = "reads like its siblings")]
    pub(crate) fn closed(&self, reason: &'static str) {
        counter!("millrace_connections_closed_total", "reason" => reason).increment(1);
    }
}

/// One connection's reasons, counted until they change or this is dropped.
pub(crate) struct Muted<'a> {
    metrics: &'a Metrics,
    reasons: Reasons,
}

impl Muted<'_> {
    /// Counts the reasons that begin, and no longer those that have ended.
    pub(crate) fn become_of(&mut self, reasons: Reasons) {
        let counted = MuteReason::ALL.into_iter().zip(&self.metrics.muted);
        for (reason, (episodes, now)) in counted {
            match (self.reasons.has(reason), reasons.has(reason)) {
                (false, true) => {
                    episodes.increment(1);
                    now.increment(1.0);
                }
                (true, false) => now.decrement(1.0),
                (false, false) | (true, true) => {}
            }
        }
        self.reasons = reasons;
    }
}

impl Drop for Muted<'_> {
    fn drop(&mut self) {
        self.become_of(Reasons::NONE);
    }
}
