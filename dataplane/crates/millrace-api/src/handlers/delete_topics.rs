//! DeleteTopics, by name or by id.

use std::{
    collections::{BTreeSet, HashMap},
    future::ready,
    sync::Arc,
};

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
use uuid::Uuid;

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
    for (topic, found) in find_all((context, rights), asked) {
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
        let (error, message) = Refused::worded_parts(&deleted);
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
        context.share_coordinator.topics_deleted(&gone).await;
    }
    let error = first_error(responses.iter().map(|response| response.error_code));
    let response = DeleteTopicsResponse::default()
        .with_responses(responses)
        .with_throttle_time_ms(mutations.throttle_time_ms(context.now()));
    reply.with(&response, error)
}

/// A topic as it was named, and what was found.
type Found = (DeleteTopicState, Result<Arc<Topic>, Refused>);

/// The topics, each once. What is named twice is not deleted: nobody knows whether that was meant.
fn find_all((context, rights): (&Context, &Rights), asked: Vec<DeleteTopicState>) -> Vec<Found> {
    let twice = |message: &str| Err(Refused::new(ErrorCode::InvalidRequest, message));
    let mut places: HashMap<(Option<WireTopic>, Uuid), usize> = HashMap::new();
    let mut all: Vec<Found> = Vec::with_capacity(asked.len());
    for topic in asked {
        let next = all.len();
        let place = *places
            .entry((topic.name.clone(), topic.topic_id))
            .or_insert(next);
        if let Some((topic, found)) = all.get_mut(place) {
            *found = match topic.topic_id.is_nil() {
                true => twice("Duplicate topic name."),
                false => twice("Duplicate topic id."),
            };
            continue;
        }
        let found = find((context, rights), &topic);
        all.push((topic, found));
    }
    let mut times: HashMap<TopicId, usize> = HashMap::new();
    for topic in all.iter().filter_map(|(_, found)| found.as_ref().ok()) {
        *times.entry(topic.id).or_default() += 1;
    }
    for (_, found) in &mut all {
        if matches!(found, Ok(topic) if times.get(&topic.id) > Some(&1)) {
            *found = twice("The topic is named both by its name and by its id.");
        }
    }
    all
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
