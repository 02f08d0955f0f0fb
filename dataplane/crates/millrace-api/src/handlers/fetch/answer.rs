//! The records read so far, and the encoding of the response.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_limiter::Pacer;
use millrace_log::ReadResult;
use millrace_model::TopicId;
use millrace_wire::{
    AbortedTransaction, FetchAnswer, FetchEndpoint, FetchedPartition, FetchedTopic, Pace,
    encode_fetch,
    error_code::{ErrorCode, NONE},
    messages::{BrokerId, TopicName as WireTopic},
    service::{BoxFuture, Peer},
};

use super::{
    resolve::{ResolvedFetch, Wanted},
    route::{NotServed, away},
};
use crate::{
    call::{Answer, Reply, first_error},
    code,
    cold_reads::{ColdReadError, Source, SourceLog},
    context::Context,
    quota::throttle_time_ms,
    topics::{FIRST_WITH_TOPIC_IDS, find, wire_offset},
    zones::Zone,
};

/// What was found of one partition.
#[derive(Debug)]
pub(super) enum Part {
    /// Whole batches from memory, perhaps none.
    Hot(ReadResult),
    /// Whole batches from elsewhere.
    Cold(ReadResult),
    /// There are records, but not in memory.
    Missed,
    /// Nothing can be read.
    Failed(ErrorCode),
    /// Another broker is to be asked.
    Elsewhere(BrokerId, Option<ReadResult>),
}

/// What was found of all partitions, in the order of the request.
#[derive(Debug)]
pub(super) struct Gathered {
    parts: Vec<Part>,
    bytes: usize,
    /// Those of `bytes` that come from memory, and are not paid for yet.
    hot_bytes: usize,
}

impl Part {
    /// What is not read here.
    pub(super) fn unread(unread: NotServed) -> Self {
        match unread {
            NotServed::Failed(code) => Self::Failed(code),
            NotServed::Elsewhere(broker, known) => Self::Elsewhere(broker, known),
        }
    }

    /// What a cold read has come to. What a broker that does not lead the partition cannot read, its leader answers.
    pub(super) fn cold(source: &Source, read: Result<ReadResult, ColdReadError>) -> Self {
        let error = match read {
            Ok(read) => return Self::Cold(read),
            Err(error) => error,
        };
        tracing::debug!(%error, "a fetch could not read");
        match (&error, &source.log) {
            (ColdReadError::Led(error), _) => Self::Failed(code::of_read(error)),
            (ColdReadError::Committed(_), SourceLog::Committed { leader, .. }) => {
                Self::unread(away(*leader))
            }
            (ColdReadError::Committed(_), SourceLog::Led(_)) => Self::unread(away(None)),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Hot(read) | Self::Cold(read) => read.batches.iter().map(Bytes::len).sum(),
            Self::Missed | Self::Failed(_) | Self::Elsewhere(..) => 0,
        }
    }

    fn hot_bytes(&self) -> usize {
        if matches!(self, Self::Hot(_)) {
            self.bytes()
        } else {
            0
        }
    }
}

impl Gathered {
    pub(super) fn new(partitions: usize) -> Self {
        Self {
            parts: Vec::with_capacity(partitions),
            bytes: 0,
            hot_bytes: 0,
        }
    }

    pub(super) fn push(&mut self, part: Part) {
        self.bytes += part.bytes();
        self.hot_bytes += part.hot_bytes();
        self.parts.push(part);
    }

    /// Puts another part in the place of one.
    pub(super) fn fill(&mut self, at: usize, part: Part) {
        if let Some(place) = self.parts.get_mut(at) {
            self.bytes = self.bytes + part.bytes() - place.bytes();
            self.hot_bytes = self.hot_bytes + part.hot_bytes() - place.hot_bytes();
            *place = part;
        }
    }

    /// Bytes of records so far.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Those of them that were in memory.
    pub(super) const fn hot_bytes(&self) -> usize {
        self.hot_bytes
    }

    /// Those of them that were read elsewhere, and are paid for.
    pub(super) const fn cold_bytes(&self) -> usize {
        self.bytes - self.hot_bytes
    }

