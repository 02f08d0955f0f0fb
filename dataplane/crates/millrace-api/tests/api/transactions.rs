//! Transactions through the service: both protocols, fencing, offsets of groups, and what admins see.

use bytes::BytesMut;
use kafka_protocol::{error::ResponseError as Code, messages::*};
use millrace_record::{BatchBuilder, Compression};

use crate::{
    authorization::offset_fetch_of,
    calls::{fetch_request, only_fetched, only_partition, produce_request, topic_name, values},
    versions::group,
    world::{World, text},
};

/// A Produce version before and one of transaction protocol 2 that names topics.
const PRODUCE_1: i16 = 11;
pub(crate) const PRODUCE_2: i16 = 12;

/// A transactional producer, as a client keeps it.
#[derive(Debug, Clone)]
pub(crate) struct Producer {
    id: TransactionalId,
    producer_id: ProducerId,
    epoch: i16,
    sequence: i32,
}

impl Producer {
    pub(crate) async fn init(world: &World, id: &str) -> Self {
        let id = TransactionalId(text(id));
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id.clone()))
            .with_transaction_timeout_ms(60_000);
        let mut given = world.ask(5, &request).await;
        for _ in 0..100 {
            if given.error_code != Code::ConcurrentTransactions.code() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            given = world.ask(5, &request).await;
        }
        assert_eq!(given.error_code, 0);
        Self {
            id,
            producer_id: given.producer_id,
            epoch: given.producer_epoch,
            sequence: 0,
        }
    }

    fn batch(&mut self, value: &str) -> BytesMut {
        let builder = BatchBuilder::new(Compression::None);
        let builder = builder.producer(self.producer_id.0, self.epoch, self.sequence);
        let mut builder = builder.transactional();
        builder.push(1, Some(b"k"), Some(value.as_bytes()), &[]);
        self.sequence += 1;
        builder.build()
    }

    pub(crate) fn request(&mut self, partition: i32, value: &str) -> ProduceRequest {
        let batch = self.batch(value);
        let request = produce_request("t", &[(partition, batch)], -1);
        request.with_transactional_id(Some(self.id.clone()))
    }

    async fn produce(&mut self, world: &World, version: i16, partition: i32, value: &str) -> i16 {
        let request = self.request(partition, value);
        only_partition(world.ask(version, &request).await).error_code
    }

    async fn add(&self, world: &World, partitions: &[i32]) -> Vec<i16> {
        let topic = add_partitions_to_txn_request::AddPartitionsToTxnTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(partitions.to_vec());
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.id.clone())
            .with_v3_and_below_producer_id(self.producer_id)
            .with_v3_and_below_producer_epoch(self.epoch)
            .with_v3_and_below_topics(vec![topic]);
        let mut codes = Vec::new();
        // The markers of the transaction before may be visible before it is complete.
        for _ in 0..100 {
            let added = world.ask(3, &request).await;
            let topics = added.results_by_topic_v3_and_below.iter();
            let partitions = topics.flat_map(|topic| &topic.results_by_partition);
            let each = partitions.map(|result| result.partition_error_code);
            codes = each.collect();
            if !codes.contains(&Code::ConcurrentTransactions.code()) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        codes
    }

    async fn end(&mut self, world: &World, version: i16, committed: bool) -> i16 {
        let request = EndTxnRequest::default()
            .with_transactional_id(self.id.clone())
            .with_producer_id(self.producer_id)
            .with_producer_epoch(self.epoch)
            .with_committed(committed);
        let ended = world.ask(version, &request).await;
        if ended.error_code == 0 && version >= 5 {
            assert_eq!(ended.producer_epoch, self.epoch + 1, "each end is an epoch");
            self.epoch = ended.producer_epoch;
            self.sequence = 0;
        }
        ended.error_code
    }

    fn offsets(&self, offset: i64) -> TxnOffsetCommitRequest {
        let partition = txn_offset_commit_request::TxnOffsetCommitRequestPartition::default()
            .with_partition_index(0)
            .with_committed_offset(offset)
            .with_committed_metadata(Some(text("")));
        let topic = txn_offset_commit_request::TxnOffsetCommitRequestTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition]);
        TxnOffsetCommitRequest::default()
            .with_transactional_id(self.id.clone())
            .with_group_id(group("g"))
            .with_producer_id(self.producer_id)
            .with_producer_epoch(self.epoch)
            .with_generation_id(-1)
            .with_topics(vec![topic])
    }
}

