//! Whose metadata this is and how old, and which streams it has ever had.
//!
//! Startup asks before it opens the store, since opening migrates: [`read_identity`] and
//! [`unknown_streams`] read a file of any version and change nothing.

use std::path::{Path, PathBuf};

use millrace_model::{NodeEpoch, NodeId, StreamId};
use sqlx::{Connection, Sqlite, SqliteConnection, Transaction, sqlite::SqliteConnectOptions};

use super::{
    BUSY_TIMEOUT, Inner, SqliteMeta, begin, failure,
    nodes::Sequence,
    number::{from_sql, to_sql},
};
use crate::StoreFailure;

/// Deleted streams that are remembered one by one, about 1 MB in the file. Beyond that the lowest
/// count as deleted together; the only cost is that startup no longer tells them from lost ones.
const DELETED_STREAMS_MAX: i64 = 100_000;

/// Whose metadata a file holds, and how old it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaIdentity {
    /// The cluster.
    pub cluster_id: String,
    /// The node, once it has registered.
    pub node_id: Option<NodeId>,
    /// The write-ahead log that holds what is not uploaded yet. `None` before the first one was
    /// formatted, and after an upgrade until the next start.
    pub wal_id: Option<u64>,
    /// The node epoch of the last start.
    pub generation: Option<NodeEpoch>,
    /// Counts the transactions.
    pub revision: u64,
    /// Whether this node has found or written its cluster's mark in the bucket.
    pub bucket_claimed: bool,
}

/// Reads whose metadata the file at `path` holds, and changes nothing; `None` where there is no
/// file, or no broker has started with it. Nobody else may be writing the file.
///
/// # Errors
/// The file is no metadata file, is corrupt, or cannot be read.
pub async fn read_identity(path: &Path) -> Result<Option<MetaIdentity>, StoreFailure> {
    let Some(mut file) = Unopened::open(path).await? else {
        return Ok(None);
    };
    let identity = identity(&mut file.connection).await;
    file.close().await?;
    identity
}

/// Those of `streams` that the metadata at `path` has never had: neither existing nor deleted.
/// Changes nothing. Without a file, all of them.
///
/// # Errors
/// As [`read_identity`].
pub async fn unknown_streams(
    path: &Path,
    streams: &[StreamId],
) -> Result<Vec<StreamId>, StoreFailure> {
    let Some(mut file) = Unopened::open(path).await? else {
        return Ok(streams.to_vec());
    };
    let unknown = unknown(&mut file.connection, streams).await;
    file.close().await?;
    unknown
}

/// A metadata file that is only looked at.
struct Unopened {
    connection: SqliteConnection,
    /// SQLite's index of the journal, where reading the journal has created it.
    index: Option<PathBuf>,
}

impl Unopened {
    async fn open(path: &Path) -> Result<Option<Self>, StoreFailure> {
        let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        if bytes(path) == 0 && bytes(&beside(path, "-wal")) == 0 {
            return Ok(None);
        }
        let options = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .busy_timeout(BUSY_TIMEOUT);
        // Without a journal nothing but the file counts, and no file is created beside it.
        let journal = bytes(&beside(path, "-wal")) > 0;
        let index = beside(path, "-shm");
        let index = (journal && !index.exists()).then_some(index);
        let connection = SqliteConnection::connect_with(&options.immutable(!journal))
            .await
            .map_err(failure)?;
        Ok(Some(Self { connection, index }))
    }

    async fn close(self) -> Result<(), StoreFailure> {
        self.connection.close().await.map_err(failure)?;
        if let Some(index) = self.index {
            // It holds no data; the next opening makes it again.
            let _ = std::fs::remove_file(index);
        }
        Ok(())
    }
}

/// The file that SQLite keeps beside its database.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

async fn has_table(connection: &mut SqliteConnection, name: &str) -> Result<bool, StoreFailure> {
    let count: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = $1")
            .bind(name)
            .fetch_one(connection)
            .await?;
    Ok(count > 0)
}

/// The cluster's id, from a file of any version; `None` before its first start.
pub(super) async fn cluster_id(
    connection: &mut SqliteConnection,
) -> Result<Option<String>, StoreFailure> {
    Ok(identity(connection).await?.map(|found| found.cluster_id))
}

/// A row of `identity`: cluster, node, log, bucket claimed, revision.
type Row = (Option<String>, Option<i64>, Option<i64>, bool, i64);

