//! Reading: whole batches by offset, single records by timestamp.

use bytes::Bytes;
use millrace_model::{Cause, Classified, FailureClass, Offset};
use millrace_record::{header_of, records};
use millrace_stream::{Entry, FetchError};

use super::{PartitionLog, aborted::Reach};
use crate::{
    error::{LookupError, ReadError},
    transactions::{Aborted, AbortedTransaction},
};

/// Bytes per step of a walk over batch headers.
const WALK_BYTES: usize = 1024 * 1024;

/// Which records a read may give.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// Those below the high watermark.
    #[default]
    ReadUncommitted,
    /// Those below the last stable offset; which of them were aborted is told.
    ReadCommitted,
}

/// What a read found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadResult {
    /// Whole batches in offset order. The first one contains the asked offset (it may begin before it), or is the next one where
    /// log compaction has dropped that. Empty at the high watermark, or at the last stable offset.
    pub batches: Vec<Bytes>,
    /// The aborted transactions among the batches, where committed records were asked for.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// The high watermark at the time of the read.
    pub high_watermark: Offset,
    /// The last stable offset at the time of the read.
    pub last_stable_offset: Offset,
    /// The log start offset at the time of the read.
    pub log_start: Offset,
}

/// A record's place in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampOffset {
    /// The record's offset.
    pub offset: Offset,
    /// Its timestamp, milliseconds.
    pub timestamp: i64,
}

