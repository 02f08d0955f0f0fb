//! The fence of a device that is attached to one host at a time.

use std::{io, path::PathBuf};

use millrace_model::NodeEpoch;
use rustix::io::Errno;

use super::{FenceError, LogFence};

/// Whoever takes the log over detaches the device from its former owner's host, before it opens the log. So there is nothing
/// to acquire or to check: whoever can write is the owner. The device must be locked by the process that uses it, because two
/// processes of one host would share the attachment.
#[derive(Debug)]
pub struct SingleAttachment {
    device: PathBuf,
}

impl SingleAttachment {
    /// The device at this path.
    #[must_use]
    pub fn of(device: PathBuf) -> Self {
        Self { device }
    }
}

impl LogFence for SingleAttachment {
    fn acquire(&self, _epoch: NodeEpoch) -> Result<(), FenceError> {
        Ok(())
    }

    fn check(&self, _epoch: NodeEpoch) -> Result<(), FenceError> {
        Ok(())
    }

    /// A device that was taken away answers with one of these, or with any I/O error while its node disappears.
    fn explain(&self, epoch: NodeEpoch, error: &io::Error) -> Option<FenceError> {
        let gone = [Errno::NODEV, Errno::NXIO].map(|gone| Some(gone.raw_os_error()));
        let is_gone = gone.contains(&error.raw_os_error()) || !self.device.exists();
        is_gone.then_some(FenceError::Detached { epoch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_gone_was_detached_and_one_that_fails_is_broken() {
        let device = tempfile::NamedTempFile::new().expect("a file");
        let fence = SingleAttachment::of(device.path().to_owned());
        let epoch = NodeEpoch(3);
        let broken = io::Error::from_raw_os_error(Errno::IO.raw_os_error());
        assert!(fence.explain(epoch, &broken).is_none());
        let gone = io::Error::from_raw_os_error(Errno::NODEV.raw_os_error());
        let explained = fence.explain(epoch, &gone).expect("gone").to_string();
        assert!(explained.contains("epoch 3"), "{explained}");
        device.close().expect("removes it");
        assert!(fence.explain(epoch, &broken).is_some());
    }
}
