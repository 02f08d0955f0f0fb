//! Writes an object: entries in, chunks ready for one PUT out.

use bytes::{Bytes, BytesMut};
use millrace_model::{Offset, StreamId, StreamRange, limits::ENTRY_BYTES_MAX};

use crate::{
    StreamEntry,
    format::{
        BLOCK_HEADER_BYTES, BlockRef, ENTRY_HEADER_BYTES, FOOTER_BYTES, Footer, INDEX_UNIT_BYTES,
        block_header, encode_index, entry_header,
    },
};

/// Up to this many bytes are copied beside their neighbours instead of becoming a chunk of their
/// own: below a page, the copy costs less than one more segment in every layer down to the socket.
const COPY_BYTES_MAX: usize = 4_096;

/// Copied bytes are handed on as a chunk once there are this many.
const COPIED_CHUNK_BYTES: usize = 64 * 1024;

/// Collects entries, sorted by stream and offset, into an object. Payloads above a page are not
/// copied: the finished chunks share them.
#[derive(Debug)]
pub struct ObjectBuilder {
    block_bytes: usize,
    output: Output,
    open: Option<OpenBlock>,
    blocks: Vec<BlockRef>,
    ranges: Vec<StreamRange>,
}

/// A finished object.
#[derive(Debug, Clone)]
pub struct Built {
    /// The object's bytes, to be written one after the other.
    pub chunks: Vec<Bytes>,
    /// Their sum.
    pub size: u64,
    /// What the object holds: one range per stream, sorted by stream.
    pub ranges: Vec<StreamRange>,
}

/// Why an entry cannot be added. Always a fault of the caller; the builder stays as it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEntry {
    /// Entries must come sorted by stream, then by offset, without overlap.
    #[error("entry {stream}@{base_offset} comes after {last:?}")]
    OutOfOrder {
        /// The entry's stream.
        stream: StreamId,
        /// The entry's base offset.
        base_offset: Offset,
        /// The range that was added last.
        last: StreamRange,
    },
    /// An entry covers at least one offset, and its end must fit 64 bits.
    #[error("entry {stream}@{base_offset} covers {count} offsets")]
    Count {
        /// The entry's stream.
        stream: StreamId,
        /// The entry's base offset.
        base_offset: Offset,
        /// How many offsets it covers.
        count: u32,
    },
    /// The payload is above [`ENTRY_BYTES_MAX`].
    #[error("a payload of {0} bytes is above the bound of {ENTRY_BYTES_MAX}")]
    PayloadTooLarge(usize),
}

impl ObjectBuilder {
    /// An empty object whose data blocks close once their body has `block_bytes` bytes. A block
    /// holds at least one entry, so it may be larger by one entry.
    #[must_use]
    pub fn new(block_bytes: usize) -> Self {
        Self {
            block_bytes,
            output: Output::default(),
            open: None,
            blocks: Vec::new(),
            ranges: Vec::new(),
        }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// Refuses an entry that breaks the order, covers no offset, or is too large.
    pub fn add(&mut self, entry: StreamEntry) -> Result<(), InvalidEntry> {
        self.add_summed(entry, None)
    }

    /// Adds an entry. `payload_sum` is the CRC32C of its payload, if that is known: the bytes are not summed again. With a wrong sum,
    /// readers report the block as damaged.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_summed(
        &mut self,
        entry: StreamEntry,
        payload_sum: Option<u32>,
    ) -> Result<(), InvalidEntry> {
        let end = self.check(&entry)?;
        match self
            .ranges
            .last_mut()
            .filter(|range| range.stream == entry.stream)
        {
            Some(range) => range.end = end,
            None => self.ranges.push(StreamRange {
                stream: entry.stream,
                start: entry.base_offset,
                end,
            }),
        }
        let full =
            |open: &OpenBlock| open.stream != entry.stream || open.body_len >= self.block_bytes;
        if self.open.as_ref().is_some_and(full) {
            self.close_block();
        }
        self.open
            .get_or_insert_with(|| OpenBlock::new(entry.stream, entry.base_offset))
            .push(entry, payload_sum, end);
        Ok(())
    }

