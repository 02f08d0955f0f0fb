//! Objects: prepared (an id is given out), committed (its ranges count), retired (to be deleted).

use millrace_model::{NodeEpoch, ObjectId, Offset, StreamId, StreamRange};

use crate::{Fenced, StoreFailure};

/// What kind of object holds a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// Ranges of several streams, as one upload found them.
    StreamSet,
    /// One stream only.
    Stream,
}

/// What one upload adds. It takes effect whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// The start of the node that uploads.
    pub node_epoch: NodeEpoch,
    /// The object of the small streams.
    pub stream_set: Option<StreamSetObject>,
    /// The objects of the large streams.
    pub stream_objects: Vec<StreamObject>,
}

/// An object with ranges of several streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSetObject {
    /// Its reserved id.
    pub id: ObjectId,
    /// Its bytes.
    pub size: u64,
    /// What it holds.
    pub ranges: Vec<StreamRange>,
}

/// An object with one stream's range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamObject {
    /// Its reserved id.
    pub id: ObjectId,
    /// Its bytes.
    pub size: u64,
    /// What it holds.
    pub range: StreamRange,
}

/// One stream's range in one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectRange {
    /// The object.
    pub object: ObjectId,
    /// The object's bytes.
    pub size: u64,
    /// The stream's offsets in it.
    pub range: StreamRange,
    /// The object's kind.
    pub kind: ObjectKind,
}

/// Why no ids were given out.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// The caller has been replaced: stop.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// Too many at once.
    #[error("{asked} object ids were asked for at once, at most {max} are given")]
    TooMany {
        /// How many were asked for.
        asked: u32,
        /// How many are given at once.
        max: u32,
    },
    /// The store failed; try again.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

/// Why an upload was not committed. Then nothing of it was.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The uploader has been replaced: stop.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// The uploader has not opened the stream, or another has since.
    #[error("stream {0} is not open under this node epoch")]
    NotOwner(StreamId),
    /// The range does not begin where the stream ends: a commit was left out or came twice.
    #[error("stream {stream} ends at {expected}, the upload continues at {got}")]
    Discontinuous {
        /// The stream.
        stream: StreamId,
        /// Where the stream ends.
        expected: Offset,
        /// Where the range begins.
        got: Offset,
    },
    /// The id was not reserved under this node epoch, or is committed with other contents.
    #[error("object {0} is not reserved under this node epoch")]
    NotPrepared(ObjectId),
    /// The stream's id was never given out.
    #[error("there never was a stream {0}")]
    UnknownStream(StreamId),
    /// A range without offsets, or an object without ranges.
    #[error("object {0} has an empty range or none")]
    EmptyRange(ObjectId),
    /// The store failed. It may be committed or not; committing the same upload again is right.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

/// Why retired objects were not listed or forgotten.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The caller has been replaced: delete nothing more.
    #[error(transparent)]
    Fenced(#[from] Fenced),
    /// The store failed; try again.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}
