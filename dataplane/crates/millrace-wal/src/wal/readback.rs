//! A record's payload, read back from the device.

use bytes::Bytes;

use super::{Shared, Wal};
use crate::{
    AlignedBuf, ReadError, WalRange,
    format::{
        BLOCK, block_up,
        chunk::{self, RECORD_HEADER_BYTES},
        sector::SECTOR_BYTES,
    },
    ring::Piece,
};

impl Wal {
    /// Reads the payload of a durable record that is not trimmed.
    ///
    /// # Errors
    /// There is no such record, it is damaged, or the device fails.
    pub async fn read(&self, range: WalRange) -> Result<Bytes, ReadError> {
        self.shared.read(range).await
    }
}

impl Shared {
    async fn read(&self, range: WalRange) -> Result<Bytes, ReadError> {
        if !self.holds(range) {
            return Err(ReadError::Absent);
        }
        let from = range.start / BLOCK * BLOCK;
        let (first, second) = self.ring.pieces(from, block_up(range.end) - from);
        let mut content = Vec::new();
        // The record starts in this sector, that far behind its first byte of content.
        let skipped = (range.start - from) as usize / SECTOR_BYTES * SECTOR_BYTES;
        let in_sector = range.start as usize % SECTOR_BYTES;
        let buf = self.read_piece(first).await?;
        chunk::strip_tags(buf.get(skipped..).unwrap_or_default(), &mut content);
        if let Some(second) = second {
            chunk::strip_tags(&self.read_piece(second).await?, &mut content);
        }
        let content = Bytes::from(content);
        let record = content.get(in_sector..).unwrap_or_default();
        match chunk::decode_record(self.identity, range.start, None, record) {
            Some(len) => {
                let start = in_sector + RECORD_HEADER_BYTES;
                Ok(content.slice(start..start + len))
            }
            // It may have been trimmed and written over while it was read.
            None if !self.holds(range) => Err(ReadError::Absent),
            None => Err(ReadError::Damaged(range.start)),
        }
    }

    async fn read_piece(&self, piece: Piece) -> std::io::Result<AlignedBuf> {
        self.device.read(piece.offset, piece.len as usize).await
    }

    fn holds(&self, range: WalRange) -> bool {
        let state = self.state.lock();
        let bounds = state.spans.durable_trim()..=state.commit.next();
        range.start < range.end && bounds.contains(&range.start) && bounds.contains(&range.end)
    }
}
