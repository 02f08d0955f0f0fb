//! ConsumerGroupDescribe (KIP-848).

use std::sync::Arc;

use millrace_coordinator::messages::{
    ConsumerDescription, ConsumerGroupDescription, NamedPartitions,
};
use millrace_security::acl::ResourceType;
use millrace_wire::{
    decode,
    messages::{
        ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, GroupId,
        TopicName as WireTopic,
        consumer_group_describe_response::{
            Assignment, DescribedGroup, Member, TopicPartitions as Assigned,
        },
    },
};

use crate::{
    call::{Call, Outcome, first_error},
    context::{Context, text},
    group_descriptions,
    topics::{OPERATIONS_NOT_ASKED, Refused},
};

/// The first version that tells which protocol a member uses (KIP-1099).
const FIRST_WITH_MEMBER_TYPE: i16 = 1;
const CLASSIC: i8 = 0;
const CONSUMER: i8 = 1;
/// What versions without the member's protocol have in its place.
const UNKNOWN: i8 = -1;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ConsumerGroupDescribeRequest = decode(&call.request)?;
    let rights = context.rights(&call);
    let operations = |id: &str| match request.include_authorized_operations {
        true => rights.operations(ResourceType::Group, id),
        false => OPERATIONS_NOT_ASKED,
    };
    let describe = |id: GroupId| {
        let describe = |id: &str| context.groups.describe_consumer(id);
        match group_descriptions::find(&rights, &id, describe, topics_of) {
            Ok(group) => {
                let operations = operations(&id);
                described(id, group, call.version()).with_authorized_operations(operations)
            }
            Err(refused) => failed(id, refused),
        }
    };
    let groups: Vec<_> = request.group_ids.into_iter().map(describe).collect();
    let error = first_error(groups.iter().map(|group| group.error_code));
    let response = ConsumerGroupDescribeResponse::default().with_groups(groups);
    call.reply().now(&response, error)
}

/// The topics that the description names.
fn topics_of(group: &ConsumerGroupDescription) -> Vec<&str> {
    let of_member = group.members.iter().flat_map(|member| {
        let assigned = member.assignment.iter().chain(&member.target);
        let assigned = assigned.map(|(_, name, _)| name.as_str());
        member.names.iter().map(String::as_str).chain(assigned)
    });
    of_member.collect()
}

fn described(id: GroupId, group: ConsumerGroupDescription, version: i16) -> DescribedGroup {
    let member = |described: ConsumerDescription| member(described, version);
    DescribedGroup::default()
        .with_group_id(id)
        .with_group_state(text(group.state.name()))
        .with_group_epoch(group.group_epoch)
        .with_assignment_epoch(group.assignment_epoch)
        .with_assignor_name(text(group.assignor))
        .with_members(group.members.into_iter().map(member).collect())
}

fn member(member: ConsumerDescription, version: i16) -> Member {
    let kind = match member.is_classic {
        _ if version < FIRST_WITH_MEMBER_TYPE => UNKNOWN,
        true => CLASSIC,
        false => CONSUMER,
    };
    let names = member.names.into_iter().map(|name| WireTopic(text(name)));
    Member::default()
        .with_member_id(text(member.member_id))
        .with_instance_id(member.instance_id.map(text))
        .with_rack_id(member.rack_id.map(text))
        .with_member_epoch(member.member_epoch)
        .with_client_id(text(member.client_id))
        .with_client_host(text(member.client_host))
        .with_subscribed_topic_names(names.collect())
        .with_subscribed_topic_regex(Some(text(member.pattern.unwrap_or_default())))
        .with_assignment(assignment(member.assignment))
        .with_target_assignment(assignment(member.target))
        .with_member_type(kind)
}

fn assignment(partitions: Vec<NamedPartitions>) -> Assignment {
    let topic = |(id, name, numbers): NamedPartitions| {
        let numbers = numbers.into_iter().flat_map(i32::try_from).collect();
        Assigned::default()
            .with_topic_id(id.0)
            .with_topic_name(WireTopic(text(name.as_str())))
            .with_partitions(numbers)
    };
    Assignment::default().with_topic_partitions(partitions.into_iter().map(topic).collect())
}

fn failed(id: GroupId, refused: Refused) -> DescribedGroup {
    DescribedGroup::default()
        .with_group_id(id)
        .with_error_code(refused.code.code())
        .with_error_message(refused.message.map(text))
}
