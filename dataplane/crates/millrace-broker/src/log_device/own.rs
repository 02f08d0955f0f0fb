//! The device and the fence of this broker's own log.

use std::sync::Arc;

use millrace_ec2::Step;
use millrace_wal::{
    LogFence,
    device::{BlockDevice, ShapedDevice},
};

use super::{adopted::wait_for_device, device_config, device_path, fence_of, open};
use crate::{
    config::{BrokerConfig, WalFence, WalUri},
    storage::{Seams, StorageError},
};

/// The log's device, created where it is missing.
pub(crate) async fn wal_device(
    uri: &WalUri,
    seams: &Seams,
) -> Result<Arc<dyn BlockDevice>, StorageError> {
    if let Some(device) = &seams.device {
        return Ok(Arc::clone(device));
    }
    let path = device_path(uri, seams)?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|source| StorageError::WalFolder {
            path: folder.to_owned(),
            source,
        })?;
    }
    let device = open(path, device_config(uri, seams), seams).await?;
    shaped(uri, device, seams)
}

/// The fence of the log; `None` where nobody else can take it over.
pub(crate) fn wal_fence(
    uri: &WalUri,
    wal_id: u64,
    seams: &Seams,
) -> Result<Option<Arc<dyn LogFence>>, StorageError> {
    if seams.device.is_some() {
        return Ok(None);
    }
    let path = device_path(uri, seams)?;
    let default = || path.is_file().then_some(WalFence::Page);
    let Some(fence) = uri.fence.or_else(default) else {
        return Ok(None);
    };
    fence_of((fence, &path), wal_id, seams).map(Some)
}

/// Other brokers have to be able to take the log over. Nothing is on a block device but the log, so there is no fence that
/// could be the default.
pub(crate) fn require_fence(uri: &WalUri, seams: &Seams) -> Result<(), StorageError> {
    if seams.device.is_none() && uri.fence.is_none() {
        let path = device_path(uri, seams)?;
        if seams.devices.is_block_device(&path) {
            return Err(StorageError::NoFence(path));
        }
    }
    Ok(())
}

/// Has the log's volume attached to this instance, where detaching it is the fence: another broker may have taken the log
/// over since this one ran. As long as `is_adopted` says that one does, it is waited for.
pub(crate) async fn bring_own_volume(
    config: &BrokerConfig,
    seams: &Seams,
    is_adopted: impl AsyncFn() -> Result<bool, StorageError>,
) -> Result<(), StorageError> {
    let uri = &config.storage.wal;
    let (Some(WalFence::Detach), Some(volume), None) = (uri.fence, &uri.volume, &seams.device)
    else {
        return Ok(());
    };
    let Seams { clock, random, .. } = seams;
    let mover = seams.devices.mover(clock.clone(), random.clone()).await?;
    let rack = config.rack.clone().unwrap_or_default();
    if !mover.instance().is_in(&rack) {
        let zone = mover.instance().zone.clone();
        return Err(StorageError::Zone { rack, zone });
    }
    let started = clock.now();
    loop {
        let since = (!is_adopted().await?).then_some(started);
        match mover.step(volume, since).await {
            Ok(Step::Here) => break,
            Ok(Step::Attaching | Step::Moving) => {}
            Ok(Step::Elsewhere) => {
                tracing::warn!(%volume, "waiting for the broker that is taking over the log");
            }
            Err(error) if error.is_transient() => {
                tracing::warn!(%volume, %error, "waiting for EC2");
            }
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(mover.pace().look).await;
    }
    wait_for_device(uri, seams).await.map(drop)
}

/// Makes the device slow where that is asked for, and says so: nobody should run like this unawares.
fn shaped(
    uri: &WalUri,
    device: Arc<dyn BlockDevice>,
    seams: &Seams,
) -> Result<Arc<dyn BlockDevice>, StorageError> {
    let Some(shape) = uri.shape else {
        return Ok(device);
    };
    tracing::warn!(
        ?shape,
        "FOR MEASUREMENTS ONLY: the write-ahead log's device is slowed down; remove the shape_* \
         parameters from s3.wal.path for any other use"
    );
    match ShapedDevice::new(device, shape, seams.clock.clone(), &seams.tasks) {
        Ok(device) => Ok(Arc::new(device)),
        Err(source) => Err(StorageError::Shape(source)),
    }
}
