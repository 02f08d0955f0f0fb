//! Client quotas: how much clients may use, and how long those wait who used more.
//!
//! Use is measured for each quota as Kafka does. Who is over a limit is told in the answer how long to wait,
//! and the connection is not read for that time (KIP-219). No request is rejected and no response is
//! delayed, except that a fetch over its quota returns no records, and that changes of topics over theirs are
//! refused (KIP-599). Where no quota of a kind is set, that
//! costs one atomic load.

mod mutations;
mod payer;
mod throttled;
mod usage;

use std::{sync::Arc, time::Duration};

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use millrace_security::{
    CONTROL_PLANE_USER, address_block,
    quota::{
        Limit, LiveQuotas, MeterKey, Meters, QuotaKind, Rate, TokenBucket, Windows, entity_name,
    },
};
use millrace_wire::service::{ANONYMOUS, Peer};

pub use self::usage::{QUOTA_USES_MAX, QuotaUse, QuotaUses};
pub(crate) use self::{mutations::Mutations, payer::Payer};
use self::{throttled::Throttled, usage::Shown};
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
    throttled: Arc<Throttled>,
    produce: Arc<Quota<Rate>>,
    fetch: Arc<Quota<Rate>>,
    request: Arc<Quota<Rate>>,
    mutations: Arc<Quota<TokenBucket>>,
}

/// One kind of quota.
#[derive(Debug)]
struct Quota<M> {
    kind: QuotaKind,
    live: Arc<LiveQuotas>,
    throttled: Arc<Throttled>,
    /// What holds for a client id that has no quota.
    default: Option<f64>,
    /// The longest wait at once.
    wait_max: Duration,
    meters: Meters<MeterKey, Box<str>, M>,
    clients: Gauge,
    throttles: Counter,
    waits: Histogram,
}

/// Who uses a quota.
#[derive(Debug, Clone)]
struct Spender {
    peer: Arc<Peer>,
    /// As quotas name it.
    client_id: Box<str>,
    /// Who gets no more than so many meters: the user, and where clients do not authenticate, the address.
    owner: Box<str>,
}

impl Spender {
    fn of(call: &Call) -> Self {
        let peer = Arc::clone(&call.peer);
        let owner = match peer.identity.principal() {
            None | Some(ANONYMOUS) => address_block(peer.address.ip()).to_string().into(),
            Some(_) => user(&peer).into(),
        };
        Self {
            client_id: entity_name(&call.client_id()).into(),
            owner,
            peer,
        }
    }
}

impl Quotas {
    pub(crate) fn new(config: QuotaConfig, live: Arc<LiveQuotas>) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "nobody moves 2^53 bytes a second"
        )]
        let default = |rate: Option<u64>| rate.map(|rate| rate.max(1) as f64);
        let windows = config.windows;
        let throttled = Arc::new(Throttled::default());
        let set = (&live, &throttled);
        let quota =
            |kind, default, wait_max| Arc::new(Quota::new(set, (kind, default), wait_max, windows));
        let produce = default(config.produce_bytes_per_s);
        let fetch = default(config.fetch_bytes_per_s);
        Self {
            produce: quota(QuotaKind::ProducerByteRate, produce, Duration::MAX),
            fetch: quota(QuotaKind::ConsumerByteRate, fetch, Duration::MAX),
            // As in Kafka: a request that took long must not shut its client out for long.
            request: quota(QuotaKind::RequestPercentage, None, windows.length),
            mutations: Arc::new(Quota::new(
                set,
                (QuotaKind::ControllerMutationRate, None),
                Duration::MAX,
                config.mutation_windows,
            )),
            live,
            throttled,
        }
    }

    /// Quotas have changed: connections that are not read because of one are read as soon as those allow that
    /// hold now. No wait becomes longer.
    pub(crate) fn reconsider(&self, now: Duration) {
        self.throttled.reconsider(now, |kind, spender| match kind {
            QuotaKind::ProducerByteRate => self.produce.wait(spender, now),
            QuotaKind::ConsumerByteRate => self.fetch.wait(spender, now),
            QuotaKind::RequestPercentage => self.request.wait(spender, now),
            QuotaKind::ControllerMutationRate => self.mutations.wait(spender, now),
            QuotaKind::ConnectionCreationRate => None,
        });
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
        let strict = call.version() >= strict_from;
        let limited = self.mutations.limited(call);
        Mutations::new(
            limited.map(|(limit, spender)| (Arc::clone(&self.mutations), limit, spender, strict)),
        )
    }

    fn payer(&self, quota: &Arc<Quota<Rate>>, call: &Call) -> Option<Payer> {
        let (limit, spender) = quota.limited(call)?;
        Some(Payer::new(Arc::clone(quota), limit, spender))
    }
}

impl<M: Shown> Quota<M> {
    fn new(
        (live, throttled): (&Arc<LiveQuotas>, &Arc<Throttled>),
        (kind, default): (QuotaKind, Option<f64>),
        wait_max: Duration,
        windows: Windows,
    ) -> Self {
        let label = label(kind);
        Self {
            kind,
            live: Arc::clone(live),
            throttled: Arc::clone(throttled),
            default,
            wait_max,
            meters: Meters::new(windows),
            clients: gauge!("millrace_quota_clients", "kind" => label),
            throttles: counter!("millrace_quota_throttled_total", "kind" => label),
            waits: histogram!("millrace_quota_throttle_seconds", "kind" => label),
        }
    }

    /// What holds for the client of a request, if anything does.
    fn limited(&self, call: &Call) -> Option<(Limit, Spender)> {
        if !self.live.is_limited(self.kind) && self.default.is_none() {
            return None;
        }
        let spender = Spender::of(call);
        Some((self.limit(&spender)?, spender))
    }

    fn limit(&self, spender: &Spender) -> Option<Limit> {
        let user = user(&spender.peer);
        // A tenant's quotas must not keep the control plane out.
        if user == CONTROL_PLANE_USER {
            return None;
        }
        let client_id = &spender.client_id;
        let limit = self.live.is_limited(self.kind).then(|| {
            let table = self.live.table();
            table.limit(self.kind, user, client_id)
        });
        let default = || {
            let meter = MeterKey {
                user: None,
                client_id: Some(client_id.clone()),
            };
            self.default.map(|value| Limit { value, meter })
        };
        limit.flatten().or_else(default)
    }

    /// How long a client has to wait by what holds now.
    fn wait(&self, spender: &Spender, now: Duration) -> Option<Duration> {
        let limit = self.limit(spender)?;
        let wait = self
            .meters
            .peek((&limit.meter, &spender.owner), |meter, windows| {
                meter.show(windows, limit.value, now).1
            });
        wait.flatten().map(|wait| wait.min(self.wait_max))
    }

    /// Lets a connection wait; until when. Nothing where its quota has been raised since the request came.
    fn throttle(&self, spender: &Spender, wait: Duration, now: Duration) -> Option<Duration> {
        let wait = wait.min(self.wait_max);
        let wait_now = || self.wait(spender, now).map(|by_now| wait.min(by_now));
        let until = self.throttled.add((self.kind, spender), now, wait_now)?;
        self.throttles.increment(1);
        self.waits.record(until.saturating_sub(now));
        Some(until)
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
