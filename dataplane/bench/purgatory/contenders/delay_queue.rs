//! tokio-util's `DelayQueue` behind a mutex, with a task that polls it.

use std::{future::poll_fn, sync::Arc, task::Poll, time::Duration};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio_util::time::{DelayQueue, delay_queue::Key};

use crate::{
    contenders::watch_lists::{Waiting, WatchLists},
    workload::{Contender, Request},
};

/// A queue and the lists beside it.
pub(crate) struct Delays {
    lists: WatchLists,
    queue: Arc<Mutex<DelayQueue<Arc<Waiting>>>>,
    /// The queue's timer belongs to it.
    runtime: Handle,
}

impl Delays {
    /// Starts the task on `runtime`.
    pub(crate) fn new(runtime: Handle) -> Self {
        let queue = Arc::<Mutex<DelayQueue<Arc<Waiting>>>>::default();
        runtime.spawn(expire(Arc::clone(&queue)));
        Self {
            lists: WatchLists::new(),
            queue,
            runtime,
        }
    }
}

impl Contender for Delays {
    type Handle = Option<(Arc<Waiting>, Key)>;

    fn watch(&self, request: Request, keys: &[String], timeout: Duration) -> Self::Handle {
        let waiting = Waiting::new(request);
        if waiting.try_complete() {
            return None;
        }
        self.lists.add(&waiting, keys);
        if waiting.try_complete() {
            return None;
        }
        let _in_runtime = self.runtime.enter();
        let key = self.queue.lock().insert(Arc::clone(&waiting), timeout);
        Some((waiting, key))
    }

    fn complete(&self, handle: Self::Handle) {
        let Some((waiting, key)) = handle else { return };
        let _in_runtime = self.runtime.enter();
        let mut queue = self.queue.lock();
        // Ended under the lock, here as in the task: a key is used again once its request left.
        if waiting.complete() {
            queue.remove(&key);
        }
    }
}

async fn expire(queue: Arc<Mutex<DelayQueue<Arc<Waiting>>>>) {
    let ended: () = poll_fn(|context| {
        let mut queue = queue.lock();
        // Everything that is due under one lock. A queue that is empty wakes the task when it is
        // no longer.
        while let Poll::Ready(Some(expired)) = queue.poll_expired(context) {
            expired.get_ref().expire();
        }
        Poll::Pending
    })
    .await;
    ended
}
