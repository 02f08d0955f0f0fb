//! Paces one kind of traffic, without tiers.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio::{
    sync::{Mutex as Turn, Notify},
    time::timeout,
};

use crate::{bandwidth::BURST, bucket::Bucket};

/// Lets whole pieces pass at a rate, in order. A piece passes as soon as those before it are made up
/// for, however large it is itself: a piece that need not wait is not delayed. Cheap to clone;
/// clones share the rate.
#[derive(Clone)]
pub struct Pacer {
    shared: Arc<Shared>,
}

struct Shared {
    clock: SharedClock,
    bucket: Mutex<Bucket>,
    /// Held by the one who is next. Fair: others get it in the order in which they came.
    turn: Turn<()>,
    /// The rate has changed.
    changed: Notify,
}

impl Pacer {
    /// Lets so many bytes per second pass; none lets everything pass at once.
    #[must_use]
    pub fn new(clock: SharedClock, bytes_per_second: Option<u64>) -> Self {
        Self::with_burst(clock, bytes_per_second, BURST)
    }

    /// The same, which saves up no more than what passes in `burst`.
    #[must_use]
    pub fn with_burst(clock: SharedClock, bytes_per_second: Option<u64>, burst: Duration) -> Self {
        let bucket = Mutex::new(Bucket::new(bytes_per_second, burst, clock.now()));
        Self {
            shared: Arc::new(Shared {
                clock,
                bucket,
                turn: Turn::new(()),
                changed: Notify::new(),
            }),
        }
    }

    /// Changes the rate at once, for those too who wait already.
    pub fn set_rate(&self, bytes_per_second: Option<u64>) {
        let now = self.shared.clock.now();
        let mut bucket = self.shared.bucket.lock();
        bucket.set_rate(bytes_per_second, now);
        drop(bucket);
        self.shared.changed.notify_waiters();
    }

    /// Waits until a piece of `bytes` may pass. Dropping the future gives the place up.
    pub async fn pass(&self, bytes: u64) {
        let Shared {
            clock,
            bucket,
            turn,
            changed,
        } = &*self.shared;
        let _turn = turn.lock().await;
        loop {
            let mut changed = pin!(changed.notified());
            // Enabled before looking, so that a change that comes in between is not missed.
            changed.as_mut().enable();
            let now = clock.now();
            let wait = {
                let mut bucket = bucket.lock();
                bucket.fill(now);
                if bucket.is_open() {
                    bucket.take(bytes);
                    return;
                }
                bucket.wait()
            };
            let _filled_or_changed = timeout(wait, changed).await;
        }
    }
}

impl fmt::Debug for Pacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Pacer");
        out.field("bucket", &self.shared.bucket.lock());
        out.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::paused::TokioClock;

    const KIB: u64 = 1024;

    #[tokio::test(start_paused = true)]
    async fn a_piece_passes_at_once_and_the_next_one_waits_until_it_is_made_up_for() {
        let clock = TokioClock::shared();
        let pacer = Pacer::new(clock.clone(), Some(10 * KIB));
        pacer.pass(100 * KIB).await;
        assert_eq!(clock.now(), Duration::ZERO);
        pacer.pass(1).await;
        let took = clock.now().as_millis();
        assert!((9_900..=9_902).contains(&took), "{took} ms");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_rate_holds_for_the_one_who_waits_and_those_behind() {
        let clock = TokioClock::shared();
        let pacer = Pacer::new(clock.clone(), Some(1));
        pacer.pass(1_000_000).await;
        let waits = async { tokio::join!(pacer.pass(5), pacer.pass(6)) };
        let lift = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            pacer.set_rate(None);
        };
        tokio::join!(waits, lift);
        assert_eq!(clock.now().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gives_up_leaves_the_turn_to_the_next() {
        let clock = TokioClock::shared();
        let pacer = Pacer::new(clock.clone(), Some(KIB));
        pacer.pass(KIB).await;
        let impatient = tokio::time::timeout(Duration::from_millis(10), pacer.pass(100 * KIB));
        let (gave_up, ()) = tokio::join!(impatient, pacer.pass(1));
        gave_up.expect_err("nothing is left for longer");
        assert!(clock.now() < Duration::from_secs(1));
    }
}
