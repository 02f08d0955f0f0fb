//! The cluster, its nodes, the sequences, and small values.

use std::ops::Range;

use millrace_model::{NodeEpoch, NodeId};
use sqlx::{Sqlite, Transaction};

use super::{
    Inner, begin, failure,
    number::{from_sql, to_sql},
    objects,
};
use crate::StoreFailure;

/// A sequence of ids.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sequence {
    NodeEpoch,
    Stream,
    Object,
    Producer,
}

impl Sequence {
    fn name(self) -> &'static str {
        match self {
            Self::NodeEpoch => "node_epoch",
            Self::Stream => "stream",
            Self::Object => "object",
            Self::Producer => "producer",
        }
    }

    /// Takes `count` numbers and gives the first.
    pub(super) async fn take(
        self,
        tx: &mut Transaction<'_, Sqlite>,
        count: u32,
    ) -> Result<u64, StoreFailure> {
        let first: i64 = sqlx::query_scalar(
            "UPDATE sequences SET next = next + $1 WHERE name = $2 RETURNING next - $1",
        )
        .bind(i64::from(count))
        .bind(self.name())
        .fetch_one(&mut **tx)
        .await?;
        from_sql(first)
    }

    /// Skips to `next`, unless it is there or beyond.
    pub(super) async fn raise(
        self,
        tx: &mut Transaction<'_, Sqlite>,
        next: u64,
    ) -> Result<(), StoreFailure> {
        sqlx::query("UPDATE sequences SET next = max(next, $1) WHERE name = $2")
            .bind(to_sql(next)?)
            .bind(self.name())
            .execute(&mut **tx)
            .await?;
        Ok(())
    }

    /// The number that comes next.
    pub(super) async fn peek(self, tx: &mut Transaction<'_, Sqlite>) -> Result<u64, StoreFailure> {
        let next: i64 = sqlx::query_scalar("SELECT next FROM sequences WHERE name = $1")
            .bind(self.name())
            .fetch_one(&mut **tx)
            .await?;
        from_sql(next)
    }
}

impl Inner {
    pub(super) async fn cluster_id(&self, default: &str) -> Result<String, StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        let id = sqlx::query_scalar(
            "UPDATE identity SET cluster_id = coalesce(cluster_id, $1) RETURNING cluster_id",
        )
        .bind(default)
        .fetch_one(&mut *tx)
        .await?;
        self.commit(tx, |_| ()).await?;
        Ok(id)
    }

    pub(super) async fn register_node(&self, node: NodeId) -> Result<NodeEpoch, StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        let epoch = Sequence::NodeEpoch.take(&mut tx, 1).await?;
        let former: Option<i64> = sqlx::query_scalar("SELECT epoch FROM nodes WHERE node_id = $1")
            .bind(i64::from(node.get()))
            .fetch_optional(&mut *tx)
            .await?;
        let mut left = Vec::new();
        if let Some(former) = former {
            let former = NodeEpoch(from_sql(former)?);
            left = objects::retire_prepared(&mut tx, former, self.clock.wall_ms()).await?;
        }
        sqlx::query(
            "INSERT INTO nodes (node_id, epoch) VALUES ($1, $2)
             ON CONFLICT (node_id) DO UPDATE SET epoch = excluded.epoch",
        )
        .bind(i64::from(node.get()))
        .bind(to_sql(epoch)?)
        .execute(&mut *tx)
        .await?;
        sqlx::query("UPDATE identity SET node_id = coalesce(node_id, $1)")
            .bind(i64::from(node.get()))
            .execute(&mut *tx)
            .await?;
        let now = self.clock.now();
        self.commit(tx, |index| index.retire(left, now)).await?;
        Ok(NodeEpoch(epoch))
    }

    pub(super) async fn allocate_producer_ids(
        &self,
        block: u32,
    ) -> Result<Range<i64>, StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        let first = to_sql(Sequence::Producer.take(&mut tx, block).await?)?;
        self.commit(tx, |_| ()).await?;
        Ok(first..first + i64::from(block))
    }

    pub(super) async fn get_kv(&self, name: &str) -> Result<Option<Vec<u8>>, StoreFailure> {
        sqlx::query_scalar("SELECT value FROM kv WHERE name = $1")
            .bind(name)
            .fetch_optional(&self.readers)
            .await
            .map_err(failure)
    }

    pub(super) async fn put_kv(&self, name: &str, value: &[u8]) -> Result<(), StoreFailure> {
        let mut writer = self.writer().await?;
        let mut tx = begin(&mut writer).await?;
        sqlx::query(
            "INSERT INTO kv (name, value) VALUES ($1, $2)
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(name)
        .bind(value)
        .execute(&mut *tx)
        .await?;
        self.commit(tx, |_| ()).await
    }
}
