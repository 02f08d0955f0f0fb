//! Chunks: what one group commit writes, the unit that recovery keeps or drops as a whole.
//!
//! ```text
//! chunk header, 64 bytes, all in the first sector
//!   magic u32 · version u16 · flags u16 · identity u64 · position u64 · session u64 · stable u64
//!   · length u32 (bytes, whole blocks) · content u32 (bytes) · records u32 · 8 zero bytes
//!   · CRC32C of the 60 bytes before u32
//! then per record
//!   body length u32 · body CRC32C u32 · record index in the chunk u32
//!   · CRC32C of identity, position of this record and the 12 bytes before u32 · body
//! then zeros up to the block's end
//! ```
//!
//! A record has its position in its checksum, so it is valid at one place of one device only.
//! Each byte of a body is summed once.

use bytes::{BufMut, Bytes};

use super::{
    Fields, block_up,
    sector::{CONTENT_BYTES, ContentWriter, Tagger, place_of},
};
use crate::{AlignedBuf, WalRange};

const MAGIC: u32 = u32::from_le_bytes(*b"MRWC");
const VERSION: u16 = 1;

/// Bytes of a chunk header.
pub(crate) const CHUNK_HEADER_BYTES: usize = 64;

/// Bytes of a record header.
pub(crate) const RECORD_HEADER_BYTES: usize = 16;

/// Bytes summed and copied at a time: fits the first-level cache, so a body crosses it once.
const COPY_BYTES: usize = 16 * 1024;

/// What a chunk says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    /// The device's identity.
    pub(crate) identity: u64,
    /// Where the chunk starts.
    pub(crate) position: u64,
    /// The opening of the log that wrote it.
    pub(crate) session: u64,
    /// Everything of this session below this position was durable when the chunk was written.
    pub(crate) stable: u64,
    /// Bytes on the device, whole blocks.
    pub(crate) length: u32,
    /// Bytes of content, this header included.
    pub(crate) content: u32,
    /// Records in it.
    pub(crate) records: u32,
}

impl ChunkHeader {
    /// Reads a header from the content of a chunk's first sector, if one is there.
    pub(crate) fn decode(content: &[u8]) -> Option<Self> {
        let bytes = content.get(..CHUNK_HEADER_BYTES)?;
        let (summed, sum) = bytes.split_last_chunk::<4>()?;
        if millrace_model::crc32c(summed) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut fields = Fields(summed);
        if fields.u32()? != MAGIC || fields.u16()? != VERSION || fields.u16()? != 0 {
            return None;
        }
        let header = Self {
            identity: fields.u64()?,
            position: fields.u64()?,
            session: fields.u64()?,
            stable: fields.u64()?,
            length: fields.u32()?,
            content: fields.u32()?,
            records: fields.u32()?,
        };
        (u64::from(header.length) == chunk_length(u64::from(header.content))).then_some(header)
    }

    fn encode(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(CHUNK_HEADER_BYTES);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(0u16.to_le_bytes());
        for number in [self.identity, self.position, self.session, self.stable] {
            bytes.extend(number.to_le_bytes());
        }
        for number in [self.length, self.content, self.records] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.resize(CHUNK_HEADER_BYTES - 4, 0);
        bytes.extend(millrace_model::crc32c(&bytes).to_le_bytes());
        bytes.try_into().expect("the fields fill the header")
    }
}

/// Bytes on the device of a chunk with `content` bytes of content.
pub(crate) const fn chunk_length(content: u64) -> u64 {
    block_up(place_of(content))
}

/// Bytes on the device that one record of `payload` bytes can take at most, alone in its chunk.
pub(crate) const fn record_footprint(payload: u64) -> u64 {
    chunk_length((CHUNK_HEADER_BYTES + RECORD_HEADER_BYTES) as u64 + payload)
}

