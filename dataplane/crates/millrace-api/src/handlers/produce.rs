//! Produce: offsets are assigned in stage 1, in the order of the connection's requests; the answer
//! comes when the records are durable. Partitions succeed and fail each by itself.

mod timestamps;

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use bytes::BytesMut;
use futures_util::future::join_all;
use millrace_limiter::Tier;
use millrace_log::{AppendOrigin, AppendTicket, Appended, PartitionLog, Topic, error::AppendError};
use millrace_model::TopicId;
use millrace_record::{Batch, BatchLimits, Compression, InvalidBatch, split};
use millrace_security::acl::Operation;
use millrace_wire::{
    StrBytes,
    error_code::{ErrorCode, NONE},
    messages::{
        ProduceRequest, ProduceResponse, TransactionalId,
        produce_request::{PartitionProduceData, TopicProduceData},
        produce_response::{
            BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse,
            TopicProduceResponse,
        },
    },
    service::{CloseReason, Peer},
    split_produce,
};
use tokio::time::{Instant, Sleep, sleep, timeout_at};

use crate::{
    authorization::Rights,
    call::{Call, Outcome, Reply, Taken, first_error},
    code,
    context::{Context, text},
    members::Member,
    planned_moves::{self, ArrivalDeadline},
    quota::throttle_time_ms,
    topics::{
        FIRST_WITH_TOPIC_IDS, Refused, find, find_allowed, is_internal, partition, wire_offset,
    },
    transactions::{Candidate, verify},
};

/// The first version that says which broker leads instead (KIP-951).
const FIRST_WITH_LEADERS: i16 = 10;
/// The first version that may carry zstd (KIP-110).
const FIRST_WITH_ZSTD: i16 = 7;
/// The error message for a record without a key in a compacted topic.
const NO_KEY: &str = "Compacted topic cannot accept message without key.";

/// The shortest time that durability is waited for, whatever the client says: a write that takes
/// longer than a group commit must not be reported as lost while it is about to succeed.
const DURABLE_WAIT_MIN: Duration = Duration::from_secs(1);
/// The longest that a request waits. Clients give up earlier.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// How much of that may go by until there is room for all of its records: the connection's next
/// requests wait as well, and their clients give up after 30 s.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(10);

/// A partition's records, not validated and not appended yet.
struct Prepared {
    index: i32,
    batch: Result<Candidate, Refused>,
}

/// One topic of the request, with the records of its partitions.
struct PreparedTopic {
    topic: TopicProduceData,
    partitions: Vec<Prepared>,
}

/// How far one partition has come in stage 1.
struct Started {
    index: i32,
    progress: Result<AppendTicket, Refused>,
}

/// One topic of the request, with what its partitions have come to.
struct StartedTopic {
    topic: TopicProduceData,
    partitions: Vec<Started>,
}

