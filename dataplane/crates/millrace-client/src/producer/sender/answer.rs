//! From answers to settled, retried and failed batches.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use millrace_model::TopicId;
use millrace_record::{BatchBuilder, Header, Record, records};
use millrace_wire::messages::{
    ProduceRequest, ProduceResponse,
    produce_response::{NodeEndpoint, PartitionProduceResponse, TopicProduceResponse},
};

use super::{Answer, Sender, request::Request};
use crate::{
    error::{BrokerError, ErrorCode, RequestError},
    producer::{
        completion::{BatchCompletion, Outcome},
        config::Acks,
        error::DeliveryError,
        partition::{Batch, PartitionQueue},
    },
};

/// The two halves of a batch: completion, bytes and number of records.
type Parts = [(Arc<BatchCompletion>, (Bytes, u32)); 2];

/// What to do with a batch that was not stored.
enum Verdict {
    /// Send it again, after a pause.
    Retry(RequestError),
    /// Send it again as soon as those before it are settled: they are why it was refused.
    RetryInTurn(RequestError),
    /// Send it again in two halves.
    Split(BrokerError),
    /// Give it up.
    GiveUp(Outcome),
}

impl Sender {
    /// Takes in the answer to one request.
    pub(super) fn settle(&mut self, answer: Answer) {
        let Some(request) = self.in_flight.remove(&answer.request) else {
            return;
        };
        let node = self.nodes.entry(request.node).or_default();
        node.in_flight = node.in_flight.saturating_sub(1);
        let frame = match answer.result {
            Ok(frame) => frame,
            Err(error) => {
                self.client.request_refresh();
                return self.failed(request.batches, &error);
            }
        };
        if self.accumulator.config().acks == Acks::None {
            for (queue, batch) in request.batches {
                self.stored(&queue, batch, None, None);
            }
            return;
        }
        let decoded = request
            .connection
            .decode::<ProduceRequest>(request.version, frame);
        match decoded {
            Ok(response) => self.answered(request, response),
            Err(error) => self.failed(request.batches, &error),
        }
    }

    /// The request as a whole has no answer.
    fn failed(&mut self, batches: Vec<(Arc<PartitionQueue>, Batch)>, error: &RequestError) {
        for (queue, batch) in batches {
            let verdict = if error.is_retriable() {
                Verdict::Retry(error.clone())
            } else {
                Verdict::GiveUp(Outcome::Failed(error.clone().into()))
            };
            self.decide(&queue, batch, verdict);
        }
    }

    fn answered(&mut self, request: Request, mut response: ProduceResponse) {
        let endpoints = std::mem::take(&mut response.node_endpoints);
        let address = request.connection.address();
        for (queue, batch) in request.batches {
            let by_id = request.version >= millrace_wire::client::PRODUCE_TOPIC_ID_FROM;
            let mut named = request.topic_ids.iter();
            let named = named.find(|(name, _)| by_id && name == queue.topic());
            let told = find(&mut response.responses, &queue, named.map(|(_, id)| *id));
            match told {
                Some(told) => self.partition_answered(&queue, batch, &told, &endpoints),
                None => {
                    let error = RequestError::Protocol {
                        address: address.clone(),
                        reason: format!("the answer to Produce lacks {queue:?}"),
                    };
                    let outcome = Outcome::Failed(error.into());
                    self.decide(&queue, batch, Verdict::GiveUp(outcome));
                }
            }
        }
    }

    fn partition_answered(
        &mut self,
        queue: &Arc<PartitionQueue>,
        batch: Batch,
        told: &PartitionProduceResponse,
        endpoints: &[NodeEndpoint],
    ) {
        let offset = Some(told.base_offset).filter(|offset| *offset >= 0);
        let Some(code) = ErrorCode::from_code(told.error_code) else {
            let time = Some(told.log_append_time_ms).filter(|time| *time >= 0);
            return self.stored(queue, batch, offset, time);
        };
        if code == ErrorCode::DUPLICATE_SEQUENCE_NUMBER && self.accumulator.config().idempotence {
            return self.stored(queue, batch, offset, None);
        }
        tracing::debug!(partition = ?queue, %code, "a batch was refused");
        let error = BrokerError {
            code,
            message: told.error_message.as_deref().map(ToOwned::to_owned),
        };
        let leader = (
            told.current_leader.leader_id.0,
            told.current_leader.leader_epoch,
        );
        let (topic, index) = (queue.topic(), queue.id());
        let knows_leader = self.client.learn_leader(topic, index, leader, endpoints);
        if code.is_stale_metadata() && !knows_leader {
            self.client.request_refresh();
        }
        let verdict = self.verdict(queue, &batch, error, told, knows_leader);
        self.decide(queue, batch, verdict);
    }

    fn verdict(
        &self,
        queue: &PartitionQueue,
        batch: &Batch,
        error: BrokerError,
        told: &PartitionProduceResponse,
        knows_leader: bool,
    ) -> Verdict {
        let code = error.code;
        let out_of_sequence = [
            ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode::UNKNOWN_PRODUCER_ID,
        ];
        if out_of_sequence.contains(&code) && self.accumulator.config().idempotence {
            let is_oldest = queue.lock().sequences.refused(batch.number());
            return if is_oldest {
                Verdict::Retry(error.into())
            } else {
                Verdict::RetryInTurn(error.into())
            };
        }
        if code == ErrorCode::CLUSTER_AUTHORIZATION_FAILED {
            self.accumulator.abort(&error.clone().into());
        }
        if code == ErrorCode::MESSAGE_TOO_LARGE && batch.count > 1 {
            return Verdict::Split(error);
        }
        if code.is_retriable() {
            return if knows_leader {
                Verdict::RetryInTurn(error.into())
            } else {
                Verdict::Retry(error.into())
            };
        }
        if told.record_errors.is_empty() {
            return Verdict::GiveUp(Outcome::Failed(error.into()));
        }
        let refused = told.record_errors.iter().filter_map(|record| {
            let index = u32::try_from(record.batch_index).ok()?;
            let text = record.batch_index_error_message.as_deref();
            let message = text.map(ToOwned::to_owned);
            Some((index, BrokerError { code, message }))
        });
        Verdict::GiveUp(Outcome::Refused {
            records: refused.collect::<BTreeMap<_, _>>(),
            others: error,
        })
    }

