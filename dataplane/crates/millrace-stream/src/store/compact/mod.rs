//! Compaction: few large objects in place of many small ones, and nothing that is dead.
//!
//! What it does, one group of objects after the other:
//! - *stream-set objects* of about one size are merged into one; a stream with much in them gets objects
//!   of its own;
//! - small *stream objects* that lie side by side in their stream are merged, by the store itself
//!   where it can copy;
//! - an object of which most is dead is rewritten without that.
//!
//! What it guarantees:
//! - Outputs hold, of each stream, exactly the offsets that the inputs hold and that are not trimmed;
//!   the metadata refuses anything else, and replaces the former by the latter at one moment. Blocks
//!   are moved as they stand, so entries and checksums are the same bytes.
//! - Every byte that passes through this process is checked. A group that holds a corrupt object is left
//!   as it is and reported. Bytes that the store copies by itself are not seen here; their checksums go
//!   with them, so a read finds out.
//! - Readers never notice: an input stays in the bucket for as long as a read may take.
//! - A crash at any point leaves either the inputs or the outputs. Ids that were reserved and not
//!   committed are retired at the next start, and with them whatever was written under them. There is
//!   nothing to resume: the next pass finds the same group again.
//! - It does not hold up uploads: it reserves its own ids, touches no stream's end, and everything
//!   that it reads and writes has the tier of compaction.
//! - It takes at most [`COMPACTION_BYTES_MAX`] of memory: one group at a time.

mod merge;
mod select;

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use millrace_meta::{
    Compaction, CompactionError, ObjectContents, ReserveError, StoreFailure, StreamSetSummary,
    StreamSummary,
};
use millrace_model::{Classified, FailureClass, ObjectId, Offset, StreamId};
use millrace_objects::{AssemblyError, ReadError};

pub use self::merge::COMPACTION_BYTES_MAX;
use self::{
    merge::{Merge, Moved},
    select::Group,
};
use super::StoreInner;
use crate::metrics::CompactionMetrics;

/// Stream-set objects that one pass looks at: bounds its memory.
const SETS_EXAMINED_MAX: usize = 100_000;

/// What is asked of the metadata at once: bounds how long it is held up.
const PAGE: usize = 1_000;

/// A commit whose outcome is not known is asked again so often.
const COMMIT_TRIES: u32 = 5;

/// A pass that stopped at one of its bounds goes on after this long.
const GO_ON_AFTER: Duration = Duration::from_secs(1);

/// An object is not rewritten where, after all, more than this of it is wanted, percent: the
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
    /// Those of them that hold a corrupt object. Its group is left as it is, and the object is in no
    /// group until it reads well again.
    pub corrupt: u64,
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
    /// The pass stopped at one of its bounds, and there may be more to do.
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

impl Classified for CompactError {
    fn class(&self) -> FailureClass {
        match self {
            Self::Reserve(error) => error.class(),
            Self::Commit(error) => error.class(),
            Self::Meta(error) => error.class(),
            Self::Read(error) => error.class(),
            Self::Assembly(error) => error.class(),
            Self::Missing { .. } => FailureClass::Corrupt,
            Self::Closing => FailureClass::Gone,
        }
    }
}

/// Which objects a group has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    StreamSet,
    Stream,
}

/// Runs one pass of compaction at a time.
#[derive(Default)]
pub(super) struct Compactor {
    /// Held by the pass that is under way; the stream that the last one reached.
    reached: tokio::sync::Mutex<Option<StreamId>>,
    /// Held while objects are replaced, by a pass or by a rewrite: so both together take the memory of one.
    pub(super) turn: tokio::sync::Mutex<()>,
}

impl Compactor {
    /// Resolves when no pass is under way.
    pub(super) async fn idle(&self) {
        drop(self.reached.lock().await);
        drop(self.turn.lock().await);
    }
}

