//! What consumers of committed records are answered, and what operators are told of transactions.

use std::{sync::Arc, time::Duration};

use bytes::BytesMut;
use kafka_protocol::{
    error::ResponseError as Code,
    messages::{
        DescribeProducersRequest, FetchRequest, ListOffsetsRequest,
        describe_producers_request::TopicRequest,
        fetch_response::PartitionData,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    },
};
use millrace_log::{AppendOrigin, PartitionLog, TransactionMarker, Verification};
use millrace_model::{TopicName, TopicPartition};
use millrace_record::{BatchBuilder, Compression, split};
use tokio::time::timeout;

use crate::{
    calls::{NAMED_FETCH, batch, fetch_request, only_fetched, topic_name, values},
    world::{Sent, World, answer},
};

const READ_COMMITTED: i8 = 1;

fn log(world: &World) -> Arc<PartitionLog> {
    let partition = TopicPartition {
        topic: TopicName::new("t").expect("legal"),
        partition: 0,
    };
    world.logs.partition(&partition).expect("served")
}

pub(crate) async fn send(world: &World, id: i64, sequence: i32, value: &str) {
    let log = log(world);
    let mut builder = BatchBuilder::new(Compression::None)
        .producer(id, 0, sequence)
        .transactional();
    builder.push(1_000, None, Some(value.as_bytes()), &[]);
    let batches = split(builder.build()).expect("sound");
    let origin = match log.verification(id, 0) {
        Verification::NotNeeded => AppendOrigin::Client,
        Verification::Needed(guard) => AppendOrigin::Verified(guard),
    };
    let ticket = log.append(batches, origin).await.expect("accepted");
    ticket.await.expect("durable");
}

pub(crate) async fn end(world: &World, producer_id: i64, committed: bool) {
    let marker = TransactionMarker {
        producer_id,
        producer_epoch: 0,
        coordinator_epoch: 7,
        committed,
        transaction_version: 1,
    };
    let ticket = log(world).append_marker(marker).await.expect("accepted");
    ticket.await.expect("durable");
}

fn committed(offset: i64) -> FetchRequest {
    fetch_request("t", &[(0, offset)]).with_isolation_level(READ_COMMITTED)
}

async fn fetch(world: &World, request: &FetchRequest) -> PartitionData {
    only_fetched(world.ask(NAMED_FETCH, request).await)
}

fn bounds(data: &PartitionData) -> (i64, i64) {
    (data.last_stable_offset, data.high_watermark)
}

fn aborted(data: &PartitionData) -> Option<Vec<(i64, i64)>> {
    let all = data.aborted_transactions.as_ref()?;
    let pairs = all.iter().map(|one| (one.producer_id.0, one.first_offset));
    Some(pairs.collect())
}

#[tokio::test]
async fn committed_records_end_at_the_last_stable_offset() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.produce("t", 0, batch(&["a"])).await;
    send(&world, 1, 0, "b").await;
    world.produce("t", 0, batch(&["c"])).await;
    let fetched = fetch(&world, &committed(0)).await;
    assert_eq!(values(&fetched), [(0, "a".into())]);
    assert_eq!(
        (bounds(&fetched), aborted(&fetched)),
        ((1, 3), Some(vec![]))
    );
    // In range up to the high watermark, and empty from the last stable offset on.
    for offset in 1..=3 {
        let fetched = fetch(&world, &committed(offset)).await;
        assert_eq!((fetched.error_code, values(&fetched)), (0, vec![]));
        assert_eq!(
            (bounds(&fetched), aborted(&fetched)),
            ((1, 3), Some(vec![]))
        );
    }
    let above = fetch(&world, &committed(4)).await;
    assert_eq!(above.error_code, Code::OffsetOutOfRange.code());
    let all = fetch(&world, &fetch_request("t", &[(0, 0)])).await;
    assert_eq!(values(&all).len(), 3);
    assert_eq!((bounds(&all), aborted(&all)), ((1, 3), None));
    end(&world, 1, false).await;
    let fetched = fetch(&world, &committed(0)).await;
    // Consumers drop the records that were aborted, and the marker.
    assert_eq!(values(&fetched).len(), 4);
    assert_eq!(
        (bounds(&fetched), aborted(&fetched)),
        ((4, 4), Some(vec![(1, 1)]))
    );
    let behind = fetch(&world, &committed(3)).await;
    assert_eq!(aborted(&behind), Some(vec![(1, 1)]), "its marker is there");
}

