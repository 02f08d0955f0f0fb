//! The layout of the device, byte by byte. All numbers are little-endian.
//!
//! ```text
//! 0 ─ header slot A, 64 KiB ─ header slot B, 64 KiB ─ ring of whole 4 KiB blocks ─ capacity
//! ```
//!
//! A **position** counts bytes of the ring, lap after lap, since the device was formatted. No
//! position is ever written twice. Position `p` lies at byte `128 KiB + p mod ring`.
//!
//! - [`sector`]: 512-byte sectors, each closed by a tag that says which position it was written for
//! - [`chunk`]: what one write of the log carries: a header and whole records
//! - [`header`]: the two header slots

pub(crate) mod chunk;
pub(crate) mod header;
pub(crate) mod sector;

pub use chunk::RECORD_HEAD_BYTES;

/// The unit of all device I/O, in bytes: the page of a cloud volume and of O_DIRECT.
pub const BLOCK_BYTES: u32 = 4096;

/// Bytes of one header slot: room for 4,000 extents, far more than crashes between two uploads.
pub(crate) const HEADER_SLOT_BYTES: u64 = 64 * 1024;

/// Where the ring starts.
pub(crate) const RING_START: u64 = 2 * HEADER_SLOT_BYTES;

/// [`BLOCK_BYTES`] for 64-bit arithmetic.
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;

/// The end of the block that ends at or after `n`.
pub(crate) const fn block_up(n: u64) -> u64 {
    n.next_multiple_of(BLOCK)
}

/// Takes fixed-width numbers off foreign bytes.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }
}
