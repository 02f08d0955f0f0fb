//! OffsetDelete (KIP-496): a group forgets what it committed in topics that its members do not subscribe to.

use std::{collections::BTreeSet, sync::Arc};

use millrace_coordinator::Waiting;
use millrace_model::{TopicName, TopicPartition};
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        OffsetDeleteRequest, OffsetDeleteResponse,
        offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic},
        offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic},
    },
};

use crate::{
    authorization::{Changed, Rights},
    call::{Answer, Call, Outcome, Reply, Taken, code_of, first_error},
    code,
    context::Context,
    topics,
};

/// A partition as it was asked for, or why its offset cannot be deleted.
type Asked = (i32, Result<TopicPartition, ErrorCode>);

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: OffsetDeleteRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let topics: Vec<_> = { request.topics.iter() }
        .map(|topic| (topic.name.clone(), asked(context, &rights, topic)))
        .collect();
    let partitions = topics.iter().flat_map(|(_, asked)| asked);
    let partitions: Vec<_> = partitions
        .filter_map(|(_, partition)| partition.clone().ok())
        .collect();
    let group = request.group_id;
    let deleting = rights
        .group(Operation::Delete, &group)
        .and_then(|()| delete(context, &group, &partitions));
    Taken::later(async move {
        let deleted = match deleting {
            Ok((subscribed, None)) => Ok(subscribed),
            Ok((subscribed, Some(deletion))) => {
                let durable = deletion.await;
                durable
                    .map(|()| subscribed)
                    .map_err(|error| code::of_group(&error))
            }
            Err(code) => Err(code),
        };
        rights.audit(
            Operation::Delete,
            Changed::GroupOffsets,
            &group,
            code_of(&deleted),
        );
        match deleted {
            Ok(subscribed) => {
                let topics = topics.into_iter().map(|(name, asked)| {
                    let partitions = asked.into_iter().map(|asked| answered(asked, &subscribed));
                    OffsetDeleteResponseTopic::default()
                        .with_name(name)
                        .with_partitions(partitions.collect())
                });
                answer(reply, topics.collect(), NONE)
            }
            Err(code) => answer(reply, Vec::new(), code.code()),
        }
    })
}

fn delete(
    context: &Context,
    group: &str,
    partitions: &[TopicPartition],
) -> Result<(BTreeSet<TopicName>, Option<Waiting<()>>), ErrorCode> {
    // Each partition has an error already, which is told whatever the group is.
    if partitions.is_empty() {
        return Ok((BTreeSet::new(), None));
    }
    let deleting = context.groups.delete_offsets(group, partitions);
    let (subscribed, deletion) = deleting.map_err(|error| code::of_group(&error))?;
    Ok((subscribed, Some(deletion)))
}

fn asked(context: &Context, rights: &Rights, topic: &OffsetDeleteRequestTopic) -> Vec<Asked> {
    let allowed = rights.topic(Operation::Read, &topic.name);
    let name = TopicName::new(topic.name.as_str()).ok();
    let partition = |asked: &OffsetDeleteRequestPartition| {
        let index = asked.partition_index;
        (
            index,
            allowed.and_then(|()| topics::existing(&context.logs, name.as_ref(), index)),
        )
    };
    topic.partitions.iter().map(partition).collect()
}

fn answered(
    (index, asked): Asked,
    subscribed: &BTreeSet<TopicName>,
) -> OffsetDeleteResponsePartition {
    let deleted = match asked {
        Ok(partition) if subscribed.contains(&partition.topic) => {
            Err(ErrorCode::GroupSubscribedToTopic)
        }
        Ok(_) => Ok(()),
        Err(code) => Err(code),
    };
    OffsetDeleteResponsePartition::default()
        .with_partition_index(index)
        .with_error_code(code_of(&deleted))
}

fn answer(reply: Reply, topics: Vec<OffsetDeleteResponseTopic>, error: i16) -> Answer {
    let partitions = topics.iter().flat_map(|topic| &topic.partitions);
    let errors = partitions.map(|partition| partition.error_code);
    let first = first_error(std::iter::once(error).chain(errors));
    let response = OffsetDeleteResponse::default()
        .with_error_code(error)
        .with_topics(topics);
    reply.with(&response, first)
}
