//! Metadata: the broker, and topics by name, by id, or all. May create topics that do not exist.

use std::{
    collections::{BTreeMap, HashSet},
    future::ready,
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;
use millrace_log::{Partition, Topic, error::CreateTopicError};
use millrace_model::{TopicId, TopicName};
use millrace_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use millrace_wire::{
    ApiKey, decode,
    error_code::{ErrorCode, NONE},
    messages::{
        BrokerId, MetadataRequest, MetadataResponse, TopicName as WireTopic,
        metadata_request::MetadataRequestTopic,
        metadata_response::{
            MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
        },
    },
    service::{BoxFuture, Peer},
};

use crate::{
    authorization::{Changed, Rights},
    call::{Answer, Call, Outcome, Reply, Taken, first_error},
    code,
    context::{Context, text},
    members::Member,
    placement::Placement,
    quota::Mutations,
    topic_changes::enqueue,
    topics::{OPERATIONS_NOT_ASKED, is_internal},
    zones::ReplicaSelector,
};

/// The version in which an empty list still means all topics.
const EMPTY_MEANS_ALL: i16 = 0;
/// The first version in which clients may forbid creation.
const FIRST_WITH_AUTO_CREATION: i16 = 4;
/// How long the database may take to tell of topics that this broker does not know.
const CATCH_UP_WAIT: Duration = Duration::from_millis(500);
/// No version is refused a topic because of the client's quota: clients do not expect that (KIP-599).
const NEVER_STRICT: i16 = i16::MAX;
/// The first version that may leave out the name of a topic asked for by id.
const FIRST_WITH_NULL_NAME: i16 = 12;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let mut request: MetadataRequest = decode(&call.request)?;
    request.topics.iter_mut().for_each(name_once);
    let reply = call.reply();
    let rights = context.rights(&call);
    let all = match &request.topics {
        None => true,
        Some(topics) => topics.is_empty() && reply.version == EMPTY_MEANS_ALL,
    };
    if all {
        let topics = everything(context, &rights);
        let answer = answer((context, &rights), &call.peer, reply, &request, topics);
        return Ok(Taken::Now(answer));
    }
    let asked = request.topics.as_deref().unwrap_or_default();
    let found: Vec<_> = asked
        .iter()
        .map(|topic| existing((context, &rights), reply, topic))
        .collect();
    let all_exist = found.iter().all(Option::is_some);
    if all_exist || !may_create(context, reply, &request) {
        let is_alone = context.config.members.is_none();
        if all_exist || is_alone {
            let topics = or_unknown(found, asked);
            let answer = answer((context, &rights), &call.peer, reply, &request, topics);
            return Ok(Taken::Now(answer));
        }
        let own = Arc::clone(context);
        return Taken::later(async move {
            // Another broker may have created them a moment ago.
            own.logs.catch_up(CATCH_UP_WAIT).await;
            let asked = request.topics.as_deref().unwrap_or_default();
            let found = asked
                .iter()
                .map(|topic| existing((&own, &rights), reply, topic));
            let topics = or_unknown(found, asked);
            answer((&own, &rights), &call.peer, reply, &request, topics)
        });
    }
    let (own, asking) = (Arc::clone(context), rights.clone());
    let mut mutations = context.quotas.mutations(&call, NEVER_STRICT);
    let change = async move {
        let mut begun = Vec::with_capacity(found.len());
        for (found, topic) in found.into_iter().zip(request.topics.iter().flatten()) {
            begun.push(match found.filter(is_denied) {
                Some(denied) => Box::pin(ready(denied)) as BoxFuture<'_, _>,
                None => existing_or_new((&own, &asking), reply, topic, &mut mutations).await,
            });
        }
        (begun, request, mutations)
    };
    let own = Arc::clone(context);
    let rest = move |(begun, request, mutations): (_, _, Mutations)| async move {
        let topics = join_all::<Vec<BoxFuture<'_, _>>>(begun).await;
        let throttle_ms = mutations.throttle_time_ms(own.now());
        let answer = answer((&own, &rights), &call.peer, reply, &request, topics);
        told(answer, reply, throttle_ms)
    };
    enqueue(context, change, rest).await
}

/// Leaves each topic of a request in it once, as Kafka answers for each once.
fn name_once(topics: &mut Vec<MetadataRequestTopic>) {
    let mut named = HashSet::with_capacity(topics.len());
    topics.retain(|topic| {
        let name = topic.name.clone().filter(|_| topic.topic_id.is_nil());
        named.insert((name, topic.topic_id))
    });
}

fn or_unknown(
    found: impl IntoIterator<Item = Option<MetadataResponseTopic>>,
    asked: &[MetadataRequestTopic],
) -> Vec<MetadataResponseTopic> {
    let all = found.into_iter().zip(asked);
    all.map(|(found, asked)| found.unwrap_or_else(|| unknown(asked)))
        .collect()
}

/// The same answer, telling the client to wait.
fn told(answer: Answer, reply: Reply, throttle_ms: i32) -> Answer {
    let response = answer.response;
    Answer {
        response: response.with_throttle_time(ApiKey::Metadata, reply.version, throttle_ms),
        ..answer
    }
}