#[tokio::test]
async fn aborted_transactions_are_told_of_cold_records_too() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    send(&world, 1, 0, "a").await;
    end(&world, 1, false).await;
    send(&world, 1, 1, "b").await;
    end(&world, 1, true).await;
    send(&world, 2, 0, "c").await;
    let world = world.chill().await;
    let request = committed(0).with_max_wait_ms(10_000);
    let fetched = fetch(&world, &request).await;
    assert_eq!(values(&fetched).len(), 4);
    assert_eq!(
        (bounds(&fetched), aborted(&fetched)),
        ((4, 5), Some(vec![(1, 0)]))
    );
    // Another isolation level over the same connection is another read.
    let all = fetch_request("t", &[(0, 0)]).with_max_wait_ms(10_000);
    let all = fetch(&world, &all).await;
    assert_eq!((values(&all).len(), aborted(&all)), (5, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_of_committed_records_waits_for_the_last_stable_offset() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    send(&world, 1, 0, "a").await;
    let waiting = |min_bytes| {
        committed(0)
            .with_max_wait_ms(20_000)
            .with_min_bytes(min_bytes)
    };
    let mut fetches = Vec::new();
    // What is above the last stable offset does not count for the least that a client waits for.
    for min_bytes in [1, 120] {
        let sent = world.send(NAMED_FETCH, &waiting(min_bytes)).await;
        let Sent::Later(fetch) = sent else {
            panic!("nothing is stable")
        };
        let fetch = answer::<FetchRequest>(NAMED_FETCH, Sent::Later(fetch));
        fetches.push(tokio::spawn(fetch));
    }
    while world.service.delayed_fetches() < 2 {
        tokio::task::yield_now().await;
    }
    world.produce("t", 0, batch(&["b", "c", "d", "e"])).await;
    assert_eq!(world.service.delayed_fetches(), 2);
    end(&world, 1, true).await;
    for fetch in fetches {
        let fetched = timeout(Duration::from_secs(5), fetch).await;
        let fetched = only_fetched(fetched.expect("woken").expect("answered"));
        assert_eq!(values(&fetched).len(), 6);
        assert_eq!(bounds(&fetched), (6, 6));
    }
}

#[tokio::test]
async fn list_offsets_tells_committed_records_only_up_to_the_last_stable_offset() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let mut stamped = BatchBuilder::new(Compression::None);
    stamped.push(500, None, Some(b"a"), &[]);
    let stamped: BytesMut = stamped.build();
    world.produce("t", 0, stamped).await;
    send(&world, 1, 0, "b").await;
    let offset = async |isolation: i8, timestamp: i64| {
        let partition = ListOffsetsPartition::default()
            .with_timestamp(timestamp)
            .with_current_leader_epoch(-1);
        let topic = ListOffsetsTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default()
            .with_isolation_level(isolation)
            .with_topics(vec![topic]);
        let answer = world.ask(7, &request).await;
        let found = &answer.topics[0].partitions[0];
        assert_eq!(found.error_code, 0);
        found.offset
    };
    assert_eq!((offset(0, -1).await, offset(1, -1).await), (2, 1));
    assert_eq!((offset(0, -2).await, offset(1, -2).await), (0, 0));
    assert_eq!((offset(0, 400).await, offset(1, 400).await), (0, 0));
    assert_eq!((offset(0, 900).await, offset(1, 900).await), (1, -1));
    assert_eq!((offset(0, -3).await, offset(1, -3).await), (1, -1));
    end(&world, 1, true).await;
    assert_eq!((offset(0, -1).await, offset(1, -1).await), (3, 3));
    assert_eq!(offset(1, 900).await, 1);
}

#[tokio::test]
async fn describe_producers_tells_open_transactions() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    send(&world, 1, 0, "a").await;
    send(&world, 2, 0, "b").await;
    end(&world, 2, true).await;
    let topic = |name, partitions| {
        TopicRequest::default()
            .with_name(topic_name(name))
            .with_partition_indexes(partitions)
    };
    let request = DescribeProducersRequest::default()
        .with_topics(vec![topic("t", vec![0, 9, 0]), topic("none", vec![0])]);
    let answer = world.ask(0, &request).await;
    let partitions: Vec<_> = { answer.topics.iter() }
        .flat_map(|topic| &topic.partitions)
        .map(|partition| (partition.partition_index, partition.error_code))
        .collect();
    let unknown = Code::UnknownTopicOrPartition.code();
    assert_eq!(partitions, [(0, 0), (9, unknown), (0, unknown)]);
    let producers: Vec<_> = { answer.topics[0].partitions[0].active_producers.iter() }
        .map(|one| {
            assert!(one.last_timestamp > 0);
            let transaction = one.current_txn_start_offset;
            let epochs = (one.producer_epoch, one.coordinator_epoch);
            (one.producer_id.0, epochs, one.last_sequence, transaction)
        })
        .collect();
    assert_eq!(producers, [(1, (0, -1), 0, 0), (2, (0, 7), 0, -1)]);
}
