//! The index: one unit per data block, in the order of the blocks, then a checksum.

use millrace_model::{Offset, StreamId, StreamRange};

use super::{BLOCK_HEADER_BYTES, Corrupt, cursor::Cursor};

/// stream 8 | start offset 8 | end offset 8 | position 8 | size 4 | entry count 4.
pub(crate) const INDEX_UNIT_BYTES: usize = 40;

const CRC_BYTES: usize = 4;

/// Where one data block stands and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRef {
    /// The stream whose entries it holds.
    pub stream: StreamId,
    /// The base offset of its first entry.
    pub start: Offset,
    /// One past the last offset of its last entry.
    pub end: Offset,
    /// Its first byte in the object.
    pub position: u64,
    /// Its bytes, header included.
    pub size: u32,
    /// Its entries.
    pub entries: u32,
}

impl BlockRef {
    /// The stretch of its stream that it holds.
    #[must_use]
    pub fn range(&self) -> StreamRange {
        StreamRange {
            stream: self.stream,
            start: self.start,
            end: self.end,
        }
    }
}

/// The bytes of an index over `blocks`.
pub(crate) fn encode_index(blocks: &[BlockRef]) -> Vec<u8> {
    let mut index = Vec::with_capacity(blocks.len() * INDEX_UNIT_BYTES + CRC_BYTES);
    for block in blocks {
        index.extend_from_slice(&block.stream.get().to_be_bytes());
        index.extend_from_slice(&block.start.to_be_bytes());
        index.extend_from_slice(&block.end.to_be_bytes());
        index.extend_from_slice(&block.position.to_be_bytes());
        index.extend_from_slice(&block.size.to_be_bytes());
        index.extend_from_slice(&block.entries.to_be_bytes());
    }
    index.extend_from_slice(&millrace_model::crc32c(&index).to_be_bytes());
    index
}

/// The blocks of an object whose index has these bytes and stands at `index_position`.
///
/// # Errors
/// Names what is not sound: besides the checksum, the blocks must be in order, must not overlap in
/// offsets, and must fill the object up to the index.
pub(crate) fn decode_index(index: &[u8], index_position: u64) -> Result<Vec<BlockRef>, Corrupt> {
    let units_len = index
        .len()
        .checked_sub(CRC_BYTES)
        .ok_or(Corrupt::CutOff { part: "index" })?;
    let (units, crc) = index.split_at(units_len);
    let stored = Cursor::new(crc, "index").u32()?;
    let computed = millrace_model::crc32c(units);
    if stored != computed {
        return Err(Corrupt::Checksum {
            part: "index",
            stored,
            computed,
        });
    }
    let (units, rest) = units.as_chunks::<INDEX_UNIT_BYTES>();
    if !rest.is_empty() {
        return Err(Corrupt::CutOff { part: "index" });
    }
    let mut blocks: Vec<BlockRef> = Vec::with_capacity(units.len());
    let mut position = 0_u64;
    for unit in units {
        let block = decode_unit(unit)?;
        let follows = blocks.last().is_none_or(|last| {
            (last.stream, last.end) <= (block.stream, block.start) || last.stream < block.stream
        });
        let sound = block.position == position
            && block.start < block.end
            && block.entries > 0
            && block.size as usize > BLOCK_HEADER_BYTES;
        if !follows || !sound {
            return Err(Corrupt::Contradiction {
                what: "the index is not in order",
            });
        }
        position = position
            .checked_add(u64::from(block.size))
            .ok_or(Corrupt::Contradiction {
                what: "the index leaves 64 bits",
            })?;
        blocks.push(block);
    }
    if position != index_position {
        return Err(Corrupt::Contradiction {
            what: "the blocks do not reach up to the index",
        });
    }
    Ok(blocks)
}

fn decode_unit(unit: &[u8; INDEX_UNIT_BYTES]) -> Result<BlockRef, Corrupt> {
    let mut cursor = Cursor::new(unit, "index");
    Ok(BlockRef {
        stream: StreamId(cursor.u64()?),
        start: cursor.u64()?,
        end: cursor.u64()?,
        position: cursor.u64()?,
        size: cursor.u32()?,
        entries: cursor.u32()?,
    })
}
