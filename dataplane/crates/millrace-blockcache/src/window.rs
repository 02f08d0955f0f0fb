//! How far a reader prefetches.

use std::time::Duration;

/// Where a window begins: one block of the default size, so that a reader that reads on finds the
/// next one in memory.
const FIRST_BYTES: u64 = 512 * 1024;

/// Up to here a miss doubles the window, since then a window is one request and a larger request
/// costs nothing. Beyond, each miss adds as much again: more requests at the same time.
const DOUBLES_BELOW_BYTES: u64 = 4 << 20;

/// A block that lay in memory for longer than this before it was read was fetched too early: the
/// window holds more than the reader reads in that time.
const WAITS_LONG: Duration = Duration::from_secs(5);

/// After a prefetched block was evicted unread, nothing is prefetched for so long: by then the others
/// have had what they needed the room for.
const PAUSE: Duration = Duration::from_secs(2);

/// The window of one reader. It grows when the reader catches up with it, that is when a read has to
/// wait for a block that ought to have been there, and shrinks when what it fetched lies about or
/// was fetched in vain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    bytes: u64,
    paused_until: Duration,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self {
            bytes: FIRST_BYTES,
            paused_until: Duration::ZERO,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_paused(&self, now: Duration) -> bool {
        now < self.paused_until
    }

    /// A read inside the window had to wait.
    pub(crate) fn missed(&mut self, max_bytes: u64) {
        let more = self.bytes.min(DOUBLES_BELOW_BYTES);
        self.bytes = (self.bytes + more).min(max_bytes.max(FIRST_BYTES));
    }

    /// A prefetched block was read, so long after it had come.
    pub(crate) fn waited(&mut self, waited: Duration) {
        if waited > WAITS_LONG {
            self.halve();
        }
    }

    /// A prefetched block had to go before it was read.
    pub(crate) fn evicted(&mut self, now: Duration) {
        if !self.is_paused(now) {
            self.halve();
        }
        self.paused_until = now + PAUSE;
    }

    fn halve(&mut self) {
        self.bytes = (self.bytes / 2).max(FIRST_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_then_adds_up_to_its_bound() {
        let mut window = Window::new();
        let mut sizes = Vec::new();
        for _ in 0..8 {
            window.missed(13 << 20);
            sizes.push(window.bytes() >> 20);
        }
        assert_eq!(sizes, [1, 2, 4, 8, 12, 13, 13, 13]);
        window.missed(0);
        assert_eq!(window.bytes(), FIRST_BYTES);
    }

    #[test]
    fn it_shrinks_once_for_one_eviction_and_pauses() {
        let mut window = Window::new();
        for _ in 0..4 {
            window.missed(8 << 20);
        }
        let now = Duration::from_secs(100);
        window.evicted(now);
        window.evicted(now);
        assert_eq!(window.bytes(), 4 << 20);
        assert!(window.is_paused(now) && !window.is_paused(now + PAUSE));
        window.waited(WAITS_LONG);
        assert_eq!(window.bytes(), 4 << 20);
        for _ in 0..9 {
            window.waited(WAITS_LONG + Duration::from_millis(1));
        }
        assert_eq!(window.bytes(), FIRST_BYTES);
    }
}
