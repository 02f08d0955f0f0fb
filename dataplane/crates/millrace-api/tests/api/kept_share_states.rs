//! A share coordinator in memory.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicBool, Ordering},
};

use millrace_coordinator::{
    SharePartition, ShareState, ShareStateBatch, ShareStateError, ShareStates,
};
use millrace_model::Offset;
use millrace_wire::service::BoxFuture;
use parking_lot::Mutex;

/// Keeps the states of share partitions. Those that nobody has initialized begin without an offset.
#[derive(Debug, Default)]
pub(crate) struct KeptShareStates {
    kept: Mutex<HashMap<SharePartition, Kept>>,
    is_down: AtomicBool,
    /// What the next writes fail with.
    fails: Mutex<Option<ShareStateError>>,
}

#[derive(Debug, Default)]
struct Kept {
    state: ShareState,
    /// By offset: state and deliveries.
    records: BTreeMap<Offset, (i8, i16)>,
}

impl KeptShareStates {
    /// Nothing is answered from now on, or everything again.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Release);
    }

    /// The next write fails.
    pub(crate) fn fail_write(&self, error: ShareStateError) {
        *self.fails.lock() = Some(error);
    }

    /// Whether a write has failed since.
    pub(crate) fn has_failed(&self) -> bool {
        self.fails.lock().is_none()
    }

    /// The start offset and the records that are kept.
    pub(crate) fn kept(
        &self,
        partition: &SharePartition,
    ) -> (Option<Offset>, Vec<(Offset, i8, i16)>) {
        let kept = self.kept.lock();
        let Some(kept) = kept.get(partition) else {
            return (None, Vec::new());
        };
        let records = kept.records.iter();
        let records = records.map(|(at, (state, count))| (*at, *state, *count));
        (kept.state.start_offset, records.collect())
    }

    fn check(&self) -> Result<(), ShareStateError> {
        match self.is_down.load(Ordering::Acquire) {
            true => Err(ShareStateError::NotAvailable),
            false => Ok(()),
        }
    }

    fn changed(
        &self,
        partition: SharePartition,
        change: ShareState,
    ) -> Result<(), ShareStateError> {
        self.check()?;
        if let Some(error) = self.fails.lock().take() {
            return Err(error);
        }
        let mut kept = self.kept.lock();
        let kept = kept.get_mut(&partition).ok_or(ShareStateError::Unknown)?;
        if change.leader_epoch < kept.state.leader_epoch {
            return Err(ShareStateError::Fenced);
        }
        if change.state_epoch < kept.state.state_epoch {
            return Err(ShareStateError::FencedStateEpoch);
        }
        for batch in change.batches {
            for at in batch.first_offset..=batch.last_offset {
                let record = (batch.delivery_state, batch.delivery_count);
                kept.records.insert(at, record);
            }
        }
        if let Some(start) = change.start_offset {
            kept.state.start_offset = Some(start);
            kept.records.retain(|at, _| *at >= start);
        }
        Ok(())
    }
}

impl Kept {
    fn state(&self) -> ShareState {
        let batches = self
            .records
            .iter()
            .map(|(at, (state, count))| ShareStateBatch {
                first_offset: *at,
                last_offset: *at,
                delivery_state: *state,
                delivery_count: *count,
            });
        ShareState {
            batches: batches.collect(),
            ..self.state.clone()
        }
    }
}

impl ShareStates for KeptShareStates {
    fn initialize(
        &self,
        partition: SharePartition,
        state_epoch: i32,
        start_offset: Option<Offset>,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        let initialized = self.check().map(|()| {
            let state = ShareState {
                state_epoch,
                start_offset,
                ..ShareState::default()
            };
            let records = BTreeMap::new();
            self.kept.lock().insert(partition, Kept { state, records });
        });
        Box::pin(async move { initialized })
    }

    fn read(
        &self,
        partition: SharePartition,
        leader_epoch: i32,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        let read = self.check().map(|()| {
            let mut kept = self.kept.lock();
            let kept = kept.entry(partition).or_default();
            kept.state.leader_epoch = kept.state.leader_epoch.max(leader_epoch);
            kept.state()
        });
        Box::pin(async move { read })
    }

    fn write(
        &self,
        partition: SharePartition,
        change: ShareState,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        let written = self.changed(partition, change);
        Box::pin(async move { written })
    }

    fn read_summary(
        &self,
        partition: SharePartition,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        self.read(partition, -1)
    }

    fn delete(&self, partition: SharePartition) -> BoxFuture<'_, Result<(), ShareStateError>> {
        self.kept.lock().remove(&partition);
        Box::pin(async { Ok(()) })
    }
}
