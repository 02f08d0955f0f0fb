//! A share coordinator in memory.

use std::{
    collections::BTreeMap,
    future::ready,
    sync::atomic::{AtomicBool, Ordering},
};

use millrace_coordinator::{BoxFuture, SharePartition, ShareState, ShareStateError, ShareStates};
use parking_lot::Mutex;

type States = BTreeMap<SharePartition, ShareState>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct MemoryShareStates {
    states: Mutex<States>,
    pub(crate) is_away: AtomicBool,
}

impl MemoryShareStates {
    fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut States) -> Result<T, ShareStateError>,
    ) -> BoxFuture<'_, Result<T, ShareStateError>> {
        let result = match self.is_away.load(Ordering::Relaxed) {
            true => Err(ShareStateError::NotAvailable),
            false => change(&mut self.states.lock()),
        };
        Box::pin(ready(result))
    }

    /// The group and the number of each partition that has a state.
    pub(crate) fn known(&self) -> Vec<(String, i32)> {
        let states = self.states.lock();
        let known = states.keys();
        known
            .map(|of| (of.group_id.clone(), of.partition))
            .collect()
    }
}

impl ShareStates for MemoryShareStates {
    fn initialize(
        &self,
        partition: SharePartition,
        state_epoch: i32,
        start_offset: Option<u64>,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        self.change(|states| {
            let state = ShareState {
                state_epoch,
                start_offset,
                ..ShareState::default()
            };
            states.insert(partition, state);
            Ok(())
        })
    }

    fn read(
        &self,
        partition: SharePartition,
        _: i32,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        self.read_summary(partition)
    }

    fn write(
        &self,
        partition: SharePartition,
        change: ShareState,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        self.change(|states| {
            states.insert(partition, change);
            Ok(())
        })
    }

    fn read_summary(
        &self,
        partition: SharePartition,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        self.change(|states| {
            let state = states.get(&partition).cloned();
            state.ok_or(ShareStateError::Unknown)
        })
    }

    fn delete(&self, partition: SharePartition) -> BoxFuture<'_, Result<(), ShareStateError>> {
        self.change(|states| {
            let known = states.remove(&partition);
            known.map(drop).ok_or(ShareStateError::Unknown)
        })
    }
}
