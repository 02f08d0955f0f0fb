//! Several brokers of one cluster: leases, fencing, leaders, owners, and the feed of changes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use millrace_meta::{
    AclRow, BrokerEndpoint, BrokerLoad, BrokerState, ChangedTopics, Changes, ClusterError,
    ClusterStore, Fenced, JoinError, Joining, LedTopic, MetaStore, Move, NewTopic, OpenStreamError,
    PartitionLoad, Preferred, StreamObject, Topic, Upload,
    postgres::{PostgresMeta, PostgresOptions},
};
use millrace_model::{
    NodeEpoch, NodeId, Offset, StreamEpoch, StreamId, StreamRange, TopicId, TopicName,
    TopicPartition,
};
use sqlx::Connection;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use uuid::Uuid;

use millrace_testkit::PostgresServer;

/// No lease runs out by itself, however busy the machine is: the tests end them.
const TTL: Duration = Duration::from_secs(3_600);
/// Long enough to see that somebody waits.
const A_WHILE: Duration = Duration::from_millis(300);

struct Cluster {
    _server: PostgresServer,
    address: String,
    meta: Arc<PostgresMeta>,
}

impl Cluster {
    async fn new() -> Self {
        let server = PostgresServer::start();
        let address = server.database().await;
        let meta = open(&address).await;
        Self {
            _server: server,
            address,
            meta,
        }
    }

    async fn join(&self, node: u32, rack: &str) -> NodeEpoch {
        let joined = self.meta.join(&joining(node, rack)).await;
        joined.expect("joins")
    }

    async fn hand_over(&self, moves: &[Move], from: NodeEpoch) {
        let planned = self.meta.plan_moves(moves, Preferred::Keep).await;
        planned.expect("plans");
        let handed = self.meta.hand_over(moves, from).await;
        assert_eq!(handed.expect("hands over").len(), moves.len());
    }

    async fn topic(&self, name: &str, partitions: u32) -> Topic {
        let id = name.bytes().fold(1, |id, byte| id * 257 + u128::from(byte));
        let topic = NewTopic {
            name: TopicName::new(name).expect("legal"),
            id: TopicId(Uuid::from_u128(id)),
            partitions,
            configs: BTreeMap::new(),
        };
        self.meta.create_topic(topic).await.expect("creates")
    }

    async fn led(&self) -> Vec<LedTopic> {
        match self.meta.changes_since(0).await.expect("reads").topics {
            ChangedTopics::All(topics) => topics,
            some @ ChangedTopics::Some { .. } => panic!("{some:?}"),
        }
    }

    /// How many partitions each of these nodes leads.
    async fn counts<const N: usize>(&self, nodes: [u32; N]) -> [usize; N] {
        let led = self.led().await;
        nodes.map(|node| {
            let leaders = led.iter().flat_map(|topic| &topic.leaders);
            leaders.filter(|of| of.node == Some(NodeId(node))).count()
        })
    }

    /// The leases of these nodes have run out, and the others' have been good for long.
    async fn expire(&self, nodes: &[u32]) {
        let of = nodes
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(", ");
        let statement = format!(
            "UPDATE nodes SET held_since = now() - INTERVAL '1 day';
             UPDATE nodes SET lease_until = now() - INTERVAL '1 second' WHERE node_id = ANY (ARRAY[{of}]::bigint[])"
        );
        PostgresServer::execute(&self.address, &statement).await;
    }

    /// The log of `node`, taken over by `by`, and the node gone.
    async fn take_over(&self, node: u32, by: NodeEpoch, streams: &[StreamId]) -> NodeEpoch {
        let adoption = self.meta.adopt_log(NodeId(node), by).await.expect("adopts");
        let opened = self.meta.open_streams(streams, adoption.epoch).await;
        assert_eq!(opened.expect("opens").len(), streams.len());
        self.meta.leave(adoption.epoch).await.expect("leaves");
        adoption.epoch
    }
}

async fn open(address: &str) -> Arc<PostgresMeta> {
    let options = PostgresOptions {
        connections_max: 4,
        lease_ttl: TTL,
        ..PostgresOptions::default()
    };
    Arc::new(PostgresMeta::open(address, options).await.expect("opens"))
}

