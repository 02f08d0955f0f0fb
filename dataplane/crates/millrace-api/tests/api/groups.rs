use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::{
    error::ResponseError as Code,
    messages::{
        ConsumerGroupDescribeRequest, DeleteGroupsRequest, DeleteTopicsRequest,
        DescribeGroupsRequest, FindCoordinatorRequest, GroupId, HeartbeatRequest, JoinGroupRequest,
        JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest,
        OffsetFetchRequest, SyncGroupRequest,
        join_group_request::JoinGroupRequestProtocol,
        leave_group_request::MemberIdentity,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::{
            OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
        },
        sync_group_request::SyncGroupRequestAssignment,
    },
};

use crate::{
    calls::topic_name,
    versions::{consumer_heartbeat, offset_delete},
    world::{Sent, Settings, World, answer, text},
};

fn group(id: &str) -> GroupId {
    GroupId(text(id))
}

fn join(group_id: &str, member_id: &str) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(Bytes::from_static(b"subscription"));
    JoinGroupRequest::default()
        .with_group_id(group(group_id))
        .with_member_id(text(member_id))
        .with_protocol_type(text("consumer"))
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(10_000)
        .with_protocols(vec![protocol])
}

fn sync(group_id: &str, joined: &JoinGroupResponse, assignment: &[u8]) -> SyncGroupRequest {
    let own = SyncGroupRequestAssignment::default()
        .with_member_id(joined.member_id.clone())
        .with_assignment(Bytes::copy_from_slice(assignment));
    SyncGroupRequest::default()
        .with_group_id(group(group_id))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_protocol_type(Some(text("consumer")))
        .with_protocol_name(Some(text("range")))
        .with_assignments(vec![own])
}

/// A member that is alone in its group and has its assignment.
async fn stable(world: &World, group_id: &str) -> JoinGroupResponse {
    let refused = world.ask(9, &join(group_id, "")).await;
    assert_eq!(refused.error_code, Code::MemberIdRequired.code());
    let joined = world.ask(9, &join(group_id, &refused.member_id)).await;
    assert_eq!(
        (joined.error_code, joined.member_id.as_str()),
        (0, refused.member_id.as_str())
    );
    let synced = world.ask(5, &sync(group_id, &joined, b"mine")).await;
    assert_eq!(
        (synced.error_code, &synced.assignment[..]),
        (0, &b"mine"[..])
    );
    joined
}

fn heartbeat(group_id: &str, joined: &JoinGroupResponse) -> HeartbeatRequest {
    HeartbeatRequest::default()
        .with_group_id(group(group_id))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
}

fn commit(group_id: &str, topic: &str, partition: i32, offset: i64) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(partition)
        .with_committed_offset(offset)
        .with_committed_leader_epoch(2)
        .with_committed_metadata(Some(text("note")));
    let topic = OffsetCommitRequestTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(vec![partition]);
    OffsetCommitRequest::default()
        .with_group_id(group(group_id))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic])
}

fn by(request: OffsetCommitRequest, joined: &JoinGroupResponse) -> OffsetCommitRequest {
    request
        .with_generation_id_or_member_epoch(joined.generation_id)
        .with_member_id(joined.member_id.clone())
}

async fn committed(world: &World, group_id: &str, partitions: &[i32]) -> Vec<i64> {
    let topic = OffsetFetchRequestTopics::default()
        .with_name(topic_name("t"))
        .with_partition_indexes(partitions.to_vec());
    let asked = OffsetFetchRequestGroup::default()
        .with_group_id(group(group_id))
        .with_topics(Some(vec![topic]));
    let request = OffsetFetchRequest::default().with_groups(vec![asked]);
    let response = world.ask(8, &request).await;
    assert_eq!(response.groups[0].error_code, 0);
    response.groups[0].topics[0]
        .partitions
        .iter()
        .map(|p| p.committed_offset)
        .collect()
}

