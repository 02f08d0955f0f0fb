//! CreateTopics: each topic succeeds or fails on its own.

use std::{
    collections::{BTreeMap, HashMap},
    future::ready,
    sync::Arc,
};

use futures_util::future::join_all;
use millrace_log::{LogManager, Partition, Topic, TopicConfig, error::CreateTopicError};
use millrace_meta::{Move, Preferred};
use millrace_model::{NodeId, TopicName, TopicPartition, limits::TOPIC_PARTITIONS_MAX};
use millrace_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        BrokerId, CreateTopicsRequest, CreateTopicsResponse, TopicName as WireTopic,
        create_topics_request::{CreatableReplicaAssignment, CreatableTopic},
        create_topics_response::{CreatableTopicConfigs, CreatableTopicResult},
    },
    service::BoxFuture,
};
use uuid::Uuid;

use crate::{
    authorization::{Changed, Rights},
    call::{Answer, Call, Outcome, Reply, first_error},
    catalogue, code,
    context::{Context, text},
    quota::Mutations,
    topic_changes::enqueue,
    topics::{Refused, is_internal},
};

/// The first version that is refused what exceeds the client's quota (KIP-599).
const FIRST_STRICT: i16 = 6;

/// Partitions or replicas as the broker sees fit.
const UNSET: i32 = -1;

/// What will stand in the answer for a topic that is, or could be, created.
struct Created {
    id: Uuid,
    partitions: u32,
    overrides: BTreeMap<String, String>,
}

/// A topic that is in the metadata; resolves once it is served.
type Creating = BoxFuture<'static, Result<Created, Refused>>;

/// The topics of a request, and whether it names each once.
type Begun = Vec<(WireTopic, bool, Result<Creating, Refused>)>;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: CreateTopicsRequest = decode(&call.request)?;
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
    request: CreateTopicsRequest,
    mutations: &mut Mutations,
) -> Begun {
    let mut named: HashMap<WireTopic, usize> = HashMap::new();
    for topic in &request.topics {
        *named.entry(topic.name.clone()).or_default() += 1;
    }
    // The right to create all topics, or each by its name.
    let creates_all = rights.allows_quietly(Operation::Create, ResourceType::Cluster, CLUSTER_NAME);
    let check = |name: &str| match creates_all {
        true => Ok(()),
        false => rights.topic(Operation::Create, name),
    };
    let mut begun = Vec::with_capacity(named.len());
    for topic in request.topics {
        let creating = match named.get(&topic.name) {
            Some(1) => match check(&topic.name) {
                Ok(()) => create(context, &topic, request.validate_only, mutations).await,
                Err(code) => Err(code.into()),
            },
            Some(2..) => Err(Refused::new(
                ErrorCode::InvalidRequest,
                "Duplicate topic name.",
            )),
            _ => continue,
        };
        // A name that comes twice is answered once.
        let is_once = named.remove(&topic.name) == Some(1);
        begun.push((topic.name, is_once, creating));
    }
    begun
}

async fn answer(
    context: Arc<Context>,
    (rights, is_change): (Rights, bool),
    reply: Reply,
    (begun, mutations): (Begun, Mutations),
) -> Answer {
    let served = begun.into_iter().map(async |(name, is_once, creating)| {
        let outcome = match creating {
            Ok(creating) => creating.await,
            Err(refused) => Err(refused),
        };
        // A name that comes twice is refused before anybody asks for rights.
        if is_change && is_once {
            let (error, _) = Refused::parts(&outcome);
            rights.audit(Operation::Create, Changed::Topic, &name, error);
        }
        result((&context, &rights), name, outcome)
    });
    let topics = join_all(served).await;
    let error = first_error(topics.iter().map(|topic| topic.error_code));
    let response = CreateTopicsResponse::default()
        .with_topics(topics)
        .with_throttle_time_ms(mutations.throttle_time_ms(context.now()));
    reply.with(&response, error)
}

