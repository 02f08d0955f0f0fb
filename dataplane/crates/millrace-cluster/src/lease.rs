//! The lease of this start. The broker needs no database to serve: it goes on while none answers, and ends only when it
//! learns that it was replaced. What it may acknowledge, the fence of its log decides.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::{FutureExt, future::select};
use millrace_meta::{ClusterError, ClusterStore};
use millrace_model::NodeEpoch;
use millrace_tasks::{Supervisor, Task};
use millrace_time::SharedClock;
use tokio::{sync::Notify, time::timeout};
use tokio_util::task::AbortOnDropHandle;

/// Renewals within the time of a lease.
const RENEWALS_PER_LEASE: u32 = 3;

/// A renewal that fails is tried again after this part of the time between two; one that has no answer for so long is tried once more
/// beside the first attempt. So two may fail before the lease runs out, and one that hangs is early enough for the broker to remain
/// fit to judge others.
const RETRIES_PER_RENEWAL: u32 = 4;

/// A lease that is being renewed, for as long as this is kept.
#[derive(Debug, Clone)]
pub struct Lease {
    shared: Arc<Shared>,
    _renewing: Arc<AbortOnDropHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    lost: OnceLock<String>,
    told: Notify,
}

impl Lease {
    /// Renews the lease of a start that has joined.
    #[must_use]
    pub fn keep(
        store: Arc<dyn ClusterStore>,
        epoch: NodeEpoch,
        ttl: Duration,
        (clock, tasks): (SharedClock, &Supervisor),
    ) -> Self {
        let shared = Arc::<Shared>::default();
        let attempt = move || {
            let store = Arc::clone(&store);
            async move { store.renew_lease(epoch).await }.boxed()
        };
        let interval = ttl / RENEWALS_PER_LEASE;
        let renewing = renew(attempt, interval, clock, Arc::clone(&shared));
        Self {
            shared,
            _renewing: Arc::new(AbortOnDropHandle::new(
                tasks.spawn(Task::LeaseRenewal, renewing),
            )),
        }
    }

    /// Resolves with the reason once the start has been replaced.
    pub async fn lost(&self) -> String {
        loop {
            let told = self.shared.told.notified();
            if let Some(reason) = self.shared.lost.get() {
                return reason.clone();
            }
            told.await;
        }
    }
}

/// Renews the lease. If there is no answer after `patience`, the connection may hang, so a second attempt runs beside the first. One
/// that succeeds or is refused is the answer.
async fn renew_once<Attempt>(
    attempt: impl Fn() -> Attempt,
    patience: Duration,
) -> Result<(), ClusterError>
where
    Attempt: Future<Output = Result<(), ClusterError>> + Unpin,
{
    let mut first = attempt();
    if let Ok(answer) = timeout(patience, &mut first).await {
        return answer;
    }
    let (answer, other) = select(first, attempt()).await.factor_first();
    match answer {
        Ok(()) | Err(ClusterError::Fenced(_)) => answer,
        Err(error) => {
            tracing::debug!(%error, "one of two attempts to renew the lease failed; waiting for the other");
            other.await
        }
    }
}

