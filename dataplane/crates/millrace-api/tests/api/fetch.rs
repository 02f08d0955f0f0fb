use std::time::{Duration, Instant};

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::{
    error::ResponseError as Code,
    messages::{
        BrokerId, DeleteTopicsRequest, FetchRequest, FetchResponse, ListOffsetsRequest,
        MetadataRequest, OffsetForLeaderEpochRequest,
        metadata_request::MetadataRequestTopic,
        offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
    },
};
use millrace_meta::MetaStore;
use millrace_model::StreamId;
use millrace_objects::ObjectKey;
use millrace_record::{BatchBuilder, Compression};
use millrace_testkit::BucketFaults;

use crate::{
    calls::{
        NAMED_FETCH, NAMED_PRODUCE, batch, fetch_request, only_fetched, produce_request,
        topic_name, values,
    },
    world::{Sent, World, answer},
};

fn waiting(name: &str, partitions: &[(i32, i64)], wait_ms: i32, min_bytes: i32) -> FetchRequest {
    fetch_request(name, partitions)
        .with_max_wait_ms(wait_ms)
        .with_min_bytes(min_bytes)
}

fn codes(response: &FetchResponse) -> Vec<i16> {
    let topics = response.responses.iter();
    topics
        .flat_map(|topic| &topic.partitions)
        .map(|p| p.error_code)
        .collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "measures how long the service takes"
)]
fn now() -> Instant {
    Instant::now()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_fetch_is_answered_within_20_ms_of_the_ack() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let mut took = Vec::new();
    for round in 0..21 {
        let request = waiting("t", &[(0, round)], 10_000, 1);
        let Sent::Later(fetch) = world.send(NAMED_FETCH, &request).await else {
            panic!("there is nothing yet")
        };
        let fetch = tokio::spawn(answer::<FetchRequest>(NAMED_FETCH, Sent::Later(fetch)));
        while world.service.delayed_fetches() == 0 {
            tokio::task::yield_now().await;
        }
        let produced = world.produce("t", 0, batch(&["x"])).await;
        let acknowledged = now();
        assert_eq!(produced.base_offset, round);
        let fetched = only_fetched(fetch.await.expect("answered"));
        took.push(acknowledged.elapsed());
        assert_eq!(values(&fetched), [(round, "x".into())]);
    }
    assert_eq!(world.service.delayed_fetches(), 0);
    took.sort_unstable();
    // The machine may be busy with other tests now and then; a wake-up that is lost costs 10 s.
    assert!(
        took[10] < Duration::from_millis(20),
        "{took:?} after the acks"
    );
    assert!(took[20] < Duration::from_secs(2), "{took:?} after the acks");
}

/// Flips a bit in the first object that holds the stream.
async fn flip_first(world: &World, stream: StreamId) {
    let ranges = world.meta.objects_of(stream, 0, 9).await.expect("found");
    let key = ObjectKey::of("cluster", ranges[0].object);
    world.bucket.flip_block(&key, stream).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrupt_block_is_told_as_such_and_the_other_partition_is_served() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    for partition in [0, 1] {
        world.produce("t", partition, batch(&["x"])).await;
    }
    let world = world.chill().await;
    let topics = world.meta.topics().await.expect("listed");
    flip_first(&world, topics[0].partitions[0].data).await;
    let failed = world.fetch_from("t", 0, 0).await;
    assert_eq!(failed.error_code, Code::CorruptMessage.code());
    let served = world.fetch_from("t", 1, 0).await;
    assert_eq!(values(&served), [(0, "x".into())]);
    let produced = world.produce("t", 0, batch(&["y"])).await;
    assert_eq!((produced.error_code, produced.base_offset), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_offline_partition_answers_storage_error_and_the_other_is_served() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    for partition in [0, 1] {
        world.produce("t", partition, batch(&["x"])).await;
    }
    let world = world.restart().await;
    let topics = world.meta.topics().await.expect("listed");
    flip_first(&world, topics[0].partitions[0].meta).await;
    let world = world.restart().await;
    let offline = Code::KafkaStorageError.code();
    assert_eq!(world.fetch_from("t", 0, 0).await.error_code, offline);
    let produced = world.produce("t", 0, batch(&["y"])).await;
    assert_eq!(produced.error_code, offline);
    let asked = MetadataRequestTopic::default().with_name(Some(topic_name("t")));
    let request = MetadataRequest::default().with_topics(Some(vec![asked]));
    let described = world.ask(9, &request).await;
    let partitions = &described.topics[0].partitions;
    let codes: Vec<_> = partitions.iter().map(|p| p.error_code).collect();
    assert_eq!(
        (described.topics[0].error_code, codes),
        (0, vec![offline, 0])
    );
    assert_eq!(partitions[0].offline_replicas.len(), 1);
    let served = world.fetch_from("t", 1, 0).await;
    assert_eq!(values(&served), [(0, "x".into())]);
}

#[tokio::test]
async fn a_fetch_that_nothing_comes_for_ends_when_the_client_says() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let began = now();
    let fetched = only_fetched(
        world
            .ask(NAMED_FETCH, &waiting("t", &[(0, 0)], 60, 1))
            .await,
    );
    assert!(began.elapsed() >= Duration::from_millis(60));
    assert_eq!(
        (
            fetched.error_code,
            fetched.high_watermark,
            values(&fetched).len()
        ),
        (0, 0, 0)
    );
    assert_eq!(world.service.delayed_fetches(), 0);
}

