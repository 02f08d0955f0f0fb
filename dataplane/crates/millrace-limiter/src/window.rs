//! Limits the bytes of reads in flight.
//!
//! A rate alone does not bound a queue. Requests that are granted one by one still share the network
//! if each takes longer than the next one waits, and what is urgent shares it with all of them. So no
//! more are in flight than the rate needs. How many that is depends on the latency of whoever answers,
//! and is found out: the window shrinks with each byte that is sent for, and grows with each that
//! could have been granted while it was closed, beyond what may be saved up. So it settles where one
//! byte in [`LOST_PART`] is lost. Where less is lost, because the rate needs little, it closes down to
//! one request.

use std::time::Duration;

/// The widest, in time at the rate. Reads of an object store take 20 to 200 ms each. A request that is
/// larger and is not answered holds back the others until its deadline.
const SIZE_MAX: Duration = Duration::from_secs(1);

/// Where it begins.
const SIZE_AT_START: Duration = Duration::from_millis(50);

/// One byte in so many is lost where the window is what limits: as many as the headroom.
const LOST_PART: u64 = 20;

/// It grows by one in so many bytes lost. If it were more, there would be a queue whenever whoever
/// answers has stopped for a moment.
const GROWTH_PART: u64 = 4;

/// What may be in flight; one request always may.
#[derive(Debug)]
pub(crate) struct Window {
    /// Bytes per second; none is without bound, and then the window is always open.
    rate: Option<u64>,
    size: u64,
    /// Bytes that were granted and have not arrived.
    in_flight: u64,
}

impl Window {
    pub(crate) fn new(rate: Option<u64>) -> Self {
        let mut window = Self {
            rate,
            size: 0,
            in_flight: 0,
        };
        window.size = window.in_time(SIZE_AT_START);
        window
    }

    /// Changes the rate. What is in flight stays.
    pub(crate) fn set_rate(&mut self, rate: Option<u64>) {
        if self.rate != rate {
            *self = Self {
                in_flight: self.in_flight,
                ..Self::new(rate)
            };
        }
    }

    /// Whether more may be sent for. It may be larger than the room that is left.
    pub(crate) const fn is_open(&self) -> bool {
        self.rate.is_none() || self.in_flight == 0 || self.in_flight < self.size
    }

    /// So many bytes are in flight from now on.
    pub(crate) fn begin(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_add(bytes);
        self.size = self.size.saturating_sub(bytes / GROWTH_PART / LOST_PART);
    }

    /// So many bytes are in flight no more.
    pub(crate) fn end(&mut self, bytes: u64) {
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// It was closed, and so many more bytes could have been granted.
    pub(crate) fn grow(&mut self, lost: u64) {
        let wider = self.size.saturating_add(lost / GROWTH_PART);
        self.size = wider.min(self.in_time(SIZE_MAX));
    }

    #[cfg(test)]
    pub(crate) const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    fn in_time(&self, time: Duration) -> u64 {
        let rate = u128::from(self.rate.unwrap_or(0));
        let bytes = rate * time.as_millis() / 1_000;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_is_always_allowed_and_what_is_without_bound_never_waits() {
        let mut window = Window::new(Some(1_000));
        window.begin(100_000);
        assert!(!window.is_open());
        window.end(100_000);
        assert!(window.is_open());
        let mut unbounded = Window::new(None);
        unbounded.begin(u64::MAX);
        assert!(unbounded.is_open());
    }

    #[test]
    fn it_keeps_its_size_where_one_byte_in_twenty_is_lost() {
        let mut window = Window::new(Some(1_000_000));
        assert_eq!(window.size, 50_000);
        window.begin(20_000);
        assert_eq!(window.size, 50_000 - 250);
        window.grow(1_000);
        assert_eq!(window.size, 50_000);
        window.grow(u64::MAX);
        assert_eq!(window.size, 1_000_000);
        window.begin(u64::MAX);
        assert_eq!(window.size, 0);
    }

    #[test]
    fn a_new_rate_keeps_what_is_in_flight() {
        let mut window = Window::new(None);
        window.begin(500);
        window.set_rate(Some(1_000));
        assert!(!window.is_open(), "50 bytes wide");
        window.end(500);
        assert!(window.is_open());
    }
}
