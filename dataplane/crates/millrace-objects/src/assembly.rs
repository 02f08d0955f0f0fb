//! An object that is put together from the blocks of others.
//!
//! A block is moved as it stands, bytes and checksum, since nothing in it says where it is; only the
//! index says so, and is rewritten. Bytes that pass through this process are checked on the way; bytes
//! that the store copies by itself are not seen here, and their blocks' checksums go with them.

use bytes::Bytes;

use crate::{
    Corrupt, ObjectKey, ObjectReader, ObjectStorage, PutError, ReadError,
    bucket::{Body, BucketError, PartSlot, PartTag, UploadId},
    format::{BlockRef, FOOTER_BYTES, Footer, INDEX_UNIT_BYTES, check_block, encode_index},
};

/// A part of an object that is written while it is being put together, bytes.
const PART_BYTES: u64 = 16 * 1024 * 1024;

/// An assembly holds at most this much of what it was given, and one block more, bytes: a part that goes
/// off, and a rest that is large enough to be the last part.
pub const ASSEMBLY_BYTES_MAX: u64 = 2 * PART_BYTES;

/// Blocks of other objects are read in ranges of about this size, bytes.
const READ_BYTES: u64 = 4 * 1024 * 1024;

/// Why an object was not put together. Nothing is at its key; parts of it may be in the store until
/// [`ObjectAssembly::abort`].
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    /// A source could not be read, or is corrupt.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The object could not be written.
    #[error(transparent)]
    Put(#[from] PutError),
    /// A block that was handed over is not sound, or out of order.
    #[error("a block of object {key} cannot be taken over: {reason}")]
    Block {
        /// The object that is being put together.
        key: ObjectKey,
        /// What is wrong.
        reason: Corrupt,
    },
}

/// A finished assembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assembled {
    /// The object's bytes.
    pub size: u64,
    /// Those of them that the store has copied by itself.
    pub copied_bytes: u64,
}

/// An object that is put together from the blocks of others, in the order of (stream, offset). Holds
/// at most [`ASSEMBLY_BYTES_MAX`] and a block.
#[derive(Debug)]
pub struct ObjectAssembly {
    storage: ObjectStorage,
    key: ObjectKey,
    /// From this size on, the store is asked to copy a range by itself; `None`: it cannot.
    copy_from_bytes: Option<u64>,
    /// Blocks that have been taken over, where they stand in this object.
    blocks: Vec<BlockRef>,
    /// What is not written yet.
    pending: Vec<Bytes>,
    pending_bytes: u64,
    upload: Option<UploadId>,
    parts: Vec<PartTag>,
    /// Where the next part begins.
    written_bytes: u64,
    copied_bytes: u64,
    /// The store knows no parts: everything is kept until the end.
    whole: bool,
}

impl ObjectAssembly {
    /// An empty object. Ranges of `copy_from_bytes` or more (S3 takes no less than 5 MiB) are copied
    /// by the store, where it can.
    #[must_use]
    pub fn new(storage: ObjectStorage, key: ObjectKey, copy_from_bytes: u64) -> Self {
        Self {
            storage,
            key,
            copy_from_bytes: Some(copy_from_bytes.max(1)),
            blocks: Vec::new(),
            pending: Vec::new(),
            pending_bytes: 0,
            upload: None,
            parts: Vec::new(),
            written_bytes: 0,
            copied_bytes: 0,
            whole: false,
        }
    }