pub(crate) async fn handle(context: &Arc<Context>, call: Call) -> Outcome {
    let reply = call.reply();
    let peer = context.config.members.is_some().then(|| call.peer.clone());
    let rights = context.rights(&call);
    // What producers send has come in already: others give way for it.
    let bytes = u64::try_from(call.request.body.len()).unwrap_or(u64::MAX);
    context.network.ingress.charge(Tier::WalUpload, bytes);
    let frame_bytes = call.request.frame_bytes;
    let payer = context.quotas.producer(&call);
    let throttled = payer.and_then(|payer| payer.pay(call.request.body.len(), context.now()));
    let (request, records) = split_produce(call.request)?;
    let ProduceRequest {
        transactional_id,
        acks,
        timeout_ms,
        topic_data,
        ..
    } = request;
    let wait = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0))
        .clamp(DURABLE_WAIT_MIN, WAIT_MAX);
    // One deadline for the whole request, and one within it for room.
    let deadline = sleep(wait).deadline();
    let mut room = pin!(sleep(wait.min(ROOM_WAIT_MAX)));
    let legal = check(&rights, transactional_id.as_ref());
    let mut arrival = ArrivalDeadline::default();
    let mut prepared = Vec::with_capacity(topic_data.len());
    for (mut topic, records) in topic_data.into_iter().zip(records) {
        let data = std::mem::take(&mut topic.partition_data);
        let partitions = match legal {
            Ok(()) => {
                let data = data.into_iter().zip(records);
                prepare_topic((context, &rights), reply, &topic, data, &mut arrival).await
            }
            Err(code) => data.iter().map(|data| refuse(data, code.into())).collect(),
        };
        prepared.push(PreparedTopic { topic, partitions });
    }
    let batches = prepared.iter_mut().flat_map(|topic| &mut topic.partitions);
    let mut batches = batches.map(|partition| &mut partition.batch);
    if !matches!(acks, -1..=1) {
        // Partitions that are not there are told as such.
        let valid = batches.by_ref().filter(|batch| batch.is_ok());
        valid.for_each(|batch| *batch = Err(ErrorCode::InvalidRequiredAcks.into()));
    }
    let asked = (
        transactional_id.as_ref().map(|id| id.as_str()),
        reply.version,
    );
    verify(context, asked, room.deadline(), batches).await;
    let started = append_all(context, prepared, frame_bytes, room.as_mut()).await;
    if acks == 0 {
        return unacknowledged(started, deadline);
    }
    let context = Arc::clone(context);
    Taken::later(async move {
        let mut responses = finish_all(started, deadline).await;
        let error = error_of(&responses);
        let mut leaders = Vec::new();
        if let Some(peer) = &peer {
            let refused = refused_here(&context, reply, &responses);
            planned_moves::wait_for_hand_over(&context, &refused).await;
            if reply.version >= FIRST_WITH_LEADERS {
                leaders = name_leaders((&context, peer), reply, &mut responses);
            }
        }
        let response = ProduceResponse::default()
            .with_responses(responses)
            .with_node_endpoints(leaders)
            .with_throttle_time_ms(throttle_time_ms(throttled, context.now()));
        reply.with(&response, error)
    })
}

/// Partitions that this broker does not take records for.
fn refused_here(
    context: &Context,
    reply: Reply,
    responses: &[TopicProduceResponse],
) -> Vec<(TopicId, i32)> {
    let by_id = reply.version >= FIRST_WITH_TOPIC_IDS;
    let of_topic = |of: &TopicProduceResponse| {
        let partitions = of.partition_responses.iter();
        let refused = partitions
            .filter(|partition| partition.error_code == ErrorCode::NotLeaderOrFollower.code());
        let indexes: Vec<i32> = refused.map(|partition| partition.index).collect();
        let is_any = !indexes.is_empty();
        let topic = is_any.then(|| find(&context.logs, by_id, &of.name, of.topic_id).ok());
        let topic = topic.flatten().map(|topic| topic.id);
        indexes
            .into_iter()
            .filter_map(move |index| Some((topic?, index)))
    };
    responses.iter().flat_map(of_topic).collect()
}

/// Says of partitions that other brokers lead which ones these are, so that the client need not ask; gives where they are.
fn name_leaders(
    (context, peer): (&Context, &Peer),
    reply: Reply,
    responses: &mut [TopicProduceResponse],
) -> Vec<NodeEndpoint> {
    let by_id = reply.version >= FIRST_WITH_TOPIC_IDS;
    let mut leaders: Vec<Member> = Vec::new();
    for of_topic in responses {
        let elsewhere = of_topic.partition_responses.iter_mut();
        let mut elsewhere = elsewhere
            .filter(|partition| partition.error_code == ErrorCode::NotLeaderOrFollower.code())
            .peekable();
        if elsewhere.peek().is_none() {
            continue;
        }
        let Ok(topic) = find(&context.logs, by_id, &of_topic.name, of_topic.topic_id) else {
            continue;
        };
        for partition in elsewhere {
            let Some((leader, epoch)) = context.leader_elsewhere(&topic, partition.index, peer)
            else {
                continue;
            };
            partition.current_leader = LeaderIdAndEpoch::default()
                .with_leader_id(leader.id)
                .with_leader_epoch(epoch);
            if !leaders.contains(&leader) {
                leaders.push(leader);
            }
        }
    }
    let endpoint = |leader: Member| {
        NodeEndpoint::default()
            .with_node_id(leader.id)
            .with_host(leader.host)
            .with_port(leader.port)
            .with_rack(leader.rack)
    };
    leaders.into_iter().map(endpoint).collect()
}

