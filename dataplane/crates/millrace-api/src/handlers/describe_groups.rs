//! DescribeGroups.

use std::sync::Arc;

use millrace_coordinator::{
    GroupError,
    messages::{GroupDescription, GroupKind, GroupState, MemberDescription},
};
use millrace_security::acl::{Operation, ResourceType};
use millrace_wire::{
    decode,
    error_code::NONE,
    messages::{
        DescribeGroupsRequest, DescribeGroupsResponse, GroupId,
        describe_groups_response::{DescribedGroup, DescribedGroupMember},
    },
};

use crate::{
    call::{Call, Outcome, first_error},
    code,
    context::{Context, text},
    topics::OPERATIONS_NOT_ASKED,
};

/// The first version in which an unknown group is an error; before, it is described as dead.
const FIRST_WITH_NOT_FOUND: i16 = 6;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: DescribeGroupsRequest = decode(&call.request)?;
    let rights = context.rights(&call);
    let operations = |id: &str| match request.include_authorized_operations {
        true => rights.operations(ResourceType::Group, id),
        false => OPERATIONS_NOT_ASKED,
    };
    let describe = |id: GroupId| {
        if let Err(code) = rights.group(Operation::Describe, &id) {
            return dead(id, code.code());
        }
        match context.groups.describe(&id) {
            // ConsumerGroupDescribe and ShareGroupDescribe show the others.
            Ok(group) if group.kind != GroupKind::Classic => {
                unknown(id, &GroupError::GroupIdNotFound, call.version())
            }
            Ok(group) => {
                let operations = operations(&id);
                described(id, group).with_authorized_operations(operations)
            }
            Err(error) => unknown(id, &error, call.version()),
        }
    };
    let groups: Vec<_> = request.groups.into_iter().map(describe).collect();
    let error = first_error(groups.iter().map(|group| group.error_code));
    call.reply().now(
        &DescribeGroupsResponse::default().with_groups(groups),
        error,
    )
}

fn described(id: GroupId, group: GroupDescription) -> DescribedGroup {
    DescribedGroup::default()
        .with_group_id(id)
        .with_group_state(text(group.state.name()))
        .with_protocol_type(text(group.protocol_type))
        .with_protocol_data(text(group.protocol))
        .with_members(group.members.into_iter().map(member).collect())
}

fn member(member: MemberDescription) -> DescribedGroupMember {
    DescribedGroupMember::default()
        .with_member_id(text(member.member_id))
        .with_group_instance_id(member.instance_id.map(text))
        .with_client_id(text(member.client_id))
        .with_client_host(text(member.client_host))
        .with_member_metadata(member.metadata)
        .with_member_assignment(member.assignment)
}

fn unknown(id: GroupId, error: &GroupError, version: i16) -> DescribedGroup {
    let not_found = *error == GroupError::GroupIdNotFound;
    let code = match not_found {
        true if version < FIRST_WITH_NOT_FOUND => NONE,
        _ => code::of_group(error).code(),
    };
    let message = (not_found && version >= FIRST_WITH_NOT_FOUND)
        .then(|| text(format!("Group {} not found.", id.as_str())));
    dead(id, code).with_error_message(message)
}

fn dead(id: GroupId, code: i16) -> DescribedGroup {
    DescribedGroup::default()
        .with_group_id(id)
        .with_group_state(text(GroupState::Dead.name()))
        .with_error_code(code)
}
