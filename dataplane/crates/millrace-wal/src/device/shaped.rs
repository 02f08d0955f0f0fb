//! A decorator that makes a fast device behave like a slower one, for measurements.
//!
//! The model is a cloud volume: reads and writes wait for their turn under caps on operations and
//! bytes per second, without bursts. A write is durable no sooner than the latency after its turn.
//! Operations overlap, as many as the caller has in flight.

use std::{collections::BTreeMap, fmt, io, sync::Arc, thread::JoinHandle, time::Duration};

use futures_util::FutureExt;
use millrace_tasks::{Supervisor, Task};
use millrace_time::SharedClock;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::{BlockDevice, DeviceFuture};
use crate::{AlignedBuf, pacer::Pacer};

/// How slow the device is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// No durable write is answered sooner than this after its turn.
    pub write_latency: Duration,
    /// Reads and writes per second, counted as a cloud volume counts them: one per 256 KiB of a
    /// larger one. `None` does not limit.
    pub iops: Option<u32>,
    /// Bytes read and written per second; `None` does not limit.
    pub bytes_per_s: Option<u64>,
}

/// A device whose operations are delayed as a [`Shape`] says.
#[derive(Debug)]
pub struct ShapedDevice {
    inner: Arc<dyn BlockDevice>,
    latency: Duration,
    pacer: Mutex<Pacer>,
    alarm: Alarm,
}

impl ShapedDevice {
    /// Slows `inner` down. Delays are those of the machine's time, so `clock` must run with it.
    ///
    /// # Errors
    /// The system grants no thread for the delays.
    pub fn new(
        inner: Arc<dyn BlockDevice>,
        shape: Shape,
        clock: SharedClock,
        tasks: &Supervisor,
    ) -> io::Result<Self> {
        let pacer = Mutex::new(Pacer::strict(shape.iops, shape.bytes_per_s));
        Ok(Self {
            inner,
            latency: shape.write_latency,
            pacer,
            alarm: Alarm::start(clock, tasks)?,
        })
    }

    /// When an operation of so many bytes has its turn.
    fn turn(&self, bytes: usize) -> Duration {
        let now = self.alarm.bell.clock.now();
        self.pacer.lock().charge(now, bytes as u64)
    }

    /// Answers what `operation` does, but not before `earliest`.
    fn delayed<T: Send + 'static>(
        &self,
        operation: DeviceFuture<T>,
        earliest: Duration,
    ) -> DeviceFuture<T> {
        let bell = Arc::clone(&self.alarm.bell);
        async move {
            let result = operation.await;
            bell.not_before(earliest).await;
            result
        }
        .boxed()
    }
}

impl BlockDevice for ShapedDevice {
    fn capacity(&self) -> u64 {
        self.inner.capacity()
    }

    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }

    fn write(&self, offset: u64, data: AlignedBuf) -> DeviceFuture<()> {
        let earliest = self.turn(data.len()) + self.latency;
        self.delayed(self.inner.write(offset, data), earliest)
    }

    fn read(&self, offset: u64, len: usize) -> DeviceFuture<AlignedBuf> {
        let earliest = self.turn(len);
        self.delayed(self.inner.read(offset, len), earliest)
    }

    fn sync(&self) -> DeviceFuture<()> {
        self.inner.sync()
    }
}

/// A thread that wakes futures at their time. The runtime's own timer counts whole milliseconds and
/// rounds up, which would make two of one; a thread is late by the kernel's slack of about 50 µs.
struct Alarm {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

struct Bell {
    clock: SharedClock,
    sleepers: Mutex<Sleepers>,
    changed: Condvar,
}

#[derive(Default)]
struct Sleepers {
    /// By time, and by number where the time is the same.
    due: BTreeMap<(Duration, u64), oneshot::Sender<()>>,
    next: u64,
    closed: bool,
}

impl Alarm {
    fn start(clock: SharedClock, tasks: &Supervisor) -> io::Result<Self> {
        let bell = Arc::new(Bell {
            clock,
            sleepers: Mutex::default(),
            changed: Condvar::new(),
        });
        let (ringing, faults) = (Arc::clone(&bell), tasks.clone());
        let ring = move || ringing.ring_until_closed(&faults);
        let thread = Some(tasks.spawn_thread(Task::WalShape, ring)?);
        Ok(Self { bell, thread })
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.bell.sleepers.lock().closed = true;
        self.bell.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has already said so; there is nothing left to stop.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").finish_non_exhaustive()
    }
}

impl Bell {
    async fn not_before(&self, at: Duration) {
        if self.clock.now() >= at {
            return;
        }
        let (ring, rung) = oneshot::channel();
        {
            let mut sleepers = self.sleepers.lock();
            let number = sleepers.next;
            sleepers.next += 1;
            sleepers.due.insert((at, number), ring);
        }
        self.changed.notify_one();
        // The thread ends with the device, and then nobody's time matters any more.
        let _ = rung.await;
    }