/// The sum that binds a record's header to its place.
fn record_sum(identity: u64, position: u64, header: &[u8]) -> u32 {
    let sum = millrace_model::crc32c(&identity.to_le_bytes());
    let sum = millrace_model::crc32c_append(sum, &position.to_le_bytes());
    millrace_model::crc32c_append(sum, header)
}

/// Bodies that wait to be written: each in as many parts as its owner had.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    parts: Vec<Bytes>,
    /// Where in `parts` each body ends.
    ends: Vec<usize>,
}

impl Bodies {
    /// Adds one body.
    pub(crate) fn push(&mut self, parts: &[Bytes]) {
        self.parts.extend_from_slice(parts);
        self.ends.push(self.parts.len());
    }

    /// Bodies so far.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn iter(&self) -> impl Iterator<Item = &[Bytes]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.parts[start..end])
    }
}

/// Writes a chunk into `buf`, whose length is the header's, and closes its sectors.
pub(crate) fn encode(buf: &mut AlignedBuf, header: &ChunkHeader, bodies: &Bodies) {
    let mut writer = ContentWriter::new(buf);
    writer.put(&header.encode());
    for (index, parts) in bodies.iter().enumerate() {
        let start = writer.at();
        writer.skip(RECORD_HEADER_BYTES);
        let mut sum = 0;
        for piece in parts.iter().flat_map(|part| part.chunks(COPY_BYTES)) {
            sum = millrace_model::crc32c_append(sum, piece);
            writer.put(piece);
        }
        let length = (writer.at() - start - RECORD_HEADER_BYTES) as u32;
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes[8..12].copy_from_slice(&(index as u32).to_le_bytes());
        let position = header.position + place_of(start as u64);
        let bound = record_sum(header.identity, position, &bytes[..12]);
        bytes[12..].copy_from_slice(&bound.to_le_bytes());
        writer.put_at(start, &bytes);
    }
    debug_assert_eq!(
        writer.at(),
        header.content as usize,
        "the draft counted its content"
    );
    writer.pad();
    Tagger::new(header.identity).close(buf, header.position);
}

/// One record as it lies in a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkRecord {
    pub(crate) range: WalRange,
    pub(crate) payload: Bytes,
}

/// The records of a chunk with this header and content; `None` where a sum does not match.
pub(crate) fn decode(header: &ChunkHeader, content: &Bytes) -> Option<Vec<ChunkRecord>> {
    let content = content
        .get(..header.content as usize)
        .map(|c| content.slice_ref(c))?;
    let mut records = Vec::with_capacity((header.records as usize).min(content.len() / 16));
    let mut at = CHUNK_HEADER_BYTES;
    for index in 0..header.records {
        let start = header.position + place_of(at as u64);
        let record = decode_record(header.identity, start, Some(index), content.get(at..)?)?;
        at += RECORD_HEADER_BYTES;
        let payload = content.slice(at..at + record);
        at += record;
        let end = header.position + place_of(at as u64);
        records.push(ChunkRecord {
            range: WalRange { start, end },
            payload,
        });
    }
    (at == content.len()).then_some(records)
}

/// Checks the record at the front of `content`, which lies at `start`; returns its body's length.
pub(crate) fn decode_record(
    identity: u64,
    start: u64,
    index: Option<u32>,
    content: &[u8],
) -> Option<usize> {
    let (header, rest) = content.split_first_chunk::<RECORD_HEADER_BYTES>()?;
    let mut fields = Fields(header);
    let (length, sum) = (fields.u32()? as usize, fields.u32()?);
    let found = fields.u32()?;
    let body = rest.get(..length)?;
    let bound = record_sum(identity, start, &header[..12]) == fields.u32()?;
    let intact =
        bound && index.is_none_or(|index| index == found) && millrace_model::crc32c(body) == sum;
    intact.then_some(length)
}

/// The content of whole sectors, without their tags.
pub(crate) fn strip_tags(sectors: &[u8], content: &mut impl BufMut) {
    for sector in sectors.chunks_exact(super::sector::SECTOR_BYTES) {
        content.put_slice(&sector[..CONTENT_BYTES]);
    }
}

