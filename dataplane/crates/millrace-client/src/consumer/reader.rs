//! Those who read: what the handles and tasks of one consumer share, and one waiting reader.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::coop,
};

use super::{
    config::ConsumerConfig,
    coordinator::Coordinator,
    flow::{Flow, Opening, Scope, Taken, WaiterId, open, open_within},
    gate::Passed,
};
use crate::{
    client::{Client, Interest},
    transport::BoxFuture,
};

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
    /// Partitions are assigned by hand.
    pub(super) is_manual: AtomicBool,
    next_waiter: AtomicU64,
    /// Readers in front of the gate.
    gated: AtomicUsize,
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
            is_manual: AtomicBool::new(false),
            next_waiter: AtomicU64::new(0),
            gated: AtomicUsize::new(0),
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

    /// Whether a reader waits for the gate.
    pub(super) fn is_gated(&self) -> bool {
        self.gated.load(Ordering::Relaxed) > 0
    }

    /// What there is now; the batch, where one has to be opened, is opened here, unless it has to pass
    /// the gate first.
    fn take(&self, scope: Scope, whole: bool) -> Taken {
        let now = self.now();
        let gate = self.config.decompression_gate.as_ref();
        loop {
            match self.with(|flow| flow.take(scope, whole, now)) {
                Taken::Open(opening) => {
                    let opened = match gate {
                        Some(gate) => open_within(&opening, gate.ordinary_bytes_max()),
                        None => Some(open(&opening)),
                    };
                    match opened {
                        Some(outcome) => self.with(|flow| flow.opened(opening, outcome, now)),
                        None => return Taken::Open(opening),
                    }
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
    gated: Option<Gated>,
}

/// A batch that waits for the gate.
struct Gated {
    opening: Opening,
    passing: BoxFuture<'static, Passed>,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>, scope: Scope) -> Self {
        let id = WaiterId(shared.next_waiter.fetch_add(1, Ordering::Relaxed));
        Self {
            shared,
            scope,
            id,
            is_waiting: false,
            gated: None,
        }
    }

    /// The next record or batch, an error, or the end; never [`Taken::Empty`] or [`Taken::Open`].
    pub(super) fn poll_take(&mut self, context: &mut Context<'_>, whole: bool) -> Poll<Taken> {
        // A reader whose buffer is never empty lets the other tasks of its thread run.
        let turn = ready!(coop::poll_proceed(context));
        let taken = ready!(self.poll_next(context, whole));
        turn.made_progress();
        self.leave();
        Poll::Ready(taken)
    }

    fn poll_next(&mut self, context: &mut Context<'_>, whole: bool) -> Poll<Taken> {
        let mut is_registered = false;
        loop {
            if self.gated.is_some() {
                self.wait(context);
                ready!(self.poll_gate(context));
            }
            match self.shared.take(self.scope, whole) {
                Taken::Open(opening) => self.gated = self.gate(opening),
                // Something may have come before the waker was known.
                Taken::Empty if !is_registered => {
                    self.wait(context);
                    is_registered = true;
                }
                Taken::Empty => return Poll::Pending,
                taken => return Poll::Ready(taken),
            }
        }
    }

    fn wait(&mut self, context: &Context<'_>) {
        let (scope, id) = (self.scope, self.id);
        self.is_waiting = true;
        self.shared
            .with(|flow| flow.wait(scope, id, context.waker()));
    }

    /// A batch's place in front of the gate.
    fn gate(&self, opening: Opening) -> Option<Gated> {
        let gate = self.shared.config.decompression_gate.clone()?;
        self.shared.gated.fetch_add(1, Ordering::Relaxed);
        Some(Gated {
            opening,
            passing: Box::pin(gate.pass()),
        })
    }

    /// Opens the batch that waits once it may pass; gives it back where nobody needs it any more.
    fn poll_gate(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(gated) = &mut self.gated else {
            return Poll::Ready(());
        };
        let opening = &gated.opening;
        let is_needed = |flow: &mut Flow| !flow.is_closed() && flow.is_current(opening);
        if !self.shared.with(is_needed) {
            self.give_back();
            return Poll::Ready(());
        }
        let passed = ready!(gated.passing.as_mut().poll(context));
        if let Some(opening) = self.ungate() {
            let outcome = open(&opening).map(|records| records.guarded(passed));
            let now = self.shared.now();
            self.shared.with(|flow| flow.opened(opening, outcome, now));
        }
        Poll::Ready(())
    }

    fn give_back(&mut self) {
        if let Some(opening) = self.ungate() {
            self.shared.with(|flow| flow.unopened(opening));
        }
    }

    fn ungate(&mut self) -> Option<Opening> {
        let gated = self.gated.take()?;
        self.shared.gated.fetch_sub(1, Ordering::Relaxed);
        Some(gated.opening)
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
        self.give_back();
        self.leave();
    }
}
