//! Object formats, key naming, readers, writers and decorators over the object store. Knows nothing
//! of Kafka.
//!
//! The seam is [`bucket::Bucket`]: write (whole or in parts), read, delete and list, one implementation
//! per kind of store, and decorators that wrap any of them (retry, timeout, metrics, idempotent and
//! hedged writes). [`ObjectStorage`] is the stack that the broker uses, [`ObjectWrite`] an object on
//! its way through it. [`chain`] is a node's metadata backup in the bucket. [`ObjectBuilder`] and
//! [`ObjectReader`] speak the format that FORMAT.md draws. This is the only crate that names
//! `object_store`.

mod assembly;
pub mod bucket;
mod builder;
pub mod chain;
mod class;
mod corrupt;
mod entry;
mod format;
mod key;
mod reader;
mod storage;
mod write;

pub use assembly::{ASSEMBLY_BYTES_MAX, Assembled, AssemblyError, ObjectAssembly};
pub use bucket::Listed;
pub use builder::{Built, InvalidEntry, ObjectBuilder};
pub use corrupt::{CorruptKind, CorruptPart};
pub use entry::StreamEntry;
pub use format::{BlockRef, Corrupt};
pub use key::ObjectKey;
pub use reader::{ObjectReader, ReadError};
pub use storage::{GetError, ListError, ObjectStorage, OpenError, PutError};
pub use write::ObjectWrite;
