//! Whether a reader wants records: it waits for them now, or has asked a moment ago.

use std::{task::Waker, time::Duration};

/// A reader that waits, across its polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::consumer) struct WaiterId(pub(in crate::consumer) u64);

/// The demand of one reader, or of all that read a consumer as a whole.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// When a reader last asked.
    asked_at: Option<Duration>,
    /// Bounded by the readers, each of which has one entry.
    waiters: Vec<(WaiterId, Waker)>,
}

impl Demand {
    pub(super) fn ask(&mut self, now: Duration) {
        self.asked_at = Some(now);
    }

    /// Whether records should be fetched.
    pub(super) fn is_active(&self, now: Duration, idle: Duration) -> bool {
        !self.waiters.is_empty() || self.asked_at.is_some_and(|at| now < at + idle)
    }

    /// Whether nobody waited before.
    pub(super) fn wait(&mut self, id: WaiterId, waker: &Waker) -> bool {
        let is_first = self.waiters.is_empty();
        match self.waiters.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => known.clone_from(waker),
            None => self.waiters.push((id, waker.clone())),
        }
        is_first
    }

    pub(super) fn leave(&mut self, id: WaiterId) {
        self.waiters.retain(|(known, _)| *known != id);
    }

    /// Everybody who waits, to be woken. They still count as waiting until they ask again.
    pub(super) fn wake_all(&self, woken: &mut Vec<Waker>) {
        woken.extend(self.waiters.iter().map(|(_, waker)| waker.clone()));
    }
}
