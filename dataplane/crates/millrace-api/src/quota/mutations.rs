//! What a request changes of topics (KIP-599).

use std::{sync::Arc, time::Duration};

use millrace_security::quota::{Limit, TokenBucket};
use millrace_wire::error_code::ErrorCode;

use super::{Quota, Spender, throttle_time_ms};
use crate::topics::Refused;

/// Partitions that one request creates or deletes, as far as they are counted.
#[derive(Debug)]
pub(crate) struct Mutations {
    counted: Option<Counted>,
    /// The longest wait so far.
    wait: Option<Duration>,
}

/// The quota, what holds of it, who pays, and whether too much is refused.
type Counted = (Arc<Quota<TokenBucket>>, Limit, Spender, bool);

impl Mutations {
    pub(super) const fn new(counted: Option<Counted>) -> Self {
        Self {
            counted,
            wait: None,
        }
    }

    /// So many partitions are about to be created or deleted. As in Kafka, a change is made as long as nothing is
    /// owed, however large it is.
    pub(crate) fn spend(&mut self, partitions: usize, now: Duration) -> Result<(), Refused> {
        let Some((quota, limit, spender, strict)) = &self.counted else {
            return Ok(());
        };
        #[expect(clippy::cast_precision_loss, reason = "there are far fewer partitions")]
        let (rate, tokens) = (limit.value, partitions as f64);
        let whose = (&limit.meter, &spender.owner);
        let wait = quota.meters.with(whose, now, |bucket, windows| {
            let owed = bucket.wait(windows.burst(), rate, now);
            if *strict && owed.is_some() {
                return Err(owed);
            }
            bucket.take(rate, tokens, now);
            match *strict {
                true => Ok(None),
                false => Ok(bucket.wait(windows.burst(), rate, now)),
            }
        });
        let (Ok(owed) | Err(owed)) = wait;
        self.wait = self.wait.max(owed);
        wait.map(drop).map_err(|_| {
            let message = "The throttling quota has been exceeded.";
            Refused::new(ErrorCode::ThrottlingQuotaExceeded, message)
        })
    }

    /// What the answer tells of the wait; the connection is slowed down for as long.
    pub(crate) fn throttle_time_ms(&self, now: Duration) -> i32 {
        let Some(((quota, _, spender, _), wait)) = self.counted.as_ref().zip(self.wait) else {
            return 0;
        };
        throttle_time_ms(quota.throttle(spender, wait, now), now)
    }
}
