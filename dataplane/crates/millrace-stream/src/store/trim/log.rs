//! Gives the log's room back. The log is the last place of a record until its object is in the
//! metadata, *and* that metadata is in its backup: without the backup, losing the metadata would lose
//! what the log no longer has. So a trim waits for the backup, and nothing else does: neither
//! acknowledgements nor the eviction of committed blocks. What halted streams have only in the log holds it.

use std::{collections::HashMap, convert::Infallible, sync::Arc};

use millrace_model::StreamId;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::super::StoreInner;

/// Up to where the log is no longer needed, once the metadata is backed up.
#[derive(Debug)]
pub(in crate::store) struct LogTrims {
    /// Blocks are committed up to here.
    committed: watch::Sender<u64>,
    /// Where the first record is that a halted stream has only in the log.
    held: Mutex<HashMap<StreamId, u64>>,
}

impl LogTrims {
    /// Everything below `end` is in objects already.
    pub(in crate::store) fn from(end: u64) -> Self {
        Self {
            committed: watch::Sender::new(end),
            held: Mutex::default(),
        }
    }

    /// Everything below `end` is in objects now, or held. Ends come in ascending order.
    pub(in crate::store) fn want(&self, end: u64) {
        self.committed.send_replace(end);
    }

    /// Nothing from `start` on is trimmed until `stream` is released.
    pub(in crate::store) fn hold(&self, stream: StreamId, start: u64) {
        self.held.lock().entry(stream).or_insert(start);
    }

    /// The streams that hold the log, ascending.
    pub(in crate::store) fn held(&self) -> Vec<StreamId> {
        let mut held: Vec<_> = self.held.lock().keys().copied().collect();
        held.sort_unstable();
        held
    }

    /// These streams hold the log no longer.
    pub(in crate::store) fn release(&self, streams: &[StreamId]) {
        let mut held = self.held.lock();
        let before = held.len();
        held.retain(|stream, _| !streams.contains(stream));
        if held.len() < before {
            self.committed.send_modify(|_| ());
        }
    }

    fn end(&self) -> u64 {
        // In this order: what holds the log is known before the block's end is.
        let committed = *self.committed.borrow();
        let held = self.held.lock();
        held.values().copied().fold(committed, u64::min)
    }
}

/// Trims the log until the store stops.
pub(in crate::store) async fn run(store: Arc<StoreInner>) -> Infallible {
    let mut committed = store.log_trims.committed.subscribe();
    loop {
        committed.borrow_and_update();
        store.trim_log().await;
        let changed = committed.changed().await;
        changed.expect("the store keeps the sender");
    }
}

impl StoreInner {
    /// Trims the log up to where it is no longer needed, once the backup allows it.
    pub(in crate::store) async fn trim_log(&self) {
        let end = self.log_trims.end();
        let revision = self.meta.backed_up().await;
        self.wal.trim(end, revision);
    }
}