#[tokio::test]
async fn the_coordinator_is_this_broker() {
    let world = World::new().await;
    let request = FindCoordinatorRequest::default().with_key(text("g"));
    let found = world.ask(0, &request).await;
    assert_eq!(
        (found.error_code, found.node_id.0, found.port),
        (0, 5, 9_093)
    );
    let found = world.ask(1, &request).await;
    assert_eq!(found.error_message, Some(text("NONE")));
    let many = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("a"), text("b")]);
    let found = world.ask(6, &many).await;
    assert_eq!(found.coordinators.len(), 2);
    assert_eq!(found.coordinators[1].key.as_str(), "b");
    assert_eq!(found.coordinators[1].error_message, Some(text("")));
    let transaction = FindCoordinatorRequest::default()
        .with_key(text("tx"))
        .with_key_type(1);
    let found = world.ask(3, &transaction).await;
    assert_eq!((found.error_code, found.node_id.0), (0, 5));
    let unknown = transaction.with_key_type(7);
    let refused = world.ask(3, &unknown).await;
    assert_eq!(
        (refused.error_code, refused.node_id.0),
        (Code::InvalidRequest.code(), -1)
    );
}

#[tokio::test]
async fn a_group_lives_from_join_to_leave() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    world.find_coordinator().await;
    let joined = stable(&world, "g").await;
    assert_eq!(
        (joined.generation_id, joined.leader.as_str()),
        (1, joined.member_id.as_str())
    );
    assert_eq!(joined.members[0].metadata, "subscription");
    assert_eq!(world.ask(4, &heartbeat("g", &joined)).await.error_code, 0);
    let stale = heartbeat("g", &joined).with_generation_id(9);
    assert_eq!(
        world.ask(4, &stale).await.error_code,
        Code::IllegalGeneration.code()
    );

    let response = world.ask(9, &by(commit("g", "t", 1, 42), &joined)).await;
    assert_eq!(response.topics[0].partitions[0].error_code, 0);
    assert_eq!(committed(&world, "g", &[0, 1]).await, [-1, 42]);

    let described = world
        .ask(
            5,
            &DescribeGroupsRequest::default().with_groups(vec![group("g"), group("none")]),
        )
        .await;
    let g = &described.groups[0];
    assert_eq!(
        (g.group_state.as_str(), g.protocol_data.as_str()),
        ("Stable", "range")
    );
    assert_eq!(
        (
            g.members[0].client_id.as_str(),
            g.members[0].client_host.as_str()
        ),
        ("test", "/127.0.0.1")
    );
    assert_eq!(g.members[0].member_assignment, "mine");
    assert_eq!(
        (
            described.groups[1].group_state.as_str(),
            described.groups[1].error_code
        ),
        ("Dead", 0)
    );

    let delete = DeleteGroupsRequest::default().with_groups_names(vec![group("g"), group("none")]);
    let codes = |response: kafka_protocol::messages::DeleteGroupsResponse| {
        response
            .results
            .iter()
            .map(|r| r.error_code)
            .collect::<Vec<_>>()
    };
    let (full, unknown) = (Code::NonEmptyGroup.code(), Code::GroupIdNotFound.code());
    assert_eq!(codes(world.ask(2, &delete).await), [full, unknown]);
    let leaving = MemberIdentity::default().with_member_id(joined.member_id.clone());
    let leave = LeaveGroupRequest::default()
        .with_group_id(group("g"))
        .with_members(vec![leaving.clone(), leaving]);
    let left = world.ask(4, &leave).await;
    assert_eq!(left.error_code, 0);
    let each: Vec<i16> = left.members.iter().map(|m| m.error_code).collect();
    assert_eq!(each, [0, Code::UnknownMemberId.code()]);
    assert_eq!(codes(world.ask(2, &delete).await), [0, unknown]);
    assert_eq!(committed(&world, "g", &[1]).await, [-1]);
}

/// What is in the answer to a deletion of offsets: the error of the group, or that of each partition.
async fn deleted(world: &World, id: &str, topic: &str, partition: i32) -> Vec<i16> {
    let answer = world.ask(0, &offset_delete(id, topic, partition)).await;
    match answer.error_code {
        0 => {
            let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.map(|partition| partition.error_code).collect()
        }
        error => vec![error],
    }
}

