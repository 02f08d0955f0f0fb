//! Finds chunks by their heads, which are headers and directories, without reading their bodies.
//!
//! A header says where the next chunk starts, and the preceding directory is read with it: one small
//! read per chunk. To run these reads in parallel, the range is split into **lanes**. Every lane but
//! the first must search for a place where a chunk starts. That place belongs to the chain only if
//! the previous lane arrives exactly there; otherwise the lane is walked again from the chain's
//! position. So a lane may be wasted, but is never wrong.

use std::{io, ops::Range, sync::Arc};

use bytes::Bytes;
use futures_util::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};

use super::Stretch;
use crate::{
    AlignedBuf,
    device::BlockDevice,
    format::{
        BLOCK,
        chunk::{self, ChunkHeader, ChunkRecord},
        sector::{SECTOR_BYTES, Tagger},
    },
    ring::{Piece, Ring},
};

/// Lanes that are walked at once: hides a device's latency, a millisecond for a cloud volume, at the
/// most operations per second that it allows.
const LANES_IN_FLIGHT: usize = 32;

/// The most bytes of one lane: so many times what is read to find its first chunk, that finding it
/// costs little.
const LANE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The least bytes of one lane.
const LANE_BYTES_MIN: u64 = 16 * BLOCK;

/// A ring has so many lanes at least, that a small one is walked in the same way.
const LANES_PER_RING: u64 = 64;

/// Bytes in which the first chunk of a lane is looked for: the usual size of a full one.
const SEEK_BYTES: u64 = 1024 * 1024;

/// Chunks that are shorter are not skipped: reading their bodies along takes less of a device than
/// one more operation. A cloud volume that allows 1,000 MiB and 16,000 operations per second breaks
/// even at 64 KiB, a local disk at 16.
const SKIP_BYTES_MIN: u32 = 32 * 1024;

/// Bytes of one read among chunks that are not skipped.
const READ_BYTES: u64 = 256 * 1024;

/// A chunk whose header and directory are what was written.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) header: ChunkHeader,
    pub(super) records: Vec<ChunkRecord>,
}

/// Chunks that stand back to back.
#[derive(Debug)]
pub(super) struct Run {
    /// Where the first one starts.
    pub(super) start: u64,
    pub(super) heads: Vec<Head>,
    /// Where the last one ends.
    pub(super) end: u64,
    /// The chain goes no further: what stands at `end` is no chunk with a sound head.
    pub(super) broken: bool,
}

/// A lane, and what was found in it.
pub(super) type Lane = (Range<u64>, Option<Run>);

/// Walks one stretch of the ring.
pub(super) struct Walker {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) ring: Ring,
    pub(super) tagger: Tagger,
    pub(super) stretch: Stretch,
}

/// Bytes of the ring as they lie there, tags included.
struct Window {
    start: u64,
    bytes: AlignedBuf,
}

impl Window {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The bytes from `from` to `to`, which the window covers.
    fn get(&self, from: u64, to: u64) -> &[u8] {
        let range = from.checked_sub(self.start).zip(to.checked_sub(self.start));
        range
            .and_then(|(from, to)| self.bytes.get(from as usize..to as usize))
            .unwrap_or_default()
    }

    fn covers(&self, from: u64, to: u64) -> bool {
        self.start <= from && to <= self.end()
    }
}