fn joining(node: u32, rack: &str) -> Joining {
    Joining {
        node: NodeId(node),
        endpoints: vec![BrokerEndpoint {
            listener: "PLAINTEXT".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 9092,
        }],
        rack: Some(rack.to_owned()),
        version: "1.2.3".to_owned(),
        log: format!("/logs/{node}"),
        log_id: u64::MAX - u64::from(node),
    }
}

fn partition(topic: &Topic, partition: u32) -> TopicPartition {
    let topic = topic.name.clone();
    TopicPartition { topic, partition }
}

fn streams_of(topic: &Topic) -> Vec<StreamId> {
    let both = topic.partitions.iter().flat_map(|p| [p.data, p.meta]);
    both.collect()
}

#[tokio::test]
async fn partitions_are_spread_over_brokers_and_zones() {
    let cluster = Cluster::new().await;
    let early = cluster.topic("early", 2).await;
    assert!(
        cluster.led().await[0]
            .leaders
            .iter()
            .all(|of| of.node.is_none())
    );
    cluster.join(1, "a").await;
    assert_eq!(cluster.counts([1]).await, [2], "{early:?}");
    cluster.join(2, "a").await;
    cluster.join(3, "b").await;
    cluster.topic("later", 7).await;
    assert_eq!(cluster.counts([1, 2, 3]).await, [3, 3, 3]);
    let brokers = cluster.meta.brokers().await.expect("reads");
    assert_eq!(brokers.len(), 3);
    assert_eq!(brokers[2].joined, joining(3, "b"));
    assert_eq!(brokers[2].state, BrokerState::Active);
}

#[tokio::test]
async fn a_stream_of_a_broker_is_no_other_brokers() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let streams = streams_of(&cluster.topic("t", 1).await);
    cluster
        .meta
        .open_streams(&streams, one)
        .await
        .expect("opens");
    let refused = cluster.meta.open_streams(&streams, two).await;
    assert!(
        matches!(&refused, Ok(opened) if opened.is_empty()),
        "{refused:?}"
    );
    // A restart of the owner may open them, the former start may not any more.
    let again = cluster.join(1, "a").await;
    let refused = cluster.meta.open_streams(&streams, one).await;
    assert!(matches!(refused, Err(OpenStreamError::Fenced(Fenced(epoch))) if epoch == one));
    let refused = cluster.meta.open_streams(&streams, two).await;
    assert!(
        matches!(&refused, Ok(opened) if opened.is_empty()),
        "{refused:?}"
    );
    cluster
        .meta
        .open_streams(&streams, again)
        .await
        .expect("opens");
    // Released, they are whoever opens them first.
    cluster
        .meta
        .release_streams(&streams, again)
        .await
        .expect("releases");
    cluster
        .meta
        .open_streams(&streams, two)
        .await
        .expect("opens");
    let refused = cluster.meta.release_streams(&streams, again).await;
    assert!(
        matches!(refused, Err(ClusterError::NotOwner(_))),
        "{refused:?}"
    );
}

/// The streams of the partitions that the node leads.
fn led_by(topic: &LedTopic, node: u32) -> Vec<StreamId> {
    let partitions = topic.topic.partitions.iter().zip(&topic.leaders);
    partitions
        .filter(|(_, leader)| leader.node == Some(NodeId(node)))
        .flat_map(|(partition, _)| [partition.data, partition.meta])
        .collect()
}

