//! The seam at the device: everything above it is the same on a disk, a file and a simulation.
//!
//! - `file`: opening and preallocating, direct or buffered
//! - `threads`: a small pool of threads that block in `pwrite`
//! - `uring`: io_uring, where the kernel allows it
//! - `shaped`: a decorator that slows writes down, for measurements
//! - `reservations`: which hosts may write to a device that several are attached to

mod file;
mod reservations;
mod shaped;
mod threads;
#[cfg(target_os = "linux")]
mod uring;

use std::{fmt::Debug, io, path::Path, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use millrace_tasks::Supervisor;
use millrace_time::{SharedClock, SystemClock};

use crate::AlignedBuf;

pub use reservations::{
    Registrants, Reservations, is_reservation_conflict, open_reservations, reservation_conflict,
};
pub use shaped::{Shape, ShapedDevice};

/// What a device operation answers with.
pub type DeviceFuture<T> = BoxFuture<'static, io::Result<T>>;

/// A device that reads and writes whole blocks.
///
/// An operation **starts when it is called**, not when its future is first polled, and dropping
/// the future does not stop it. Operations complete in any order. Offsets and lengths are
/// multiples of [`block_size`](Self::block_size), and stay within [`capacity`](Self::capacity);
/// anything else is answered with `InvalidInput`.
pub trait BlockDevice: Debug + Send + Sync + 'static {
    /// Size in bytes.
    fn capacity(&self) -> u64;

    /// The unit of every operation, in bytes.
    fn block_size(&self) -> u32 {
        crate::BLOCK_BYTES
    }

    /// Writes `data` at `offset`. When this answers `Ok`, the bytes survive a power loss. After a
    /// crash before that, each 512-byte sector of the range holds its old or its new content.
    fn write(&self, offset: u64, data: AlignedBuf) -> DeviceFuture<()>;

    /// Reads `len` bytes at `offset`.
    fn read(&self, offset: u64, len: usize) -> DeviceFuture<AlignedBuf>;

    /// Makes durable what a read would answer now, also where an earlier process wrote it.
    fn sync(&self) -> DeviceFuture<()>;
}

/// How the kernel is asked to do the I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// io_uring where the kernel allows it, the thread pool where not.
    #[default]
    Auto,
    /// io_uring, or an error.
    IoUring,
    /// Threads that block in `pwrite`.
    ThreadPool,
}

/// How long a new file is filled with zeros before it is used. A gp3 volume writes 125 MiB/s, 14 GiB
/// in this time; larger logs would keep a new broker from serving, for hours at worst.
const FILL_MAX: Duration = Duration::from_secs(120);

/// How to open a device.
#[derive(Debug, Clone)]
pub struct DeviceConfig {
    /// Size in bytes: a file is created with it and must have it later. For a block device, the
    /// part that is used; 0 takes all of it.
    pub capacity: u64,
    /// How the kernel is asked.
    pub backend: Backend,
    /// Operations that may be in the kernel at once; also the thread pool's thread count.
    pub depth: u32,
    /// True where the device's own completion already means durable (EBS, a disk with a protected
    /// cache): then no flush is asked for. **A lie here loses acknowledged records.** On Linux, only
    /// block devices take it: in a file, the file system's own journal must be durable as well.
    pub durable_completion: bool,
    /// How long a new file is filled with zeros; what is left is reserved only, and slower when it is
    /// written for the first time. Where the file system reserves nothing, all of it is filled.
    pub fill_max: Duration,
    /// Measures that time.
    pub clock: SharedClock,
    /// False opens what another process has locked: its owner was fenced first, and may be stopped for ever.
    pub locked: bool,
    /// Supervises what works for the device; one of its own by default.
    pub tasks: Supervisor,
}

impl DeviceConfig {
    /// The default way to open a device of `capacity` bytes.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            backend: Backend::Auto,
            depth: 8,
            durable_completion: false,
            fill_max: FILL_MAX,
            clock: SystemClock::shared(),
            locked: true,
            tasks: Supervisor::new(),
        }
    }
}

/// Why a device did not open.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The path cannot be opened, created or sized.
    #[error("cannot {action} the write-ahead log at {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: String,
        /// What the system answered.
        source: io::Error,
    },
    /// Another process has the path open as its log.
    #[error(
        "the write-ahead log at {0} is in use by another process, most likely another broker; stop that process, or set another s3.wal.path"
    )]
    Held(String),
    /// The file or device has another size than configured.
    #[error(
        "the write-ahead log at {path} has {found} bytes but {wanted} are configured; set the capacity to {found}, or remove it once all its records are uploaded"
    )]
    Capacity {
        /// Which path.
        path: String,
        /// Its size in bytes.
        found: u64,
        /// The configured size in bytes.
        wanted: u64,
    },
    /// The kernel refuses io_uring and the configuration insists on it.
    #[error("io_uring is not available ({0}); use the thread-pool back-end")]
    NoIoUring(io::Error),
}

/// Opens the block device at `path`, or the file there, which is created and preallocated where
/// it does not exist.
///
/// Where the file system refuses O_DIRECT (some overlays), I/O goes through the page cache with
/// O_DSYNC: as durable, slower, and a warning says so.
///
/// The path is locked for this process until the device is dropped, unless the configuration says otherwise. A lock that
/// another process holds is waited for, two seconds at most, blocking the thread.
///
/// # Errors
/// Says what the system refused, that another process uses the path, or that the size is not the
/// configured one.
pub fn open_device(
    path: &Path,
    config: &DeviceConfig,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let file = Arc::new(file::BlockFile::open(path, config)?);
    match config.backend {
        Backend::ThreadPool => threads(file, path, config),
        #[cfg(target_os = "linux")]
        Backend::IoUring => {
            let device = uring::UringDevice::new(file, config);
            device
                .map(|d| Arc::new(d) as _)
                .map_err(DeviceError::NoIoUring)
        }
        #[cfg(not(target_os = "linux"))]
        Backend::IoUring => Err(DeviceError::NoIoUring(io::ErrorKind::Unsupported.into())),
        #[cfg(target_os = "linux")]
        Backend::Auto => match uring::UringDevice::new(Arc::clone(&file), config) {
            Ok(device) => Ok(Arc::new(device)),
            Err(error) => {
                tracing::warn!(%error, "io_uring is not available; the WAL uses the thread pool");
                threads(file, path, config)
            }
        },
        #[cfg(not(target_os = "linux"))]
        Backend::Auto => threads(file, path, config),
    }
}

fn threads(
    file: Arc<file::BlockFile>,
    path: &Path,
    config: &DeviceConfig,
) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    match threads::ThreadPoolDevice::new(file, config) {
        Ok(device) => Ok(Arc::new(device)),
        Err(source) => Err(DeviceError::Io {
            action: "start the I/O threads of",
            path: path.display().to_string(),
            source,
        }),
    }
}

/// Checks a range against the contract of [`BlockDevice`].
fn check_range(capacity: u64, offset: u64, len: usize) -> io::Result<()> {
    let block = u64::from(crate::BLOCK_BYTES);
    let bytes = len as u64;
    let aligned = offset.is_multiple_of(block) && bytes.is_multiple_of(block) && bytes > 0;
    match offset.checked_add(bytes) {
        Some(end) if aligned && end <= capacity => Ok(()),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{bytes} bytes at {offset} are not whole blocks of a device of {capacity}"),
        )),
    }
}
