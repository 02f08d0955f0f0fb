//! DescribeQuorum (KIP-595, KIP-836): who may change the metadata, in Kafka's words.
//!
//! There is no Raft quorum: the metadata is in a database, which every broker that is there reads and changes. So each
//! of them is a voter, and the one that is asked is the leader, as in Metadata, where it is the controller. The offset of
//! all is the revision of the metadata that this broker knows; how far the others are, it is not told. How many voters may
//! fail does not follow from their number: one is enough.

use std::sync::Arc;

use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        DescribeQuorumRequest, DescribeQuorumResponse,
        describe_quorum_response::{Listener, Node, PartitionData, ReplicaState, TopicData},
    },
};

use crate::{
    call::{Call, Outcome},
    context::{Context, text},
    members::Member,
};

/// The topic that Kafka keeps its metadata in, with one partition. Nobody can read it.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// The first version with texts of errors, and the addresses of voters (KIP-853).
const FIRST_WITH_NODES: i16 = 2;

/// The leadership never changes: whoever is asked has it.
const LEADER_EPOCH: i32 = 0;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DescribeQuorumRequest = decode(&call.request)?;
    let version = call.version();
    if let Err(code) = context.rights(&call).cluster(Operation::Describe) {
        let response = DescribeQuorumResponse::default().with_error_code(code.code());
        let response = match version {
            FIRST_WITH_NODES.. => {
                response.with_error_message(Some(text("Cluster authorization failed.")))
            }
            _ => response,
        };
        return call.reply().now(&response, code.code());
    }
    if !is_of_metadata(&request) {
        return refuse(&call, &request);
    }
    let members = context.members(&call.peer);
    let offset = i64::try_from(context.logs.metadata_revision()).unwrap_or(i64::MAX);
    let voter = |member: &Member| {
        ReplicaState::default()
            .with_replica_id(member.id)
            .with_log_end_offset(offset)
    };
    let partition = PartitionData::default()
        .with_leader_id(context.broker_id())
        .with_leader_epoch(LEADER_EPOCH)
        .with_high_watermark(offset)
        .with_current_voters(members.iter().map(voter).collect());
    let topic = TopicData::default()
        .with_topic_name(
            request
                .topics
                .into_iter()
                .next()
                .unwrap_or_default()
                .topic_name,
        )
        .with_partitions(vec![partition]);
    let response = DescribeQuorumResponse::default().with_topics(vec![topic]);
    let response = match version {
        FIRST_WITH_NODES.. => {
            let node = |member| node(&call.peer.listener, member);
            response.with_nodes(members.into_iter().map(node).collect())
        }
        _ => response,
    };
    call.reply().now(&response, NONE)
}

/// Whether a request asks for the partition of the metadata, and for nothing else.
fn is_of_metadata(request: &DescribeQuorumRequest) -> bool {
    let [topic] = &*request.topics else {
        return false;
    };
    let indexes: Vec<i32> = { topic.partitions.iter() }
        .map(|partition| partition.partition_index)
        .collect();
    topic.topic_name.as_str() == METADATA_TOPIC && indexes == [0]
}

fn refuse(call: &Call, request: &DescribeQuorumRequest) -> Outcome {
    let code = ErrorCode::UnknownTopicOrPartition.code();
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            PartitionData::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code)
        });
        TopicData::default()
            .with_topic_name(topic.topic_name.clone())
            .with_partitions(partitions.collect())
    });
    let response = DescribeQuorumResponse::default().with_topics(topics.collect());
    call.reply().now(&response, code)
}

fn node(listener: &str, member: Member) -> Node {
    let listener = Listener::default()
        .with_name(text(listener))
        .with_host(member.host)
        .with_port(u16::try_from(member.port).unwrap_or_default());
    Node::default()
        .with_node_id(member.id)
        .with_listeners(vec![listener])
}
