//! Recovers what was written and not trimmed. `RECOVERY.md` gives the reasons; in short:
//!
//! - The header lists what earlier sessions left, as extents. They must be complete.
//! - The last session's chunks are adjacent, from its start on. The first place without one is the
//!   lowest write that was not durable. No write ends more than a window above it, so chunks are
//!   searched that far, block by block, and holes in between are skipped.
//! - A hole is legal only where a crash can have left it: not below a position that a later chunk
//!   knows to be durable, not in a log that was closed cleanly, and not where every sector of the
//!   chunk was written and only its content is wrong.
//! - Where only records have rotted, and the directory still says which there are, the log opens: each
//!   read of such a record is an error.
//!
//! For chunks that are known to be durable, because an extent lists them or a later chunk proves it,
//! only headers and directories are read ([`walk`]). The rest is read in full ([`reader`]), as is
//! everything after a corrupt head.

mod reader;
mod walk;

use std::{collections::VecDeque, ops::Range, sync::Arc};

use bytes::Bytes;
use futures_util::StreamExt;

use crate::{
    OpenError, WalIdentity, WalRange,
    device::BlockDevice,
    format::{
        BLOCK, BLOCK_BYTES, RING_START,
        chunk::{self, ChunkHeader, ChunkRecord},
        header::Header,
        sector::{CONTENT_BYTES, SECTOR_BYTES, Tag, Tagger, content_at, place_of},
    },
    header_store::{self, Stored},
    ring::Ring,
};
use reader::RingReader;
use walk::{Head, Walker};

/// A record that recovery found. What is said of it was summed; its whole payload is when it is
/// [read](crate::Wal::read).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Where it lies; trims as the range of its append did.
    pub range: WalRange,
    /// Bytes that were appended.
    pub payload_bytes: u32,
    /// The first [`RECORD_HEAD_BYTES`](crate::RECORD_HEAD_BYTES) of them, or all where there are fewer.
    pub head: Bytes,
}

/// A chunk that recovery found, or a gap between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    /// Where it starts.
    pub(crate) start: u64,
    /// Where it ends.
    pub(crate) end: u64,
    /// Where its last record ends.
    pub(crate) records_end: u64,
}

/// What a scan found.
#[derive(Debug)]
pub(crate) struct Scan {
    /// The chunks, ascending.
    pub(crate) spans: Vec<Span>,
    /// The chunks as ranges without gaps: what the next header lists.
    pub(crate) extents: Vec<WalRange>,
    /// A new session starts here: nothing that was ever written, or still is, lies above.
    pub(crate) next: u64,
    /// Holes that were stepped over.
    pub(crate) holes: u64,
    /// Directories that are not what was written, of chunks whose records are.
    pub(crate) directories_damaged: u64,
    /// How many of the records that were read in full are not what was written,
    pub(crate) records_damaged: u64,
    /// and the first of them, at most [`DAMAGED_LISTED_MAX`].
    pub(crate) damaged: Vec<Recovered>,
}

/// Damaged records that a scan lists: enough to see whose they are, and less than a megabyte.
const DAMAGED_LISTED_MAX: usize = 1_000;

/// How much of a log is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Of what is known to be durable, only what its owner must know of each record.
    Heads,
    /// Every byte.
    Everything,
}

/// What a log holds, without opening it: nothing is written, and every byte that counts is read and
/// summed, which an opening does not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Whose log it is.
    pub identity: WalIdentity,
    /// Bytes of the device.
    pub capacity: u64,
    /// How often the header was written.
    pub generation: u64,
    /// How often the log was opened.
    pub session: u64,
    /// True where it was closed in peace.
    pub clean: bool,
    /// Everything below is no longer needed.
    pub trim: u64,
    /// Where the next opening would go on.
    pub next: u64,
    /// Chunks: group commits.
    pub chunks: usize,
    /// Records that are not trimmed.
    pub records: usize,
    /// Their payload, in bytes.
    pub payload_bytes: u64,
    /// Bytes of the chunks, all of which were read.
    pub verified_bytes: u64,
    /// Holes that a crash left, and that were stepped over.
    pub holes: u64,
    /// Chunks whose directory has rotted: their records have not, and an opening reads them in full.
    pub directories_damaged: u64,
    /// Records that have rotted: the log opens, and each read of one of them is an error.
    pub records_damaged: u64,
    /// The first 1,000 of them, in order of position.
    pub damaged: Vec<Recovered>,
}

