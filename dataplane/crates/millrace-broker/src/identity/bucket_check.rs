//! The check of a bucket that did not answer when the broker started.

use std::time::Duration;

use millrace_meta::{MetaStore, sqlite::SqliteMeta};
use millrace_objects::{
    bucket::{BucketUri, Gate},
    chain::ChainWriter,
};
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

/// What is left to do once the bucket answers.
pub(crate) struct BucketCheck {
    claim: BackupClaim,
    uri: BucketUri,
    meta: SqliteMeta,
    claimed: oneshot::Sender<ChainWriter>,
}

impl BucketCheck {
    /// `claimed` gets the writer of the metadata backup.
    pub(super) fn new(
        claim: BackupClaim,
        uri: BucketUri,
        meta: SqliteMeta,
        claimed: oneshot::Sender<ChainWriter>,
    ) -> Self {
        Self {
            claim,
            uri,
            meta,
            claimed,
        }
    }

    /// Waits for the bucket, compares it, claims it, and opens the gate.
    ///
    /// # Errors
    /// It belongs to another, or knows better: the broker must not go on.
    pub(crate) async fn run(self, gate: &Gate) -> Result<(), StorageError> {
        let uri = self.uri.to_string();
        tracing::warn!(
            uri,
            "the bucket does not answer; nothing is uploaded before it has been checked"
        );
        let writer = loop {
            match self.check().await {
                Ok(writer) => break writer,
                Err(error @ StorageError::Mismatch(_)) => return Err(error),
                // Everything else says nothing about whose bucket it is.
                Err(error) => tracing::debug!(%error, "the bucket is checked again"),
            }
            tokio::time::sleep(PAUSE).await;
        };
        tracing::info!(
            uri,
            "the bucket answers and belongs to this cluster; uploads start"
        );
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
