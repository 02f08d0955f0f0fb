//! Ties partitions to the purgatory: when a partition's high watermark moves, what watches it is
//! looked at again.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
};

use millrace_log::PartitionLog;
use millrace_model::TopicPartition;
use millrace_purgatory::{Purgatory, Wait};
use parking_lot::Mutex;

pub(crate) struct Wakeups {
    purgatory: Purgatory<TopicPartition, Wait>,
    /// Partitions that have been told to call. A topic that is created again is another log under
    /// the same name, so the log itself is remembered.
    listening: Mutex<HashMap<TopicPartition, Weak<PartitionLog>>>,
}

impl fmt::Debug for Wakeups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakeups")
            .field("listening", &self.listening.lock().len())
            .finish()
    }
}

impl Wakeups {
    pub(crate) fn new(purgatory: Purgatory<TopicPartition, Wait>) -> Self {
        Self {
            purgatory,
            listening: Mutex::default(),
        }
    }

    /// Makes sure that progress of `log` is noticed. To be called before the log is looked at for
    /// the last time ahead of a wait.
    pub(crate) fn listen(&self, log: &Arc<PartitionLog>) {
        let id = log.id();
        let mut listening = self.listening.lock();
        if listening
            .get(id)
            .is_some_and(|known| known.as_ptr() == Arc::as_ptr(log))
        {
            return;
        }
        // New partitions are rare; this keeps the map as small as the set of living ones.
        listening.retain(|_, known| known.strong_count() > 0);
        listening.insert(id.clone(), Arc::downgrade(log));
        drop(listening);
        let (purgatory, key) = (self.purgatory.clone(), id.clone());
        log.on_advance(Arc::new(move |_| {
            purgatory.check(&key);
        }));
    }
}
