//! Compaction: committed objects are replaced by others that hold the same.

use millrace_model::{NodeEpoch, ObjectId, Offset, StreamId, StreamRange};

use crate::{Fenced, ObjectKind, StoreFailure, StreamObject, StreamSetObject};

/// What one compaction replaces. It takes effect whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// The start of the node that compacts.
    pub node_epoch: NodeEpoch,
    /// The objects that go away.
    pub inputs: Vec<ObjectId>,
    /// The new object of the small streams.
    pub stream_set: Option<StreamSetObject>,
    /// The new objects of one stream each.
    pub stream_objects: Vec<StreamObject>,
}

/// A committed stream-set object, in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSetSummary {
    /// The object.
    pub object: ObjectId,
    /// Its bytes.
    pub size: u64,
    /// Those of them that can still be read: an estimate, as if all its ranges had the same size.
    pub live_bytes: u64,
}

/// A stream whose objects may be worth a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSummary {
    /// The stream.
    pub stream: StreamId,
    /// The first offset that has not been trimmed.
    pub start: Offset,
    /// Its live objects that hold nothing else.
    pub stream_objects: usize,
}

/// What of an object can still be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectContents {
    /// The object.
    pub object: ObjectId,
    /// Its kind.
    pub kind: ObjectKind,
    /// Its bytes.
    pub size: u64,
    /// Its live ranges, in the order of (stream, start).
    pub live: Vec<LiveRange>,
}

/// A range of which at least the end can still be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveRange {
    /// The range as it was committed.
    pub range: StreamRange,
    /// Its first offset that has not been trimmed.
    pub readable_from: Offset,
}

/// Why a compaction was not committed. Then nothing of it was.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    /// The caller has been replaced: stop.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// An output's id was not reserved under this node epoch, or is committed with other contents.
    #[error("object {0} is not reserved under this node epoch")]
    NotPrepared(ObjectId),
    /// An input was never committed, or an object is input and output: a fault of the caller.
    #[error("object {0} is not one that can be replaced")]
    NotCommitted(ObjectId),
    /// A range without offsets, or an output without ranges.
    #[error("object {0} has an empty range or none")]
    EmptyRange(ObjectId),
    /// The stream's id was never given out.
    #[error("there never was a stream {0}")]
    UnknownStream(StreamId),
    /// From this offset on, the outputs do not hold exactly what the inputs hold: something would be
    /// lost or would be there twice. The inputs may have been replaced already.
    #[error("inputs and outputs differ in stream {stream} from offset {offset} on")]
    Differs {
        /// The stream.
        stream: StreamId,
        /// The first offset that only one side holds, or that the outputs hold twice.
        offset: Offset,
    },
    /// The store failed. It may be committed or not; committing the same compaction again is right.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}
