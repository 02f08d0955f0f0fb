//! One share partition whose leader this broker is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use millrace_coordinator::SharePartition;
use millrace_log::{Isolation, PartitionLog};
use millrace_model::Offset;
use millrace_share::{
    AcknowledgeError, Acknowledgement, AcquiredRecords, Acquirer, Fetched, InFlightRecords, Limits,
};
use millrace_wire::error_code::ErrorCode;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::WeakShared;

/// Tells whether what was acknowledged is durable.
pub(super) type Durable = oneshot::Receiver<Result<(), ErrorCode>>;

/// A share partition.
#[derive(Debug)]
pub(crate) struct Leader {
    id: SharePartition,
    log: Arc<PartitionLog>,
    pub(super) shared: WeakShared,
    pub(super) phase: Mutex<Phase>,
    /// A member reads from the log: the others would read the same.
    is_fetching: AtomicBool,
}

/// What is known of the state.
#[derive(Debug)]
pub(super) enum Phase {
    /// It was not read yet.
    New,
    /// It is being read.
    Loading,
    /// It is here.
    Active(Active),
    /// It belongs to another leader, or was initialized again.
    Closed(ErrorCode),
}

/// A state that was read.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) records: InFlightRecords,
    pub(super) state_epoch: i32,
    /// A task writes what has changed.
    pub(super) is_writing: bool,
    /// Who waits for which write.
    pub(super) waiting: Vec<(u64, oneshot::Sender<Result<(), ErrorCode>>)>,
    /// When acquisition locks are looked at next.
    pub(super) wakes_at: Option<Duration>,
    pub(super) size: InFlightSize,
}

/// How much of the memory for records in flight a share partition takes.
#[derive(Debug)]
pub(super) struct InFlightSize {
    batches: usize,
    of_all: Arc<AtomicUsize>,
}

impl InFlightSize {
    pub(super) fn new(of_all: Arc<AtomicUsize>) -> Self {
        Self { batches: 0, of_all }
    }

    fn set(&mut self, batches: usize) {
        self.of_all.fetch_add(batches, Ordering::Relaxed);
        self.of_all.fetch_sub(self.batches, Ordering::Relaxed);
        self.batches = batches;
    }
}

impl Drop for InFlightSize {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The right to read from the log for a member. Those that waited for it look again once it is dropped.
#[derive(Debug)]
pub(crate) struct FetchTurn {
    leader: Arc<Leader>,
}

impl Drop for FetchTurn {
    fn drop(&mut self) {
        self.leader.is_fetching.store(false, Ordering::Release);
        self.leader.wake();
    }
}

impl Leader {
    pub(super) fn new(id: SharePartition, log: Arc<PartitionLog>, shared: WeakShared) -> Self {
        Self {
            id,
            log,
            shared,
            phase: Mutex::new(Phase::New),
            is_fetching: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> &SharePartition {
        &self.id
    }

    pub(crate) fn log(&self) -> &Arc<PartitionLog> {
        &self.log
    }

    pub(super) fn is_of(&self, log: &Arc<PartitionLog>) -> bool {
        Arc::ptr_eq(&self.log, log)
    }

    /// Whether it must be read again.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed_because().is_some()
    }

    /// Why there is nothing to do with it any more, if so.
    pub(crate) fn closed_because(&self) -> Option<ErrorCode> {
        match *self.phase.lock() {
            Phase::Closed(code) => Some(code),
            _ if self.log.is_closed() => Some(ErrorCode::NotLeaderOrFollower),
            _ => None,
        }
    }

    /// Where the next records are that a member can acquire, if the log has any from there on, and no other member reads them.
    pub(crate) fn available_from(&self, isolation: Isolation) -> Option<Offset> {
        if self.is_fetching.load(Ordering::Acquire) {
            return None;
        }
        let readable_to = readable_to(&self.log, isolation);
        let phase = self.phase.lock();
        let Phase::Active(active) = &*phase else {
            return None;
        };
        let next = active.records.next_fetch_offset()?;
        (next < readable_to).then_some(next)
    }

    /// Takes the right to read from the log, unless another member has it.
    pub(crate) fn take_turn(self: &Arc<Self>) -> Option<FetchTurn> {
        let was_fetching = self.is_fetching.swap(true, Ordering::AcqRel);
        (!was_fetching).then(|| FetchTurn {
            leader: Arc::clone(self),
        })
    }

    /// Where a member reads; `None` where nothing is to be read now. The group may have other limits than before.
    pub(crate) fn fetch_offset(&self, mut limits: Limits) -> Option<Offset> {
        let log_start = self.log.start_offset();
        if self.shared.upgrade()?.has_too_many_in_flight() {
            // Only what is in flight already is delivered again.
            limits.record_locks = 0;
        }
        let offset = self.with(|active| {
            active.records.set_limits(limits);
            active.records.advance_log_start(log_start);
            active.records.next_fetch_offset()
        });
        offset.ok().flatten()
    }

    /// Gives a member what it can have of what was read.
    pub(crate) fn acquire(
        self: &Arc<Self>,
        fetched: &Fetched,
        by: &Acquirer,
    ) -> Result<Vec<AcquiredRecords>, ErrorCode> {
        let acquired = self.with(|active| active.records.acquire(fetched, by))?;
        if acquired.is_empty() {
            // No acknowledgement follows that would have it written what was archived.
            self.write_changes();
        } else if let Some(shared) = self.shared.upgrade() {
            let records = acquired.iter().map(|range| range.last - range.first + 1);
            shared.metrics.acquired.increment(records.sum());
            self.arm();
        }
        Ok(acquired)
    }

    /// Takes a member's acknowledgements. What this gives resolves once they are durable.
    pub(super) fn acknowledge(
        self: &Arc<Self>,
        member: &str,
        acknowledgements: &[Acknowledgement],
    ) -> Result<Option<Durable>, ErrorCode> {
        let taken = self.with(|active| {
            let number = active.records.acknowledge(member, acknowledgements)?;
            Ok(number.map(|number| {
                let (told, durable) = oneshot::channel();
                active.waiting.push((number, told));
                durable
            }))
        })?;
        let durable = taken.map_err(|error| match error {
            AcknowledgeError::NotAcquired => ErrorCode::InvalidRecordState,
            AcknowledgeError::BeyondEnd => ErrorCode::InvalidRequest,
        })?;
        self.write_changes();
        Ok(durable)
    }

    /// Makes available again what a member holds.
    pub(super) fn release(self: &Arc<Self>, member: &str) {
        let released = self.with(|active| active.records.release(member));
        // Even if it held nothing: what a write failed to store before is still to be written.
        self.write_changes();
        if let Ok(true) = released {
            self.wake();
        }
    }

    /// Works with the state.
    ///
    /// # Errors
    /// It is not here: it was not read yet, or is another broker's.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Active) -> T) -> Result<T, ErrorCode> {
        match &mut *self.phase.lock() {
            Phase::Active(active) => {
                let result = work(active);
                active.size.set(active.records.batches());
                Ok(result)
            }
            Phase::New | Phase::Loading => Err(ErrorCode::UnknownTopicOrPartition),
            Phase::Closed(code) => Err(*code),
        }
    }