impl PartitionLog {
    /// Reads whole batches from the one that contains `offset`, as many as fit into `max_bytes`;
    /// with `at_least_one` the first comes even if it does not fit. Empty where `offset` is at or
    /// above the high watermark, but not above the log's end.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read(
        &self,
        offset: Offset,
        max_bytes: usize,
        at_least_one: bool,
    ) -> Result<ReadResult, ReadError> {
        let isolation = Isolation::ReadUncommitted;
        self.read_isolated(isolation, offset, max_bytes, at_least_one)
            .await
    }

    /// The same of the records that `isolation` allows.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_isolated(
        &self,
        isolation: Isolation,
        offset: Offset,
        max_bytes: usize,
        at_least_one: bool,
    ) -> Result<ReadResult, ReadError> {
        let bounds = self.bounds_for(isolation, offset)?;
        let sizes = (max_bytes, at_least_one);
        if bounds.is_empty_for(offset, sizes) {
            return Ok(bounds.with(offset, Vec::new(), sizes).read);
        }
        let found = self.data.fetch(offset, bounds.upper(), max_bytes).await;
        let found = found.map_err(|error| self.read_error(offset, error))?;
        let found = bounds.with(offset, found, sizes);
        let aborted = match found.overlapped {
            Some(range) => self.aborted_between(range).await?,
            None => Vec::new(),
        };
        self.told(found, aborted)
    }

    /// The same from memory alone; `None` where objects would have to be read.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn try_read_cached(
        &self,
        isolation: Isolation,
        offset: Offset,
        max_bytes: usize,
        at_least_one: bool,
    ) -> Result<Option<ReadResult>, ReadError> {
        let bounds = self.bounds_for(isolation, offset)?;
        let sizes = (max_bytes, at_least_one);
        if bounds.is_empty_for(offset, sizes) {
            return Ok(Some(bounds.with(offset, Vec::new(), sizes).read));
        }
        let found = self.data.fetch_cached(offset, bounds.upper(), max_bytes);
        let Some(found) = found.map(|found| bounds.with(offset, found, sizes)) else {
            return Ok(None);
        };
        let aborted = match found.overlapped {
            Some(range) => self.aborted_in_memory(range),
            None => Some(Vec::new()),
        };
        let told = aborted.map(|aborted| self.told(found, aborted));
        told.transpose()
    }

    /// Whether a batch at `offset` would be read without objects, now.
    #[must_use]
    pub fn is_local(&self, offset: Offset) -> bool {
        self.data.is_local(offset)
    }

    /// The same as [`PartitionLog::read_isolated`] from what the broker itself has, in memory or in its
    /// write-ahead log; `None` where objects would have to be read.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_local(
        &self,
        isolation: Isolation,
        offset: Offset,
        max_bytes: usize,
        at_least_one: bool,
    ) -> Result<Option<ReadResult>, ReadError> {
        let bounds = self.bounds_for(isolation, offset)?;
        let sizes = (max_bytes, at_least_one);
        if bounds.is_empty_for(offset, sizes) {
            return Ok(Some(bounds.with(offset, Vec::new(), sizes).read));
        }
        let upper = bounds.upper();
        let found = self.data.fetch_local(offset, upper, max_bytes).await;
        let found = found.map_err(|error| self.read_error(offset, error))?;
        let Some(found) = found.map(|found| bounds.with(offset, found, sizes)) else {
            return Ok(None);
        };
        let aborted = match found.overlapped {
            Some(range) => self.aborted_within(Reach::Local, range).await?,
            None => Some(Vec::new()),
        };
        let told = aborted.map(|aborted| self.told(found, aborted));
        told.transpose()
    }

    /// What was found, with the aborted transactions that overlap it.
    fn told(&self, found: Found, aborted: Vec<Aborted>) -> Result<ReadResult, ReadError> {
        let Found {
            mut read,
            overlapped,
        } = found;
        if let Some((from, _)) = overlapped {
            // Deleted since they were read: the transactions may be forgotten, and the records would pass for committed.
            self.check_not_below_start(from)?;
            read.aborted_transactions = Some(aborted.into_iter().map(Into::into).collect());
        }
        Ok(read)
    }

    fn check_not_below_start(&self, offset: Offset) -> Result<(), ReadError> {
        let log_start = self.start_offset();
        if offset < log_start {
            return Err(ReadError::OutOfRange {
                offset,
                log_start,
                log_end: self.end_offset(),
            });
        }
        Ok(())
    }

    /// The first durable record whose timestamp is at least `timestamp`.
    ///
    /// # Errors
    /// See [`LookupError`].
    pub async fn offset_for_timestamp(
        &self,
        timestamp: i64,
    ) -> Result<Option<TimestampOffset>, LookupError> {
        let Some(from) = self.state.lock().time_index.seek(timestamp) else {
            return Ok(None);
        };
        let from = from.max(self.start_offset());
        let found = self.walk(from, |batch| {
            first_reaching(batch, timestamp, self.start_offset())
        });
        Ok(found.await?)
    }

    /// The durable record with the largest timestamp; of several, the first.
    ///
    /// # Errors
    /// See [`LookupError`].
    pub async fn max_timestamp(&self) -> Result<Option<TimestampOffset>, LookupError> {
        let Some(latest) = self.state.lock().time_index.latest() else {
            return Ok(None);
        };
        if latest.batch >= self.start_offset() && latest.batch < self.high_watermark() {
            let exact =
                |batch: &Entry| first_reaching(batch, latest.timestamp, self.start_offset());
            if let Some(found) = self.walk(latest.batch, exact).await? {
                return Ok(Some(found));
            }
        }
        // The record that had it is trimmed, compacted away or not durable: look at what is left. Rare.
        let mut best: Option<TimestampOffset> = None;
        let look = |batch: &Entry| {
            let above = best.map_or(i64::MIN, |best| best.timestamp.saturating_add(1));
            best = best_of(batch, above, self.start_offset()).or(best);
            None
        };
        self.walk(self.start_offset(), look).await?;
        Ok(best)
    }

    /// Walks over the durable batches from `from` until `visit` has found something.
    async fn walk(
        &self,
        mut from: Offset,
        mut visit: impl FnMut(&Entry) -> Option<TimestampOffset>,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let end = self.high_watermark();
        while from < end {
            self.check_open()?;
            let found = match self.data.fetch(from, end, WALK_BYTES).await {
                Ok(found) => found,
                // Trimmed while we walked: what is below does not count any more.
                Err(FetchError::BelowStart { start, .. }) => {
                    from = start;
                    continue;
                }
                Err(error) => return Err(self.read_error(from, error)),
            };
            if found.is_empty() {
                // Log compaction has left nothing of the rest.
                return Ok(None);
            }
            for batch in &found {
                if let Some(found) = visit(batch) {
                    return Ok(Some(found));
                }
                from = batch.end_offset();
            }
        }
        Ok(None)
    }

    fn check_open(&self) -> Result<(), ReadError> {
        if let Some(cause) = self.offline() {
            return Err(ReadError::Offline(cause));
        }
        if self.is_closed() {
            return Err(ReadError::Closed);
        }
        Ok(())
    }

    fn bounds_for(&self, isolation: Isolation, offset: Offset) -> Result<Bounds, ReadError> {
        self.check_open()?;
        // In this order, so that it is not above the high watermark.
        let last_stable_offset = self.last_stable_offset();
        let (log_start, high_watermark) = (self.start_offset(), self.high_watermark());
        if offset < log_start || (offset > high_watermark && offset > self.end_offset()) {
            let log_end = self.end_offset();
            return Err(ReadError::OutOfRange {
                offset,
                log_start,
                log_end,
            });
        }
        Ok(Bounds {
            isolation,
            high_watermark,
            last_stable_offset,
            log_start,
        })
    }

    pub(super) fn read_error(&self, from: Offset, error: FetchError) -> ReadError {
        if self.is_closed() {
            return ReadError::Closed;
        }
        match error {
            FetchError::BelowStart { offset, start } => ReadError::OutOfRange {
                offset,
                log_start: start,
                log_end: self.end_offset(),
            },
            FetchError::Storage(cause) if cause.class() == FailureClass::Corrupt => {
                let offset = from;
                ReadError::Corrupt { offset, cause }
            }
            FetchError::Storage(cause) => ReadError::Storage(cause),
            error @ FetchError::Missing { .. } => ReadError::Storage(Cause::new(error)),
        }
    }
}

