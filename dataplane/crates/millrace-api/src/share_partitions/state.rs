//! What the share coordinator keeps of a share partition: read once, and written when it changes.

use std::{sync::Arc, time::Duration};

use millrace_coordinator::{ShareState, ShareStateBatch, ShareStateError};
use millrace_model::Offset;
use millrace_share::{
    GroupSettings, InFlightRecords, Limits, ResetStrategy, Settled, StoredBatch, Write,
};
use millrace_tasks::Task;
use millrace_wire::error_code::ErrorCode;
use tokio::time::sleep;

use super::{
    Shared,
    leader::{Active, InFlightSize, Leader, Phase},
};
use crate::code;

/// How long a read or write waits after the share coordinator was not available.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// How long a write that fails at once is tried again before members learn that their acknowledgements failed. The coordinators of
/// other brokers are asked with more patience at each try ([`crate::ShareStateRouter`]), so all of it takes less than an
/// acquisition lock.
const WRITE_PATIENCE: Duration = Duration::from_secs(5);

/// What the states are called that are stored (Kafka's numbers).
const AVAILABLE: i8 = 0;
const ACKNOWLEDGED: i8 = 2;
const ARCHIVED: i8 = 4;

impl Leader {
    /// Sees to it that the state is read. Fetches that wait are woken once it is, or cannot be.
    pub(crate) fn start(self: &Arc<Self>, settings: &GroupSettings, limits: Limits) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        {
            let mut phase = self.phase.lock();
            match *phase {
                Phase::New => *phase = Phase::Loading,
                Phase::Loading | Phase::Active(_) | Phase::Closed(_) => return,
            }
        }
        let (leader, settings) = (Arc::clone(self), settings.clone());
        let tasks = shared.tasks.clone();
        tasks.spawn(Task::SharePartitionLoad, async move {
            if let Err(code) = leader.read(&shared, &settings, limits).await {
                leader.close(code);
                shared.forget(&leader);
            }
            leader.write_changes();
            leader.wake();
            shared.forget_unused(&leader);
        });
    }

    async fn read(
        &self,
        shared: &Shared,
        settings: &GroupSettings,
        limits: Limits,
    ) -> Result<(), ErrorCode> {
        let state = loop {
            let (id, epoch) = (self.id().clone(), self.log().leader_epoch());
            match shared.states.read(id, epoch).await {
                Ok(state) => break state,
                Err(ShareStateError::NotAvailable) if shared.is_wanted(self) => {
                    sleep(RETRY_AFTER).await;
                }
                Err(error) => return Err(of_state(error)),
            }
        };
        let mut records = match state.start_offset {
            Some(start) => in_flight(start, &state.batches, limits)?,
            None => InFlightRecords::begin_at(self.first_offset(shared, settings).await?, limits),
        };
        records.advance_log_start(self.log().start_offset());
        let active = Active {
            records,
            state_epoch: state.state_epoch,
            is_writing: false,
            waiting: Vec::new(),
            wakes_at: None,
            size: InFlightSize::new(Arc::clone(&shared.in_flight)),
        };
        let mut phase = self.phase.lock();
        if let Phase::Closed(code) = *phase {
            return Err(code);
        }
        *phase = Phase::Active(active);
        Ok(())
    }

    /// Where a group begins that has no offset in the partition.
    async fn first_offset(
        &self,
        shared: &Shared,
        settings: &GroupSettings,
    ) -> Result<Offset, ErrorCode> {
        let log = self.log();
        match settings.reset {
            ResetStrategy::Earliest => Ok(log.start_offset()),
            ResetStrategy::Latest => Ok(log.high_watermark()),
            ResetStrategy::ByDuration(age) => {
                let now = shared.clock.wall_ms();
                let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
                let found = log.offset_for_timestamp(now.saturating_sub(age)).await;
                let found = found.map_err(|error| code::of_lookup(&error))?;
                Ok(found.map_or_else(|| log.high_watermark(), |found| found.offset))
            }
        }
    }

    /// Sees to it that what has changed is written.
    pub(super) fn write_changes(self: &Arc<Self>) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        let first = self.with(|active| {
            if active.is_writing {
                return None;
            }
            let write = active.records.begin_write()?;
            active.is_writing = true;
            Some((write, active.state_epoch))
        });
        if let Ok(Some(first)) = first {
            let leader = Arc::clone(self);
            let tasks = shared.tasks.clone();
            tasks.spawn(Task::SharePartitionWriter, async move {
                leader.write_all(&shared, first).await;
            });
        }
    }

    /// Writes until everything is written, or a write has failed and nobody waits for the next one.
    async fn write_all(self: &Arc<Self>, shared: &Shared, first: ((u64, Write), i32)) {
        let ((mut number, mut write), state_epoch) = first;
        let mut written;
        loop {
            written = self.write(shared, state_epoch, &write).await;
            if let Err(
                code @ (ErrorCode::NotLeaderOrFollower | ErrorCode::UnknownTopicOrPartition),
            ) = written
            {
                tracing::info!(share_partition = ?self.id(), %code, "a share partition is read again by its leader");
                self.close(code);
                shared.forget(self);
                self.wake();
                return;
            }
            if let Err(error) = written {
                shared.metrics.write_failures.increment(1);
                tracing::warn!(share_partition = ?self.id(), %error, "the state of a share partition could not be written");
            }
            let next = self.with(|active| active.end_write(number, written));
            // Members hold again what could not be acknowledged, or can acquire what was released.
            self.arm();
            self.wake();
            match next {
                Ok(Some(next)) => (number, write) = next,
                Ok(None) | Err(_) => break,
            }
        }
        if written.is_err() && !shared.is_wanted(self) {
            // Nobody is left who would have it written again.
            self.close(ErrorCode::NotLeaderOrFollower);
            shared.forget(self);
        }
        shared.forget_unused(self);
    }

    async fn write(
        &self,
        shared: &Shared,
        state_epoch: i32,
        write: &Write,
    ) -> Result<(), ErrorCode> {
        let deadline = shared.clock.now() + WRITE_PATIENCE;
        loop {
            let change = ShareState {
                state_epoch,
                leader_epoch: self.log().leader_epoch(),
                start_offset: Some(write.start),
                batches: write.batches.iter().map(stored).collect(),
            };
            match shared.states.write(self.id().clone(), change).await {
                Ok(()) => return Ok(()),
                Err(ShareStateError::NotAvailable)
                    if shared.clock.now() < deadline && !self.log().is_closed() =>
                {
                    sleep(RETRY_AFTER).await;
                }
                Err(error) => return Err(of_state(error)),
            }
        }
    }
}

