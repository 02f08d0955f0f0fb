//! DescribeTopicPartitions (KIP-966): what Metadata tells of topics, in pages. Topics come by name; a page that is full
//! says where the next one begins.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use millrace_log::Topic;
use millrace_model::TopicName;
use millrace_security::acl::{Operation, ResourceType};
use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{
        DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, TopicName as WireTopic,
        describe_topic_partitions_response::{
            Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
        },
        metadata_response::MetadataResponsePartition,
    },
};

use super::metadata::describe_partition;
use crate::{
    authorization::Rights,
    call::{Answer, Call, Outcome, Reply, Taken, first_error},
    context::{Context, text},
    topics::OPERATIONS_NOT_ASKED,
};

/// The most partitions of a page. Kafka's `max.request.partition.size.limit`.
const PAGE_PARTITIONS_MAX: usize = 2_000;

/// How long the database may take to tell of topics that this broker does not know.
const CATCH_UP_WAIT: Duration = Duration::from_millis(500);

/// What a request asks for.
#[derive(Debug)]
struct Asked {
    /// By name, from the cursor on; the order of the answer.
    topics: BTreeSet<String>,
    /// All topics, of which those that the client may not describe are left out.
    is_all: bool,
    /// Where the page begins in its first topic, if that is this one.
    cursor: Option<(String, usize)>,
    partitions_max: usize,
}

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DescribeTopicPartitionsRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let Some(asked) = Asked::new(context, &request) else {
        return refuse(reply, &request);
    };
    let is_alone = context.config.members.is_none();
    if is_alone
        || asked.is_all
        || asked
            .topics
            .iter()
            .all(|name| find(context, name).is_some())
    {
        return Ok(Taken::Now(answer(context, &rights, reply, &asked)));
    }
    let context = Arc::clone(context);
    Taken::later(async move {
        // Another broker may have created them a moment ago.
        context.logs.catch_up(CATCH_UP_WAIT).await;
        answer(&context, &rights, reply, &asked)
    })
}

impl Asked {
    /// Nothing where the cursor is none of this request.
    fn new(context: &Context, request: &DescribeTopicPartitionsRequest) -> Option<Self> {
        let is_all = request.topics.is_empty();
        let mut topics: BTreeSet<String> = match is_all {
            true => {
                let all = context.logs.topics();
                all.iter().map(|topic| topic.name.to_string()).collect()
            }
            false => {
                let named = request.topics.iter();
                named.map(|topic| topic.name.to_string()).collect()
            }
        };
        let mut first = None;
        if let Some(cursor) = &request.cursor {
            let name = cursor.topic_name.to_string();
            let index = usize::try_from(cursor.partition_index).ok()?;
            if !is_all && !topics.contains(&name) {
                return None;
            }
            topics = topics.split_off(&name);
            first = Some((name, index));
        }
        let limit = usize::try_from(request.response_partition_limit).unwrap_or(0);
        Some(Self {
            topics,
            is_all,
            cursor: first,
            // A page without any partition would go on for ever.
            partitions_max: limit.clamp(1, PAGE_PARTITIONS_MAX),
        })
    }

    /// The first partition of a topic that is on this page.
    fn start(&self, name: &str) -> usize {
        let cursor = self.cursor.as_ref().filter(|(topic, _)| topic == name);
        cursor.map_or(0, |(_, index)| *index)
    }
}

fn find(context: &Context, name: &str) -> Option<Arc<Topic>> {
    context.logs.topic(&TopicName::new(name).ok()?)
}

