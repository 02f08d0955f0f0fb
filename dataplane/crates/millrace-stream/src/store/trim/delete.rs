//! Deletes objects that nothing refers to any more.
//!
//! In two phases. The metadata *retires* an object when its last range is trimmed, its topic deleted, or
//! its contents compacted into another, and gives it out here once it has been retired for longer than
//! any read takes (`s3.object.delete.retention.ms`). Then it is deleted from the bucket, and only then
//! forgotten, so a crash in between deletes it once more.
//!
//! Why nothing that is needed can be deleted, by any start of the node and however late:
//! - an object that is retired never becomes readable again, and its id is never used again, so the key
//!   that is deleted belongs to no other object, ever;
//! - a list of retired objects is given out only to the present start of the node. A start that was
//!   replaced just after may still delete what it was given, and all of that is retired.
//!
//! A store that never deletes some objects must not keep the others: a batch that fails is
//! halved, and its halves again, until what can be deleted is; an object that fails alone is left out of
//! the batches until the others are done. So every batch deletes something or learns something, however
//! many such objects come first.

use std::{collections::HashSet, sync::Arc, time::Duration};

use millrace_meta::SweepError;
use millrace_model::ObjectId;
use millrace_objects::ObjectKey;

use crate::store::StoreInner;

/// Objects deleted in one request: S3's bound.
const SWEEP_OBJECTS_MAX: usize = 1_000;

/// The pause between two batches: commits of uploads come in between.
const BATCH_PAUSE: Duration = Duration::from_millis(20);

/// Requests that the parts of a failed batch get: enough to come down to single objects several times,
/// few enough that it does not take long where the bucket is down.
const PARTS_MAX: usize = 64;

/// Objects that could not be deleted and are left out; with more, all of them are tried again.
const STUCK_MAX: usize = 10_000;

/// Sweeps after which those that were left out are tried again, if all others are done by then.
const SWEEPS_UNTIL_RETRY: u32 = 30;

/// Sweeps until the store stops; a failed deletion is retried by a later sweep.
pub(in crate::store) async fn run(store: Arc<StoreInner>) {
    let mut stuck = Stuck::default();
    loop {
        tokio::time::sleep(store.config.reclaim_interval).await;
        match sweep(&store, &mut stuck.objects).await {
            Ok(is_done) => stuck.swept(is_done),
            Err(SweepError::Fenced(fenced)) => {
                store.failure.declare(fenced);
                return;
            }
            Err(error) => tracing::warn!(%error, "could not list unused objects; trying later"),
        }
        store.metrics.deletions.stuck(stuck.objects.len());
    }
}

/// Objects that could not be deleted.
#[derive(Default)]
struct Stuck {
    objects: HashSet<ObjectId>,
    /// Sweeps since they were tried last.
    sweeps: u32,
}

impl Stuck {
    /// Notes a sweep; `is_done`: all others are deleted.
    fn swept(&mut self, is_done: bool) {
        self.sweeps += 1;
        // Before the others are done, forgetting these would only mean to learn of them again.
        let is_time = is_done && self.sweeps >= SWEEPS_UNTIL_RETRY;
        if is_time || self.objects.len() >= STUCK_MAX {
            self.objects.clear();
            self.sweeps = 0;
        }
    }
}

/// Deletes what can be; `true`: everything that is not stuck.
async fn sweep(store: &StoreInner, stuck: &mut HashSet<ObjectId>) -> Result<bool, SweepError> {
    while stuck.len() < STUCK_MAX {
        let limit = SWEEP_OBJECTS_MAX + stuck.len();
        let mut retired = store.meta.retired_objects(store.node_epoch, limit).await?;
        let share = store.share.get();
        retired.retain(|object| share.has(object.get()) && !stuck.contains(object));
        retired.truncate(SWEEP_OBJECTS_MAX);
        if retired.is_empty() {
            return Ok(true);
        }
        // Metadata that is restored from its backup must not refer to what is gone.
        store.meta.backed_up().await;
        let deleted = delete(store, &retired, stuck).await;
        if deleted.is_empty() {
            // Not even one: most likely the bucket is down, and asking on would not help it.
            return Ok(false);
        }
        store.meta.mark_deleted(store.node_epoch, &deleted).await?;
        store.metrics.deletions.done(deleted.len());
        tokio::time::sleep(BATCH_PAUSE).await;
    }
    Ok(false)
}

/// Deletes a batch, or what of it can be; gives what is deleted.
async fn delete(
    store: &StoreInner,
    retired: &[ObjectId],
    stuck: &mut HashSet<ObjectId>,
) -> Vec<ObjectId> {
    let mut deleted = Vec::new();
    let mut parts = vec![retired];
    for _ in 0..=PARTS_MAX {
        let Some(part) = parts.pop() else { break };
        let key = |&id: &ObjectId| ObjectKey::of(&store.cluster_id, id);
        let keys: Vec<ObjectKey> = part.iter().map(key).collect();
        let Err(error) = store.background.delete(&keys).await else {
            deleted.extend(part);
            continue;
        };
        if part.len() == retired.len() {
            let (error, objects) = (&error as &dyn std::error::Error, part.len());
            tracing::warn!(
                error,
                objects,
                "could not delete unused objects; trying fewer at once"
            );
            store.metrics.deletions.failed();
        }
        if let &[id] = part {
            stuck.insert(id);
        } else {
            // The older half comes first, so that every batch gets down to single objects.
            let (older, younger) = part.split_at(part.len() / 2);
            parts.extend([younger, older]);
        }
    }
    deleted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stuck_is_tried_again_when_the_others_are_done() {
        let mut stuck = Stuck::default();
        stuck.objects.insert(ObjectId(1));
        for _ in 0..SWEEPS_UNTIL_RETRY * 2 {
            stuck.swept(false);
            assert_eq!(stuck.objects.len(), 1);
        }
        stuck.swept(true);
        assert!(stuck.objects.is_empty());
        stuck.objects.insert(ObjectId(1));
        stuck.swept(true);
        assert_eq!(stuck.objects.len(), 1, "not at once");
        stuck.objects.extend((0..STUCK_MAX as u64).map(ObjectId));
        stuck.swept(false);
        assert!(stuck.objects.is_empty(), "too many to leave out");
    }
}
