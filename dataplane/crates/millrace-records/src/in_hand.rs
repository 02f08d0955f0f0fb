//! The batch that a stream is writing.

use std::sync::Arc;

use millrace_client::consumer::RecordBatch;
use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;

use crate::limits::{BATCH_BYTES, LARGE_BATCH_HOLD};

/// A batch, or what is left of it. One that takes more than an ordinary batch is dropped after
/// [`LARGE_BATCH_HOLD`], also while nobody polls the stream: others wait for its memory.
pub(crate) struct InHand {
    pub(crate) partition: i32,
    slot: Arc<Mutex<Slot>>,
    _timer: Option<AbortOnDropHandle<()>>,
}

#[derive(Default)]
struct Slot {
    batch: Option<RecordBatch>,
    has_expired: bool,
}

impl InHand {
    pub(crate) fn new(batch: RecordBatch) -> Self {
        let partition = batch.topic_partition().partition;
        let is_large = batch.memory_bytes() > BATCH_BYTES;
        let slot = Arc::new(Mutex::new(Slot {
            batch: Some(batch),
            has_expired: false,
        }));
        Self {
            partition,
            // Not supervised: it ends with its batch, and cannot fail.
            _timer: is_large
                .then(|| AbortOnDropHandle::new(tokio::spawn(expire(Arc::clone(&slot))))),
            slot,
        }
    }

    /// Nothing once its time is up.
    pub(crate) fn take(&self) -> Option<RecordBatch> {
        self.slot.lock().batch.take()
    }

    pub(crate) fn put_back(&self, batch: RecordBatch) {
        let mut slot = self.slot.lock();
        if !slot.has_expired {
            slot.batch = Some(batch);
        }
    }
}

async fn expire(slot: Arc<Mutex<Slot>>) {
    sleep(LARGE_BATCH_HOLD).await;
    let mut slot = slot.lock();
    slot.has_expired = true;
    slot.batch = None;
}