/// What refuses all of a request.
fn check(rights: &Rights, transactional_id: Option<&TransactionalId>) -> Result<(), ErrorCode> {
    match transactional_id {
        Some(id) => rights.transactional_id(Operation::Write, id),
        None => Ok(()),
    }
}

async fn finish_all(started: Vec<StartedTopic>, deadline: Instant) -> Vec<TopicProduceResponse> {
    let deadline = deadline.max(sleep(DURABLE_WAIT_MIN).deadline());
    let all = started.into_iter();
    join_all(all.map(|topic| finish_topic(topic, deadline))).await
}

fn error_of(responses: &[TopicProduceResponse]) -> i16 {
    let all = responses
        .iter()
        .flat_map(|topic| &topic.partition_responses);
    first_error(all.map(|partition| partition.error_code))
}

/// A client that wants no answer learns of a failure only by losing its connection, as in Kafka.
fn unacknowledged(started: Vec<StartedTopic>, deadline: Instant) -> Outcome {
    let refused = started.iter().flat_map(|topic| &topic.partitions);
    let refused = refused
        .filter_map(|partition| partition.progress.as_ref().err())
        .next();
    if let Some(refused) = refused {
        let reason = refused
            .message
            .clone()
            .unwrap_or_else(|| refused.code.to_string());
        return Err(CloseReason::Unacknowledged(reason));
    }
    Ok(Taken::Silent(Box::pin(async move {
        error_of(&finish_all(started, deadline).await)
    })))
}

fn refuse(data: &PartitionProduceData, refused: Refused) -> Prepared {
    Prepared {
        index: data.index,
        batch: Err(refused),
    }
}

/// Takes one topic's records out of the request.
async fn prepare_topic(
    (context, rights): (&Context, &Rights),
    reply: Reply,
    topic: &TopicProduceData,
    data: impl ExactSizeIterator<Item = (PartitionProduceData, BytesMut)>,
    arrival: &mut ArrivalDeadline,
) -> Vec<Prepared> {
    let by_id = reply.version >= FIRST_WITH_TOPIC_IDS;
    let right = (rights, Operation::Write);
    let found = find_allowed(&context.logs, right, by_id, &topic.name, topic.topic_id);
    let found = match found.map_err(Refused::from).and_then(check_writable) {
        Ok(found) => found,
        Err(refused) => {
            return data
                .map(|(data, _)| refuse(&data, refused.clone()))
                .collect();
        }
    };
    let data: Vec<_> = data.collect();
    let indexes = data.iter().map(|(data, _)| data.index);
    let found = planned_moves::wait_for_arrival(context, found, indexes, arrival).await;
    let mut prepared = Vec::with_capacity(data.len());
    for (data, records) in data {
        prepared.push(Prepared {
            index: data.index,
            batch: batch_for(&found, reply, data.index, records),
        });
    }
    prepared
}

