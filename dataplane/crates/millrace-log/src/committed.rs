//! A partition that another broker leads, as far as it is in objects: any broker can read that.
//!
//! The readable range is read from the metadata and kept for [`RANGE_AGE_MAX`]. Its end never moves back, so records below a kept
//! end are what the leader would answer with. Its start lags behind a deletion of records by as long as the range is kept, plus
//! the time for which a read is prepared, as a follower's does. For an offset at or above the kept end, the metadata is asked again
//! once the range is [`RANGE_AGE_MIN`] old.

use std::{fmt, sync::Arc, time::Duration};

use millrace_meta::ClusterStore;
use millrace_model::{Cause, FailureClass, Offset, StreamId, StreamRange, TopicPartition};
use millrace_stream::{CommittedStream, FetchError};
use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::{error::ReadCommittedError, partition::ReadResult};

/// How long the readable range is kept for offsets within it.
const RANGE_AGE_MAX: Duration = Duration::from_secs(1);
/// The same for all others: a partition costs one query in this time at most.
const RANGE_AGE_MIN: Duration = Duration::from_millis(100);

/// How long the metadata is waited for. A failure is kept for [`RANGE_AGE_MIN`], so that those who wait fail together.
const ASK_WAIT: Duration = Duration::from_secs(1);

/// A read is tried once more where its objects have been replaced or deleted meanwhile.
const TRIES_MAX: usize = 2;

/// The records of a partition that are in objects.
pub struct CommittedLog {
    id: TopicPartition,
    data: CommittedStream,
    cluster: Arc<dyn ClusterStore>,
    clock: SharedClock,
    known: Mutex<Option<Known>>,
    /// The last failed lookup of the range, and when it failed.
    failed: Mutex<Option<(ReadCommittedError, Duration)>>,
    /// Held while the metadata is asked: whoever comes meanwhile takes the same answer.
    asking: tokio::sync::Mutex<()>,
}

/// What is readable, and when that was asked.
#[derive(Debug, Clone, Copy)]
struct Known {
    range: StreamRange,
    at: Duration,
}

impl CommittedLog {
    pub(crate) fn new(
        (id, data): (TopicPartition, CommittedStream),
        cluster: Arc<dyn ClusterStore>,
        clock: SharedClock,
    ) -> Self {
        Self {
            id,
            data,
            cluster,
            clock,
            known: Mutex::default(),
            failed: Mutex::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Which partition this is.
    #[must_use]
    pub fn id(&self) -> &TopicPartition {
        &self.id
    }

    /// The stream of its records.
    pub(crate) fn data(&self) -> StreamId {
        self.data.id()
    }

    /// Reads whole batches from the one that contains `offset`, as many as fit into `max_bytes`, but at least one. The high
    /// watermark that it gives is where the partition is committed, not that of its leader.
    ///
    /// # Errors
    /// See [`ReadCommittedError`]. None of them says that the leader does not have the offset.
    pub async fn read(
        &self,
        offset: Offset,
        max_bytes: usize,
    ) -> Result<ReadResult, ReadCommittedError> {
        for _ in 0..TRIES_MAX {
            let range = self.range_for(offset).await?;
            let (start, end) = (range.start, range.end);
            if offset < start || offset >= end {
                return Err(ReadCommittedError::NotCommitted { offset, start, end });
            }
            let found = self.data.fetch(offset, end, max_bytes);
            match found.await {
                Ok(found) if found.is_empty() => *self.known.lock() = None,
                Ok(found) => {
                    let batches = found.into_iter().map(|entry| entry.payload);
                    return Ok(result(range, batches.collect()));
                }
                Err(error) => return Err(of_fetch(error)),
            }
        }
        Err(ReadCommittedError::Storage(Cause::of(
            FailureClass::Gone,
            "its objects are not where the metadata says",
        )))
    }

    /// Looks up the readable range, so that a [`read`](Self::read) soon after does not wait for the metadata.
    pub async fn prepare(&self, offset: Offset) {
        // The read returns the error.
        let _ = self.range_for(offset).await;
    }

    /// The readable range: one that was asked lately, if it has `offset`.
    async fn range_for(&self, offset: Offset) -> Result<StreamRange, ReadCommittedError> {
        let known = || {
            let age = |at: Duration| self.clock.now().saturating_sub(at);
            let is_good = |known: &Known| {
                let age = age(known.at);
                age < RANGE_AGE_MIN || age < RANGE_AGE_MAX && offset < known.range.end
            };
            if let Some(known) = self.known.lock().filter(is_good) {
                return Some(Ok(known.range));
            }
            let failed = self.failed.lock().clone();
            let (error, _) = failed.filter(|&(_, at)| age(at) < RANGE_AGE_MIN)?;
            Some(Err(error))
        };
        if let Some(known) = known() {
            return known;
        }
        let _asking = self.asking.lock().await;
        if let Some(known) = known() {
            return known;
        }
        let at = self.clock.now();
        let found = self.ask().await;
        match &found {
            Ok(range) => *self.known.lock() = Some(Known { range: *range, at }),
            Err(error) => *self.failed.lock() = Some((error.clone(), self.clock.now())),
        }
        found
    }

    async fn ask(&self) -> Result<StreamRange, ReadCommittedError> {
        let asking = self.cluster.committed_range(self.data.id());
        let silent = || {
            Cause::of(
                FailureClass::Transient,
                "the metadata database does not answer",
            )
        };
        let answered = timeout(ASK_WAIT, asking).await;
        let range = answered.map_err(|_| ReadCommittedError::Storage(silent()))?;
        let range = range.map_err(|error| ReadCommittedError::Storage(Cause::new(error)))?;
        range.ok_or(ReadCommittedError::Deleted)
    }
}

fn result(range: StreamRange, batches: Vec<bytes::Bytes>) -> ReadResult {
    ReadResult {
        batches,
        aborted_transactions: None,
        high_watermark: range.end.max(range.start),
        // Only the leader knows which transactions are open.
        last_stable_offset: range.end.max(range.start),
        log_start: range.start,
    }
}

fn of_fetch(error: FetchError) -> ReadCommittedError {
    match error {
        FetchError::Storage(cause) => ReadCommittedError::Storage(cause),
        error @ (FetchError::BelowStart { .. } | FetchError::Missing { .. }) => {
            ReadCommittedError::Storage(Cause::new(error))
        }
    }
}

impl fmt::Debug for CommittedLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommittedLog")
            .field("id", &self.id)
            .field("data", &self.data)
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}
