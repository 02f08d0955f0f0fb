//! DescribeShareGroupOffsets (KIP-932): where share groups are in partitions.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;
use millrace_coordinator::{GroupError, ShareState, ShareStateError};
use millrace_model::TopicId;
use millrace_security::acl::{Operation, ResourceType};
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse, GroupId,
        TopicName as WireTopic,
        describe_share_group_offsets_request::{
            DescribeShareGroupOffsetsRequestGroup as AskedGroup,
            DescribeShareGroupOffsetsRequestTopic as AskedTopic,
        },
        describe_share_group_offsets_response::{
            DescribeShareGroupOffsetsResponseGroup as DescribedGroup,
            DescribeShareGroupOffsetsResponsePartition as DescribedPartition,
            DescribeShareGroupOffsetsResponseTopic as DescribedTopic,
        },
    },
};
use uuid::Uuid;

use crate::{
    authorization::Rights,
    call::{Call, Outcome, Taken, first_error},
    code,
    context::{Context, text},
    share_states::optional_wire_offset,
    topics::{find_allowed, partition_number},
};

/// A topic of the answer: its name, its id, and its partitions, or why they are not described.
struct Asked {
    name: WireTopic,
    id: TopicId,
    partitions: Vec<(i32, Result<u32, ErrorCode>)>,
}

type Summaries = BTreeMap<(TopicId, u32), Result<ShareState, ShareStateError>>;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DescribeShareGroupOffsetsRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let groups = request.groups.into_iter();
    let describing: Vec<_> = groups
        .map(|group| {
            let asked = asked(context, &rights, &group);
            describe(Arc::clone(context), group.group_id, asked)
        })
        .collect();
    Taken::later(async move {
        let groups = join_all(describing).await;
        let partitions = groups.iter().flat_map(|group| {
            let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
            let errors = partitions.map(|partition| partition.error_code);
            std::iter::once(group.error_code).chain(errors)
        });
        let error = first_error(partitions);
        let response = DescribeShareGroupOffsetsResponse::default().with_groups(groups);
        reply.with(&response, error)
    })
}

/// What is to be described of a group; without topics, all in which it has a place and that the client may see.
fn asked(
    context: &Context,
    rights: &Rights,
    group: &AskedGroup,
) -> Result<Vec<Asked>, (ErrorCode, Option<GroupError>)> {
    let id = &group.group_id;
    let allowed = rights.group(Operation::Describe, id);
    allowed.map_err(|code| (code, None))?;
    let known = context.groups.share_partitions(id);
    let known = known.map_err(|error| (code::of_group(&error), Some(error)))?;
    if let Some(topics) = &group.topics {
        let asked = topics.iter();
        return Ok(asked
            .map(|topic| asked_topic(context, rights, topic))
            .collect());
    }
    let sees = |name: &str| rights.allows_quietly(Operation::Describe, ResourceType::Topic, name);
    let known = known.into_iter().filter(|(_, (name, _))| sees(name));
    let all = known.map(|(id, (name, numbers))| Asked {
        name: WireTopic(text(name)),
        id,
        partitions: numbers.into_iter().map(described_number).collect(),
    });
    Ok(all.collect())
}

fn described_number(number: u32) -> (i32, Result<u32, ErrorCode>) {
    (i32::try_from(number).unwrap_or(i32::MAX), Ok(number))
}

fn asked_topic(context: &Context, rights: &Rights, topic: &AskedTopic) -> Asked {
    let name = &topic.topic_name;
    let right = (rights, Operation::Describe);
    let found = find_allowed(&context.logs, right, false, name, Uuid::nil());
    let partition = |&index: &i32| {
        let topic = found.as_ref().map_err(|code| *code);
        (
            index,
            topic.and_then(|topic| partition_number(topic, index)),
        )
    };
    Asked {
        name: name.clone(),
        id: found
            .as_ref()
            .map_or(TopicId(Uuid::nil()), |topic| topic.id),
        partitions: topic.partitions.iter().map(partition).collect(),
    }
}

async fn describe(
    context: Arc<Context>,
    id: GroupId,
    asked: Result<Vec<Asked>, (ErrorCode, Option<GroupError>)>,
) -> DescribedGroup {
    let asked = match asked {
        Ok(asked) => asked,
        Err((code, error)) => {
            let message = error.map(|error| text(error.to_string()));
            return DescribedGroup::default()
                .with_group_id(id)
                .with_error_code(code.code())
                .with_error_message(message);
        }
    };
    let partitions = asked.iter().flat_map(|topic| {
        let numbers = topic.partitions.iter();
        numbers.filter_map(|(_, number)| Some((topic.id, number.ok()?)))
    });
    let partitions: Vec<_> = partitions.collect();
    let summaries = context.groups.share_summaries(&id, partitions).await;
    let topics = asked.into_iter().map(|topic| described(topic, &summaries));
    DescribedGroup::default()
        .with_group_id(id)
        .with_topics(topics.collect())
}

fn described(topic: Asked, summaries: &Summaries) -> DescribedTopic {
    let Asked {
        name,
        id,
        partitions,
    } = topic;
    let partition = |(index, number): (i32, Result<u32, ErrorCode>)| {
        let state = number.map(|number| summaries.get(&(id, number)));
        let (state, error) = match state {
            Ok(Some(Ok(state))) => (Some(state), NONE),
            // It has no place there yet.
            Ok(None | Some(Err(ShareStateError::Unknown))) => (None, NONE),
            Ok(Some(Err(error))) => (None, code::of_share_state(*error).code()),
            Err(code) => (None, code.code()),
        };
        let start = state.and_then(|state| state.start_offset);
        DescribedPartition::default()
            .with_partition_index(index)
            .with_start_offset(optional_wire_offset(start))
            .with_leader_epoch(state.map_or(0, |state| state.leader_epoch))
            .with_error_code(error)
    };
    DescribedTopic::default()
        .with_topic_name(name)
        .with_topic_id(id.0)
        .with_partitions(partitions.into_iter().map(partition).collect())
}
