//! Transactions whose coordinator, partitions and group are at different brokers, and what becomes of them when these die or
//! hand over.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use millrace_client::{Admin, TopicPartition};
use millrace_record::{BatchBuilder, Compression, header_of, records};
use millrace_wire::{
    StrBytes,
    error_code::ErrorCode,
    messages::{
        AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse, EndTxnRequest, FetchRequest, FindCoordinatorRequest,
        GroupId, InitProducerIdRequest, OffsetFetchRequest, ProduceRequest, ProducerId, TopicName,
        TransactionalId, TxnOffsetCommitRequest,
        add_partitions_to_txn_request::AddPartitionsToTxnTopic,
        fetch_request::{FetchPartition, FetchTopic},
        fetch_response::PartitionData,
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
        produce_request::{PartitionProduceData, TopicProduceData},
        txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic},
    },
};
use rustix::process::Signal;
use tokio::time::{sleep, timeout};

use super::harness::{Cluster, PARTITIONS, PATIENCE, TOPIC};

const POLL: Duration = Duration::from_millis(20);

/// A failover and the markers after it take less; a request that nobody answers times out much later.
const MARKERS_WAIT: Duration = Duration::from_secs(15);

/// Key types of FindCoordinator.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

/// Brokers authorize each other's requests as well.
const SETTINGS: &str = "leader.balance.interval.ms=0\ntransaction.state.log.num.partitions=6\n\
     authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
     super.users=User:ANONYMOUS";

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic_name() -> TopicName {
    TopicName(text(TOPIC))
}

/// What a client tries again: somebody else leads or coordinates, or has yet to read its log.
fn is_passing(code: i16) -> bool {
    ErrorCode::try_from_code(code).is_some_and(|code| code.is_retriable())
        || code == ErrorCode::ConcurrentTransactions.code()
}

/// Asks until the answer is no error that passes.
async fn settled(what: &str, mut ask: impl AsyncFnMut() -> i16) -> i16 {
    let mut last = 0;
    let asking = async {
        loop {
            last = ask().await;
            if !is_passing(last) {
                return last;
            }
            sleep(POLL).await;
        }
    };
    let code = timeout(PATIENCE, asking).await;
    code.unwrap_or_else(|_| panic!("{what}: still error {last}"))
}

impl Cluster {
    fn any(&self) -> &crate::Running {
        self.brokers.values().next_back().expect("one runs")
    }

    /// The running broker that coordinates this group or transactional id.
    async fn coordinator(&self, kind: i8, key: &str) -> u32 {
        let request = FindCoordinatorRequest::default()
            .with_key_type(kind)
            .with_coordinator_keys(vec![text(key)]);
        let finding = async {
            loop {
                let found = self.any().client().await.call(6, &request).await;
                let node = u32::try_from(found.coordinators[0].node_id.0).ok();
                match node.filter(|node| self.brokers.contains_key(node)) {
                    Some(node) => return node,
                    None => sleep(POLL).await,
                }
            }
        };
        timeout(PATIENCE, finding).await.expect("somebody does")
    }

    /// A key that this broker coordinates.
    async fn key_at(&self, kind: i8, node: u32, prefix: &str) -> String {
        for number in 0..100 {
            let key = format!("{prefix}-{number}");
            if self.coordinator(kind, &key).await == node {
                return key;
            }
        }
        panic!("{node} coordinates nothing");
    }

    /// Who leads each partition.
    async fn leaders(&self) -> BTreeMap<i32, u32> {
        let metadata = self.any().client().await.metadata(TOPIC).await;
        let partitions = metadata.topics[0].partitions.iter();
        let led = partitions.filter_map(|partition| {
            let leader = u32::try_from(partition.leader_id.0).ok()?;
            Some((partition.partition_index, leader))
        });
        led.collect()
    }

    async fn led(&self, node: u32) -> Vec<i32> {
        let leaders = self.leaders().await.into_iter();
        let led = leaders.filter(|(_, leader)| *leader == node);
        led.map(|(partition, _)| partition).collect()
    }

