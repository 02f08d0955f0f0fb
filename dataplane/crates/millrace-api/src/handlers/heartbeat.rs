//! Heartbeat: a member of a group is alive.

use std::sync::Arc;

use millrace_coordinator::messages::Caller;
use millrace_security::acl::Operation;
use millrace_wire::{
    decode,
    messages::{HeartbeatRequest, HeartbeatResponse},
};

use crate::{
    call::{Call, Outcome, code_of},
    code,
    context::Context,
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: HeartbeatRequest = decode(&call.request)?;
    let caller = Caller {
        member_id: request.member_id.to_string(),
        instance_id: request.group_instance_id.map(|id| id.to_string()),
        generation: request.generation_id,
    };
    let allowed = context
        .rights(&call)
        .group(Operation::Read, &request.group_id);
    let heard = allowed.and_then(|()| {
        let heard = context.groups.heartbeat(&request.group_id, &caller);
        heard.map_err(|error| code::of_group(&error))
    });
    let error = code_of(&heard);
    call.reply()
        .now(&HeartbeatResponse::default().with_error_code(error), error)
}