#[tokio::test]
async fn min_bytes_is_waited_for() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    let size = i32::try_from(batch(&["0123456789"]).len()).expect("small");
    let request = waiting("t", &[(0, 0), (1, 0)], 10_000, 3 * size);
    let Sent::Later(fetch) = world.send(NAMED_FETCH, &request).await else {
        panic!("nothing yet")
    };
    let fetch = tokio::spawn(answer::<FetchRequest>(NAMED_FETCH, Sent::Later(fetch)));
    for partition in [0, 1] {
        world.produce("t", partition, batch(&["0123456789"])).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!fetch.is_finished(), "answered too early");
    }
    world.produce("t", 0, batch(&["0123456789"])).await;
    let response = fetch.await.expect("answered");
    let records: usize = response.responses[0]
        .partitions
        .iter()
        .map(|p| values(p).len())
        .sum();
    assert_eq!(records, 3);
}

#[tokio::test]
async fn errors_are_told_at_once_and_disturb_nobody() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.produce("t", 0, batch(&["a", "b"])).await;
    let request = waiting("t", &[(0, 0), (0, 3), (0, -5), (9, 0)], 10_000, 1 << 20);
    let response = world.ask(NAMED_FETCH, &request).await;
    let out_of_range = Code::OffsetOutOfRange.code();
    let unknown = Code::UnknownTopicOrPartition.code();
    assert_eq!(codes(&response), [0, out_of_range, out_of_range, unknown]);
    let parts = &response.responses[0].partitions;
    assert_eq!(values(&parts[0]).len(), 2);
    assert_eq!(
        (parts[1].high_watermark, parts[1].log_start_offset),
        (-1, -1)
    );
    let response = world
        .ask(NAMED_FETCH, &waiting("none", &[(0, 0)], 10_000, 1))
        .await;
    assert_eq!(codes(&response), [unknown]);
}

#[tokio::test]
async fn leader_epochs_are_checked() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let world = world.restart().await;
    let epoch = world.logs.topics()[0]
        .log(0)
        .expect("served")
        .leader_epoch();
    for (theirs, expected) in [
        (-1, 0),
        (epoch, 0),
        (epoch - 1, Code::FencedLeaderEpoch.code()),
        (epoch + 1, Code::UnknownLeaderEpoch.code()),
    ] {
        let mut request = fetch_request("t", &[(0, 0)]);
        request.topics[0].partitions[0].current_leader_epoch = theirs;
        assert_eq!(
            codes(&world.ask(NAMED_FETCH, &request).await),
            [expected],
            "{theirs}"
        );
    }
    let end = async |asked: i32| {
        let partition = OffsetForLeaderPartition::default()
            .with_current_leader_epoch(-1)
            .with_leader_epoch(asked);
        let topic = OffsetForLeaderTopic::default()
            .with_topic(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = OffsetForLeaderEpochRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_topics(vec![topic]);
        let mut response = world.ask(4, &request).await;
        let found = response.topics.remove(0).partitions.remove(0);
        (found.error_code, found.leader_epoch, found.end_offset)
    };
    assert_eq!(end(epoch).await, (0, epoch, 0));
    for unknown in [-1, epoch + 1] {
        assert_eq!(end(unknown).await, (0, -1, -1), "{unknown}");
    }
    // Without room for records, the offset is checked all the same.
    let beyond = fetch_request("t", &[(0, 1)]).with_max_bytes(0);
    let response = world.ask(NAMED_FETCH, &beyond).await;
    assert_eq!(codes(&response), [Code::OffsetOutOfRange.code()]);
    // What was fetched before came from another log.
    let out_of_range = Code::OffsetOutOfRange.code();
    for (read, expected) in [(-1, 0), (epoch, 0), (epoch + 1, out_of_range)] {
        let mut request = fetch_request("t", &[(0, 0)]);
        request.topics[0].partitions[0].last_fetched_epoch = read;
        let response = world.ask(NAMED_FETCH, &request).await;
        assert_eq!(codes(&response), [expected], "{read}");
        if expected != 0 {
            let aborted = &response.responses[0].partitions[0].aborted_transactions;
            assert_eq!(*aborted, None);
        }
    }
}

