//! Deleting records, how large partitions are, and where leader epochs end.

use kafka_protocol::{
    error::ResponseError as Code,
    messages::{
        DeleteRecordsRequest, DescribeLogDirsRequest, OffsetForLeaderEpochRequest,
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        describe_log_dirs_request::DescribableLogDirTopic,
        describe_log_dirs_response::{DescribeLogDirsPartition, DescribeLogDirsTopic},
        offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
    },
};

use crate::{
    calls::{batch, topic_name, values},
    world::World,
};

fn delete_records(name: &str, partitions: &[(i32, i64)]) -> DeleteRecordsRequest {
    let partition = |&(index, offset): &(i32, i64)| {
        DeleteRecordsPartition::default()
            .with_partition_index(index)
            .with_offset(offset)
    };
    let topic = DeleteRecordsTopic::default()
        .with_name(topic_name(name))
        .with_partitions(partitions.iter().map(partition).collect());
    DeleteRecordsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(10_000)
}

/// Deletes and gives code and low watermark of each partition.
async fn delete(world: &World, name: &str, partitions: &[(i32, i64)]) -> Vec<(i16, i64)> {
    let mut response = world.ask(2, &delete_records(name, partitions)).await;
    let answered = response.topics.remove(0).partitions.into_iter();
    answered.map(|p| (p.error_code, p.low_watermark)).collect()
}

#[tokio::test]
async fn records_are_deleted_up_to_an_offset_and_stay_deleted() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    for _ in 0..5 {
        world.produce("t", 0, batch(&["a", "b"])).await;
    }
    world.produce("t", 1, batch(&["c"])).await;
    assert_eq!(
        delete(&world, "t", &[(0, 4), (1, -1)]).await,
        [(0, 4), (0, 1)]
    );
    // It never moves back, and what is below is told so.
    assert_eq!(delete(&world, "t", &[(0, 2)]).await, [(0, 4)]);
    let below = world.fetch_from("t", 0, 3).await;
    assert_eq!(below.error_code, Code::OffsetOutOfRange.code());
    let first = world.fetch_from("t", 0, 4).await;
    assert_eq!((first.error_code, first.log_start_offset), (0, 4));
    assert_eq!(values(&first)[0], (4, "a".to_owned()));

    let world = world.restart().await;
    assert_eq!(
        delete(&world, "t", &[(0, 0), (1, 0)]).await,
        [(0, 4), (0, 1)]
    );
    assert_eq!(delete(&world, "t", &[(0, -1)]).await, [(0, 10)]);
    let produced = world.produce("t", 0, batch(&["d"])).await;
    assert_eq!((produced.base_offset, produced.log_start_offset), (10, 10));
}

#[tokio::test]
async fn what_cannot_be_deleted_is_refused_for_itself_alone() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.create("c", 1, &[("cleanup.policy", "compact")]).await;
    world.find_coordinator().await;
    world.produce("t", 0, batch(&["a", "b"])).await;
    let refused = |code: Code| (code.code(), -1);
    let (range, unknown) = (Code::OffsetOutOfRange, Code::UnknownTopicOrPartition);
    assert_eq!(
        delete(&world, "t", &[(0, 3), (0, -2), (1, 0), (-1, 0), (0, 1)]).await,
        [
            refused(range),
            refused(range),
            refused(unknown),
            refused(unknown),
            (0, 1)
        ]
    );
    for name in ["c", "__consumer_offsets"] {
        let absent = delete(&world, name, &[(99, 0), (-1, 0)]).await;
        assert_eq!(absent, [refused(unknown); 2], "{name}");
    }
    for (name, code) in [
        ("none", unknown),
        ("not a name", unknown),
        ("c", Code::PolicyViolation),
        ("__consumer_offsets", Code::InvalidTopicException),
    ] {
        assert_eq!(
            delete(&world, name, &[(0, 0)]).await,
            [refused(code)],
            "{name}"
        );
    }
    // Whoever does not wait is told one or the other, and what was started is not left half done.
    let hasty = delete_records("t", &[(0, 2)]).with_timeout_ms(0);
    let hasty = world.ask(2, &hasty).await.topics.remove(0);
    let told = (
        hasty.partitions[0].error_code,
        hasty.partitions[0].low_watermark,
    );
    assert!(
        told == (0, 2) || told == refused(Code::RequestTimedOut),
        "{told:?}"
    );
    assert_eq!(delete(&world, "t", &[(0, 2)]).await, [(0, 2)]);
}

