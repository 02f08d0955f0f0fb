//! Schedules reads of data that has left memory: from the broker's own log if it still has the
//! data, otherwise from objects.
//!
//! A read is not part of the fetch that starts it. It continues on its own, and its result waits for
//! the connection's next fetch of that partition and offset. So a slow read never delays a fetch:
//! the fetch takes what is ready when it is answered, and no data is read twice. A fetch whose read
//! is already in flight waits for that one.
//!
//! The log and the bucket are two [`Lane`]s that share nothing: a bucket that does not answer uses
//! up its own turns, and none of those for records that are not uploaded yet.
//!
//! A result waits for bandwidth as part of the read, in the tier of catch-up reads: once it can be
//! taken, its bytes are paid for. That tier makes progress however busy the network is, so nothing
//! has to be sent unpaid, as responses from memory eventually are. A waiting read that no fetch asks
//! for any more is cancelled.

mod lane;
mod source;
mod tally;

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use metrics::Counter;
use millrace_limiter::{Limiter, Tier};
use millrace_log::{Isolation, ReadResult};
use millrace_model::Offset;
use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio::{sync::Notify, task::AbortHandle, time::sleep};

pub(crate) use self::{
    lane::BYTES_MIN,
    source::{ColdReadError, Source, SourceLog},
};
use self::{
    lane::{Entered, Found, Lane, LaneBounds},
    tally::{Tallied, Tally},
};

/// The most that is read of a partition at once, so that one read does not take a lane's memory
/// from all others. Clients ask for 1 MiB by default.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Reads of the broker's own log: its device is not faster with more.
const LOCAL: LaneBounds = LaneBounds {
    turns: 64,
    memory_bytes: 64 << 20,
};

/// Reads of objects, which take 100 ms each where the bucket is S3: at 1 MiB a read, which is what
/// clients ask for, these move more than 1 GB/s. What they find lies in the block cache, and is
/// counted there too.
const OBJECTS: LaneBounds = LaneBounds {
    turns: 128,
    memory_bytes: 128 << 20,
};

/// The memory of all reads together, bytes.
pub const COLD_READ_BYTES_MAX: u64 = (LOCAL.memory_bytes + OBJECTS.memory_bytes) as u64;

/// How long what was found waits for its client, which asks again at once unless it has gone or has
/// paused the partition.
const KEPT_MAX: Duration = Duration::from_secs(10);

/// How long it does where others need what it holds, and its connection has neither a fetch nor an
/// answer under way: one that has comes back once that is written.
const KEPT_MAX_SHORT: Duration = Duration::from_secs(1);

/// Clients ask again within the time that they let a fetch wait, half a second mostly. A read that
/// nobody asked for lately is not started, and not paid for.
const ABANDONED_AFTER: Duration = Duration::from_secs(5);

/// How often that is looked for: it means a look at all reads.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);

/// The reads of all connections.
#[derive(Debug)]
pub(crate) struct ColdReads {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Reads from the broker's own log, which take as long as the device does.
    local: Lane,
    /// Reads from objects, which take as long as the bucket does.
    objects: Lane,
    reads: Mutex<BTreeMap<Key, Arc<Read>>>,
    /// What was taken and is not written to its client yet.
    answers: Arc<Tally>,
    egress: Limiter,
    clock: SharedClock,
    /// When room was made last.
    swept_at: Mutex<Duration>,
    /// Reads whose client did not come for what they found.
    unclaimed: Counter,
}

/// For whom something is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    connection: u64,
    /// The address of the partition's log. The read holds the log, so nothing else has it.
    log: usize,
    offset: Offset,
    isolation: Isolation,
}

#[derive(Debug)]
struct Read {
    source: Source,
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What was found, and when.
    found: Option<(Found, Duration)>,
    /// The fetch that waits for it, or was the last one to do so.
    waiter: Weak<Notify>,
    /// When that one came.
    asked_at: Duration,
    task: Option<AbortHandle>,
    /// It was taken or forgotten, perhaps before its task was known.
    has_ended: bool,
}

impl ColdReads {
    pub(crate) fn new(egress: Limiter, clock: SharedClock) -> Self {
        Self {
            shared: Arc::new(Shared {
                local: Lane::new("log", LOCAL),
                objects: Lane::new("objects", OBJECTS),
                reads: Mutex::default(),
                answers: Arc::default(),
                egress,
                swept_at: Mutex::new(clock.now()),
                clock,
                unclaimed: metrics::counter!("millrace_cold_reads_unclaimed_total"),
            }),
        }
    }

