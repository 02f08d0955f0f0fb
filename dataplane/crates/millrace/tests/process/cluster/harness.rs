//! Starts, stops and asks the brokers of a cluster.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use millrace_client::{
    Admin, Client, ClientConfig, Producer, ProducerConfig, ProducerRecord, admin::NewTopic,
    transport::BrokerAddress,
};
use millrace_record::{BatchBuilder, Compression, header_of, records};
use millrace_testkit::PostgresServer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{Home, Running, free_address};

/// Leases are ended by the tests, not by a machine that is busy; a broker looks at them twelve times as often.
const SESSION_TIMEOUT: &str = "broker.session.timeout.ms=30000";

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const TOPIC: &str = "t";

pub(crate) const PARTITIONS: i32 = 6;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub(crate) struct Node {
    pub(crate) home: Home,
    admin: SocketAddr,
}

pub(crate) struct Cluster {
    _server: PostgresServer,
    database: String,
    settings: &'static str,
    shared: TempDir,
    pub(crate) nodes: BTreeMap<u32, Node>,
    pub(crate) brokers: BTreeMap<u32, Running>,
}

impl Cluster {
    pub(crate) async fn start<const N: usize>(nodes: [u32; N]) -> Self {
        Self::start_with(nodes, "leader.balance.interval.ms=0").await
    }

    pub(crate) async fn start_with<const N: usize>(
        nodes: [u32; N],
        settings: &'static str,
    ) -> Self {
        let server = PostgresServer::start();
        let database = server.database().await;
        let shared = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(shared.path().join("token"), TOKEN).expect("writable");
        let mut cluster = Self {
            _server: server,
            database,
            settings,
            shared,
            nodes: BTreeMap::new(),
            brokers: BTreeMap::new(),
        };
        for node in nodes {
            cluster.start_node(node).await;
        }
        cluster
    }

    pub(crate) async fn start_node(&mut self, node: u32) {
        self.start_node_with(node, self.settings).await;
    }

    pub(crate) async fn start_node_with(&mut self, node: u32, settings: &str) {
        let (database, shared) = (&self.database, self.shared.path().display());
        let of_node = || {
            let admin = free_address();
            let home = Home::with(&format!(
                "node.id={node}\ncluster.id=test\nbroker.rack=zone-{node}\n\
                 metadata.database.url={database}\n{SESSION_TIMEOUT}\n\
                 s3.data.buckets=0@file://{shared}/objects\ns3.block.cache.size=16MiB\n\
                 admin.listener={admin}\nadmin.token.file={shared}/token\n\
                 offsets.topic.num.partitions=4\nauto.create.topics.enable=false\n{settings}"
            ));
            Node { home, admin }
        };
        let started = self.nodes.entry(node).or_insert_with(of_node).home.start();
        self.brokers.insert(node, started.await);
    }

    /// Drains, leaves, and ends.
    pub(crate) async fn stop_node(&mut self, node: u32) {
        let broker = self.brokers.remove(&node).expect("it runs");
        let status = broker.terminate().await;
        assert!(
            status.success(),
            "{status}: {}",
            self.nodes[&node].home.log()
        );
    }

    pub(crate) fn kill_node(&mut self, node: u32) {
        self.brokers.remove(&node).expect("it runs").kill_9();
    }

    /// The leases of these nodes have run out.
    pub(crate) async fn expire(&self, node: u32) {
        let statement = format!(
            "UPDATE nodes SET held_since = now() - INTERVAL '1 day';
             UPDATE nodes SET lease_until = now() - INTERVAL '1 second' WHERE node_id = {node}"
        );
        PostgresServer::execute(&self.database, &statement).await;
    }

    pub(crate) fn signal(&self, node: u32, signal: Signal) {
        let pid = i32::try_from(self.brokers[&node].child.id()).ok();
        let pid = pid.and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("our child");
    }

    pub(crate) async fn get(&self, node: u32, path: &str) -> Value {
        let answer = self.ask(node, "GET", path, "").await;
        serde_json::from_str(&answer).expect("JSON")
    }

