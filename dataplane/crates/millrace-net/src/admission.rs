//! Which connections are let in: how many at once, and how many per second (KIP-308, 402 and 612).

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use metrics::{Counter, Gauge, counter, gauge};
use millrace_security::{
    address_block,
    quota::{LiveQuotas, Measure, Meters, QuotaKind, Rate},
};
use parking_lot::Mutex;

use crate::config::{ConnectionLimits, ListenerLimits};

/// Why a connection is closed as soon as it is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The broker has as many as it may (`max.connections`).
    BrokerFull,
    /// Its listener has (`listener.name.….max.connections`).
    ListenerFull,
    /// Its address has (`max.connections.per.ip`).
    AddressFull,
    /// Its address connects too often (the quota `connection_creation_rate`); it would be let in after so long.
    AddressTooFast(Duration),
}

impl Refusal {
    /// The stable word for the metrics.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::BrokerFull => "too_many_connections",
            Self::ListenerFull => "too_many_connections_of_listener",
            Self::AddressFull => "too_many_connections_of_address",
            Self::AddressTooFast(_) => "connection_rate_of_address",
        }
    }

    /// What the operator may change.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Self::BrokerFull => "max.connections",
            Self::ListenerFull => "max.connections of the listener",
            Self::AddressFull => "max.connections.per.ip",
            Self::AddressTooFast(_) => "the quota connection_creation_rate",
        }
    }
}

/// The gate of a whole server.
#[derive(Debug)]
pub(crate) struct Admission {
    connections_max: usize,
    limits: ConnectionLimits,
    quotas: Arc<LiveQuotas>,
    open: AtomicUsize,
    /// Connections of each address, of those that have any: as many entries as connections at most.
    by_address: Mutex<HashMap<IpAddr, usize>>,
    /// How often each address connects, as long as addresses have quotas.
    address_rates: Meters<IpAddr, IpAddr, Rate>,
    rate: Mutex<Rate>,
}

/// The gate of one listener.
#[derive(Debug)]
pub(crate) struct ListenerGate {
    limits: ListenerLimits,
    open: AtomicUsize,
    rate: Mutex<Rate>,
    connections: Gauge,
    paused: Counter,
    name: String,
}

/// A connection's place; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    admission: Arc<Admission>,
    listener: Arc<ListenerGate>,
    address: IpAddr,
}

impl ListenerGate {
    pub(crate) fn new(name: &str, limits: ListenerLimits, all: &ConnectionLimits) -> Arc<Self> {
        let label = name.to_owned();
        Arc::new(Self {
            limits,
            open: AtomicUsize::new(0),
            rate: Mutex::new(Rate::begin(all.windows, Duration::ZERO)),
            connections: gauge!("millrace_listener_connections", "listener" => label.clone()),
            paused: counter!("millrace_listener_pauses_total", "listener" => label),
            name: name.to_owned(),
        })
    }

    /// Counts a connection that was closed as soon as it was accepted. Rare enough to look the handle up.
    pub(crate) fn refused(&self, refusal: Refusal) {
        let (listener, reason) = (self.name.clone(), refusal.code());
        counter!("millrace_connections_refused_total", "listener" => listener, "reason" => reason)
            .increment(1);
    }
}

impl Admission {
    pub(crate) fn new(
        connections_max: usize,
        limits: ConnectionLimits,
        quotas: Arc<LiveQuotas>,
    ) -> Arc<Self> {
        Arc::new(Self {
            connections_max,
            quotas,
            open: AtomicUsize::new(0),
            by_address: Mutex::default(),
            address_rates: Meters::new(limits.windows),
            rate: Mutex::new(Rate::begin(limits.windows, Duration::ZERO)),
            limits,
        })
    }

