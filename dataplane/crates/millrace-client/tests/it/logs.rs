//! A cluster for consumers, in this process only: logs that a test writes, fetch sessions checked
//! as strictly as a broker checks them, and a script of faults for Fetch.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use millrace_client::{
    BoxFuture, ClientConfig,
    transport::{BrokerAddress, Connector, Transport},
};
use millrace_record::{BatchBuilder, Compression};
use millrace_time::SeededRandom;
use millrace_wire::{
    ApiKey, Decodable, Encodable, HeaderVersion, Request, StrBytes, decode, encode,
    error_code::ErrorCode,
    messages::{
        api_versions_response::ApiVersion,
        fetch_response::{
            AbortedTransaction, FetchableTopicResponse, LeaderIdAndEpoch, PartitionData,
        },
        list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
        metadata_response::{
            MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
        },
        offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult},
        *,
    },
    parse_request,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use uuid::Uuid;

use crate::{cluster::TokioClock, group::Group};

const PIPE_BYTES: usize = 64 * 1024;
/// How often a fetch that waits looks again.
const LOOK: Duration = Duration::from_millis(10);

/// What happens to one Fetch request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Every partition answers this.
    Error(ErrorCode),
    /// The whole request is answered with this.
    Whole(ErrorCode),
    /// The connection ends instead of an answer.
    Cut,
    /// The last byte of each partition's records is wrong.
    Damage,
    /// The answer says that another broker leads, and which.
    Move,
}

#[derive(Debug)]
pub(crate) struct Logs {
    state: Mutex<State>,
    group: Mutex<Group>,
}

#[derive(Debug, Default)]
struct State {
    brokers: i32,
    id: Uuid,
    partitions: BTreeMap<i32, Log>,
    script: VecDeque<Fault>,
    sessions: HashMap<i32, Session>,
    next_session: i32,
    newest: HashMap<ApiKey, i16>,
    /// Bytes of records that were sent, by partition.
    sent_bytes: BTreeMap<i32, usize>,
    /// Partitions of each Fetch, by request.
    fetches: Vec<Vec<i32>>,
    offers_consumer_protocol: bool,
    /// So many answers to Metadata are an error that may pass.
    refused_metadata: usize,
    /// JoinGroup requests so far; none is answered.
    joins: usize,
}

#[derive(Debug, Default)]
struct Session {
    epoch: i32,
    /// Offset and maximum by partition.
    partitions: BTreeMap<i32, (i64, i32)>,
}

#[derive(Debug)]
struct Log {
    leader: i32,
    epoch: i32,
    start: i64,
    next: i64,
    /// First offset, next offset, leader epoch, bytes.
    batches: Vec<(i64, i64, i32, Bytes)>,
    aborted: Vec<(i64, i64)>,
}

impl Logs {
    /// Brokers 1 to `brokers` with one topic, `t`.
    pub(crate) fn new(brokers: i32, partitions: i32) -> Arc<Self> {
        let log = |index: i32| Log {
            leader: 1 + index % brokers,
            epoch: 0,
            start: 0,
            next: 0,
            batches: Vec::new(),
            aborted: Vec::new(),
        };
        let state = State {
            brokers,
            id: Uuid::from_u128(7),
            partitions: (0..partitions).map(|index| (index, log(index))).collect(),
            ..State::default()
        };
        Arc::new(Self {
            group: Mutex::new(Group::new(state.id, partitions)),
            state: Mutex::new(state),
        })
    }

    /// Offers the consumer protocol of groups (KIP-848).
    pub(crate) fn offer_consumer_protocol(&self) {
        self.state().offers_consumer_protocol = true;
    }