#[tokio::test]
async fn a_broker_whose_lease_runs_out_is_fenced() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let three = cluster.join(3, "c").await;
    cluster.topic("t", 9).await;
    let of_one = led_by(&cluster.led().await[0], 1);
    assert_eq!(of_one.len(), 6);
    let meta = &cluster.meta;
    meta.open_streams(&of_one, one).await.expect("opens");
    cluster.expire(&[1]).await;

    let fenced = meta.fence_expired(two).await.expect("judges");
    assert_eq!(fenced.len(), 1);
    assert_eq!((fenced[0].node, fenced[0].partitions_moved), (NodeId(1), 3));
    assert_eq!(cluster.counts([1, 2, 3]).await, [0, 5, 4]);
    let again = meta.fence_expired(three).await.expect("judges");
    assert!(again.is_empty(), "once is enough: {again:?}");

    // It wakes: nothing that it does counts.
    let renewed = meta.renew_lease(one).await;
    assert!(
        matches!(renewed, Err(ClusterError::Fenced(_))),
        "{renewed:?}"
    );
    let reserved = meta.reserve_objects(one, 1).await;
    assert!(reserved.is_err(), "{reserved:?}");
    // The new leader waits for the log.
    let refused = meta.open_streams(&of_one[..2], two).await;
    assert!(
        matches!(&refused, Ok(opened) if opened.is_empty()),
        "{refused:?}"
    );
}

/// The database was away for a little less than a lease. Whoever gets through first must not fence those that wait behind it.
#[tokio::test]
async fn a_renewal_that_comes_late_makes_no_judge() {
    let cluster = Cluster::new().await;
    let epochs = [cluster.join(1, "a").await, cluster.join(2, "b").await];
    let late = "UPDATE nodes SET held_since = now() - INTERVAL '1 day';
                UPDATE nodes SET lease_until = now() + INTERVAL '1 minute' WHERE node_id = 1;
                UPDATE nodes SET lease_until = now() - INTERVAL '1 second' WHERE node_id = 2";
    PostgresServer::execute(&cluster.address, late).await;
    // Its own lease is only the last one to run out.
    let fenced = cluster.meta.fence_expired(epochs[0]).await.expect("judges");
    assert!(fenced.is_empty(), "before its renewal: {fenced:?}");
    cluster.meta.renew_lease(epochs[0]).await.expect("renews");
    let fenced = cluster.meta.fence_expired(epochs[0]).await.expect("judges");
    assert!(fenced.is_empty(), "{fenced:?}");
    cluster.meta.renew_lease(epochs[1]).await.expect("renews");
}

/// Its lead was given to others, and nobody has taken its log over before it came back.
#[tokio::test]
async fn a_restart_gives_up_what_its_log_has_nothing_of() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let streams = streams_of(&cluster.topic("t", 3).await);
    let meta = &cluster.meta;
    meta.open_streams(&streams[..4], one).await.expect("opens");
    cluster.expire(&[1]).await;
    meta.fence_expired(two).await.expect("judges");
    let again = cluster.join(1, "a").await;
    let kept = meta.reopen_streams(&streams[2..3], again).await;
    assert_eq!(kept.expect("reopens").len(), 1);
    let opened = meta.open_streams(&streams[..4], two).await.expect("opens");
    let ids: Vec<StreamId> = opened.iter().map(|stream| stream.id).collect();
    assert_eq!(ids, [streams[0], streams[1], streams[3]]);
}

#[tokio::test]
async fn a_restart_opens_what_is_still_its_own() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let streams = streams_of(&cluster.topic("t", 3).await);
    let meta = &cluster.meta;
    meta.open_streams(&streams[..4], one).await.expect("opens");
    meta.release_streams(&streams[..2], one)
        .await
        .expect("releases");
    meta.open_streams(&streams[..1], two).await.expect("opens");
    let again = cluster.join(1, "a").await;
    let reopened = meta.reopen_streams(&streams, again).await.expect("reopens");
    let ids: Vec<StreamId> = reopened.iter().map(|stream| stream.id).collect();
    assert_eq!(
        ids,
        streams[2..4],
        "neither another's, nor one that is free"
    );
}

#[tokio::test]
async fn a_node_whose_log_may_have_the_newest_records_joins_with_that_log_only() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    let streams = streams_of(&cluster.topic("t", 1).await);
    let other = Joining {
        log_id: 7,
        ..joining(1, "a")
    };
    // Nothing was written to the former one.
    let meta = &cluster.meta;
    meta.join(&other).await.expect("joins");
    let again = cluster.join(1, "a").await;
    assert!(again > one);
    meta.open_streams(&streams, again).await.expect("opens");
    let refused = meta.join(&other).await;
    assert!(
        matches!(&refused, Err(JoinError::OtherLog { streams: 2, log, expected, .. })
            if log == "/logs/1" && *expected == u64::MAX - 1),
        "{refused:?}"
    );
    let again = cluster.join(1, "a").await;
    meta.leave(again).await.expect("leaves");
    meta.join(&other).await.expect("its log was empty");
}