async fn identity(connection: &mut SqliteConnection) -> Result<Option<MetaIdentity>, StoreFailure> {
    let row: Option<Row> = if has_table(connection, "identity").await? {
        sqlx::query_as("SELECT cluster_id, node_id, wal_id, bucket_claimed, revision FROM identity")
            .fetch_optional(&mut *connection)
            .await?
    } else if has_table(connection, "cluster").await? {
        sqlx::query_as(
            "SELECT cluster_id, (SELECT node_id FROM nodes ORDER BY epoch DESC LIMIT 1), NULL, 0, 0
             FROM cluster",
        )
        .fetch_optional(&mut *connection)
        .await?
    } else {
        None
    };
    let Some((Some(cluster_id), node, wal_id, bucket_claimed, revision)) = row else {
        return Ok(None);
    };
    let generation: Option<i64> = sqlx::query_scalar("SELECT epoch FROM nodes WHERE node_id = $1")
        .bind(node)
        .fetch_optional(connection)
        .await?;
    Ok(Some(MetaIdentity {
        cluster_id,
        node_id: node.map(from_sql).transpose()?.map(NodeId),
        wal_id: wal_id.map(i64::cast_unsigned),
        generation: generation.map(from_sql).transpose()?.map(NodeEpoch),
        revision: from_sql(revision)?,
        bucket_claimed,
    }))
}

async fn unknown(
    connection: &mut SqliteConnection,
    streams: &[StreamId],
) -> Result<Vec<StreamId>, StoreFailure> {
    if !has_table(connection, "sequences").await? {
        return Ok(streams.to_vec());
    }
    // Before the migration nobody kept the names of deleted streams.
    let known = if has_table(connection, "deleted_streams").await? {
        "SELECT EXISTS (SELECT 1 FROM streams WHERE stream_id = $1)
             OR EXISTS (SELECT 1 FROM deleted_streams WHERE stream_id = $1)
             OR EXISTS (SELECT 1 FROM identity WHERE deleted_below > $1)"
    } else {
        "SELECT EXISTS (SELECT 1 FROM sequences WHERE name = 'stream' AND next > $1)"
    };
    let mut unknown = Vec::new();
    let mut tx = connection.begin().await?;
    for &stream in streams {
        let found: bool = match to_sql(stream.get()) {
            Ok(id) => {
                sqlx::query_scalar(known)
                    .bind(id)
                    .fetch_one(&mut *tx)
                    .await?
            }
            Err(_) => false,
        };
        unknown.extend((!found).then_some(stream));
    }
    Ok(unknown)
}

/// Remembers streams as deleted, for as long as the log may have records of them.
pub(super) async fn remember_deleted(
    tx: &mut Transaction<'_, Sqlite>,
    streams: impl IntoIterator<Item = StreamId>,
) -> Result<(), StoreFailure> {
    for stream in streams {
        sqlx::query("INSERT INTO deleted_streams (stream_id) VALUES ($1) ON CONFLICT DO NOTHING")
            .bind(to_sql(stream.get())?)
            .execute(&mut **tx)
            .await?;
    }
    let beyond: Option<i64> = sqlx::query_scalar(
        "SELECT stream_id FROM deleted_streams ORDER BY stream_id DESC LIMIT 1 OFFSET $1",
    )
    .bind(DELETED_STREAMS_MAX)
    .fetch_optional(&mut **tx)
    .await?;
    if let Some(beyond) = beyond {
        sqlx::query("UPDATE identity SET deleted_below = max(deleted_below, $1 + 1)")
            .bind(beyond)
            .execute(&mut **tx)
            .await?;
        sqlx::query("DELETE FROM deleted_streams WHERE stream_id <= $1")
            .bind(beyond)
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}

/// Counts one more transaction.
pub(super) async fn next_revision(tx: &mut Transaction<'_, Sqlite>) -> Result<u64, StoreFailure> {
    let revision: i64 =
        sqlx::query_scalar("UPDATE identity SET revision = revision + 1 RETURNING revision")
            .fetch_one(&mut **tx)
            .await?;
    from_sql(revision)
}

/// The number of the last transaction.
pub(super) async fn revision(connection: &mut SqliteConnection) -> Result<u64, StoreFailure> {
    let revision: i64 = sqlx::query_scalar("SELECT revision FROM identity")
        .fetch_one(connection)
        .await?;
    from_sql(revision)
}

/// What else has been given out or counted, by a log or a bucket that knows newer metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Floors {
    /// The highest generation that was ever seen.
    pub generation: u64,
    /// The highest revision that was ever seen.
    pub revision: u64,
    /// Object ids below this one may be taken.
    pub next_object: u64,
    /// Stream ids below this one may be taken.
    pub next_stream: u64,
    /// Producer ids below this one may be taken.
    pub next_producer: u64,
    /// How many openings of each stream may be unknown here.
    pub stream_epochs_by: u64,
    /// Streams to remember as deleted where they do not exist: the log has records of them.
    pub deleted: Vec<StreamId>,
}

