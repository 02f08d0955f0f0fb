//! Builds a database from its backup, and makes it fit to go on from.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

use millrace_model::{ObjectId, StreamId};

use super::{Inner, SqliteMeta, begin, failure, journal::Pages, number::to_sql, objects::state};
use crate::{StoreFailure, StreamMeta};

/// A database file that is built from a snapshot and changed pages.
#[derive(Debug)]
pub struct Restore {
    file: File,
}

/// Why a backup could not be applied.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The body is not what [`super::backup::BackupSource`] gave.
    #[error("the backup's pages are not in a known form")]
    Form,
    /// The file cannot be written.
    #[error("the restored metadata cannot be written: {0}")]
    Io(#[from] io::Error),
}

impl Restore {
    /// Begins with an empty file at `path`; one that is there is overwritten. Blocks, as all calls.
    ///
    /// # Errors
    /// [`RestoreError::Io`].
    pub fn create(path: &Path) -> Result<Self, RestoreError> {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        Ok(Self { file })
    }

    /// Puts a part of a snapshot into its place.
    ///
    /// # Errors
    /// [`RestoreError::Io`].
    pub fn write_part(&mut self, offset: u64, bytes: &[u8]) -> Result<(), RestoreError> {
        Ok(self.file.write_all_at(bytes, offset)?)
    }

    /// Puts changed pages on top, all of them or none.
    ///
    /// # Errors
    /// See [`RestoreError`].
    pub fn apply(&mut self, body: &[u8]) -> Result<(), RestoreError> {
        let pages = Pages::decode(body).ok_or(RestoreError::Form)?;
        let page_bytes = u64::from(pages.page_bytes);
        for (&page, image) in &pages.images {
            self.file
                .write_all_at(image, u64::from(page - 1) * page_bytes)?;
        }
        self.file
            .set_len(u64::from(pages.database_pages) * page_bytes)?;
        Ok(())
    }

    /// Makes the file survive power loss.
    ///
    /// # Errors
    /// [`RestoreError::Io`].
    pub fn finish(self) -> Result<(), RestoreError> {
        Ok(self.file.sync_all()?)
    }
}

impl SqliteMeta {
    /// All streams, in the order of their ids, as they would be opened.
    #[must_use]
    pub fn streams(&self) -> Vec<StreamMeta> {
        let index = self.inner.index.read();
        let meta = |(&id, stream): (&StreamId, &super::index::Stream)| stream.meta(id);
        index.streams.iter().map(meta).collect()
    }

    /// Whether the database is sound, according to SQLite's own check.
    ///
    /// # Errors
    /// [`StoreFailure::Corrupt`] with the first finding.
    pub async fn check_integrity(&self) -> Result<(), StoreFailure> {
        let mut writer = self.inner.writer().await?;
        let found: String = sqlx::query_scalar("PRAGMA integrity_check(1)")
            .fetch_one(&mut *writer)
            .await?;
        let foreign = sqlx::query("PRAGMA foreign_key_check")
            .fetch_optional(&mut *writer)
            .await?;
        match (found.as_str(), foreign) {
            ("ok", None) => Ok(()),
            ("ok", Some(_)) => Err(StoreFailure::Corrupt("a reference leads nowhere".into())),
            (found, _) => Err(StoreFailure::Corrupt(found.to_owned())),
        }
    }

    /// Retires objects that the metadata does not know: they are in the bucket, and nothing refers to them.
    /// Those that it knows are left as they are.
    ///
    /// # Errors
    /// The store failed; nothing has changed.
    pub async fn retire_unknown(&self, objects: Vec<ObjectId>) -> Result<(), StoreFailure> {
        self.detached(|inner| async move { inner.retire_unknown(&objects).await })
            .await
    }
}

impl Inner {
    async fn retire_unknown(&self, objects: &[ObjectId]) -> Result<(), StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        let now_ms = self.clock.wall_ms();
        let mut retired = Vec::new();
        for &object in objects {
            // No node has it: 0 is no node's epoch.
            let inserted = sqlx::query(
                "INSERT INTO objects (object_id, state, node_epoch, doomed_ms)
                 VALUES ($1, $2, 0, $3) ON CONFLICT DO NOTHING",
            )
            .bind(to_sql(object.get())?)
            .bind(state::RETIRED)
            .bind(now_ms)
            .execute(&mut *tx)
            .await
            .map_err(failure)?;
            retired.extend((inserted.rows_affected() > 0).then_some(object));
        }
        let now = self.clock.now();
        self.commit(tx, |index| index.retire(retired, now)).await
    }
}
