//! Consumers that say which zone they are in.

use std::time::Duration;

use bytes::Bytes;
use millrace_client::{Admin, TopicPartition};
use millrace_record::{BatchBuilder, Compression};
use millrace_testkit::KafkaClient;
use millrace_wire::{
    StrBytes,
    messages::{
        BrokerId, DeleteRecordsRequest, FetchRequest, MetadataRequest, TopicName,
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        fetch_request::{FetchPartition, FetchTopic},
        fetch_response::PartitionData,
        metadata_request::MetadataRequestTopic,
    },
};
use tokio::time::{sleep, timeout};

use crate::cluster::harness::{Cluster, PATIENCE, TOPIC, led_by, values};

/// The first version in which a consumer says its zone.
const FETCH_VERSION: i16 = 12;
const NOBODY: BrokerId = BrokerId(-1);
const NOT_LEADER_OR_FOLLOWER: i16 = 6;
const OFFSET_OUT_OF_RANGE: i16 = 1;
const FENCED_LEADER_EPOCH: i16 = 74;
const UNKNOWN_LEADER_EPOCH: i16 = 75;

/// Twice what a consumer must be behind.
const RECORDS: i64 = 80;
const RECORD_BYTES: usize = 100 * 1024;

#[derive(Clone, Copy)]
struct Asked {
    partition: i32,
    offset: i64,
    epoch: i32,
    rack: &'static str,
}

impl Asked {
    fn at(partition: i32, offset: i64, rack: &'static str) -> Self {
        let epoch = -1;
        Self {
            partition,
            offset,
            epoch,
            rack,
        }
    }
}

async fn fetch(client: &mut KafkaClient, asked: Asked) -> PartitionData {
    let part = FetchPartition::default()
        .with_partition(asked.partition)
        .with_fetch_offset(asked.offset)
        .with_current_leader_epoch(asked.epoch)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default()
        .with_topic(TopicName(StrBytes::from_static_str(TOPIC)))
        .with_partitions(vec![part]);
    let request = FetchRequest::default()
        .with_max_wait_ms(200)
        .with_min_bytes(1)
        .with_max_bytes(8 << 20)
        .with_rack_id(StrBytes::from_static_str(asked.rack))
        .with_topics(vec![topic]);
    let response = client.call(FETCH_VERSION, &request).await;
    response.responses[0].partitions[0].clone()
}

fn record(number: i64) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    let value = format!("{number}-{}", "x".repeat(RECORD_BYTES));
    builder.push(1_000, None, Some(value.as_bytes()), &[]);
    builder.build().freeze()
}

async fn append(client: &mut KafkaClient, partition: i32, numbers: std::ops::Range<i64>) {
    for number in numbers {
        let at = client.produce(TOPIC, partition, record(number)).await;
        assert_eq!(at, Ok(number));
    }
}

async fn start<const N: usize>(nodes: [u32; N]) -> Cluster {
    // The records are of 1970.
    Cluster::start_with(nodes, "leader.balance.interval.ms=0\nlog.retention.ms=-1").await
}

/// A consumer as Kafka's are: it goes where it is sent, and comes back at errors.
struct Consumer {
    partition: i32,
    rack: &'static str,
    leader: u32,
    at: u32,
    /// Offsets and numbers of the records, in the order in which they came.
    read: Vec<(i64, i64)>,
    /// Where it read how many records.
    visits: Vec<(u32, usize)>,
}

impl Consumer {
    fn new(partition: i32, rack: &'static str, leader: u32) -> Self {
        Self {
            partition,
            rack,
            leader,
            at: leader,
            read: Vec::new(),
            visits: Vec::new(),
        }
    }

