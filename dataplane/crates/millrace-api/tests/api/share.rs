//! ShareFetch and ShareAcknowledge.

mod leading;

use std::{sync::Arc, time::Duration};

use kafka_protocol::{
    error::ResponseError as Code,
    messages::{
        GroupId, ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest,
        ShareFetchResponse, share_acknowledge_request, share_fetch_request,
        share_fetch_response::PartitionData,
    },
};
use millrace_api::{GroupSettings, ResetStrategy, ShareConfig};
use millrace_coordinator::{SharePartition, ShareStateError, ShareStates};
use millrace_model::{TopicId, TopicName};
use millrace_wire::service::{Peer, Service};
use uuid::Uuid;

use crate::{
    calls::batch,
    kept_share_states::KeptShareStates,
    world::{Sent, Settings, World, answer, peer, text},
};

const VERSION: i16 = 1;

const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
const REJECT: i8 = 3;

/// First offset, last offset, types.
type Batch<'a> = (i64, i64, &'a [i8]);

/// A member of a share group, with the epoch of its next request.
struct Member<'a> {
    world: &'a World,
    peer: Arc<Peer>,
    id: &'static str,
    topic: Uuid,
    epoch: i32,
}

impl<'a> Member<'a> {
    fn new(world: &'a World, id: &'static str, connection: u64) -> Self {
        Self {
            world,
            peer: peer(connection),
            id,
            topic: topic_id(world, "t"),
            epoch: 0,
        }
    }

