//! Writes a frame's fields by hand, so that record bytes between them stay where they are.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;

use crate::response::{EncodeError, LENGTH_BYTES, length_prefix};

/// Records up to this size are copied between the fields: cheaper than one more segment.
pub(crate) const INLINE_BYTES_MAX: usize = 512;

/// A frame that is being written: fields, and record bytes that are only shared.
pub(crate) struct FrameWriter {
    api_key: ApiKey,
    version: i16,
    /// Compact lengths and tagged fields.
    flexible: bool,
    /// What is being written.
    out: BytesMut,
    /// The first segment, kept writable for the length.
    head: Option<BytesMut>,
    /// The segments after it.
    segments: Vec<Bytes>,
}

impl FrameWriter {
    /// Continues a frame that has its header, with room for the length in front.
    pub(crate) fn new(api_key: ApiKey, version: i16, flexible: bool, header: BytesMut) -> Self {
        Self {
            api_key,
            version,
            flexible,
            out: header,
            head: None,
            segments: Vec::new(),
        }
    }

    pub(crate) fn out(&mut self) -> &mut BytesMut {
        &mut self.out
    }

    pub(crate) fn is_flexible(&self) -> bool {
        self.flexible
    }

    pub(crate) fn no_tagged_fields(&mut self) {
        if self.flexible {
            self.out.put_u8(0);
        }
    }

    /// The length of a list or of bytes.
    pub(crate) fn count(&mut self, count: Option<usize>) -> Result<(), EncodeError> {
        let Some(count) = count else {
            if self.flexible {
                self.out.put_u8(0);
            } else {
                self.out.put_i32(-1);
            }
            return Ok(());
        };
        let small = i32::try_from(count).map_err(|_| EncodeError::TooLarge(count))?;
        if self.flexible {
            self.unsigned_varint(small.unsigned_abs() + 1);
        } else {
            self.out.put_i32(small);
        }
        Ok(())
    }

    /// The size of a tagged field.
    pub(crate) fn size(&mut self, bytes: usize) -> Result<(), EncodeError> {
        let small = i32::try_from(bytes).map_err(|_| EncodeError::TooLarge(bytes))?;
        self.unsigned_varint(small.unsigned_abs());
        Ok(())
    }

    pub(crate) fn string(&mut self, text: &str) -> Result<(), EncodeError> {
        let Ok(len) = i16::try_from(text.len()) else {
            return Err(EncodeError::Field {
                api_key: self.api_key,
                version: self.version,
                reason: format!("a name of {} bytes", text.len()),
            });
        };
        if self.flexible {
            self.count(Some(text.len()))?;
        } else {
            self.out.put_i16(len);
        }
        self.out.put_slice(text.as_bytes());
        Ok(())
    }

    pub(crate) fn null_string(&mut self) {
        if self.flexible {
            self.out.put_u8(0);
        } else {
            self.out.put_i16(-1);
        }
    }

    /// A length, then all of `parts`; large ones become segments of their own.
    pub(crate) fn records(
        &mut self,
        parts: impl IntoIterator<Item = Bytes>,
        len: usize,
    ) -> Result<(), EncodeError> {
        self.count(Some(len))?;
        for part in parts {
            if part.len() <= INLINE_BYTES_MAX {
                self.out.put_slice(&part);
            } else {
                self.cut();
                self.segments.push(part);
            }
        }
        Ok(())
    }

    fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8((value as u8 & 0x7f) | 0x80);
            value >>= 7;
        }
        self.out.put_u8(value as u8);
    }

    /// Ends the segment that is being written.
    fn cut(&mut self) {
        let fields = self.out.split();
        match self.head {
            None => self.head = Some(fields),
            Some(_) if fields.is_empty() => {}
            Some(_) => self.segments.push(fields.freeze()),
        }
    }

    /// Fills in the length, which stands at the beginning of the first segment; the first segment
    /// and the others.
    pub(crate) fn finish(mut self) -> Result<(BytesMut, Vec<Bytes>), EncodeError> {
        self.cut();
        let mut head = self.head.unwrap_or_default();
        let len = head.len() + self.segments.iter().map(Bytes::len).sum::<usize>();
        head[..LENGTH_BYTES].copy_from_slice(&length_prefix(len)?);
        Ok((head, self.segments))
    }
}
