//! Joining, leases, fencing, and taking over a fenced node's log.
//!
//! The lease of a start is judged by the database's clock only, and by a start whose own lease was renewed without a gap for
//! [`JUDGE_TTLS`]: after an outage of the database, when all leases have run out, nobody may judge, and by the time
//! somebody may, the others have renewed theirs. Half the time of a lease is a gap: after an outage that is a little shorter than
//! a lease, the first broker that gets through would otherwise fence those that wait behind it. For the same reason a judge that
//! has not renewed its lease for so long does not judge: its own lease may only be the last one to run out. One judges at a time.
//!
//! A start that joins while no other lease is late may judge at once: the others have just renewed theirs, so the database was
//! not away. Without this, a broker that dies soon after the cluster's start would be noticed later than any other.
//!
//! A lease begins by `clock_timestamp()`: `now()` is when the transaction began, and it may have waited for a lock since. A start that
//! joins gets its lease after its last lock: it cannot renew the lease before the transaction ends.
//!
//! Joining, fencing and leaving lock the row of one node and then those of all active ones, so one of them runs at a time.

use std::time::Duration;

use millrace_model::{NodeEpoch, NodeId};
use sqlx::{PgConnection, Row};
use tokio::time::timeout;

use super::{
    PostgresMeta, Tx, commit, events, failure,
    feed::{self, Change, commit_change},
    fence, leaders, nodes,
    transaction::Borrowed,
};
use crate::{
    Adoption, Broker, BrokerState, ClusterError, ClusterEventKind, Fenced, FencedBroker, JoinError,
    Joining, StoreFailure,
    number::{from_sql, to_sql},
};

/// How long a judge must have held its own lease, in times of a lease.
const JUDGE_TTLS: u32 = 2;

/// A renewal that comes later than after this part of a lease starts the judge's waiting time again.
const GAP_PARTS: u32 = 2;

/// The advisory lock of the node that judges: any number that nothing else in the database locks.
const JUDGING: i64 = 0x006a_7564_6769_6e67;

/// The advisory lock of whoever joins, fences or leaves.
const MEMBERSHIP: i64 = 0x6d65_6d62_6572_7368;

const ACTIVE: i16 = 1;
const FENCED: i16 = 2;
const LEFT: i16 = 3;

pub(super) async fn join(meta: &PostgresMeta, joining: &Joining) -> Result<NodeEpoch, JoinError> {
    let mut tx = meta.begin().await?;
    lock_membership(&mut tx).await?;
    let node = i64::from(joining.node.get());
    let is_adopted: Option<bool> = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM nodes AS adopter
                        WHERE adopter.epoch = node.adopter_epoch AND adopter.state = 1
                          AND adopter.lease_until >= now())
         FROM nodes AS node WHERE node.node_id = $1 FOR UPDATE OF node",
    )
    .bind(node)
    .fetch_optional(&mut *tx)
    .await
    .map_err(failure)?;
    if is_adopted == Some(true) {
        return Err(JoinError::BeingAdopted { node: joining.node });
    }
    refuse_other_log(&mut tx, joining).await?;
    let epoch = nodes::new_epoch(&mut tx, joining.node).await?;
    let endpoints = serde_json::to_string(&joining.endpoints).expect("plain fields are JSON");
    sqlx::query(
        "UPDATE nodes SET state = 1, lease_until = now(), held_since = now(), rack = $2, version = $3,
           endpoints = $4, log = $5, log_id = $6, adopter_epoch = NULL, draining = false
         WHERE node_id = $1",
    )
    .bind(node)
    .bind(&joining.rack)
    .bind(&joining.version)
    .bind(endpoints)
    .bind(&joining.log)
    .bind(id_to_sql(joining.log_id))
    .execute(&mut *tx)
    .await
    .map_err(failure)?;
    // Partitions that nobody leads go to the active nodes, of which this one is one now.
    let topics = leaders::lead_orphans(&mut tx).await?;
    let text = format!("Node {} joined, version {}.", joining.node, joining.version);
    events::record(&mut tx, ClusterEventKind::Joined, Some(node), &text).await?;
    feed::add(&mut tx, Change::Brokers(&topics)).await?;
    begin_lease(&mut tx, meta.lease_ttl, node).await?;
    commit(tx).await?;
    Ok(epoch)
}

