//! One delayed operation, completed exactly once.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicUsize, Ordering::SeqCst},
};

use millrace_time::TimerId;
use parking_lot::Mutex;

use crate::timers::{Expire, Timers};

/// Something that waits until it can be completed, or until its time is up.
pub trait DelayedOperation: Send + Sync + 'static {
    /// Completes the operation if it can be completed, and tells whether it did. Called whenever
    /// something happens to a key that it watches; never by two threads at once, never again after
    /// it returned true. It must not block. It may use the purgatory.
    fn try_complete(&self) -> bool;

    /// Completes the operation with what there is, because its time is up or the purgatory closes.
    /// Called at most once, and never where `try_complete` returned true.
    fn on_expire(&self);
}

/// Nothing asked the operation to end.
const WAITING: u8 = 0;
/// The time is up.
const EXPIRING: u8 = 1;
/// Nobody is interested any more.
const CANCELLING: u8 = 2;

/// Counts that a purgatory and its operations share.
#[derive(Debug, Default)]
pub(crate) struct Books {
    /// Operations that are not completed.
    pub(crate) delayed: AtomicUsize,
    /// Places in watch lists.
    pub(crate) watched: AtomicUsize,
    /// About how many of those belong to completed operations. Not exact: an operation may be
    /// completed while it is being put into its lists. Purging starts the count anew.
    pub(crate) stale: AtomicI64,
}

/// An operation with what makes its completion unique.
pub(crate) struct Entry<O> {
    pub(crate) operation: Arc<O>,
    timers: Timers,
    books: Arc<Books>,
    /// Held while the operation is tried or ended.
    turn: Mutex<()>,
    /// Set by everyone who wants a turn, so that whoever has it takes another for them.
    wanted: AtomicBool,
    /// How the operation was asked to end.
    ending: AtomicU8,
    done: AtomicBool,
    timer: Mutex<Timer>,
    /// Watch lists that the operation was put into.
    pub(crate) lists: AtomicUsize,
}

#[derive(Debug)]
enum Timer {
    Unset,
    Set(TimerId),
    /// The operation is done; a timer that is not set yet must not be.
    Done,
}

impl<O: DelayedOperation> Entry<O> {
    pub(crate) fn new(operation: Arc<O>, timers: Timers, books: Arc<Books>) -> Arc<Self> {
        books.delayed.fetch_add(1, SeqCst);
        Arc::new(Self {
            operation,
            timers,
            books,
            turn: Mutex::new(()),
            wanted: AtomicBool::new(false),
            ending: AtomicU8::new(WAITING),
            done: AtomicBool::new(false),
            timer: Mutex::new(Timer::Unset),
            lists: AtomicUsize::new(0),
        })
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.load(SeqCst)
    }

    /// Tries the operation, or ends it where that was asked for; true where this call did it.
    ///
    /// Only one thread has the turn, and none waits for it: a thread that finds it taken has left
    /// its wish in `wanted`, and the holder looks at that again after it gave the turn back. So
    /// what the waiting thread knew is judged after this call began, by somebody.
    pub(crate) fn attempt(&self) -> bool {
        self.wanted.store(true, SeqCst);
        while self.wanted.load(SeqCst) {
            let Some(turn) = self.turn.try_lock() else {
                return false;
            };
            let completed = self.take_turn();
            drop(turn);
            if completed {
                return true;
            }
        }
        false
    }

    /// Sets the deadline.
    pub(crate) fn set_timer(self: &Arc<Self>, after: std::time::Duration) {
        let mut timer = self.timer.lock();
        if matches!(*timer, Timer::Unset) {
            let expire = Arc::clone(self) as Arc<dyn Expire>;
            *timer = Timer::Set(self.timers.expire_after(after, expire));
        }
    }

    pub(crate) fn expire_now(&self) -> bool {
        self.end(EXPIRING)
    }

    pub(crate) fn cancel(&self) -> bool {
        self.end(CANCELLING)
    }

    fn end(&self, how: u8) -> bool {
        // The first to ask decides; the other wishes for the same end.
        let _already = self.ending.compare_exchange(WAITING, how, SeqCst, SeqCst);
        self.attempt()
    }

    /// Does what is wanted, with the turn.
    fn take_turn(&self) -> bool {
        while self.wanted.swap(false, SeqCst) {
            if self.is_done() {
                return false;
            }
            match self.ending.load(SeqCst) {
                WAITING => {
                    if self.operation.try_complete() {
                        self.finish();
                        return true;
                    }
                }
                how => {
                    self.finish();
                    if how == EXPIRING {
                        self.operation.on_expire();
                    }
                    return true;
                }
            }
        }
        false
    }

    /// Marks the operation as done and takes it off the wheel at once.
    fn finish(&self) {
        self.done.store(true, SeqCst);
        self.books.delayed.fetch_sub(1, SeqCst);
        let lists = i64::try_from(self.lists.load(SeqCst)).unwrap_or(i64::MAX);
        self.books.stale.fetch_add(lists, SeqCst);
        let timer = std::mem::replace(&mut *self.timer.lock(), Timer::Done);
        if let Timer::Set(id) = timer {
            self.timers.cancel(id);
        }
    }
}

impl<O: DelayedOperation> Expire for Entry<O> {
    fn expire(self: Arc<Self>) {
        self.expire_now();
    }
}
