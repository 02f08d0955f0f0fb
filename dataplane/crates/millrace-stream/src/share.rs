//! Which part of a cluster's background work falls to this store.

use std::sync::atomic::{AtomicU64, Ordering};

/// One of `of` equal parts: objects are compacted and deleted, and streams compacted, by the store whose part they are in.
/// While brokers come and go two stores may take something for theirs; then one of them finds it done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Which part, from 0.
    pub index: u32,
    /// How many parts there are; never 0.
    pub of: u32,
}

impl Share {
    /// That of a broker that is alone.
    pub const ALL: Self = Self { index: 0, of: 1 };

    /// Whether an object or stream with this id is in the part.
    #[must_use]
    pub fn has(self, id: u64) -> bool {
        id % u64::from(self.of.max(1)) == u64::from(self.index)
    }
}

/// A share that changes.
#[derive(Debug)]
pub(crate) struct LiveShare(AtomicU64);

impl LiveShare {
    pub(crate) fn get(&self) -> Share {
        let both = self.0.load(Ordering::Relaxed);
        let part = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        Share {
            index: part(both >> 32),
            of: part(both & u64::from(u32::MAX)),
        }
    }

    pub(crate) fn set(&self, share: Share) {
        let both = u64::from(share.index) << 32 | u64::from(share.of);
        self.0.store(both, Ordering::Relaxed);
    }
}

impl Default for LiveShare {
    fn default() -> Self {
        let share = Self(AtomicU64::new(0));
        share.set(Share::ALL);
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_is_in_one_part() {
        for of in 1..=9 {
            for id in 0..100 {
                let parts = (0..of).filter(|&index| Share { index, of }.has(id));
                assert_eq!(parts.count(), 1);
            }
        }
    }

    #[test]
    fn a_share_is_kept_whole() {
        let live = LiveShare::default();
        assert_eq!(live.get(), Share::ALL);
        let share = Share { index: 7, of: 9 };
        live.set(share);
        assert_eq!(live.get(), share);
    }
}
