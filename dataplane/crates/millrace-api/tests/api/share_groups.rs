//! The APIs of share groups (KIP-932) that the group coordinator serves.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use kafka_protocol::{
    error::ResponseError as Code,
    messages::{
        AlterShareGroupOffsetsRequest, ConsumerGroupDescribeRequest, DeleteGroupsRequest,
        DeleteShareGroupOffsetsRequest, DeleteTopicsRequest, DescribeGroupsRequest,
        DescribeShareGroupOffsetsRequest, ListGroupsRequest, ShareGroupDescribeRequest,
        ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse,
        alter_share_group_offsets_request::{
            AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
        },
        delete_share_group_offsets_request::DeleteShareGroupOffsetsRequestTopic,
        describe_share_group_offsets_request::{
            DescribeShareGroupOffsetsRequestGroup, DescribeShareGroupOffsetsRequestTopic,
        },
    },
};
use millrace_coordinator::{AllowedTime, GroupConfigLimits, GroupConfigs};
use millrace_wire::service::Peer;

use crate::{
    acls::guarded_world,
    authorization::{alice, give, on_group, on_topic},
    calls::topic_name,
    versions::{consumer_heartbeat, group, join, offset_commit},
    world::{Settings, World, text},
};

/// A member joins a share group.
pub(crate) fn share_heartbeat(
    group_id: &str,
    member_id: &str,
    topics: &[&str],
) -> ShareGroupHeartbeatRequest {
    ShareGroupHeartbeatRequest::default()
        .with_group_id(group(group_id))
        .with_member_id(text(member_id))
        .with_subscribed_topic_names(Some(topics.iter().map(|name| topic_name(name)).collect()))
}

fn going_on(member_id: &str, epoch: i32) -> ShareGroupHeartbeatRequest {
    share_heartbeat("g", member_id, &[])
        .with_subscribed_topic_names(None)
        .with_member_epoch(epoch)
}

pub(crate) fn describe(group_id: &str) -> ShareGroupDescribeRequest {
    ShareGroupDescribeRequest::default()
        .with_group_ids(vec![group(group_id)])
        .with_include_authorized_operations(true)
}

/// Asks for the offsets of all topics, or of one.
pub(crate) fn describe_offsets(
    group_id: &str,
    topic: Option<(&str, &[i32])>,
) -> DescribeShareGroupOffsetsRequest {
    let topics = topic.map(|(name, partitions)| {
        let topic = DescribeShareGroupOffsetsRequestTopic::default()
            .with_topic_name(topic_name(name))
            .with_partitions(partitions.to_vec());
        vec![topic]
    });
    let asked = DescribeShareGroupOffsetsRequestGroup::default()
        .with_group_id(group(group_id))
        .with_topics(topics);
    DescribeShareGroupOffsetsRequest::default().with_groups(vec![asked])
}

pub(crate) fn alter_offsets(
    group_id: &str,
    topic: &str,
    offsets: &[(i32, i64)],
) -> AlterShareGroupOffsetsRequest {
    let partition = |&(index, offset): &(i32, i64)| {
        AlterShareGroupOffsetsRequestPartition::default()
            .with_partition_index(index)
            .with_start_offset(offset)
    };
    let topic = AlterShareGroupOffsetsRequestTopic::default()
        .with_topic_name(topic_name(topic))
        .with_partitions(offsets.iter().map(partition).collect());
    AlterShareGroupOffsetsRequest::default()
        .with_group_id(group(group_id))
        .with_topics(vec![topic])
}

pub(crate) fn delete_offsets(group_id: &str, topics: &[&str]) -> DeleteShareGroupOffsetsRequest {
    let topic = |name: &&str| {
        DeleteShareGroupOffsetsRequestTopic::default().with_topic_name(topic_name(name))
    };
    DeleteShareGroupOffsetsRequest::default()
        .with_group_id(group(group_id))
        .with_topics(topics.iter().map(topic).collect())
}

async fn world() -> World {
    world_with(Settings::default()).await
}

async fn world_with(settings: Settings) -> World {
    let world = World::with(settings).await;
    world.create("t", 4, &[]).await;
    world.create("u", 2, &[]).await;
    world.find_coordinator().await;
    world
}

/// How many partitions an answer assigns; none where it tells nothing about them.
fn assigned(answer: &ShareGroupHeartbeatResponse) -> Option<usize> {
    let topics = &answer.assignment.as_ref()?.topic_partitions;
    Some(topics.iter().map(|topic| topic.partitions.len()).sum())
}

