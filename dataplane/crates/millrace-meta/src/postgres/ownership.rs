//! Streams that change their owner in a planned way.

use millrace_model::{NodeEpoch, NodeId, StreamId, TopicPartition};

use super::{
    PostgresMeta, Tx, commit, failure,
    feed::{Change, commit_change},
    streams::{self, Lock},
    topics,
};
use crate::{
    ClusterError, Fenced, StreamMeta,
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

/// Gives a partition's streams and its lead to another active node, under new epochs. Everything of them must be in the
/// bucket: the new owner does not see what is in the former owner's log alone, and the former owner can no longer commit it.
pub(super) async fn hand_over(
    meta: &PostgresMeta,
    partition: &TopicPartition,
    from: NodeEpoch,
    to: NodeId,
) -> Result<Vec<StreamMeta>, ClusterError> {
    let mut tx = meta.begin().await?;
    let nodes: Vec<(i64, i64, Option<bool>)> = sqlx::query_as(
        "SELECT node_id, epoch, state = 1 AND NOT draining FROM nodes WHERE epoch = $1 OR node_id = $2
         ORDER BY node_id FOR KEY SHARE",
    )
    .bind(to_sql(from.get())?)
    .bind(i64::from(to.get()))
    .fetch_all(&mut *tx)
    .await
    .map_err(failure)?;
    let own = to_sql(from.get())?;
    if !nodes.iter().any(|&(_, epoch, _)| epoch == own) {
        return Err(Fenced(from).into());
    }
    let target = nodes
        .iter()
        .find(|&&(node, _, may_lead)| node == i64::from(to.get()) && may_lead == Some(true));
    let Some(&(target, target_epoch, _)) = target else {
        return Err(ClusterError::NodeNot(to, "active"));
    };
    let unknown = || ClusterError::UnknownPartition(partition.clone());
    let (topic, led) = topics::partition(&mut tx, partition)
        .await?
        .ok_or_else(unknown)?;
    let handed = [led.data, led.meta];
    let index = streams::load(&mut tx, handed.into_iter(), Lock::Update).await?;
    for stream in handed {
        if index.streams.get(&stream).and_then(|stream| stream.owner) != Some(from) {
            return Err(ClusterError::NotOwner(stream));
        }
    }
    sqlx::query(
        "UPDATE streams SET epoch = epoch + 1, owner_epoch = $1, owner_node = $2
         WHERE stream_id = ANY($3)",
    )
    .bind(target_epoch)
    .bind(target)
    .bind(streams::ids_to_sql(handed.into_iter())?)
    .execute(&mut *tx)
    .await
    .map_err(failure)?;
    sqlx::query(
        "UPDATE partitions SET leader = $1, leader_epoch = leader_epoch + 1, moving_to = NULL
         WHERE topic_id = $2 AND partition_index = $3",
    )
    .bind(target)
    .bind(topic.0.as_bytes().as_slice())
    .bind(i64::from(led.index))
    .execute(&mut *tx)
    .await
    .map_err(failure)?;
    let now = streams::load(&mut tx, handed.into_iter(), Lock::Update).await?;
    commit_change(tx, Change::Topics(&[topic])).await?;
    let metas = handed
        .iter()
        .filter_map(|&id| Some(now.streams.get(&id)?.meta(id)));
    Ok(metas.collect())
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
