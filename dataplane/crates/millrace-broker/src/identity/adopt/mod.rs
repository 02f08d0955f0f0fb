//! `millrace adopt`: makes storage agree that does not, after saying what that loses.
//!
//! The metadata decides what exists. A log that belongs to it is kept, with those records that fit; any
//! other is given up. Counters are raised above everything that log and bucket have seen, so that nothing
//! is given out twice. Where there is no metadata, the cluster begins again and is empty.

mod loss;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use millrace_meta::{
    MetaStore,
    sqlite::{Floors, SqliteMeta, SqliteOptions},
};
use millrace_model::StreamId;
use millrace_objects::{ListError, Listed, ObjectStorage};
use millrace_wal::UnopenedWal;

use self::loss::Known;
pub use self::loss::Loss;
use super::{
    Age, Mismatch, UNSEEN_PRODUCER_IDS, UNSEEN_STARTS,
    agree::{Sides, age_of_wal, agree},
    claim::{claim_bucket, generate_cluster_id, is_lasting},
    probe::{Probe, Scanned, probe},
};
use crate::{
    background_threads::BackgroundThreads,
    config::BrokerConfig,
    folder::{DataFolder, FolderError},
    storage::{Seams, StorageError, open_bucket},
};

/// The storage was not adopted.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// The data folder cannot be used, or a broker runs on it.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A side cannot be read or written.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A setting names the wrong place: there is nothing to give up.
    #[error("{0}; there is nothing to adopt")]
    Settings(Mismatch),
    /// The bucket cannot be listed.
    #[error("the bucket cannot be listed: {0}")]
    List(#[from] ListError),
    /// The streams contradict the metadata in a way that no loss explains.
    #[error("the streams cannot be compared: {0}")]
    Streams(String),
    /// The copy of the metadata that is looked at.
    #[error("the metadata cannot be copied to {path}: {source}")]
    Copy {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl From<millrace_meta::StoreFailure> for AdoptError {
    fn from(failure: millrace_meta::StoreFailure) -> Self {
        Self::Storage(failure.into())
    }
}

impl From<millrace_meta::sqlite::OpenError> for AdoptError {
    fn from(error: millrace_meta::sqlite::OpenError) -> Self {
        Self::Storage(error.into())
    }
}

/// What an adoption would do. Nothing has changed yet; no broker can start while this lives.
pub struct Adoption {
    /// Why the storage does not agree.
    pub reason: Mismatch,
    /// What is lost.
    pub losses: Vec<Loss>,
    config: BrokerConfig,
    seams: Seams,
    bucket: ObjectStorage,
    sides: Sides,
    log: Log,
    floors: Floors,
    folder: DataFolder,
    _background: BackgroundThreads,
}

/// What becomes of the log.
enum Log {
    /// It belongs to the metadata.
    Kept(Box<Scanned>),
    /// There is none: the next start formats it.
    Blank,
    /// It is emptied.
    Discarded(Box<UnopenedWal>),
}

impl Log {
    async fn classify(log: Option<UnopenedWal>, sides: &Sides) -> Result<Self, AdoptError> {
        Ok(match log {
            Some(log) if sides.log_belongs() => Self::Kept(Box::new(Scanned::find(log).await?)),
            Some(log) if log.identity().is_some() => Self::Discarded(Box::new(log)),
            _ => Self::Blank,
        })
    }
}

/// What is wrong with the storage of `config`, and what adopting it would lose; `None` where everything
/// agrees. Changes nothing.
///
/// # Errors
/// See [`AdoptError`].
pub async fn prepare_adoption(
    config: BrokerConfig,
    seams: Seams,
) -> Result<Option<Adoption>, AdoptError> {
    let folder = DataFolder::lock(&config.data_dir)?;
    let background = BackgroundThreads::start().map_err(StorageError::Threads)?;
    let bucket = open_bucket(&config.storage.bucket, &background, &seams)?;
    let Probe {
        sides,
        log,
        bucket_silent,
    } = probe(&config, &folder, &bucket, &seams).await?;
    if let Some(source) = bucket_silent {
        let uri = config.storage.bucket.to_string();
        return Err(StorageError::BucketSilent { uri, source }.into());
    }
    let mut reason = agree(&sides).err();
    if let Some(reason) = reason.take_if(|reason| reason.is_about_settings()) {
        return Err(AdoptError::Settings(reason));
    }
    let objects = list_all(&bucket, &sides).await?;
    let copy = MetadataCopy::copy_of(&folder.metadata_file(), &seams)?;
    let known = Known::read(&copy, &sides, &seams).await?;
    let mut floors = floors(&sides, &objects);
    let mut losses = known.lost_objects(&objects).await?;
    if sides.misses_its_log() {
        losses.extend(known.lost_with_expected_log());
    }
    let log = Log::classify(log, &sides).await?;
    match &log {
        Log::Kept(scanned) => {
            if reason.is_none() {
                reason = scanned.unknown_streams(&folder).await?;
            }
            losses.extend(known.lost_in_kept_log(&scanned.recovered)?);
            let streams = scanned.streams.iter().copied();
            floors.next_stream = streams.clone().max().map_or(0, |stream| stream.get() + 1);
            let is_gone = |stream: &StreamId| !known.streams.contains_key(stream);
            floors.deleted = streams.filter(is_gone).collect();
        }
        Log::Blank => {}
        Log::Discarded(log) => losses.extend(loss::of_discarded_log(log).await),
    }
    let Some(reason) = reason else {
        return Ok(None);
    };
    Ok(Some(Adoption {
        reason,
        losses,
        config,
        seams,
        bucket,
        sides,
        log,
        floors,
        folder,
        _background: background,
    }))
}

impl Adoption {
    /// Makes the storage agree, at the cost of [`losses`](Self::losses). Where this fails half-way, it can
    /// be prepared and applied again.
    ///
    /// # Errors
    /// See [`AdoptError`].
    pub async fn apply(self) -> Result<(), AdoptError> {
        let Self {
            config,
            seams,
            bucket,
            sides,
            log,
            floors,
            folder,
            ..
        } = self;
        let cluster_id = sides.cluster_id().cloned();
        let cluster_id = cluster_id.unwrap_or_else(|| generate_cluster_id(&seams.random));
        claim_bucket(&bucket, &config.storage.bucket, &cluster_id).await?;
        let wal_id = match log {
            Log::Kept(_) => sides.wal.as_ref().map(|wal| wal.wal_id),
            Log::Blank => None,
            Log::Discarded(log) => {
                let wal_id = log.discard().await.map_err(StorageError::from)?;
                Some(wal_id)
            }
        };
        let meta = open_metadata(&folder.metadata_file(), &seams).await?;
        meta.cluster_id(&cluster_id).await?;
        meta.raise(floors).await?;
        meta.allocate_producer_ids(UNSEEN_PRODUCER_IDS).await?;
        // A generation above all that anybody has seen.
        meta.register_node(config.node_id).await?;
        meta.set_wal_id(wal_id).await?;
        if is_lasting(&config.storage.bucket) {
            meta.set_bucket_claimed().await?;
        }
        meta.close().await;
        Ok(())
    }
}

async fn open_metadata(path: &Path, seams: &Seams) -> Result<SqliteMeta, AdoptError> {
    let options = SqliteOptions::default();
    Ok(SqliteMeta::open(path, options, seams.clock.clone()).await?)
}

/// All objects of the cluster.
async fn list_all(bucket: &ObjectStorage, sides: &Sides) -> Result<Vec<Listed>, AdoptError> {
    let Some(cluster_id) = sides.cluster_id() else {
        return Ok(Vec::new());
    };
    Ok(bucket.list_cluster(cluster_id).await?)
}

/// What log and bucket have seen of the counters.
fn floors(sides: &Sides, objects: &[Listed]) -> Floors {
    let relied_on = sides
        .wal
        .as_ref()
        .filter(|_| sides.log_belongs())
        .map(age_of_wal);
    let backup = sides
        .bucket
        .as_ref()
        .and_then(|bucket| bucket.backup.as_ref());
    let ages: Vec<Age> = relied_on
        .into_iter()
        .chain(backup.map(|backup| backup.age))
        .collect();
    let object = objects
        .iter()
        .filter_map(|listed| listed.key.object_id())
        .max();
    Floors {
        generation: ages
            .iter()
            .map(|age| age.generation.get())
            .max()
            .unwrap_or(0),
        revision: ages.iter().map(|age| age.revision).max().unwrap_or(0),
        next_object: object.map_or(0, |object| object.get() + 1),
        stream_epochs_by: UNSEEN_STARTS,
        ..Floors::default()
    }
}

/// A copy of the metadata that may be opened, and so changed. Removed with this.
struct MetadataCopy {
    folder: PathBuf,
}

impl MetadataCopy {
    fn copy_of(metadata: &Path, seams: &Seams) -> Result<Self, AdoptError> {
        let folder = format!("millrace-adopt-{:016x}", seams.random.next_u64());
        let target = Self {
            folder: std::env::temp_dir().join(folder),
        };
        let copy = || {
            fs::create_dir_all(&target.folder)?;
            for suffix in ["", "-wal"] {
                let with = |path: &Path| {
                    let mut name = path.as_os_str().to_owned();
                    name.push(suffix);
                    PathBuf::from(name)
                };
                match fs::copy(with(metadata), with(&target.file())) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            Ok(())
        };
        copy().map_err(|source| AdoptError::Copy {
            path: target.folder.clone(),
            source,
        })?;
        Ok(target)
    }

    fn file(&self) -> PathBuf {
        self.folder.join("meta.db")
    }
}

impl Drop for MetadataCopy {
    fn drop(&mut self) {
        // Temporary: what cannot be removed harms nobody.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
