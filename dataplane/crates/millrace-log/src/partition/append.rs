//! Appending: the first stage of a write, and the ticket of its second.

use std::{
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll, ready},
};

use millrace_budget::Charge;
use millrace_model::{Cause, Offset};
use millrace_record::{Batch, BatchHeader, TimestampType, TransactionEnd};
use millrace_stream::{Entry, PayloadFacts, Permit};
use parking_lot::MutexGuard;

use super::{PartitionLog, State};
use crate::{
    error::AppendError,
    producers::{
        PRODUCER_BYTES, Producers, Sequenced, Stamped, Verdict, VerificationGuard, WrittenBatch,
    },
    segments,
    transactions::TRANSACTION_BYTES,
};

/// Who appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A client's Produce request: all checks apply. Its batches open no transaction.
    Client,
    /// The same, where the coordinator has verified the producer's transaction for this partition.
    Verified(VerificationGuard),
    /// A part of this broker: sequences and size are not checked, epochs are. Transactional batches count as verified.
    Coordinator,
}

impl AppendOrigin {
    const fn is_client(&self) -> bool {
        matches!(self, Self::Client | Self::Verified(_))
    }

    const fn guard(&self) -> Option<&VerificationGuard> {
        match self {
            Self::Verified(guard) => Some(guard),
            Self::Client | Self::Coordinator => None,
        }
    }
}

/// Where the batches of one append stand in the log, once they are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record of the first batch. For a duplicate: where it was first written.
    pub base_offset: Offset,
    /// Offset of the last record of the last batch.
    pub last_offset: Offset,
    /// The append time in milliseconds, where the topic stamps it (`LogAppendTime`); else `None`.
    pub log_append_time: Option<i64>,
    /// The log start offset.
    pub log_start_offset: Offset,
}

/// The promise of an append: a future that resolves once everything it was based on is durable, in
/// the order of the partition's appends. Dropping it takes nothing back.
#[derive(Debug)]
pub struct AppendTicket {
    pub(super) durable: millrace_stream::AppendTicket,
    pub(super) appended: Appended,
}

impl Future for AppendTicket {
    type Output = Result<Appended, AppendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let durable = ready!(Pin::new(&mut self.durable).poll(context));
        Poll::Ready(durable.map(|()| self.appended).map_err(AppendError::from))
    }
}

impl From<millrace_stream::AppendError> for AppendError {
    fn from(error: millrace_stream::AppendError) -> Self {
        use millrace_stream::AppendError as Stream;
        match error {
            Stream::TooLarge { bytes, max } => Self::BatchTooLarge {
                bytes,
                limit: usize::try_from(max).unwrap_or(usize::MAX),
            },
            Stream::Overloaded(what) => Self::Overloaded(what),
            Stream::Closed => Self::Closed,
            Stream::Halted(cause) => Self::Offline(cause),
            Stream::Failed(cause) => Self::Storage(cause),
            // Offsets are assigned under the lock, from the stream's own end.
            error @ Stream::OutOfOrder { .. } => Self::Storage(Cause::new(error)),
        }
    }
}

/// Where one batch of a request stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stand {
    pub(super) base_offset: Offset,
    pub(super) last_offset: Offset,
    pub(super) log_append_time: Option<i64>,
}

impl Stand {
    fn of(written: &WrittenBatch) -> Self {
        Self {
            base_offset: written.base_offset,
            last_offset: written.last_offset,
            log_append_time: Some(written.log_append_time).filter(|&time| time >= 0),
        }
    }
}

impl PartitionLog {
    /// Checks `batches`, gives them offsets and sends them on their way; the ticket tells when they
    /// are durable. Waits, within bounds, for room; the order in which calls return is the order of
    /// their batches. All batches of a call are appended, or none.
    ///
    /// The batches have passed [`Batch::validate`]; what is checked here is what depends on the
    /// partition: the size that its topic allows, and the sequence of its producers.
    ///
    /// # Errors
    /// See [`AppendError`].
    pub async fn append(
        &self,
        batches: Vec<Batch>,
        origin: AppendOrigin,
    ) -> Result<AppendTicket, AppendError> {
        if batches.is_empty() {
            return Err(AppendError::Empty);
        }
        let allowed = |batch| check_kind(batch, origin.is_client());
        batches.iter().try_for_each(allowed)?;
        if origin.is_client() {
            batches
                .iter()
                .try_for_each(|batch| self.check_size(batch))?;
        }
        if let Some(cause) = self.offline() {
            return Err(AppendError::Offline(cause));
        }
        if self.is_closed() {
            return Err(AppendError::Closed);
        }
        let mut rooms = Vec::with_capacity(batches.len());
        for batch in &batches {
            rooms.push(self.data.reserve(batch.bytes().len()).await?);
        }
        let state = self.state.lock();
        // Under the lock that closing takes, so that no batch slips in behind the last checkpoint.
        if self.is_closed() {
            return Err(AppendError::Closed);
        }
        let Checked { verdicts, opened } =
            check_all(&state, &batches, origin, self.data.next_offset())?;
        let room = self.room_for_producers(&state, &batches, opened)?;
        let ticket = self.write_all(state, batches, rooms, verdicts);
        // Until here, so that nobody else was given the same room.
        drop(room);
        Ok(ticket)
    }

