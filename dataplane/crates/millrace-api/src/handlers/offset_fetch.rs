//! OffsetFetch: the durable offsets of one group, or, in newer versions, of many.

use std::sync::Arc;

use futures_util::future::join_all;
use millrace_coordinator::{
    GroupError,
    messages::{CommittedOffset, StableOffset},
};
use millrace_model::{TopicName, TopicPartition};
use millrace_security::acl::{Operation, ResourceType};
use millrace_wire::{
    StrBytes, decode,
    error_code::{ErrorCode, NONE},
    messages::{
        GroupId, OffsetFetchRequest, OffsetFetchResponse, TopicName as WireTopic,
        offset_fetch_response::{
            OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
            OffsetFetchResponseTopic, OffsetFetchResponseTopics,
        },
    },
};
use uuid::Uuid;

use crate::{
    authorization::Rights,
    call::{Answer, Call, Outcome, Reply, Taken, code_of, first_error},
    code,
    context::{Context, text},
    topics::{FIRST_OFFSETS_BY_ID, find_by_written_id},
};

/// The first version with an error of the whole request; before, each partition repeats it.
const FIRST_WITH_TOP_ERROR: i16 = 2;
/// The first version that asks for many groups (KIP-709).
const FIRST_BATCHED: i16 = 8;

/// A topic and the partitions asked for.
type Asked = (WireTopic, Vec<i32>);
/// A topic and what is known of the partitions asked for, or why the client does not learn it.
type Found = (
    WireTopic,
    Vec<(i32, Result<Option<CommittedOffset>, ErrorCode>)>,
);
/// What answers, and what its client may do.
type Asking<'a> = (&'a Context, &'a Rights);

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: OffsetFetchRequest = decode(&call.request)?;
    let reply = call.reply();
    let batched = call.version() >= FIRST_BATCHED;
    let ids: Vec<&GroupId> = if batched {
        request.groups.iter().map(|group| &group.group_id).collect()
    } else {
        vec![&request.group_id]
    };
    let rights = context.rights(&call);
    // A wait would tell a client without rights that the group has commits in flight. The answer logs the denial.
    let settling: Vec<_> = ids
        .into_iter()
        .filter(|id| rights.allows_quietly(Operation::Describe, ResourceType::Group, id))
        .filter_map(|id| context.groups.settling(id))
        .collect();
    if settling.is_empty() {
        return Ok(Taken::Now(answer((context, &rights), reply, request)));
    }
    let context = Arc::clone(context);
    Taken::later(async move {
        // Whether those commits succeed is for their own answers to tell.
        join_all(settling).await;
        answer((&context, &rights), reply, request)
    })
}

fn answer(asking: Asking<'_>, reply: Reply, request: OffsetFetchRequest) -> Answer {
    if reply.version >= FIRST_BATCHED {
        return many(asking, reply, request);
    }
    let stable = request.require_stable;
    let asked: Option<Vec<Asked>> = request.topics.map(|topics| {
        topics
            .into_iter()
            .map(|t| (t.name, t.partition_indexes))
            .collect()
    });
    one(asking, reply, &request.group_id, (asked, stable))
}

fn many(asking: Asking<'_>, reply: Reply, request: OffsetFetchRequest) -> Answer {
    let stable = request.require_stable;
    let groups: Vec<OffsetFetchResponseGroup> = request
        .groups
        .into_iter()
        .map(|group| {
            let asked: Option<Vec<Asked>> = group.topics.map(|topics| {
                topics
                    .into_iter()
                    .map(|t| (t.name, t.partition_indexes))
                    .collect()
            });
            let member = (group.member_id, group.member_epoch);
            match reply.version {
                FIRST_OFFSETS_BY_ID.. => {
                    of_group_by_id(asking, group.group_id, &member, (asked, stable))
                }
                _ => of_group(asking, group.group_id, &member, (asked, stable)),
            }
        })
        .collect();
    let error = first_error(groups.iter().map(|group| group.error_code));
    reply.with(&OffsetFetchResponse::default().with_groups(groups), error)
}

