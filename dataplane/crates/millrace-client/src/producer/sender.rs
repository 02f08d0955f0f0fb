//! The task that sends batches.
//!
//! One per producer. It looks at a partition when something changed there or its timer is due,
//! lists it under its leader while it has something to send, and fills requests from these lists,
//! one batch per partition in turn, for as long as the leader's connection may take more.
//!
//! - this file: the loop, partitions, timers
//! - `request`: from lists to requests
//! - `answer`: from answers to settled, retried and failed batches
//! - `identity`: the producer's id and epoch

mod answer;
mod identity;
mod request;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::sync::{mpsc, watch};

use self::{identity::IdentityState, request::Request};
use super::{
    accumulator::{Accumulator, Counters},
    completion::{BatchCompletion, Outcome},
    error::DeliveryError,
    partition::{Batch, Guard, PartitionQueue},
};
use crate::{
    client::{Client, Lane, Metadata},
    connection::{Connection, Limits},
    error::RequestError,
    transport::BoxFuture,
};

/// How often expired batches are looked for: this part of the delivery time-out, but not more often
/// and not more rarely than these.
const SWEEPS_PER_TIMEOUT: u32 = 10;
const SWEEP_MIN: Duration = Duration::from_millis(10);
const SWEEP_MAX: Duration = Duration::from_secs(1);

/// See the module.
pub(super) struct Sender {
    client: Client,
    accumulator: Arc<Accumulator>,
    lane: Lane,
    metadata: watch::Receiver<Arc<Metadata>>,
    nodes: HashMap<i32, Node>,
    /// Partitions that have something to send and no leader.
    leaderless: Vec<Arc<PartitionQueue>>,
    /// When to look at a partition. At most one entry that counts per partition; entries that were
    /// replaced by earlier ones go when their time comes, which is `linger` or a pause away.
    timers: BinaryHeap<Reverse<Timer>>,
    next_sweep: Duration,
    /// Bounded by nodes times requests in flight.
    in_flight: HashMap<u64, Request>,
    next_request: u64,
    answers: mpsc::UnboundedReceiver<Answer>,
    answer: mpsc::UnboundedSender<Answer>,
    connecting: FuturesUnordered<BoxFuture<'static, (i32, Result<Connection, RequestError>)>>,
    identity: IdentityState,
}

/// One broker.
#[derive(Default)]
struct Node {
    connection: Option<Connection>,
    is_connecting: bool,
    in_flight: usize,
    /// Partitions that it leads and that have something to send, in turn.
    ready: VecDeque<Arc<PartitionQueue>>,
    /// Since when something waits that could not be sent.
    blocked_since: Option<Duration>,
    /// Its partitions get no records without a key.
    is_avoided: bool,
}

/// A request's answer.
struct Answer {
    request: u64,
    result: Result<Bytes, RequestError>,
}

/// A partition and when to look at it.
struct Timer {
    at: Duration,
    queue: Arc<PartitionQueue>,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// What woke the sender.
enum Event {
    Answered(Answer),
    Connected(i32, Result<Connection, RequestError>),
    Identified(identity::Initialized),
    MetadataChanged,
    /// Something was appended, or a timer is due.
    Look,
}

impl Sender {
    pub(super) fn new(client: Client, accumulator: Arc<Accumulator>) -> Self {
        let (answer, answers) = mpsc::unbounded_channel();
        let limits = Limits {
            in_flight_max: accumulator.config().max_in_flight,
        };
        Self {
            lane: client.new_lane(limits),
            metadata: client.watch_metadata(),
            nodes: HashMap::new(),
            leaderless: Vec::new(),
            timers: BinaryHeap::new(),
            next_sweep: client.now(),
            in_flight: HashMap::new(),
            next_request: 0,
            answers,
            answer,
            connecting: FuturesUnordered::new(),
            identity: IdentityState::new(accumulator.config().idempotence),
            client,
            accumulator,
        }
    }

