//! What has happened to the brokers of the cluster, for people.

use millrace_model::NodeId;

use super::{PostgresMeta, Tx};
use crate::{
    ClusterEvent, ClusterEventKind, StoreFailure,
    number::{from_sql, to_sql},
};

/// Events that are kept.
const KEPT: i64 = 1_000;

/// Records an event with the change that it is about.
pub(super) async fn record(
    tx: &mut Tx,
    kind: ClusterEventKind,
    node: Option<i64>,
    text: &str,
) -> Result<(), StoreFailure> {
    let id: i64 = sqlx::query_scalar(
        "INSERT INTO events (kind, node_id, text) VALUES ($1, $2, $3) RETURNING id",
    )
    .bind(kind.name())
    .bind(node)
    .bind(text)
    .fetch_one(&mut **tx)
    .await?;
    sqlx::query("DELETE FROM events WHERE id <= $1")
        .bind(id.saturating_sub(KEPT))
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// The newest events, the newest first.
pub(super) async fn newest(
    meta: &PostgresMeta,
    limit: usize,
) -> Result<Vec<ClusterEvent>, StoreFailure> {
    let rows: Vec<(i64, String, Option<i64>, String)> = sqlx::query_as(
        "SELECT (extract(epoch FROM at) * 1000)::bigint, kind, node_id, text FROM events
         ORDER BY id DESC LIMIT $1",
    )
    .bind(to_sql(limit as u64)?)
    .fetch_all(&meta.pool)
    .await?;
    let event = |(at_ms, kind, node, text): (i64, String, Option<i64>, String)| {
        let unknown = || StoreFailure::Corrupt(format!("an event: its kind is {kind:?}"));
        Ok(ClusterEvent {
            at_ms,
            kind: ClusterEventKind::named(&kind).ok_or_else(unknown)?,
            node: node.map(from_sql).transpose()?.map(NodeId),
            text,
        })
    };
    rows.into_iter().map(event).collect()
}
