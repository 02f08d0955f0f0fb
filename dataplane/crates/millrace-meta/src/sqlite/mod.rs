//! The metadata of one broker in one SQLite file.
//!
//! WAL journal, `synchronous=FULL`: a commit is on the device when it returns. One connection
//! writes, a few read; what is asked often is answered from [`Index`], which only the writer
//! changes, after its transaction. Each change runs as a task of its own, so that a caller who stops
//! waiting cannot leave the index behind the database.

mod acl;
mod backup;
mod compaction;
mod delegation_tokens;
mod identity;
mod journal;
mod migrations;
mod nodes;
mod objects;
mod quotas;
mod ranges;
mod records;
mod resource_configs;
mod restore;
mod scram;
mod streams;
mod topics;

use std::{
    collections::BTreeMap,
    future::Future,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use millrace_model::{NodeEpoch, NodeId, ObjectId, Offset, StreamId, TopicName};
use millrace_time::SharedClock;
use parking_lot::RwLock;
use sqlx::{
    Connection, Sqlite, SqliteConnection, SqlitePool, Transaction,
    migrate::MigrateError,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::{
    runtime::Handle,
    sync::{Mutex, MutexGuard, Notify, watch},
};

pub use self::backup::{BackupSource, Captured, ChangedPages, FilePart, SnapshotStart};
pub use self::identity::{Floors, MetaIdentity, read_identity, unknown_streams};
pub use self::records::{ObjectRecord, ObjectRecords, ObjectState, read_object_records};
pub use self::restore::{Restore, RestoreError};
use crate::{
    AclRow, CommitError, Compaction, CompactionError, CreatePartitionsError, CreateTopicError,
    DelegationTokenChange, DelegationTokenRow, Fenced, MetaStore, NewTopic, ObjectContents,
    ObjectRange, OpenStreamError, QuotaChange, QuotaRow, ReserveError, ResourceConfigChange,
    ResourceConfigRow, ScramChange, ScramRow, StoreFailure, StreamMeta, StreamSetSummary,
    StreamSummary, SweepError, Topic, TopicError, TrimError, Upload,
    index::{self, Committed, Index},
    number,
};

/// Connections that only read. Few reads reach the database at all; four keep a long listing from
/// holding up the others.
const READERS: u32 = 4;

/// How long a connection waits for another process that holds the file's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// What can be set.
#[derive(Debug, Clone, Copy)]
pub struct SqliteOptions {
    /// How long a retired object stays readable, counted on the monotonic clock from when this process
    /// saw it retired. Must be longer than the longest read, since a reader may hold a range that it
    /// was given just before the object was retired.
    pub retired_retention: Duration,
    /// A journal of this size is given back to the database whether the backup has it or not, in bytes;
    /// the backup then begins with a new snapshot. Bounds the disk while the bucket does not answer.
    pub journal_bytes_max: u64,
}

impl Default for SqliteOptions {
    /// 64 MiB of journal, far more than metadata changes within the minutes of a usual outage.
    ///
    /// Ten minutes: three times the longest read, which is ten tries of a merged range of 4 MiB, each
    /// given up after 14 seconds, with half a minute of pauses in between.
    fn default() -> Self {
        Self {
            retired_retention: Duration::from_secs(600),
            journal_bytes_max: 64 << 20,
        }
    }
}

/// A metadata store in one SQLite file. A clone is the same store.
#[derive(Debug, Clone)]
pub struct SqliteMeta {
    inner: Arc<Inner>,
}

/// Why the metadata could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file was written by a newer version of this program: start that one.
    #[error("the metadata has migration {0}, which this version does not know")]
    Newer(i64),
    /// A migration failed; the file is as it was before it.
    #[error("cannot migrate the metadata")]
    Migration(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The file cannot be opened or read.
    #[error(transparent)]
    Store(#[from] StoreFailure),
}

#[derive(Debug)]
struct Inner {
    writer: Mutex<SqliteConnection>,
    readers: SqlitePool,
    index: RwLock<Index>,
    /// A transaction may have committed without the index having followed.
    index_behind: AtomicBool,
    /// The number of the last transaction that has committed.
    revision: watch::Sender<u64>,
    /// Where the database is.
    path: PathBuf,
    /// How far the backup has come, if there is one.
    backed_up: parking_lot::Mutex<Option<watch::Receiver<u64>>>,
    /// Told when somebody waits for the backup.
    backup_wanted: Notify,
    clock: SharedClock,
    options: SqliteOptions,
    /// Runs the changes, whoever asks for them: they hold the writer, and must not hold it at the low priority of background threads.
    runtime: Handle,
}

impl SqliteMeta {
    /// Opens the file at `path`, creates or migrates it, and builds the index from it. The clock's
    /// wall time dates retired objects.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub async fn open(
        path: &Path,
        options: SqliteOptions,
        clock: SharedClock,
    ) -> Result<Self, OpenError> {
        let connect = connect_options(path);
        let mut writer = SqliteConnection::connect_with(&connect)
            .await
            .map_err(failure)?;
        migrations::all()
            .run(&mut writer)
            .await
            .map_err(|error| match error {
                MigrateError::VersionMissing(version) => OpenError::Newer(version),
                error => OpenError::Migration(Box::new(error)),
            })?;
        let readers = SqlitePoolOptions::new()
            .min_connections(READERS)
            .max_connections(READERS)
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(connect.pragma("query_only", "ON"))
            .await
            .map_err(failure)?;
        let index = load_index(&mut writer, clock.now()).await?;
        let revision = identity::revision(&mut writer).await?;
        let inner = Inner {
            writer: Mutex::new(writer),
            readers,
            index: RwLock::new(index),
            index_behind: AtomicBool::new(false),
            revision: watch::Sender::new(revision),
            path: path.to_owned(),
            backed_up: parking_lot::Mutex::default(),
            backup_wanted: Notify::new(),
            clock,
            options,
            runtime: Handle::current(),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The number of the last change, and word of each later one: it grows by one with every
    /// transaction, and is stored in the same transaction.
    #[must_use]
    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.inner.revision.subscribe()
    }

    /// Closes the file's connections. Later uses of the store return errors.
    pub async fn close(&self) {
        self.inner.readers.close().await;
        // An open connection to nothing takes the writer's place, so that closing needs no owner.
        if let Ok(nothing) = SqliteConnection::connect("sqlite::memory:").await {
            let writer = std::mem::replace(&mut *self.inner.writer.lock().await, nothing);
            if let Err(error) = writer.close().await {
                tracing::warn!(%error, "the metadata file did not close cleanly");
            }
        }
    }

    /// Runs a change to its end, even where the caller stops waiting for it.
    async fn detached<T, E, F>(&self, change: impl FnOnce(Arc<Inner>) -> F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreFailure> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        // Not supervised: awaited.
        let change = self.inner.runtime.spawn(change(Arc::clone(&self.inner)));
        change
            .await
            .unwrap_or_else(|error| Err(StoreFailure::Database(Box::new(error)).into()))
    }
}

fn failure(error: sqlx::Error) -> StoreFailure {
    error.into()
}

fn connect_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // macOS: fsync alone leaves data in the drive's cache.
        .pragma("fullfsync", "ON")
        .pragma("checkpoint_fullfsync", "ON")
        // The backup gives the journal back to the database, once it has read it.
        .pragma("wal_autocheckpoint", "0")
        .pragma("journal_size_limit", backup::CHECKPOINT_BYTES.to_string())
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
}

/// Builds the index from a consistent view of the database.
async fn load_index(
    connection: &mut SqliteConnection,
    now: Duration,
) -> Result<Index, StoreFailure> {
    let mut tx = connection.begin().await?;
    let mut index = streams::load(&mut tx).await?;
    objects::load(&mut tx, &mut index, now).await?;
    tx.commit().await?;
    Ok(index)
}

impl Inner {
    /// The writing connection, with an index that agrees with the database.
    async fn writer(&self) -> Result<MutexGuard<'_, SqliteConnection>, StoreFailure> {
        let mut writer = self.writer.lock().await;
        if !is_idle(&mut writer).await {
            self.reopen(&mut writer).await?;
        }
        if self.index_behind.load(Ordering::SeqCst) {
            let mut loaded = load_index(&mut writer, self.clock.now()).await?;
            let revision = identity::revision(&mut writer).await?;
            let mut index = self.index.write();
            loaded.retired.keep_times_of(&index.retired);
            *index = loaded;
            self.revision.send_replace(revision);
            self.index_behind.store(false, Ordering::SeqCst);
        }
        Ok(writer)
    }

    async fn reopen(&self, writer: &mut SqliteConnection) -> Result<(), StoreFailure> {
        tracing::warn!("opening the metadata file again: a failed change could not be undone");
        let opened = SqliteConnection::connect_with(&connect_options(&self.path)).await?;
        let broken = std::mem::replace(writer, opened);
        if let Err(error) = broken.close().await {
            tracing::warn!(%error, "the metadata file did not close cleanly");
        }
        Ok(())
    }

    /// Commits under the next revision, then lets the index follow.
    async fn commit(
        &self,
        mut tx: Transaction<'_, Sqlite>,
        follow: impl FnOnce(&mut Index),
    ) -> Result<(), StoreFailure> {
        let revision = identity::next_revision(&mut tx).await?;
        self.index_behind.store(true, Ordering::SeqCst);
        tx.commit().await?;
        follow(&mut self.index.write());
        self.revision.send_replace(revision);
        self.index_behind.store(false, Ordering::SeqCst);
        Ok(())
    }
}

/// Whether a transaction can begin. Where the disk is full, SQLite undoes a transaction by itself
/// (sqlite.org/lang_transaction.html, section 3); the driver then fails to undo it again, takes it for open, and
/// can never begin another.
async fn is_idle(connection: &mut SqliteConnection) -> bool {
    // A transaction that was dropped is undone before the connection answers.
    !connection.is_in_transaction()
        || (connection.ping().await.is_ok() && !connection.is_in_transaction())
}

/// Begins a transaction that holds the write lock from the start, so that it cannot fail half-way
/// for want of it.
async fn begin(connection: &mut SqliteConnection) -> Result<Transaction<'_, Sqlite>, StoreFailure> {
    Ok(connection.begin_with("BEGIN IMMEDIATE").await?)
}