    /// The size that the object would have now, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        let index = self.blocks.len() * INDEX_UNIT_BYTES + 4 + FOOTER_BYTES;
        self.position() + index as u64
    }

    fn position(&self) -> u64 {
        self.written_bytes + self.pending_bytes
    }

    /// Takes a block over whose bytes are at hand.
    ///
    /// # Errors
    /// See [`AssemblyError`]; the assembly cannot be gone on with.
    pub async fn append(&mut self, block: &BlockRef, bytes: Bytes) -> Result<(), AssemblyError> {
        check_block(&bytes, block).map_err(|reason| self.refused(reason))?;
        self.register(block)?;
        self.pending_bytes += bytes.len() as u64;
        self.pending.push(bytes);
        while self.pending_bytes >= ASSEMBLY_BYTES_MAX && self.begin().await? {
            self.write_part(PART_BYTES).await?;
        }
        Ok(())
    }

    /// Takes blocks of `source` over, which must lie side by side in it. The store copies what is
    /// large enough; the rest is read and checked.
    ///
    /// # Errors
    /// See [`AssemblyError`]; the assembly cannot be gone on with.
    pub async fn take_over(
        &mut self,
        source: &ObjectReader,
        blocks: &[BlockRef],
    ) -> Result<(), AssemblyError> {
        let mut rest = blocks;
        while !rest.is_empty() {
            let bytes = bytes_of(rest);
            let copyable = self.copy_from_bytes.is_some_and(|least| bytes >= least);
            if copyable && self.rests_at_a_part() {
                if self.copy(source, rest).await? {
                    return Ok(());
                }
                continue;
            }
            // Where a copy is to follow, only as much is read as the part before it needs.
            let read = match self.copy_from_bytes {
                Some(least) if copyable => READ_BYTES.min(least - self.pending_bytes.min(least)),
                _ => READ_BYTES,
            };
            let (now, later) = rest.split_at(blocks_within(rest, read));
            let read = source.read_blocks(&self.storage, now).await?;
            for (block, bytes) in now.iter().zip(read) {
                self.append(block, bytes).await?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Whether what is pending can be a part of its own.
    fn rests_at_a_part(&self) -> bool {
        let least = self.copy_from_bytes.unwrap_or(u64::MAX);
        self.pending_bytes == 0 || self.pending_bytes >= least
    }

    /// Lets the store copy blocks that lie side by side. `false` where it cannot.
    async fn copy(
        &mut self,
        source: &ObjectReader,
        blocks: &[BlockRef],
    ) -> Result<bool, AssemblyError> {
        let Some(first) = blocks.first() else {
            return Ok(true);
        };
        if !self.begin().await? {
            self.copy_from_bytes = None;
            return Ok(false);
        }
        let upload = self.upload.clone().expect("it has started");
        let bytes = bytes_of(blocks);
        // The copy first: a store that cannot copy also takes no pending part of an odd size.
        let before = usize::from(self.pending_bytes > 0);
        let slot = PartSlot {
            number: self.parts.len() + before,
            offset: self.position(),
        };
        let range = first.position..first.position + bytes;
        let copied = {
            let _turn = self.storage.turn().await;
            let bucket = self.storage.bucket();
            bucket
                .copy_part(&self.key, &upload, slot, source.key(), range)
                .await
        };
        let tag = match copied {
            Ok(tag) => tag,
            Err(BucketError::Unsupported(reason)) => {
                tracing::debug!(%reason, "the store copies nothing by itself");
                self.copy_from_bytes = None;
                return Ok(false);
            }
            Err(error) => return Err(self.failed(error)),
        };
        if before == 1 {
            self.write_part(self.pending_bytes).await?;
        }
        for block in blocks {
            self.register(block)?;
            self.written_bytes += u64::from(block.size);
        }
        self.copied_bytes += bytes;
        self.parts.push(tag);
        Ok(true)
    }

    /// Notes where a block stands in this object.
    fn register(&mut self, block: &BlockRef) -> Result<(), AssemblyError> {
        let follows = self.blocks.last().is_none_or(|last| {
            last.stream < block.stream || (last.stream == block.stream && last.end <= block.start)
        });
        if !follows {
            return Err(self.refused(Corrupt::Contradiction {
                what: "the blocks are not in order",
            }));
        }
        self.blocks.push(BlockRef {
            position: self.position(),
            ..*block
        });
        Ok(())
    }

    /// Closes the object and makes it appear in the bucket. Leaves nothing there where it cannot.
    ///
    /// # Errors
    /// See [`AssemblyError`].
    pub async fn finish(mut self) -> Result<Assembled, AssemblyError> {
        let closed = self.close().await;
        if closed.is_err() {
            self.abort().await;
        }
        closed
    }

    async fn close(&mut self) -> Result<Assembled, AssemblyError> {
        let index_position = self.position();
        let index = encode_index(&self.blocks);
        let footer = Footer {
            index_position,
            index_len: index.len() as u64,
            blocks: u32::try_from(self.blocks.len()).expect("2^32 blocks do not fit in memory"),
        };
        let end = [Bytes::from(index), Bytes::from(footer.encode().to_vec())];
        self.pending_bytes += end.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
        self.pending.extend(end.iter().cloned());
        let assembled = Assembled {
            size: self.position(),
            copied_bytes: self.copied_bytes,
        };
        if self.parts.is_empty() {
            // One was started where a copy was tried that the store refused.
            self.abort_upload().await;
            let chunks = std::mem::take(&mut self.pending);
            self.storage.put(&self.key, chunks).await?;
            return Ok(assembled);
        }
        self.write_part(self.pending_bytes).await?;
        let whole = Body::ending_with(assembled.size, end.to_vec());
        let upload = self.upload.as_ref().expect("parts are of an upload");
        let bucket = self.storage.bucket();
        let completed = bucket
            .complete_parts(&self.key, upload, &self.parts, &whole)
            .await;
        completed.map_err(|error| self.failed(error))?;
        Ok(assembled)
    }

    /// Throws away what is in the store of an object that was not finished.
    pub async fn abort(mut self) {
        self.abort_upload().await;
    }

    async fn abort_upload(&mut self) {
        let Some(upload) = self.upload.take() else {
            return;
        };
        if let Err(error) = self.storage.bucket().abort_parts(&self.key, &upload).await {
            tracing::warn!(key = %self.key, %error, "parts of an object stay in the bucket");
        }
    }

    /// Begins to write parts; `false` where the store knows none.
    async fn begin(&mut self) -> Result<bool, AssemblyError> {
        if self.upload.is_some() || self.whole {
            return Ok(!self.whole);
        }
        match self.storage.bucket().begin_parts(&self.key).await {
            Ok(upload) => {
                self.upload = Some(upload);
                Ok(true)
            }
            Err(BucketError::Unsupported(_)) => {
                self.whole = true;
                Ok(false)
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Writes the first `bytes` of what is pending as a part.
    async fn write_part(&mut self, bytes: u64) -> Result<(), AssemblyError> {
        let upload = self.upload.as_ref().expect("parts are of an upload");
        let pending = Body::from(std::mem::take(&mut self.pending));
        let slot = PartSlot {
            number: self.parts.len(),
            offset: self.written_bytes,
        };
        let part = pending.slice(0..bytes);
        let put = {
            let _turn = self.storage.turn().await;
            let bucket = self.storage.bucket();
            bucket.put_part(&self.key, upload, slot, &part).await
        };
        let tag = put.map_err(|error| self.failed(error))?;
        self.parts.push(tag);
        self.pending = pending.slice(bytes..u64::MAX).chunks().to_vec();
        self.pending_bytes -= part.size();
        self.written_bytes += part.size();
        Ok(())
    }

    fn failed(&self, source: BucketError) -> AssemblyError {
        let key = self.key.clone();
        AssemblyError::Put(match source {
            BucketError::AlreadyExists => PutError::Conflict { key },
            source => PutError::Store { key, source },
        })
    }

    fn refused(&self, reason: Corrupt) -> AssemblyError {
        AssemblyError::Block {
            key: self.key.clone(),
            reason,
        }
    }
}

fn bytes_of(blocks: &[BlockRef]) -> u64 {
    blocks.iter().map(|block| u64::from(block.size)).sum()
}

/// How many of the first blocks come to at least `bytes`; one at least.
fn blocks_within(blocks: &[BlockRef], bytes: u64) -> usize {
    let mut sum = 0;
    let reaches = |block: &BlockRef| {
        sum += u64::from(block.size);
        sum >= bytes
    };
    let last = blocks.iter().position(reaches);
    last.map_or(blocks.len(), |last| last + 1)
}
