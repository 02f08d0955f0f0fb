//! Reads big-endian numbers from bytes that may end too early.

use super::Corrupt;

/// The unread rest of one part of an object.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    part: &'static str,
}

impl<'a> Cursor<'a> {
    /// Reads `bytes`; errors name `part`.
    pub(super) fn new(bytes: &'a [u8], part: &'static str) -> Self {
        Self { rest: bytes, part }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Corrupt> {
        let (head, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(Corrupt::CutOff { part: self.part })?;
        self.rest = rest;
        Ok(*head)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Corrupt> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Corrupt> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Corrupt> {
        self.array().map(u64::from_be_bytes)
    }
}
