//! A way from one part of the simulation to another.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

/// Cut for as long as anything cuts it. A clone is the same link.
#[derive(Debug, Clone, Default)]
pub(crate) struct Link {
    cuts: Arc<AtomicU32>,
}

impl Link {
    pub(crate) fn cut(&self) {
        self.cuts.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn heal(&self) {
        self.cuts.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cuts.load(Ordering::Relaxed) > 0
    }
}
