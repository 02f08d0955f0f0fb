//! Which partitions to fetch now, and what to find out about others first.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    time::Duration,
};

use bytes::Bytes;
use millrace_model::TopicId;

use super::{Flow, PartitionId, Standing, partition::Partition};
use crate::{
    consumer::{config::OffsetReset, error::ConsumerError},
    error::{BrokerError, ErrorCode},
    topic_partition::TopicPartition,
};

/// A reader is told of a partition that the cluster does not know after so long, at the next request: a
/// topic that was just created may be unknown to some brokers for a while.
const UNKNOWN_WAIT: Duration = Duration::from_secs(30);
/// The shortest and the longest time between two requests for such a partition; in between, it is asked
/// for again after as long as it has been unknown. A reader is told each time.
const UNKNOWN_PAUSE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_mins(5);

/// Who leads a partition, as metadata tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::consumer) struct Leader {
    pub(in crate::consumer) node: i32,
    pub(in crate::consumer) epoch: Option<i32>,
    pub(in crate::consumer) topic_id: Option<TopicId>,
}

/// Why metadata names no leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::consumer) enum NoLeader {
    /// An election, or a topic that metadata has not been asked for: it will.
    Yet,
    /// The cluster says that there is no such topic or partition.
    Unknown,
}

/// A partition that the cluster does not know.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unknown {
    since: Duration,
    ask_at: Duration,
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
    pub(super) id: PartitionId,
    pub(super) token: u64,
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
    pub(super) id: PartitionId,
    pub(super) token: u64,
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

impl Plan {
    fn look_again(&mut self, at: Duration) {
        self.retry_at = Some(self.retry_at.map_or(at, |earliest| earliest.min(at)));
    }
}

impl Flow {
    /// Decides what to request. `may_fetch` tells whether a node has room for one more request and
    /// no pause; its second argument is whether the partition's reader has nothing left.
    pub(in crate::consumer) fn plan(
        &mut self,
        now: Duration,
        may_fetch: impl Fn(i32, bool) -> bool,
        leader_of: impl Fn(&TopicPartition) -> Result<Leader, NoLeader>,
    ) -> Plan {
        self.is_held_back = false;
        let mut faulty = Vec::new();
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
                if partition.fault.is_some() {
                    faulty.push(id);
                }
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
        for id in faulty {
            self.offer(id, false);
        }
        for (node, parts) in by_node {
            plan.fetches.extend(self.within_budget(node, parts));
        }
        plan
    }

    /// A request that fits into what is free. Where too little is, a partition is fetched only if its
    /// reader has nothing left: at least one batch, so that no reader waits for another one.
    fn within_budget(&mut self, node: i32, mut parts: Vec<FetchPart>) -> Option<Fetch> {
        let sum = parts.iter().map(|part| part.max_bytes).sum();
        let wanted = self.config.fetch_max_bytes.min(sum);
        if self.budget.free() < wanted {
            self.unshare();
        }
        let free = self.budget.free();
        if parts.first().is_some_and(|part| free < part.max_bytes) {
            let has_ready = self.has_ready();
            let mut is_held_back = false;
            parts.retain(|part| {
                let partition = self.get_mut(part.id);
                // The others ask again when more of them is delivered, or of those that are ready.
                partition.is_some_and(|one| {
                    let is_empty = one.buffered == 0;
                    one.is_wanted = is_empty && (one.has_stream || !has_ready);
                    is_held_back |= is_empty && !one.is_wanted;
                    one.is_wanted
                })
            });
            self.is_held_back |= is_held_back;
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

    /// Whether those who read the consumer as a whole have something to take.
    pub(super) fn has_ready(&self) -> bool {
        let unprocessed_max = self.unprocessed_max();
        let mut ready = self.ready.iter().filter_map(|id| self.get(*id));
        ready.any(|one| !one.has_stream && one.is_deliverable(unprocessed_max))
    }

    /// Copies out what is needed of frames that are kept for little of them, as far as there is room.
    fn unshare(&mut self) {
        for frame in self.budget.wasteful() {
            if !self.budget.can_copy(frame) {
                return;
            }
            for partition in self.partitions.iter_mut().flatten() {
                partition.unshare(frame, &mut self.budget);
            }
        }
    }
}

impl Partition {
    /// The leader, if the partition may be part of a request now.
    fn is_due(
        &mut self,
        now: Duration,
        plan: &mut Plan,
        leader_of: &impl Fn(&TopicPartition) -> Result<Leader, NoLeader>,
    ) -> Option<Leader> {
        if self.is_leaving || self.in_flight || self.standing == Standing::Stuck {
            return None;
        }
        if now < self.retry_at {
            plan.look_again(self.retry_at);
            return None;
        }
        match leader_of(&self.name) {
            Ok(leader) => {
                self.unknown = None;
                Some(leader)
            }
            Err(NoLeader::Yet) => {
                self.unknown = None;
                plan.needs_metadata = true;
                None
            }
            Err(NoLeader::Unknown) => {
                let ask_at = self.is_unknown(now, plan);
                plan.look_again(ask_at);
                None
            }
        }
    }

    /// The cluster does not know the partition: asks again, ever more rarely, and tells the reader. When
    /// to look next.
    fn is_unknown(&mut self, now: Duration, plan: &mut Plan) -> Duration {
        let first = Unknown {
            since: now,
            ask_at: now,
        };
        let unknown = self.unknown.get_or_insert(first);
        if now < unknown.ask_at {
            return unknown.ask_at;
        }
        let lasted = now.saturating_sub(unknown.since);
        unknown.ask_at = now + lasted.clamp(*UNKNOWN_PAUSE.start(), *UNKNOWN_PAUSE.end());
        plan.needs_metadata = true;
        if lasted >= UNKNOWN_WAIT {
            self.fault = Some(ConsumerError::Partition {
                partition: self.name.clone(),
                error: BrokerError::from(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            });
        }
        unknown.ask_at
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
}