#[tokio::test]
async fn a_fenced_brokers_log_is_taken_over_once() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let three = cluster.join(3, "c").await;
    cluster.topic("t", 9).await;
    let streams = led_by(&cluster.led().await[0], 1);
    let meta = &cluster.meta;
    meta.open_streams(&streams, one).await.expect("opens");
    let early = meta.adopt_log(NodeId(1), two).await;
    assert!(matches!(early, Err(ClusterError::NodeNot(..))), "{early:?}");
    cluster.expire(&[1]).await;
    meta.fence_expired(two).await.expect("judges");

    let adoption = meta.adopt_log(NodeId(1), two).await.expect("adopts");
    assert_eq!(adoption.log, "/logs/1");
    let other = meta.adopt_log(NodeId(1), three).await;
    assert!(
        matches!(other, Err(ClusterError::Adopted { adopter, .. }) if adopter == two),
        "{other:?}"
    );
    let back = meta.join(&joining(1, "a")).await;
    assert!(
        matches!(back, Err(JoinError::BeingAdopted { .. })),
        "{back:?}"
    );
    meta.open_streams(&streams, adoption.epoch)
        .await
        .expect("opens");
    upload(meta, adoption.epoch, streams[0], 0, 10).await;
    // A stream may be given up before the others.
    let early = &streams[2..4];
    meta.release_streams(early, adoption.epoch)
        .await
        .expect("releases");
    meta.open_streams(early, three).await.expect("opens");
    meta.leave(adoption.epoch).await.expect("leaves");

    let opened = meta.open_streams(&streams[..1], two).await.expect("opens");
    assert_eq!(opened[0].end, 10, "what was acknowledged is there");
    meta.join(&joining(1, "a"))
        .await
        .expect("the node may come back");
    assert_eq!(cluster.counts([1, 2, 3]).await, [0, 5, 4]);
}

#[tokio::test]
async fn any_broker_can_ask_how_far_a_stream_is_committed() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    let topic = cluster.topic("t", 1).await;
    let streams = streams_of(&topic);
    let (meta, stream) = (&cluster.meta, streams[0]);
    let range = async || {
        let range = meta.committed_range(stream).await.expect("reads");
        range.map(|range| (range.start, range.end))
    };
    assert_eq!(range().await, Some((0, 0)));
    meta.open_streams(&streams, one).await.expect("opens");
    upload(meta, one, stream, 0, 10).await;
    assert_eq!(range().await, Some((0, 10)));
    meta.trim_stream(stream, one, 4).await.expect("trims");
    assert_eq!(range().await, Some((4, 10)));
    // Trimmed before it was uploaded.
    meta.trim_stream(stream, one, 12).await.expect("trims");
    assert_eq!(range().await, Some((12, 10)));
    meta.delete_topic(&topic.name).await.expect("deletes");
    assert_eq!(range().await, None);
}

async fn upload(
    meta: &PostgresMeta,
    node_epoch: NodeEpoch,
    stream: StreamId,
    start: Offset,
    end: Offset,
) {
    let id = meta.reserve_objects(node_epoch, 1).await.expect("an id");
    let range = StreamRange { stream, start, end };
    let upload = Upload {
        node_epoch,
        stream_set: None,
        stream_objects: vec![StreamObject {
            id,
            size: 100,
            range,
        }],
    };
    meta.commit_upload(upload).await.expect("commits");
}

