//! The log cache: everything that was appended and not yet evicted, of all streams.
//!
//! Appends go to the open [`Block`]; a sealed block is uploaded, and stays readable afterwards until
//! its room is needed. Blocks are uploaded, committed and evicted in the order in which they were
//! opened, so what is in memory of one stream ([`CachedRun`]) is always the run that ends at its next
//! offset. Every entry is charged to a [`Budget`] with [`ENTRY_OVERHEAD_BYTES`] on top.

mod block;
mod budget;
mod index;

pub(crate) use block::{Block, Durability, Placed};
pub(crate) use budget::{Admission, Budget, Charge};
pub(crate) use index::CachedRun;

/// Charged for every entry on top of its payload, in bytes: its two index entries, the handles to
/// its bytes, its ticket and its record's header in the log come to about 400 bytes, so that many
/// tiny entries cannot outgrow the budget.
pub(crate) const ENTRY_OVERHEAD_BYTES: u64 = 512;
