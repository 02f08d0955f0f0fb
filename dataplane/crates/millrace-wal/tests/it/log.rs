//! The log on a real file: append, acknowledge, recover, trim, push back, close.

use std::{path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_model::{NodeEpoch, NodeId};
use millrace_testkit::SimDisk;
use millrace_time::{ManualClock, SeededRandom, SystemClock};
use millrace_wal::{
    RECORD_HEAD_BYTES, ReserveError, UnopenedWal, Wal, WalConfig, WalIdentity, WalOwner, WalRange,
    device::{Backend, BlockDevice, DeviceConfig, open_device},
    inspect,
};

fn device(path: &Path, capacity: u64) -> Arc<dyn BlockDevice> {
    let config = DeviceConfig {
        backend: Backend::ThreadPool,
        ..DeviceConfig::new(capacity)
    };
    open_device(path, &config).expect("opens")
}

async fn open(path: &Path, capacity: u64) -> (Wal, Vec<(WalRange, Bytes)>) {
    open_as(path, capacity, WalConfig::new(42)).await
}

async fn open_as(path: &Path, capacity: u64, config: WalConfig) -> (Wal, Vec<(WalRange, Bytes)>) {
    let device = device(path, capacity);
    let (wal, recovered) = Wal::open(device, config, SystemClock::shared())
        .await
        .expect("opens");
    let ranges: Vec<_> = recovered.iter().map(|record| record.range).collect();
    let payloads = wal.read_many(&ranges).await.expect("reads");
    for (record, payload) in recovered.iter().zip(&payloads) {
        assert_eq!(record.payload_bytes as usize, payload.len());
        assert_eq!(record.head, payload[..payload.len().min(RECORD_HEAD_BYTES)]);
    }
    (wal, ranges.into_iter().zip(payloads).collect())
}

async fn append(wal: &Wal, payload: &Bytes) -> WalRange {
    let reservation = wal.reserve(payload.len()).await;
    let reservation = reservation.unwrap_or_else(|error| panic!("{error}: {:?}", wal.metrics()));
    let append = wal.append(reservation, std::slice::from_ref(payload));
    let range = append.range;
    append.await.expect("durable");
    range
}

fn payload(n: usize, len: usize) -> Bytes {
    (0..len).map(|i| (i * 31 + n) as u8).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_come_back_in_order_with_and_without_a_clean_close() {
    for clean in [true, false] {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("wal");
        let (wal, recovered) = open(&path, 8 << 20).await;
        assert!(recovered.is_empty());
        let mut expected = Vec::new();
        for (n, len) in [0, 1, 100, 4_000, 4_096, 70_000, 1_000_000]
            .into_iter()
            .enumerate()
        {
            let payload = payload(n, len);
            expected.push((append(&wal, &payload).await, payload));
        }
        for (range, payload) in &expected {
            assert_eq!(&wal.read(*range).await.expect("reads"), payload);
        }
        if clean {
            wal.close().await.expect("closes");
            wal.close().await.expect("closes again");
        }
        drop(wal);
        let found = inspect(device(&path, 8 << 20))
            .await
            .expect("reads")
            .expect("a log");
        assert_eq!((found.records, found.clean), (expected.len(), clean));
        assert_eq!(found.directories_damaged, 0);
        let chunks = if clean {
            found.next - found.trim
        } else {
            // A crash leaves a window unused.
            expected[6].0.end.next_multiple_of(4096)
        };
        assert_eq!(found.verified_bytes, chunks);
        let (wal, recovered) = open(&path, 8 << 20).await;
        assert_eq!(recovered, expected);
        let (ranges, payloads): (Vec<_>, Vec<_>) = expected.into_iter().unzip();
        assert_eq!(wal.read_many(&ranges).await.expect("reads"), payloads);
        let every_other: Vec<_> = ranges.iter().copied().step_by(2).collect();
        let some = wal.read_many(&every_other).await.expect("reads");
        assert!(some.iter().eq(payloads.iter().step_by(2)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_appends_share_writes_and_all_survive() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal");
    let config = WalConfig {
        depth: 1,
        ..WalConfig::new(7)
    };
    let (wal, _) = open_as(&path, 16 << 20, config).await;
    let mut appends = Vec::new();
    for n in 0..500 {
        let reservation = wal.reserve(1000).await.expect("room");
        appends.push(wal.append(reservation, &[payload(n, 400), payload(n, 600)]));
    }
    let starts: Vec<_> = appends.iter().map(|append| append.range.start).collect();
    assert!(starts.is_sorted());
    futures_util::future::try_join_all(appends)
        .await
        .expect("durable");
    drop(wal);
    let found = inspect(device(&path, 16 << 20))
        .await
        .expect("reads")
        .expect("a log");
    assert_eq!(found.records, 500);
    assert!(
        found.chunks < 400,
        "one write carries many records: {} writes",
        found.chunks
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ring_wraps_many_times() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal");
    let (mut wal, _) = open(&path, 1 << 20).await;
    let mut kept: Vec<(WalRange, Bytes)> = Vec::new();
    let mut trimmed = 0;
    for n in 0..400 {
        let payload = payload(n, n * 97 % 30_000);
        kept.push((append(&wal, &payload).await, payload));
        if kept.len() > 8 {
            let (oldest, _) = kept.remove(0);
            trimmed = oldest.end;
            wal.trim(trimmed, 0);
        }
        if n % 50 == 49 {
            if n % 100 == 49 {
                wal.close().await.expect("closes");
            }
            drop(wal);
            let recovered;
            (wal, recovered) = open(&path, 1 << 20).await;
            assert!(recovered.ends_with(&kept), "at {n}");
            // The last trims may not have reached the header, and a crash costs some room.
            wal.trim(trimmed, 0);
        }
    }
    assert!(wal.metrics().next > 4 << 20, "{:?}", wal.metrics());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_ring_pushes_back_until_it_is_trimmed() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal");
    let wait = Duration::from_millis(50);
    let config = WalConfig {
        reserve_wait_max: wait,
        ..WalConfig::new(7)
    };
    let (wal, _) = open_as(&path, 1 << 20, config).await;
    let record = payload(1, 50_000);
    let mut last = WalRange { start: 0, end: 0 };
    let refusal = loop {
        match wal.reserve(record.len()).await {
            Ok(reservation) => {
                let append = wal.append(reservation, std::slice::from_ref(&record));
                last = append.range;
                append.await.expect("durable");
            }
            Err(error) => break error,
        }
    };
    assert!(
        matches!(refusal, ReserveError::Full(waited) if waited == wait),
        "{refusal}"
    );
    let waiting = tokio::spawn({
        let wal = wal.clone();
        async move { wal.reserve(50_000).await.map(|_| ()) }
    });
    wal.trim(last.end, 0);
    waiting.await.expect("runs").expect("room after the trim");
    let too_large = wal.reserve(wal.record_bytes_max() + 1).await;
    assert!(matches!(too_large, Err(ReserveError::TooLarge { .. })));
}

#[tokio::test]
async fn caps_slow_writes_down_and_nothing_is_lost() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal");
    let config = WalConfig {
        iops: Some(100),
        ..WalConfig::new(7)
    };
    let (wal, _) = open_as(&path, 1 << 20, config).await;
    let clock = SystemClock::shared();
    let start = clock.now();
    for n in 0..30 {
        append(&wal, &payload(n, 100)).await;
    }
    // A tenth of a second's worth goes at once, and the rest at 100 per second.
    let took = clock.now() - start;
    assert!(took >= Duration::from_millis(180), "{took:?}");
    drop(wal);
    assert_eq!(open(&path, 1 << 20).await.1.len(), 30);
}

/// Many producers, a log that is full most of the time, and an owner that trims slowly: everyone
/// gets their turn, and nobody is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producers_share_a_full_log_fairly() {
    let dir = tempfile::tempdir().expect("a folder");
    let (wal, _) = open(&dir.path().join("wal"), 1 << 20).await;
    let producers = (0..8).map(|producer| {
        let wal = wal.clone();
        tokio::spawn(async move {
            for n in 0..40 {
                let range = append(&wal, &payload(n, 1 + producer * 9_000)).await;
                wal.trim(range.end.saturating_sub(600_000), 0);
            }
        })
    });
    futures_util::future::try_join_all(producers)
        .await
        .expect("nobody is refused");
    let metrics = wal.metrics();
    assert!(
        metrics.next > 10 << 20 && metrics.used <= metrics.capacity,
        "{metrics:?}"
    );
}

/// A trim above a write that is still in flight takes effect when that write is done, without
/// another trim.
#[tokio::test(start_paused = true)]
async fn a_trim_ahead_of_a_slow_write_is_not_forgotten() {
    let disk = SimDisk::new(1 << 20, Duration::from_millis(5), SeededRandom::shared(3));
    let opened = Wal::open(disk.attach(), WalConfig::new(7), ManualClock::shared()).await;
    let (wal, _) = opened.expect("opens");
    let mut appends = Vec::new();
    for n in 0..4 {
        let reservation = wal.reserve(5_000).await.expect("room");
        appends.push(wal.append(reservation, &[payload(n, 5_000)]));
    }
    wal.trim(appends[3].range.end, 0);
    tokio::time::sleep(Duration::from_secs(10)).await;
    futures_util::future::try_join_all(appends)
        .await
        .expect("durable");
    let metrics = wal.metrics();
    assert_eq!(
        (metrics.trim, metrics.used),
        (metrics.next, 0),
        "{metrics:?}"
    );
}

#[tokio::test]
async fn a_closed_log_refuses() {
    let dir = tempfile::tempdir().expect("a folder");
    let (wal, _) = open(&dir.path().join("wal"), 1 << 20).await;
    let early = wal.reserve(10).await.expect("room");
    wal.close().await.expect("closes");
    assert!(matches!(wal.reserve(10).await, Err(ReserveError::Closed)));
    let append = wal.append(early, &[Bytes::from_static(b"late")]);
    assert!(matches!(
        append.await,
        Err(millrace_wal::AppendError::Closed)
    ));
}

#[tokio::test]
async fn a_record_larger_than_its_reservation_is_refused_and_the_next_is_not() {
    let dir = tempfile::tempdir().expect("a folder");
    let (wal, _) = open(&dir.path().join("wal"), 1 << 20).await;
    let small = wal.reserve(2).await.expect("room");
    let append = wal.append(small, &[Bytes::from_static(b"three")]);
    assert!(matches!(
        append.await,
        Err(millrace_wal::AppendError::Oversized { .. })
    ));
    append_ok(&wal).await;
}

async fn append_ok(wal: &Wal) {
    append(wal, &Bytes::from_static(b"fits")).await;
}

#[tokio::test]
async fn a_device_that_holds_something_else_is_not_touched() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal");
    let mut foreign = vec![0; 1 << 20];
    foreign[1000] = 1;
    std::fs::write(&path, &foreign).expect("writes");
    let opened = Wal::open(
        device(&path, 1 << 20),
        WalConfig::new(1),
        SystemClock::shared(),
    )
    .await;
    assert!(matches!(opened, Err(millrace_wal::OpenError::NotALog)));
    assert_eq!(std::fs::read(&path).expect("reads"), foreign);
}

#[tokio::test]
async fn another_capacity_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal");
    drop(open(&path, 1 << 20).await);
    let config = DeviceConfig::new(2 << 20);
    let opened = open_device(&path, &config);
    assert!(matches!(
        opened,
        Err(millrace_wal::device::DeviceError::Capacity { .. })
    ));
}

#[tokio::test]
async fn a_path_belongs_to_one_log_at_a_time() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal");
    let (first, _) = open(&path, 1 << 20).await;
    let second = open_device(&path, &DeviceConfig::new(1 << 20)).expect_err("held");
    let text = second.to_string();
    assert!(
        text.contains("in use by another process") && text.contains("wal"),
        "{text}"
    );
    append_ok(&first).await;
    drop(first);
    open(&path, 1 << 20).await;
}

fn owner(generation: u64) -> WalOwner {
    WalOwner {
        cluster_id: "a cluster".into(),
        node_id: NodeId(3),
        generation: NodeEpoch(generation),
    }
}

async fn read_header(path: &Path, identity: u64) -> UnopenedWal {
    let device = device(path, 1 << 20);
    let read = UnopenedWal::read(device, WalConfig::new(identity)).await;
    read.expect("reads")
}

async fn open_for(path: &Path, identity: u64, owner: Option<WalOwner>) -> (Wal, usize) {
    let mut records = 0;
    let log = read_header(path, identity).await;
    let scanned = log.scan(&mut |_| records += 1).await.expect("scans");
    let wal = scanned.open(owner, SystemClock::shared()).await;
    (wal.expect("opens"), records)
}

/// With a worker: a task that writes a trim may hold the device for a moment after the log was dropped,
/// and opening the device again blocks this thread until it is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_log_says_whose_it_is_and_looking_at_it_changes_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal");
    let blank = read_header(&path, 42).await;
    assert_eq!((blank.identity(), blank.wal_id()), (None, 42));
    blank.scan(&mut |_| ()).await.expect("scans");
    let bytes = std::fs::read(&path).expect("reads");
    assert!(bytes.iter().all(|&byte| byte == 0), "still blank");

    let (wal, _) = open_for(&path, 42, Some(owner(5))).await;
    let first = append(&wal, &payload(1, 5_000)).await;
    append(&wal, &payload(2, 5_000)).await;
    wal.trim(first.end, 77);
    wal.trim(first.end, 99);
    wal.close().await.expect("closes");
    drop(wal);
    let bytes = std::fs::read(&path).expect("reads");
    let mut expected = WalIdentity {
        wal_id: 42,
        owner: Some(owner(5)),
        revision: 77,
    };
    let log = read_header(&path, 1).await;
    assert_eq!(log.identity().as_ref(), Some(&expected));
    let mut records = 0;
    log.scan(&mut |_| records += 1).await.expect("scans");
    assert_eq!(records, 1);
    assert_eq!(std::fs::read(&path).expect("reads"), bytes);

    // Nobody named: it stays whose it was. A lower revision later takes nothing back.
    let (wal, records) = open_for(&path, 1, None).await;
    assert_eq!(records, 1);
    wal.trim(wal.metrics().next, 3);
    wal.close().await.expect("closes");
    drop(wal);
    let shown = inspect(device(&path, 1 << 20)).await.expect("reads");
    assert_eq!(shown.expect("a log").identity, expected);
    let (wal, records) = open_for(&path, 1, Some(owner(6))).await;
    drop((wal, records));
    expected.owner = Some(owner(6));
    assert_eq!(read_header(&path, 1).await.identity(), Some(expected));
}

#[tokio::test]
async fn a_discarded_log_is_empty_under_a_new_id() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal");
    let (wal, _) = open_for(&path, 42, Some(owner(5))).await;
    append(&wal, &payload(1, 5_000)).await;
    drop(wal);
    let discarded = read_header(&path, 43).await.discard().await;
    assert_eq!(discarded.expect("discards"), 43);
    let expected = WalIdentity {
        wal_id: 43,
        owner: None,
        revision: 0,
    };
    assert_eq!(read_header(&path, 1).await.identity(), Some(expected));
    let (wal, records) = open_for(&path, 1, Some(owner(6))).await;
    assert_eq!(records, 0);
    append(&wal, &payload(2, 5_000)).await;
    drop(wal);
    assert_eq!(open_for(&path, 1, None).await.1, 1);
}
