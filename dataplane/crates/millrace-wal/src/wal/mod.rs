//! The log itself.
//!
//! - `open`: reading a log without changing it, then opening it
//! - `admission`: room in the ring and in memory, first come, first served
//! - `commit`: from an append to its acknowledgement
//! - `trim`: releasing space
//! - `completion`: how the records of one write learn that it is durable
//! - `readback`: payloads, read back from the device

mod admission;
mod commit;
mod completion;
mod open;
mod readback;
mod trim;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use millrace_tasks::Task;
use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore, watch},
};

use crate::{
    OpenError, WalConfig,
    aligned::BufferPool,
    config::Limits,
    device::BlockDevice,
    error::{CloseError, WalFailure},
    fence::Held,
    header_store::HeaderStore,
    metrics::{FillRate, Metrics},
    pacer::Pacer,
    recovery::{Recovered, Scan},
    ring::Ring,
};

pub use admission::Reservation;
use commit::Commit;
pub use completion::Append;
pub use open::{ScannedWal, UnopenedWal, WalIdentity, WalOwner};
use trim::Spans;

/// A write-ahead log. Cheap to clone; all clones are the same log.
#[derive(Debug, Clone)]
pub struct Wal {
    shared: Arc<Shared>,
}

/// How full the log is, in bytes and positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WalMetrics {
    /// Bytes of the ring.
    pub capacity: u64,
    /// Bytes between `trim` and `next`.
    pub used: u64,
    /// Everything below is no longer needed, durably so.
    pub trim: u64,
    /// Where the next write will start.
    pub next: u64,
    /// Everything below is durable.
    pub durable: u64,
    /// Writes in flight.
    pub writes_in_flight: usize,
    /// How long the free room lasts at the present rate, in seconds; at most a day.
    pub seconds_left: f64,
}

pub(crate) struct Shared {
    device: Arc<dyn BlockDevice>,
    ring: Ring,
    limits: Limits,
    config: WalConfig,
    identity: u64,
    session: u64,
    clock: SharedClock,
    runtime: Handle,
    pool: BufferPool,
    /// Free blocks of the ring.
    space: Arc<Semaphore>,
    /// Room for payload that is not yet durable, in KiB.
    memory: Arc<Semaphore>,
    /// Turns for reading back.
    readback: Semaphore,
    state: Mutex<State>,
    header: tokio::sync::Mutex<HeaderStore>,
    /// None where no other process can write to the device.
    fence: Option<Held>,
    /// Notified when the last write in flight has ended.
    idle: Notify,
    failure: watch::Sender<Option<WalFailure>>,
    metrics: Metrics,
}

/// What changes, under one short lock that no I/O or copying is done under.
struct State {
    phase: Phase,
    commit: Commit,
    spans: Spans,
    rate: FillRate,
}

#[derive(Debug, Clone)]
enum Phase {
    Open,
    /// No more appends; what was appended is still written.
    Closing,
    Closed,
    Failed(WalFailure),
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

impl Wal {
    /// Opens the log on `device`, which is formatted where it is blank, and returns what was not
    /// trimmed, in order of position: where each record is, how long, and its first bytes. Who must
    /// know whose log it is before anything is written takes the steps of [`UnopenedWal`]. Every record that was ever acknowledged and not
    /// trimmed is among it; records that were not acknowledged may be. What is returned here will
    /// be returned again until it is trimmed, and what is not will never be. A payload that has rotted
    /// shows when it is [read](Self::read), unless it was among the last that were written.
    ///
    /// # Errors
    /// The device fails, holds something else, or is damaged. Nothing is changed then.
    pub async fn open(
        device: Arc<dyn BlockDevice>,
        config: WalConfig,
        clock: SharedClock,
    ) -> Result<(Self, Vec<Recovered>), OpenError> {
        let mut recovered = Vec::new();
        // A head is a part of what was read, of which more than heads would stay in memory.
        let sink = &mut |record: Recovered| {
            let head = Bytes::copy_from_slice(&record.head);
            recovered.push(Recovered { head, ..record });
        };
        let wal = Self::open_with(device, config, clock, sink).await?;
        Ok((wal, recovered))
    }

    /// Opens like [`open`](Self::open), handing over each record as it is found. A head that is kept
    /// keeps more than itself in memory. Where this fails, what `sink` got is worth nothing.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with(
        device: Arc<dyn BlockDevice>,
        config: WalConfig,
        clock: SharedClock,
        sink: &mut (dyn FnMut(Recovered) + Send),
    ) -> Result<Self, OpenError> {
        let log = UnopenedWal::read(device, config).await?;
        log.scan(sink).await?.open(None, clock).await
    }

    /// How full the log is.
    #[must_use]
    pub fn metrics(&self) -> WalMetrics {
        let state = self.shared.state.lock();
        self.shared.snapshot(&state)
    }

    /// Brings the metrics up to date: writes and trims do so by themselves, and where there are none
    /// the time that the log lasts still grows. To be called about every second.
    pub fn sample(&self) {
        self.shared.publish(&self.shared.state.lock());
    }

    /// The largest payload that one record may have, in bytes.
    #[must_use]
    pub fn record_bytes_max(&self) -> usize {
        self.shared.limits.record_bytes
    }

