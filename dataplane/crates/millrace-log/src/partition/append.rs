//! Appending: the first stage of a write, and the ticket of its second.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use millrace_budget::Charge;
use millrace_model::{Cause, Offset};
use millrace_record::{Batch, BatchHeader, TimestampType};
use millrace_stream::{Entry, Permit};
use parking_lot::MutexGuard;

use super::{PartitionLog, State};
use crate::{
    error::AppendError,
    producers::{PRODUCER_BYTES, Sequenced, Stamped, Verdict, WrittenBatch},
    segments,
};

/// Who appends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A client's Produce request: all checks apply.
    Client,
    /// A part of this broker: no checks of producer, size or kind.
    Coordinator,
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
    durable: millrace_stream::AppendTicket,
    appended: Appended,
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
struct Stand {
    base_offset: Offset,
    last_offset: Offset,
    log_append_time: Option<i64>,
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
        if origin == AppendOrigin::Client {
            batches.iter().try_for_each(|batch| self.check(batch))?;
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
        let verdicts = match origin {
            AppendOrigin::Client => check_all(&state, &batches, self.data.next_offset())?,
            AppendOrigin::Coordinator => vec![Verdict::Append; batches.len()],
        };
        let newcomers = match origin {
            AppendOrigin::Client => self.room_for_producers(&state, &batches)?,
            AppendOrigin::Coordinator => None,
        };
        let ticket = self.write_all(state, batches, rooms, verdicts);
        // Until here, so that nobody else was given the same room.
        drop(newcomers);
        Ok(ticket)
    }

    /// Room for the producers of `batches` that are new; those that are known cost nothing more.
    fn room_for_producers(
        &self,
        state: &State,
        batches: &[Batch],
    ) -> Result<Option<Charge>, AppendError> {
        let sequenced = batches.iter().filter_map(|b| Sequenced::of(b.header()));
        let newcomers = state.producers.newcomers(sequenced);
        if newcomers == 0 {
            return Ok(None);
        }
        let room = self.producer_memory.try_take(newcomers * PRODUCER_BYTES);
        if room.is_none() {
            metrics::counter!("millrace_bound_refusals_total", "bound" => "producers").increment(1);
            let max = self.producer_memory.capacity() / PRODUCER_BYTES;
            return Err(AppendError::TooManyProducers { max });
        }
        Ok(room)
    }

    /// Charges what the producers cost now.
    pub(super) fn charge_producers(&self, state: &State) {
        self.producer_charge
            .lock()
            .set(state.producers.memory_bytes());
    }

    /// Forgets the producers that have not written for long.
    pub(crate) fn expire_producers(&self) {
        let now_ms = self.clock.wall_ms();
        let mut state = self.state.lock();
        let since_ms = now_ms.saturating_sub(self.producer_expiration_ms);
        state.producers.expire(since_ms);
        self.charge_producers(&state);
    }

    fn check(&self, batch: &Batch) -> Result<(), AppendError> {
        let (bytes, limit) = (batch.bytes().len(), self.config.read().max_message_bytes);
        if bytes > limit {
            return Err(AppendError::BatchTooLarge { bytes, limit });
        }
        if batch.header().is_control() {
            return Err(AppendError::ControlBatch);
        }
        if batch.header().is_transactional() {
            return Err(AppendError::Transactional);
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
                    let (stand, ticket) = self.write(&mut state, batch, room);
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

    fn write(
        &self,
        state: &mut State,
        mut batch: Batch,
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
        let payload = batch.freeze();
        let bytes = payload.len() as u64;
        let entry = Entry {
            base_offset,
            count,
            payload,
        };
        let end_offset = entry.end_offset();
        let ticket = self.data.append_in_buffer(room, entry, buffer_bytes);
        let last_offset = base_offset + u64::from(count.max(1)) - 1;
        let extent = Extent {
            base_offset,
            end_offset,
            bytes,
        };
        state.note(&header, extent, now_ms);
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
    /// Takes note of a batch that is in the log.
    pub(super) fn note(&mut self, header: &BatchHeader, extent: Extent, now_ms: i64) {
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
        if let Some(sequenced) = Sequenced::of(header).filter(|_| !header.is_control()) {
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
            self.producers.write(&sequenced, base_offset, stamped);
        }
    }
}

/// Checks the batches of one request, each on the state that those before it leave.
fn check_all(
    state: &State,
    batches: &[Batch],
    mut next: Offset,
) -> Result<Vec<Verdict>, AppendError> {
    let sequenced = |batch: &Batch| Sequenced::of(batch.header());
    if let [batch] = batches {
        let verdict = sequenced(batch).map_or(Ok(Verdict::Append), |s| state.producers.check(&s));
        return Ok(vec![verdict?]);
    }
    let mut draft = state
        .producers
        .excerpt(batches.iter().filter_map(sequenced));
    let mut verdicts = Vec::with_capacity(batches.len());
    for batch in batches {
        let count = u64::from(batch.count().max(1));
        let verdict = match sequenced(batch) {
            None => Verdict::Append,
            Some(sequenced) => {
                let verdict = draft.check(&sequenced)?;
                if verdict == Verdict::Append {
                    let last_offset = next + count - 1;
                    let stamped = Stamped {
                        last_offset,
                        log_append_time: -1,
                        now_ms: 0,
                    };
                    draft.write(&sequenced, next, stamped);
                }
                verdict
            }
        };
        if verdict == Verdict::Append {
            next += count;
        }
        verdicts.push(verdict);
    }
    Ok(verdicts)
}
