//! The share coordinator as share groups use it: tests can make it unavailable, and see which states it was asked to keep.

use std::{
    collections::BTreeSet,
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use millrace_coordinator::{BoxFuture, SharePartition, ShareState, ShareStateError, ShareStates};
use parking_lot::Mutex;

/// See the module. Stays over restarts.
#[derive(Debug, Default)]
pub(crate) struct ShareWatch {
    known: Mutex<BTreeSet<SharePartition>>,
    pub(crate) is_away: AtomicBool,
}

impl ShareWatch {
    /// How many partitions have a state.
    pub(crate) fn known(&self) -> usize {
        self.known.lock().len()
    }
}

#[derive(Debug)]
pub(crate) struct WatchedShareStates {
    inner: Arc<dyn ShareStates>,
    watch: Arc<ShareWatch>,
}

impl WatchedShareStates {
    pub(crate) fn new(inner: &Arc<dyn ShareStates>, watch: &Arc<ShareWatch>) -> Self {
        Self {
            inner: Arc::clone(inner),
            watch: Arc::clone(watch),
        }
    }

    fn ask<'a, T: Send + 'static>(
        &'a self,
        ask: impl FnOnce(&'a dyn ShareStates) -> BoxFuture<'a, Result<T, ShareStateError>>,
    ) -> BoxFuture<'a, Result<T, ShareStateError>> {
        match self.watch.is_away.load(Ordering::Relaxed) {
            true => Box::pin(ready(Err(ShareStateError::NotAvailable))),
            false => ask(&*self.inner),
        }
    }
}

impl ShareStates for WatchedShareStates {
    fn initialize(
        &self,
        partition: SharePartition,
        state_epoch: i32,
        start_offset: Option<u64>,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        Box::pin(async move {
            let asked =
                self.ask(|inner| inner.initialize(partition.clone(), state_epoch, start_offset));
            let result = asked.await;
            if result.is_ok() {
                self.watch.known.lock().insert(partition);
            }
            result
        })
    }

    fn read(
        &self,
        partition: SharePartition,
        leader_epoch: i32,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        self.ask(|inner| inner.read(partition, leader_epoch))
    }

    fn write(
        &self,
        partition: SharePartition,
        change: ShareState,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        self.ask(|inner| inner.write(partition, change))
    }

    fn read_summary(
        &self,
        partition: SharePartition,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        self.ask(|inner| inner.read_summary(partition))
    }

    fn delete(&self, partition: SharePartition) -> BoxFuture<'_, Result<(), ShareStateError>> {
        Box::pin(async move {
            let result = self.ask(|inner| inner.delete(partition.clone())).await;
            if result.is_ok() {
                self.watch.known.lock().remove(&partition);
            }
            result
        })
    }
}
