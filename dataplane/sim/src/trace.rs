//! What happened, in order. Two runs of one seed have the same trace, byte for byte.

use std::{fmt, sync::Arc};

use millrace_time::SharedClock;
use parking_lot::Mutex;

/// The offset basis and the prime of FNV-1a with 64 bits.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// A trace. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Trace {
    clock: SharedClock,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    hash: u64,
    lines: Vec<String>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").finish_non_exhaustive()
    }
}

impl Trace {
    pub(crate) fn new(clock: SharedClock) -> Self {
        let inner = Inner {
            hash: FNV_BASIS,
            lines: Vec::new(),
        };
        Self {
            clock,
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        let line = format!("{:>9.3} {}", self.clock.now().as_secs_f64(), line());
        let mut inner = self.inner.lock();
        for byte in line.bytes() {
            inner.hash = (inner.hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
        }
        inner.lines.push(line);
    }

    /// The lines so far, and their hash.
    pub(crate) fn take(&self) -> (Vec<String>, u64) {
        let mut inner = self.inner.lock();
        (std::mem::take(&mut inner.lines), inner.hash)
    }
}
