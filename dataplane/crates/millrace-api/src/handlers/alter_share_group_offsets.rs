//! AlterShareGroupOffsets (KIP-932): a share group without members is to start again at other offsets.

use std::{collections::BTreeMap, sync::Arc};

use millrace_coordinator::{GroupError, ShareStateResults, Waiting};
use millrace_model::{Offset, TopicId};
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, TopicName as WireTopic,
        alter_share_group_offsets_request::{
            AlterShareGroupOffsetsRequestPartition as AskedPartition,
            AlterShareGroupOffsetsRequestTopic as AskedTopic,
        },
        alter_share_group_offsets_response::{
            AlterShareGroupOffsetsResponsePartition as AlteredPartition,
            AlterShareGroupOffsetsResponseTopic as AlteredTopic,
        },
    },
};
use uuid::Uuid;

use crate::{
    authorization::{Changed, Rights},
    call::{Answer, Call, Outcome, Reply, Taken, code_of, first_error},
    code,
    context::{Context, text},
    topics::{find_allowed, partition_number},
};

/// A partition's number, and the offset that it is to have, or why it cannot.
type AskedOffset = (i32, Result<(u32, Offset), ErrorCode>);

/// A topic as it was asked for, its id, and its partitions.
struct Asked {
    name: WireTopic,
    id: TopicId,
    partitions: Vec<AskedOffset>,
}

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: AlterShareGroupOffsetsRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let group = request.group_id;
    if let Err(code) = rights.group(Operation::Read, &group) {
        return Ok(Taken::Now(refuse(reply, code, None)));
    }
    let topics = request.topics.iter();
    let topics: Vec<_> = topics.map(|topic| asked(context, &rights, topic)).collect();
    let offsets: BTreeMap<(TopicId, u32), Offset> = { topics.iter() }
        .flat_map(|topic| {
            let partitions = topic.partitions.iter();
            partitions.filter_map(|(_, asked)| asked.ok().map(|(of, at)| ((topic.id, of), at)))
        })
        .collect();
    let altering: Waiting<ShareStateResults> =
        { &context.groups }.alter_share_offsets(&group, offsets.into_iter().collect());
    Taken::later(async move {
        let altered = altering.await;
        let code = altered.as_ref().map(|_| NONE);
        let code = code.unwrap_or_else(|error| code::of_group(error).code());
        rights.audit(Operation::Read, Changed::GroupOffsets, &group, code);
        match altered {
            Ok(results) => tell(reply, topics, &results),
            Err(error) => refuse(reply, code::of_group(&error), Some(&error)),
        }
    })
}

fn asked(context: &Context, rights: &Rights, topic: &AskedTopic) -> Asked {
    let name = &topic.topic_name;
    let right = (rights, Operation::Read);
    let found = find_allowed(&context.logs, right, false, name, Uuid::nil());
    let partition = |asked: &AskedPartition| {
        let offset = found.as_ref().map_err(|code| *code).and_then(|topic| {
            let number = partition_number(topic, asked.partition_index)?;
            let offset = Offset::try_from(asked.start_offset);
            let offset = offset.map_err(|_| ErrorCode::InvalidRequest)?;
            Ok((number, offset))
        });
        (asked.partition_index, offset)
    };
    Asked {
        name: name.clone(),
        id: found
            .as_ref()
            .map_or(TopicId(Uuid::nil()), |topic| topic.id),
        partitions: topic.partitions.iter().map(partition).collect(),
    }
}

fn tell(reply: Reply, topics: Vec<Asked>, results: &ShareStateResults) -> Answer {
    let topic = |asked: Asked| {
        let partition = |(index, offset): AskedOffset| {
            let altered = offset.and_then(|(number, _)| {
                let result = results.get(&(asked.id, number)).copied().unwrap_or(Ok(()));
                result.map_err(code::of_share_state)
            });
            AlteredPartition::default()
                .with_partition_index(index)
                .with_error_code(code_of(&altered))
        };
        AlteredTopic::default()
            .with_topic_name(asked.name)
            .with_topic_id(asked.id.0)
            .with_partitions(asked.partitions.into_iter().map(partition).collect())
    };
    let responses: Vec<_> = topics.into_iter().map(topic).collect();
    let partitions = responses.iter().flat_map(|topic| &topic.partitions);
    let error = first_error(partitions.map(|partition| partition.error_code));
    let response = AlterShareGroupOffsetsResponse::default().with_responses(responses);
    reply.with(&response, error)
}

fn refuse(reply: Reply, code: ErrorCode, error: Option<&GroupError>) -> Answer {
    let code = code.code();
    let response = AlterShareGroupOffsetsResponse::default()
        .with_error_code(code)
        .with_error_message(error.map(|error| text(error.to_string())));
    reply.with(&response, code)
}
