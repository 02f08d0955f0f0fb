//! Logs are taken over on devices that behave as EBS documents them: the real log, an owner under load, and everything that it
//! acknowledged is found.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use millrace_cluster::{AdoptedLog, LogUnavailable, TakeoverError};
use millrace_ec2::{InstanceError, MoveError, MovePace, VolumeId, VolumeMover};
use millrace_model::{NodeEpoch, NodeId};
use millrace_stream::RecoveredLog;
use millrace_testkit::{EbsPace, FakeEbs, FakeInstance, ReservedDisk, ReservingHost, SimDisk};
use millrace_time::{SeededRandom, SharedClock, SharedRandom, SystemClock};
use millrace_wal::{
    FenceError, UnopenedWal, Wal, WalOwner, WalRange,
    device::{BlockDevice, DeviceConfig, DeviceError, Reservations},
};
use parking_lot::Mutex;

use super::*;
use crate::{BrokerConfig, Properties, cluster::LogsOfOthers};

const CAPACITY: u64 = 4 << 20;
const OLD: NodeEpoch = NodeEpoch(1);
const NEW: NodeEpoch = NodeEpoch(2);
const VOLUME: &str = "vol-0123456789abcdef0";
const RESERVED: &str = "/dev/disk/by-id/shared";

/// What one instance has.
#[derive(Debug)]
enum Host {
    Instance(FakeInstance),
    Sharing(ReservingHost),
}

fn missing(path: &Path) -> DeviceError {
    DeviceError::Io {
        action: "open",
        path: path.display().to_string(),
        source: io::ErrorKind::NotFound.into(),
    }
}

impl LogDevices for Host {
    fn open(&self, path: &Path, _: &DeviceConfig) -> Result<Arc<dyn BlockDevice>, DeviceError> {
        match self {
            Self::Instance(instance) => instance.open(path).map_err(|_| missing(path)),
            Self::Sharing(host) if path == Path::new(RESERVED) => Ok(host.device()),
            Self::Sharing(_) => Err(missing(path)),
        }
    }

    fn is_block_device(&self, _: &Path) -> bool {
        true
    }

    fn reservations(&self, _: &Path) -> io::Result<Arc<dyn Reservations>> {
        match self {
            Self::Instance(_) => Err(io::ErrorKind::Unsupported.into()),
            Self::Sharing(host) => Ok(Arc::new(host.clone())),
        }
    }

    fn find(&self, volume: &VolumeId) -> io::Result<Option<PathBuf>> {
        Ok(match self {
            Self::Instance(instance) => instance.find(volume),
            Self::Sharing(_) => Some(RESERVED.into()),
        })
    }

    fn mover(
        &self,
        clock: SharedClock,
        random: SharedRandom,
    ) -> BoxFuture<'_, Result<VolumeMover, InstanceError>> {
        let Self::Instance(instance) = self else {
            unreachable!("nothing is moved for a reservation");
        };
        let pace = MovePace {
            look: Duration::from_millis(2),
            look_max: Duration::from_millis(20),
            force_after: Duration::from_millis(100),
            attach_again_after: Duration::from_secs(1),
            give_up_after: Duration::from_secs(20),
        };
        let volumes = Arc::new(instance.clone());
        let mover = VolumeMover::new(volumes, instance.identity(), (clock, random), pace);
        std::future::ready(Ok(mover)).boxed()
    }
}

fn seams(host: Host) -> Seams {
    Seams {
        devices: Arc::new(host),
        ..Seams::system()
    }
}

fn uri(fence: &str) -> WalUri {
    let text = format!("0@file:///dev/ignored?capacity=0&fence={fence}&volume={VOLUME}");
    text.parse().expect("legal")
}

fn owner(epoch: NodeEpoch) -> WalOwner {
    WalOwner {
        cluster_id: "c".to_owned(),
        node_id: NodeId(7),
        generation: epoch,
    }
}

/// Opens the log as its owner does.
async fn start(uri: &WalUri, epoch: NodeEpoch, seams: &Seams) -> Result<Wal, StorageError> {
    let device = wal_device(uri, seams).await?;
    let log = UnopenedWal::read(device, wal_config(uri, seams)).await?;
    let fence = wal_fence(uri, log.wal_id(), seams)?.expect("it has one");
    fence.acquire(epoch).map_err(StorageError::Fenced)?;
    let scanned = log.scan(&mut |_| ()).await?.fenced_by(fence);
    Ok(scanned
        .open(Some(owner(epoch)), SystemClock::shared())
        .await?)
}

