//! DeleteShareGroupOffsets (KIP-932): a share group without members forgets its place in topics.

use std::sync::Arc;

use millrace_coordinator::{GroupError, ShareStateResults};
use millrace_model::TopicId;
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse, TopicName as WireTopic,
        delete_share_group_offsets_response::DeleteShareGroupOffsetsResponseTopic as DeletedTopic,
    },
};
use uuid::Uuid;

use crate::{
    authorization::Changed,
    call::{Answer, Call, Outcome, Reply, Taken, code_of, first_error},
    code,
    context::{Context, text},
    topics::find_allowed,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DeleteShareGroupOffsetsRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let group = request.group_id;
    if let Err(code) = rights.group(Operation::Delete, &group) {
        return Ok(Taken::Now(refuse(reply, code, None)));
    }
    let topics = request.topics.into_iter().map(|topic| {
        let (right, name) = ((&rights, Operation::Read), topic.topic_name);
        let found = find_allowed(&context.logs, right, false, &name, Uuid::nil());
        (name, found.map(|topic| topic.id))
    });
    let topics: Vec<_> = topics.collect();
    let found = topics.iter().filter_map(|(_, found)| found.ok());
    let deleting = { &context.groups }.delete_share_offsets(&group, &found.collect());
    Taken::later(async move {
        let deleted = deleting.await;
        let code = deleted.as_ref().map(|_| NONE);
        let code = code.unwrap_or_else(|error| code::of_group(error).code());
        rights.audit(Operation::Delete, Changed::GroupOffsets, &group, code);
        match deleted {
            Ok(results) => tell(reply, topics, &results),
            Err(error) => refuse(reply, code::of_group(&error), Some(&error)),
        }
    })
}

fn tell(
    reply: Reply,
    topics: Vec<(WireTopic, Result<TopicId, ErrorCode>)>,
    results: &ShareStateResults,
) -> Answer {
    let topic = |(name, found): (WireTopic, Result<TopicId, ErrorCode>)| {
        let deleted = found.and_then(|id| deleted(id, results));
        let nothing = "There is no offset information to delete.";
        let message = (found.is_ok() && deleted == Err(ErrorCode::UnknownTopicOrPartition))
            .then(|| text(nothing));
        DeletedTopic::default()
            .with_topic_name(name)
            .with_topic_id(found.map_or(Uuid::nil(), |id| id.0))
            .with_error_code(code_of(&deleted))
            .with_error_message(message)
    };
    let responses: Vec<_> = topics.into_iter().map(topic).collect();
    let error = first_error(responses.iter().map(|topic| topic.error_code));
    let response = DeleteShareGroupOffsetsResponse::default().with_responses(responses);
    reply.with(&response, error)
}

/// What became of a topic: the first error of its partitions. One without partitions in the results had nothing to delete.
fn deleted(id: TopicId, results: &ShareStateResults) -> Result<(), ErrorCode> {
    let mut of_topic = results.range((id, 0)..=(id, u32::MAX)).peekable();
    if of_topic.peek().is_none() {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    of_topic
        .try_for_each(|(_, result)| *result)
        .map_err(code::of_share_state)
}

fn refuse(reply: Reply, code: ErrorCode, error: Option<&GroupError>) -> Answer {
    let code = code.code();
    let response = DeleteShareGroupOffsetsResponse::default()
        .with_error_code(code)
        .with_error_message(error.map(|error| text(error.to_string())));
    reply.with(&response, code)
}
