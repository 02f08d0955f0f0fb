//! The check of a bucket that did not answer, or took no writes, when the broker started.

use std::{sync::Arc, time::Duration};

use millrace_meta::{MetaStore, sqlite::SqliteMeta};
use millrace_objects::{
    bucket::{BucketUri, Gate},
    chain::ChainWriter,
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{
    agree::{Sides, agree},
    claim::{BackupClaim, claim_bucket, is_lasting},
    probe::{BucketProbeError, Question, probe_bucket},
};
use crate::storage::StorageError;

/// How long one probe of the bucket may take.
const WAIT: Duration = Duration::from_secs(30);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Why nothing is uploaded or deleted; shared by the check, which writes it, and those who show it.
#[derive(Debug, Clone)]
pub(crate) struct HeldBack(Arc<Mutex<Option<String>>>);

impl HeldBack {
    /// Nothing is held back.
    pub(crate) fn nothing() -> Self {
        let this = Self(Arc::default());
        this.set(None);
        this
    }

    /// `None` where nothing is held back.
    pub(crate) fn reason(&self) -> Option<String> {
        self.0.lock().clone()
    }

    fn set(&self, reason: Option<&StorageError>) {
        let is_held_back = f64::from(u8::from(reason.is_some()));
        metrics::gauge!("millrace_bucket_unchecked").set(is_held_back);
        *self.0.lock() = reason.map(|reason| match reason {
            StorageError::BucketSilent { uri, source } => {
                format!("the bucket {uri} does not answer: {source}")
            }
            reason => reason.to_string(),
        });
    }
}

/// What is left to do once the bucket answers.
pub(crate) struct BucketCheck {
    claim: BackupClaim,
    uri: BucketUri,
    meta: SqliteMeta,
    claimed: oneshot::Sender<ChainWriter>,
    held_back: HeldBack,
}

impl BucketCheck {
    /// `claimed` gets the writer of the metadata backup. `reason` says why the bucket was not claimed.
    pub(super) fn new(
        claim: BackupClaim,
        uri: BucketUri,
        meta: SqliteMeta,
        claimed: oneshot::Sender<ChainWriter>,
        reason: &StorageError,
    ) -> Self {
        let held_back = HeldBack::nothing();
        held_back.set(Some(reason));
        Self {
            claim,
            uri,
            meta,
            claimed,
            held_back,
        }
    }

    /// Why nothing is uploaded or deleted.
    pub(crate) fn held_back(&self) -> HeldBack {
        self.held_back.clone()
    }

    /// Waits for the bucket, compares it, claims it, and opens the gate.
    ///
    /// # Errors
    /// It belongs to another, or knows better: the broker must not go on.
    pub(crate) async fn run(self, gate: &Gate) -> Result<(), StorageError> {
        let uri = self.uri.to_string();
        tracing::warn!(
            uri,
            reason = self.held_back.reason(),
            "the bucket cannot be used; clients are served, and uploads and deletions wait for it"
        );
        let writer = loop {
            match self.check().await {
                Ok(writer) => break writer,
                Err(error @ StorageError::Mismatch(_)) => return Err(error),
                // Everything else says nothing about whose bucket it is.
                Err(error) => {
                    tracing::debug!(%error, "the bucket is checked again");
                    self.held_back.set(Some(&error));
                }
            }
            tokio::time::sleep(PAUSE).await;
        };
        tracing::info!(
            uri,
            "the bucket can be used and belongs to this cluster; uploads start"
        );
        self.held_back.set(None);
        // Nobody takes it where the broker is about to end.
        let _ = self.claimed.send(writer);
        gate.open();
        Ok(())
    }

    async fn check(&self) -> Result<ChainWriter, StorageError> {
        let BackupClaim {
            sides,
            bucket,
            owner,
            ..
        } = &self.claim;
        let question = Question {
            node_id: owner.node_id,
            is_first_start: false,
        };
        let probed = probe_bucket(bucket, question, WAIT).await;
        let mut found = probed.map_err(|error| match error {
            BucketProbeError::Mismatch(mismatch) => StorageError::from(mismatch),
            BucketProbeError::Silent(source) => StorageError::BucketSilent {
                uri: self.uri.to_string(),
                source,
            },
        })?;
        // An earlier try of this very claim, whose reply was lost.
        found.backup.take_if(|end| end.nonce == owner.nonce);
        let sides = Sides {
            bucket: Some(found),
            ..sides.clone()
        };
        agree(&sides)?;
        claim_bucket(bucket, &self.uri, &owner.cluster_id).await?;
        if is_lasting(&self.uri) {
            self.meta.set_bucket_claimed().await?;
        }
        self.claim.claim(self.meta.revision()).await
    }
}
