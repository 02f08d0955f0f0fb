//! The log cache: everything that was appended and not yet evicted, of all streams.
//!
//! Appends go to the open [`Block`]; a sealed block is uploaded, and stays readable afterwards until
//! its room is needed. Blocks are uploaded, committed and evicted in the order in which they were
//! opened, so what is in memory of one stream ([`CachedRun`]) is always the run that ends at its next
//! offset. Every entry is charged to a [`Budget`] for what it keeps in memory ([`entry_cost`]). A
//! payload is mostly cut from a larger buffer, such as the frame that a connection read, and would keep
//! all of that: so one that is not nearly all of its buffer is copied ([`is_kept`]).
//!
//! The log has every payload until it is committed. Where memory is short, the payloads of blocks
//! that still wait for their upload are left to it ([`SealedBlock::offload`]) and read back for the
//! upload or for a reader; what recovery finds is there from the beginning. Then an entry costs
//! [`PLACE_BYTES`].

mod block;
mod index;
mod sealed;

pub(crate) use block::{Block, Durability, Placed};
pub(crate) use index::{CachedEntry, CachedRun};
pub(crate) use sealed::{Contents, LocatedEntry, Places, SealedBlock};

/// Charged for every entry on top of its payload, in bytes: its two index entries, the handles to
/// its bytes, its ticket and its record's header in the log come to about 400 bytes, so that many
/// tiny entries cannot outgrow the budget.
const ENTRY_OVERHEAD_BYTES: u64 = 512;

/// The most that a buffer may have beside a payload that is kept in it, bytes: the header of a request
/// of one batch, with names of ordinary length. Charged for every payload that is not copied.
const BESIDE_BYTES_MAX: usize = 512;

/// Payloads below this many bytes are copied in any case: what is beside them in their buffer would
/// cost more than the copy.
const COPY_BELOW_BYTES: usize = 4 * 1024;

/// The most that an entry costs on top of its payload, bytes.
pub(crate) const ENTRY_BESIDE_BYTES_MAX: u64 = ENTRY_OVERHEAD_BYTES + BESIDE_BYTES_MAX as u64;

/// Whether a payload of `bytes` stays where it is, in a buffer of `buffer_bytes`.
pub(crate) const fn is_kept(bytes: usize, buffer_bytes: usize) -> bool {
    bytes >= COPY_BELOW_BYTES && buffer_bytes <= bytes + BESIDE_BYTES_MAX
}

/// What an entry of so many bytes of payload costs the cache.
pub(crate) const fn entry_cost(bytes: usize) -> u64 {
    let beside = if bytes >= COPY_BELOW_BYTES {
        ENTRY_BESIDE_BYTES_MAX
    } else {
        ENTRY_OVERHEAD_BYTES
    };
    bytes as u64 + beside
}

/// Charged for an entry whose payload is left to the log, in bytes: its places in its stream's run
/// and in its block are about 150.
pub(crate) const PLACE_BYTES: u64 = 192;
