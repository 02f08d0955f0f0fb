//! What a member is told.

use std::{collections::BTreeMap, time::Duration};

use bytes::{Bytes, BytesMut};
use millrace_model::TopicId;
use millrace_share::AcquiredRecords;
use millrace_wire::{
    error_code::{ErrorCode, NONE},
    messages::{
        ShareFetchResponse,
        share_fetch_response::{
            AcquiredRecords as WireAcquired, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
            ShareFetchableTopicResponse,
        },
    },
    service::Peer,
};

use super::gather::{Gathered, Part};
use crate::{
    call::{Answer, Reply, code_of, first_error},
    context::Context,
    handlers::fetch::pay_egress,
    quota::{Payer, throttle_time_ms},
    share_partitions::{Acknowledged, Elsewhere, leaders_elsewhere},
    topics::wire_offset,
    zones::Zone,
};

/// What there is to tell.
pub(super) struct Told {
    /// Whether the request opened the session: then all of its partitions are told.
    pub(super) is_first: bool,
    pub(super) gathered: Gathered,
    pub(super) acknowledged: Vec<Acknowledged>,
}

/// Answers the whole request with an error.
pub(super) fn refuse(reply: Reply, code: ErrorCode) -> Answer {
    let response = ShareFetchResponse::default().with_error_code(code.code());
    reply.with(&response, code.code())
}

/// Writes the answer, once the network takes it. `until` says until when the client must not fetch.
pub(super) async fn write(
    (context, peer): (&Context, &Peer),
    reply: Reply,
    told: Told,
    (payer, until): (Option<Payer>, Option<Duration>),
) -> Answer {
    let Gathered {
        connection,
        hot_bytes,
        bytes,
        lock,
        ..
    } = told.gathered;
    pay_egress(context, connection, hot_bytes).await;
    let parts = parts(context, told);
    let codes = parts.iter().flat_map(|(partition, data)| {
        let both = [data.error_code, data.acknowledge_error_code];
        both.map(|code| (*partition, code))
    });
    let codes: Vec<_> = codes.collect();
    let elsewhere = leaders_elsewhere((context, peer), &codes);
    let now = context.now();
    let paid = payer.and_then(|payer| payer.pay(bytes, now));
    let response = ShareFetchResponse::default()
        .with_throttle_time_ms(throttle_time_ms(until.max(paid), now))
        .with_acquisition_lock_timeout_ms(i32::try_from(lock.as_millis()).unwrap_or(i32::MAX))
        .with_node_endpoints(endpoints(&elsewhere))
        .with_responses(topics(parts, &elsewhere));
    reply.with(&response, first_error(codes.iter().map(|(_, code)| *code)))
}

/// What is told of each partition, in the order in which they were fetched.
fn parts(context: &Context, told: Told) -> Vec<((TopicId, i32), PartitionData)> {
    let mut acknowledged: BTreeMap<(TopicId, i32), i16> = BTreeMap::new();
    for one in told.acknowledged {
        acknowledged.insert(one.partition, code_of(&one.result));
    }
    let mut parts = Vec::new();
    for (partition, part) in told.gathered.parts {
        let code = acknowledged.remove(&partition);
        let is_news = told.is_first || code.is_some() || !matches!(part, Part::Nothing);
        if is_news {
            count(context, partition, &part);
            let data = data(partition.1, part);
            parts.push((
                partition,
                data.with_acknowledge_error_code(code.unwrap_or(NONE)),
            ));
        }
    }
    // Those that are not fetched any more.
    parts.extend(acknowledged.into_iter().map(|(partition, code)| {
        let data = data(partition.1, Part::Nothing);
        (partition, data.with_acknowledge_error_code(code))
    }));
    parts
}

fn data(index: i32, part: Part) -> PartitionData {
    let data = PartitionData::default().with_partition_index(index);
    match part {
        Part::Nothing => data.with_records(Some(Bytes::new())),
        Part::Failed(code) => data.with_error_code(code.code()),
        Part::Acquired { batches, ranges } => data
            .with_records(Some(joined(&batches)))
            .with_acquired_records(ranges.iter().map(acquired).collect()),
    }
}

fn joined(batches: &[Bytes]) -> Bytes {
    match batches {
        [one] => one.clone(),
        all => {
            let mut joined = BytesMut::with_capacity(all.iter().map(Bytes::len).sum());
            all.iter().for_each(|batch| joined.extend_from_slice(batch));
            joined.freeze()
        }
    }
}

fn acquired(range: &AcquiredRecords) -> WireAcquired {
    WireAcquired::default()
        .with_first_offset(wire_offset(range.first))
        .with_last_offset(wire_offset(range.last))
        .with_delivery_count(range.delivery_count)
}

fn count(context: &Context, (topic, index): (TopicId, i32), part: &Part) {
    let Part::Acquired { batches, .. } = part else {
        return;
    };
    let bytes: usize = batches.iter().map(Bytes::len).sum();
    if let Some(topic) = context.logs.topic_by_id(topic) {
        context.metrics.fetched(&topic.name, Zone::Unknown, bytes);
        let index = usize::try_from(index).ok();
        let partition = index.and_then(|index| topic.partitions.get(index));
        if let Some(log) = partition.and_then(|partition| partition.log()) {
            log.note_read(bytes as u64);
        }
    }
}

fn topics(
    parts: Vec<((TopicId, i32), PartitionData)>,
    elsewhere: &Elsewhere,
) -> Vec<ShareFetchableTopicResponse> {
    let mut topics: Vec<ShareFetchableTopicResponse> = Vec::new();
    let mut places: BTreeMap<TopicId, usize> = BTreeMap::new();
    for (partition, data) in parts {
        let (leader, epoch) = elsewhere.leader(partition);
        let leader = LeaderIdAndEpoch::default()
            .with_leader_id(leader)
            .with_leader_epoch(epoch);
        let at = *places.entry(partition.0).or_insert_with(|| {
            topics.push(ShareFetchableTopicResponse::default().with_topic_id(partition.0.0));
            topics.len() - 1
        });
        if let Some(topic) = topics.get_mut(at) {
            topic.partitions.push(data.with_current_leader(leader));
        }
    }
    topics
}

fn endpoints(elsewhere: &Elsewhere) -> Vec<NodeEndpoint> {
    let endpoints = elsewhere.members().map(|member| {
        NodeEndpoint::default()
            .with_node_id(member.id)
            .with_host(member.host.clone())
            .with_port(member.port)
            .with_rack(member.rack.clone())
    });
    endpoints.collect()
}
