//! Which partitions to fetch now, and what came of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use millrace_model::TopicId;
use millrace_record::{InvalidBatch, header_of};

use super::{
    Flow, PartitionId, Standing,
    aborted::Aborted,
    partition::{Chunk, Partition},
};
use crate::{
    consumer::{config::OffsetReset, error::ConsumerError},
    error::{BrokerError, ErrorCode},
    topic_partition::TopicPartition,
};

/// Who leads a partition, as metadata tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::consumer) struct Leader {
    pub(in crate::consumer) node: i32,
    pub(in crate::consumer) epoch: Option<i32>,
    pub(in crate::consumer) topic_id: Option<TopicId>,
}

/// What to do now.
#[derive(Debug, Default)]
pub(in crate::consumer) struct Plan {
    /// At most one for each node.
    pub(in crate::consumer) fetches: Vec<Fetch>,
    pub(in crate::consumer) lookups: Vec<Lookup>,
    /// Some partition has no leader.
    pub(in crate::consumer) needs_metadata: bool,
    /// Nodes with a request in flight while a reader of another partition has nothing left.
    pub(in crate::consumer) blocked: BTreeSet<i32>,
    /// When some partition may be tried again.
    pub(in crate::consumer) retry_at: Option<Duration>,
}

/// One Fetch request.
#[derive(Debug)]
pub(in crate::consumer) struct Fetch {
    pub(in crate::consumer) node: i32,
    pub(in crate::consumer) max_bytes: usize,
    pub(in crate::consumer) parts: Vec<FetchPart>,
}

/// One partition of a Fetch request.
#[derive(Debug, Clone)]
pub(in crate::consumer) struct FetchPart {
    id: PartitionId,
    token: u64,
    pub(in crate::consumer) name: TopicPartition,
    pub(in crate::consumer) topic_id: Option<TopicId>,
    pub(in crate::consumer) offset: i64,
    pub(in crate::consumer) leader_epoch: Option<i32>,
    pub(in crate::consumer) max_bytes: usize,
}

/// What a broker answers for one partition.
#[derive(Debug, Clone, Default)]
pub(in crate::consumer) struct Answer {
    pub(in crate::consumer) error: Option<ErrorCode>,
    pub(in crate::consumer) high_watermark: i64,
    pub(in crate::consumer) last_stable_offset: i64,
    /// First offset and producer id.
    pub(in crate::consumer) aborted: Vec<(i64, i64)>,
    pub(in crate::consumer) records: Bytes,
}

/// An offset to find out.
#[derive(Debug, Clone)]
pub(in crate::consumer) struct Lookup {
    id: PartitionId,
    token: u64,
    pub(in crate::consumer) name: TopicPartition,
    pub(in crate::consumer) leader: Leader,
    pub(in crate::consumer) question: Question,
}

/// What to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::consumer) enum Question {
    /// What the group has committed.
    Committed,
    /// The first, the last, or the first of at least an age.
    Reset(OffsetReset),
    /// The first record that is not older than this.
    Timestamp(i64),
    /// Where an epoch ends.
    EpochEnd(i32),
}

impl Flow {
    /// Decides what to request. `may_fetch` tells whether a node has room for one more request and
    /// no pause; its second argument is whether the partition's reader has nothing left.
    pub(in crate::consumer) fn plan(
        &mut self,
        now: Duration,
        may_fetch: impl Fn(i32, bool) -> bool,
        leader_of: impl Fn(&TopicPartition) -> Option<Leader>,
    ) -> Plan {
        let mut plan = Plan::default();
        let share = self.share();
        let (low, part_max) = (
            share / 2,
            self.config.max_partition_fetch_bytes.min(share / 2),
        );
        let mut by_node: BTreeMap<i32, Vec<FetchPart>> = BTreeMap::new();
        let count = self.partitions.len();
        self.rotation = (self.rotation + 1) % count.max(1);
        for nth in 0..count {
            let index = (nth + self.rotation) % count;
            let slot = self.partitions[index].as_ref();
            let demand = slot.is_some_and(|partition| self.has_demand(partition, now));
            let Some(partition) = &mut self.partitions[index] else {
                continue;
            };
            partition.is_wanted = false;
            let id = PartitionId {
                index,
                serial: partition.serial,
            };
            let Some(leader) = partition.is_due(now, &mut plan, &leader_of) else {
                continue;
            };
            if let Some(question) = partition.question(leader) {
                plan.lookups.push(partition.ask_for(id, leader, question));
                continue;
            }
            let fetches = demand && partition.wants_records(low);
            if fetches && may_fetch(leader.node, partition.buffered == 0) {
                let part = partition.part(id, leader, part_max.max(1));
                by_node.entry(leader.node).or_default().push(part);
            } else if fetches && partition.buffered == 0 {
                plan.blocked.insert(leader.node);
            }
            // Planned again when the node's request is answered: nobody needs to ask for it.
            partition.is_wanted = fetches;
        }
        for (node, parts) in by_node {
            plan.fetches.extend(self.within_budget(node, parts));
        }
        plan
    }

