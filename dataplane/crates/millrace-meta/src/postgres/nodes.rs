//! The cluster, its nodes, and the sequences.

use std::ops::Range;

use millrace_model::{NodeEpoch, NodeId};

use super::{PostgresMeta, Tx, commit};
use crate::{
    StoreFailure,
    number::{from_sql, to_sql},
};

/// A sequence of ids.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sequence {
    NodeEpoch,
    Stream,
    Object,
    Producer,
    Revision,
}

impl Sequence {
    fn name(self) -> &'static str {
        match self {
            Self::NodeEpoch => "node_epoch",
            Self::Stream => "stream",
            Self::Object => "object",
            Self::Producer => "producer",
            Self::Revision => "revision",
        }
    }

    /// Takes `count` numbers and gives the first.
    pub(super) async fn take(self, tx: &mut Tx, count: u32) -> Result<u64, StoreFailure> {
        let first: i64 = sqlx::query_scalar(
            "UPDATE sequences SET next = next + $1 WHERE name = $2 RETURNING next - $1",
        )
        .bind(i64::from(count))
        .bind(self.name())
        .fetch_one(&mut **tx)
        .await?;
        from_sql(first)
    }

    /// The number that comes next.
    pub(super) async fn peek(self, tx: &mut Tx) -> Result<u64, StoreFailure> {
        let next: i64 = sqlx::query_scalar("SELECT next FROM sequences WHERE name = $1")
            .bind(self.name())
            .fetch_one(&mut **tx)
            .await?;
        from_sql(next)
    }
}

pub(super) async fn cluster_id(meta: &PostgresMeta, default: &str) -> Result<String, StoreFailure> {
    let id = sqlx::query_scalar(
        "INSERT INTO cluster (singleton, cluster_id) VALUES (true, $1)
         ON CONFLICT (singleton) DO UPDATE SET cluster_id = cluster.cluster_id
         RETURNING cluster_id",
    )
    .bind(default)
    .fetch_one(&meta.pool);
    Ok(id.await?)
}

pub(super) async fn register(meta: &PostgresMeta, node: NodeId) -> Result<NodeEpoch, StoreFailure> {
    let mut tx = meta.begin().await?;
    let epoch = new_epoch(&mut tx, node).await?;
    commit(tx).await?;
    Ok(epoch)
}

/// Begins a new epoch of the node; its former one is fenced.
pub(super) async fn new_epoch(tx: &mut Tx, node: NodeId) -> Result<NodeEpoch, StoreFailure> {
    let former: Option<i64> =
        sqlx::query_scalar("SELECT epoch FROM nodes WHERE node_id = $1 FOR UPDATE")
            .bind(i64::from(node.get()))
            .fetch_optional(&mut **tx)
            .await?;
    let epoch = Sequence::NodeEpoch.take(tx, 1).await?;
    sqlx::query(
        "INSERT INTO nodes (node_id, epoch) VALUES ($1, $2)
         ON CONFLICT (node_id) DO UPDATE SET epoch = excluded.epoch",
    )
    .bind(i64::from(node.get()))
    .bind(to_sql(epoch)?)
    .execute(&mut **tx)
    .await?;
    // What the former start reserved and can no longer commit. The object may exist in the bucket or not.
    sqlx::query(
        "UPDATE objects SET state = 3, retired_at = now() WHERE state = 1 AND node_epoch = $1",
    )
    .bind(former)
    .execute(&mut **tx)
    .await?;
    Ok(NodeEpoch(epoch))
}

pub(super) async fn allocate_producer_ids(
    meta: &PostgresMeta,
    block: u32,
) -> Result<Range<i64>, StoreFailure> {
    let mut tx = meta.begin().await?;
    let first = to_sql(Sequence::Producer.take(&mut tx, block).await?)?;
    commit(tx).await?;
    Ok(first..first + i64::from(block))
}
