//! Gives everything away before the broker stops.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use millrace_log::LogManager;
use millrace_meta::{Broker, Move};
use millrace_model::{NodeId, TopicPartition};
use tokio::sync::watch;

use super::Membership;

/// Partitions that one transaction plans to move.
const MOVES_PER_TRANSACTION: usize = 200;

/// How often it is looked at what is left.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// The pause after a failure.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// Moves every partition that this broker leads to the others, and resolves when it leads none; at once where there are no
/// others.
pub(crate) async fn drain(
    membership: &Membership,
    logs: &LogManager,
    brokers: &watch::Receiver<Arc<Vec<Broker>>>,
) {
    while let Err(error) = membership.store.begin_drain(membership.epoch).await {
        tracing::warn!(%error, "the others cannot be told that this broker is about to stop; trying again");
        tokio::time::sleep(FAILURE_PAUSE).await;
    }
    loop {
        let others = others(&brokers.borrow(), membership.node);
        let led = logs.led_here();
        if led.is_empty() || others.is_empty() {
            return;
        }
        let unplanned = led.into_iter().filter(|(_, is_moving)| !is_moving);
        let unplanned: Vec<TopicPartition> = unplanned.map(|(partition, _)| partition).collect();
        let moves = spread(unplanned, logs, others);
        let mut pause = LOOK_PAUSE;
        for planned in moves.chunks(MOVES_PER_TRANSACTION) {
            if let Err(error) = membership.store.plan_moves(planned).await {
                tracing::warn!(%error, "partitions cannot be moved away; trying again");
                pause = FAILURE_PAUSE;
                break;
            }
        }
        tokio::time::sleep(pause).await;
    }
}

fn others(brokers: &[Broker], own: NodeId) -> Vec<NodeId> {
    let active = brokers
        .iter()
        .filter(|broker| broker.may_lead() && broker.joined.node != own);
    active.map(|broker| broker.joined.node).collect()
}

/// Each partition to the broker that leads the fewest.
fn spread(partitions: Vec<TopicPartition>, logs: &LogManager, to: Vec<NodeId>) -> Vec<Move> {
    let mut led: BTreeMap<NodeId, usize> = to.into_iter().map(|node| (node, 0)).collect();
    for node in logs.leaders() {
        led.entry(node).and_modify(|count| *count += 1);
    }
    let mut moves = Vec::with_capacity(partitions.len());
    for partition in partitions {
        let least = led.iter_mut().min_by_key(|(_, count)| **count);
        let Some((&to, count)) = least else { break };
        *count += 1;
        moves.push(Move { partition, to });
    }
    moves
}
