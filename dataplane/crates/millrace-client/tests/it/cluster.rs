//! A cluster that exists in this process only: brokers behind in-memory connections, with a log per
//! partition, the sequence rules of a real broker, and a script of faults.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use millrace_client::{
    BoxFuture, ClientConfig,
    transport::{BrokerAddress, Connector, Transport},
};
use millrace_record::{header_of, records};
use millrace_time::{Clock, SeededRandom};
use millrace_wire::{
    ApiKey, Decodable, Encodable, HeaderVersion, Request, StrBytes, decode, encode,
    encode_unsupported_api_versions,
    error_code::ErrorCode,
    messages::{
        api_versions_response::ApiVersion,
        metadata_response::{
            MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
        },
        produce_response::{
            BatchIndexAndErrorMessage, LeaderIdAndEpoch, PartitionProduceResponse,
            TopicProduceResponse,
        },
        *,
    },
    parse_request, split_produce,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    sync::watch,
};
use uuid::Uuid;

/// Bytes on their way in one direction: less than a large request, so that writes are partial.
const PIPE_BYTES: usize = 8 * 1024;
/// Batches of a producer that a partition knows again.
const KNOWN_BATCHES: usize = 5;

/// Tells tokio's time, which a test can pause.
#[derive(Debug)]
pub(crate) struct TokioClock(pub(crate) tokio::time::Instant);

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall_ms(&self) -> i64 {
        1_700_000_000_000 + i64::try_from(self.0.elapsed().as_millis()).expect("a short test")
    }
}

/// What happens to one Produce request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Every partition answers this, and appends nothing.
    Error(ErrorCode),
    /// The connection ends; nothing is appended.
    CutBefore,
    /// The connection ends after the append.
    CutAfter,
    /// Nothing is appended and no answer comes.
    Silence,
    /// Appended, and answered this much later.
    Delay(Duration),
    /// Appended; the answer asks for a pause of so many milliseconds.
    Throttle(i32),
    /// The partition has forgotten all producers, and says so.
    Forget,
    /// Another broker leads all partitions; whether the answer names it.
    Move { named: bool },
    /// Refuses the record at this index of the batch.
    InvalidRecord(i32),
}

/// What a broker does about a request.
enum Answer {
    Frame(Bytes),
    None,
    Close,
    Silence,
}

#[derive(Debug)]
pub(crate) struct Cluster {
    state: Mutex<State>,
    /// The faults of the Produce requests to come, and of those after them.
    script: Mutex<VecDeque<Fault>>,
    ended: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    brokers: Vec<i32>,
    down: HashSet<i32>,
    /// How much later brokers answer a Produce.
    slow: HashMap<i32, Duration>,
    topics: BTreeMap<String, Topic>,
    next_producer_id: i64,
    versions: HashMap<ApiKey, (i16, i16)>,
    requests: HashMap<ApiKey, Vec<(i32, Duration)>>,
    message_bytes_max: usize,
    asks_to_rebootstrap: bool,
    /// The topics of each Metadata request.
    asked: Vec<Vec<String>>,
    /// Topics that Metadata does not tell.
    hidden: HashSet<String>,
    start: Option<tokio::time::Instant>,
}

#[derive(Debug)]
struct Topic {
    id: Uuid,
    partitions: Vec<Partition>,
}

#[derive(Debug)]
pub(crate) struct Partition {
    leader: i32,
    epoch: i32,
    values: Vec<Bytes>,
    batches: usize,
    producers: HashMap<i64, Producer>,
    is_strict: bool,
}

#[derive(Debug)]
struct Producer {
    epoch: i16,
    next: i32,
    /// First sequence, last sequence and base offset of the last batches.
    known: VecDeque<(i32, i32, i64)>,
}

