//! Deletes objects that nothing refers to any more.
//!
//! The metadata dooms an object when its last range is trimmed or its topic deleted, and gives it
//! out here once it has been doomed for longer than any read takes.

use std::sync::Arc;

use millrace_meta::SweepError;
use millrace_objects::ObjectKey;

use crate::store::StoreInner;

/// Objects deleted in one request: S3's bound.
const SWEEP_OBJECTS_MAX: usize = 1_000;

/// Sweeps for ever; what fails is tried again at the next sweep.
pub(crate) async fn run(store: Arc<StoreInner>) {
    loop {
        tokio::time::sleep(store.config.reclaim_interval).await;
        match sweep(&store).await {
            Ok(()) => {}
            Err(Failed::Meta(SweepError::Fenced(fenced))) => {
                store.failure.declare(&fenced.to_string());
                return;
            }
            Err(error) => tracing::warn!(%error, "could not delete unused objects; trying later"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Meta(#[from] SweepError),
    #[error(transparent)]
    Delete(#[from] millrace_objects::DeleteError),
}

async fn sweep(store: &StoreInner) -> Result<(), Failed> {
    loop {
        let doomed = store
            .meta
            .doomed_objects(store.node_epoch, SWEEP_OBJECTS_MAX)
            .await?;
        if doomed.is_empty() {
            return Ok(());
        }
        let keys: Vec<ObjectKey> = doomed
            .iter()
            .map(|&id| ObjectKey::of(&store.cluster_id, id))
            .collect();
        store.storage.delete(&keys).await?;
        store.meta.mark_deleted(store.node_epoch, &doomed).await?;
        store
            .measures
            .reclaimed_objects
            .increment(doomed.len() as u64);
    }
}
