//! The share coordinator: its APIs, and the seam through which the broker itself uses it.

use kafka_protocol::{
    error::ResponseError as Code,
    messages::{
        DeleteShareGroupStateRequest, DeleteTopicsRequest, FindCoordinatorRequest,
        InitializeShareGroupStateRequest, ReadShareGroupStateRequest,
        ReadShareGroupStateSummaryRequest, WriteShareGroupStateRequest,
        delete_share_group_state_request as delete,
        initialize_share_group_state_request as initialize, read_share_group_state_request as read,
        read_share_group_state_response::PartitionResult,
        read_share_group_state_summary_request as summary,
        write_share_group_state_request as write,
    },
};
use millrace_coordinator::{SharePartition, ShareState, ShareStateBatch, ShareStateError};
use millrace_model::TopicId;
use uuid::Uuid;

use crate::{
    calls::topic_name,
    world::{World, text},
};

pub(crate) fn initialize_state(
    topic: Uuid,
    epoch: i32,
    start: i64,
) -> InitializeShareGroupStateRequest {
    let partition = initialize::PartitionData::default()
        .with_state_epoch(epoch)
        .with_start_offset(start);
    let topic = initialize::InitializeStateData::default()
        .with_topic_id(topic)
        .with_partitions(vec![partition]);
    InitializeShareGroupStateRequest::default()
        .with_group_id(text("g"))
        .with_topics(vec![topic])
}

pub(crate) fn read_state(topic: Uuid, leader_epoch: i32) -> ReadShareGroupStateRequest {
    let partition = read::PartitionData::default().with_leader_epoch(leader_epoch);
    let topic = read::ReadStateData::default()
        .with_topic_id(topic)
        .with_partitions(vec![partition]);
    ReadShareGroupStateRequest::default()
        .with_group_id(text("g"))
        .with_topics(vec![topic])
}

pub(crate) fn read_summary(topic: Uuid) -> ReadShareGroupStateSummaryRequest {
    let partition = summary::PartitionData::default().with_leader_epoch(-1);
    let topic = summary::ReadStateSummaryData::default()
        .with_topic_id(topic)
        .with_partitions(vec![partition]);
    ReadShareGroupStateSummaryRequest::default()
        .with_group_id(text("g"))
        .with_topics(vec![topic])
}

pub(crate) fn write_state(
    topic: Uuid,
    (state_epoch, leader_epoch): (i32, i32),
    (first, last): (i64, i64),
) -> WriteShareGroupStateRequest {
    let batch = write::StateBatch::default()
        .with_first_offset(first)
        .with_last_offset(last)
        .with_delivery_state(2)
        .with_delivery_count(1);
    let partition = write::PartitionData::default()
        .with_state_epoch(state_epoch)
        .with_leader_epoch(leader_epoch)
        .with_start_offset(-1)
        .with_state_batches(vec![batch]);
    let topic = write::WriteStateData::default()
        .with_topic_id(topic)
        .with_partitions(vec![partition]);
    WriteShareGroupStateRequest::default()
        .with_group_id(text("g"))
        .with_topics(vec![topic])
}

pub(crate) fn delete_state(topic: Uuid) -> DeleteShareGroupStateRequest {
    let partition = delete::PartitionData::default();
    let topic = delete::DeleteStateData::default()
        .with_topic_id(topic)
        .with_partitions(vec![partition]);
    DeleteShareGroupStateRequest::default()
        .with_group_id(text("g"))
        .with_topics(vec![topic])
}

fn share_key(group: &str, topic: Uuid, partition: i32) -> String {
    let partition = SharePartition {
        group_id: group.into(),
        topic_id: TopicId(topic),
        partition,
    };
    partition.coordinator_key()
}

/// The code and node of FindCoordinator's answer.
async fn find(world: &World, version: i16, key: &str) -> (i16, i32) {
    let request = FindCoordinatorRequest::default().with_key_type(2);
    let found = match version {
        4.. => {
            let request = request.with_coordinator_keys(vec![text(key)]);
            world.ask(version, &request).await
        }
        _ => world.ask(version, &request.with_key(text(key))).await,
    };
    match found.coordinators.first() {
        Some(found) => (found.error_code, found.node_id.0),
        None => (found.error_code, found.node_id.0),
    }
}

/// A world with the topic `t`, and its id.
async fn world() -> (World, Uuid) {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let id = world.logs.topics()[0].id.0;
    assert_eq!(find(&world, 6, &share_key("g", id, 0)).await, (0, 5));
    (world, id)
}

async fn read_as(world: &World, topic: Uuid, leader_epoch: i32) -> PartitionResult {
    let answer = world.ask(0, &read_state(topic, leader_epoch)).await;
    assert_eq!(answer.results[0].topic_id, topic);
    answer.results[0].partitions[0].clone()
}

async fn initialize_as(world: &World, topic: Uuid, epoch: i32, start: i64) -> i16 {
    let answer = world.ask(0, &initialize_state(topic, epoch, start)).await;
    answer.results[0].partitions[0].error_code
}

async fn write_as(world: &World, topic: Uuid, epochs: (i32, i32), offsets: (i64, i64)) -> i16 {
    let answer = world.ask(0, &write_state(topic, epochs, offsets)).await;
    answer.results[0].partitions[0].error_code
}

#[tokio::test]
async fn the_coordinator_of_a_share_partition_is_found_by_its_key() {
    let (world, id) = world().await;
    let legal = share_key("g", id, 0);
    let invalid = (Code::InvalidRequest.code(), -1);
    assert_eq!(find(&world, 6, &legal).await, (0, 5));
    for version in [3, 5] {
        assert_eq!(
            find(&world, version, &legal).await,
            invalid,
            "of version {version}"
        );
    }
    for malformed in ["", "g", "g:0", "g:nonsense:0", " :AAAAAAAAAAAAAAAAAAAAAQ:0"] {
        assert_eq!(find(&world, 6, malformed).await, invalid, "{malformed}");
    }
}

