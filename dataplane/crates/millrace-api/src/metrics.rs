//! Metrics of requests and topics. Handles are looked up once and kept.

use std::{collections::HashMap, time::Duration};

use metrics::{Counter, Histogram};
use millrace_model::TopicName;
use millrace_wire::{ApiKey, SUPPORTED, error_code::ErrorCode};
use parking_lot::RwLock;

use crate::zones::Zone;

/// All metrics of this crate.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// By API key; as many as are served.
    apis: Vec<(ApiKey, ApiMetrics)>,
    /// Bytes that clients have fetched; what they produce, the log counts.
    bytes_out: RwLock<HashMap<TopicName, Counter>>,
    /// The same by the way that they go: within a zone, to another one, or nobody knows.
    zone_bytes_out: [(Zone, Counter); 3],
    malformed: Counter,
}

#[derive(Debug)]
struct ApiMetrics {
    name: &'static str,
    whole: Histogram,
    service: Histogram,
    /// By error code. Only codes that Kafka defines come in here, so there are at most about 130.
    outcomes: RwLock<HashMap<i16, Counter>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let of = |key: ApiKey| {
            let name: &'static str = name_of(key);
            let metrics = ApiMetrics {
                name,
                whole: metrics::histogram!("millrace_request_seconds", "api" => name),
                service: metrics::histogram!("millrace_request_service_seconds", "api" => name),
                outcomes: RwLock::default(),
            };
            (key, metrics)
        };
        Self {
            apis: SUPPORTED
                .iter()
                .map(|support| of(support.api_key))
                .collect(),
            bytes_out: RwLock::default(),
            zone_bytes_out: [Zone::Same, Zone::Other, Zone::Unknown].map(|zone| {
                let counter =
                    metrics::counter!("millrace_zone_bytes_out_total", "zone" => zone.name());
                (zone, counter)
            }),
            malformed: metrics::counter!(
                "millrace_requests_total", "api" => "unknown", "error" => "INVALID_REQUEST"
            ),
        }
    }

    /// A request is answered: how long it took, and how much of that it waited on purpose.
    pub(crate) fn answered(&self, key: ApiKey, error: i16, took: Duration, waited: Duration) {
        let Some((_, api)) = self.apis.iter().find(|(api, _)| *api == key) else {
            return;
        };
        api.whole.record(took);
        api.service.record(took.saturating_sub(waited));
        api.count(error);
    }

    /// A frame was no request.
    pub(crate) fn malformed(&self) {
        self.malformed.increment(1);
    }

    /// Records of a topic are on their way to a client.
    pub(crate) fn fetched(&self, topic: &TopicName, zone: Zone, bytes: usize) {
        let bytes = bytes as u64;
        if let Some((_, counter)) = self.zone_bytes_out.iter().find(|(of, _)| *of == zone) {
            counter.increment(bytes);
        }
        if let Some(counter) = self.bytes_out.read().get(topic) {
            return counter.increment(bytes);
        }
        let label = topic.as_str().to_owned();
        let counter = metrics::counter!("millrace_topic_bytes_out_total", "topic" => label);
        counter.increment(bytes);
        self.bytes_out.write().insert(topic.clone(), counter);
    }

    /// A topic is gone.
    pub(crate) fn forget_topic(&self, topic: &TopicName) {
        self.bytes_out.write().remove(topic);
    }
}

impl ApiMetrics {
    fn count(&self, error: i16) {
        if let Some(counter) = self.outcomes.read().get(&error) {
            return counter.increment(1);
        }
        let counter = metrics::counter!(
            "millrace_requests_total", "api" => self.name, "error" => error_name(error)
        );
        counter.increment(1);
        self.outcomes.write().insert(error, counter);
    }
}