    /// The body of a successful answer of the admin HTTP.
    pub(crate) async fn ask(&self, node: u32, method: &str, path: &str, body: &str) -> String {
        let address = self.nodes[&node].admin;
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.expect("open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 2"), "{answer}");
        body.to_owned()
    }

    pub(crate) fn client(&self) -> Client {
        let bootstrap = self.brokers.values().map(|broker| {
            let address = broker.kafka;
            BrokerAddress::new(&address.ip().to_string(), address.port())
        });
        Client::new(ClientConfig::with_addresses(bootstrap.collect()))
    }

    pub(crate) async fn create_topic(&self) {
        let client = self.client();
        let topic = NewTopic::new(TOPIC).partitions(PARTITIONS);
        let results = Admin::new(&client).create_topics(&[topic]).await;
        let results = results.expect("a broker answers");
        assert!(results[TOPIC].is_ok(), "{results:?}");
        let partitions = u64::try_from(PARTITIONS).expect("few");
        for &node in self.brokers.keys() {
            self.until(node, |brokers| {
                brokers.iter().map(|(.., leaders)| leaders).sum::<u64>() == partitions
            })
            .await;
        }
        let opening = async {
            loop {
                let mut open = 0;
                for &node in self.brokers.keys() {
                    let topics = self.get(node, "/v1/topics?include=partitions").await;
                    open += opened(&topics["topics"]);
                }
                if open == partitions {
                    break;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, opening)
            .await
            .expect("each opens its own");
    }

    /// Node, state and leaders of each broker, as a broker tells them.
    pub(crate) async fn brokers_by(&self, node: u32) -> Vec<(u64, String, u64)> {
        let view = self.get(node, "/v1/cluster").await;
        let brokers = view["brokers"].as_array().expect("a list").iter();
        let told = |broker: &Value| {
            let state = broker["state"].as_str().expect("a state").to_owned();
            let number = |name: &str| broker[name].as_u64().expect("a number");
            (number("node_id"), state, number("leaders"))
        };
        brokers.map(told).collect()
    }

    pub(crate) async fn until(&self, node: u32, holds: impl Fn(&[(u64, String, u64)]) -> bool) {
        let waiting = async {
            while !holds(&self.brokers_by(node).await) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "{:?}", self.brokers_by(node).await);
    }

    /// The values of each partition in the order of their offsets, each read from its leader.
    pub(crate) async fn read_all(&self, per_partition: usize) -> BTreeMap<i32, Vec<String>> {
        let mut all = BTreeMap::new();
        for partition in 0..PARTITIONS {
            all.insert(partition, self.read(partition, per_partition).await);
        }
        all
    }

    pub(crate) async fn read(&self, partition: i32, count: usize) -> Vec<String> {
        let mut read: Vec<(i64, String)> = Vec::new();
        let reading = async {
            while read.len() < count {
                let next = i64::try_from(read.len()).expect("few");
                for broker in self.brokers.values() {
                    let mut raw = broker.client().await;
                    let wait = Duration::from_millis(100);
                    let fetched = raw.fetch(TOPIC, partition, next, wait).await;
                    if fetched.error_code == 0 {
                        let new = values(fetched.records).into_iter();
                        read.extend(new.filter(|(offset, _)| *offset >= next));
                        break;
                    }
                }
            }
        };
        timeout(PATIENCE, reading).await.expect("all are there");
        let in_order = (0..).zip(&read).all(|(at, (offset, _))| at == *offset);
        assert!(in_order, "{read:?}");
        read.into_iter().map(|(_, value)| value).collect()
    }
}

/// How many partitions of the first topic are open at the broker that tells of them: it knows where they end.
pub(crate) fn opened(topics: &Value) -> u64 {
    let partitions = topics[0]["partitions"].as_array().expect("a list").iter();
    let known = partitions.filter(|partition| !partition["end_offset"].is_null());
    known.count() as u64
}

/// Offset and value of each record.
pub(crate) fn values(mut batches: bytes::Bytes) -> Vec<(i64, String)> {
    let mut values = Vec::new();
    while !batches.is_empty() {
        let size = header_of(&batches).expect("a sound batch").size_bytes();
        for record in records(&batches.split_to(size)).expect("a sound batch") {
            let record = record.expect("a sound record");
            let value = record.value.expect("a value").to_vec();
            values.push((record.offset, String::from_utf8(value).expect("text")));
        }
    }
    values
}

/// Sends `numbers` to each partition, and waits until all are acknowledged.
pub(crate) async fn send(producer: &Producer, numbers: std::ops::Range<usize>) {
    let mut deliveries = Vec::new();
    for number in numbers {
        for partition in 0..PARTITIONS {
            let value = number.to_string();
            let record = ProducerRecord::to(TOPIC)
                .partition(partition)
                .value(value.as_bytes());
            deliveries.push(producer.send(record).await.expect("accepted"));
        }
    }
    for delivery in deliveries {
        let delivered = timeout(PATIENCE, delivery).await.expect("settled");
        delivered.expect("acknowledged");
    }
}

pub(crate) fn producer(client: &Client) -> Producer {
    let mut config = ProducerConfig::default();
    config.batch_size = 500;
    config.linger = Duration::from_millis(1);
    Producer::new(client, config).expect("legal")
}

pub(crate) fn expected(count: usize) -> BTreeMap<i32, Vec<String>> {
    let values: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    (0..PARTITIONS)
        .map(|partition| (partition, values.clone()))
        .collect()
}

/// The partitions that a node leads.
pub(crate) async fn led_by(cluster: &Cluster, node: u32) -> Vec<i32> {
    let topics = cluster.get(2, "/v1/topics?include=partitions").await;
    let partitions = topics["topics"][0]["partitions"].as_array();
    let led = partitions.expect("a list").iter();
    let led = led.filter(|partition| partition["leader"] == node);
    led.map(|partition| partition["partition"].as_i64().expect("a number"))
        .map(|partition| i32::try_from(partition).expect("few"))
        .collect()
}

pub(crate) fn single(value: &str) -> bytes::Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(1_000, None, Some(value.as_bytes()), &[]);
    builder.build().freeze()
}
