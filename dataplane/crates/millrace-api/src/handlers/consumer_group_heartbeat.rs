//! ConsumerGroupHeartbeat (KIP-848): a member joins, goes on, or leaves.

use std::{collections::BTreeSet, sync::Arc};

use millrace_coordinator::{
    GroupError,
    messages::{
        ConsumerHeartbeat, ConsumerHeartbeatAnswer, JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH,
        TopicPartitions,
    },
};
use millrace_model::TopicId;
use millrace_security::acl::{Operation, ResourceType};
use millrace_wire::{
    StrBytes, decode,
    error_code::{ErrorCode, NONE},
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
        consumer_group_heartbeat_request::TopicPartitions as Owned,
        consumer_group_heartbeat_response::{Assignment, TopicPartitions as Assigned},
    },
};

use crate::{
    authorization::Rights,
    call::{Answer, Call, Outcome, Reply, Taken},
    code,
    context::{Context, text},
};

/// The first version in which the client makes its member id itself (KIP-1082).
const FIRST_WITH_CLIENT_ID: i16 = 1;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ConsumerGroupHeartbeatRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    if let Err(code) = authorize(&rights, &request) {
        return Ok(Taken::Now(refuse(reply, code, None)));
    }
    if let Err(error) = validate(&request, call.version()) {
        return Ok(Taken::Now(refuse_group(reply, &error)));
    }
    let may_describe =
        |topic: &str| rights.allows_quietly(Operation::Describe, ResourceType::Topic, topic);
    let heartbeat = own(&call, request);
    let hearing = context.groups.consumer_heartbeat(heartbeat, &may_describe);
    Taken::later(async move {
        match hearing.await {
            Ok(heard) => tell(reply, heard),
            Err(error) => refuse_group(reply, &error),
        }
    })
}

fn authorize(rights: &Rights, request: &ConsumerGroupHeartbeatRequest) -> Result<(), ErrorCode> {
    rights.group(Operation::Read, &request.group_id)?;
    let mut names = request.subscribed_topic_names.iter().flatten();
    names.try_for_each(|name| rights.topic(Operation::Describe, name))
}

/// Checks what Kafka checks before it looks for the group.
fn validate(request: &ConsumerGroupHeartbeatRequest, version: i16) -> Result<(), GroupError> {
    let is_empty = |text: &Option<StrBytes>| text.as_ref().is_some_and(|text| text.is_empty());
    let invalid = |reason| Err(GroupError::InvalidRequest(reason));
    if request.group_id.is_empty() {
        return invalid("GroupId can't be empty.");
    }
    if is_empty(&request.instance_id) {
        return invalid("InstanceId can't be empty.");
    }
    if is_empty(&request.rack_id) {
        return invalid("RackId can't be empty.");
    }
    let needs_id = version >= FIRST_WITH_CLIENT_ID || request.member_epoch != JOIN_EPOCH;
    if needs_id && request.member_id.is_empty() {
        return invalid("MemberId can't be empty.");
    }
    match request.member_epoch {
        JOIN_EPOCH => validate_join(request),
        1.. | LEAVE_EPOCH => Ok(()),
        LEAVE_STATIC_EPOCH if request.instance_id.is_none() => invalid("InstanceId can't be null."),
        LEAVE_STATIC_EPOCH => Ok(()),
        _ => invalid("MemberEpoch is invalid."),
    }
}

fn validate_join(request: &ConsumerGroupHeartbeatRequest) -> Result<(), GroupError> {
    let invalid = |reason| Err(GroupError::InvalidRequest(reason));
    if request.rebalance_timeout_ms == -1 {
        return invalid("RebalanceTimeoutMs must be provided in first request.");
    }
    if request
        .topic_partitions
        .as_ref()
        .is_none_or(|owned| !owned.is_empty())
    {
        return invalid("TopicPartitions must be empty when (re-)joining.");
    }
    if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
        let reason = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when \
                      (re-)joining.";
        return invalid(reason);
    }
    Ok(())
}

/// The request in the coordinator's terms.
fn own(call: &Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerHeartbeat {
    let names = request.subscribed_topic_names;
    ConsumerHeartbeat {
        group_id: request.group_id.to_string(),
        member_id: request.member_id.to_string(),
        member_epoch: request.member_epoch,
        instance_id: request.instance_id.map(|id| id.to_string()),
        rack_id: request.rack_id.map(|id| id.to_string()),
        rebalance_timeout_ms: Some(request.rebalance_timeout_ms).filter(|&ms| ms != -1),
        names: names.map(|names| names.iter().map(|name| name.to_string()).collect()),
        pattern: request.subscribed_topic_regex.map(|text| text.to_string()),
        assignor: request.server_assignor.map(|name| name.to_string()),
        owned: request.topic_partitions.map(owned),
        client_id: call.client_id(),
        client_host: call.client_host(),
    }
}

/// Numbers that no partition has are left out: a member cannot have them.
fn owned(topics: Vec<Owned>) -> TopicPartitions {
    let mut owned = TopicPartitions::new();
    for topic in topics {
        let numbers = topic.partitions.into_iter();
        let numbers: BTreeSet<u32> = numbers.flat_map(u32::try_from).collect();
        if !numbers.is_empty() {
            let topic = TopicId(topic.topic_id);
            owned.entry(topic).or_default().extend(numbers);
        }
    }
    owned
}

fn tell(reply: Reply, heard: ConsumerHeartbeatAnswer) -> Answer {
    let topic = |(topic, numbers): (TopicId, BTreeSet<u32>)| {
        let numbers = numbers.into_iter().flat_map(i32::try_from).collect();
        Assigned::default()
            .with_topic_id(topic.0)
            .with_partitions(numbers)
    };
    let assignment = heard.assignment.map(|partitions| {
        let topics = partitions.into_iter().map(topic).collect();
        Assignment::default().with_topic_partitions(topics)
    });
    let interval = i32::try_from(heard.heartbeat_interval.as_millis()).unwrap_or(i32::MAX);
    let response = ConsumerGroupHeartbeatResponse::default()
        .with_member_id(Some(text(heard.member_id)))
        .with_member_epoch(heard.member_epoch)
        .with_heartbeat_interval_ms(interval)
        .with_assignment(assignment);
    reply.with(&response, NONE)
}

fn refuse_group(reply: Reply, error: &GroupError) -> Answer {
    refuse(reply, code::of_group(error), Some(error.to_string()))
}

fn refuse(reply: Reply, code: ErrorCode, message: Option<String>) -> Answer {
    let code = code.code();
    let response = ConsumerGroupHeartbeatResponse::default()
        .with_error_code(code)
        .with_error_message(message.map(text));
    reply.with(&response, code)
}
