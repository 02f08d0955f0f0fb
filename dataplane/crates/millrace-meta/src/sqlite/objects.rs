//! Reserving, committing and sweeping objects.

use std::time::Duration;

use futures_util::TryStreamExt;
use millrace_model::{NodeEpoch, ObjectId, StreamRange};
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
pub(super) mod state {
    pub(in crate::sqlite) const PREPARED: i64 = 1;
    pub(in crate::sqlite) const COMMITTED: i64 = 2;
    pub(in crate::sqlite) const RETIRED: i64 = 3;
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

/// Adds all committed objects, and since `now` the retired ones, to an index that has the streams.
pub(super) async fn load(
    tx: &mut Transaction<'_, Sqlite>,
    index: &mut Index,
    now: Duration,
) -> Result<(), StoreFailure> {
    let retired: Vec<i64> = sqlx::query_scalar("SELECT object_id FROM objects WHERE state = $1")
        .bind(state::RETIRED)
        .fetch_all(&mut **tx)
        .await?;
    index.retire(ids(retired)?, now);
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

fn ids(rows: Vec<i64>) -> Result<Vec<ObjectId>, StoreFailure> {
    rows.into_iter()
        .map(|id| from_sql(id).map(ObjectId))
        .collect()
}

/// Marks objects for deletion.
pub(super) async fn retire(
    tx: &mut Transaction<'_, Sqlite>,
    objects: &[ObjectId],
    now_ms: i64,
) -> Result<(), StoreFailure> {
    for object in objects {
        sqlx::query("UPDATE objects SET state = $1, doomed_ms = $2 WHERE object_id = $3")
            .bind(state::RETIRED)
            .bind(now_ms)
            .bind(to_sql(object.get())?)
            .execute(&mut **tx)
            .await?;
    }
    Ok(())
}

/// Marks what a replaced node epoch reserved and can no longer commit. The object may exist in the
/// bucket or not.
pub(super) async fn retire_prepared(
    tx: &mut Transaction<'_, Sqlite>,
    former: NodeEpoch,
    now_ms: i64,
) -> Result<Vec<ObjectId>, StoreFailure> {
    let left = sqlx::query_scalar(
        "UPDATE objects SET state = $1, doomed_ms = $2 WHERE state = $3 AND node_epoch = $4
         RETURNING object_id",
    )
    .bind(state::RETIRED)
    .bind(now_ms)
    .bind(state::PREPARED)
    .bind(to_sql(former.get())?)
    .fetch_all(&mut **tx)
    .await?;
    ids(left)
}

/// Whether the database has exactly this object committed already (or retired since).
pub(super) async fn is_recorded(
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

/// Turns a prepared object into a committed one, or into a retired one where nothing in it can be
/// read any more. `false` where it is not prepared under this node epoch.
pub(super) async fn record(
    tx: &mut Transaction<'_, Sqlite>,
    object: &Committed,
    node_epoch: NodeEpoch,
    retired_ms: Option<i64>,
) -> Result<bool, StoreFailure> {
    let to_state = if retired_ms.is_some() {
        state::RETIRED
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
    .bind(retired_ms)
    .bind(to_sql(object.id.get())?)
    .bind(state::PREPARED)
    .bind(to_sql(node_epoch.get())?)
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The state and the ranges of an object; `None` where it is forgotten, or never was.
pub(super) async fn find(
    tx: &mut Transaction<'_, Sqlite>,
    object: ObjectId,
) -> Result<Option<Found>, StoreFailure> {
    let row: Option<(i64, Option<Vec<u8>>)> =
        sqlx::query_as("SELECT state, ranges FROM objects WHERE object_id = $1")
            .bind(to_sql(object.get())?)
            .fetch_optional(&mut **tx)
            .await?;
    let Some((state, blob)) = row else {
        return Ok(None);
    };
    Ok(Some(match (state, blob) {
        (state::PREPARED, _) => Found::Prepared,
        (state::COMMITTED, Some(blob)) => Found::Committed(ranges::decode(&blob)?),
        _ => Found::Retired,
    }))
}

/// An object as the database has it.
pub(super) enum Found {
    Prepared,
    /// Its ranges.
    Committed(Vec<StreamRange>),
    Retired,
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
        let (now_ms, now) = (self.clock.wall_ms(), self.clock.now());
        let mut dead = Vec::new();
        for object in &objects {
            let (live, trimmed) = {
                let index = self.index.read();
                (
                    index.any_live(&object.ranges),
                    index.trimmed(&object.ranges),
                )
            };
            if !record(&mut tx, object, node_epoch, (!live).then_some(now_ms)).await? {
                return Err(CommitError::NotPrepared(object.id));
            }
            dead.extend((!live).then_some(object.id));
            for range in trimmed {
                // The object's row may go away before the stream does, and with it this end.
                streams::keep_end(&mut tx, range.stream, range.end).await?;
            }
        }
        self.commit(tx, |index| {
            objects.into_iter().for_each(|object| index.add(object));
            index.retire(dead, now);
        })
        .await?;
        Ok(())
    }

    pub(super) async fn release_objects(
        &self,
        node_epoch: NodeEpoch,
        objects: &[ObjectId],
    ) -> Result<(), ReserveError> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        fence::<ReserveError>(&mut tx, node_epoch).await?;
        let mut released = Vec::new();
        for &object in objects {
            let done = sqlx::query(
                "UPDATE objects SET state = $1, doomed_ms = $2
                 WHERE object_id = $3 AND state = $4 AND node_epoch = $5",
            )
            .bind(state::RETIRED)
            .bind(self.clock.wall_ms())
            .bind(to_sql(object.get())?)
            .bind(state::PREPARED)
            .bind(to_sql(node_epoch.get())?)
            .execute(&mut *tx)
            .await
            .map_err(failure)?;
            released.extend((done.rows_affected() == 1).then_some(object));
        }
        let now = self.clock.now();
        self.commit(tx, |index| index.retire(released, now)).await?;
        Ok(())
    }

    pub(super) async fn retired_objects(
        &self,
        node_epoch: NodeEpoch,
        limit: usize,
    ) -> Result<Vec<ObjectId>, SweepError> {
        let mut tx = self.readers.begin().await.map_err(failure)?;
        fence::<SweepError>(&mut tx, node_epoch).await?;
        tx.commit().await.map_err(failure)?;
        let now = self.clock.now();
        let Some(before) = now.checked_sub(self.options.retired_retention) else {
            return Ok(Vec::new());
        };
        Ok(self.index.read().retired.since_before(before, limit))
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
                .bind(state::RETIRED)
                .execute(&mut *tx)
                .await
                .map_err(failure)?;
        }
        self.commit(tx, |index| index.retired.forget(objects))
            .await?;
        Ok(())
    }
}
