//! What a broker tells of topics, log directories and the cluster.

use kafka_protocol::{
    error::ResponseError as Code,
    messages::{
        DescribeLogDirsRequest, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
        describe_log_dirs_request::DescribableLogDirTopic,
        describe_topic_partitions_request::Cursor,
    },
};

use crate::{
    authorization,
    calls::{batch, topic_name},
    versions::{
        alter_replica_log_dirs, describe_producers, describe_quorum, describe_topic_partitions,
    },
    world::World,
};

/// Each topic with the indexes of its partitions, or its error.
fn told(response: &DescribeTopicPartitionsResponse) -> Vec<(String, Result<Vec<i32>, i16>)> {
    let topics = response.topics.iter().map(|topic| {
        let name = topic.name.as_ref().expect("a name").to_string();
        let partitions = topic.partitions.iter().map(|p| p.partition_index);
        match topic.error_code {
            0 => (name, Ok(partitions.collect())),
            code => (name, Err(code)),
        }
    });
    topics.collect()
}

fn cursor_of(response: &DescribeTopicPartitionsResponse) -> Option<(String, i32)> {
    let cursor = response.next_cursor.as_ref()?;
    Some((cursor.topic_name.to_string(), cursor.partition_index))
}

fn from(
    request: DescribeTopicPartitionsRequest,
    topic: &str,
    partition: i32,
) -> DescribeTopicPartitionsRequest {
    let cursor = Cursor::default()
        .with_topic_name(topic_name(topic))
        .with_partition_index(partition);
    request.with_cursor(Some(cursor))
}

#[tokio::test]
async fn topics_are_described_page_by_page() {
    let world = World::new().await;
    for (name, partitions) in [("c", 1), ("a", 3), ("b", 2)] {
        world.create(name, partitions, &[]).await;
    }
    let all = world.ask(0, &describe_topic_partitions(&[], 2_000)).await;
    let expected = [
        ("a".into(), Ok(vec![0, 1, 2])),
        ("b".into(), Ok(vec![0, 1])),
        ("c".into(), Ok(vec![0])),
    ];
    assert_eq!((told(&all), cursor_of(&all)), (expected.to_vec(), None));
    let first = &all.topics[0];
    assert!(!first.topic_id.is_nil() && !first.is_internal);
    // Java clients fail with null.
    assert_eq!(first.partitions[0].eligible_leader_replicas, Some(vec![]));
    assert_eq!(first.partitions[0].last_known_elr, Some(vec![]));
    assert_eq!(
        first.partitions[0].leader_id,
        first.partitions[0].isr_nodes[0]
    );

    let mut request = describe_topic_partitions(&["b", "a", "none", "c", "b"], 2);
    let mut pages = Vec::new();
    loop {
        let page = world.ask(0, &request).await;
        pages.push((told(&page), cursor_of(&page)));
        match cursor_of(&page) {
            Some((topic, partition)) => request = from(request, &topic, partition),
            None => break,
        }
    }
    let unknown = Err(Code::UnknownTopicOrPartition.code());
    let expected = [
        (vec![("a".into(), Ok(vec![0, 1]))], Some(("a".into(), 2))),
        (
            vec![("a".into(), Ok(vec![2])), ("b".into(), Ok(vec![0]))],
            Some(("b".into(), 1)),
        ),
        (
            vec![("b".into(), Ok(vec![1])), ("c".into(), Ok(vec![0]))],
            None,
        ),
    ];
    let last = pages.last_mut().expect("a page");
    assert_eq!(last.0.pop(), Some(("none".into(), unknown)));
    assert_eq!(pages, expected);

    let stray = from(describe_topic_partitions(&["a"], 2), "b", 0);
    let negative = from(describe_topic_partitions(&["a"], 2), "a", -1);
    for request in [stray, negative] {
        let refused = world.ask(0, &request).await;
        let invalid = Err(Code::InvalidRequest.code());
        assert_eq!(told(&refused), [("a".into(), invalid)]);
    }
    let illegal = world.ask(0, &describe_topic_partitions(&["/"], 2)).await;
    let invalid = Err(Code::InvalidTopicException.code());
    assert_eq!(told(&illegal), [("/".into(), invalid)]);
}

