//! `millrace recover`: a broker's metadata, rebuilt from its backup in the bucket.
//!
//! The records themselves are in the bucket's objects and in the write-ahead log. So with the log,
//! everything that was acknowledged is back after the next start; without it, what was uploaded is, and
//! the report names what is not, as far as the backup knows.

mod objects;
mod report;
mod restore;

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::{Path, PathBuf},
};

use millrace_meta::{
    MetaStore, StoreFailure,
    sqlite::{Floors, SqliteMeta, SqliteOptions},
};
use millrace_model::{NodeId, Offset, StreamEpoch, StreamId};
use millrace_objects::{ListError, chain::Chain};
use millrace_stream::{KeptRecords, RecoveredLog, Straddles};
use millrace_wal::{UnopenedWal, WalIdentity};

use self::{
    objects::BucketObjects,
    restore::{Acknowledged, Restored, restore},
};
pub use self::{
    report::{MissingRange, RecoveryReport, Source},
    restore::ChainError,
};
use crate::{
    background_threads::BackgroundThreads,
    config::BrokerConfig,
    folder::{DataFolder, FolderError},
    identity::{self, UNSEEN_PRODUCER_IDS, UNSEEN_STARTS},
    storage::{Seams, StorageError, open_bucket},
};

/// The name of the database while it is built.
const SCRATCH_FILE: &str = "meta.db.recovering";
/// The files of a database.
const SUFFIXES: [&str; 3] = ["", "-wal", "-shm"];

/// What to recover.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecoverOptions {
    /// Whether to do it, or only to say what would come of it.
    pub apply: bool,
    /// A moment, in milliseconds since 1970; `None` is the end of the backup.
    pub at_ms: Option<i64>,
}

