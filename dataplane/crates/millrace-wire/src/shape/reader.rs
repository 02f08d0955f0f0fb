//! Reads the primitive types of the protocol from foreign bytes, without allocating.

use super::{MalformedBody, REQUEST_ELEMENTS_MAX};

/// Bytes of the longest variable-length number.
const VARINT_BYTES_MAX: u32 = 5;

/// A place in foreign bytes.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len()
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], MalformedBody> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(MalformedBody::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedBody> {
        let (taken, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(MalformedBody::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn skip(&mut self, len: usize) -> Result<(), MalformedBody> {
        self.take(len).map(drop)
    }

    pub(crate) fn i8(&mut self) -> Result<i8, MalformedBody> {
        self.array().map(i8::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, MalformedBody> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, MalformedBody> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn unsigned_varint(&mut self) -> Result<u32, MalformedBody> {
        let mut value = 0u64;
        for place in 0..VARINT_BYTES_MAX {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << (place * 7);
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| MalformedBody::LongVarint);
            }
        }
        Err(MalformedBody::LongVarint)
    }

    /// A length of 16 bits; -1 is none.
    pub(crate) fn nullable_len_i16(&mut self) -> Result<Option<usize>, MalformedBody> {
        nullable(self.i16()?.into())
    }

    /// A length of 32 bits; -1 is none.
    pub(crate) fn nullable_len_i32(&mut self) -> Result<Option<usize>, MalformedBody> {
        nullable(self.i32()?)
    }

    /// A length plus one; 0 is none.
    pub(crate) fn compact_len(&mut self) -> Result<Option<usize>, MalformedBody> {
        Ok(self
            .unsigned_varint()?
            .checked_sub(1)
            .map(|len| len as usize))
    }

    /// Bytes after a length of 16 bits.
    pub(crate) fn nullable_string(&mut self) -> Result<Option<&'a [u8]>, MalformedBody> {
        let len = self.nullable_len_i16()?;
        len.map(|len| self.take(len)).transpose()
    }

    pub(crate) fn skip_tagged_fields(&mut self) -> Result<(), MalformedBody> {
        let count = self.unsigned_varint()? as usize;
        if count > REQUEST_ELEMENTS_MAX {
            return Err(MalformedBody::TooManyElements);
        }
        for _ in 0..count {
            self.unsigned_varint()?;
            let size = self.unsigned_varint()? as usize;
            self.skip(size)?;
        }
        Ok(())
    }
}

fn nullable(len: i32) -> Result<Option<usize>, MalformedBody> {
    match len {
        -1 => Ok(None),
        len => usize::try_from(len)
            .map(Some)
            .map_err(|_| MalformedBody::NegativeLength),
    }
}
