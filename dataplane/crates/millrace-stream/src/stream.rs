//! The handle of one open stream.

use std::sync::Arc;

use bytes::Bytes;
use millrace_blockcache::ReadError;
use millrace_model::{Cause, Offset, StreamEpoch, StreamId, limits::FETCH_ENTRIES_MAX};
use millrace_objects::StreamEntry;

use crate::{
    acks::{AppendTicket, InFlight},
    cache::{CachedEntry, is_kept},
    entry::{Entry, PayloadFacts},
    error::{AppendError, FetchError, TrimError},
    state::{ConfirmListener, StreamState},
    store::{Permit, Placement, ReadBackError, Rewriter, StoreInner},
};

/// A read is tried this often when the run shrinks under it, or goes from memory to the log: each
/// time it lost a race, and what was evicted is in objects by then.
const FETCH_TRIES_MAX: usize = 4;

/// One ordered stream of entries. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stream {
    state: Arc<StreamState>,
    store: Arc<StoreInner>,
}

impl Stream {
    pub(crate) fn new(state: Arc<StreamState>, store: Arc<StoreInner>) -> Self {
        Self { state, store }
    }

    /// The stream's id.
    #[must_use]
    pub fn id(&self) -> StreamId {
        self.state.id
    }

    /// Counts the openings of this stream; higher after every restart.
    #[must_use]
    pub fn epoch(&self) -> StreamEpoch {
        self.state.epoch
    }

    /// The first offset that has not been trimmed.
    #[must_use]
    pub fn start_offset(&self) -> Offset {
        self.state.start_offset()
    }