    /// The places in the request of what came from memory, with its bytes.
    pub(super) fn hot(&self) -> impl Iterator<Item = (usize, usize)> {
        let parts = self.parts.iter().enumerate();
        parts
            .filter(|(_, part)| matches!(part, Part::Hot(_)))
            .map(|(at, part)| (at, part.bytes()))
    }

    pub(super) fn missed_any(&self) -> bool {
        self.missed().next().is_some()
    }

    /// The places in the request of what was missed.
    pub(super) fn missed(&self) -> impl Iterator<Item = usize> {
        let parts = self.parts.iter().enumerate();
        parts
            .filter(|(_, part)| matches!(part, Part::Missed))
            .map(|(at, _)| at)
    }

    /// Whether this can be answered without waiting: there is enough, or an error or another broker to tell, or the
    /// client does not want to wait. Where all that there is would be missing, it is waited for in
    /// any case: a client that is answered with nothing asks again at once.
    pub(super) fn suffices(&self, fetch: &ResolvedFetch) -> bool {
        let failed = self
            .parts
            .iter()
            .any(|part| matches!(part, Part::Failed(_) | Part::Elsewhere(..)));
        let enough = self.bytes >= fetch.bytes_min;
        let no_wait = fetch.wait.is_zero() || fetch.partitions.is_empty();
        let nothing_but_missed = self.bytes == 0 && self.missed_any();
        failed || (!nothing_but_missed && (enough || no_wait))
    }
}

/// Answers the whole request with an error.
pub(super) fn refuse(reply: Reply, code: ErrorCode) -> Answer {
    let answer = FetchAnswer {
        error_code: code.code(),
        ..FetchAnswer::default()
    };
    let response = encode_fetch(reply.version, reply.correlation_id, answer);
    Reply::finished(
        response.expect("an answer without topics is small"),
        code.code(),
    )
}

/// Answers without records a client that must not fetch before a time: an empty answer with a
/// throttle time, which clients do not take for an invalid one (KIP-219).
pub(super) fn throttled(
    context: &Context,
    reply: Reply,
    session_id: i32,
    until: Duration,
) -> Answer {
    let answer = FetchAnswer {
        // The wait may have passed meanwhile; with 0, an empty answer would be an invalid one.
        throttle_time_ms: throttle_time_ms(Some(until), context.now()).max(1),
        session_id,
        ..FetchAnswer::default()
    };
    let response = encode_fetch(reply.version, reply.correlation_id, answer);
    Reply::finished(response.expect("an answer without topics is small"), NONE)
}

/// Writes the answer and counts what it carries.
pub(super) fn write(
    context: &Context,
    reply: Reply,
    fetch: &ResolvedFetch,
    gathered: Gathered,
) -> Answer {
    let mut topics: Vec<FetchedTopic> = fetch
        .topics
        .iter()
        .map(|key| FetchedTopic {
            topic: key.name.clone(),
            topic_id: TopicId(key.id),
            partitions: Vec::new(),
        })
        .collect();
    let bytes = gathered.bytes;
    let is_catch_up = gathered.cold_bytes() > 0;
    for (wanted, part) in fetch.partitions.iter().zip(gathered.parts) {
        count((context, fetch.zone), wanted, &part);
        if let Some(topic) = topics.get_mut(wanted.topic) {
            topic.partitions.push(fetched(wanted, part));
        }
    }
    let all = topics.iter().flat_map(|topic| &topic.partitions);
    let error = first_error(all.map(|partition| partition.error_code));
    let endpoints = match &fetch.peer {
        Some(peer) if error != NONE => name_leaders((context, peer), reply, &mut topics),
        _ => Vec::new(),
    };
    let now = context.now();
    let throttled = fetch.payer.as_ref().and_then(|payer| payer.pay(bytes, now));
    let mut answer = FetchAnswer {
        throttle_time_ms: throttle_time_ms(throttled, now),
        topics,
        endpoints,
        ..FetchAnswer::default()
    };
    let session = &fetch.session;
    session.answer(&context.fetch_sessions, &mut answer, now);
    let error = first_error([answer.error_code, error]);
    let response = encode_fetch(reply.version, reply.correlation_id, answer);
    let mut response = response.expect("fetch.max.bytes keeps answers far below 2 GiB");
    if is_catch_up {
        // It may have tens of mebibytes, and acknowledgements go first.
        let spread = context.network.spread.clone();
        response = response.in_background(Arc::new(Spread(spread)));
    }
    Reply::finished(response, error)
}