    fn ring_until_closed(&self, tasks: &Supervisor) {
        let mut sleepers = self.sleepers.lock();
        while !sleepers.closed {
            tasks.panic_if_injected(Task::WalShape);
            let now = self.clock.now();
            match sleepers.due.first_entry() {
                None => self.changed.wait(&mut sleepers),
                Some(first) if first.key().0 <= now => {
                    // Whoever dropped the future does not want to know.
                    let _ = first.remove().send(());
                }
                Some(first) => {
                    let wait = first.key().0 - now;
                    self.changed.wait_for(&mut sleepers, wait);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::try_join_all;
    use millrace_time::SystemClock;
    use tempfile::TempDir;

    use super::*;
    use crate::{BLOCK_BYTES, device::threads::ThreadPoolDevice};

    const MS: Duration = Duration::from_millis(1);

    fn shaped(shape: Shape) -> (TempDir, ShapedDevice, SharedClock) {
        let dir = tempfile::tempdir().expect("a folder");
        let config = super::super::DeviceConfig::new(1 << 20);
        let file = super::super::file::BlockFile::open(&dir.path().join("wal"), &config);
        let inner = ThreadPoolDevice::new(Arc::new(file.expect("opens")), &config).expect("starts");
        let clock = SystemClock::shared();
        let device = ShapedDevice::new(
            Arc::new(inner),
            shape,
            Arc::clone(&clock),
            &Supervisor::new(),
        );
        (dir, device.expect("starts"), clock)
    }

    fn block() -> AlignedBuf {
        AlignedBuf::zeroed(BLOCK_BYTES as usize)
    }

    #[tokio::test]
    async fn a_write_takes_its_latency_and_no_whole_millisecond_more() {
        let write_latency = 5 * MS;
        let shape = Shape {
            write_latency,
            ..Shape::default()
        };
        let (_dir, device, clock) = shaped(shape);
        let mut fastest = Duration::MAX;
        for _ in 0..40 {
            let start = clock.now();
            device.write(0, block()).await.expect("writes");
            let took = clock.now() - start;
            assert!(took >= write_latency, "{took:?}");
            fastest = fastest.min(took);
        }
        // A timer of whole milliseconds would never be this close.
        assert!(fastest < write_latency + MS * 3 / 4, "{fastest:?}");
    }

    #[tokio::test]
    async fn operations_overlap_within_the_caps() {
        let overlapping = Shape {
            write_latency: 100 * MS,
            ..Shape::default()
        };
        let (_dir, device, clock) = shaped(overlapping);
        let start = clock.now();
        let writes = (0..8).map(|n| device.write(n * u64::from(BLOCK_BYTES), block()));
        try_join_all(writes).await.expect("writes");
        assert!(clock.now() - start < 700 * MS, "one after the other");

        for capped in [(Some(200), None), (None, Some(200 * 4_096))] {
            let (iops, bytes_per_s) = capped;
            let shape = Shape {
                write_latency: MS,
                iops,
                bytes_per_s,
            };
            let (_dir, device, clock) = shaped(shape);
            let start = clock.now();
            let writes = (0..21).map(|n| device.write(n * u64::from(BLOCK_BYTES), block()));
            try_join_all(writes).await.expect("writes");
            // The first goes at once, each other one 5 ms after the one before it.
            let took = clock.now() - start;
            assert!(took >= 101 * MS, "{capped:?}: {took:?}");
            let start = clock.now();
            let reads = (0..21).map(|n| device.read(n * u64::from(BLOCK_BYTES), 4_096));
            try_join_all(reads).await.expect("reads");
            let took = clock.now() - start;
            assert!(took >= 100 * MS, "reads, {capped:?}: {took:?}");
        }
    }
}
