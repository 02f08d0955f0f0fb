//! LeaveGroup: one member, or, in newer versions, many.

use std::sync::Arc;

use millrace_coordinator::{GroupError, messages::Leaving};
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        LeaveGroupRequest, LeaveGroupResponse, leave_group_request::MemberIdentity,
        leave_group_response::MemberResponse,
    },
};

use crate::{
    call::{Call, Outcome, first_error},
    code,
    context::{Context, text},
};

/// The first version in which many members leave at once (KIP-345).
const FIRST_BATCHED: i16 = 3;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: LeaveGroupRequest = decode(&call.request)?;
    let rights = context.rights(&call);
    if let Err(code) = rights.group(Operation::Read, &request.group_id) {
        return refuse(&call, code);
    }
    let batched = call.version() >= FIRST_BATCHED;
    let leaving: Vec<Leaving> = if batched {
        request.members.iter().map(own).collect()
    } else {
        vec![Leaving {
            member_id: request.member_id.to_string(),
            instance_id: None,
        }]
    };
    let left = match context.groups.leave(&request.group_id, &leaving) {
        Ok(left) => left,
        Err(error) => return refuse(&call, code::of_group(&error)),
    };
    let codes: Vec<i16> = left.iter().map(code).collect();
    let error = first_error(codes.iter().copied());
    if !batched {
        return call
            .reply()
            .now(&LeaveGroupResponse::default().with_error_code(error), error);
    }
    let member = |(leaving, code): (Leaving, i16)| {
        MemberResponse::default()
            .with_member_id(text(leaving.member_id))
            .with_group_instance_id(leaving.instance_id.map(text))
            .with_error_code(code)
    };
    let members = leaving.into_iter().zip(codes).map(member).collect();
    call.reply()
        .now(&LeaveGroupResponse::default().with_members(members), error)
}

fn refuse(call: &Call, code: ErrorCode) -> Outcome {
    let response = LeaveGroupResponse::default().with_error_code(code.code());
    call.reply().now(&response, code.code())
}

fn own(member: &MemberIdentity) -> Leaving {
    Leaving {
        member_id: member.member_id.to_string(),
        instance_id: member.group_instance_id.as_ref().map(ToString::to_string),
    }
}

fn code(left: &Result<(), GroupError>) -> i16 {
    left.as_ref()
        .err()
        .map_or(NONE, |error| code::of_group(error).code())
}
