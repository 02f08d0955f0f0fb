//! Gives the log's room back. The log is the last place of a record until its object is in the
//! metadata, *and* that metadata is in its backup: without the backup, losing the metadata would lose
//! what the log no longer has. So a trim waits for the backup, and nothing else does: neither
//! acknowledgements nor the eviction of committed blocks.

use std::{convert::Infallible, sync::Arc};

use tokio::sync::watch;

use super::super::StoreInner;

/// Up to where the log is no longer needed, once the metadata is backed up.
#[derive(Debug)]
pub(in crate::store) struct LogTrims {
    wanted: watch::Sender<u64>,
}

impl LogTrims {
    /// Everything below `end` is in objects already.
    pub(in crate::store) fn from(end: u64) -> Self {
        Self {
            wanted: watch::Sender::new(end),
        }
    }

    /// Everything below `end` is in objects now. Ends come in ascending order.
    pub(in crate::store) fn want(&self, end: u64) {
        self.wanted.send_replace(end);
    }
}

/// Trims the log until the store stops.
pub(in crate::store) async fn run(store: Arc<StoreInner>) -> Infallible {
    let mut wanted = store.log_trims.wanted.subscribe();
    loop {
        wanted.borrow_and_update();
        store.trim_log().await;
        wanted.changed().await.expect("the store keeps the sender");
    }
}

impl StoreInner {
    /// Trims the log up to where it is wanted, once the backup allows it.
    pub(in crate::store) async fn trim_log(&self) {
        let end = *self.log_trims.wanted.borrow();
        let revision = self.meta.backed_up().await;
        self.wal.trim(end, revision);
    }
}
