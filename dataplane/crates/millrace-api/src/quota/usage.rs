//! What clients use of their quotas now.

use std::time::Duration;

use millrace_security::quota::{Measure, MeterKey, QuotaTable, Rate, TokenBucket, Windows};

use super::{Quota, Quotas};

/// Clients that are listed: bounds the answer.
pub const QUOTA_USES_MAX: usize = 1_000;

/// What clients used lately who have a quota, those nearest to their limits first.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaUses {
    /// [`QUOTA_USES_MAX`] of them at most.
    pub uses: Vec<QuotaUse>,
    /// How many there are.
    pub total: usize,
}

/// What the clients used who share a quota.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaUse {
    /// Kafka's name of what is limited, such as `producer_byte_rate`.
    pub quota: &'static str,
    /// Their user, if users are told apart.
    pub user: Option<String>,
    /// Their client id, if client ids are told apart.
    pub client_id: Option<String>,
    /// How much they may use, per second.
    pub limit: f64,
    /// How much they used, per second.
    pub rate: f64,
    /// How long they would have to wait now.
    pub throttle: Duration,
}

/// Of what use can be told.
pub(super) trait Shown: Measure {
    /// Use per second, and how long to wait.
    fn show(&mut self, windows: Windows, limit: f64, now: Duration) -> (f64, Option<Duration>);
}

impl Shown for Rate {
    fn show(&mut self, windows: Windows, limit: f64, now: Duration) -> (f64, Option<Duration>) {
        (
            self.per_second(windows, now),
            self.wait(windows, limit, now),
        )
    }
}

impl Shown for TokenBucket {
    /// What is missing from the bucket was used within the time that fills it.
    fn show(&mut self, windows: Windows, limit: f64, now: Duration) -> (f64, Option<Duration>) {
        let burst = windows.burst();
        let rate = self.missing(limit, now) / burst.as_secs_f64();
        (rate, self.wait(burst, limit, now))
    }
}

impl Quotas {
    /// What clients use now.
    pub(crate) fn uses(&self, now: Duration) -> QuotaUses {
        let table = self.live.table();
        let mut uses = Vec::new();
        for quota in [&self.produce, &self.fetch, &self.request] {
            quota.list(&table, now, &mut uses);
        }
        self.mutations.list(&table, now, &mut uses);
        let total = uses.len();
        let share = |one: &QuotaUse| one.rate / one.limit;
        uses.sort_by(|a, b| share(b).total_cmp(&share(a)));
        uses.truncate(QUOTA_USES_MAX);
        QuotaUses { uses, total }
    }
}

impl<M: Shown> Quota<M> {
    fn list(&self, table: &QuotaTable, now: Duration, uses: &mut Vec<QuotaUse>) {
        self.meters.each(|meter, measured, windows| {
            if measured.is_idle(windows, now) {
                return;
            }
            let Some(limit) = self.limit_of(table, meter) else {
                return;
            };
            let (rate, wait) = measured.show(windows, limit, now);
            uses.push(QuotaUse {
                quota: self.kind.key(),
                user: meter.user.as_deref().map(str::to_owned),
                client_id: meter.client_id.as_deref().map(str::to_owned),
                limit,
                rate,
                throttle: wait.unwrap_or_default().min(self.wait_max),
            });
        });
    }

    /// What holds now for those who are measured together.
    fn limit_of(&self, table: &QuotaTable, meter: &MeterKey) -> Option<f64> {
        let default = self.default.filter(|_| meter.user.is_none());
        table.limit_of(self.kind, meter).or(default)
    }
}
