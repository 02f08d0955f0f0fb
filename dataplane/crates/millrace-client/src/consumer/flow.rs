//! The consumer's flow control: what is fetched, what is buffered, what is delivered. A state
//! machine without I/O and without tasks.
//!
//! ```text
//!            plan ──► request ──► fetched                 opened
//! partitions                         │ chunks of batches    │ records
//!            ◄── demand ── take ◄────┴──────► open batch ◄──┘
//! ```
//!
//! - `partition`: a partition's position, buffer and state
//! - `plan`: which partitions to fetch now
//! - `outcome`: what came of it
//! - `deliver`: what a reader gets
//! - `demand`: who wants records; without demand a partition is not fetched
//! - `budget`: how many bytes are buffered
//! - `aborted`, `progress`: which batches count, what is processed
//!
//! # Rules
//!
//! 1. A partition is in at most one request, and is requested at the offset behind all that is
//!    buffered of it. So no byte is fetched twice.
//! 2. What is buffered stays until it is delivered. Only `seek`, `unassign`, a truncated log and a
//!    damaged batch drop it. Pause does not (KAFKA-7548).
//! 3. A partition is requested if its reader has demand, it is not paused, and less than half of
//!    its part of the budget is buffered. The parts add up to the budget, so a partition that
//!    nobody reads takes no room from the others. Where the budget is short, it is requested only if
//!    its reader has nothing else to take; then at least one batch comes.
//! 4. A batch is checked and decompressed by the reader that takes it, outside of the lock: `take` returns
//!    it, `opened` brings it back. Meanwhile the partition is closed for others.

mod aborted;
mod budget;
mod deliver;
mod demand;
mod outcome;
mod partition;
mod plan;
mod progress;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    task::Waker,
    time::Duration,
};

use foldhash::fast::RandomState;

use self::{budget::Budget, demand::Demand, partition::Partition};
pub(super) use self::{
    deliver::{Opening, Scope, Taken, open, open_within},
    demand::WaiterId,
    partition::Standing,
    plan::{Answer, Fetch, FetchPart, Leader, Lookup, NoLeader, Plan, Question},
};
use super::{
    config::{AutoCommit, ConsumerConfig, IsolationLevel, OffsetReset},
    error::ConsumerError,
};
use crate::topic_partition::TopicPartition;

/// An assigned partition; not valid any more once it is unassigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PartitionId {
    index: usize,
    serial: u64,
}

/// An offset to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DueCommit {
    pub(super) name: TopicPartition,
    /// For [`Flow::committed`].
    pub(super) token: u64,
    pub(super) offset: i64,
    pub(super) leader_epoch: Option<i32>,
}

/// Bytes and records so far. All only grow, but for `buffered`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerMetrics {
    /// Bytes of records that fetches brought.
    pub fetched_bytes: u64,
    /// Of these, bytes that were dropped: after `seek`, a lost partition, a damaged batch.
    pub discarded_bytes: u64,
    /// Records that were delivered one by one.
    pub delivered_records: u64,
    /// Batches that were delivered, whole or record by record.
    pub delivered_batches: u64,
    /// Bytes that buffered records take now.
    pub buffered_bytes: usize,
    /// The most bytes that buffered records ever took.
    pub buffered_bytes_max: usize,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Flow {
    config: ConsumerConfig,
    budget: Budget,
    partitions: Vec<Option<Partition>>,
    names: HashMap<TopicPartition, PartitionId, RandomState>,
    /// Partitions without a stream of their own that have something to deliver. May hold others.
    ready: VecDeque<PartitionId>,
    /// Of those who read the consumer as a whole.
    demand: Demand,
    /// Partitions were not fetched, since room is short and their reader has other records.
    is_held_back: bool,
    /// What such a reader got last.
    last_taken: Option<PartitionId>,
    next_serial: u64,
    rotation: usize,
    metrics: ConsumerMetrics,
    is_closed: bool,
    failure: Option<ConsumerError>,
    /// To be woken by the caller, once it has released its lock.
    pub(super) woken: Vec<Waker>,
    /// Whether there may be something to plan.
    pub(super) has_work: bool,
    /// Whether some partition's position became known, or cannot.
    pub(super) has_positions: bool,
}

impl Flow {
    pub(super) fn new(config: ConsumerConfig) -> Self {
        Self {
            budget: Budget::new(config.prefetch_bytes),
            config,
            partitions: Vec::new(),
            names: HashMap::default(),
            ready: VecDeque::new(),
            demand: Demand::default(),
            is_held_back: false,
            last_taken: None,
            next_serial: 0,
            rotation: 0,
            metrics: ConsumerMetrics::default(),
            is_closed: false,
            failure: None,
            woken: Vec::new(),
            has_work: false,
            has_positions: false,
        }
    }

    fn serial(&mut self) -> u64 {
        self.next_serial += 1;
        self.next_serial
    }

    fn get(&self, id: PartitionId) -> Option<&Partition> {
        let slot = self.partitions.get(id.index)?.as_ref()?;
        (slot.serial == id.serial).then_some(slot)
    }

