//! The state of one open stream, and the task that acknowledges its appends.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use millrace_model::{Cause, Offset, StreamEpoch, StreamId};
use millrace_tasks::{Supervisor, Task};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::{
    acks::{Acks, AppendTicket, InFlight},
    cache::{CachedEntry, CachedRun},
    entry::Entry,
    error::AppendError,
    failure::Failure,
};

/// Called with the new confirm offset after it has moved. Must be quick and must not block.
pub(crate) type ConfirmListener = Arc<dyn Fn(Offset) + Send + Sync>;

/// Entries that one turn of the acknowledging task may settle before their tickets leave; keeps the
/// first of them from waiting for the last.
const SETTLED_PER_TURN_MAX: usize = 256;

/// One open stream.
pub(crate) struct StreamState {
    pub(crate) id: StreamId,
    pub(crate) epoch: StreamEpoch,
    /// The first offset that may be read.
    start: AtomicU64,
    /// The same as the metadata has it; `start` may be ahead while a trim is under way.
    trimmed: AtomicU64,
    confirmed: AtomicU64,
    /// Everything below is in objects.
    committed: AtomicU64,
    inner: Mutex<Inner>,
    /// Why the stream is halted. Set under the lock of `inner`.
    halted: OnceLock<Cause>,
    listeners: RwLock<Vec<ConfirmListener>>,
    failure: Arc<Failure>,
}

/// What changes with every append.
#[derive(Debug)]
pub(crate) struct Inner {
    /// The offset of the next entry.
    pub(crate) next: Offset,
    pub(crate) cached: CachedRun,
    pub(crate) acks: Acks,
    /// Deleted: takes no more appends, and what it has is not uploaded.
    pub(crate) discarded: bool,
}

impl Inner {
    /// Whether `entry` may be appended now.
    pub(crate) fn accepts(&self, entry: &Entry) -> Result<(), AppendError> {
        if self.discarded {
            return Err(AppendError::Closed);
        }
        if let Some(error) = self.acks.failed() {
            return Err(error.clone());
        }
        let &Entry {
            base_offset: got,
            count,
            ..
        } = entry;
        if got != self.next || count == 0 || got.checked_add(u64::from(count)).is_none() {
            return Err(AppendError::OutOfOrder {
                expected: self.next,
                got,
                count,
            });
        }
        Ok(())
    }
}