    /// How long a listener has to pause before it accepts its next connection, because the broker or the listener
    /// itself accepts too many per second.
    pub(crate) fn pause(&self, listener: &ListenerGate, now: Duration) -> Option<Duration> {
        let windows = self.limits.windows;
        let wait = |rate: &Mutex<Rate>, limit: Option<f64>| {
            limit.and_then(|limit| rate.lock().wait(windows, limit, now))
        };
        let pause = wait(&self.rate, self.limits.creation_rate_max)
            .max(wait(&listener.rate, listener.limits.creation_rate_max))?;
        listener.paused.increment(1);
        Some(pause)
    }

    /// Lets a connection in, or tells why not.
    pub(crate) fn admit(
        self: &Arc<Self>,
        listener: &Arc<ListenerGate>,
        address: IpAddr,
        now: Duration,
    ) -> Result<Place, Refusal> {
        let address = address.to_canonical();
        self.count_rates(listener, now);
        if let Some(wait) = self.address_wait(address, now) {
            return Err(Refusal::AddressTooFast(wait));
        }
        // One listener accepts one connection at a time, and others at most one each meanwhile.
        if self.open.load(Ordering::Acquire) >= self.connections_max {
            return Err(Refusal::BrokerFull);
        }
        let listener_max = listener.limits.connections_max;
        if listener_max.is_some_and(|max| listener.open.load(Ordering::Acquire) >= max) {
            return Err(Refusal::ListenerFull);
        }
        let mut by_address = self.by_address.lock();
        let count = by_address.entry(address).or_default();
        let overridden = self.limits.per_address_overrides.get(&address);
        if *count >= *overridden.unwrap_or(&self.limits.per_address_max) {
            if *count == 0 {
                by_address.remove(&address);
            }
            return Err(Refusal::AddressFull);
        }
        *count += 1;
        drop(by_address);
        self.open.fetch_add(1, Ordering::AcqRel);
        listener.open.fetch_add(1, Ordering::AcqRel);
        listener.connections.increment(1.0);
        Ok(Place {
            admission: Arc::clone(self),
            listener: Arc::clone(listener),
            address,
        })
    }

    fn count_rates(&self, listener: &ListenerGate, now: Duration) {
        let windows = self.limits.windows;
        if let Some(limit) = self.limits.creation_rate_max {
            self.rate.lock().record(windows, limit, 1.0, now);
        }
        if let Some(limit) = listener.limits.creation_rate_max {
            listener.rate.lock().record(windows, limit, 1.0, now);
        }
    }

