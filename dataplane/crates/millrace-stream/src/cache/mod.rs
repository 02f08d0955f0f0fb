//! The log cache: everything that was appended and not yet evicted, of all streams.
//!
//! Appends go to the open [`Block`]; a sealed block is uploaded, and stays readable afterwards until
//! its room is needed. Blocks are uploaded, committed and evicted in the order in which they were
//! opened, so what is in memory of one stream ([`CachedRun`]) is always the run that ends at its next
//! offset. Every entry is charged to a [`Budget`] with [`ENTRY_OVERHEAD_BYTES`] on top.
//!
//! The log has every payload until it is committed. Where memory is short, the payloads of blocks
//! that still wait for their upload are left to it ([`SealedBlock::offload`]) and read back for the
//! upload or for a reader; what recovery finds is there from the beginning. Then an entry costs
//! [`PLACE_BYTES`].

mod block;
mod budget;
mod index;
mod sealed;

pub(crate) use block::{Block, Durability, Placed};
pub(crate) use budget::{Admission, Budget, Charge};
pub(crate) use index::{CachedEntry, CachedRun};
pub(crate) use sealed::{Contents, LocatedEntry, Places, SealedBlock};

/// Charged for every entry on top of its payload, in bytes: its two index entries, the handles to
/// its bytes, its ticket and its record's header in the log come to about 400 bytes, so that many
/// tiny entries cannot outgrow the budget.
pub(crate) const ENTRY_OVERHEAD_BYTES: u64 = 512;

/// Charged for an entry whose payload is left to the log, in bytes: its places in its stream's run
/// and in its block are about 150.
pub(crate) const PLACE_BYTES: u64 = 192;
