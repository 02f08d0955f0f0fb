//! Client quotas: how many bytes per second the clients of one name may move.
//!
//! Bytes are paid for at the quota's rate. A client may be one second in debt; beyond that, responses
//! tell it how long to wait, and its connection is not read for that time (KIP-219). No request is
//! rejected and no response is delayed, except that a fetch of a client in debt returns no records.
//!
//! A client is its `client.id`, wherever it connects from; clients without a name are one client.
//! The state of a client is a single time, which can be dropped once it has passed.

use std::{collections::HashMap, sync::Arc, time::Duration};

use metrics::{Counter, Gauge, counter, gauge};
use millrace_wire::service::Peer;
use parking_lot::Mutex;

use crate::call::Call;

/// How far a client may be ahead of its payments: the length of Kafka's quota windows.
const AHEAD_MAX: Duration = Duration::from_secs(1);

/// Clients that owe, each known by itself, per kind of quota. Those beyond share one quota: names
/// cost a client nothing, and the broker's memory must not pay for them.
const CLIENTS_MAX: usize = 10_000;

/// Names that agree in so many bytes are one client, so that long ones cost no more memory.
const CLIENT_ID_BYTES_MAX: usize = 256;

/// What clients may move, by default without bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaConfig {
    /// `quota.producer.default`: bytes of Produce requests per second and client id.
    pub produce_bytes_per_s: Option<u64>,
    /// `quota.consumer.default`: bytes of fetched records per second and client id.
    pub fetch_bytes_per_s: Option<u64>,
}

/// The quotas of a broker.
#[derive(Debug)]
pub(crate) struct Quotas {
    produce: Option<Arc<Quota>>,
    fetch: Option<Arc<Quota>>,
}

/// One kind of quota.
#[derive(Debug)]
struct Quota {
    bytes_per_s: u64,
    clients: Mutex<Clients>,
    known: Gauge,
    throttled: Counter,
}

/// Until when what each client has moved is paid for.
#[derive(Debug, Default)]
struct Clients {
    paid_at: HashMap<Box<str>, Duration>,
    /// The same for all clients that came when too many were known.
    others_paid_at: Duration,
    /// When those who owe nothing were forgotten last.
    swept_at: Duration,
}

/// Who pays for a request.
#[derive(Debug)]
pub(crate) struct Payer {
    quota: Arc<Quota>,
    client_id: String,
    peer: Arc<Peer>,
}

impl Quotas {
    pub(crate) fn new(config: QuotaConfig) -> Self {
        let quota = |rate: Option<u64>, kind| rate.map(|rate| Arc::new(Quota::new(rate, kind)));
        Self {
            produce: quota(config.produce_bytes_per_s, "produce"),
            fetch: quota(config.fetch_bytes_per_s, "fetch"),
        }
    }

    /// Who pays for a Produce request, if somebody has to.
    pub(crate) fn producer(&self, call: &Call) -> Option<Payer> {
        payer(self.produce.as_ref(), call)
    }

    /// Who pays for a fetch, if somebody has to.
    pub(crate) fn consumer(&self, call: &Call) -> Option<Payer> {
        payer(self.fetch.as_ref(), call)
    }
}

fn payer(quota: Option<&Arc<Quota>>, call: &Call) -> Option<Payer> {
    quota.map(|quota| Payer {
        quota: Arc::clone(quota),
        client_id: call.client_id(),
        peer: Arc::clone(&call.peer),
    })
}

impl Payer {
    /// The client has moved `bytes`. Where that is more than it may, slows its connection down and
    /// tells until when.
    pub(crate) fn pay(&self, bytes: usize, now: Duration) -> Option<Duration> {
        self.quota.charge(&self.client_id, bytes, now);
        self.owes(now)
    }

    /// Until when the client has to wait, where it must not move anything now; its connection is
    /// slowed down for as long.
    pub(crate) fn owes(&self, now: Duration) -> Option<Duration> {
        let until = self.quota.owed_until(&self.client_id, now)?;
        self.quota.throttled.increment(1);
        self.peer.throttle.until(until);
        Some(until)
    }

