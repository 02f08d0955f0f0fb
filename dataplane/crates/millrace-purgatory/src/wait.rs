//! Waiting for a condition in async code.

use std::{
    fmt,
    hash::Hash,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    operation::DelayedOperation,
    purgatory::{Purgatory, Watched},
};

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The condition held.
    Completed,
    /// The time was up, or the purgatory closed.
    Expired,
}

/// A condition that somebody awaits. It shares one allocation with the future: a broker keeps one
/// for every fetch that waits.
pub struct Wait(Arc<Shared<Condition>>);

type Condition = dyn Fn() -> bool + Send + Sync;

struct Shared<F: ?Sized> {
    progress: Mutex<Progress>,
    is_ready: F,
}

enum Progress {
    Waits(Option<Waker>),
    Ended(Outcome),
}

impl DelayedOperation for Wait {
    fn try_complete(&self) -> bool {
        let ready = (self.0.is_ready)();
        if ready {
            self.tell(Outcome::Completed);
        }
        ready
    }

    fn on_expire(&self) {
        self.tell(Outcome::Expired);
    }
}

impl Wait {
    /// The first outcome counts.
    fn tell(&self, outcome: Outcome) {
        let mut progress = self.0.progress.lock();
        if let Progress::Waits(waker) = &mut *progress {
            let waker = waker.take();
            *progress = Progress::Ended(outcome);
            drop(progress);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// Nobody tries it any more, perhaps because the condition panicked.
impl Drop for Wait {
    fn drop(&mut self) {
        self.tell(Outcome::Expired);
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").finish_non_exhaustive()
    }
}

/// Resolves with the outcome; dropped earlier, forgets the operation.
struct Ended<'a, K: Hash> {
    purgatory: &'a Purgatory<K, Wait>,
    watched: Watched,
    shared: Arc<Shared<Condition>>,
}

impl<K: Hash> Future for Ended<'_, K> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        match &mut *self.shared.progress.lock() {
            Progress::Ended(outcome) => Poll::Ready(*outcome),
            Progress::Waits(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => *waker = Some(context.waker().clone()),
                }
                Poll::Pending
            }
        }
    }
}

impl<K: Hash> Drop for Ended<'_, K> {
    fn drop(&mut self) {
        let ended = Progress::Ended(Outcome::Expired);
        let progress = std::mem::replace(&mut *self.shared.progress.lock(), ended);
        if let Progress::Waits(_) = progress {
            self.purgatory.cancel(self.watched);
        }
    }
}

impl<K: Hash> Purgatory<K, Wait> {
    /// Waits until `is_ready` holds or `timeout` has passed. `is_ready` is checked at once and at
    /// every [`Purgatory::check`] of one of `keys`, by whoever checks: it must be quick and must
    /// not block. Dropping the future forgets the wait.
    pub async fn wait(
        &self,
        keys: &[K],
        timeout: Duration,
        is_ready: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Outcome {
        let shared: Arc<Shared<Condition>> = Arc::new(Shared {
            progress: Mutex::new(Progress::Waits(None)),
            is_ready,
        });
        let wait = Wait(Arc::clone(&shared));
        Ended {
            purgatory: self,
            watched: self.watch(wait, keys, timeout),
            shared,
        }
        .await
    }
}
