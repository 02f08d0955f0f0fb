//! Reserving, committing and sweeping objects.

use futures_util::TryStreamExt;
use millrace_model::{NodeEpoch, ObjectId};
use sqlx::{Sqlite, Transaction};

use super::{
    Inner, begin, failure, fence,
    index::{Committed, Index},
    nodes::Sequence,
    number::{from_sql, to_sql},
    ranges, streams,
};
use crate::{CommitError, ObjectKind, ReserveError, StoreFailure, SweepError};

/// The numbers that stand for an object's state; never reused for another meaning.
mod state {
    pub(super) const PREPARED: i64 = 1;
    pub(super) const COMMITTED: i64 = 2;
    pub(super) const DOOMED: i64 = 3;
}

/// Ids given out at once: one upload's objects. Bounds the rows of one transaction.
const RESERVE_MAX: u32 = 10_000;

fn kind_to_sql(kind: ObjectKind) -> i64 {
    match kind {
        ObjectKind::StreamSet => 1,
        ObjectKind::Stream => 2,
    }
}

fn kind_from_sql(kind: i64) -> Result<ObjectKind, StoreFailure> {
    match kind {
        1 => Ok(ObjectKind::StreamSet),
        2 => Ok(ObjectKind::Stream),
        other => Err(StoreFailure::Corrupt(format!(
            "an object is of kind {other}"
        ))),
    }
}

/// Adds all committed objects to an index that has the streams.
pub(super) async fn load(
    tx: &mut Transaction<'_, Sqlite>,
    index: &mut Index,
) -> Result<(), StoreFailure> {
    let mut rows = sqlx::query_as::<_, (i64, i64, i64, Vec<u8>)>(
        "SELECT object_id, kind, size, ranges FROM objects WHERE state = $1",
    )
    .bind(state::COMMITTED)
    .fetch(&mut **tx);
    while let Some((id, kind, size, blob)) = rows.try_next().await? {
        index.add(Committed {
            id: ObjectId(from_sql(id)?),
            kind: kind_from_sql(kind)?,
            size: from_sql(size)?,
            ranges: ranges::decode(&blob)?,
        });
    }
    Ok(())
}

