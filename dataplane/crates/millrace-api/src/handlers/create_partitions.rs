//! CreatePartitions: topics grow, never shrink.

use std::{collections::HashMap, sync::Arc};

use millrace_log::error::{CreatePartitionsError, TooManyPartitions};
use millrace_model::{TopicName, limits::TOPIC_PARTITIONS_MAX};
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{
        CreatePartitionsRequest, CreatePartitionsResponse, TopicName as WireTopic,
        create_partitions_request::CreatePartitionsTopic,
        create_partitions_response::CreatePartitionsTopicResult,
    },
};

use super::create_topics::check_replicas;
use crate::{
    call::{Answer, Call, Outcome, Reply, first_error},
    code,
    context::Context,
    topic_changes::enqueue,
    topics::{Refused, is_internal},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: CreatePartitionsRequest = decode(&call.request)?;
    let (own, reply) = (Arc::clone(context), call.reply());
    enqueue(context, async move { answer(&own, reply, request).await }).await
}

async fn answer(context: &Context, reply: Reply, request: CreatePartitionsRequest) -> Answer {
    let mut named: HashMap<WireTopic, usize> = HashMap::new();
    for topic in &request.topics {
        *named.entry(topic.name.clone()).or_default() += 1;
    }
    let mut results = Vec::with_capacity(named.len());
    for topic in request.topics {
        let outcome = match named.get(&topic.name) {
            Some(1) => grow(context, &topic, request.validate_only).await,
            Some(2..) => Err(Refused::new(
                ErrorCode::InvalidRequest,
                "Duplicate topic name.",
            )),
            _ => continue,
        };
        named.remove(&topic.name);
        let (error, message) = Refused::parts(&outcome);
        results.push(
            CreatePartitionsTopicResult::default()
                .with_name(topic.name)
                .with_error_code(error)
                .with_error_message(message),
        );
    }
    let error = first_error(results.iter().map(|result| result.error_code));
    reply.with(
        &CreatePartitionsResponse::default().with_results(results),
        error,
    )
}

async fn grow(
    context: &Context,
    asked: &CreatePartitionsTopic,
    validate_only: bool,
) -> Result<(), Refused> {
    let unknown = || Refused::from(ErrorCode::UnknownTopicOrPartition);
    let name = TopicName::new(asked.name.as_str()).map_err(|_| unknown())?;
    let topic = context.logs.topic(&name).ok_or_else(unknown)?;
    if is_internal(name.as_str()) {
        // Which partition keeps a group follows from their number.
        let message = "The number of partitions of an internal topic cannot be changed.";
        return Err(Refused::new(ErrorCode::InvalidRequest, message));
    }
    let current = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
    let total = check_total(current, asked.count)?;
    check_assignments(context, asked, total - current)?;
    if validate_only {
        let valid = context.logs.validate_growth(&name, total);
        let refused =
            |error: TooManyPartitions| Refused::new(ErrorCode::PolicyViolation, error.to_string());
        return valid.map_err(refused);
    }
    match context.logs.create_partitions(&name, total).await {
        Ok(_) => {
            tracing::info!(topic = %name, from = current, to = total, "partitions added");
            Ok(())
        }
        Err(error) => {
            if !matches!(error, CreatePartitionsError::InvalidTotal { .. }) {
                tracing::warn!(topic = %name, %error, "partitions could not be added");
            }
            Err(Refused::new(
                code::of_create_partitions(&error),
                error.to_string(),
            ))
        }
    }
}

fn check_total(current: u32, count: i32) -> Result<u32, Refused> {
    let invalid = |message: String| Err(Refused::new(ErrorCode::InvalidPartitions, message));
    match u32::try_from(count) {
        Ok(count) if count > TOPIC_PARTITIONS_MAX => invalid(format!(
            "A topic has at most {TOPIC_PARTITIONS_MAX} partitions."
        )),
        Ok(count) if count > current => Ok(count),
        Ok(count) if count == current => {
            invalid(format!("Topic already has {current} partition(s)."))
        }
        _ => invalid(format!(
            "The topic currently has {current} partition(s); {count} would not be an increase."
        )),
    }
}

/// Assignments by hand: one for each new partition, each on this broker alone.
fn check_assignments(
    context: &Context,
    asked: &CreatePartitionsTopic,
    added: u32,
) -> Result<(), Refused> {
    let Some(assignments) = &asked.assignments else {
        return Ok(());
    };
    let invalid = |message: String| Err(Refused::new(ErrorCode::InvalidReplicaAssignment, message));
    if u32::try_from(assignments.len()) != Ok(added) {
        let given = assignments.len();
        return invalid(format!(
            "{added} partition(s) are added, {given} are assigned."
        ));
    }
    if !assignments
        .iter()
        .all(|a| check_replicas(&a.broker_ids, context.broker_id()))
    {
        let message = "Every partition must be assigned to this broker, and to no other.";
        return invalid(message.to_owned());
    }
    Ok(())
}
