//! From lists of partitions to requests.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use millrace_model::TopicId;
use millrace_wire::{
    ApiKey,
    client::{ProduceBody, ProduceTopic, RequestFrame, encode_produce},
    messages::ProduceRequest,
};

use super::{super::config::Acks, Answer, Counters, Sender};
use crate::{
    client::Metadata,
    connection::{Connection, Reply},
    error::RequestError,
    producer::partition::{Batch, PartitionQueue},
};

/// The newest version that names topics by name.
const NEWEST_BY_NAME: i16 = millrace_wire::client::PRODUCE_TOPIC_ID_FROM - 1;

/// A request that is not answered.
pub(super) struct Request {
    pub(super) node: i32,
    pub(super) connection: Connection,
    pub(super) version: i16,
    /// What the request called its topics, where the version names them by id. Metadata may have
    /// changed when the answer comes.
    pub(super) topic_ids: Vec<(Arc<str>, TopicId)>,
    pub(super) batches: Vec<(Arc<PartitionQueue>, Batch)>,
}

impl Sender {
    /// Sends whatever may be sent.
    pub(super) fn send(&mut self) {
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .filter(|(_, node)| !node.ready.is_empty())
            .map(|(id, _)| *id)
            .collect();
        for node in nodes {
            self.send_to(node);
        }
    }

    fn send_to(&mut self, id: i32) {
        let now = self.client.now();
        let in_flight_max = self.accumulator.config().max_in_flight;
        loop {
            let node = self.nodes.entry(id).or_default();
            if node.ready.is_empty() {
                node.blocked_since = None;
                return;
            }
            node.blocked_since.get_or_insert(now);
            if node.in_flight >= in_flight_max || !self.identity.is_ready(&self.client) {
                return;
            }
            let Some(connection) = self.connection_to(id) else {
                return;
            };
            let batches = self.collect(id, now);
            if batches.is_empty() {
                continue;
            }
            let node = self.nodes.entry(id).or_default();
            node.blocked_since = None;
            if std::mem::take(&mut node.is_avoided) {
                self.set_available(id, true);
            }
            self.dispatch(id, connection, batches);
        }
    }

    /// The open connection to a node; otherwise it is being opened.
    fn connection_to(&mut self, id: i32) -> Option<Connection> {
        let node = self.nodes.entry(id).or_default();
        if let Some(connection) = node.connection.as_ref().filter(|one| !one.is_closed()) {
            return Some(connection.clone());
        }
        node.connection = self.client.open_connection(id, self.lane);
        if node.connection.is_none() && !node.is_connecting {
            node.is_connecting = true;
            let (client, lane) = (self.client.clone(), self.lane);
            self.connecting.push(Box::pin(async move {
                let connection = client.connection(id, lane).await;
                (id, connection)
            }));
        }
        node.connection.clone()
    }

    pub(super) fn connected(&mut self, id: i32, result: Result<Connection, RequestError>) {
        let node = self.nodes.entry(id).or_default();
        node.is_connecting = false;
        match result {
            Ok(connection) => node.connection = Some(connection),
            Err(error) => {
                // The next round tries again, after the connection's own pause; perhaps elsewhere.
                tracing::warn!(node = id, %error, "the producer cannot connect");
                self.client.request_refresh();
                if let RequestError::Authentication { .. } = error {
                    self.accumulator.abort(&error.into());
                }
            }
        }
    }

    /// Takes one batch of each listed partition in turn, as many as fit into a request.
    fn collect(&mut self, id: i32, now: Duration) -> Vec<(Arc<PartitionQueue>, Batch)> {
        let accumulator = Arc::clone(&self.accumulator);
        let in_flight_max = accumulator.config().max_in_flight;
        let is_due = |open: &_| accumulator.is_due(open, now);
        let identity = self.identity.current();
        let mut bytes_left = accumulator.config().max_request_size;
        let mut batches: Vec<(Arc<PartitionQueue>, Batch)> = Vec::new();
        let listed = std::mem::take(&mut self.nodes.entry(id).or_default().ready);
        // Those that wait go before those that had their turn.
        let (mut waiting, mut served) = (VecDeque::new(), Vec::new());
        for queue in listed {
            if bytes_left == 0 {
                waiting.push_back(queue);
                continue;
            }
            let mut state = queue.lock();
            // Its answers list it again.
            let is_full = state.in_flight() >= in_flight_max;
            if is_full || !state.has_sendable(now, is_due) {
                state.is_listed = false;
                self.arm(&queue, &mut state, now);
                continue;
            }
            if !state.has_ready() {
                state.close_open(&accumulator.memory, accumulator.config().idempotence);
            }
            // The first batch goes however large it is: the broker decides.
            let bytes_max = if batches.is_empty() {
                usize::MAX
            } else {
                bytes_left
            };
            let Some(batch) = state.take(bytes_max, identity) else {
                drop(state);
                bytes_left = 0;
                waiting.push_back(queue);
                continue;
            };
            bytes_left = bytes_left.saturating_sub(batch.bytes.len());
            batches.push((Arc::clone(&queue), batch));
            if state.has_sendable(now, is_due) {
                drop(state);
                served.push(queue);
            } else {
                state.is_listed = false;
                self.arm(&queue, &mut state, now);
            }
        }
        waiting.extend(served);
        self.nodes.entry(id).or_default().ready = waiting;
        batches
    }

