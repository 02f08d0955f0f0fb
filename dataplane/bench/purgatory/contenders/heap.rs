//! A binary heap behind a mutex, with a thread that sleeps until its head is due.
//!
//! A heap cannot remove what is not its head, so a completed request stays in it until its time is
//! up, as in Java's `DelayQueue`, which Kafka's purgatory used before it had wheels.

use std::{cmp::Ordering, collections::BinaryHeap, sync::Arc, thread, time::Duration};

use millrace_time::SharedClock;
use parking_lot::{Condvar, Mutex};

use crate::{
    contenders::watch_lists::{Waiting, WatchLists},
    workload::{Contender, Request},
};

/// A heap of deadlines and the lists beside it.
pub(crate) struct Heap {
    lists: WatchLists,
    timer: Arc<Timer>,
}

struct Timer {
    clock: SharedClock,
    heap: Mutex<BinaryHeap<Deadline>>,
    earlier: Condvar,
}

struct Deadline {
    at: Duration,
    waiting: Arc<Waiting>,
}

impl Heap {
    pub(crate) fn new(clock: SharedClock) -> Self {
        let timer = Arc::new(Timer {
            clock,
            heap: Mutex::default(),
            earlier: Condvar::new(),
        });
        let of_thread = Arc::clone(&timer);
        thread::spawn(move || of_thread.run());
        Self {
            lists: WatchLists::new(),
            timer,
        }
    }
}

impl Contender for Heap {
    type Handle = Arc<Waiting>;

    fn watch(&self, request: Request, keys: &[String], timeout: Duration) -> Self::Handle {
        let waiting = Waiting::new(request);
        if !waiting.try_complete() {
            self.lists.add(&waiting, keys);
            if !waiting.try_complete() {
                self.timer.add(timeout, Arc::clone(&waiting));
            }
        }
        waiting
    }

    fn complete(&self, handle: Self::Handle) {
        handle.complete();
    }
}

impl Timer {
    fn add(&self, timeout: Duration, waiting: Arc<Waiting>) {
        let at = self.clock.now() + timeout;
        let mut heap = self.heap.lock();
        let is_earlier = heap.peek().is_none_or(|head| at < head.at);
        heap.push(Deadline { at, waiting });
        drop(heap);
        if is_earlier {
            self.earlier.notify_one();
        }
    }

    fn run(&self) -> ! {
        let mut due: Vec<Arc<Waiting>> = Vec::new();
        let mut heap = self.heap.lock();
        loop {
            let now = self.clock.now();
            while heap.peek().is_some_and(|head| head.at <= now) {
                due.extend(heap.pop().map(|head| head.waiting));
            }
            if !due.is_empty() {
                drop(heap);
                due.drain(..).for_each(|waiting| waiting.expire());
                heap = self.heap.lock();
                continue;
            }
            match heap.peek().map(|head| head.at - now) {
                Some(asleep) => drop(self.earlier.wait_for(&mut heap, asleep)),
                None => self.earlier.wait(&mut heap),
            }
        }
    }
}

/// The heap's head is the largest, so the earliest deadline counts as that.
impl Ord for Deadline {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Deadline {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Deadline {}