async fn log_id(uri: &WalUri, seams: &Seams) -> u64 {
    let device = wal_device(uri, seams).await.expect("opens");
    let log = UnopenedWal::read(device, wal_config(uri, seams)).await;
    log.expect("reads").wal_id()
}

async fn adopt(
    uri: &WalUri,
    log_id: u64,
    epoch: NodeEpoch,
    seams: &Seams,
) -> Result<(Wal, RecoveredLog), TakeoverError> {
    let owner = owner(epoch);
    let logs = LogsOfOthers {
        seams: seams.clone(),
    };
    let log = AdoptedLog {
        logs: &logs,
        address: &uri.to_string(),
        log_id,
        owner,
    };
    log.open(seams.clock.clone()).await
}

/// Appends until the log ends; gives what was acknowledged, and how the log ended.
struct Load {
    acknowledged: Arc<Mutex<BTreeSet<u64>>>,
    writers: Vec<tokio::task::JoinHandle<Option<String>>>,
}

impl Load {
    fn on(wal: &Wal) -> Self {
        let acknowledged: Arc<Mutex<BTreeSet<u64>>> = Arc::default();
        let writer = |_| {
            let (wal, acknowledged) = (wal.clone(), Arc::clone(&acknowledged));
            tokio::spawn(async move {
                // Ends by itself: the log is as large as it is, and nothing trims it.
                for _ in 0..250 {
                    match append(&wal).await {
                        Ok(range) => acknowledged.lock().insert(range.start),
                        Err(error) => return Some(error),
                    };
                }
                None
            })
        };
        Self {
            writers: (0..4).map(writer).collect(),
            acknowledged,
        }
    }

    /// What was acknowledged, and what the writers were told.
    async fn end(self) -> (BTreeSet<u64>, Vec<String>) {
        let mut errors = Vec::new();
        for writer in self.writers {
            errors.extend(writer.await.expect("ends"));
        }
        (self.acknowledged.lock().clone(), errors)
    }
}

async fn append(wal: &Wal) -> Result<WalRange, String> {
    let reservation = wal
        .reserve(3_000)
        .await
        .map_err(|error| error.to_string())?;
    let append = wal.append(reservation, &[Bytes::from_static(&[7; 3_000])]);
    let range = append.range;
    append.await.map_err(|error| error.to_string())?;
    Ok(range)
}

/// Positions of all records on the device, as whoever took the log over has found them.
async fn positions(uri: &WalUri, seams: &Seams) -> BTreeSet<u64> {
    let adopted = open_adopted(uri, seams).await.expect("it is here");
    let log = UnopenedWal::read(adopted.device, wal_config(uri, seams)).await;
    let mut found = BTreeSet::new();
    let sink = &mut |record: millrace_wal::Recovered| {
        found.insert(record.range.start);
    };
    log.expect("reads").scan(sink).await.expect("scans");
    found
}

fn sim_disk(seed: u64) -> SimDisk {
    SimDisk::new(
        CAPACITY,
        Duration::from_millis(2),
        SeededRandom::shared(seed),
    )
}

fn ebs(volume: &VolumeId, seed: u64) -> FakeEbs {
    let pace = EbsPace {
        attach: Duration::from_millis(15),
        appear: Duration::from_millis(25),
        detach: Duration::from_millis(15),
    };
    let ebs = FakeEbs::new(SystemClock::shared(), pace);
    ebs.create(volume, "zone-a", sim_disk(seed));
    ebs
}

/// Two instances of one zone, the first of which has the volume.
async fn instances(seed: u64) -> (FakeEbs, WalUri, [Seams; 2]) {
    let uri = uri("detach");
    let volume = uri.volume.clone().expect("given");
    let ebs = ebs(&volume, seed);
    let of = |id| seams(Host::Instance(ebs.instance(id, "zone-a")));
    let both = [of("i-1"), of("i-2")];
    open_adopted(&uri, &both[0]).await.expect("it was free");
    (ebs, uri, both)
}

fn sharing(seed: u64) -> (WalUri, [Seams; 2]) {
    let disk = ReservedDisk::over(sim_disk(seed));
    let of = |host| seams(Host::Sharing(disk.host(host)));
    (uri("reservation"), [of(1), of(2)])
}

