//! Who pays for a request by a rate: bytes, or time.

use std::{sync::Arc, time::Duration};

use millrace_security::quota::{Limit, Rate};

use super::{Quota, Spender};

/// Who pays for a request.
#[derive(Debug)]
pub(crate) struct Payer {
    quota: Arc<Quota<Rate>>,
    limit: Limit,
    spender: Spender,
}

impl Payer {
    pub(super) fn new(quota: Arc<Quota<Rate>>, limit: Limit, spender: Spender) -> Self {
        Self {
            quota,
            limit,
            spender,
        }
    }

    /// The client has moved `bytes`. Where that is more than it may, slows its connection down and
    /// tells until when.
    pub(crate) fn pay(&self, bytes: usize, now: Duration) -> Option<Duration> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a request has less than 2^53 bytes"
        )]
        self.pay_amount(bytes as f64, now)
    }

    /// The same for time that the broker worked for the client.
    pub(crate) fn pay_time(&self, spent: Duration, now: Duration) -> Option<Duration> {
        self.pay_amount(spent.as_secs_f64() * 100.0, now)
    }

    fn pay_amount(&self, amount: f64, now: Duration) -> Option<Duration> {
        let Limit { value, meter } = &self.limit;
        let whose = (meter, &self.spender.owner);
        let wait = self.quota.meters.with(whose, now, |rate, windows| {
            rate.record(windows, *value, amount, now);
            rate.wait(windows, *value, now)
        });
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        self.quota.clients.set(self.quota.meters.len() as f64);
        wait.and_then(|wait| self.quota.throttle(&self.spender, wait, now))
    }

    /// Until when the client has to wait, where it must not move anything now; its connection is
    /// slowed down for as long.
    pub(crate) fn owes(&self, now: Duration) -> Option<Duration> {
        let Limit { value, meter } = &self.limit;
        let wait = self
            .quota
            .meters
            .peek((meter, &self.spender.owner), |rate, windows| {
                rate.wait(windows, *value, now)
            })
            .flatten();
        wait.and_then(|wait| self.quota.throttle(&self.spender, wait, now))
    }

    /// The most bytes that one answer should carry: what may be used at once.
    pub(crate) fn bytes_at_once(&self) -> usize {
        whole(self.limit.value * self.quota.meters.windows().span().as_secs_f64())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float beyond the range becomes the largest number"
)]
const fn whole(bytes: f64) -> usize {
    bytes as usize
}