    /// The offset of the next entry to be appended.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        self.state.lock().next
    }

    /// Everything below is durable, and nothing from here on can be read.
    #[must_use]
    pub fn confirm_offset(&self) -> Offset {
        self.state.confirm_offset()
    }

    /// Everything below has been committed to objects, which every broker can read.
    #[must_use]
    pub fn committed_offset(&self) -> Offset {
        self.state.committed_offset()
    }

    /// Why the stream is halted: a record of it in the log is damaged. It takes no appends and is not read
    /// until the log's volume is restored and the store opened again, or the stream is deleted.
    #[must_use]
    pub fn halted(&self) -> Option<&Cause> {
        self.state.halted()
    }

    /// Drops and replaces entries that are in objects.
    #[must_use]
    pub fn rewriter(&self) -> Rewriter {
        Rewriter::new(Arc::clone(&self.state), Arc::clone(&self.store))
    }

    /// Waits, within bounds, for room for an entry of `bytes` payload.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub async fn reserve(&self, bytes: usize) -> Result<Permit, AppendError> {
        self.store.reserve(bytes).await
    }

    /// Appends an entry. The order of calls is the order of the stream, and each entry must begin
    /// at [`Stream::next_offset`]: callers that share a stream need a lock around both. A refused
    /// entry gives a ticket with the reason. Needs room for no more than the permit has.
    pub fn append(&self, permit: Permit, entry: Entry) -> AppendTicket {
        let known = PayloadFacts {
            buffer_bytes: entry.payload.len(),
            sum: None,
        };
        self.append_known(permit, entry, known)
    }

    /// Appends an entry whose payload is a part of a buffer, all of which would stay
    /// in memory with it: it is copied unless it is nearly all of the buffer.
    pub fn append_known(
        &self,
        permit: Permit,
        mut entry: Entry,
        known: PayloadFacts,
    ) -> AppendTicket {
        if entry.payload.len() > permit.bytes() {
            let max = permit.bytes() as u64;
            let error = AppendError::TooLarge {
                bytes: entry.payload.len(),
                max,
            };
            return AppendTicket::settled(Err(error));
        }
        if !is_kept(entry.payload.len(), known.buffer_bytes) {
            entry.payload = Bytes::copy_from_slice(&entry.payload);
        }
        let inner = self.state.lock();
        // Under the lock, so that nothing is appended to a stream that is halted.
        if let Some(cause) = self.halted() {
            return AppendTicket::settled(Err(AppendError::Halted(cause.clone())));
        }
        if let Err(error) = inner.accepts(&entry) {
            return AppendTicket::settled(Err(error));
        }
        let Placement {
            durable,
            durability,
            wal,
        } = self.store.place(&self.state, (&entry, known.sum), permit);
        let in_flight = InFlight {
            durable,
            end: entry.end_offset(),
            durability,
        };
        let entry = CachedEntry::in_memory(entry, wal);
        self.state
            .appended(inner, entry, in_flight, &self.store.tasks)
    }

    /// A ticket that resolves when everything below `end` is durable. Above
    /// [`Stream::next_offset`] it resolves at once, with the reason why the stream ends before.
    pub fn when_confirmed(&self, end: Offset) -> AppendTicket {
        self.state.when_confirmed(end)
    }

    /// Calls `listener` with the confirm offset whenever it has moved.
    pub fn on_confirm(&self, listener: ConfirmListener) {
        self.state.listen(listener);
    }

    /// Calls the listeners with the confirm offset as it is, for somebody who has closed what they watch.
    pub fn wake_listeners(&self) {
        self.state.tell_listeners();
    }

    /// Reads from memory: the entries from the one that contains `start`, or follows it, up to those that begin
    /// below `end` and below the confirm offset, as many as fit into `max_bytes`, but at least one.
    /// Empty where there is none yet; `None` where `start` is not in memory.
    #[must_use]
    pub fn fetch_cached(&self, start: Offset, end: Offset, max_bytes: usize) -> Option<Vec<Entry>> {
        let inner = self.state.lock();
        let end = end.min(self.state.confirm_offset());
        if start >= end {
            return Some(Vec::new());
        }
        inner.cached.read(start, end, max_bytes)
    }

    /// Reads like [`Stream::fetch_cached`], from the log or from objects where memory does not reach.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn fetch(
        &self,
        start: Offset,
        end: Offset,
        max_bytes: usize,
    ) -> Result<Vec<Entry>, FetchError> {
        for _ in 0..FETCH_TRIES_MAX {
            if let Some(found) = self.fetch_local(start, end, max_bytes).await? {
                return Ok(found);
            }
            match self.fetch_objects(start, end, max_bytes).await? {
                // All entries of the range were dropped: what was not asked for follows.
                Some((found, is_all)) if is_all && found.is_empty() => return Ok(found),
                Some((found, _)) if !found.is_empty() => {
                    return Ok(self.extend_from_memory(found, end, max_bytes));
                }
                _ => {}
            }
        }
        Err(FetchError::Missing {
            stream: self.id(),
            offset: start,
        })
    }

    /// Whether an entry at `start` would be read from memory or from the log, now. It may go to
    /// objects at any moment.
    #[must_use]
    pub fn is_local(&self, start: Offset) -> bool {
        let first = self.state.lock().cached.first_offset();
        first.is_some_and(|first| first <= start)
    }

    /// Reads like [`Stream::fetch`], but only what the broker itself has, in memory or in the log;
    /// `None` where objects would have to be read. Takes as long as the device does, whatever the
    /// bucket does.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn fetch_local(
        &self,
        start: Offset,
        end: Offset,
        max_bytes: usize,
    ) -> Result<Option<Vec<Entry>>, FetchError> {
        let first = self.start_offset();
        if start < first {
            return Err(FetchError::BelowStart {
                offset: start,
                start: first,
            });
        }
        if let Some(cause) = self.halted() {
            return Err(FetchError::Storage(cause.clone()));
        }
        if let Some(found) = self.fetch_cached(start, end, max_bytes) {
            return Ok(Some(found));
        }
        let found = self.fetch_log(start, end, max_bytes).await?;
        let found = found.filter(|found| !found.is_empty());
        Ok(found.map(|found| self.extend_from_memory(found, end, max_bytes)))
    }

    /// Reads what memory has left to the log; `None` where `start` is not there. Empty where it was
    /// committed and trimmed meanwhile.
    async fn fetch_log(
        &self,
        start: Offset,
        end: Offset,
        max_bytes: usize,
    ) -> Result<Option<Vec<Entry>>, FetchError> {
        let located = {
            let inner = self.state.lock();
            let end = end.min(self.state.confirm_offset());
            inner.cached.located(start, end, max_bytes)
        };
        let Some(located) = located else {
            return Ok(None);
        };
        match self.store.read_entries(self.id(), &located).await {
            Ok(found) => Ok(Some(found)),
            Err(ReadBackError::Log(millrace_wal::ReadError::Absent)) => Ok(Some(Vec::new())),
            Err(error) => {
                if let ReadBackError::Damaged(record) = &error {
                    self.store.report_damaged(record);
                }
                Err(FetchError::Storage(Cause::new(error)))
            }
        }
    }

    /// Reads what the store itself no longer has. An entry leaves it only after it was committed to
    /// objects, so everything below the run in memory is there. Gives whether `end` was looked at as asked; `None` where no object has
    /// `start`.
    async fn fetch_objects(
        &self,
        start: Offset,
        end: Offset,
        max_bytes: usize,
    ) -> Result<Option<(Vec<Entry>, bool)>, FetchError> {
        let (up_to, asked) = {
            let inner = self.state.lock();
            let cached = inner.cached.first_offset().unwrap_or(inner.next);
            let asked = end.min(self.state.confirm_offset());
            (asked.min(cached), asked)
        };
        // Where it is nothing it was trimmed meanwhile, or is truly missing: the caller looks at the start again.
        let found = self.store.fetch_objects(self.id(), start, up_to, max_bytes);
        let found = found.await?;
        Ok(found.map(|found| (found, up_to == asked && start < up_to)))
    }

    /// Goes on in memory where a read from elsewhere reached the run there with room to spare. What
    /// it returns has no gap, whatever was evicted meanwhile: it goes on exactly at the end.
    fn extend_from_memory(
        &self,
        mut found: Vec<Entry>,
        end: Offset,
        max_bytes: usize,
    ) -> Vec<Entry> {
        let bytes: usize = found.iter().map(|entry| entry.payload.len()).sum();
        let reached = found.last().map_or(0, Entry::end_offset);
        let room = max_bytes.saturating_sub(bytes);
        let more = self.fetch_cached(reached, end, room).unwrap_or_default();
        // Memory gives one entry even if it does not fit.
        let fits = more
            .first()
            .is_some_and(|entry| entry.payload.len() <= room);
        if fits {
            found.extend(more);
            found.truncate(FETCH_ENTRIES_MAX);
        }
        found
    }

    /// Makes `new_start` the first offset, durably; entries below it are freed. Never moves back.
    /// Returns the start that is durable; readers may be ahead of it.
    ///
    /// # Errors
    /// See [`TrimError`].
    pub async fn trim(&self, new_start: Offset) -> Result<Offset, TrimError> {
        self.store.trim(&self.state, new_start).await
    }
}