    /// A request that fits into what is free. Where too little is, only partitions with nothing
    /// buffered are fetched: at least one batch, so that no reader waits for another one.
    fn within_budget(&mut self, node: i32, mut parts: Vec<FetchPart>) -> Option<Fetch> {
        let sum = parts.iter().map(|part| part.max_bytes).sum();
        let wanted = self.config.fetch_max_bytes.min(sum);
        if self.budget.free() < wanted && self.budget.has_waste() {
            for partition in self.partitions.iter_mut().flatten() {
                partition.unshare(&mut self.budget);
            }
        }
        let free = self.budget.free();
        if parts.first().is_some_and(|part| free < part.max_bytes) {
            parts.retain(|part| {
                let partition = self.get_mut(part.id);
                // The others ask again when more of them is delivered.
                partition.is_some_and(|one| {
                    one.is_wanted = one.buffered == 0;
                    one.is_wanted
                })
            });
        }
        if parts.is_empty() {
            return None;
        }
        let max_bytes = wanted.min(free).max(1);
        self.budget.reserve(max_bytes);
        for part in &parts {
            if let Some(partition) = self.get_mut(part.id) {
                partition.in_flight = true;
            }
        }
        Some(Fetch {
            node,
            max_bytes,
            parts,
        })
    }

    /// A request has no answer.
    pub(in crate::consumer) fn fetch_failed(&mut self, fetch: &Fetch) {
        self.budget.unreserve(fetch.max_bytes);
        for part in &fetch.parts {
            if let Some(partition) = self.current(part.id, part.token) {
                partition.in_flight = false;
            }
        }
    }

    /// A request is answered: `answers` by the position of the part. Parts without one have
    /// nothing new. `retry_after` is the pause after so many failures in a row.
    pub(in crate::consumer) fn fetched(
        &mut self,
        fetch: &Fetch,
        answers: Vec<(usize, Answer)>,
        now: Duration,
        retry_after: &dyn Fn(u32) -> Duration,
    ) {
        self.fetch_failed(fetch);
        let bytes: usize = answers.iter().map(|(_, answer)| answer.records.len()).sum();
        self.metrics.fetched_bytes += bytes as u64;
        let mut accepted = Vec::with_capacity(answers.len());
        for (at, answer) in answers {
            let Some(part) = fetch.parts.get(at) else {
                continue;
            };
            let records = answer.records.len();
            let Some(partition) = self.current(part.id, part.token) else {
                self.metrics.discarded_bytes += records as u64;
                continue;
            };
            partition.told(&answer);
            match answer.error {
                Some(code) => self.fetch_error(part.id, code, now, retry_after),
                None => {
                    partition.failures = 0;
                    match whole_batches(&answer.records, part.offset) {
                        Ok(Some(whole)) => accepted.push((part.id, answer, whole)),
                        Ok(None) => self.metrics.discarded_bytes += records as u64,
                        Err(reason) => {
                            self.metrics.discarded_bytes += records as u64;
                            self.damaged(part.id, reason.to_string(), now);
                            self.offer(part.id, false);
                        }
                    }
                }
            }
        }
        let live = accepted.iter().map(|(_, _, whole)| whole.bytes).sum();
        let frame = self.budget.charge(bytes, live);
        for (id, answer, whole) in accepted {
            self.metrics.discarded_bytes += (answer.records.len() - whole.bytes) as u64;
            let Some(partition) = self.get_mut(id) else {
                continue;
            };
            partition.fetch_offset = whole.next_offset;
            partition.fetch_epoch = whole.epoch.or(partition.fetch_epoch);
            partition.buffered += whole.bytes;
            partition.chunks.push_back(Chunk {
                bytes: answer.records.slice(..whole.bytes),
                frame,
                aborted: Aborted::new(answer.aborted),
            });
            self.offer(id, false);
        }
    }