#[tokio::test]
async fn sizes_are_bounded_but_one_batch_always_comes() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    let large = "x".repeat(10_000);
    for partition in [0, 0, 1] {
        world.produce("t", partition, batch(&[&large])).await;
    }
    let size = batch(&[&large]).len();
    // Too small for any batch: the first partition gives one, the other none.
    let mut request = fetch_request("t", &[(0, 0), (1, 0)]).with_max_bytes(1);
    let response = world.ask(NAMED_FETCH, &request).await;
    let counts = |response: &FetchResponse| {
        let partitions = response.responses[0].partitions.iter();
        partitions.map(|p| values(p).len()).collect::<Vec<_>>()
    };
    assert_eq!(counts(&response), [1, 0]);
    request.topics[0].partitions[0].partition_max_bytes = 1;
    request.max_bytes = 50 << 20;
    assert_eq!(counts(&world.ask(NAMED_FETCH, &request).await), [1, 1]);
    request.topics[0].partitions[0].partition_max_bytes = 1 << 20;
    request.max_bytes = i32::try_from(2 * size).expect("small");
    assert_eq!(counts(&world.ask(NAMED_FETCH, &request).await), [2, 0]);
}

#[tokio::test]
async fn topics_are_named_by_id_from_version_13() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.produce("t", 0, batch(&["x"])).await;
    let id = world.logs.topics()[0].id.0;
    let mut request = fetch_request("", &[(0, 0)]);
    request.topics[0].topic_id = id;
    let response = world.ask(17, &request).await;
    assert_eq!(response.responses[0].topic_id, id);
    assert_eq!(values(&only_fetched(response)), [(0, "x".into())]);
    request.topics[0].topic_id = uuid::Uuid::from_u128(9);
    let response = world.ask(17, &request).await;
    assert_eq!(codes(&response), [Code::UnknownTopicId.code()]);
}

#[tokio::test]
async fn a_deleted_topic_ends_the_wait() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let request = waiting("t", &[(0, 0)], 10_000, 1);
    let Sent::Later(fetch) = world.send(NAMED_FETCH, &request).await else {
        panic!("nothing yet")
    };
    let fetch = tokio::spawn(answer::<FetchRequest>(NAMED_FETCH, Sent::Later(fetch)));
    while world.service.delayed_fetches() == 0 {
        tokio::task::yield_now().await;
    }
    let began = now();
    let delete = DeleteTopicsRequest::default().with_topic_names(vec![topic_name("t")]);
    assert_eq!(world.ask(5, &delete).await.responses[0].error_code, 0);
    let fetched = only_fetched(fetch.await.expect("answered"));
    assert_eq!(fetched.error_code, Code::NotLeaderOrFollower.code());
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn what_has_left_memory_comes_from_objects() {
    let world = World::new().await;
    world.create("t", 3, &[]).await;
    for at in 0..30 {
        world.produce("t", at % 3, batch(&[&at.to_string()])).await;
    }
    let world = world.chill().await;
    let gets = world.bucket.counts().gets;
    let request = waiting("t", &[(0, 0), (1, 5), (2, 0)], 10_000, 1);
    let response = world.ask(NAMED_FETCH, &request).await;
    assert!(world.bucket.counts().gets > gets, "read from the bucket");
    let partitions = &response.responses[0].partitions;
    assert_eq!(values(&partitions[0]).len(), 10);
    assert_eq!(values(&partitions[1])[0], (5, "16".into()));
    assert_eq!(values(&partitions[2]).last(), Some(&(9, "29".into())));
    // New records beside old ones.
    world.produce("t", 0, batch(&["new"])).await;
    let response = world
        .ask(NAMED_FETCH, &waiting("t", &[(0, 10), (2, 0)], 10_000, 1))
        .await;
    let partitions = &response.responses[0].partitions;
    assert_eq!(values(&partitions[0]), [(10, "new".into())]);
    let old = if values(&partitions[1]).is_empty() {
        // New records are not held up; the old ones come with the next answer.
        world.fetch_from("t", 2, 0).await
    } else {
        partitions[1].clone()
    };
    assert_eq!(values(&old).len(), 10);
}

