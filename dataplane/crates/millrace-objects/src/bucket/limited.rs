//! Waits for bandwidth before each request.

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use millrace_limiter::{InFlight, Limiter, Network, Tier};

use super::{Body, Bucket, BucketError, BucketLayer, PartSlot, PartTag, UploadId, span};
use crate::ObjectKey;

/// The bandwidth that a use of the store draws on, and how urgent that use is.
#[derive(Debug, Clone)]
pub struct NetworkShare {
    /// For what is read from the store.
    pub ingress: Limiter,
    /// For what is written to it.
    pub egress: Limiter,
    /// How urgent this use is. A use that never waits is charged as well.
    pub tier: Tier,
    /// Of equally urgent uses, those of different flows take turns.
    pub flow: u64,
}

impl NetworkShare {
    /// What a use of one tier draws on, without a flow of its own.
    #[must_use]
    pub fn of(network: &Network, tier: Tier) -> Self {
        Self {
            ingress: network.ingress.clone(),
            egress: network.egress.clone(),
            tier,
            flow: 0,
        }
    }

    /// Waits until `bytes` may be read. Keep the guard until they are.
    pub(crate) async fn admit_in(&self, bytes: u64) -> InFlight {
        let ingress = &self.ingress;
        ingress.acquire_in_flight(self.tier, self.flow, bytes).await
    }

    /// Waits until `bytes` may be written.
    pub(crate) async fn admit_out(&self, bytes: u64) {
        self.egress.acquire_for(self.tier, self.flow, bytes).await;
    }
}

/// A bucket that pays for every byte before it moves, retries included. Without a share it passes
/// everything on.
#[derive(Debug)]
pub(crate) struct Limited<B> {
    inner: B,
    share: Option<NetworkShare>,
}

impl<B: Bucket> Limited<B> {
    pub(crate) fn new(inner: B, share: Option<NetworkShare>) -> Self {
        Self { inner, share }
    }

    async fn admit_in(&self, bytes: u64) -> Option<InFlight> {
        match &self.share {
            Some(share) => Some(share.admit_in(bytes).await),
            None => None,
        }
    }
}

#[async_trait]
impl<B: Bucket> BucketLayer for Limited<B> {
    type Inner = B;

    fn inner(&self) -> &B {
        &self.inner
    }

    async fn put(&self, key: &ObjectKey, body: &Body) -> Result<(), BucketError> {
        if let Some(share) = &self.share {
            share.admit_out(body.size()).await;
        }
        self.inner.put(key, body).await
    }

    async fn put_part(
        &self,
        key: &ObjectKey,
        upload: &UploadId,
        slot: PartSlot,
        body: &Body,
    ) -> Result<PartTag, BucketError> {
        if let Some(share) = &self.share {
            share.admit_out(body.size()).await;
        }
        self.inner.put_part(key, upload, slot, body).await
    }

    async fn get_pieces(
        &self,
        key: &ObjectKey,
        pieces: &[Range<u64>],
    ) -> Result<Vec<Bytes>, BucketError> {
        let asked = span(pieces);
        let _in_flight = self.admit_in(asked.end - asked.start).await;
        self.inner.get_pieces(key, pieces).await
    }

    async fn get(&self, key: &ObjectKey, range: Range<u64>) -> Result<Bytes, BucketError> {
        let _in_flight = self.admit_in(range.end.saturating_sub(range.start)).await;
        self.inner.get(key, range).await
    }
}
