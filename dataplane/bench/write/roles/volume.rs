//! The device under a role, opened as the broker opens its log.

use std::{error::Error, io, path::PathBuf, sync::Arc, time::Duration};

use millrace_time::SystemClock;
use millrace_wal::{
    BLOCK_BYTES,
    device::{BlockDevice, DeviceConfig, Shape, ShapedDevice, open_device},
};
use tokio::runtime::{Builder, Runtime};

use super::flags::Flags;

/// Writes under way at once, as the benchmark's broker is configured.
const DEPTH: usize = 32;

/// A device that is written from its start to its end, over and over.
#[derive(Debug)]
pub(super) struct Volume {
    device: Arc<dyn BlockDevice>,
    depth: usize,
    /// Where the next write goes.
    offset: u64,
    /// Collects what the kernel has completed, as the broker's runtime does. Outlives the device.
    _runtime: Runtime,
}

impl Volume {
    /// Takes `--file`, `--depth`, and what makes it slower: `--write-ms`, `--iops`,
    /// `--bandwidth`. The file is created with `capacity` bytes, in whole blocks.
    pub(super) fn of(flags: &mut Flags, capacity: u64) -> Result<Self, Box<dyn Error>> {
        let file: PathBuf = flags.required("file")?;
        let depth = flags.count("depth", DEPTH)?;
        let write_ms: Option<u64> = flags.optional("write-ms")?;
        let shape = Shape {
            write_latency: Duration::from_millis(write_ms.unwrap_or_default()),
            iops: flags.optional("iops")?,
            bytes_per_s: flags.optional("bandwidth")?,
        };
        let mut config = DeviceConfig::new(capacity.next_multiple_of(u64::from(BLOCK_BYTES)));
        config.depth = u32::try_from(depth)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_io()
            .build()?;
        let mut device = {
            let _entered = runtime.enter();
            open_device(&file, &config)?
        };
        if shape != Shape::default() {
            device = Arc::new(ShapedDevice::new(
                device,
                shape,
                SystemClock::shared(),
                &config.tasks,
            )?);
        }
        Ok(Self {
            device,
            depth,
            offset: 0,
            _runtime: runtime,
        })
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    pub(super) fn device(&self) -> &dyn BlockDevice {
        &*self.device
    }

    /// Where `bytes` are to be written, behind the write before where they fit.
    ///
    /// # Errors
    /// They do not fit at all.
    pub(super) fn place(&mut self, bytes: usize) -> io::Result<u64> {
        let (bytes, capacity) = (bytes as u64, self.device.capacity());
        if bytes > capacity {
            let why = format!("{bytes} bytes do not fit into a file of {capacity}");
            return Err(io::Error::other(why));
        }
        if self.offset + bytes > capacity {
            self.offset = 0;
        }
        let place = self.offset;
        self.offset += bytes;
        Ok(place)
    }
}