#[tokio::test]
async fn an_adopter_that_dies_is_replaced() {
    let cluster = Cluster::new().await;
    let (one, two) = (cluster.join(1, "a").await, cluster.join(2, "b").await);
    let three = cluster.join(3, "c").await;
    let streams = streams_of(&cluster.topic("t", 1).await);
    cluster
        .meta
        .open_streams(&streams, one)
        .await
        .expect("opens");
    cluster.expire(&[1]).await;
    cluster.meta.fence_expired(three).await.expect("judges");
    let first = cluster
        .meta
        .adopt_log(NodeId(1), two)
        .await
        .expect("adopts");
    cluster
        .meta
        .open_streams(&streams, first.epoch)
        .await
        .expect("opens");
    // It dies before it has uploaded anything.
    cluster.expire(&[2]).await;
    let second = cluster.take_over(1, three, &streams).await;
    let late = cluster.meta.open_streams(&streams, first.epoch).await;
    assert!(matches!(late, Err(OpenStreamError::Fenced(_))), "{late:?}");
    assert!(second > first.epoch);
    let fenced = cluster.meta.fence_expired(three).await.expect("judges");
    assert_eq!(fenced.len(), 1);
    cluster
        .meta
        .open_streams(&streams, three)
        .await
        .expect("opens");
}

#[tokio::test]
async fn after_an_outage_of_the_database_nobody_is_fenced() {
    let cluster = Cluster::new().await;
    let epochs = [cluster.join(1, "a").await, cluster.join(2, "b").await];
    // Nobody could renew for longer than a lease.
    cluster.expire(&[1, 2]).await;
    cluster.meta.renew_lease(epochs[0]).await.expect("renews");
    let fenced = cluster.meta.fence_expired(epochs[0]).await.expect("judges");
    assert!(
        fenced.is_empty(),
        "its own lease had run out as well: {fenced:?}"
    );
    cluster.meta.renew_lease(epochs[1]).await.expect("renews");
    cluster.expire(&[]).await;
    let fenced = cluster.meta.fence_expired(epochs[0]).await.expect("judges");
    assert!(fenced.is_empty(), "the other is back: {fenced:?}");
}

#[tokio::test]
async fn a_long_change_of_a_broker_keeps_no_lease_from_being_renewed() {
    let cluster = Cluster::new().await;
    let one = cluster.join(1, "a").await;
    let mut other = sqlx::PgConnection::connect(&cluster.address)
        .await
        .expect("connects");
    let mut change = other.begin().await.expect("begins");
    // As every change of a stream or an object does.
    sqlx::query("SELECT FROM nodes FOR KEY SHARE")
        .execute(&mut *change)
        .await
        .expect("locks");
    let renewed = timeout(A_WHILE * 50, cluster.meta.renew_lease(one)).await;
    renewed.expect("does not wait").expect("renews");
    let restart = tokio::spawn({
        let meta = Arc::clone(&cluster.meta);
        async move { meta.join(&joining(1, "a")).await }
    });
    sleep(A_WHILE).await;
    assert!(!restart.is_finished(), "a new start waits for the change");
    change.commit().await.expect("commits");
    restart.await.expect("ends").expect("joins");
}

#[tokio::test]
async fn two_of_five_die_at_once_and_every_judge_agrees() {
    let cluster = Cluster::new().await;
    let mut epochs = Vec::new();
    for node in 1..=5 {
        epochs.push(cluster.join(node, ["a", "b", "c"][node as usize % 3]).await);
    }
    cluster.topic("t", 100).await;
    cluster.expire(&[4, 5]).await;
    let mut judges = JoinSet::new();
    for &judge in &epochs[..3] {
        let meta = open(&cluster.address).await;
        judges.spawn(async move {
            meta.renew_lease(judge).await.expect("renews");
            meta.fence_expired(judge).await.expect("judges")
        });
    }
    let fenced = judges.join_all().await.concat();
    let nodes: Vec<NodeId> = fenced.iter().map(|broker| broker.node).collect();
    assert_eq!(nodes, [NodeId(4), NodeId(5)], "each once");
    let counts = cluster.counts([1, 2, 3, 4, 5]).await;
    assert_eq!(counts.iter().sum::<usize>(), 100);
    assert!(counts[..3].iter().all(|&count| count >= 33), "{counts:?}");
}

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

/// What a broker that follows the feed knows.
#[derive(Debug, Default, PartialEq, Eq)]
struct View {
    revision: u64,
    topics: BTreeMap<TopicId, LedTopic>,
    brokers: Vec<millrace_meta::Broker>,
    security_changes: u32,
}