impl Cluster {
    /// Brokers 1 to `brokers`.
    pub(crate) fn new(brokers: i32) -> Arc<Self> {
        let state = State {
            brokers: (1..=brokers).collect(),
            next_producer_id: 1_000,
            message_bytes_max: usize::MAX,
            #[expect(clippy::disallowed_methods, reason = "a test's clock")]
            start: Some(tokio::time::Instant::now()),
            ..State::default()
        };
        Arc::new(Self {
            state: Mutex::new(state),
            script: Mutex::default(),
            ended: watch::Sender::new(0),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    /// A client's settings for this cluster; tokio's clock, and randomness from a seed.
    pub(crate) fn config(self: &Arc<Self>, seed: u64) -> ClientConfig {
        let brokers = self.state().brokers.clone();
        let addresses = brokers
            .iter()
            .map(|id| BrokerAddress::new("broker", port(*id)));
        let mut config = ClientConfig::with_addresses(addresses.collect());
        config.connector = Arc::new(Pipes(Arc::clone(self)));
        #[expect(clippy::disallowed_methods, reason = "a test's clock")]
        let clock = TokioClock(tokio::time::Instant::now());
        config.clock = Arc::new(clock);
        config.random = SeededRandom::shared(seed);
        config
    }

    pub(crate) fn create(&self, name: &str, partitions: usize) {
        let mut state = self.state();
        let topic = Topic {
            id: Uuid::from_u128(state.topics.len() as u128 + 1),
            partitions: Vec::new(),
        };
        state.topics.insert(name.to_owned(), topic);
        drop(state);
        self.grow(name, partitions);
    }

    /// Gives a topic more partitions.
    pub(crate) fn grow(&self, name: &str, partitions: usize) {
        let mut state = self.state();
        let brokers = state.brokers.clone();
        let partition = |index: usize| Partition {
            leader: brokers[index % brokers.len()],
            epoch: 3,
            values: Vec::new(),
            batches: 0,
            producers: HashMap::new(),
            is_strict: false,
        };
        let topic = state.topics.get_mut(name).expect("created");
        let first = topic.partitions.len();
        let new = (first..first + partitions).map(partition);
        topic.partitions.extend(new);
    }

    pub(crate) fn script(&self, faults: impl IntoIterator<Item = Fault>) {
        self.script.lock().expect("no panic").extend(faults);
    }

    /// Serves an API only in these versions.
    pub(crate) fn serve(&self, api_key: ApiKey, min: i16, max: i16) {
        self.state().versions.insert(api_key, (min, max));
    }

    pub(crate) fn set_message_bytes_max(&self, bytes: usize) {
        self.state().message_bytes_max = bytes;
    }

    /// The next answer to Metadata says that the client should start over (KIP-1102).
    pub(crate) fn ask_to_rebootstrap(&self) {
        self.state().asks_to_rebootstrap = true;
    }

    /// Metadata says that there is no such topic, as a broker does that lags behind; or tells it again.
    pub(crate) fn hide(&self, topic: &str, is_hidden: bool) {
        let mut state = self.state();
        state.hidden.remove(topic);
        state.hidden.extend(is_hidden.then(|| topic.to_owned()));
    }

    /// Another broker leads a partition from now on.
    pub(crate) fn move_leader(&self, topic: &str, partition: usize, to: i32) {
        let mut state = self.state();
        let topic = state.topics.get_mut(topic).expect("created");
        topic.partitions[partition].leader = to;
        topic.partitions[partition].epoch += 1;
    }

    /// Lets a broker answer each Produce so much later.
    pub(crate) fn set_slow(&self, broker: i32, by: Duration) {
        self.state().slow.insert(broker, by);
    }

    /// Ends all connections to a broker and refuses new ones, or accepts them again.
    pub(crate) fn set_down(&self, broker: i32, down: bool) {
        let mut state = self.state();
        if down {
            state.down.insert(broker);
            drop(state);
            self.ended.send_modify(|count| *count += 1);
        } else {
            state.down.remove(&broker);
        }
    }

    /// The values of a partition, in the order of the log.
    pub(crate) fn values(&self, topic: &str, partition: usize) -> Vec<Bytes> {
        self.state().topics[topic].partitions[partition]
            .values
            .clone()
    }

    /// Batches that a partition has appended.
    pub(crate) fn batches(&self, topic: &str, partition: usize) -> usize {
        self.state().topics[topic].partitions[partition].batches
    }

    /// The topics of each Metadata request so far.
    pub(crate) fn asked(&self) -> Vec<Vec<String>> {
        self.state().asked.clone()
    }

    /// Broker and time of each request of an API.
    pub(crate) fn requests(&self, api_key: ApiKey) -> Vec<(i32, Duration)> {
        self.state()
            .requests
            .get(&api_key)
            .cloned()
            .unwrap_or_default()
    }

    async fn serve_connection(self: Arc<Self>, broker: i32, mut stream: DuplexStream) {
        let mut ended = self.ended.subscribe();
        loop {
            let frame = tokio::select! {
                frame = read_frame(&mut stream) => frame,
                _ = ended.changed() => {
                    if self.state().down.contains(&broker) { return; }
                    continue;
                }
            };
            let Ok(frame) = frame else { return };
            let written = match self.answer(broker, frame).await {
                Answer::Frame(answer) => stream.write_all(&answer).await,
                Answer::None => Ok(()),
                Answer::Close => return,
                Answer::Silence => {
                    // Until the client gives up.
                    let _ = stream.read_to_end(&mut Vec::new()).await;
                    return;
                }
            };
            if written.is_err() {
                return;
            }
        }
    }

    async fn answer(&self, broker: i32, frame: Bytes) -> Answer {
        if let Some(answer) = self.authenticate(&frame) {
            return Answer::Frame(answer);
        }
        let request = match parse_request(frame) {
            Ok(request) => request,
            Err(error) => panic!("the client sent {error}"),
        };
        let served = self.note(broker, request.api_key);
        let (key, version, id) = (request.api_key, request.version, request.correlation_id);
        if let Some((min, max)) = served
            && !(min..=max).contains(&version)
        {
            assert_eq!(
                key,
                ApiKey::ApiVersions,
                "{key:?} {version} was not offered"
            );
            return Answer::Frame(whole(encode_unsupported_api_versions(id)));
        }
        Answer::Frame(match key {
            ApiKey::ApiVersions => frame_of(key, version, id, &self.api_versions()),
            ApiKey::Metadata => frame_of(key, version, id, &self.metadata(&request)),
            ApiKey::InitProducerId => frame_of(key, version, id, &self.init_producer_id(&request)),
            ApiKey::Produce => return self.produce(broker, request).await,
            other => panic!("this cluster does not know {other:?}"),
        })
    }

    /// The answer to a SASL request; nothing for any other.
    fn authenticate(&self, frame: &Bytes) -> Option<Bytes> {
        let mut rest = frame.clone();
        let key = ApiKey::try_from(rest.get_i16()).ok()?;
        let (version, id) = (rest.get_i16(), rest.get_i32());
        let client_id = rest.get_i16();
        rest.advance(usize::try_from(client_id).expect("a client id"));
        if matches!(key, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate) {
            self.note(0, key);
        }
        match key {
            ApiKey::SaslHandshake => {
                let asked = SaslHandshakeRequest::decode(&mut rest, version).expect("legal");
                let plain = StrBytes::from_static_str("PLAIN");
                let code = if asked.mechanism == plain {
                    0
                } else {
                    ErrorCode::UnsupportedSaslMechanism.code()
                };
                let answer = SaslHandshakeResponse::default()
                    .with_error_code(code)
                    .with_mechanisms(vec![plain]);
                Some(frame_of(key, version, id, &answer))
            }
            ApiKey::SaslAuthenticate => {
                if version >= 2 {
                    assert_eq!(rest.get_u8(), 0, "no tagged fields");
                }
                let asked = SaslAuthenticateRequest::decode(&mut rest, version).expect("legal");
                let is_known = asked.auth_bytes == b"\0alice\0secret"[..];
                let answer = SaslAuthenticateResponse::default();
                let answer = if is_known {
                    answer
                } else {
                    let text = StrBytes::from_static_str("wrong password");
                    answer
                        .with_error_code(ErrorCode::SaslAuthenticationFailed.code())
                        .with_error_message(Some(text))
                };
                Some(frame_of(key, version, id, &answer))
            }
            _ => None,
        }
    }

    /// Notes a request; the versions of its API that differ from what the crate knows.
    fn note(&self, broker: i32, api_key: ApiKey) -> Option<(i16, i16)> {
        let mut state = self.state();
        let at = state.start.map_or(Duration::ZERO, |start| start.elapsed());
        state
            .requests
            .entry(api_key)
            .or_default()
            .push((broker, at));
        state.versions.get(&api_key).copied()
    }

    fn api_versions(&self) -> ApiVersionsResponse {
        let state = self.state();
        let offer = |support: &millrace_wire::ApiSupport| {
            let all = (support.advertised_min, support.max);
            let (min, max) = state.versions.get(&support.api_key).copied().unwrap_or(all);
            ApiVersion::default()
                .with_api_key(support.api_key as i16)
                .with_min_version(min)
                .with_max_version(max)
        };
        let sasl = [(ApiKey::SaslHandshake, 1), (ApiKey::SaslAuthenticate, 2)];
        let sasl = sasl.map(|(key, max)| {
            ApiVersion::default()
                .with_api_key(key as i16)
                .with_max_version(max)
        });
        let keys = millrace_wire::SUPPORTED.iter().map(offer).chain(sasl);
        ApiVersionsResponse::default().with_api_keys(keys.collect())
    }

    fn metadata(&self, request: &Request) -> MetadataResponse {
        let asked: MetadataRequest = decode(request).expect("a Metadata request");
        let mut state = self.state();
        let names = asked.topics.iter().flatten();
        let names = names.filter_map(|topic| Some(topic.name.as_ref()?.to_string()));
        state.asked.push(names.collect());
        if std::mem::take(&mut state.asks_to_rebootstrap) {
            let code = ErrorCode::RebootstrapRequired.code();
            return MetadataResponse::default().with_error_code(code);
        }
        let broker = |id: &i32| {
            MetadataResponseBroker::default()
                .with_node_id(BrokerId(*id))
                .with_host(StrBytes::from_static_str("broker"))
                .with_port(port(*id).into())
        };
        let topics = asked.topics.unwrap_or_default();
        let topics = topics.iter().filter_map(|topic| topic.name.clone());
        let topic = |name: TopicName| {
            let answer = MetadataResponseTopic::default();
            let told = state.topics.get(name.as_str());
            let Some(topic) = told.filter(|_| !state.hidden.contains(name.as_str())) else {
                let code = ErrorCode::UnknownTopicOrPartition.code();
                return answer.with_name(Some(name)).with_error_code(code);
            };
            let partition = |(index, partition): (usize, &Partition)| {
                let told = MetadataResponsePartition::default()
                    .with_partition_index(i32::try_from(index).expect("few"))
                    .with_leader_id(BrokerId(partition.leader));
                if request.version >= 7 {
                    told.with_leader_epoch(partition.epoch)
                } else {
                    told
                }
            };
            let partitions = topic.partitions.iter().enumerate().map(partition).collect();
            let answer = answer.with_name(Some(name)).with_partitions(partitions);
            if request.version >= 10 {
                answer.with_topic_id(topic.id)
            } else {
                answer
            }
        };
        let up = state.brokers.iter().filter(|id| !state.down.contains(id));
        MetadataResponse::default()
            .with_brokers(up.map(broker).collect())
            .with_controller_id(BrokerId(1))
            .with_topics(topics.map(topic).collect())
    }

    fn init_producer_id(&self, request: &Request) -> InitProducerIdResponse {
        let asked: InitProducerIdRequest = decode(request).expect("an InitProducerId request");
        assert_eq!(asked.transactional_id, None);
        let mut state = self.state();
        state.next_producer_id += 1;
        InitProducerIdResponse::default()
            .with_producer_id(ProducerId(state.next_producer_id))
            .with_producer_epoch(0)
    }

    async fn produce(&self, broker: i32, request: Request) -> Answer {
        let (version, id) = (request.version, request.correlation_id);
        let fault = self.script.lock().expect("no panic").pop_front();
        let fault = fault.unwrap_or(Fault::None);
        let (message, sets) = split_produce(request).expect("a Produce request");
        match fault {
            Fault::CutBefore => return Answer::Close,
            Fault::Silence => return Answer::Silence,
            _ => {}
        }
        let response = self.append(broker, version, &message, sets, fault);
        match fault {
            Fault::CutAfter => return Answer::Close,
            Fault::Delay(time) => tokio::time::sleep(time).await,
            _ => {}
        }
        let slow = self.state().slow.get(&broker).copied();
        if let Some(slow) = slow {
            tokio::time::sleep(slow).await;
        }
        if message.acks == 0 {
            return Answer::None;
        }
        Answer::Frame(frame_of(ApiKey::Produce, version, id, &response))
    }

    fn append(
        &self,
        broker: i32,
        version: i16,
        message: &ProduceRequest,
        sets: Vec<Vec<BytesMut>>,
        fault: Fault,
    ) -> ProduceResponse {
        let mut state = self.state();
        let (brokers, bytes_max) = (state.brokers.clone(), state.message_bytes_max);
        let mut responses = Vec::new();
        for (data, sets) in message.topic_data.iter().zip(sets) {
            let topic = state.topics.iter_mut().find(|(name, topic)| {
                if version >= 13 {
                    topic.id == data.topic_id
                } else {
                    name.as_str() == data.name.as_str()
                }
            });
            let (_, topic) = topic.expect("a topic that metadata told");
            let mut answers = Vec::new();
            for (part, set) in data.partition_data.iter().zip(sets) {
                let partition = &mut topic.partitions[part.index as usize];
                let set = set.freeze();
                let answer = PartitionProduceResponse::default().with_index(part.index);
                answers.push(if set.len() > bytes_max {
                    answer.with_error_code(ErrorCode::MessageTooLarge.code())
                } else {
                    partition.produce(broker, &brokers, version, answer, &set, fault)
                });
            }
            let answer = TopicProduceResponse::default().with_partition_responses(answers);
            responses.push(if version >= 13 {
                answer.with_topic_id(data.topic_id)
            } else {
                answer.with_name(data.name.clone())
            });
        }
        let throttle = match fault {
            Fault::Throttle(ms) => ms,
            _ => 0,
        };
        ProduceResponse::default()
            .with_responses(responses)
            .with_throttle_time_ms(throttle)
    }
}

impl Partition {
    fn produce(
        &mut self,
        broker: i32,
        brokers: &[i32],
        version: i16,
        answer: PartitionProduceResponse,
        set: &Bytes,
        fault: Fault,
    ) -> PartitionProduceResponse {
        let refuse = |code: ErrorCode| {
            let answer = answer.clone().with_error_code(code.code());
            answer.with_base_offset(-1)
        };
        if broker != self.leader {
            return refuse(ErrorCode::NotLeaderOrFollower);
        }
        match fault {
            Fault::Error(code) => return refuse(code),
            Fault::Forget => {
                self.producers.clear();
                self.is_strict = true;
            }
            Fault::Move { named } => {
                let next = brokers.iter().find(|id| **id != broker).unwrap_or(&broker);
                self.leader = *next;
                self.epoch += 1;
                let refused = refuse(ErrorCode::NotLeaderOrFollower);
                if !named || version < 10 {
                    return refused;
                }
                let leader = LeaderIdAndEpoch::default()
                    .with_leader_id(BrokerId(self.leader))
                    .with_leader_epoch(self.epoch);
                return refused.with_current_leader(leader);
            }
            Fault::InvalidRecord(index) => {
                let text = StrBytes::from_static_str("it is not nice");
                let record = BatchIndexAndErrorMessage::default()
                    .with_batch_index(index)
                    .with_batch_index_error_message(Some(text));
                return refuse(ErrorCode::InvalidRecord).with_record_errors(vec![record]);
            }
            _ => {}
        }
        match self.append(set) {
            Ok(offset) => answer.with_base_offset(offset).with_log_append_time_ms(-1),
            Err(code) => refuse(code),
        }
    }

    /// The base offset; the rules are those of Kafka's `ProducerAppendInfo`.
    fn append(&mut self, set: &Bytes) -> Result<i64, ErrorCode> {
        let batches = millrace_record::split(BytesMut::from(&set[..])).expect("whole batches");
        assert_eq!(batches.len(), 1, "a client sends one batch per partition");
        let limits = millrace_record::BatchLimits::default();
        assert_eq!(batches[0].validate(&limits), Ok(()));
        let header = header_of(set).expect("a batch");
        let offset = i64::try_from(self.values.len()).expect("few");
        if header.has_producer_id() {
            let (first, last) = (header.base_sequence, header.last_sequence());
            let next = last.checked_add(1).unwrap_or(0);
            match self.producers.get_mut(&header.producer_id) {
                Some(known) if header.producer_epoch < known.epoch => {
                    return Err(ErrorCode::InvalidProducerEpoch);
                }
                Some(known) if header.producer_epoch == known.epoch => {
                    let same = known
                        .known
                        .iter()
                        .find(|one| (one.0, one.1) == (first, last));
                    if let Some((_, _, offset)) = same {
                        return Ok(*offset);
                    }
                    if known.next != first {
                        return Err(ErrorCode::OutOfOrderSequenceNumber);
                    }
                    known.next = next;
                    known.known.push_back((first, last, offset));
                    if known.known.len() > KNOWN_BATCHES {
                        known.known.pop_front();
                    }
                }
                Some(_) if first != 0 => return Err(ErrorCode::OutOfOrderSequenceNumber),
                None if first != 0 && self.is_strict => return Err(ErrorCode::UnknownProducerId),
                _ => {
                    let new = Producer {
                        epoch: header.producer_epoch,
                        next,
                        known: VecDeque::from([(first, last, offset)]),
                    };
                    self.producers.insert(header.producer_id, new);
                }
            }
        }
        for record in records(set).expect("records") {
            let record = record.expect("a record");
            self.values.push(record.value.unwrap_or_default());
        }
        self.batches += 1;
        Ok(offset)
    }
}

fn port(broker: i32) -> u16 {
    9_000 + u16::try_from(broker).expect("a small id")
}

async fn read_frame(stream: &mut DuplexStream) -> io::Result<Bytes> {
    let length = stream.read_u32().await?;
    let mut frame = vec![0; length as usize];
    stream.read_exact(&mut frame).await?;
    Ok(frame.into())
}

fn frame_of<M: Encodable + HeaderVersion>(
    key: ApiKey,
    version: i16,
    id: i32,
    message: &M,
) -> Bytes {
    whole(encode(key, version, id, message))
}

fn whole(response: Result<millrace_wire::Response, millrace_wire::EncodeError>) -> Bytes {
    let response = response.expect("encodable");
    Bytes::from(response.segments().concat())
}

/// Connects to the cluster's brokers.
#[derive(Debug)]
struct Pipes(Arc<Cluster>);

impl Connector for Pipes {
    fn connect<'a>(
        &'a self,
        address: &'a BrokerAddress,
    ) -> BoxFuture<'a, io::Result<Box<dyn Transport>>> {
        Box::pin(async move {
            let broker = i32::from(address.port()) - 9_000;
            let state = self.0.state();
            if !state.brokers.contains(&broker) || state.down.contains(&broker) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            drop(state);
            let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
            tokio::spawn(Arc::clone(&self.0).serve_connection(broker, theirs));
            Ok(Box::new(ours) as Box<dyn Transport>)
        })
    }
}
