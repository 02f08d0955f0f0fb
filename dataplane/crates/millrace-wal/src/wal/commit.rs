//! From an append to its acknowledgement.
//!
//! An append joins the **draft**, the chunk that still accepts records, and gets its position
//! immediately. If a write slot is free, the draft is written immediately; otherwise it grows until
//! a slot becomes free or it is full. So an idle log adds no delay, a busy one writes large chunks,
//! and nothing waits for a timer.
//!
//! A slot is a task that copies the draft's records into a buffer, writes it, completes the records,
//! and continues with the next draft. So copying happens off the appender's thread, on as many
//! threads as there are slots.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_tasks::Task;
use tokio::sync::OwnedSemaphorePermit;

use super::{Append, Phase, Reservation, Shared, State, Wal, admission, completion::Completion};
use crate::{
    AppendError, WalRange,
    error::WalFailure,
    format::chunk::{self, Bodies, ChunkHeader, Layout},
    pacer::Pacer,
    recovery::Span,
};

/// Chunks that are being filled, wait for a slot, or are being written.
#[derive(Debug)]
pub(super) struct Commit {
    /// Where the next chunk starts, or the draft ends.
    next: u64,
    draft: Option<Draft>,
    /// Full chunks that wait for a slot, in order of position.
    ready: VecDeque<Draft>,
    /// Chunks that are being written, in order of position, and those behind the first that
    /// are already durable.
    in_flight: VecDeque<InFlight>,
    /// Slots that are taken.
    writing: usize,
    /// Everything of this session below this is durable.
    stable: u64,
    pacer: Pacer,
    /// A task waits for the pacer.
    pacing: bool,
    /// What the durable header says: see [`crate::format::header::Header::window`].
    window: u64,
    /// A task writes a header with a larger window.
    growing: bool,
}

/// What one record consists of.
#[derive(Debug, Clone, Copy)]
struct Body<'a> {
    parts: &'a [Bytes],
    /// The CRC32C of the last part, where it is known.
    last_sum: Option<u32>,
}

/// A chunk that has not been written.
#[derive(Debug)]
struct Draft {
    layout: Layout,
    bodies: Bodies,
    payload_bytes: u64,
    records_end: u64,
    memory: Option<OwnedSemaphorePermit>,
    completion: Arc<Completion>,
}

#[derive(Debug)]
struct InFlight {
    start: u64,
    end: u64,
    durable: bool,
    completion: Arc<Completion>,
}

/// A chunk that a slot is about to write.
#[derive(Debug)]
struct Sealed {
    header: ChunkHeader,
    draft: Draft,
}

/// What may start now.
#[derive(Debug, Default)]
struct Startable {
    first: Option<Sealed>,
    more: Vec<Sealed>,
    /// The pacer asks to look again after this long.
    recheck: Option<Duration>,
    /// The next chunk needs a window of this many bytes first.
    grow_to: Option<u64>,
}

impl Draft {
    fn new(position: u64) -> Self {
        Self {
            layout: Layout::new(position),
            bodies: Bodies::default(),
            payload_bytes: 0,
            records_end: position,
            memory: None,
            completion: Completion::new(),
        }
    }

    fn push(&mut self, payload: u64, body: Body<'_>, memory: OwnedSemaphorePermit) -> WalRange {
        let range = self.layout.push(payload);
        self.bodies.push(body.parts, body.last_sum);
        self.payload_bytes += payload;
        self.records_end = range.end;
        match &mut self.memory {
            Some(held) => held.merge(memory),
            None => self.memory = Some(memory),
        }
        range
    }
}

