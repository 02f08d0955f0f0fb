//! Client quotas: how much clients may use, and how long those wait who used more.
//!
//! Use is measured for each quota as Kafka does. Who is over a limit is told in the answer how long to wait,
//! and the connection is not read for that time (KIP-219). No request is rejected and no response is
//! delayed, except that a fetch over its quota returns no records, and that changes of topics over theirs are
//! refused (KIP-599). Where no quota of a kind is set, that
//! costs one atomic load.

mod mutations;
mod payer;
mod usage;

use std::{sync::Arc, time::Duration};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use millrace_security::{
    CONTROL_PLANE_USER,
    quota::{
        Limit, LiveQuotas, MeterKey, Meters, QuotaKind, Rate, TokenBucket, Windows, entity_name,
    },
};
use millrace_wire::service::Peer;

pub use self::usage::{QUOTA_USES_MAX, QuotaUse, QuotaUses};
pub(crate) use self::{mutations::Mutations, payer::Payer};
use crate::call::Call;

/// What clients may use where nobody set a quota, by default without bound, and how use is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuotaConfig {
    /// `quota.producer.default`: bytes of Produce requests per second and client id.
    pub produce_bytes_per_s: Option<u64>,
    /// `quota.consumer.default`: bytes of fetched records per second and client id.
    pub fetch_bytes_per_s: Option<u64>,
    /// `quota.window.num` and `quota.window.size.seconds`.
    pub windows: Windows,
    /// `controller.quota.window.num` and `controller.quota.window.size.seconds`.
    pub mutation_windows: Windows,
}

/// The quotas of a broker.
#[derive(Debug)]
pub(crate) struct Quotas {
    live: Arc<LiveQuotas>,
    produce: Arc<Quota<Rate>>,
    fetch: Arc<Quota<Rate>>,
    request: Arc<Quota<Rate>>,
    mutations: Arc<Quota<TokenBucket>>,
}

/// One kind of quota.
#[derive(Debug)]
struct Quota<M> {
    kind: QuotaKind,
    /// What holds for a client id that has no quota.
    default: Option<f64>,
    /// The longest wait at once.
    wait_max: Duration,
    meters: Meters<MeterKey, M>,
    clients: Gauge,
    throttled: Counter,
    waits: Histogram,
}

impl Quotas {
    pub(crate) fn new(config: QuotaConfig, live: Arc<LiveQuotas>) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "nobody moves 2^53 bytes a second"
        )]
        let default = |rate: Option<u64>| rate.map(|rate| rate.max(1) as f64);
        let windows = config.windows;
        let quota = |kind, default, wait_max| {
            Arc::new(Quota::new(kind, default, wait_max, Meters::new(windows)))
        };
        let produce = default(config.produce_bytes_per_s);
        let fetch = default(config.fetch_bytes_per_s);
        Self {
            live,
            produce: quota(QuotaKind::ProducerByteRate, produce, Duration::MAX),
            fetch: quota(QuotaKind::ConsumerByteRate, fetch, Duration::MAX),
            // As in Kafka: a request that took long must not shut its client out for long.
            request: quota(QuotaKind::RequestPercentage, None, windows.length),
            mutations: Arc::new(Quota::new(
                QuotaKind::ControllerMutationRate,
                None,
                Duration::MAX,
                Meters::new(config.mutation_windows),
            )),
        }
    }

    /// Who pays for a Produce request, if somebody has to.
    pub(crate) fn producer(&self, call: &Call) -> Option<Payer> {
        self.payer(&self.produce, call)
    }

    /// Who pays for a fetch, if somebody has to.
    pub(crate) fn consumer(&self, call: &Call) -> Option<Payer> {
        self.payer(&self.fetch, call)
    }

    /// Who pays for the time that any request takes, if somebody has to. Before a client has authenticated,
    /// nobody does: it could spend the quota of a client id that is not its own.
    pub(crate) fn requester(&self, call: &Call) -> Option<Payer> {
        call.peer.identity.principal()?;
        self.payer(&self.request, call)
    }

    /// What a request changes of topics, if that is counted. Requests from version `strict_from` on are
    /// refused what is too much; older clients would not understand that, and only wait.
    pub(crate) fn mutations(&self, call: &Call, strict_from: i16) -> Mutations {
        let limit = self.limit(&self.mutations, call);
        let strict = call.version() >= strict_from;
        Mutations::new(limit.map(|limit| {
            let peer = Arc::clone(&call.peer);
            (Arc::clone(&self.mutations), limit, peer, strict)
        }))
    }

    fn payer(&self, quota: &Arc<Quota<Rate>>, call: &Call) -> Option<Payer> {
        let limit = self.limit(quota, call)?;
        Some(Payer::new(Arc::clone(quota), limit, Arc::clone(&call.peer)))
    }

    fn limit<M>(&self, quota: &Quota<M>, call: &Call) -> Option<Limit> {
        let is_limited = self.live.is_limited(quota.kind);
        if !is_limited && quota.default.is_none() {
            return None;
        }
        let user = user(&call.peer);
        // A tenant's quotas must not keep the control plane out.
        if user == CONTROL_PLANE_USER {
            return None;
        }
        let client_id = call.client_id();
        let client_id = entity_name(&client_id);
        let limit = is_limited
            .then(|| self.live.table().limit(quota.kind, user, client_id))
            .flatten();
        let default = || {
            let meter = MeterKey {
                user: None,
                client_id: Some(client_id.into()),
            };
            quota.default.map(|value| Limit { value, meter })
        };
        limit.or_else(default)
    }
}

