//! The device of a volume. The name that the volume was attached under is not that of its device on a Nitro instance, and
//! `/dev/nvme1n1` is another volume after the next attachment. The serial number of the NVMe controller is the volume's id.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::VolumeId;

/// Where a system has its devices.
#[derive(Debug, Clone)]
pub struct DeviceFolders {
    /// A folder with an entry for each block device.
    pub block: PathBuf,
    /// Where the devices themselves are.
    pub devices: PathBuf,
}

impl Default for DeviceFolders {
    fn default() -> Self {
        Self {
            block: "/sys/class/block".into(),
            devices: "/dev".into(),
        }
    }
}

/// The device of `volume`, once it has appeared. Partitions have no serial number of their own, so the whole disk is found.
///
/// # Errors
/// The folder of block devices cannot be read.
pub fn find_device(folders: &DeviceFolders, volume: &VolumeId) -> io::Result<Option<PathBuf>> {
    let serial = volume.serial();
    for entry in fs::read_dir(&folders.block)? {
        let entry = entry?;
        // Devices go while they are looked at.
        let Ok(found) = fs::read_to_string(entry.path().join("device/serial")) else {
            continue;
        };
        let device = folders.devices.join(entry.file_name());
        // The entry may be there before udev has made the device, or for a moment after it has gone.
        if found.trim() == serial && is_there(&device) {
            return Ok(Some(device));
        }
    }
    Ok(None)
}

fn is_there(device: &Path) -> bool {
    device.exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_by_its_serial_number_once_it_is_there() {
        let root = tempfile::tempdir().expect("a folder");
        let folders = DeviceFolders {
            block: root.path().join("block"),
            devices: root.path().join("dev"),
        };
        fs::create_dir_all(&folders.devices).expect("creates");
        let add = |name: &str, serial: Option<&str>| {
            let device = folders.block.join(name).join("device");
            fs::create_dir_all(&device).expect("creates");
            if let Some(serial) = serial {
                fs::write(device.join("serial"), serial).expect("writes");
            }
        };
        add("nvme0n1", Some("vol00000000000000000\n"));
        add("nvme0n1p1", None);
        add("loop0", None);
        let volume = "vol-0123456789abcdef0".parse().expect("legal");
        let find = || find_device(&folders, &volume).expect("reads");
        assert_eq!(find(), None);
        // Padded with blanks, as NVMe has it.
        add("nvme7n1", Some("vol0123456789abcdef0 \n"));
        assert_eq!(find(), None, "its node is missing yet");
        let device = folders.devices.join("nvme7n1");
        fs::write(&device, []).expect("writes");
        assert_eq!(find(), Some(device));
    }
}
