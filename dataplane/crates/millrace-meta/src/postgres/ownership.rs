//! Streams that change their owner in a planned way.

use std::collections::BTreeMap;

use millrace_model::{NodeEpoch, StreamId, TopicPartition};
use sqlx::{FromRow, Row as _, postgres::PgRow};

use super::{
    PostgresMeta, Tx, commit, failure,
    feed::{Change, commit_change},
    leaders,
    streams::{self, Lock},
};
use crate::{
    ClusterError, Fenced, Move, StoreFailure,
    number::{from_sql, to_sql},
};

/// The streams have no owner any more. Everything of them must be in the bucket.
pub(super) async fn release(
    meta: &PostgresMeta,
    streams: &[StreamId],
    epoch: NodeEpoch,
) -> Result<(), ClusterError> {
    let mut tx = meta.begin().await?;
    let node = node_of(&mut tx, epoch).await?;
    // Those of an earlier start of the node as well: it is the same log.
    let owned: Vec<(i64, Option<i64>)> = sqlx::query_as(
        "SELECT stream_id, owner_node FROM streams WHERE stream_id = ANY($1)
         ORDER BY stream_id FOR UPDATE",
    )
    .bind(streams::ids_to_sql(streams.iter().copied())?)
    .fetch_all(&mut *tx)
    .await
    .map_err(failure)?;
    if let Some(&(other, _)) = owned
        .iter()
        .find(|(_, owner)| owner.is_some_and(|owner| owner != node))
    {
        return Err(ClusterError::NotOwner(StreamId(from_sql(other)?)));
    }
    sqlx::query(
        "UPDATE streams SET owner_epoch = NULL, owner_node = NULL
         WHERE stream_id = ANY($1) AND owner_node = $2",
    )
    .bind(streams::ids_to_sql(streams.iter().copied())?)
    .bind(node)
    .execute(&mut *tx)
    .await
    .map_err(failure)?;
    commit(tx).await?;
    Ok(())
}

/// A partition that is to be handed over.
struct Due {
    /// The position of its move, from 1 on.
    nth: i64,
    leader: Option<i64>,
    /// Where its leader is to move it.
    moving_to: Option<i64>,
    topic: Vec<u8>,
    index: i64,
    data: i64,
    meta: i64,
}

impl FromRow<'_, PgRow> for Due {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        Ok(Self {
            nth: row.try_get("nth")?,
            leader: row.try_get("leader")?,
            moving_to: row.try_get("moving_to")?,
            topic: row.try_get("topic_id")?,
            index: row.try_get("partition_index")?,
            data: row.try_get("data_stream")?,
            meta: row.try_get("meta_stream")?,
        })
    }
}

