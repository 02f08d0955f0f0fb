//! Reserving, committing and sweeping objects.

use millrace_model::{NodeEpoch, ObjectId, Offset, StreamId, StreamRange};
use sqlx::{Postgres, postgres::PgArguments, query::Query};

use super::{
    PostgresMeta, Tx, commit, failure, fence,
    nodes::Sequence,
    streams::{self, Lock},
};
use crate::{
    CommitError, ObjectKind, ReserveError, StoreFailure, SweepError,
    index::Committed,
    number::{from_sql, to_sql},
};

/// Ids given out at once: one upload's objects. Bounds the rows of one transaction.
const RESERVE_MAX: u32 = 10_000;

pub(super) fn kind_to_sql(kind: ObjectKind) -> i16 {
    match kind {
        ObjectKind::StreamSet => 1,
        ObjectKind::Stream => 2,
    }
}

pub(super) fn kind_from_sql(kind: i16) -> Result<ObjectKind, StoreFailure> {
    match kind {
        1 => Ok(ObjectKind::StreamSet),
        2 => Ok(ObjectKind::Stream),
        other => Err(StoreFailure::Corrupt(format!(
            "an object is of kind {other}"
        ))),
    }
}

fn ids_to_sql(objects: &[ObjectId]) -> Result<Vec<i64>, StoreFailure> {
    objects.iter().map(|object| to_sql(object.get())).collect()
}

/// An object's ranges as the three columns that hold them, in the order of their streams: lookups search them by bisection.
#[derive(Debug)]
struct Columns {
    stream_ids: Vec<i64>,
    starts: Vec<i64>,
    ends: Vec<i64>,
}

impl Columns {
    fn of(ranges: &[StreamRange]) -> Result<Self, StoreFailure> {
        let mut ranges = ranges.to_vec();
        ranges.sort_unstable();
        let column = |of: fn(&StreamRange) -> u64| -> Result<Vec<i64>, StoreFailure> {
            ranges.iter().map(|range| to_sql(of(range))).collect()
        };
        Ok(Self {
            stream_ids: column(|range| range.stream.get())?,
            starts: column(|range| range.start)?,
            ends: column(|range| range.end)?,
        })
    }
}

pub(super) async fn reserve(
    meta: &PostgresMeta,
    node_epoch: NodeEpoch,
    count: u32,
) -> Result<ObjectId, ReserveError> {
    if count > RESERVE_MAX {
        let (asked, max) = (count, RESERVE_MAX);
        return Err(ReserveError::TooMany { asked, max });
    }
    let mut tx = meta.begin().await?;
    fence::<ReserveError>(&mut tx, node_epoch).await?;
    let first = Sequence::Object.take(&mut tx, count).await?;
    sqlx::query(
        "INSERT INTO objects (object_id, state, node_epoch)
         SELECT id, 1, $1 FROM generate_series($2::bigint, $2::bigint + $3::bigint - 1) AS id",
    )
    .bind(to_sql(node_epoch.get())?)
    .bind(to_sql(first)?)
    .bind(i64::from(count))
    .execute(&mut *tx)
    .await
    .map_err(failure)?;
    commit(tx).await?;
    Ok(ObjectId(first))
}

pub(super) async fn commit_upload(
    meta: &PostgresMeta,
    node_epoch: NodeEpoch,
    objects: &[Committed],
) -> Result<(), CommitError> {
    let mut tx = meta.begin().await?;
    fence::<CommitError>(&mut tx, node_epoch).await?;
    if are_recorded(&mut tx, objects).await? {
        return Ok(());
    }
    let ranges: Vec<StreamRange> = objects
        .iter()
        .flat_map(|object| &object.ranges)
        .copied()
        .collect();
    let named = ranges.iter().map(|range| range.stream);
    let index = streams::load(&mut tx, named, Lock::Update).await?;
    index.check(objects, node_epoch)?;
    for object in objects {
        let is_live = index.any_live(&object.ranges);
        if !record(&mut tx, object, node_epoch, is_live).await? {
            return Err(CommitError::NotPrepared(object.id));
        }
    }
    let Columns {
        stream_ids, ends, ..
    } = Columns::of(&ranges)?;
    sqlx::query(
        "UPDATE streams SET end_offset = uploaded.end_offset
         FROM (SELECT stream_id, max(end_offset) AS end_offset
               FROM unnest($1::bigint[], $2::bigint[]) AS range (stream_id, end_offset) GROUP BY stream_id) AS uploaded
         WHERE streams.stream_id = uploaded.stream_id AND streams.end_offset < uploaded.end_offset",
    )
    .bind(stream_ids)
    .bind(ends)
    .execute(&mut *tx)
    .await
    .map_err(failure)?;
    commit(tx).await?;
    Ok(())
}

/// Whether the database has exactly these objects committed already (or retired since).
pub(super) async fn are_recorded(tx: &mut Tx, objects: &[Committed]) -> Result<bool, StoreFailure> {
    for object in objects {
        let Columns {
            stream_ids,
            starts,
            ends,
        } = Columns::of(&object.ranges)?;
        let found: Option<i64> = sqlx::query_scalar(
            "SELECT object_id FROM objects
             WHERE object_id = $1 AND state <> 1 AND kind = $2 AND size = $3
               AND stream_ids = $4 AND starts = $5 AND ends = $6",
        )
        .bind(to_sql(object.id.get())?)
        .bind(kind_to_sql(object.kind))
        .bind(to_sql(object.size)?)
        .bind(stream_ids)
        .bind(starts)
        .bind(ends)
        .fetch_optional(&mut **tx)
        .await?;
        if found.is_none() {
            return Ok(false);
        }
    }
    Ok(!objects.is_empty())
}

