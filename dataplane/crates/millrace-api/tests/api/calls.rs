//! The handful of requests that most tests need.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{
    CreateTopicsRequest, FetchRequest, FetchResponse, FindCoordinatorRequest, ProduceRequest,
    ProduceResponse, TopicName,
    create_topics_request::{CreatableTopic, CreatableTopicConfig},
    fetch_request::{FetchPartition, FetchTopic},
    fetch_response::PartitionData,
    produce_request::{PartitionProduceData, TopicProduceData},
    produce_response::PartitionProduceResponse,
};
use millrace_record::{BatchBuilder, Compression, records};

use crate::world::{World, text};

pub(crate) const NAMED_PRODUCE: i16 = 9;
pub(crate) const NAMED_FETCH: i16 = 12;

pub(crate) fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

impl World {
    pub(crate) async fn create(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        let config = |(name, value): &(&str, &str)| {
            CreatableTopicConfig::default()
                .with_name(text(name))
                .with_value(Some(text(value)))
        };
        let topic = CreatableTopic::default()
            .with_name(topic_name(name))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(configs.iter().map(config).collect());
        let request = CreateTopicsRequest::default().with_topics(vec![topic]);
        let response = self.ask(7, &request).await;
        assert_eq!(
            response.topics[0].error_code, 0,
            "{:?}",
            response.topics[0].error_message
        );
    }

    /// Makes sure that groups are served.
    pub(crate) async fn find_coordinator(&self) {
        let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("any")]);
        let response = self.ask(4, &request).await;
        assert_eq!(response.coordinators[0].error_code, 0);
    }

    pub(crate) async fn produce(
        &self,
        name: &str,
        partition: i32,
        records: BytesMut,
    ) -> PartitionProduceResponse {
        let request = produce_request(name, &[(partition, records)], -1);
        let response = self.ask(NAMED_PRODUCE, &request).await;
        only_partition(response)
    }

    pub(crate) async fn fetch_from(
        &self,
        name: &str,
        partition: i32,
        offset: i64,
    ) -> PartitionData {
        let response = self
            .ask(NAMED_FETCH, &fetch_request(name, &[(partition, offset)]))
            .await;
        only_fetched(response)
    }
}

pub(crate) fn only_partition(mut response: ProduceResponse) -> PartitionProduceResponse {
    response.responses.remove(0).partition_responses.remove(0)
}

pub(crate) fn only_fetched(mut response: FetchResponse) -> PartitionData {
    assert_eq!(response.error_code, 0);
    response.responses.remove(0).partitions.remove(0)
}

pub(crate) fn produce_request(
    name: &str,
    partitions: &[(i32, BytesMut)],
    acks: i16,
) -> ProduceRequest {
    let partition = |(index, records): &(i32, BytesMut)| {
        PartitionProduceData::default()
            .with_index(*index)
            .with_records(Some(Bytes::copy_from_slice(records)))
    };
    let topic = TopicProduceData::default()
        .with_name(topic_name(name))
        .with_partition_data(partitions.iter().map(partition).collect());
    ProduceRequest::default()
        .with_acks(acks)
        .with_timeout_ms(5_000)
        .with_topic_data(vec![topic])
}

/// A fetch that does not wait.
pub(crate) fn fetch_request(name: &str, partitions: &[(i32, i64)]) -> FetchRequest {
    let partition = |(index, offset): &(i32, i64)| {
        FetchPartition::default()
            .with_partition(*index)
            .with_fetch_offset(*offset)
            .with_partition_max_bytes(1 << 20)
    };
    let topic = FetchTopic::default()
        .with_topic(topic_name(name))
        .with_partitions(partitions.iter().map(partition).collect());
    FetchRequest::default()
        .with_max_bytes(50 << 20)
        .with_min_bytes(1)
        .with_max_wait_ms(0)
        .with_topics(vec![topic])
}

/// One batch of records without keys.
pub(crate) fn batch(values: &[&str]) -> BytesMut {
    let mut builder = BatchBuilder::new(Compression::None);
    for value in values {
        builder.push(1_000, None, Some(value.as_bytes()), &[]);
    }
    builder.build()
}

/// The values and offsets in a fetched record set.
pub(crate) fn values(data: &PartitionData) -> Vec<(i64, String)> {
    let bytes = BytesMut::from(&data.records.clone().unwrap_or_default()[..]);
    let batches = millrace_record::split(bytes).expect("whole batches");
    let mut all = Vec::new();
    for batch in batches {
        let batch = batch.freeze();
        for record in records(&batch).expect("a batch") {
            let record = record.expect("a record");
            let value = record.value.unwrap_or_default();
            all.push((record.offset, String::from_utf8_lossy(&value).into_owned()));
        }
    }
    all
}
