//! One read, step by step.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_budget::Charge;
use millrace_model::{Offset, StreamId, limits::FETCH_ENTRIES_MAX};
use millrace_objects::StreamEntry;
use tokio::time::timeout;

use crate::{
    block::{Block, BlockId},
    block_cache::{Inner, ReadError},
    locate::OBJECTS_PER_ASK_MAX,
    reader::{Place, ReaderId},
    state::{Ask, Content, Pinned, Step},
};

/// How long a read waits for room. It comes when answers leave, which takes milliseconds; where
/// clients do not take theirs, a reader goes on beside the budget rather than not at all.
pub(crate) const ROOM_WAIT_MAX: Duration = Duration::from_secs(1);

/// Each wait that was in vain halves those that follow, down to this, and each that was not doubles
/// them again: where nothing comes free, waiting does nobody any good.
const ROOM_WAIT_MIN: Duration = Duration::from_millis(2);

/// How often one read may find its block neither there nor failed for good: a prefetch that failed,
/// or a load that was given up.
const LOST_LOADS_MAX: u32 = 4;

/// Entries that a read has gathered so far.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// Entries from here on are not wanted.
    end: Offset,
    max_bytes: usize,
    pub(crate) entries: Vec<StreamEntry>,
    /// From here on it continues.
    pub(crate) next: Offset,
    bytes: usize,
    /// No further entry is wanted, or none would fit.
    done: bool,
}

impl Gathered {
    pub(crate) fn new(start: Offset, end: Offset, max_bytes: usize) -> Self {
        Self {
            end,
            max_bytes,
            entries: Vec::new(),
            next: start,
            bytes: 0,
            done: start >= end,
        }
    }

    /// Whether anything is asked for.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.done
    }

    /// Takes what fits of a block's entries.
    fn take(&mut self, block: &Arc<Block>) {
        for entry in block.entries_from(self.next) {
            let bytes = self.bytes.saturating_add(entry.payload.len());
            let fits = bytes <= self.max_bytes && self.entries.len() < FETCH_ENTRIES_MAX;
            if entry.base_offset >= self.end || (!fits && !self.entries.is_empty()) {
                self.done = true;
                return;
            }
            self.bytes = bytes;
            let entry_end = entry.end_offset().unwrap_or(Offset::MAX);
            self.entries.push(entry);
            self.pass(entry_end);
            self.done |= bytes >= self.max_bytes;
        }
    }

    /// Goes on to `offset`: what lies before it has been taken or does not exist.
    fn pass(&mut self, offset: Offset) {
        if !self.done {
            self.next = self.next.max(offset);
            self.done = self.next >= self.end;
        }
    }
}

/// A reader that is being used, and the blocks that are pinned for it. Dropping it, at whatever
/// point, lets go of both; the reader then stands where it stood.
struct Lease<'a> {
    inner: &'a Arc<Inner>,
    reader: ReaderId,
    pins: Vec<(BlockId, u64)>,
    is_waiting: bool,
}

impl Lease<'_> {
    /// While a read waits for room, its reader's blocks are no safer than those of others.
    fn set_waiting(&mut self, is_waiting: bool) {
        if std::mem::replace(&mut self.is_waiting, is_waiting) != is_waiting {
            let mut state = self.inner.state.lock();
            state.set_waiting(self.reader, is_waiting);
        }
    }

    fn unpin(&mut self) {
        let mut state = self.inner.state.lock();
        for (id, generation) in self.pins.drain(..) {
            state.unpin(id, generation);
        }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.unpin();
        self.set_waiting(false);
        let now = self.inner.clock.now();
        self.inner.state.lock().leave(self.reader, now);
        // A prefetch may have become a miss, or room have been made.
        self.inner.dispatch();
    }
}

impl Inner {
    /// Reads once, on the metadata as it is.
    pub(crate) async fn read_once(
        self: &Arc<Self>,
        stream: StreamId,
        got: &mut Gathered,
    ) -> Result<(), ReadError> {
        let start = got.next;
        let now = self.clock.now();
        let reader = self
            .state
            .lock()
            .enter((stream, start), got.end, got.max_bytes as u64, now);
        self.sweep();
        let mut lease = Lease {
            inner: self,
            reader,
            pins: Vec::new(),
            is_waiting: false,
        };
        let read = self.gather(stream, &mut lease, got).await;
        if let Err(error) = read {
            let is_gone = error.is_not_found();
            if is_gone {
                self.state.lock().forget_blocks(reader);
            }
            // What was read before the fault is given out: the next read begins with the fault.
            if is_gone || got.entries.is_empty() {
                return Err(error);
            }
        }
        let now = self.clock.now();
        self.state.lock().came_to(reader, start, got.next, now);
        drop(lease);
        self.prefetch(stream, reader);
        Ok(())
    }

