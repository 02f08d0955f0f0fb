//! One suite for every device: the contract of `BlockDevice` holds on each back-end, on the
//! decorator, and on the simulated disk that recovery is proved on.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::try_join_all;
use millrace_tasks::Supervisor;
use millrace_testkit::SimDisk;
use millrace_time::{Clock, SeededRandom, SystemClock};
use millrace_wal::{
    AlignedBuf, BLOCK_BYTES,
    device::{Backend, BlockDevice, DeviceConfig, DeviceError, Shape, ShapedDevice, open_device},
};

const BLOCK: usize = BLOCK_BYTES as usize;
const CAPACITY: u64 = 4 << 20;

type Device = Arc<dyn BlockDevice>;

fn pattern(seed: usize, len: usize) -> AlignedBuf {
    let mut buf = AlignedBuf::zeroed(len);
    buf.iter_mut()
        .enumerate()
        .for_each(|(i, byte)| *byte = (i * 7 + i / 512 + seed) as u8);
    buf
}

/// Everything that a device must do.
async fn conforms(device: Device) {
    a_new_device_reads_zeros(&device).await;
    what_is_written_is_read(&device).await;
    many_operations_at_once_do_not_mix(&device).await;
    ranges_are_checked(&device).await;
    a_dropped_future_does_not_stop_its_write(&device).await;
    device.sync().await.expect("syncs");
}

async fn a_new_device_reads_zeros(device: &Device) {
    assert_eq!(
        (device.capacity(), device.block_size()),
        (CAPACITY, BLOCK_BYTES)
    );
    let found = device
        .read(CAPACITY - BLOCK as u64, BLOCK)
        .await
        .expect("reads");
    assert_eq!(&found[..], &[0; BLOCK]);
}

async fn what_is_written_is_read(device: &Device) {
    for (at, len) in [
        (0, BLOCK),
        (BLOCK, 3 * BLOCK),
        (1 << 20, 1 << 20),
        (4 << 20, BLOCK),
    ] {
        // The last one ends where the device does.
        let at = if at as u64 == CAPACITY { at - len } else { at };
        device
            .write(at as u64, pattern(at, len))
            .await
            .expect("writes");
        let found = device.read(at as u64, len).await.expect("reads");
        assert!(found[..] == pattern(at, len)[..], "{len} bytes at {at}");
    }
    let inner = device
        .read((1 << 20) + BLOCK as u64, BLOCK)
        .await
        .expect("reads");
    assert_eq!(inner[..], pattern(1 << 20, 1 << 20)[BLOCK..2 * BLOCK]);
}

/// More than any back-end has places for, so that some must wait for others.
async fn many_operations_at_once_do_not_mix(device: &Device) {
    let place = |n: usize| (2 * n * BLOCK) as u64;
    let writes = (0..200).map(|n| device.write(place(n), pattern(n, 2 * BLOCK)));
    try_join_all(writes).await.expect("writes");
    let reads = (0..200).map(|n| device.read(place(n), 2 * BLOCK));
    let found = try_join_all(reads).await.expect("reads");
    for (n, found) in found.iter().enumerate() {
        assert!(found[..] == pattern(n, 2 * BLOCK)[..], "operation {n}");
    }
}

async fn ranges_are_checked(device: &Device) {
    for (offset, len) in [
        (1, BLOCK),
        (0, 512),
        (0, 0),
        (CAPACITY, BLOCK),
        (u64::MAX - 4095, BLOCK),
    ] {
        let write = device.write(offset, AlignedBuf::zeroed(len)).await;
        assert_eq!(
            write.expect_err("refused").kind(),
            io::ErrorKind::InvalidInput
        );
        let read = device.read(offset, len).await;
        assert_eq!(
            read.expect_err("refused").kind(),
            io::ErrorKind::InvalidInput
        );
    }
}

