//! What settings, metadata, write-ahead log and bucket say of themselves. Reads only: no file is
//! created, and nothing in one changes.

use std::{fs, io, time::Duration};

use millrace_meta::sqlite::{read_identity, unknown_streams};
use millrace_model::{NodeId, StreamId, limits::CLUSTER_ID_BYTES_MAX};
use millrace_objects::{
    GetError, ListError, ObjectKey, ObjectStorage,
    chain::{Chain, ReadItemError, Tail},
};
use millrace_stream::RecoveredLog;
use millrace_wal::{ScannedWal, UnopenedWal};
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{
    agree::{BackupEnd, BucketIdentity, Configured, Sides},
    mismatch::{Age, Mismatch},
};
use crate::{
    config::{BrokerConfig, WalUri},
    folder::DataFolder,
    log_device::{wal_config, wal_device},
    storage::{Seams, StorageError},
};

/// How long a start waits for the bucket that it can do without.
pub(super) const BUCKET_WAIT: Duration = Duration::from_secs(5);
/// How long a start waits for the bucket that it needs. A new bucket's policy takes a while to hold.
pub(super) const BUCKET_WAIT_MAX: Duration = Duration::from_secs(30);

/// The mark that says whose bucket it is; JSON in the object `meta/cluster`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Of this object: 1.
    pub(super) format: u32,
    /// The cluster.
    pub(super) cluster_id: String,
}

/// The version of [`Mark`].
pub(super) const MARK_FORMAT: u32 = 1;
/// A mark is far smaller; bounds what is read of an object that is none.
const MARK_BYTES_MAX: u64 = 4_096;

