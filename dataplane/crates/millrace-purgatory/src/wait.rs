//! Waiting for a condition in async code.

use std::{fmt, hash::Hash, time::Duration};

use parking_lot::Mutex;
use tokio::sync::oneshot;

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

/// A condition that somebody awaits.
pub struct Wait {
    ready: Box<dyn Fn() -> bool + Send>,
    outcome: Mutex<Option<oneshot::Sender<Outcome>>>,
}

impl DelayedOperation for Wait {
    fn try_complete(&self) -> bool {
        let ready = (self.ready)();
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
    fn tell(&self, outcome: Outcome) {
        if let Some(sender) = self.outcome.lock().take() {
            let _nobody_waits = sender.send(outcome);
        }
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").finish_non_exhaustive()
    }
}

/// Forgets the operation when the future that awaits it is dropped.
struct CancelOnDrop<'a, K: Hash + Eq + Clone> {
    purgatory: &'a Purgatory<K, Wait>,
    watched: Watched,
}

impl<K: Hash + Eq + Clone> Drop for CancelOnDrop<'_, K> {
    fn drop(&mut self) {
        self.purgatory.cancel(self.watched);
    }
}

impl<K: Hash + Eq + Clone> Purgatory<K, Wait> {
    /// Waits until `ready` holds or `timeout` has passed. `ready` is checked at once and at every
    /// [`Purgatory::check`] of one of `keys`, by whoever checks: it must be quick and must not
    /// block. Dropping the future forgets the wait.
    pub async fn wait(
        &self,
        keys: &[K],
        timeout: Duration,
        ready: impl Fn() -> bool + Send + 'static,
    ) -> Outcome {
        let (sender, outcome) = oneshot::channel();
        let wait = Wait {
            ready: Box::new(ready),
            outcome: Mutex::new(Some(sender)),
        };
        let _guard = CancelOnDrop {
            purgatory: self,
            watched: self.watch(wait, keys, timeout),
        };
        // The sender lives in the operation, which the guard keeps until it is done.
        outcome.await.unwrap_or(Outcome::Expired)
    }
}