/// Reads a log as an opening would, and every body too, and reports instead of opening; `None` on a
/// blank device.
///
/// # Errors
/// As [`crate::Wal::open`].
pub async fn inspect(device: Arc<dyn BlockDevice>) -> Result<Option<Inspection>, OpenError> {
    let ring = ring_of(&*device)?;
    let Stored::Log(header, _) = header_store::read(&*device).await? else {
        return Ok(None);
    };
    let (mut records, mut payload_bytes) = (0, 0);
    let mut count = |record: Recovered| {
        records += 1;
        payload_bytes += u64::from(record.payload_bytes);
    };
    let scan = scan(device, ring, &header, Depth::Everything, &mut count).await?;
    Ok(Some(Inspection {
        identity: header.wal_identity(),
        capacity: header.capacity,
        generation: header.generation,
        session: header.session,
        clean: header.clean_end.is_some(),
        trim: header.trim,
        next: scan.next,
        chunks: scan.spans.len(),
        records,
        payload_bytes,
        verified_bytes: scan.extents.iter().map(WalRange::bytes).sum(),
        holes: scan.holes,
        directories_damaged: scan.directories_damaged,
        records_damaged: scan.records_damaged,
        damaged: scan.damaged,
    }))
}

/// The ring of a device that can hold a log.
pub(crate) fn ring_of(device: &dyn BlockDevice) -> Result<Ring, OpenError> {
    if device.block_size() != BLOCK_BYTES {
        return Err(OpenError::BlockSize(device.block_size()));
    }
    Ring::of(device.capacity()).ok_or(OpenError::TooSmall(RING_START + 64 * BLOCK))
}

/// Finds everything that is not trimmed, and hands each record to `sink` in order of position.
///
/// Where this fails, what the sink got is worth nothing.
pub(crate) async fn scan(
    device: Arc<dyn BlockDevice>,
    ring: Ring,
    header: &Header,
    depth: Depth,
    sink: &mut (dyn FnMut(Recovered) + Send),
) -> Result<Scan, OpenError> {
    if header.capacity != device.capacity() {
        let device = device.capacity();
        return Err(OpenError::Capacity {
            formatted: header.capacity,
            device,
        });
    }
    let mut scanner = Scanner {
        device,
        ring,
        header,
        depth,
        tagger: Tagger::new(header.identity),
        sink,
        stable: header.stable,
        content: Bytes::new(),
        found: Scan {
            spans: Vec::new(),
            extents: Vec::new(),
            next: 0,
            holes: 0,
            directories_damaged: 0,
            records_damaged: 0,
            damaged: Vec::new(),
        },
    };
    for extent in &header.extents {
        scanner.extent(*extent).await?;
    }
    scanner.last_session().await?;
    Ok(scanner.found)
}

struct Scanner<'a> {
    device: Arc<dyn BlockDevice>,
    ring: Ring,
    header: &'a Header,
    depth: Depth,
    tagger: Tagger,
    sink: &'a mut (dyn FnMut(Recovered) + Send),
    /// The highest position of which something durable says that all below was durable.
    stable: u64,
    /// The content of the last chunk that was looked at.
    content: Bytes,
    found: Scan,
}

/// Whose chunks a range of the ring may hold.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    identity: u64,
    sessions: Range<u64>,
    /// Where the range ends: no chunk reaches over it.
    pub(super) end: u64,
}

impl Stretch {
    /// The header in `sector`, if it belongs at `at` in this stretch.
    pub(super) fn header(&self, sector: &[u8], at: u64) -> Option<ChunkHeader> {
        let header = ChunkHeader::decode(sector.get(..CONTENT_BYTES)?)?;
        let here = header.identity == self.identity && header.position == at;
        let fits = header.end() <= self.end;
        (here && fits && self.sessions.contains(&header.session)).then_some(header)
    }
}

/// What lies where a chunk may start.
enum Examined {
    /// A whole chunk.
    Chunk(ChunkHeader, Vec<ChunkRecord>),
    /// No chunk that anybody was told is durable; the next may start this much further.
    Hole(u64),
    /// Every sector was written, and the content is not what was written.
    Rotten(&'static str),
}

impl Scanner<'_> {
    /// Reads a range of earlier sessions: chunks, back to back.
    async fn extent(&mut self, extent: WalRange) -> Result<(), OpenError> {
        let end = extent.end;
        let stretch = self.stretch(0..self.header.session, end);
        let start = extent.start.max(self.header.trim);
        // What an opening has listed was durable, all of it.
        let (mut at, _) = self.heads(start, &stretch, end).await?;
        let mut reader = self.reader(at, end);
        while at < end {
            match self.examine(&mut reader, at, &stretch).await? {
                Examined::Chunk(header, records) => at = self.keep(&header, records),
                Examined::Hole(_) => {
                    return Err(damaged(
                        at,
                        "a chunk kept by an earlier recovery is missing",
                    ));
                }
                Examined::Rotten(what) => return Err(damaged(at, what)),
            }
        }
        Ok(())
    }

