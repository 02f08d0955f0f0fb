//! What the APIs that describe groups of a new protocol have in common (KIP-848, KIP-932).

use millrace_coordinator::GroupError;
use millrace_security::acl::{Operation, ResourceType};
use millrace_wire::error_code::ErrorCode;

use crate::{authorization::Rights, code, topics::Refused};

/// A group's description, where there is such a group and the client may describe it and all topics that are named.
pub(crate) fn find<D>(
    rights: &Rights,
    id: &str,
    describe: impl FnOnce(&str) -> Result<D, GroupError>,
    topics: impl FnOnce(&D) -> Vec<&str>,
) -> Result<D, Refused> {
    rights.group(Operation::Describe, id)?;
    if id.is_empty() {
        return Err(ErrorCode::InvalidGroupId.into());
    }
    let group = describe(id).map_err(|error| match error {
        GroupError::GroupIdNotFound => {
            Refused::new(ErrorCode::GroupIdNotFound, format!("Group {id} not found."))
        }
        error => Refused::new(code::of_group(&error), error.to_string()),
    })?;
    let sees = |topic: &str| rights.allows_quietly(Operation::Describe, ResourceType::Topic, topic);
    if !topics(&group).into_iter().all(sees) {
        let message =
            "The group has described topic(s) that the client is not authorized to describe.";
        return Err(Refused::new(ErrorCode::TopicAuthorizationFailed, message));
    }
    Ok(group)
}
