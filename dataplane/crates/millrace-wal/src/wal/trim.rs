//! Releasing space.
//!
//! A trim takes effect in memory immediately and is written to the header a little later, so that
//! many trims share one header write. If space is short it is written immediately. Space is reused
//! only when the header with the trim is durable in both slots: recovery starts reading at the
//! header's trim, and must not find data of a later lap there.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Weak},
    time::Duration,
};

use millrace_tasks::Task;

use super::{Phase, Shared, State, Wal, admission};
use crate::{error::WalFailure, recovery::Span};

/// Where chunks end, so that a trim can be rounded down to a whole chunk.
///
/// 12 bytes per chunk, which is 60 MB for a ring of 20 GiB full of the smallest chunks: two queues of
/// equal length, since the two numbers together would take 16.
#[derive(Debug)]
pub(super) struct Spans {
    /// Where each chunk ends.
    ends: VecDeque<u64>,
    /// How far before that its last record ends: its directory and padding, in bytes.
    tails: VecDeque<u32>,
    /// What the callers allow to be trimmed.
    wanted: u64,
    /// The highest metadata revision that they relied on.
    revision: u64,
    /// What the durable header says.
    durable: u64,
    /// What the durable header says of records.
    durable_records: u64,
    /// A task is about to write the header.
    writing: bool,
}

impl Spans {
    pub(super) fn new(trim: u64, trimmed_to: u64, spans: &[Span]) -> Self {
        let mut this = Self {
            ends: VecDeque::with_capacity(spans.len()),
            tails: VecDeque::with_capacity(spans.len()),
            wanted: trimmed_to,
            revision: 0,
            durable: trim,
            durable_records: trimmed_to,
            writing: false,
        };
        spans.iter().for_each(|span| this.push(*span));
        this
    }

    /// Adds the chunk above all others.
    pub(super) fn push(&mut self, span: Span) {
        let tail = u32::try_from(span.end - span.records_end);
        self.tails
            .push_back(tail.expect("a chunk is smaller than 4 GiB"));
        self.ends.push_back(span.end);
    }

    pub(super) fn durable_trim(&self) -> u64 {
        self.durable
    }

    /// Forgets the chunks whose records all end at or below `limit`; returns the new trim.
    /// `unwritten` is where the log goes on, which is the trim where no chunk is left.
    fn pop_up_to(&mut self, limit: u64, unwritten: u64) -> u64 {
        let mut trim = self.durable;
        while let (Some(&end), Some(&tail)) = (self.ends.front(), self.tails.front()) {
            if end - u64::from(tail) > limit {
                return trim;
            }
            trim = end;
            self.ends.pop_front();
            self.tails.pop_front();
        }
        unwritten
    }
}

impl Wal {
    /// Says that every record that ends at or below `up_to` is no longer needed, whatever was
    /// trimmed before, because the metadata of `revision` or later knows where its content is. The
    /// header keeps the highest such revision. Records that are not durable yet are not trimmed.
    /// Returns at once.
    pub fn trim(&self, up_to: u64, revision: u64) {
        Shared::trim(&self.shared, up_to, revision);
    }
}

impl Shared {
    fn trim(self: &Arc<Self>, up_to: u64, revision: u64) {
        let mut state = self.state.lock();
        if up_to <= state.spans.wanted || !matches!(state.phase, Phase::Open | Phase::Closing) {
            return;
        }
        state.spans.wanted = up_to;
        state.spans.revision = state.spans.revision.max(revision);
        let due = state.trim_is_due();
        drop(state);
        self.start_trims(due);
    }

    /// Starts the task that writes trims, where [`State::trim_is_due`] said so.
    pub(super) fn start_trims(self: &Arc<Self>, due: bool) {
        if due {
            self.spawn(Task::WalTrim, write_trims(Arc::downgrade(self)));
        }
    }

    /// How long a trim may wait now.
    fn trim_delay(&self) -> Duration {
        let plenty = admission::blocks(self.ring.bytes()) as usize / 4;
        if self.space.available_permits() < plenty {
            return Duration::ZERO;
        }
        self.config.trim_delay
    }

    /// Writes one header; true where more has been trimmed meanwhile.
    async fn write_wanted_trim(&self) -> bool {
        let limit = {
            let state = self.state.lock();
            state.spans.wanted.min(state.commit.stable())
        };
        if self.write_trim(limit, None).await.is_err() {
            return false;
        }
        let mut state = self.state.lock();
        state.spans.writing = state.spans.wanted.min(state.commit.stable()) > limit;
        state.spans.writing
    }

