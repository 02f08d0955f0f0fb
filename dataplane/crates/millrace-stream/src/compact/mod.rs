//! Compaction: few large objects in place of many small ones, and nothing that is dead.
//!
//! What it does, one group of objects after the other:
//! - *stream-set objects* of about one size are merged into one; a stream with much in them gets objects
//!   of its own;
//! - small *stream objects* that lie side by side in their stream are merged, by the store itself
//!   where it can copy;
//! - an object of which most is dead is written anew without that.
//!
//! What it guarantees:
//! - Outputs hold, of each stream, exactly the offsets that the inputs hold and that are not trimmed;
//!   the metadata refuses anything else, and replaces the former by the latter at one moment. Blocks
//!   are moved as they stand, so entries and checksums are the same bytes.
//! - Readers never notice: an input stays in the bucket for as long as a read may take.
//! - A crash at any point leaves either the inputs or the outputs. Ids that were reserved and not
//!   committed are doomed at the next start, and with them whatever was written under them. There is
//!   nothing to resume: the next pass finds the same group again.
//! - It does not hold up uploads: it reserves its own ids, touches no stream's end, and everything
//!   that it reads and writes has the tier of compaction.
//! - It takes at most [`COMPACTION_BYTES_MAX`] of memory: one group at a time.

mod merge;
mod plan;

use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

use millrace_meta::{
    Compaction, CompactionError, ObjectContents, ReserveError, StoreFailure, StreamSetSummary,
};
use millrace_model::{ObjectId, Offset, StreamId};
use millrace_objects::{AssemblyError, ReadError};

pub use self::merge::COMPACTION_BYTES_MAX;
use self::{
    merge::{Merge, Moved},
    plan::Group,
};
use crate::{measure::CompactionMeasures, store::StoreInner};

/// Stream-set objects that one pass looks at: bounds its memory.
const SETS_EXAMINED_MAX: usize = 100_000;

/// What is asked of the metadata at once: bounds how long it is held up.
const PAGE: usize = 1_000;

/// Ranges of the inputs of one group: bounds the memory for what is known of them, some 250 bytes each.
/// A group of more is made smaller.
const RANGES_MAX: usize = 100_000;

/// A commit whose outcome is not known is asked again so often.
const COMMIT_TRIES: u32 = 5;

/// A pass that stopped at its bound of groups goes on after this long.
const GO_ON_AFTER: Duration = Duration::from_secs(1);

/// An object is not written anew where, after all, more than this of it is wanted, percent: the
/// metadata knows its ranges, but not their bytes.
const REWRITE_WANTED_PERCENT_MAX: u64 = 75;

/// What a pass has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompactionReport {
    /// Groups that were replaced.
    pub groups: u64,
    /// Groups that changed under the pass, or could not be read or written; the next one sees them
    /// again.
    pub failed: u64,
    /// Objects that were replaced.
    pub inputs: u64,
    /// Objects that replace them.
    pub outputs: u64,
    /// Bytes of the former.
    pub input_bytes: u64,
    /// Bytes of the latter.
    pub output_bytes: u64,
    /// Those of them that the store has copied by itself.
    pub copied_bytes: u64,
    /// The pass stopped at its bound, and there may be more to do.
    pub more: bool,
}

/// Why a group was not compacted. Its objects are as they were.
#[derive(Debug, thiserror::Error)]
pub enum CompactError {
    /// No ids for the outputs.
    #[error(transparent)]
    Reserve(#[from] ReserveError),
    /// The outputs were not committed.
    #[error(transparent)]
    Commit(#[from] CompactionError),
    /// The metadata could not be asked.
    #[error(transparent)]
    Meta(#[from] StoreFailure),
    /// An index could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// An output could not be written.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// An object does not hold what the metadata says it holds: report it.
    #[error("object {object} has nothing of stream {stream} from offset {offset} on")]
    Missing {
        /// The object.
        object: ObjectId,
        /// The stream.
        stream: StreamId,
        /// The offset.
        offset: Offset,
    },
    /// The store is being closed.
    #[error("the store is closed")]
    Closing,
}

impl CompactError {
    /// Whether another start of the node has replaced this one.
    fn is_fenced(&self) -> bool {
        matches!(
            self,
            Self::Reserve(ReserveError::Fenced(_)) | Self::Commit(CompactionError::Fenced(_))
        )
    }

    /// Whether the group was trimmed, deleted or replaced meanwhile, which is nobody's fault.
    fn is_superseded(&self) -> bool {
        match self {
            Self::Commit(CompactionError::Differs { .. }) => true,
            Self::Read(error) | Self::Assembly(AssemblyError::Read(error)) => error.is_not_found(),
            _ => false,
        }
    }
}

/// Which objects a group has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    StreamSet,
    Stream,
}

/// Compacts for ever, a pass at each interval.
pub(crate) async fn run(store: Arc<StoreInner>) {
    let config = store.config.compaction.clone();
    if config.interval.is_zero() {
        return;
    }
    tokio::time::sleep(config.cool_down).await;
    loop {
        let more = match store.compact().await {
            // Where nothing succeeds, going on at once would only add to the trouble.
            Ok(report) => report.more && report.groups > 0,
            Err(error) if error.is_fenced() => {
                store.failure.declare(&error.to_string());
                return;
            }
            Err(CompactError::Closing) => return,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "compaction failed; trying later");
                false
            }
        };
        if more {
            tokio::time::sleep(GO_ON_AFTER).await;
        } else {
            // Up to a tenth more, so that brokers that started together do not compact together.
            let tenth_ms = u64::try_from(config.interval.as_millis() / 10).unwrap_or(u64::MAX);
            let jitter = Duration::from_millis(store.random.below(tenth_ms.max(1)));
            tokio::time::sleep(config.interval + jitter).await;
        }
    }
}

