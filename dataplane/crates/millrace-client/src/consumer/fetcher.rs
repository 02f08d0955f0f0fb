//! The task that does what [`Flow::plan`] decides: fetches, looks up offsets, retries.

use std::{
    collections::{BTreeMap, HashMap},
    future::pending,
    sync::Arc,
    time::Duration,
};

use futures_util::{
    future::join_all,
    stream::{FuturesUnordered, StreamExt},
};
use millrace_wire::messages::{
    FetchRequest, FetchResponse, fetch_response::PartitionData, produce_response,
};
use tokio_util::sync::CancellationToken;

use super::{
    coordinator,
    flow::{Answer, Fetch, Leader, Lookup, NoLeader, Plan, Question},
    offsets::{self, Found},
    reader::Shared,
    session::{self, Session, TOPIC_ID_FROM},
};
use crate::{
    client::{Client, Lane, Metadata},
    connection::Limits,
    error::{ErrorCode, RequestError},
    topic_partition::TopicPartition,
    transport::BoxFuture,
};

/// A session's requests must arrive one after the other.
const IN_FLIGHT_MAX: usize = 1;
/// A request that is in flight for longer than this waits at the broker for new records. A reader
/// of another partition, which has nothing left, does not wait for that: a second request goes over
/// another connection, without a session.
const EXPRESS_AFTER: Duration = Duration::from_millis(20);

/// How long closing waits for the ends of the sessions: longer than a fetch waits at a broker by
/// default, behind which they are.
const SESSION_END_WAIT: Duration = Duration::from_secs(1);

/// What has ended.
enum Event {
    Fetched {
        fetch: Fetch,
        /// Nothing for a second request.
        session: Option<Session>,
        outcome: Result<FetchResponse, RequestError>,
    },
    LookedUp {
        lookups: Vec<Lookup>,
        outcome: Result<Vec<Found>, RequestError>,
    },
}

/// One broker, as this consumer fetches from it.
#[derive(Default)]
struct Node {
    /// Nothing while a request is in flight.
    session: Option<Session>,
    /// Its id as the broker told it last; 0 where there is none.
    session_id: i32,
    /// Since when one is.
    busy_since: Option<Duration>,
    /// A second request is in flight.
    is_express_busy: bool,
    failures: u32,
    retry_at: Duration,
}

struct Fetcher {
    shared: Arc<Shared>,
    lane: Lane,
    express: Lane,
    /// Bounded by the cluster's brokers.
    nodes: HashMap<i32, Node>,
    running: FuturesUnordered<BoxFuture<'static, Event>>,
}

/// Fetches until `closing`, or `ended`; then there is no time for goodbyes.
pub(super) async fn run(shared: Arc<Shared>, closing: CancellationToken, ended: CancellationToken) {
    let limits = Limits {
        in_flight_max: IN_FLIGHT_MAX,
    };
    let (lane, express) = (
        shared.client.new_lane(limits),
        shared.client.new_lane(limits),
    );
    let mut fetcher = Fetcher {
        shared,
        lane,
        express,
        nodes: HashMap::new(),
        running: FuturesUnordered::new(),
    };
    tokio::select! {
        () = ended.cancelled() => {}
        () = closing.cancelled() => {}
        () = fetcher.work() => {}
    }
    if closing.is_cancelled() {
        fetcher.end_sessions().await;
    }
    fetcher.shared.client.close_lane(lane);
    fetcher.shared.client.close_lane(express);
}

impl Node {
    fn has_room(&self, now: Duration, is_urgent: bool) -> bool {
        let is_free = match self.busy_since {
            None => true,
            Some(since) => is_urgent && !self.is_express_busy && now >= since + EXPRESS_AFTER,
        };
        is_free && self.retry_at <= now
    }
}

impl Fetcher {
    /// Tells the brokers that the sessions are over, behind what is in flight.
    async fn end_sessions(&mut self) {
        self.running.clear();
        let nodes = self.nodes.iter().filter(|(_, node)| node.session_id != 0);
        let ends = nodes.map(|(&id, node)| {
            let (client, lane, session_id) = (&self.shared.client, self.lane, node.session_id);
            async move {
                let connection = client.connection(id, lane).await?;
                let version = connection.version::<FetchRequest>(i16::MAX)?;
                connection.call(version, &session::end(session_id)).await
            }
        });
        // A session whose end gets lost is one that the broker drops by itself.
        let _ended = tokio::time::timeout(SESSION_END_WAIT, join_all(ends)).await;
    }