    /// How long an address would have to wait. A connection that is refused does not count.
    fn address_wait(&self, address: IpAddr, now: Duration) -> Option<Duration> {
        let kind = QuotaKind::ConnectionCreationRate;
        if !self.quotas.is_limited(kind) {
            return None;
        }
        let limit = self.quotas.table().ip_limit(kind, &address.to_string())?;
        let owner = address_block(address);
        self.address_rates
            .with((&address, &owner), now, |rate, windows| {
                rate.record(windows, limit, 1.0, now);
                let wait = rate.wait(windows, limit, now);
                if wait.is_some() {
                    rate.record(windows, limit, -1.0, now);
                }
                wait
            })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_address = self.admission.by_address.lock();
        if let Some(count) = by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&self.address);
            }
        }
        drop(by_address);
        self.admission.open.fetch_sub(1, Ordering::AcqRel);
        self.listener.open.fetch_sub(1, Ordering::AcqRel);
        self.listener.connections.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use millrace_security::quota::{QuotaEntity, QuotaTable};

    use super::*;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn admission(max: usize, limits: ConnectionLimits) -> Arc<Admission> {
        Admission::new(max, limits, Arc::default())
    }

    fn gate(limits: ListenerLimits) -> Arc<ListenerGate> {
        ListenerGate::new("L", limits, &ConnectionLimits::default())
    }

    #[test]
    fn an_address_has_so_many_connections_and_its_own_number_if_it_is_named() {
        let admission = admission(
            100,
            ConnectionLimits {
                per_address_max: 1,
                per_address_overrides: HashMap::from([(B, 2)]),
                ..ConnectionLimits::default()
            },
        );
        let gate = gate(ListenerLimits::default());
        let admit = |address| admission.admit(&gate, address, at(1));
        let first = admit(A).expect("the first");
        assert_eq!(admit(A).err(), Some(Refusal::AddressFull));
        let mapped = "::ffff:10.0.0.1".parse().expect("an address");
        assert_eq!(admit(mapped).err(), Some(Refusal::AddressFull), "the same");
        let others = [admit(B).expect("allowed"), admit(B).expect("allowed")];
        assert_eq!(admit(B).err(), Some(Refusal::AddressFull));
        drop(first);
        drop(admit(A).expect("its place is free"));
        drop(others);
        assert!(admission.by_address.lock().is_empty());
        assert_eq!(admission.open.load(Ordering::Acquire), 0);
    }

    #[test]
    fn an_address_that_may_have_none_leaves_nothing_behind() {
        let limits = ConnectionLimits {
            per_address_max: 0,
            ..ConnectionLimits::default()
        };
        let admission = admission(100, limits);
        let refused = admission.admit(&gate(ListenerLimits::default()), A, at(1));
        assert_eq!(refused.err(), Some(Refusal::AddressFull));
        assert!(admission.by_address.lock().is_empty());
    }

    #[test]
    fn listener_and_broker_have_their_own_bounds() {
        let admission = admission(2, ConnectionLimits::default());
        let narrow = gate(ListenerLimits {
            connections_max: Some(1),
            ..ListenerLimits::default()
        });
        let wide = gate(ListenerLimits::default());
        let held = admission.admit(&narrow, A, at(1)).expect("one");
        let refused = admission.admit(&narrow, B, at(1));
        assert_eq!(refused.err(), Some(Refusal::ListenerFull));
        let other = admission.admit(&wide, A, at(1)).expect("another listener");
        let refused = admission.admit(&wide, B, at(1));
        assert_eq!(refused.err(), Some(Refusal::BrokerFull));
        drop((held, other));
        assert!(admission.admit(&narrow, B, at(1)).is_ok());
    }

    #[test]
    fn listeners_pause_where_connections_come_too_fast() {
        let limits = ConnectionLimits {
            creation_rate_max: Some(2.0),
            ..ConnectionLimits::default()
        };
        let admission = admission(100, limits);
        let gate = gate(ListenerLimits {
            creation_rate_max: Some(1.0),
            ..ListenerLimits::default()
        });
        for _ in 0..10 {
            assert_eq!(admission.pause(&gate, at(100)), None);
            drop(admission.admit(&gate, A, at(100)));
        }
        drop(admission.admit(&gate, A, at(100)));
        let pause = admission
            .pause(&gate, at(100))
            .expect("eleven in ten seconds");
        assert!((pause.as_secs_f64() - 1.0).abs() < 1e-6, "{pause:?}");
        assert_eq!(admission.pause(&gate, at(101)), None);
    }

    #[test]
    fn an_address_with_a_quota_connects_so_often() {
        let kind = QuotaKind::ConnectionCreationRate;
        let entity = QuotaEntity::from_parts([("ip", Some("10.0.0.1"))]).expect("legal");
        let quotas = Arc::new(LiveQuotas::new(QuotaTable::new([(entity, kind, 1.0)])));
        let admission = Admission::new(100, ConnectionLimits::default(), Arc::clone(&quotas));
        let gate = gate(ListenerLimits::default());
        for _ in 0..10 {
            assert!(admission.admit(&gate, A, at(100)).is_ok());
        }
        let refused = admission.admit(&gate, A, at(100)).err();
        assert!(
            matches!(refused, Some(Refusal::AddressTooFast(_))),
            "{refused:?}"
        );
        assert!(
            admission.admit(&gate, B, at(100)).is_ok(),
            "another address"
        );
        quotas.set(QuotaTable::default());
        assert!(admission.admit(&gate, A, at(100)).is_ok(), "at once");
    }
}