fn of_group(
    asking: Asking<'_>,
    group_id: GroupId,
    member: &(Option<StrBytes>, i32),
    asked: (Option<Vec<Asked>>, bool),
) -> OffsetFetchResponseGroup {
    let partition = |(index, committed): (i32, Result<Option<CommittedOffset>, ErrorCode>)| {
        let denied = code_of(&committed);
        let committed = committed.ok().flatten();
        let CommittedOffset {
            leader_epoch,
            metadata,
            ..
        } = known(&committed);
        OffsetFetchResponsePartitions::default()
            .with_partition_index(index)
            .with_committed_offset(offset_of(committed.as_ref()))
            .with_committed_leader_epoch(leader_epoch)
            .with_metadata(Some(text(metadata)))
            .with_error_code(denied)
    };
    let topic = |(name, partitions): Found| {
        OffsetFetchResponseTopics::default()
            .with_name(name)
            .with_partitions(partitions.into_iter().map(partition).collect())
    };
    let found = check_member(asking, &group_id, member);
    let found = found.and_then(|()| find(asking, &group_id, asked));
    let response = OffsetFetchResponseGroup::default().with_group_id(group_id);
    match found {
        Ok(found) => response.with_topics(found.into_iter().map(topic).collect()),
        Err(code) => response.with_error_code(code.code()),
    }
}

/// The same for a request that has ids in the place of names. What is committed in topics that are no more has no id, and
/// is left out where all is asked for.
fn of_group_by_id(
    asking: Asking<'_>,
    group_id: GroupId,
    member: &(Option<StrBytes>, i32),
    (asked, stable): (Option<Vec<Asked>>, bool),
) -> OffsetFetchResponseGroup {
    let logs = &asking.0.logs;
    let mut unknown = Vec::new();
    let named = asked.map(|asked| {
        let mut named = Vec::with_capacity(asked.len());
        for (written, indexes) in asked {
            match find_by_written_id(logs, &written) {
                Ok(topic) => named.push((WireTopic(text(topic.name.as_str())), indexes)),
                Err(id) => unknown.push(unknown_id(id, &indexes)),
            }
        }
        named
    });
    let mut response = of_group(asking, group_id, member, (named, stable));
    response.topics.retain_mut(|topic| {
        let name = std::mem::take(&mut topic.name);
        let found = TopicName::new(name.as_str()).ok();
        let found = found.and_then(|name| logs.topic(&name));
        topic.topic_id = found.as_ref().map_or_else(Uuid::nil, |found| found.id.0);
        found.is_some()
    });
    if response.error_code == NONE {
        response.topics.append(&mut unknown);
    }
    response
}

fn unknown_id(id: Uuid, indexes: &[i32]) -> OffsetFetchResponseTopics {
    let partition = |&index: &i32| {
        OffsetFetchResponsePartitions::default()
            .with_partition_index(index)
            .with_committed_offset(-1)
            .with_committed_leader_epoch(-1)
            .with_metadata(Some(text("")))
            .with_error_code(ErrorCode::UnknownTopicId.code())
    };
    OffsetFetchResponseTopics::default()
        .with_topic_id(id)
        .with_partitions(indexes.iter().map(partition).collect())
}

/// Checks a member of a consumer group (from version 9); others name none.
fn check_member(
    (context, rights): Asking<'_>,
    group_id: &str,
    (id, epoch): &(Option<StrBytes>, i32),
) -> Result<(), ErrorCode> {
    let Some(id) = id.as_ref().filter(|id| !id.is_empty() || *epoch >= 0) else {
        return Ok(());
    };
    rights.group(Operation::Describe, group_id)?;
    let checked = context.groups.check_fetch(group_id, id, *epoch);
    checked.map_err(|error| code::of_group(&error))
}

fn one(
    asking: Asking<'_>,
    reply: Reply,
    group_id: &GroupId,
    (asked, stable): (Option<Vec<Asked>>, bool),
) -> Answer {
    let top_error = reply.version >= FIRST_WITH_TOP_ERROR;
    let (found, error) = match find(asking, group_id, (asked.clone(), stable)) {
        Ok(found) => (found, NONE),
        Err(error) => {
            let none = |(name, indexes): Asked| {
                (
                    name,
                    indexes.into_iter().map(|index| (index, Ok(None))).collect(),
                )
            };
            let nothing = asked.unwrap_or_default().into_iter().map(none).collect();
            (nothing, error.code())
        }
    };
    let partition = |(index, committed): (i32, Result<Option<CommittedOffset>, ErrorCode>)| {
        let denied = code_of(&committed);
        let committed = committed.ok().flatten();
        let CommittedOffset {
            leader_epoch,
            metadata,
            ..
        } = known(&committed);
        OffsetFetchResponsePartition::default()
            .with_partition_index(index)
            .with_committed_offset(offset_of(committed.as_ref()))
            .with_committed_leader_epoch(leader_epoch)
            .with_metadata(Some(text(metadata)))
            .with_error_code(if error == NONE { denied } else { error })
    };
    let topic = |(name, partitions): Found| {
        OffsetFetchResponseTopic::default()
            .with_name(name)
            .with_partitions(partitions.into_iter().map(partition).collect())
    };
    let response = OffsetFetchResponse::default()
        .with_topics(found.into_iter().map(topic).collect())
        .with_error_code(if top_error { error } else { NONE });
    reply.with(&response, error)
}

