//! Requests of clients to brokers.

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use millrace_coordinator::{
    GroupError,
    messages::{Caller, CommittedOffset},
};
use millrace_log::{
    AppendOrigin,
    error::{AppendError, ReadError},
};
use millrace_model::{NodeId, Offset, TopicPartition};
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
            return vec![Err(not_leader(&serving, &id))];
        };
        let (mut tickets, mut refused) = (Vec::new(), None);
        for (sent, batch) in batches {
            let is_replaced = self.is_replaced(machine, serving.epoch, &id);
            let end = log.end_offset();
            match log.append(vec![batch], AppendOrigin::Client).await {
                Ok(ticket) => tickets.push((sent, is_replaced.then_some(end), ticket)),
                Err(error) => {
                    refused = Some(refusal(&error, is_replaced));
                    break;
                }
            }
        }
        let mut produced = Vec::new();
        for (sent, replaced_at, ticket) in tickets {
            match ticket.await {
                Ok(appended) => {
                    // What it had before may be acknowledged again: its successor has read it.
                    if replaced_at.is_some_and(|end| appended.base_offset >= end) {
                        self.history.violated(format!(
                            "node {} acknowledged {sent:?} of partition {partition} under epoch {}, which was replaced \
                             before the batch came",
                            machine.node, serving.epoch
                        ));
                    }
                    produced.push(Ok(appended.base_offset));
                }
                Err(error) => {
                    produced.push(Err(refusal(&error, replaced_at.is_some())));
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
            return Err(not_leader(&serving, &id));
        };
        let is_replaced = self.is_replaced(machine, serving.epoch, &id);
        match log.read(from, FETCH_BYTES, true).await {
            // It takes its own end for the partition's, until it learns who has gone on.
            Ok(read) if is_replaced && read.batches.is_empty() => {
                Err(Refusal::Failed("replaced".to_owned()))
            }
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
            self.history
                .violated("a fetched batch is broken".to_owned());
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

    /// Within the broker's process.
    async fn commit_here(
        &self,
        machine: &Machine,
        process: &Process,
        (group, offset): (String, Offset),
    ) -> Result<(), Refusal> {
        let Some(serving) = process.serving.lock().clone() else {
            return Err(Refusal::NoAnswer);
        };
        let id = self.partition_of_group(&group);
        let is_replaced = self.is_replaced(machine, serving.epoch, &id);
        let offsets = vec![(
            self.partition(0),
            committed(offset, self.seams.clock.wall_ms()),
        )];
        let outside = Caller {
            member_id: String::new(),
            instance_id: None,
            generation: -1,
        };
        match serving.groups.commit(&group, &outside, offsets).await {
            Ok(()) if is_replaced => {
                self.history.violated(format!(
                    "node {} acknowledged {offset} of group {group} under epoch {}, which was replaced before it came",
                    machine.node, serving.epoch
                ));
                Ok(())
            }
            Ok(()) => Ok(()),
            Err(error) => Err(group_refusal(&serving, &id, &error)),
        }
    }

    /// Within the broker's process. What a broker that was replaced says is not compared with anything: it serves what it knows
    /// until it learns, as in Kafka.
    fn committed_here(
        &self,
        machine: &Machine,
        process: &Process,
        (group, least): (String, Offset),
    ) -> Result<Option<Offset>, Refusal> {
        let Some(serving) = process.serving.lock().clone() else {
            return Err(Refusal::NoAnswer);
        };
        let id = self.partition_of_group(&group);
        let offsets = serving.groups.offsets(&group, &[self.partition(0)]);
        let offsets = offsets.map_err(|error| group_refusal(&serving, &id, &error))?;
        let found = offsets.into_iter().flatten().next();
        // The simulation commits offsets that exist.
        let found = found.and_then(|committed| Offset::try_from(committed.offset).ok());
        if !self.is_replaced(machine, serving.epoch, &id) && found.unwrap_or(0) < least {
            self.history.violated(format!(
                "node {} has the offset {found:?} of group {group}, but {least} was acknowledged",
                machine.node
            ));
        }
        Ok(found)
    }

    /// Commits the offset of a group that assigns partitions by itself.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        to: NodeId,
        group: String,
        offset: Offset,
    ) -> Result<(), Refusal> {
        let world = Arc::clone(self);
        let answer = self.ask(to, |machine, process| async move {
            let commit = (group, offset);
            world.commit_here(&machine, &process, commit).await
        });
        answer.await?
    }

    /// The offset that a group has committed, which must be `least` or more.
    pub(crate) async fn committed(
        self: &Arc<Self>,
        to: NodeId,
        group: String,
        least: Offset,
    ) -> Result<Option<Offset>, Refusal> {
        let world = Arc::clone(self);
        let answer = self.ask(to, |machine, process| async move {
            world.committed_here(&machine, &process, (group, least))
        });
        answer.await?
    }
}

fn committed(offset: Offset, commit_ms: i64) -> CommittedOffset {
    CommittedOffset {
        offset: i64::try_from(offset).unwrap_or(i64::MAX),
        leader_epoch: -1,
        metadata: String::new(),
        commit_ms,
        expire_ms: None,
    }
}

fn not_leader(serving: &Serving, id: &TopicPartition) -> Refusal {
    let leaders = serving.logs.leaders();
    let led = leaders.iter().find(|(led, _)| led == id);
    Refusal::NotLeader(led.and_then(|(_, leader)| leader.node))
}

fn group_refusal(serving: &Serving, id: &TopicPartition, error: &GroupError) -> Refusal {
    match error {
        GroupError::NotCoordinator => not_leader(serving, id),
        error => Refusal::Failed(error.to_string()),
    }
}

/// A broker that was replaced and has not learned it yet does not know what its successor has taken from the producer.
fn refusal(error: &AppendError, is_replaced: bool) -> Refusal {
    match error {
        error if is_replaced => Refusal::Failed(error.to_string()),
        AppendError::OutOfOrderSequence { .. }
        | AppendError::InvalidSequence { .. }
        | AppendError::InvalidProducerEpoch { .. } => Refusal::Sequence(error.to_string()),
        error => Refusal::Failed(error.to_string()),
    }
}