/// A chunk that still takes records: counts where they will lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Where the chunk starts.
    pub(crate) position: u64,
    /// Bytes of content so far.
    pub(crate) content: u64,
}

impl Layout {
    pub(crate) const fn new(position: u64) -> Self {
        Self {
            position,
            content: CHUNK_HEADER_BYTES as u64,
        }
    }

    /// Adds a record of `payload` bytes and says where it lies.
    pub(crate) const fn push(&mut self, payload: u64) -> WalRange {
        let start = self.position + place_of(self.content);
        self.content += RECORD_HEADER_BYTES as u64 + payload;
        WalRange {
            start,
            end: self.position + place_of(self.content),
        }
    }

    /// Bytes on the device.
    pub(crate) const fn length(&self) -> u64 {
        chunk_length(self.content)
    }

    /// Where the chunk ends: the next one starts there.
    pub(crate) const fn end(&self) -> u64 {
        self.position + self.length()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::BLOCK, *};

    type Case = (ChunkHeader, Vec<Vec<Bytes>>);

    fn cases() -> impl Strategy<Value = Case> {
        let part = prop::collection::vec(any::<u8>(), 0..1500).prop_map(Bytes::from);
        let records = prop::collection::vec(prop::collection::vec(part, 0..4), 1..6);
        (any::<u64>(), 0u64..1 << 40, any::<u64>(), records).prop_map(
            |(identity, block, session, records)| {
                let position = block * BLOCK;
                let mut layout = Layout::new(position);
                for parts in &records {
                    layout.push(parts.iter().map(|p| p.len() as u64).sum());
                }
                let header = ChunkHeader {
                    identity,
                    position,
                    session,
                    stable: position,
                    length: layout.length() as u32,
                    content: layout.content as u32,
                    records: records.len() as u32,
                };
                (header, records)
            },
        )
    }

    fn encoded((header, records): &Case) -> AlignedBuf {
        let mut buf = AlignedBuf::zeroed(header.length as usize);
        buf.fill(0xEE);
        let mut bodies = Bodies::default();
        records.iter().for_each(|parts| bodies.push(parts));
        encode(&mut buf, header, &bodies);
        buf
    }

    fn decoded(chunk: &[u8]) -> Option<(ChunkHeader, Vec<ChunkRecord>)> {
        let mut content = Vec::new();
        strip_tags(chunk, &mut content);
        let header = ChunkHeader::decode(&content)?;
        let records = decode(&header, &content.into())?;
        Some((header, records))
    }

    proptest! {
        #[test]
        fn a_chunk_comes_back(case in cases()) {
            let (header, records) = decoded(&encoded(&case)).expect("intact");
            prop_assert_eq!(&header, &case.0);
            let mut layout = Layout::new(header.position);
            for (record, parts) in records.iter().zip(&case.1) {
                prop_assert_eq!(&record.payload[..], &parts.concat()[..]);
                prop_assert_eq!(record.range, layout.push(record.payload.len() as u64));
            }
            prop_assert_eq!(records.len(), case.1.len());
        }

        #[test]
        fn a_flipped_byte_is_harmless_or_seen(case in cases(), at: prop::sample::Index, mask in 1u8..) {
            let mut chunk = encoded(&case);
            let intact = decoded(&chunk);
            let at = at.index(chunk.len());
            chunk[at] ^= mask;
            let flipped = decoded(&chunk);
            prop_assert!(flipped.is_none() || flipped == intact);
        }

        #[test]
        fn foreign_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
            prop_assert!(decoded(&bytes).is_none());
        }

        #[test]
        fn the_footprint_covers_a_record_wherever_it_lands(sizes in prop::collection::vec(0u64..9000, 1..40)) {
            let mut layout = Layout::new(0);
            let mut end = 0;
            for size in sizes {
                layout.push(size);
                prop_assert!(layout.end() - end <= record_footprint(size));
                end = layout.end();
            }
        }
    }
}
