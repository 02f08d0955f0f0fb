//! The footer: the last bytes of an object, with the position of its index.

use super::{Corrupt, INDEX_UNIT_BYTES, cursor::Cursor};

/// index position 8 | index length 8 | block count 4 | version 2 | flags 2 | CRC32C 4 | magic 8.
pub(crate) const FOOTER_BYTES: usize = 36;

/// "MILLRACE" in ASCII.
const MAGIC: u64 = 0x4d49_4c4c_5241_4345;
const VERSION: u16 = 1;
/// Where the checksum stands; the bytes before it are covered by it.
const CRC_AT: usize = 24;

/// Where the index stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    /// The index's first byte in the object.
    pub(crate) index_position: u64,
    /// The index's bytes, checksum included.
    pub(crate) index_len: u64,
    /// The index's units.
    pub(crate) blocks: u32,
}

impl Footer {
    pub(crate) fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut footer = [0; FOOTER_BYTES];
        footer[0..8].copy_from_slice(&self.index_position.to_be_bytes());
        footer[8..16].copy_from_slice(&self.index_len.to_be_bytes());
        footer[16..20].copy_from_slice(&self.blocks.to_be_bytes());
        footer[20..22].copy_from_slice(&VERSION.to_be_bytes());
        let crc = millrace_model::crc32c(&footer[..CRC_AT]);
        footer[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_be_bytes());
        footer[CRC_AT + 4..].copy_from_slice(&MAGIC.to_be_bytes());
        footer
    }

    /// Reads the footer from the last bytes of an object of `object_size` bytes.
    pub(crate) fn decode(tail: &[u8], object_size: u64) -> Result<Self, Corrupt> {
        let bytes: &[u8; FOOTER_BYTES] = tail
            .last_chunk()
            .ok_or(Corrupt::CutOff { part: "footer" })?;
        let mut cursor = Cursor::new(bytes, "footer");
        let footer = Self {
            index_position: cursor.u64()?,
            index_len: cursor.u64()?,
            blocks: cursor.u32()?,
        };
        let (version, flags, stored) = (cursor.u16()?, cursor.u16()?, cursor.u32()?);
        if cursor.u64()? != MAGIC {
            return Err(Corrupt::Magic { part: "footer" });
        }
        let computed = millrace_model::crc32c(&bytes[..CRC_AT]);
        if stored != computed {
            return Err(Corrupt::Checksum {
                part: "footer",
                stored,
                computed,
            });
        }
        if version != VERSION || flags != 0 {
            return Err(Corrupt::Version {
                part: "footer",
                version,
            });
        }
        footer.check(object_size)?;
        Ok(footer)
    }

    fn check(&self, object_size: u64) -> Result<(), Corrupt> {
        let units_len = u64::from(self.blocks) * INDEX_UNIT_BYTES as u64;
        let parts = self
            .index_position
            .checked_add(self.index_len)
            .and_then(|sum| sum.checked_add(FOOTER_BYTES as u64));
        if self.index_len != units_len + 4 || parts != Some(object_size) {
            return Err(Corrupt::Contradiction {
                what: "the footer does not fit the object's size",
            });
        }
        Ok(())
    }
}