#[tokio::test]
async fn a_state_lives_through_a_restart() {
    let (world, id) = world().await;
    let unread = read_as(&world, id, 3).await;
    assert_eq!(unread.error_code, Code::InvalidRequest.code());
    assert!(unread.error_message.is_some());
    assert_eq!(initialize_as(&world, id, 1, -1).await, 0);
    let fresh = read_as(&world, id, 3).await;
    assert_eq!(
        (fresh.error_code, fresh.state_epoch, fresh.start_offset),
        (0, 1, -1)
    );
    assert_eq!(write_as(&world, id, (1, 3), (5, 9)).await, 0);
    let fenced = Code::FencedLeaderEpoch.code();
    assert_eq!(write_as(&world, id, (1, 2), (0, 0)).await, fenced);
    assert_eq!(read_as(&world, id, 2).await.error_code, fenced);
    let fenced = Code::FencedStateEpoch.code();
    assert_eq!(write_as(&world, id, (0, 3), (0, 0)).await, fenced);
    assert_eq!(initialize_as(&world, id, 0, 0).await, fenced);
    let world = world.restart().await;
    let kept = loop {
        let kept = read_as(&world, id, 3).await;
        if kept.error_code != Code::CoordinatorLoadInProgress.code() {
            break kept;
        }
    };
    assert_eq!((kept.error_code, kept.state_epoch), (0, 1));
    let batch = &kept.state_batches[0];
    assert_eq!((batch.first_offset, batch.last_offset), (5, 9));
    assert_eq!((batch.delivery_state, batch.delivery_count), (2, 1));
    let summary = world.ask(0, &read_summary(id)).await;
    let summary = &summary.results[0].partitions[0];
    assert_eq!((summary.error_code, summary.leader_epoch), (0, 3));
    for _ in 0..2 {
        let deleted = world.ask(0, &delete_state(id)).await;
        assert_eq!(deleted.results[0].partitions[0].error_code, 0);
    }
    let gone = read_as(&world, id, 3).await;
    assert_eq!(gone.error_code, Code::InvalidRequest.code());
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let (world, id) = world().await;
    assert_eq!(initialize_as(&world, id, 1, 0).await, 0);
    let unknown = Code::UnknownTopicOrPartition.code();
    assert_eq!(
        initialize_as(&world, Uuid::from_u128(1), 1, 0).await,
        unknown
    );
    let invalid = Code::InvalidRequest.code();
    assert_eq!(initialize_as(&world, Uuid::nil(), 1, 0).await, invalid);
    assert_eq!(initialize_as(&world, id, 2, -7).await, invalid);
    for offsets in [(-1, 4), (5, 4)] {
        assert_eq!(
            write_as(&world, id, (1, 0), offsets).await,
            invalid,
            "{offsets:?}"
        );
    }
    let mut request = read_state(id, 0);
    for (partition, expected) in [(1, unknown), (-1, invalid)] {
        request.topics[0].partitions[0].partition = partition;
        let answer = world.ask(0, &request).await;
        assert_eq!(answer.results[0].partitions[0].error_code, expected);
    }
    request.group_id = text("");
    let answer = world.ask(0, &request).await;
    assert_eq!(answer.results[0].partitions[0].error_code, invalid);
}

#[tokio::test]
async fn the_broker_uses_its_own_coordinator() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let topic_id = world.logs.topics()[0].id;
    let partition = SharePartition {
        group_id: "g".into(),
        topic_id,
        partition: 0,
    };
    let states = &world.share_states;
    let summary = states.read_summary(partition.clone()).await;
    assert_eq!(
        summary,
        Ok(ShareState::default()),
        "the topic is created for it"
    );
    let read = states.read(partition.clone(), 4).await;
    assert_eq!(read, Err(ShareStateError::Unknown));
    assert_eq!(
        states.initialize(partition.clone(), 2, Some(7)).await,
        Ok(())
    );
    let batch = ShareStateBatch {
        first_offset: 8,
        last_offset: 9,
        delivery_state: 0,
        delivery_count: 1,
    };
    let change = ShareState {
        state_epoch: 2,
        leader_epoch: 4,
        start_offset: None,
        batches: vec![batch],
    };
    assert_eq!(
        states.write(partition.clone(), change.clone()).await,
        Ok(())
    );
    let malformed = ShareState {
        batches: vec![ShareStateBatch {
            delivery_state: 1,
            ..batch
        }],
        ..change.clone()
    };
    let refused = states.write(partition.clone(), malformed).await;
    assert_eq!(refused, Err(ShareStateError::Invalid));
    let expected = ShareState {
        start_offset: Some(7),
        ..change.clone()
    };
    assert_eq!(states.read(partition.clone(), 4).await, Ok(expected));
    assert_eq!(
        states.read(partition.clone(), 3).await,
        Err(ShareStateError::Fenced)
    );
    let stale = ShareState {
        state_epoch: 1,
        ..change
    };
    let refused = states.write(partition.clone(), stale).await;
    assert_eq!(refused, Err(ShareStateError::FencedStateEpoch));
    // The state goes with the topic.
    let request = DeleteTopicsRequest::default().with_topic_names(vec![topic_name("t")]);
    world.ask(5, &request).await;
    let read = states.read(partition.clone(), 4).await;
    assert_eq!(read, Err(ShareStateError::Unknown));
    assert_eq!(states.delete(partition).await, Ok(()));
}