#[tokio::test]
async fn the_bucket_is_the_directory_of_all_partitions() {
    let world = World::new().await;
    world.create("a", 2, &[]).await;
    world.create("b", 1, &[]).await;
    let records = batch(&["a", "b"]);
    let bytes = i64::try_from(records.len()).expect("small");
    for _ in 0..3 {
        world.produce("a", 1, records.clone()).await;
    }
    let sizes = |topics: &[DescribeLogDirsTopic]| -> Vec<(String, i32, i64)> {
        let mut sizes = Vec::new();
        for topic in topics {
            let partitions = topic.partitions.iter();
            let of = |p: &DescribeLogDirsPartition| {
                (topic.name.to_string(), p.partition_index, p.partition_size)
            };
            sizes.extend(partitions.map(of));
        }
        sizes
    };
    let all = DescribeLogDirsRequest::default().with_topics(None);
    let described = world.ask(4, &all).await;
    let [dir] = &described.results[..] else {
        panic!("one directory: {described:?}")
    };
    assert_eq!(
        (dir.error_code, dir.total_bytes, dir.usable_bytes),
        (0, -1, -1)
    );
    let expected = [("a", 0, 0), ("a", 1, 3 * bytes), ("b", 0, 0)];
    let expected = expected.map(|(name, index, size)| (name.to_owned(), index, size));
    assert_eq!(sizes(&dir.topics), expected);

    delete(&world, "a", &[(1, 2)]).await;
    let asked = |name: &str, partitions: &[i32]| {
        DescribableLogDirTopic::default()
            .with_topic(topic_name(name))
            .with_partitions(partitions.to_vec())
    };
    let some = vec![asked("a", &[1, 2, -1]), asked("none", &[0])];
    let some = DescribeLogDirsRequest::default().with_topics(Some(some));
    let described = world.ask(1, &some).await;
    assert_eq!(
        sizes(&described.results[0].topics),
        [("a".to_owned(), 1, 2 * bytes)]
    );
}

#[tokio::test]
async fn an_epoch_ends_where_the_next_one_begins() {
    let ask = async |world: &World, current: i32, epoch: i32| {
        let partition = OffsetForLeaderPartition::default()
            .with_current_leader_epoch(current)
            .with_leader_epoch(epoch);
        let topic = OffsetForLeaderTopic::default()
            .with_topic(topic_name("t"))
            .with_partitions(vec![partition]);
        let request = OffsetForLeaderEpochRequest::default()
            .with_replica_id((-1).into())
            .with_topics(vec![topic]);
        let mut response = world.ask(4, &request).await;
        let end = response.topics.remove(0).partitions.remove(0);
        (end.error_code, end.leader_epoch, end.end_offset)
    };
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let epoch_of = |world: &World| {
        world.logs.topics()[0]
            .log(0)
            .expect("served")
            .leader_epoch()
    };
    world.produce("t", 0, batch(&["a", "b"])).await;
    let first = epoch_of(&world);
    assert_eq!(ask(&world, -1, first).await, (0, first, 2));
    let world = world.restart().await.restart().await;
    let second = epoch_of(&world);
    assert!(second > first + 1);
    world.produce("t", 0, batch(&["c"])).await;
    assert_eq!(ask(&world, second, first).await, (0, first, 2));
    // The one between them wrote nothing.
    assert_eq!(ask(&world, second, first + 1).await, (0, first, 2));
    assert_eq!(ask(&world, second, second).await, (0, second, 3));
    assert_eq!(ask(&world, second, second + 1).await, (0, -1, -1));
    let fenced = Code::FencedLeaderEpoch.code();
    assert_eq!(ask(&world, first, first).await, (fenced, -1, -1));
    let unknown = Code::UnknownLeaderEpoch.code();
    assert_eq!(ask(&world, second + 1, first).await, (unknown, -1, -1));
}