impl StoreInner {
    /// Fails once the store is being closed.
    pub(crate) fn check_compacting(&self) -> Result<(), CompactError> {
        let ends = self.closing.load(Ordering::Acquire) || self.failure.reason().is_some();
        if ends {
            return Err(CompactError::Closing);
        }
        Ok(())
    }

    /// One pass. Passes do not overlap: a second one waits for the first.
    pub(crate) async fn compact(&self) -> Result<CompactionReport, CompactError> {
        let _alone = self.compacting.lock().await;
        let mut report = CompactionReport::default();
        for group in plan::set_groups(&self.stream_sets().await?, &self.config.compaction) {
            self.compact_group(Kind::StreamSet, group, &mut report)
                .await?;
        }
        let mut after = None;
        while !report.more {
            let page = self.meta.stream_summaries(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.stream);
            for summary in page.iter().filter(|summary| summary.stream_objects > 0) {
                self.compact_stream(summary.stream, summary.start, &mut report)
                    .await?;
            }
        }
        Ok(report)
    }

    async fn stream_sets(&self) -> Result<Vec<StreamSetSummary>, CompactError> {
        let mut sets = Vec::new();
        while sets.len() < SETS_EXAMINED_MAX {
            let after = sets.last().map(|set: &StreamSetSummary| set.object);
            let page = self.meta.stream_sets(after, PAGE).await?;
            if page.is_empty() {
                break;
            }
            sets.extend(page);
        }
        Ok(sets)
    }

    async fn compact_stream(
        &self,
        stream: StreamId,
        start: Offset,
        report: &mut CompactionReport,
    ) -> Result<(), CompactError> {
        let mut from = start;
        loop {
            let ranges = self.meta.objects_of(stream, from, PAGE).await?;
            let Some(last) = ranges.last() else {
                return Ok(());
            };
            from = last.range.end;
            for group in plan::stream_groups(&ranges, start, &self.config.compaction) {
                self.compact_group(Kind::Stream, group, report).await?;
            }
        }
    }

    /// Compacts one group, unless the pass has done enough. Only what concerns every group is an error.
    async fn compact_group(
        &self,
        kind: Kind,
        group: Group,
        report: &mut CompactionReport,
    ) -> Result<(), CompactError> {
        self.check_compacting()?;
        if report.groups + report.failed >= self.config.compaction.groups_per_pass_max {
            report.more = true;
            return Ok(());
        }
        let measures = &self.measures.compaction;
        let running = measures.begin();
        let started = self.clock.now();
        let replaced = self.replace(kind, &group).await;
        drop(running);
        match replaced {
            Ok(None) => {}
            Ok(Some(moved)) => {
                let took = self.clock.now().saturating_sub(started);
                measures.done(kind, group.len() as u64, &moved, took);
                report.add(group.len() as u64, &moved);
            }
            Err(error) if error.is_fenced() || matches!(error, CompactError::Closing) => {
                return Err(error);
            }
            Err(error) => {
                report.failed += 1;
                let superseded = error.is_superseded();
                measures.failed(kind, superseded);
                let cause = &error as &dyn std::error::Error;
                if superseded {
                    tracing::debug!(cause, ?group, "objects changed under a compaction");
                } else {
                    tracing::warn!(error = cause, ?group, "a compaction failed; trying later");
                }
            }
        }
        Ok(())
    }