/// The bucket did not say whose it is.
#[derive(Debug, thiserror::Error)]
pub enum BucketSilent {
    /// Its mark cannot be read.
    #[error(transparent)]
    Get(#[from] GetError),
    /// The end of the metadata backup cannot be read.
    #[error(transparent)]
    Backup(#[from] ReadItemError),
    /// It cannot be listed.
    #[error(transparent)]
    List(#[from] ListError),
    /// There was no answer.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
}

/// Why the bucket's identity is not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BucketProbeError {
    #[error(transparent)]
    Silent(#[from] BucketSilent),
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) sides: Sides,
    /// `None` where there is no file.
    pub(crate) log: Option<UnopenedWal>,
    /// Why the bucket's side is missing.
    pub(crate) bucket_silent: Option<BucketSilent>,
}

/// Probes everything.
pub(crate) async fn probe(
    config: &BrokerConfig,
    folder: &DataFolder,
    bucket: &ObjectStorage,
    seams: &Seams,
) -> Result<Probe, StorageError> {
    let metadata = read_identity(&folder.metadata_file()).await?;
    let log = probe_log(&config.storage.wal, seams).await?;
    let wal = log.as_ref().and_then(UnopenedWal::identity);
    let is_blank = metadata.is_none() || wal.is_none();
    let wait = if is_blank {
        BUCKET_WAIT_MAX
    } else {
        BUCKET_WAIT
    };
    let question = Question {
        node_id: config.node_id,
        is_first_start: metadata.is_none() && wal.is_none(),
    };
    let (bucket, bucket_silent) = match probe_bucket(bucket, question, wait).await {
        Ok(found) => (Some(found), None),
        Err(BucketProbeError::Silent(silent)) => (None, Some(silent)),
        Err(BucketProbeError::Mismatch(mismatch)) => return Err(mismatch.into()),
    };
    let configured = Configured {
        cluster_id: config.cluster_id.clone(),
        node_id: config.node_id,
    };
    Ok(Probe {
        sides: Sides {
            configured,
            metadata,
            wal,
            bucket,
        },
        log,
        bucket_silent,
    })
}

/// The log's header; `None` where there is no log yet, which is not created here.
pub(crate) async fn probe_log(
    uri: &WalUri,
    seams: &Seams,
) -> Result<Option<UnopenedWal>, StorageError> {
    if seams.device.is_none() {
        let is_missing = match fs::metadata(&uri.path) {
            Ok(found) => found.is_file() && found.len() == 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => true,
            // Opening the device says what is wrong.
            Err(_) => false,
        };
        if is_missing {
            return Ok(None);
        }
    }
    let device = wal_device(uri, seams).await?;
    let log = UnopenedWal::read(device, wal_config(uri, seams)).await?;
    Ok(Some(log))
}

/// What is asked of the bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) node_id: NodeId,
    /// Neither metadata nor log: then it must not have any objects either.
    pub(super) is_first_start: bool,
}

/// Whose bucket it is, and where this node's metadata backup ends.
pub(super) async fn probe_bucket(
    bucket: &ObjectStorage,
    question: Question,
    wait: Duration,
) -> Result<BucketIdentity, BucketProbeError> {
    let looked = timeout(wait, ask_bucket(bucket, question)).await;
    looked.unwrap_or(Err(BucketSilent::TimedOut(wait).into()))
}

async fn ask_bucket(
    bucket: &ObjectStorage,
    question: Question,
) -> Result<BucketIdentity, BucketProbeError> {
    let cluster_id = read_mark(bucket).await?;
    let tail = Chain::new(bucket.clone(), question.node_id)
        .read_tail()
        .await;
    let backup = tail.map_err(BucketSilent::from)?.as_ref().map(end_of);
    // Objects' keys begin with hexadecimal digits, so they come before everything else of ours.
    let mut object = None;
    if question.is_first_start {
        let first = bucket.list("", None, 1).await.map_err(BucketSilent::from)?;
        let first = first.into_iter().next().map(|listed| listed.key);
        object = first
            .filter(|key| key.object_id().is_some())
            .map(|key| key.to_string());
    }
    Ok(BucketIdentity {
        cluster_id,
        backup,
        object,
    })
}

/// What the end of a backup says of the start that wrote it.
pub(super) fn end_of(tail: &Tail) -> BackupEnd {
    let owner = &tail.last.owner;
    BackupEnd {
        cluster_id: owner.cluster_id.clone(),
        wal_id: owner.wal_id,
        age: Age {
            generation: owner.generation,
            revision: tail.last.last_revision,
        },
        nonce: owner.nonce,
    }
}

/// The cluster in the bucket's mark; `None` where there is no mark.
pub(super) async fn read_mark(bucket: &ObjectStorage) -> Result<Option<String>, BucketProbeError> {
    let key = ObjectKey::cluster_mark();
    let bytes = match bucket.get_start(&key, MARK_BYTES_MAX).await {
        Ok(bytes) => bytes,
        Err(GetError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(BucketSilent::from(error).into()),
    };
    let unreadable = |what: String| Mismatch::UnreadableMark(what);
    let mark: Mark =
        serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
    if mark.format != MARK_FORMAT {
        let known = format!(
            "it has format {}, this version knows {MARK_FORMAT}",
            mark.format
        );
        return Err(unreadable(known).into());
    }
    if mark.cluster_id.is_empty() || mark.cluster_id.len() > CLUSTER_ID_BYTES_MAX {
        return Err(unreadable(format!(
            "a cluster id has 1 to {CLUSTER_ID_BYTES_MAX} bytes"
        ))
        .into());
    }
    Ok(Some(mark.cluster_id))
}

/// What the log holds, found but not opened.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) log: ScannedWal,
    pub(crate) recovered: RecoveredLog,
    /// The streams that it has records of.
    pub(crate) streams: Vec<StreamId>,
}

impl Scanned {
    /// Finds what the log holds.
    pub(super) async fn find(log: UnopenedWal) -> Result<Self, StorageError> {
        let mut recovered = RecoveredLog::default();
        let log = log.scan(&mut |record| recovered.push(&record)).await?;
        let streams = recovered.records_by_stream().into_keys().collect();
        Ok(Self {
            log,
            recovered,
            streams,
        })
    }

    /// Whether the metadata has never had one of the streams.
    pub(super) async fn unknown_streams(
        &self,
        folder: &DataFolder,
    ) -> Result<Option<Mismatch>, StorageError> {
        let unknown = unknown_streams(&folder.metadata_file(), &self.streams).await?;
        let records = self.recovered.records_by_stream();
        Ok(unknown.first().map(|&first| Mismatch::UnknownStreams {
            streams: unknown.len(),
            records: unknown
                .iter()
                .filter_map(|stream| records.get(stream))
                .sum(),
            first,
        }))
    }
}