pub(crate) async fn world() -> World {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    for kind in [0, 1] {
        let request = FindCoordinatorRequest::default()
            .with_key_type(kind)
            .with_coordinator_keys(vec![text("any")]);
        let found = world.ask(6, &request).await;
        assert_eq!(found.coordinators[0].error_code, 0, "kind {kind}");
    }
    world
}

/// What a consumer of this isolation level sees of partition 0: values, the last stable offset, the
/// aborted transactions.
async fn fetched(world: &World, committed: bool) -> (Vec<String>, i64, Option<usize>) {
    let request = fetch_request("t", &[(0, 0)]).with_isolation_level(i8::from(committed));
    let data = only_fetched(world.ask(12, &request).await);
    assert_eq!(data.error_code, 0);
    let texts = values(&data).into_iter().map(|(_, value)| value).collect();
    let aborted = data.aborted_transactions.map(|aborted| aborted.len());
    (texts, data.last_stable_offset, aborted)
}

/// Waits until everything that was decided is in the partition.
async fn settled(world: &World, last_stable_offset: i64) {
    for _ in 0..200 {
        if fetched(world, true).await.1 == last_stable_offset {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("no markers: {:?}", fetched(world, true).await);
}

#[tokio::test]
async fn what_is_committed_is_seen_and_what_is_aborted_is_named() {
    for (produce, end) in [(PRODUCE_1, 3), (PRODUCE_2, 5)] {
        let world = world().await;
        let mut producer = Producer::init(&world, "tx").await;
        if end < 5 {
            let before = producer.clone().produce(&world, produce, 0, "early").await;
            assert_eq!(before, Code::TransactionAbortable.code(), "not added");
            assert_eq!(producer.add(&world, &[0]).await, [0]);
        }
        assert_eq!(producer.produce(&world, produce, 0, "a").await, 0);
        assert_eq!(producer.produce(&world, produce, 0, "b").await, 0);
        let (seen, stable, aborted) = fetched(&world, true).await;
        assert_eq!((seen.len(), stable, aborted), (0, 0, Some(0)));
        let (seen, ..) = fetched(&world, false).await;
        assert_eq!(seen, ["a", "b"], "uncommitted records are no secret");
        assert_eq!(producer.end(&world, end, true).await, 0);
        settled(&world, 3).await;

        if end < 5 {
            assert_eq!(producer.add(&world, &[0]).await, [0]);
        }
        assert_eq!(producer.produce(&world, produce, 0, "c").await, 0);
        assert_eq!(producer.end(&world, end, false).await, 0);
        settled(&world, 5).await;
        let (seen, _, aborted) = fetched(&world, true).await;
        assert_eq!(aborted, Some(1));
        assert_eq!(seen[..2], ["a", "b"], "clients leave out what is named");
    }
}

#[tokio::test]
async fn a_newer_producer_fences_the_older_one_and_aborts_what_it_left_open() {
    let world = world().await;
    let mut zombie = Producer::init(&world, "tx").await;
    assert_eq!(zombie.produce(&world, PRODUCE_2, 0, "left open").await, 0);
    let mut producer = Producer::init(&world, "tx").await;
    settled(&world, 2).await;
    assert!(producer.epoch > zombie.epoch);
    let fenced = zombie.produce(&world, PRODUCE_2, 0, "late").await;
    assert_eq!(fenced, Code::InvalidProducerEpoch.code());
    let ended = zombie.clone().end(&world, 5, true).await;
    assert_eq!(ended, Code::ProducerFenced.code());
    let ended = zombie.end(&world, 1, true).await;
    assert_eq!(
        ended,
        Code::InvalidProducerEpoch.code(),
        "what older clients know"
    );
    assert_eq!(producer.produce(&world, PRODUCE_2, 0, "x").await, 0);
    assert_eq!(producer.end(&world, 5, true).await, 0);
    settled(&world, 4).await;
}

#[tokio::test]
async fn offsets_take_effect_with_their_transaction() {
    let world = world().await;
    let mut producer = Producer::init(&world, "tx").await;
    let commit = producer.offsets(7);
    let committed = world.ask(5, &commit).await;
    assert_eq!(committed.topics[0].partitions[0].error_code, 0);
    let stable = offset_fetch_of("t").with_require_stable(true);
    let unstable = world.ask(9, &stable).await;
    let partition = &unstable.groups[0].topics[0].partitions[0];
    assert_eq!(partition.error_code, Code::UnstableOffsetCommit.code());
    let plain = world.ask(9, &offset_fetch_of("t")).await;
    assert_eq!(plain.groups[0].topics[0].partitions[0].committed_offset, -1);
    assert_eq!(producer.end(&world, 5, true).await, 0);
    for _ in 0..200 {
        let fetched = world.ask(9, &stable).await;
        let partition = &fetched.groups[0].topics[0].partitions[0];
        if partition.error_code == 0 {
            assert_eq!(partition.committed_offset, 7);
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("the offsets never took effect");
}

#[tokio::test]
async fn an_open_transaction_survives_a_restart_and_can_be_ended() {
    let world = world().await;
    let mut producer = Producer::init(&world, "tx").await;
    assert_eq!(producer.produce(&world, PRODUCE_2, 0, "a").await, 0);
    let commit = producer.offsets(9);
    world.ask(5, &commit).await;
    let world = world.restart().await;
    assert_eq!(fetched(&world, true).await.1, 0, "still open");
    let described = DescribeTransactionsRequest::default()
        .with_transactional_ids(vec![producer.id.clone(), TransactionalId(text("none"))]);
    let described = world.ask(0, &described).await;
    let states = &described.transaction_states;
    assert_eq!(states[0].transaction_state.as_str(), "Ongoing");
    assert_eq!(states[0].producer_epoch, producer.epoch);
    assert_eq!(states[0].topics.len(), 2, "{:?}", states[0].topics);
    assert_eq!(states[1].error_code, Code::TransactionalIdNotFound.code());
    assert_eq!(producer.end(&world, 5, true).await, 0);
    settled(&world, 2).await;
    let listed = ListTransactionsRequest::default();
    let listed = world.ask(1, &listed).await;
    assert_eq!(listed.transaction_states.len(), 1);
    let ongoing = ListTransactionsRequest::default().with_state_filters(vec![text("Ongoing")]);
    let ongoing = world.ask(1, &ongoing).await;
    assert_eq!(ongoing.transaction_states.len(), 0);
}

#[tokio::test]
async fn an_operator_aborts_a_hanging_transaction() {
    let world = world().await;
    let mut producer = Producer::init(&world, "tx").await;
    assert_eq!(producer.produce(&world, PRODUCE_2, 0, "a").await, 0);
    let topic = write_txn_markers_request::WritableTxnMarkerTopic::default()
        .with_name(topic_name("t"))
        .with_partition_indexes(vec![0, 7]);
    let marker = write_txn_markers_request::WritableTxnMarker::default()
        .with_producer_id(producer.producer_id)
        .with_producer_epoch(producer.epoch)
        .with_coordinator_epoch(0)
        .with_topics(vec![topic]);
    let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
    let written = world.ask(1, &request).await;
    let codes: Vec<i16> = written.markers[0].topics[0]
        .partitions
        .iter()
        .map(|partition| partition.error_code)
        .collect();
    assert_eq!(codes, [0, Code::UnknownTopicOrPartition.code()]);
    settled(&world, 2).await;
}

/// The next transaction has begun with the epoch of the marker, which may be overtaken at a broker that hangs.
#[tokio::test]
async fn a_late_marker_of_another_broker_does_not_end_the_next_transaction() {
    let world = world().await;
    let mut producer = Producer::init(&world, "tx").await;
    assert_eq!(producer.produce(&world, PRODUCE_2, 0, "a").await, 0);
    assert_eq!(producer.end(&world, 5, true).await, 0);
    settled(&world, 2).await;
    assert_eq!(producer.produce(&world, PRODUCE_2, 0, "b").await, 0);
    let topic = write_txn_markers_request::WritableTxnMarkerTopic::default()
        .with_name(topic_name("t"))
        .with_partition_indexes(vec![0]);
    let marker = write_txn_markers_request::WritableTxnMarker::default()
        .with_producer_id(producer.producer_id)
        .with_producer_epoch(producer.epoch)
        .with_transaction_result(true)
        .with_topics(vec![topic]);
    let marker = millrace_wire::with_transaction_version(marker, 2);
    let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
    let written = world.ask(1, &request).await;
    let code = written.markers[0].topics[0].partitions[0].error_code;
    assert_eq!(code, Code::InvalidProducerEpoch.code());
    let (_, last_stable_offset, _) = fetched(&world, true).await;
    assert_eq!(last_stable_offset, 2);
}

/// The guard that was taken before the marker is void. The broker asks the coordinator again, and the next transaction is no
/// reason to fail.
#[tokio::test]
async fn the_next_transaction_may_overtake_the_marker_of_the_previous_one() {
    let world = world().await;
    let mut producer = Producer::init(&world, "tx").await;
    let concurrent = Code::ConcurrentTransactions.code();
    assert_eq!(producer.produce(&world, PRODUCE_2, 0, "0").await, 0);
    let mut transactions = 1;
    let mut asked_again = false;
    // The broker may give up before a machine under load has written the marker: clients try again then, and so does this.
    while !asked_again && transactions < 20 {
        let held = world.settings.markers.lock().await;
        assert_eq!(producer.end(&world, 5, true).await, 0);
        let next = producer.request(0, &transactions.to_string());
        let code = async || only_partition(world.ask(PRODUCE_2, &next).await).error_code;
        if transactions == 1 {
            assert_eq!(code().await, concurrent, "the marker is not written");
        }
        let release = async {
            // Until the guard is taken.
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            drop(held);
        };
        let (mut written, ()) = tokio::join!(code(), release);
        asked_again = written == 0;
        for _ in 0..100 {
            if written == concurrent {
                written = code().await;
            }
        }
        assert_eq!(written, 0);
        transactions += 1;
    }
    assert!(
        asked_again,
        "no request waited until the marker was written"
    );
    assert_eq!(producer.end(&world, 5, true).await, 0);
    settled(&world, 2 * transactions).await;
    let (seen, ..) = fetched(&world, true).await;
    // Each with the marker behind it.
    let values: Vec<_> = seen.iter().step_by(2).map(String::as_str).collect();
    let expected: Vec<_> = (0..transactions).map(|number| number.to_string()).collect();
    assert_eq!(values, expected);
}

/// Its client may not be allowed to use the id.
#[tokio::test]
async fn records_of_an_open_transaction_need_its_id() {
    let world = world().await;
    let mut producer = Producer::init(&world, "tx").await;
    assert_eq!(producer.produce(&world, PRODUCE_2, 0, "a").await, 0);
    let request = produce_request("t", &[(0, producer.batch("b"))], -1);
    let refused = only_partition(world.ask(PRODUCE_2, &request).await);
    let expected = Code::TransactionalIdAuthorizationFailed.code();
    assert_eq!(refused.error_code, expected);
}

#[tokio::test]
async fn timeouts_and_ids_are_checked() {
    let world = world().await;
    let ask = |id: &str, timeout: i32, producer: i64, epoch: i16| {
        InitProducerIdRequest::default()
            .with_transactional_id(Some(TransactionalId(text(id))))
            .with_transaction_timeout_ms(timeout)
            .with_producer_id(ProducerId(producer))
            .with_producer_epoch(epoch)
    };
    for (request, code) in [
        (ask("tx", 0, -1, -1), Code::InvalidTransactionTimeout),
        (ask("tx", i32::MAX, -1, -1), Code::InvalidTransactionTimeout),
        (ask("", 1_000, -1, -1), Code::InvalidRequest),
        (ask("tx", 1_000, 5, -1), Code::InvalidRequest),
        (ask("tx", 1_000, -1, 5), Code::InvalidRequest),
    ] {
        let refused = world.ask(5, &request).await;
        assert_eq!(refused.error_code, code.code(), "{request:?}");
    }
}
