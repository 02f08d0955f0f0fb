//! A stream with a damaged record in the log is *halted*: a stream in objects has no gap, so nothing behind
//! the record can be uploaded. The stream takes no more appends and is not read, and the log is not trimmed
//! beyond the first of its records that are not in objects, so that a volume that is restored has them all.
//! All other streams go on, for as long as the log has room.
//!
//! A stream is halted where the block with the damaged record is committed, and blocks are committed in order.
//! So every block before it has the stream, and no block after it does. The next start finds the
//! record again, or a sound one.

use millrace_meta::Upload;
use millrace_model::{Cause, StreamId};

use super::{StoreInner, read_back::DamagedRun};

impl StoreInner {
    /// Halts the stream of a damaged record, unless it was deleted.
    pub(super) fn halt(&self, run: DamagedRun) {
        let DamagedRun { record, wal_start } = run;
        self.report_damaged(&record);
        // Held to the end: a deletion that follows finds the log held, and lets it go.
        let streams = self.streams.read();
        if let Some(state) = streams.get(&record.stream) {
            self.log_trims.hold(record.stream, wal_start);
            state.halt(Cause::new(record));
        }
    }

    /// Whether a stream's entries are to be uploaded: it was not deleted and is not halted. Every stream
    /// that has entries is open.
    pub(super) fn is_wanted(&self, id: StreamId) -> bool {
        let streams = self.streams.read();
        streams
            .get(&id)
            .is_some_and(|state| state.halted().is_none())
    }

    /// What is to be committed of an upload that was written when some of its streams were not halted yet.
    /// Bytes that nothing refers to stay in its objects.
    pub(super) fn without_halted(&self, mut upload: Upload) -> Option<Upload> {
        let is_halted = |id: StreamId| {
            let streams = self.streams.read();
            streams
                .get(&id)
                .is_some_and(|state| state.halted().is_some())
        };
        let objects = &mut upload.stream_objects;
        objects.retain(|object| !is_halted(object.range.stream));
        if let Some(set) = &mut upload.stream_set {
            set.ranges.retain(|range| !is_halted(range.stream));
        }
        upload.stream_set.take_if(|set| set.ranges.is_empty());
        let is_empty = upload.stream_set.is_none() && upload.stream_objects.is_empty();
        (!is_empty).then_some(upload)
    }
}
