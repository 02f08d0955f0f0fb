//! Replacing objects by others that hold the same.

use std::collections::{HashMap, HashSet};

use millrace_model::{NodeEpoch, ObjectId, StreamId, StreamRange};

use super::{
    PostgresMeta, Tx, commit, failure, fence,
    objects::{are_recorded, kind_from_sql, record},
    streams::{self, Lock},
};
use crate::{
    CompactionError, LiveRange, ObjectContents, ObjectKind, StoreFailure, StreamSetSummary,
    StreamSummary,
    compaction_check::check,
    index::{Committed, Index},
    number::{from_sql, to_sql},
};

/// A row of `objects`: id, state, then what a committed object has: kind, size, streams, starts, ends.
type Row = (
    i64,
    i16,
    Option<i16>,
    Option<i64>,
    Option<Vec<i64>>,
    Option<Vec<i64>>,
    Option<Vec<i64>>,
);

const PREPARED: i16 = 1;
const COMMITTED: i16 = 2;

/// A committed object.
#[derive(Debug)]
struct Object {
    id: ObjectId,
    kind: ObjectKind,
    size: u64,
    ranges: Vec<StreamRange>,
}

impl Object {
    fn from_row(row: Row) -> Result<Self, StoreFailure> {
        let (id, _, Some(kind), Some(size), Some(streams), Some(starts), Some(ends)) = row else {
            let what = format!("object {} is committed without contents", row.0);
            return Err(StoreFailure::Corrupt(what));
        };
        let range = |((stream, start), end)| {
            Ok(StreamRange {
                stream: StreamId(from_sql(stream)?),
                start: from_sql(start)?,
                end: from_sql(end)?,
            })
        };
        let ranges = streams.into_iter().zip(starts).zip(ends).map(range);
        Ok(Self {
            id: ObjectId(from_sql(id)?),
            kind: kind_from_sql(kind)?,
            size: from_sql(size)?,
            ranges: ranges.collect::<Result<_, StoreFailure>>()?,
        })
    }

    /// What of it can be read; `None` where nothing can.
    fn contents(self, index: &Index) -> Option<ObjectContents> {
        let live = |range: StreamRange| {
            let stream = index.streams.get(&range.stream)?;
            let readable_from = range.start.max(stream.start);
            (readable_from < range.end).then_some(LiveRange {
                range,
                readable_from,
            })
        };
        let mut live: Vec<LiveRange> = self.ranges.into_iter().filter_map(live).collect();
        live.sort_unstable_by_key(|live| live.range);
        (!live.is_empty()).then_some(ObjectContents {
            object: self.id,
            kind: self.kind,
            size: self.size,
            live,
        })
    }
}

pub(super) async fn stream_sets(
    meta: &PostgresMeta,
    after: Option<ObjectId>,
    limit: usize,
) -> Result<Vec<StreamSetSummary>, StoreFailure> {
    let rows: Vec<(i64, i64, i64, i64)> = sqlx::query_as(
        "SELECT object_id, size, cardinality(stream_ids)::bigint,
           (SELECT count(*) FROM unnest(stream_ids, ends) AS range (stream_id, end_offset)
            JOIN streams USING (stream_id) WHERE range.end_offset > streams.start_offset)
         FROM objects WHERE state = 2 AND kind = 1 AND object_id >= 0 AND object_id > $1 ORDER BY object_id LIMIT $2",
    )
    .bind(after.map_or(Ok(-1), |object| to_sql(object.get()))?)
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(&meta.pool)
    .await?;
    let summary = |(object, size, ranges, live): (i64, i64, i64, i64)| {
        let live = if live == ranges {
            size
        } else {
            size / ranges.max(1) * live
        };
        Ok(StreamSetSummary {
            object: ObjectId(from_sql(object)?),
            size: from_sql(size)?,
            live_bytes: from_sql(live)?,
        })
    };
    rows.into_iter().map(summary).collect()
}

pub(super) async fn stream_summaries(
    meta: &PostgresMeta,
    after: Option<StreamId>,
    limit: usize,
) -> Result<Vec<StreamSummary>, StoreFailure> {
    let rows: Vec<(i64, i64, i64)> = sqlx::query_as(
        "SELECT stream_id, start_offset,
           (SELECT count(*) FROM objects
            WHERE state = 2 AND kind = 2 AND stream_ids[1] = streams.stream_id)
         FROM streams WHERE stream_id > $1 ORDER BY stream_id LIMIT $2",
    )
    .bind(after.map_or(Ok(-1), |stream| to_sql(stream.get()))?)
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(&meta.pool)
    .await?;
    let summary = |(stream, start, objects): (i64, i64, i64)| {
        Ok(StreamSummary {
            stream: StreamId(from_sql(stream)?),
            start: from_sql(start)?,
            stream_objects: from_sql(objects)?,
        })
    };
    rows.into_iter().map(summary).collect()
}