    /// The running broker that leads a partition; `None` while nobody does.
    async fn leader(&self, partition: i32) -> Option<&crate::Running> {
        let leader = *self.leaders().await.get(&partition)?;
        self.brokers.get(&leader)
    }

    /// What a consumer of committed records gets of a partition at an offset.
    async fn fetched(&self, partition: i32, offset: i64) -> PartitionData {
        let part = FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(1 << 20);
        let topic = FetchTopic::default()
            .with_topic(topic_name())
            .with_partitions(vec![part]);
        let request = FetchRequest::default()
            .with_isolation_level(1)
            .with_min_bytes(1)
            .with_max_bytes(1 << 20)
            .with_topics(vec![topic]);
        let mut data = None;
        let code = settled("fetch", async || {
            let Some(leader) = self.leader(partition).await else {
                return ErrorCode::LeaderNotAvailable.code();
            };
            let mut answer = leader.client().await.call(12, &request).await;
            let fetched = answer.responses.remove(0).partitions.remove(0);
            let code = fetched.error_code;
            data = Some(fetched);
            code
        });
        assert_eq!(code.await, 0);
        data.expect("fetched")
    }

    /// The committed values of a partition, up to its last stable offset.
    async fn committed(&self, partition: i32) -> Vec<String> {
        let (mut seen, mut next) = (Vec::new(), 0);
        loop {
            let data = self.fetched(partition, next).await;
            if next >= data.last_stable_offset {
                return seen;
            }
            next = committed(&data, &mut seen);
        }
    }

    /// Waits until no transaction is open in any partition, and checks what consumers of committed records see then.
    async fn expect_committed(&self, expected: &BTreeMap<i32, Vec<String>>) {
        for (&partition, expected) in expected {
            let mut data = self.fetched(partition, 0).await;
            let closing = async {
                while data.last_stable_offset < data.high_watermark {
                    sleep(POLL).await;
                    data = self.fetched(partition, 0).await;
                }
            };
            let closed = timeout(PATIENCE, closing).await;
            assert!(closed.is_ok(), "no marker in {partition}: {data:?}");
            let seen = self.committed(partition).await;
            assert_eq!(seen, *expected, "partition {partition}");
        }
    }

    /// The offset that a group has committed for partition 0, once no transaction keeps it open; -1 where there is none.
    async fn committed_offset(&self, group: &str) -> i64 {
        let topic = OffsetFetchRequestTopics::default()
            .with_name(topic_name())
            .with_partition_indexes(vec![0]);
        let asked = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(text(group)))
            .with_topics(Some(vec![topic]));
        let request = OffsetFetchRequest::default()
            .with_require_stable(true)
            .with_groups(vec![asked]);
        let mut offset = -1;
        let code = settled("offsets", async || {
            let coordinator = self.coordinator(GROUP, group).await;
            let mut client = self.brokers[&coordinator].client().await;
            let answer = client.call(9, &request).await;
            let of_group = &answer.groups[0];
            if of_group.error_code != 0 {
                return of_group.error_code;
            }
            let partition = &of_group.topics[0].partitions[0];
            offset = partition.committed_offset;
            partition.error_code
        });
        assert_eq!(code.await, 0);
        offset
    }

    async fn reassign(&self, partitions: &[i32], node: u32) {
        let assigned = partitions.iter().map(|partition| {
            let node = i32::try_from(node).expect("small");
            (TopicPartition::new(TOPIC, *partition), Some(vec![node]))
        });
        let assigned: BTreeMap<_, _> = assigned.collect();
        let admin = Admin::new(&self.client());
        let moved = admin.reassign_partitions(&assigned).await.expect("it may");
        assert!(moved.values().all(Result::is_ok), "{moved:?}");
        let moving = async {
            loop {
                let leaders = self.leaders().await;
                let is_there = |partition| leaders.get(partition) == Some(&node);
                if partitions.iter().all(is_there) {
                    return;
                }
                sleep(POLL).await;
            }
        };
        timeout(PATIENCE, moving).await.expect("they move");
    }
}

