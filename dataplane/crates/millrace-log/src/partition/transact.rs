//! Transactions: the markers that end them, the verification of what opens them, and how far all have ended.

use std::sync::atomic::Ordering;

use millrace_model::{Cause, FailureClass, Offset};
use millrace_record::{BatchHeader, TransactionEnd, split};

use super::{AppendTicket, Appended, PartitionLog, State};
use crate::{
    error::AppendError,
    producers::{ProducerStatus, Verification, VerificationGuard},
    transactions::TransactionMarker,
};

impl PartitionLog {
    /// Ends the transaction of a producer with a marker, which is written even where none is open; the ticket tells when it is
    /// durable. Waits, within bounds, for room.
    ///
    /// # Errors
    /// [`AppendError::InvalidProducerEpoch`] and [`AppendError::CoordinatorFenced`] for markers that are late, and what concerns
    /// the partition.
    pub async fn append_marker(
        &self,
        marker: TransactionMarker,
    ) -> Result<AppendTicket, AppendError> {
        if let Some(cause) = self.offline() {
            return Err(AppendError::Offline(cause));
        }
        if self.is_closed() {
            return Err(AppendError::Closed);
        }
        if !marker.committed {
            self.index_aborted_if_due().await;
        }
        let end = TransactionEnd {
            committed: marker.committed,
            coordinator_epoch: marker.coordinator_epoch,
        };
        let producer = (marker.producer_id, marker.producer_epoch);
        let bytes = end.batch(producer, self.clock.wall_ms());
        let room = self.data.reserve(bytes.len()).await?;
        let unsound = |error| AppendError::Storage(Cause::of(FailureClass::Corrupt, error));
        let batch = split(bytes).map_err(unsound)?;
        let batch = batch.into_iter().next().ok_or(AppendError::Empty)?;
        let mut state = self.state.lock();
        // Under the lock that closing takes, so that no batch slips in behind the last checkpoint.
        if self.is_closed() {
            return Err(AppendError::Closed);
        }
        state.producers.check_marker(&marker)?;
        let (stand, durable) = self.write(&mut state, (batch, Some(end)), room);
        drop(state);
        let appended = Appended {
            base_offset: stand.base_offset,
            last_offset: stand.last_offset,
            log_append_time: stand.log_append_time,
            log_start_offset: self.start_offset(),
        };
        Ok(AppendTicket { durable, appended })
    }

    /// Whether the coordinator has to verify the producer's transaction before a batch of it is appended. To be called before the
    /// coordinator is asked.
    #[must_use]
    pub fn verification(&self, producer_id: i64, epoch: i16) -> Verification {
        let state = self.state.lock();
        if state.producers.is_within_transaction(producer_id, epoch) {
            return Verification::NotNeeded;
        }
        let at = self.data.next_offset();
        Verification::Needed(VerificationGuard::new(producer_id, epoch, at))
    }

    /// Whether no marker has been written for its producer since the guard was taken.
    #[must_use]
    pub fn is_valid(&self, guard: &VerificationGuard) -> bool {
        self.state.lock().producers.is_valid(guard)
    }

    /// Where records that consumers of committed records may read end: at the first record of the oldest transaction that is
    /// open, or has ended with a marker that is not durable, or else at the high watermark. Never moves back.
    #[must_use]
    pub fn last_stable_offset(&self) -> Offset {
        let high_watermark = self.high_watermark();
        // In this order: see the field.
        if !self.is_unstable.load(Ordering::SeqCst) {
            return high_watermark;
        }
        let mut state = self.state.lock();
        let high_watermark = self.high_watermark();
        match state.transactions.first_unstable(high_watermark) {
            // A transaction may have begun below what was deleted since.
            Some(first) => first.max(self.start_offset()).min(high_watermark),
            None => {
                self.is_unstable.store(false, Ordering::SeqCst);
                high_watermark
            }
        }
    }

    /// The producers that are remembered, by id.
    #[must_use]
    pub fn producers(&self) -> Vec<ProducerStatus> {
        self.state.lock().producers.statuses()
    }

    /// Completes what an opening has found out.
    pub(super) fn state_is_restored(&self) {
        let mut state = self.state.lock();
        // Markers that a checkpoint covers are not known one by one.
        state.producers.void_guards_before(self.data.next_offset());
        self.charge_producers(&state);
        // The first who asks for the last stable offset finds out.
        self.is_unstable.store(true, Ordering::SeqCst);
    }
}

impl State {
    /// Takes note of a marker at `offset`.
    pub(super) fn end_transaction(
        &mut self,
        header: &BatchHeader,
        marker: TransactionEnd,
        offset: Offset,
        now_ms: i64,
    ) {
        let producer = (header.producer_id, header.producer_epoch);
        let ended =
            self.producers
                .end_transaction(producer, marker.coordinator_epoch, offset, now_ms);
        if let Some(first) = ended {
            let aborted = (!marker.committed).then_some(header.producer_id);
            self.transactions.end(first, offset, aborted);
        }
    }
}