pub(super) async fn object_contents(
    meta: &PostgresMeta,
    object: ObjectId,
) -> Result<Option<ObjectContents>, StoreFailure> {
    let mut tx = meta.begin().await?;
    let rows = rows_of(&mut tx, &[object]).await?;
    let committed = rows.into_iter().find(|row| row.1 == COMMITTED);
    let Some(object) = committed.map(Object::from_row).transpose()? else {
        return Ok(None);
    };
    let named = object.ranges.iter().map(|range| range.stream);
    let index = streams::load(&mut tx, named, Lock::Share).await?;
    commit(tx).await?;
    Ok(object.contents(&index))
}

async fn rows_of(tx: &mut Tx, objects: &[ObjectId]) -> Result<Vec<Row>, StoreFailure> {
    let ids: Result<Vec<i64>, _> = objects.iter().map(|object| to_sql(object.get())).collect();
    let rows = sqlx::query_as(
        "SELECT object_id, state, kind, size, stream_ids, starts, ends FROM objects
         WHERE object_id = ANY($1) ORDER BY object_id",
    )
    .bind(ids?)
    .fetch_all(&mut **tx);
    Ok(rows.await?)
}

pub(super) async fn commit_compaction(
    meta: &PostgresMeta,
    node_epoch: NodeEpoch,
    inputs: &[ObjectId],
    outputs: &[Committed],
) -> Result<(), CompactionError> {
    let mut tx = meta.begin().await?;
    fence::<CompactionError>(&mut tx, node_epoch).await?;
    if are_recorded(&mut tx, outputs).await? {
        return Ok(());
    }
    // Ranges never change, so the streams that they name can be locked first, as every change does.
    let objects = committed_of(rows_of(&mut tx, inputs).await?, inputs, outputs)?;
    let held = objects.iter().flat_map(|object| &object.ranges);
    let offered = outputs.iter().flat_map(|output| &output.ranges);
    let named = held.chain(offered).map(|range| range.stream);
    let index = streams::load(&mut tx, named, Lock::Share).await?;
    lock_objects(&mut tx, inputs).await?;
    // Another compaction may have replaced some of them before the lock was ours.
    let objects = committed_of(rows_of(&mut tx, inputs).await?, inputs, outputs)?;
    let replaced: Vec<ObjectContents> = objects
        .into_iter()
        .filter_map(|object| object.contents(&index))
        .collect();
    check(&index, &replaced, outputs)?;
    retire(&mut tx, &replaced).await?;
    for output in outputs {
        let is_live = index.any_live(&output.ranges);
        if !record(&mut tx, output, node_epoch, is_live).await? {
            return Err(CompactionError::NotPrepared(output.id));
        }
    }
    commit(tx).await?;
    Ok(())
}

/// The inputs that are committed. One that was retired or forgotten meanwhile holds nothing, and so needs no replacement.
fn committed_of(
    rows: Vec<Row>,
    inputs: &[ObjectId],
    outputs: &[Committed],
) -> Result<Vec<Object>, CompactionError> {
    let mut rows: HashMap<i64, Row> = rows.into_iter().map(|row| (row.0, row)).collect();
    let mut seen: HashSet<ObjectId> = outputs.iter().map(|output| output.id).collect();
    let mut objects = Vec::with_capacity(inputs.len());
    for &input in inputs {
        if !seen.insert(input) {
            return Err(CompactionError::NotCommitted(input));
        }
        match rows.remove(&to_sql(input.get())?) {
            Some(row) if row.1 == PREPARED => return Err(CompactionError::NotCommitted(input)),
            Some(row) if row.1 == COMMITTED => objects.push(Object::from_row(row)?),
            _ => {}
        }
    }
    Ok(objects)
}

async fn lock_objects(tx: &mut Tx, objects: &[ObjectId]) -> Result<(), StoreFailure> {
    let ids: Result<Vec<i64>, _> = objects.iter().map(|object| to_sql(object.get())).collect();
    sqlx::query("SELECT FROM objects WHERE object_id = ANY($1) ORDER BY object_id FOR UPDATE")
        .bind(ids?)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

async fn retire(tx: &mut Tx, objects: &[ObjectContents]) -> Result<(), StoreFailure> {
    let ids: Result<Vec<i64>, _> = objects
        .iter()
        .map(|object| to_sql(object.object.get()))
        .collect();
    sqlx::query("UPDATE objects SET state = 3, retired_at = now() WHERE object_id = ANY($1)")
        .bind(ids?)
        .execute(&mut **tx)
        .await
        .map_err(failure)?;
    Ok(())
}