#[tokio::test]
async fn new_records_do_not_wait_for_old_ones() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    world.produce("t", 0, batch(&["old"])).await;
    let world = world.chill().await;
    world.produce("t", 1, batch(&["new"])).await;
    world.bucket.set(BucketFaults {
        delay: Duration::from_millis(700),
        ..BucketFaults::default()
    });
    let began = now();
    let request = waiting("t", &[(0, 0), (1, 0)], 10_000, 1);
    let response = world.ask(NAMED_FETCH, &request).await;
    assert!(
        began.elapsed() < Duration::from_millis(500),
        "{:?}",
        began.elapsed()
    );
    let partitions = &response.responses[0].partitions;
    assert_eq!(values(&partitions[1]), [(0, "new".into())]);
    assert_eq!(
        (partitions[0].error_code, values(&partitions[0]).len()),
        (0, 0)
    );
    // The slow read has gone on by itself: a client that only takes what is fast gets it too.
    for _ in 0..100 {
        let response = world.ask(NAMED_FETCH, &request).await;
        if values(&response.responses[0].partitions[0]).len() == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the old record never came");
}

#[tokio::test]
async fn stopping_ends_all_waits() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let request = waiting("t", &[(0, 0)], 30_000, 1);
    let Sent::Later(fetch) = world.send(NAMED_FETCH, &request).await else {
        panic!("nothing yet")
    };
    let fetch = tokio::spawn(answer::<FetchRequest>(NAMED_FETCH, Sent::Later(fetch)));
    while world.service.delayed_fetches() == 0 {
        tokio::task::yield_now().await;
    }
    world.service.stop_waiting();
    assert_eq!(only_fetched(fetch.await.expect("answered")).error_code, 0);
}

#[tokio::test]
async fn offsets_are_found_by_end_and_by_time() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    for time in [10, 30, 20] {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(time, None, Some(b"v"), &[]);
        let request = produce_request("t", &[(0, builder.build())], -1);
        world.ask(NAMED_PRODUCE, &request).await;
    }
    let look = async |version: i16, timestamp: i64| {
        let partition = ListOffsetsPartition::default()
            .with_timestamp(timestamp)
            .with_current_leader_epoch(-1);
        let topic = ListOffsetsTopic::default()
            .with_name(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default().with_topics(vec![topic]);
        let mut response = world.ask(version, &request).await;
        let found = response.topics.remove(0).partitions.remove(0);
        (found.error_code, found.offset, found.timestamp)
    };
    assert_eq!(look(1, -1).await, (0, 3, -1));
    assert_eq!(look(1, -2).await, (0, 0, -1));
    assert_eq!(look(7, -3).await, (0, 1, 30));
    assert_eq!(look(8, -4).await, (0, 0, -1));
    assert_eq!(look(9, -5).await, (0, -1, -1));
    assert_eq!(look(11, -6).await, (0, 0, -1));
    assert_eq!(
        look(10, -6).await,
        (Code::UnsupportedVersion.code(), -1, -1)
    );
    assert_eq!(look(6, -3).await, (Code::UnsupportedVersion.code(), -1, -1));
    assert_eq!(look(10, 0).await, (0, 0, 10));
    assert_eq!(look(10, 11).await, (0, 1, 30));
    assert_eq!(look(10, 31).await, (0, -1, -1));
}
