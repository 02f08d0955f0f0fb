//! Opening and trimming streams.

use std::collections::HashSet;

use millrace_model::{NodeEpoch, Offset, StreamEpoch, StreamId, StreamRange};

use super::{PostgresMeta, Tx, commit, failure, fence, nodes::Sequence, objects};
use crate::{
    Fenced, OpenStreamError, StoreFailure, StreamMeta, TrimError,
    index::{Index, Stream},
    number::{from_sql, to_sql},
};

/// A row of `streams`: id, epoch, owner, start, end.
type Row = (i64, i64, Option<i64>, i64, i64);

/// How streams are read within a change.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lock {
    /// They stay as they are until the transaction ends.
    Share,
    /// They are about to be changed.
    Update,
}

/// An index of these streams alone, without their objects. Those that do not exist are left out.
pub(super) async fn load(
    tx: &mut Tx,
    streams: impl Iterator<Item = StreamId>,
    lock: Lock,
) -> Result<Index, StoreFailure> {
    let ids = ids_to_sql(streams)?;
    let mut index = Index::new(Sequence::Stream.peek(tx).await?);
    let statement = match lock {
        Lock::Share => {
            "SELECT stream_id, epoch, owner_epoch, start_offset, end_offset FROM streams
             WHERE stream_id = ANY($1) ORDER BY stream_id FOR SHARE"
        }
        Lock::Update => {
            "SELECT stream_id, epoch, owner_epoch, start_offset, end_offset FROM streams
             WHERE stream_id = ANY($1) ORDER BY stream_id FOR UPDATE"
        }
    };
    let rows: Vec<Row> = sqlx::query_as(statement)
        .bind(ids)
        .fetch_all(&mut **tx)
        .await?;
    for (id, epoch, owner, start, end) in rows {
        let owner = owner.map(from_sql).transpose()?.map(NodeEpoch);
        let epoch = StreamEpoch(from_sql(epoch)?);
        let stream = Stream::new(epoch, owner, from_sql(start)?, from_sql(end)?);
        index.streams.insert(StreamId(from_sql(id)?), stream);
    }
    Ok(index)
}

pub(super) fn ids_to_sql(
    streams: impl Iterator<Item = StreamId>,
) -> Result<Vec<i64>, StoreFailure> {
    streams.map(|stream| to_sql(stream.get())).collect()
}

/// Inserts `count` empty streams and gives the first one's number.
pub(super) async fn create(tx: &mut Tx, count: u32) -> Result<u64, StoreFailure> {
    let first = Sequence::Stream.take(tx, count).await?;
    sqlx::query(
        "INSERT INTO streams (stream_id, epoch, owner_epoch, start_offset, end_offset)
         SELECT id, 0, NULL, 0, 0 FROM generate_series($1::bigint, $1::bigint + $2::bigint - 1) AS id",
    )
    .bind(to_sql(first)?)
    .bind(i64::from(count))
    .execute(&mut **tx)
    .await?;
    Ok(first)
}

pub(super) async fn never_created(
    meta: &PostgresMeta,
    streams: &[StreamId],
) -> Result<Vec<StreamId>, StoreFailure> {
    let mut tx = meta.begin().await?;
    let next = Sequence::Stream.peek(&mut tx).await?;
    commit(tx).await?;
    let mut unknown: Vec<StreamId> = streams.to_vec();
    unknown.retain(|stream| stream.get() >= next);
    unknown.sort_unstable();
    Ok(unknown)
}

pub(super) async fn committed_range(
    meta: &PostgresMeta,
    stream: StreamId,
) -> Result<Option<StreamRange>, StoreFailure> {
    let found: Option<(i64, i64)> =
        sqlx::query_as("SELECT start_offset, end_offset FROM streams WHERE stream_id = $1")
            .bind(to_sql(stream.get())?)
            .fetch_optional(&meta.pool)
            .await?;
    let Some((start, end)) = found else {
        return Ok(None);
    };
    let (start, end) = (from_sql(start)?, from_sql(end)?);
    Ok(Some(StreamRange { stream, start, end }))
}

/// Which streams an opening takes, where its node has joined the cluster.
#[derive(Debug, Clone, Copy)]
pub(super) enum Take {
    /// Those of this node, and those that nobody owns.
    Free,
    /// Those of this node.
    Own,
}

