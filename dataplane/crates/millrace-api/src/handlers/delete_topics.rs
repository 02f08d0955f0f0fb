//! DeleteTopics, by name or by id.

use std::{collections::BTreeSet, future::ready, sync::Arc};

use millrace_log::Topic;
use millrace_model::{TopicId, TopicName};
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{
        DeleteTopicsRequest, DeleteTopicsResponse, TopicName as WireTopic,
        delete_topics_request::DeleteTopicState, delete_topics_response::DeletableTopicResult,
    },
};

use crate::{
    authorization::{Changed, Rights},
    call::{Answer, Call, Outcome, Reply, first_error},
    code,
    context::{Context, text},
    quota::Mutations,
    topic_changes::enqueue,
    topics::{Refused, is_internal},
};

/// The first version in which topics may be told by their ids (KIP-516).
const FIRST_WITH_IDS: i16 = 6;

/// The first version that is refused what exceeds the client's quota (KIP-599).
const FIRST_STRICT: i16 = 5;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DeleteTopicsRequest = decode(&call.request)?;
    let (own, reply) = (Arc::clone(context), call.reply());
    let rights = context.rights(&call);
    let mutations = context.quotas.mutations(&call, FIRST_STRICT);
    let change = async move { answer((&own, &rights), reply, request, mutations).await };
    enqueue(context, change, ready).await
}

async fn answer(
    (context, rights): (&Context, &Rights),
    reply: Reply,
    request: DeleteTopicsRequest,
    mut mutations: Mutations,
) -> Answer {
    let asked: Vec<DeleteTopicState> = if reply.version >= FIRST_WITH_IDS {
        request.topics
    } else {
        let state = |name: WireTopic| DeleteTopicState::default().with_name(Some(name));
        request.topic_names.into_iter().map(state).collect()
    };
    let mut responses = Vec::with_capacity(asked.len());
    let mut gone = BTreeSet::new();
    for topic in asked {
        let found = find((context, rights), &topic);
        let (name, id) = match &found {
            Ok(topic) => (Some(WireTopic(text(topic.name.as_str()))), topic.id.0),
            Err(_) => (topic.name, topic.topic_id),
        };
        let deleted = match found {
            Ok(topic) => match rights.topic(Operation::Delete, topic.name.as_str()) {
                Ok(()) => {
                    let deleted = delete(context, &topic, &mut mutations).await;
                    let (error, _) = Refused::parts(&deleted);
                    let name = topic.name.as_str();
                    rights.audit(Operation::Delete, Changed::Topic, name, error);
                    deleted.map(|()| gone.insert(topic.name.clone()))
                }
                Err(code) => Err(code.into()),
            },
            Err(refused) => Err(refused),
        };
        let (error, message) = Refused::parts(&deleted);
        responses.push(
            DeletableTopicResult::default()
                .with_name(name)
                .with_topic_id(id)
                .with_error_code(error)
                .with_error_message(message),
        );
    }
    if !gone.is_empty() {
        context.groups.topics_deleted(&gone).await;
    }
    let error = first_error(responses.iter().map(|response| response.error_code));
    let response = DeleteTopicsResponse::default()
        .with_responses(responses)
        .with_throttle_time_ms(mutations.throttle_time_ms(context.now()));
    reply.with(&response, error)
}

/// The topic, for a client that may describe it: to others, a name tells nothing, and an id no name.
fn find(
    (context, rights): (&Context, &Rights),
    asked: &DeleteTopicState,
) -> Result<Arc<Topic>, Refused> {
    match &asked.name {
        Some(_) if !asked.topic_id.is_nil() => {
            let message = "Topic name and topic id must not both be given.";
            Err(Refused::new(ErrorCode::InvalidRequest, message))
        }
        None if asked.topic_id.is_nil() => {
            let message = "Neither topic name nor id were specified.";
            Err(Refused::new(ErrorCode::InvalidRequest, message))
        }
        Some(name) => {
            rights.topic(Operation::Describe, name)?;
            let topic = TopicName::new(name.as_str()).ok();
            let topic = topic.and_then(|name| context.logs.topic(&name));
            topic.ok_or_else(|| ErrorCode::UnknownTopicOrPartition.into())
        }
        None => {
            let topic = context.logs.topic_by_id(TopicId(asked.topic_id));
            let topic = topic.ok_or(ErrorCode::UnknownTopicId)?;
            rights.topic(Operation::Describe, topic.name.as_str())?;
            Ok(topic)
        }
    }
}

async fn delete(
    context: &Context,
    topic: &Topic,
    mutations: &mut Mutations,
) -> Result<(), Refused> {
    if is_internal(topic.name.as_str()) {
        let message = "An internal topic cannot be deleted.";
        return Err(Refused::new(ErrorCode::InvalidRequest, message));
    }
    if context.groups.is_loading() {
        let message = "Committed offsets are still being loaded. Try again.";
        return Err(Refused::new(ErrorCode::CoordinatorLoadInProgress, message));
    }
    mutations.spend(topic.partitions.len(), context.now())?;
    context
        .logs
        .delete_topic(&topic.name)
        .await
        .map_err(|error| {
            tracing::warn!(topic = %topic.name, %error, "could not be deleted");
            Refused::new(code::of_delete_topic(&error), error.to_string())
        })?;
    tracing::info!(topic = %topic.name, id = %topic.id, "deleted");
    context.metrics.forget_topic(&topic.name);
    // Fetches that wait for its data are told now.
    for log in topic.logs() {
        context.purgatory.check(log.id());
    }
    Ok(())
}
