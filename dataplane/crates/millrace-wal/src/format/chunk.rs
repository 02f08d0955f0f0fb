//! Chunks: what one group commit writes, the unit that recovery keeps or drops as a whole.
//!
//! ```text
//! chunk header, 64 bytes, all in the first sector
//!   magic u32 · version u16 · flags u16 · identity u64 · position u64 · session u64 · stable u64
//!   · length u32 (bytes, whole blocks) · content u32 (bytes) · records u32
//!   · directory u32 (bytes, its sum included) · 4 zero bytes · CRC32C of the 60 bytes before u32
//! then per record
//!   body length u32 · body CRC32C u32 · record index in the chunk u32
//!   · CRC32C of identity, position of this record and the 12 bytes before u32 · body
//! then the directory, per record
//!   body length u32 · the body's first 32 bytes, or all of it where it has fewer
//! and · CRC32C of identity, the chunk's position and the directory so far u32
//! then zeros up to the block's end
//! ```
//!
//! A record has its position in its checksum, so it is valid at one place of one device only.
//! Each byte of a body is summed once.
//!
//! The directory repeats what its owner must know of each record to find it again, so that an
//! opening can leave alone the bodies that are known to be durable. It stands behind the records,
//! since they have their positions while the chunk still grows, and so beside the next chunk's
//! header: one small read per chunk has both.

use bytes::{BufMut, Bytes};

use super::{
    Fields, block_up,
    sector::{CONTENT_BYTES, ContentWriter, SECTOR_BYTES, Tagger, place_of},
};
use crate::{AlignedBuf, WalRange};

const MAGIC: u32 = u32::from_le_bytes(*b"MRWC");
const VERSION: u16 = 2;

/// Bytes of a chunk header.
pub(crate) const CHUNK_HEADER_BYTES: usize = 64;

/// Bytes of a record header.
pub(crate) const RECORD_HEADER_BYTES: usize = 16;

/// The most bytes of a record's front that its chunk's directory repeats: room for the header of
/// whoever appends.
pub const RECORD_HEAD_BYTES: usize = 32;

/// Bytes of the directory besides its records: the sum.
const DIRECTORY_SUM_BYTES: u64 = 4;

/// Bytes of the directory's length of one body.
const DIRECTORY_LENGTH_BYTES: u64 = 4;

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
    /// Bytes of content, this header and the directory included.
    pub(crate) content: u32,
    /// Records in it.
    pub(crate) records: u32,
    /// Bytes of content at its end that are the directory.
    pub(crate) directory: u32,
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
            directory: fields.u32()?,
        };
        let fills = u64::from(header.length) == chunk_length(u64::from(header.content));
        let behind = header.content.checked_sub(header.directory)? as usize >= CHUNK_HEADER_BYTES;
        (fills && behind).then_some(header)
    }

    /// Where the chunk ends: the next one starts there.
    pub(crate) const fn end(&self) -> u64 {
        self.position + self.length as u64
    }

    /// The content bytes that are the directory.
    pub(crate) const fn directory_content(&self) -> std::ops::Range<usize> {
        (self.content - self.directory) as usize..self.content as usize
    }

    /// Where the directory starts: the sector at or before it, and the byte in that sector.
    pub(crate) const fn directory_place(&self) -> (u64, usize) {
        let start = self.directory_content().start as u64;
        let sector = place_of(start) / SECTOR_BYTES as u64 * SECTOR_BYTES as u64;
        let within = start % CONTENT_BYTES as u64;
        (self.position + sector, within as usize)
    }

    fn encode(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(CHUNK_HEADER_BYTES);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(0u16.to_le_bytes());
        for number in [self.identity, self.position, self.session, self.stable] {
            bytes.extend(number.to_le_bytes());
        }
        let sizes = [self.length, self.content, self.records, self.directory];
        for number in sizes {
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
    let mut alone = Layout::new(0);
    alone.push(payload);
    alone.length()
}

/// The sum that binds a record's header to the record's place, and a directory to its chunk's.
fn bound_sum(identity: u64, position: u64, bytes: &[u8]) -> u32 {
    let sum = millrace_model::crc32c(&identity.to_le_bytes());
    let sum = millrace_model::crc32c_append(sum, &position.to_le_bytes());
    millrace_model::crc32c_append(sum, bytes)
}

/// Bodies that wait to be written: each in as many parts as its owner had.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    parts: Vec<Bytes>,
    /// Where in `parts` each body ends, and the CRC32C of the part before, where it is known.
    ends: Vec<(usize, Option<u32>)>,
}