/// Renews the lease once per `interval`, until a refusal says that the start was replaced.
async fn renew<Attempt>(
    attempt: impl Fn() -> Attempt,
    interval: Duration,
    clock: SharedClock,
    shared: Arc<Shared>,
) where
    Attempt: Future<Output = Result<(), ClusterError>> + Unpin,
{
    let since_renewed = metrics::gauge!("millrace_lease_age_seconds");
    let mut renewed_at = clock.now();
    loop {
        let mut pause = interval / RETRIES_PER_RENEWAL;
        let begun_at = clock.now();
        let renewal = renew_once(&attempt, pause);
        match timeout(interval, renewal).await {
            Ok(Ok(())) => {
                renewed_at = clock.now();
                // The time until the next one is the same however long the database takes.
                pause = interval.saturating_sub(renewed_at.saturating_sub(begun_at));
            }
            Ok(Err(ClusterError::Fenced(fenced))) => {
                let reason = format!(
                    "{fenced}; another broker takes over the log of this one, so restart it"
                );
                tracing::error!(reason, "this broker was replaced");
                let _ = shared.lost.set(reason);
                shared.told.notify_waiters();
                return;
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the lease was not renewed; trying again");
            }
            Err(_) => tracing::warn!(
                "the metadata database does not answer; clients are served until the write-ahead log is full"
            ),
        }
        let age = clock.now().saturating_sub(renewed_at);
        since_renewed.set(age.as_secs_f64());
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        future,
        pin::pin,
    };

    use futures_util::future::LocalBoxFuture;
    use millrace_time::Clock;
    use tokio::time::{Instant, sleep};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(250);

    const TICK: Duration = Duration::from_millis(1);

    type Answer = Result<(), ClusterError>;

    /// The answer of these attempts, which must be there at the time that it takes, and not before.
    async fn renewed(
        attempts: [fn() -> LocalBoxFuture<'static, Answer>; 2],
        takes: Duration,
    ) -> Answer {
        let next = Cell::new(0);
        let mut answer = pin!(renew_once(
            || {
                let at = next.replace(next.get() + 1);
                attempts[at]()
            },
            PATIENCE,
        ));
        let early = timeout(takes - TICK, &mut answer).await;
        assert!(early.is_err(), "{early:?}");
        timeout(TICK * 2, answer).await.expect("in time")
    }

    fn hangs() -> LocalBoxFuture<'static, Answer> {
        future::pending().boxed_local()
    }

    fn refused_late() -> LocalBoxFuture<'static, Answer> {
        let refused = sleep(PATIENCE * 2).map(|()| Err(millrace_meta::Fenced(NodeEpoch(1)).into()));
        refused.boxed_local()
    }

    fn fails_late() -> LocalBoxFuture<'static, Answer> {
        let failed = ClusterError::NodeNot(millrace_model::NodeId(1), "there");
        sleep(PATIENCE * 2).map(|()| Err(failed)).boxed_local()
    }

    fn renews() -> LocalBoxFuture<'static, Answer> {
        future::ready(Ok(())).boxed_local()
    }

    fn renews_late() -> LocalBoxFuture<'static, Answer> {
        sleep(PATIENCE * 3).map(Ok).boxed_local()
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_hangs_is_tried_beside_once_more() {
        let answer = renewed([hangs, renews], PATIENCE).await;
        assert!(answer.is_ok(), "{answer:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_the_answer_whatever_the_other_attempt_does() {
        let answer = renewed([refused_late, hangs], PATIENCE * 2).await;
        assert!(matches!(answer, Err(ClusterError::Fenced(_))), "{answer:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_waits_for_the_other_attempt() {
        let answer = renewed([fails_late, renews_late], PATIENCE * 4).await;
        assert!(answer.is_ok(), "{answer:?}");
    }

    /// Time as the paused runtime has it.
    #[derive(Debug)]
    struct PausedClock(Instant);

    impl Clock for PausedClock {
        fn now(&self) -> Duration {
            self.0.elapsed()
        }

        fn wall_ms(&self) -> i64 {
            0
        }
    }

    const INTERVAL: Duration = Duration::from_secs(1);

    /// When the first attempts begin, in milliseconds, of which `answers` says how each ends; the last one is a refusal.
    async fn attempts_at(answers: &[fn() -> LocalBoxFuture<'static, Answer>]) -> Vec<u128> {
        let begun = RefCell::new(Vec::new());
        #[expect(
            clippy::disallowed_methods,
            reason = "the paused clock of the test's runtime"
        )]
        let start = Instant::now();
        let attempt = || {
            let nth = begun.borrow().len();
            begun.borrow_mut().push(start.elapsed().as_millis());
            match answers.get(nth) {
                Some(answer) => answer(),
                None => refused(),
            }
        };
        let shared = Arc::<Shared>::default();
        let renewing = renew(
            attempt,
            INTERVAL,
            Arc::new(PausedClock(start)),
            shared.clone(),
        );
        timeout(INTERVAL * 100, renewing).await.expect("refused");
        let reason = shared.lost.get().expect("told");
        assert!(reason.contains("takes over the log"), "{reason}");
        begun.into_inner()
    }

    fn refused() -> LocalBoxFuture<'static, Answer> {
        future::ready(Err(millrace_meta::Fenced(NodeEpoch(1)).into())).boxed_local()
    }

    fn fails() -> LocalBoxFuture<'static, Answer> {
        let failed = ClusterError::NodeNot(millrace_model::NodeId(1), "there");
        future::ready(Err(failed)).boxed_local()
    }

    fn renews_slowly() -> LocalBoxFuture<'static, Answer> {
        sleep(INTERVAL / 5).map(Ok).boxed_local()
    }

    /// A slow database made the time between two renewals longer.
    #[tokio::test(start_paused = true)]
    async fn renewals_begin_at_one_rate_however_long_the_database_takes() {
        let slow = attempts_at(&[renews_slowly, renews, renews_slowly]).await;
        assert_eq!(slow, [0, 1_000, 2_000, 3_000]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_tried_again_after_a_quarter_of_the_interval() {
        let failed = attempts_at(&[renews, fails, fails, renews]).await;
        assert_eq!(failed, [0, 1_000, 1_250, 1_500, 2_500]);
    }

    /// The second attempt came so late that the database counted it as a gap.
    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_hangs_delays_no_other() {
        let hung = attempts_at(&[hangs, renews]).await;
        assert_eq!(hung, [0, 250, 1_000]);
        let both = attempts_at(&[hangs, hangs, renews]).await;
        assert_eq!(both, [0, 250, 1_250, 2_250]);
    }
}