/// A member joins and asks until it has that many partitions. Gives its epoch.
async fn member(world: &World, id: &str, topics: &[&str], count: usize) -> i32 {
    let mut answer = world.ask(1, &share_heartbeat("g", id, topics)).await;
    for _ in 0..200 {
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        assert_eq!(answer.member_id.as_deref(), Some(id));
        if assigned(&answer) == Some(count) {
            return answer.member_epoch;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        let again = going_on(id, answer.member_epoch);
        answer = world.ask(1, &again).await;
    }
    panic!("never had {count} partitions");
}

async fn leave(world: &World, id: &str) {
    let left = world.ask(1, &going_on(id, -1)).await;
    assert_eq!((left.error_code, left.member_epoch), (0, -1));
}

async fn deleted(world: &World) -> i16 {
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group("g")]);
    world.ask(2, &request).await.results[0].error_code
}

/// The start offset and the error of each partition that is described.
async fn offsets(world: &World, topic: Option<(&str, &[i32])>) -> Vec<(i32, i64, i16)> {
    let answer = world.ask(0, &describe_offsets("g", topic)).await;
    let group = &answer.groups[0];
    assert_eq!(group.error_code, 0);
    let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
    partitions
        .map(|of| (of.partition_index, of.start_offset, of.error_code))
        .collect()
}

#[tokio::test]
async fn a_share_group_lives_from_the_first_heartbeat_to_its_deletion() {
    let world = world().await;
    let joined = world.ask(1, &share_heartbeat("g", "a", &["t"])).await;
    assert_eq!((joined.error_code, joined.member_epoch), (0, 1));
    assert_eq!(assigned(&joined), Some(0), "no state is initialized yet");
    member(&world, "a", &["t"], 4).await;
    let epoch = member(&world, "b", &["t"], 2).await;
    let told = world.ask(1, &going_on("b", epoch)).await;
    assert_eq!((told.heartbeat_interval_ms, assigned(&told)), (5_000, None));

    let described = world.ask(1, &describe("g")).await.groups.remove(0);
    assert_eq!(
        (described.error_code, &*described.group_state),
        (0, "Stable")
    );
    assert_eq!(&*described.assignor_name, "simple");
    assert_eq!(described.group_epoch, described.assignment_epoch);
    let members: Vec<_> = { described.members.iter() }
        .map(|member| (&*member.member_id, member.subscribed_topic_names.len()))
        .collect();
    assert_eq!(members, [("a", 1), ("b", 1)]);
    let assignment = &described.members[1].assignment.topic_partitions[0];
    assert_eq!(
        (assignment.topic_name.as_str(), assignment.partitions.len()),
        ("t", 2)
    );

    let shares = ListGroupsRequest::default().with_types_filter(vec![text("Share")]);
    let listed = world.ask(5, &shares).await.groups;
    let shown = (
        &*listed[0].group_id.0,
        &*listed[0].group_type,
        &*listed[0].protocol_type,
    );
    assert_eq!(shown, ("g", "share", "share"));
    let others = ListGroupsRequest::default().with_types_filter(vec![text("consumer")]);
    assert_eq!(world.ask(5, &others).await.groups.len(), 0);

    assert_eq!(deleted(&world).await, Code::NonEmptyGroup.code());
    leave(&world, "a").await;
    leave(&world, "b").await;
    assert_eq!(world.share_watch().known(), 4);
    assert_eq!(deleted(&world).await, 0);
    assert_eq!(world.share_watch().known(), 0);
    let gone = Code::GroupIdNotFound.code();
    assert_eq!(deleted(&world).await, gone);
    assert_eq!(
        world.ask(1, &describe("g")).await.groups[0].error_code,
        gone
    );
}

#[tokio::test]
async fn a_share_group_survives_a_restart() {
    let world = world().await;
    let epoch = member(&world, "a", &["t", "u"], 6).await;
    let described = world.ask(1, &describe("g")).await;
    let world = world.restart().await;
    world.find_coordinator().await;
    assert_eq!(world.ask(1, &describe("g")).await, described);
    let told = world.ask(1, &going_on("a", epoch)).await;
    assert_eq!((told.error_code, assigned(&told)), (0, None));
}

#[tokio::test]
async fn members_that_are_silent_are_removed() {
    let mut settings = Settings::default();
    let timeout = Duration::from_millis(300);
    let limits = GroupConfigLimits {
        share_session_timeout: AllowedTime {
            default: timeout,
            min: timeout,
            max: timeout,
        },
        ..GroupConfigLimits::default()
    };
    settings.groups.of_groups = GroupConfigs::new(limits);
    let world = world_with(settings).await;
    let epoch = member(&world, "a", &["t"], 4).await;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let described = world.ask(1, &describe("g")).await.groups.remove(0);
        if described.members.is_empty() {
            assert_eq!(&*described.group_state, "Empty");
            let told = world.ask(1, &going_on("a", epoch)).await;
            return assert_eq!(told.error_code, Code::UnknownMemberId.code());
        }
    }
    panic!("the session never ended");
}