impl Commit {
    pub(super) fn new(next: u64, window: u64, pacer: Pacer) -> Self {
        Self {
            next,
            draft: None,
            ready: VecDeque::new(),
            in_flight: VecDeque::new(),
            writing: 0,
            stable: next,
            pacer,
            pacing: false,
            window,
            growing: false,
        }
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn stable(&self) -> u64 {
        self.stable
    }

    pub(super) fn writes_in_flight(&self) -> usize {
        self.writing
    }

    pub(super) fn is_idle(&self) -> bool {
        self.writing == 0 && self.draft.is_none() && self.ready.is_empty()
    }

    /// Where the lowest chunk starts that no slot has taken.
    pub(super) fn unwritten(&self) -> u64 {
        let waiting = self.ready.front().or(self.draft.as_ref());
        waiting.map_or(self.next, |draft| draft.layout.position)
    }

    /// Gives a record its position; returns also the bytes by which the log has grown.
    fn push(
        &mut self,
        payload: u64,
        body: Body<'_>,
        memory: OwnedSemaphorePermit,
        chunk_bytes: u64,
    ) -> (WalRange, Arc<Completion>, u64) {
        if let Some(draft) = &self.draft {
            let mut grown = draft.layout;
            grown.push(payload);
            if grown.length() > chunk_bytes {
                self.ready.extend(self.draft.take());
            }
        }
        let draft = self.draft.get_or_insert_with(|| Draft::new(self.next));
        let range = draft.push(payload, body, memory);
        let growth = draft.layout.end() - self.next;
        self.next = draft.layout.end();
        (range, Arc::clone(&draft.completion), growth)
    }

    /// The completions of everything that is not durable; nothing is written any more.
    pub(super) fn abandon(&mut self) -> Vec<Arc<Completion>> {
        let waiting = self
            .ready
            .drain(..)
            .chain(self.draft.take())
            .map(|draft| draft.completion);
        let writing = self.in_flight.drain(..).map(|chunk| chunk.completion);
        waiting.chain(writing).collect()
    }

    /// Marks a chunk durable and moves the line below which everything is.
    fn mark_durable(&mut self, start: u64) {
        if let Ok(at) = self
            .in_flight
            .binary_search_by_key(&start, |chunk| chunk.start)
        {
            self.in_flight[at].durable = true;
        }
        while let Some(chunk) = self.in_flight.pop_front_if(|chunk| chunk.durable) {
            self.stable = chunk.end;
        }
    }
}

impl Wal {
    /// Appends one record, whose bytes are those of `parts` one after the other. Records get their
    /// positions in the order of these calls. Does not wait and does not copy; the answer says when
    /// the record is durable. May be called outside of a Tokio runtime.
    pub fn append(&self, reservation: Reservation, parts: &[Bytes]) -> Append {
        self.append_summed(reservation, parts, None)
    }

    /// Appends one record like [`Wal::append`]. `last_sum` is the CRC32C of the last part, if that is known: the log does not sum
    /// its bytes again. With a wrong sum, recovery reports the record as damaged.
    pub fn append_summed(
        &self,
        reservation: Reservation,
        parts: &[Bytes],
        last_sum: Option<u32>,
    ) -> Append {
        Shared::append(&self.shared, reservation, Body { parts, last_sum })
    }
}

impl Shared {
    fn append(self: &Arc<Self>, reservation: Reservation, body: Body<'_>) -> Append {
        let Reservation {
            payload: reserved,
            mut space,
            memory,
        } = reservation;
        let bytes: usize = body.parts.iter().map(Bytes::len).sum();
        let now = self.clock.now();
        let mut state = self.state.lock();
        let refusal = match &state.phase {
            Phase::Open if bytes > reserved => Some(AppendError::Oversized { bytes, reserved }),
            Phase::Open => None,
            Phase::Failed(failure) => Some(AppendError::Failed(failure.clone())),
            Phase::Closing | Phase::Closed => Some(AppendError::Closed),
        };
        if let Some(error) = refusal {
            return Append::refused(state.commit.next(), error);
        }
        let chunk_bytes = self.limits.chunk_bytes;
        let (range, completion, growth) =
            state.commit.push(bytes as u64, body, memory, chunk_bytes);
        let taken = space.split(admission::blocks(growth) as usize);
        taken
            .expect("a record's footprint covers what it adds to the log")
            .forget();
        let startable = self.startable(&mut state, now);
        drop(state);
        self.start(startable);
        Append::waiting(range, completion)
    }

