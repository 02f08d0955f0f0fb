//! One object on its way into the bucket.

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use millrace_limiter::Pacer;

use crate::{
    ObjectKey, ObjectStorage, PutError,
    bucket::{Body, BucketError, PartSlot, PartTag, UploadId},
    storage::OBJECT_BYTES_MAX,
};

/// Objects from this size on are written in parts, so that a part that fails or is slow is sent
/// again alone. Below, the two more requests that parts need are not worth it: with this bound, and
/// parts of [`PART_BYTES`] or more, a request carries 8 MiB at least.
const PARTS_FROM_BYTES: u64 = 2 * PART_BYTES;

/// The least that a part has, bytes. Parts of an object are nearly equal, so none reaches twice this.
const PART_BYTES: u64 = 16 * 1024 * 1024;

/// Parts begin at multiples of this, bytes, which suits writes past the page cache.
const PART_GRAIN_BYTES: u64 = 1024 * 1024;

/// Parts of one object that are under way at a time.
const PARTS_IN_FLIGHT: usize = 4;

/// An upload that has all its parts, and that so many runs could not complete, is restarted: a part
/// that was sent twice, as hedges and deadlines do, may have arrived last under another receipt than
/// the one that is known (S3 gives each arrival its own where it encrypts with a customer's key), and
/// then the store keeps refusing these receipts.
const COMPLETIONS_MAX: u32 = 6;

/// One object on its way into the bucket. [`ObjectWrite::run`] again goes on where the last one
/// failed: the parts that the store has are not sent again. Dropping it before it is done leaves the
/// parts to [`ObjectWrite::abort`], or to the bucket's rule for uploads that are never completed.
#[derive(Debug)]
pub struct ObjectWrite {
    storage: ObjectStorage,
    key: ObjectKey,
    body: Body,
    pieces: Vec<Piece>,
    upload: Option<UploadId>,
    /// Runs that had all parts and could not complete the upload.
    completions_failed: u32,
    /// The store was asked for parts and knows none.
    whole: bool,
}

/// A part of an object; the only one is the object.
#[derive(Debug)]
struct Piece {
    slot: PartSlot,
    body: Body,
    /// It waited for its turn in the pace once; a retry does not.
    paced: bool,
    /// The store has it.
    tag: Option<PartTag>,
}

impl ObjectWrite {
    pub(crate) fn new(storage: ObjectStorage, key: ObjectKey, chunks: Vec<Bytes>) -> Self {
        let body = Body::from(chunks);
        let pieces = cut(&body);
        Self {
            storage,
            key,
            body,
            whole: pieces.len() == 1,
            pieces,
            upload: None,
            completions_failed: 0,
        }
    }

    /// Writes what is not written yet. The object survives power loss once this returns. A write
    /// that finds exactly its own bytes has succeeded: an earlier reply was lost.
    ///
    /// # Errors
    /// [`PutError`] says whether to run it again.
    pub async fn run(&mut self) -> Result<(), PutError> {
        if self.body.size() > OBJECT_BYTES_MAX {
            return Err(PutError::TooLarge {
                key: self.key.clone(),
                size: self.body.size(),
            });
        }
        let written = if self.whole {
            self.put_whole().await
        } else {
            self.put_parts().await
        };
        written.map_err(|source| match source {
            BucketError::AlreadyExists => PutError::Conflict {
                key: self.key.clone(),
            },
            source => PutError::Store {
                key: self.key.clone(),
                source,
            },
        })
    }

    /// Throws away the parts that the store has, if there are any.
    pub async fn abort(&mut self) {
        let Some(upload) = self.upload.take() else {
            return;
        };
        self.forget_parts();
        if let Err(error) = self.storage.bucket().abort_parts(&self.key, &upload).await {
            tracing::warn!(key = %self.key, %error, "parts of an upload stay in the bucket");
        }
    }

    async fn put_whole(&mut self) -> Result<(), BucketError> {
        if let Some(pace) = self.storage.pace()
            && !self.pieces.iter().all(|piece| piece.paced)
        {
            pace.pass(self.body.size()).await;
            self.pieces.iter_mut().for_each(|piece| piece.paced = true);
        }
        let _turn = self.storage.turn().await;
        self.storage.bucket().put(&self.key, &self.body).await
    }

    async fn put_parts(&mut self) -> Result<(), BucketError> {
        let upload = match &self.upload {
            Some(upload) => upload.clone(),
            None => match self.storage.bucket().begin_parts(&self.key).await {
                Ok(upload) => self.upload.insert(upload).clone(),
                Err(BucketError::Unsupported(_)) => {
                    self.whole = true;
                    return self.put_whole().await;
                }
                Err(error) => return Err(error),
            },
        };
        let settled = self.send_and_complete(&upload).await;
        if matches!(settled, Err(BucketError::NotFound)) {
            // The upload is gone, and with it the parts: begin again.
            self.upload = None;
            self.forget_parts();
            return Err(BucketError::Failed("the upload is gone".into()));
        }
        if matches!(settled, Err(BucketError::AlreadyExists)) {
            self.abort().await;
        }
        let has_all_parts = self.pieces.iter().all(|piece| piece.tag.is_some());
        if has_all_parts && settled.is_err() {
            self.completions_failed += 1;
            if self.completions_failed >= COMPLETIONS_MAX {
                self.abort().await;
            }
        }
        settled
    }

