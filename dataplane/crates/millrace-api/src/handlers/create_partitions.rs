//! CreatePartitions: topics grow, never shrink.

use std::{collections::HashMap, future::ready, sync::Arc};

use futures_util::future::join_all;
use millrace_log::error::{CreatePartitionsError, TooManyPartitions};
use millrace_model::{NodeId, TopicName, limits::TOPIC_PARTITIONS_MAX};
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{
        CreatePartitionsRequest, CreatePartitionsResponse, TopicName as WireTopic,
        create_partitions_request::CreatePartitionsTopic,
        create_partitions_response::CreatePartitionsTopicResult,
    },
    service::BoxFuture,
};

use super::create_topics::{check_replicas, place};
use crate::{
    authorization::{Changed, Rights},
    call::{Answer, Call, Outcome, Reply, first_error},
    code,
    context::Context,
    quota::Mutations,
    topic_changes::enqueue,
    topics::{Refused, is_internal},
};

/// The first version that is refused what exceeds the client's quota (KIP-599).
const FIRST_STRICT: i16 = 3;

/// A topic that has grown in the metadata; resolves once all of it is served.
type Growing = BoxFuture<'static, Result<(), Refused>>;

/// The topics of a request, and whether it names each once.
type Begun = Vec<(WireTopic, bool, Result<Growing, Refused>)>;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: CreatePartitionsRequest = decode(&call.request)?;
    let (own, reply) = (Arc::clone(context), call.reply());
    let rights = context.rights(&call);
    let is_change = !request.validate_only;
    let asked = rights.clone();
    let mut mutations = context.quotas.mutations(&call, FIRST_STRICT);
    let change = async move {
        let begun = begin((&own, &asked), request, &mut mutations).await;
        (begun, mutations)
    };
    let own = Arc::clone(context);
    let rest = move |begun| answer(own, (rights, is_change), reply, begun);
    enqueue(context, change, rest).await
}

async fn begin(
    (context, rights): (&Context, &Rights),
    request: CreatePartitionsRequest,
    mutations: &mut Mutations,
) -> Begun {
    let mut named: HashMap<WireTopic, usize> = HashMap::new();
    for topic in &request.topics {
        *named.entry(topic.name.clone()).or_default() += 1;
    }
    let mut begun = Vec::with_capacity(named.len());
    for topic in request.topics {
        let growing = match named.get(&topic.name) {
            Some(1) => match rights.topic(Operation::Alter, &topic.name) {
                Ok(()) => grow(context, &topic, request.validate_only, mutations).await,
                Err(code) => Err(code.into()),
            },
            Some(2..) => Err(Refused::new(
                ErrorCode::InvalidRequest,
                "Duplicate topic name.",
            )),
            _ => continue,
        };
        let is_once = named.remove(&topic.name) == Some(1);
        begun.push((topic.name, is_once, growing));
    }
    begun
}

async fn answer(
    context: Arc<Context>,
    (rights, is_change): (Rights, bool),
    reply: Reply,
    (begun, mutations): (Begun, Mutations),
) -> Answer {
    let served = begun.into_iter().map(async |(name, is_once, growing)| {
        let outcome = match growing {
            Ok(growing) => growing.await,
            Err(refused) => Err(refused),
        };
        let (error, message) = Refused::parts(&outcome);
        // A name that comes twice is refused before anybody asks for rights.
        if is_change && is_once {
            rights.audit(Operation::Alter, Changed::Partitions, &name, error);
        }
        CreatePartitionsTopicResult::default()
            .with_name(name)
            .with_error_code(error)
            .with_error_message(message)
    });
    let results = join_all(served).await;
    let error = first_error(results.iter().map(|result| result.error_code));
    let response = CreatePartitionsResponse::default()
        .with_results(results)
        .with_throttle_time_ms(mutations.throttle_time_ms(context.now()));
    reply.with(&response, error)
}

async fn grow(
    context: &Context,
    asked: &CreatePartitionsTopic,
    validate_only: bool,
    mutations: &mut Mutations,
) -> Result<Growing, Refused> {
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
    let assigned = check_assignments(context, asked, total - current)?;
    if validate_only {
        let valid = context.logs.validate_growth(&name, total);
        let refused =
            |error: TooManyPartitions| Refused::new(ErrorCode::PolicyViolation, error.to_string());
        return valid
            .map(|()| Box::pin(ready(Ok(()))) as _)
            .map_err(refused);
    }
    mutations.spend((total - current) as usize, context.now())?;
    let served = context.logs.begin_create_partitions(&name, total).await;
    let served = served.map_err(|error| refused(&name, &error))?;
    let logs = context.logs.clone();
    Ok(Box::pin(async move {
        let grown = served.await.map_err(|error| refused(&name, &error))?;
        place(&logs, &grown, current, assigned).await;
        tracing::info!(topic = %name, from = current, to = total, "partitions added");
        Ok(())
    }))
}

fn refused(topic: &TopicName, error: &CreatePartitionsError) -> Refused {
    if !matches!(error, CreatePartitionsError::InvalidTotal { .. }) {
        tracing::warn!(%topic, %error, "partitions could not be added");
    }
    Refused::new(code::of_create_partitions(error), error.to_string())
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

/// Assignments by hand: one for each new partition, each on one broker.
fn check_assignments(
    context: &Context,
    asked: &CreatePartitionsTopic,
    added: u32,
) -> Result<Vec<NodeId>, Refused> {
    let Some(assignments) = &asked.assignments else {
        return Ok(Vec::new());
    };
    if u32::try_from(assignments.len()) != Ok(added) {
        let given = assignments.len();
        let message = format!("{added} partition(s) are added, {given} are assigned.");
        return Err(Refused::new(ErrorCode::InvalidReplicaAssignment, message));
    }
    let brokers = assignments.iter();
    brokers
        .map(|assignment| check_replicas(context, &assignment.broker_ids))
        .collect()
}