    /// Takes the chunks that may be written now.
    fn startable(&self, state: &mut State, now: Duration) -> Startable {
        let mut startable = Startable::default();
        while let Some((start, end)) = self.candidate(state) {
            if end - start > state.commit.window {
                if !std::mem::replace(&mut state.commit.growing, true) {
                    startable.grow_to = Some(end - start);
                }
                break;
            }
            let wait = state.commit.pacer.wait(now);
            if !wait.is_zero() {
                if !std::mem::replace(&mut state.commit.pacing, true) {
                    startable.recheck = Some(wait);
                }
                break;
            }
            state.commit.pacer.charge(now, end - start);
            match self.seal(state) {
                Some(sealed) if startable.first.is_none() => startable.first = Some(sealed),
                Some(sealed) => startable.more.push(sealed),
                None => break,
            }
        }
        startable
    }

    /// The range of the next chunk, if there is one, a slot is free, and it fits the window behind
    /// the lowest chunk in flight. One that does not even fit alone waits until it is the lowest.
    fn candidate(&self, state: &State) -> Option<(u64, u64)> {
        let commit = &state.commit;
        if commit.writing >= self.limits.depth || matches!(state.phase, Phase::Failed(_)) {
            return None;
        }
        let layout = commit.ready.front().or(commit.draft.as_ref())?.layout;
        let lowest = commit
            .in_flight
            .front()
            .map_or(layout.position, |chunk| chunk.start);
        let (start, end) = (layout.position, layout.end());
        let alone = start == lowest;
        (alone || end - lowest <= commit.window).then_some((start, end))
    }

    /// Takes the next chunk for writing.
    fn seal(&self, state: &mut State) -> Option<Sealed> {
        let commit = &mut state.commit;
        let draft = commit.ready.pop_front().or_else(|| commit.draft.take())?;
        let (start, end) = (draft.layout.position, draft.layout.end());
        let header = ChunkHeader {
            identity: self.identity,
            position: start,
            session: self.session,
            stable: commit.stable,
            length: u32::try_from(end - start).expect("a record is smaller than 4 GiB"),
            content: u32::try_from(draft.layout.content()).expect("the length holds the content"),
            records: u32::try_from(draft.bodies.len()).expect("a record has 16 bytes at least"),
            directory: u32::try_from(draft.layout.directory()).expect("the content holds it"),
        };
        let completion = Arc::clone(&draft.completion);
        commit.in_flight.push_back(InFlight {
            start,
            end,
            durable: false,
            completion,
        });
        commit.writing += 1;
        state.spans.push(Span {
            start,
            end,
            records_end: draft.records_end,
        });
        Some(Sealed { header, draft })
    }

    fn start(self: &Arc<Self>, startable: Startable) {
        for sealed in startable.first.into_iter().chain(startable.more) {
            self.spawn(Task::WalWrite, Arc::clone(self).run_slot(sealed));
        }
        if let Some(wait) = startable.recheck {
            self.spawn(Task::WalPacing, Arc::clone(self).recheck(wait));
        }
        if let Some(bytes) = startable.grow_to {
            self.spawn(Task::WalWindow, Arc::clone(self).grow_window(bytes));
        }
    }

    /// Makes the window large enough for a chunk of `bytes`: in the header first, because recovery
    /// must know how far to look before anything is written that far. Rare, as only records of many
    /// mebibytes need it; a window that always had room for the largest record would cost that much
    /// of the ring after every crash.
    async fn grow_window(self: Arc<Self>, bytes: u64) {
        let window = bytes
            .next_power_of_two()
            .min(self.limits.window_max)
            .max(bytes);
        if self.write_window(window).await.is_err() {
            return;
        }
        let now = self.clock.now();
        let startable = {
            let mut state = self.state.lock();
            state.commit.growing = false;
            state.commit.window = window;
            self.startable(&mut state, now)
        };
        self.start(startable);
    }

