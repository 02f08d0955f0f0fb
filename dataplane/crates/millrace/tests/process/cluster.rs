//! Several brokers of one cluster, on one PostgreSQL database and one bucket.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use millrace_client::{
    Admin, Client, ClientConfig, Producer, ProducerConfig, ProducerRecord, TopicPartition,
    admin::{ConfigChange, ConfigResource, NewTopic},
    consumer::CommittedOffset,
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

use crate::{Home, Running};

/// Leases are ended by the tests, not by a machine that is busy; a broker looks at them twelve times as often.
const SESSION_TIMEOUT: &str = "broker.session.timeout.ms=30000";
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const TOPIC: &str = "t";
pub(crate) const PARTITIONS: i32 = 6;
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub(crate) struct Node {
    home: Home,
    admin: SocketAddr,
}

pub(crate) struct Cluster {
    _server: PostgresServer,
    database: String,
    settings: &'static str,
    shared: TempDir,
    nodes: BTreeMap<u32, Node>,
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

    async fn start_node(&mut self, node: u32) {
        self.start_node_with(node, self.settings).await;
    }

    pub(crate) async fn start_node_with(&mut self, node: u32, settings: &str) {
        let (database, shared) = (&self.database, self.shared.path().display());
        let of_node = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
            let admin = listener.local_addr().expect("bound");
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
    async fn stop_node(&mut self, node: u32) {
        let broker = self.brokers.remove(&node).expect("it runs");
        let status = broker.terminate().await;
        assert!(
            status.success(),
            "{status}: {}",
            self.nodes[&node].home.log()
        );
    }

    fn kill_node(&mut self, node: u32) {
        self.brokers.remove(&node).expect("it runs").kill_9();
    }

    /// The leases of these nodes have run out.
    async fn expire(&self, node: u32) {
        let statement = format!(
            "UPDATE nodes SET held_since = now() - INTERVAL '1 day';
             UPDATE nodes SET lease_until = now() - INTERVAL '1 second' WHERE node_id = {node}"
        );
        PostgresServer::execute(&self.database, &statement).await;
    }

    fn signal(&self, node: u32, signal: Signal) {
        let pid = i32::try_from(self.brokers[&node].child.id()).ok();
        let pid = pid.and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("our child");
    }

    async fn get(&self, node: u32, path: &str) -> Value {
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
    async fn brokers_by(&self, node: u32) -> Vec<(u64, String, u64)> {
        let view = self.get(node, "/v1/cluster").await;
        let brokers = view["brokers"].as_array().expect("a list").iter();
        let told = |broker: &Value| {
            let state = broker["state"].as_str().expect("a state").to_owned();
            let number = |name: &str| broker[name].as_u64().expect("a number");
            (number("node_id"), state, number("leaders"))
        };
        brokers.map(told).collect()
    }

    async fn until(&self, node: u32, holds: impl Fn(&[(u64, String, u64)]) -> bool) {
        let waiting = async {
            while !holds(&self.brokers_by(node).await) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "{:?}", self.brokers_by(node).await);
    }

    /// The values of each partition in the order of their offsets, each read from its leader.
    async fn read_all(&self, per_partition: usize) -> BTreeMap<i32, Vec<String>> {
        let mut all = BTreeMap::new();
        for partition in 0..PARTITIONS {
            all.insert(partition, self.read(partition, per_partition).await);
        }
        all
    }

    async fn read(&self, partition: i32, count: usize) -> Vec<String> {
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
fn opened(topics: &Value) -> u64 {
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
async fn send(producer: &Producer, numbers: std::ops::Range<usize>) {
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

fn producer(client: &Client) -> Producer {
    let mut config = ProducerConfig::default();
    config.batch_size = 500;
    config.linger = Duration::from_millis(1);
    Producer::new(client, config).expect("legal")
}

fn expected(count: usize) -> BTreeMap<i32, Vec<String>> {
    let values: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    (0..PARTITIONS)
        .map(|partition| (partition, values.clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_spread_and_every_broker_knows_them() {
    let cluster = Cluster::start([1, 2, 3]).await;
    cluster.create_topic().await;
    for node in [1, 2, 3] {
        cluster
            .until(node, |brokers| {
                brokers.len() == 3
                    && brokers
                        .iter()
                        .all(|(_, state, leaders)| state == "active" && *leaders == 2)
            })
            .await;
    }
    let client = cluster.client();
    let producer = producer(&client);
    send(&producer, 0..50).await;
    assert_eq!(cluster.read_all(50).await, expected(50));
    let view = cluster.get(2, "/v1/cluster").await;
    assert_eq!(view["brokers"][0]["rack"], "zone-1");
    assert_eq!(view["events"][0]["kind"], "joined");
    producer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_does_not_notice_that_brokers_stop_and_come_back() {
    let mut cluster = Cluster::start([1, 2, 3]).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let producer = producer(&client);
    let sending = tokio::spawn({
        let producer = producer.clone();
        async move {
            for hundred in 0..20 {
                send(&producer, hundred * 100..(hundred + 1) * 100).await;
                sleep(Duration::from_millis(20)).await;
            }
        }
    });
    for node in [1, 2] {
        cluster.stop_node(node).await;
        cluster
            .until(3, |brokers| {
                brokers.iter().all(|(other, state, leaders)| {
                    *other != u64::from(node) || (state == "left" && *leaders == 0)
                })
            })
            .await;
        cluster.start_node(node).await;
    }
    timeout(PATIENCE, sending)
        .await
        .expect("ends")
        .expect("no error reached the application");
    assert_eq!(cluster.read_all(2_000).await, expected(2_000));
    producer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_broker_acknowledged_is_read_from_the_others() {
    let mut cluster = Cluster::start([1, 2, 3]).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let producer = producer(&client);
    send(&producer, 0..200).await;
    cluster.kill_node(2);
    cluster.expire(2).await;
    cluster
        .until(1, |brokers| brokers[1].1 == "left" && brokers[1].2 == 0)
        .await;
    // An idempotent producer goes on with its sequence at the new leader.
    send(&producer, 200..300).await;
    assert_eq!(cluster.read_all(300).await, expected(300));
    let kinds = cluster.get(1, "/v1/cluster").await["events"].clone();
    let kinds: Vec<&str> = kinds
        .as_array()
        .expect("a list")
        .iter()
        .map(|event| event["kind"].as_str().expect("a kind"))
        .collect();
    assert_eq!(kinds[..3], ["left", "takeover", "fenced"]);

    // It comes back with its log, of which nothing is needed any more.
    cluster.start_node(2).await;
    cluster.until(3, |brokers| brokers[1].1 == "active").await;
    cluster.kill_node(1);
    cluster.expire(1).await;
    cluster
        .until(2, |brokers| brokers[0].1 == "left" && brokers[1].2 > 0)
        .await;
    send(&producer, 300..400).await;
    assert_eq!(cluster.read_all(400).await, expected(400));
    producer.close().await;
}

/// Damages the record with this value, which is in the log of a broker that does not run.
fn damage(home: &Home, value: &str) {
    let file = home.path().join("wal/wal");
    let mut log = std::fs::read(&file).expect("readable");
    let found = log
        .windows(value.len())
        .position(|at| at == value.as_bytes());
    let at = found.expect("it has not been trimmed");
    log[at] ^= 0x40;
    std::fs::write(file, log).expect("writable");
}

/// Nobody can upload what follows the damaged record, so its partition waits for an operator. The others do not.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_of_a_dead_broker_keeps_no_other_partition_offline() {
    const DAMAGED: &str = "this record will be damaged";
    let settings = "leader.balance.interval.ms=0\ns3.wal.upload.interval.ms=600000";
    let mut cluster = Cluster::start_with([1, 2], settings).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let producer = producer(&client);
    send(&producer, 0..20).await;
    let of_two = led_by(&cluster, 2).await;
    let mut raw = cluster.brokers[&2].client().await;
    let produced = raw.produce(TOPIC, of_two[0], single(DAMAGED)).await;
    produced.expect("acknowledged");
    send(&producer, 20..40).await;
    cluster.kill_node(2);
    damage(&cluster.nodes[&2].home, DAMAGED);
    cluster.expire(2).await;
    for partition in (0..PARTITIONS).filter(|&partition| partition != of_two[0]) {
        let read = cluster.read(partition, 40).await;
        assert_eq!(read, expected(40)[&partition]);
    }
    let log = cluster.nodes[&1].home.log();
    assert!(log.contains("damaged records of 1 stream(s)"), "{log}");
    let brokers = cluster.brokers_by(1).await;
    assert_eq!(brokers[1].1, "fenced", "its log is kept");
    let mut raw = cluster.brokers[&1].client().await;
    let wait = Duration::from_millis(100);
    let fetched = raw.fetch(TOPIC, of_two[0], 0, wait).await;
    assert_ne!(fetched.error_code, 0, "it is offline");
    producer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_before_anybody_noticed_goes_on_with_its_own_log() {
    let mut cluster = Cluster::start([1, 2]).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let producer = producer(&client);
    send(&producer, 0..100).await;
    cluster.kill_node(1);
    cluster.start_node(1).await;
    send(&producer, 100..200).await;
    assert_eq!(cluster.read_all(200).await, expected(200));
    let leaders = cluster.brokers_by(2).await;
    assert_eq!((leaders[0].2, leaders[1].2), (3, 3), "nothing moved");
    producer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_topic_is_every_brokers() {
    let cluster = Cluster::start([1, 2]).await;
    cluster.create_topic().await;
    let ask = async |node: u32| {
        let answer = cluster.get(node, "/v1/topics?include=configs,partitions");
        answer.await["topics"].clone()
    };
    let first = ask(1).await;
    assert_eq!(first[0]["partition_count"], PARTITIONS);
    assert_eq!((opened(&first), opened(&ask(2).await)), (3, 3));

    let client = cluster.client();
    let admin = Admin::new(&client);
    let change = ConfigChange::Set("1234567".to_owned());
    let changes = BTreeMap::from([("retention.ms".to_owned(), change)]);
    let resource = ConfigResource::Topic(TOPIC.to_owned());
    let changed = admin
        .alter_configs(&BTreeMap::from([(resource, changes)]))
        .await;
    changed.expect("a broker answers");
    for node in [1, 2] {
        let told = async {
            while ask(node).await[0]["configs"]["retention.ms"]["value"] != "1234567" {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, told).await.expect("it learns of it");
    }
    let deleted = admin
        .delete_topics(&[TOPIC])
        .await
        .expect("a broker answers");
    assert!(deleted[TOPIC].is_ok(), "{deleted:?}");
    for node in [1, 2] {
        let gone = async {
            while ask(node).await != Value::Array(Vec::new()) {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, gone).await.expect("it is gone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_groups_have_committed_outlives_their_broker() {
    let mut cluster = Cluster::start([1, 2, 3]).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let admin = Admin::new(&client);
    let at = TopicPartition::new(TOPIC, 0);
    let groups: Vec<String> = (0..20).map(|group| format!("group-{group}")).collect();
    let commit = async |offset: i64| {
        for group in &groups {
            let offsets = BTreeMap::from([(at.clone(), CommittedOffset::new(offset))]);
            let committing = async {
                // What a coordinator refuses that is just gone or loading is tried again.
                loop {
                    let answer = admin.alter_group_offsets(group, &offsets).await;
                    if answer.is_ok_and(|answer| answer.values().all(Result::is_ok)) {
                        break;
                    }
                    sleep(Duration::from_millis(50)).await;
                }
            };
            timeout(PATIENCE, committing).await.expect("commits");
        }
    };
    let committed = async |expected: i64| {
        for group in &groups {
            let looking = async {
                loop {
                    if let Ok(found) = admin.group_offsets(group).await {
                        return found.get(&at).map(|committed| committed.offset);
                    }
                }
            };
            let found = timeout(PATIENCE, looking).await.expect("answers");
            assert_eq!(found, Some(expected), "{group}");
        }
    };
    commit(7).await;
    cluster.kill_node(2);
    cluster.expire(2).await;
    committed(7).await;
    commit(8).await;
    cluster.stop_node(1).await;
    committed(8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_joins_is_given_its_share() {
    let mut cluster = Cluster::start_with([1, 2], "leader.balance.interval.ms=200").await;
    cluster.create_topic().await;
    let client = cluster.client();
    let producer = producer(&client);
    send(&producer, 0..50).await;
    cluster.start_node(3).await;
    cluster
        .until(1, |brokers| {
            brokers.iter().all(|(.., leaders)| *leaders == 2)
        })
        .await;
    send(&producer, 50..100).await;
    assert_eq!(cluster.read_all(100).await, expected(100));
    let events = cluster.get(3, "/v1/cluster").await["events"].to_string();
    assert!(events.contains("move to node 3"), "{events}");
    producer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_that_one_broker_was_told_holds_at_all() {
    let cluster = Cluster::start([1, 2]).await;
    let change =
        r#"{"entity":[{"type":"user","name":"ada"}],"limits":{"producer_byte_rate":1048576}}"#;
    cluster.ask(1, "PATCH", "/v1/client-quotas", change).await;
    for node in [1, 2] {
        let told = async {
            let quotas = async || cluster.get(node, "/v1/client-quotas").await.to_string();
            while !quotas().await.contains("1048576") {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, told).await.expect("it learns of it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_task_of_the_cluster_ends_the_broker() {
    let mut cluster = Cluster::start([1]).await;
    cluster.stop_node(1).await;
    let home = &cluster.nodes[&1].home;
    for task in ["lease-renewal", "failover", "metadata-feed"] {
        home.set(&format!("test.panic.task={task}@200"));
        let mut broker = home.spawn();
        let ended = async {
            loop {
                if let Some(status) = broker.try_wait().expect("our child") {
                    return status;
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        let status = timeout(PATIENCE, ended).await.expect("it ends by itself");
        assert!(!status.success());
        let panicked = format!("the task {task} panicked");
        assert!(home.log().contains(&panicked), "{}", home.log());
    }
}

/// A broker that stood still while another one took its place. Clients hold connections to it, and have sent it records that it
/// finds when it wakes.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_wakes_after_it_was_replaced_acknowledges_nothing() {
    let mut cluster = Cluster::start([1, 2]).await;
    cluster.create_topic().await;
    let of_one = led_by(&cluster, 1).await;
    assert_eq!(of_one.len(), 3);
    let is_replaced = Arc::new(AtomicBool::new(false));
    let mut acknowledged = BTreeMap::new();
    let mut writers = Vec::new();
    for partition in of_one {
        let mut client = cluster.brokers[&1].client().await;
        let acknowledged_here = Arc::new(Mutex::new(Vec::new()));
        acknowledged.insert(partition, Arc::clone(&acknowledged_here));
        let is_replaced = Arc::clone(&is_replaced);
        // Ends with its connection.
        writers.push(tokio::spawn(async move {
            for number in 0.. {
                let value = format!("{partition}-{number}");
                let answer = client.produce(TOPIC, partition, single(&value)).await;
                if answer.is_err() {
                    return;
                }
                assert!(!is_replaced.load(Ordering::SeqCst), "acknowledged {value}");
                acknowledged_here.lock().expect("no panic").push(value);
            }
        }));
    }
    let all_acknowledged = async {
        let is_none = |of: &Arc<Mutex<Vec<String>>>| of.lock().expect("no panic").is_empty();
        while acknowledged.values().any(is_none) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, all_acknowledged).await.expect("written");
    cluster.signal(1, Signal::STOP);
    cluster.expire(1).await;
    cluster
        .until(2, |brokers| brokers[0].1 == "left" && brokers[1].2 == 6)
        .await;
    is_replaced.store(true, Ordering::SeqCst);
    cluster.signal(1, Signal::CONT);
    let mut broker = cluster.brokers.remove(&1).expect("it runs");
    let ended = async {
        while broker.child.try_wait().expect("our child").is_none() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, ended).await.expect("it ends by itself");
    let log = cluster.nodes[&1].home.log();
    assert!(
        log.contains("fenced") || log.contains("taken it over"),
        "{log}"
    );
    for writer in writers {
        if let Err(error) = writer.await {
            let panic = error.into_panic();
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            assert!(!text.contains("acknowledged"), "{text}");
        }
    }
    for (partition, acknowledged) in acknowledged {
        let acknowledged = acknowledged.lock().expect("no panic").clone();
        let read = cluster.read(partition, acknowledged.len()).await;
        assert_eq!(
            read[..acknowledged.len()],
            acknowledged,
            "partition {partition}"
        );
    }
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

fn single(value: &str) -> bytes::Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(1_000, None, Some(value.as_bytes()), &[]);
    builder.build().freeze()
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_go_where_they_are_assigned_and_come_back() {
    let mut cluster = Cluster::start([1, 2, 3]).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let admin = Admin::new(&client);
    let producer = producer(&client);
    let all: Vec<TopicPartition> = (0..PARTITIONS)
        .map(|index| TopicPartition::new(TOPIC, index))
        .collect();
    let to = |node: i32| {
        let assigned = all.iter().map(|name| (name.clone(), Some(vec![node])));
        assigned.collect::<BTreeMap<_, _>>()
    };
    let to_three = to(3);
    let (_, moved) = tokio::join!(
        send(&producer, 0..200),
        admin.reassign_partitions(&to_three)
    );
    let moved = moved.expect("it may");
    assert!(moved.values().all(Result::is_ok), "{moved:?}");
    let three_leads = |count: u64| {
        move |brokers: &[(u64, String, u64)]| {
            brokers
                .iter()
                .any(|(node, _, leaders)| (*node, *leaders) == (3, count))
        }
    };
    cluster.until(1, three_leads(6)).await;
    let ended = async {
        // Any broker is asked, which may not know yet.
        while !admin.list_reassignments().await.expect("it may").is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, ended).await.expect("all have moved");
    let absent = admin.reassign_partitions(&to(9)).await.expect("it may");
    assert!(absent.values().all(Result::is_err), "{absent:?}");

    // The preferred leader is the one that was assigned, also after it was gone.
    cluster.stop_node(3).await;
    send(&producer, 200..250).await;
    cluster.start_node(3).await;
    cluster.until(1, three_leads(0)).await;
    let wait = Duration::from_secs(30);
    let elected = admin.elect_preferred_leaders(&all, wait).await;
    let elected = elected.expect("it may");
    assert!(elected.values().all(Result::is_ok), "{elected:?}");
    cluster.until(1, three_leads(6)).await;
    let again = admin.elect_preferred_leaders(&all, wait).await;
    let again = again.expect("it may");
    assert!(again.values().all(Result::is_err), "{again:?}");
    send(&producer, 250..300).await;
    assert_eq!(cluster.read_all(300).await, expected(300));
    producer.close().await;
}

/// Brokers reach each other whatever their listeners ask of clients.
#[tokio::test(flavor = "multi_thread")]
async fn every_broker_serves_the_records_of_all_and_knows_the_lag_of_its_groups() {
    let cluster = Cluster::start([1, 2, 3]).await;
    cluster.create_topic().await;
    let client = cluster.client();
    let producer = producer(&client);
    send(&producer, 0..10).await;
    for node in [1, 2, 3] {
        for partition in 0..PARTITIONS {
            let path = format!("/v1/topics/{TOPIC}/records?partition={partition}&from=earliest");
            let page = cluster.get(node, &path).await;
            assert_eq!(page["records"].as_array().map(Vec::len), Some(10), "{page}");
        }
    }
    let offsets = (0..PARTITIONS).map(|index| {
        let name = TopicPartition::new(TOPIC, index);
        (name, CommittedOffset::new(4))
    });
    let offsets: BTreeMap<_, _> = offsets.collect();
    let admin = Admin::new(&client);
    let committing = async {
        loop {
            let answer = admin.alter_group_offsets("g", &offsets).await;
            if answer.is_ok_and(|answer| answer.values().all(Result::is_ok)) {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, committing).await.expect("commits");
    let lags = async || {
        let mut lags = Vec::new();
        for node in [1, 2, 3] {
            let page = cluster.get(node, "/v1/groups").await;
            let groups = page["groups"].as_array().expect("a list").clone();
            lags.extend(
                groups
                    .iter()
                    .map(|group| group["lag"].as_str().map(str::to_owned)),
            );
        }
        lags
    };
    let known = async {
        while lags().await != [Some("36".to_owned())] {
            sleep(Duration::from_millis(100)).await;
        }
    };
    let known = timeout(PATIENCE, known).await;
    assert!(known.is_ok(), "{:?}", lags().await);
    producer.close().await;
}
