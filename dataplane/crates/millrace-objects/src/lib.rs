//! Object formats, key naming, readers, writers and decorators over the object store. Knows nothing
//! of Kafka.
//!
//! The seam is [`Bucket`]: write (whole or in parts), read, delete and list, one implementation per
//! kind of store, and decorators that wrap any of them (retry, timeout, measure, idempotent and
//! hedged writes). [`ObjectStorage`] is the stack that the broker uses, [`ObjectWrite`] an object on
//! its way through it. [`Chain`] is a node's metadata backup in the bucket. [`ObjectBuilder`] and [`ObjectReader`] speak the format that FORMAT.md
//! draws. This is the only crate that names `object_store`.

mod assembly;
mod bucket;
mod builder;
mod chain;
mod class;
mod corrupt;
mod entry;
mod format;
mod key;
mod reader;
mod storage;
mod write;

pub use assembly::{ASSEMBLY_BYTES_MAX, Assembled, AssemblyError, ObjectAssembly};
pub use bucket::{
    Body, Bucket, BucketCalls, BucketError, BucketLayer, BucketUri, DELETE_KEYS_MAX, Gate,
    InvalidUri, Listed, NetworkShare, PartSlot, PartTag, ReadsApart, RetryPolicy, Source,
    StoreBucket, TimeoutPolicy, UploadId,
};
pub use builder::{Built, InvalidEntry, ObjectBuilder};
pub use chain::{
    CHAIN_BODY_BYTES_MAX, Chain, ChainOwner, ChainWriter, ClaimError, CorruptItem, Draft, Item,
    ItemHeader, ItemKind, ListedItem, NextItem, PutItemError, ReadItemError, SealedItem,
    SnapshotPart, Tail, Watermark,
};
pub use corrupt::{CorruptKind, CorruptObjects, CorruptPart};
pub use entry::StreamEntry;
pub use format::{BlockRef, Corrupt};
pub use key::ObjectKey;
pub use reader::{ObjectReader, ReadError};
pub use storage::{
    AdmittedRead, DeleteError, GetError, ListError, ObjectStorage, OpenError, PutError,
};
pub use write::ObjectWrite;