#[tokio::test]
async fn offsets_of_topics_without_subscribers_can_be_deleted() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    world.find_coordinator().await;
    let not_found = [Code::GroupIdNotFound.code()];
    assert_eq!(deleted(&world, "g", "t", 0).await, not_found);
    let unknown = [Code::UnknownTopicOrPartition.code()];
    assert_eq!(deleted(&world, "g", "none", 0).await, unknown);
    for partition in [0, 1] {
        let response = world.ask(9, &commit("g", "t", partition, 42)).await;
        assert_eq!(response.topics[0].partitions[0].error_code, 0);
    }
    assert_eq!(deleted(&world, "g", "t", 1).await, [0]);
    assert_eq!(committed(&world, "g", &[0, 1]).await, [42, -1]);
    // Nothing to delete is no error, a partition that does not exist is.
    assert_eq!(deleted(&world, "g", "t", 1).await, [0]);
    assert_eq!(deleted(&world, "g", "t", 99).await, unknown);
    assert_eq!(deleted(&world, "g", "none", 0).await, unknown);

    // Its only member's subscription cannot be read, so it may be to any topic.
    let joined = stable(&world, "g").await;
    let subscribed = [Code::GroupSubscribedToTopic.code()];
    assert_eq!(deleted(&world, "g", "t", 0).await, subscribed);
    assert_eq!(committed(&world, "g", &[0]).await, [42]);
    let leaving = MemberIdentity::default().with_member_id(joined.member_id);
    let leave = LeaveGroupRequest::default()
        .with_group_id(group("g"))
        .with_members(vec![leaving]);
    assert_eq!(world.ask(4, &leave).await.error_code, 0);
    assert_eq!(deleted(&world, "g", "t", 0).await, [0]);
    assert_eq!(committed(&world, "g", &[0]).await, [-1]);
}

/// OffsetCommit and OffsetFetch name topics by id from version 10 on.
#[tokio::test]
async fn offsets_are_kept_by_topic_id() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    let id = world.logs.topics()[0].id.0;
    world.find_coordinator().await;
    let unknown = uuid::Uuid::from_u128(1);
    let unknown_id = Code::UnknownTopicId.code();
    let mut request = commit("g", &id.to_string(), 0, 42);
    request
        .topics
        .extend(commit("g", &unknown.to_string(), 0, 42).topics);
    let answer = world.ask(10, &request).await;
    let codes: Vec<_> = { answer.topics.iter() }
        .map(|topic| (topic.topic_id, topic.partitions[0].error_code))
        .collect();
    assert_eq!(codes, [(id, 0), (unknown, unknown_id)]);

    let asked = |id: uuid::Uuid| {
        OffsetFetchRequestTopics::default()
            .with_name(topic_name(&id.to_string()))
            .with_partition_indexes(vec![0])
    };
    let fetch = |topics| {
        let asked = OffsetFetchRequestGroup::default()
            .with_group_id(group("g"))
            .with_topics(topics);
        OffsetFetchRequest::default().with_groups(vec![asked])
    };
    let offsets = async |topics| {
        let fetched = world.ask(10, &fetch(topics)).await;
        let topics = fetched.groups[0].topics.iter().map(|topic| {
            let partition = &topic.partitions[0];
            let known = (partition.committed_offset, partition.error_code);
            (topic.topic_id, known)
        });
        topics.collect::<Vec<_>>()
    };
    let known = (id, (42, 0));
    assert_eq!(
        offsets(Some(vec![asked(id), asked(unknown)])).await,
        [known, (unknown, (-1, unknown_id))]
    );
    assert_eq!(offsets(None).await, [known]);
    assert_eq!(committed(&world, "g", &[0]).await, [42]);
}

#[tokio::test]
async fn two_members_rebalance() {
    let world = World::new().await;
    world.find_coordinator().await;
    let first = stable(&world, "g").await;
    let id = world.ask(9, &join("g", "")).await.member_id;
    let Sent::Later(second) = world.send(9, &join("g", &id)).await else {
        panic!("must wait")
    };
    let second = tokio::spawn(answer::<JoinGroupRequest>(9, Sent::Later(second)));
    let alive = world.ask(4, &heartbeat("g", &first)).await;
    assert_eq!(alive.error_code, Code::RebalanceInProgress.code());
    assert!(!second.is_finished());
    let again = world.ask(9, &join("g", &first.member_id)).await;
    let second = second.await.expect("answered");
    assert_eq!((again.generation_id, second.generation_id), (2, 2));
    assert_eq!((again.members.len(), second.members.len()), (2, 0));
}

