//! Several brokers of one cluster.

mod conflicts;
mod connections;
mod feed;
mod leases;
mod moves;
mod ownership;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use millrace_meta::{
    BrokerEndpoint, BrokerState, ChangedTopics, ClusterStore, Joining, LedTopic, MetaStore, Move,
    NewTopic, Preferred, StreamObject, Topic, Upload,
    postgres::{PostgresMeta, PostgresOptions},
};
use millrace_model::{
    NodeEpoch, NodeId, Offset, StreamId, StreamRange, TopicId, TopicName, TopicPartition,
};
use sqlx::Connection;
use uuid::Uuid;

use millrace_testkit::PostgresServer;

/// No lease runs out by itself, however busy the machine is: the tests end them.
const TTL: Duration = Duration::from_secs(3_600);

/// Long enough to see that somebody waits.
const A_WHILE: Duration = Duration::from_millis(300);

struct Cluster {
    server: PostgresServer,
    address: String,
    meta: Arc<PostgresMeta>,
}

/// Locks that a connection of the test's own holds until they are released, or dropped.
struct Locks(sqlx::PgConnection);

impl Locks {
    /// Those that a statement takes.
    async fn take(cluster: &Cluster, statement: &'static str) -> Self {
        let mut connection = cluster.connect().await;
        for sql in ["BEGIN", statement] {
            let locked = sqlx::query(sql).execute(&mut connection).await;
            locked.expect("locks");
        }
        Self(connection)
    }

    /// Gives the time just before, in seconds, by the database's clock.
    async fn release(mut self) -> f64 {
        let now = "SELECT extract(epoch FROM clock_timestamp())::float8";
        let now = sqlx::query_scalar(now).fetch_one(&mut self.0).await;
        let released = sqlx::query("ROLLBACK").execute(&mut self.0).await;
        released.expect("ends");
        now.expect("reads")
    }
}

impl Cluster {
    async fn new() -> Self {
        let server = PostgresServer::start();
        let address = server.database().await;
        let meta = open(&address).await;
        Self {
            server,
            address,
            meta,
        }
    }

    /// A connection of its own, whose changes brokers have to wait for.
    async fn connect(&self) -> sqlx::PgConnection {
        let connection = sqlx::PgConnection::connect(&self.address).await;
        connection.expect("connects")
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

/// The streams of the partitions that the node leads.
fn led_by(topic: &LedTopic, node: u32) -> Vec<StreamId> {
    let partitions = topic.topic.partitions.iter().zip(&topic.leaders);
    partitions
        .filter(|(_, leader)| leader.node == Some(NodeId(node)))
        .flat_map(|(partition, _)| [partition.data, partition.meta])
        .collect()
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