    pub(super) async fn run(mut self) {
        let ended = Ended(Arc::clone(&self.accumulator));
        let sleep = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(sleep);
        let mut armed = Duration::ZERO;
        loop {
            self.look();
            self.send();
            if self.accumulator.is_finished() || self.accumulator.is_aborted() {
                break;
            }
            let next = self.next_look();
            if next != armed {
                armed = next;
                sleep.set(tokio::time::sleep(next.saturating_sub(self.client.now())));
            }
            let event = tokio::select! {
                biased;
                Some(answer) = self.answers.recv() => Event::Answered(answer),
                Some((node, result)) = self.connecting.next() => Event::Connected(node, result),
                identity = self.identity.initialized() => Event::Identified(identity),
                Ok(()) = self.metadata.changed() => Event::MetadataChanged,
                () = self.accumulator.wake.notified() => Event::Look,
                () = &mut sleep => {
                    armed = Duration::ZERO;
                    Event::Look
                }
            };
            self.handle(event);
        }
        self.client.close_lane(self.lane);
        drop(ended);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Answered(answer) => {
                self.settle(answer);
                while let Ok(answer) = self.answers.try_recv() {
                    self.settle(answer);
                }
            }
            Event::Connected(node, result) => self.connected(node, result),
            Event::Identified(result) => self.identified(result),
            Event::MetadataChanged => self.reroute(),
            Event::Look => {}
        }
    }

    /// Looks at partitions where something changed and at those whose timer is due.
    fn look(&mut self) {
        for queue in self.accumulator.take_attention() {
            queue.lock().has_attention = false;
            self.visit(&queue);
        }
        let now = self.client.now();
        while self
            .timers
            .peek()
            .is_some_and(|Reverse(timer)| timer.at <= now)
        {
            let Some(Reverse(Timer { at, queue })) = self.timers.pop() else {
                break;
            };
            let counts = {
                let mut state = queue.lock();
                let counts = state.timer == Some(at);
                state.timer = state.timer.filter(|_| !counts);
                counts
            };
            if counts {
                self.visit(&queue);
            }
        }
        if now >= self.next_sweep {
            self.sweep(now);
        }
    }

    /// When to look again if nothing happens before.
    fn next_look(&self) -> Duration {
        let sweep = if self.accumulator.is_idle() {
            Duration::MAX
        } else {
            self.next_sweep
        };
        let timer = self.timers.peek().map(|Reverse(timer)| timer.at);
        timer.map_or(sweep, |timer| timer.min(sweep))
    }

    /// Lists a partition if it has something to send, starts its sequences over if they need it,
    /// and sets its timer.
    fn visit(&mut self, queue: &Arc<PartitionQueue>) {
        let now = self.client.now();
        let mut state = queue.lock();
        if state.needs_reset()
            && let Some(identity) = self.identity_after(state.sequences.identity())
        {
            state.reset_sequences(identity);
        }
        let accumulator = Arc::clone(&self.accumulator);
        let is_due = |open: &_| accumulator.is_due(open, now);
        if !state.is_listed && state.has_sendable(now, is_due) {
            state.is_listed = true;
            match self.leader_of(queue) {
                Some(node) => {
                    let ready = &mut self.nodes.entry(node).or_default().ready;
                    ready.push_back(Arc::clone(queue));
                }
                None => {
                    self.leaderless.push(Arc::clone(queue));
                    self.client.request_refresh();
                }
            }
        }
        self.arm(queue, &mut state, now);
    }

    /// Sets a partition's timer for the next thing that time alone will change.
    fn arm(&mut self, queue: &Arc<PartitionQueue>, state: &mut Guard<'_>, now: Duration) {
        let linger = self.accumulator.config().linger;
        let retry = Some(state.retry_at).filter(|_| state.has_ready());
        let due = state.open.as_ref().map(|open| open.created_at + linger);
        let next = [retry, due]
            .into_iter()
            .flatten()
            .filter(|at| *at > now)
            .min();
        if let Some(at) = next
            && state.timer.is_none_or(|timer| at < timer)
        {
            state.timer = Some(at);
            let queue = Arc::clone(queue);
            self.timers.push(Reverse(Timer { at, queue }));
        }
    }