    /// Ends the reads of a connection that has ended.
    pub(crate) fn disconnected(&self, connection: u64) {
        let first = |connection| Key {
            connection,
            log: 0,
            offset: 0,
            isolation: Isolation::ReadUncommitted,
        };
        let its_own = first(connection)..first(connection.saturating_add(1));
        let mut reads = self.shared.reads.lock();
        let keys: Vec<Key> = reads.range(its_own).map(|(key, _)| *key).collect();
        let ended: Vec<_> = keys.iter().filter_map(|key| reads.remove(key)).collect();
        drop(reads);
        ended.iter().for_each(|read| read.abort());
    }

    /// What a read of the connection has found, if that has `room`; the `first` that is found
    /// always has.
    pub(crate) fn take(
        &self,
        connection: u64,
        source: &Source,
        (bytes_max, room, first): (usize, usize, bool),
    ) -> Option<Result<ReadResult, ColdReadError>> {
        let key = Key::new(connection, source);
        let mut reads = self.shared.reads.lock();
        let read = reads.get(&key)?;
        let found = {
            let mut state = read.state.lock();
            let (found, _) = state.found.as_ref()?;
            if !first && found.bytes() > room {
                return None;
            }
            state.found.take()
        };
        let read = reads.remove(&key);
        drop(reads);
        if let Some(read) = read {
            read.abort();
        }
        let (found, _) = found?;
        let answer = self.shared.answers.add(connection);
        let read = found.into_read(bytes_max, answer);
        Some(read.map(|read| source.log.refreshed(read)))
    }

    /// Sees to it that a partition is read. Returns how much that may find; `None` where too much
    /// is being read already. `waiter` is told when it has found something, or has given up.
    pub(crate) fn ensure(
        &self,
        connection: u64,
        source: &Source,
        bytes_max: usize,
        waiter: &Arc<Notify>,
    ) -> Option<usize> {
        let key = Key::new(connection, source);
        let mut reads = self.shared.reads.lock();
        if let Some(read) = reads.get(&key) {
            let mut state = read.state.lock();
            state.waiter = Arc::downgrade(waiter);
            state.asked_at = self.shared.clock.now();
            if state.found.is_some() {
                waiter.notify_one();
            }
            return Some(read.bytes_max);
        }
        let is_local = source.log.is_local(source.offset);
        let place = self.shared.lane(is_local).place(connection)?;
        let state = State {
            waiter: Arc::downgrade(waiter),
            asked_at: self.shared.clock.now(),
            ..State::default()
        };
        let read = Arc::new(Read {
            source: source.clone(),
            bytes_max: bytes_max.min(BYTES_MAX),
            state: Mutex::new(state),
        });
        reads.insert(key, Arc::clone(&read));
        // A runtime that ends drops the task at once, and that takes the read away again.
        drop(reads);
        let bytes_max = read.bytes_max;
        let under_way = UnderWay {
            shared: Arc::downgrade(&self.shared),
            key,
            read: Arc::clone(&read),
        };
        // Not supervised: where it panics, its end wakes whoever waits, and the next fetch reads again.
        let task = tokio::spawn(run(Arc::clone(&self.shared), under_way, place, is_local));
        read.is_done_by(task.abort_handle());
        Some(bytes_max)
    }

    /// Whether a read of the connection has found nothing yet.
    pub(crate) fn is_reading(&self, connection: u64, source: &Source) -> bool {
        let reads = self.shared.reads.lock();
        let read = reads.get(&Key::new(connection, source));
        read.is_some_and(|read| read.state.lock().found.is_none())
    }
}

impl Key {
    fn new(connection: u64, source: &Source) -> Self {
        Self {
            connection,
            log: source.log.address(),
            offset: source.offset,
            isolation: source.isolation,
        }
    }
}

impl Read {
    fn abort(&self) {
        let task = {
            let mut state = self.state.lock();
            state.has_ended = true;
            state.task.take()
        };
        if let Some(task) = task {
            task.abort();
        }
    }

    fn is_done_by(&self, task: AbortHandle) {
        {
            let mut state = self.state.lock();
            if !state.has_ended {
                state.task = Some(task);
                return;
            }
        }
        task.abort();
    }

    fn wake(&self) {
        let waiter = self.state.lock().waiter.upgrade();
        if let Some(waiter) = waiter {
            waiter.notify_one();
        }
    }
}

impl Shared {
    fn lane(&self, is_local: bool) -> &Lane {
        if is_local { &self.local } else { &self.objects }
    }