    /// Reads what the last session wrote, and finds where the next one may start.
    async fn last_session(&mut self) -> Result<(), OpenError> {
        let header = self.header;
        let full = header.trim + self.ring.bytes();
        let end = header.clean_end.unwrap_or(full).min(full);
        let stretch = self.stretch(header.session..header.session + 1, end);
        let start = header.session_start.max(header.trim);
        let durable = header.stable.max(header.clean_end.unwrap_or(0));
        let (mut at, stable) = self.heads(start, &stretch, durable).await?;
        if header.clean_end.is_none() {
            self.stable = self.stable.max(stable);
        }
        let mut first_hole = None;
        let mut reader = self.reader(at, end);
        while at < first_hole.map_or(end, |hole: u64| end.min(hole + header.window)) {
            match self.examine(&mut reader, at, &stretch).await? {
                Examined::Chunk(header, records) => {
                    self.stable = self.stable.max(header.stable);
                    self.found.holes += u64::from(self.found_gap_before(at));
                    at = self.keep(&header, records);
                }
                Examined::Hole(step) => {
                    first_hole.get_or_insert(at);
                    at += step;
                }
                Examined::Rotten(what) => return Err(damaged(at, what)),
            }
        }
        let Some(hole) = first_hole else {
            self.found.next = at.max(header.session_start);
            return Ok(());
        };
        if header.clean_end.is_some() {
            return Err(damaged(
                hole,
                "a chunk is missing from a log that was closed cleanly",
            ));
        }
        if hole < self.stable {
            return Err(damaged(hole, "a durable chunk is missing"));
        }
        // A write of a dead process may still land, but not above this.
        self.found.next = full.min(hole + header.window);
        Ok(())
    }

    /// Keeps the chunks from `start` on whose heads are sound, for as far as they are known to be
    /// durable: up to `durable`, or what a later one says of itself. Returns where that is no longer
    /// so, and the highest such saying.
    async fn heads(
        &mut self,
        start: u64,
        stretch: &Stretch,
        durable: u64,
    ) -> Result<(u64, u64), OpenError> {
        let (mut at, mut stable) = (start, durable);
        if self.depth == Depth::Everything {
            return Ok((at, stable));
        }
        let walker = Arc::new(Walker {
            device: Arc::clone(&self.device),
            ring: self.ring,
            tagger: self.tagger,
            stretch: stretch.clone(),
        });
        let mut lanes = walker.lanes(start);
        let mut waiting: VecDeque<Head> = VecDeque::new();
        while let Some((lane, run)) = lanes.next().await {
            let run = match run.filter(|run| run.start == at) {
                Some(run) => run,
                None => walker.walk(at, lane.end).await.map_err(unread)?,
            };
            at = run.end;
            for head in run.heads {
                stable = stable.max(head.header.stable);
                waiting.push_back(head);
            }
            while let Some(head) = waiting.pop_front_if(|head| head.header.end() <= stable) {
                self.keep(&head.header, head.records);
            }
            if run.broken {
                break;
            }
        }
        let unsure = waiting.front().map(|head| head.header.position);
        Ok((unsure.unwrap_or(at), stable))
    }

    fn stretch(&self, sessions: Range<u64>, end: u64) -> Stretch {
        Stretch {
            identity: self.header.identity,
            sessions,
            end,
        }
    }

    fn reader(&self, from: u64, to: u64) -> RingReader {
        RingReader::new(Arc::clone(&self.device), self.ring, from, to)
    }

    /// True where a chunk at `position` follows a hole of its own session.
    fn found_gap_before(&self, position: u64) -> bool {
        let floor = self.header.session_start.max(self.header.trim);
        position
            > self
                .found
                .spans
                .last()
                .map_or(floor, |span| span.end.max(floor))
    }

    /// Keeps a chunk; returns where it ends.
    fn keep(&mut self, header: &ChunkHeader, records: Vec<ChunkRecord>) -> u64 {
        let (start, end) = (header.position, header.end());
        let records_end = records.last().map_or(start, |record| record.range.end);
        self.found.spans.push(Span {
            start,
            end,
            records_end,
        });
        match self.found.extents.last_mut() {
            Some(extent) if extent.end == start => extent.end = end,
            _ => self.found.extents.push(WalRange { start, end }),
        }
        for record in records {
            if record.range.end > self.header.trimmed_to {
                (self.sink)(Recovered {
                    range: record.range,
                    payload_bytes: record.payload_bytes,
                    head: record.head,
                });
            }
        }
        end
    }