    fn request(&mut self, partitions: &[i32], acknowledged: &[Batch<'_>]) -> ShareFetchRequest {
        let batches = acknowledged.iter().map(|(first, last, types)| {
            share_fetch_request::AcknowledgementBatch::default()
                .with_first_offset(*first)
                .with_last_offset(*last)
                .with_acknowledge_types(types.to_vec())
        });
        let batches: Vec<_> = batches.collect();
        let partitions = partitions.iter().map(|index| {
            share_fetch_request::FetchPartition::default()
                .with_partition_index(*index)
                .with_acknowledgement_batches(batches.clone())
        });
        let topic = share_fetch_request::FetchTopic::default()
            .with_topic_id(self.topic)
            .with_partitions(partitions.collect());
        let request = ShareFetchRequest::default()
            .with_group_id(Some(GroupId(text("g"))))
            .with_member_id(Some(text(self.id)))
            .with_share_session_epoch(self.epoch)
            .with_max_wait_ms(0)
            .with_min_bytes(1)
            .with_max_bytes(1 << 20)
            .with_max_records(500)
            .with_batch_size(500)
            .with_topics(vec![topic]);
        self.epoch += 1;
        request
    }

    async fn ask(&self, request: &ShareFetchRequest) -> ShareFetchResponse {
        self.world.ask_as(&self.peer, VERSION, request).await
    }

    /// Fetches the first partition until its state was read.
    async fn join(&mut self) {
        let request = self.request(&[0], &[]).with_max_wait_ms(200);
        let response = self.ask(&request).await;
        assert_eq!(response.error_code, 0);
    }

    /// What is acquired of the first partition: first offset, last offset, delivery count.
    async fn fetch(&mut self) -> Vec<(i64, i64, i16)> {
        let request = self.request(&[0], &[]);
        acquired(&self.ask(&request).await)
    }

    async fn acknowledge(&mut self, acknowledged: &[Batch<'_>]) -> ShareAcknowledgeResponse {
        let batches = acknowledged.iter().map(|(first, last, types)| {
            share_acknowledge_request::AcknowledgementBatch::default()
                .with_first_offset(*first)
                .with_last_offset(*last)
                .with_acknowledge_types(types.to_vec())
        });
        let partition = share_acknowledge_request::AcknowledgePartition::default()
            .with_partition_index(0)
            .with_acknowledgement_batches(batches.collect());
        let topic = share_acknowledge_request::AcknowledgeTopic::default()
            .with_topic_id(self.topic)
            .with_partitions(vec![partition]);
        let request = ShareAcknowledgeRequest::default()
            .with_group_id(Some(GroupId(text("g"))))
            .with_member_id(Some(text(self.id)))
            .with_share_session_epoch(self.epoch)
            .with_topics(vec![topic]);
        self.epoch += 1;
        self.world.ask_as(&self.peer, VERSION, &request).await
    }

    /// The error of acknowledgements of the first partition.
    async fn acknowledged(&mut self, acknowledged: &[Batch<'_>]) -> i16 {
        let response = self.acknowledge(acknowledged).await;
        assert_eq!(response.error_code, 0);
        response.responses[0].partitions[0].error_code
    }
}

fn topic_id(world: &World, name: &str) -> Uuid {
    let name = TopicName::new(name).expect("a legal name");
    world.logs.topic(&name).expect("a topic").id.0
}

fn share_partition(world: &World, index: i32) -> SharePartition {
    SharePartition {
        group_id: "g".into(),
        topic_id: TopicId(topic_id(world, "t")),
        partition: index,
    }
}

fn partitions(response: &ShareFetchResponse) -> Vec<&PartitionData> {
    assert_eq!(response.error_code, 0);
    let topics = response.responses.iter();
    topics.flat_map(|topic| &topic.partitions).collect()
}

fn acquired(response: &ShareFetchResponse) -> Vec<(i64, i64, i16)> {
    let ranges = partitions(response).into_iter().flat_map(|partition| {
        assert_eq!(partition.error_code, 0);
        &partition.acquired_records
    });
    ranges
        .map(|range| (range.first_offset, range.last_offset, range.delivery_count))
        .collect()
}

/// A topic "t" that share groups consume from its first record.
async fn world() -> World {
    world_with(ShareConfig::default()).await
}

async fn world_with(share: ShareConfig) -> World {
    let world = World::with(Settings {
        share,
        kept_share_states: Some(Arc::default()),
        ..Settings::default()
    })
    .await;
    world.create("t", 2, &[]).await;
    for index in [0, 1] {
        let partition = share_partition(&world, index);
        let initialized = states(&world).initialize(partition, 1, Some(0)).await;
        initialized.expect("initialized");
    }
    world
}

fn states(world: &World) -> &KeptShareStates {
    let kept = world.settings.kept_share_states.as_deref();
    kept.expect("a share coordinator in memory")
}

#[tokio::test]
async fn records_are_acquired_and_acknowledged() {
    let world = world().await;
    world.produce("t", 0, batch(&["a", "b", "c"])).await;
    let (mut one, mut other) = (Member::new(&world, "m1", 1), Member::new(&world, "m2", 2));
    let request = one.request(&[0], &[]).with_max_wait_ms(5_000);
    let response = one.ask(&request).await;
    assert_eq!(acquired(&response), [(0, 2, 1)]);
    assert_eq!(response.acquisition_lock_timeout_ms, 30_000);
    assert!(partitions(&response)[0].records.is_some());
    // Nobody else gets them.
    assert_eq!(other.fetch().await, []);
    assert_eq!(
        other.acknowledged(&[(0, 2, &[ACCEPT])]).await,
        Code::InvalidRecordState.code()
    );

    assert_eq!(one.acknowledged(&[(0, 0, &[ACCEPT])]).await, 0);
    let kept = states(&world).kept(&share_partition(&world, 0));
    assert_eq!(kept, (Some(1), Vec::new()), "durable before it is answered");
    let request = one.request(&[0], &[(1, 2, &[RELEASE, ACCEPT])]);
    let response = one.ask(&request).await;
    assert_eq!(partitions(&response)[0].acknowledge_error_code, 0);
    // What was released may be acquired again by the same request or the next one, of whichever member.
    let mut again = acquired(&response);
    if again.is_empty() {
        again = other.fetch().await;
    }
    assert_eq!(again, [(1, 1, 2)]);
    let kept = states(&world).kept(&share_partition(&world, 0));
    assert_eq!(kept, (Some(1), vec![(1, 0, 1), (2, 2, 1)]));
}

/// The error of a fetch in a session.
async fn error(member: &mut Member<'_>, epoch: i32) -> i16 {
    member.epoch = epoch;
    let request = member.request(&[0], &[]);
    member.ask(&request).await.error_code
}

#[tokio::test]
async fn sessions_count_their_requests() {
    let share = ShareConfig {
        sessions_max: 2,
        ..ShareConfig::default()
    };
    let world = world_with(share).await;
    let mut one = Member::new(&world, "m1", 1);
    let not_found = Code::ShareSessionNotFound.code();
    for epoch in [1, -1] {
        assert_eq!(error(&mut one, epoch).await, not_found);
        one.epoch = epoch;
        assert_eq!(
            one.acknowledge(&[(0, 0, &[ACCEPT])]).await.error_code,
            not_found
        );
    }
    let invalid = Code::InvalidShareSessionEpoch.code();
    one.epoch = 0;
    assert_eq!(
        one.acknowledge(&[(0, 0, &[ACCEPT])]).await.error_code,
        invalid
    );
    // A request that opens a session has nothing to acknowledge.
    one.epoch = 0;
    let request = one.request(&[0], &[(0, 0, &[ACCEPT])]);
    assert_eq!(
        one.ask(&request).await.error_code,
        Code::InvalidRequest.code()
    );
    for (epoch, expected) in [
        (0, 0),
        (1, 0),
        (1, invalid),
        (3, invalid),
        (2, 0),
        (0, 0),
        (1, 0),
    ] {
        assert_eq!(error(&mut one, epoch).await, expected, "{epoch}");
    }
    one.epoch = 2;
    assert_eq!(one.acknowledge(&[]).await.error_code, 0);
    assert_eq!(error(&mut one, 2).await, invalid);
    assert_eq!(error(&mut one, 3).await, 0);

    let (mut two, mut three) = (Member::new(&world, "m2", 2), Member::new(&world, "m3", 3));
    assert_eq!(error(&mut two, 0).await, 0);
    assert_eq!(
        error(&mut three, 0).await,
        Code::ShareSessionLimitReached.code()
    );
    assert_eq!(error(&mut one, -1).await, 0);
    assert_eq!(error(&mut one, -1).await, not_found);
    assert_eq!(error(&mut three, 0).await, 0);
}

#[tokio::test]
async fn requests_need_a_group_and_a_member() {
    let world = world().await;
    let mut one = Member::new(&world, "m1", 1);
    let request = one.request(&[0], &[]);
    for (request, expected) in [
        (request.clone().with_group_id(None), Code::InvalidGroupId),
        (request.clone().with_member_id(None), Code::InvalidRequest),
        (
            request.with_member_id(Some(text(&"m".repeat(37)))),
            Code::InvalidRequest,
        ),
    ] {
        assert_eq!(one.ask(&request).await.error_code, expected.code());
    }
}

#[tokio::test]
async fn acknowledgements_are_checked() {
    let world = world().await;
    world.produce("t", 0, batch(&["a", "b", "c"])).await;
    let mut one = Member::new(&world, "m1", 1);
    one.join().await;
    let invalid = Code::InvalidRequest.code();
    let malformed: [&[Batch<'_>]; 6] = [
        &[(2, 0, &[ACCEPT])],
        &[(0, 2, &[])],
        &[(0, 2, &[ACCEPT, ACCEPT])],
        &[(0, 0, &[9])],
        &[(0, 1, &[ACCEPT]), (1, 2, &[ACCEPT])],
        &[(0, 3, &[ACCEPT])],
    ];
    for acknowledged in malformed {
        assert_eq!(
            one.acknowledged(acknowledged).await,
            invalid,
            "{acknowledged:?}"
        );
    }
    assert_eq!(
        one.acknowledged(&[(0, 0, &[ACCEPT]), (1, 2, &[REJECT, 0])])
            .await,
        0
    );
    assert_eq!(
        states(&world).kept(&share_partition(&world, 0)),
        (Some(3), Vec::new())
    );
    // A topic or partition that is not there, and one that this member never fetched.
    let mut request = one.request(&[1, 9], &[(0, 0, &[ACCEPT])]);
    request
        .topics
        .push(request.topics[0].clone().with_topic_id(Uuid::from_u128(1)));
    let response = one.ask(&request).await;
    let mut codes: Vec<_> = { partitions(&response).into_iter() }
        .map(|of| (of.partition_index, of.error_code, of.acknowledge_error_code))
        .collect();
    codes.sort_unstable();
    let (unknown, unknown_id) = (
        Code::UnknownTopicOrPartition.code(),
        Code::UnknownTopicId.code(),
    );
    let expected = [
        (1, 0, unknown),
        (1, unknown_id, unknown_id),
        (9, unknown, unknown),
        (9, unknown_id, unknown_id),
    ];
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(codes, expected);
}

#[tokio::test]
async fn whole_batches_are_acquired() {
    let world = world().await;
    for _ in 0..4 {
        world.produce("t", 0, batch(&["a", "b", "c"])).await;
    }
    let mut one = Member::new(&world, "m1", 1);
    let request = one.request(&[0], &[]).with_max_wait_ms(5_000);
    let request = request.with_max_records(4).with_batch_size(2);
    let response = one.ask(&request).await;
    assert_eq!(acquired(&response), [(0, 2, 1), (3, 5, 1)]);
    let records = partitions(&response)[0].records.clone().expect("records");
    let sent = millrace_record::split(bytes::BytesMut::from(&records[..])).expect("batches");
    assert_eq!(sent.len(), 2, "nothing that was not acquired");
    assert_eq!(one.fetch().await, [(6, 11, 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_waits_for_records() {
    let world = world().await;
    let (mut one, mut two) = (Member::new(&world, "m1", 1), Member::new(&world, "m2", 2));
    one.join().await;
    two.join().await;
    let request = one.request(&[0], &[]).with_max_wait_ms(15_000);
    let sent = world.send_as(&one.peer, VERSION, &request).await;
    let fetch = tokio::spawn(answer::<ShareFetchRequest>(VERSION, sent));
    while world.service.delayed_fetches() == 0 {
        tokio::task::yield_now().await;
    }
    world.produce("t", 0, batch(&["a"])).await;
    let fetched = fetch.await.expect("answered");
    assert_eq!(acquired(&fetched), [(0, 0, 1)]);
    // What another member releases is as good as new.
    let request = two.request(&[0], &[]).with_max_wait_ms(15_000);
    let sent = world.send_as(&two.peer, VERSION, &request).await;
    let fetch = tokio::spawn(answer::<ShareFetchRequest>(VERSION, sent));
    while world.service.delayed_fetches() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(one.acknowledged(&[(0, 0, &[RELEASE])]).await, 0);
    let fetched = fetch.await.expect("answered");
    assert_eq!(acquired(&fetched), [(0, 0, 2)]);
    // Enough means as many bytes as the member wants, or all that there is when the time is up.
    world.produce("t", 0, batch(&["b"])).await;
    let request = one
        .request(&[0], &[])
        .with_max_wait_ms(300)
        .with_min_bytes(1 << 20);
    let Sent::Later(fetch) = world.send_as(&one.peer, VERSION, &request).await else {
        panic!("answered at once")
    };
    let fetched = answer::<ShareFetchRequest>(VERSION, Sent::Later(fetch)).await;
    assert_eq!(acquired(&fetched), [(1, 1, 1)]);
}

#[tokio::test]
async fn locks_time_out_until_the_record_is_archived() {
    let share = ShareConfig {
        group: GroupSettings {
            record_lock: Duration::from_millis(50),
            delivery_count_limit: 2,
            ..GroupSettings::default()
        },
        ..ShareConfig::default()
    };
    let world = world_with(share).await;
    world.produce("t", 0, batch(&["a"])).await;
    let mut one = Member::new(&world, "m1", 1);
    let request = one.request(&[0], &[]).with_max_wait_ms(5_000);
    let response = one.ask(&request).await;
    assert_eq!(acquired(&response), [(0, 0, 1)]);
    assert_eq!(response.acquisition_lock_timeout_ms, 50);
    let request = one.request(&[0], &[]).with_max_wait_ms(5_000);
    assert_eq!(acquired(&one.ask(&request).await), [(0, 0, 2)]);
    let request = one.request(&[0], &[]).with_max_wait_ms(200);
    assert_eq!(acquired(&one.ask(&request).await), []);
    assert_eq!(
        one.acknowledged(&[(0, 0, &[ACCEPT])]).await,
        0,
        "it is done"
    );
    assert_eq!(
        states(&world).kept(&share_partition(&world, 0)),
        (Some(1), Vec::new())
    );
}

#[tokio::test]
async fn members_that_go_leave_their_records() {
    let world = world().await;
    for value in ["a", "b", "c"] {
        world.produce("t", 0, batch(&[value])).await;
    }
    let mut two = Member::new(&world, "m2", 2);
    two.join().await;
    two.acknowledge(&[(0, 2, &[RELEASE])]).await;
    let mut one = Member::new(&world, "m1", 1);
    assert_eq!(one.fetch().await, [(0, 2, 2)]);
    // The last request acknowledges some, and leaves the others.
    one.epoch = -1;
    assert_eq!(one.acknowledged(&[(1, 1, &[ACCEPT])]).await, 0);
    assert_eq!(two.fetch().await, [(0, 0, 2), (2, 2, 2)]);
    two.epoch = -1;
    let request = two.request(&[0], &[(0, 0, &[ACCEPT])]);
    let response = two.ask(&request).await;
    assert_eq!(partitions(&response)[0].acknowledge_error_code, 0);
    assert_eq!(acquired(&response), []);
    let mut three = Member::new(&world, "m3", 3);
    let request = three.request(&[0], &[]).with_max_wait_ms(5_000);
    assert_eq!(acquired(&three.ask(&request).await), [(2, 2, 2)]);
    // A connection that is lost is a member that goes.
    one.epoch = 0;
    assert_eq!(one.fetch().await, []);
    world.service.disconnected(&three.peer);
    let request = one.request(&[0], &[]).with_max_wait_ms(5_000);
    assert_eq!(acquired(&one.ask(&request).await), [(2, 2, 2)]);
    assert_eq!(
        error(&mut three, 2).await,
        Code::ShareSessionNotFound.code()
    );
}

/// Its former session is closed, as the answer says.
#[tokio::test]
async fn a_member_whose_session_is_too_large_leaves_its_records() {
    let world = world().await;
    world.produce("t", 0, batch(&["a"])).await;
    let (mut one, mut two) = (Member::new(&world, "m1", 1), Member::new(&world, "m2", 2));
    one.join().await;
    two.join().await;
    one.epoch = 0;
    let partitions: Vec<i32> = (0..=16_384).collect();
    let request = one.request(&partitions, &[]);
    assert_eq!(
        one.ask(&request).await.error_code,
        Code::ShareSessionLimitReached.code()
    );
    let not_found = Code::ShareSessionNotFound.code();
    assert_eq!(error(&mut one, 1).await, not_found);
    let request = two.request(&[0], &[]).with_max_wait_ms(5_000);
    assert_eq!(acquired(&two.ask(&request).await), [(0, 0, 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_stops_answers_fetches_that_wait() {
    let world = world().await;
    let mut one = Member::new(&world, "m1", 1);
    one.join().await;
    let request = one.request(&[0], &[]).with_max_wait_ms(15_000);
    let sent = world.send_as(&one.peer, VERSION, &request).await;
    let fetch = tokio::spawn(answer::<ShareFetchRequest>(VERSION, sent));
    while world.service.delayed_fetches() == 0 {
        tokio::task::yield_now().await;
    }
    world.service.stop_waiting();
    let fetched = tokio::time::timeout(Duration::from_secs(5), fetch).await;
    let fetched = fetched.expect("in time").expect("answered");
    assert_eq!(acquired(&fetched), []);
    let request = one.request(&[0], &[]).with_max_wait_ms(15_000);
    let late = tokio::time::timeout(Duration::from_secs(5), one.ask(&request)).await;
    assert_eq!(acquired(&late.expect("in time")), []);
}
