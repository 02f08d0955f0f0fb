//! ShareGroupDescribe (KIP-932).

use std::sync::Arc;

use millrace_coordinator::messages::{
    NamedPartitions, ShareGroupDescription, ShareMemberDescription,
};
use millrace_security::acl::ResourceType;
use millrace_wire::{
    decode,
    messages::{
        GroupId, ShareGroupDescribeRequest, ShareGroupDescribeResponse, TopicName as WireTopic,
        share_group_describe_response::{
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

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ShareGroupDescribeRequest = decode(&call.request)?;
    let rights = context.rights(&call);
    let operations = |id: &str| match request.include_authorized_operations {
        true => rights.operations(ResourceType::Group, id),
        false => OPERATIONS_NOT_ASKED,
    };
    let describe = |id: GroupId| {
        let describe = |id: &str| context.groups.describe_share(id);
        match group_descriptions::find(&rights, &id, describe, topics_of) {
            Ok(group) => {
                let operations = operations(&id);
                described(id, group).with_authorized_operations(operations)
            }
            Err(refused) => failed(id, refused),
        }
    };
    let groups: Vec<_> = request.group_ids.into_iter().map(describe).collect();
    let error = first_error(groups.iter().map(|group| group.error_code));
    let response = ShareGroupDescribeResponse::default().with_groups(groups);
    call.reply().now(&response, error)
}

/// The topics that the description names.
fn topics_of(group: &ShareGroupDescription) -> Vec<&str> {
    let of_member = group.members.iter().flat_map(|member| {
        let assigned = member.assignment.iter();
        let assigned = assigned.map(|(_, name, _)| name.as_str());
        member.names.iter().map(String::as_str).chain(assigned)
    });
    of_member.collect()
}

fn described(id: GroupId, group: ShareGroupDescription) -> DescribedGroup {
    DescribedGroup::default()
        .with_group_id(id)
        .with_group_state(text(group.state.name()))
        .with_group_epoch(group.group_epoch)
        .with_assignment_epoch(group.assignment_epoch)
        .with_assignor_name(text(group.assignor))
        .with_members(group.members.into_iter().map(member).collect())
}

fn member(member: ShareMemberDescription) -> Member {
    let names = member.names.into_iter().map(|name| WireTopic(text(name)));
    Member::default()
        .with_member_id(text(member.member_id))
        .with_rack_id(member.rack_id.map(text))
        .with_member_epoch(member.member_epoch)
        .with_client_id(text(member.client_id))
        .with_client_host(text(member.client_host))
        .with_subscribed_topic_names(names.collect())
        .with_assignment(assignment(member.assignment))
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
