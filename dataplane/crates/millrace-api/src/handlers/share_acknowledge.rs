//! ShareAcknowledge (KIP-932): a member says what became of records that it holds, without fetching more.

use std::{collections::BTreeMap, sync::Arc};

use millrace_model::TopicId;
use millrace_share::SessionKey;
use millrace_wire::{
    decode,
    error_code::{ErrorCode, NONE},
    messages::{
        ShareAcknowledgeRequest, ShareAcknowledgeResponse,
        share_acknowledge_response::{
            LeaderIdAndEpoch, NodeEndpoint, PartitionData, ShareAcknowledgeTopicResponse,
        },
    },
    service::Peer,
};

use crate::{
    authorization::Rights,
    call::{Answer, Call, Outcome, Reply, Taken, code_of, first_error},
    context::Context,
    share_partitions::{
        Acknowledged, Acknowledging, AskedPartition, FINAL_EPOCH, acknowledge, leaders_elsewhere,
        member, of_session,
    },
};

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let request: ShareAcknowledgeRequest = decode(&call.request)?;
    let reply = call.reply();
    let rights = context.rights(&call);
    let taken = match take(context, &rights, &request) {
        Ok(taken) => taken,
        Err(code) => return refuse(reply, code),
    };
    let (context, peer) = (Arc::clone(context), call.peer);
    Taken::later(async move {
        let acknowledged = Acknowledging::all(taken).await;
        answer((&context, &peer), reply, &acknowledged)
    })
}

fn take(
    context: &Context,
    rights: &Rights,
    request: &ShareAcknowledgeRequest,
) -> Result<Vec<Acknowledging>, ErrorCode> {
    let key = member(
        rights,
        request.group_id.as_ref(),
        request.member_id.as_ref(),
    )?;
    let epoch = request.share_session_epoch;
    let is_last = epoch == FINAL_EPOCH;
    let entered = context.share.sessions(|sessions| match is_last {
        true => sessions.check(&key),
        false => sessions.acknowledge(&key, epoch),
    });
    entered.map_err(of_session)?;
    let taken = acknowledge_all(context, rights, &key, request);
    if is_last {
        // What was acknowledged is not held any more.
        context.share.close_session(&key);
    }
    Ok(taken)
}

fn acknowledge_all(
    context: &Context,
    rights: &Rights,
    key: &SessionKey,
    request: &ShareAcknowledgeRequest,
) -> Vec<Acknowledging> {
    let mut taken = Vec::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            let batches = partition.acknowledgement_batches.iter().map(|batch| {
                let types = batch.acknowledge_types.as_slice();
                (batch.first_offset, batch.last_offset, types)
            });
            let batches: Vec<_> = batches.collect();
            let asked = AskedPartition {
                partition: (TopicId(topic.topic_id), partition.partition_index),
                batches: &batches,
            };
            taken.push(acknowledge((context, rights), key, asked));
        }
    }
    taken
}

fn refuse(reply: Reply, code: ErrorCode) -> Outcome {
    let response = ShareAcknowledgeResponse::default().with_error_code(code.code());
    reply.now(&response, code.code())
}

fn answer(
    (context, peer): (&Context, &Peer),
    reply: Reply,
    acknowledged: &[Acknowledged],
) -> Answer {
    let codes = acknowledged
        .iter()
        .map(|one| (one.partition, code_of(&one.result)));
    let codes: Vec<_> = codes.collect();
    let elsewhere = leaders_elsewhere((context, peer), &codes);
    let mut topics: BTreeMap<TopicId, Vec<PartitionData>> = BTreeMap::new();
    for (partition, code) in &codes {
        let (leader, epoch) = elsewhere.leader(*partition).unwrap_or((-1, -1));
        let leader = LeaderIdAndEpoch::default()
            .with_leader_id(leader)
            .with_leader_epoch(epoch);
        let data = PartitionData::default()
            .with_partition_index(partition.1)
            .with_error_code(*code)
            .with_current_leader(leader);
        topics.entry(partition.0).or_default().push(data);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        ShareAcknowledgeTopicResponse::default()
            .with_topic_id(topic.0)
            .with_partitions(partitions)
    });
    let endpoints = elsewhere.members().map(|member| {
        NodeEndpoint::default()
            .with_node_id(member.id)
            .with_host(member.host.clone())
            .with_port(member.port)
            .with_rack(member.rack.clone())
    });
    let response = ShareAcknowledgeResponse::default()
        .with_error_code(NONE)
        .with_responses(topics.collect())
        .with_node_endpoints(endpoints.collect());
    reply.with(&response, first_error(codes.iter().map(|(_, code)| *code)))
}