/// Whether client and broker agree that topics which do not exist are created.
fn may_create(context: &Context, reply: Reply, request: &MetadataRequest) -> bool {
    let client_allows =
        reply.version < FIRST_WITH_AUTO_CREATION || request.allow_auto_topic_creation;
    client_allows && context.logs.defaults().auto_create_topics
}

/// All topics that the client may describe. The response does not mention others.
fn everything(context: &Context, rights: &Rights) -> Vec<MetadataResponseTopic> {
    let is_shown = |topic: &&Arc<Topic>| {
        rights.allows_quietly(
            Operation::Describe,
            ResourceType::Topic,
            topic.name.as_str(),
        )
    };
    context
        .logs
        .topics()
        .iter()
        .filter(is_shown)
        .map(|topic| describe(context, topic))
        .collect()
}

fn is_denied(topic: &MetadataResponseTopic) -> bool {
    topic.error_code == ErrorCode::TopicAuthorizationFailed.code()
}

/// The answer for one topic; none where the topic is named and does not exist. To a client that may not
/// describe it, a name does not tell whether it does.
fn existing(
    (context, rights): (&Context, &Rights),
    reply: Reply,
    asked: &MetadataRequestTopic,
) -> Option<MetadataResponseTopic> {
    // Java clients that ask by id send an empty name beside it.
    let name = asked.name.as_ref().filter(|_| asked.topic_id.is_nil());
    let Some(name) = name else {
        return Some(match context.logs.topic_by_id(TopicId(asked.topic_id)) {
            Some(topic) => match rights.topic(Operation::Describe, topic.name.as_str()) {
                Ok(()) => describe(context, &topic),
                Err(code) => by_id(reply, asked, code),
            },
            None if asked.topic_id.is_nil() => by_id(reply, asked, ErrorCode::InvalidRequest),
            None => by_id(reply, asked, ErrorCode::UnknownTopicId),
        });
    };
    if let Err(code) = rights.topic(Operation::Describe, name) {
        return Some(failed(name, code));
    }
    match TopicName::new(name.as_str()) {
        Err(_) => Some(failed(name, ErrorCode::InvalidTopicException)),
        Ok(legal) => context
            .logs
            .topic(&legal)
            .map(|topic| describe(context, &topic)),
    }
}

/// The answer for one topic, which is created where there is none; resolves once it is served.
async fn existing_or_new(
    (context, rights): (&Arc<Context>, &Rights),
    reply: Reply,
    asked: &MetadataRequestTopic,
    mutations: &mut Mutations,
) -> BoxFuture<'static, MetadataResponseTopic> {
    if let Some(found) = existing((context, rights), reply, asked) {
        return Box::pin(ready(found));
    }
    let name = asked.name.clone().unwrap_or_default();
    if let Err(code) = check_create(rights, &name) {
        return Box::pin(ready(failed(&name, code)));
    }
    let creating = create((context, rights), &name, mutations).await;
    let context = Arc::clone(context);
    Box::pin(async move {
        let created = match creating {
            Ok(creating) => creating.await,
            Err(error) => Err(error),
        };
        match created {
            Ok(topic) => describe(&context, &topic),
            Err(error) => failed(&name, error),
        }
    })
}

/// The right to create all topics, or this one.
fn check_create(rights: &Rights, name: &str) -> Result<(), ErrorCode> {
    match rights.allows_quietly(Operation::Create, ResourceType::Cluster, CLUSTER_NAME) {
        true => Ok(()),
        false => rights.topic(Operation::Create, name),
    }
}

type Creating = BoxFuture<'static, Result<Arc<Topic>, ErrorCode>>;

async fn create(
    (context, rights): (&Arc<Context>, &Rights),
    name: &WireTopic,
    mutations: &mut Mutations,
) -> Result<Creating, ErrorCode> {
    let legal = TopicName::new(name.as_str()).map_err(|_| ErrorCode::InvalidTopicException)?;
    let context = Arc::clone(context);
    if is_internal(name) {
        return Ok(Box::pin(async move {
            let loaded = context.groups.ready().await;
            loaded.map_err(|_| ErrorCode::LeaderNotAvailable)?;
            let topic = context.logs.topic(&legal);
            topic.ok_or(ErrorCode::LeaderNotAvailable)
        }));
    }
    let logs = context.logs.clone();
    let partitions = logs.defaults().num_partitions as usize;
    let counted = mutations.spend(partitions, context.now());
    counted.map_err(|refused| refused.code)?;
    let begun = logs.begin_create_topic(&legal, None, BTreeMap::new()).await;
    let rights = rights.clone();
    let audit = move |name: &TopicName, error: i16| {
        rights.audit(Operation::Create, Changed::Topic, name.as_str(), error);
    };
    Ok(Box::pin(async move {
        let created = match begun {
            Ok(served) => served.await,
            Err(error) => Err(error),
        };
        match created {
            Ok(topic) => {
                tracing::info!(topic = %legal, "created because a client asked for it");
                audit(&legal, NONE);
                Ok(topic)
            }
            // Somebody else was faster.
            Err(CreateTopicError::Exists(_)) => {
                logs.topic(&legal).ok_or(ErrorCode::LeaderNotAvailable)
            }
            Err(error) => {
                tracing::warn!(topic = %legal, %error, "could not be created");
                let code = code::of_auto_create(&error);
                audit(&legal, code.code());
                Err(code)
            }
        }
    }))
}

