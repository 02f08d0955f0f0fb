//! Fetch: what is in memory is answered at once; what is not there yet is waited for in the
//! purgatory; what has left memory is read from the broker's log or from objects in stage 2.
//!
//! Fetch sessions (KIP-227) are declined: every answer has session id 0, so clients send whole
//! requests, which any broker accepts.

mod answer;
mod cold;
mod plan;

use std::{sync::Arc, time::Duration};

use millrace_wire::{
    decode,
    error_code::ErrorCode,
    messages::{FetchRequest, fetch_request::FetchTopic},
};

pub(crate) use self::cold::ColdReads;
use self::{answer::Gathered, plan::Plan};
use crate::{
    call::{Answer, Call, Outcome, Reply, Taken},
    context::Context,
    quota::Payer,
};

/// A session that the client wants to begin anew (0) or not at all (−1).
const NO_SESSION: i32 = 0;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: FetchRequest = decode(&call.request)?;
    let reply = call.reply();
    if request.session_id != NO_SESSION {
        return Ok(Taken::Now(answer::refuse(
            reply,
            ErrorCode::FetchSessionIdNotFound,
        )));
    }
    let payer = context.quotas.consumer(&call);
    if let Some(until) = owes(context, payer.as_ref()) {
        return Ok(Taken::Now(answer::throttled(context, reply, until)));
    }
    let plan = Plan::new(context, reply, &request, payer);
    let gathered = plan.read_memory();
    if gathered.suffices(&plan) {
        return Ok(Taken::Now(answer::write(context, reply, &plan, gathered)));
    }
    let context = Arc::clone(context);
    Taken::later(async move { wait_and_read(&context, reply, plan, gathered).await })
}

/// Until when the client must not fetch, where it has fetched more than its quota.
fn owes(context: &Context, payer: Option<&Payer>) -> Option<Duration> {
    payer.and_then(|payer| payer.owes(context.now()))
}

/// Reads from objects what is not in memory; where that leaves too little, waits for more.
async fn wait_and_read(
    context: &Context,
    reply: Reply,
    plan: Plan,
    mut gathered: Gathered,
) -> Answer {
    let mut waited = Duration::ZERO;
    if !gathered.missed_any() {
        let began = context.now();
        plan.wait(context).await;
        waited = context.now().saturating_sub(began);
        // Its other connections may have used the quota up meanwhile.
        if let Some(until) = owes(context, plan.payer.as_ref()) {
            let mut answer = answer::throttled(context, reply, until);
            answer.waited = waited;
            return answer;
        }
        gathered = plan.read_memory();
    }
    if gathered.missed_any() {
        cold::read(context, &plan, &mut gathered).await;
    }
    let mut answer = answer::write(context, reply, &plan, gathered);
    answer.waited = waited;
    answer
}

/// Which topic a part of the request is about, as it must be repeated in the answer.
#[derive(Debug, Clone)]
struct TopicKey {
    name: millrace_wire::StrBytes,
    id: uuid::Uuid,
}

impl From<&FetchTopic> for TopicKey {
    fn from(topic: &FetchTopic) -> Self {
        Self {
            name: topic.topic.0.clone(),
            id: topic.topic_id,
        }
    }
}