    async fn work(&mut self) {
        let mut metadata = self.shared.client.watch_metadata();
        loop {
            let plan = self.plan(&metadata.borrow_and_update().clone());
            if plan.needs_metadata {
                self.shared.client.request_refresh();
            }
            let pause = self.pause(&plan);
            self.start(plan);
            let sleep = async {
                match pause {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                Some(event) = self.running.next() => self.ended(event),
                () = self.shared.work.notified() => {}
                changed = metadata.changed() => if changed.is_err() { return },
                () = sleep => {}
            }
        }
    }

    fn plan(&self, metadata: &Metadata) -> Plan {
        let now = self.shared.now();
        let may_fetch = |node, is_urgent| {
            let node = self.nodes.get(&node);
            node.is_none_or(|node| node.has_room(now, is_urgent))
        };
        self.shared
            .with(|flow| flow.plan(now, may_fetch, |name| leader_of(metadata, name)))
    }

    /// How long until something can be tried again.
    fn pause(&self, plan: &Plan) -> Option<Duration> {
        let now = self.shared.now();
        let nodes = self.nodes.values().map(|node| node.retry_at);
        let blocked = plan.blocked.iter().filter_map(|node| self.nodes.get(node));
        let express = blocked.filter_map(|node| Some(node.busy_since? + EXPRESS_AFTER));
        let waiting = nodes.chain(express).filter(|at| *at > now);
        let earliest = waiting.chain(plan.retry_at).min();
        earliest.map(|at| at.saturating_sub(now))
    }

    fn start(&mut self, plan: Plan) {
        for fetch in plan.fetches {
            let node = self.nodes.entry(fetch.node).or_default();
            let (lane, session) = if node.busy_since.is_none() {
                node.busy_since = Some(self.shared.now());
                (self.lane, Some(node.session.take().unwrap_or_default()))
            } else {
                node.is_express_busy = true;
                (self.express, None)
            };
            let shared = Arc::clone(&self.shared);
            self.running
                .push(Box::pin(request(shared, lane, session, fetch)));
        }
        let mut by_node: BTreeMap<(bool, i32), Vec<Lookup>> = BTreeMap::new();
        for lookup in plan.lookups {
            let key = match lookup.question {
                Question::Committed => (true, 0),
                _ => (false, lookup.leader.node),
            };
            by_node.entry(key).or_default().push(lookup);
        }
        for ((is_committed, node), lookups) in by_node {
            let shared = Arc::clone(&self.shared);
            self.running.push(Box::pin(async move {
                let outcome = if is_committed {
                    coordinator::committed_for(&shared, &lookups).await
                } else {
                    let isolation = shared.config.isolation_level;
                    offsets::look_up(&shared.client, node, isolation, &lookups).await
                };
                Event::LookedUp { lookups, outcome }
            }));
        }
    }

    fn ended(&mut self, event: Event) {
        match event {
            Event::Fetched {
                fetch,
                session,
                outcome,
            } => self.fetched(fetch, session, outcome),
            Event::LookedUp { lookups, outcome } => self.looked_up(&lookups, outcome),
        }
    }

    fn fetched(
        &mut self,
        fetch: Fetch,
        mut session: Option<Session>,
        outcome: Result<FetchResponse, RequestError>,
    ) {
        let shared = &self.shared;
        let now = shared.now();
        let node = self.nodes.entry(fetch.node).or_default();
        match &session {
            Some(_) => node.busy_since = None,
            None => node.is_express_busy = false,
        }
        let retry_after = backoff(&shared.client);
        let outcome = outcome.and_then(|response| {
            crate::error::BrokerError::check(response.error_code, None)?;
            Ok(response)
        });
        match outcome {
            Ok(response) => {
                node.failures = 0;
                if let Some(session) = &mut session {
                    session.answered(response.session_id);
                    node.session_id = response.session_id;
                }
                let answers = answers(&shared.client, &fetch, response);
                let is_stale = |code: ErrorCode| code.is_stale_metadata();
                if answers
                    .iter()
                    .any(|(_, one)| one.error.is_some_and(is_stale))
                {
                    shared.client.request_refresh();
                }
                shared.with(|flow| flow.fetched(&fetch, answers, now, &retry_after));
            }
            Err(error) => {
                if let Some(session) = &mut session {
                    session.failed(error.code());
                }
                if !is_session_error(error.code()) {
                    node.failures = node.failures.saturating_add(1);
                    node.retry_at = now + retry_after(node.failures);
                    shared.client.request_refresh();
                    tracing::debug!(node = fetch.node, %error, "a fetch failed");
                }
                shared.with(|flow| flow.fetch_failed(&fetch));
            }
        }
        if session.is_some() {
            node.session = session;
        }
    }

    fn looked_up(&self, lookups: &[Lookup], outcome: Result<Vec<Found>, RequestError>) {
        let shared = &self.shared;
        let now = shared.now();
        let retry_after = backoff(&shared.client);
        let unsupported = matches!(outcome, Err(RequestError::Unsupported { .. }));
        let found = match outcome {
            Ok(found) => found,
            Err(error) => {
                let code = error.code();
                shared.client.request_refresh();
                tracing::debug!(%error, "offsets could not be looked up");
                shared.with(|flow| {
                    for lookup in lookups {
                        if unsupported && matches!(lookup.question, Question::EpochEnd(_)) {
                            // A broker that cannot tell has no newer epoch to compare with.
                            flow.looked_up(lookup, Some((i64::MAX, None)));
                        } else {
                            flow.lookup_failed(lookup, code, now, &retry_after);
                        }
                    }
                });
                return;
            }
        };
        let mut is_stale = false;
        shared.with(|flow| {
            for (lookup, found) in lookups.iter().zip(found) {
                match found {
                    Ok(found) => flow.looked_up(lookup, found),
                    Err(code) => {
                        is_stale |= code.is_stale_metadata();
                        flow.lookup_failed(lookup, Some(code), now, &retry_after);
                    }
                }
            }
        });
        if is_stale {
            shared.client.request_refresh();
        }
    }
}

fn is_session_error(code: Option<ErrorCode>) -> bool {
    let codes = [
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode::INVALID_FETCH_SESSION_EPOCH,
        ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR,
    ];
    code.is_some_and(|code| codes.contains(&code))
}

fn backoff(client: &Client) -> impl Fn(u32) -> Duration {
    let backoff = client.retry_backoff();
    let random = Arc::clone(&client.config().random);
    move |failures| backoff.after(failures, &*random)
}

fn leader_of(metadata: &Metadata, name: &TopicPartition) -> Result<Leader, NoLeader> {
    let topic = metadata.topic(&name.topic).ok_or(NoLeader::Yet)?;
    let Some(partition) = metadata.partition(&name.topic, name.partition) else {
        let unknown = [None, Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)];
        let is_unknown = unknown.contains(&topic.error);
        return Err(if is_unknown {
            NoLeader::Unknown
        } else {
            NoLeader::Yet
        });
    };
    Ok(Leader {
        node: partition.leader.ok_or(NoLeader::Yet)?,
        epoch: partition.leader_epoch,
        topic_id: topic.id,
    })
}