    /// The size that the object would have now, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        let open = self
            .open
            .as_ref()
            .map_or(0, |open| BLOCK_HEADER_BYTES + open.body_len);
        let blocks = self.blocks.len() + usize::from(self.open.is_some());
        self.output.position + (open + blocks * INDEX_UNIT_BYTES + 4 + FOOTER_BYTES) as u64
    }

    /// Whether no entry was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Closes the object.
    #[must_use]
    pub fn finish(mut self) -> Built {
        self.close_block();
        let index_position = self.output.position;
        let index = encode_index(&self.blocks);
        let footer = Footer {
            index_position,
            index_len: index.len() as u64,
            blocks: u32::try_from(self.blocks.len()).expect("2^32 blocks do not fit in memory"),
        };
        self.output.push(index.into());
        self.output.copy(&footer.encode());
        self.output.flush();
        Built {
            chunks: self.output.chunks,
            size: self.output.position,
            ranges: self.ranges,
        }
    }

    fn check(&self, entry: &StreamEntry) -> Result<Offset, InvalidEntry> {
        let &StreamEntry {
            stream,
            base_offset,
            count,
            ..
        } = entry;
        if entry.payload.len() > ENTRY_BYTES_MAX {
            return Err(InvalidEntry::PayloadTooLarge(entry.payload.len()));
        }
        let end = entry
            .end_offset()
            .filter(|_| count > 0)
            .ok_or(InvalidEntry::Count {
                stream,
                base_offset,
                count,
            })?;
        match self.ranges.last() {
            Some(&last)
                if stream < last.stream || (stream == last.stream && base_offset < last.end) =>
            {
                Err(InvalidEntry::OutOfOrder {
                    stream,
                    base_offset,
                    last,
                })
            }
            _ => Ok(end),
        }
    }

    fn close_block(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.blocks.push(open.write(&mut self.output));
    }
}

/// The block that entries are being added to.
#[derive(Debug)]
struct OpenBlock {
    stream: StreamId,
    start: Offset,
    end: Offset,
    entries: u32,
    body: Output,
    body_len: usize,
    body_crc: u32,
}

impl OpenBlock {
    fn new(stream: StreamId, start: Offset) -> Self {
        let body = Output::default();
        Self {
            stream,
            start,
            end: start,
            entries: 0,
            body,
            body_len: 0,
            body_crc: 0,
        }
    }

    fn push(&mut self, entry: StreamEntry, payload_sum: Option<u32>, end: Offset) {
        let len = entry.payload.len();
        let payload_len = u32::try_from(len).expect("add() bounds the payload");
        let header = entry_header(entry.epoch, entry.base_offset, entry.count, payload_len);
        self.body_crc = millrace_model::crc32c_append(self.body_crc, &header);
        self.body_crc = match payload_sum {
            Some(sum) => millrace_model::crc32c_combine(self.body_crc, sum, len as u64),
            None => millrace_model::crc32c_append(self.body_crc, &entry.payload),
        };
        self.body_len += ENTRY_HEADER_BYTES + len;
        self.body.copy(&header);
        self.body.push(entry.payload);
        self.entries += 1;
        self.end = end;
    }

    fn write(mut self, output: &mut Output) -> BlockRef {
        let body_len = u32::try_from(self.body_len)
            .expect("a block is below its target plus one bounded entry");
        let size = BLOCK_HEADER_BYTES + self.body_len;
        let block = BlockRef {
            stream: self.stream,
            start: self.start,
            end: self.end,
            position: output.position,
            size: u32::try_from(size).expect("the header adds 28 bytes to a bounded block"),
            entries: self.entries,
        };
        output.copy(&block_header(
            self.stream,
            self.entries,
            body_len,
            self.body_crc,
        ));
        self.body.flush();
        for chunk in self.body.chunks {
            output.push(chunk);
        }
        block
    }
}

/// Bytes in order, small ones gathered into larger chunks.
#[derive(Debug, Default)]
struct Output {
    chunks: Vec<Bytes>,
    copied: BytesMut,
    position: u64,
}

impl Output {
    fn copy(&mut self, bytes: &[u8]) {
        self.copied.extend_from_slice(bytes);
        self.position += bytes.len() as u64;
        if self.copied.len() >= COPIED_CHUNK_BYTES {
            self.flush();
        }
    }

    fn push(&mut self, bytes: Bytes) {
        if bytes.len() <= COPY_BYTES_MAX {
            return self.copy(&bytes);
        }
        self.flush();
        self.position += bytes.len() as u64;
        self.chunks.push(bytes);
    }

    fn flush(&mut self) {
        if !self.copied.is_empty() {
            self.chunks.push(self.copied.split().freeze());
        }
    }
}