impl StoreInner {
    /// Reads from objects what is below `end` there. `None` where no object has `start`; empty where log compaction has left nothing
    /// of the range.
    pub(crate) async fn fetch_objects(
        &self,
        stream: StreamId,
        start: Offset,
        end: Offset,
        max_bytes: usize,
    ) -> Result<Option<Vec<Entry>>, FetchError> {
        let read = self.block_cache.read(stream, start, end, max_bytes).await;
        let read = match read {
            Ok(read) => read,
            Err(ReadError::Missing { .. }) => return Ok(None),
            Err(error) => return Err(FetchError::Storage(Cause::new(error))),
        };
        let found: Vec<Entry> = read.into_iter().map(from_object).collect();
        check_run(stream, start, &found)?;
        Ok(Some(found))
    }
}

fn from_object(entry: StreamEntry) -> Entry {
    let StreamEntry {
        base_offset,
        count,
        payload,
        ..
    } = entry;
    Entry {
        base_offset,
        count,
        payload,
    }
}

/// Entries from objects must end behind `start` and follow each other. Log compaction leaves gaps, so what is between them is not
/// known here; that the objects' ranges have none is checked where they are looked up.
fn check_run(stream: StreamId, start: Offset, found: &[Entry]) -> Result<(), FetchError> {
    let mut reached = start;
    for (n, entry) in found.iter().enumerate() {
        let overlaps = n > 0 && entry.base_offset < reached;
        if overlaps || entry.end_offset() <= reached {
            return Err(FetchError::Missing {
                stream,
                offset: reached,
            });
        }
        reached = entry.end_offset();
    }
    Ok(())
}