/// Marks objects for deletion.
pub(super) async fn doom(
    tx: &mut Transaction<'_, Sqlite>,
    objects: &[ObjectId],
    now_ms: i64,
) -> Result<(), StoreFailure> {
    for object in objects {
        sqlx::query("UPDATE objects SET state = $1, doomed_ms = $2 WHERE object_id = $3")
            .bind(state::DOOMED)
            .bind(now_ms)
            .bind(to_sql(object.get())?)
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}

/// Marks what a replaced node epoch reserved and can no longer commit. The object may exist in the
/// bucket or not.
pub(super) async fn doom_prepared(
    tx: &mut Transaction<'_, Sqlite>,
    former: NodeEpoch,
    now_ms: i64,
) -> Result<(), StoreFailure> {
    sqlx::query(
        "UPDATE objects SET state = $1, doomed_ms = $2 WHERE state = $3 AND node_epoch = $4",
    )
    .bind(state::DOOMED)
    .bind(now_ms)
    .bind(state::PREPARED)
    .bind(to_sql(former.get())?)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Whether the database has exactly this object committed already (or doomed since).
async fn is_recorded(
    tx: &mut Transaction<'_, Sqlite>,
    object: &Committed,
) -> Result<bool, StoreFailure> {
    let found: Option<i64> = sqlx::query_scalar(
        "SELECT object_id FROM objects
         WHERE object_id = $1 AND state <> $2 AND kind = $3 AND size = $4 AND ranges = $5",
    )
    .bind(to_sql(object.id.get())?)
    .bind(state::PREPARED)
    .bind(kind_to_sql(object.kind))
    .bind(to_sql(object.size)?)
    .bind(ranges::encode(&object.ranges))
    .fetch_optional(&mut **tx)
    .await?;
    Ok(found.is_some())
}

/// Turns a prepared object into a committed one, or into a doomed one where nothing in it can be
/// read any more.
async fn record(
    tx: &mut Transaction<'_, Sqlite>,
    object: &Committed,
    node_epoch: NodeEpoch,
    doomed_ms: Option<i64>,
) -> Result<(), CommitError> {
    let to_state = if doomed_ms.is_some() {
        state::DOOMED
    } else {
        state::COMMITTED
    };
    let done = sqlx::query(
        "UPDATE objects SET state = $1, kind = $2, size = $3, ranges = $4, doomed_ms = $5
         WHERE object_id = $6 AND state = $7 AND node_epoch = $8",
    )
    .bind(to_state)
    .bind(kind_to_sql(object.kind))
    .bind(to_sql(object.size)?)
    .bind(ranges::encode(&object.ranges))
    .bind(doomed_ms)
    .bind(to_sql(object.id.get())?)
    .bind(state::PREPARED)
    .bind(to_sql(node_epoch.get())?)
    .execute(&mut **tx)
    .await
    .map_err(failure)?;
    if done.rows_affected() == 1 {
        Ok(())
    } else {
        Err(CommitError::NotPrepared(object.id))
    }
}

impl Inner {
    pub(super) async fn reserve_objects(
        &self,
        node_epoch: NodeEpoch,
        count: u32,
    ) -> Result<ObjectId, ReserveError> {
        if count > RESERVE_MAX {
            return Err(ReserveError::TooMany {
                asked: count,
                max: RESERVE_MAX,
            });
        }
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        fence::<ReserveError>(&mut tx, node_epoch).await?;
        let first = Sequence::Object.take(&mut tx, count).await?;
        for id in first..first + u64::from(count) {
            sqlx::query("INSERT INTO objects (object_id, state, node_epoch) VALUES ($1, $2, $3)")
                .bind(to_sql(id)?)
                .bind(state::PREPARED)
                .bind(to_sql(node_epoch.get())?)
                .execute(&mut *tx)
                .await
                .map_err(failure)?;
        }
        self.commit(tx, |_| ()).await?;
        Ok(ObjectId(first))
    }

    pub(super) async fn commit_upload(
        &self,
        node_epoch: NodeEpoch,
        objects: Vec<Committed>,
    ) -> Result<(), CommitError> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        fence::<CommitError>(&mut tx, node_epoch).await?;
        let mut recorded = true;
        for object in &objects {
            recorded = recorded && is_recorded(&mut tx, object).await?;
        }
        if recorded {
            return Ok(());
        }
        self.index.read().check(&objects, node_epoch)?;
        let now_ms = self.clock.wall_ms();
        for object in &objects {
            let (live, trimmed) = {
                let index = self.index.read();
                (
                    index.any_live(&object.ranges),
                    index.trimmed(&object.ranges),
                )
            };
            record(&mut tx, object, node_epoch, (!live).then_some(now_ms)).await?;
            for range in trimmed {
                // The object's row may go away before the stream does, and with it this end.
                streams::keep_end(&mut tx, range.stream, range.end).await?;
            }
        }
        self.commit(tx, |index| {
            objects.into_iter().for_each(|object| index.add(object))
        })
        .await?;
        Ok(())
    }

    pub(super) async fn doomed_objects(
        &self,
        node_epoch: NodeEpoch,
        limit: usize,
    ) -> Result<Vec<ObjectId>, SweepError> {
        let retention_ms = self.options.doomed_retention.as_millis();
        let before = self
            .clock
            .wall_ms()
            .saturating_sub_unsigned(u64::try_from(retention_ms).unwrap_or(u64::MAX));
        let mut tx = self.readers.begin().await.map_err(failure)?;
        fence::<SweepError>(&mut tx, node_epoch).await?;
        let ids: Vec<i64> = sqlx::query_scalar(
            "SELECT object_id FROM objects WHERE state = $1 AND doomed_ms <= $2
             ORDER BY doomed_ms, object_id LIMIT $3",
        )
        .bind(state::DOOMED)
        .bind(before)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&mut *tx)
        .await
        .map_err(failure)?;
        tx.commit().await.map_err(failure)?;
        let ids: Result<Vec<u64>, StoreFailure> = ids.into_iter().map(from_sql).collect();
        Ok(ids?.into_iter().map(ObjectId).collect())
    }

    pub(super) async fn mark_deleted(
        &self,
        node_epoch: NodeEpoch,
        objects: &[ObjectId],
    ) -> Result<(), SweepError> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        fence::<SweepError>(&mut tx, node_epoch).await?;
        for object in objects {
            sqlx::query("DELETE FROM objects WHERE object_id = $1 AND state = $2")
                .bind(to_sql(object.get())?)
                .bind(state::DOOMED)
                .execute(&mut *tx)
                .await
                .map_err(failure)?;
        }
        self.commit(tx, |_| ()).await?;
        Ok(())
    }
}
