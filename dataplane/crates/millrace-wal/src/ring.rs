//! From positions, which only grow, to bytes of the device.

use crate::format::{BLOCK, RING_START};

/// Where a record lies: positions in bytes since the device was formatted, `end` exclusive.
///
/// Later records have higher positions. Positions grow by more than the payload's length, because
/// headers, tags and padding count too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WalRange {
    /// The first position.
    pub start: u64,
    /// The position behind the last.
    pub end: u64,
}

impl WalRange {
    /// Bytes on the device.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// The ring's place and size on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ring {
    bytes: u64,
}

/// One contiguous piece of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Byte of the device.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) len: u64,
}

/// The smallest ring, in bytes: below this a single record of a few blocks would fill it.
const RING_BYTES_MIN: u64 = 64 * BLOCK;

impl Ring {
    /// The ring of a device of `capacity` bytes; `None` where it would be too small.
    pub(crate) fn of(capacity: u64) -> Option<Self> {
        let bytes = capacity.checked_sub(RING_START)? / BLOCK * BLOCK;
        (bytes >= RING_BYTES_MIN).then_some(Self { bytes })
    }

    pub(crate) const fn bytes(self) -> u64 {
        self.bytes
    }

    /// The one or two pieces of the device that hold `len` bytes from `position`: two where the
    /// range runs over the ring's end.
    pub(crate) const fn pieces(self, position: u64, len: u64) -> (Piece, Option<Piece>) {
        let at = position % self.bytes;
        let room = self.bytes - at;
        if len <= room {
            return (
                Piece {
                    offset: RING_START + at,
                    len,
                },
                None,
            );
        }
        let first = Piece {
            offset: RING_START + at,
            len: room,
        };
        (
            first,
            Some(Piece {
                offset: RING_START,
                len: len - room,
            }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_over_the_end_has_two_pieces() {
        let ring = Ring::of(RING_START + 64 * BLOCK + 100).expect("large enough");
        assert_eq!(ring.bytes(), 64 * BLOCK);
        let whole = Piece {
            offset: RING_START + BLOCK,
            len: 63 * BLOCK,
        };
        assert_eq!(ring.pieces(65 * BLOCK, 63 * BLOCK), (whole, None));
        let (first, second) = ring.pieces(127 * BLOCK, 3 * BLOCK);
        assert_eq!(
            first,
            Piece {
                offset: RING_START + 63 * BLOCK,
                len: BLOCK
            }
        );
        assert_eq!(
            second,
            Some(Piece {
                offset: RING_START,
                len: 2 * BLOCK
            })
        );
    }

    #[test]
    fn a_tiny_device_has_no_ring() {
        assert_eq!(Ring::of(RING_START), None);
        assert_eq!(Ring::of(0), None);
        assert_eq!(Ring::of(RING_START + 63 * BLOCK), None);
    }
}
