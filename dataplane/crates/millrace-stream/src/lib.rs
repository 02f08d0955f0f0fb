//! Ordered streams on a write-ahead log and a bucket: append, fetch, trim.
//!
//! An entry is (stream, base offset, count, opaque bytes). Its way:
//!
//! ```text
//! reserve ── append ──┬── write-ahead log ──► durable ──► acknowledged, in the stream's order
//!                     └── log cache: open block ── sealed ── uploaded ── committed ── evicted
//!                                                                        └► log trimmed
//! ```
//!
//! What holds at every instant, crash or not:
//! - The *confirm offset* of a stream moves only over entries that are durable, in order. Nothing
//!   at or above it is ever read.
//! - An entry leaves the store only after the metadata says in which object it is. Until then its
//!   payload is in memory or, where that is short or the process was restarted, in the log alone.
//! - The log is trimmed only over entries that are committed.
//! - Whatever was acknowledged is found again by recovery (the rule is in `recovery`).
//!
//! | module | what it holds |
//! |---|---|
//! | `stream` | the handle of one stream |
//! | `committed` | a stream as far as it is in objects, whoever owns it |
//! | `state`, `acks` | one stream's state; the order of its acknowledgements |
//! | `store` | the store: append, upload, evict, compact, rewrite, trim |
//! | `cache` | the log cache: blocks, byte budget, what is in memory of a stream |
//! | `recovery` | which records of the log are owed to the streams |
//! | `entry` | an entry, and its form in the log |

mod acks;
mod cache;
mod committed;
mod config;
mod entry;
mod error;
mod failure;
mod metrics;
mod recovery;
mod share;
mod state;
mod store;
mod stream;

pub use acks::AppendTicket;
pub use committed::CommittedStream;
pub use config::{CompactionConfig, StreamConfig};
pub use entry::{Entry, EntryHeader, PayloadFacts};
pub use error::{AppendError, Bottleneck, FetchError, FlushError, OpenError, TrimError};
pub use recovery::{KeptRecords, RecoveredLog, RecoveryReport, Straddles};
pub use share::Share;
pub use store::{
    COMPACTION_BYTES_MAX, Closed, CompactError, EntryFilter, Outcome, Permit, RewriteError,
    RewriteGroup, Rewriter, Rewritten, StreamParts, StreamStore,
};
pub use stream::Stream;
