//! The device of a log that is taken over. What has to happen before it may be read depends on the form of its fence:
//!
//! | fence | before the device is opened | before it is read |
//! |---|---|---|
//! | page | | the page is raised |
//! | reservation | | the former owner's key is preempted |
//! | detach | the volume is detached from the former owner's instance, and attached to this one | |
//!
//! Each step may be repeated, by this broker or another one.

use std::{path::PathBuf, sync::Arc, time::Duration};

use millrace_wal::{
    LogFence,
    device::{BlockDevice, DeviceConfig},
};
use tokio::time::timeout;

use super::{device_config, device_path, fence_of, open};
use crate::{
    config::{WalFence, WalUri},
    storage::{Seams, StorageError},
};

/// How long the device of a volume that was attached is waited for: the system makes it in a second.
const DEVICE_WAIT: Duration = Duration::from_secs(60);
const DEVICE_PAUSE: Duration = Duration::from_millis(50);

/// The device of a log that is taken over.
pub(crate) struct AdoptedDevice {
    /// Not to be read before its fence is acquired.
    pub(crate) device: Arc<dyn BlockDevice>,
    path: PathBuf,
    fence: WalFence,
}

/// Opens the device.
///
/// A broker of this machine that is fenced by a page may have it open still. Reservations and attachments belong to the
/// whole machine, so another process of this one must not have it.
pub(crate) async fn open_adopted(
    uri: &WalUri,
    seams: &Seams,
) -> Result<AdoptedDevice, StorageError> {
    let fence = uri.fence.unwrap_or(WalFence::Page);
    let path = match (fence, &uri.volume) {
        (WalFence::Detach, Some(volume)) => {
            let (clock, random) = (seams.clock.clone(), seams.random.clone());
            let mover = seams.devices.mover(clock, random).await?;
            mover.bring_here(volume).await?;
            wait_for_device(uri, seams).await?
        }
        _ => device_path(uri, seams)?,
    };
    let config = DeviceConfig {
        locked: fence != WalFence::Page,
        ..device_config(uri, seams)
    };
    Ok(AdoptedDevice {
        device: open(path.clone(), config, seams).await?,
        path,
        fence,
    })
}

impl AdoptedDevice {
    /// The fence of the log, which has this id.
    pub(crate) fn fence(
        &self,
        wal_id: u64,
        seams: &Seams,
    ) -> Result<Arc<dyn LogFence>, StorageError> {
        fence_of((self.fence, &self.path), wal_id, seams)
    }
}

/// Detaches the volume of a log that was taken over, so that its broker can have it back. A page stays raised and a reservation
/// held: a log that nobody owns would take the writes of its former owner.
pub(crate) async fn give_back(uri: &WalUri, seams: &Seams) {
    let (Some(WalFence::Detach), Some(volume)) = (uri.fence, &uri.volume) else {
        return;
    };
    let (clock, random) = (seams.clock.clone(), seams.random.clone());
    let given = match seams.devices.mover(clock, random).await {
        Ok(mover) => mover.let_go(volume).await.map_err(StorageError::from),
        Err(error) => Err(error.into()),
    };
    if let Err(error) = given {
        tracing::warn!(%volume, %error, "the volume stays attached here; its broker takes it back when it starts");
    }
}

/// The device of a volume that is attached, once the system has it.
pub(super) async fn wait_for_device(uri: &WalUri, seams: &Seams) -> Result<PathBuf, StorageError> {
    let appearing = async {
        loop {
            match device_path(uri, seams) {
                Err(StorageError::NoDevice { .. }) => tokio::time::sleep(DEVICE_PAUSE).await,
                found => return found,
            }
        }
    };
    match timeout(DEVICE_WAIT, appearing).await {
        Ok(found) => found,
        Err(_) => device_path(uri, seams),
    }
}