/// The owner is fenced in the middle of its work; whoever takes the log over has everything.
async fn nothing_is_lost(round: u64, uri: &WalUri, [of_owner, of_adopter]: &[Seams; 2]) {
    let wal = start(uri, OLD, of_owner).await.expect("opens");
    let id = log_id(uri, of_owner).await;
    let load = Load::on(&wal);
    tokio::time::sleep(Duration::from_millis(3 + round % 17)).await;
    let taken = adopt(uri, id, NEW, of_adopter).await.expect("takes over");
    let (acknowledged, errors) = load.end().await;
    drop(taken);
    let found = positions(uri, of_adopter).await;
    let lost: Vec<_> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "round {round}: {lost:?}");
    assert!(!acknowledged.is_empty(), "round {round}: it was at work");
    assert!(append(&wal).await.is_err(), "the owner is fenced");
    for error in errors {
        assert!(error.contains("epoch 1 no longer"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_whose_reservation_is_preempted_acknowledges_nothing_that_is_lost() {
    for round in 0..10 {
        let (uri, both) = sharing(round);
        nothing_is_lost(round, &uri, &both).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_whose_volume_is_detached_acknowledges_nothing_that_is_lost() {
    for round in 0..10 {
        let (_, uri, both) = instances(round).await;
        nothing_is_lost(round, &uri, &both).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_fence_records_are_lost() {
    // Read where it is, and nobody was detached.
    let (_, uri, [of_owner, _]) = instances(1).await;
    let wal = start(&uri, OLD, &of_owner).await.expect("opens");
    let load = Load::on(&wal);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let found = positions(&uri, &of_owner).await;
    let (acknowledged, _) = load.end().await;
    assert!(acknowledged.difference(&found).next().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_hangs_loses_the_volume_by_force() {
    let (ebs, uri, [of_owner, of_adopter]) = instances(1).await;
    let wal = start(&uri, OLD, &of_owner).await.expect("opens");
    let id = log_id(&uri, &of_owner).await;
    let range = append(&wal).await.expect("durable");
    ebs.hang(&ebs.instance("i-1", "zone-a"));
    drop(adopt(&uri, id, NEW, &of_adopter).await.expect("by force"));
    assert!(positions(&uri, &of_adopter).await.contains(&range.start));
    let fenced = append(&wal).await.expect_err("its device is gone");
    assert!(fenced.contains("its volume was detached"), "{fenced}");
    assert!(ebs.requests().contains(&"detach i-1 force".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_throttled_api_delays_a_takeover_and_nothing_else() {
    let (ebs, uri, [of_owner, of_adopter]) = instances(1).await;
    let wal = start(&uri, OLD, &of_owner).await.expect("opens");
    let id = log_id(&uri, &of_owner).await;
    append(&wal).await.expect("durable");
    ebs.throttle(6);
    adopt(&uri, id, NEW, &of_adopter).await.expect("takes over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_of_another_zone_says_who_must_take_the_log_over() {
    let (ebs, uri, [of_owner, _]) = instances(1).await;
    start(&uri, OLD, &of_owner).await.expect("opens");
    let id = log_id(&uri, &of_owner).await;
    let elsewhere = seams(Host::Instance(ebs.instance("i-9", "zone-b")));
    let refused = adopt(&uri, id, NEW, &elsewhere).await.map(drop);
    let Err(TakeoverError::Unavailable(LogUnavailable { source, .. })) = refused else {
        panic!("{refused:?}");
    };
    let error = source
        .downcast::<StorageError>()
        .expect("it is the storage's");
    assert!(matches!(
        *error,
        StorageError::Volume(MoveError::OtherZone { .. })
    ));
    assert!(
        error
            .to_string()
            .contains("in the availability zone zone-a"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adopter_that_dies_between_two_steps_is_followed_by_the_next() {
    for requests in [0, 1, 2, 3, 4, 5, 6, 8, 10, 12] {
        let (ebs, uri, [of_owner, of_second]) = instances(requests).await;
        let wal = start(&uri, OLD, &of_owner).await.expect("opens");
        let id = log_id(&uri, &of_owner).await;
        let range = append(&wal).await.expect("durable");
        ebs.die_after(Some(requests as u32));
        let dying = adopt(&uri, id, NEW, &of_second);
        let _ = tokio::time::timeout(Duration::from_millis(150), dying).await;
        ebs.die_after(None);
        let of_third = seams(Host::Instance(ebs.instance("i-3", "zone-a")));
        let taken = adopt(&uri, id, NodeEpoch(3), &of_third).await;
        drop(taken.expect("takes over"));
        assert!(positions(&uri, &of_third).await.contains(&range.start));
        // It is given back, and its broker has it as soon as it starts.
        give_back(&uri, &of_third).await;
        open_adopted(&uri, &of_owner).await.expect("it is free");
        start(&uri, NodeEpoch(4), &of_owner).await.expect("opens");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adopter_that_dies_while_it_preempts_is_followed_by_the_next() {
    for commands in 0..6 {
        let disk = ReservedDisk::over(sim_disk(commands));
        let uri = uri("reservation");
        let of_owner = seams(Host::Sharing(disk.host(1)));
        let wal = start(&uri, OLD, &of_owner).await.expect("opens");
        let id = log_id(&uri, &of_owner).await;
        let range = append(&wal).await.expect("durable");
        let dying = disk.host(2);
        dying.die_after(commands as u32);
        let _ = adopt(&uri, id, NEW, &seams(Host::Sharing(dying))).await;
        let of_third = seams(Host::Sharing(disk.host(3)));
        let taken = adopt(&uri, id, NodeEpoch(3), &of_third).await;
        drop(taken.expect("takes over"));
        assert!(positions(&uri, &of_third).await.contains(&range.start));
        assert!(append(&wal).await.is_err(), "fenced by one or the other");
        give_back(&uri, &of_third).await;
        // The reservation stays: a start that has not learnt of its successor writes nothing.
        let late = start(&uri, OLD, &of_owner).await;
        assert!(matches!(
            late,
            Err(StorageError::Fenced(FenceError::Fenced { .. }))
        ));
        start(&uri, NodeEpoch(4), &of_owner).await.expect("opens");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_log_on_the_volume_is_not_taken_over() {
    let (uri, [of_owner, of_adopter]) = sharing(1);
    start(&uri, OLD, &of_owner).await.expect("opens");
    let refused = adopt(&uri, 1, NEW, &of_adopter).await.map(drop);
    assert!(
        matches!(refused, Err(TakeoverError::OtherLog { .. })),
        "{refused:?}"
    );
    // Nobody was fenced.
    start(&uri, OLD, &of_owner).await.expect("opens");
}

#[tokio::test]
async fn a_broker_that_starts_waits_for_its_volume_and_takes_it_from_an_adopter_that_died() {
    let (ebs, uri, [of_owner, of_adopter]) = instances(1).await;
    open_adopted(&uri, &of_adopter).await.expect("takes over");
    let config = |rack: &str| {
        let text = format!("broker.rack={rack}\ns3.wal.path={uri}");
        let properties = Properties::parse(&text).expect("legal");
        BrokerConfig::new(&properties).expect("legal")
    };
    let before = ebs.requests().len();
    let looks = AtomicU32::new(0);
    let is_adopted = async || Ok(looks.fetch_add(1, Ordering::SeqCst) < 5);
    let here = config("zone-a");
    let brought = bring_own_volume(&here, &of_owner, is_adopted).await;
    brought.expect("in the end");
    let requests = &ebs.requests()[before..];
    assert_eq!(requests[..6], ["describe"; 6], "as long as it was adopted");
    assert_eq!(requests[6], "detach i-2");
    start(&uri, OLD, &of_owner).await.expect("opens");

    let elsewhere = config("zone-b");
    let refused = bring_own_volume(&elsewhere, &of_owner, async || Ok(false)).await;
    let text = refused.expect_err("another zone").to_string();
    assert!(text.contains("zone-a: set it to that"), "{text}");
    let by_id = config("id-of-zone-a");
    let brought = bring_own_volume(&by_id, &of_owner, async || Ok(false)).await;
    brought.expect("it is here");
}

#[tokio::test]
async fn what_does_not_fit_is_said_before_anything_is_created() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("wal");
    let seams = Seams::system();
    let at = |parameters: &str| -> WalUri {
        let url = url::Url::from_file_path(&path).expect("absolute");
        format!("0@{url}?capacity=16777216&{parameters}")
            .parse()
            .expect("legal")
    };
    let error = wal_device(&at("fence=reservation"), &seams)
        .await
        .expect_err("no device");
    assert!(
        error.to_string().contains("without a file system"),
        "{error}"
    );
    let on_volume = at(&format!("fence=reservation&volume={VOLUME}"));
    let error = wal_device(&on_volume, &seams)
        .await
        .expect_err("no such volume");
    assert!(
        error.to_string().contains("every broker of its zone"),
        "{error}"
    );
    assert!(!path.exists());
    // A file has its page without being asked.
    let plain = at("iodepth=1");
    wal_device(&plain, &seams).await.expect("creates it");
    assert!(wal_fence(&plain, 1, &seams).expect("opens").is_some());
    require_fence(&plain, &seams).expect("it has one");
    let device: WalUri = "0@file:///dev/ignored".parse().expect("legal");
    let sharing = sharing(1).1;
    let error = require_fence(&device, &sharing[0]).expect_err("it has none");
    assert!(
        error.to_string().contains("fence=detach&volume="),
        "{error}"
    );
}
