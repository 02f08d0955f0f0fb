//! The byte layout of an object; FORMAT.md draws it. Numbers are big-endian.
//!
//! Every byte of an object is in exactly one checksummed part (a block, the index, the footer), and
//! the parts join without gaps, so every flipped byte is detected.

mod block;
mod cursor;
mod footer;
mod index;

pub(crate) use block::{
    BLOCK_HEADER_BYTES, ENTRY_HEADER_BYTES, block_header, check_block, decode_block, entry_header,
};
pub(crate) use footer::{FOOTER_BYTES, Footer};
pub use index::BlockRef;
pub(crate) use index::{INDEX_UNIT_BYTES, decode_index, encode_index};

/// Why bytes are not a sound object. Always a fault of the store or of its transport: report it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Corrupt {
    /// A part is shorter than its layout needs.
    #[error("the {part} is cut off")]
    CutOff {
        /// `footer`, `index`, `block` or `entry`.
        part: &'static str,
    },
    /// A part does not begin (or end) with its magic number.
    #[error("the {part} has the wrong magic number")]
    Magic {
        /// `footer` or `block`.
        part: &'static str,
    },
    /// A part was changed after it was written.
    #[error("the {part}'s checksum is {stored:#010x}, its bytes give {computed:#010x}")]
    Checksum {
        /// `footer`, `index` or `block`.
        part: &'static str,
        /// The CRC32C in the object.
        stored: u32,
        /// The CRC32C of the bytes.
        computed: u32,
    },
    /// A part is of a version or has a flag that this broker does not know.
    #[error("the {part} is of version {version}, this broker reads version 1")]
    Version {
        /// `footer` or `block`.
        part: &'static str,
        /// The version found.
        version: u16,
    },
    /// The parts are sound one by one but do not agree with each other.
    #[error("the object contradicts itself: {what}")]
    Contradiction {
        /// What does not fit.
        what: &'static str,
    },
}