#[tokio::test]
async fn heartbeats_are_refused_as_kafka_does() {
    let mut settings = Settings::default();
    settings.groups.share.group_size_max = 2;
    let world = world_with(settings).await;
    let code = async |request: ShareGroupHeartbeatRequest| world.ask(1, &request).await.error_code;
    let absent = code(going_on("a", 1)).await;
    assert_eq!(absent, Code::GroupIdNotFound.code());
    let epoch = member(&world, "a", &["t"], 4).await;
    let join = || share_heartbeat("g", "a", &["t"]);
    let invalid = [
        join().with_group_id(group("")),
        join().with_member_id(text("")),
        join().with_rack_id(Some(text(""))),
        join().with_subscribed_topic_names(None),
        share_heartbeat("g", "a", &[]),
        going_on("a", -2),
    ];
    for request in invalid {
        assert_eq!(code(request).await, Code::InvalidRequest.code());
    }
    let fenced = Code::FencedMemberEpoch.code();
    assert_eq!(code(going_on("a", epoch + 1)).await, fenced);
    let unknown = Code::UnknownMemberId.code();
    assert_eq!(code(going_on("b", epoch)).await, unknown);
    assert_eq!(code(going_on("b", -1)).await, unknown);
    assert_eq!(code(share_heartbeat("g", "b", &["t"])).await, 0);
    let full = code(share_heartbeat("g", "c", &["t"])).await;
    assert_eq!(full, Code::GroupMaxSizeReached.code());
}

#[tokio::test]
async fn groups_of_other_kinds_are_not_confused_with_it() {
    let world = world().await;
    member(&world, "a", &["t"], 4).await;
    let joined = world.ask(3, &join("g", "")).await;
    assert_eq!(joined.error_code, Code::InconsistentGroupProtocol.code());
    let absent = Code::GroupIdNotFound.code();
    let heard = world.ask(1, &consumer_heartbeat("g", "c", &["t"])).await;
    assert_eq!(heard.error_code, absent);
    let committed = world.ask(9, &offset_commit("g", "t")).await;
    assert_eq!(committed.topics[0].partitions[0].error_code, absent);
    let request = DescribeGroupsRequest::default().with_groups(vec![group("g")]);
    let described = world.ask(6, &request).await;
    assert_eq!(described.groups[0].error_code, absent);
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group("g")]);
    assert_eq!(world.ask(1, &request).await.groups[0].error_code, absent);
    // The other way round.
    world.ask(1, &consumer_heartbeat("c", "m", &["t"])).await;
    let heard = world.ask(1, &share_heartbeat("c", "a", &["t"])).await;
    assert_eq!(heard.error_code, absent);
    assert_eq!(
        world.ask(1, &describe("c")).await.groups[0].error_code,
        absent
    );
    let offsets = world.ask(0, &describe_offsets("c", None)).await;
    assert_eq!(offsets.groups[0].error_code, absent);
    let invalid = world.ask(1, &describe("")).await;
    assert_eq!(invalid.groups[0].error_code, Code::InvalidGroupId.code());
}

#[tokio::test]
async fn offsets_are_described_altered_and_deleted() {
    let world = world().await;
    let missing = world.ask(0, &alter_offsets("g", "t", &[(0, 1)])).await;
    assert_eq!(missing.error_code, Code::GroupIdNotFound.code());
    member(&world, "a", &["t"], 4).await;
    let busy = world.ask(0, &alter_offsets("g", "t", &[(0, 1)])).await;
    assert_eq!(busy.error_code, Code::NonEmptyGroup.code());
    let busy = world.ask(0, &delete_offsets("g", &["t"])).await;
    assert_eq!(busy.error_code, Code::NonEmptyGroup.code());
    leave(&world, "a").await;

    let unknown = Code::UnknownTopicOrPartition.code();
    let request = alter_offsets("g", "t", &[(1, 42), (9, 1), (2, -1)]);
    let altered = world.ask(0, &request).await;
    assert_eq!(altered.error_code, 0);
    let codes: Vec<i16> = { altered.responses[0].partitions.iter() }
        .map(|partition| partition.error_code)
        .collect();
    assert_eq!(codes, [0, unknown, Code::InvalidRequest.code()]);
    let absent = world.ask(0, &alter_offsets("g", "none", &[(0, 1)])).await;
    assert_eq!(absent.responses[0].partitions[0].error_code, unknown);

    let all = offsets(&world, None).await;
    assert_eq!(all, [(0, -1, 0), (1, 42, 0), (2, -1, 0), (3, -1, 0)]);
    let some = offsets(&world, Some(("t", &[1, 9]))).await;
    assert_eq!(some, [(1, 42, 0), (9, -1, unknown)]);
    let uninitialized = offsets(&world, Some(("u", &[0]))).await;
    assert_eq!(uninitialized, [(0, -1, 0)]);
    let absent = offsets(&world, Some(("none", &[0]))).await;
    assert_eq!(absent, [(0, -1, unknown)]);

    let deleted = world
        .ask(0, &delete_offsets("g", &["t", "u", "none"]))
        .await;
    let codes: Vec<_> = { deleted.responses.iter() }
        .map(|topic| (topic.error_code, topic.error_message.is_some()))
        .collect();
    assert_eq!(codes, [(0, false), (unknown, true), (unknown, false)]);
    assert_eq!(offsets(&world, None).await, []);
    assert_eq!(world.share_watch().known(), 0);
}