    /// Nothing is done with the state from now on. Acknowledgements that are not durable have failed.
    pub(super) fn close(&self, code: ErrorCode) {
        let phase = std::mem::replace(&mut *self.phase.lock(), Phase::Closed(code));
        if let Phase::Active(active) = phase {
            for (_, told) in active.waiting {
                let _nobody_waits = told.send(Err(code));
            }
        }
    }

    /// Closes it if no member holds records and everything is written. Returns whether that is so.
    pub(super) fn close_if_idle(&self) -> bool {
        let mut phase = self.phase.lock();
        let is_idle = match &*phase {
            Phase::New | Phase::Loading => false,
            Phase::Active(active) => {
                !active.is_writing && active.waiting.is_empty() && active.records.is_settled()
            }
            Phase::Closed(_) => true,
        };
        if is_idle {
            *phase = Phase::Closed(ErrorCode::NotLeaderOrFollower);
        }
        is_idle
    }

    /// Fetches that wait look again.
    pub(super) fn wake(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.wake(&self.log);
        }
    }

    /// Sees to it that acquisition locks are looked at when the next one times out.
    pub(super) fn arm(self: &Arc<Self>) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let at = self.with(|active| {
            let at = active.records.next_timeout()?;
            if active.wakes_at.is_some_and(|wakes_at| wakes_at <= at) {
                return None;
            }
            active.wakes_at = Some(at);
            Some(at)
        });
        let Ok(Some(at)) = at else {
            return;
        };
        let leader = Arc::downgrade(self);
        let delay = at.saturating_sub(shared.clock.now());
        shared.timers.after(delay, move || {
            if let Some(leader) = leader.upgrade() {
                leader.expire(at);
            }
        });
    }

    /// Makes available again whose acquisition locks have timed out.
    fn expire(self: &Arc<Self>, armed_for: Duration) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let now = shared.clock.now();
        let expired = self.with(|active| {
            if active.wakes_at == Some(armed_for) {
                active.wakes_at = None;
            }
            active.records.expire(now)
        });
        self.arm();
        if let Ok(true) = expired {
            shared.metrics.timeouts.increment(1);
            self.write_changes();
            self.wake();
            shared.forget_unused(self);
        }
    }
}

/// Where the records end that members may have.
pub(crate) fn readable_to(log: &PartitionLog, isolation: Isolation) -> Offset {
    match isolation {
        Isolation::ReadUncommitted => log.high_watermark(),
        Isolation::ReadCommitted => log.last_stable_offset(),
    }
}
