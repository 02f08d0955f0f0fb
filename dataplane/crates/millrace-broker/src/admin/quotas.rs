//! The answer to `/v1/quotas`.

use millrace_api::{QuotaUse, QuotaUses};
use serde::Serialize;

/// What clients with quotas used lately, those nearest to their limits first.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct QuotasAnswer {
    /// [`millrace_api::QUOTA_USES_MAX`] of them at most.
    pub(crate) usage: Vec<QuotaUsage>,
    /// How many there are.
    pub(crate) total: usize,
}

/// What the clients used who share a quota.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct QuotaUsage {
    /// Kafka's name of the quota: `producer_byte_rate`, `consumer_byte_rate`, `request_percentage` or
    /// `controller_mutation_rate`.
    pub(crate) quota: &'static str,
    /// Their user; `null` where the quota is of a client id alone.
    pub(crate) user: Option<String>,
    /// Their client id; `null` where the quota is of all clients of the user.
    pub(crate) client_id: Option<String>,
    /// How much they may use per second.
    pub(crate) limit: f64,
    /// How much they used per second, over the quota's windows.
    pub(crate) rate: f64,
    /// How long they have to wait, in milliseconds.
    pub(crate) throttle_ms: u64,
}

impl QuotasAnswer {
    pub(crate) fn new(QuotaUses { uses, total }: QuotaUses) -> Self {
        let usage = |one: QuotaUse| QuotaUsage {
            quota: one.quota,
            user: one.user,
            client_id: one.client_id,
            limit: one.limit,
            rate: one.rate,
            throttle_ms: u64::try_from(one.throttle.as_millis()).unwrap_or(u64::MAX),
        };
        Self {
            usage: uses.into_iter().map(usage).collect(),
            total,
        }
    }
}