    /// The broker has the batch.
    fn stored(
        &mut self,
        queue: &Arc<PartitionQueue>,
        batch: Batch,
        base_offset: Option<i64>,
        log_append_time_ms: Option<i64>,
    ) {
        {
            let mut state = queue.lock();
            state.landed(&batch);
            state.sequences.stored(batch.number());
            state.failures = 0;
        }
        let outcome = Outcome::Stored {
            base_offset,
            log_append_time_ms,
        };
        drop(batch.reserved);
        self.accumulator.memory.recycle_sent(batch.bytes);
        self.accumulator.complete(&batch.completion, outcome);
        self.visit(queue);
    }

    fn decide(&mut self, queue: &Arc<PartitionQueue>, mut batch: Batch, verdict: Verdict) {
        // The user has been told that it failed: a retry could only surprise.
        let is_over = batch.completion.is_complete();
        let mut state = queue.lock();
        state.landed(&batch);
        match verdict {
            Verdict::Retry(error) if !is_over => {
                let now = self.client.now();
                if now >= state.retry_at {
                    state.failures += 1;
                    let random = &*self.client.config().random;
                    let pause = self.client.retry_backoff().after(state.failures, random);
                    state.retry_at = now + pause;
                }
                batch.last_error = Some(error);
                state.requeue(batch);
            }
            Verdict::RetryInTurn(error) if !is_over => {
                batch.last_error = Some(error);
                state.requeue(batch);
            }
            Verdict::Split(error) if !is_over => {
                state.sequences.gave_up(batch.number());
                match self.parts(&batch) {
                    Some(parts) => {
                        let halves = self.halve(batch, parts);
                        halves.into_iter().for_each(|half| state.requeue(half));
                    }
                    None => self.fail(batch, Outcome::Failed(error.into())),
                }
            }
            Verdict::GiveUp(outcome) => {
                state.sequences.gave_up(batch.number());
                drop(state);
                self.fail(batch, outcome);
                return self.visit(queue);
            }
            Verdict::Retry(_) | Verdict::RetryInTurn(_) | Verdict::Split(_) => {
                state.sequences.gave_up(batch.number());
                drop(state);
                self.fail(batch, Outcome::Failed(DeliveryError::Closed));
                return self.visit(queue);
            }
        }
        drop(state);
        self.visit(queue);
    }

    /// Divides a batch in two.
    fn halve(&self, batch: Batch, parts: Parts) -> [Batch; 2] {
        let [(one, first), (other, second)] = parts;
        one.set_records(first.1);
        other.set_records(second.1);
        let completions = vec![(0, Arc::clone(&one)), (first.1, Arc::clone(&other))];
        self.accumulator.split(&batch.completion, completions);
        let [memory, more_memory] = batch.reserved.halves();
        let half = |completion, (bytes, count): (Bytes, u32), reserved| Batch {
            completion,
            bytes,
            count,
            created_at: batch.created_at,
            reserved,
            sequence: None,
            attempts: 0,
            last_error: None,
        };
        [half(one, first, memory), half(other, second, more_memory)]
    }

    /// The halves of a batch; `None` if it cannot be divided.
    fn parts(&self, batch: &Batch) -> Option<Parts> {
        let [one, other] = batch.completion.halves()?;
        let all: Vec<_> = records(&batch.bytes).ok()?.collect::<Result<_, _>>().ok()?;
        let (first, second) = all.split_at(all.len().div_ceil(2));
        Some([(one, self.build(first)?), (other, self.build(second)?)])
    }

    fn build(&self, records: &[Record]) -> Option<(Bytes, u32)> {
        let mut builder = BatchBuilder::new(self.accumulator.config().compression);
        for record in records {
            let header = |header: &'_ Header| {
                let key = String::from_utf8(header.key.to_vec()).ok()?;
                Some((key, header.value.clone()))
            };
            let headers: Vec<_> = record.headers.iter().map(header).collect::<Option<_>>()?;
            let headers: Vec<_> = headers
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_deref()))
                .collect();
            let (key, value) = (record.key.as_deref(), record.value.as_deref());
            builder.push(record.timestamp, key, value, &headers);
        }
        let count = builder.count().unsigned_abs();
        Some((builder.build().freeze(), count))
    }
}

/// Takes the part for one partition out of an answer; `id` where the answer names topics by id.
fn find(
    topics: &mut [TopicProduceResponse],
    queue: &PartitionQueue,
    id: Option<TopicId>,
) -> Option<PartitionProduceResponse> {
    let mut parts = topics.iter_mut().filter(|topic| match id {
        Some(id) => topic.topic_id == id.0,
        None => topic.name.as_str() == &**queue.topic(),
    });
    parts.find_map(|topic| {
        let parts = &mut topic.partition_responses;
        let place = parts.iter().position(|part| part.index == queue.id())?;
        Some(parts.swap_remove(place))
    })
}
