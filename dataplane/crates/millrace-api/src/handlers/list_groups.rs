//! ListGroups: all groups, or those in some states and of some types.

use std::sync::Arc;

use millrace_coordinator::messages::GroupListing;
use millrace_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use millrace_wire::{
    StrBytes, decode,
    error_code::NONE,
    messages::{GroupId, ListGroupsRequest, ListGroupsResponse, list_groups_response::ListedGroup},
};

use crate::{
    call::{Call, Outcome},
    context::{Context, text},
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ListGroupsRequest = decode(&call.request)?;
    let rights = context.rights(&call);
    // Who may describe the cluster sees all groups, others those that they may describe.
    let sees_all = rights.allows_quietly(Operation::Describe, ResourceType::Cluster, CLUSTER_NAME);
    let sees =
        |id: &str| sees_all || rights.allows_quietly(Operation::Describe, ResourceType::Group, id);
    let wanted = |group: &GroupListing| {
        is_among(&request.states_filter, group.state.name())
            && is_among(&request.types_filter, group.kind.name())
            && sees(&group.group_id)
    };
    let listed = |group: GroupListing| {
        let kind = group.kind.name();
        ListedGroup::default()
            .with_group_id(GroupId(text(group.group_id)))
            .with_protocol_type(text(group.protocol_type))
            .with_group_state(text(group.state.name()))
            .with_group_type(text(kind))
    };
    let groups = context
        .groups
        .list()
        .into_iter()
        .filter(wanted)
        .map(listed)
        .collect();
    call.reply()
        .now(&ListGroupsResponse::default().with_groups(groups), NONE)
}

/// Whether a filter lets a word pass; an empty one lets all.
fn is_among(filter: &[StrBytes], word: &str) -> bool {
    filter.is_empty()
        || filter
            .iter()
            .any(|wanted| wanted.eq_ignore_ascii_case(word))
}