impl Active {
    /// A write has ended. Tells those who waited for it, and begins the next one.
    fn end_write(&mut self, number: u64, written: Result<(), ErrorCode>) -> Option<(u64, Write)> {
        self.records.end_write(written.is_ok());
        let told: Vec<_> = self
            .waiting
            .extract_if(.., |(of, _)| *of <= number)
            .collect();
        for (_, told) in told {
            let _nobody_waits = told.send(written);
        }
        let next = match written.is_ok() || !self.waiting.is_empty() {
            true => self.records.begin_write(),
            // What was released and could not be written is written with what changes next.
            false => None,
        };
        self.is_writing = next.is_some();
        next
    }
}

/// What a stored state says.
fn in_flight(
    start: Offset,
    batches: &[ShareStateBatch],
    limits: Limits,
) -> Result<InFlightRecords, ErrorCode> {
    let batches: Option<Vec<StoredBatch>> = batches.iter().map(read).collect();
    let batches = batches.ok_or(ErrorCode::UnknownServerError)?;
    InFlightRecords::load(start, &batches, limits).map_err(|error| {
        tracing::error!(%error, "the state of a share partition cannot be read");
        ErrorCode::UnknownServerError
    })
}

fn read(batch: &ShareStateBatch) -> Option<StoredBatch> {
    let state = match batch.delivery_state {
        AVAILABLE => Settled::Available,
        ACKNOWLEDGED => Settled::Acknowledged,
        ARCHIVED => Settled::Archived,
        _ => return None,
    };
    Some(StoredBatch {
        first: batch.first_offset,
        last: batch.last_offset,
        state,
        deliveries: batch.delivery_count,
    })
}

fn stored(batch: &StoredBatch) -> ShareStateBatch {
    ShareStateBatch {
        first_offset: batch.first,
        last_offset: batch.last,
        delivery_state: match batch.state {
            Settled::Available => AVAILABLE,
            Settled::Acknowledged => ACKNOWLEDGED,
            Settled::Archived => ARCHIVED,
        },
        delivery_count: batch.deliveries,
    }
}

/// What members are told where the share coordinator fails, as in Kafka. One that is not known here, or has another leader,
/// makes clients look at the metadata again.
const fn of_state(error: ShareStateError) -> ErrorCode {
    match error {
        ShareStateError::NotAvailable => ErrorCode::CoordinatorNotAvailable,
        ShareStateError::Fenced | ShareStateError::FencedStateEpoch => {
            ErrorCode::NotLeaderOrFollower
        }
        ShareStateError::Unknown => ErrorCode::UnknownTopicOrPartition,
        ShareStateError::Invalid => ErrorCode::UnknownServerError,
    }
}