/// Appends the records, partition after partition: this is what orders them. They are parts of a frame of
/// `frame_bytes`; `room` is when the request has waited for room long enough.
async fn append_all(
    context: &Context,
    prepared: Vec<PreparedTopic>,
    frame_bytes: usize,
    mut room: Pin<&mut Sleep>,
) -> Vec<StartedTopic> {
    let mut started = Vec::with_capacity(prepared.len());
    for PreparedTopic { topic, partitions } in prepared {
        let mut appended = Vec::with_capacity(partitions.len());
        for Prepared { index, batch } in partitions {
            let progress = match batch {
                Ok(candidate) => append_valid(context, candidate, frame_bytes, room.as_mut()).await,
                Err(refused) => Err(refused),
            };
            appended.push(Started { index, progress });
        }
        started.push(StartedTopic {
            topic,
            partitions: appended,
        });
    }
    started
}

fn check_writable(topic: Arc<Topic>) -> Result<Arc<Topic>, Refused> {
    if is_internal(topic.name.as_str()) {
        let message = "Cannot append to an internal topic.";
        return Err(Refused::new(ErrorCode::InvalidTopicException, message));
    }
    Ok(topic)
}

/// Takes a partition's records out of the request.
fn batch_for(
    topic: &Arc<Topic>,
    reply: Reply,
    index: i32,
    records: BytesMut,
) -> Result<Candidate, Refused> {
    Ok(Candidate {
        log: Arc::clone(partition(topic, index)?),
        topic: Arc::clone(topic),
        batch: only_batch(records, reply.version)?,
        origin: AppendOrigin::Client,
    })
}

/// Validates a batch, compresses it as its topic wants, and appends it.
async fn append_valid(
    context: &Context,
    candidate: Candidate,
    frame_bytes: usize,
    room: Pin<&mut Sleep>,
) -> Result<AppendTicket, Refused> {
    let Candidate {
        log,
        topic,
        batch,
        origin,
    } = candidate;
    let batch = validate(context, &topic, batch).await?;
    let sent = batch.header().compression();
    let sent = sent.map_err(|error| refused_batch(&error))?;
    let Some(to) = topic.config.recompression(sent) else {
        return append(&log, (batch.in_buffer(frame_bytes), origin), room).await;
    };
    let recompressed = context.inspection.recompress(batch, to).await;
    // The place is let go once the log cache counts the batch.
    let (batch, _place) = recompressed.map_err(|error| refused_batch(&error))?;
    append(&log, (batch, origin), room).await
}

/// Appends where there is room at once, or before the request has waited long enough. What waits
/// for room has not been given a place, so that nothing is lost by giving it up.
async fn append(
    log: &PartitionLog,
    (batch, origin): (Batch, AppendOrigin),
    room: Pin<&mut Sleep>,
) -> Result<AppendTicket, Refused> {
    tokio::select! {
        biased;
        ticket = log.append(vec![batch], origin) => {
            ticket.map_err(|error| refused_append(&error))
        }
        () = room => {
            // Nothing was written; every client tries again after this one.
            let message = "The request waited for room too long.";
            Err(Refused::new(ErrorCode::RequestTimedOut, message))
        }
    }
}

fn refused_append(error: &AppendError) -> Refused {
    Refused::new(code::of_append(error), error.to_string())
}

/// Kafka takes exactly one batch per partition since version 3.
fn only_batch(records: BytesMut, version: i16) -> Result<Batch, Refused> {
    let invalid = |message: &str| Refused::new(ErrorCode::InvalidRecord, message);
    let batches = split(records).map_err(|error| match error {
        // Kafka does not count a batch that is cut off, and finds none.
        InvalidBatch::Truncated { .. } => invalid(&error.to_string()),
        error => refused_batch(&error),
    })?;
    let mut batches = batches.into_iter();
    let (Some(batch), None) = (batches.next(), batches.next()) else {
        return Err(invalid(
            "Produce requests carry exactly one record batch per partition.",
        ));
    };
    let zstd = batch.header().compression() == Ok(Compression::Zstd);
    if zstd && version < FIRST_WITH_ZSTD {
        let message = "zstd needs Produce version 7.";
        return Err(Refused::new(ErrorCode::UnsupportedCompressionType, message));
    }
    let base_offset = batch.header().base_offset;
    if base_offset != 0 {
        return Err(invalid(&format!(
            "The base offset of a produced batch must be 0, but it is {base_offset}."
        )));
    }
    Ok(batch)
}