    /// The last header of a log that is closed in peace: nothing is in flight.
    pub(super) async fn write_clean_header(&self) -> Result<(), WalFailure> {
        let (limit, end) = {
            let state = self.state.lock();
            (
                state.spans.wanted.min(state.commit.stable()),
                state.commit.next(),
            )
        };
        self.write_trim(limit, Some(end)).await
    }

    /// Writes a header that trims up to `limit`, and then gives the room back.
    async fn write_trim(&self, limit: u64, clean_end: Option<u64>) -> Result<(), WalFailure> {
        let mut header = self.header.lock().await;
        let (trim, stable, records, revision) = {
            let mut state = self.state.lock();
            if matches!(state.phase, Phase::Closed) {
                // The clean header is the last one, and it says everything already.
                return Ok(());
            }
            let unwritten = state.commit.unwritten();
            let trim = state.spans.pop_up_to(limit, unwritten);
            (
                trim,
                state.commit.stable(),
                limit.max(state.spans.durable_records),
                state.spans.revision,
            )
        };
        let written = header.update(|header| {
            header.trim = trim;
            header.trimmed_to = records;
            header.stable = header.stable.max(stable);
            header.clean_end = clean_end;
            header.revision = header.revision.max(revision);
            header.extents.retain_mut(|extent| {
                extent.start = extent.start.max(trim);
                extent.start < extent.end
            });
        });
        written.await.map_err(|error| self.header_failed(error))?;
        self.metrics.header_writes.increment(1);
        let freed = {
            let mut state = self.state.lock();
            let freed = trim - state.spans.durable;
            state.spans.durable = trim;
            state.spans.durable_records = records;
            if clean_end.is_some() {
                state.phase = Phase::Closed;
            }
            self.publish(&state);
            freed
        };
        self.space.add_permits(admission::blocks(freed) as usize);
        Ok(())
    }

    /// Writes a header with another window.
    pub(super) async fn write_window(&self, window: u64) -> Result<(), WalFailure> {
        let mut header = self.header.lock().await;
        let written = header.update(|header| header.window = window).await;
        written.map_err(|error| self.header_failed(error))?;
        self.metrics.header_writes.increment(1);
        Ok(())
    }

    fn header_failed(&self, error: io::Error) -> WalFailure {
        let failure = WalFailure {
            operation: "write the header",
            offset: 0,
            source: Arc::new(error),
        };
        self.fail(failure.clone());
        failure
    }
}

impl State {
    /// True where the header has something to say and nobody is about to write it; the caller then
    /// must. What is wanted above the stable line becomes due when that line has moved.
    pub(super) fn trim_is_due(&mut self) -> bool {
        let limit = self.spans.wanted.min(self.commit.stable());
        let due = !self.spans.writing && limit > self.spans.durable_records;
        self.spans.writing |= due;
        due
    }
}

/// Writes the header until it says what is wanted, or nobody holds the log any more.
async fn write_trims(log: Weak<Shared>) {
    let mut more = true;
    while more {
        let Some(delay) = log.upgrade().map(|shared| shared.trim_delay()) else {
            return;
        };
        tokio::time::sleep(delay).await;
        let Some(shared) = log.upgrade() else { return };
        more = shared.write_wanted_trim().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::BLOCK;

    fn span(start: u64, end: u64, padding: u64) -> Span {
        Span {
            start: start * BLOCK,
            end: end * BLOCK,
            records_end: end * BLOCK - padding,
        }
    }

    #[test]
    fn a_trim_is_rounded_down_to_whole_chunks() {
        let chunks = [span(0, 2, 100), span(2, 3, 0), span(4, 6, BLOCK + 4095)];
        let mut spans = Spans::new(0, 0, &chunks);
        assert_eq!(spans.pop_up_to(2 * BLOCK - 101, 9 * BLOCK), 0);
        assert_eq!(spans.pop_up_to(2 * BLOCK - 100, 9 * BLOCK), 2 * BLOCK);
        spans.durable = 2 * BLOCK;
        assert_eq!(spans.pop_up_to(4 * BLOCK, 9 * BLOCK), 3 * BLOCK);
        spans.durable = 3 * BLOCK;
        // The gap before the last chunk goes with the last chunk.
        assert_eq!(spans.pop_up_to(4 * BLOCK + 1, 9 * BLOCK), 9 * BLOCK);
    }
}
