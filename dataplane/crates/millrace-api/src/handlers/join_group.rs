//! JoinGroup: answered when the rebalance ends.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_coordinator::{
    GroupError,
    messages::{JoinRequest, Joined, JoinedMember, Protocol},
};
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        JoinGroupRequest, JoinGroupResponse, join_group_request::JoinGroupRequestProtocol,
        join_group_response::JoinGroupResponseMember,
    },
};

use crate::{
    call::{Answer, Call, Outcome, Reply, Taken},
    code,
    context::{Context, text},
};

/// The first version in which the rebalance has a timeout of its own.
const FIRST_WITH_REBALANCE_TIMEOUT: i16 = 1;
/// The first version in which a new member is told its id before it joins (KIP-394).
const FIRST_WITH_REQUIRED_ID: i16 = 4;
/// The first version whose answer names the protocol type, and no protocol on an error.
const FIRST_WITH_PROTOCOL_TYPE: i16 = 7;
/// The first version in which a static leader need not assign again (KIP-814).
const FIRST_WITH_SKIP_ASSIGNMENT: i16 = 9;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: JoinGroupRequest = decode(&call.request)?;
    let asked_as = request.member_id.to_string();
    let reply = call.reply();
    let rights = context.rights(&call);
    if let Err(code) = rights.group(Operation::Read, &request.group_id) {
        return Ok(Taken::Now(refuse(reply, code, asked_as)));
    }
    let joining = context.groups.join(own(&call, request));
    Taken::later(async move {
        match joining.await {
            Ok(joined) => tell(reply, joined),
            Err(error) => {
                let code = code::of_group(&error);
                let member_id = match error {
                    GroupError::MemberIdRequired(id) => id,
                    _ => asked_as,
                };
                refuse(reply, code, member_id)
            }
        }
    })
}

/// The request in the coordinator's terms. Bytes are copied, so that a member does not keep the
/// frame that it came in.
fn own(call: &Call, request: JoinGroupRequest) -> JoinRequest {
    let version = call.version();
    let session_timeout = millis(request.session_timeout_ms);
    let rebalance_timeout = match version {
        FIRST_WITH_REBALANCE_TIMEOUT.. => millis(request.rebalance_timeout_ms),
        _ => session_timeout,
    };
    let protocol = |protocol: JoinGroupRequestProtocol| Protocol {
        name: protocol.name.to_string(),
        metadata: Bytes::copy_from_slice(&protocol.metadata),
    };
    JoinRequest {
        group_id: request.group_id.to_string(),
        member_id: request.member_id.to_string(),
        instance_id: request.group_instance_id.map(|id| id.to_string()),
        client_id: call.client_id(),
        client_host: call.client_host(),
        session_timeout,
        rebalance_timeout,
        protocol_type: request.protocol_type.to_string(),
        protocols: request.protocols.into_iter().map(protocol).collect(),
        requires_known_member_id: version >= FIRST_WITH_REQUIRED_ID,
        can_skip_assignment: version >= FIRST_WITH_SKIP_ASSIGNMENT,
    }
}

fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

fn tell(reply: Reply, joined: Joined) -> Answer {
    let member = |member: JoinedMember| {
        JoinGroupResponseMember::default()
            .with_member_id(text(member.member_id))
            .with_group_instance_id(member.instance_id.map(text))
            .with_metadata(member.metadata)
    };
    let response = JoinGroupResponse::default()
        .with_generation_id(joined.generation)
        .with_protocol_type(Some(text(joined.protocol_type)))
        .with_protocol_name(Some(text(joined.protocol)))
        .with_leader(text(joined.leader))
        .with_skip_assignment(joined.skip_assignment)
        .with_member_id(text(joined.member_id))
        .with_members(joined.members.into_iter().map(member).collect());
    reply.with(&response, NONE)
}

fn refuse(reply: Reply, code: ErrorCode, member_id: String) -> Answer {
    let code = code.code();
    let no_protocol = (reply.version < FIRST_WITH_PROTOCOL_TYPE).then(|| text(""));
    let response = JoinGroupResponse::default()
        .with_error_code(code)
        .with_generation_id(-1)
        .with_protocol_type(None)
        .with_protocol_name(no_protocol)
        .with_member_id(text(member_id));
    reply.with(&response, code)
}
