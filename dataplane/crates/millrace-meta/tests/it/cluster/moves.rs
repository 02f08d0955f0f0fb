//! Planned moves, and what brokers have to do.

use std::{collections::BTreeMap, time::Duration};

use millrace_meta::{
    BrokerLoad, ClusterError, ClusterStore, LedTopic, MetaStore, Move, PartitionLoad, Preferred,
};
use millrace_model::{NodeId, StreamEpoch, StreamId, TopicPartition};

use super::{Cluster, partition, streams_of};

#[tokio::test]
async fn partitions_are_handed_over_whole() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let topic = cluster.topic("t", 4).await;
    let streams = streams_of(&topic);
    let opened = cluster.meta.open_streams(&streams, one).await;
    let before = opened.expect("opens");
    let led = cluster.led().await.remove(0).leaders;
    let own = (0..4).filter(|&index| led[index as usize].node == Some(NodeId(1)));
    let to = |node: u32| {
        move |partition: TopicPartition| Move {
            partition,
            to: NodeId(node),
        }
    };
    let moves: Vec<Move> = own
        .map(|index| partition(&topic, index))
        .map(to(2))
        .collect();
    assert_eq!(moves.len(), 2);
    let planned = cluster.meta.plan_moves(&moves, Preferred::Keep).await;
    planned.expect("plans");
    let leader = |led: &[LedTopic]| led[0].leaders[moves[0].partition.partition as usize];
    let then = leader(&cluster.led().await);
    assert_eq!(
        (then.node, then.moving_to, then.preferred),
        (Some(NodeId(1)), Some(NodeId(2)), None)
    );

    let named: Vec<_> = moves
        .iter()
        .map(|planned| planned.partition.clone())
        .collect();
    let cancelled = cluster.meta.cancel_moves(&named).await;
    assert_eq!(cancelled.expect("cancels"), named);
    let stays = cluster.meta.hand_over(&moves, one).await;
    assert_eq!(stays.expect("they stay"), [], "their moves were cancelled");
    let planned = cluster.meta.plan_moves(&moves, Preferred::Keep).await;
    planned.expect("plans");

    let gone = [partition(&topic, 7)].map(to(2));
    let all = [&moves[..], &gone].concat();
    let handed = cluster.meta.hand_over(&all, one).await.expect("hands over");
    let given: Vec<TopicPartition> = moves
        .iter()
        .map(|planned| planned.partition.clone())
        .collect();
    assert_eq!(handed, given, "what is gone is left out");
    let after = leader(&cluster.led().await);
    assert_eq!((after.node, after.moving_to), (Some(NodeId(2)), None));
    assert!(after.epoch > then.epoch);
    let again = cluster.meta.hand_over(&moves, one).await;
    assert_eq!(again.expect("it was done"), given, "whose answer was lost");
    let opened = cluster.meta.open_streams(&streams, two).await;
    let opened = opened.expect("they are its own");
    assert_eq!(opened.len(), 4, "those that it was given");
    let epochs = |streams: &[millrace_meta::StreamMeta]| -> BTreeMap<StreamId, StreamEpoch> {
        streams.iter().map(|of| (of.id, of.epoch)).collect()
    };
    let (before, now) = (epochs(&before), epochs(&opened));
    assert!(now.iter().all(|(id, epoch)| *epoch > before[id]));
    let kept = epochs(
        &cluster
            .meta
            .open_streams(&streams, one)
            .await
            .expect("opens"),
    );
    assert_eq!(kept.len(), 4, "what is still its own");
    assert!(kept.keys().all(|id| !now.contains_key(id)));

    let nowhere: Vec<Move> = given.into_iter().map(to(9)).collect();
    let stays = cluster.meta.hand_over(&nowhere, two).await;
    assert_eq!(stays.expect("nothing to hand over"), []);
}

#[tokio::test]
async fn a_reassignment_makes_the_preferred_leader() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    cluster.join(2, "b").await;
    let topic = cluster.topic("t", 1).await;
    let at = partition(&topic, 0);
    let to = |node| Move {
        partition: at.clone(),
        to: NodeId(node),
    };
    let leader = async || cluster.led().await[0].leaders[0];
    assert_eq!(leader().await.preferred, None);
    let planned = cluster.meta.plan_moves(&[to(2)], Preferred::Set).await;
    planned.expect("plans");
    let (moving, preferred) = (leader().await.moving_to, leader().await.preferred);
    assert_eq!((moving, preferred), (Some(NodeId(2)), Some(NodeId(2))));
    // Whoever balances does not change it.
    let planned = cluster.meta.plan_moves(&[to(1)], Preferred::Keep).await;
    planned.expect("takes back");
    let (moving, preferred) = (leader().await.moving_to, leader().await.preferred);
    assert_eq!((moving, preferred), (None, Some(NodeId(2))));
    let unknown = Move {
        partition: partition(&topic, 7),
        to: NodeId(1),
    };
    let refused = cluster
        .meta
        .plan_moves(&[to(2), unknown], Preferred::Set)
        .await;
    assert!(
        matches!(refused, Err(ClusterError::UnknownPartition(_))),
        "{refused:?}"
    );
    let refused = cluster.meta.plan_moves(&[to(9)], Preferred::Set).await;
    assert!(
        matches!(refused, Err(ClusterError::NodeNot(NodeId(9), _))),
        "{refused:?}"
    );
    assert_eq!(leader().await.moving_to, None, "all or none");
    let planned = cluster.meta.plan_moves(&[to(2)], Preferred::Set).await;
    planned.expect("plans");
    let (named, other) = ([at.clone(), partition(&topic, 7)], [at.clone()]);
    let cancelled = cluster.meta.cancel_moves(&named).await;
    assert_eq!(
        cancelled.expect("cancels"),
        other,
        "the other one does not exist"
    );
    let (moving, preferred) = (leader().await.moving_to, leader().await.preferred);
    assert_eq!((moving, preferred), (None, Some(NodeId(1))));
    let again = cluster.meta.cancel_moves(&named).await;
    assert_eq!(again.expect("cancels nothing"), [], "it does not move");
    let handed = cluster.meta.hand_over(&[to(2)], one).await;
    assert_eq!(handed.expect("nothing is done"), [], "it is not open");
}

#[tokio::test]
async fn what_brokers_have_to_do_is_known_for_a_while() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    let two = cluster.join(2, "b").await;
    let topic = cluster.topic("t", 2).await;
    let load = |total| BrokerLoad {
        total,
        partitions: vec![PartitionLoad {
            partition: partition(&topic, 1),
            load: total / 2,
        }],
    };
    let report = async |epoch, total| cluster.meta.report_load(epoch, &load(total)).await;
    report(one, 7).await.expect("active");
    report(one, 1_000).await.expect("active");
    report(two, 0).await.expect("active");
    let loads = cluster.meta.loads(Duration::from_secs(60)).await;
    let expected = [(NodeId(1), load(1_000)), (NodeId(2), load(0))];
    assert_eq!(loads.expect("answers"), BTreeMap::from(expected));
    let loads = cluster.meta.loads(Duration::ZERO).await;
    assert_eq!(loads.expect("answers"), BTreeMap::new(), "that was earlier");
    cluster.join(1, "a").await;
    let refused = report(one, 1).await;
    assert!(
        matches!(refused, Err(ClusterError::Fenced(_))),
        "{refused:?}"
    );
}
