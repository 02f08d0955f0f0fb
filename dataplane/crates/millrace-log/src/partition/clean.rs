//! Log compaction of one partition; COMPACTION.md says how it works and why.
//!
//! - `dirty`: what may be cleaned, and whether it is due
//! - `key_map`: the last offset of every key, in bounded memory
//! - `transactions`: which data was aborted, and which markers are still needed
//! - `retention`: what stays of a batch
//! - this file: one cleaning, from the first pass to the new clean point

mod dirty;
mod key_map;
mod retention;
#[cfg(test)]
mod tests;
mod transactions;

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc};

use millrace_model::{Cause, Classified, FailureClass, Offset, StreamId};
use millrace_record::{InvalidBatch, header_of, records};
use millrace_stream::{Entry, RewriteError, Rewritten};

pub(crate) use self::dirty::Dirty;
use self::{
    key_map::KeyMap,
    retention::{LastOfProducers, Retention},
    transactions::{Marker, Passing},
};
use super::{PartitionLog, aborted::IndexError, persist::CheckpointError};
use crate::error::ReadError;

/// Aborted transactions of the dirty part that one cleaning looks at, about: 6 MiB. Where there are more, the dirty part ends.
const DIRTY_ABORTED_MAX: u64 = 200_000;

/// What a cleaning may use.
#[derive(Debug, Clone)]
pub(crate) struct CleanerTools {
    /// The memory for the map of keys, bytes.
    pub(crate) map_bytes: u64,
    /// Makes the hashes of keys unpredictable.
    pub(crate) salt: [u8; 16],
    /// All streams that are compacted: a stream-set object that has to be split is split for all of them.
    pub(crate) compacted: Arc<BTreeSet<StreamId>>,
}

/// What a cleaning has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cleaned {
    /// The first offset that is not clean.
    pub(crate) up_to: Offset,
    /// Bytes of the blocks that were read, in both passes.
    pub(crate) read_bytes: u64,
    /// Bytes of objects that were written.
    pub(crate) written_bytes: u64,
    /// Bytes of batches that are gone.
    pub(crate) removed_bytes: u64,
    /// Groups of objects that were replaced.
    pub(crate) groups: u64,
}

/// Why a cleaning ended early. What it has replaced by then is sound, and the clean point is where it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CleanError {
    /// The objects could not be read or replaced.
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    /// The partition was closed.
    #[error("the partition is closed")]
    Closed,
    /// The partition is offline.
    #[error("the partition is offline: {0}")]
    Offline(Cause),
    /// What the cleaning before has found is not durable.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The aborted transactions could not be read.
    #[error(transparent)]
    Aborted(#[from] ReadError),
    /// Aborted transactions of which nothing is left could not be forgotten.
    #[error("aborted transactions: {0}")]
    Index(#[from] IndexError),
    /// The log start has moved into what was cleaned.
    #[error("records were deleted meanwhile")]
    Trimmed,
}

impl Classified for CleanError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Rewrite(error) => error.class(),
            Self::Offline(cause) => cause.class(),
            Self::Checkpoint(_) => FailureClass::Transient,
            Self::Aborted(error) => error.class(),
            Self::Index(error) => error.class(),
            Self::Closed | Self::Trimmed => FailureClass::Gone,
        }
    }
}

impl Cleaned {
    /// Gives the bytes of batches that are gone.
    fn add(&mut self, rewritten: &Rewritten) -> u64 {
        self.read_bytes += rewritten.input_bytes;
        if !rewritten.replaced {
            return 0;
        }
        let (before, after) = (rewritten.input_payload, rewritten.output_payload);
        let removed = before.saturating_sub(after);
        self.written_bytes += rewritten.output_bytes;
        self.removed_bytes += removed;
        self.groups += 1;
        removed
    }
}

/// A batch that should be sound is not.
fn corrupt(error: InvalidBatch) -> Cause {
    Cause::of(FailureClass::Corrupt, error)
}