impl View {
    fn apply(&mut self, changes: Changes) {
        self.revision = changes.revision;
        match changes.topics {
            ChangedTopics::All(topics) => {
                self.topics = topics.into_iter().map(|of| (of.topic.id, of)).collect();
            }
            ChangedTopics::Some { named, present } => {
                self.topics.retain(|id, _| !named.contains(id));
                self.topics
                    .extend(present.into_iter().map(|of| (of.topic.id, of)));
            }
        }
        self.brokers = changes.brokers.unwrap_or(std::mem::take(&mut self.brokers));
        self.security_changes += u32::from(changes.security);
    }
}

#[tokio::test]
async fn who_follows_the_feed_knows_what_who_reads_everything_knows() {
    let cluster = Cluster::new().await;
    let mut view = View::default();
    let mut follow = async |what: &str| {
        view.apply(
            cluster
                .meta
                .changes_since(view.revision)
                .await
                .expect("reads"),
        );
        let mut whole = View::default();
        whole.apply(cluster.meta.changes_since(0).await.expect("reads"));
        assert_eq!(view.topics, whole.topics, "{what}");
        assert_eq!(view.brokers, whole.brokers, "{what}");
        assert_eq!(view.revision, whole.revision, "{what}");
        (view.revision, view.security_changes)
    };
    follow("empty").await;
    let one = cluster.join(1, "a").await;
    follow("one joined").await;
    let topic = cluster.topic("t", 3).await;
    cluster.topic("u", 2).await;
    let (revision, _) = follow("topics created").await;
    assert_eq!(revision, 3, "one each");
    let two = cluster.join(2, "b").await;
    cluster
        .meta
        .create_partitions(&topic.name, 6)
        .await
        .expect("grows");
    follow("grown").await;
    cluster
        .meta
        .open_streams(&streams_of(&topic), one)
        .await
        .expect("opens");
    let at = partition(&topic, 1);
    let to = NodeId(2);
    let moves = [Move { partition: at, to }];
    cluster.hand_over(&moves, one).await;
    let (_, none) = follow("handed over").await;
    cluster
        .meta
        .delete_topic(&topic.name)
        .await
        .expect("deletes");
    let acl = AclRow {
        resource_type: 2,
        resource_name: "t".to_owned(),
        pattern_type: 3,
        principal: "User:a".to_owned(),
        host: "*".to_owned(),
        operation: 2,
        permission: 3,
    };
    cluster
        .meta
        .change_acls(vec![acl], Vec::new())
        .await
        .expect("changes");
    let (_, some) = follow("deleted").await;
    assert_eq!(some, none + 1);
    cluster.expire(&[1]).await;
    cluster.meta.fence_expired(two).await.expect("judges");
    let (last, _) = follow("fenced").await;
    assert_eq!(last, cluster.meta.cluster_revision().await.expect("reads"));
    // A revision that never was, as after the database was restored from an older backup: all is read.
    let beyond = cluster.meta.changes_since(last + 5).await.expect("reads");
    assert!(matches!(beyond.topics, ChangedTopics::All(_)), "{beyond:?}");
}

#[tokio::test]
async fn revisions_have_no_gap_whoever_writes() {
    let cluster = Cluster::new().await;
    cluster.join(1, "a").await;
    let before = cluster.meta.cluster_revision().await.expect("reads");
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let meta = open(&cluster.address).await;
        writers.spawn(async move {
            for nth in 0..25_u128 {
                let topic = NewTopic {
                    name: TopicName::new(format!("t{writer}-{nth}")).expect("legal"),
                    id: TopicId(Uuid::from_u128(writer * 100 + nth + 1)),
                    partitions: 1,
                    configs: BTreeMap::new(),
                };
                meta.create_topic(topic).await.expect("creates");
            }
        });
    }
    let mut view = View::default();
    while view.topics.len() < 100 {
        let changes = cluster
            .meta
            .changes_since(view.revision)
            .await
            .expect("reads");
        view.apply(changes);
    }
    writers.join_all().await;
    assert_eq!(view.revision, before + 100);
}