async fn create(
    context: &Context,
    asked: &CreatableTopic,
    validate_only: bool,
    mutations: &mut Mutations,
) -> Result<Creating, Refused> {
    let name = check_name(context, &asked.name)?;
    // In the order of Kafka's controller, so that a request with several errors gets the same one.
    let overrides = check_configs(context, asked)?;
    let assigned = check_assignments(context, asked)?;
    let partitions = match assigned.len() {
        0 => check_partitions(asked)?,
        count => Some(u32::try_from(count).unwrap_or(u32::MAX)),
    };
    let defaults = context.logs.defaults();
    if validate_only {
        let valid = context.logs.validate_topic(&name, partitions, &overrides);
        valid.map_err(|error| refused(&error))?;
        let partitions = partitions.unwrap_or(defaults.num_partitions);
        let created = Created {
            id: Uuid::nil(),
            partitions,
            overrides,
        };
        return Ok(Box::pin(ready(Ok(created))));
    }
    let count = partitions.unwrap_or(defaults.num_partitions);
    mutations.spend(count as usize, context.now())?;
    let served = context
        .logs
        .begin_create_topic(&name, partitions, overrides.clone())
        .await
        .map_err(|error| refused(&error))?;
    let logs = context.logs.clone();
    Ok(Box::pin(async move {
        let topic: Arc<Topic> = served.await.map_err(|error| refused(&error))?;
        place(&logs, &topic, 0, assigned).await;
        tracing::info!(topic = %name, partitions = topic.partitions.len(), "created");
        let partitions = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
        Ok(Created {
            id: topic.id.0,
            partitions,
            overrides,
        })
    }))
}

fn refused(error: &CreateTopicError) -> Refused {
    let code = code::of_create_topic(error);
    if matches!(
        code,
        ErrorCode::UnknownServerError | ErrorCode::NotController
    ) {
        tracing::warn!(%error, "a topic could not be created");
    }
    Refused::new(code, error.to_string())
}

fn check_name(context: &Context, name: &str) -> Result<TopicName, Refused> {
    let invalid = |message: String| Refused::new(ErrorCode::InvalidTopicException, message);
    let legal = TopicName::new(name).map_err(|error| invalid(error.to_string()))?;
    if is_internal(name) {
        return Err(invalid(format!(
            "{name} is an internal topic of the broker"
        )));
    }
    if context.logs.topic(&legal).is_some() {
        return Err(refused(&CreateTopicError::Exists(legal)));
    }
    match context.logs.colliding_topic(&legal) {
        Some(other) => Err(invalid(format!(
            "Topic '{name}' collides with existing topics: {other}"
        ))),
        None => Ok(legal),
    }
}

/// How many partitions are asked for; none for the default.
fn check_partitions(asked: &CreatableTopic) -> Result<Option<u32>, Refused> {
    let factor = asked.replication_factor;
    let refused = |message: String| Refused::new(ErrorCode::InvalidReplicationFactor, message);
    if factor != -1 && factor < 1 {
        let message = "Replication factor must be larger than 0, or -1.";
        return Err(refused(message.to_owned()));
    }
    let invalid = || {
        let message = format!(
            "Number of partitions was set to an invalid value, {}: 1 to {TOPIC_PARTITIONS_MAX} \
             are allowed, or -1 for the default.",
            asked.num_partitions
        );
        Refused::new(ErrorCode::InvalidPartitions, message)
    };
    let count = match u32::try_from(asked.num_partitions) {
        Err(_) if asked.num_partitions == UNSET => None,
        Ok(count @ 1..=TOPIC_PARTITIONS_MAX) => Some(count),
        _ => return Err(invalid()),
    };
    if factor > 1 {
        return Err(refused(format!(
            "Replication factor {factor} is not supported: use 1, or -1 for the default. Records are \
             kept in object storage and need no replicas."
        )));
    }
    Ok(count)
}

/// Assignments by hand: partitions 0, 1, 2 … in any order, each on one broker. Gives the brokers in the order of the
/// partitions.
fn check_assignments(context: &Context, asked: &CreatableTopic) -> Result<Vec<NodeId>, Refused> {
    if asked.assignments.is_empty() {
        return Ok(Vec::new());
    }
    if asked.num_partitions != UNSET || asked.replication_factor != -1 {
        let message = "A manual partition assignment was specified, but numPartitions or \
                       replicationFactor was not set to -1.";
        return Err(Refused::new(ErrorCode::InvalidRequest, message));
    }
    let invalid = |message: &str| Err(Refused::new(ErrorCode::InvalidReplicaAssignment, message));
    let mut assignments: Vec<&CreatableReplicaAssignment> = asked.assignments.iter().collect();
    assignments.sort_unstable_by_key(|assignment| assignment.partition_index);
    let mut expected = assignments.iter().zip(0..);
    if !expected.all(|(assignment, index)| assignment.partition_index == index) {
        return invalid("Partitions must be numbered from 0 without a gap or repetition.");
    }
    if assignments.len() > TOPIC_PARTITIONS_MAX as usize {
        let message = "Too many partitions.";
        return Err(Refused::new(ErrorCode::InvalidPartitions, message));
    }
    let brokers = assignments.iter();
    brokers
        .map(|assignment| check_replicas(context, &assignment.broker_ids))
        .collect()
}