impl SqliteMeta {
    /// Raises the counters, none of which ever falls, so that nothing is given out a second time. Only
    /// before the node registers, which then takes a generation above all that were seen.
    ///
    /// # Errors
    /// The store failed.
    pub async fn raise(&self, floors: Floors) -> Result<(), StoreFailure> {
        self.detached(move |inner| async move { inner.raise(&floors).await })
            .await
    }

    /// Whose metadata this is; `None` before its cluster is known.
    ///
    /// # Errors
    /// The store failed.
    pub async fn identity(&self) -> Result<Option<MetaIdentity>, StoreFailure> {
        let mut reader = self.inner.readers.acquire().await?;
        identity(&mut reader).await
    }

    /// Notes the log that holds what is not uploaded yet; `None`: there is none.
    ///
    /// # Errors
    /// The store failed.
    pub async fn set_wal_id(&self, wal_id: Option<u64>) -> Result<(), StoreFailure> {
        self.detached(move |inner| async move { inner.set_wal_id(wal_id).await })
            .await
    }

    /// Notes that the cluster's mark is in the bucket.
    ///
    /// # Errors
    /// The store failed.
    pub async fn set_bucket_claimed(&self) -> Result<(), StoreFailure> {
        self.detached(|inner| async move { inner.set_bucket_claimed().await })
            .await
    }

    /// Forgets the deleted streams that the log has no record of. `in_log` are those that it has
    /// records of.
    ///
    /// # Errors
    /// The store failed.
    pub async fn forget_deleted_streams(&self, in_log: Vec<StreamId>) -> Result<(), StoreFailure> {
        self.detached(move |inner| async move { inner.forget_deleted_streams(&in_log).await })
            .await
    }
}

impl Inner {
    async fn raise(&self, floors: &Floors) -> Result<(), StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        for (sequence, next) in [
            (Sequence::NodeEpoch, floors.generation.saturating_add(1)),
            (Sequence::Object, floors.next_object),
            (Sequence::Stream, floors.next_stream),
            (Sequence::Producer, floors.next_producer),
        ] {
            sequence.raise(&mut tx, next).await?;
        }
        sqlx::query("UPDATE identity SET revision = max(revision, $1)")
            .bind(to_sql(floors.revision)?)
            .execute(&mut *tx)
            .await?;
        sqlx::query("UPDATE streams SET epoch = epoch + $1")
            .bind(to_sql(floors.stream_epochs_by)?)
            .execute(&mut *tx)
            .await?;
        let deleted: Vec<StreamId> = {
            let index = self.index.read();
            let exists = |stream: &&StreamId| index.streams.contains_key(stream);
            let gone = floors.deleted.iter().filter(|stream| !exists(stream));
            gone.copied().collect()
        };
        remember_deleted(&mut tx, deleted).await?;
        let next_stream = Sequence::Stream.peek(&mut tx).await?;
        self.commit(tx, |index| {
            index.next_stream = next_stream;
            for stream in index.streams.values_mut() {
                stream.epoch.0 += floors.stream_epochs_by;
            }
        })
        .await
    }

    async fn set_wal_id(&self, wal_id: Option<u64>) -> Result<(), StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        let changed = sqlx::query("UPDATE identity SET wal_id = $1 WHERE wal_id IS NOT $1")
            .bind(wal_id.map(u64::cast_signed))
            .execute(&mut *tx)
            .await?;
        if changed.rows_affected() == 0 {
            return Ok(());
        }
        self.commit(tx, |_| ()).await
    }

    async fn set_bucket_claimed(&self) -> Result<(), StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        let changed =
            sqlx::query("UPDATE identity SET bucket_claimed = 1 WHERE bucket_claimed = 0")
                .execute(&mut *tx)
                .await?;
        if changed.rows_affected() == 0 {
            return Ok(());
        }
        self.commit(tx, |_| ()).await
    }

    async fn forget_deleted_streams(&self, in_log: &[StreamId]) -> Result<(), StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        let next = Sequence::Stream.peek(&mut tx).await?;
        let in_log: Vec<u64> = in_log
            .iter()
            .map(|id| id.get())
            .filter(|&id| id < next)
            .collect();
        let in_log = serde_json::to_string(&in_log).expect("numbers are always JSON");
        let forgotten = sqlx::query(
            "DELETE FROM deleted_streams WHERE stream_id NOT IN (SELECT value FROM json_each($1))",
        )
        .bind(in_log)
        .execute(&mut *tx)
        .await?;
        if forgotten.rows_affected() == 0 {
            return Ok(());
        }
        self.commit(tx, |_| ()).await
    }
}
