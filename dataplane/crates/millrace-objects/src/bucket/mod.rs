//! The seam to the object store: one small trait, its implementations, and decorators over it.
//!
//! The stack of the broker, outermost first: [`Gated`] → [`Retrying`] → [`Idempotent`] → [`Limited`] →
//! [`Hedged`] → [`TimedOut`] → [`Measured`] → [`StoreBucket`]. So each try pays for its bytes, has its
//! own deadline (which does not run while it waits for bandwidth) and is counted; a slow write is
//! hedged within its try, and a lost reply is resolved within the try that found its object, by
//! reads that have their own retries.

mod body;
mod copies;
mod folder;
mod gated;
mod hedged;
mod idempotent;
mod layer;
mod limited;
mod measured;
mod parts;
mod pieces;
mod reads_apart;
mod retrying;
mod staged;
mod store;
mod timed_out;
mod uri;
mod writes_apart;

use std::{fmt::Debug, ops::Range, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;

pub use body::Body;
pub use gated::Gate;
pub(crate) use gated::Gated;
pub(crate) use hedged::{Hedged, Hedges};
pub(crate) use idempotent::Idempotent;
pub use layer::BucketLayer;
pub(crate) use limited::Limited;
pub use limited::NetworkShare;
pub use measured::{BucketCalls, BucketReads};
pub(crate) use measured::{Calls, Measured};
pub use parts::{PartSlot, PartTag, UploadId};
pub(crate) use pieces::{Cutter, span};
pub use reads_apart::ReadsApart;
pub use retrying::RetryPolicy;
pub(crate) use retrying::Retrying;
pub use store::StoreBucket;
pub(crate) use timed_out::TimedOut;
pub use timed_out::TimeoutPolicy;
pub use uri::{BucketUri, InvalidUri};
pub use writes_apart::WritesApart;

use crate::ObjectKey;

/// The most keys that one [`Bucket::delete`] takes: the bound of S3's DeleteObjects.
pub const DELETE_KEYS_MAX: usize = 1_000;

/// A bucket of immutable objects.
#[async_trait]
pub trait Bucket: Debug + Send + Sync + 'static {
    /// Writes an object that does not exist yet; it survives power loss once this returns.
    ///
    /// # Errors
    /// [`BucketError::AlreadyExists`] where the key is taken; then the object there is untouched.
    /// Where the body is large, the store may hang up instead, which is [`BucketError::Failed`].
    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError>;

    /// Begins to write an object in parts. Nothing is at the key until it is completed. What is
    /// never completed nor aborted may stay, unseen, and cost room.
    ///
    /// # Errors
    /// [`BucketError::Unsupported`] where the store knows no parts: write the object by one PUT.
    async fn begin_parts(&self, _key: &ObjectKey) -> Result<UploadId, BucketError> {
        Err(BucketError::Unsupported("the store knows no parts".into()))
    }

    /// Writes one part; the same again replaces it. Parts may come in any order, several at once.
    /// All but the last must have a multiple of 4 KiB, and at least 5 MiB: what folders and S3 ask.
    ///
    /// # Errors
    /// [`BucketError::NotFound`] where the upload is not under way (any more).
    async fn put_part(
        &self,
        _key: &ObjectKey,
        _upload: &UploadId,
        _slot: PartSlot,
        _body: &Body,
    ) -> Result<PartTag, BucketError> {
        Err(BucketError::NotFound)
    }

    /// Makes `range` of the object `source` a part, without the bytes leaving the store. All parts but
    /// the last must have at least 5 MiB.
    ///
    /// # Errors
    /// [`BucketError::Unsupported`] where the store cannot: read the range and write it as a part.
    /// [`BucketError::NotFound`] where the upload is not under way (any more), or there is no source.
    async fn copy_part(
        &self,
        _key: &ObjectKey,
        _upload: &UploadId,
        _slot: PartSlot,
        _source: &ObjectKey,
        _range: Range<u64>,
    ) -> Result<PartTag, BucketError> {
        Err(BucketError::Unsupported("the store copies no parts".into()))
    }

    /// Makes the parts, in order, an object that does not exist yet; it survives power loss once
    /// this returns. `whole` is what they come to; its first bytes need not be known.
    ///
    /// # Errors
    /// [`BucketError::AlreadyExists`] where the key is taken; then the object there is untouched.
    /// [`BucketError::NotFound`] where the upload is not under way (any more).
    async fn complete_parts(
        &self,
        _key: &ObjectKey,
        _upload: &UploadId,
        _parts: &[PartTag],
        _whole: &Body,
    ) -> Result<(), BucketError> {
        Err(BucketError::NotFound)
    }

    /// Throws the parts of an upload away. One that is not under way counts as thrown away.
    ///
    /// # Errors
    /// As the store gives them.
    async fn abort_parts(&self, _key: &ObjectKey, _upload: &UploadId) -> Result<(), BucketError> {
        Ok(())
    }

    /// Reads `range` of an object, which must not be empty. Gives fewer bytes where the object ends
    /// within the range.
    ///
    /// # Errors
    /// [`BucketError::NotFound`] where there is no such object, [`BucketError::Failed`] where it
    /// ends before the range.
    async fn get(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes, BucketError>;

    /// Reads `pieces` of an object by one request, each into memory of its own, so that one can be
    /// given back while another is kept. They must be ascending, apart and not empty. Where the
    /// object ends early, the pieces behind its end are short or empty.
    ///
    /// # Errors
    /// As [`Bucket::get`].
    async fn get_pieces(
        &self,
        key: &ObjectKey,
        pieces: &[Range<u64>],
    ) -> Result<Vec<Bytes>, BucketError> {
        let mut cutter = Cutter::new(pieces);
        cutter.push(&self.get(key, span(pieces)).await?);
        Ok(cutter.finish())
    }

    /// The size of an object, in bytes.
    ///
    /// # Errors
    /// [`BucketError::NotFound`] where there is no such object.
    async fn size(&self, key: &ObjectKey) -> Result<u64, BucketError>;

    /// Deletes up to [`DELETE_KEYS_MAX`] objects. One that is not there counts as deleted.
    ///
    /// # Errors
    /// Some of the objects may have been deleted nevertheless; asking again is right.
    async fn delete(&self, keys: &[ObjectKey]) -> Result<(), BucketError>;

    /// Up to `limit` objects whose key begins with the folder `prefix` (empty: all), in the order
    /// of their keys, beginning after the key `after`.
    ///
    /// # Errors
    /// As the store gives them.
    async fn list(
        &self,
        prefix: &str,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<Listed>, BucketError>;
}

/// An object in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub key: ObjectKey,
    /// Its size in bytes.
    pub size: u64,
}

/// Why a bucket refused an operation.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// There is no such object.
    #[error("no such object")]
    NotFound,
    /// The key is taken.
    #[error("the object exists already")]
    AlreadyExists,
    /// The credentials do not allow it: fix them.
    #[error("access denied")]
    Denied(#[source] Source),
    /// The store cannot do this at all: fix the configuration.
    #[error("the store does not support this")]
    Unsupported(#[source] Source),
    /// The store is throttling, unreachable, full, or failed in some other way that may pass.
    #[error("the store failed")]
    Failed(#[source] Source),
    /// There was no answer in time. The operation may yet happen.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
}

/// What the store said.
pub type Source = Box<dyn std::error::Error + Send + Sync>;

impl BucketError {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::TimedOut(_))
    }

    /// The error as a label of a metric.
    pub(crate) fn cause(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::Denied(_) => "denied",
            Self::Unsupported(_) => "unsupported",
            Self::Failed(_) => "failed",
            Self::TimedOut(_) => "given_up",
        }
    }
}