    /// Reads, within the bounds; `None` where it had to give up. The storage bounds how long each
    /// try takes, beside what it waits for the network, where misses always go on.
    async fn read(
        &self,
        (key, read): (Key, &Read),
        mut place: Tallied,
        is_local: bool,
    ) -> Option<(Found, Tallied)> {
        let source = &read.source;
        if is_local {
            let entered = self.enter(&self.local, (key, read)).await?;
            let found = source.read_local(entered.bytes_max).await;
            if let Some(found) = found {
                return Some((entered.leave(found), place));
            }
            // Uploaded meanwhile.
            place = self.objects.place(key.connection)?;
        }
        // A read must not hold a turn while it waits for the metadata.
        source.log.prepare(source.offset).await;
        let entered = self.enter(&self.objects, (key, read)).await?;
        let found = source.read(entered.bytes_max).await;
        Some((entered.leave(found), place))
    }

    /// Waits until a lane takes a read; `None` where nobody wants it any more.
    async fn enter(&self, lane: &Lane, (key, read): (Key, &Read)) -> Option<Entered> {
        let turn = lane.turn().await?;
        if self.is_abandoned(key, read) {
            return None;
        }
        let make_room = || self.make_room();
        Some(lane.enter(turn, read.bytes_max, make_room).await)
    }

    /// Waits until the network takes what a read found; `false` where nobody wants it any more.
    async fn pay(&self, key: Key, read: &Read, bytes: u64) -> bool {
        let egress = &self.egress;
        let mut paid = pin!(egress.acquire_for(Tier::CatchUpMiss, key.connection, bytes));
        loop {
            tokio::select! {
                biased;
                () = &mut paid => return true,
                () = sleep(ABANDONED_AFTER) => {}
            }
            if self.is_abandoned(key, read) {
                return false;
            }
        }
    }

    /// Whether its client may be waited for: a fetch waits for it, or the client has an answer to
    /// read before it asks again.
    fn is_expected(&self, key: Key, state: &State) -> bool {
        state.waiter.strong_count() > 0 || self.answers.has_any(key.connection)
    }

    /// Whether its client may not, and has not come for long.
    fn is_abandoned(&self, key: Key, read: &Read) -> bool {
        let now = self.clock.now();
        let state = read.state.lock();
        let is_late = now.saturating_sub(state.asked_at) > ABANDONED_AFTER;
        is_late && !self.is_expected(key, &state)
    }

    /// Forgets what no client came for, now and then.
    fn make_room(&self) {
        let now = self.clock.now();
        {
            let mut swept_at = self.swept_at.lock();
            if now.saturating_sub(*swept_at) < SWEEP_INTERVAL {
                return;
            }
            *swept_at = now;
        }
        let is_old = |key: Key, read: &Read| {
            let state = read.state.lock();
            let found_at = state.found.as_ref().map(|(_, at)| *at);
            let is_late = found_at.is_some_and(|at| now.saturating_sub(at) >= KEPT_MAX_SHORT);
            is_late && !self.is_expected(key, &state)
        };
        let mut old = Vec::new();
        self.reads.lock().retain(|key, read| {
            let is_old = is_old(*key, read);
            if is_old {
                old.push(Arc::clone(read));
            }
            !is_old
        });
        for read in old {
            self.unclaimed.increment(1);
            read.abort();
        }
    }
}

/// A read that others find, until it ends in whatever way.
struct UnderWay {
    shared: Weak<Shared>,
    key: Key,
    read: Arc<Read>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            let mut reads = shared.reads.lock();
            // Another may have been started meanwhile.
            let read = reads.get(&self.key);
            if read.is_some_and(|read| Arc::ptr_eq(read, &self.read)) {
                reads.remove(&self.key);
            }
        }
        self.read.wake();
    }
}

/// Reads, waits for the network, and keeps what was found until it is taken, which ends this task,
/// or for long enough.
async fn run(shared: Arc<Shared>, under_way: UnderWay, place: Tallied, is_local: bool) {
    let UnderWay { read, key, .. } = &under_way;
    let Some((found, _place)) = shared.read((*key, read), place, is_local).await else {
        return;
    };
    let bytes = u64::try_from(found.bytes()).unwrap_or(u64::MAX);
    if shared.pay(*key, read, bytes).await {
        let kept = if found.holds_turn() {
            KEPT_MAX_SHORT
        } else {
            KEPT_MAX
        };
        read.state.lock().found = Some((found, shared.clock.now()));
        read.wake();
        sleep(kept).await;
    }
    shared.unclaimed.increment(1);
}