#[tokio::test]
async fn topics_that_may_not_be_described_are_told_only_by_name() {
    let (world, alice) = (authorization::world().await, authorization::alice());
    let all = world
        .ask_as(&alice, 0, &describe_topic_partitions(&[], 9))
        .await;
    assert_eq!(told(&all), []);
    let named = describe_topic_partitions(&["t", "absent"], 9);
    let named = world.ask_as(&alice, 0, &named).await;
    let denied = Err(Code::TopicAuthorizationFailed.code());
    assert_eq!(
        told(&named),
        [("absent".into(), denied.clone()), ("t".into(), denied)]
    );
    assert!(named.topics.iter().all(|topic| topic.topic_id.is_nil()));
}

#[tokio::test]
async fn the_broker_leads_the_quorum_of_the_metadata() {
    let world = World::new().await;
    let before = world.ask(2, &describe_quorum()).await;
    world.create("t", 1, &[]).await;
    let after = world.ask(2, &describe_quorum()).await;
    assert_eq!((after.error_code, after.nodes.len()), (0, 1));
    let offset = |index: usize| {
        let partition = &[&before, &after][index].topics[0].partitions[0];
        let voter = &partition.current_voters[0];
        assert_eq!(partition.leader_id, voter.replica_id);
        assert_eq!(partition.high_watermark, voter.log_end_offset);
        partition.high_watermark
    };
    assert!(offset(0) < offset(1));
    let listener = &after.nodes[0].listeners[0];
    assert!(listener.port > 0 && !listener.host.is_empty());

    let mut other = describe_quorum();
    other.topics[0].topic_name = topic_name("t");
    let refused = world.ask(2, &other).await;
    assert_eq!(
        refused.topics[0].partitions[0].error_code,
        Code::UnknownTopicOrPartition.code()
    );
}

#[tokio::test]
async fn producers_of_what_is_not_there_are_refused_with_a_text() {
    let world = World::new().await;
    let mut response = world.ask(0, &describe_producers("absent")).await;
    let told = response.topics.remove(0).partitions.remove(0);
    assert_eq!(told.error_code, Code::UnknownTopicOrPartition.code());
    assert!(told.error_message.is_some());
}

#[tokio::test]
async fn log_dirs_have_what_is_served_here() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    world.produce("t", 1, batch(&["x"])).await;
    let asked = |name: &str, partitions: Vec<i32>| {
        DescribableLogDirTopic::default()
            .with_topic(topic_name(name))
            .with_partitions(partitions)
    };
    let topics = vec![asked("t", vec![0, 1, 9, -1]), asked("none", vec![0])];
    let request = DescribeLogDirsRequest::default().with_topics(Some(topics));
    let described = world.ask(4, &request).await;
    assert_eq!(described.error_code, 0);
    let dir = &described.results[0];
    assert_eq!((dir.total_bytes, dir.usable_bytes), (-1, -1));
    assert_eq!(dir.topics.len(), 1);
    let partitions = dir.topics[0].partitions.iter();
    let sizes: Vec<_> = partitions
        .map(|partition| (partition.partition_index, partition.partition_size))
        .collect();
    let bytes = i64::try_from(batch(&["x"]).len()).expect("small");
    assert_eq!(sizes, [(0, 0), (1, bytes)]);

    for (dir, topic, partition, expected) in [
        (dir.log_dir.as_str(), "t", 1, 0),
        (dir.log_dir.as_str(), "t", 2, 3),
        (dir.log_dir.as_str(), "none", 0, 3),
        ("/var/lib/kafka", "t", 1, Code::LogDirNotFound.code()),
    ] {
        let request = alter_replica_log_dirs(dir, topic, partition);
        let altered = world.ask(2, &request).await;
        let code = altered.results[0].partitions[0].error_code;
        assert_eq!(code, expected, "{dir} {topic}-{partition}");
    }
}
