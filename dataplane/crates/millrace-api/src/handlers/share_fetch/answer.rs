//! What a member is told.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use millrace_model::TopicId;
use millrace_share::AcquiredRecords;
use millrace_wire::{
    AcquiredRange, FetchEndpoint, ShareFetchAnswer, ShareFetchedPartition, ShareFetchedTopic,
    encode_share_fetch, error_code::ErrorCode, service::Peer,
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

/// A partition, and what is told of it.
type ToldPartition = ((TopicId, i32), ShareFetchedPartition);

/// What there is to tell.
pub(super) struct Told {
    /// Whether the request opened the session: then all of its partitions are told.
    pub(super) is_first: bool,
    pub(super) gathered: Gathered,
    pub(super) acknowledged: Vec<Acknowledged>,
}

/// Answers the whole request with an error.
pub(super) fn refuse(reply: Reply, code: ErrorCode) -> Answer {
    let answer = ShareFetchAnswer {
        error_code: code.code(),
        ..ShareFetchAnswer::default()
    };
    encoded(reply, answer, code.code())
}

fn encoded(reply: Reply, answer: ShareFetchAnswer, error: i16) -> Answer {
    let response = encode_share_fetch(reply.version, reply.correlation_id, answer);
    Reply::finished(
        response.expect("fetch.max.bytes keeps answers far below 2 GiB"),
        error,
    )
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
    let answer = ShareFetchAnswer {
        throttle_time_ms: throttle_time_ms(until.max(paid), now),
        acquisition_lock_timeout_ms: i32::try_from(lock.as_millis()).unwrap_or(i32::MAX),
        topics: topics(parts, &elsewhere),
        endpoints: endpoints(&elsewhere),
        ..ShareFetchAnswer::default()
    };
    let error = first_error(codes.iter().map(|(_, code)| *code));
    encoded(reply, answer, error)
}

/// What is told of each partition, in the order in which they were fetched.
fn parts(context: &Context, told: Told) -> Vec<ToldPartition> {
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
            parts.push((partition, data(partition.1, code, part)));
        }
    }
    // Those that are not fetched any more.
    parts.extend(acknowledged.into_iter().map(|(partition, code)| {
        let data = data(partition.1, Some(code), Part::Nothing);
        (partition, data)
    }));
    parts
}

fn data(index: i32, acknowledged: Option<i16>, part: Part) -> ShareFetchedPartition {
    let data = ShareFetchedPartition {
        index,
        acknowledge_error_code: acknowledged.unwrap_or_default(),
        ..ShareFetchedPartition::default()
    };
    match part {
        Part::Nothing => data,
        Part::Failed(code) => ShareFetchedPartition {
            error_code: code.code(),
            ..data
        },
        Part::Acquired { batches, ranges } => ShareFetchedPartition {
            records: batches,
            acquired: ranges.iter().map(acquired).collect(),
            ..data
        },
    }
}

fn acquired(range: &AcquiredRecords) -> AcquiredRange {
    AcquiredRange {
        first_offset: wire_offset(range.first),
        last_offset: wire_offset(range.last),
        delivery_count: range.delivery_count,
    }
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

fn topics(parts: Vec<ToldPartition>, elsewhere: &Elsewhere) -> Vec<ShareFetchedTopic> {
    let mut topics: Vec<ShareFetchedTopic> = Vec::new();
    let mut places: BTreeMap<TopicId, usize> = BTreeMap::new();
    for (partition, data) in parts {
        let at = *places.entry(partition.0).or_insert_with(|| {
            topics.push(ShareFetchedTopic {
                topic_id: partition.0,
                partitions: Vec::new(),
            });
            topics.len() - 1
        });
        if let Some(topic) = topics.get_mut(at) {
            topic.partitions.push(ShareFetchedPartition {
                current_leader: elsewhere.leader(partition),
                ..data
            });
        }
    }
    topics
}

fn endpoints(elsewhere: &Elsewhere) -> Vec<FetchEndpoint> {
    let endpoints = elsewhere.members().map(|member| FetchEndpoint {
        node_id: member.id.0,
        host: member.host.clone(),
        port: member.port,
        rack: member.rack.clone(),
    });
    endpoints.collect()
}