/// The label of an API.
fn name_of(key: ApiKey) -> &'static str {
    match key {
        ApiKey::Produce => "Produce",
        ApiKey::Fetch => "Fetch",
        ApiKey::ListOffsets => "ListOffsets",
        ApiKey::Metadata => "Metadata",
        ApiKey::OffsetCommit => "OffsetCommit",
        ApiKey::OffsetFetch => "OffsetFetch",
        ApiKey::FindCoordinator => "FindCoordinator",
        ApiKey::JoinGroup => "JoinGroup",
        ApiKey::Heartbeat => "Heartbeat",
        ApiKey::LeaveGroup => "LeaveGroup",
        ApiKey::SyncGroup => "SyncGroup",
        ApiKey::DescribeGroups => "DescribeGroups",
        ApiKey::ListGroups => "ListGroups",
        ApiKey::SaslHandshake => "SaslHandshake",
        ApiKey::ApiVersions => "ApiVersions",
        ApiKey::CreateTopics => "CreateTopics",
        ApiKey::DeleteTopics => "DeleteTopics",
        ApiKey::DeleteRecords => "DeleteRecords",
        ApiKey::InitProducerId => "InitProducerId",
        ApiKey::OffsetForLeaderEpoch => "OffsetForLeaderEpoch",
        ApiKey::DescribeAcls => "DescribeAcls",
        ApiKey::CreateAcls => "CreateAcls",
        ApiKey::DeleteAcls => "DeleteAcls",
        ApiKey::DescribeConfigs => "DescribeConfigs",
        ApiKey::AlterConfigs => "AlterConfigs",
        ApiKey::DescribeLogDirs => "DescribeLogDirs",
        ApiKey::SaslAuthenticate => "SaslAuthenticate",
        ApiKey::CreatePartitions => "CreatePartitions",
        ApiKey::CreateDelegationToken => "CreateDelegationToken",
        ApiKey::RenewDelegationToken => "RenewDelegationToken",
        ApiKey::ExpireDelegationToken => "ExpireDelegationToken",
        ApiKey::DescribeDelegationToken => "DescribeDelegationToken",
        ApiKey::DeleteGroups => "DeleteGroups",
        ApiKey::OffsetDelete => "OffsetDelete",
        ApiKey::AddPartitionsToTxn => "AddPartitionsToTxn",
        ApiKey::AddOffsetsToTxn => "AddOffsetsToTxn",
        ApiKey::EndTxn => "EndTxn",
        ApiKey::WriteTxnMarkers => "WriteTxnMarkers",
        ApiKey::TxnOffsetCommit => "TxnOffsetCommit",
        ApiKey::DescribeTransactions => "DescribeTransactions",
        ApiKey::ListTransactions => "ListTransactions",
        ApiKey::IncrementalAlterConfigs => "IncrementalAlterConfigs",
        ApiKey::ElectLeaders => "ElectLeaders",
        ApiKey::AlterPartitionReassignments => "AlterPartitionReassignments",
        ApiKey::ListPartitionReassignments => "ListPartitionReassignments",
        ApiKey::DescribeClientQuotas => "DescribeClientQuotas",
        ApiKey::AlterClientQuotas => "AlterClientQuotas",
        ApiKey::DescribeUserScramCredentials => "DescribeUserScramCredentials",
        ApiKey::AlterUserScramCredentials => "AlterUserScramCredentials",
        ApiKey::DescribeCluster => "DescribeCluster",
        ApiKey::UpdateFeatures => "UpdateFeatures",
        ApiKey::DescribeProducers => "DescribeProducers",
        ApiKey::DescribeQuorum => "DescribeQuorum",
        ApiKey::DescribeTopicPartitions => "DescribeTopicPartitions",
        ApiKey::AlterReplicaLogDirs => "AlterReplicaLogDirs",
        other => newer_name_of(other),
    }
}

/// The label of an API of share groups, client metrics, or configurations.
fn newer_name_of(key: ApiKey) -> &'static str {
    match key {
        ApiKey::GetTelemetrySubscriptions => "GetTelemetrySubscriptions",
        ApiKey::PushTelemetry => "PushTelemetry",
        ApiKey::ListConfigResources => "ListConfigResources",
        ApiKey::ShareFetch => "ShareFetch",
        ApiKey::ShareAcknowledge => "ShareAcknowledge",
        ApiKey::ConsumerGroupHeartbeat => "ConsumerGroupHeartbeat",
        ApiKey::ConsumerGroupDescribe => "ConsumerGroupDescribe",
        ApiKey::InitializeShareGroupState => "InitializeShareGroupState",
        ApiKey::ReadShareGroupState => "ReadShareGroupState",
        ApiKey::WriteShareGroupState => "WriteShareGroupState",
        ApiKey::DeleteShareGroupState => "DeleteShareGroupState",
        ApiKey::ReadShareGroupStateSummary => "ReadShareGroupStateSummary",
        ApiKey::ShareGroupHeartbeat => "ShareGroupHeartbeat",
        ApiKey::ShareGroupDescribe => "ShareGroupDescribe",
        ApiKey::DescribeShareGroupOffsets => "DescribeShareGroupOffsets",
        ApiKey::AlterShareGroupOffsets => "AlterShareGroupOffsets",
        ApiKey::DeleteShareGroupOffsets => "DeleteShareGroupOffsets",
        _ => "other",
    }
}

/// A code's name in Kafka; `NONE` where it is no error.
pub(crate) fn error_name(error: i16) -> String {
    match ErrorCode::try_from_code(error) {
        None => "NONE".to_owned(),
        Some(code) => screaming(&format!("{code:?}")),
    }
}

/// `UnknownTopicId` → `UNKNOWN_TOPIC_ID`, the way Kafka writes its codes.
pub(crate) fn screaming(camel: &str) -> String {
    let mut name = String::with_capacity(camel.len() + 8);
    for (at, letter) in camel.chars().enumerate() {
        if at > 0 && letter.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use millrace_wire::error_code::NONE;

    use super::*;

    #[test]
    fn codes_are_written_as_kafka_writes_them() {
        assert_eq!(
            screaming("UnknownTopicOrPartition"),
            "UNKNOWN_TOPIC_OR_PARTITION"
        );
        assert_eq!(ErrorCode::try_from_code(NONE), None);
    }

    #[test]
    fn every_api_has_a_label() {
        for support in SUPPORTED {
            assert_eq!(name_of(support.api_key), format!("{:?}", support.api_key));
        }
    }
}
