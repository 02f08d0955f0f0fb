//! The bytes of a PUT.

use std::sync::Arc;

use bytes::Bytes;

/// An object's bytes in chunks. A clone shares them, so every retry sends the very same bytes, and
/// they live until the last transport that may still send them lets go.
#[derive(Debug, Clone)]
pub struct Body {
    chunks: Arc<[Bytes]>,
    size: u64,
}

impl Body {
    /// The chunks in order.
    #[must_use]
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    /// The sum of the chunks' lengths, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl From<Vec<Bytes>> for Body {
    fn from(chunks: Vec<Bytes>) -> Self {
        let size = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Self {
            chunks: chunks.into(),
            size,
        }
    }
}