impl Walker {
    /// The lanes from `from` to the end of the stretch, in order, each with what was found.
    pub(super) fn lanes(self: &Arc<Self>, from: u64) -> BoxStream<'static, Lane> {
        let bytes = (self.ring.bytes() / LANES_PER_RING / BLOCK * BLOCK)
            .clamp(LANE_BYTES_MIN, LANE_BYTES_MAX);
        let end = self.stretch.end;
        let starts = std::iter::successors(Some(from), move |start| Some(start + bytes));
        let lanes = starts
            .take_while(move |&start| start < end)
            .map(move |start| start..end.min(start + bytes));
        let this = Arc::clone(self);
        let walk = move |lane| Arc::clone(&this).lane(lane, from);
        stream::iter(lanes)
            .map(walk)
            .buffered(LANES_IN_FLIGHT)
            .boxed()
    }

    /// Walks one lane, the first of which starts at `from`. A read that fails here is no error: a
    /// lane beyond the last chunk reads what nobody needs.
    fn lane(self: Arc<Self>, lane: Range<u64>, from: u64) -> BoxFuture<'static, Lane> {
        async move {
            let found = if lane.start == from {
                Some((from, None))
            } else {
                self.seek(&lane).await
            };
            let run = match found {
                Some((start, window)) => self.hop(window, start, lane.end).await.ok(),
                None => None,
            };
            (lane, run)
        }
        .boxed()
    }

    /// The first place in a lane where a chunk starts, and what was read to find it.
    async fn seek(&self, lane: &Range<u64>) -> Option<(u64, Option<Window>)> {
        let to = lane.end.min(lane.start + SEEK_BYTES);
        let window = self.read(lane.start, to).await.ok()?;
        let starts_chunk = |&at: &u64| {
            let sector = window.get(at, at + SECTOR_BYTES as u64);
            self.tagger.starts_chunk(sector, at) && self.stretch.header(sector, at).is_some()
        };
        let start = (lane.start..to).step_by(BLOCK as usize).find(starts_chunk);
        Some((start?, Some(window)))
    }

    /// Goes from chunk to chunk, from `start` up to the first that starts at `limit` or above.
    ///
    /// # Errors
    /// The device fails to read.
    pub(super) async fn walk(&self, start: u64, limit: u64) -> io::Result<Run> {
        self.hop(None, start, limit).await
    }

    async fn hop(&self, window: Option<Window>, start: u64, limit: u64) -> io::Result<Run> {
        let mut window = window.unwrap_or(Window {
            start,
            bytes: AlignedBuf::zeroed(0),
        });
        let mut run = Run {
            start,
            heads: Vec::new(),
            end: start,
            broken: false,
        };
        while run.end < limit && !run.broken {
            match self.head(&mut window, run.end).await? {
                Some(head) => {
                    run.end = head.header.end();
                    run.heads.push(head);
                }
                None => run.broken = true,
            }
        }
        Ok(run)
    }

    /// The head of the chunk at `at`, if one is there and sound.
    async fn head(&self, window: &mut Window, at: u64) -> io::Result<Option<Head>> {
        self.cover(window, at, at + BLOCK, BLOCK).await?;
        let sector = window.get(at, at + SECTOR_BYTES as u64);
        let Some(header) = self.stretch.header(sector, at) else {
            return Ok(None);
        };
        let (sector, within) = header.directory_place();
        let read_bytes = if header.length < SKIP_BYTES_MIN {
            READ_BYTES
        } else {
            BLOCK
        };
        // The next header is read along.
        let to = self.stretch.end.min(header.end() + BLOCK);
        self.cover(window, sector / BLOCK * BLOCK, to, read_bytes)
            .await?;
        let mut content = Vec::new();
        chunk::strip_tags(window.get(sector, header.end()), &mut content);
        let directory = content.get(within..within + header.directory as usize);
        let directory = Bytes::copy_from_slice(directory.unwrap_or_default());
        let records = chunk::decode_directory(&header, &directory);
        Ok(records.map(|records| Head { header, records }))
    }

    /// Moves the window over `[from, to)` where it is not, and then reads `read_bytes` at least.
    async fn cover(
        &self,
        window: &mut Window,
        from: u64,
        to: u64,
        read_bytes: u64,
    ) -> io::Result<()> {
        if !window.covers(from, to) {
            let to = to.max(self.stretch.end.min(from + read_bytes));
            *window = self.read(from, to).await?;
        }
        Ok(())
    }

    async fn read(&self, from: u64, to: u64) -> io::Result<Window> {
        let (first, second) = self.ring.pieces(from, to - from);
        let mut bytes = self.read_piece(first).await?;
        if let Some(second) = second {
            let rest = self.read_piece(second).await?;
            let mut whole = AlignedBuf::zeroed(bytes.len() + rest.len());
            whole[..bytes.len()].copy_from_slice(&bytes);
            whole[bytes.len()..].copy_from_slice(&rest);
            bytes = whole;
        }
        Ok(Window { start: from, bytes })
    }

    async fn read_piece(&self, piece: Piece) -> io::Result<AlignedBuf> {
        self.device.read(piece.offset, piece.len as usize).await
    }
}