/// Adds the committed values of a fetch, as consumers filter them; the next offset.
fn committed(data: &PartitionData, seen: &mut Vec<String>) -> i64 {
    let mut begun: Vec<_> = data.aborted_transactions.clone().unwrap_or_default();
    begun.sort_by_key(|aborted| aborted.first_offset);
    let mut begun = begun.into_iter().peekable();
    let mut aborting = Vec::new();
    let mut next_offset = 0;
    let mut batches = data.records.clone().unwrap_or_default();
    while !batches.is_empty() {
        let header = header_of(&batches).expect("a sound batch");
        let batch = batches.split_to(header.size_bytes());
        next_offset = header.base_offset + i64::from(header.last_offset_delta) + 1;
        while let Some(aborted) = begun.next_if(|next| next.first_offset <= header.base_offset) {
            aborting.push(aborted.producer_id.0);
        }
        if header.is_control() {
            aborting.retain(|producer| *producer != header.producer_id);
        } else if !(header.is_transactional() && aborting.contains(&header.producer_id)) {
            seen.extend(records(&batch).expect("sound").map(|record| {
                let value = record.expect("sound").value.expect("a value").to_vec();
                String::from_utf8(value).expect("text")
            }));
        }
    }
    next_offset
}

/// A transactional producer, as a client keeps it.
struct Producer {
    id: String,
    producer_id: i64,
    epoch: i16,
    sequences: BTreeMap<i32, i32>,
    /// The version of the transaction protocol.
    protocol: i16,
}