    fn current(&mut self, id: PartitionId, token: u64) -> Option<&mut Partition> {
        let partition = self.get_mut(id)?;
        (partition.token == token).then_some(partition)
    }

    fn fetch_error(
        &mut self,
        id: PartitionId,
        code: ErrorCode,
        now: Duration,
        retry_after: &dyn Fn(u32) -> Duration,
    ) {
        let policy = self.reset_of();
        let Some(partition) = self.get_mut(id) else {
            return;
        };
        partition.back_off(now, retry_after);
        if code == ErrorCode::OFFSET_OUT_OF_RANGE {
            // What is buffered was in the log and comes first; then the next try finds this again.
            if !partition.has_records() && !partition.is_opening {
                partition.retry_at = now;
                let offset = partition.fetch_offset;
                partition.reset(policy, Some(offset));
            }
        } else if !code.is_retriable() && !code.is_stale_metadata() {
            partition.fault = Some(ConsumerError::Partition {
                partition: partition.name.clone(),
                error: BrokerError::from(code),
            });
        }
        self.offer(id, false);
    }

    /// A lookup has no answer, or one that may be different later.
    pub(in crate::consumer) fn lookup_failed(
        &mut self,
        lookup: &Lookup,
        error: Option<ErrorCode>,
        now: Duration,
        retry_after: &dyn Fn(u32) -> Duration,
    ) {
        let Some(partition) = self.current(lookup.id, lookup.token) else {
            return;
        };
        partition.in_flight = false;
        partition.back_off(now, retry_after);
        if let Some(code) = error
            && !code.is_retriable()
            && !code.is_stale_metadata()
        {
            partition.fault = Some(ConsumerError::Partition {
                partition: partition.name.clone(),
                error: BrokerError::from(code),
            });
            self.has_positions = true;
        }
        self.offer(lookup.id, false);
    }

    /// An offset was found out; nothing where there is none: nothing committed, no record that new,
    /// no such epoch.
    pub(in crate::consumer) fn looked_up(
        &mut self,
        lookup: &Lookup,
        found: Option<(i64, Option<i32>)>,
    ) {
        let policy = self.reset_of();
        let Some(partition) = self.current(lookup.id, lookup.token) else {
            return;
        };
        partition.in_flight = false;
        match (lookup.question, found) {
            (Question::EpochEnd(_), found) => self.validated(lookup.id, found.map(|(end, _)| end)),
            (question, Some((offset, epoch))) => {
                // Only a committed offset was read before: only it can have been truncated.
                let epoch = epoch.filter(|_| question == Question::Committed);
                partition.restart(offset, epoch);
                partition.progress.restart(offset);
                if question == Question::Committed {
                    partition.progress.committed(offset);
                }
            }
            (Question::Committed, None) => partition.reset(policy, None),
            (Question::Timestamp(_) | Question::Reset(_), None) => {
                partition.standing = Standing::Reset(OffsetReset::Latest, None);
            }
        }
        self.offer(lookup.id, false);
        self.has_positions = true;
    }

    /// The log's end in the epoch of what was fetched last (KIP-320). If it is lower than the
    /// position, records that were read do not exist any more.
    fn validated(&mut self, id: PartitionId, end: Option<i64>) {
        let policy = self.reset_of();
        let Some(partition) = self.get_mut(id) else {
            return;
        };
        partition.standing = Standing::Ready;
        if end.is_some_and(|end| end >= partition.fetch_offset) {
            return;
        }
        let (next, next_epoch) = (partition.next, partition.next_epoch);
        let name = partition.name.clone();
        if self.invalidate(id).is_none() {
            return;
        }
        let Some(partition) = self.get_mut(id) else {
            return;
        };
        if end.is_some_and(|end| end >= next) {
            // Only what was buffered and not delivered has gone.
            partition.restart(next, next_epoch);
            return;
        }
        match (end, policy) {
            (_, OffsetReset::None) => {
                partition.standing = Standing::Stuck;
                partition.fault = Some(ConsumerError::Truncated {
                    partition: name,
                    offset: next,
                    diverges_at: end,
                });
            }
            (Some(end), _) => {
                tracing::warn!(partition = %name, from = next, to = end, "the log was truncated");
                partition.restart(end, None);
                partition.progress.restart(end);
            }
            // The leader knows nothing of the epoch.
            (None, policy) => {
                tracing::warn!(partition = %name, from = next, "the log was truncated");
                partition.reset(policy, Some(next));
            }
        }
    }
}

