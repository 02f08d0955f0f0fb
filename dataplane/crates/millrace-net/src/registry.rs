//! The connections that exist, and the sweep that closes those on which nothing moves.
//!
//! A connection has no timer of its own: it stamps an atomic when bytes move, and one sweeper looks
//! at all stamps now and then. So an idle connection costs no timer, and a busy one no lock.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::config::FRAME_STALL_MAX;

/// What the sweep may know about a connection.
#[derive(Debug)]
pub(crate) struct Pulse {
    last_moved_ms: AtomicU64,
    /// A frame has begun and its rest has not arrived.
    pub(crate) inside_frame: AtomicBool,
    /// The client does not take its responses.
    pub(crate) write_blocked: AtomicBool,
    /// Requests whose response has not been written.
    pub(crate) in_flight: AtomicUsize,
    /// Ends reading; what is in flight goes on.
    pub(crate) stop: CancellationToken,
    /// Ends everything at once.
    pub(crate) kill: CancellationToken,
    /// Why the broker gave the connection up.
    verdict: Mutex<Option<&'static str>>,
}

impl Pulse {
    pub(crate) fn moved(&self, clock: &SharedClock) {
        self.last_moved_ms
            .store(millis(clock.now()), Ordering::Relaxed);
    }

    /// Records why the broker gives the connection up; the first reason stays.
    pub(crate) fn condemn(&self, verdict: &'static str) {
        self.verdict.lock().get_or_insert(verdict);
    }

    /// Why the broker gave the connection up, if it did.
    pub(crate) fn verdict(&self) -> Option<&'static str> {
        *self.verdict.lock()
    }

    /// Why the connection should be closed at `now`, if it should.
    fn judge(&self, now: Duration, idle_max: Duration) -> Option<&'static str> {
        let last = Duration::from_millis(self.last_moved_ms.load(Ordering::Relaxed));
        let still = now.saturating_sub(last);
        if self.write_blocked.load(Ordering::Relaxed) {
            return (still > idle_max).then_some("slow_reader");
        }
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            return None;
        }
        if still > idle_max {
            return Some("idle");
        }
        let stalled = self.inside_frame.load(Ordering::Relaxed) && still > FRAME_STALL_MAX;
        stalled.then_some("stalled_frame")
    }
}

/// The connections of one server.
#[derive(Debug)]
pub(crate) struct Registry {
    pulses: Mutex<HashMap<u64, Arc<Pulse>>>,
    pub(crate) stop: CancellationToken,
    pub(crate) kill: CancellationToken,
}

impl Registry {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            pulses: Mutex::default(),
            stop: CancellationToken::new(),
            kill: CancellationToken::new(),
        })
    }

    /// Connections now.
    pub(crate) fn len(&self) -> usize {
        self.pulses.lock().len()
    }

    /// Requests in flight now, over all connections.
    pub(crate) fn in_flight(&self) -> usize {
        self.pulses
            .lock()
            .values()
            .map(|pulse| pulse.in_flight.load(Ordering::Relaxed))
            .sum()
    }

    /// Enters a connection; it is listed until the entry is dropped.
    pub(crate) fn enter(self: &Arc<Self>, id: u64, clock: &SharedClock) -> Entry {
        let pulse = Arc::new(Pulse {
            last_moved_ms: AtomicU64::new(millis(clock.now())),
            inside_frame: AtomicBool::new(false),
            write_blocked: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            stop: self.stop.child_token(),
            kill: self.kill.child_token(),
            verdict: Mutex::new(None),
        });
        self.pulses.lock().insert(id, Arc::clone(&pulse));
        Entry {
            registry: Arc::clone(self),
            id,
            pulse,
        }
    }

    /// Closes every connection that has stood still for too long.
    pub(crate) fn sweep(&self, now: Duration, idle_max: Duration) {
        for pulse in self.pulses.lock().values() {
            if let Some(verdict) = pulse.judge(now, idle_max) {
                pulse.condemn(verdict);
                pulse.kill.cancel();
            }
        }
    }
}

/// A connection's place in the registry.
#[derive(Debug)]
pub(crate) struct Entry {
    registry: Arc<Registry>,
    id: u64,
    pub(crate) pulse: Arc<Pulse>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.registry.pulses.lock().remove(&self.id);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_time::ManualClock;

    const IDLE: Duration = Duration::from_secs(600);

    #[test]
    fn stillness_is_judged_by_what_is_waited_for() {
        let clock = ManualClock::shared();
        let shared: SharedClock = clock.clone();
        let entry = Registry::new().enter(1, &shared);
        let pulse = &entry.pulse;
        clock.advance(Duration::from_secs(61));
        assert_eq!(pulse.judge(shared.now(), IDLE), None);
        pulse.inside_frame.store(true, Ordering::Relaxed);
        assert_eq!(pulse.judge(shared.now(), IDLE), Some("stalled_frame"));
        clock.advance(IDLE);
        assert_eq!(pulse.judge(shared.now(), IDLE), Some("idle"));
        pulse.in_flight.store(1, Ordering::Relaxed);
        assert_eq!(
            pulse.judge(shared.now(), IDLE),
            None,
            "the broker is at work"
        );
        pulse.write_blocked.store(true, Ordering::Relaxed);
        assert_eq!(pulse.judge(shared.now(), IDLE), Some("slow_reader"));
        pulse.moved(&shared);
        assert_eq!(pulse.judge(shared.now(), IDLE), None);
    }

    #[test]
    fn an_entry_is_listed_for_its_life() {
        let shared: SharedClock = ManualClock::shared();
        let registry = Registry::new();
        let entry = registry.enter(1, &shared);
        assert_eq!(registry.len(), 1);
        drop(entry);
        assert_eq!(registry.len(), 0);
    }
}
