//! ShareFetch and ShareAcknowledge.

use std::{sync::Arc, time::Duration};

use kafka_protocol::{
    error::ResponseError as Code,
    messages::{
        GroupId, ShareAcknowledgeRequest, ShareAcknowledgeResponse, ShareFetchRequest,
        ShareFetchResponse, share_acknowledge_request, share_fetch_request,
        share_fetch_response::PartitionData,
    },
};
use millrace_api::ShareConfig;
use millrace_coordinator::{SharePartition, ShareStateError, ShareStates};
use millrace_model::{TopicId, TopicName};
use millrace_wire::service::{Peer, Service};
use uuid::Uuid;

use crate::{
    calls::batch,
    share_states::KeptShareStates,
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
    &world.settings.share_states
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
    assert_eq!(other.acknowledged(&[(0, 2, &[ACCEPT])]).await, Code::InvalidRecordState.code());

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
