//! A broker without a share coordinator.

use millrace_coordinator::{SharePartition, ShareState, ShareStateError, ShareStates};
use millrace_model::Offset;
use millrace_wire::service::BoxFuture;

/// Keeps no state of share partitions.
#[derive(Debug)]
pub(crate) struct NoShareStates;

impl ShareStates for NoShareStates {
    fn initialize(
        &self,
        _partition: SharePartition,
        _state_epoch: i32,
        _start_offset: Option<Offset>,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        Box::pin(async { Err(ShareStateError::NotAvailable) })
    }

    fn read(
        &self,
        _partition: SharePartition,
        _leader_epoch: i32,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        Box::pin(async { Err(ShareStateError::NotAvailable) })
    }

    fn write(
        &self,
        _partition: SharePartition,
        _change: ShareState,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        Box::pin(async { Err(ShareStateError::NotAvailable) })
    }

    fn read_summary(
        &self,
        _partition: SharePartition,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        Box::pin(async { Err(ShareStateError::NotAvailable) })
    }

    fn delete(&self, _partition: SharePartition) -> BoxFuture<'_, Result<(), ShareStateError>> {
        Box::pin(async { Err(ShareStateError::NotAvailable) })
    }
}
