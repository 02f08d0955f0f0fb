//! What a record carries so that its consumer can tell its latency and check it.
//!
//! ```text
//! run: u64 │ producer: u32 │ checksum: u32 │ number: u64 │ due_us: u64 │ random bytes …
//! ```
//!
//! All big endian. The checksum is the CRC32C of the value without the checksum itself.

use millrace_model::{crc32c, crc32c_append};

/// Bytes of a mark.
pub(crate) const MARK_BYTES: usize = 32;
/// In the first bytes of each run's id, so that others' records are not taken for marked ones.
const MAGIC: u64 = 0x6d70 << 48;
const MAGIC_MASK: u64 = 0xffff << 48;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) run: u64,
    pub(crate) producer: u32,
    /// Counts the records of the producer, from 0.
    pub(crate) number: u64,
    /// When the record was due, on the clock of the run, in microseconds.
    pub(crate) due_us: u64,
}

/// What a record's value says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    Sound(Mark),
    /// The checksum does not fit.
    Corrupt,
    /// Not written by this program.
    No,
}

/// A run's id from random bits.
pub(crate) fn run_id(random: u64) -> u64 {
    MAGIC | (random & !MAGIC_MASK)
}

impl Mark {
    /// Writes the mark to the front of a value that has room for it.
    pub(crate) fn write(&self, value: &mut [u8]) {
        value[..8].copy_from_slice(&self.run.to_be_bytes());
        value[8..12].copy_from_slice(&self.producer.to_be_bytes());
        value[16..24].copy_from_slice(&self.number.to_be_bytes());
        value[24..32].copy_from_slice(&self.due_us.to_be_bytes());
        let sum = checksum(value);
        value[12..16].copy_from_slice(&sum.to_be_bytes());
    }

    /// Reads a mark and, with `check`, the value's checksum.
    pub(crate) fn read(value: &[u8], check: bool) -> Marked {
        let (Some(run), Some(producer), Some(sum), Some(number), Some(due_us)) = (
            u64_at(value, 0),
            u32_at(value, 8),
            u32_at(value, 12),
            u64_at(value, 16),
            u64_at(value, 24),
        ) else {
            return Marked::No;
        };
        if run & MAGIC_MASK != MAGIC {
            return Marked::No;
        }
        if check && sum != checksum(value) {
            return Marked::Corrupt;
        }
        Marked::Sound(Self {
            run,
            producer,
            number,
            due_us,
        })
    }
}

fn checksum(value: &[u8]) -> u32 {
    crc32c_append(crc32c(&value[..12]), &value[16..])
}

fn u64_at(value: &[u8], at: usize) -> Option<u64> {
    let bytes = value.get(at..at + 8)?;
    bytes.try_into().ok().map(u64::from_be_bytes)
}

fn u32_at(value: &[u8], at: usize) -> Option<u32> {
    let bytes = value.get(at..at + 4)?;
    bytes.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_and_damage_is_found() {
        let mark = Mark {
            run: run_id(u64::MAX),
            producer: 7,
            number: 1 << 40,
            due_us: 123,
        };
        for length in [MARK_BYTES, 100] {
            let mut value = vec![9; length];
            mark.write(&mut value);
            assert_eq!(Mark::read(&value, true), Marked::Sound(mark));
            let last = length - 1;
            value[last] ^= 1;
            assert_eq!(Mark::read(&value, true), Marked::Corrupt);
            assert!(matches!(Mark::read(&value, false), Marked::Sound(_)));
        }
    }

    #[test]
    fn what_others_wrote_has_no_mark() {
        assert_eq!(Mark::read(&[0; 100], true), Marked::No);
        assert_eq!(Mark::read(b"short", true), Marked::No);
    }
}
