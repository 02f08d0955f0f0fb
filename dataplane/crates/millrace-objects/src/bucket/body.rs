//! The bytes of a PUT.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;

/// An object's bytes in chunks. A clone shares them, so every retry sends the very same bytes, and
/// they live until the last transport that may still send them lets go.
#[derive(Debug, Clone)]
pub struct Body {
    chunks: Arc<[Bytes]>,
    size: u64,
    /// How many bytes stand before the chunks, and are not known here.
    unknown: u64,
}

impl Body {
    /// A body of `size` bytes of which only the last ones, the chunks, are known here: what an object
    /// that was put together from parts of others is compared with.
    #[must_use]
    pub fn ending_with(size: u64, chunks: Vec<Bytes>) -> Self {
        let known = Self::from(chunks);
        Self {
            unknown: size.saturating_sub(known.size),
            size,
            ..known
        }
    }

    /// How many of the first bytes are not known here.
    #[must_use]
    pub fn unknown_bytes(&self) -> u64 {
        self.unknown
    }

    /// The chunks in order.
    #[must_use]
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// The body's length, in bytes: the sum of the chunks' lengths, where all of it is known.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The bytes in `range`, shared with this body. What lies behind the end is left out.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Self {
        let mut position = self.unknown;
        let mut chunks = Vec::new();
        for chunk in self.chunks.iter() {
            let end = position + chunk.len() as u64;
            let (from, to) = (range.start.max(position), range.end.min(end));
            if from < to {
                // Both lie within the chunk, whose length is a usize.
                let within = |at: u64| usize::try_from(at - position).unwrap_or(chunk.len());
                chunks.push(chunk.slice(within(from)..within(to)));
            }
            position = end;
        }
        chunks.into()
    }
}

impl From<Vec<Bytes>> for Body {
    fn from(chunks: Vec<Bytes>) -> Self {
        let size = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Self {
            chunks: chunks.into(),
            size,
            unknown: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(body: &Body) -> Vec<u8> {
        body.chunks().concat()
    }

    #[test]
    fn a_body_may_be_known_by_its_end() {
        let body = Body::ending_with(10, vec![Bytes::from_static(b"yz")]);
        assert_eq!((body.size(), body.unknown_bytes()), (10, 8));
        assert_eq!(bytes(&body.slice(9..20)), b"z");
    }

    #[test]
    fn slices_are_the_bytes_in_between() {
        let chunks = ["ab", "", "cde", "f"].map(|text| Bytes::from_static(text.as_bytes()));
        let body = Body::from(chunks.to_vec());
        for start in 0..=6_u64 {
            for end in start..=8 {
                let slice = body.slice(start..end);
                let expected = &b"abcdef"[start as usize..(end as usize).min(6)];
                assert_eq!(bytes(&slice), expected, "{start}..{end}");
                assert_eq!(slice.size(), expected.len() as u64);
            }
        }
    }
}