    /// The most bytes that one answer should carry: what may be ahead of the payments.
    pub(crate) fn bytes_at_once(&self) -> usize {
        let bytes = u128::from(self.quota.bytes_per_s) * AHEAD_MAX.as_millis() / 1_000;
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// What an answer at `now` tells a client that has to wait until a time; whole milliseconds, not
/// less than the wait.
pub(crate) fn throttle_time_ms(until: Option<Duration>, now: Duration) -> i32 {
    let left = until.map_or(Duration::ZERO, |until| until.saturating_sub(now));
    i32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

impl Quota {
    fn new(bytes_per_s: u64, kind: &'static str) -> Self {
        Self {
            bytes_per_s: bytes_per_s.max(1),
            clients: Mutex::default(),
            known: gauge!("millrace_quota_clients", "kind" => kind),
            throttled: counter!("millrace_quota_throttled_total", "kind" => kind),
        }
    }

    fn charge(&self, client_id: &str, bytes: usize, now: Duration) {
        let price_ns = (bytes as u128 * 1_000_000_000).div_ceil(u128::from(self.bytes_per_s));
        let price = Duration::from_nanos(u64::try_from(price_ns).unwrap_or(u64::MAX));
        let mut clients = self.clients.lock();
        let paid_at = clients.entry(name(client_id), now);
        *paid_at = (*paid_at).max(now).saturating_add(price);
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        self.known.set(clients.paid_at.len() as f64);
    }

    fn owed_until(&self, client_id: &str, now: Duration) -> Option<Duration> {
        let clients = self.clients.lock();
        let paid_at = clients.paid_at.get(name(client_id));
        // Among those who came when too many were known, a name is nobody.
        let is_full = clients.paid_at.len() >= CLIENTS_MAX;
        let others = || is_full.then_some(clients.others_paid_at);
        let until = paid_at.copied().or_else(others)?.checked_sub(AHEAD_MAX)?;
        (until > now).then_some(until)
    }
}

impl Clients {
    fn entry(&mut self, name: &str, now: Duration) -> &mut Duration {
        let is_known = self.paid_at.contains_key(name);
        if !is_known && now.saturating_sub(self.swept_at) >= AHEAD_MAX {
            self.swept_at = now;
            self.paid_at.retain(|_, paid_at| *paid_at > now);
            self.paid_at.shrink_to(self.paid_at.len() * 2);
        }
        if !is_known && self.paid_at.len() >= CLIENTS_MAX {
            return &mut self.others_paid_at;
        }
        self.paid_at.entry(name.into()).or_default()
    }
}

/// The part of a client's name that tells it from others.
fn name(client_id: &str) -> &str {
    let end = client_id.floor_char_boundary(CLIENT_ID_BYTES_MAX);
    client_id.get(..end).unwrap_or(client_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1_000;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_client_may_be_a_second_ahead_and_then_waits_for_what_it_owes() {
        let quota = Quota::new(RATE, "produce");
        quota.charge("a", 1_000, at(10));
        assert_eq!(quota.owed_until("a", at(10)), None);
        quota.charge("a", 3_000, at(10));
        assert_eq!(quota.owed_until("a", at(10)), Some(at(13)));
        assert_eq!(quota.owed_until("a", at(12)), Some(at(13)));
        assert_eq!(quota.owed_until("a", at(13)), None);
        assert_eq!(quota.owed_until("b", at(10)), None, "another client");
        let told = |now| throttle_time_ms(quota.owed_until("a", now), now);
        assert_eq!(told(at(10)), 3_000);
        assert_eq!(told(at(13) - Duration::from_nanos(1)), 1);
        assert_eq!(told(at(13)), 0);
    }

    #[test]
    fn over_time_a_client_that_obeys_moves_its_quota() {
        let quota = Quota::new(RATE, "produce");
        let (mut now, mut moved) = (at(5), 0);
        while now < at(105) {
            quota.charge("a", 700, now);
            moved += 700;
            now = quota.owed_until("a", now).unwrap_or(now);
        }
        let expected = 100_000 + 1_000;
        assert!((expected..=expected + 1_400).contains(&moved), "{moved}");
    }

    #[test]
    fn rest_is_not_saved_up() {
        let quota = Quota::new(RATE, "fetch");
        quota.charge("a", 1_000, at(10));
        quota.charge("a", 2_000, at(1_000));
        assert_eq!(quota.owed_until("a", at(1_000)), Some(at(1_001)));
    }

    #[test]
    fn who_owes_nothing_is_forgotten() {
        let quota = Quota::new(RATE, "fetch");
        for client in 0..500 {
            quota.charge(&format!("c{client}"), 1_000, at(10));
        }
        quota.charge("debtor", 60_000, at(10));
        assert_eq!(quota.clients.lock().paid_at.len(), 501);
        quota.charge("new", 1, at(12));
        assert_eq!(quota.clients.lock().paid_at.len(), 2);
        assert_eq!(quota.owed_until("debtor", at(12)), Some(at(69)));
    }

    #[test]
    fn too_many_names_share_one_quota_and_no_memory() {
        let quota = Quota::new(RATE, "produce");
        quota.charge("early", 1_000, at(10));
        for client in 0..CLIENTS_MAX + 50 {
            quota.charge(&format!("c{client}"), 1_000, at(10));
        }
        assert_eq!(quota.clients.lock().paid_at.len(), CLIENTS_MAX);
        assert_eq!(quota.owed_until("early", at(10)), None, "known by itself");
        let last = format!("c{}", CLIENTS_MAX + 49);
        assert_eq!(quota.owed_until(&last, at(10)), Some(at(60)));
        quota.charge("later", 1_000, at(100));
        assert_eq!(quota.owed_until("later", at(100)), None);
        assert_eq!(quota.clients.lock().paid_at.len(), 1);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(name("short"), "short");
        let long = "ä".repeat(20_000);
        assert_eq!(name(&long).len(), CLIENT_ID_BYTES_MAX);
        let odd = format!("x{long}");
        assert_eq!(name(&odd).len(), CLIENT_ID_BYTES_MAX - 1);
    }

    #[test]
    fn the_largest_numbers_do_no_harm() {
        let quota = Quota::new(1, "produce");
        quota.charge("a", usize::MAX, at(1));
        quota.charge("a", usize::MAX, at(2));
        assert!(quota.owed_until("a", at(3)).is_some());
        assert_eq!(
            throttle_time_ms(quota.owed_until("a", at(3)), at(3)),
            i32::MAX
        );
        let fast = Quota::new(u64::MAX, "fetch");
        fast.charge("a", 1 << 40, at(1));
        assert_eq!(fast.owed_until("a", at(1)), None);
    }
}
