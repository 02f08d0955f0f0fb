//! From storage that agrees to storage that belongs to this start.

use millrace_meta::{
    MetaStore,
    sqlite::{SqliteMeta, SqliteOptions},
};
use millrace_model::{NodeEpoch, limits::CLUSTER_ID_BYTES_MAX};
use millrace_objects::{
    ObjectKey, ObjectStorage, PutError,
    bucket::{BucketUri, StoreBucket},
    chain::{Chain, ChainOwner, ChainWriter, Tail},
};
use millrace_stream::RecoveredLog;
use millrace_time::{SharedClock, SharedRandom};
use millrace_wal::{ScannedWal, UnopenedWal, Wal, WalOwner};
use tokio::{sync::oneshot, time::timeout};

use super::{
    BucketCheck,
    agree::{Agreement, BucketIdentity, Sides, agree},
    mismatch::Mismatch,
    probe::{
        BUCKET_WAIT, BucketProbeError, BucketSilent, MARK_FORMAT, Mark, Probe, Scanned, end_of,
        probe, read_mark,
    },
};
use crate::{
    config::BrokerConfig,
    folder::DataFolder,
    log_device::{wal_config, wal_device, wal_fence},
    storage::{Seams, StorageError},
};

/// Storage that belongs to this start.
pub(crate) struct Claimed {
    pub(crate) meta: SqliteMeta,
    pub(crate) cluster_id: String,
    pub(crate) node_epoch: NodeEpoch,
    pub(crate) wal: Wal,
    pub(crate) recovered: RecoveredLog,
    /// Writes the metadata backup; comes as soon as the bucket is known to be ours.
    pub(crate) backup: oneshot::Receiver<ChainWriter>,
    /// To be run where the bucket has not answered yet: nothing may be written to it before.
    pub(crate) bucket_check: Option<BucketCheck>,
}

/// Looks at everything, compares it, and takes it over.
///
/// # Errors
/// Before the comparison has succeeded, nothing has changed. What fails later, the next start repeats.
pub(crate) async fn claim(
    config: &BrokerConfig,
    folder: &DataFolder,
    bucket: &ObjectStorage,
    seams: &Seams,
) -> Result<Claimed, StorageError> {
    let Agreed {
        sides,
        cluster_id,
        scanned,
        mut held_back,
    } = compare(config, folder, bucket, seams).await?;
    // Nothing has changed so far. From here on everything may.
    let cluster_id = cluster_id.unwrap_or_else(|| generate_cluster_id(&seams.random));
    let uri = &config.storage.bucket;
    if held_back.is_none() {
        let marked = claim_bucket(bucket, uri, &cluster_id);
        held_back = unless_usable(&sides, uri, marked).await?.err();
    }
    let meta = open_metadata(config, folder, seams).await?;
    meta.cluster_id(&cluster_id).await?;
    let node_epoch = meta.register_node(config.node_id).await?;
    if held_back.is_none() && is_lasting(uri) {
        meta.set_bucket_claimed().await?;
    }
    let scanned = match scanned {
        Some(scanned) => scanned,
        None => Scanned::find(new_log(config, seams).await?).await?,
    };
    let claim = BackupClaim {
        sides,
        bucket: bucket.clone(),
        owner: ChainOwner {
            cluster_id: cluster_id.clone(),
            node_id: config.node_id,
            wal_id: scanned.log.wal_id(),
            generation: node_epoch,
            nonce: seams.random.next_u64(),
        },
        clock: seams.clock.clone(),
    };
    let (claimed, backup) = oneshot::channel();
    let writer = match held_back {
        Some(reason) => Err(reason),
        None => unless_usable(&claim.sides, uri, claim.claim(meta.revision())).await?,
    };
    let bucket_check = match writer {
        Ok(writer) => {
            // The receiver is in this function.
            let _ = claimed.send(writer);
            None
        }
        Err(reason) => {
            let (uri, meta) = (uri.clone(), meta.clone());
            Some(BucketCheck::new(claim, uri, meta, claimed, &reason))
        }
    };
    let (wal, recovered) = open_log(scanned, &cluster_id, node_epoch, &meta, config, seams).await?;
    Ok(Claimed {
        meta,
        cluster_id,
        node_epoch,
        wal,
        recovered,
        backup,
        bucket_check,
    })
}

/// Takes a step of the claim in the bucket. A failure that may pass is given back, for the broker to
/// serve without the bucket, unless something is blank: then the start fails with it.
async fn unless_usable<T>(
    sides: &Sides,
    uri: &BucketUri,
    step: impl Future<Output = Result<T, StorageError>>,
) -> Result<Result<T, StorageError>, StorageError> {
    let is_blank = sides.metadata.is_none() || sides.wal.is_none();
    if is_blank {
        return step.await.map(Ok);
    }
    match timeout(BUCKET_WAIT, step).await {
        Err(_) => Ok(Err(StorageError::BucketSilent {
            uri: uri.to_string(),
            source: BucketSilent::TimedOut(BUCKET_WAIT),
        })),
        Ok(Err(error)) if error.is_bucket_failure() => Ok(Err(error)),
        Ok(settled) => settled.map(Ok),
    }
}

/// Storage that agrees.
struct Agreed {
    sides: Sides,
    /// `None`: a cluster without an id.
    cluster_id: Option<String>,
    /// `None`: there is no log yet.
    scanned: Option<Scanned>,
    /// Why the bucket cannot be used yet.
    held_back: Option<StorageError>,
}

