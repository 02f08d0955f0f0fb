//! A decorator that makes a fast device behave like a slower one, for measurements.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use millrace_time::SharedClock;
use parking_lot::Mutex;

use super::{BlockDevice, DeviceFuture};
use crate::{AlignedBuf, pacer::Pacer};

/// How slow the device is made.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// No durable write is answered sooner than this after its call.
    pub write_latency: Duration,
    /// Writes per second, counted as a cloud volume counts them; `None` does not limit.
    pub iops: Option<u32>,
    /// Bytes written per second; `None` does not limit.
    pub bytes_per_s: Option<u64>,
}

/// A device whose durable writes are delayed as a [`Shape`] says. Reads pass unchanged.
#[derive(Debug)]
pub struct ShapedDevice {
    inner: Arc<dyn BlockDevice>,
    latency: Duration,
    pacer: Mutex<Pacer>,
    clock: SharedClock,
}

impl ShapedDevice {
    /// Slows `inner` down.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>, shape: Shape, clock: SharedClock) -> Self {
        let pacer = Mutex::new(Pacer::new(shape.iops, shape.bytes_per_s));
        Self {
            inner,
            latency: shape.write_latency,
            pacer,
            clock,
        }
    }
}

impl BlockDevice for ShapedDevice {
    fn capacity(&self) -> u64 {
        self.inner.capacity()
    }

    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }

    fn write(&self, offset: u64, data: AlignedBuf) -> DeviceFuture<()> {
        let now = self.clock.now();
        let turn = self.pacer.lock().charge(now, data.len() as u64);
        let earliest = turn + self.latency;
        let write = self.inner.write(offset, data);
        let clock = Arc::clone(&self.clock);
        async move {
            let result = write.await;
            tokio::time::sleep(earliest.saturating_sub(clock.now())).await;
            result
        }
        .boxed()
    }

    fn read(&self, offset: u64, len: usize) -> DeviceFuture<AlignedBuf> {
        self.inner.read(offset, len)
    }

    fn sync(&self) -> DeviceFuture<()> {
        self.inner.sync()
    }
}

#[cfg(test)]
mod tests {
    use millrace_time::SystemClock;

    use super::*;
    use crate::{BLOCK_BYTES, device::threads::ThreadPoolDevice};

    #[tokio::test]
    async fn a_write_takes_at_least_its_latency() {
        let dir = tempfile::tempdir().expect("a folder");
        let config = super::super::DeviceConfig::new(1 << 20);
        let file = super::super::file::BlockFile::open(&dir.path().join("wal"), &config);
        let inner = ThreadPoolDevice::new(Arc::new(file.expect("opens")), 2).expect("starts");
        let shape = Shape {
            write_latency: Duration::from_millis(20),
            iops: None,
            bytes_per_s: None,
        };
        let clock = SystemClock::shared();
        let device = ShapedDevice::new(Arc::new(inner), shape, Arc::clone(&clock));
        let start = clock.now();
        let buf = AlignedBuf::zeroed(BLOCK_BYTES as usize);
        device.write(0, buf).await.expect("writes");
        assert!(clock.now() - start >= Duration::from_millis(20));
    }
}