    async fn send_and_complete(&mut self, upload: &UploadId) -> Result<(), BucketError> {
        let (storage, key) = (&self.storage, &self.key);
        let missing = self.pieces.iter_mut().filter(|piece| piece.tag.is_none());
        let sends: Vec<BoxFuture<'_, Result<(), BucketError>>> = missing
            .map(|piece| piece.send(storage, key, upload).boxed())
            .collect();
        let sent: Vec<Result<(), BucketError>> = stream::iter(sends)
            .buffered(PARTS_IN_FLIGHT)
            .collect()
            .await;
        // All were tried, so that the next run has as little left as can be.
        sent.into_iter().collect::<Result<(), _>>()?;
        let tags: Vec<PartTag> = self
            .pieces
            .iter()
            .filter_map(|piece| piece.tag.clone())
            .collect();
        let bucket = self.storage.bucket();
        bucket
            .complete_parts(&self.key, upload, &tags, &self.body)
            .await
    }

    fn forget_parts(&mut self) {
        self.pieces.iter_mut().for_each(|piece| piece.tag = None);
        self.completions_failed = 0;
    }
}

impl Piece {
    async fn send(
        &mut self,
        storage: &ObjectStorage,
        key: &ObjectKey,
        upload: &UploadId,
    ) -> Result<(), BucketError> {
        if let Some(pace) = storage.pace().filter(|_| !self.paced) {
            pace_piece(pace, self).await;
        }
        let _turn = storage.turn().await;
        let put = storage
            .bucket()
            .put_part(key, upload, self.slot, &self.body);
        self.tag = Some(put.await?);
        Ok(())
    }
}

async fn pace_piece(pace: &Pacer, piece: &mut Piece) {
    pace.pass(piece.body.size()).await;
    piece.paced = true;
}

/// Cuts an object into nearly equal parts.
fn cut(body: &Body) -> Vec<Piece> {
    let size = body.size();
    let parts = if size < PARTS_FROM_BYTES {
        1
    } else {
        size / PART_BYTES
    };
    let bound = |number: u64| {
        if number == parts {
            size
        } else {
            (size * number / parts).next_multiple_of(PART_GRAIN_BYTES)
        }
    };
    let piece = |number: u64| Piece {
        slot: PartSlot {
            number: usize::try_from(number).unwrap_or(usize::MAX),
            offset: bound(number),
        },
        body: body.slice(bound(number)..bound(number + 1)),
        paced: false,
        tag: None,
    };
    (0..parts).map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn sizes(bytes: u64) -> Vec<u64> {
        let chunk = Bytes::from(vec![0; 1024 * 1024]);
        let mut chunks = vec![chunk; usize::try_from(bytes / MIB).expect("small")];
        chunks.push(Bytes::from(vec![
            0;
            usize::try_from(bytes % MIB)
                .expect("small")
        ]));
        let pieces = cut(&chunks.into());
        let mut at = 0;
        for (number, piece) in pieces.iter().enumerate() {
            assert_eq!((piece.slot.number, piece.slot.offset), (number, at));
            assert!(
                at.is_multiple_of(4096),
                "writes past the page cache can begin at {at}"
            );
            at += piece.body.size();
        }
        assert_eq!(at, bytes);
        pieces.iter().map(|piece| piece.body.size()).collect()
    }

    #[test]
    fn small_objects_are_one_piece_and_large_ones_parts_of_sixteen_mebibytes_or_more() {
        assert_eq!(sizes(0), [0]);
        assert_eq!(sizes(5), [5]);
        assert_eq!(sizes(32 * MIB - 1), [32 * MIB - 1]);
        assert_eq!(sizes(32 * MIB), [16 * MIB, 16 * MIB]);
        for bytes in [
            32 * MIB + 1,
            47 * MIB,
            64 * MIB + 77,
            100 * MIB + 5,
            300 * MIB,
        ] {
            let sizes = sizes(bytes);
            let (last, others) = sizes.split_last().expect("some");
            assert!(
                others
                    .iter()
                    .all(|size| (15 * MIB..32 * MIB).contains(size)),
                "{sizes:?}"
            );
            assert!((14 * MIB..32 * MIB).contains(last), "{sizes:?}");
            let requests = sizes.len() as u64 + 2;
            assert!(
                bytes / requests >= 8 * MIB,
                "{requests} requests for {bytes} bytes"
            );
        }
    }
}