#[tokio::test]
async fn a_silent_member_is_missed() {
    let world = World::new().await;
    world.find_coordinator().await;
    let id = world.ask(9, &join("g", "")).await.member_id;
    let mut request = join("g", &id);
    request.session_timeout_ms = 150;
    let joined = world.ask(9, &request).await;
    world.ask(5, &sync("g", &joined, b"")).await;
    let state = async || {
        let request = DescribeGroupsRequest::default().with_groups(vec![group("g")]);
        world.ask(5, &request).await.groups[0]
            .group_state
            .to_string()
    };
    assert_eq!(state().await, "Stable");
    for _ in 0..100 {
        if state().await == "Empty" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the session never ended");
}

#[tokio::test]
async fn groups_and_offsets_survive_a_restart() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    world.find_coordinator().await;
    let joined = stable(&world, "g").await;
    world.ask(9, &by(commit("g", "t", 0, 7), &joined)).await;
    world.ask(9, &commit("simple", "t", 1, 8)).await;
    let world = world.restart().await;
    assert_eq!(committed(&world, "g", &[0]).await, [7]);
    assert_eq!(committed(&world, "simple", &[1]).await, [8]);
    assert_eq!(world.ask(4, &heartbeat("g", &joined)).await.error_code, 0);
    let list = world.ask(4, &ListGroupsRequest::default()).await;
    let states: Vec<_> = list
        .groups
        .iter()
        .map(|g| (g.group_id.as_str(), g.group_state.as_str()))
        .collect();
    assert_eq!(states, [("g", "Stable"), ("simple", "Empty")]);
    let only = ListGroupsRequest::default().with_states_filter(vec![text("stable")]);
    assert_eq!(world.ask(4, &only).await.groups.len(), 1);
    let none = ListGroupsRequest::default().with_types_filter(vec![text("share")]);
    assert_eq!(world.ask(5, &none).await.groups.len(), 0);
}

#[tokio::test]
async fn consumer_groups_are_described_or_refused() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.find_coordinator().await;
    let joined = world.ask(1, &consumer_heartbeat("g", "m", &["t"])).await;
    assert_eq!(joined.error_code, 0);
    let ids = ["g", "absent", ""].map(group).to_vec();
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(ids);
    let groups = world.ask(1, &request).await.groups;
    let codes: Vec<i16> = groups.iter().map(|group| group.error_code).collect();
    let (absent, invalid) = (Code::GroupIdNotFound, Code::InvalidGroupId);
    assert_eq!(codes, [0, absent.code(), invalid.code()]);
    let pattern = &groups[0].members[0].subscribed_topic_regex;
    assert_eq!(pattern.as_deref(), Some(""), "names, no pattern");
}

/// Some clients reset a group in this way.
#[tokio::test]
async fn a_negative_offset_is_kept_as_it_is() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    world.find_coordinator().await;
    for offset in [-2, -1, 7, -5] {
        let response = world.ask(9, &commit("g", "t", 0, offset)).await;
        assert_eq!(response.topics[0].partitions[0].error_code, 0);
        assert_eq!(committed(&world, "g", &[0, 1]).await, [offset, -1]);
    }
    let world = world.restart().await;
    world.find_coordinator().await;
    assert_eq!(committed(&world, "g", &[0]).await, [-5]);
}

#[tokio::test]
async fn commits_are_validated_partition_by_partition() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.find_coordinator().await;
    let code = async |request: OffsetCommitRequest| {
        world.ask(9, &request).await.topics[0].partitions[0].error_code
    };
    let unknown = Code::UnknownTopicOrPartition.code();
    assert_eq!(code(commit("g", "none", 0, 1)).await, unknown);
    assert_eq!(code(commit("g", "t", 5, 1)).await, unknown);
    let mut long = commit("g", "t", 0, 1);
    long.topics[0].partitions[0].committed_metadata = Some(text(&"x".repeat(4_097)));
    assert_eq!(code(long).await, Code::OffsetMetadataTooLarge.code());
    let mut mixed = commit("g", "t", 0, 3);
    mixed.topics.extend(commit("g", "none", 0, 1).topics);
    let response = world.ask(9, &mixed).await;
    let codes: Vec<i16> = response
        .topics
        .iter()
        .map(|t| t.partitions[0].error_code)
        .collect();
    assert_eq!(codes, [0, unknown]);
    assert_eq!(committed(&world, "g", &[0]).await, [3]);
    let stranger = commit("g", "t", 0, 1)
        .with_member_id(text("x"))
        .with_generation_id_or_member_epoch(3);
    assert_eq!(code(stranger).await, Code::UnknownMemberId.code());
}

