//! What this machine has: its devices, and EC2 where it is an instance.

use std::{
    fmt::Debug,
    io,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use millrace_ec2::{
    DeviceFolders, Ec2, Ec2Endpoints, InstanceError, MovePace, VolumeId, VolumeMover, find_device,
};
use millrace_time::{SharedClock, SharedRandom};
use millrace_wal::device::{
    BlockDevice, DeviceConfig, DeviceError, Reservations, open_device, open_reservations,
};
use tokio::sync::OnceCell;

/// The devices that logs are on, as this machine has them.
pub trait LogDevices: Debug + Send + Sync + 'static {
    /// Opens a device, or the file at the path, which is created where it is missing. Blocks.
    ///
    /// # Errors
    /// As [`open_device`].
    fn open(&self, path: &Path, config: &DeviceConfig)
    -> Result<Arc<dyn BlockDevice>, DeviceError>;

    /// Whether a block device is at the path, and no file.
    fn is_block_device(&self, path: &Path) -> bool;

    /// The reservations of a device.
    ///
    /// # Errors
    /// As [`open_reservations`].
    fn reservations(&self, path: &Path) -> io::Result<Arc<dyn Reservations>>;

    /// The device of a volume; `None` where none has appeared.
    ///
    /// # Errors
    /// The system does not list its devices.
    fn find(&self, volume: &VolumeId) -> io::Result<Option<PathBuf>>;

    /// Moves volumes to this instance.
    fn mover(
        &self,
        clock: SharedClock,
        random: SharedRandom,
    ) -> BoxFuture<'_, Result<VolumeMover, InstanceError>>;
}

/// This machine. EC2 is asked for the first time when a volume is to be moved.
#[derive(Debug, Default)]
pub(crate) struct ThisHost {
    folders: DeviceFolders,
    mover: OnceCell<VolumeMover>,
}

impl LogDevices for ThisHost {
    fn open(
        &self,
        path: &Path,
        config: &DeviceConfig,
    ) -> Result<Arc<dyn BlockDevice>, DeviceError> {
        open_device(path, config)
    }

    fn is_block_device(&self, path: &Path) -> bool {
        let found = path.metadata();
        found.is_ok_and(|found| found.file_type().is_block_device())
    }

    fn reservations(&self, path: &Path) -> io::Result<Arc<dyn Reservations>> {
        open_reservations(path)
    }

    fn find(&self, volume: &VolumeId) -> io::Result<Option<PathBuf>> {
        find_device(&self.folders, volume)
    }

    fn mover(
        &self,
        clock: SharedClock,
        random: SharedRandom,
    ) -> BoxFuture<'_, Result<VolumeMover, InstanceError>> {
        let reach = || async {
            let endpoints = Ec2Endpoints::from_environment();
            let (ec2, instance) = Ec2::of_this_instance(&endpoints).await?;
            let (volumes, pace) = (Arc::new(ec2), MovePace::default());
            Ok(VolumeMover::new(volumes, instance, (clock, random), pace))
        };
        async { self.mover.get_or_try_init(reach).await.cloned() }.boxed()
    }
}