    async fn read_to(&mut self, cluster: &Cluster, end: i64) {
        let mut client = cluster.brokers[&self.at].client().await;
        while self.next() < end {
            let next = self.next();
            let answer = fetch(&mut client, Asked::at(self.partition, next, self.rack)).await;
            assert_eq!(answer.error_code, 0, "at {next} of {}", self.at);
            let new = values(answer.records.unwrap_or_default()).into_iter();
            let new = new.filter(|(offset, _)| *offset >= next);
            let new: Vec<_> = new.map(|(at, value)| (at, number(&value))).collect();
            assert!(
                new.iter()
                    .all(|(offset, _)| *offset < answer.high_watermark)
            );
            self.visits.push((self.at, new.len()));
            self.read.extend(new);
            let preferred = answer.preferred_read_replica;
            if preferred != NOBODY {
                self.at = u32::try_from(preferred.0).expect("a node");
                client = cluster.brokers[&self.at].client().await;
            }
        }
    }

    fn next(&self) -> i64 {
        self.read.last().map_or(0, |(offset, _)| offset + 1)
    }

    fn read_at(&self, node: u32) -> usize {
        let there = self.visits.iter().filter(|(at, _)| *at == node);
        there.map(|(_, count)| count).sum()
    }

    fn has_all(&self, end: i64) {
        let expected: Vec<_> = (0..end).map(|number| (number, number)).collect();
        assert_eq!(self.read, expected);
    }
}

fn number(value: &str) -> i64 {
    let number = value.split_once('-').expect("a number and more").0;
    number.parse().expect("a number")
}