async fn a_dropped_future_does_not_stop_its_write(device: &Device) {
    drop(device.write(0, pattern(99, BLOCK)));
    for _ in 0..1_000 {
        if device.read(0, BLOCK).await.expect("reads")[..] == pattern(99, BLOCK)[..] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the write never happened");
}

fn on_file(path: &Path, backend: Backend) -> Result<Device, DeviceError> {
    open_device(
        path,
        &DeviceConfig {
            backend,
            depth: 4,
            ..DeviceConfig::new(CAPACITY)
        },
    )
}

#[tokio::test]
async fn the_thread_pool_conforms() {
    let dir = tempfile::tempdir().expect("a folder");
    conforms(on_file(&dir.path().join("wal"), Backend::ThreadPool).expect("opens")).await;
}

#[tokio::test]
async fn io_uring_conforms_where_the_kernel_allows_it() {
    let dir = tempfile::tempdir().expect("a folder");
    match on_file(&dir.path().join("wal"), Backend::IoUring) {
        Ok(device) => conforms(device).await,
        Err(DeviceError::NoIoUring(error)) => println!("skipped: no io_uring here: {error}"),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn whatever_auto_chooses_conforms() {
    let dir = tempfile::tempdir().expect("a folder");
    conforms(on_file(&dir.path().join("wal"), Backend::Auto).expect("opens")).await;
}

/// A second passes each time it is asked.
#[derive(Debug, Default)]
struct Slow(AtomicU64);

impl Clock for Slow {
    fn now(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(1, Ordering::SeqCst))
    }

    fn wall_ms(&self) -> i64 {
        0
    }
}

/// A volume that would take hours to fill: the log serves after `fill_max`, and is whole.
#[tokio::test]
async fn a_file_that_is_filled_in_part_conforms() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal");
    let clock = Arc::new(Slow::default());
    let config = DeviceConfig {
        backend: Backend::ThreadPool,
        fill_max: Duration::from_secs(2),
        clock: clock.clone(),
        ..DeviceConfig::new(CAPACITY)
    };
    let device = open_device(&path, &config).expect("opens");
    // Asked before the first of four parts, before the second, and before the one that was too late.
    assert_eq!(clock.0.load(Ordering::SeqCst), 3, "filling did not stop");
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt;
        let file = std::fs::metadata(&path).expect("is there");
        assert!(file.blocks() * 512 >= CAPACITY, "room is not reserved");
    }
    conforms(device).await;
    open_device(&path, &config).expect("opens again");
}

/// A file system in memory, which older kernels refuse direct I/O on: the way through the cache.
#[tokio::test]
async fn a_file_in_memory_conforms() {
    let memory = Path::new("/dev/shm");
    let Ok(dir) = tempfile::tempdir_in(memory) else {
        return println!("skipped: no /dev/shm");
    };
    for backend in [Backend::ThreadPool, Backend::Auto] {
        let path = dir.path().join(format!("{backend:?}"));
        conforms(on_file(&path, backend).expect("opens")).await;
    }
}

#[tokio::test]
async fn the_decorator_conforms() {
    let dir = tempfile::tempdir().expect("a folder");
    let inner = on_file(&dir.path().join("wal"), Backend::ThreadPool).expect("opens");
    let shape = Shape {
        write_latency: Duration::from_millis(1),
        iops: Some(100_000),
        bytes_per_s: Some(1 << 30),
    };
    let device = ShapedDevice::new(inner, shape, SystemClock::shared(), &Supervisor::new());
    conforms(Arc::new(device.expect("starts"))).await;
}

#[tokio::test(start_paused = true)]
async fn the_simulated_disk_conforms() {
    let disk = SimDisk::new(CAPACITY, Duration::from_millis(5), SeededRandom::shared(1));
    conforms(disk.attach()).await;
}

#[tokio::test]
async fn a_reopened_file_holds_what_was_written_by_any_back_end() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("wal");
    let backends = [Backend::ThreadPool, Backend::Auto, Backend::ThreadPool];
    for (n, backend) in backends.into_iter().enumerate() {
        let device = on_file(&path, backend).expect("opens");
        if n > 0 {
            let found = device.read(8192, BLOCK).await.expect("reads");
            assert_eq!(found[..], pattern(n - 1, BLOCK)[..]);
        }
        device.write(8192, pattern(n, BLOCK)).await.expect("writes");
    }
}