impl Bodies {
    /// Adds one body. `last_sum` is the CRC32C of its last part, where that is known.
    pub(crate) fn push(&mut self, parts: &[Bytes], last_sum: Option<u32>) {
        self.parts.extend_from_slice(parts);
        self.ends.push((self.parts.len(), last_sum));
    }

    /// Bodies so far.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn iter(&self) -> impl Iterator<Item = (&[Bytes], Option<u32>)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|&(end, _)| end));
        starts
            .zip(&self.ends)
            .map(|(start, &(end, sum))| (&self.parts[start..end], sum))
    }

    /// The directory of a chunk at `position` with these bodies.
    fn directory(&self, identity: u64, position: u64) -> Vec<u8> {
        let entry_bytes = DIRECTORY_LENGTH_BYTES as usize + RECORD_HEAD_BYTES;
        let bytes_max = self.len() * entry_bytes + DIRECTORY_SUM_BYTES as usize;
        let mut directory = Vec::with_capacity(bytes_max);
        for (parts, _) in self.iter() {
            let length: usize = parts.iter().map(Bytes::len).sum();
            directory.extend((length as u32).to_le_bytes());
            let mut room = RECORD_HEAD_BYTES;
            for part in parts {
                let head = &part[..part.len().min(room)];
                directory.extend_from_slice(head);
                room -= head.len();
            }
        }
        let sum = bound_sum(identity, position, &directory);
        directory.extend(sum.to_le_bytes());
        directory
    }
}

/// Writes a chunk into `buf`, whose length is the header's, and closes its sectors.
pub(crate) fn encode(buf: &mut AlignedBuf, header: &ChunkHeader, bodies: &Bodies) {
    let mut writer = ContentWriter::new(buf);
    writer.put(&header.encode());
    for (index, (parts, last_sum)) in bodies.iter().enumerate() {
        let start = writer.at();
        writer.skip(RECORD_HEADER_BYTES);
        let (summed, last) = match (last_sum, parts.split_last()) {
            (Some(sum), Some((last, before))) => (before, Some((last, sum))),
            _ => (parts, None),
        };
        let mut sum = 0;
        for piece in summed.iter().flat_map(|part| part.chunks(COPY_BYTES)) {
            sum = millrace_model::crc32c_append(sum, piece);
            writer.put(piece);
        }
        if let Some((last, last_sum)) = last {
            sum = millrace_model::crc32c_combine(sum, last_sum, last.len() as u64);
            writer.put(last);
        }
        let length = (writer.at() - start - RECORD_HEADER_BYTES) as u32;
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes[8..12].copy_from_slice(&(index as u32).to_le_bytes());
        let position = header.position + place_of(start as u64);
        let bound = bound_sum(header.identity, position, &bytes[..12]);
        bytes[12..].copy_from_slice(&bound.to_le_bytes());
        writer.put_at(start, &bytes);
    }
    writer.put(&bodies.directory(header.identity, header.position));
    debug_assert_eq!(
        writer.at(),
        header.content as usize,
        "the draft counted its content"
    );
    writer.pad();
    Tagger::new(header.identity).close(buf, header.position);
}

/// What a chunk's directory, or the record itself, says of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkRecord {
    pub(crate) range: WalRange,
    /// Bytes of its body.
    pub(crate) payload_bytes: u32,
    /// The first of them: [`RECORD_HEAD_BYTES`], or all where there are fewer.
    pub(crate) head: Bytes,
}