    /// Room for the producers of `batches` that are new, and for the transactions that these open; those that are known cost
    /// nothing more.
    fn room_for_producers(
        &self,
        state: &State,
        batches: &[Batch],
        opened: usize,
    ) -> Result<Option<Charge>, AppendError> {
        let refused = |bound: &'static str| {
            metrics::counter!("millrace_bound_refusals_total", "bound" => bound).increment(1);
        };
        if opened > 0
            && let Some((bound, max)) = state.transactions.full_for(opened)
        {
            refused(bound);
            return Err(AppendError::TooManyTransactions { bound, max });
        }
        let sequenced = batches.iter().filter_map(|b| Sequenced::of(b.header()));
        let newcomers = state.producers.newcomers(sequenced);
        let bytes = newcomers * PRODUCER_BYTES + opened as u64 * TRANSACTION_BYTES;
        if bytes == 0 {
            return Ok(None);
        }
        let room = self.producer_memory.try_take(bytes);
        if room.is_none() {
            refused("producers");
            let max = self.producer_memory.capacity() / PRODUCER_BYTES;
            return Err(AppendError::TooManyProducers { max });
        }
        Ok(room)
    }

    /// Charges what the producers and their transactions cost now.
    pub(super) fn charge_producers(&self, state: &State) {
        let bytes = state.producers.memory_bytes() + state.transactions.memory_bytes();
        self.producer_charge.lock().set(bytes);
    }

    /// Forgets the producers that have not written for long.
    pub(crate) fn expire_producers(&self) {
        let now_ms = self.clock.wall_ms();
        let mut state = self.state.lock();
        let since_ms = now_ms.saturating_sub(self.producer_expiration_ms);
        state.producers.expire(since_ms);
        self.charge_producers(&state);
    }

    fn check_size(&self, batch: &Batch) -> Result<(), AppendError> {
        let (bytes, limit) = (batch.bytes().len(), self.config.read().max_message_bytes);
        if bytes > limit {
            return Err(AppendError::BatchTooLarge { bytes, limit });
        }
        Ok(())
    }

    /// Writes what is not there yet. The lock is held to the end, so that offsets, producer state
    /// and log agree on one order.
    fn write_all(
        &self,
        mut state: MutexGuard<'_, State>,
        batches: Vec<Batch>,
        rooms: Vec<Permit>,
        verdicts: Vec<Verdict>,
    ) -> AppendTicket {
        let mut first: Option<Stand> = None;
        let mut last: Option<Stand> = None;
        let mut written: Option<millrace_stream::AppendTicket> = None;
        let mut duplicated = 0;
        for ((batch, room), verdict) in batches.into_iter().zip(rooms).zip(verdicts) {
            let stand = match verdict {
                Verdict::Append => {
                    let (stand, ticket) = self.write(&mut state, (batch, None), room);
                    // Tickets resolve in order, so the last one speaks for those before it.
                    written = Some(ticket);
                    stand
                }
                Verdict::Duplicate(known) => {
                    duplicated = duplicated.max(known.last_offset + 1);
                    Stand::of(&known)
                }
            };
            first.get_or_insert(stand);
            last = Some(stand);
        }
        // A duplicate may be of a batch that is itself under way: it must not be answered first.
        // Whatever is written now stands behind every batch that it could be a duplicate of.
        let durable = written.unwrap_or_else(|| self.data.when_confirmed(duplicated));
        drop(state);
        let base = first.map_or(0, |stand| stand.base_offset);
        let appended = Appended {
            base_offset: base,
            last_offset: last.map_or(base, |stand| stand.last_offset),
            log_append_time: first.and_then(|stand| stand.log_append_time),
            log_start_offset: self.start_offset(),
        };
        AppendTicket { durable, appended }
    }

    /// Writes a data batch, or the batch of a marker with what it says.
    pub(super) fn write(
        &self,
        state: &mut State,
        (mut batch, marker): (Batch, Option<TransactionEnd>),
        room: Permit,
    ) -> (Stand, millrace_stream::AppendTicket) {
        let now_ms = self.clock.wall_ms();
        let kind = self.config.read().timestamp_type;
        let stamp = matches!(kind, TimestampType::LogAppendTime);
        let log_append_time = stamp.then_some(now_ms);
        let base_offset = self.data.next_offset();
        batch.restamp(base_offset, self.leader_epoch(), log_append_time);
        let (count, header) = (batch.count(), *batch.header());
        let buffer_bytes = batch.buffer_bytes();
        let sum = batch.known_sum();
        let payload = batch.freeze();
        let bytes = payload.len() as u64;
        let entry = Entry {
            base_offset,
            count,
            payload,
        };
        let end_offset = entry.end_offset();
        if header.is_transactional() {
            self.is_unstable.store(true, Ordering::SeqCst);
        }
        let known = PayloadFacts { buffer_bytes, sum };
        let ticket = self.data.append_known(room, entry, known);
        let last_offset = base_offset + u64::from(count.max(1)) - 1;
        let extent = Extent {
            base_offset,
            end_offset,
            bytes,
        };
        state.note((&header, marker), extent, now_ms);
        self.charge_producers(state);
        self.owe(state, bytes);
        self.usage.add(bytes);
        self.bytes_in.increment(bytes);
        self.records_in.increment(u64::from(count));
        (
            Stand {
                base_offset,
                last_offset,
                log_append_time,
            },
            ticket,
        )
    }
}

