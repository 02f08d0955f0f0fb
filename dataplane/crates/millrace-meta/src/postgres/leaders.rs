//! Which node leads which partition.

use std::collections::{BTreeMap, BTreeSet};

use millrace_model::{NodeId, TopicId, TopicPartition};

use super::{
    PostgresMeta, Tx, commit, events, failure,
    feed::{Change, commit_change},
    topics,
};
use crate::{
    ClusterError, ClusterEventKind, FencedBroker, Move, Preferred, StoreFailure, number::from_sql,
};

/// A partition by its topic's id and its index.
type Partition = (Vec<u8>, i64);

/// A node that may lead.
#[derive(Debug, Clone)]
struct Candidate {
    node: i64,
    rack: Option<String>,
    led: i64,
}

/// Gives `count` partitions to the nodes that lead the fewest, and between equals to the zone that leads the fewest.
/// Empty where there is no candidate.
fn spread(mut candidates: Vec<Candidate>, count: usize) -> Vec<i64> {
    let mut of_racks: BTreeMap<Option<String>, i64> = BTreeMap::new();
    for Candidate { rack, led, .. } in &candidates {
        *of_racks.entry(rack.clone()).or_default() += led;
    }
    let mut leaders = Vec::with_capacity(count);
    for _ in 0..count {
        let of_rack = |of: &Candidate| of_racks.get(&of.rack).copied();
        let least = candidates
            .iter_mut()
            .min_by_key(|candidate| (candidate.led, of_rack(candidate), candidate.node));
        let Some(least) = least else { break };
        least.led += 1;
        *of_racks.entry(least.rack.clone()).or_default() += 1;
        leaders.push(least.node);
    }
    leaders
}

/// A node that may lead, and its rack.
type Able = (i64, Option<String>);

/// The active nodes that are not about to stop. None of them is fenced until the transaction ends. They are locked before any partition.
async fn able(tx: &mut Tx) -> Result<Vec<Able>, StoreFailure> {
    let nodes = sqlx::query_as(
        "SELECT node_id, rack FROM nodes WHERE state = 1 AND NOT draining ORDER BY node_id FOR KEY SHARE",
    )
    .fetch_all(&mut **tx)
    .await?;
    Ok(nodes)
}

/// The nodes with what they lead.
async fn candidates(tx: &mut Tx, able: Vec<Able>) -> Result<Vec<Candidate>, StoreFailure> {
    let led: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT leader, count(*) FROM partitions WHERE leader = ANY($1) GROUP BY leader",
    )
    .bind(able.iter().map(|&(node, _)| node).collect::<Vec<_>>())
    .fetch_all(&mut **tx)
    .await?;
    let led: BTreeMap<i64, i64> = led.into_iter().collect();
    let candidate = |(node, rack)| Candidate {
        node,
        rack,
        led: led.get(&node).copied().unwrap_or(0),
    };
    Ok(able.into_iter().map(candidate).collect())
}

/// Leaders for `count` new partitions; all `None` where no broker has joined.
pub(super) async fn of_new(tx: &mut Tx, count: u32) -> Result<Vec<Option<i64>>, StoreFailure> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let able = able(tx).await?;
    let mut leaders: Vec<_> = spread(candidates(tx, able).await?, count)
        .into_iter()
        .map(Some)
        .collect();
    leaders.resize(count, None);
    Ok(leaders)
}

/// Gives leaders to the partitions that have none, or one that has left. Gives the topics that are concerned.
pub(super) async fn lead_orphans(tx: &mut Tx) -> Result<Vec<TopicId>, StoreFailure> {
    let able = able(tx).await?;
    let orphans: Vec<Partition> = sqlx::query_as(
        "SELECT topic_id, partition_index FROM partitions
         WHERE leader IS NULL OR leader IN (SELECT node_id FROM nodes WHERE state = 3)
         ORDER BY topic_id, partition_index FOR UPDATE",
    )
    .fetch_all(&mut **tx)
    .await?;
    let leaders = spread(candidates(tx, able).await?, orphans.len());
    set(tx, &orphans, &leaders).await?;
    topics_of(&orphans)
}