    fn dispatch(
        &mut self,
        node: i32,
        connection: Connection,
        batches: Vec<(Arc<PartitionQueue>, Batch)>,
    ) {
        let number = self.next_request;
        self.next_request += 1;
        self.count(&batches);
        let mut request = Request {
            node,
            connection: connection.clone(),
            version: 0,
            topic_ids: Vec::new(),
            batches,
        };
        let sent = self.encode(&mut request).and_then(|frame| {
            let answer = self.answer.clone();
            let reply = Box::new(move |result| {
                // Without a sender nobody needs it.
                let _ = answer.send(Answer {
                    request: number,
                    result,
                });
            });
            let reply = match self.accumulator.config().acks {
                Acks::None => Reply::Written(reply),
                Acks::Leader | Acks::All => Reply::To(reply),
            };
            let timeout = self.client.config().request_timeout;
            connection.send_now(ApiKey::Produce, frame, reply, timeout)
        });
        self.nodes.entry(node).or_default().in_flight += 1;
        self.in_flight.insert(number, request);
        if let Err(error) = sent {
            self.settle(Answer {
                request: number,
                result: Err(error),
            });
        }
    }

    fn encode(&self, request: &mut Request) -> Result<RequestFrame, RequestError> {
        let metadata = self.metadata.borrow();
        let id_of = |metadata: &Metadata, topic: &str| metadata.topic(topic)?.id;
        let have_ids = request
            .batches
            .iter()
            .all(|(queue, _)| id_of(&metadata, queue.topic()).is_some());
        let newest = if have_ids { i16::MAX } else { NEWEST_BY_NAME };
        request.version = request.connection.version::<ProduceRequest>(newest)?;
        request
            .batches
            .sort_by(|(one, _), (other, _)| one.topic().cmp(other.topic()));
        let mut topics: Vec<ProduceTopic<'_>> = Vec::new();
        for (queue, batch) in &request.batches {
            let name: &str = queue.topic();
            if topics.last().is_none_or(|topic| topic.name != name) {
                let id = id_of(&metadata, name).unwrap_or_default();
                request.topic_ids.push((Arc::clone(queue.topic()), id));
                topics.push(ProduceTopic {
                    name,
                    id,
                    partitions: Vec::new(),
                });
            }
            if let Some(topic) = topics.last_mut() {
                topic.partitions.push((queue.id(), batch.bytes.clone()));
            }
        }
        let config = self.client.config();
        let timeout_ms = i32::try_from(config.request_timeout.as_millis()).unwrap_or(i32::MAX);
        let body = ProduceBody {
            acks: self.accumulator.config().acks.code(),
            timeout_ms,
            topics,
        };
        encode_produce(request.version, &config.client_id, body).map_err(|error| {
            RequestError::Protocol {
                address: request.connection.address().clone(),
                reason: error.to_string(),
            }
        })
    }

    fn count(&self, batches: &[(Arc<PartitionQueue>, Batch)]) {
        let counters = &self.accumulator.counters;
        let sum = |of: fn(&Batch) -> usize| batches.iter().map(|(_, batch)| of(batch)).sum();
        Counters::add(&counters.requests, 1);
        Counters::add(&counters.batches, batches.len());
        Counters::add(&counters.records, sum(|batch| batch.count as usize));
        Counters::add(&counters.bytes, sum(|batch| batch.bytes.len()));
        let retried = sum(|batch| usize::from(batch.attempts > 1));
        Counters::add(&counters.retried_batches, retried);
    }
}