    /// Waits for the pacer and starts what it then allows.
    async fn recheck(self: Arc<Self>, wait: Duration) {
        tokio::time::sleep(wait).await;
        let now = self.clock.now();
        let startable = {
            let mut state = self.state.lock();
            state.commit.pacing = false;
            self.startable(&mut state, now)
        };
        self.start(startable);
    }

    /// One slot: writes chunk after chunk for as long as there are any.
    async fn run_slot(self: Arc<Self>, sealed: Sealed) {
        let mut next = Some(sealed);
        while let Some(sealed) = next {
            let started = self.clock.now();
            let Sealed { header, draft } = sealed;
            let Draft {
                bodies,
                payload_bytes,
                memory,
                completion,
                ..
            } = draft;
            let result = self.write(&header, bodies).await;
            next = self.written(&header, payload_bytes, &completion, started, result);
            drop(memory);
        }
    }

    /// Lays the chunk out and writes it: in two writes where it runs over the ring's end.
    async fn write(&self, header: &ChunkHeader, bodies: Bodies) -> io::Result<()> {
        let mut buf = self.pool.take(header.length as usize);
        chunk::encode(&mut buf, header, &bodies);
        // The buffers that the records came in are free from here on.
        drop(bodies);
        let (first, second) = self.ring.pieces(header.position, u64::from(header.length));
        let Some(second) = second else {
            return self.device.write(first.offset, buf).await;
        };
        let mut rest = self.pool.take(second.len as usize);
        rest.copy_from_slice(&buf[first.len as usize..]);
        buf.truncate(first.len as usize);
        let writes = (
            self.device.write(first.offset, buf),
            self.device.write(second.offset, rest),
        );
        futures_util::future::try_join(writes.0, writes.1)
            .await
            .map(|((), ())| ())
    }

    /// Answers the records of a write; returns the chunk that this slot goes on with.
    fn written(
        self: &Arc<Self>,
        header: &ChunkHeader,
        payload_bytes: u64,
        completion: &Completion,
        started: Duration,
        result: io::Result<()>,
    ) -> Option<Sealed> {
        // In this order: who takes the log over raises the fence before it reads.
        let result = result.and_then(|()| self.check_fence());
        if let Err(error) = result {
            let (piece, _) = self.ring.pieces(header.position, u64::from(header.length));
            let source = Arc::new(error);
            self.fail(WalFailure {
                operation: "write",
                offset: piece.offset,
                source,
            });
        }
        let now = self.clock.now();
        let (mut startable, trim_due) = {
            let mut state = self.state.lock();
            state.commit.writing -= 1;
            if let Phase::Failed(failure) = &state.phase {
                let failure = failure.clone();
                drop(state);
                completion.complete(Err(failure));
                return None;
            }
            state.commit.mark_durable(header.position);
            state.rate.add(now, u64::from(header.length));
            self.publish(&state);
            let startable = self.startable(&mut state, now);
            if state.commit.is_idle() {
                self.idle.notify_waiters();
            }
            (startable, state.trim_is_due())
        };
        completion.complete(Ok(()));
        self.count(header, payload_bytes, now.saturating_sub(started));
        let next = startable.first.take();
        self.start(startable);
        self.start_trims(trim_due);
        next
    }

    fn check_fence(&self) -> io::Result<()> {
        match &self.fence {
            Some(fence) => fence.check().map_err(io::Error::other),
            None => Ok(()),
        }
    }

    fn count(&self, header: &ChunkHeader, payload_bytes: u64, took: Duration) {
        self.metrics.records.increment(u64::from(header.records));
        self.metrics.payload_bytes.increment(payload_bytes);
        self.metrics.writes.increment(1);
        self.metrics
            .written_bytes
            .increment(u64::from(header.length));
        self.metrics.write_seconds.record(took.as_secs_f64());
    }
}