#[tokio::test]
async fn offsets_are_fetched_in_every_way() {
    let world = World::new().await;
    world.create("t", 2, &[]).await;
    world.create("u", 1, &[]).await;
    world.find_coordinator().await;
    world.ask(9, &commit("g", "t", 1, 42)).await;
    world.ask(9, &commit("g", "u", 0, 1)).await;
    let asked = OffsetFetchRequestTopic::default()
        .with_name(topic_name("t"))
        .with_partition_indexes(vec![0, 1]);
    let one = OffsetFetchRequest::default()
        .with_group_id(group("g"))
        .with_topics(Some(vec![asked]));
    for version in 1..=7 {
        let found = world.ask(version, &one).await;
        let partitions = &found.topics[0].partitions;
        assert_eq!(
            (partitions[0].committed_offset, partitions[0].error_code),
            (-1, 0)
        );
        assert_eq!(partitions[1].committed_offset, 42);
        assert_eq!(
            partitions[1].metadata.as_ref().map(|m| m.as_str()),
            Some("note")
        );
    }
    let all = OffsetFetchRequest::default()
        .with_group_id(group("g"))
        .with_topics(None);
    let found = world.ask(7, &all).await;
    let names: Vec<_> = found.topics.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["t", "u"]);
    let of = |id: &str| {
        OffsetFetchRequestGroup::default()
            .with_group_id(group(id))
            .with_topics(None)
    };
    let many = OffsetFetchRequest::default().with_groups(vec![of("g"), of("none")]);
    let found = world.ask(9, &many).await;
    assert_eq!(
        (found.groups[0].topics.len(), found.groups[1].topics.len()),
        (2, 0)
    );
    assert_eq!(
        found.groups[0].topics[0].partitions[0].committed_leader_epoch,
        2
    );

    let delete = DeleteTopicsRequest::default().with_topic_names(vec![topic_name("u")]);
    world.ask(5, &delete).await;
    world.ask(9, &commit("g", "t", 0, 1)).await;
    assert_eq!(
        world.ask(7, &all).await.topics.len(),
        1,
        "offsets of a deleted topic are gone"
    );
}

#[tokio::test]
async fn stopping_releases_members_that_wait() {
    let world = World::new().await;
    world.find_coordinator().await;
    stable(&world, "g").await;
    let id = world.ask(9, &join("g", "")).await.member_id;
    let waiting = world.send(9, &join("g", &id)).await;
    world.service.stop_waiting();
    let refused = answer::<JoinGroupRequest>(9, waiting).await;
    assert_eq!(refused.error_code, Code::CoordinatorNotAvailable.code());
}

#[tokio::test]
async fn a_client_sees_its_own_commits_in_flight() {
    let world = World::new().await;
    world.create("t", 1, &[]).await;
    world.find_coordinator().await;
    for offset in 1..20 {
        let sent = world.send(9, &commit("g", "t", 0, offset)).await;
        // Asked for behind it on the same connection, before it is acknowledged.
        assert_eq!(committed(&world, "g", &[0]).await, [offset]);
        let response = answer::<OffsetCommitRequest>(9, sent).await;
        assert_eq!(response.topics[0].partitions[0].error_code, 0);
    }
}

#[tokio::test]
async fn where_groups_have_all_their_memory_members_and_commits_hear_so() {
    let mut settings = Settings::default();
    settings.groups.memory_bytes = 8_000;
    let world = World::with(settings).await;
    world.create("t", 1, &[]).await;
    world.find_coordinator().await;
    let joined = stable(&world, "there").await;
    let mut large = join("large", "");
    large.protocols[0].metadata = Bytes::from(vec![0; 8_000]);
    let refused = world.ask(3, &large).await;
    assert_eq!(refused.error_code, Code::GroupMaxSizeReached.code());
    let mut codes = Vec::new();
    for number in 0..10 {
        let answer = world
            .ask(7, &commit(&format!("g{number}"), "t", 0, 1))
            .await;
        codes.push(answer.topics[0].partitions[0].error_code);
    }
    assert_eq!(codes.first(), Some(&0));
    assert_eq!(codes.last(), Some(&Code::PolicyViolation.code()));
    let heartbeat = HeartbeatRequest::default()
        .with_group_id(group("there"))
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id);
    assert_eq!(world.ask(4, &heartbeat).await.error_code, 0);
}
