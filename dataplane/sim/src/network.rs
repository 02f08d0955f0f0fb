//! Requests of clients to brokers.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use millrace_log::{
    AppendOrigin,
    error::{AppendError, ReadError},
};
use millrace_model::{NodeId, Offset};
use millrace_record::{Batch, BatchLimits, split};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use crate::{
    broker::Serving,
    history::Sent,
    machine::{Machine, Process},
    world::World,
};

/// How long a client waits for an answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes that one fetch asks for.
const FETCH_BYTES: usize = 4 * 1024;

/// Why a request brought nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The broker does not run, or nobody heard from it in time. Whether it did anything is not known.
    NoAnswer,
    /// Another broker leads the partition, as far as this one knows.
    NotLeader(Option<NodeId>),
    /// Try again.
    Failed(String),
    /// The producer's sequences do not fit.
    Sequence(String),
}

/// What a produce request was answered: of each batch, in order, up to the first that failed.
pub(crate) type Produced = Vec<Result<Offset, Refusal>>;

impl World {
    /// Sends `batches` of one producer over one connection: they are appended in their order.
    pub(crate) async fn produce(
        self: &Arc<Self>,
        to: NodeId,
        partition: u32,
        batches: Vec<(Sent, Batch)>,
    ) -> Produced {
        let world = Arc::clone(self);
        let answer = self.ask(to, |machine, process| async move {
            world.append(&machine, &process, partition, batches).await
        });
        answer.await.unwrap_or_else(|refusal| vec![Err(refusal)])
    }

    /// Reads batches from `from` on.
    pub(crate) async fn fetch(
        self: &Arc<Self>,
        to: NodeId,
        partition: u32,
        from: Offset,
    ) -> Result<Vec<(Offset, Sent)>, Refusal> {
        let world = Arc::clone(self);
        let answer = self.ask(to, |machine, process| async move {
            world.read(&machine, &process, (partition, from)).await
        });
        answer.await?
    }

    /// Sends a request, has the broker's process work on it, and brings the answer back.
    async fn ask<T, F>(
        &self,
        to: NodeId,
        work: impl FnOnce(Arc<Machine>, Arc<Process>) -> F,
    ) -> Result<T, Refusal>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.travel().await;
        let machine = self.machines.of(to).ok_or(Refusal::NoAnswer)?;
        if machine.clients.is_cut() {
            sleep(REQUEST_TIMEOUT).await;
            return Err(Refusal::NoAnswer);
        }
        let process = machine.process().ok_or(Refusal::NoAnswer)?;
        let (reply, answer) = oneshot::channel();
        let work = work(Arc::clone(machine), Arc::clone(&process));
        process.tasks.spawn_awaited(async move {
            // Where nobody waits for it any more, the answer is lost.
            let _ = reply.send(work.await);
        });
        let answer = timeout(REQUEST_TIMEOUT, answer).await;
        let answer = answer.map_err(|_| Refusal::NoAnswer)?;
        self.travel().await;
        if machine.clients.is_cut() {
            sleep(REQUEST_TIMEOUT).await;
            return Err(Refusal::NoAnswer);
        }
        answer.map_err(|_| Refusal::NoAnswer)
    }

    async fn travel(&self) {
        sleep(self.seams.between_ms(1, 4)).await;
    }

    /// Within the broker's process.
    async fn append(
        &self,
        machine: &Machine,
        process: &Process,
        partition: u32,
        batches: Vec<(Sent, Batch)>,
    ) -> Produced {
        let Some(serving) = process.serving.lock().clone() else {
            return vec![Err(Refusal::NoAnswer)];
        };
        let id = self.partition(partition);
        let Some(log) = serving.logs.partition(&id) else {
            return vec![Err(self.not_leader(&serving, partition))];
        };
        let (mut tickets, mut refused) = (Vec::new(), None);
        for (sent, batch) in batches {
            let is_replaced = self.is_replaced(machine, serving.epoch, partition);
            match log.append(vec![batch], AppendOrigin::Client).await {
                Ok(ticket) => tickets.push((sent, is_replaced, ticket)),
                Err(error) => {
                    refused = Some(refusal(&error));
                    break;
                }
            }
        }
        let mut produced = Vec::new();
        for (sent, is_replaced, ticket) in tickets {
            match ticket.await {
                Ok(appended) => {
                    if is_replaced {
                        self.history.violated(format!(
                            "node {} acknowledged {sent:?} of partition {partition} under epoch {}, which was replaced \
                             before the batch came",
                            machine.node, serving.epoch
                        ));
                    }
                    produced.push(Ok(appended.base_offset));
                }
                Err(error) => {
                    produced.push(Err(refusal(&error)));
                    return produced;
                }
            }
        }
        produced.extend(refused.map(Err));
        produced
    }

    /// Within the broker's process.
    async fn read(
        &self,
        machine: &Machine,
        process: &Process,
        (partition, from): (u32, Offset),
    ) -> Result<Vec<(Offset, Sent)>, Refusal> {
        let Some(serving) = process.serving.lock().clone() else {
            return Err(Refusal::NoAnswer);
        };
        let id = self.partition(partition);
        let Some(log) = serving.logs.partition(&id) else {
            return Err(self.not_leader(&serving, partition));
        };
        let is_replaced = self.is_replaced(machine, serving.epoch, partition);
        match log.read(from, FETCH_BYTES, true).await {
            Ok(read) => read.batches.iter().map(|batch| self.parse(batch)).collect(),
            Err(ReadError::OutOfRange {
                log_start, log_end, ..
            }) if !is_replaced => {
                let node = machine.node;
                self.history.violated(format!(
                    "node {node} has partition {partition} from {log_start} to {log_end}, but a consumer was at {from}"
                ));
                Err(Refusal::Failed("out of range".to_owned()))
            }
            Err(error) => Err(Refusal::Failed(error.to_string())),
        }
    }

    fn parse(&self, bytes: &Bytes) -> Result<(Offset, Sent), Refusal> {
        let batches = split(BytesMut::from(bytes.as_ref())).unwrap_or_default();
        let [batch] = batches.as_slice() else {
            self.history.violated("a fetched batch is broken".to_owned());
            return Err(Refusal::Failed("broken".to_owned()));
        };
        if let Err(error) = batch.validate(&BatchLimits::default()) {
            self.history.violated(format!("a fetched batch: {error}"));
        }
        let header = batch.header();
        let at = Offset::try_from(header.base_offset).unwrap_or(Offset::MAX);
        let sent = Sent {
            producer: header.producer_id,
            sequence: header.base_sequence,
            count: batch.count(),
        };
        Ok((at, sent))
    }

    fn not_leader(&self, serving: &Serving, partition: u32) -> Refusal {
        let leaders = serving.logs.leaders();
        let led = leaders.iter().find(|(id, _)| id.partition == partition);
        Refusal::NotLeader(led.and_then(|(_, leader)| leader.node))
    }
}

fn refusal(error: &AppendError) -> Refusal {
    match error {
        AppendError::OutOfOrderSequence { .. }
        | AppendError::InvalidSequence { .. }
        | AppendError::InvalidProducerEpoch { .. } => Refusal::Sequence(error.to_string()),
        error => Refusal::Failed(error.to_string()),
    }
}
