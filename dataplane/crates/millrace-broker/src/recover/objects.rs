//! The bucket's objects beside those that restored metadata knows.

use std::{collections::HashSet, path::Path};

use millrace_meta::{ObjectRecords, ObjectState, read_object_records};
use millrace_model::ObjectId;
use millrace_objects::{ObjectKey, ObjectStorage};

use super::RecoverError;

/// Objects that one listing answers at most.
const PAGE: usize = 1_000;

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
        let mut found = HashSet::new();
        let mut after: Option<ObjectKey> = None;
        loop {
            let page = bucket.list("", after.as_ref(), PAGE).await?;
            found.extend(page.iter().filter_map(|listed| {
                let id = listed.key.object_id()?;
                (ObjectKey::of(&cluster_id, id) == listed.key).then_some(id)
            }));
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(last.key.clone()),
                _ => break,
            }
        }
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
