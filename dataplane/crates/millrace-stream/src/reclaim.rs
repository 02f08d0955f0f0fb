//! Deletes objects that nothing refers to any more.
//!
//! In two phases. The metadata *dooms* an object when its last range is trimmed, its topic deleted, or
//! its contents compacted into another, and gives it out here once it has been doomed for longer than
//! any read takes (`s3.object.delete.retention.ms`). Then it is deleted from the bucket, and only then
//! forgotten, so a crash in between deletes it once more.
//!
//! Why nothing that is needed can be deleted, whoever deletes and however late:
//! - an object that is doomed never becomes readable again, and its id is never used again, so the key
//!   that is deleted belongs to no other object, ever;
//! - a list of doomed objects is given out only to the present start of the node. A start that was
//!   replaced just after may still delete what it was given, and that is doomed all the same.
//!
//! A store that refuses to delete one object for ever must not keep the others: where a batch fails,
//! its objects are tried one by one, and those that fail again are left out of the batches for a while.

use std::{collections::HashSet, sync::Arc, time::Duration};

use millrace_meta::SweepError;
use millrace_model::ObjectId;
use millrace_objects::ObjectKey;

use crate::store::StoreInner;

/// Objects deleted in one request: S3's bound.
const SWEEP_OBJECTS_MAX: usize = 1_000;

/// The pause between two batches: commits of uploads come in between.
const BATCH_PAUSE: Duration = Duration::from_millis(20);

/// Objects of a failed batch that are tried one by one; more would take too long.
const SINGLE_TRIES_MAX: usize = 16;

/// Objects that could not be deleted and are left out; with more, something is wrong with the bucket as
/// a whole, and the sweep waits.
const STUCK_MAX: usize = 10_000;

/// Sweeps after which those that were left out are tried again.
const SWEEPS_UNTIL_RETRY: u32 = 30;

/// Sweeps for ever; what fails is tried again at a later sweep.
pub(crate) async fn run(store: Arc<StoreInner>) {
    let mut stuck = HashSet::new();
    for sweeps in 1_u32.. {
        tokio::time::sleep(store.config.reclaim_interval).await;
        if sweeps.is_multiple_of(SWEEPS_UNTIL_RETRY) {
            stuck.clear();
        }
        if let Err(error) = sweep(&store, &mut stuck).await {
            if let SweepError::Fenced(fenced) = &error {
                store.failure.declare(&fenced.to_string());
                return;
            }
            tracing::warn!(%error, "could not list unused objects; trying later");
        }
        store.measures.deletions.stuck(stuck.len());
    }
}

async fn sweep(store: &StoreInner, stuck: &mut HashSet<ObjectId>) -> Result<(), SweepError> {
    while stuck.len() < STUCK_MAX {
        let limit = SWEEP_OBJECTS_MAX + stuck.len();
        let mut doomed = store.meta.doomed_objects(store.node_epoch, limit).await?;
        doomed.retain(|object| !stuck.contains(object));
        doomed.truncate(SWEEP_OBJECTS_MAX);
        if doomed.is_empty() {
            return Ok(());
        }
        let deleted = delete(store, doomed, stuck).await;
        if deleted.is_empty() {
            // Not even one: the bucket is down, and asking on would not help it.
            return Ok(());
        }
        store.meta.mark_deleted(store.node_epoch, &deleted).await?;
        store.measures.deletions.done(deleted.len());
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    Ok(())
}

/// Deletes a batch, or what of it can be; gives what is deleted.
async fn delete(
    store: &StoreInner,
    doomed: Vec<ObjectId>,
    stuck: &mut HashSet<ObjectId>,
) -> Vec<ObjectId> {
    let key = |&id: &ObjectId| ObjectKey::of(&store.cluster_id, id);
    let keys: Vec<ObjectKey> = doomed.iter().map(key).collect();
    let Err(error) = store.background.delete(&keys).await else {
        return doomed;
    };
    store.measures.deletions.failed();
    tracing::warn!(
        error = &error as &dyn std::error::Error,
        objects = doomed.len(),
        "could not delete unused objects; trying some of them one by one"
    );
    let mut deleted = Vec::new();
    for id in doomed.into_iter().take(SINGLE_TRIES_MAX) {
        if store.background.delete(&[key(&id)]).await.is_ok() {
            deleted.push(id);
        } else {
            stuck.insert(id);
            if deleted.is_empty() {
                // The first one as well: most likely it is the bucket and not the object.
                break;
            }
        }
    }
    deleted
}
