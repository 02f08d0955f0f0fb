//! Settings of the log.

use std::time::Duration;

use millrace_model::limits::REQUEST_BYTES_MAX;
use millrace_tasks::Supervisor;

use crate::{format::BLOCK, ring::Ring};

/// What a record may carry besides a batch as large as a whole request: the stream layer's header.
const RECORD_SPARE_BYTES: usize = 64 * 1024;

/// Settings of a log.
#[derive(Debug, Clone)]
pub struct WalConfig {
    /// A random number, used once: a device is formatted with it, so that what an earlier log left
    /// on the same device can never be taken for a record of this one.
    pub identity: u64,
    /// Writes in flight at once (`iodepth`).
    pub depth: u32,
    /// A group commit stops growing at this many bytes: 1 MiB reaches a disk's bandwidth with a
    /// few writes in flight. A larger record is written alone.
    pub chunk_bytes_max: u32,
    /// The largest payload, in bytes. A quarter of the ring is the bound where that is less.
    pub record_bytes_max: usize,
    /// Payload bytes that are reserved or not yet durable; further reservations wait.
    pub pending_bytes_max: u64,
    /// Cap on write operations per second, counted as a cloud volume counts them.
    pub iops: Option<u32>,
    /// Cap on bytes written per second.
    pub bytes_per_s: Option<u64>,
    /// How long a reservation waits for room before it is refused.
    pub reserve_wait_max: Duration,
    /// How long a trim may stay in memory while room is plenty: gathers many into one header write.
    pub trim_delay: Duration,
    /// Supervises the log's tasks; one of its own by default.
    pub tasks: Supervisor,
}

impl WalConfig {
    /// The defaults. `identity` is a random number; see the field.
    #[must_use]
    pub fn new(identity: u64) -> Self {
        Self {
            identity,
            depth: 8,
            chunk_bytes_max: 1024 * 1024,
            record_bytes_max: REQUEST_BYTES_MAX + RECORD_SPARE_BYTES,
            pending_bytes_max: 64 * 1024 * 1024,
            iops: None,
            bytes_per_s: None,
            reserve_wait_max: Duration::from_secs(30),
            trim_delay: Duration::from_millis(100),
            tasks: Supervisor::new(),
        }
    }
}

/// The settings as they fit one device.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) depth: usize,
    pub(crate) chunk_bytes: u64,
    pub(crate) record_bytes: usize,
    pub(crate) pending_bytes: u64,
    /// The window that a session starts with: see [`crate::format::header::Header::window`].
    pub(crate) window: u64,
    /// The window that the largest record needs, and a little beyond it.
    pub(crate) window_max: u64,
}

impl Limits {
    pub(crate) fn of(config: &WalConfig, ring: Ring) -> Self {
        let depth = config.depth.max(1) as usize;
        // Leaves room for a header, tags and padding, so a quarter of the ring holds the record.
        let largest = usize::try_from(ring.bytes() / 4 / 64 * 60).unwrap_or(usize::MAX);
        let record_bytes = config.record_bytes_max.min(largest);
        let chunk_bytes = u64::from(config.chunk_bytes_max)
            .max(BLOCK)
            .min(ring.bytes() / 8);
        let all_slots = (depth as u64 * chunk_bytes).min(ring.bytes() / 4);
        Self {
            depth,
            chunk_bytes,
            record_bytes,
            pending_bytes: config.pending_bytes_max,
            window: all_slots.max(chunk_bytes).next_multiple_of(BLOCK),
            window_max: ring.bytes() / 2 / BLOCK * BLOCK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::chunk::record_footprint;

    #[test]
    fn limits_fit_every_ring() {
        for blocks in [64, 65, 100, 1_000, 100_000, 5_000_000] {
            let ring = Ring::of(crate::format::RING_START + blocks * BLOCK).expect("large enough");
            let limits = Limits::of(&WalConfig::new(1), ring);
            assert!(limits.window <= limits.window_max, "{limits:?}");
            let largest = record_footprint(limits.record_bytes as u64);
            assert!(largest <= limits.window_max, "{limits:?}");
            assert!(limits.chunk_bytes <= limits.window, "{limits:?}");
            assert!(limits.record_bytes > 0);
        }
    }
}
