//! The devices of write-ahead logs: this broker's own, and those of fenced brokers, whose logs it takes over.
//!
//! | module | what it does |
//! |---|---|
//! | `host` | the seam: what the machine, and EC2, have |
//! | `own` | the device and the fence of this broker's log |
//! | `adopted` | the device of a log that is taken over, by the form of its fence |

mod adopted;
mod host;
mod own;

#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use millrace_wal::{
    DeviceReservation, LogFence, SharedPage, SingleAttachment, WalConfig,
    device::{Backend, BlockDevice, DeviceConfig},
};

pub use self::host::LogDevices;
pub(crate) use self::{
    adopted::{give_back, open_adopted},
    host::ThisHost,
    own::{bring_own_volume, require_fence, wal_device, wal_fence},
};
use crate::{
    config::{WalBackend, WalFence, WalUri},
    storage::{Seams, StorageError},
};

/// The log's settings. Where it is blank, it is formatted under the id that is generated here.
pub(crate) fn wal_config(uri: &WalUri, seams: &Seams) -> WalConfig {
    WalConfig {
        depth: uri.io_depth,
        iops: uri.iops,
        bytes_per_s: uri.bandwidth_bytes,
        tasks: seams.tasks.clone(),
        ..WalConfig::new(seams.random.next_u64())
    }
}

fn device_config(uri: &WalUri, seams: &Seams) -> DeviceConfig {
    DeviceConfig {
        backend: match uri.backend {
            WalBackend::Auto => Backend::Auto,
            WalBackend::IoUring => Backend::IoUring,
            WalBackend::Threads => Backend::ThreadPool,
        },
        depth: uri.io_depth,
        durable_completion: uri.durable_completion,
        tasks: seams.tasks.clone(),
        ..DeviceConfig::new(uri.capacity_bytes)
    }
}

/// Where the log is on this machine: the device of its volume, or the path.
fn device_path(uri: &WalUri, seams: &Seams) -> Result<PathBuf, StorageError> {
    let path = match &uri.volume {
        None => uri.path.clone(),
        Some(volume) => {
            let found = seams.devices.find(volume).map_err(StorageError::Devices)?;
            found.ok_or_else(|| StorageError::NoDevice {
                volume: volume.clone(),
                is_shared: uri.fence == Some(WalFence::Reservation),
            })?
        }
    };
    // A file would be created where a device is missing.
    if uri.fence.is_some_and(WalFence::is_zonal) && !seams.devices.is_block_device(&path) {
        return Err(StorageError::NoBlockDevice(path));
    }
    Ok(path)
}

/// The fence of a log on the device at `path`; a log in a file has the page where nothing else is said.
fn fence_of(
    (fence, path): (WalFence, &Path),
    wal_id: u64,
    seams: &Seams,
) -> Result<Arc<dyn LogFence>, StorageError> {
    Ok(match fence {
        WalFence::Page => Arc::new(shared_page(path, wal_id)?),
        WalFence::Reservation => {
            let opened = seams.devices.reservations(path);
            let device = opened.map_err(|source| StorageError::Reservations {
                path: path.to_owned(),
                source,
            })?;
            Arc::new(DeviceReservation::new(device, wal_id))
        }
        WalFence::Detach => Arc::new(SingleAttachment::of(path.to_owned())),
    })
}

/// The fence beside the log in the file at `log`.
fn shared_page(log: &Path, wal_id: u64) -> Result<SharedPage, StorageError> {
    let mut path = log.to_owned().into_os_string();
    path.push(".fence");
    let path = PathBuf::from(path);
    SharedPage::open(&path, wal_id).map_err(|source| StorageError::WalFence { path, source })
}

/// Opens a device. Preallocating a large file takes a while, so not on a worker.
async fn open(
    path: PathBuf,
    config: DeviceConfig,
    seams: &Seams,
) -> Result<Arc<dyn BlockDevice>, StorageError> {
    let devices = Arc::clone(&seams.devices);
    let opening = tokio::task::spawn_blocking(move || devices.open(&path, &config));
    match opening.await {
        Ok(device) => Ok(device?),
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}