    pub(crate) fn group(&self) -> MutexGuard<'_, Group> {
        self.group.lock().expect("no panic")
    }

    pub(crate) fn refuse_metadata(&self, times: usize) {
        self.state().refused_metadata = times;
    }

    /// JoinGroup requests so far.
    pub(crate) fn joins(&self) -> usize {
        self.state().joins
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    pub(crate) fn config(self: &Arc<Self>) -> ClientConfig {
        let brokers = 1..=self.state().brokers;
        let addresses = brokers.map(|id| BrokerAddress::new("broker", port(id)));
        let mut config = ClientConfig::with_addresses(addresses.collect());
        config.connector = Arc::new(Pipes(Arc::clone(self)));
        #[expect(clippy::disallowed_methods, reason = "a test's clock")]
        let clock = TokioClock(tokio::time::Instant::now());
        config.clock = Arc::new(clock);
        config.random = SeededRandom::shared(3);
        config
    }

    pub(crate) fn script(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state().script.extend(faults);
    }

    /// Serves an API only up to this version.
    pub(crate) fn serve(&self, api_key: ApiKey, max: i16) {
        self.state().newest.insert(api_key, max);
    }

    /// Appends one batch; its bytes.
    pub(crate) fn append(
        &self,
        partition: i32,
        values: &[&str],
        compression: Compression,
    ) -> usize {
        self.append_with(partition, values, BatchBuilder::new(compression))
    }

    pub(crate) fn append_with(
        &self,
        partition: i32,
        values: &[&str],
        builder: BatchBuilder,
    ) -> usize {
        let mut state = self.state();
        let log = state.partitions.get_mut(&partition).expect("created");
        let mut builder = builder.base_offset(log.next);
        for value in values {
            let timestamp = 1_000 + log.next;
            builder.push(
                timestamp,
                Some(b"k"),
                Some(value.as_bytes()),
                &[("h", Some(b"v"))],
            );
            log.next += 1;
        }
        let mut bytes = builder.build();
        bytes[12..16].copy_from_slice(&log.epoch.to_be_bytes());
        let (base, len) = (
            log.next - i64::try_from(values.len()).expect("few"),
            bytes.len(),
        );
        log.batches
            .push((base, log.next, log.epoch, bytes.freeze()));
        len
    }

    /// The transaction of this producer, from this offset on, was aborted.
    pub(crate) fn abort(&self, partition: i32, first: i64, producer: i64) {
        let mut state = self.state();
        let log = state.partitions.get_mut(&partition).expect("created");
        log.aborted.push((first, producer));
    }

    /// Drops what is before an offset.
    pub(crate) fn delete_before(&self, partition: i32, offset: i64) {
        let mut state = self.state();
        let log = state.partitions.get_mut(&partition).expect("created");
        log.start = offset;
        log.batches.retain(|(_, next, ..)| *next > offset);
    }

    /// Another leader is elected, which has the log only up to an offset.
    pub(crate) fn elect(&self, partition: i32, leader: i32, end: i64) {
        let mut state = self.state();
        let log = state.partitions.get_mut(&partition).expect("created");
        log.batches.retain(|(_, next, ..)| *next <= end);
        log.next = log.next.min(end);
        log.leader = leader;
        log.epoch += 1;
    }

    /// Bytes of records that a partition's fetches brought.
    pub(crate) fn sent_bytes(&self, partition: i32) -> usize {
        self.state()
            .sent_bytes
            .get(&partition)
            .copied()
            .unwrap_or(0)
    }

    /// The partitions of each Fetch so far.
    pub(crate) fn fetches(&self) -> Vec<Vec<i32>> {
        self.state().fetches.clone()
    }

    /// Fetch sessions that have begun and not ended.
    pub(crate) fn sessions(&self) -> usize {
        self.state().sessions.len()
    }

    async fn serve_connection(self: Arc<Self>, broker: i32, mut stream: DuplexStream) {
        while let Ok(length) = stream.read_u32().await {
            let mut frame = vec![0; length as usize];
            if stream.read_exact(&mut frame).await.is_err() {
                return;
            }
            let frame = Bytes::from(frame);
            let answer = match self.heartbeat(&frame) {
                Some(answer) => answer,
                None => {
                    let request = parse_request(frame).expect("the client writes requests");
                    self.answer(broker, &request).await
                }
            };
            let Some(answer) = answer else {
                return;
            };
            if stream.write_all(&answer).await.is_err() {
                return;
            }
        }
    }

    async fn answer(&self, broker: i32, request: &Request) -> Option<Bytes> {
        Some(match request.api_key {
            ApiKey::ApiVersions => frame(request, &self.api_versions()),
            ApiKey::Metadata => frame(request, &self.metadata(request)),
            ApiKey::ListOffsets => frame(request, &self.list_offsets(broker, request)),
            ApiKey::OffsetForLeaderEpoch => frame(request, &self.epoch_ends(request)),
            ApiKey::Fetch => frame(request, &self.fetch(broker, request).await?),
            ApiKey::FindCoordinator => {
                let asked: FindCoordinatorRequest = decode(request).expect("its request");
                frame(request, &Group::find(&asked, port(1)))
            }
            ApiKey::OffsetCommit => {
                let asked: OffsetCommitRequest = decode(request).expect("its request");
                frame(request, &self.group().commit(&asked))
            }
            ApiKey::OffsetFetch => {
                let asked: OffsetFetchRequest = decode(request).expect("its request");
                frame(request, &self.group().offsets(&asked))
            }
            ApiKey::JoinGroup => {
                self.state().joins += 1;
                return None;
            }
            other => panic!("this cluster does not know {other:?}"),
        })
    }

    /// The answer to a heartbeat of the consumer protocol, which the wire crate does not parse as
    /// long as the broker does not serve it; nothing for any other request.
    fn heartbeat(&self, request: &Bytes) -> Option<Option<Bytes>> {
        let mut rest = request.clone();
        let key = ApiKey::try_from(rest.get_i16()).ok()?;
        if key != ApiKey::ConsumerGroupHeartbeat {
            return None;
        }
        let (version, id) = (rest.get_i16(), rest.get_i32());
        let client_id = rest.get_i16();
        rest.advance(usize::try_from(client_id).expect("a client id"));
        assert_eq!(rest.get_u8(), 0, "no tagged fields");
        let asked = ConsumerGroupHeartbeatRequest::decode(&mut rest, version).expect("legal");
        let answer = self.group().heartbeat(asked);
        Some(answer.map(|answer| {
            let response = encode(key, version, id, &answer).expect("encodable");
            Bytes::from(response.segments().concat())
        }))
    }

    fn api_versions(&self) -> ApiVersionsResponse {
        let state = self.state();
        let offer = |support: &millrace_wire::ApiSupport| {
            let max = state.newest.get(&support.api_key).copied();
            ApiVersion::default()
                .with_api_key(support.api_key as i16)
                .with_min_version(support.advertised_min)
                .with_max_version(max.unwrap_or(support.max))
        };
        let is_offered = |support: &&millrace_wire::ApiSupport| {
            state.offers_consumer_protocol || support.api_key != ApiKey::ConsumerGroupHeartbeat
        };
        let keys = millrace_wire::SUPPORTED
            .iter()
            .filter(is_offered)
            .map(offer);
        ApiVersionsResponse::default().with_api_keys(keys.collect())
    }

    fn metadata(&self, request: &Request) -> MetadataResponse {
        let mut state = self.state();
        if state.refused_metadata > 0 {
            state.refused_metadata -= 1;
            let code = ErrorCode::NetworkException.code();
            return MetadataResponse::default().with_error_code(code);
        }
        let broker = |id| {
            MetadataResponseBroker::default()
                .with_node_id(BrokerId(id))
                .with_host(StrBytes::from_static_str("broker"))
                .with_port(port(id).into())
        };
        let partition = |(index, log): (&i32, &Log)| {
            let told = MetadataResponsePartition::default()
                .with_partition_index(*index)
                .with_leader_id(BrokerId(log.leader));
            if request.version >= 7 {
                told.with_leader_epoch(log.epoch)
            } else {
                told
            }
        };
        let topic = MetadataResponseTopic::default()
            .with_name(Some(topic_name()))
            .with_partitions(state.partitions.iter().map(partition).collect());
        let topic = if request.version >= 10 {
            topic.with_topic_id(state.id)
        } else {
            topic
        };
        MetadataResponse::default()
            .with_brokers((1..=state.brokers).map(broker).collect())
            .with_controller_id(BrokerId(1))
            .with_topics(vec![topic])
    }

    fn list_offsets(&self, broker: i32, request: &Request) -> ListOffsetsResponse {
        let asked: ListOffsetsRequest = decode(request).expect("a ListOffsets request");
        let state = self.state();
        let mut answers = Vec::new();
        for partition in asked.topics.iter().flat_map(|topic| &topic.partitions) {
            let log = &state.partitions[&partition.partition_index];
            let answer = ListOffsetsPartitionResponse::default()
                .with_partition_index(partition.partition_index);
            if log.leader != broker {
                let code = ErrorCode::NotLeaderOrFollower.code();
                answers.push(answer.with_error_code(code).with_offset(-1));
                continue;
            }
            // A record's timestamp is its offset and a thousand.
            let (offset, timestamp) = match partition.timestamp {
                -1 => (log.next, -1),
                -2 => (log.start, -1),
                at if (at - 1_000).max(log.start) >= log.next => (-1, -1),
                at => ((at - 1_000).max(log.start), at.max(1_000 + log.start)),
            };
            answers.push(answer.with_offset(offset).with_timestamp(timestamp));
        }
        let topic = ListOffsetsTopicResponse::default()
            .with_name(topic_name())
            .with_partitions(answers);
        ListOffsetsResponse::default().with_topics(vec![topic])
    }

    fn epoch_ends(&self, request: &Request) -> OffsetForLeaderEpochResponse {
        let asked: OffsetForLeaderEpochRequest = decode(request).expect("its request");
        let state = self.state();
        let end = |partition: &offset_for_leader_epoch_request::OffsetForLeaderPartition| {
            let log = &state.partitions[&partition.partition];
            let known = log.batches.iter().rev();
            let last = known
                .filter(|(_, _, epoch, _)| *epoch <= partition.leader_epoch)
                .map(|(_, next, epoch, _)| (*epoch, *next))
                .next();
            let (epoch, end) = last.unwrap_or((-1, -1));
            EpochEndOffset::default()
                .with_partition(partition.partition)
                .with_leader_epoch(epoch)
                .with_end_offset(end)
        };
        let ends = asked.topics.iter().flat_map(|topic| &topic.partitions);
        let topic = OffsetForLeaderTopicResult::default()
            .with_topic(topic_name())
            .with_partitions(ends.map(end).collect());
        OffsetForLeaderEpochResponse::default().with_topics(vec![topic])
    }

    async fn fetch(&self, broker: i32, request: &Request) -> Option<FetchResponse> {
        let asked: FetchRequest = decode(request).expect("a Fetch request");
        let fault = self.state().script.pop_front().unwrap_or(Fault::None);
        match fault {
            Fault::Cut => return None,
            Fault::Whole(code) => {
                self.state().sessions.remove(&asked.session_id);
                return Some(FetchResponse::default().with_error_code(code.code()));
            }
            _ => {}
        }
        if asked.session_epoch == -1 && asked.session_id != 0 {
            self.state().sessions.remove(&asked.session_id);
            return Some(FetchResponse::default());
        }
        let session = match self.session(&asked, request.version) {
            Ok(session) => session,
            Err(code) => return Some(FetchResponse::default().with_error_code(code.code())),
        };
        let mut waited = Duration::ZERO;
        let max_wait = Duration::from_millis(u64::try_from(asked.max_wait_ms).expect("positive"));
        loop {
            let (partitions, is_done) = self.read(broker, session, &asked, fault, request.version);
            if is_done || waited >= max_wait {
                let topic = FetchableTopicResponse::default().with_partitions(partitions);
                let topic = if request.version >= 13 {
                    topic.with_topic_id(self.state().id)
                } else {
                    topic.with_topic(topic_name())
                };
                return Some(
                    FetchResponse::default()
                        .with_session_id(if request.version >= 7 { session } else { 0 })
                        .with_responses(vec![topic]),
                );
            }
            tokio::time::sleep(LOOK).await;
            waited += LOOK;
        }
    }

    /// The session of a request, brought up to date.
    fn session(&self, asked: &FetchRequest, version: i16) -> Result<i32, ErrorCode> {
        let mut state = self.state();
        let id = if asked.session_epoch <= 0 {
            state.sessions.remove(&asked.session_id);
            state.next_session += 1;
            let id = state.next_session;
            let session = Session {
                epoch: asked.session_epoch,
                ..Session::default()
            };
            state.sessions.insert(id, session);
            id
        } else {
            asked.session_id
        };
        let topic_id = state.id;
        let session = state.sessions.get_mut(&id);
        let session = session.ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if asked.session_epoch != session.epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        session.epoch += 1;
        for topic in &asked.forgotten_topics_data {
            assert!(version < 13 || topic.topic_id == topic_id);
            for index in &topic.partitions {
                let forgotten = session.partitions.remove(index);
                assert!(forgotten.is_some(), "partition {index} is not part of it");
            }
        }
        for topic in &asked.topics {
            assert!(version < 13 || topic.topic_id == topic_id);
            for one in &topic.partitions {
                let told = (one.fetch_offset, one.partition_max_bytes);
                let known = session.partitions.insert(one.partition, told);
                assert_ne!(known, Some(told), "nothing is told twice");
            }
        }
        let fetched = session.partitions.keys().copied().collect();
        state.fetches.push(fetched);
        Ok(id)
    }

    fn read(
        &self,
        broker: i32,
        session: i32,
        asked: &FetchRequest,
        fault: Fault,
        version: i16,
    ) -> (Vec<PartitionData>, bool) {
        let mut state = self.state();
        let State {
            sessions,
            partitions,
            sent_bytes,
            brokers,
            ..
        } = &mut *state;
        let mut left = usize::try_from(asked.max_bytes).expect("positive");
        let mut answers = Vec::new();
        let mut total = 0;
        let mut is_done = false;
        for (index, (offset, max_bytes)) in &sessions[&session].partitions {
            let log = partitions.get_mut(index).expect("created");
            let answer = PartitionData::default()
                .with_partition_index(*index)
                .with_high_watermark(log.next)
                .with_last_stable_offset(log.next);
            let answer = if version >= 5 {
                answer.with_log_start_offset(log.start)
            } else {
                answer
            };
            if fault == Fault::Move {
                log.leader = 1 + log.leader % *brokers;
                log.epoch += 1;
            }
            if let Some(code) = log.error(broker, *offset, fault) {
                let answer = answer.with_error_code(code.code());
                let leader = LeaderIdAndEpoch::default()
                    .with_leader_id(BrokerId(log.leader))
                    .with_leader_epoch(log.epoch);
                answers.push(if fault == Fault::Move && version >= 12 {
                    answer.with_current_leader(leader)
                } else {
                    answer
                });
                is_done = true;
                continue;
            }
            let max_bytes = usize::try_from(*max_bytes).expect("positive").min(left);
            let mut records = log.records(*offset, max_bytes, total == 0);
            if fault == Fault::Damage && !records.is_empty() {
                let last = records.len() - 1;
                records[last] ^= 1;
            }
            left = left.saturating_sub(records.len());
            total += records.len();
            *sent_bytes.entry(*index).or_default() += records.len();
            let aborted = |(first, producer): &(i64, i64)| {
                AbortedTransaction::default()
                    .with_first_offset(*first)
                    .with_producer_id(ProducerId(*producer))
            };
            let aborted =
                (asked.isolation_level == 1).then(|| log.aborted.iter().map(aborted).collect());
            answers.push(
                answer
                    .with_records(Some(records.freeze()))
                    .with_aborted_transactions(aborted),
            );
        }
        (answers, is_done || total > 0)
    }
}

