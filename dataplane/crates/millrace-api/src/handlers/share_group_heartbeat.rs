//! ShareGroupHeartbeat (KIP-932): a member joins, goes on, or leaves.

use std::{collections::BTreeSet, sync::Arc};

use millrace_coordinator::{
    GroupError,
    messages::{ConsumerHeartbeatAnswer, JOIN_EPOCH, LEAVE_EPOCH, ShareHeartbeat},
};
use millrace_model::TopicId;
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse,
        share_group_heartbeat_response::{Assignment, TopicPartitions as Assigned},
    },
};

use crate::{
    authorization::Rights,
    call::{Answer, Call, Outcome, Reply, Taken},
    code,
    context::{Context, text},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ShareGroupHeartbeatRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    if let Err(code) = authorize(&rights, &request) {
        return Ok(Taken::Now(refuse(reply, code, None)));
    }
    if let Err(error) = validate(&request) {
        return Ok(Taken::Now(refuse_group(reply, &error)));
    }
    let hearing = context.groups.share_heartbeat(own(&call, request));
    Taken::later(async move {
        match hearing.await {
            Ok(heard) => tell(reply, heard),
            Err(error) => refuse_group(reply, &error),
        }
    })
}

fn authorize(rights: &Rights, request: &ShareGroupHeartbeatRequest) -> Result<(), ErrorCode> {
    rights.group(Operation::Read, &request.group_id)?;
    let mut names = request.subscribed_topic_names.iter().flatten();
    names.try_for_each(|name| rights.topic(Operation::Describe, name))
}

/// Checks what Kafka checks before it looks for the group.
fn validate(request: &ShareGroupHeartbeatRequest) -> Result<(), GroupError> {
    let invalid = |reason| Err(GroupError::InvalidRequest(reason));
    let names = request.subscribed_topic_names.as_ref();
    if request.group_id.is_empty() {
        return invalid("GroupId can't be empty.");
    }
    if request.member_id.is_empty() {
        return invalid("MemberId can't be empty.");
    }
    if request.rack_id.as_ref().is_some_and(|rack| rack.is_empty()) {
        return invalid("RackId can't be empty.");
    }
    match request.member_epoch {
        JOIN_EPOCH if names.is_none_or(Vec::is_empty) => {
            invalid("SubscribedTopicNames must be set in first request.")
        }
        LEAVE_EPOCH.. => Ok(()),
        _ => invalid("MemberEpoch is invalid."),
    }
}

/// The request in the coordinator's terms.
fn own(call: &Call, request: ShareGroupHeartbeatRequest) -> ShareHeartbeat {
    let names = request.subscribed_topic_names;
    ShareHeartbeat {
        group_id: request.group_id.to_string(),
        member_id: request.member_id.to_string(),
        member_epoch: request.member_epoch,
        rack_id: request.rack_id.map(|id| id.to_string()),
        names: names.map(|names| names.iter().map(|name| name.to_string()).collect()),
        client_id: call.client_id(),
        client_host: call.client_host(),
    }
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
    let response = ShareGroupHeartbeatResponse::default()
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
    let response = ShareGroupHeartbeatResponse::default()
        .with_error_code(code)
        .with_error_message(message.map(text));
    reply.with(&response, code)
}
