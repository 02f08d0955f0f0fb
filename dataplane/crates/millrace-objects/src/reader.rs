//! Reads an object: its index once, then the requested blocks.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use millrace_model::{Offset, StreamId, StreamRange};

use crate::{
    Corrupt, CorruptKind, CorruptPart, GetError, ObjectKey, ObjectStorage, StreamEntry,
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
    /// The bytes are not what was written. Read twice before it is said, and reported to
    /// [`CorruptObjects`](crate::CorruptObjects).
    #[error("object {key} is corrupt: {reason}")]
    Corrupt {
        /// The object.
        key: ObjectKey,
        /// What of it.
        kind: CorruptKind,
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
        Self::open_for(storage, key, size, None).await
    }

    /// The same for a read of `wanted`, which is reported where the object is corrupt.
    ///
    /// # Errors
    /// As [`ObjectReader::open`].
    pub async fn open_for(
        storage: &ObjectStorage,
        key: ObjectKey,
        size: u64,
        wanted: Option<StreamRange>,
    ) -> Result<Self, ReadError> {
        let guess = TAIL_BYTES_MIN + size / BLOCK_BYTES_EXPECTED * INDEX_UNIT_BYTES as u64;
        let tail_start = size.saturating_sub(guess);
        let read = || {
            let read = read_index(storage, &key, tail_start, size, wanted);
            Box::pin(read) as BoxFuture<'_, _>
        };
        let blocks: Vec<BlockRef> = reread_if_corrupt(storage, &key, wanted, read).await?;
        storage.corrupt().sound_index(&key);
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

    /// Reports a block that was read twice, by [`ObjectStorage::get_pieces`], and is corrupt.
    #[must_use]
    pub fn corrupt(
        storage: &ObjectStorage,
        key: &ObjectKey,
        block: &BlockRef,
        reason: Corrupt,
    ) -> ReadError {
        Fault::of_block(block, reason).report(storage, key)
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
        let fault = |reason| Fault::of_block(block, reason);
        let read = || {
            let bytes = storage.get_range(&self.key, range.clone());
            let decode = |bytes: Bytes| decode_block(&bytes, block).map_err(fault);
            Box::pin(async move { Ok(decode(bytes.await?)) }) as BoxFuture<'_, _>
        };
        let wanted = Some(block.range());
        let entries = reread_if_corrupt(storage, &self.key, wanted, read).await?;
        storage.corrupt().sound_block(&self.key, block.position);
        Ok(entries)
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
        let wanted = blocks.first().map(BlockRef::range);
        let found = reread_if_corrupt(storage, &self.key, wanted, read).await?;
        for block in blocks {
            storage.corrupt().sound_block(&self.key, block.position);
        }
        Ok(found)
    }
}

/// A part that failed its check.
struct Fault {
    kind: CorruptKind,
    position: u64,
    range: Option<StreamRange>,
    reason: Corrupt,
}

impl Fault {
    fn of_block(block: &BlockRef, reason: Corrupt) -> Self {
        Self {
            kind: CorruptKind::Block,
            position: block.position,
            range: Some(block.range()),
            reason,
        }
    }

    fn report(self, storage: &ObjectStorage, key: &ObjectKey) -> ReadError {
        let Self {
            kind,
            position,
            range,
            reason,
        } = self;
        storage.corrupt().report(CorruptPart {
            key: key.clone(),
            kind,
            position,
            range,
            reason: reason.clone(),
        });
        let key = key.clone();
        ReadError::Corrupt { key, kind, reason }
    }
}

/// The bytes, if each is the block that it should be.
fn checked(found: Vec<Bytes>, blocks: &[BlockRef]) -> Result<Vec<Bytes>, Fault> {
    for (block, bytes) in blocks.iter().zip(&found) {
        check_block(bytes, block).map_err(|reason| Fault::of_block(block, reason))?;
    }
    Ok(found)
}

async fn read_index(
    storage: &ObjectStorage,
    key: &ObjectKey,
    tail_start: u64,
    size: u64,
    wanted: Option<StreamRange>,
) -> Result<Result<Vec<BlockRef>, Fault>, GetError> {
    let fault = |kind| {
        move |reason| Fault {
            kind,
            position: 0,
            range: wanted,
            reason,
        }
    };
    let tail = storage.get_range(key, tail_start..size).await?;
    let footer = match Footer::decode(&tail, size) {
        Ok(footer) => footer,
        Err(reason) => return Ok(Err(fault(CorruptKind::Footer)(reason))),
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
    let blocks = decode_index(&index, footer.index_position);
    Ok(blocks.map_err(fault(CorruptKind::Index)))
}

/// Reads once more when what came is corrupt: a byte may have been flipped on the way, and the
/// object in the store be sound. What is corrupt again is reported.
async fn reread_if_corrupt<'a, T>(
    storage: &ObjectStorage,
    key: &ObjectKey,
    wanted: Option<StreamRange>,
    read: impl Fn() -> BoxFuture<'a, Result<Result<T, Fault>, GetError>> + Send,
) -> Result<T, ReadError> {
    let read = async || {
        let read = read().await;
        read.inspect_err(|error| storage.corrupt().report_truncated(key, wanted, error))
    };
    if let Ok(sound) = read().await? {
        return Ok(sound);
    }
    tracing::warn!(%key, "an object was read corrupt; reading it once more");
    let again = read().await?;
    again.map_err(|fault| fault.report(storage, key))
}
