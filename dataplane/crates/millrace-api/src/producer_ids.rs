//! Allocates producer ids from blocks that the metadata store has reserved.

use std::{ops::Range, sync::Arc};

use millrace_coordinator::{BoxFuture, ProducerIdSource};
use millrace_meta::{MetaStore, StoreFailure};
use millrace_model::Cause;

/// Ids per block: Kafka's number. A restart skips what is left of one.
const BLOCK: u32 = 1_000;

/// Gives out producer ids.
#[derive(Debug)]
pub struct ProducerIds {
    meta: Arc<dyn MetaStore>,
    left: tokio::sync::Mutex<Range<i64>>,
}

impl ProducerIds {
    /// Ids from this store.
    #[must_use]
    pub fn new(meta: Arc<dyn MetaStore>) -> Self {
        Self {
            meta,
            left: tokio::sync::Mutex::new(0..0),
        }
    }

    /// An id that was never given out before.
    pub(crate) async fn next(&self) -> Result<i64, StoreFailure> {
        let mut left = self.left.lock().await;
        loop {
            if let Some(id) = left.next() {
                return Ok(id);
            }
            *left = self.meta.allocate_producer_ids(BLOCK).await?;
        }
    }
}

impl ProducerIdSource for ProducerIds {
    fn next_id(&self) -> BoxFuture<'_, Result<i64, Cause>> {
        Box::pin(async { self.next().await.map_err(Cause::new) })
    }
}