/// The records of a chunk with this header and content, each checked; `None` where a sum does not
/// match. The directory is not looked at.
pub(crate) fn decode(header: &ChunkHeader, content: &Bytes) -> Option<Vec<ChunkRecord>> {
    let end = header.content.checked_sub(header.directory)? as usize;
    let content = content.get(..end).map(|c| content.slice_ref(c))?;
    let mut records = Vec::with_capacity((header.records as usize).min(content.len() / 16));
    let mut layout = Layout::new(header.position);
    for index in 0..header.records {
        let at = layout.records_end as usize;
        let start = header.position + place_of(at as u64);
        let length = decode_record(header.identity, start, Some(index), content.get(at..)?)?;
        let body = at + RECORD_HEADER_BYTES;
        records.push(ChunkRecord {
            range: layout.push(length as u64),
            payload_bytes: length as u32,
            head: content.slice(body..body + length.min(RECORD_HEAD_BYTES)),
        });
    }
    (layout.records_end as usize == content.len()).then_some(records)
}

/// The records of a chunk as its directory has them; `None` where that is not what was written.
pub(crate) fn decode_directory(
    header: &ChunkHeader,
    directory: &Bytes,
) -> Option<Vec<ChunkRecord>> {
    let (entries, sum) = directory.split_last_chunk::<{ DIRECTORY_SUM_BYTES as usize }>()?;
    let bound = bound_sum(header.identity, header.position, entries);
    if bound != u32::from_le_bytes(*sum) {
        return None;
    }
    let mut records = Vec::with_capacity((header.records as usize).min(entries.len() / 4));
    let mut layout = Layout::new(header.position);
    let mut at = 0;
    for _ in 0..header.records {
        let payload_bytes = Fields(entries.get(at..)?).u32()?;
        at += DIRECTORY_LENGTH_BYTES as usize;
        let head = at..at + RECORD_HEAD_BYTES.min(payload_bytes as usize);
        at = head.end;
        records.push(ChunkRecord {
            range: layout.push(u64::from(payload_bytes)),
            payload_bytes,
            head: directory.slice_ref(entries.get(head)?),
        });
    }
    let whole = at == entries.len() && layout.content() == u64::from(header.content);
    whole.then_some(records)
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
    let bound = bound_sum(identity, start, &header[..12]) == fields.u32()?;
    let intact =
        bound && index.is_none_or(|index| index == found) && millrace_model::crc32c(body) == sum;
    intact.then_some(length)
}

/// The content of whole sectors, without their tags.
pub(crate) fn strip_tags(sectors: &[u8], content: &mut impl BufMut) {
    for sector in sectors.chunks_exact(SECTOR_BYTES) {
        content.put_slice(&sector[..CONTENT_BYTES]);
    }
}

/// A chunk that still takes records: counts where they will lie.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Where the chunk starts.
    pub(crate) position: u64,
    /// Bytes of content up to the end of the last record.
    records_end: u64,
    /// Bytes of the directory.
    directory: u64,
}

impl Layout {
    pub(crate) const fn new(position: u64) -> Self {
        Self {
            position,
            records_end: CHUNK_HEADER_BYTES as u64,
            directory: DIRECTORY_SUM_BYTES,
        }
    }

    /// Adds a record of `payload` bytes and says where it lies.
    pub(crate) const fn push(&mut self, payload: u64) -> WalRange {
        let start = self.position + place_of(self.records_end);
        self.records_end += RECORD_HEADER_BYTES as u64 + payload;
        let head = if payload < RECORD_HEAD_BYTES as u64 {
            payload
        } else {
            RECORD_HEAD_BYTES as u64
        };
        self.directory += DIRECTORY_LENGTH_BYTES + head;
        WalRange {
            start,
            end: self.position + place_of(self.records_end),
        }
    }

    /// Bytes of the directory.
    pub(crate) const fn directory(&self) -> u64 {
        self.directory
    }

    /// Bytes of content.
    pub(crate) const fn content(&self) -> u64 {
        self.records_end + self.directory
    }