/// Why nothing was recovered. The broker's files are as they were, except where the text says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The data folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Bucket, log or their marks.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The backup.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The restored metadata is not sound.
    #[error("the restored metadata cannot be used: {0}")]
    Meta(#[from] StoreFailure),
    /// The restored metadata cannot be opened.
    #[error("the restored metadata cannot be opened: {0}")]
    Open(#[from] millrace_meta::sqlite::OpenError),
    /// The backup belongs to another cluster.
    #[error(
        "the metadata backup in the bucket belongs to the cluster {found}, cluster.id is {configured}; \
         correct s3.data.buckets or cluster.id"
    )]
    OtherCluster {
        /// The setting.
        configured: String,
        /// What the backup says.
        found: String,
    },
    /// The log belongs to another backup.
    #[error(
        "the write-ahead log is {found:016x}, but the backup was written beside {expected:016x}; correct \
         s3.wal.path, or move the file away to recover from the bucket alone"
    )]
    OtherLog {
        /// What the backup says.
        expected: u64,
        /// What the log says.
        found: u64,
    },
    /// The log and the restored metadata contradict each other.
    #[error("the write-ahead log does not belong to the restored metadata: {0}")]
    Straddles(#[from] Straddles),
    /// The bucket's objects cannot be listed.
    #[error("{0}")]
    List(#[from] ListError),
    /// The restored file cannot be put into place.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Reads a moment as RFC 3339 writes it, in milliseconds since 1970; `None` where it is none.
#[must_use]
pub fn parse_moment(text: &str) -> Option<i64> {
    millrace_time::rfc3339::parse(text)
}

/// Recovers a broker's metadata, or says what would come of it.
///
/// # Errors
/// See [`RecoverError`].
pub async fn recover(
    config: &BrokerConfig,
    options: RecoverOptions,
    seams: Seams,
) -> Result<RecoveryReport, RecoverError> {
    let folder = DataFolder::lock(&config.data_dir)?;
    let background = BackgroundThreads::start().map_err(StorageError::Threads)?;
    let bucket = open_bucket(&config.storage.bucket, &background, &seams)?;
    let scratch = NewMetadata::beside(&folder.metadata_file())?;
    let chain = Chain::new(bucket.clone(), config.node_id);
    let mut restored = restore(&chain, &scratch.file, options.at_ms).await?;
    if let Some(configured) = config
        .cluster_id
        .as_ref()
        .filter(|id| **id != restored.cluster_id)
    {
        return Err(RecoverError::OtherCluster {
            configured: configured.clone(),
            found: restored.cluster_id.clone(),
        });
    }
    let log = identity::probe_log(&config.storage.wal, &seams).await?;
    let log = Log::read(log, &restored, config.node_id, options).await?;
    restored.warnings.extend(log.unknown(&scratch.file).await?);
    let meta = open(&scratch.file, &seams).await?;
    meta.check_integrity().await?;
    let recovery = Recovery {
        config,
        options,
        restored,
        objects: BucketObjects::list(&bucket, &scratch.file).await?,
        meta,
    };
    let report = recovery.run(log).await?;
    if options.apply {
        scratch.put_into_place(&folder.metadata_file())?;
    }
    Ok(report)
}

async fn open(path: &Path, seams: &Seams) -> Result<SqliteMeta, RecoverError> {
    let options = SqliteOptions::default();
    Ok(SqliteMeta::open(path, options, seams.clock.clone()).await?)
}

/// Restores the end of the chain into the file at `path`; the last transaction that it has.
#[cfg(test)]
pub(crate) async fn restored_revision(chain: &Chain, path: &Path) -> Result<u64, ChainError> {
    Ok(restore(chain, path, None).await?.applied)
}

/// The write-ahead log, as far as it counts.
enum Log {
    /// There is none.
    Blank,
    /// It goes on with the restored metadata.
    Kept {
        found: WalIdentity,
        records: RecoveredLog,
    },
    /// It is newer than the moment that was asked for.
    Discarded {
        log: Box<UnopenedWal>,
        records: RecoveredLog,
    },
}

impl Log {
    async fn read(
        log: Option<UnopenedWal>,
        restored: &Restored,
        node_id: NodeId,
        options: RecoverOptions,
    ) -> Result<Self, RecoverError> {
        let Some((log, found)) = log.and_then(|log| log.identity().map(|found| (log, found)))
        else {
            return Ok(Self::Blank);
        };
        let of_this_node = found.owner.as_ref().is_none_or(|owner| {
            owner.cluster_id == restored.cluster_id && owner.node_id == node_id
        });
        let mut records = RecoveredLog::default();
        let sink = &mut |record| records.push(&record);
        let scan = log.clone().scan(sink);
        scan.await.map_err(StorageError::from)?;
        if found.owner.is_none() && records.records_by_stream().is_empty() {
            // Formatted or emptied, and not used since, as an earlier recovery leaves it.
            return Ok(Self::Blank);
        }
        if found.wal_id != restored.wal_id || !of_this_node {
            return Err(RecoverError::OtherLog {
                expected: restored.wal_id,
                found: found.wal_id,
            });
        }
        Ok(match options.at_ms {
            None => Self::Kept { found, records },
            Some(_) => Self::Discarded {
                log: Box::new(log),
                records,
            },
        })
    }
}

impl Log {
    /// What is lost because the restored metadata at `path` has never had the streams.
    async fn unknown(&self, path: &Path) -> Result<Option<String>, RecoverError> {
        let Self::Kept { records, .. } = self else {
            return Ok(None);
        };
        let by_stream = records.records_by_stream();
        let streams: Vec<_> = by_stream.keys().copied().collect();
        let unknown = millrace_meta::sqlite::unknown_streams(path, &streams).await?;
        let entries: usize = unknown
            .iter()
            .filter_map(|stream| by_stream.get(stream))
            .sum();
        Ok((entries > 0).then(|| {
            format!(
                "the write-ahead log has {entries} entries of {} streams that the backup does not know; \
                 they are lost",
                unknown.len()
            )
        }))
    }
}

/// A recovery whose metadata is restored.
struct Recovery<'a> {
    config: &'a BrokerConfig,
    options: RecoverOptions,
    restored: Restored,
    meta: SqliteMeta,
    objects: BucketObjects,
}

/// What is known of the partitions' streams.
struct Streams {
    /// Where each ends by the metadata, and its epoch.
    committed: HashMap<StreamId, (Offset, StreamEpoch)>,
    /// The partition that each data stream is of.
    partitions: BTreeMap<StreamId, (String, u32)>,
    topics: u64,
}

impl Recovery<'_> {
    async fn run(mut self, log: Log) -> Result<RecoveryReport, RecoverError> {
        let streams = self.streams().await?;
        let ends = streams
            .committed
            .iter()
            .map(|(&id, &(end, _))| (id, end))
            .collect();
        let mut acknowledged = self.restored.acknowledged();
        let kept = match &log {
            Log::Blank => KeptRecords::default(),
            Log::Kept { records, .. } => records.kept(&ends)?,
            Log::Discarded { records, .. } => {
                let lost = records.lost(&ends)?;
                for lost in lost {
                    let wall_ms = self.restored.known_to_ms;
                    let end = lost.to;
                    let known = acknowledged
                        .entry(lost.stream)
                        .or_insert(Acknowledged { end, wall_ms });
                    known.end = known.end.max(end);
                }
                KeptRecords::default()
            }
        };
        let mut missing = self.missing_objects(&streams).await?;
        for (stream, told) in acknowledged {
            let (Some((topic, partition)), Some(&(end, _))) = (
                streams.partitions.get(&stream),
                streams.committed.get(&stream),
            ) else {
                continue;
            };
            let end = kept.ends.get(&stream).copied().unwrap_or(0).max(end);
            if told.end > end {
                missing.push(MissingRange {
                    topic: topic.clone(),
                    partition: *partition,
                    from_offset: end,
                    to_offset: told.end,
                    acknowledged_by: told.wall_ms,
                });
            }
        }
        missing.sort_by(|a, b| {
            (&a.topic, a.partition, a.from_offset).cmp(&(&b.topic, b.partition, b.from_offset))
        });
        let report = self.report(&streams, &log, &kept, missing);
        if self.options.apply {
            self.apply(&streams, log, &kept).await?;
        }
        self.meta.close().await;
        Ok(report)
    }

    async fn streams(&self) -> Result<Streams, RecoverError> {
        let topics = self.meta.topics().await?;
        let mut partitions = BTreeMap::new();
        for topic in &topics {
            for partition in &topic.partitions {
                let name = topic.name.as_str().to_owned();
                partitions.insert(partition.data, (name, partition.index));
            }
        }
        let committed = self.meta.streams().into_iter();
        Ok(Streams {
            committed: committed
                .map(|stream| (stream.id, (stream.end.max(stream.start), stream.epoch)))
                .collect(),
            partitions,
            topics: topics.len() as u64,
        })
    }

    /// What is in objects that the metadata refers to, and that are not in the bucket.
    async fn missing_objects(
        &mut self,
        streams: &Streams,
    ) -> Result<Vec<MissingRange>, RecoverError> {
        let mut missing = Vec::new();
        for &object in &self.objects.absent {
            let Some(contents) = self.meta.object_contents(object).await? else {
                continue;
            };
            for live in contents.live {
                let text = format!("object {object} is not in the bucket");
                if !self.restored.warnings.contains(&text) {
                    self.restored.warnings.push(text);
                }
                if let Some((topic, partition)) = streams.partitions.get(&live.range.stream) {
                    missing.push(MissingRange {
                        topic: topic.clone(),
                        partition: *partition,
                        from_offset: live.readable_from,
                        to_offset: live.range.end,
                        acknowledged_by: self.restored.recovered_to_ms,
                    });
                }
            }
        }
        Ok(missing)
    }

    fn report(
        &mut self,
        streams: &Streams,
        log: &Log,
        kept: &KeptRecords,
        missing: Vec<MissingRange>,
    ) -> RecoveryReport {
        let source = match log {
            Log::Kept { .. } => Source::BucketAndWal,
            Log::Blank | Log::Discarded { .. } => Source::Bucket,
        };
        let mut warnings = std::mem::take(&mut self.restored.warnings);
        if !self.restored.is_complete && !self.objects.unknown.is_empty() {
            warnings.push(format!(
                "the bucket has {} objects that the restored metadata does not know; they are kept, since \
                 the backup is damaged",
                self.objects.unknown.len()
            ));
        }
        if source == Source::Bucket {
            let known_to = millrace_time::rfc3339::format(self.restored.known_to_ms);
            warnings.push(format!(
                "Records that were acknowledged after {known_to} and not uploaded are missing as well: \
                 the backup does not know them."
            ));
        }
        if let Log::Discarded { .. } = log {
            warnings
                .push("the write-ahead log is emptied: its records are newer than --at".to_owned());
        }
        RecoveryReport {
            cluster_id: self.restored.cluster_id.clone(),
            node_id: self.config.node_id,
            source,
            recovered_to: self.restored.recovered_to_ms,
            window_start: self.restored.window_start_ms,
            acknowledged_known_to: self.restored.known_to_ms,
            snapshot_seq: self.restored.snapshot_seq,
            items: self.restored.items,
            topics: streams.topics,
            partitions: streams.partitions.len() as u64,
            records_from_wal: kept.records,
            bytes_from_wal: kept.bytes,
            missing,
            warnings,
            applied: self.options.apply,
        }
    }

    /// Makes the restored metadata one that a start can go on from: no number that may have been given
    /// out is given out again.
    async fn apply(
        &self,
        streams: &Streams,
        log: Log,
        kept: &KeptRecords,
    ) -> Result<(), RecoverError> {
        let unseen_epochs = kept.epochs.iter().map(|(id, epoch)| {
            let known = streams
                .committed
                .get(id)
                .map_or(0, |(_, known)| known.get());
            epoch.get().saturating_sub(known)
        });
        let stream_epochs_by = unseen_epochs.max().unwrap_or(0) + UNSEEN_STARTS;
        let logged = kept.epochs.keys();
        // The log may know of starts and of changes that did not reach the backup.
        let (mut generation, mut revision) =
            (self.restored.generation.get(), self.restored.revision);
        if let Log::Kept { found, .. } = &log {
            let owner = found.owner.as_ref();
            generation = generation.max(owner.map_or(0, |owner| owner.generation.get()));
            revision = revision.max(found.revision);
        }
        let floors = Floors {
            generation: generation + UNSEEN_STARTS,
            revision,
            next_object: self.objects.next,
            next_stream: logged.clone().map(|id| id.get() + 1).max().unwrap_or(0),
            stream_epochs_by,
            deleted: logged
                .copied()
                .filter(|id| !streams.committed.contains_key(id))
                .collect(),
            ..Floors::default()
        };
        self.meta.raise(floors).await?;
        self.meta.allocate_producer_ids(UNSEEN_PRODUCER_IDS).await?;
        // A generation above all that anybody has seen; what former ones prepared is retired.
        self.meta.register_node(self.config.node_id).await?;
        if self.restored.is_complete {
            self.meta
                .retire_unknown(self.objects.unknown.clone())
                .await?;
        }
        let wal_id = match log {
            Log::Blank => None,
            Log::Kept { found, .. } => Some(found.wal_id),
            Log::Discarded { log, .. } => Some(log.discard().await.map_err(StorageError::from)?),
        };
        self.meta.set_wal_id(wal_id).await?;
        Ok(())
    }
}