    async fn gather(
        self: &Arc<Self>,
        stream: StreamId,
        lease: &mut Lease<'_>,
        got: &mut Gathered,
    ) -> Result<(), ReadError> {
        let mut room = None;
        let mut is_located = false;
        // One at first: a read of a few entries should not read many indexes.
        let mut objects = 1;
        let mut lost = 0;
        while !got.done {
            let ask = Ask {
                from: got.next,
                end: got.end,
                max_bytes: got.max_bytes as u64,
                bytes: got.bytes as u64,
                has_entries: !got.entries.is_empty(),
                is_located,
            };
            let now = self.clock.now();
            let step = self.state.lock().step(lease.reader, &ask, &mut room, now);
            match step {
                Step::Locate(from) => {
                    let located = self.locator.locate(stream, (from, got.end), objects).await;
                    let located = match located {
                        // What is located so far is read first.
                        Err(error) if from > got.next && !error.is_not_found() => Vec::new(),
                        located => located?,
                    };
                    objects = (objects * 2).min(OBJECTS_PER_ASK_MAX);
                    if located.is_empty() {
                        if from == got.next || is_located {
                            return Ok(());
                        }
                        is_located = true;
                        continue;
                    }
                    self.state.lock().extend_blocks(lease.reader, from, located);
                }
                Step::Nothing(to) => got.pass(to),
                Step::Room(place, bytes) => {
                    // What came before was for another block.
                    drop(room.take());
                    lease.set_waiting(true);
                    room = self.room(bytes).await;
                    lease.set_waiting(false);
                    if room.is_none() {
                        return self.bypass(&place, bytes, got).await;
                    }
                }
                Step::Take(pinned) => {
                    // Where somebody else has started to load the block meanwhile, it was not needed.
                    drop(room.take());
                    self.dispatch();
                    lost += u32::from(self.take(pinned, lease, got).await?);
                    if lost >= LOST_LOADS_MAX {
                        return Err(ReadError::Unsettled);
                    }
                }
                Step::End => return Ok(()),
            }
        }
        Ok(())
    }

    /// Takes entries out of blocks as they come. Gives whether one was lost on the way, and is to be
    /// asked for again.
    async fn take(
        self: &Arc<Self>,
        pinned: Vec<Pinned>,
        lease: &mut Lease<'_>,
        got: &mut Gathered,
    ) -> Result<bool, ReadError> {
        lease
            .pins
            .extend(pinned.iter().map(|pinned| (pinned.id, pinned.generation)));
        for Pinned {
            id, to, content, ..
        } in pinned
        {
            let block = match content {
                Content::Here(block) => block,
                Content::Coming(arrival) => match arrival.await {
                    Ok(Ok(block)) => block,
                    Ok(Err(failure)) if !failure.was_prefetch => {
                        if failure.error.is_not_found() {
                            self.locator.forget(id.object);
                        }
                        return Err(ReadError::Object(Arc::clone(&failure.error)));
                    }
                    Ok(Err(_)) | Err(_) => {
                        lease.unpin();
                        return Ok(true);
                    }
                },
            };
            got.take(&block);
            got.pass(to);
        }
        lease.unpin();
        Ok(false)
    }

    /// Waits for room, holding none. `None` where it does not come in time, or never could.
    async fn room(&self, bytes: u64) -> Option<Charge> {
        if bytes > self.budget.capacity() {
            return None;
        }
        let now = self.clock.now();
        let granted = self.budget.take(bytes);
        self.state.lock().serve_those_who_wait(now);
        self.metrics.waits_for_room.add(1);
        let patience = *self.room_wait.lock();
        let granted = timeout(patience, granted).await;
        *self.room_wait.lock() = if granted.is_ok() {
            (patience * 2).min(ROOM_WAIT_MAX)
        } else {
            (patience / 2).max(ROOM_WAIT_MIN)
        };
        granted.ok()
    }

    /// Reads one block beside the budget. What is taken out of it is copied, so that the answer holds
    /// no more than its own bytes, and the block is gone before the next one comes in its place.
    async fn bypass(&self, place: &Place, bytes: u64, got: &mut Gathered) -> Result<(), ReadError> {
        self.metrics.bypasses.add(1);
        // Nobody closes it.
        let _turn = self.bypasses.acquire().await;
        let charge = self.outside.take_anyway(bytes);
        let decoded = self.read_alone(place).await.map_err(|error| {
            if error.is_not_found() {
                self.locator.forget(place.id.object);
            }
            ReadError::Object(Arc::new(error))
        })?;
        let taken = got.entries.len();
        got.take(&decoded.charged(charge));
        for entry in got.entries.iter_mut().skip(taken) {
            entry.payload = Bytes::copy_from_slice(&entry.payload);
        }
        got.pass(place.block.end);
        Ok(())
    }

    /// Loads what lies in a reader's window, asking the metadata first where it has to.
    fn prefetch(self: &Arc<Self>, stream: StreamId, reader: ReaderId) {
        let now = self.clock.now();
        let ask = {
            let mut state = self.state.lock();
            let ask = state.prefetch(reader, now);
            if ask.is_some() {
                state.set_locating(reader, true);
            }
            ask
        };
        self.dispatch();
        let Some(stretch) = ask else {
            return;
        };
        let inner = Arc::clone(self);
        // Where it panics, this reader prefetches nothing more.
        self.tasks.spawn_awaited(async move {
            let located = inner
                .locator
                .locate(stream, stretch, OBJECTS_PER_ASK_MAX)
                .await;
            let located = located.unwrap_or_default();
            let now = inner.clock.now();
            {
                let mut state = inner.state.lock();
                state.set_locating(reader, false);
                // The reader may have gone on meanwhile, and asked himself.
                if located.is_empty() || !state.can_extend(reader, stretch.0) {
                    return;
                }
                state.extend_blocks(reader, stretch.0, located);
                let _more_at_the_next_read = state.prefetch(reader, now);
            }
            inner.dispatch();
        });
    }
}

impl ReadError {
    /// Whether an object is gone that the metadata had named.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Object(gone) if gone.is_not_found())
    }
}

/// Whether a read has found nothing where there ought to be something.
pub(crate) fn is_missing(got: &Gathered) -> bool {
    got.entries.is_empty() && got.next < got.end
}
