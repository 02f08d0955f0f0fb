//! Which node leads which partition.

use std::collections::{BTreeMap, BTreeSet};

use millrace_model::{NodeId, TopicId};

use super::{
    PostgresMeta, Tx, events, failure,
    feed::{Change, commit_change},
    topics,
};
use crate::{ClusterError, ClusterEventKind, FencedBroker, Move, StoreFailure, number::from_sql};

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

/// The active nodes that are not about to stop. None of them is fenced until the transaction ends.
async fn candidates(tx: &mut Tx) -> Result<Vec<Candidate>, StoreFailure> {
    let nodes: Vec<(i64, Option<String>)> = sqlx::query_as(
        "SELECT node_id, rack FROM nodes WHERE state = 1 AND NOT draining ORDER BY node_id FOR KEY SHARE",
    )
    .fetch_all(&mut **tx)
    .await?;
    let led: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT leader, count(*) FROM partitions WHERE leader = ANY($1) GROUP BY leader",
    )
    .bind(nodes.iter().map(|&(node, _)| node).collect::<Vec<_>>())
    .fetch_all(&mut **tx)
    .await?;
    let led: BTreeMap<i64, i64> = led.into_iter().collect();
    let candidate = |(node, rack)| Candidate {
        node,
        rack,
        led: led.get(&node).copied().unwrap_or(0),
    };
    Ok(nodes.into_iter().map(candidate).collect())
}

/// Leaders for `count` new partitions; all `None` where no broker has joined.
pub(super) async fn of_new(tx: &mut Tx, count: u32) -> Result<Vec<Option<i64>>, StoreFailure> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let mut leaders: Vec<_> = spread(candidates(tx).await?, count)
        .into_iter()
        .map(Some)
        .collect();
    leaders.resize(count, None);
    Ok(leaders)
}

/// Gives leaders to the partitions that have none, or one that has left. Gives the topics that are concerned.
pub(super) async fn lead_orphans(tx: &mut Tx) -> Result<Vec<TopicId>, StoreFailure> {
    let orphans: Vec<Partition> = sqlx::query_as(
        "SELECT topic_id, partition_index FROM partitions
         WHERE leader IS NULL OR leader IN (SELECT node_id FROM nodes WHERE state = 3)
         ORDER BY topic_id, partition_index FOR UPDATE",
    )
    .fetch_all(&mut **tx)
    .await?;
    let leaders = spread(candidates(tx).await?, orphans.len());
    set(tx, &orphans, &leaders).await?;
    topics_of(&orphans)
}

/// Gives what the nodes `gone` lead to the active ones, where there are any. Gives how many partitions each of them led, and
/// the topics that are concerned.
pub(super) async fn replace(
    tx: &mut Tx,
    gone: &[i64],
) -> Result<(Vec<FencedBroker>, Vec<TopicId>), StoreFailure> {
    let rows: Vec<(Vec<u8>, i64, i64)> = sqlx::query_as(
        "SELECT topic_id, partition_index, leader FROM partitions WHERE leader = ANY($1)
         ORDER BY topic_id, partition_index FOR UPDATE",
    )
    .bind(gone)
    .fetch_all(&mut **tx)
    .await?;
    let leaders = spread(candidates(tx).await?, rows.len());
    let mut moved: BTreeMap<i64, u64> = gone.iter().map(|&node| (node, 0)).collect();
    for (&(.., former), _) in rows.iter().zip(&leaders) {
        *moved.entry(former).or_default() += 1;
    }
    let partitions: Vec<Partition> = rows
        .into_iter()
        .take(leaders.len())
        .map(|(topic, index, _)| (topic, index))
        .collect();
    set(tx, &partitions, &leaders).await?;
    // What was to move to them stays where it is.
    let staying: Vec<Partition> = sqlx::query_as(
        "UPDATE partitions SET moving_to = NULL WHERE moving_to = ANY($1)
         RETURNING topic_id, partition_index",
    )
    .bind(gone)
    .fetch_all(&mut **tx)
    .await?;
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

/// The partitions have these leaders from now on.
async fn set(tx: &mut Tx, partitions: &[Partition], leaders: &[i64]) -> Result<(), StoreFailure> {
    let (topics, indexes): (Vec<&[u8]>, Vec<i64>) = partitions
        .iter()
        .map(|(topic, index)| (topic.as_slice(), *index))
        .unzip();
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

fn topics_of(partitions: &[Partition]) -> Result<Vec<TopicId>, StoreFailure> {
    let ids: BTreeSet<&Vec<u8>> = partitions.iter().map(|(topic, _)| topic).collect();
    let ids: Vec<Vec<u8>> = ids.into_iter().cloned().collect();
    topics::ids_from_sql(&ids)
}

/// Records where partitions are to go. Their leaders hand them over.
pub(super) async fn plan_moves(meta: &PostgresMeta, moves: &[Move]) -> Result<(), ClusterError> {
    let mut tx = meta.begin().await?;
    let mut sorted: Vec<&Move> = moves.iter().collect();
    sorted.sort_unstable_by_key(|planned| (&planned.partition.topic, planned.partition.partition));
    let active: BTreeSet<i64> = candidates(&mut tx)
        .await?
        .into_iter()
        .map(|candidate| candidate.node)
        .collect();
    let mut planned = Vec::with_capacity(sorted.len());
    for &Move { ref partition, to } in sorted {
        if !active.contains(&i64::from(to.get())) {
            return Err(ClusterError::NodeNot(to, "active"));
        }
        let found: Option<Partition> = sqlx::query_as(
            "UPDATE partitions SET moving_to = CASE WHEN leader = $3 THEN NULL ELSE $3 END
             FROM topics WHERE partitions.topic_id = topics.topic_id AND name = $1 AND partition_index = $2
             RETURNING partitions.topic_id, partition_index",
        )
        .bind(partition.topic.as_str())
        .bind(i64::from(partition.partition))
        .bind(i64::from(to.get()))
        .fetch_optional(&mut *tx)
        .await
        .map_err(failure)?;
        planned.push(found.ok_or_else(|| ClusterError::UnknownPartition(partition.clone()))?);
    }
    let mut to: BTreeMap<NodeId, usize> = BTreeMap::new();
    for planned in moves {
        *to.entry(planned.to).or_default() += 1;
    }
    for (node, partitions) in to {
        let text = format!("{partitions} partitions move to node {node}.");
        let node = Some(i64::from(node.get()));
        events::record(&mut tx, ClusterEventKind::Moving, node, &text).await?;
    }
    let topics = topics_of(&planned)?;
    commit_change(tx, Change::Topics(&topics)).await?;
    Ok(())
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