async fn request(
    shared: Arc<Shared>,
    lane: Lane,
    mut session: Option<Session>,
    fetch: Fetch,
) -> Event {
    let outcome = async {
        let connection = shared.client.connection(fetch.node, lane).await?;
        let has_ids = fetch.parts.iter().all(|part| part.topic_id.is_some());
        let newest = if has_ids { i16::MAX } else { TOPIC_ID_FROM - 1 };
        let version = connection.version::<FetchRequest>(newest)?;
        let request = match &mut session {
            Some(session) => session.request(version, &shared.config, &fetch),
            None => session::alone(version, &shared.config, &fetch),
        };
        let timeout = shared.client.config().request_timeout + shared.config.fetch_max_wait;
        connection.call_within(version, &request, timeout).await
    };
    let outcome = outcome.await;
    Event::Fetched {
        fetch,
        session,
        outcome,
    }
}

/// The answers by the position of the part that they are for.
fn answers(client: &Client, fetch: &Fetch, response: FetchResponse) -> Vec<(usize, Answer)> {
    let mut by_id = HashMap::new();
    let mut by_name = HashMap::new();
    for (at, part) in fetch.parts.iter().enumerate() {
        let partition = part.name.partition;
        if let Some(id) = part.topic_id {
            by_id.insert((id.0, partition), at);
        }
        by_name.insert((&*part.name.topic, partition), at);
    }
    let endpoint = |node: millrace_wire::messages::fetch_response::NodeEndpoint| {
        produce_response::NodeEndpoint::default()
            .with_node_id(node.node_id)
            .with_host(node.host)
            .with_port(node.port)
            .with_rack(node.rack)
    };
    let endpoints: Vec<_> = response.node_endpoints.into_iter().map(endpoint).collect();
    let mut answers = Vec::new();
    for topic in response.responses {
        for data in topic.partitions {
            let index = data.partition_index;
            let at = by_id
                .get(&(topic.topic_id, index))
                .or_else(|| by_name.get(&(topic.topic.as_str(), index)));
            let Some(&at) = at else {
                continue;
            };
            let leader = &data.current_leader;
            if leader.leader_id.0 >= 0 {
                let topic = &fetch.parts[at].name.topic;
                let leader = (leader.leader_id.0, leader.leader_epoch);
                client.learn_leader(topic, index, leader, &endpoints);
            }
            answers.push((at, answer(data)));
        }
    }
    answers
}

fn answer(data: PartitionData) -> Answer {
    let aborted = data.aborted_transactions.unwrap_or_default();
    Answer {
        error: ErrorCode::from_code(data.error_code),
        high_watermark: data.high_watermark,
        last_stable_offset: data.last_stable_offset,
        aborted: aborted
            .iter()
            .map(|one| (one.first_offset, one.producer_id.0))
            .collect(),
        records: data.records.unwrap_or_default(),
    }
}
