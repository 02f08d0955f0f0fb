//! A log that another broker takes over while its owner still writes.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use millrace_model::{NodeEpoch, NodeId};
use millrace_testkit::SimDisk;
use millrace_time::{SeededRandom, SystemClock};
use millrace_wal::{
    AppendError, FenceError, LogFence, Recovered, SharedPage, UnopenedWal, Wal, WalConfig,
    WalOwner, WalRange,
};

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

async fn open(disk: &SimDisk, fence: Arc<dyn LogFence>) -> Wal {
    let log = UnopenedWal::read(disk.attach(), WalConfig::new(WAL_ID)).await;
    let scanned = log.expect("reads").scan(&mut |_| ()).await.expect("scans");
    let owner = WalOwner {
        cluster_id: "c".to_owned(),
        node_id: NodeId(0),
        generation: OLD,
    };
    let opened = scanned
        .fenced_by(fence)
        .open(Some(owner), SystemClock::shared());
    opened.await.expect("opens")
}

/// Takes the log over: the fence first, then what the log holds.
async fn adopt(disk: &SimDisk, fence: &dyn LogFence) -> Vec<WalRange> {
    fence.acquire(NEW).expect("acquires");
    let mut found = Vec::new();
    let log = UnopenedWal::read(disk.attach(), WalConfig::new(WAL_ID)).await;
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
async fn lost_in_takeover(round: u64, fences: [Arc<dyn LogFence>; 2]) -> Vec<WalRange> {
    let [of_owner, of_adopter] = fences;
    let disk = SimDisk::new(
        CAPACITY,
        Duration::from_millis(2),
        SeededRandom::shared(round),
    );
    let wal = open(&disk, of_owner).await;
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
    let found = adopt(&disk, &*of_adopter).await;
    for writer in writers {
        writer.await.expect("ends");
    }
    let all = acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter()
        .filter(|range| !found.contains(range))
        .copied()
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_takes_a_log_over_finds_everything_that_its_owner_ever_acknowledges() {
    for round in 0..20 {
        let dir = tempfile::tempdir().expect("a folder");
        let page = || -> Arc<dyn LogFence> {
            let path = dir.path().join("wal.fence");
            Arc::new(SharedPage::open(&path, WAL_ID).expect("opens"))
        };
        let lost = lost_in_takeover(round, [page(), page()]).await;
        assert!(lost.is_empty(), "round {round}: {lost:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_fence_records_are_lost() {
    let lost = lost_in_takeover(0, [Arc::new(NoFence), Arc::new(NoFence)]).await;
    assert!(!lost.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_owner_says_who_has_its_log_and_cannot_open_it_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal.fence");
    let fence = Arc::new(SharedPage::open(&path, WAL_ID).expect("opens"));
    let disk = SimDisk::new(CAPACITY, Duration::ZERO, SeededRandom::shared(1));
    let wal = open(&disk, fence.clone()).await;
    append(&wal, &Bytes::from_static(b"a"))
        .await
        .expect("durable");
    adopt(&disk, &*fence).await;
    let refused = append(&wal, &Bytes::from_static(b"b")).await;
    let text = refused.expect_err("fenced").to_string();
    assert!(text.contains("epoch 2 has taken it over"), "{text}");
    assert!(wal.failed().await.to_string().contains("epoch 1"));

    let log = UnopenedWal::read(disk.attach(), WalConfig::new(WAL_ID)).await;
    let scanned = log.expect("reads").scan(&mut |_| ()).await.expect("scans");
    let owner = WalOwner {
        cluster_id: "c".to_owned(),
        node_id: NodeId(0),
        generation: OLD,
    };
    let opened = scanned
        .fenced_by(fence)
        .open(Some(owner), SystemClock::shared());
    assert!(opened.await.is_err());
}