/// Refuses a node epoch that has been replaced.
async fn fence<E>(tx: &mut Transaction<'_, Sqlite>, node_epoch: NodeEpoch) -> Result<(), E>
where
    E: From<StoreFailure> + From<Fenced>,
{
    let known: Option<i64> = sqlx::query_scalar("SELECT node_id FROM nodes WHERE epoch = $1")
        .bind(number::to_sql(node_epoch.get())?)
        .fetch_optional(&mut **tx)
        .await
        .map_err(failure)?;
    known.map(drop).ok_or_else(|| Fenced(node_epoch).into())
}

#[async_trait]
impl MetaStore for SqliteMeta {
    fn revision(&self) -> u64 {
        *self.inner.revision.borrow()
    }

    async fn backed_up_to(&self, revision: u64) {
        let Some(mut reached) = self.inner.backed_up.lock().clone() else {
            return;
        };
        let has_ended = reached
            .wait_for(|&reached| reached >= revision)
            .await
            .is_err();
        if has_ended {
            // The process ends with it; until then nothing may rely on the backup.
            std::future::pending::<()>().await;
        }
    }

    fn hurry_backup(&self) {
        self.inner.backup_wanted.notify_one();
    }

    async fn cluster_id(&self, default: &str) -> Result<String, StoreFailure> {
        let default = default.to_owned();
        self.detached(|inner| async move { inner.cluster_id(&default).await })
            .await
    }

    async fn register_node(&self, node: NodeId) -> Result<NodeEpoch, StoreFailure> {
        self.detached(|inner| async move { inner.register_node(node).await })
            .await
    }

    async fn create_topic(&self, topic: NewTopic) -> Result<Topic, CreateTopicError> {
        self.detached(|inner| async move { inner.create_topic(topic).await })
            .await
    }

    async fn create_partitions(
        &self,
        name: &TopicName,
        total: u32,
    ) -> Result<Topic, CreatePartitionsError> {
        let name = name.clone();
        self.detached(|inner| async move { inner.create_partitions(&name, total).await })
            .await
    }

    async fn delete_topic(&self, name: &TopicName) -> Result<Topic, TopicError> {
        let name = name.clone();
        self.detached(|inner| async move { inner.delete_topic(&name).await })
            .await
    }

    async fn set_topic_configs(
        &self,
        name: &TopicName,
        configs: BTreeMap<String, String>,
    ) -> Result<Topic, TopicError> {
        let name = name.clone();
        self.detached(|inner| async move { inner.set_topic_configs(&name, configs).await })
            .await
    }

    async fn topics(&self) -> Result<Vec<Topic>, StoreFailure> {
        self.inner.topics().await
    }

    async fn open_streams(
        &self,
        streams: &[StreamId],
        node_epoch: NodeEpoch,
    ) -> Result<Vec<StreamMeta>, OpenStreamError> {
        let streams = streams.to_vec();
        self.detached(|inner| async move { inner.open_streams(&streams, node_epoch).await })
            .await
    }

    async fn reserve_objects(
        &self,
        node_epoch: NodeEpoch,
        count: u32,
    ) -> Result<ObjectId, ReserveError> {
        self.detached(|inner| async move { inner.reserve_objects(node_epoch, count).await })
            .await
    }

    async fn commit_upload(&self, upload: Upload) -> Result<(), CommitError> {
        let node_epoch = upload.node_epoch;
        let objects = Committed::of(upload);
        self.detached(|inner| async move { inner.commit_upload(node_epoch, objects).await })
            .await
    }

    async fn objects_of(
        &self,
        stream: StreamId,
        from: Offset,
        limit: usize,
    ) -> Result<Vec<ObjectRange>, StoreFailure> {
        Ok(self.inner.index.read().objects_of(stream, from, limit))
    }

    async fn release_objects(
        &self,
        node_epoch: NodeEpoch,
        objects: &[ObjectId],
    ) -> Result<(), ReserveError> {
        let objects = objects.to_vec();
        self.detached(|inner| async move { inner.release_objects(node_epoch, &objects).await })
            .await
    }

    async fn stream_sets(
        &self,
        after: Option<ObjectId>,
        limit: usize,
    ) -> Result<Vec<StreamSetSummary>, StoreFailure> {
        Ok(self.inner.index.read().stream_sets(after, limit))
    }

    async fn stream_summaries(
        &self,
        after: Option<StreamId>,
        limit: usize,
    ) -> Result<Vec<StreamSummary>, StoreFailure> {
        Ok(self.inner.index.read().stream_summaries(after, limit))
    }

    async fn object_contents(
        &self,
        object: ObjectId,
    ) -> Result<Option<ObjectContents>, StoreFailure> {
        self.inner.object_contents(object).await
    }

    async fn commit_compaction(&self, compaction: Compaction) -> Result<(), CompactionError> {
        self.detached(|inner| async move { inner.commit_compaction(compaction).await })
            .await
    }

    async fn trim_stream(
        &self,
        stream: StreamId,
        node_epoch: NodeEpoch,
        new_start: Offset,
    ) -> Result<Offset, TrimError> {
        self.detached(|inner| async move { inner.trim_stream(stream, node_epoch, new_start).await })
            .await
    }

    async fn retired_objects(
        &self,
        node_epoch: NodeEpoch,
        limit: usize,
    ) -> Result<Vec<ObjectId>, SweepError> {
        self.inner.retired_objects(node_epoch, limit).await
    }

    async fn mark_deleted(
        &self,
        node_epoch: NodeEpoch,
        objects: &[ObjectId],
    ) -> Result<(), SweepError> {
        let objects = objects.to_vec();
        self.detached(|inner| async move { inner.mark_deleted(node_epoch, &objects).await })
            .await
    }

    async fn allocate_producer_ids(&self, block: u32) -> Result<Range<i64>, StoreFailure> {
        self.detached(|inner| async move { inner.allocate_producer_ids(block).await })
            .await
    }

    async fn scram_credentials(&self) -> Result<Vec<ScramRow>, StoreFailure> {
        self.inner.scram_credentials().await
    }

    async fn change_scram_credentials(
        &self,
        changes: Vec<ScramChange>,
    ) -> Result<(), StoreFailure> {
        self.detached(|inner| async move { inner.change_scram_credentials(changes).await })
            .await
    }

    async fn client_quotas(&self) -> Result<Vec<QuotaRow>, StoreFailure> {
        self.inner.client_quotas().await
    }

    async fn change_client_quotas(&self, changes: Vec<QuotaChange>) -> Result<(), StoreFailure> {
        self.detached(|inner| async move { inner.change_client_quotas(changes).await })
            .await
    }

    async fn acls(&self) -> Result<Vec<AclRow>, StoreFailure> {
        self.inner.acls().await
    }

    async fn change_acls(
        &self,
        added: Vec<AclRow>,
        removed: Vec<AclRow>,
    ) -> Result<(), StoreFailure> {
        self.detached(|inner| async move { inner.change_acls(added, removed).await })
            .await
    }

    async fn delegation_tokens(&self) -> Result<Vec<DelegationTokenRow>, StoreFailure> {
        self.inner.delegation_tokens().await
    }

    async fn change_delegation_tokens(
        &self,
        changes: Vec<DelegationTokenChange>,
    ) -> Result<(), StoreFailure> {
        self.detached(|inner| async move { inner.change_delegation_tokens(changes).await })
            .await
    }

    async fn resource_configs(&self) -> Result<Vec<ResourceConfigRow>, StoreFailure> {
        self.inner.resource_configs().await
    }

    async fn change_resource_configs(
        &self,
        changes: Vec<ResourceConfigChange>,
    ) -> Result<(), StoreFailure> {
        self.detached(|inner| async move { inner.change_resource_configs(changes).await })
            .await
    }

    async fn get_kv(&self, name: &str) -> Result<Option<Vec<u8>>, StoreFailure> {
        self.inner.get_kv(name).await
    }

    async fn put_kv(&self, name: &str, value: &[u8]) -> Result<(), StoreFailure> {
        let (name, value) = (name.to_owned(), value.to_vec());
        self.detached(|inner| async move { inner.put_kv(&name, &value).await })
            .await
    }
}

#[cfg(test)]
mod tests {
    use millrace_time::ManualClock;
    use uuid::Uuid;

    use super::*;

    async fn create(store: &SqliteMeta, nth: u128) -> Result<Topic, CreateTopicError> {
        let topic = NewTopic {
            name: TopicName::new(format!("t{nth}")).expect("legal"),
            id: millrace_model::TopicId(Uuid::from_u128(nth + 1)),
            partitions: 1,
            configs: BTreeMap::new(),
        };
        store.create_topic(topic).await
    }

    #[tokio::test]
    async fn a_full_disk_fails_changes_only_while_it_is_full() {
        const TOPICS_MAX: u128 = 10_000;
        let home = tempfile::tempdir().expect("created");
        let path = home.path().join("meta.db");
        let store = SqliteMeta::open(&path, SqliteOptions::default(), ManualClock::shared())
            .await
            .expect("opens");
        {
            let mut writer = store.inner.writer.lock().await;
            // SQLite treats it as a full disk: SQLITE_FULL.
            sqlx::raw_sql("PRAGMA max_page_count = 1")
                .execute(&mut *writer)
                .await
                .expect("set to the pages that there are");
        }
        let mut created = 0;
        let failure = loop {
            assert!(created < TOPICS_MAX, "the file is never full");
            match create(&store, created).await {
                Ok(_) => created += 1,
                Err(error) => break error,
            }
        };
        assert!(
            matches!(failure, CreateTopicError::Store(StoreFailure::Database(_))),
            "{failure:?}"
        );
        {
            let mut writer = store.inner.writer.lock().await;
            writer.ping().await.expect("answers");
            assert!(writer.is_in_transaction(), "nothing to mend");
        }
        for nth in created..created + 3 {
            create(&store, nth).await.expect("there is room again");
        }
        let topics = store.topics().await.expect("listed");
        assert_eq!(topics.len() as u128, created + 3);
    }
}
