//! SyncGroup: answered when the leader's assignment is durable.

use std::sync::Arc;

use bytes::Bytes;
use millrace_coordinator::messages::{Caller, SyncRequest, Synced};
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        SyncGroupRequest, SyncGroupResponse, sync_group_request::SyncGroupRequestAssignment,
    },
};

use crate::{
    call::{Answer, Call, Outcome, Reply, Taken},
    code,
    context::{Context, text},
};

/// The first version in which members say which protocol they believe in (KIP-559).
const FIRST_WITH_PROTOCOL: i16 = 5;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: SyncGroupRequest = decode(&call.request)?;
    let reply = call.reply();
    let says_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
    if call.version() >= FIRST_WITH_PROTOCOL && !says_protocol {
        return Ok(Taken::Now(refuse(
            reply,
            ErrorCode::InconsistentGroupProtocol,
        )));
    }
    let rights = context.rights(&call);
    if let Err(code) = rights.group(Operation::Read, &request.group_id) {
        return Ok(Taken::Now(refuse(reply, code)));
    }
    let syncing = context.groups.sync(own(request));
    Taken::later(async move {
        match syncing.await {
            Ok(synced) => tell(reply, synced),
            Err(error) => refuse(reply, code::of_group(&error)),
        }
    })
}

/// The request in the coordinator's terms, with bytes of its own.
fn own(request: SyncGroupRequest) -> SyncRequest {
    let assignment = |assignment: SyncGroupRequestAssignment| {
        let bytes = Bytes::copy_from_slice(&assignment.assignment);
        (assignment.member_id.to_string(), bytes)
    };
    SyncRequest {
        group_id: request.group_id.to_string(),
        caller: Caller {
            member_id: request.member_id.to_string(),
            instance_id: request.group_instance_id.map(|id| id.to_string()),
            generation: request.generation_id,
        },
        protocol_type: request.protocol_type.map(|kind| kind.to_string()),
        protocol: request.protocol_name.map(|name| name.to_string()),
        assignments: request.assignments.into_iter().map(assignment).collect(),
    }
}

fn tell(reply: Reply, synced: Synced) -> Answer {
    let response = SyncGroupResponse::default()
        .with_protocol_type(Some(text(synced.protocol_type)))
        .with_protocol_name(Some(text(synced.protocol)))
        .with_assignment(synced.assignment);
    reply.with(&response, NONE)
}

fn refuse(reply: Reply, code: ErrorCode) -> Answer {
    let response = SyncGroupResponse::default().with_error_code(code.code());
    reply.with(&response, code.code())
}