    /// Says what lies at `at`, to the last byte.
    async fn examine(
        &mut self,
        reader: &mut RingReader,
        at: u64,
        stretch: &Stretch,
    ) -> Result<Examined, OpenError> {
        let bytes = reader.at(at).await.map_err(unread)?;
        let (sector, _) = bytes.split_at(SECTOR_BYTES.min(bytes.len()));
        let Some(header) = stretch.header(sector, at) else {
            return Ok(if self.tagger.starts_chunk(sector, at) {
                Examined::Rotten("a chunk's header does not match its checksum")
            } else {
                Examined::Hole(BLOCK)
            });
        };
        let (content, all_written) = self.content(reader, &header).await?;
        let directory = content.slice(header.directory_content());
        let listed = chunk::decode_directory(&header, &directory);
        drop(directory);
        let records = chunk::decode(&header, &content);
        let examined = match (records, listed) {
            (Some(records), Some(listed)) if records == listed => Examined::Chunk(header, records),
            // What it repeats is there; a crash would have left sectors unwritten.
            (Some(records), _) if all_written => {
                tracing::warn!(
                    position = at,
                    "a chunk's directory in the WAL is corrupt; its records are intact"
                );
                self.found.directories_damaged += 1;
                Examined::Chunk(header, records)
            }
            (None, Some(listed)) if all_written => {
                self.note_damaged(&header, &content, &listed);
                Examined::Chunk(header, listed)
            }
            _ if all_written => Examined::Rotten("a chunk's content does not match its checksum"),
            _ => Examined::Hole(u64::from(header.length)),
        };
        self.content = content;
        Ok(examined)
    }

    /// Takes note of those of a chunk's records that are not what was written.
    fn note_damaged(&mut self, header: &ChunkHeader, content: &Bytes, listed: &[ChunkRecord]) {
        let is_damaged = |record: &&ChunkRecord| {
            let content = content.get(content_at(record.range.start - header.position)..);
            let start = record.range.start;
            let length = content
                .and_then(|content| chunk::decode_record(header.identity, start, None, content));
            length != Some(record.payload_bytes as usize)
        };
        for record in listed.iter().filter(is_damaged) {
            let position = record.range.start;
            tracing::warn!(position, "a record in the WAL is corrupt");
            self.found.records_damaged += 1;
            if self.found.damaged.len() < DAMAGED_LISTED_MAX {
                self.found.damaged.push(Recovered {
                    range: record.range,
                    payload_bytes: record.payload_bytes,
                    // The chunk's content is as large as the chunk.
                    head: Bytes::copy_from_slice(&record.head),
                });
            }
        }
    }

    /// Reads a chunk's content, and whether each sector that has some was written for its place.
    async fn content(
        &mut self,
        reader: &mut RingReader,
        header: &ChunkHeader,
    ) -> Result<(Bytes, bool), OpenError> {
        let end = header.end();
        let sectors = header.length as usize / SECTOR_BYTES;
        // The memory of the last chunk serves again where nobody kept a record of it.
        let mut content = std::mem::take(&mut self.content)
            .try_into_mut()
            .unwrap_or_default();
        content.clear();
        content.reserve(sectors * CONTENT_BYTES);
        let padding = header.position + place_of(u64::from(header.content));
        let mut all_written = true;
        let mut at = header.position;
        while at < end {
            let bytes = reader.at(at).await.map_err(unread)?;
            let len = bytes.len().min((end - at) as usize);
            for sector in bytes[..len].chunks_exact(SECTOR_BYTES) {
                let expected = if at == header.position {
                    Tag::Head
                } else {
                    Tag::Body
                };
                // A tear in the padding costs nothing, so it says nothing of the content.
                all_written &= at >= padding || self.tagger.says(sector, at, expected);
                at += SECTOR_BYTES as u64;
            }
            chunk::strip_tags(&bytes[..len], &mut content);
        }
        Ok((content.freeze(), all_written))
    }
}

fn unread(source: std::io::Error) -> OpenError {
    OpenError::Device {
        operation: "read",
        source,
    }
}

fn damaged(position: u64, what: &'static str) -> OpenError {
    OpenError::Damaged { position, what }
}