/// Gives what the nodes `gone` lead to the active ones, where there are any. Gives how many partitions each of them led, and
/// the topics that are concerned.
pub(super) async fn replace(
    tx: &mut Tx,
    gone: &[i64],
) -> Result<(Vec<FencedBroker>, Vec<TopicId>), StoreFailure> {
    let able = able(tx).await?;
    // Also those that are on their way to them, so that all are locked in one order.
    let rows: Vec<(Vec<u8>, i64, Option<i64>)> = sqlx::query_as(
        "SELECT topic_id, partition_index, leader FROM partitions
         WHERE leader = ANY($1) OR moving_to = ANY($1)
         ORDER BY topic_id, partition_index FOR UPDATE",
    )
    .bind(gone)
    .fetch_all(&mut **tx)
    .await?;
    let led: Vec<(Partition, i64)> = rows
        .into_iter()
        .filter_map(|(topic, index, leader)| Some(((topic, index), leader?)))
        .filter(|(_, leader)| gone.contains(leader))
        .collect();
    let leaders = spread(candidates(tx, able).await?, led.len());
    let mut moved: BTreeMap<i64, u64> = gone.iter().map(|&node| (node, 0)).collect();
    for ((_, former), _) in led.iter().zip(&leaders) {
        *moved.entry(*former).or_default() += 1;
    }
    let partitions: Vec<Partition> = led
        .into_iter()
        .take(leaders.len())
        .map(|(partition, _)| partition)
        .collect();
    set(tx, &partitions, &leaders).await?;
    // What was to move to them stays where it is.
    let staying = cancel_moves_to(tx, gone).await?;
    let fenced = moved.into_iter().map(|(node, partitions_moved)| {
        let node = NodeId(from_sql(node)?);
        Ok(FencedBroker {
            node,
            partitions_moved,
        })
    });
    let fenced = fenced.collect::<Result<_, StoreFailure>>()?;
    Ok((fenced, topics_of(&[partitions, staying].concat())?))
}

/// What is on its way to the node stays where it is. Gives the topics that are concerned.
pub(super) async fn stay(tx: &mut Tx, node: i64) -> Result<Vec<TopicId>, StoreFailure> {
    topics_of(&cancel_moves_to(tx, &[node]).await?)
}

/// The planned moves to these nodes are cancelled. Gives their partitions.
async fn cancel_moves_to(tx: &mut Tx, nodes: &[i64]) -> Result<Vec<Partition>, StoreFailure> {
    let staying = sqlx::query_as(
        "UPDATE partitions SET moving_to = NULL
         FROM (SELECT topic_id, partition_index FROM partitions WHERE moving_to = ANY($1)
               ORDER BY topic_id, partition_index FOR UPDATE) AS moving
         WHERE partitions.topic_id = moving.topic_id AND partitions.partition_index = moving.partition_index
         RETURNING partitions.topic_id, partitions.partition_index",
    )
    .bind(nodes)
    .fetch_all(&mut **tx)
    .await?;
    Ok(staying)
}

/// The planned moves of these partitions, which are locked, are cancelled.
pub(super) async fn cancel(tx: &mut Tx, partitions: &[Partition]) -> Result<(), StoreFailure> {
    let (topics, indexes) = columns(partitions);
    sqlx::query(
        "UPDATE partitions SET moving_to = NULL
         FROM unnest($1::bytea[], $2::bigint[]) AS moving (topic_id, partition_index)
         WHERE partitions.topic_id = moving.topic_id AND partitions.partition_index = moving.partition_index",
    )
    .bind(topics)
    .bind(indexes)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

fn columns(partitions: &[Partition]) -> (Vec<&[u8]>, Vec<i64>) {
    partitions
        .iter()
        .map(|(topic, index)| (topic.as_slice(), *index))
        .unzip()
}

/// The partitions have these leaders from now on.
pub(super) async fn set(
    tx: &mut Tx,
    partitions: &[Partition],
    leaders: &[i64],
) -> Result<(), StoreFailure> {
    let (topics, indexes) = columns(partitions);
    sqlx::query(
        "UPDATE partitions SET leader = new.leader, leader_epoch = leader_epoch + 1, moving_to = NULL
         FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS new (topic_id, partition_index, leader)
         WHERE partitions.topic_id = new.topic_id AND partitions.partition_index = new.partition_index",
    )
    .bind(topics)
    .bind(indexes)
    .bind(leaders)
    .execute(&mut **tx)
    .await?;
    Ok(())
}

pub(super) fn topics_of(partitions: &[Partition]) -> Result<Vec<TopicId>, StoreFailure> {
    let ids: BTreeSet<&Vec<u8>> = partitions.iter().map(|(topic, _)| topic).collect();
    let ids: Vec<Vec<u8>> = ids.into_iter().cloned().collect();
    topics::ids_from_sql(&ids)
}

/// Records where partitions are to go. Their leaders hand them over.
pub(super) async fn plan_moves(
    meta: &PostgresMeta,
    moves: &[Move],
    preferred: Preferred,
) -> Result<(), ClusterError> {
    let mut tx = meta.begin().await?;
    let able = able(&mut tx).await?;
    let able: BTreeSet<i64> = able.into_iter().map(|(node, _)| node).collect();
    let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
    for planned in moves {
        if !able.contains(&i64::from(planned.to.get())) {
            return Err(ClusterError::NodeNot(planned.to, "active"));
        }
        *counts.entry(planned.to).or_default() += 1;
    }
    let planned = lock_all(&mut tx, moves).await?;
    let (topics, indexes) = columns(&planned);
    let to: Vec<i64> = moves
        .iter()
        .map(|planned| i64::from(planned.to.get()))
        .collect();
    sqlx::query(
        "UPDATE partitions SET moving_to = nullif(planned.node, leader),
           preferred = CASE WHEN $4 THEN planned.node ELSE preferred END
         FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) AS planned (topic_id, partition_index, node)
         WHERE partitions.topic_id = planned.topic_id
           AND partitions.partition_index = planned.partition_index",
    )
    .bind(topics)
    .bind(indexes)
    .bind(to)
    .bind(preferred == Preferred::Set)
    .execute(&mut *tx)
    .await
    .map_err(failure)?;
    for (node, partitions) in counts {
        let text = match partitions {
            1 => format!("1 partition moves to node {node}."),
            _ => format!("{partitions} partitions move to node {node}."),
        };
        let node = Some(i64::from(node.get()));
        events::record(&mut tx, ClusterEventKind::Moving, node, &text).await?;
    }
    let topics = topics_of(&planned)?;
    commit_change(tx, Change::Topics(&topics)).await?;
    Ok(())
}

