//! Reading and writing Kafka's primitive types without a panic on any bytes.

use bytes::{BufMut, BytesMut};

use super::MalformedRecord;

/// Reads fields from the front of some bytes.
pub(crate) struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn remaining(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], MalformedRecord> {
        let (head, rest) = self
            .0
            .split_at_checked(len)
            .ok_or(MalformedRecord::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedRecord> {
        self.take(N)?
            .try_into()
            .map_err(|_| MalformedRecord::Truncated)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, MalformedRecord> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, MalformedRecord> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, MalformedRecord> {
        self.array().map(i64::from_be_bytes)
    }

    /// An unsigned LEB128 number of at most 32 bits (Kafka's compact lengths).
    pub(crate) fn varint(&mut self) -> Result<u32, MalformedRecord> {
        let mut number = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            number |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(MalformedRecord::Length)
    }

    pub(crate) fn i8(&mut self) -> Result<i8, MalformedRecord> {
        self.array().map(i8::from_be_bytes)
    }

    /// A count of items that take at least one byte each, so it cannot exceed what is left.
    pub(crate) fn count(&mut self, form: Form) -> Result<usize, MalformedRecord> {
        self.count_or_null(form)?.ok_or(MalformedRecord::Length)
    }

    /// The same where −1 stands for null.
    pub(crate) fn count_or_null(&mut self, form: Form) -> Result<Option<usize>, MalformedRecord> {
        let count = match form {
            Form::Fixed => i64::from(self.i32()?),
            Form::Compact => i64::from(self.varint()?) - 1,
        };
        if count == -1 {
            return Ok(None);
        }
        let count = usize::try_from(count).map_err(|_| MalformedRecord::Length)?;
        if count > self.remaining() {
            Err(MalformedRecord::Length)
        } else {
            Ok(Some(count))
        }
    }

    pub(crate) fn bytes(&mut self, form: Form) -> Result<&'a [u8], MalformedRecord> {
        let len = self.count(form)?;
        self.take(len)
    }

    pub(crate) fn text_or_null(&mut self, form: Form) -> Result<Option<String>, MalformedRecord> {
        let len = match form {
            Form::Fixed => i64::from(self.i16()?),
            Form::Compact => i64::from(self.varint()?) - 1,
        };
        if len == -1 {
            return Ok(None);
        }
        let len = usize::try_from(len).map_err(|_| MalformedRecord::Length)?;
        let text = std::str::from_utf8(self.take(len)?).map_err(|_| MalformedRecord::Text)?;
        Ok(Some(text.to_owned()))
    }

    pub(crate) fn text(&mut self, form: Form) -> Result<String, MalformedRecord> {
        self.text_or_null(form)?.ok_or(MalformedRecord::Length)
    }

    /// Skips the tagged fields that end a structure of a flexible version.
    pub(crate) fn tagged_fields(&mut self, form: Form) -> Result<(), MalformedRecord> {
        self.each_tagged_field(form, |_, _| Ok(()))
    }

    /// Reads the tagged fields that end a structure of a flexible version.
    pub(crate) fn each_tagged_field(
        &mut self,
        form: Form,
        mut read: impl FnMut(u32, Cursor<'a>) -> Result<(), MalformedRecord>,
    ) -> Result<(), MalformedRecord> {
        if form == Form::Fixed {
            return Ok(());
        }
        for _ in 0..self.varint()? {
            let tag = self.varint()?;
            let len = usize::try_from(self.varint()?).map_err(|_| MalformedRecord::Length)?;
            read(tag, Cursor::new(self.take(len)?))?;
        }
        Ok(())
    }
}

/// How lengths are written: in 2 or 4 bytes, or, in flexible versions (KIP-482), as a varint of
/// one more than the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Fixed,
    Compact,
}

/// Writes a text with a 16-bit length; −1 stands for none.
pub(crate) fn put_text(out: &mut BytesMut, text: Option<&str>) {
    let Some(text) = text else {
        return out.put_i16(-1);
    };
    let cut = floor_char(text, i16::MAX.unsigned_abs().into());
    out.put_u16(u16::try_from(cut).unwrap_or(0));
    out.put_slice(&text.as_bytes()[..cut]);
}

/// The longest prefix of `text` that ends at a character and has at most `len` bytes. Wire texts
/// are shorter; a longer one is cut rather than written with a wrong length.
fn floor_char(text: &str, len: usize) -> usize {
    (0..=len.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

/// Writes bytes with a 32-bit length. Values are bounded far below its range.
pub(crate) fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(u32::try_from(bytes.len()).unwrap_or(0));
    out.put_slice(bytes);
}