/// Between what a read may move.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    isolation: Isolation,
    high_watermark: Offset,
    last_stable_offset: Offset,
    log_start: Offset,
}

impl Bounds {
    /// Where the batches end that may be read: they begin below.
    fn upper(&self) -> Offset {
        match self.isolation {
            Isolation::ReadUncommitted => self.high_watermark,
            Isolation::ReadCommitted => self.last_stable_offset,
        }
    }

    fn is_empty_for(&self, offset: Offset, (max_bytes, at_least_one): (usize, bool)) -> bool {
        offset >= self.upper() || (max_bytes == 0 && !at_least_one)
    }

    fn with(
        self,
        offset: Offset,
        found: Vec<Entry>,
        (max_bytes, at_least_one): (usize, bool),
    ) -> Found {
        let end = found.last().map_or(offset, Entry::end_offset);
        let mut batches: Vec<Bytes> = found.into_iter().map(|entry| entry.payload).collect();
        let too_large = batches.first().is_some_and(|first| first.len() > max_bytes);
        if too_large && !at_least_one {
            batches.clear();
        }
        let is_committed = self.isolation == Isolation::ReadCommitted;
        let overlapped = (is_committed && !batches.is_empty()).then_some((offset, end));
        let read = ReadResult {
            batches,
            aborted_transactions: is_committed.then(Vec::new),
            high_watermark: self.high_watermark,
            last_stable_offset: self.last_stable_offset,
            log_start: self.log_start,
        };
        Found { read, overlapped }
    }
}

/// Batches that were read.
struct Found {
    read: ReadResult,
    /// The offsets whose aborted transactions are to be told, where these are asked for.
    overlapped: Option<(Offset, Offset)>,
}

/// The first record of `batch` at or above `start` whose timestamp is at least `timestamp`.
///
/// The records of a batch were not all looked at when it was appended. Where they turn out to be
/// unreadable the batch itself is the answer: a consumer that begins there misses nothing.
fn first_reaching(batch: &Entry, timestamp: i64, start: Offset) -> Option<TimestampOffset> {
    let header = header_of(&batch.payload).ok()?;
    if header.max_timestamp < timestamp {
        return None;
    }
    let whole = TimestampOffset {
        offset: batch.base_offset.max(start),
        timestamp: header.max_timestamp,
    };
    let Ok(records) = records(&batch.payload) else {
        return Some(whole);
    };
    for record in records {
        let Ok(record) = record else {
            return Some(whole);
        };
        let offset = u64::try_from(record.offset).unwrap_or(0);
        if record.timestamp >= timestamp && offset >= start {
            return Some(TimestampOffset {
                offset,
                timestamp: record.timestamp,
            });
        }
    }
    None
}

/// The record of `batch` with the largest timestamp, if that is at least `above`.
fn best_of(batch: &Entry, above: i64, start: Offset) -> Option<TimestampOffset> {
    let mut best = first_reaching(batch, above, start)?;
    while let Some(better) = best
        .timestamp
        .checked_add(1)
        .and_then(|above| first_reaching(batch, above, start))
        .filter(|better| better.timestamp > best.timestamp)
    {
        best = better;
    }
    Some(best)
}