/// Turns a prepared object into a committed one, or into a retired one where nothing in it can be
/// read any more. `false` where it is not prepared under this node epoch.
pub(super) async fn record(
    tx: &mut Tx,
    object: &Committed,
    node_epoch: NodeEpoch,
    is_live: bool,
) -> Result<bool, StoreFailure> {
    let Columns {
        stream_ids,
        starts,
        ends,
    } = Columns::of(&object.ranges)?;
    let done = sqlx::query(
        "UPDATE objects SET state = CASE WHEN $1 THEN 2 ELSE 3 END,
           retired_at = CASE WHEN $1 THEN NULL ELSE now() END,
           kind = $2, size = $3, stream_ids = $4, starts = $5, ends = $6
         WHERE object_id = $7 AND state = 1 AND node_epoch = $8",
    )
    .bind(is_live)
    .bind(kind_to_sql(object.kind))
    .bind(to_sql(object.size)?)
    .bind(stream_ids)
    .bind(starts)
    .bind(ends)
    .bind(to_sql(object.id.get())?)
    .bind(to_sql(node_epoch.get())?)
    .execute(&mut **tx)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Retires the objects of these streams that hold nothing below their streams' ends any more, after the streams were
/// trimmed to `below` or deleted.
pub(super) async fn retire_unreadable(
    tx: &mut Tx,
    trimmed: &[StreamId],
    below: Offset,
) -> Result<(), StoreFailure> {
    let ids = streams::ids_to_sql(trimmed.iter().copied())?;
    sqlx::query(
        "UPDATE objects SET state = 3, retired_at = now()
         WHERE state = 2 AND kind = 2 AND stream_ids[1] = ANY($1) AND ends[1] <= $2",
    )
    .bind(&ids)
    .bind(saturated(below))
    .execute(&mut **tx)
    .await?;
    // Another broker may trim another stream of the same object now. Whoever comes second must see what the first has
    // done, or neither would retire it: the lock comes first, and then a statement that sees what is committed by then.
    let shared: Vec<i64> = sqlx::query_scalar(
        "SELECT object_id FROM objects WHERE state = 2 AND kind = 1 AND stream_ids && $1
         ORDER BY object_id FOR UPDATE",
    )
    .bind(&ids)
    .fetch_all(&mut **tx)
    .await?;
    sqlx::query(
        "UPDATE objects SET state = 3, retired_at = now()
         WHERE object_id = ANY($1) AND state = 2 AND NOT EXISTS (
           SELECT FROM unnest(objects.stream_ids, objects.ends) AS range (stream_id, end_offset)
           JOIN streams USING (stream_id) WHERE range.end_offset > streams.start_offset)",
    )
    .bind(shared)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// An offset beyond what any stream reaches is no error where it only bounds a search.
pub(super) fn saturated(offset: Offset) -> i64 {
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// Runs a statement about `objects` of this start in a transaction of its own.
async fn change<E>(
    meta: &PostgresMeta,
    node_epoch: NodeEpoch,
    statement: Query<'_, Postgres, PgArguments>,
) -> Result<(), E>
where
    E: From<StoreFailure> + From<crate::Fenced>,
{
    let mut tx = meta.begin().await?;
    fence::<E>(&mut tx, node_epoch).await?;
    statement.execute(&mut *tx).await.map_err(failure)?;
    Ok(commit(tx).await?)
}

pub(super) async fn release(
    meta: &PostgresMeta,
    node_epoch: NodeEpoch,
    objects: &[ObjectId],
) -> Result<(), ReserveError> {
    let statement = sqlx::query(
        "UPDATE objects SET state = 3, retired_at = now()
         WHERE object_id = ANY($1) AND state = 1 AND node_epoch = $2",
    )
    .bind(ids_to_sql(objects)?)
    .bind(to_sql(node_epoch.get())?);
    change(meta, node_epoch, statement).await
}

pub(super) async fn retired(
    meta: &PostgresMeta,
    node_epoch: NodeEpoch,
    limit: usize,
) -> Result<Vec<ObjectId>, SweepError> {
    let mut tx = meta.begin().await?;
    fence::<SweepError>(&mut tx, node_epoch).await?;
    let rows: Vec<i64> = sqlx::query_scalar(
        "SELECT object_id FROM objects
         WHERE state = 3 AND retired_at <= now() - make_interval(secs => $1)
         ORDER BY object_id LIMIT $2",
    )
    .bind(meta.retired_retention.as_secs_f64())
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(&mut *tx)
    .await
    .map_err(failure)?;
    commit(tx).await?;
    let ids: Result<_, StoreFailure> = rows
        .into_iter()
        .map(|id| from_sql(id).map(ObjectId))
        .collect();
    Ok(ids?)
}

pub(super) async fn mark_deleted(
    meta: &PostgresMeta,
    node_epoch: NodeEpoch,
    objects: &[ObjectId],
) -> Result<(), SweepError> {
    let statement = sqlx::query("DELETE FROM objects WHERE object_id = ANY($1) AND state = 3")
        .bind(ids_to_sql(objects)?);
    change(meta, node_epoch, statement).await
}