/// Compacts for ever, a pass at each interval.
pub(super) async fn run(store: Arc<StoreInner>) {
    let config = store.config.compaction.clone();
    if config.interval.is_zero() {
        return;
    }
    tokio::time::sleep(config.cool_down).await;
    loop {
        let more = match store.run_compaction().await {
            // Where nothing succeeds, going on at once would only add to the trouble.
            Ok(report) => report.more && report.groups > 0,
            Err(CompactError::Closing) => return,
            Err(error) if error.class() == FailureClass::Fenced => {
                store.failure.declare(error);
                return;
            }
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
    pub(super) fn check_compacting(&self) -> Result<(), CompactError> {
        let ends = self.closing.load(Ordering::Acquire) || self.failure.reason().is_some();
        if ends {
            return Err(CompactError::Closing);
        }
        Ok(())
    }

    /// One pass. Passes do not overlap: a second one waits for the first.
    pub(super) async fn run_compaction(&self) -> Result<CompactionReport, CompactError> {
        let mut reached = self.compact.reached.lock().await;
        let groups_max = self.config.compaction.groups_per_pass_max;
        let mut pass = Pass {
            groups_left: groups_max,
            ..Pass::default()
        };
        let (corrupt, share) = (self.corrupt_objects(), self.share.get());
        let mut sets = self.stream_sets().await?;
        sets.retain(|set| share.has(set.object.get()) && !corrupt.contains(&set.object));
        for group in select::set_groups(&sets, &self.config.compaction) {
            if !self
                .compact_group(Kind::StreamSet, group, &mut pass)
                .await?
            {
                break;
            }
        }
        // Each kind has its own bound, so that neither waits for the other to have nothing to do.
        pass.groups_left = groups_max;
        self.compact_streams(&mut reached, &mut pass).await?;
        Ok(pass.report)
    }

    /// All streams in a ring, beginning behind the one that the last pass reached: so each gets its turn
    /// where one pass is not enough for all.
    async fn compact_streams(
        &self,
        reached: &mut Option<StreamId>,
        pass: &mut Pass,
    ) -> Result<(), CompactError> {
        let until = *reached;
        let mut from_the_first = until.is_none();
        loop {
            let page = self.meta.stream_summaries(*reached, PAGE).await?;
            if page.is_empty() {
                *reached = None;
                if from_the_first {
                    return Ok(());
                }
                from_the_first = true;
                continue;
            }
            for summary in page {
                if from_the_first && until.is_some_and(|until| summary.stream > until) {
                    *reached = None;
                    return Ok(());
                }
                let (before, groups_left) = (*reached, pass.groups_left);
                *reached = Some(summary.stream);
                if !self.compact_stream(&summary, pass).await? {
                    if groups_left == 0 {
                        // It has not had its turn.
                        *reached = before;
                    }
                    return Ok(());
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Objects that are known to be corrupt: they are left alone, so that whoever restores them finds
    /// them where they were, and no pass reads them in vain.
    fn corrupt_objects(&self) -> HashSet<ObjectId> {
        let parts = self.background.corrupt().parts().into_iter();
        parts.filter_map(|part| part.key.object_id()).collect()
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

    /// `false` where the pass has done enough.
    async fn compact_stream(
        &self,
        summary: &StreamSummary,
        pass: &mut Pass,
    ) -> Result<bool, CompactError> {
        let StreamSummary { stream, start, .. } = *summary;
        if summary.stream_objects == 0 || !self.share.get().has(stream.get()) {
            return Ok(true);
        }
        let mut from = start;
        loop {
            // What is in memory is answered at once, and others may want the processor.
            tokio::task::yield_now().await;
            let mut ranges = self.meta.objects_of(stream, from, PAGE).await?;
            let Some(last) = ranges.last() else {
                return Ok(true);
            };
            from = last.range.end;
            let corrupt = self.corrupt_objects();
            ranges.retain(|range| !corrupt.contains(&range.object));
            for group in select::stream_groups(&ranges, start, &self.config.compaction) {
                if !self.compact_group(Kind::Stream, group, pass).await? {
                    return Ok(false);
                }
            }
        }
    }

    /// Compacts one group; `false` where the pass has done enough. Only what concerns every group is
    /// an error.
    async fn compact_group(
        &self,
        kind: Kind,
        group: Group,
        pass: &mut Pass,
    ) -> Result<bool, CompactError> {
        self.check_compacting()?;
        if pass.groups_left == 0 {
            pass.report.more = true;
            return Ok(false);
        }
        let metrics = &self.metrics.compaction;
        let running = metrics.begin();
        let turn = self.compact.turn.lock().await;
        let started = self.clock.now();
        let replaced = self.replace(kind, &group).await;
        drop((turn, running));
        match replaced {
            Ok(None) => {}
            Ok(Some(moved)) => {
                let took = self.clock.now().saturating_sub(started);
                metrics.done(kind, &moved, took);
                pass.groups_left -= 1;
                pass.report.add(&moved);
            }
            Err(CompactError::Closing) => return Err(CompactError::Closing),
            Err(error) if error.class() == FailureClass::Fenced => return Err(error),
            Err(error) => {
                pass.groups_left -= 1;
                pass.report.failed += 1;
                metrics.failed(kind, error.class());
                let cause = &error as &dyn std::error::Error;
                match error.class() {
                    FailureClass::Gone => {
                        tracing::debug!(cause, ?group, "objects changed under a compaction");
                    }
                    FailureClass::Corrupt => {
                        pass.report.corrupt += 1;
                        tracing::error!(
                            error = cause,
                            ?group,
                            "not compacted: an object is corrupt"
                        );
                    }
                    _ => tracing::warn!(error = cause, ?group, "a compaction failed; trying later"),
                }
            }
        }
        Ok(true)
    }

    /// Replaces a group. `None` where there was nothing to gain.
    async fn replace(&self, kind: Kind, group: &Group) -> Result<Option<Moved>, CompactError> {
        let contents = self.contents(group).await?;
        if contents.is_empty() {
            return Ok(None);
        }
        let split = match kind {
            Kind::StreamSet => Some(self.config.stream_object_split_bytes),
            Kind::Stream => None,
        };
        let alone = contents.len() == 1;
        let merge = Merge::prepare(self, contents, split, &BTreeSet::new()).await?;
        let wanted_percent = merge.wanted_bytes().saturating_mul(100) / merge.input_bytes().max(1);
        if alone && wanted_percent > REWRITE_WANTED_PERCENT_MAX {
            return Ok(None);
        }
        self.carry_out(merge).await.map(Some)
    }

    /// Gives the streams `apart` objects of their own in place of their parts of stream-set objects. What else those hold goes to
    /// another stream-set object.
    pub(super) async fn split_sets(
        &self,
        sets: &[ObjectId],
        apart: &BTreeSet<StreamId>,
    ) -> Result<(), CompactError> {
        let _turn = self.compact.turn.lock().await;
        self.check_compacting()?;
        let contents = self.contents(sets).await?;
        if contents.is_empty() {
            return Ok(());
        }
        let split = Some(self.config.stream_object_split_bytes);
        let merge = Merge::prepare(self, contents, split, apart).await?;
        self.carry_out(merge).await.map(|_| ())
    }

    async fn carry_out(&self, merge: Merge) -> Result<Moved, CompactError> {
        let outputs = u32::try_from(merge.outputs()).unwrap_or(u32::MAX);
        let first = self.meta.reserve_objects(self.node_epoch, outputs).await?;
        let replaced = self.write_and_commit(merge, first).await;
        if replaced.is_err() {
            let ids = (first.get()..first.get() + u64::from(outputs)).map(ObjectId);
            self.release(&ids.collect::<Vec<_>>()).await;
        }
        replaced
    }

    /// Gives back the ids of objects that are not needed. Those that were committed after all are left as they are.
    pub(super) async fn release(&self, ids: &[ObjectId]) {
        if let Err(error) = self.meta.release_objects(self.node_epoch, ids).await {
            tracing::debug!(%error, "unused object ids stay until the next start");
        }
    }

    /// What of the objects can be read: as many of them as have no more ranges than one group may
    /// have, one at least. They are not asked at one moment: what is trimmed in between is found out
    /// when the outputs are committed.
    async fn contents(&self, group: &[ObjectId]) -> Result<Vec<ObjectContents>, StoreFailure> {
        let (mut contents, mut ranges): (Vec<ObjectContents>, usize) = (Vec::new(), 0);
        for &object in group {
            let Some(found) = self.meta.object_contents(object).await? else {
                continue;
            };
            ranges += found.live.len();
            if ranges > self.config.compaction.ranges_max && !contents.is_empty() {
                break;
            }
            contents.push(found);
        }
        Ok(contents)
    }

    async fn write_and_commit(&self, merge: Merge, first: ObjectId) -> Result<Moved, CompactError> {
        let (compaction, moved) = merge.write(self, first).await?;
        self.check_compacting()?;
        self.commit_compaction(compaction).await?;
        Ok(moved)
    }

    pub(super) async fn commit_compaction(
        &self,
        compaction: Compaction,
    ) -> Result<(), CompactionError> {
        let mut pause = self.config.retry_pause_min;
        for _ in 1..COMMIT_TRIES {
            match self.meta.commit_compaction(compaction.clone()).await {
                Err(error) if error.class().is_transient() => {
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

/// A pass that is under way.
#[derive(Default)]
struct Pass {
    report: CompactionReport,
    /// Groups of the present kind that it may still try.
    groups_left: u64,
}

impl CompactionReport {
    fn add(&mut self, moved: &Moved) {
        self.groups += 1;
        self.inputs += moved.inputs;
        self.outputs += moved.outputs;
        self.input_bytes += moved.input_bytes;
        self.output_bytes += moved.output_bytes;
        self.copied_bytes += moved.copied_bytes;
    }
}

impl CompactionMetrics {
    fn done(&self, kind: Kind, moved: &Moved, took: Duration) {
        let kind = self.of(kind);
        kind.done.increment(1);
        kind.input_objects.increment(moved.inputs);
        kind.output_objects.increment(moved.outputs);
        kind.input_bytes.increment(moved.input_bytes);
        kind.output_bytes.increment(moved.output_bytes);
        kind.copied_bytes.increment(moved.copied_bytes);
        kind.seconds.record(took.as_secs_f64());
    }

    fn failed(&self, kind: Kind, class: FailureClass) {
        let kind = self.of(kind);
        let counter = match class {
            FailureClass::Gone => &kind.superseded,
            FailureClass::Corrupt => &kind.corrupt,
            _ => &kind.failed,
        };
        counter.increment(1);
    }
}