impl Producer {
    async fn init(cluster: &Cluster, id: &str, protocol: i16) -> Self {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(TransactionalId(text(id))))
            .with_transaction_timeout_ms(60_000);
        let mut given = (-1, -1);
        let code = settled("init", async || {
            let coordinator = cluster.coordinator(TRANSACTION, id).await;
            let mut client = cluster.brokers[&coordinator].client().await;
            let answer = client.call(5, &request).await;
            given = (answer.producer_id.0, answer.producer_epoch);
            answer.error_code
        });
        assert_eq!(code.await, 0);
        Self {
            id: id.to_owned(),
            producer_id: given.0,
            epoch: given.1,
            sequences: BTreeMap::new(),
            protocol,
        }
    }

    fn id(&self) -> TransactionalId {
        TransactionalId(text(&self.id))
    }

    async fn add(&self, cluster: &Cluster, partitions: &[i32]) {
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(topic_name())
            .with_partitions(partitions.to_vec());
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.id())
            .with_v3_and_below_producer_id(ProducerId(self.producer_id))
            .with_v3_and_below_producer_epoch(self.epoch)
            .with_v3_and_below_topics(vec![topic]);
        let code = settled("add", async || {
            let coordinator = cluster.coordinator(TRANSACTION, &self.id).await;
            let mut client = cluster.brokers[&coordinator].client().await;
            let answer = client.call(3, &request).await;
            let topics = answer.results_by_topic_v3_and_below.iter();
            let mut codes = topics.flat_map(|topic| &topic.results_by_partition);
            let failed = codes.find(|result| result.partition_error_code != 0);
            failed.map_or(0, |result| result.partition_error_code)
        });
        assert_eq!(code.await, 0);
    }

    /// Writes a value to each of the partitions, which the transaction gains if `joins`.
    async fn produce(&mut self, cluster: &Cluster, partitions: &[i32], value: &str, joins: bool) {
        if self.protocol == 1 && joins {
            self.add(cluster, partitions).await;
        }
        for &partition in partitions {
            assert_eq!(self.produce_to(cluster, partition, value).await, 0);
        }
    }

    async fn produce_to(&mut self, cluster: &Cluster, partition: i32, value: &str) -> i16 {
        let sequence = self.sequences.entry(partition).or_default();
        let builder = BatchBuilder::new(Compression::None);
        let builder = builder.producer(self.producer_id, self.epoch, *sequence);
        let mut builder = builder.transactional();
        builder.push(1, None, Some(value.as_bytes()), &[]);
        *sequence += 1;
        let batch: Bytes = builder.build().freeze();
        let data = PartitionProduceData::default()
            .with_index(partition)
            .with_records(Some(batch));
        let topic = TopicProduceData::default()
            .with_name(topic_name())
            .with_partition_data(vec![data]);
        let request = ProduceRequest::default()
            .with_transactional_id(Some(self.id()))
            .with_acks(-1)
            .with_timeout_ms(10_000)
            .with_topic_data(vec![topic]);
        let version = if self.protocol == 1 { 11 } else { 12 };
        settled("produce", async || {
            let Some(leader) = cluster.leader(partition).await else {
                return ErrorCode::LeaderNotAvailable.code();
            };
            let answer = leader.client().await.call(version, &request).await;
            answer.responses[0].partition_responses[0].error_code
        })
        .await
    }

    /// Commits an offset of partition 0 for a group with the transaction.
    async fn commit_offset(&self, cluster: &Cluster, group: &str, offset: i64) {
        if self.protocol == 1 {
            let request = AddOffsetsToTxnRequest::default()
                .with_transactional_id(self.id())
                .with_producer_id(ProducerId(self.producer_id))
                .with_producer_epoch(self.epoch)
                .with_group_id(GroupId(text(group)));
            let code = settled("add offsets", async || {
                let coordinator = cluster.coordinator(TRANSACTION, &self.id).await;
                let mut client = cluster.brokers[&coordinator].client().await;
                client.call(3, &request).await.error_code
            });
            assert_eq!(code.await, 0);
        }
        let partition = TxnOffsetCommitRequestPartition::default()
            .with_committed_offset(offset)
            .with_committed_metadata(Some(text("")));
        let topic = TxnOffsetCommitRequestTopic::default()
            .with_name(topic_name())
            .with_partitions(vec![partition]);
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(self.id())
            .with_group_id(GroupId(text(group)))
            .with_producer_id(ProducerId(self.producer_id))
            .with_producer_epoch(self.epoch)
            .with_generation_id(-1)
            .with_topics(vec![topic]);
        let version = if self.protocol == 1 { 4 } else { 5 };
        let code = settled("offset commit", async || {
            let coordinator = cluster.coordinator(GROUP, group).await;
            let mut client = cluster.brokers[&coordinator].client().await;
            let answer = client.call(version, &request).await;
            answer.topics[0].partitions[0].error_code
        });
        assert_eq!(code.await, 0);
    }

    async fn end(&mut self, cluster: &Cluster, committed: bool) {
        let request = EndTxnRequest::default()
            .with_transactional_id(self.id())
            .with_producer_id(ProducerId(self.producer_id))
            .with_producer_epoch(self.epoch)
            .with_committed(committed);
        let version = if self.protocol == 1 { 3 } else { 5 };
        let mut next = None;
        let code = settled("end", async || {
            let coordinator = cluster.coordinator(TRANSACTION, &self.id).await;
            let mut client = cluster.brokers[&coordinator].client().await;
            let answer = client.call(version, &request).await;
            next = Some((answer.producer_id.0, answer.producer_epoch));
            answer.error_code
        });
        assert_eq!(code.await, 0);
        if let (2, Some((producer_id, epoch))) = (self.protocol, next) {
            (self.producer_id, self.epoch) = (producer_id, epoch);
            self.sequences.clear();
        }
    }
}

async fn cluster() -> Cluster {
    let cluster = Cluster::start_with([1, 2, 3], SETTINGS).await;
    cluster.create_topic().await;
    cluster
}

fn all() -> Vec<i32> {
    (0..PARTITIONS).collect()
}