fn refused_batch(error: &InvalidBatch) -> Refused {
    Refused::new(code::of_batch(error), error.to_string())
}

/// Validates the batch and every record in it, as Kafka does, so that no consumer meets a record that
/// it cannot read.
async fn validate(context: &Context, topic: &Topic, batch: Batch) -> Result<Batch, Refused> {
    let config = &topic.config;
    let limits = BatchLimits {
        bytes_max: config.max_message_bytes,
        control: false,
    };
    batch
        .validate(&limits)
        .map_err(|error| refused_batch(&error))?;
    let (bytes, max) = (batch.bytes().len(), config.segment_bytes);
    if bytes > max {
        let message = format!("The batch has {bytes} bytes; segment.bytes allows {max}.");
        return Err(Refused::new(ErrorCode::RecordListTooLarge, message));
    }
    let timestamps = timestamps::legal(config, context.clock.wall_ms());
    let inspected = context.inspection.inspect(batch, timestamps.clone()).await;
    let (mut batch, summary) = inspected.map_err(|error| refused_batch(&error))?;
    if config.compacts() && !summary.keyless.is_empty() {
        let message = "One or more records have been rejected: a compacted topic takes no record without a key.";
        let record = |&index: &i32| (index, NO_KEY.to_owned());
        let records = summary.keyless.iter().map(record).collect();
        return Err(Refused::new(ErrorCode::InvalidRecord, message).with_records(records));
    }
    timestamps::check(batch.header(), config, (&summary, &timestamps))?;
    batch.set_max_timestamp(summary.max_timestamp);
    Ok(batch)
}

async fn finish_topic(started: StartedTopic, deadline: Instant) -> TopicProduceResponse {
    let StartedTopic { topic, partitions } = started;
    let partitions = join_all(partitions.into_iter().map(|p| finish(p, deadline))).await;
    TopicProduceResponse::default()
        .with_name(topic.name)
        .with_topic_id(topic.topic_id)
        .with_partition_responses(partitions)
}

async fn finish(started: Started, deadline: Instant) -> PartitionProduceResponse {
    let finished = match started.progress {
        Ok(ticket) => durable(ticket, deadline).await,
        Err(refused) => Err(refused),
    };
    let (error, message): (i16, Option<StrBytes>) = Refused::parts(&finished);
    let response = PartitionProduceResponse::default().with_index(started.index);
    let response = match &finished {
        Err(refused) => response.with_record_errors(record_errors(refused)),
        Ok(_) => response,
    };
    match finished {
        Ok(appended) => response
            .with_error_code(NONE)
            .with_base_offset(wire_offset(appended.base_offset))
            .with_log_append_time_ms(appended.log_append_time.unwrap_or(-1))
            .with_log_start_offset(wire_offset(appended.log_start_offset)),
        Err(_) => response
            .with_error_code(error)
            .with_error_message(message)
            .with_base_offset(-1)
            .with_log_append_time_ms(-1)
            .with_log_start_offset(-1),
    }
}

fn record_errors(refused: &Refused) -> Vec<BatchIndexAndErrorMessage> {
    let error = |(index, message): &(i32, String)| {
        BatchIndexAndErrorMessage::default()
            .with_batch_index(*index)
            .with_batch_index_error_message(Some(text(message.clone())))
    };
    refused.records.iter().map(error).collect()
}

async fn durable(ticket: AppendTicket, deadline: Instant) -> Result<Appended, Refused> {
    match timeout_at(deadline, ticket).await {
        Ok(appended) => appended.map_err(|error| refused_append(&error)),
        Err(_) => {
            let message = "The records were not durable in time; they may become so yet.";
            Err(Refused::new(ErrorCode::RequestTimedOut, message))
        }
    }
}
