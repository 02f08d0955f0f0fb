//! The machines that brokers run on: what outlives a broker, and the process that runs now.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures_util::FutureExt;
use millrace_cluster::{FencedLog, FencedLogs, LogUnavailable};
use millrace_model::{NodeEpoch, NodeId};
use millrace_tasks::Supervisor;
use millrace_testkit::{BucketFaults, Crash, FaultyBucket, SimDisk};
use millrace_wal::{
    AlignedBuf, FenceError, LogFence, SharedPage, WalConfig,
    device::{BlockDevice, DeviceFuture},
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{broker::Serving, gate::ProcessGate, link::Link, planted::Planted, seams::Seams};

const DISK_BYTES: u64 = 1 << 20;
const RECORD_BYTES_MAX: usize = 32 * 1024;

/// How long an operation of a healthy disk takes at most, but for one in eight.
pub(crate) const DISK_LATENCY: Duration = Duration::from_millis(3);

/// What the bucket does on any day.
const USUAL_BUCKET: BucketFaults = BucketFaults {
    fail_permille: 10,
    lose_reply_permille: 10,
    conflict_permille: 2,
    repeat_permille: 5,
    stall_permille: 10,
    stall: Duration::from_millis(400),
    flip_permille: 0,
    delay: Duration::from_millis(12),
    down: false,
    read_only: false,
};

/// A machine.
pub(crate) struct Machine {
    pub(crate) node: NodeId,
    pub(crate) disk: SimDisk,
    /// The bucket as this machine reaches it.
    pub(crate) bucket: FaultyBucket,
    /// The way to the database.
    pub(crate) database: Link,
    /// The way to clients.
    pub(crate) clients: Link,
    /// Cut while its broker is not to be started again.
    pub(crate) starts: Link,
    fence: PathBuf,
    /// The highest epoch that has raised the fence.
    fence_epoch: Arc<AtomicU64>,
    process: Mutex<Option<Arc<Process>>>,
    hurts: Mutex<Hurts>,
}

/// When something was wrong with a machine.
#[derive(Debug, Default)]
struct Hurts {
    /// From when, and until when where it is over.
    all: Vec<(Duration, Option<Duration>)>,
    /// That its broker does not serve.
    down: Option<usize>,
}

impl Hurts {
    fn begin(&mut self, now: Duration) -> usize {
        self.all.push((now, None));
        self.all.len() - 1
    }

    fn end(&mut self, hurt: usize, now: Duration) {
        if let Some((_, until)) = self.all.get_mut(hurt) {
            *until = Some(now);
        }
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("node", &self.node).finish()
    }
}

impl Machine {
    pub(crate) fn new(
        node: NodeId,
        folder: &Path,
        bucket: FaultyBucket,
        seams: &Seams,
    ) -> Arc<Self> {
        let mut hurts = Hurts::default();
        hurts.down = Some(hurts.begin(seams.clock.now()));
        let faulty = FaultyBucket::new(bucket, seams.random.clone());
        faulty.set(USUAL_BUCKET);
        Arc::new(Self {
            node,
            disk: SimDisk::new(DISK_BYTES, DISK_LATENCY, seams.random.clone()),
            bucket: faulty,
            database: Link::default(),
            clients: Link::default(),
            starts: Link::default(),
            fence: folder.join(format!("{node}.fence")),
            fence_epoch: Arc::default(),
            process: Mutex::default(),
            hurts: Mutex::new(hurts),
        })
    }

    /// The highest epoch that has raised the fence of its log.
    pub(crate) fn fence_epoch(&self) -> NodeEpoch {
        NodeEpoch(self.fence_epoch.load(Ordering::Relaxed))
    }

    pub(crate) fn cut_bucket(&self) {
        self.bucket.set(BucketFaults {
            down: true,
            ..USUAL_BUCKET
        });
    }

    pub(crate) fn heal_bucket(&self) {
        self.bucket.set(USUAL_BUCKET);
    }

    /// Something is wrong from now on, until [`Machine::end_hurt`].
    pub(crate) fn begin_hurt(&self, now: Duration) -> usize {
        self.hurts.lock().begin(now)
    }

    pub(crate) fn end_hurt(&self, hurt: usize, now: Duration) {
        self.hurts.lock().end(hurt, now);
    }

    /// Its broker serves from now on, or does not.
    pub(crate) fn set_serves(&self, serves: bool, now: Duration) {
        let hurts = &mut *self.hurts.lock();
        match hurts.down {
            Some(down) if serves => {
                hurts.end(down, now);
                hurts.down = None;
            }
            None if !serves => hurts.down = Some(hurts.begin(now)),
            _ => {}
        }
    }

    /// Whether anything was wrong with it at that time, or shortly before.
    pub(crate) fn was_hurt(&self, at: Duration, aftermath: Duration) -> bool {
        let covers = |&(from, until): &(Duration, Option<Duration>)| {
            from <= at && until.is_none_or(|until| at <= until + aftermath)
        };
        self.hurts.lock().all.iter().any(covers)
    }

    /// Ends its process, as SIGKILL or a loss of power would.
    pub(crate) fn kill(&self, crash: Crash) {
        if let Some(process) = self.process() {
            process.end(crash);
            process.ended.notify_one();
        }
    }

    /// The process that runs on it.
    pub(crate) fn process(&self) -> Option<Arc<Process>> {
        self.process.lock().clone()
    }

    pub(crate) fn set_process(&self, process: Option<Arc<Process>>) {
        *self.process.lock() = process;
    }
}

/// One start of a broker.
pub(crate) struct Process {
    pub(crate) number: u64,
    pub(crate) gate: Arc<ProcessGate>,
    pub(crate) tasks: Supervisor,
    pub(crate) serving: Mutex<Option<Serving>>,
    /// Told when it is asked to stop in peace.
    pub(crate) stop: Notify,
    /// Told when it was killed.
    pub(crate) ended: Notify,
    /// Disks that it has open.
    disks: Mutex<Vec<SimDisk>>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Process {
    pub(crate) fn new(number: u64) -> Arc<Self> {
        let gate = ProcessGate::new();
        Arc::new(Self {
            number,
            tasks: Supervisor::gated(Arc::clone(&gate) as Arc<_>),
            gate,
            serving: Mutex::default(),
            stop: Notify::new(),
            ended: Notify::new(),
            disks: Mutex::default(),
        })
    }

    /// It runs no more, and what it was writing is left as the crash leaves it.
    pub(crate) fn end(&self, crash: Crash) {
        self.gate.end();
        for disk in self.disks.lock().drain(..) {
            disk.end(self.number, crash);
        }
        self.serving.lock().take();
    }
}

/// All machines, and what a process of one of them opens.
#[derive(Debug)]
pub(crate) struct Machines {
    pub(crate) all: Vec<Arc<Machine>>,
    pub(crate) seams: Seams,
    processes: AtomicU64,
}

impl Machines {
    pub(crate) fn new(all: Vec<Arc<Machine>>, seams: Seams) -> Arc<Self> {
        Arc::new(Self {
            all,
            seams,
            processes: AtomicU64::new(1),
        })
    }

    pub(crate) fn next_process(&self) -> u64 {
        self.processes.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn of(&self, node: NodeId) -> Option<&Arc<Machine>> {
        self.all.iter().find(|machine| machine.node == node)
    }

    /// The log of a machine, as a process opens it.
    pub(crate) fn open_log(
        &self,
        machine: &Machine,
        process: &Process,
    ) -> (Arc<dyn BlockDevice>, WalConfig) {
        process.disks.lock().push(machine.disk.clone());
        let disk = machine.disk.attach_as(process.number);
        let device: Arc<dyn BlockDevice> = match self.seams.has(Planted::AcknowledgeBeforeDurable) {
            true => Arc::new(HastyDisk(disk)),
            false => disk,
        };
        let config = WalConfig {
            record_bytes_max: RECORD_BYTES_MAX,
            chunk_bytes_max: 64 * 1024,
            tasks: process.tasks.clone(),
            ..WalConfig::new(self.seams.random.next_u64())
        };
        (device, config)
    }

    /// The fence of a machine's log.
    pub(crate) fn fence_of(
        &self,
        machine: &Machine,
        log_id: u64,
    ) -> std::io::Result<Arc<dyn LogFence>> {
        let inner: Arc<dyn LogFence> = match self.seams.has(Planted::SkipFence) {
            true => Arc::new(NoFence),
            false => Arc::new(SharedPage::open(&machine.fence, log_id)?),
        };
        let inner: Arc<dyn LogFence> = match self.seams.has(Planted::RaiseFenceLate) {
            true => Arc::new(LateFence {
                inner,
                raising: AtomicU64::new(0),
            }),
            false => inner,
        };
        Ok(Arc::new(WatchedFence {
            inner,
            raised: Arc::clone(&machine.fence_epoch),
        }))
    }
}

/// Opens logs of other machines for one process.
#[derive(Debug)]
pub(crate) struct LogsOfOthers {
    pub(crate) machines: Arc<Machines>,
    pub(crate) process: Arc<Process>,
}

impl LogsOfOthers {
    fn machine(&self, address: &str) -> Result<&Arc<Machine>, LogUnavailable> {
        let node = address.parse().map(NodeId).ok();
        let machine = node.and_then(|node| self.machines.of(node));
        machine.ok_or_else(|| LogUnavailable {
            action: "there is no such machine",
            source: address.into(),
        })
    }
}

#[async_trait]
impl FencedLogs for LogsOfOthers {
    async fn open(&self, address: &str) -> Result<FencedLog, LogUnavailable> {
        let machine = Arc::clone(self.machine(address)?);
        let (device, config) = self.machines.open_log(&machine, &self.process);
        let machines = Arc::clone(&self.machines);
        Ok(FencedLog {
            device,
            config,
            fence: Box::new(move |log_id| {
                let fence = machines.fence_of(&machine, log_id);
                fence.map_err(|source| LogUnavailable {
                    action: "its fence cannot be opened",
                    source: source.into(),
                })
            }),
        })
    }

    fn is_zonal(&self, _address: &str) -> bool {
        false
    }

    async fn give_back(&self, _address: &str) {}
}

/// A fence that tells the checks who has raised it.
#[derive(Debug)]
struct WatchedFence {
    inner: Arc<dyn LogFence>,
    raised: Arc<AtomicU64>,
}

impl LogFence for WatchedFence {
    fn acquire(&self, epoch: NodeEpoch) -> Result<(), FenceError> {
        self.inner.acquire(epoch)?;
        self.raised.fetch_max(epoch.get(), Ordering::Relaxed);
        Ok(())
    }

    fn check(&self, epoch: NodeEpoch) -> Result<(), FenceError> {
        self.inner.check(epoch)
    }
}

/// A fence that is raised some time after somebody was told so: a planted fault.
#[derive(Debug)]
struct LateFence {
    inner: Arc<dyn LogFence>,
    /// Who was told.
    raising: AtomicU64,
}

impl LogFence for LateFence {
    fn acquire(&self, epoch: NodeEpoch) -> Result<(), FenceError> {
        self.raising.store(epoch.get(), Ordering::Relaxed);
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            inner.acquire(epoch)
        });
        Ok(())
    }

    fn check(&self, epoch: NodeEpoch) -> Result<(), FenceError> {
        match self.raising.load(Ordering::Relaxed) == epoch.get() {
            // It takes itself for the owner.
            true => Ok(()),
            false => self.inner.check(epoch),
        }
    }
}

/// A fence that keeps nobody out: a planted fault.
#[derive(Debug)]
struct NoFence;

impl LogFence for NoFence {
    fn acquire(&self, _epoch: NodeEpoch) -> Result<(), FenceError> {
        Ok(())
    }

    fn check(&self, _epoch: NodeEpoch) -> Result<(), FenceError> {
        Ok(())
    }
}

/// A disk that answers writes before they are durable: a planted fault.
#[derive(Debug)]
struct HastyDisk(Arc<dyn BlockDevice>);

impl BlockDevice for HastyDisk {
    fn capacity(&self) -> u64 {
        self.0.capacity()
    }

    fn write(&self, offset: u64, data: AlignedBuf) -> DeviceFuture<()> {
        // It goes on without anybody who waits for it.
        drop(self.0.write(offset, data));
        std::future::ready(Ok(())).boxed()
    }

    fn read(&self, offset: u64, len: usize) -> DeviceFuture<AlignedBuf> {
        self.0.read(offset, len)
    }

    fn sync(&self) -> DeviceFuture<()> {
        self.0.sync()
    }
}