fn answer(context: &Context, rights: &Rights, reply: Reply, asked: &Asked) -> Answer {
    let mut topics = Vec::new();
    let mut denied = Vec::new();
    let mut next = None;
    let mut left = asked.partitions_max;
    for name in &asked.topics {
        // A name that the client may not describe does not tell whether the topic exists.
        let is_allowed = match asked.is_all {
            true => rights.allows_quietly(Operation::Describe, ResourceType::Topic, name),
            false => rights.topic(Operation::Describe, name).is_ok(),
        };
        if !is_allowed {
            if !asked.is_all {
                denied.push(failed(name, ErrorCode::TopicAuthorizationFailed));
            }
            continue;
        }
        // Who is denied is told on the first page that gets there, so all names are looked at.
        if next.is_some() {
            continue;
        }
        let Some(topic) = find(context, name) else {
            if !asked.is_all {
                topics.push(missing(rights, name));
            }
            continue;
        };
        let start = asked.start(name);
        if left == 0 {
            next = Some((name, start));
            continue;
        }
        let page = describe(context, rights, &topic, start..start.saturating_add(left));
        let end = start + page.partitions.len();
        left -= page.partitions.len();
        if end < topic.partitions.len() {
            next = Some((name, end));
        }
        topics.push(page);
    }
    topics.append(&mut denied);
    let error = first_error(topics.iter().map(|topic| topic.error_code));
    let cursor = next.map(|(name, index)| {
        Cursor::default()
            .with_topic_name(WireTopic(text(name)))
            .with_partition_index(i32::try_from(index).unwrap_or(i32::MAX))
    });
    let response = DescribeTopicPartitionsResponse::default()
        .with_topics(topics)
        .with_next_cursor(cursor);
    reply.with(&response, error)
}

fn describe(
    context: &Context,
    rights: &Rights,
    topic: &Topic,
    page: std::ops::Range<usize>,
) -> DescribeTopicPartitionsResponseTopic {
    let partitions = topic.partitions.iter().enumerate();
    let partitions = partitions.skip(page.start).take(page.len());
    let partitions = partitions.map(|(index, partition)| {
        let index = i32::try_from(index).unwrap_or(i32::MAX);
        let described = MetadataResponsePartition::default().with_partition_index(index);
        as_described(describe_partition(context, partition, described))
    });
    DescribeTopicPartitionsResponseTopic::default()
        .with_name(Some(WireTopic(text(topic.name.as_str()))))
        .with_topic_id(topic.id.0)
        .with_is_internal(topic.is_internal())
        .with_partitions(partitions.collect())
        .with_topic_authorized_operations(
            rights.operations(ResourceType::Topic, topic.name.as_str()),
        )
}

fn as_described(partition: MetadataResponsePartition) -> DescribeTopicPartitionsResponsePartition {
    DescribeTopicPartitionsResponsePartition::default()
        .with_error_code(partition.error_code)
        .with_partition_index(partition.partition_index)
        .with_leader_id(partition.leader_id)
        .with_leader_epoch(partition.leader_epoch)
        .with_replica_nodes(partition.replica_nodes)
        .with_isr_nodes(partition.isr_nodes)
        // A leader is never chosen by what it has, so there are none of these. Java clients do not accept null.
        .with_eligible_leader_replicas(Some(Vec::new()))
        .with_last_known_elr(Some(Vec::new()))
        .with_offline_replicas(partition.offline_replicas)
}

/// What may be done with the name is told although there is no topic, as in Kafka.
fn missing(rights: &Rights, name: &str) -> DescribeTopicPartitionsResponseTopic {
    let code = match TopicName::new(name) {
        Ok(_) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    failed(name, code)
        .with_topic_authorized_operations(rights.operations(ResourceType::Topic, name))
}

fn failed(name: &str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic::default()
        .with_name(Some(WireTopic(text(name))))
        .with_error_code(code.code())
        .with_topic_authorized_operations(OPERATIONS_NOT_ASKED)
}

/// The answer has no error of its own, so each topic has it.
fn refuse(reply: Reply, request: &DescribeTopicPartitionsRequest) -> Outcome {
    let code = ErrorCode::InvalidRequest;
    let failed = request.topics.iter().map(|topic| failed(&topic.name, code));
    let response = DescribeTopicPartitionsResponse::default()
        .with_topics(failed.collect())
        .with_next_cursor(None);
    reply.now(&response, code.code())
}
