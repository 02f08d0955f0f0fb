//! A log that another broker takes over while its owner still writes.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use millrace_model::{Classified as _, FailureClass};
use millrace_model::{NodeEpoch, NodeId};
use millrace_testkit::{Crash, ReservedDisk, ReservingHost, SimDisk};
use millrace_time::{SeededRandom, SystemClock};
use millrace_wal::{
    AlignedBuf, AppendError, DeviceReservation, FenceError, LogFence, OpenError, Recovered,
    SharedPage, UnopenedWal, Wal, WalConfig, WalOwner, WalRange,
    device::{BlockDevice, DeviceFuture, Registrants, Reservations},
};
use tokio::task::JoinSet;

const CAPACITY: u64 = 4 << 20;
const WAL_ID: u64 = 42;
const OLD: NodeEpoch = NodeEpoch(1);
const NEW: NodeEpoch = NodeEpoch(2);

/// What a log without a fence would be.
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

/// A log's device and its fence, as one broker has them.
type Access = (Arc<dyn BlockDevice>, Arc<dyn LogFence>);

async fn try_open(access: Access, epoch: NodeEpoch) -> Result<Wal, OpenError> {
    let (device, fence) = access;
    let log = UnopenedWal::read(device, WalConfig::new(WAL_ID)).await;
    let scanned = log.expect("reads").scan(&mut |_| ()).await.expect("scans");
    let owner = WalOwner {
        cluster_id: "c".to_owned(),
        node_id: NodeId(0),
        generation: epoch,
    };
    let scanned = scanned.fenced_by(fence);
    scanned.open(Some(owner), SystemClock::shared()).await
}

async fn open(access: Access) -> Wal {
    try_open(access, OLD).await.expect("opens")
}

/// Takes the log over: the fence first, then what the log holds.
async fn adopt((device, fence): Access) -> Vec<WalRange> {
    fence.acquire(NEW).expect("acquires");
    let mut found = Vec::new();
    let log = UnopenedWal::read(device, WalConfig::new(WAL_ID)).await;
    let sink = &mut |record: Recovered| found.push(record.range);
    log.expect("reads").scan(sink).await.expect("scans");
    found
}

async fn append(wal: &Wal, payload: &Bytes) -> Result<WalRange, AppendError> {
    let reservation = wal
        .reserve(payload.len())
        .await
        .map_err(|_| AppendError::Closed)?;
    let append = wal.append(reservation, std::slice::from_ref(payload));
    let range = append.range;
    append.await.map(|()| range)
}