    /// Replaces a group. `None` where there was nothing to gain.
    async fn replace(&self, kind: Kind, group: &Group) -> Result<Option<Moved>, CompactError> {
        let contents = within_bounds(self.meta.object_contents(group).await?);
        if contents.is_empty() {
            return Ok(None);
        }
        let split = match kind {
            Kind::StreamSet => Some(self.config.stream_object_split_bytes),
            Kind::Stream => None,
        };
        let alone = contents.len() == 1;
        let merge = Merge::plan(self, contents, split).await?;
        let wanted_percent = merge.wanted_bytes().saturating_mul(100) / merge.input_bytes().max(1);
        if alone && wanted_percent > REWRITE_WANTED_PERCENT_MAX {
            return Ok(None);
        }
        let outputs = u32::try_from(merge.outputs()).unwrap_or(u32::MAX);
        let first = self.meta.reserve_objects(self.node_epoch, outputs).await?;
        let replaced = self.write_and_commit(merge, first).await;
        if replaced.is_err() {
            // Those that were committed after all are left as they are.
            let ids: Vec<ObjectId> = (first.get()..first.get() + u64::from(outputs))
                .map(ObjectId)
                .collect();
            if let Err(error) = self.meta.release_objects(self.node_epoch, &ids).await {
                tracing::debug!(%error, "unused object ids stay until the next start");
            }
        }
        replaced.map(Some)
    }

    async fn write_and_commit(&self, merge: Merge, first: ObjectId) -> Result<Moved, CompactError> {
        let (compaction, moved) = merge.write(self, first).await?;
        self.check_compacting()?;
        self.commit_compaction(compaction).await?;
        Ok(moved)
    }

    async fn commit_compaction(&self, compaction: Compaction) -> Result<(), CompactionError> {
        let mut pause = self.config.retry_pause_min;
        for _ in 1..COMMIT_TRIES {
            match self.meta.commit_compaction(compaction.clone()).await {
                Err(CompactionError::Store(error)) => {
                    tracing::warn!(%error, "metadata failed; committing the compaction again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(self.config.retry_pause_max);
                }
                settled => return settled,
            }
        }
        self.meta.commit_compaction(compaction).await
    }
}

/// As many of the inputs as have no more ranges than one group may have; one at least.
fn within_bounds(mut contents: Vec<ObjectContents>) -> Vec<ObjectContents> {
    let mut ranges = 0;
    let exceeds = |object: &ObjectContents| {
        let first = ranges == 0;
        ranges += object.live.len();
        !first && ranges > RANGES_MAX
    };
    let fits = contents.iter().position(exceeds);
    contents.truncate(fits.unwrap_or(contents.len()));
    contents
}

impl CompactionReport {
    fn add(&mut self, inputs: u64, moved: &Moved) {
        self.groups += 1;
        self.inputs += inputs;
        self.outputs += moved.outputs;
        self.input_bytes += moved.input_bytes;
        self.output_bytes += moved.output_bytes;
        self.copied_bytes += moved.copied_bytes;
    }
}

impl CompactionMeasures {
    fn done(&self, kind: Kind, inputs: u64, moved: &Moved, took: Duration) {
        let kind = self.of(kind);
        kind.done.increment(1);
        kind.input_objects.increment(inputs);
        kind.output_objects.increment(moved.outputs);
        kind.input_bytes.increment(moved.input_bytes);
        kind.output_bytes.increment(moved.output_bytes);
        kind.copied_bytes.increment(moved.copied_bytes);
        kind.seconds.record(took.as_secs_f64());
    }

    fn failed(&self, kind: Kind, superseded: bool) {
        let kind = self.of(kind);
        let counter = if superseded {
            &kind.superseded
        } else {
            &kind.failed
        };
        counter.increment(1);
    }
}

#[cfg(test)]
mod tests {
    use millrace_meta::{LiveRange, ObjectKind};
    use millrace_model::StreamRange;

    use super::*;

    #[test]
    fn a_group_of_very_many_ranges_is_made_smaller() {
        let range = StreamRange {
            stream: StreamId(1),
            start: 0,
            end: 1,
        };
        let live = LiveRange {
            range,
            readable_from: 0,
        };
        let object = |ranges: usize| ObjectContents {
            object: ObjectId(1),
            kind: ObjectKind::StreamSet,
            size: 1,
            live: vec![live; ranges],
        };
        let left = |ranges: &[usize]| {
            let contents = ranges.iter().map(|&ranges| object(ranges));
            within_bounds(contents.collect()).len()
        };
        assert_eq!(left(&[]), 0);
        assert_eq!(left(&[RANGES_MAX + 1, 1]), 1);
        assert_eq!(left(&[RANGES_MAX / 2, RANGES_MAX / 2, 1]), 2);
        assert_eq!(left(&[1, 1, 1]), 3);
    }
}
