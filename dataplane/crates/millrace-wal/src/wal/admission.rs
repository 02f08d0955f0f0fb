//! Room for a record: blocks of the ring and memory for its payload, first come, first served.
//!
//! Semaphores count both. They grant permits in request order, so that small records cannot starve
//! a large one. A full ring drains as data is uploaded and trimmed; until then producers wait here,
//! which is the back-pressure.

use std::sync::Arc;

use tokio::{
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore, TryAcquireError},
    time::timeout,
};

use super::{Phase, Shared, Wal};
use crate::{
    ReserveError,
    format::{BLOCK, chunk::record_footprint},
};

/// What a record is charged beyond its payload, in KiB: so that very small ones cannot fill the
/// memory with their bookkeeping.
const RECORD_OVERHEAD_KIB: u64 = 1;

/// Room that is set aside for one record. Dropping it gives the room back.
#[derive(Debug)]
#[must_use = "room that is set aside keeps others waiting"]
pub struct Reservation {
    pub(super) payload: usize,
    pub(super) space: OwnedSemaphorePermit,
    pub(super) memory: OwnedSemaphorePermit,
}

/// Bytes as blocks of the ring.
pub(super) const fn blocks(bytes: u64) -> u64 {
    bytes / BLOCK
}

/// Bytes as permits of the memory semaphore, at most what one request can ask for.
pub(super) fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

impl Wal {
    /// Sets room aside for one record of at most `payload_len` bytes, waiting in line while the
    /// ring or the memory for records in flight is full.
    ///
    /// # Errors
    /// The wait was longer than the configured bound, the record is larger than this log takes, or
    /// the log has failed or is closed.
    pub async fn reserve(&self, payload_len: usize) -> Result<Reservation, ReserveError> {
        self.shared.reserve(payload_len).await
    }
}

impl Shared {
    async fn reserve(&self, payload: usize) -> Result<Reservation, ReserveError> {
        let bytes_max = self.limits.record_bytes;
        if payload > bytes_max {
            return Err(ReserveError::TooLarge {
                bytes: payload,
                bytes_max,
            });
        }
        let footprint = blocks(record_footprint(payload as u64));
        let footprint = u32::try_from(footprint).expect("a record is smaller than 16 TiB");
        let charge = kib(payload as u64).saturating_add(RECORD_OVERHEAD_KIB as u32);
        // A record larger than all the memory passes when nothing else is in flight.
        let charge = charge.min(kib(self.limits.pending_bytes)).max(1);
        let wait = async {
            let space = self.take(&self.space, footprint).await?;
            let memory = self.take(&self.memory, charge).await?;
            Ok::<_, AcquireError>((space, memory))
        };
        match timeout(self.config.reserve_wait_max, wait).await {
            Ok(Ok((space, memory))) => Ok(Reservation {
                payload,
                space,
                memory,
            }),
            Ok(Err(_closed)) => Err(self.refusal()),
            Err(_elapsed) => Err(ReserveError::Full(self.config.reserve_wait_max)),
        }
    }

    async fn take(
        &self,
        semaphore: &Arc<Semaphore>,
        permits: u32,
    ) -> Result<OwnedSemaphorePermit, AcquireError> {
        match Arc::clone(semaphore).try_acquire_many_owned(permits) {
            Ok(permit) => return Ok(permit),
            Err(TryAcquireError::NoPermits) => self.metrics.push_backs.increment(1),
            // Asking again says so in the type that the caller wants.
            Err(TryAcquireError::Closed) => {}
        }
        Arc::clone(semaphore).acquire_many_owned(permits).await
    }

    fn refusal(&self) -> ReserveError {
        match &self.state.lock().phase {
            Phase::Failed(failure) => ReserveError::Failed(failure.clone()),
            Phase::Open | Phase::Closing | Phase::Closed => ReserveError::Closed,
        }
    }
}