impl<M> Quota<M> {
    fn new(
        kind: QuotaKind,
        default: Option<f64>,
        wait_max: Duration,
        meters: Meters<MeterKey, M>,
    ) -> Self {
        let label = label(kind);
        Self {
            kind,
            default,
            wait_max,
            meters,
            clients: gauge!("millrace_quota_clients", "kind" => label),
            throttled: counter!("millrace_quota_throttled_total", "kind" => label),
            waits: histogram!("millrace_quota_throttle_seconds", "kind" => label),
        }
    }

    /// Lets a connection wait; until when.
    fn throttle(&self, peer: &Peer, wait: Duration, now: Duration) -> Duration {
        let wait = wait.min(self.wait_max);
        self.throttled.increment(1);
        self.waits.record(wait);
        let until = now.saturating_add(wait);
        peer.throttle.until(until);
        until
    }
}

/// A user's name as quotas have it: the principal without its type.
fn user(peer: &Peer) -> &str {
    let principal = peer.identity.principal().unwrap_or_default();
    let name = principal
        .split_once(':')
        .map_or(principal, |(_, name)| name);
    entity_name(name)
}

/// The kind as metrics name it.
const fn label(kind: QuotaKind) -> &'static str {
    match kind {
        QuotaKind::ProducerByteRate => "produce",
        QuotaKind::ConsumerByteRate => "fetch",
        QuotaKind::RequestPercentage => "request",
        QuotaKind::ControllerMutationRate => "controller_mutation",
        QuotaKind::ConnectionCreationRate => "connection",
    }
}

/// What an answer at `now` tells a client that has to wait until a time; whole milliseconds, not
/// less than the wait.
pub(crate) fn throttle_time_ms(until: Option<Duration>, now: Duration) -> i32 {
    let left = until.map_or(Duration::ZERO, |until| until.saturating_sub(now));
    i32::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_never_less_than_the_wait() {
        let at = Duration::from_millis;
        assert_eq!(throttle_time_ms(None, at(5)), 0);
        assert_eq!(throttle_time_ms(Some(at(5)), at(5)), 0);
        assert_eq!(
            throttle_time_ms(Some(at(5)), at(5) - Duration::from_nanos(1)),
            1
        );
        assert_eq!(throttle_time_ms(Some(Duration::MAX), at(5)), i32::MAX);
    }
}
