//! What the metadata says of all objects, read by another process than the one that owns the file.

use std::path::Path;

use futures_util::TryStreamExt;
use millrace_model::ObjectId;
use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};

use super::{BUSY_TIMEOUT, failure, identity, nodes::Sequence, number::from_sql, objects::state};
use crate::StoreFailure;

/// What is known of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectState {
    /// Its id is given out; it may be in the bucket or not.
    Prepared,
    /// It is in the bucket.
    Committed,
    /// It is to be deleted; it may be in the bucket or not.
    Retired,
}

/// One object, as the metadata has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectRecord {
    /// The object.
    pub object: ObjectId,
    /// What is known of it.
    pub state: ObjectState,
    /// Its bytes, where they are known: always, once it is committed.
    pub size: Option<u64>,
}

/// All objects at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRecords {
    /// The cluster's id; `None` before its first start.
    pub cluster_id: Option<String>,
    /// The id that is given out next. An object below it that is not listed here has been deleted.
    pub next_object: ObjectId,
    /// The objects, ascending.
    pub objects: Vec<ObjectRecord>,
}

/// Reads what the file at `path` says of all objects, at one moment, and changes nothing. The broker may
/// be running.
///
/// # Errors
/// The file is not there, or is not a metadata file, or is corrupt.
pub async fn read_object_records(path: &Path) -> Result<ObjectRecords, StoreFailure> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .busy_timeout(BUSY_TIMEOUT);
    let mut connection = SqliteConnection::connect_with(&options)
        .await
        .map_err(failure)?;
    let records = read(&mut connection).await;
    connection.close().await.map_err(failure)?;
    records
}

async fn read(connection: &mut SqliteConnection) -> Result<ObjectRecords, StoreFailure> {
    let mut tx = connection.begin().await?;
    let cluster_id = identity::cluster_id(&mut tx).await?;
    let next_object = ObjectId(Sequence::Object.peek(&mut tx).await?);
    let mut objects = Vec::new();
    let mut rows = sqlx::query_as::<_, (i64, i64, Option<i64>)>(
        "SELECT object_id, state, size FROM objects ORDER BY object_id",
    )
    .fetch(&mut *tx);
    while let Some((id, number, size)) = rows.try_next().await? {
        let state = match number {
            state::PREPARED => ObjectState::Prepared,
            state::COMMITTED => ObjectState::Committed,
            state::RETIRED => ObjectState::Retired,
            other => {
                let what = format!("an object is in state {other}");
                return Err(StoreFailure::Corrupt(what));
            }
        };
        objects.push(ObjectRecord {
            object: ObjectId(from_sql(id)?),
            state,
            size: size.map(from_sql).transpose()?,
        });
    }
    drop(rows);
    Ok(ObjectRecords {
        cluster_id,
        next_object,
        objects,
    })
}