fn describe(context: &Context, topic: &Topic) -> MetadataResponseTopic {
    let partitions = topic.partitions.iter().enumerate();
    let partitions = partitions.map(|(index, partition)| {
        let described = MetadataResponsePartition::default()
            .with_partition_index(i32::try_from(index).unwrap_or(i32::MAX));
        describe_partition(context, partition, described)
    });
    MetadataResponseTopic::default()
        .with_name(Some(WireTopic(text(topic.name.as_str()))))
        .with_topic_id(topic.id.0)
        .with_is_internal(topic.is_internal())
        .with_partitions(partitions.collect())
}

/// Who leads a partition and where it is, added to what is said of it.
pub(super) fn describe_partition(
    context: &Context,
    partition: &Partition,
    described: MetadataResponsePartition,
) -> MetadataResponsePartition {
    let Some((leader, epoch)) = context.leader_of(partition) else {
        return described
            .with_leader_id(BrokerId(-1))
            .with_error_code(ErrorCode::LeaderNotAvailable.code());
    };
    let Placement {
        replicas,
        in_sync,
        mut offline,
    } = context.placement(partition, leader);
    let described = described
        .with_leader_id(leader)
        .with_leader_epoch(epoch)
        .with_replica_nodes(replicas)
        .with_isr_nodes(in_sync);
    match partition.log().and_then(|log| log.offline()) {
        Some(_) => {
            offline.push(leader);
            described
                .with_error_code(ErrorCode::KafkaStorageError.code())
                .with_offline_replicas(offline)
        }
        None => described.with_offline_replicas(offline),
    }
}

/// Names the brokers of other zones that serve what is committed among the replicas, for clients that look for them there before
/// they go where a leader sends them. Consumers and producers may create topics; clients that may not look for the replicas that
/// partitions are assigned to.
fn list_readers(context: &Context, topic: &mut MetadataResponseTopic) {
    let id = TopicId(topic.topic_id);
    for partition in &mut topic.partitions {
        let of = (id, partition.partition_index);
        for reader in context.readers(of, partition.leader_id) {
            if !partition.replica_nodes.contains(&reader) {
                partition.replica_nodes.push(reader);
            }
            if !partition.isr_nodes.contains(&reader) {
                partition.isr_nodes.push(reader);
            }
        }
    }
}

fn unknown(asked: &MetadataRequestTopic) -> MetadataResponseTopic {
    let name = asked.name.clone().unwrap_or_default();
    failed(&name, ErrorCode::UnknownTopicOrPartition)
}

fn failed(name: &WireTopic, error: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic::default()
        .with_name(Some(name.clone()))
        .with_error_code(error.code())
}

fn by_id(reply: Reply, asked: &MetadataRequestTopic, error: ErrorCode) -> MetadataResponseTopic {
    let name = (reply.version < FIRST_WITH_NULL_NAME).then(WireTopic::default);
    MetadataResponseTopic::default()
        .with_name(name)
        .with_topic_id(asked.topic_id)
        .with_error_code(error.code())
}

fn answer(
    (context, rights): (&Context, &Rights),
    peer: &Peer,
    reply: Reply,
    request: &MetadataRequest,
    mut topics: Vec<MetadataResponseTopic>,
) -> Answer {
    let lists_readers = context.config.replica_selector == ReplicaSelector::ListedZone
        && request.allow_auto_topic_creation;
    for topic in &mut topics {
        if lists_readers {
            list_readers(context, topic);
        }
        let asked = request.include_topic_authorized_operations && topic.error_code == NONE;
        let name = topic.name.clone().unwrap_or_default();
        topic.topic_authorized_operations = match asked {
            true => rights.operations(ResourceType::Topic, &name),
            false => OPERATIONS_NOT_ASKED,
        };
    }
    let cluster_operations = match request.include_cluster_authorized_operations {
        true => rights.cluster_operations(),
        false => OPERATIONS_NOT_ASKED,
    };
    let broker = |member: Member| {
        MetadataResponseBroker::default()
            .with_node_id(member.id)
            .with_host(member.host)
            .with_port(member.port)
            .with_rack(member.rack)
    };
    let brokers = context.members(peer).into_iter().map(broker).collect();
    let error = first_error(topics.iter().map(|topic| topic.error_code));
    let response = MetadataResponse::default()
        .with_brokers(brokers)
        .with_cluster_id(Some(text(context.config.cluster_id.clone())))
        .with_controller_id(context.broker_id())
        .with_topics(topics)
        .with_cluster_authorized_operations(cluster_operations);
    reply.with(&response, error)
}