pub(super) async fn open(
    meta: &PostgresMeta,
    streams: &[StreamId],
    node_epoch: NodeEpoch,
    take: Take,
) -> Result<Vec<StreamMeta>, OpenStreamError> {
    let mut tx = meta.begin().await?;
    let node = node_of(&mut tx, node_epoch).await?;
    // In the order of their ids, which an update alone does not keep to.
    if node.has_joined && matches!(take, Take::Own) {
        give_up_others(&mut tx, streams, node.id).await?;
    }
    load(&mut tx, streams.iter().copied(), Lock::Update).await?;
    let taken = match node.has_joined {
        true => takeable(&mut tx, streams, node.id, take).await?,
        false => ids_to_sql(streams.iter().copied())?,
    };
    sqlx::query(
        "UPDATE streams SET epoch = epoch + 1, owner_epoch = $1, owner_node = $3
         WHERE stream_id = ANY($2) AND owner_epoch IS DISTINCT FROM $1",
    )
    .bind(to_sql(node_epoch.get())?)
    .bind(&taken)
    .bind(node.has_joined.then_some(node.id))
    .execute(&mut *tx)
    .await
    .map_err(failure)?;
    let taken: HashSet<i64> = taken.into_iter().collect();
    let opened = load(&mut tx, streams.iter().copied(), Lock::Update).await?;
    commit(tx).await?;
    let mut found = Vec::with_capacity(taken.len());
    for &id in streams {
        if taken.contains(&to_sql(id.get())?)
            && let Some(stream) = opened.streams.get(&id)
        {
            found.push(stream.meta(id));
        }
    }
    Ok(found)
}

/// Who opens streams.
#[derive(Debug, Clone, Copy)]
struct Opener {
    id: i64,
    has_joined: bool,
}

/// The node that this epoch is the current one of. It stays so until the transaction ends.
async fn node_of(tx: &mut Tx, node_epoch: NodeEpoch) -> Result<Opener, OpenStreamError> {
    let node: Option<(i64, bool)> = sqlx::query_as(
        "SELECT node_id, state IS NOT NULL FROM nodes WHERE epoch = $1 FOR KEY SHARE",
    )
    .bind(to_sql(node_epoch.get())?)
    .fetch_optional(&mut **tx)
    .await
    .map_err(failure)?;
    let (id, has_joined) = node.ok_or(Fenced(node_epoch))?;
    Ok(Opener { id, has_joined })
}

/// What the node's log has nothing of has no owner any more: all of it is in the bucket. Others may have been given the lead of it
/// while the node was fenced, and would wait for it for ever.
async fn give_up_others(
    tx: &mut Tx,
    streams: &[StreamId],
    node: i64,
) -> Result<(), OpenStreamError> {
    // Those that are kept as well, so that all are locked in one order.
    sqlx::query(
        "UPDATE streams SET owner_epoch = NULL, owner_node = NULL
         FROM (SELECT stream_id FROM streams WHERE owner_node = $1 OR stream_id = ANY($2)
               ORDER BY stream_id FOR UPDATE) AS locked
         WHERE streams.stream_id = locked.stream_id AND owner_node = $1
           AND streams.stream_id <> ALL($2)",
    )
    .bind(node)
    .bind(ids_to_sql(streams.iter().copied())?)
    .execute(&mut **tx)
    .await
    .map_err(failure)?;
    Ok(())
}

/// Those of the streams that the node may open. What another node has not uploaded is in that one's log.
async fn takeable(
    tx: &mut Tx,
    streams: &[StreamId],
    node: i64,
    take: Take,
) -> Result<Vec<i64>, OpenStreamError> {
    let takeable = sqlx::query_scalar(
        "SELECT stream_id FROM streams
         WHERE stream_id = ANY($1) AND (owner_node = $2 OR ($3 AND owner_node IS NULL))",
    )
    .bind(ids_to_sql(streams.iter().copied())?)
    .bind(node)
    .bind(matches!(take, Take::Free))
    .fetch_all(&mut **tx)
    .await
    .map_err(failure)?;
    Ok(takeable)
}

pub(super) async fn trim(
    meta: &PostgresMeta,
    stream: StreamId,
    node_epoch: NodeEpoch,
    new_start: Offset,
) -> Result<Offset, TrimError> {
    let mut tx = meta.begin().await?;
    fence::<TrimError>(&mut tx, node_epoch).await?;
    let index = load(&mut tx, std::iter::once(stream), Lock::Update).await?;
    let known = index
        .streams
        .get(&stream)
        .ok_or(TrimError::Unknown(stream))?;
    if known.owner != Some(node_epoch) {
        return Err(TrimError::NotOwner(stream));
    }
    if new_start <= known.start {
        return Ok(known.start);
    }
    sqlx::query("UPDATE streams SET start_offset = $1 WHERE stream_id = $2")
        .bind(to_sql(new_start)?)
        .bind(to_sql(stream.get())?)
        .execute(&mut *tx)
        .await
        .map_err(failure)?;
    objects::retire_unreadable(&mut tx, &[stream], new_start).await?;
    commit(tx).await?;
    Ok(new_start)
}