impl StreamState {
    /// A stream whose entries from `start` to `end` are all durable; those in `cached` end at `end`, and are not in objects.
    pub(crate) fn new(
        (id, epoch): (StreamId, StreamEpoch),
        start: Offset,
        end: Offset,
        cached: CachedRun,
        failure: Arc<Failure>,
    ) -> Self {
        let committed = cached.first_offset().unwrap_or(end);
        Self {
            id,
            epoch,
            committed: AtomicU64::new(committed),
            start: AtomicU64::new(start),
            trimmed: AtomicU64::new(start),
            confirmed: AtomicU64::new(end),
            inner: Mutex::new(Inner {
                next: end,
                cached,
                acks: Acks::default(),
                discarded: false,
            }),
            halted: OnceLock::new(),
            listeners: RwLock::default(),
            failure,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Why the stream takes no more appends and is not read, while all others do and are.
    pub(crate) fn halted(&self) -> Option<&Cause> {
        self.halted.get()
    }

    /// Halts the stream. Appends that are in flight become durable and are acknowledged: the log keeps
    /// them.
    pub(crate) fn halt(&self, cause: Cause) {
        let mut inner = self.lock();
        inner.cached.clear();
        self.halted.get_or_init(|| cause);
    }

    pub(crate) fn start_offset(&self) -> Offset {
        self.start.load(Ordering::Acquire)
    }

    /// Moves the start up; never down.
    pub(crate) fn raise_start(&self, start: Offset) {
        self.start.fetch_max(start, Ordering::AcqRel);
    }

    pub(crate) fn trimmed_offset(&self) -> Offset {
        self.trimmed.load(Ordering::Acquire)
    }

    /// The metadata has this start now.
    pub(crate) fn trimmed(&self, start: Offset) {
        self.trimmed.fetch_max(start, Ordering::AcqRel);
        self.raise_start(start);
    }

    pub(crate) fn confirm_offset(&self) -> Offset {
        self.confirmed.load(Ordering::Acquire)
    }

    pub(crate) fn committed_offset(&self) -> Offset {
        self.committed.load(Ordering::Acquire)
    }

    /// Everything below `end` is in objects.
    pub(crate) fn committed(&self, end: Offset) {
        self.committed.fetch_max(end, Ordering::AcqRel);
    }

    pub(crate) fn listen(&self, listener: ConfirmListener) {
        self.listeners.write().push(listener);
    }

    /// Takes note of an append that [`Inner::accepts`] allowed under this same lock.
    pub(crate) fn appended(
        self: &Arc<Self>,
        mut inner: MutexGuard<'_, Inner>,
        entry: CachedEntry,
        in_flight: InFlight,
        tasks: &Supervisor,
    ) -> AppendTicket {
        inner.next = in_flight.end;
        inner.cached.push(entry);
        let ticket = inner.acks.push(in_flight);
        let must_drive = inner.acks.must_drive();
        drop(inner);
        if must_drive {
            tasks.spawn(Task::StreamAcknowledge, Arc::clone(self).acknowledge());
        }
        ticket
    }

    /// A ticket for everything below `end`. Above the next offset there is nothing to wait for.
    pub(crate) fn when_confirmed(&self, end: Offset) -> AppendTicket {
        let mut inner = self.lock();
        if end <= self.confirm_offset() {
            return AppendTicket::settled(Ok(()));
        }
        if end > inner.next {
            let refused = inner.acks.failed().cloned().unwrap_or(AppendError::Closed);
            return AppendTicket::settled(Err(refused));
        }
        inner.acks.wait_for(end)
    }

    /// Acknowledges in order what is in flight, until nothing is.
    async fn acknowledge(self: Arc<Self>) {
        loop {
            let Some(first) = self.lock().acks.take_first() else {
                return;
            };
            let InFlight {
                durable,
                end,
                durability,
            } = first;
            if let Err(error) = durable.await {
                return self.fail(error);
            }
            durability.done();
            let (confirmed, failed) = self.take_settled(end);
            self.confirm(confirmed);
            if let Some(error) = failed {
                return self.fail(error);
            }
        }
    }

    /// Takes what is settled behind `end`. Returns the new confirm offset, and the error that the
    /// entry after it met, if it did.
    fn take_settled(&self, mut end: Offset) -> (Offset, Option<AppendError>) {
        for _ in 0..SETTLED_PER_TURN_MAX {
            match self.lock().acks.take_settled() {
                None => break,
                Some((_, Err(error))) => return (end, Some(error)),
                Some((next, Ok(()))) => {
                    end = next.end;
                    next.durability.done();
                }
            }
        }
        (end, None)
    }

    fn confirm(&self, end: Offset) {
        let due = {
            let mut inner = self.lock();
            self.confirmed.store(end, Ordering::Release);
            inner.acks.due(end)
        };
        for waiter in due {
            // A dropped ticket needs no answer.
            let _ = waiter.send(Ok(()));
        }
        self.tell_listeners();
    }

    /// Tells the listeners how far the stream is confirmed.
    pub(crate) fn tell_listeners(&self) {
        let confirmed = self.confirm_offset();
        for listener in self.listeners.read().iter() {
            listener(confirmed);
        }
    }

    /// A record did not become durable: nothing from it on is acknowledged, now or later.
    fn fail(&self, error: AppendError) {
        if error != AppendError::Closed {
            self.failure.declare(error.clone());
        }
        let waiters = self.lock().acks.fail(error.clone());
        for waiter in waiters {
            let _ = waiter.send(Err(error.clone()));
        }
    }
}

impl fmt::Debug for StreamState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamState")
            .field("id", &self.id)
            .field("epoch", &self.epoch)
            .field("start", &self.start)
            .field("confirmed", &self.confirmed)
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::FutureExt;
    use millrace_model::{Cause, FailureClass};
    use tokio::sync::oneshot;

    use super::*;
    use crate::cache::Durability;

    struct Rig {
        state: Arc<StreamState>,
        durability: Arc<Durability>,
    }

    type Device = oneshot::Sender<Result<(), AppendError>>;

    impl Rig {
        fn new() -> Self {
            let ids = (StreamId(1), StreamEpoch(1));
            let failure = Arc::new(Failure::new());
            let state = StreamState::new(ids, 0, 0, CachedRun::default(), failure);
            Self {
                state: Arc::new(state),
                durability: Arc::default(),
            }
        }

        fn append(&self, count: u32) -> (AppendTicket, Device) {
            let (device, written) = oneshot::channel();
            let inner = self.state.lock();
            let entry = Entry {
                base_offset: inner.next,
                count,
                payload: Bytes::new(),
            };
            inner.accepts(&entry).expect("accepted");
            self.durability.begin();
            let in_flight = InFlight {
                durable: Box::pin(async move { written.await.expect("the device answers") }),
                end: entry.end_offset(),
                durability: Arc::clone(&self.durability),
            };
            let wal = millrace_wal::WalRange { start: 0, end: 1 };
            let entry = CachedEntry::in_memory(entry, wal);
            let ticket = self
                .state
                .appended(inner, entry, in_flight, &Supervisor::new());
            (ticket, device)
        }
    }

    async fn settle() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn acks_leave_in_append_order() {
        let rig = Rig::new();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        rig.state
            .listen(Arc::new(move |offset| log.lock().push(offset)));
        let (mut a, device_a) = rig.append(1);
        let (mut b, device_b) = rig.append(2);
        let (mut c, device_c) = rig.append(3);
        device_c.send(Ok(())).expect("awaited");
        device_b.send(Ok(())).expect("awaited");
        settle().await;
        assert!((&mut b).now_or_never().is_none() && (&mut c).now_or_never().is_none());
        assert_eq!(rig.state.confirm_offset(), 0);
        device_a.send(Ok(())).expect("awaited");
        settle().await;
        for ticket in [&mut a, &mut b, &mut c] {
            assert_eq!(ticket.now_or_never(), Some(Ok(())));
        }
        assert_eq!(rig.state.confirm_offset(), 6);
        assert_eq!(*seen.lock(), [6]);
        rig.durability.settled().await;
    }

    #[tokio::test]
    async fn a_failed_record_fails_everything_from_it_on() {
        let rig = Rig::new();
        let (a, device_a) = rig.append(1);
        let (b, device_b) = rig.append(1);
        let (c, device_c) = rig.append(1);
        let error = AppendError::Failed(Cause::of(FailureClass::Transient, "EIO"));
        device_c.send(Ok(())).expect("awaited");
        device_b.send(Err(error.clone())).expect("awaited");
        device_a.send(Ok(())).expect("awaited");
        assert_eq!(a.await, Ok(()));
        assert_eq!(b.await, Err(error.clone()));
        assert_eq!(c.await, Err(error.clone()));
        assert_eq!(rig.state.confirm_offset(), 1);
        let entry = Entry {
            base_offset: 3,
            count: 1,
            payload: Bytes::new(),
        };
        assert_eq!(rig.state.lock().accepts(&entry), Err(error.clone()));
        assert_eq!(rig.state.when_confirmed(2).await, Err(error.clone()));
        assert!(rig.state.failure.reason().is_some());
    }

    #[tokio::test]
    async fn one_can_wait_for_what_another_appended() {
        let rig = Rig::new();
        let (_a, device_a) = rig.append(5);
        let (_b, device_b) = rig.append(5);
        let mut first = rig.state.when_confirmed(5);
        let mut second = rig.state.when_confirmed(10);
        device_a.send(Ok(())).expect("awaited");
        settle().await;
        assert_eq!((&mut first).now_or_never(), Some(Ok(())));
        assert!((&mut second).now_or_never().is_none());
        device_b.send(Ok(())).expect("awaited");
        assert_eq!(second.await, Ok(()));
        assert_eq!(rig.state.when_confirmed(10).await, Ok(()));
    }

    #[tokio::test]
    async fn an_entry_must_begin_where_the_stream_ends() {
        let rig = Rig::new();
        let (_a, _device) = rig.append(5);
        for (base_offset, count) in [(4, 1), (6, 1), (5, 0)] {
            let entry = Entry {
                base_offset,
                count,
                payload: Bytes::new(),
            };
            let error = AppendError::OutOfOrder {
                expected: 5,
                got: base_offset,
                count,
            };
            assert_eq!(rig.state.lock().accepts(&entry), Err(error));
        }
    }

    #[tokio::test]
    async fn a_dropped_ticket_holds_nothing_up() {
        let rig = Rig::new();
        let (a, device_a) = rig.append(1);
        let (b, device_b) = rig.append(1);
        drop(a);
        device_a.send(Ok(())).expect("awaited");
        device_b.send(Ok(())).expect("awaited");
        assert_eq!(b.await, Ok(()));
        // The task went to sleep in between: it is started again for what comes later.
        settle().await;
        let (c, device_c) = rig.append(1);
        device_c.send(Ok(())).expect("awaited");
        assert_eq!(c.await, Ok(()));
    }
}