/// The response for an offset; without one, the same values as Kafka.
fn known(committed: &Option<CommittedOffset>) -> CommittedOffset {
    let none = || CommittedOffset {
        offset: 0,
        leader_epoch: -1,
        metadata: String::new(),
        commit_ms: -1,
        expire_ms: None,
    };
    committed.clone().unwrap_or_else(none)
}

fn offset_of(committed: Option<&CommittedOffset>) -> i64 {
    committed.map_or(-1, |committed| committed.offset)
}

fn find(
    (context, rights): Asking<'_>,
    group_id: &str,
    (asked, stable): (Option<Vec<Asked>>, bool),
) -> Result<Vec<Found>, ErrorCode> {
    rights.group(Operation::Describe, group_id)?;
    let Some(asked) = asked else {
        let all = all((context, rights), group_id, stable);
        return all.map_err(|error| code::of_group(&error));
    };
    let find = |(name, indexes): Asked| {
        let allowed = rights.topic(Operation::Describe, &name);
        let topic = TopicName::new(name.as_str()).ok();
        let one = |index: i32| match allowed {
            Ok(()) => {
                let found = offset(context, (group_id, stable), topic.as_ref(), index)?;
                Ok((index, found))
            }
            Err(code) => Ok((index, Err(code))),
        };
        let found: Result<Vec<_>, GroupError> = indexes.into_iter().map(one).collect();
        Ok((name, found.map_err(|error| code::of_group(&error))?))
    };
    asked.into_iter().map(find).collect()
}

fn offset(
    context: &Context,
    (group_id, stable): (&str, bool),
    topic: Option<&TopicName>,
    index: i32,
) -> Result<Result<Option<CommittedOffset>, ErrorCode>, GroupError> {
    let (Some(topic), Ok(partition)) = (topic, u32::try_from(index)) else {
        return Ok(Ok(None));
    };
    let partition = TopicPartition {
        topic: topic.clone(),
        partition,
    };
    if stable {
        return Ok(known_or_unstable(
            context.groups.stable_offset(group_id, &partition)?,
        ));
    }
    let mut found = context.groups.offsets(group_id, &[partition])?;
    Ok(Ok(found.pop().flatten()))
}

fn known_or_unstable(found: StableOffset) -> Result<Option<CommittedOffset>, ErrorCode> {
    match found {
        StableOffset::Stable(committed) => Ok(committed),
        StableOffset::Unstable => Err(ErrorCode::UnstableOffsetCommit),
    }
}

/// All offsets of the group, without those of topics that the client may not describe.
fn all(
    (context, rights): Asking<'_>,
    group_id: &str,
    stable: bool,
) -> Result<Vec<Found>, GroupError> {
    let mut topics: Vec<Found> = Vec::new();
    let found = match stable {
        true => context.groups.stable_offsets(group_id)?,
        false => { context.groups.all_offsets(group_id)?.into_iter() }
            .map(|(partition, committed)| (partition, StableOffset::Stable(Some(committed))))
            .collect(),
    };
    // They come in the order of their topics.
    for (partition, found) in found {
        let index = i32::try_from(partition.partition).unwrap_or(i32::MAX);
        let committed = known_or_unstable(found);
        let name = partition.topic.as_str();
        match topics.last_mut() {
            Some((last, partitions)) if last.as_str() == name => {
                partitions.push((index, committed));
            }
            _ => topics.push((WireTopic(text(name)), vec![(index, committed)])),
        }
    }
    topics
        .retain(|(name, _)| rights.allows_quietly(Operation::Describe, ResourceType::Topic, name));
    Ok(topics)
}
