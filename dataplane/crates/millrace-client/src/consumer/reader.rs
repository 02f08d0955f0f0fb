//! Those who read: what the handles and tasks of one consumer share, and one waiting reader.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::{
    config::ConsumerConfig,
    coordinator::Coordinator,
    flow::{Flow, Scope, Taken, WaiterId, open},
};
use crate::client::{Client, Interest};

/// See the module.
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) config: ConsumerConfig,
    /// `None` without a group.
    pub(super) coordinator: Option<Coordinator>,
    flow: Mutex<Flow>,
    interests: Mutex<HashMap<Arc<str>, Interest>>,
    /// Wakes the fetcher.
    pub(super) work: Notify,
    /// Positions became known.
    pub(super) positions: Notify,
    /// Counts assignments of the group.
    pub(super) assigned: watch::Sender<u64>,
    /// Held during a commit.
    pub(super) committing: tokio::sync::Mutex<()>,
    next_waiter: AtomicU64,
}

impl Shared {
    pub(super) fn new(client: Client, config: ConsumerConfig) -> Self {
        let group = config.group_id.as_deref();
        Self {
            coordinator: group.map(|group| Coordinator::new(&client, group)),
            flow: Mutex::new(Flow::new(config.clone())),
            interests: Mutex::default(),
            client,
            config,
            work: Notify::new(),
            positions: Notify::new(),
            assigned: watch::Sender::new(0),
            committing: tokio::sync::Mutex::default(),
            next_waiter: AtomicU64::new(0),
        }
    }

    /// Uses the state machine; then, without the lock, wakes the tasks that this concerns.
    pub(super) fn with<R>(&self, use_flow: impl FnOnce(&mut Flow) -> R) -> R {
        let mut flow = self.flow.lock();
        let result = use_flow(&mut flow);
        let woken = std::mem::take(&mut flow.woken);
        let has_work = std::mem::take(&mut flow.has_work);
        let has_positions = std::mem::take(&mut flow.has_positions);
        drop(flow);
        for waker in woken {
            waker.wake();
        }
        if has_work {
            self.work.notify_one();
        }
        if has_positions {
            self.positions.notify_waiters();
        }
        result
    }

    pub(super) fn now(&self) -> Duration {
        self.client.now()
    }

    /// Keeps the metadata of the assigned topics fresh, and of no others.
    pub(super) fn assignment_changed(&self) {
        let assignment = self.with(|flow| flow.assignment());
        let topics: HashSet<_> = assignment.into_iter().map(|name| name.topic).collect();
        let mut interests = self.interests.lock();
        interests.retain(|topic, _| topics.contains(topic));
        for topic in topics {
            interests
                .entry(topic)
                .or_insert_with_key(|topic| self.client.interest(topic));
        }
    }

    /// What there is now; the batch, where one has to be opened, is opened here.
    pub(super) fn take(&self, scope: Scope, whole: bool) -> Taken {
        let now = self.now();
        loop {
            match self.with(|flow| flow.take(scope, whole, now)) {
                Taken::Open(opening) => {
                    let outcome = open(&opening);
                    self.with(|flow| flow.opened(opening, outcome, now));
                }
                taken => return taken,
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(coordinator) = &self.coordinator {
            coordinator.close(&self.client);
        }
    }
}

/// One reader: a future or a stream that asks for records. While it waits it is demand; dropped, it
/// is not any more.
pub(super) struct Reader {
    pub(super) shared: Arc<Shared>,
    pub(super) scope: Scope,
    id: WaiterId,
    is_waiting: bool,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>, scope: Scope) -> Self {
        let id = WaiterId(shared.next_waiter.fetch_add(1, Ordering::Relaxed));
        Self {
            shared,
            scope,
            id,
            is_waiting: false,
        }
    }

    /// The next record or batch, an error, or the end; never [`Taken::Empty`] or [`Taken::Open`].
    pub(super) fn poll_take(&mut self, context: &Context<'_>, whole: bool) -> Poll<Taken> {
        let taken = self.shared.take(self.scope, whole);
        if !matches!(taken, Taken::Empty) {
            self.leave();
            return Poll::Ready(taken);
        }
        let (scope, id) = (self.scope, self.id);
        self.is_waiting = true;
        self.shared
            .with(|flow| flow.wait(scope, id, context.waker()));
        // Something may have come between the two.
        match self.shared.take(scope, whole) {
            Taken::Empty => Poll::Pending,
            taken => {
                self.leave();
                Poll::Ready(taken)
            }
        }
    }

    fn leave(&mut self) {
        if std::mem::take(&mut self.is_waiting) {
            let (scope, id) = (self.scope, self.id);
            self.shared.with(|flow| flow.leave(scope, id));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.leave();
    }
}
