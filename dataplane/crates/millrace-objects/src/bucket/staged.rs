//! Parts in memory, until they become an object.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;

use super::{Body, BucketError, PartSlot, PartTag, UploadId};

/// The uploads that are under way in a bucket in memory.
#[derive(Debug, Default)]
pub(super) struct Staged {
    uploads: Mutex<Uploads>,
}

#[derive(Debug, Default)]
struct Uploads {
    started: u64,
    parts: HashMap<UploadId, BTreeMap<usize, Body>>,
}

impl Staged {
    pub(super) fn begin(&self) -> UploadId {
        let mut uploads = self.uploads.lock();
        uploads.started += 1;
        let upload = UploadId::new(uploads.started.to_string());
        uploads.parts.insert(upload.clone(), BTreeMap::new());
        upload
    }

    pub(super) fn put(
        &self,
        upload: &UploadId,
        slot: PartSlot,
        body: &Body,
    ) -> Result<PartTag, BucketError> {
        let mut uploads = self.uploads.lock();
        let parts = uploads.parts.get_mut(upload).ok_or(BucketError::NotFound)?;
        parts.insert(slot.number, body.clone());
        Ok(PartTag::new(slot.number.to_string()))
    }

    /// What the parts with these receipts, in this order, come to.
    pub(super) fn joined(&self, upload: &UploadId, tags: &[PartTag]) -> Result<Body, BucketError> {
        let uploads = self.uploads.lock();
        let parts = uploads.parts.get(upload).ok_or(BucketError::NotFound)?;
        let mut chunks = Vec::new();
        for tag in tags {
            let number = tag.as_str().parse::<usize>().ok();
            let part = number.and_then(|number| parts.get(&number));
            let part = part.ok_or_else(|| BucketError::Failed("a part is missing".into()))?;
            chunks.extend_from_slice(part.chunks());
        }
        Ok(chunks.into())
    }

    pub(super) fn abort(&self, upload: &UploadId) {
        self.uploads.lock().parts.remove(upload);
    }
}
