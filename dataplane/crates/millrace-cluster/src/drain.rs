//! Gives everything away that this broker leads: before it stops, and where somebody asks for it.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use millrace_log::LogManager;
use millrace_meta::{Broker, ClusterError, ClusterStore, Leader, Move, Preferred};
use millrace_model::{NodeId, TopicPartition};

use crate::cluster::{Membership, View};

/// Partitions that one transaction plans to move.
const MOVES_PER_TRANSACTION: usize = 200;

/// How often the remaining partitions are counted.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// How long to wait for other brokers' changes.
const CATCH_UP_WAIT: Duration = Duration::from_secs(5);

/// The pause after a failure.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// Marks this broker as draining, and resolves when it leads nothing; at once where there are no others. [`keep_drained`] plans the
/// moves.
pub(crate) async fn drain(view: &View) {
    let Membership { store, epoch, .. } = &view.membership;
    while let Err(error) = store.begin_drain(*epoch).await {
        if matches!(error, ClusterError::Fenced(_)) {
            return;
        }
        tracing::warn!(%error, "this broker cannot be marked as draining; trying again");
        tokio::time::sleep(FAILURE_PAUSE).await;
    }
    // Partitions that it was given just before count as well.
    view.logs.catch_up(CATCH_UP_WAIT).await;
    while !is_drained(view) {
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Plans moves for what this broker leads for as long as it is draining: because it is about to stop, or because somebody asked for it.
/// What it is given later, and moves whose targets fail, are planned again.
pub(crate) async fn keep_drained(view: View) -> Infallible {
    let Membership {
        store, node, epoch, ..
    } = &view.membership;
    let is_asked = |brokers: &Arc<Vec<Broker>>| {
        let own = brokers.iter().find(|broker| broker.epoch == *epoch);
        own.is_some_and(|own| own.is_draining)
    };
    let mut brokers = view.brokers.clone();
    loop {
        if brokers.wait_for(is_asked).await.is_err() {
            // The broker ends.
            return std::future::pending().await;
        }
        let mut changes = view.logs.changes();
        if is_drained(&view) {
            tokio::select! {
                _ = changes.changed() => {}
                _ = brokers.changed() => {}
            }
            continue;
        }
        let all = Arc::clone(&view.brokers.borrow());
        match plan(&**store, *node, &view.logs, &all).await {
            // Otherwise the same moves would be planned again.
            Ok(()) => drop(view.logs.catch_up(CATCH_UP_WAIT).await),
            Err(error) => {
                tracing::warn!(%error, "partitions cannot be moved away; trying again");
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// Whether this broker leads nothing, or no other broker could.
fn is_drained(view: &View) -> bool {
    let node = view.membership.node;
    let leads = |(_, leader): &(TopicPartition, Leader)| leader.node == Some(node);
    others(&view.brokers.borrow(), node).is_empty() || !view.logs.leaders().iter().any(leads)
}

/// Plans a move for each partition that `node` leads and that is not on its way.
async fn plan(
    store: &dyn ClusterStore,
    node: NodeId,
    logs: &LogManager,
    brokers: &[Broker],
) -> Result<(), ClusterError> {
    let moves = moves(node, logs.leaders(), others(brokers, node));
    for planned in moves.chunks(MOVES_PER_TRANSACTION) {
        store.plan_moves(planned, Preferred::Keep).await?;
    }
    Ok(())
}

fn others(brokers: &[Broker], but: NodeId) -> Vec<NodeId> {
    let others = brokers
        .iter()
        .filter(|broker| broker.may_lead() && broker.joined.node != but);
    others.map(|broker| broker.joined.node).collect()
}

/// Each partition goes to the broker that leads the fewest.
fn moves(from: NodeId, leaders: Vec<(TopicPartition, Leader)>, to: Vec<NodeId>) -> Vec<Move> {
    let mut led: BTreeMap<NodeId, usize> = to.into_iter().map(|node| (node, 0)).collect();
    for (_, leader) in &leaders {
        let node = leader.moving_to.or(leader.node);
        node.and_then(|node| led.get_mut(&node))
            .into_iter()
            .for_each(|count| *count += 1);
    }
    let mut moves = Vec::new();
    for (partition, leader) in leaders {
        if leader.node != Some(from) || leader.moving_to.is_some() {
            continue;
        }
        let least = led.iter_mut().min_by_key(|(_, count)| **count);
        let Some((&to, count)) = least else { break };
        *count += 1;
        moves.push(Move { partition, to });
    }
    moves
}

#[cfg(test)]
mod tests {
    use millrace_model::TopicName;

    use super::*;

    fn led(partition: u32, node: u32, moving_to: Option<u32>) -> (TopicPartition, Leader) {
        let topic = TopicName::new("t").expect("legal");
        let leader = Leader {
            node: Some(NodeId(node)),
            epoch: 1,
            moving_to: moving_to.map(NodeId),
            preferred: None,
        };
        (TopicPartition { topic, partition }, leader)
    }

    #[test]
    fn what_a_broker_leads_is_spread_over_the_others() {
        let leaders = vec![
            led(0, 1, None),
            led(1, 1, None),
            led(2, 1, Some(3)),
            led(3, 2, None),
            led(4, 1, None),
            led(5, 1, None),
        ];
        let moves = moves(NodeId(1), leaders, vec![NodeId(2), NodeId(3)]);
        let moves: Vec<(u32, u32)> = moves
            .iter()
            .map(|planned| (planned.partition.partition, planned.to.get()))
            .collect();
        assert_eq!(moves, [(0, 2), (1, 3), (4, 2), (5, 3)]);
    }

    #[test]
    fn nothing_moves_where_nobody_is() {
        assert_eq!(moves(NodeId(1), vec![led(0, 1, None)], Vec::new()), []);
    }
}
