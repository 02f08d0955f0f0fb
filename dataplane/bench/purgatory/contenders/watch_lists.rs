//! Requests by the keys that they watch, for the contenders that are only timers.

use std::{
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;

use crate::workload::Request;

/// Independently locked parts, as many as Kafka's lists have.
const SHARDS: usize = 512;

/// A request that has to wait.
pub(crate) struct Waiting {
    request: Request,
    ended: AtomicBool,
}

impl Waiting {
    pub(crate) fn new(request: Request) -> Arc<Self> {
        Arc::new(Self {
            request,
            ended: AtomicBool::new(false),
        })
    }

    /// Completes the request where it is ready and has not ended.
    pub(crate) fn try_complete(&self) -> bool {
        self.request.is_ready() && self.complete()
    }

    /// Completes the request unless it has ended.
    pub(crate) fn complete(&self) -> bool {
        let ends = !self.ended.swap(true, SeqCst);
        if ends {
            self.request.completed();
        }
        ends
    }

    pub(crate) fn expire(&self) {
        if !self.ended.swap(true, SeqCst) {
            self.request.expired();
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(SeqCst)
    }
}

struct List {
    key: String,
    waiting: Vec<Arc<Waiting>>,
}

/// Lists of requests. A list forgets what has ended when it would have to grow, so that adding
/// costs the same however long the list is.
pub(crate) struct WatchLists {
    shards: Box<[Mutex<HashTable<List>>]>,
    hasher: RandomState,
}

impl WatchLists {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::default(),
        }
    }

    pub(crate) fn add(&self, waiting: &Arc<Waiting>, keys: &[String]) {
        for key in keys {
            let hash = self.hasher.hash_one(key);
            // The table uses the lowest and the highest bits.
            let mut lists = self.shards[(hash >> 32) as usize % SHARDS].lock();
            match lists.find_mut(hash, |list| list.key == *key) {
                Some(list) => list.push(waiting),
                None => {
                    let list = List {
                        key: key.clone(),
                        waiting: vec![Arc::clone(waiting)],
                    };
                    lists.insert_unique(hash, list, |list| self.hasher.hash_one(&list.key));
                }
            }
        }
    }
}

impl List {
    fn push(&mut self, waiting: &Arc<Waiting>) {
        let list = &mut self.waiting;
        if list.len() == list.capacity() {
            list.retain(|waiting| !waiting.has_ended());
            if list.len() > list.capacity() / 2 {
                list.reserve_exact(list.capacity());
            }
        }
        list.push(Arc::clone(waiting));
    }
}