/// The place of a batch in the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) base_offset: Offset,
    pub(super) end_offset: Offset,
    pub(super) bytes: u64,
}

impl State {
    /// Takes note of a batch that is in the log; where it is a marker, with what that says.
    pub(super) fn note(
        &mut self,
        (header, marker): (&BatchHeader, Option<TransactionEnd>),
        extent: Extent,
        now_ms: i64,
    ) {
        let Extent {
            base_offset,
            end_offset,
            bytes,
        } = extent;
        self.time_index
            .append(base_offset, header.max_timestamp, bytes);
        self.segments.append(segments::Appended {
            base_offset,
            end_offset,
            // A batch without timestamps is as old as its place in the log; Kafka asks its file.
            max_timestamp: match header.max_timestamp {
                ..0 => now_ms,
                stamped => stamped,
            },
            bytes,
        });
        self.leader_epochs.append(base_offset, header.leader_epoch);
        if let Some(marker) = marker {
            self.end_transaction(header, marker, base_offset, now_ms);
        }
        if let Some(sequenced) = Sequenced::of(header) {
            let delta = u64::try_from(header.last_offset_delta).unwrap_or(0);
            let log_append_time = match header.timestamp_type() {
                TimestampType::LogAppendTime => header.max_timestamp,
                TimestampType::CreateTime => -1,
            };
            let last_offset = base_offset + delta;
            let stamped = Stamped {
                last_offset,
                log_append_time,
                now_ms,
            };
            if self.producers.write(&sequenced, base_offset, stamped) {
                self.transactions.begin(base_offset);
            }
        }
    }
}

/// Markers are written by themselves, so that nothing but data is in requests; and data of a transaction has a producer.
fn check_kind(batch: &Batch, is_client: bool) -> Result<(), AppendError> {
    let header = batch.header();
    if header.is_control() {
        return Err(AppendError::ControlBatch);
    }
    if is_client && header.is_transactional() && !header.has_producer_id() {
        let producer_id = header.producer_id;
        return Err(AppendError::InvalidSequence { producer_id });
    }
    Ok(())
}

/// What the checks of a request's batches have found.
struct Checked {
    /// One for each batch.
    verdicts: Vec<Verdict>,
    /// How many transactions the batches open.
    opened: usize,
}

/// Checks a batch on what is known of its producer.
fn check_one(
    producers: &Producers,
    batch: &Sequenced,
    origin: AppendOrigin,
) -> Result<Verdict, AppendError> {
    if origin.is_client() {
        return producers.check(batch, origin.guard());
    }
    producers.check_coordinated(batch)?;
    Ok(Verdict::Append)
}

/// Checks the batches of one request, each on the state that those before it leave.
fn check_all(
    state: &State,
    batches: &[Batch],
    origin: AppendOrigin,
    mut next: Offset,
) -> Result<Checked, AppendError> {
    let sequenced = |batch: &Batch| Sequenced::of(batch.header());
    if let [batch] = batches {
        let Some(batch) = sequenced(batch) else {
            return Ok(Checked {
                verdicts: vec![Verdict::Append],
                opened: 0,
            });
        };
        let verdict = check_one(&state.producers, &batch, origin)?;
        let opens = verdict == Verdict::Append && state.producers.is_opened_by(&batch);
        return Ok(Checked {
            verdicts: vec![verdict],
            opened: usize::from(opens),
        });
    }
    let mut draft = state
        .producers
        .excerpt(batches.iter().filter_map(sequenced));
    let mut checked = Checked {
        verdicts: Vec::with_capacity(batches.len()),
        opened: 0,
    };
    for batch in batches {
        let count = u64::from(batch.count().max(1));
        let verdict = match sequenced(batch) {
            None => Verdict::Append,
            Some(sequenced) => {
                let verdict = check_one(&draft, &sequenced, origin)?;
                if verdict == Verdict::Append {
                    let last_offset = next + count - 1;
                    let stamped = Stamped {
                        last_offset,
                        log_append_time: -1,
                        now_ms: 0,
                    };
                    let opens = draft.write(&sequenced, next, stamped);
                    checked.opened += usize::from(opens);
                }
                verdict
            }
        };
        if verdict == Verdict::Append {
            next += count;
        }
        checked.verdicts.push(verdict);
    }
    Ok(checked)
}