/// Looks at everything and compares it; changes nothing.
async fn compare(
    config: &BrokerConfig,
    folder: &DataFolder,
    bucket: &ObjectStorage,
    seams: &Seams,
) -> Result<Agreed, StorageError> {
    let Probe {
        sides,
        log,
        bucket_silent,
    } = probe(config, folder, bucket, seams).await?;
    let Agreement {
        cluster_id,
        needs_bucket,
    } = agree(&sides)?;
    let held_back = bucket_silent.map(|source| {
        let uri = config.storage.bucket.to_string();
        StorageError::BucketSilent { uri, source }
    });
    if needs_bucket && let Some(silent) = held_back {
        return Err(silent);
    }
    let scanned = match log {
        Some(log) => Some(Scanned::find(log).await?),
        None => None,
    };
    if let Some(scanned) = &scanned
        && let Some(mismatch) = scanned.unknown_streams(folder).await?
    {
        return Err(mismatch.into());
    }
    Ok(Agreed {
        sides,
        cluster_id,
        scanned,
        held_back,
    })
}

async fn open_metadata(
    config: &BrokerConfig,
    folder: &DataFolder,
    seams: &Seams,
) -> Result<SqliteMeta, StorageError> {
    let options = SqliteOptions {
        retired_retention: config.storage.background.delete_retention,
        ..SqliteOptions::default()
    };
    let path = folder.metadata_file();
    Ok(SqliteMeta::open(&path, options, seams.clock.clone()).await?)
}

/// The log's device, created where there is none.
pub(super) async fn new_log(
    config: &BrokerConfig,
    seams: &Seams,
) -> Result<UnopenedWal, StorageError> {
    let uri = &config.storage.wal;
    let device = wal_device(uri, seams).await?;
    Ok(UnopenedWal::read(device, wal_config(uri, seams)).await?)
}

/// Opens the log, which is formatted where it is blank, and lets the metadata know which one it is.
async fn open_log(
    scanned: Scanned,
    cluster_id: &str,
    generation: NodeEpoch,
    meta: &SqliteMeta,
    config: &BrokerConfig,
    seams: &Seams,
) -> Result<(Wal, RecoveredLog), StorageError> {
    let Scanned {
        log,
        recovered,
        streams,
    } = scanned;
    let owner = WalOwner {
        cluster_id: cluster_id.to_owned(),
        node_id: config.node_id,
        generation,
    };
    let wal_id = log.wal_id();
    let fence = wal_fence(&config.storage.wal, wal_id, seams)?;
    let log = fence.into_iter().fold(log, ScannedWal::fenced_by);
    let wal = log.open(Some(owner), seams.clock.clone()).await?;
    meta.set_wal_id(Some(wal_id)).await?;
    meta.forget_deleted_streams(streams).await?;
    Ok((wal, recovered))
}

/// The claim to the node's metadata backup in the bucket.
pub(super) struct BackupClaim {
    /// As this start has found them.
    pub(super) sides: Sides,
    pub(super) bucket: ObjectStorage,
    pub(super) owner: ChainOwner,
    clock: SharedClock,
}

impl BackupClaim {
    /// Becomes the backup's one writer; whoever wrote it before is fenced.
    ///
    /// # Errors
    /// What is there does not agree with what this start has found.
    pub(super) async fn claim(&self, revision: u64) -> Result<ChainWriter, StorageError> {
        let chain = Chain::new(self.bucket.clone(), self.owner.node_id);
        let agrees = |tail: Option<&Tail>| {
            let bucket = BucketIdentity {
                cluster_id: Some(self.owner.cluster_id.clone()),
                // An earlier try of this very claim, whose reply was lost, is no other start.
                backup: tail.map(end_of).filter(|end| end.nonce != self.owner.nonce),
                object: None,
            };
            let sides = Sides {
                bucket: Some(bucket),
                ..self.sides.clone()
            };
            agree(&sides).map(drop).map_err(StorageError::from)
        };
        let wall_ms = self.clock.wall_ms();
        chain
            .claim_agreed(&self.owner, revision, wall_ms, agrees)
            .await
    }
}

/// Puts the cluster's mark where there is none, and tidies up what a crash left of writes.
pub(super) async fn claim_bucket(
    bucket: &ObjectStorage,
    uri: &BucketUri,
    cluster_id: &str,
) -> Result<(), StorageError> {
    let failed = |source| StorageError::Mark {
        uri: uri.to_string(),
        source,
    };
    let silent = |error| match error {
        BucketProbeError::Silent(source) => StorageError::BucketSilent {
            uri: uri.to_string(),
            source,
        },
        BucketProbeError::Mismatch(mismatch) => mismatch.into(),
    };
    let mut found = read_mark(bucket).await.map_err(silent)?;
    if found.is_none() {
        let mark = Mark {
            format: MARK_FORMAT,
            cluster_id: cluster_id.to_owned(),
        };
        let mark = serde_json::to_vec(&mark).expect("two plain fields are always JSON");
        match bucket
            .put(&ObjectKey::cluster_mark(), vec![mark.into()])
            .await
        {
            // Another broker was faster; it may be of the same cluster.
            Err(PutError::Conflict { .. }) => found = read_mark(bucket).await.map_err(silent)?,
            put => put.map_err(failed)?,
        }
    }
    match found {
        Some(found) if found != cluster_id => {
            let cluster_id = cluster_id.to_owned();
            Err(Mismatch::BucketOfAnother { cluster_id, found }.into())
        }
        _ => StoreBucket::remove_unfinished(uri).map_err(|source| StorageError::Bucket {
            uri: uri.to_string(),
            source,
        }),
    }
}

/// Whether a restart finds the bucket as it was.
pub(super) fn is_lasting(uri: &BucketUri) -> bool {
    *uri != BucketUri::Memory
}

/// An id for a cluster that has none yet.
pub(super) fn generate_cluster_id(random: &SharedRandom) -> String {
    let bytes = random.next_bytes16();
    let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    debug_assert!(id.len() <= CLUSTER_ID_BYTES_MAX);
    id
}
