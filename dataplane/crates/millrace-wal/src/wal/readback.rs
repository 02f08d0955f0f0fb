//! Reads payloads back from the device.
//!
//! Adjacent records are read together, because a device is slow at many small reads: a **segment**
//! is one read and holds all records of the request that fit into it.

use std::{io, ops::Range};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::{Shared, Wal};
use crate::{
    AlignedBuf, ReadError, WalRange,
    format::{
        BLOCK, block_up,
        chunk::{self, RECORD_HEADER_BYTES},
        sector::{CONTENT_BYTES, SECTOR_BYTES, content_at},
    },
    ring::Piece,
};

/// A segment grows to this many bytes: a disk's full bandwidth with a few of them in flight.
const SEGMENT_BYTES_MAX: u64 = 1024 * 1024;

/// Bytes between two records that are read along rather than skipped: about what a device reads in
/// the time that one more operation costs.
const GAP_BYTES_MAX: u64 = 64 * 1024;

/// Segments that one call reads at once.
const SEGMENTS_PER_CALL: usize = 4;

/// Segments that all calls together read at once: bounds their memory, and what they take from the
/// device's queue while the log is written.
pub(super) const SEGMENTS_IN_FLIGHT: usize = 8;

impl Wal {
    /// Reads the payload of a durable record that is not trimmed.
    ///
    /// # Errors
    /// There is no such record, it is damaged, or the device fails.
    pub async fn read(&self, range: WalRange) -> Result<Bytes, ReadError> {
        let mut payloads = self.read_many(&[range]).await?;
        payloads.pop().ok_or(ReadError::Absent)
    }

    /// Reads the payloads of durable records that are not trimmed, which must be in order of
    /// position. Records that lie close together cost one read.
    ///
    /// # Errors
    /// One of them does not exist, is damaged, or the device fails.
    pub async fn read_many(&self, ranges: &[WalRange]) -> Result<Vec<Bytes>, ReadError> {
        let mut payloads = Vec::with_capacity(ranges.len());
        let mut segments = stream::iter(segments(ranges))
            .map(|records| self.shared.read_segment(&ranges[records]))
            .buffered(SEGMENTS_PER_CALL);
        while let Some(segment) = segments.try_next().await? {
            payloads.extend(segment);
        }
        Ok(payloads)
    }
}

/// Cuts a list of records into those that are read together.
fn segments(ranges: &[WalRange]) -> Vec<Range<usize>> {
    let mut segments: Vec<Range<usize>> = Vec::new();
    for (index, range) in ranges.iter().enumerate() {
        let joins = segments.last().is_some_and(|segment| {
            let (first, last) = (ranges[segment.start], ranges[segment.end - 1]);
            let near = range.start >= last.end && range.start - last.end <= GAP_BYTES_MAX;
            near && block_up(range.end) - block_down(first.start) <= SEGMENT_BYTES_MAX
        });
        match segments.last_mut() {
            Some(segment) if joins => segment.end = index + 1,
            _ => segments.push(index..index + 1),
        }
    }
    segments
}

const fn block_down(position: u64) -> u64 {
    position / BLOCK * BLOCK
}

impl Shared {
    /// Reads records that lie close together: at least one.
    async fn read_segment(&self, ranges: &[WalRange]) -> Result<Vec<Bytes>, ReadError> {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
            return Ok(Vec::new());
        };
        let whole = WalRange {
            start: first.start,
            end: last.end,
        };
        if ranges.iter().any(|range| range.start >= range.end) || !self.holds(whole) {
            return Err(ReadError::Absent);
        }
        let from = block_down(whole.start);
        let content = self.read_content(from, block_up(whole.end)).await?;
        let payloads = self.payloads(&content, from, ranges);
        match payloads {
            // It may have been trimmed and written over while it was read.
            Err(ReadError::Damaged(_)) if !self.holds(whole) => Err(ReadError::Absent),
            settled => settled,
        }
    }

    /// What the blocks from `from` to `to` hold, without their sectors' tags.
    async fn read_content(&self, from: u64, to: u64) -> Result<Bytes, ReadError> {
        let _turn = self.readback.acquire().await;
        let (first, second) = self.ring.pieces(from, to - from);
        let sectors = (to - from) as usize / SECTOR_BYTES;
        let mut content = Vec::with_capacity(sectors * CONTENT_BYTES);
        chunk::strip_tags(&self.read_piece(first).await?, &mut content);
        if let Some(second) = second {
            chunk::strip_tags(&self.read_piece(second).await?, &mut content);
        }
        Ok(content.into())
    }

    /// Cuts the records' payloads out of `content`, whose first sector lies at `from`.
    fn payloads(
        &self,
        content: &Bytes,
        from: u64,
        ranges: &[WalRange],
    ) -> Result<Vec<Bytes>, ReadError> {
        let mut payloads = Vec::with_capacity(ranges.len());
        for range in ranges {
            let at = content_at(range.start - from);
            let record = content.get(at..).unwrap_or_default();
            let len = chunk::decode_record(self.identity, range.start, None, record)
                .ok_or(ReadError::Damaged(range.start))?;
            let body = at + RECORD_HEADER_BYTES;
            payloads.push(content.slice(body..body + len));
        }
        let wanted: usize = payloads.iter().map(Bytes::len).sum();
        // Who reads is charged for the payloads, so they keep little more than themselves in memory.
        if wanted < content.len() / 8 * 7 {
            for payload in &mut payloads {
                *payload = Bytes::copy_from_slice(payload);
            }
        }
        Ok(payloads)
    }

    async fn read_piece(&self, piece: Piece) -> io::Result<AlignedBuf> {
        self.device.read(piece.offset, piece.len as usize).await
    }

    fn holds(&self, range: WalRange) -> bool {
        let state = self.state.lock();
        let bounds = state.spans.durable_trim()..=state.commit.next();
        bounds.contains(&range.start) && bounds.contains(&range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_records_share_a_read_and_far_ones_do_not() {
        let range = |start, end| WalRange { start, end };
        let kib = 1024;
        let ranges = [
            range(100, 200),
            range(300, 4_000),
            // Too far away.
            range(4_000 + 65 * kib, 4_100 + 65 * kib),
            range(4_100 + 65 * kib, 900 * kib),
            // The segment would be too long.
            range(900 * kib, 1_100 * kib),
            // Longer than a segment: alone.
            range(1_100 * kib, 5_000 * kib),
            range(5_000 * kib, 5_001 * kib),
        ];
        assert_eq!(segments(&ranges), [0..2, 2..4, 4..5, 5..6, 6..7]);
        assert_eq!(segments(&[]), []);
    }
}