    fn get_mut(&mut self, id: PartitionId) -> Option<&mut Partition> {
        let slot = self.partitions.get_mut(id.index)?.as_mut()?;
        (slot.serial == id.serial).then_some(slot)
    }

    pub(super) fn id(&self, name: &TopicPartition) -> Option<PartitionId> {
        self.names.get(name).copied()
    }

    /// The assigned partitions, in no order.
    pub(super) fn assignment(&self) -> Vec<TopicPartition> {
        self.names.keys().cloned().collect()
    }

    /// Adds a partition; one that is there already stays as it is.
    pub(super) fn assign(&mut self, name: &TopicPartition, standing: Standing) -> PartitionId {
        if let Some(id) = self.id(name) {
            return id;
        }
        let serial = self.serial();
        let partition = Partition::new(name.clone(), serial, standing);
        let free = self.partitions.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.partitions.push(None);
            self.partitions.len() - 1
        });
        self.partitions[index] = Some(partition);
        let id = PartitionId { index, serial };
        self.names.insert(name.clone(), id);
        self.has_work = true;
        id
    }

    /// Removes a partition and all that is buffered of it. Its stream ends.
    pub(super) fn unassign(&mut self, name: &TopicPartition) {
        let Some(id) = self.names.remove(name) else {
            return;
        };
        let token = self.serial();
        let Some(mut partition) = self.partitions[id.index].take() else {
            return;
        };
        self.metrics.discarded_bytes += partition.buffered as u64;
        partition.invalidate(token, &mut self.budget);
        partition.demand.wake_all(&mut self.woken);
        self.has_work = true;
    }

    /// Delivers nothing of a partition any more; or again.
    pub(super) fn set_leaving(&mut self, name: &TopicPartition, leaving: bool) {
        if let Some(id) = self.id(name) {
            if let Some(partition) = self.get_mut(id) {
                partition.is_leaving = leaving;
            }
            self.offer(id, false);
            self.has_work = true;
        }
    }

    /// Goes on at an offset, whatever is buffered.
    pub(super) fn seek(&mut self, id: PartitionId, offset: i64, epoch: Option<i32>) {
        if self.invalidate(id).is_some()
            && let Some(partition) = self.get_mut(id)
        {
            partition.restart(offset, epoch);
            partition.progress.restart(offset);
            partition.corrupt_at = None;
        }
    }

    /// Goes on at an offset that has to be found out, whatever is buffered.
    pub(super) fn seek_to(&mut self, id: PartitionId, standing: Standing) {
        if let Some(partition) = self.invalidate(id) {
            partition.standing = standing;
            partition.retry_at = Duration::ZERO;
            partition.corrupt_at = None;
        }
    }

    /// Drops what is buffered of a partition and what is on its way.
    fn invalidate(&mut self, id: PartitionId) -> Option<&mut Partition> {
        let token = self.serial();
        self.has_work = true;
        let partition = self.partitions.get_mut(id.index)?.as_mut()?;
        if partition.serial != id.serial {
            return None;
        }
        self.metrics.discarded_bytes += partition.buffered as u64;
        partition.invalidate(token, &mut self.budget);
        Some(partition)
    }

    pub(super) fn pause(&mut self, id: PartitionId) {
        if let Some(partition) = self.get_mut(id) {
            partition.is_paused = true;
        }
    }

    /// What was buffered before the pause is delivered first, before other partitions.
    pub(super) fn resume(&mut self, id: PartitionId) {
        if let Some(partition) = self.get_mut(id)
            && partition.is_paused
        {
            partition.is_paused = false;
            self.offer(id, true);
            self.want(id);
        }
    }

    pub(super) fn is_paused(&self, id: PartitionId) -> bool {
        self.get(id).is_some_and(|partition| partition.is_paused)
    }

    /// Gives a partition a stream of its own, or takes it away. False where it has one already.
    pub(super) fn set_stream(&mut self, id: PartitionId, has_stream: bool) -> bool {
        let Some(partition) = self.get_mut(id) else {
            return false;
        };
        if has_stream && partition.has_stream {
            return false;
        }
        partition.has_stream = has_stream;
        partition.demand = Demand::default();
        self.offer(id, false);
        self.want(id);
        true
    }

    /// The offset of the next record to deliver.
    pub(super) fn position(&self, id: PartitionId) -> Option<i64> {
        self.get(id)
            .filter(|partition| partition.has_position())
            .map(|partition| partition.next)
    }

    /// How many offsets lie between the position and the end that this reader can reach.
    pub(super) fn lag(&self, id: PartitionId) -> Option<i64> {
        let partition = self.get(id)?;
        partition.lag(match self.config.isolation_level {
            IsolationLevel::ReadUncommitted => partition.high_watermark,
            IsolationLevel::ReadCommitted => partition.last_stable_offset,
        })
    }

    /// A record or batch is processed; `next` is the offset that follows it.
    pub(super) fn processed(&mut self, id: PartitionId, next: i64) {
        let unprocessed_max = self.unprocessed_max();
        let Some(partition) = self.get_mut(id) else {
            return;
        };
        let was_full = partition.progress.unprocessed() >= unprocessed_max;
        partition.progress.processed(next);
        if was_full {
            self.offer(id, false);
        }
    }

    /// Whether something of these partitions is delivered and not reported as processed.
    pub(super) fn has_unprocessed(&self, names: &[TopicPartition]) -> bool {
        let ids = names.iter().filter_map(|name| self.id(name));
        let mut partitions = ids.filter_map(|id| self.get(id));
        partitions.any(|partition| partition.progress.unprocessed() > 0)
    }

    /// What to commit. `explicit` is a commit that the caller asks
    /// for, which says that all that was delivered is processed (unless processing is reported).
    pub(super) fn to_commit(&self, explicit: bool) -> Vec<DueCommit> {
        let partitions = self.partitions.iter().flatten();
        partitions
            .filter(|partition| partition.has_position())
            .filter_map(|partition| {
                let offset = match self.config.auto_commit {
                    AutoCommit::WhenProcessed => partition.progress.processed_to(partition.next),
                    _ if explicit => partition.next,
                    AutoCommit::WhenAsked => partition.progress.asked_to()?,
                    AutoCommit::Off => return None,
                };
                let epoch = partition.next_epoch.filter(|_| offset == partition.next);
                partition.progress.is_news(offset).then(|| DueCommit {
                    name: partition.name.clone(),
                    token: partition.token,
                    offset,
                    leader_epoch: epoch,
                })
            })
            .collect()
    }

    /// For [`Self::committed`], where the caller says what to commit.
    pub(super) fn commit_token(&self, name: &TopicPartition) -> Option<u64> {
        let partition = self.get(self.id(name)?)?;
        Some(partition.token)
    }

    /// An offset is committed. Where the partition was sought or revoked after the token was taken,
    /// that says nothing of its new position.
    pub(super) fn committed(&mut self, name: &TopicPartition, token: u64, offset: i64) {
        if let Some(id) = self.id(name)
            && let Some(partition) = self.current(id, token)
        {
            partition.progress.committed(offset);
        }
    }

    pub(super) fn metrics(&self) -> ConsumerMetrics {
        ConsumerMetrics {
            buffered_bytes: self.budget.charged(),
            buffered_bytes_max: self.budget.charged_max(),
            ..self.metrics.clone()
        }
    }

    /// Ends all readers.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.has_work = true;
        self.demand.wake_all(&mut self.woken);
        for partition in self.partitions.iter().flatten() {
            partition.demand.wake_all(&mut self.woken);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Ends all readers; one of them gets the reason.
    pub(super) fn fail(&mut self, error: ConsumerError) {
        self.failure = Some(error);
        self.close();
    }

    /// Whether only the caller can say where the partition goes on.
    pub(super) fn is_stuck(&self, id: PartitionId) -> bool {
        self.get(id)
            .is_some_and(|partition| partition.standing == Standing::Stuck)
    }

    fn unprocessed_max(&self) -> usize {
        match self.config.auto_commit {
            AutoCommit::WhenProcessed => self.config.unprocessed_records_max.max(1),
            AutoCommit::Off | AutoCommit::WhenAsked => usize::MAX,
        }
    }

    /// What one partition may buffer; see rule 3.
    fn share(&self) -> usize {
        let equal = self.budget.total() / self.names.len().max(1);
        self.config.prefetch_partition_bytes.min(equal).max(1)
    }

    fn has_demand(&self, partition: &Partition, now: Duration) -> bool {
        let demand = if partition.has_stream {
            &partition.demand
        } else {
            &self.demand
        };
        demand.is_active(now, self.config.prefetch_idle)
    }

    /// Tells the fetcher that a partition can be fetched, once.
    fn want(&mut self, id: PartitionId) {
        let low = self.share() / 2;
        let Some(partition) = self.get_mut(id) else {
            return;
        };
        let wanted = !partition.in_flight && !partition.is_paused && partition.buffered <= low;
        if wanted && !partition.is_wanted {
            partition.is_wanted = true;
            self.has_work = true;
        }
    }

    /// Lets readers know that a partition has something to deliver, if it has.
    fn offer(&mut self, id: PartitionId, first: bool) {
        let unprocessed_max = self.unprocessed_max();
        let Some(partition) = self.get_mut(id) else {
            return;
        };
        if !partition.is_deliverable(unprocessed_max) {
            return;
        }
        if partition.has_stream {
            let mut woken = Vec::new();
            partition.demand.wake_all(&mut woken);
            self.woken.append(&mut woken);
            return;
        }
        if !partition.is_ready {
            partition.is_ready = true;
            if first {
                self.ready.push_front(id);
            } else {
                self.ready.push_back(id);
            }
        }
        self.demand.wake_all(&mut self.woken);
    }

    fn reset_of(&self) -> OffsetReset {
        self.config.auto_offset_reset
    }
}