impl Log {
    fn error(&self, broker: i32, offset: i64, fault: Fault) -> Option<ErrorCode> {
        match fault {
            Fault::Error(code) => Some(code),
            _ if self.leader != broker => Some(ErrorCode::NotLeaderOrFollower),
            _ if offset < self.start || offset > self.next => Some(ErrorCode::OffsetOutOfRange),
            _ => None,
        }
    }

    fn records(&self, offset: i64, max_bytes: usize, at_least_one: bool) -> BytesMut {
        let mut out = BytesMut::new();
        for (_, next, _, bytes) in &self.batches {
            let fits = out.len() + bytes.len() <= max_bytes;
            if *next <= offset {
                continue;
            }
            if !fits && (!at_least_one || !out.is_empty()) {
                break;
            }
            out.extend_from_slice(bytes);
        }
        out
    }
}

fn port(broker: i32) -> u16 {
    9_000 + u16::try_from(broker).expect("a small id")
}

fn topic_name() -> TopicName {
    TopicName(StrBytes::from_static_str("t"))
}

fn frame<M: Encodable + HeaderVersion>(request: &Request, message: &M) -> Bytes {
    let (key, version) = (request.api_key, request.version);
    let response = encode(key, version, request.correlation_id, message).expect("encodable");
    Bytes::from(response.segments().concat())
}

/// Connects to the cluster's brokers.
#[derive(Debug)]
struct Pipes(Arc<Logs>);

impl Connector for Pipes {
    fn connect<'a>(
        &'a self,
        address: &'a BrokerAddress,
    ) -> BoxFuture<'a, io::Result<Box<dyn Transport>>> {
        Box::pin(async move {
            let broker = i32::from(address.port()) - 9_000;
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            tokio::spawn(Arc::clone(&self.0).serve_connection(broker, theirs));
            Ok(Box::new(ours) as Box<dyn Transport>)
        })
    }
}