/// Gives partitions' streams and their leads to other active nodes, under new epochs. Everything of them must be in the
/// bucket: the new owner does not see what is in the former owner's log alone, and the former owner can no longer commit it.
pub(super) async fn hand_over(
    meta: &PostgresMeta,
    moves: &[Move],
    from: NodeEpoch,
) -> Result<Vec<TopicPartition>, ClusterError> {
    let mut tx = meta.begin().await?;
    let (own, targets) = nodes(&mut tx, moves, from).await?;
    let due = due(&mut tx, moves).await?;
    let streams = due.iter().flat_map(|due| [due.data, due.meta]);
    let streams: Vec<StreamId> = streams
        .map(|stream| Ok(StreamId(from_sql(stream)?)))
        .collect::<Result<_, StoreFailure>>()?;
    let index = streams::load(&mut tx, streams.into_iter(), Lock::Update).await?;
    let is_owned = |stream: i64| {
        let stream = u64::try_from(stream).ok().map(StreamId);
        let stream = stream.and_then(|stream| index.streams.get(&stream));
        stream.and_then(|stream| stream.owner) == Some(from)
    };
    let (mut given, mut in_vain, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for due in &due {
        let planned = usize::try_from(due.nth - 1).ok();
        let Some(planned) = planned.and_then(|position| moves.get(position)) else {
            continue;
        };
        let to = i64::from(planned.to.get());
        if due.leader == Some(own) {
            // What was cancelled, or planned anew, meanwhile stays.
            let is_planned = to != own && due.moving_to == Some(to);
            let target = targets.get(&to);
            if is_planned && target.is_none() {
                in_vain.push((due.topic.clone(), due.index));
            }
            let is_ready = is_planned && is_owned(due.data) && is_owned(due.meta);
            let Some(&epoch) = target.filter(|_| is_ready) else {
                continue;
            };
            given.push((due, (to, epoch)));
        }
        gone.push(planned.partition.clone());
    }
    give(tx, &given, &in_vain).await?;
    Ok(gone)
}

/// The node whose epoch `from` is, and those that the moves name and that may lead, with their epochs. They stay so until
/// the transaction ends.
async fn nodes(
    tx: &mut Tx,
    moves: &[Move],
    from: NodeEpoch,
) -> Result<(i64, BTreeMap<i64, i64>), ClusterError> {
    let named: Vec<i64> = moves
        .iter()
        .map(|planned| i64::from(planned.to.get()))
        .collect();
    let own = to_sql(from.get())?;
    let nodes: Vec<(i64, i64, bool)> = sqlx::query_as(
        "SELECT node_id, epoch, coalesce(state = 1 AND NOT draining, false) FROM nodes
         WHERE epoch = $1 OR node_id = ANY($2) ORDER BY node_id FOR KEY SHARE",
    )
    .bind(own)
    .bind(named)
    .fetch_all(&mut **tx)
    .await
    .map_err(failure)?;
    let of_caller = nodes.iter().find(|&&(_, epoch, _)| epoch == own);
    let &(caller, ..) = of_caller.ok_or(Fenced(from))?;
    let able = nodes.into_iter().filter(|&(.., may_lead)| may_lead);
    let able = able.map(|(node, epoch, _)| (node, epoch)).collect();
    Ok((caller, able))
}

/// The partitions of the moves that exist. They stay as they are until the transaction ends.
async fn due(tx: &mut Tx, moves: &[Move]) -> Result<Vec<Due>, ClusterError> {
    let (names, indexes): (Vec<&str>, Vec<i64>) = moves
        .iter()
        .map(|Move { partition, .. }| (partition.topic.as_str(), i64::from(partition.partition)))
        .unzip();
    let due = sqlx::query_as(
        "SELECT nth, leader, moving_to, topic_id, partition_index, data_stream, meta_stream
         FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS moves (name, partition_index, nth)
         JOIN topics USING (name) JOIN partitions USING (topic_id, partition_index)
         ORDER BY topic_id, partition_index FOR UPDATE OF partitions",
    )
    .bind(names)
    .bind(indexes)
    .fetch_all(&mut **tx)
    .await
    .map_err(failure)?;
    Ok(due)
}

/// The partitions `given` are these nodes' from now on, whose epochs come with them. Those that were to move `in_vain`, since their
/// targets may not lead, stay.
async fn give(
    mut tx: Tx,
    given: &[(&Due, (i64, i64))],
    in_vain: &[(Vec<u8>, i64)],
) -> Result<(), ClusterError> {
    if given.is_empty() && in_vain.is_empty() {
        commit(tx).await?;
        return Ok(());
    }
    leaders::cancel(&mut tx, in_vain).await?;
    let nodes: Vec<i64> = given.iter().map(|&(_, (node, _))| node).collect();
    let epochs: Vec<i64> = given.iter().map(|&(_, (_, epoch))| epoch).collect();
    let data: Vec<i64> = given.iter().map(|(due, _)| due.data).collect();
    let meta: Vec<i64> = given.iter().map(|(due, _)| due.meta).collect();
    sqlx::query(
        "UPDATE streams SET epoch = streams.epoch + 1, owner_epoch = given.epoch, owner_node = given.node
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS given (node, epoch, data, meta)
         WHERE stream_id IN (given.data, given.meta)",
    )
    .bind(&nodes)
    .bind(epochs)
    .bind(data)
    .bind(meta)
    .execute(&mut *tx)
    .await
    .map_err(failure)?;
    let partitions: Vec<(Vec<u8>, i64)> = given
        .iter()
        .map(|(due, _)| (due.topic.clone(), due.index))
        .collect();
    leaders::set(&mut tx, &partitions, &nodes).await?;
    let topics = leaders::topics_of(&[&partitions, in_vain].concat())?;
    commit_change(tx, Change::Topics(&topics)).await?;
    Ok(())
}

/// The node that this epoch is the current one of. It stays so until the transaction ends.
async fn node_of(tx: &mut Tx, epoch: NodeEpoch) -> Result<i64, ClusterError> {
    let node: Option<i64> =
        sqlx::query_scalar("SELECT node_id FROM nodes WHERE epoch = $1 FOR KEY SHARE")
            .bind(to_sql(epoch.get())?)
            .fetch_optional(&mut **tx)
            .await
            .map_err(failure)?;
    Ok(node.ok_or(Fenced(epoch))?)
}
