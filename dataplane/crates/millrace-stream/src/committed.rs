//! A stream as far as it is in objects, whoever owns it.

use std::{fmt, sync::Arc};

use millrace_model::{Offset, StreamId};

use crate::{entry::Entry, error::FetchError, store::StoreInner};

/// Reads the committed entries of a stream that need not be open here. Cheap to clone.
#[derive(Clone)]
pub struct CommittedStream {
    id: StreamId,
    store: Arc<StoreInner>,
}

impl CommittedStream {
    pub(crate) fn new(id: StreamId, store: Arc<StoreInner>) -> Self {
        Self { id, store }
    }

    /// The stream's id.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Reads the entries from the one that contains `start`, or follows it, up to those that begin below `end`, as many as fit into
    /// `max_bytes`, but at least one. Empty where no object has `start`, or log compaction has left nothing of the range. Everything below `end` must be committed.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn fetch(
        &self,
        start: Offset,
        end: Offset,
        max_bytes: usize,
    ) -> Result<Vec<Entry>, FetchError> {
        let store = &self.store;
        let found = store.fetch_objects(self.id, start, end, max_bytes).await?;
        Ok(found.unwrap_or_default())
    }
}

impl fmt::Debug for CommittedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CommittedStream").field(&self.id).finish()
    }
}