impl Partition {
    /// The leader, if the partition may be part of a request now.
    fn is_due(
        &self,
        now: Duration,
        plan: &mut Plan,
        leader_of: &impl Fn(&TopicPartition) -> Option<Leader>,
    ) -> Option<Leader> {
        if self.is_leaving || self.in_flight || self.standing == Standing::Stuck {
            return None;
        }
        if now < self.retry_at {
            let earliest = plan
                .retry_at
                .map_or(self.retry_at, |at| at.min(self.retry_at));
            plan.retry_at = Some(earliest);
            return None;
        }
        let leader = leader_of(&self.name);
        plan.needs_metadata |= leader.is_none();
        leader
    }

    /// What must be found out before the partition can be fetched.
    fn question(&mut self, leader: Leader) -> Option<Question> {
        match self.standing {
            Standing::Committed => Some(Question::Committed),
            Standing::Reset(reset, _) => Some(Question::Reset(reset)),
            Standing::At(timestamp) => Some(Question::Timestamp(timestamp)),
            Standing::Validate => self.fetch_epoch.map(Question::EpochEnd),
            Standing::Stuck => None,
            Standing::Ready => {
                let known = self.leader_epoch.or(self.fetch_epoch);
                let moved = leader.epoch > known && known.is_some();
                self.leader_epoch = leader.epoch.or(self.leader_epoch);
                let question = self.fetch_epoch.filter(|_| moved).map(Question::EpochEnd);
                if question.is_some() {
                    self.standing = Standing::Validate;
                }
                question
            }
        }
    }

    fn ask_for(&mut self, id: PartitionId, leader: Leader, question: Question) -> Lookup {
        self.in_flight = true;
        Lookup {
            id,
            token: self.token,
            name: self.name.clone(),
            leader,
            question,
        }
    }

    fn wants_records(&self, low: usize) -> bool {
        !self.is_paused && self.fault.is_none() && self.buffered <= low
    }

    fn part(&self, id: PartitionId, leader: Leader, max_bytes: usize) -> FetchPart {
        FetchPart {
            id,
            token: self.token,
            name: self.name.clone(),
            topic_id: leader.topic_id,
            offset: self.fetch_offset,
            leader_epoch: leader.epoch,
            max_bytes,
        }
    }

    fn told(&mut self, answer: &Answer) {
        let known = |offset: i64| (offset >= 0).then_some(offset);
        self.high_watermark = known(answer.high_watermark).or(self.high_watermark);
        self.last_stable_offset = known(answer.last_stable_offset).or(self.last_stable_offset);
    }

    fn back_off(&mut self, now: Duration, retry_after: &dyn Fn(u32) -> Duration) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now + retry_after(self.failures);
    }

    /// Goes on where the policy says; `offset` is the one that cannot be read.
    fn reset(&mut self, policy: OffsetReset, offset: Option<i64>) {
        if policy == OffsetReset::None {
            self.standing = Standing::Stuck;
            self.fault = Some(ConsumerError::NoOffset {
                partition: self.name.clone(),
                offset,
            });
        } else {
            self.standing = Standing::Reset(policy, offset);
        }
    }
}

/// What of an answer's records is whole.
struct Whole {
    bytes: usize,
    next_offset: i64,
    epoch: Option<i32>,
}

/// The whole batches at the beginning of `records`. Brokers may cut off the last batch. Nothing
/// where there is none that reaches `offset`.
fn whole_batches(records: &Bytes, offset: i64) -> Result<Option<Whole>, InvalidBatch> {
    let mut rest = &records[..];
    let mut whole = Whole {
        bytes: 0,
        next_offset: offset,
        epoch: None,
    };
    while !rest.is_empty() {
        let header = match header_of(rest) {
            Ok(header) => header,
            Err(InvalidBatch::Truncated { .. }) => break,
            // What is in front of it can be delivered; the next fetch begins with it.
            Err(_) if whole.bytes > 0 => break,
            Err(reason) => return Err(reason),
        };
        let Some(after) = rest.get(header.size_bytes()..) else {
            break;
        };
        whole.bytes += header.size_bytes();
        whole.next_offset = whole.next_offset.max(header.next_offset());
        whole.epoch = Some(header.leader_epoch).filter(|epoch| *epoch >= 0);
        rest = after;
    }
    Ok((whole.next_offset > offset).then_some(whole))
}