/// The one broker that a partition is assigned to, which must be there.
pub(super) fn check_replicas(context: &Context, replicas: &[BrokerId]) -> Result<NodeId, Refused> {
    let invalid = |message: String| Refused::new(ErrorCode::InvalidReplicaAssignment, message);
    let &[broker] = replicas else {
        let message = "Assign each partition to one broker: records are kept in object storage, \
                       so 1 replica is enough.";
        return Err(invalid(message.to_owned()));
    };
    context.able(broker).ok_or_else(|| {
        let message = format!("Broker {} is not running, or is about to stop.", broker.0);
        invalid(message)
    })
}

/// Moves new partitions, of which `from` is the first, to the brokers that they were assigned to by hand.
pub(super) async fn place(logs: &LogManager, topic: &Topic, from: u32, assigned: Vec<NodeId>) {
    let of_leader = topic.partitions.iter().map(Partition::leader);
    if of_leader.flatten().next().is_none() {
        // The broker is alone, and leads them.
        return;
    }
    let moves = (from..).zip(assigned).map(|(partition, to)| {
        let topic = topic.name.clone();
        let partition = TopicPartition { topic, partition };
        Move { partition, to }
    });
    let moves: Vec<Move> = moves.collect();
    if moves.is_empty() {
        return;
    }
    if let Err(error) = logs.plan_moves(&moves, Preferred::Set).await {
        tracing::warn!(topic = %topic.name, %error, "new partitions are not where they were assigned to");
    }
}

fn check_configs(
    context: &Context,
    asked: &CreatableTopic,
) -> Result<BTreeMap<String, String>, Refused> {
    let pair = |config: &millrace_wire::messages::create_topics_request::CreatableTopicConfig| {
        let name = config.name.to_string();
        match &config.value {
            Some(value) => Ok((name, value.to_string())),
            None => {
                let message = format!("Null value not supported for topic configs: {name}");
                Err(Refused::new(ErrorCode::InvalidConfig, message))
            }
        }
    };
    let configs = asked
        .configs
        .iter()
        .map(pair)
        .collect::<Result<_, Refused>>()?;
    let resolved = context.logs.validate_topic_configs(&configs);
    resolved.map_err(|error| Refused::new(ErrorCode::InvalidConfig, error.to_string()))?;
    Ok(configs)
}

fn result(
    (context, rights): (&Context, &Rights),
    name: WireTopic,
    outcome: Result<Created, Refused>,
) -> CreatableTopicResult {
    let (error, message) = Refused::parts(&outcome);
    let result = CreatableTopicResult::default()
        .with_name(name)
        .with_error_code(error)
        .with_error_message(message);
    let Ok(created) = outcome else {
        return result.with_num_partitions(-1).with_replication_factor(-1);
    };
    let result = result.with_topic_id(created.id);
    if !rights.allows_quietly(
        Operation::DescribeConfigs,
        ResourceType::Topic,
        &result.name,
    ) {
        let code = ErrorCode::TopicAuthorizationFailed.code();
        return result
            .with_topic_config_error_code(code)
            .with_num_partitions(-1)
            .with_replication_factor(-1);
    }
    let resolved = TopicConfig::resolve(context.logs.defaults(), &created.overrides);
    let configs = resolved.map(|config| {
        let entries = catalogue::topic(&config, &created.overrides, &context.settings.settings());
        let shown = |entry: catalogue::Entry| {
            CreatableTopicConfigs::default()
                .with_name(text(entry.name))
                .with_value(entry.value.map(text))
                .with_config_source(entry.source as i8)
        };
        entries.into_iter().map(shown).collect()
    });
    result
        .with_topic_config_error_code(NONE)
        .with_num_partitions(i32::try_from(created.partitions).unwrap_or(i32::MAX))
        .with_replication_factor(1)
        .with_configs(configs.ok())
}