    /// Bytes on the device.
    pub(crate) const fn length(&self) -> u64 {
        chunk_length(self.content())
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
                    content: layout.content() as u32,
                    records: records.len() as u32,
                    directory: layout.directory() as u32,
                };
                (header, records)
            },
        )
    }

    fn encoded((header, records): &Case) -> AlignedBuf {
        let mut buf = AlignedBuf::zeroed(header.length as usize);
        buf.fill(0xEE);
        let mut bodies = Bodies::default();
        // Every other body comes with a sum of its last part.
        for (parts, is_known) in records.iter().zip([true, false].into_iter().cycle()) {
            let sum = parts.last().map(|last| millrace_model::crc32c(last));
            bodies.push(parts, sum.filter(|_| is_known));
        }
        encode(&mut buf, header, &bodies);
        buf
    }

    type Found = Option<(ChunkHeader, Vec<ChunkRecord>)>;

    /// What the chunk says record by record, and what its directory says.
    fn decoded(chunk: &[u8]) -> (Found, Found) {
        let mut content = Vec::new();
        strip_tags(chunk, &mut content);
        let Some(header) = ChunkHeader::decode(&content) else {
            return (None, None);
        };
        let (sector, within) = header.directory_place();
        let mut tail = Vec::new();
        let behind = usize::try_from(sector - header.position).expect("a small chunk");
        strip_tags(chunk.get(behind..).unwrap_or_default(), &mut tail);
        let directory = tail.get(within..within + header.directory as usize);
        let directory = Bytes::copy_from_slice(directory.unwrap_or_default());
        let listed = decode_directory(&header, &directory);
        let records = decode(&header, &content.into());
        let with_header = |records| (header.clone(), records);
        (records.map(with_header), listed.map(with_header))
    }

    /// The payloads of a chunk's records.
    fn payloads(chunk: &[u8], header: &ChunkHeader, records: &[ChunkRecord]) -> Vec<Vec<u8>> {
        let payload = |record: &ChunkRecord| {
            let place = usize::try_from(record.range.start - header.position).expect("small");
            let mut content = Vec::new();
            strip_tags(&chunk[place / SECTOR_BYTES * SECTOR_BYTES..], &mut content);
            let body = place % SECTOR_BYTES + RECORD_HEADER_BYTES;
            content[body..body + record.payload_bytes as usize].to_vec()
        };
        records.iter().map(payload).collect()
    }

    proptest! {
        #[test]
        fn a_chunk_comes_back(case in cases()) {
            let chunk = encoded(&case);
            let (found, listed) = decoded(&chunk);
            prop_assert_eq!(&found, &listed);
            let (header, records) = found.expect("intact");
            prop_assert_eq!(&header, &case.0);
            let mut layout = Layout::new(header.position);
            let expected: Vec<Vec<u8>> = case.1.iter().map(|parts| parts.concat()).collect();
            prop_assert_eq!(payloads(&chunk, &header, &records), &expected[..]);
            for (record, payload) in records.iter().zip(&expected) {
                prop_assert_eq!(record.range, layout.push(payload.len() as u64));
                let head = &payload[..payload.len().min(RECORD_HEAD_BYTES)];
                prop_assert_eq!(&record.head[..], head);
            }
            prop_assert_eq!(records.len(), case.1.len());
        }

        #[test]
        fn a_flipped_byte_is_harmless_or_seen(case in cases(), at: prop::sample::Index, mask in 1u8..) {
            let mut chunk = encoded(&case);
            let (intact, _) = decoded(&chunk);
            let at = at.index(chunk.len());
            chunk[at] ^= mask;
            let (found, listed) = decoded(&chunk);
            // Never something else, and never both gone unless the header is.
            prop_assert!(found.is_none() || found == intact);
            prop_assert!(listed.is_none() || listed == intact);
            let in_header = at < CHUNK_HEADER_BYTES;
            prop_assert_eq!(found.is_none() && listed.is_none(), in_header);
        }

        #[test]
        fn foreign_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..2048)) {
            prop_assert_eq!(decoded(&bytes), (None, None));
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