    /// Answers once the device has failed; never while it works. Safe to drop and call again.
    pub async fn failed(&self) -> WalFailure {
        let mut failure = self.shared.failure.subscribe();
        loop {
            if let Some(failure) = failure.borrow_and_update().clone() {
                return failure;
            }
            if failure.changed().await.is_err() {
                // The sender lives in `self`, so this is out of reach; waiting for ever is right.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Refuses further appends, waits until everything appended is durable, and marks the log as
    /// closed in peace. Closing twice is harmless.
    ///
    /// # Errors
    /// The device failed; the log is then recovered at the next start as after a crash.
    pub async fn close(&self) -> Result<(), CloseError> {
        self.shared.close().await.map_err(CloseError::Failed)
    }
}

impl Shared {
    fn new(
        device: Arc<dyn BlockDevice>,
        ring: Ring,
        limits: Limits,
        config: WalConfig,
        clock: SharedClock,
        store: HeaderStore,
        scan: &Scan,
    ) -> Self {
        let header = store.header();
        let free = header.trim + ring.bytes() - scan.next;
        let pacer = Pacer::new(config.iops, config.bytes_per_s);
        let state = State {
            phase: Phase::Open,
            commit: Commit::new(scan.next, limits.window, pacer),
            spans: Spans::new(header.trim, header.trimmed_to, &scan.spans),
            rate: FillRate::default(),
        };
        let shared = Self {
            identity: header.identity,
            session: header.session,
            pool: BufferPool::new(limits.depth * 2 * limits.chunk_bytes as usize),
            space: Arc::new(Semaphore::new(admission::blocks(free) as usize)),
            memory: Arc::new(Semaphore::new(admission::kib(limits.pending_bytes) as usize)),
            readback: Semaphore::new(readback::SEGMENTS_IN_FLIGHT),
            state: Mutex::new(state),
            header: tokio::sync::Mutex::new(store),
            fence: None,
            idle: Notify::new(),
            failure: watch::Sender::new(None),
            metrics: Metrics::new(),
            runtime: Handle::current(),
            device,
            ring,
            limits,
            config,
            clock,
        };
        shared.metrics.capacity_bytes.set(ring.bytes() as f64);
        shared.publish(&shared.state.lock());
        shared
    }

    fn spawn(&self, task: Task, future: impl Future<Output = ()> + Send + 'static) {
        self.config.tasks.spawn_on(&self.runtime, task, future);
    }

    fn snapshot(&self, state: &State) -> WalMetrics {
        let (trim, next) = (state.spans.durable_trim(), state.commit.next());
        let used = next - trim;
        WalMetrics {
            capacity: self.ring.bytes(),
            used,
            trim,
            next,
            durable: state.commit.stable(),
            writes_in_flight: state.commit.writes_in_flight(),
            seconds_left: state
                .rate
                .seconds_left(self.clock.now(), self.ring.bytes() - used),
        }
    }

    fn publish(&self, state: &State) {
        let now = self.snapshot(state);
        self.metrics.used_bytes.set(now.used as f64);
        self.metrics.trim_position.set(now.trim as f64);
        self.metrics.next_position.set(now.next as f64);
        self.metrics.seconds_left.set(now.seconds_left);
    }

    /// Ends the log: nothing that was not acknowledged before ever is.
    fn fail(&self, failure: WalFailure) {
        if matches!(self.state.lock().phase, Phase::Failed(_)) {
            return;
        }
        // Without the lock: a fence may ask its device.
        let failure = self.explained(failure);
        let abandoned = {
            let mut state = self.state.lock();
            if matches!(state.phase, Phase::Failed(_)) {
                return;
            }
            state.phase = Phase::Failed(failure.clone());
            state.commit.abandon()
        };
        if failure.fenced().is_some() {
            tracing::error!(%failure, "the WAL was taken over; nothing more is acknowledged");
        } else {
            tracing::error!(%failure, "the WAL has failed; nothing more is acknowledged");
        }
        self.metrics.failures.increment(1);
        self.space.close();
        self.memory.close();
        for completion in abandoned {
            completion.complete(Err(failure.clone()));
        }
        self.failure.send_replace(Some(failure));
        self.idle.notify_waiters();
    }

    /// The device refuses a former owner's writes where it is the fence itself.
    fn explained(&self, failure: WalFailure) -> WalFailure {
        let fence = self.fence.as_ref();
        match fence.and_then(|fence| fence.explain(&failure.source)) {
            Some(fenced) => WalFailure {
                source: Arc::new(std::io::Error::other(fenced)),
                ..failure
            },
            None => failure,
        }
    }

    async fn close(&self) -> Result<(), WalFailure> {
        self.space.close();
        self.memory.close();
        loop {
            let idle = self.idle.notified();
            {
                let mut state = self.state.lock();
                match &state.phase {
                    Phase::Failed(failure) => return Err(failure.clone()),
                    Phase::Closed => return Ok(()),
                    Phase::Open | Phase::Closing => state.phase = Phase::Closing,
                }
                if state.commit.is_idle() {
                    break;
                }
            }
            idle.await;
        }
        self.write_clean_header().await?;
        self.state.lock().phase = Phase::Closed;
        Ok(())
    }
}
