//! Who sends a request of a share group.

use millrace_security::acl::Operation;
use millrace_share::{MEMBER_ID_BYTES_MAX, SessionError, SessionKey};
use millrace_wire::{StrBytes, error_code::ErrorCode, messages::GroupId};

use crate::authorization::Rights;

/// The member that sends a request. As in Kafka, the group's coordinator is not asked whether it is one.
///
/// # Errors
/// It may not read the group, or has no id that a member can have.
pub(crate) fn member(
    rights: &Rights,
    group: Option<&GroupId>,
    member: Option<&StrBytes>,
) -> Result<SessionKey, ErrorCode> {
    let group = group.map_or("", |group| group.as_str());
    rights.group(Operation::Read, group)?;
    if group.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let member = member.map_or("", StrBytes::as_str);
    if member.is_empty() || member.len() > MEMBER_ID_BYTES_MAX {
        return Err(ErrorCode::InvalidRequest);
    }
    Ok(SessionKey {
        group: group.to_owned(),
        member: member.to_owned(),
    })
}

pub(crate) const fn of_session(error: SessionError) -> ErrorCode {
    match error {
        SessionError::NotFound => ErrorCode::ShareSessionNotFound,
        SessionError::InvalidEpoch => ErrorCode::InvalidShareSessionEpoch,
        SessionError::LimitReached => ErrorCode::ShareSessionLimitReached,
    }
}