/// Waits until the leader sends consumers of another zone away, and gives where to.
async fn sent_to(cluster: &Cluster, leader: u32, partition: i32, rack: &'static str) -> BrokerId {
    let sent = async {
        loop {
            let mut client = cluster.brokers[&leader].client().await;
            let answer = fetch(&mut client, Asked::at(partition, 0, rack)).await;
            // It may have become the leader just now, and not have opened the partition.
            assert!([0, NOT_LEADER_OR_FOLLOWER].contains(&answer.error_code));
            if answer.error_code == 0 && answer.preferred_read_replica != NOBODY {
                assert_eq!(answer.records.unwrap_or_default(), Bytes::new());
                return answer.preferred_read_replica;
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    let sent = timeout(PATIENCE, sent).await;
    sent.expect("it is uploaded")
}

async fn fetched_in_zone(cluster: &Cluster, node: u32, zone: &str) -> f64 {
    let metrics = cluster.ask(node, "GET", "/metrics", "").await;
    let name = format!("millrace_zone_bytes_out_total{{zone=\"{zone}\"}} ");
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(&name));
    value.map_or(0.0, |value| value.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_reads_uploaded_records_in_its_zone_and_the_rest_from_the_leader() {
    let cluster = start([1, 2, 3]).await;
    cluster.create_topic().await;
    let partition = led_by(&cluster, 1).await[0];
    let mut leader = cluster.brokers[&1].client().await;
    append(&mut leader, partition, 0..RECORDS).await;
    assert_eq!(sent_to(&cluster, 1, partition, "zone-2").await, BrokerId(2));
    assert_eq!(sent_to(&cluster, 1, partition, "zone-3").await, BrokerId(3));

    let mut consumer = Consumer::new(partition, "zone-2", 1);
    consumer.read_to(&cluster, RECORDS / 2).await;
    assert_eq!(consumer.read_at(1), 0);
    let appending = async { append(&mut leader, partition, RECORDS..2 * RECORDS).await };
    let reading = timeout(PATIENCE, consumer.read_to(&cluster, 2 * RECORDS));
    let ((), read) = tokio::join!(appending, reading);
    assert!(read.is_ok(), "{:?}", consumer.visits);
    // The tail is the leader's.
    append(&mut leader, partition, 2 * RECORDS..2 * RECORDS + 3).await;
    consumer.read_to(&cluster, 2 * RECORDS + 3).await;
    consumer.has_all(2 * RECORDS + 3);
    assert_eq!(
        (consumer.at, consumer.leader),
        (1, 1),
        "{:?}",
        consumer.visits
    );
    assert!(consumer.read_at(2) >= 40, "{:?}", consumer.visits);
    assert!(fetched_in_zone(&cluster, 2, "same").await > 4e6);
    assert!(fetched_in_zone(&cluster, 1, "other").await > 1e5);

    // Who has no zone, is in the leader's, or in one without brokers stays with the leader.
    for rack in ["", "zone-1", "zone-9"] {
        let mut consumer = Consumer::new(partition, rack, 1);
        consumer.read_to(&cluster, RECORDS).await;
        consumer.has_all(RECORDS);
        assert_eq!(consumer.read_at(1), 80);
    }
    assert!(fetched_in_zone(&cluster, 1, "same").await > 8e6);
    assert!(fetched_in_zone(&cluster, 1, "unknown").await > 8e6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_does_not_lead_answers_only_what_is_certain() {
    let cluster = start([1, 2, 3]).await;
    cluster.create_topic().await;
    let partition = led_by(&cluster, 1).await[0];
    let mut leader = cluster.brokers[&1].client().await;
    append(&mut leader, partition, 0..RECORDS).await;
    sent_to(&cluster, 1, partition, "zone-2").await;
    let mut other = cluster.brokers[&2].client().await;
    let at = |offset, rack| Asked::at(partition, offset, rack);

    let without = fetch(&mut other, at(0, "")).await;
    assert_eq!(without.error_code, NOT_LEADER_OR_FOLLOWER);
    // Who is in no zone of this broker, or beyond what is committed, is the leader's.
    for asked in [
        at(0, "zone-3"),
        at(RECORDS, "zone-2"),
        at(1 << 40, "zone-2"),
    ] {
        let answer = fetch(&mut other, asked).await;
        assert_eq!(
            (answer.error_code, answer.preferred_read_replica),
            (0, BrokerId(1))
        );
        assert_eq!(answer.records.unwrap_or_default(), Bytes::new());
    }
    let found = records_served_here(&mut other, at(0, "zone-2")).await;
    assert!(found.high_watermark <= RECORDS);
    assert_eq!(found.last_stable_offset, found.high_watermark);

    delete_records(&mut leader, partition, 10).await;
    let gone = async {
        while fetch(&mut other, at(0, "zone-2"))
            .await
            .preferred_read_replica
            != BrokerId(1)
        {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, gone)
        .await
        .expect("the new start is known");
    let refused = fetch(&mut leader, at(0, "zone-2")).await;
    assert_eq!(refused.error_code, OFFSET_OUT_OF_RANGE);
    let from = fetch(&mut other, at(10, "zone-2")).await;
    assert_eq!((from.error_code, from.log_start_offset), (0, 10));
}

/// A broker that has lost the lead serves consumers of its zone as any other does, once they know the new leader (KIP-320).
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_must_know_the_leader_epoch_wherever_it_reads() {
    let cluster = start([1, 2, 3]).await;
    cluster.create_topic().await;
    let partition = led_by(&cluster, 1).await[0];
    let mut former = cluster.brokers[&1].client().await;
    append(&mut former, partition, 0..RECORDS).await;
    let client = cluster.client();
    let to_three = [(TopicPartition::new(TOPIC, partition), Some(vec![3]))].into();
    let moved = Admin::new(&client).reassign_partitions(&to_three).await;
    let moved = moved.expect("a broker answers");
    assert!(moved.values().all(Result::is_ok), "{moved:?}");
    let mut other = cluster.brokers[&2].client().await;
    let epoch = async {
        loop {
            let (leader, epoch) = leader_of(&mut other, partition).await;
            if leader == BrokerId(3) {
                return epoch;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let epoch = timeout(PATIENCE, epoch).await.expect("it moves");
    let asked = |epoch, rack| Asked {
        epoch,
        ..Asked::at(partition, 0, rack)
    };
    let fenced = fetch(&mut other, asked(epoch - 1, "zone-2")).await;
    assert_eq!(fenced.error_code, FENCED_LEADER_EPOCH);
    assert_eq!(fenced.current_leader.leader_id, BrokerId(3));
    let early = fetch(&mut other, asked(epoch + 1, "zone-2")).await;
    assert_eq!(early.error_code, UNKNOWN_LEADER_EPOCH);
    let former_too = [(&mut other, "zone-2"), (&mut former, "zone-1")];
    for (client, rack) in former_too {
        records_served_here(client, asked(epoch, rack)).await;
    }
    assert_eq!(sent_to(&cluster, 3, partition, "zone-1").await, BrokerId(1));
}

/// Fetches until there are records, because the bucket may take longer than a fetch waits.
/// Every answer must come from this broker without an error.
async fn records_served_here(client: &mut KafkaClient, asked: Asked) -> PartitionData {
    let reading = async {
        loop {
            let found = fetch(client, asked).await;
            let from = (found.error_code, found.preferred_read_replica);
            assert_eq!(from, (0, NOBODY));
            if found.records.as_ref().is_some_and(|of| !of.is_empty()) {
                return found;
            }
        }
    };
    timeout(PATIENCE, reading).await.expect("records")
}

async fn leader_of(client: &mut KafkaClient, partition: i32) -> (BrokerId, i32) {
    let metadata = client.metadata(TOPIC).await;
    let mut partitions = metadata.topics[0].partitions.iter();
    let of = partitions.find(|of| of.partition_index == partition);
    let of = of.expect("described");
    (of.leader_id, of.leader_epoch)
}

async fn delete_records(client: &mut KafkaClient, partition: i32, to: i64) {
    let part = DeleteRecordsPartition::default()
        .with_partition_index(partition)
        .with_offset(to);
    let topic = DeleteRecordsTopic::default()
        .with_name(TopicName(StrBytes::from_static_str(TOPIC)))
        .with_partitions(vec![part]);
    let request = DeleteRecordsRequest::default()
        .with_timeout_ms(30_000)
        .with_topics(vec![topic]);
    let response = client.call(2, &request).await;
    assert_eq!(response.topics[0].partitions[0].error_code, 0);
}

/// Newer Java clients do not go to a broker that their metadata does not name as a replica.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_does_not_go_is_served_and_metadata_may_name_where_to_go() {
    let mut cluster = start([1, 2]).await;
    cluster.create_topic().await;
    let partition = led_by(&cluster, 1).await[0];
    let mut leader = cluster.brokers[&1].client().await;
    append(&mut leader, partition, 0..RECORDS).await;
    sent_to(&cluster, 1, partition, "zone-2").await;
    let mut stubborn = cluster.brokers[&1].client().await;
    let sent = fetch(&mut stubborn, Asked::at(partition, 0, "zone-2")).await;
    assert_eq!(sent.preferred_read_replica, BrokerId(2));
    for offset in 0..3 {
        let served = fetch(&mut stubborn, Asked::at(partition, offset, "zone-2")).await;
        assert_eq!(served.preferred_read_replica, NOBODY);
        assert!(!served.records.unwrap_or_default().is_empty());
    }
    assert_eq!(replicas(&mut leader, partition, true).await, [1]);

    cluster
        .start_node_with(
            3,
            "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector",
        )
        .await;
    let mut lists = cluster.brokers[&3].client().await;
    assert_eq!(replicas(&mut lists, partition, true).await, [1, 2, 3]);
    assert_eq!(replicas(&mut lists, partition, false).await, [1]);
}

/// The replicas as a client sees them that may create topics, or may not.
async fn replicas(client: &mut KafkaClient, partition: i32, may_create: bool) -> Vec<i32> {
    let topic = MetadataRequestTopic::default()
        .with_name(Some(TopicName(StrBytes::from_static_str(TOPIC))));
    let request = MetadataRequest::default()
        .with_topics(Some(vec![topic]))
        .with_allow_auto_topic_creation(may_create);
    let response = client.call(9, &request).await;
    let partitions = &response.topics[0].partitions;
    let of = partitions.iter().find(|of| of.partition_index == partition);
    let of = of.expect("described");
    assert_eq!(of.replica_nodes, of.isr_nodes);
    of.replica_nodes.iter().map(|id| id.0).collect()
}
