//! A request in flight, as the reads that want its blocks see it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use tokio::sync::Notify;

use crate::queue::Urgency;

/// A request under way. All but `roused` changes under the state's lock only.
#[derive(Debug)]
pub(crate) struct InFlight {
    is_miss: AtomicBool,
    /// It will be sent in any case: it has its share of the network, or a read waits for it.
    is_admitted: AtomicBool,
    /// Before that: blocks that it is to bring.
    blocks: AtomicUsize,
    /// Told when somebody waits for a prefetch, and when nobody wants any of it.
    pub(crate) roused: Notify,
}

impl InFlight {
    pub(crate) fn new(urgency: Urgency, blocks: usize) -> Arc<Self> {
        let is_miss = urgency == Urgency::Miss;
        Arc::new(Self {
            is_miss: AtomicBool::new(is_miss),
            is_admitted: AtomicBool::new(is_miss),
            blocks: AtomicUsize::new(blocks),
            roused: Notify::new(),
        })
    }

    /// Somebody waits for it; whether nobody did so before.
    pub(crate) fn raise(&self) -> bool {
        let is_news = !self.is_miss.swap(true, Ordering::Relaxed);
        if is_news {
            self.roused.notify_one();
        }
        is_news
    }

    /// Whether somebody waits, now.
    pub(crate) fn urgency(&self) -> Urgency {
        if self.is_miss.load(Ordering::Relaxed) {
            Urgency::Miss
        } else {
            Urgency::Prefetch
        }
    }

    /// It will be sent with the blocks that it has now.
    pub(crate) fn admit(&self) {
        self.is_admitted.store(true, Ordering::Relaxed);
    }

    /// Whether its blocks come for certain. As long as they do not, each may be taken out of it.
    pub(crate) fn is_admitted(&self) -> bool {
        self.is_admitted.load(Ordering::Relaxed)
    }

    /// A block is taken out of it.
    pub(crate) fn lose_one(&self) {
        if self.blocks.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.roused.notify_one();
        }
    }
}