    fn leader_of(&self, queue: &PartitionQueue) -> Option<i32> {
        let metadata = self.metadata.borrow();
        let partition = metadata.partition(queue.topic(), queue.id())?;
        partition.leader
    }

    /// The metadata changed: partitions go to their present leaders.
    fn reroute(&mut self) {
        let metadata = Arc::clone(&self.metadata.borrow_and_update());
        for topic in self.accumulator.topics() {
            if let Some(told) = metadata.topic(topic.name()) {
                topic.update(told);
            }
        }
        let mut listed = std::mem::take(&mut self.leaderless);
        for node in self.nodes.values_mut() {
            listed.extend(node.ready.drain(..));
            node.is_avoided = false;
        }
        for queue in listed {
            queue.lock().is_listed = false;
            self.visit(&queue);
        }
    }

    /// Looks for batches that have waited too long, and for brokers that take nothing.
    fn sweep(&mut self, now: Duration) {
        let config = self.accumulator.config();
        let (timeout, availability) = (config.delivery_timeout, config.availability_timeout);
        let idempotent = config.idempotence;
        let mut period = (timeout / SWEEPS_PER_TIMEOUT).clamp(SWEEP_MIN, SWEEP_MAX);
        if !availability.is_zero() {
            period = period.min((availability / 2).max(SWEEP_MIN));
            self.avoid_blocked(now, availability);
        }
        self.next_sweep = now + period;
        let Some(before) = now.checked_sub(timeout) else {
            return;
        };
        for topic in self.accumulator.topics() {
            let partitions: Vec<_> = topic.partitions().clone();
            for queue in partitions {
                let expired = {
                    let mut state = queue.lock();
                    if state.oldest().is_none_or(|oldest| oldest > before) {
                        continue;
                    }
                    state.expire(before, &self.accumulator.memory, idempotent)
                };
                for batch in expired.batches {
                    let last = batch.last_error.clone();
                    let error = DeliveryError::TimedOut {
                        after: timeout,
                        last,
                    };
                    self.fail(batch, Outcome::Failed(error));
                }
                for (completion, count) in expired.in_flight {
                    let error = DeliveryError::TimedOut {
                        after: timeout,
                        last: None,
                    };
                    self.failed_records(&completion, count, Outcome::Failed(error));
                }
                self.visit(&queue);
            }
        }
    }

    /// Records without a key go past brokers that have taken nothing for so long.
    fn avoid_blocked(&mut self, now: Duration, timeout: Duration) {
        let mut avoided = Vec::new();
        for (id, node) in &mut self.nodes {
            let since = node.blocked_since.filter(|_| !node.ready.is_empty());
            if !node.is_avoided && since.is_some_and(|since| now.saturating_sub(since) >= timeout) {
                node.is_avoided = true;
                avoided.push(*id);
            }
        }
        for node in avoided {
            self.set_available(node, false);
        }
    }

    fn set_available(&self, node: i32, available: bool) {
        for topic in self.accumulator.topics() {
            for queue in topic.partitions().iter() {
                if self.leader_of(queue) == Some(node) {
                    queue.set_available(available);
                }
            }
        }
    }

    /// Settles a batch that is given up, and gives its memory back.
    fn fail(&self, batch: Batch, outcome: Outcome) {
        self.failed_records(&batch.completion, batch.count, outcome);
        drop(batch.reserved);
        self.accumulator.memory.recycle_sent(batch.bytes);
    }

    fn failed_records(&self, completion: &BatchCompletion, count: u32, outcome: Outcome) {
        if self.accumulator.complete(completion, outcome) {
            let failed = &self.accumulator.counters.failed_records;
            Counters::add(failed, count as usize);
        }
    }
}

/// Ends the producer however the sender ends, so that nobody waits for it.
struct Ended(Arc<Accumulator>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.end();
    }
}