impl PartitionLog {
    /// Cleans the dirty part, as much of it as the map has room for, and adds what it does to `cleaned`. If it fails or
    /// the broker stops before the end, the clean point does not move.
    ///
    /// # Errors
    /// See [`CleanError`].
    pub(crate) async fn clean(
        &self,
        dirty: &Dirty,
        tools: &CleanerTools,
        cleaned: &mut Cleaned,
    ) -> Result<(), CleanError> {
        // A marker is dropped only once the index of aborted transactions, without its transaction, is durable.
        self.checkpoint().await?;
        if let Some(cause) = self.offline() {
            // No checkpoint was written, then.
            return Err(CleanError::Offline(cause));
        }
        let log_start = self.start_offset();
        let first = dirty.first;
        let end = self.end_of_aborted((first, dirty.end), DIRTY_ABORTED_MAX);
        let mut map = KeyMap::new(tools.map_bytes, end - first, tools.salt);
        let rewriter = self.data.rewriter();
        let mut transactions = Passing::new(self.aborted_between((first, end)).await?);
        let mut visit = |entry: &Entry| add_batch(&mut map, &mut transactions, entry, first);
        cleaned.read_bytes += rewriter.scan((first, end), &mut visit).await?;
        // Where nothing of the rest is left, it is clean as well.
        if !map.is_full() {
            map.reach(end);
        }
        cleaned.up_to = map.end();
        let groups = rewriter
            .groups((log_start, map.end()), &tools.compacted)
            .await?;
        let ends: Vec<Offset> = groups.iter().map(|group| group.range().1).collect();
        let last_records = map.last_records_below(&ends);
        let mut retention = Retention::new(&map, Vec::new());
        let mut reached = 0;
        for (group, last_records) in groups.iter().zip(last_records) {
            if self.is_closed() {
                return Err(CleanError::Closed);
            }
            let range = (
                group.range().0.max(log_start),
                group.range().1.min(map.end()),
            );
            let mut aborted = self.aborted_between(range).await?;
            // Those that begin below were told with the group before.
            aborted.retain(|aborted| aborted.first >= reached);
            retention.also_aborted(aborted);
            reached = range.1;
            let now_ms = self.clock.wall_ms();
            let delete_retention_ms = self.config().delete_retention_ms;
            retention.begin_group(
                last_records,
                (now_ms, delete_retention_ms),
                self.last_of_producers(),
            );
            let rewritten = match rewriter.rewrite(group, &mut retention).await {
                // The last records of some keys may have been deleted, then.
                Err(RewriteError::Refused(_)) if self.start_offset() != log_start => {
                    return Err(CleanError::Trimmed);
                }
                rewritten => rewritten?,
            };
            let removed = cleaned.add(&rewritten);
            self.note_group(group.range(), removed);
            self.forget_aborted(&retention.take_emptied()).await?;
        }
        let mut state = self.state.lock();
        state.first_dirty = cleaned.up_to;
        state.cleaner_changed = true;
        Ok(())
    }
}

impl PartitionLog {
    /// Where the last data of each known producer ends.
    fn last_of_producers(&self) -> LastOfProducers {
        self.state.lock().producers.last_offsets().collect()
    }

    /// Takes note of a group that was looked at.
    fn note_group(&self, range: (Offset, Offset), removed: u64) {
        let mut state = self.state.lock();
        state.segments.shrink(range, removed);
        state.cleaner_changed |= removed > 0;
    }
}

/// Takes note of the keys of one batch; breaks where the map is full.
fn add_batch(
    map: &mut KeyMap,
    transactions: &mut Passing,
    entry: &Entry,
    from: Offset,
) -> Result<ControlFlow<()>, Cause> {
    let header = header_of(&entry.payload).map_err(corrupt)?;
    if header.is_control() {
        let marker = Marker::of(&entry.payload).map_err(corrupt)?;
        transactions.pass_marker(&header, marker, false);
    } else if !transactions.pass_data(&header) {
        let mut batch = records(&entry.payload).map_err(corrupt)?;
        while let Some(record) = batch.next_view() {
            let record = record.map_err(corrupt)?;
            let offset = u64::try_from(record.offset).unwrap_or(0);
            let Some(key) = record.key.filter(|_| offset >= from) else {
                continue;
            };
            if !map.put(key, offset) {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    map.reach(entry.end_offset());
    Ok(ControlFlow::Continue(()))
}