/// Every partition has these values.
fn everywhere(values: &[&str]) -> BTreeMap<i32, Vec<String>> {
    let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
    let each = all().into_iter();
    each.map(|partition| (partition, values.clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_spans_brokers() {
    let cluster = cluster().await;
    let mut values = Vec::new();
    let names: Vec<_> = [1, 2]
        .map(|protocol| (protocol, format!("kept-{protocol}")))
        .into();
    for (protocol, kept) in &names {
        let id = cluster
            .key_at(TRANSACTION, 1, &format!("tx-{protocol}"))
            .await;
        let group = cluster.key_at(GROUP, 2, &format!("g-{protocol}")).await;
        let mut producer = Producer::init(&cluster, &id, *protocol).await;
        producer.produce(&cluster, &all(), kept, true).await;
        producer.commit_offset(&cluster, &group, 7).await;
        for partition in all() {
            assert_eq!(cluster.committed(partition).await, values, "open");
        }
        producer.end(&cluster, true).await;
        values.push(kept.as_str());
        cluster.expect_committed(&everywhere(&values)).await;
        assert_eq!(cluster.committed_offset(&group).await, 7);

        producer.produce(&cluster, &all(), "aborted", true).await;
        producer.commit_offset(&cluster, &group, 9).await;
        producer.end(&cluster, false).await;
        cluster.expect_committed(&everywhere(&values)).await;
        assert_eq!(cluster.committed_offset(&group).await, 7);
    }
}

/// The decision is in the coordinator's log, and the broker is gone before all markers are written.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_coordinator_writes_the_markers_of_one_that_died() {
    let mut cluster = cluster().await;
    let group = cluster.key_at(GROUP, 2, "g").await;
    let mut producers = Vec::new();
    for (protocol, committed) in [(1, true), (2, true), (2, false)] {
        let prefix = format!("tx-{protocol}-{committed}");
        let id = cluster.key_at(TRANSACTION, 1, &prefix).await;
        let mut producer = Producer::init(&cluster, &id, protocol).await;
        let value = format!("{protocol}-{committed}");
        producer.produce(&cluster, &all(), &value, true).await;
        producers.push((producer, committed));
    }
    producers[1].0.commit_offset(&cluster, &group, 7).await;
    let standing = cluster.led(2).await[0];
    cluster.signal(2, Signal::STOP);
    for (producer, committed) in &mut producers {
        producer.end(&cluster, *committed).await;
    }
    cluster.kill_node(1);
    cluster.signal(2, Signal::CONT);
    let open = cluster.fetched(standing, 0).await;
    assert!(open.last_stable_offset < open.high_watermark, "{open:?}");
    cluster.expire(1).await;
    let kept = everywhere(&["1-true", "2-true"]);
    cluster.expect_committed(&kept).await;
    assert_eq!(cluster.committed_offset(&group).await, 7);

    for (mut producer, _) in producers {
        producer.produce(&cluster, &all(), "next", true).await;
        producer.end(&cluster, true).await;
    }
    let values = ["1-true", "2-true", "next", "next", "next"];
    cluster.expect_committed(&everywhere(&values)).await;
}

/// A broker that stands still takes its requests, and answers none. Whoever leads its partitions next is asked.
#[tokio::test(flavor = "multi_thread")]
async fn markers_do_not_wait_for_a_broker_that_hangs() {
    let cluster = cluster().await;
    let id = cluster.key_at(TRANSACTION, 1, "tx").await;
    let mut producer = Producer::init(&cluster, &id, 2).await;
    // Coordinators are connected to all brokers before one hangs.
    producer.produce(&cluster, &all(), "a", true).await;
    producer.end(&cluster, true).await;
    cluster.expect_committed(&everywhere(&["a"])).await;
    producer.produce(&cluster, &all(), "b", true).await;
    cluster.signal(2, Signal::STOP);
    producer.end(&cluster, true).await;
    sleep(Duration::from_millis(200)).await;
    cluster.expire(2).await;
    let replacing = async {
        while !cluster.led(2).await.is_empty() {
            sleep(POLL).await;
        }
    };
    timeout(PATIENCE, replacing).await.expect("others lead");
    let expected = everywhere(&["a", "b"]);
    let written = timeout(MARKERS_WAIT, cluster.expect_committed(&expected)).await;
    written.expect("markers go to the next leader");
}

/// Partitions of open transactions move as planned, or to whoever takes the log of their broker over.
#[tokio::test(flavor = "multi_thread")]
async fn open_transactions_go_with_their_partitions() {
    let mut cluster = cluster().await;
    let mut producers = Vec::new();
    for (protocol, committed) in [(1, true), (2, true), (2, false)] {
        let prefix = format!("tx-{protocol}-{committed}");
        let id = cluster.key_at(TRANSACTION, 1, &prefix).await;
        producers.push((Producer::init(&cluster, &id, protocol).await, committed));
    }
    let group = cluster.key_at(GROUP, 2, "g").await;
    for (producer, _) in &mut producers {
        producer.produce(&cluster, &all(), "a", true).await;
    }
    producers[0].0.commit_offset(&cluster, &group, 7).await;
    let moved = cluster.led(1).await;
    cluster.reassign(&moved, 3).await;
    for (producer, _) in &mut producers {
        producer.produce(&cluster, &all(), "b", false).await;
    }
    cluster.kill_node(2);
    cluster.expire(2).await;
    for (producer, committed) in &mut producers {
        producer.produce(&cluster, &all(), "c", false).await;
        producer.end(&cluster, *committed).await;
    }
    let seen = ["a", "a", "b", "b", "c", "c"];
    cluster.expect_committed(&everywhere(&seen)).await;
    assert_eq!(cluster.committed_offset(&group).await, 7);

    // The coordinator's broker dies with transactions that are open.
    for (producer, _) in &mut producers {
        producer.produce(&cluster, &all(), "d", true).await;
    }
    cluster.kill_node(1);
    cluster.expire(1).await;
    for (producer, committed) in &mut producers {
        producer.produce(&cluster, &all(), "e", false).await;
        producer.end(&cluster, *committed).await;
    }
    let seen = [&seen[..], &["d", "d", "e", "e"]].concat();
    cluster.expect_committed(&everywhere(&seen)).await;
}

async fn heartbeat(
    cluster: &Cluster,
    group: &str,
    (member, epoch): (&str, i32),
) -> ConsumerGroupHeartbeatResponse {
    let request = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_member_id(text(member))
        .with_member_epoch(epoch);
    let request = match epoch {
        0 => request
            .with_rebalance_timeout_ms(60_000)
            .with_subscribed_topic_names(Some(vec![topic_name()]))
            .with_topic_partitions(Some(Vec::new())),
        _ => request,
    };
    let mut answer = None;
    let code = settled("heartbeat", async || {
        let coordinator = cluster.coordinator(GROUP, group).await;
        let mut client = cluster.brokers[&coordinator].client().await;
        let given = client.call(1, &request).await;
        let code = given.error_code;
        answer = Some(given);
        code
    });
    assert_eq!(code.await, 0, "{answer:?}");
    answer.expect("answered")
}

/// Members of the consumer protocol keep their epochs and partitions where their coordinator changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_the_consumer_protocol_goes_on_at_the_next_coordinator() {
    let mut cluster = cluster().await;
    let group = cluster.key_at(GROUP, 2, "g").await;
    let joined = heartbeat(&cluster, &group, ("first", 0)).await;
    let assignment = joined.assignment.expect("all partitions");
    assert_eq!(assignment.topic_partitions[0].partitions, all());
    cluster.kill_node(2);
    cluster.expire(2).await;
    let kept = heartbeat(&cluster, &group, ("first", joined.member_epoch)).await;
    assert_eq!(kept.member_epoch, joined.member_epoch);
    assert_eq!(kept.assignment, None, "nothing changes");

    let second = heartbeat(&cluster, &group, ("second", 0)).await;
    assert!(second.member_epoch > joined.member_epoch);
    let revoked = heartbeat(&cluster, &group, ("first", joined.member_epoch)).await;
    let left = revoked.assignment.expect("one half is revoked");
    assert_eq!(left.topic_partitions[0].partitions.len(), 3);
    let coordinator = cluster.coordinator(GROUP, &group).await;
    cluster.stop_node(coordinator).await;
    let kept = heartbeat(&cluster, &group, ("second", second.member_epoch)).await;
    assert_eq!(kept.member_epoch, second.member_epoch);
}
