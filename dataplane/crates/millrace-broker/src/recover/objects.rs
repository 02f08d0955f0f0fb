//! The bucket's objects beside those that restored metadata knows.

use std::{collections::HashSet, path::Path};

use millrace_meta::sqlite::{ObjectRecords, ObjectState, read_object_records};
use millrace_model::ObjectId;
use millrace_objects::ObjectStorage;

use super::RecoverError;

/// What differs.
#[derive(Debug, Default)]
pub(super) struct BucketObjects {
    /// Committed, and not in the bucket.
    pub(super) absent: Vec<ObjectId>,
    /// In the bucket, and not in the metadata: uploads and compactions that were under way, or are newer
    /// than the metadata.
    pub(super) unknown: Vec<ObjectId>,
    /// Above every id in the bucket.
    pub(super) next: u64,
}

impl BucketObjects {
    /// Compares the bucket with the database at `path`.
    pub(super) async fn list(bucket: &ObjectStorage, path: &Path) -> Result<Self, RecoverError> {
        let ObjectRecords {
            cluster_id,
            objects,
            ..
        } = read_object_records(path).await?;
        let cluster_id = cluster_id.unwrap_or_default();
        let found = bucket.list_cluster(&cluster_id).await?;
        let found: HashSet<ObjectId> = found
            .iter()
            .filter_map(|listed| listed.key.object_id())
            .collect();
        let known: HashSet<ObjectId> = objects.iter().map(|record| record.object).collect();
        let committed = objects
            .iter()
            .filter(|record| record.state == ObjectState::Committed);
        let mut unknown: Vec<ObjectId> = found.difference(&known).copied().collect();
        unknown.sort_unstable();
        Ok(Self {
            absent: committed
                .map(|record| record.object)
                .filter(|id| !found.contains(id))
                .collect(),
            next: found.iter().map(|id| id.get() + 1).max().unwrap_or(0),
            unknown,
        })
    }
}
