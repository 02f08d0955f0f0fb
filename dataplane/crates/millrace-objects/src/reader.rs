//! Reads an object: its index once, then the requested blocks.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use millrace_model::{Offset, StreamId};

use crate::{
    Corrupt, GetError, ObjectKey, ObjectStorage, StreamEntry,
    format::{BlockRef, Footer, INDEX_UNIT_BYTES, check_block, decode_block, decode_index},
};

/// The first read of an object takes at least this much of its end: enough for the index of 400
/// blocks, and small beside the latency of a request.
const TAIL_BYTES_MIN: u64 = 16 * 1024;

/// Objects are written with about one block per this many bytes; sizes the first read of the end
/// so that a second one is rarely needed.
const BLOCK_BYTES_EXPECTED: u64 = 256 * 1024;

/// The index of one object in memory. Cheap to keep: 40 bytes per block.
#[derive(Debug)]
pub struct ObjectReader {
    key: ObjectKey,
    blocks: Vec<BlockRef>,
    read_bytes: u64,
}

/// Why an object could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store did not give the bytes.
    #[error(transparent)]
    Get(#[from] GetError),
    /// The bytes are not what was written. Read twice before it is said.
    #[error("object {key} is corrupt: {reason}")]
    Corrupt {
        /// The object.
        key: ObjectKey,
        /// What is not sound.
        reason: Corrupt,
    },
}

impl ReadError {
    /// Whether the object is not there (any more): ask the metadata again.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Get(GetError::NotFound { .. }))
    }
}

impl ObjectReader {
    /// Reads and checks the index of the object `key` of `size` bytes; one request, or two where
    /// the index is unusually large.
    ///
    /// # Errors
    /// [`ReadError::Get`] where the store fails, [`ReadError::Corrupt`] where the bytes are unsound.
    pub async fn open(
        storage: &ObjectStorage,
        key: ObjectKey,
        size: u64,
    ) -> Result<Self, ReadError> {
        let guess = TAIL_BYTES_MIN + size / BLOCK_BYTES_EXPECTED * INDEX_UNIT_BYTES as u64;
        let tail_start = size.saturating_sub(guess);
        let read = || Box::pin(read_index(storage, &key, tail_start, size)) as BoxFuture<'_, _>;
        let blocks: Vec<BlockRef> = reread_if_corrupt(&key, read).await?;
        let footer = crate::format::FOOTER_BYTES as u64;
        let index = (blocks.len() * INDEX_UNIT_BYTES) as u64 + footer;
        let read_bytes = guess.min(size).max(index);
        Ok(Self {
            key,
            blocks,
            read_bytes,
        })
    }

    /// The object's name.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// All blocks, sorted by stream and offset.
    #[must_use]
    pub fn blocks(&self) -> &[BlockRef] {
        &self.blocks
    }

    /// What was read of the object to have its index, in bytes.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// The memory that this index holds, in bytes.
    #[must_use]
    pub fn index_bytes(&self) -> usize {
        self.blocks.len() * size_of::<BlockRef>() + size_of::<Self>()
    }

    /// The blocks that hold entries of `stream` in `start..end`, in order. They lie side by side
    /// in the object.
    #[must_use]
    pub fn find(&self, stream: StreamId, start: Offset, end: Offset) -> &[BlockRef] {
        let before = |block: &BlockRef| (block.stream, block.end) <= (stream, start);
        let within = |block: &BlockRef| block.stream == stream && block.start < end;
        let from = self.blocks.partition_point(before);
        let rest = self.blocks.get(from..).unwrap_or_default();
        rest.get(..rest.partition_point(within)).unwrap_or_default()
    }

    /// Checks the bytes of one block, as [`ObjectStorage::get_pieces`] gave them, and gives its
    /// entries, whose payloads are slices of `bytes`.
    ///
    /// # Errors
    /// [`Corrupt`] names what is not sound; the transport may be at fault, so read it once more.
    pub fn decode(block: &BlockRef, bytes: &Bytes) -> Result<Vec<StreamEntry>, Corrupt> {
        decode_block(bytes, block)
    }

    /// Reads and checks one block of this object.
    ///
    /// # Errors
    /// As [`ObjectReader::open`].
    pub async fn read_block(
        &self,
        storage: &ObjectStorage,
        block: &BlockRef,
    ) -> Result<Vec<StreamEntry>, ReadError> {
        let range = block.position..block.position + u64::from(block.size);
        let read = || {
            let bytes = storage.get_range(&self.key, range.clone());
            Box::pin(async { Ok(decode_block(&bytes.await?, block)) }) as BoxFuture<'_, _>
        };
        reread_if_corrupt(&self.key, read).await
    }

    /// Reads blocks of this object, ascending, in one request, and checks each of them. Gives their
    /// bytes as they stand in the object; entries are not looked at.
    ///
    /// # Errors
    /// As [`ObjectReader::open`].
    pub async fn read_blocks(
        &self,
        storage: &ObjectStorage,
        blocks: &[BlockRef],
    ) -> Result<Vec<Bytes>, ReadError> {
        if blocks.is_empty() {
            return Ok(Vec::new());
        }
        let place = |block: &BlockRef| block.position..block.position + u64::from(block.size);
        let places: Vec<_> = blocks.iter().map(place).collect();
        let read = || {
            let found = storage.get_pieces(&self.key, &places);
            Box::pin(async { Ok(checked(found.await?, blocks)) }) as BoxFuture<'_, _>
        };
        reread_if_corrupt(&self.key, read).await
    }
}

/// The bytes, if each is the block that it should be.
fn checked(found: Vec<Bytes>, blocks: &[BlockRef]) -> Result<Vec<Bytes>, Corrupt> {
    for (block, bytes) in blocks.iter().zip(&found) {
        check_block(bytes, block)?;
    }
    Ok(found)
}

async fn read_index(
    storage: &ObjectStorage,
    key: &ObjectKey,
    tail_start: u64,
    size: u64,
) -> Result<Result<Vec<BlockRef>, Corrupt>, GetError> {
    let tail = storage.get_range(key, tail_start..size).await?;
    let footer = match Footer::decode(&tail, size) {
        Ok(footer) => footer,
        Err(reason) => return Ok(Err(reason)),
    };
    let index_end = footer.index_position + footer.index_len;
    let index = if footer.index_position >= tail_start {
        let at = |position: u64| (position - tail_start) as usize;
        tail.slice(at(footer.index_position)..at(index_end))
    } else {
        storage
            .get_range(key, footer.index_position..index_end)
            .await?
    };
    Ok(decode_index(&index, footer.index_position))
}

/// Reads once more when what came is corrupt: a byte may have been flipped on the way, and the
/// object in the store be sound.
async fn reread_if_corrupt<'a, T>(
    key: &ObjectKey,
    read: impl Fn() -> BoxFuture<'a, Result<Result<T, Corrupt>, GetError>> + Send,
) -> Result<T, ReadError> {
    if let Ok(sound) = read().await? {
        return Ok(sound);
    }
    tracing::warn!(%key, "an object was read corrupt; reading it once more");
    read().await?.map_err(|reason| ReadError::Corrupt {
        key: key.clone(),
        reason,
    })
}
