//! Ends of transactions that tests hold back.

use std::sync::Arc;

use millrace_api::Markers;
use millrace_coordinator::{BoxFuture, MarkerOutcome, MarkerWriter};
use millrace_log::TransactionMarker;
use millrace_model::TopicPartition;
use tokio::sync::Mutex;

/// Closed while it is locked.
pub(crate) type MarkerGate = Arc<Mutex<()>>;

/// Writes markers while the gate is open.
#[derive(Debug)]
pub(crate) struct HeldMarkers {
    pub(crate) inner: Markers,
    pub(crate) gate: MarkerGate,
}

impl MarkerWriter for HeldMarkers {
    fn write(
        &self,
        marker: TransactionMarker,
        partitions: Vec<TopicPartition>,
    ) -> BoxFuture<'_, Vec<(TopicPartition, MarkerOutcome)>> {
        Box::pin(async move {
            drop(self.gate.lock().await);
            self.inner.write(marker, partitions).await
        })
    }
}