/// Cancels planned moves. Returns the partitions that had not moved.
pub(super) async fn cancel_moves(
    meta: &PostgresMeta,
    partitions: &[TopicPartition],
) -> Result<Vec<TopicPartition>, ClusterError> {
    let mut tx = meta.begin().await?;
    let (names, indexes): (Vec<&str>, Vec<i64>) = partitions
        .iter()
        .map(|of| (of.topic.as_str(), i64::from(of.partition)))
        .unzip();
    let cancelled: Vec<(i64, Vec<u8>, i64)> = sqlx::query_as(
        "WITH moving AS (
           SELECT nth, topic_id, partition_index
           FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS named (name, partition_index, nth)
           JOIN topics USING (name) JOIN partitions USING (topic_id, partition_index)
           WHERE moving_to IS NOT NULL
           ORDER BY topic_id, partition_index FOR UPDATE OF partitions)
         UPDATE partitions SET moving_to = NULL, preferred = leader FROM moving
         WHERE partitions.topic_id = moving.topic_id
           AND partitions.partition_index = moving.partition_index
         RETURNING nth, partitions.topic_id, partitions.partition_index",
    )
    .bind(names)
    .bind(indexes)
    .fetch_all(&mut *tx)
    .await
    .map_err(failure)?;
    let position = |&(nth, ..): &(i64, Vec<u8>, i64)| usize::try_from(nth - 1).ok();
    let named = cancelled.iter().filter_map(position);
    let named = named.filter_map(|position| partitions.get(position).cloned());
    let named = named.collect();
    if cancelled.is_empty() {
        commit(tx).await?;
        return Ok(named);
    }
    let rows: Vec<Partition> = cancelled
        .into_iter()
        .map(|(_, topic, index)| (topic, index))
        .collect();
    commit_change(tx, Change::Topics(&topics_of(&rows)?)).await?;
    Ok(named)
}

/// Locks the partitions in the order of their topics' ids and their indexes. Gives them in the order of the moves.
async fn lock_all(tx: &mut Tx, moves: &[Move]) -> Result<Vec<Partition>, ClusterError> {
    let (names, indexes): (Vec<&str>, Vec<i64>) = moves
        .iter()
        .map(|Move { partition, .. }| (partition.topic.as_str(), i64::from(partition.partition)))
        .unzip();
    let rows: Vec<(String, i64, Vec<u8>)> = sqlx::query_as(
        "SELECT name, partition_index, topic_id
         FROM unnest($1::text[], $2::bigint[]) AS moves (name, partition_index)
         JOIN topics USING (name) JOIN partitions USING (topic_id, partition_index)
         ORDER BY topic_id, partition_index FOR UPDATE OF partitions",
    )
    .bind(&names)
    .bind(&indexes)
    .fetch_all(&mut **tx)
    .await
    .map_err(failure)?;
    let found: BTreeMap<(&str, i64), &Vec<u8>> = rows
        .iter()
        .map(|(name, index, topic)| ((name.as_str(), *index), topic))
        .collect();
    let locked = moves
        .iter()
        .zip(names)
        .zip(indexes)
        .map(|((planned, name), index)| {
            let topic = found.get(&(name, index));
            let unknown = || ClusterError::UnknownPartition(planned.partition.clone());
            Ok((topic.copied().ok_or_else(unknown)?.clone(), index))
        });
    locked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(node: i64, rack: &str, led: i64) -> Candidate {
        Candidate {
            node,
            rack: Some(rack.to_owned()),
            led,
        }
    }

    #[test]
    fn the_node_that_leads_the_fewest_is_next() {
        let candidates = vec![
            candidate(1, "a", 3),
            candidate(2, "a", 0),
            candidate(3, "a", 1),
        ];
        assert_eq!(spread(candidates, 6), [2, 2, 3, 2, 3, 1]);
    }

    #[test]
    fn equals_take_turns_by_zone() {
        let candidates = vec![
            candidate(1, "a", 0),
            candidate(2, "a", 0),
            candidate(3, "b", 0),
            candidate(4, "c", 0),
        ];
        assert_eq!(spread(candidates, 4), [1, 3, 4, 2]);
    }

    #[test]
    fn nobody_leads_where_nobody_is() {
        assert_eq!(spread(Vec::new(), 3), [0_i64; 0]);
    }
}
