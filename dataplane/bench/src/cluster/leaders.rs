//! Who leads which partition, and planned moves.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use millrace_wire::messages::{
    AlterPartitionReassignmentsRequest, BrokerId, MetadataRequest,
    alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic},
    metadata_request::MetadataRequestTopic,
};

use crate::producer::{ClientError, Connection, topic_name};

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(10);
const CLIENT_ID: &str = "drill-admin";

/// By partition: the node that leads it; none while nobody does.
pub type Leaders = BTreeMap<i32, Option<u32>>;

/// Who leads, as the broker at `address` knows it.
///
/// # Errors
/// It does not answer, or does not know the topic.
pub fn leaders_by(address: SocketAddr, topic: &str) -> Result<Leaders, String> {
    let failed = |error: ClientError| format!("who leads {topic}: {error}");
    let mut connection = Connection::connect(address, CLIENT_ID, PATIENCE).map_err(failed)?;
    let asked = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
    let request = MetadataRequest::default()
        .with_topics(Some(vec![asked]))
        .with_allow_auto_topic_creation(false);
    let answer = connection.call(&request).map_err(failed)?;
    let topic = answer.topics.first().map(|topic| &topic.partitions);
    let partitions = topic.map_or(&[][..], Vec::as_slice);
    Ok(partitions
        .iter()
        .map(|one| (one.partition_index, u32::try_from(one.leader_id.0).ok()))
        .collect())
}

/// Asks the broker at `address` to move partitions to other nodes; they have one replica. The moves go on when this returns.
/// `false` if it does not serve AlterPartitionReassignments.
///
/// # Errors
/// It does not answer, or refuses one of them.
pub fn reassign(
    address: SocketAddr,
    topic: &str,
    targets: &BTreeMap<i32, u32>,
) -> Result<bool, String> {
    let failed = |error: ClientError| format!("moving partitions: {error}");
    let partition = |(&partition, &node): (&i32, &u32)| {
        let replica = BrokerId(i32::try_from(node).unwrap_or(i32::MAX));
        ReassignablePartition::default()
            .with_partition_index(partition)
            .with_replicas(Some(vec![replica]))
    };
    let topic = ReassignableTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(targets.iter().map(partition).collect());
    let request = AlterPartitionReassignmentsRequest::default()
        .with_timeout_ms(i32::try_from(PATIENCE.as_millis()).unwrap_or(i32::MAX))
        .with_topics(vec![topic]);
    let mut connection = Connection::connect(address, CLIENT_ID, PATIENCE).map_err(failed)?;
    let answer = match connection.call(&request) {
        Err(ClientError::Version(_)) => return Ok(false),
        answer => answer.map_err(failed)?,
    };
    let of_partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    let refused = of_partitions
        .filter(|one| one.error_code != 0)
        .map(|one| format!("partition {}: code {}", one.partition_index, one.error_code));
    let refused: Vec<String> = refused.collect();
    match (answer.error_code, refused.is_empty()) {
        (0, true) => Ok(true),
        (0, false) => Err(format!("moving partitions: {}", refused.join(", "))),
        (code, _) => Err(format!("moving partitions: code {code}")),
    }
}