/// The pace of answers with old data.
#[derive(Debug)]
struct Spread(Pacer);

impl Pace for Spread {
    fn pass(&self, bytes: u64) -> BoxFuture<'_, ()> {
        Box::pin(self.0.pass(bytes))
    }
}

/// Says of partitions that other brokers lead which ones these are, so that the client need not ask (KIP-951); gives where
/// they are.
fn name_leaders(
    (context, peer): (&Context, &Peer),
    reply: Reply,
    topics: &mut [FetchedTopic],
) -> Vec<FetchEndpoint> {
    let by_id = reply.version >= FIRST_WITH_TOPIC_IDS;
    let mut endpoints: Vec<FetchEndpoint> = Vec::new();
    for of_topic in topics {
        let elsewhere = of_topic.partitions.iter_mut();
        let mut elsewhere = elsewhere
            .filter(|partition| is_of_leader(partition.error_code))
            .peekable();
        if elsewhere.peek().is_none() {
            continue;
        }
        let name = WireTopic(of_topic.topic.clone());
        let Ok(topic) = find(&context.logs, by_id, &name, of_topic.topic_id.0) else {
            continue;
        };
        for partition in elsewhere {
            let leader = context.leader_elsewhere(&topic, partition.index, peer);
            let Some((leader, epoch)) = leader else {
                continue;
            };
            partition.current_leader = Some((leader.id.0, epoch));
            let endpoint = FetchEndpoint {
                node_id: leader.id.0,
                host: leader.host,
                port: leader.port,
                rack: leader.rack,
            };
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
            }
        }
    }
    endpoints
}

/// Whether an error is about who leads the partition, and since when.
fn is_of_leader(code: i16) -> bool {
    code == ErrorCode::NotLeaderOrFollower.code() || code == ErrorCode::FencedLeaderEpoch.code()
}

fn count((context, zone): (&Context, Zone), wanted: &Wanted, part: &Part) {
    let (Ok(source), bytes @ 1..) = (&wanted.source, part.bytes()) else {
        return;
    };
    let topic = &source.log.id().topic;
    context.metrics.fetched(topic, zone, bytes);
    if let Some(log) = source.log.led() {
        log.note_read(bytes as u64);
    }
}

/// Whether there was nothing to read from. As in Kafka, the answer then lists no aborted transactions; after a
/// read that failed, it has no list.
const fn was_not_read(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::TopicAuthorizationFailed
    )
}

fn aborted(transactions: Vec<millrace_log::AbortedTransaction>) -> Vec<AbortedTransaction> {
    let wire = |one: millrace_log::AbortedTransaction| AbortedTransaction {
        producer_id: one.producer_id,
        first_offset: wire_offset(one.first_offset),
    };
    transactions.into_iter().map(wire).collect()
}

fn fetched(wanted: &Wanted, part: Part) -> FetchedPartition {
    let empty = FetchedPartition {
        index: wanted.index,
        ..FetchedPartition::default()
    };
    let with = |read: ReadResult| FetchedPartition {
        error_code: NONE,
        high_watermark: wire_offset(read.high_watermark),
        last_stable_offset: wire_offset(read.last_stable_offset),
        log_start_offset: wire_offset(read.log_start),
        aborted_transactions: read.aborted_transactions.map(aborted),
        records: read.batches,
        ..empty.clone()
    };
    match (part, &wanted.source) {
        (Part::Hot(read) | Part::Cold(read), _) => with(read),
        // Objects took too long. The client asks again; meanwhile they may have come.
        (Part::Missed, Ok(source)) => source.nothing().map_or(empty.clone(), with),
        (Part::Missed, Err(unread)) => fetched(wanted, Part::unread(unread.clone())),
        (Part::Failed(code), _) => FetchedPartition {
            error_code: code.code(),
            aborted_transactions: was_not_read(code).then(Vec::new),
            ..empty
        },
        (Part::Elsewhere(broker, known), _) => FetchedPartition {
            preferred_read_replica: broker.0,
            ..known.map_or(empty.clone(), with)
        },
    }
}