/// The file that is built; removed with this unless it was put into place.
struct NewMetadata {
    file: PathBuf,
}

impl NewMetadata {
    fn beside(metadata: &Path) -> Result<Self, RecoverError> {
        let scratch = Self {
            file: metadata.with_file_name(SCRATCH_FILE),
        };
        scratch.remove()?;
        Ok(scratch)
    }

    fn remove(&self) -> Result<(), RecoverError> {
        for file in files_of(&self.file) {
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(at(&file)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Moves the present metadata aside, if there is any, and the restored one into its place.
    fn put_into_place(self, metadata: &Path) -> Result<(), RecoverError> {
        let journal = &files_of(&self.file)[1];
        if fs::metadata(journal).is_ok_and(|found| found.len() > 0) {
            let error = io::Error::other("the restored metadata was not closed cleanly; try again");
            return Err(at(journal)(error));
        }
        let aside = (1_u32..)
            .map(|number| metadata.with_file_name(format!("meta.db.before-recovery-{number}")))
            .find(|path| files_of(path).iter().all(|file| !file.exists()))
            .unwrap_or_else(|| metadata.with_extension("before-recovery"));
        for (from, to) in files_of(metadata).iter().zip(files_of(&aside)) {
            if from.exists() {
                fs::rename(from, to).map_err(at(from))?;
            }
        }
        fs::rename(&self.file, metadata).map_err(at(metadata))?;
        let folder = metadata.parent().unwrap_or(Path::new("."));
        fs::File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(at(folder))
    }
}

impl Drop for NewMetadata {
    fn drop(&mut self) {
        // What stays is removed by the next recovery.
        let _ = self.remove();
    }
}

fn files_of(database: &Path) -> [PathBuf; 3] {
    SUFFIXES.map(|suffix| {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    })
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> RecoverError + use<> {
    let path = path.to_owned();
    move |source| RecoverError::Io { path, source }
}