#[tokio::test]
async fn what_the_share_coordinator_refuses_can_be_tried_again() {
    let world = world().await;
    member(&world, "a", &["t"], 4).await;
    leave(&world, "a").await;
    let states = world.share_watch();
    states.is_away.store(true, Ordering::Relaxed);
    let away = Code::CoordinatorNotAvailable.code();
    let altered = world.ask(0, &alter_offsets("g", "t", &[(0, 1)])).await;
    assert_eq!(altered.responses[0].partitions[0].error_code, away);
    assert_eq!(offsets(&world, Some(("t", &[0]))).await, [(0, -1, away)]);
    let failed = world.ask(0, &delete_offsets("g", &["t"])).await;
    assert_eq!(failed.responses[0].error_code, away);
    assert_eq!(deleted(&world).await, away);
    states.is_away.store(false, Ordering::Relaxed);
    assert_eq!(deleted(&world).await, 0);
    assert_eq!(states.known(), 0);
}

#[tokio::test]
async fn a_deleted_topic_takes_its_states_along() {
    let world = world().await;
    let epoch = member(&world, "a", &["t", "u"], 6).await;
    let request = DeleteTopicsRequest::default().with_topic_names(vec![topic_name("t")]);
    assert_eq!(world.ask(5, &request).await.responses[0].error_code, 0);
    let told = world.ask(1, &going_on("a", epoch)).await;
    assert_eq!(assigned(&told), Some(2));
    assert_eq!(offsets(&world, None).await.len(), 2);
    // Another topic of the same name is another topic.
    world.create("t", 3, &[]).await;
    member(&world, "a", &["t", "u"], 5).await;
    assert_eq!(offsets(&world, None).await.len(), 5);
}

/// A share group of which Alice knows nothing.
async fn guarded() -> (World, Arc<Peer>) {
    let world = guarded_world().await;
    world.create("t", 1, &[]).await;
    world.find_coordinator().await;
    member(&world, "a", &["t"], 1).await;
    (world, alice())
}

#[tokio::test]
async fn topics_are_shown_to_those_who_may_see_them() {
    use millrace_security::acl::Operation::{Delete, Describe, Read};
    let (world, alice) = guarded().await;
    let denied = Code::TopicAuthorizationFailed.code();
    let heartbeat = share_heartbeat("g", "b", &["t"]);
    give(
        &world,
        &[on_group(Read), on_group(Describe), on_group(Delete)],
    )
    .await;
    let refused = world.ask_as(&alice, 1, &heartbeat).await;
    assert_eq!(refused.error_code, denied);
    let described = world.ask_as(&alice, 1, &describe("g")).await;
    assert_eq!(described.groups[0].error_code, denied);
    assert!(described.groups[0].members.is_empty());
    let all = world.ask_as(&alice, 0, &describe_offsets("g", None)).await;
    let shown = (all.groups[0].error_code, all.groups[0].topics.len());
    assert_eq!(shown, (0, 0));
    let one = describe_offsets("g", Some(("t", &[0])));
    let one = world.ask_as(&alice, 0, &one).await;
    assert_eq!(one.groups[0].topics[0].partitions[0].error_code, denied);
    assert!(one.groups[0].topics[0].topic_id.is_nil());
    leave(&world, "a").await;
    let altered = alter_offsets("g", "t", &[(0, 1)]);
    let altered = world.ask_as(&alice, 0, &altered).await;
    assert_eq!(altered.responses[0].partitions[0].error_code, denied);
    let deleted = world.ask_as(&alice, 0, &delete_offsets("g", &["t"])).await;
    assert_eq!(deleted.responses[0].error_code, denied);

    give(&world, &[on_topic(Read), on_topic(Describe)]).await;
    let all = world.ask_as(&alice, 0, &describe_offsets("g", None)).await;
    assert_eq!(all.groups[0].topics.len(), 1);
    let joined = world.ask_as(&alice, 1, &heartbeat).await;
    assert_eq!(joined.error_code, 0);
    let described = world.ask_as(&alice, 1, &describe("g")).await;
    assert_eq!(described.groups[0].members.len(), 1);
    let operations = described.groups[0].authorized_operations;
    assert_eq!(operations, 1 << 3 | 1 << 6 | 1 << 8);
}