/// The records that the owner acknowledged and the one who took over did not find.
async fn lost_in_takeover(round: u64, [of_owner, of_adopter]: [Access; 2]) -> Vec<WalRange> {
    let wal = open(of_owner).await;
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let (wal, acknowledged) = (wal.clone(), Arc::clone(&acknowledged));
            tokio::spawn(async move {
                // Ends by itself: the log is as large as it is, and nothing trims it.
                while let Ok(range) = append(&wal, &Bytes::from_static(&[7; 3_000])).await {
                    let mut all = acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
                    all.push(range);
                    if all.len() > 500 {
                        break;
                    }
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(3 + round % 17)).await;
    let found = adopt(of_adopter).await;
    for writer in writers {
        writer.await.expect("ends");
    }
    let all = acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter()
        .filter(|range| !found.contains(range))
        .copied()
        .collect()
}

fn disk(seed: u64) -> SimDisk {
    let random = SeededRandom::shared(seed);
    SimDisk::new(CAPACITY, Duration::from_millis(2), random)
}

fn reserved(disk: &ReservedDisk, host: u64) -> Access {
    let host = disk.host(host);
    let device = host.device();
    let fence = DeviceReservation::new(Arc::new(host), WAL_ID);
    (device, Arc::new(fence))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_takes_a_log_over_finds_everything_that_its_owner_ever_acknowledges() {
    for round in 0..20 {
        let dir = tempfile::tempdir().expect("a folder");
        let disk = disk(round);
        let paged = || -> Access {
            let path = dir.path().join("wal.fence");
            let fence = SharedPage::open(&path, WAL_ID).expect("opens");
            (disk.attach(), Arc::new(fence))
        };
        let lost = lost_in_takeover(round, [paged(), paged()]).await;
        assert!(lost.is_empty(), "shared page, round {round}: {lost:?}");
        let disk = ReservedDisk::over(self::disk(round));
        let accesses = [reserved(&disk, 1), reserved(&disk, 2)];
        let lost = lost_in_takeover(round, accesses).await;
        assert!(lost.is_empty(), "reservation, round {round}: {lost:?}");
    }
}

/// A device whose other process dies right after the first flush of this one: what it was writing comes into a cache.
#[derive(Debug)]
struct DyingOwner {
    inner: Arc<dyn BlockDevice>,
    disk: SimDisk,
    is_dead: AtomicBool,
}

const OWNER: u64 = 1;
const ADOPTER: u64 = 2;
const NEXT: u64 = 3;

impl BlockDevice for DyingOwner {
    fn capacity(&self) -> u64 {
        self.inner.capacity()
    }

    fn write(&self, offset: u64, data: AlignedBuf) -> DeviceFuture<()> {
        self.inner.write(offset, data)
    }

    fn read(&self, offset: u64, len: usize) -> DeviceFuture<AlignedBuf> {
        self.inner.read(offset, len)
    }

    fn sync(&self) -> DeviceFuture<()> {
        let flush = self.inner.sync();
        let is_first = !self.is_dead.swap(true, Ordering::SeqCst);
        let disk = self.disk.clone();
        Box::pin(async move {
            flush.await?;
            if is_first {
                disk.end(OWNER, Crash::Killed);
            }
            Ok(())
        })
    }
}

/// The new owner's header listed chunks that only a cache had, and the log did not open any more once the power had failed.
#[tokio::test(start_paused = true)]
async fn what_comes_while_a_log_is_taken_over_survives_a_loss_of_power() {
    for seed in 0..200 {
        let disk = disk(seed);
        let unfenced = |process| -> Access { (disk.attach_as(process), Arc::new(NoFence)) };
        let wal = open(unfenced(OWNER)).await;
        append(&wal, &Bytes::from_static(&[7; 3_000]))
            .await
            .expect("durable");
        let mut unanswered = JoinSet::new();
        for _ in 0..8 {
            let wal = wal.clone();
            unanswered.spawn(async move { append(&wal, &Bytes::from_static(&[8; 3_000])).await });
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        let (inner, fence) = unfenced(ADOPTER);
        let device = Arc::new(DyingOwner {
            inner,
            disk: disk.clone(),
            is_dead: AtomicBool::new(false),
        });
        let adopted = try_open((device, fence), NEW).await.expect("opens");
        disk.end(ADOPTER, Crash::PowerLoss);
        drop(adopted);
        let again = try_open(unfenced(NEXT), NodeEpoch(3)).await;
        assert!(again.is_ok(), "seed {seed}: {again:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_fence_records_are_lost() {
    let disk = disk(0);
    let unfenced = || -> Access { (disk.attach(), Arc::new(NoFence)) };
    let lost = lost_in_takeover(0, [unfenced(), unfenced()]).await;
    assert!(!lost.is_empty());
    // The owner has reserved the device, and the one who takes the log over preempts nobody.
    let disk = ReservedDisk::over(self::disk(0));
    let (device, _) = reserved(&disk, 2);
    let accesses = [reserved(&disk, 1), (device, Arc::new(NoFence))];
    let lost = lost_in_takeover(0, accesses).await;
    assert!(!lost.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_owner_says_who_has_its_log_and_cannot_open_it_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal.fence");
    let page = Arc::new(SharedPage::open(&path, WAL_ID).expect("opens"));
    let paged = disk(1);
    let paged = || -> Access { (paged.attach(), page.clone()) };
    fenced_for_good([paged(), paged(), paged()]).await;
    let disk = ReservedDisk::over(disk(1));
    fenced_for_good([reserved(&disk, 1), reserved(&disk, 2), reserved(&disk, 1)]).await;
}

/// Of the owner, the one who takes over, and the owner once more.
async fn fenced_for_good([of_owner, of_adopter, again]: [Access; 3]) {
    let wal = open(of_owner).await;
    append(&wal, &Bytes::from_static(b"a"))
        .await
        .expect("durable");
    adopt(of_adopter).await;
    let refused = append(&wal, &Bytes::from_static(b"b")).await;
    let text = refused.expect_err("fenced").to_string();
    assert!(text.contains("epoch 2 has taken it over"), "{text}");
    let failure = wal.failed().await;
    assert!(failure.to_string().contains("epoch 1"));
    assert_eq!(failure.class(), FailureClass::Fenced);
    assert!(matches!(
        try_open(again, OLD).await,
        Err(OpenError::Fence(FenceError::Fenced { .. }))
    ));
}

/// Whether a write that the device has begun when its host is preempted was acknowledged, and whether it was found.
async fn write_under_way(disk: &ReservedDisk) -> (bool, bool) {
    let wal = open(reserved(disk, 1)).await;
    disk.hold_writes(true);
    let writer = tokio::spawn({
        let wal = wal.clone();
        async move { append(&wal, &Bytes::from_static(b"a")).await }
    });
    while wal.metrics().writes_in_flight == 0 {
        tokio::task::yield_now().await;
    }
    // The device has it now, as far as the owner's host is concerned.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let found = adopt(reserved(disk, 2)).await;
    disk.hold_writes(false);
    let acknowledged = writer.await.expect("ends").is_ok();
    (acknowledged, !found.is_empty())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preempting_ends_the_writes_that_are_under_way() {
    let disk = ReservedDisk::over(disk(1));
    assert_eq!(write_under_way(&disk).await, (false, false));
    // Why it must: the record is acknowledged, and whoever took the log over does not have it.
    let disk = ReservedDisk::over(self::disk(1));
    disk.preempt_without_abort();
    assert_eq!(write_under_way(&disk).await, (true, false));
}

/// A host that is overtaken between its first look and what it does next.
#[derive(Debug)]
struct Slow {
    host: ReservingHost,
    overtaken_by: Mutex<Option<DeviceReservation>>,
}

impl Reservations for Slow {
    fn register(&self, key: u64) -> std::io::Result<()> {
        self.host.register(key)
    }

    fn reserve(&self, key: u64) -> std::io::Result<()> {
        self.host.reserve(key)
    }

    fn preempt(&self, key: u64, other: u64) -> std::io::Result<()> {
        self.host.preempt(key, other)
    }

    fn registrants(&self) -> std::io::Result<Registrants> {
        let found = self.host.registrants();
        let mut overtaken_by = self
            .overtaken_by
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = overtaken_by.take() {
            other.acquire(NEW).expect("acquires");
        }
        found
    }
}

#[test]
fn an_owner_that_registers_after_its_successor_finds_out() {
    let disk = ReservedDisk::over(disk(1));
    let slow = Slow {
        host: disk.host(1),
        overtaken_by: Mutex::new(Some(DeviceReservation::new(Arc::new(disk.host(2)), WAL_ID))),
    };
    let refused = DeviceReservation::new(Arc::new(slow), WAL_ID).acquire(OLD);
    assert!(matches!(
        refused,
        Err(FenceError::Fenced { current: NEW, .. })
    ));
    // The successor still may write.
    let found = disk.host(9).registrants().expect("reports");
    assert_eq!(found.holder, found.keys.iter().max().copied());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_breaks_is_not_taken_for_a_fence() {
    let disk = ReservedDisk::over(disk(1));
    let wal = open(reserved(&disk, 1)).await;
    disk.disk().fail_writes_after(0);
    let failed = append(&wal, &Bytes::from_static(b"a")).await;
    assert_eq!(failed.expect_err("fails").class(), FailureClass::Transient);
    assert!(wal.failed().await.fenced().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_taken_over_while_it_opens_is_not_opened() {
    /// Acquires as the owner does, and is overtaken before the header is written.
    #[derive(Debug)]
    struct Overtaken(Arc<dyn LogFence>, Arc<dyn LogFence>);

    impl LogFence for Overtaken {
        fn acquire(&self, epoch: NodeEpoch) -> Result<(), FenceError> {
            self.0.acquire(epoch)?;
            self.1.acquire(NEW)
        }

        fn check(&self, epoch: NodeEpoch) -> Result<(), FenceError> {
            self.0.check(epoch)
        }

        fn explain(&self, epoch: NodeEpoch, error: &std::io::Error) -> Option<FenceError> {
            self.0.explain(epoch, error)
        }
    }

    let disk = ReservedDisk::over(disk(1));
    let (device, fence) = reserved(&disk, 1);
    let (_, of_adopter) = reserved(&disk, 2);
    let overtaken = Arc::new(Overtaken(fence, of_adopter));
    let refused = try_open((device, overtaken), OLD).await;
    let text = refused.expect_err("taken over").to_string();
    assert!(text.contains("epoch 2 has taken it over"), "{text}");
}

#[test]
fn whoever_dies_while_it_takes_over_is_followed_by_the_next() {
    for commands in 0..8 {
        let disk = ReservedDisk::over(disk(1));
        let fence = |host| DeviceReservation::new(Arc::new(disk.host(host)), WAL_ID);
        fence(1).acquire(OLD).expect("acquires");
        let dying = disk.host(2);
        dying.die_after(commands);
        let _ = DeviceReservation::new(Arc::new(dying), WAL_ID).acquire(NEW);
        fence(3).acquire(NodeEpoch(3)).expect("takes over");
        let Registrants { keys, holder } = disk.host(9).registrants().expect("reports");
        assert_eq!(
            (keys.len(), holder),
            (1, keys.first().copied()),
            "{commands}"
        );
        // The owner returns on its own host, under an epoch of its own.
        fence(1).acquire(NodeEpoch(4)).expect("acquires");
        for (host, late) in [(1, OLD), (2, NEW), (3, NodeEpoch(3))] {
            let refused = fence(host).acquire(late);
            assert!(matches!(refused, Err(FenceError::Fenced { .. })));
        }
    }
}

#[test]
fn of_several_hosts_that_take_over_at_once_only_the_latest_may_write() {
    for round in 0..50 {
        let disk = ReservedDisk::over(disk(round));
        let acquired: Vec<bool> = std::thread::scope(|scope| {
            let acquire = |host| {
                let fence = DeviceReservation::new(Arc::new(disk.host(host)), WAL_ID);
                scope.spawn(move || fence.acquire(NodeEpoch(host)).is_ok())
            };
            let hosts: Vec<_> = (1..=8).map(acquire).collect();
            hosts
                .into_iter()
                .map(|host| host.join().expect("ends"))
                .collect()
        });
        assert_eq!(acquired.last(), Some(&true), "round {round}");
        let found = disk.host(9).registrants().expect("reports");
        // Whoever came late is registered at most, knows it, and writes nothing.
        let latest = found.keys.iter().max().copied();
        assert_eq!(found.holder, latest, "round {round}");
    }
}

#[test]
fn a_log_that_was_formatted_again_begins_with_any_epoch() {
    let disk = ReservedDisk::over(disk(1));
    let fence = |host, wal_id| DeviceReservation::new(Arc::new(disk.host(host)), wal_id);
    fence(1, WAL_ID).acquire(NodeEpoch(9)).expect("acquires");
    fence(2, WAL_ID + 1).acquire(OLD).expect("acquires");
    let conflict = millrace_wal::device::reservation_conflict();
    let explained = fence(1, WAL_ID).explain(NodeEpoch(9), &conflict);
    assert!(matches!(
        explained,
        Some(FenceError::Replaced { current: OLD })
    ));
}
