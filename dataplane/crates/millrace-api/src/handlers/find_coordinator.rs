//! FindCoordinator: the broker that leads the group's partition of `__consumer_offsets`, the transactional id's of
//! `__transaction_state`, or the share partition's of `__share_group_state`.

use std::sync::Arc;

use millrace_coordinator::{SharePartition, partition_of, share_partition_of};
use millrace_log::{CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC};
use millrace_security::acl::Operation;
use millrace_wire::{
    StrBytes, decode,
    error_code::{ErrorCode, NONE},
    messages::{
        BrokerId, FindCoordinatorRequest, FindCoordinatorResponse,
        find_coordinator_response::Coordinator,
    },
    service::Peer,
};

use crate::{
    authorization::Rights,
    call::{Answer, Call, Outcome, Reply, Taken, first_error},
    context::{Context, text},
    members::Member,
    topics::Refused,
};

/// The first version that asks for many keys at once (KIP-699).
const FIRST_BATCHED: i16 = 4;
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
/// A share partition (KIP-932), by its [key](SharePartition::coordinator_key).
const SHARE: i8 = 2;
/// The first version that finds the coordinators of share partitions.
const FIRST_WITH_SHARES: i16 = 6;

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: FindCoordinatorRequest = decode(&call.request)?;
    let (context, reply) = (Arc::clone(context), call.reply());
    // The first time, the topic that keeps the groups is created.
    let rights = context.rights(&call);
    Taken::later(async move { answer(&context, (&rights, &call.peer), reply, request).await })
}

async fn answer(
    context: &Context,
    (rights, peer): (&Rights, &Peer),
    reply: Reply,
    request: FindCoordinatorRequest,
) -> Answer {
    let kind = request.key_type;
    let is_batched = reply.version >= FIRST_BATCHED;
    let keys = match is_batched {
        true => request.coordinator_keys,
        false => vec![request.key],
    };
    let check = |key: StrBytes| {
        let allowed = match kind {
            SHARE => check_share(rights, reply.version, &key),
            _ => check(rights, kind, &key),
        };
        (allowed, key)
    };
    let checked: Vec<(Result<(), Refused>, StrBytes)> = keys.into_iter().map(check).collect();
    // A client without rights must not make the broker create the topic of the groups.
    let found = match checked.iter().any(|(allowed, _)| allowed.is_ok()) {
        true => find(context, kind).await,
        false => Ok(()),
    };
    let coordinator = |(allowed, key): (Result<(), Refused>, StrBytes)| {
        let found = allowed.and_then(|()| found.clone());
        let found = found.and_then(|()| locate(context, peer, kind, &key));
        coordinator(key, found)
    };
    let coordinators: Vec<Coordinator> = checked.into_iter().map(coordinator).collect();
    let error = first_error(coordinators.iter().map(|c| c.error_code));
    if is_batched {
        let response = FindCoordinatorResponse::default().with_coordinators(coordinators);
        return reply.with(&response, error);
    }
    let found = coordinators.into_iter().next().unwrap_or_default();
    let response = FindCoordinatorResponse::default()
        .with_error_code(found.error_code)
        .with_error_message(match found.error_code {
            NONE => Some(text("NONE")),
            _ => found.error_message,
        })
        .with_node_id(found.node_id)
        .with_host(found.host)
        .with_port(found.port);
    reply.with(&response, error)
}

/// Whether the client may know of the group or transaction.
fn check(rights: &Rights, kind: i8, key: &str) -> Result<(), Refused> {
    let allowed = match kind {
        GROUP => rights.group(Operation::Describe, key),
        TRANSACTION => rights.transactional_id(Operation::Describe, key),
        _ => Ok(()),
    };
    allowed.map_err(|code| Refused::new(code, code.to_string()))
}

/// Whether the client may know of the share partition: only brokers may.
fn check_share(rights: &Rights, version: i16, key: &str) -> Result<(), Refused> {
    let invalid = |message| Err(Refused::new(ErrorCode::InvalidRequest, message));
    if version < FIRST_WITH_SHARES {
        return invalid("this version does not find share partitions");
    }
    rights.cluster(Operation::ClusterAction)?;
    let partition = SharePartition::of_coordinator_key(key);
    match partition.is_some_and(|partition| !partition.group_id.trim().is_empty()) {
        true => Ok(()),
        false => invalid("the key of a share partition is group:topicId:partition"),
    }
}

async fn find(context: &Context, key_type: i8) -> Result<(), Refused> {
    match key_type {
        GROUP => context.groups.ready().await.map_err(|error| {
            tracing::warn!(%error, "consumer groups are not ready");
            Refused::from(ErrorCode::CoordinatorNotAvailable)
        }),
        TRANSACTION => context.transactions.ready().await.map_err(|error| {
            tracing::warn!(%error, "transactions are not ready");
            Refused::from(ErrorCode::CoordinatorNotAvailable)
        }),
        SHARE => context.share_coordinator.ready().await.map_err(|error| {
            tracing::warn!(%error, "share partitions are not ready");
            Refused::from(ErrorCode::CoordinatorNotAvailable)
        }),
        other => {
            let message = format!("coordinator type {other} is not supported");
            Err(Refused::new(ErrorCode::InvalidRequest, message))
        }
    }
}

/// The broker that keeps a group, a transactional id or a share partition.
fn locate(context: &Context, peer: &Peer, kind: i8, key: &str) -> Result<Member, Refused> {
    let leader = match kind {
        TRANSACTION => context.coordinator_of(TRANSACTION_STATE_TOPIC, |n| partition_of(key, n)),
        SHARE => context.coordinator_of(SHARE_GROUP_STATE_TOPIC, |n| share_partition_of(key, n)),
        _ => context.coordinator_of(CONSUMER_OFFSETS_TOPIC, |n| partition_of(key, n)),
    };
    let member = leader.and_then(|leader| context.member(leader, peer));
    member.ok_or_else(|| Refused::from(ErrorCode::CoordinatorNotAvailable))
}

fn coordinator(key: StrBytes, found: Result<Member, Refused>) -> Coordinator {
    let entry = Coordinator::default().with_key(key);
    match found {
        Ok(member) => entry
            .with_node_id(member.id)
            .with_host(member.host)
            .with_port(member.port)
            .with_error_code(NONE)
            .with_error_message(Some(StrBytes::default())),
        Err(refused) => {
            let (error, message) = Refused::parts::<()>(&Err(refused));
            entry
                .with_node_id(BrokerId(-1))
                .with_port(-1)
                .with_error_code(error)
                .with_error_message(message)
        }
    }
}
