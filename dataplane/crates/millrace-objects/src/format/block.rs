//! A data block: a header, then entries of one stream in offset order.

use bytes::Bytes;
use millrace_model::{Offset, StreamEpoch, StreamId, limits::ENTRY_BYTES_MAX};

use super::{BlockRef, Corrupt, cursor::Cursor};
use crate::StreamEntry;

/// magic 4 | version 2 | flags 2 | stream 8 | entry count 4 | body length 4 | CRC32C 4.
pub(crate) const BLOCK_HEADER_BYTES: usize = 28;

/// epoch 8 | base offset 8 | count 4 | payload length 4.
pub(crate) const ENTRY_HEADER_BYTES: usize = 24;

/// "MRDB" in ASCII.
const MAGIC: u32 = 0x4d52_4442;
const VERSION: u16 = 1;
/// Where the checksum stands in the header; the bytes before it are covered by it.
const CRC_AT: usize = BLOCK_HEADER_BYTES - 4;

/// The header of a block whose body has `body_crc` as its CRC32C.
///
/// The checksum runs over the body first and the header's other bytes second: the body's is known
/// piece by piece while entries arrive, the header only when the last one has.
pub(crate) fn block_header(
    stream: StreamId,
    entries: u32,
    body_len: u32,
    body_crc: u32,
) -> [u8; BLOCK_HEADER_BYTES] {
    let mut header = [0; BLOCK_HEADER_BYTES];
    header[0..4].copy_from_slice(&MAGIC.to_be_bytes());
    header[4..6].copy_from_slice(&VERSION.to_be_bytes());
    header[8..16].copy_from_slice(&stream.get().to_be_bytes());
    header[16..20].copy_from_slice(&entries.to_be_bytes());
    header[20..24].copy_from_slice(&body_len.to_be_bytes());
    let crc = millrace_model::crc32c_append(body_crc, &header[..CRC_AT]);
    header[CRC_AT..].copy_from_slice(&crc.to_be_bytes());
    header
}

/// The header that stands before an entry's payload.
pub(crate) fn entry_header(
    epoch: StreamEpoch,
    base_offset: Offset,
    count: u32,
    payload_len: u32,
) -> [u8; ENTRY_HEADER_BYTES] {
    let mut header = [0; ENTRY_HEADER_BYTES];
    header[0..8].copy_from_slice(&epoch.get().to_be_bytes());
    header[8..16].copy_from_slice(&base_offset.to_be_bytes());
    header[16..20].copy_from_slice(&count.to_be_bytes());
    header[20..24].copy_from_slice(&payload_len.to_be_bytes());
    header
}

/// The entries of `block`, checked against the index's word on it. Payloads are slices of `block`.
///
/// # Errors
/// Names what is not sound; then no entry is given out.
pub(crate) fn decode_block(
    block: &Bytes,
    expected: &BlockRef,
) -> Result<Vec<StreamEntry>, Corrupt> {
    check_block(block, expected)?;
    decode_entries(&block.slice(BLOCK_HEADER_BYTES..), expected)
}

/// Checks the checksum of `block`, and its header against the index's word on it, without looking at
/// its entries.
///
/// # Errors
/// Names what is not sound.
pub(crate) fn check_block(block: &[u8], expected: &BlockRef) -> Result<(), Corrupt> {
    let (header, body) = block
        .split_at_checked(BLOCK_HEADER_BYTES)
        .ok_or(Corrupt::CutOff { part: "block" })?;
    let mut cursor = Cursor::new(header, "block");
    let (magic, version, flags) = (cursor.u32()?, cursor.u16()?, cursor.u16()?);
    let (stream, count, body_len) = (StreamId(cursor.u64()?), cursor.u32()?, cursor.u32()?);
    let stored = cursor.u32()?;

    if magic != MAGIC {
        return Err(Corrupt::Magic { part: "block" });
    }
    let computed = millrace_model::crc32c_append(millrace_model::crc32c(body), &header[..CRC_AT]);
    if stored != computed {
        return Err(Corrupt::Checksum {
            part: "block",
            stored,
            computed,
        });
    }
    if version != VERSION || flags != 0 {
        return Err(Corrupt::Version {
            part: "block",
            version,
        });
    }
    if stream != expected.stream
        || count != expected.entries
        || u64::from(body_len) != body.len() as u64
    {
        return Err(Corrupt::Contradiction {
            what: "a block is not the one that the index names",
        });
    }
    Ok(())
}

fn decode_entries(body: &Bytes, expected: &BlockRef) -> Result<Vec<StreamEntry>, Corrupt> {
    let disorder = Corrupt::Contradiction {
        what: "entries are not in the index's offset range",
    };
    // The body bounds the count before anything is allocated for it.
    let fits = body.len() / ENTRY_HEADER_BYTES;
    let mut entries = Vec::with_capacity(fits.min(expected.entries as usize));
    let mut at = 0;
    let mut next_offset = expected.start;
    for _ in 0..expected.entries {
        let rest = body.get(at..).unwrap_or_default();
        let mut cursor = Cursor::new(rest, "entry");
        let epoch = StreamEpoch(cursor.u64()?);
        let (base_offset, count) = (cursor.u64()?, cursor.u32()?);
        let len = cursor.u32()? as usize;
        let payload_at = at + ENTRY_HEADER_BYTES;
        if len > ENTRY_BYTES_MAX || len > body.len() - payload_at {
            return Err(Corrupt::CutOff { part: "entry" });
        }
        let payload = body.slice(payload_at..payload_at + len);
        let entry = StreamEntry {
            stream: expected.stream,
            epoch,
            base_offset,
            count,
            payload,
        };
        let end = entry
            .end_offset()
            .filter(|_| count > 0)
            .ok_or_else(|| disorder.clone())?;
        if base_offset < next_offset || (at == 0 && base_offset != expected.start) {
            return Err(disorder);
        }
        next_offset = end;
        at = payload_at + len;
        entries.push(entry);
    }
    if at != body.len() || next_offset != expected.end {
        return Err(disorder);
    }
    Ok(entries)
}
