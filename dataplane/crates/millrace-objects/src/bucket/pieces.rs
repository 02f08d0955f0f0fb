//! Splits the bytes of one request into pieces that own their memory.

use std::ops::Range;

use bytes::Bytes;

/// From the first byte of the first piece to the last of the last.
pub(crate) fn span(pieces: &[Range<u64>]) -> Range<u64> {
    let start = pieces.first().map_or(0, |piece| piece.start);
    start..pieces.last().map_or(start, |piece| piece.end)
}

/// Fills the pieces in the order of their bytes; what lies between them is dropped.
#[derive(Debug)]
pub(crate) struct Cutter<'a> {
    pieces: &'a [Range<u64>],
    /// The position of the byte that comes next.
    at: u64,
    open: Vec<u8>,
    done: Vec<Bytes>,
}

impl<'a> Cutter<'a> {
    /// Begins at the first byte of the first of `pieces`, which are ascending and apart.
    pub(crate) fn new(pieces: &'a [Range<u64>]) -> Self {
        Self {
            pieces,
            at: span(pieces).start,
            open: Vec::new(),
            done: Vec::with_capacity(pieces.len()),
        }
    }

    /// Takes the bytes that come next.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while let Some(piece) = self.pieces.get(self.done.len()) {
            let between = piece.start.saturating_sub(self.at);
            let skipped = usize::try_from(between).map_or(bytes.len(), |n| n.min(bytes.len()));
            bytes = &bytes[skipped..];
            self.at += skipped as u64;
            if bytes.is_empty() {
                return;
            }
            if self.open.capacity() == 0 {
                // Exactly, since a block is charged with what it holds.
                self.open.reserve_exact(length(piece));
            }
            let missing = length(piece) - self.open.len();
            let (taken, rest) = bytes.split_at(missing.min(bytes.len()));
            self.open.extend_from_slice(taken);
            self.at += taken.len() as u64;
            bytes = rest;
            if self.open.len() == length(piece) {
                self.done.push(std::mem::take(&mut self.open).into());
            }
        }
    }

    /// As many pieces as were asked for; those that nothing came for are short or empty.
    pub(crate) fn finish(mut self) -> Vec<Bytes> {
        if self.done.len() < self.pieces.len() {
            self.done.push(std::mem::take(&mut self.open).into());
        }
        self.done.resize(self.pieces.len(), Bytes::new());
        self.done
    }
}

fn length(piece: &Range<u64>) -> usize {
    usize::try_from(piece.end.saturating_sub(piece.start)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_what_the_whole_has_there_however_it_comes(
            steps in prop::collection::vec((0..40_u64, 1..60_u64), 1..12),
            chunks in prop::collection::vec(1..50_usize, 0..40),
            start in 0..1_000_u64,
        ) {
            let mut at = start;
            let pieces: Vec<_> = steps.iter().map(|(gap, length)| {
                let piece = at + gap..at + gap + length;
                at = piece.end;
                piece
            }).collect();
            let whole = span(&pieces);
            let byte = |position: u64| (position * 31 % 251) as u8;
            let all: Vec<u8> = whole.clone().map(byte).collect();
            let mut cutter = Cutter::new(&pieces);
            let mut rest = all.as_slice();
            for chunk in chunks {
                let (now, later) = rest.split_at(chunk.min(rest.len()));
                cutter.push(now);
                rest = later;
            }
            let received = whole.end - rest.len() as u64;
            let found = cutter.finish();
            prop_assert_eq!(found.len(), pieces.len());
            for (piece, found) in pieces.iter().zip(found) {
                let come: Vec<u8> = (piece.start..piece.end.min(received)).map(byte).collect();
                prop_assert_eq!(&found[..], come);
            }
        }
    }
}