/// Joining, fencing and leaving wait for each other. It comes before the locks of rows.
async fn lock_membership(tx: &mut Tx) -> Result<(), StoreFailure> {
    sqlx::query("SELECT pg_advisory_xact_lock($1)")
        .bind(MEMBERSHIP)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

/// Begins the lease of a start that joins, after it has waited for its last lock.
async fn begin_lease(tx: &mut Tx, lease_ttl: Duration, node: i64) -> Result<(), StoreFailure> {
    // A start that may judge at once counts as one that has held its lease for long enough.
    sqlx::query(
        "UPDATE nodes SET lease_until = clock_timestamp() + make_interval(secs => $2),
           held_since = clock_timestamp() - make_interval(secs =>
             CASE WHEN EXISTS (SELECT FROM nodes AS other
                               WHERE other.state = 1 AND other.node_id <> $1
                                 AND other.lease_until < clock_timestamp() + make_interval(secs => $3))
                  THEN 0 ELSE $4 END)
         WHERE node_id = $1",
    )
    .bind(node)
    .bind(lease_ttl.as_secs_f64())
    .bind((lease_ttl / GAP_PARTS).as_secs_f64())
    .bind((lease_ttl * JUDGE_TTLS).as_secs_f64())
    .execute(&mut **tx)
    .await?;
    Ok(())
}

/// Refuses a log that is not the one whose records the node's streams may still need.
async fn refuse_other_log(tx: &mut Tx, joining: &Joining) -> Result<(), JoinError> {
    let node = i64::from(joining.node.get());
    let former: Option<(String, i64)> = sqlx::query_as(
        "SELECT log, log_id FROM nodes WHERE node_id = $1 AND state IN (1, 2) AND log_id <> $2",
    )
    .bind(node)
    .bind(id_to_sql(joining.log_id))
    .fetch_optional(&mut **tx)
    .await
    .map_err(failure)?;
    let Some((log, expected)) = former else {
        return Ok(());
    };
    let streams: i64 = sqlx::query_scalar("SELECT count(*) FROM streams WHERE owner_node = $1")
        .bind(node)
        .fetch_one(&mut **tx)
        .await
        .map_err(failure)?;
    match from_sql(streams)? {
        // It has never written to the log that it joined with.
        0 => Ok(()),
        streams => Err(JoinError::OtherLog {
            node: joining.node,
            streams,
            log,
            expected: id_from_sql(expected),
        }),
    }
}

/// All 64 bits of an id count, so it may be negative in the database.
fn id_to_sql(id: u64) -> i64 {
    i64::from_ne_bytes(id.to_ne_bytes())
}

fn id_from_sql(id: i64) -> u64 {
    u64::from_ne_bytes(id.to_ne_bytes())
}

/// The row is locked before the clock is read: the lease is good for its whole time however long this waits.
pub(super) async fn renew(meta: &PostgresMeta, epoch: NodeEpoch) -> Result<(), ClusterError> {
    let mut connection = Borrowed::of(&meta.leases).await?;
    let renewed = sqlx::query(
        "UPDATE nodes SET lease_until = clock_timestamp() + make_interval(secs => $2),
           held_since = CASE WHEN lease_until < clock_timestamp() + make_interval(secs => $3)
                             THEN clock_timestamp() ELSE held_since END
         FROM (SELECT node_id FROM nodes WHERE epoch = $1 AND state = 1 FOR NO KEY UPDATE) AS own
         WHERE nodes.node_id = own.node_id",
    )
    .bind(to_sql(epoch.get())?)
    .bind(meta.lease_ttl.as_secs_f64())
    .bind((meta.lease_ttl / GAP_PARTS).as_secs_f64())
    .execute(&mut *connection)
    .await
    .map_err(failure)?;
    connection.give_back();
    match renewed.rows_affected() {
        0 => Err(Fenced(epoch).into()),
        _ => Ok(()),
    }
}

/// Whether this node may judge others, and there is one whose lease has run out. The transaction may have waited since `now()`: the
/// judge's own lease must be good after that, and the others' must have run out before it.
async fn may_fence(
    connection: &mut PgConnection,
    lease_ttl: Duration,
    judge: NodeEpoch,
) -> Result<bool, ClusterError> {
    let may_fence: Option<bool> = sqlx::query_scalar(
        "SELECT lease_until >= clock_timestamp() + make_interval(secs => $3) AND held_since <= now() - make_interval(secs => $2)
           AND EXISTS (SELECT FROM nodes WHERE state = 1 AND epoch <> $1 AND lease_until < now())
         FROM nodes WHERE epoch = $1 AND state = 1",
    )
    .bind(to_sql(judge.get())?)
    .bind((lease_ttl * JUDGE_TTLS).as_secs_f64())
    .bind((lease_ttl / GAP_PARTS).as_secs_f64())
    .fetch_optional(connection)
    .await
    .map_err(failure)?;
    Ok(may_fence.ok_or(Fenced(judge))?)
}

/// The same at once and without a lock. It has no answer for longer than a lease only where the connection hangs.
async fn is_needed(meta: &PostgresMeta, judge: NodeEpoch) -> Result<bool, ClusterError> {
    let look = async {
        let mut connection = Borrowed::of(&meta.leases).await?;
        let is_needed = may_fence(&mut connection, meta.lease_ttl, judge).await?;
        connection.give_back();
        Ok(is_needed)
    };
    let silent = |_| StoreFailure::Database("no answer within the time of a lease".into());
    timeout(meta.lease_ttl, look).await.map_err(silent)?
}

pub(super) async fn fence_expired(
    meta: &PostgresMeta,
    judge: NodeEpoch,
) -> Result<Vec<FencedBroker>, ClusterError> {
    // Usually all are alive, and seeing that needs no lock.
    if !is_needed(meta, judge).await? {
        return Ok(Vec::new());
    }
    let mut tx = Tx::begin(&meta.leases).await?.closing();
    // Judges do not wait for each other, and lock no row of their own: a renewal of their lease would wait behind it.
    let has_lock: bool = sqlx::query_scalar("SELECT pg_try_advisory_xact_lock($1)")
        .bind(JUDGING)
        .fetch_one(&mut *tx)
        .await
        .map_err(failure)?;
    if !has_lock {
        commit(tx).await?;
        return Ok(Vec::new());
    }
    lock_membership(&mut tx).await?;
    // The last judge may have fenced this one.
    if !may_fence(&mut tx, meta.lease_ttl, judge).await? {
        commit(tx).await?;
        return Ok(Vec::new());
    }
    // Who renewed while this waited for its row is not among them: PostgreSQL looks at the row again.
    let dead: Vec<i64> = sqlx::query_scalar(
        "SELECT node_id FROM nodes WHERE state = 1 AND epoch <> $1 AND lease_until < now()
         ORDER BY node_id FOR UPDATE",
    )
    .bind(to_sql(judge.get())?)
    .fetch_all(&mut *tx)
    .await
    .map_err(failure)?;
    if dead.is_empty() {
        commit(tx).await?;
        return Ok(Vec::new());
    }
    for &node in &dead {
        nodes::new_epoch(&mut tx, NodeId(from_sql(node)?)).await?;
    }
    sqlx::query("UPDATE nodes SET state = 2 WHERE node_id = ANY($1)")
        .bind(&dead)
        .execute(&mut *tx)
        .await
        .map_err(failure)?;
    let (fenced, topics) = leaders::replace(&mut tx, &dead).await?;
    for FencedBroker {
        node,
        partitions_moved,
    } in &fenced
    {
        let text = format!(
            "The lease of node {node} ran out. Other brokers lead its {partitions_moved} partitions."
        );
        let node = Some(i64::from(node.get()));
        events::record(&mut tx, ClusterEventKind::Fenced, node, &text).await?;
    }
    commit_change(tx, Change::Brokers(&topics)).await?;
    Ok(fenced)
}

pub(super) async fn adopt(
    meta: &PostgresMeta,
    node: NodeId,
    adopter: NodeEpoch,
) -> Result<Adoption, ClusterError> {
    let mut tx = meta.begin().await?;
    // Only where it is fenced: the renewals of one that is active would wait for the lock.
    let found: Option<(Option<i64>, Option<String>)> = sqlx::query_as(
        "SELECT adopter_epoch, log FROM nodes WHERE node_id = $1 AND state = $2 FOR UPDATE",
    )
    .bind(i64::from(node.get()))
    .bind(FENCED)
    .fetch_optional(&mut *tx)
    .await
    .map_err(failure)?;
    let own = to_sql(adopter.get())?;
    let by = active_node(&mut tx, own).await?.ok_or(Fenced(adopter))?;
    let Some((former, Some(log))) = found else {
        return Err(ClusterError::NodeNot(node, "fenced"));
    };
    if let Some(former) = former.filter(|&former| former != own)
        && active_node(&mut tx, former).await?.is_some()
    {
        let adopter = NodeEpoch(from_sql(former)?);
        return Err(ClusterError::Adopted { node, adopter });
    }
    let epoch = nodes::new_epoch(&mut tx, node).await?;
    sqlx::query("UPDATE nodes SET adopter_epoch = $1 WHERE node_id = $2")
        .bind(own)
        .bind(i64::from(node.get()))
        .execute(&mut *tx)
        .await
        .map_err(failure)?;
    let is_retry = former == Some(own);
    if !is_retry {
        let text = format!("Node {by} takes over the write-ahead log of node {node}.");
        let of = Some(i64::from(node.get()));
        events::record(&mut tx, ClusterEventKind::Takeover, of, &text).await?;
    }
    commit_change(tx, Change::Brokers(&[])).await?;
    Ok(Adoption { epoch, log })
}

/// The node of a start that has a good lease. It is not fenced until the transaction ends. Renewals do not wait for this lock, as
/// they would for a stronger one.
async fn active_node(tx: &mut Tx, epoch: i64) -> Result<Option<i64>, StoreFailure> {
    let node = sqlx::query_scalar(
        "SELECT node_id FROM nodes WHERE epoch = $1 AND state = 1 AND lease_until >= now() FOR KEY SHARE",
    )
    .bind(epoch)
    .fetch_optional(&mut **tx)
    .await?;
    Ok(node)
}

/// Two transactions: the node's own row is not locked while the second one waits for partitions, or its lease could not be renewed.
pub(super) async fn begin_drain(meta: &PostgresMeta, epoch: NodeEpoch) -> Result<(), ClusterError> {
    let node = mark_draining(meta, epoch).await?;
    let mut tx = meta.begin().await?;
    // A later start of the node is not draining.
    fence::<ClusterError>(&mut tx, epoch).await?;
    match &*leaders::stay(&mut tx, node).await? {
        [] => commit(tx).await?,
        topics => commit_change(tx, Change::Topics(topics)).await?,
    }
    Ok(())
}

async fn mark_draining(meta: &PostgresMeta, epoch: NodeEpoch) -> Result<i64, ClusterError> {
    let mut tx = meta.begin().await?;
    // Moves that are planned at the same time come before, and are cancelled next, or after: none goes to a broker that is draining.
    let node: Option<(i64, bool)> = sqlx::query_as(
        "SELECT node_id, draining FROM nodes WHERE epoch = $1 AND state = 1 FOR UPDATE",
    )
    .bind(to_sql(epoch.get())?)
    .fetch_optional(&mut *tx)
    .await
    .map_err(failure)?;
    let (node, is_draining) = node.ok_or(Fenced(epoch))?;
    if is_draining {
        commit(tx).await?;
        return Ok(node);
    }
    sqlx::query("UPDATE nodes SET draining = true WHERE node_id = $1")
        .bind(node)
        .execute(&mut *tx)
        .await
        .map_err(failure)?;
    let text = format!("Node {node} gives its partitions away.");
    events::record(&mut tx, ClusterEventKind::Draining, Some(node), &text).await?;
    commit_change(tx, Change::Brokers(&[])).await?;
    Ok(node)
}

/// The node has left: its log is empty, so its streams need no owner.
pub(super) async fn leave(meta: &PostgresMeta, epoch: NodeEpoch) -> Result<(), ClusterError> {
    let mut tx = meta.begin().await?;
    lock_membership(&mut tx).await?;
    let node: Option<i64> = sqlx::query_scalar(
        "SELECT node_id FROM nodes WHERE epoch = $1 AND state IN (1, 2) FOR UPDATE",
    )
    .bind(to_sql(epoch.get())?)
    .fetch_optional(&mut *tx)
    .await
    .map_err(failure)?;
    let node = node.ok_or(Fenced(epoch))?;
    sqlx::query("UPDATE nodes SET state = 3, adopter_epoch = NULL WHERE node_id = $1")
        .bind(node)
        .execute(&mut *tx)
        .await
        .map_err(failure)?;
    let (_, topics) = leaders::replace(&mut tx, &[node]).await?;
    sqlx::query(
        "UPDATE streams SET owner_epoch = NULL, owner_node = NULL
         FROM (SELECT stream_id FROM streams WHERE owner_node = $1 ORDER BY stream_id FOR UPDATE) AS owned
         WHERE streams.stream_id = owned.stream_id",
    )
    .bind(node)
    .execute(&mut *tx)
    .await
    .map_err(failure)?;
    let text = format!("Node {node} left. Its write-ahead log is empty.");
    events::record(&mut tx, ClusterEventKind::Left, Some(node), &text).await?;
    commit_change(tx, Change::Brokers(&topics)).await?;
    Ok(())
}

pub(super) async fn secret(meta: &PostgresMeta) -> Result<Option<String>, StoreFailure> {
    let secret = sqlx::query_scalar("SELECT broker_secret FROM cluster")
        .fetch_optional(&meta.pool)
        .await?;
    Ok(secret)
}

pub(super) async fn list(meta: &PostgresMeta) -> Result<Vec<Broker>, StoreFailure> {
    let mut tx = meta.begin().await?;
    let brokers = all(&mut tx).await?;
    commit(tx).await?;
    Ok(brokers)
}

/// Every broker that has joined, in the order of the nodes.
pub(super) async fn all(tx: &mut Tx) -> Result<Vec<Broker>, StoreFailure> {
    let rows = sqlx::query(
        "SELECT node_id, epoch, state, rack, version, endpoints, log, log_id, adopter_epoch, draining
         FROM nodes WHERE state IS NOT NULL ORDER BY node_id",
    )
    .fetch_all(&mut **tx)
    .await?;
    rows.iter().map(broker_from_row).collect()
}

fn broker_from_row(row: &sqlx::postgres::PgRow) -> Result<Broker, StoreFailure> {
    let corrupt = |what: String| StoreFailure::Corrupt(format!("a broker: {what}"));
    let endpoints: String = row.try_get("endpoints")?;
    let endpoints = serde_json::from_str(&endpoints).map_err(|error| corrupt(error.to_string()))?;
    let adopter: Option<i64> = row.try_get("adopter_epoch")?;
    let state = match row.try_get("state")? {
        ACTIVE => BrokerState::Active,
        FENCED => BrokerState::Fenced {
            adopter: adopter.map(from_sql).transpose()?.map(NodeEpoch),
        },
        LEFT => BrokerState::Left,
        other => return Err(corrupt(format!("it is in state {other}"))),
    };
    Ok(Broker {
        joined: Joining {
            node: NodeId(from_sql(row.try_get("node_id")?)?),
            endpoints,
            rack: row.try_get("rack")?,
            version: row.try_get("version")?,
            log: row.try_get("log")?,
            log_id: id_from_sql(row.try_get("log_id")?),
        },
        epoch: NodeEpoch(from_sql(row.try_get("epoch")?)?),
        state,
        is_draining: row.try_get("draining")?,
    })
}
