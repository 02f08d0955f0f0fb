//! All open connections, and the sweep that closes idle ones.
//!
//! A connection has no timer: it stamps an atomic when bytes move, and one sweeper checks all stamps
//! periodically. So an idle connection costs no timer, and a busy one no lock.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use millrace_time::SharedClock;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::admission::Place;
use crate::config::{
    FRAME_AGE_MAX_WHEN_SHORT, FRAME_STALL_MAX, FRAME_STALL_MAX_WHEN_SHORT, HALF_OPEN_MAX,
    HANDSHAKE_MAX, UNREAD_MAX_WHEN_SHORT,
};

/// What the sweep may know about a connection.
#[derive(Debug)]
pub(crate) struct Pulse {
    last_moved_ms: AtomicU64,
    /// A frame has started and its rest has not arrived.
    inside_frame: AtomicBool,
    /// When it began.
    frame_began_ms: AtomicU64,
    /// It is not read because the broker has no memory for it: nothing of what it does or leaves
    /// undone is its client's fault.
    starved: AtomicBool,
    /// The client does not take its responses.
    pub(crate) write_blocked: AtomicBool,
    /// Requests whose response has not been written.
    pub(crate) in_flight: AtomicUsize,
    /// Ends reading; what is in flight goes on.
    pub(crate) stop: CancellationToken,
    /// Ends everything at once.
    pub(crate) kill: CancellationToken,
    /// The client has not finished its handshake or its authentication.
    half_open: AtomicBool,
    opened_ms: u64,
    /// Why the broker gave the connection up.
    verdict: Mutex<Option<&'static str>>,
}

impl Pulse {
    pub(crate) fn moved(&self, clock: &SharedClock) {
        self.last_moved_ms
            .store(millis(clock.now()), Ordering::Relaxed);
    }

    /// The next bytes belong to a frame that has started, or do not.
    pub(crate) fn enter_frame(&self, inside: bool, clock: &SharedClock) {
        if inside && !self.inside_frame.load(Ordering::Relaxed) {
            self.frame_began_ms
                .store(millis(clock.now()), Ordering::Relaxed);
        }
        self.inside_frame.store(inside, Ordering::Relaxed);
    }

    /// The frame has arrived whole.
    pub(crate) fn leave_frame(&self) {
        self.inside_frame.store(false, Ordering::Relaxed);
    }

    /// The connection waits for the broker's memory until the guard is dropped.
    pub(crate) fn starve<'a>(&'a self, clock: &'a SharedClock) -> Starved<'a> {
        self.starved.store(true, Ordering::Relaxed);
        Starved { pulse: self, clock }
    }

    /// Whether the client has not finished its handshake or its authentication.
    pub(crate) fn is_half_open(&self) -> bool {
        self.half_open.load(Ordering::Relaxed)
    }

    /// Gives the connection up and ends it.
    fn kill(&self, reason: &'static str) {
        self.give_up(reason);
        self.kill.cancel();
    }

    /// Records why the broker gives the connection up; the first reason stays.
    pub(crate) fn give_up(&self, reason: &'static str) {
        self.verdict.lock().get_or_insert(reason);
    }

    /// Why the broker gave the connection up, if it did.
    pub(crate) fn verdict(&self) -> Option<&'static str> {
        *self.verdict.lock()
    }

    /// Why the connection should be closed at `now`, if it should; `short` where others wait for the
    /// broker's memory.
    fn close_reason(&self, now: Duration, idle_max: Duration, short: bool) -> Option<&'static str> {
        let since =
            |at: &AtomicU64| now.saturating_sub(Duration::from_millis(at.load(Ordering::Relaxed)));
        let still = since(&self.last_moved_ms);
        let age = now.saturating_sub(Duration::from_millis(self.opened_ms));
        if self.is_half_open() && age > HANDSHAKE_MAX {
            return Some("handshake_timeout");
        }
        if self.write_blocked.load(Ordering::Relaxed) {
            let unread_max = if short {
                idle_max.min(UNREAD_MAX_WHEN_SHORT)
            } else {
                idle_max
            };
            if still > unread_max {
                return Some("slow_reader");
            }
            // It may still send, byte by byte, a frame that keeps memory from others.
        }
        if self.starved.load(Ordering::Relaxed) {
            return None;
        }
        if self.inside_frame.load(Ordering::Relaxed) {
            let stall_max = if short {
                FRAME_STALL_MAX_WHEN_SHORT
            } else {
                FRAME_STALL_MAX
            };
            if still > stall_max {
                return Some("stalled_frame");
            }
            if short && since(&self.frame_began_ms) > FRAME_AGE_MAX_WHEN_SHORT {
                return Some("slow_frame");
            }
        }
        let at_work = self.in_flight.load(Ordering::Relaxed) > 0;
        (!at_work && still > idle_max).then_some("idle")
    }
}

/// A connection that waits for the broker's memory.
pub(crate) struct Starved<'a> {
    pulse: &'a Pulse,
    clock: &'a SharedClock,
}

impl Drop for Starved<'_> {
    fn drop(&mut self) {
        // The client's time runs from here on: the broker did not listen before.
        if self.pulse.inside_frame.load(Ordering::Relaxed) {
            let now = millis(self.clock.now());
            self.pulse.frame_began_ms.store(now, Ordering::Relaxed);
        }
        self.pulse.moved(self.clock);
        self.pulse.starved.store(false, Ordering::Relaxed);
    }
}

/// The connections of one server.
#[derive(Debug)]
pub(crate) struct Registry {
    pulses: Mutex<HashMap<u64, Arc<Pulse>>>,
    /// Those that are half open, the oldest first.
    half_open: Mutex<BTreeMap<u64, Arc<Pulse>>>,
    pub(crate) stop: CancellationToken,
    pub(crate) kill: CancellationToken,
}

impl Registry {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            pulses: Mutex::default(),
            half_open: Mutex::default(),
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
            frame_began_ms: AtomicU64::new(0),
            starved: AtomicBool::new(false),
            write_blocked: AtomicBool::new(false),
            in_flight: AtomicUsize::new(0),
            half_open: AtomicBool::new(false),
            opened_ms: millis(clock.now()),
            stop: self.stop.child_token(),
            kill: self.kill.child_token(),
            verdict: Mutex::new(None),
        });
        self.pulses.lock().insert(id, Arc::clone(&pulse));
        Entry {
            registry: Arc::clone(self),
            id,
            pulse,
            place: None,
        }
    }

    /// Closes every connection that has stood still for too long.
    pub(crate) fn sweep(&self, now: Duration, idle_max: Duration, short: bool) {
        for pulse in self.pulses.lock().values() {
            if let Some(reason) = pulse.close_reason(now, idle_max, short) {
                pulse.kill(reason);
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
    /// Free again when the connection has gone.
    place: Option<Place>,
}

impl Entry {
    /// Keeps a connection's place for as long as it is listed.
    pub(crate) fn keep(&mut self, place: Place) {
        self.place = Some(place);
    }

    /// The client has to finish a handshake or its authentication first. Where there are too many such
    /// clients, the oldest loses its connection.
    pub(crate) fn begin_half_open(&self) {
        self.pulse.half_open.store(true, Ordering::Relaxed);
        let mut half_open = self.registry.half_open.lock();
        half_open.insert(self.id, Arc::clone(&self.pulse));
        if half_open.len() > HALF_OPEN_MAX
            && let Some((_, oldest)) = half_open.pop_first()
        {
            oldest.kill("too_many_half_open");
        }
    }

    /// The client has finished.
    pub(crate) fn end_half_open(&self) {
        self.pulse.half_open.store(false, Ordering::Relaxed);
        self.registry.half_open.lock().remove(&self.id);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        // Whoever sees that the connection has gone finds its place free.
        drop(self.place.take());
        if self.pulse.is_half_open() {
            self.end_half_open();
        }
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
    fn stillness_depends_on_what_is_waited_for() {
        let clock = ManualClock::shared();
        let shared: SharedClock = clock.clone();
        let entry = Registry::new().enter(1, &shared);
        let pulse = &entry.pulse;
        clock.advance(Duration::from_secs(61));
        assert_eq!(pulse.close_reason(shared.now(), IDLE, true), None);
        pulse.enter_frame(true, &shared);
        assert_eq!(
            pulse.close_reason(shared.now(), IDLE, false),
            Some("stalled_frame")
        );
        pulse.leave_frame();
        clock.advance(IDLE);
        assert_eq!(pulse.close_reason(shared.now(), IDLE, false), Some("idle"));
        pulse.in_flight.store(1, Ordering::Relaxed);
        assert_eq!(
            pulse.close_reason(shared.now(), IDLE, true),
            None,
            "the broker is at work"
        );
        pulse.write_blocked.store(true, Ordering::Relaxed);
        assert_eq!(
            pulse.close_reason(shared.now(), IDLE, false),
            Some("slow_reader")
        );
        pulse.moved(&shared);
        assert_eq!(pulse.close_reason(shared.now(), IDLE, false), None);
        clock.advance(Duration::from_secs(6));
        assert_eq!(pulse.close_reason(shared.now(), IDLE, false), None);
        assert_eq!(
            pulse.close_reason(shared.now(), IDLE, true),
            Some("slow_reader"),
            "others wait for the memory of its answers"
        );
    }

    #[test]
    fn a_frame_has_less_time_while_others_wait_for_its_memory() {
        let clock = ManualClock::shared();
        let shared: SharedClock = clock.clone();
        let entry = Registry::new().enter(1, &shared);
        let pulse = &entry.pulse;
        let close_reason = |short| pulse.close_reason(shared.now(), IDLE, short);
        pulse.enter_frame(true, &shared);
        clock.advance(Duration::from_secs(6));
        assert_eq!(
            (close_reason(false), close_reason(true)),
            (None, Some("stalled_frame"))
        );
        for _ in 0..14 {
            // A byte now and then.
            pulse.moved(&shared);
            pulse.enter_frame(true, &shared);
            assert_eq!(close_reason(true), None);
            clock.advance(Duration::from_secs(4));
        }
        assert_eq!(
            (close_reason(false), close_reason(true)),
            (None, Some("slow_frame"))
        );
    }

    #[test]
    fn a_frame_has_no_more_time_where_its_client_does_not_read() {
        let clock = ManualClock::shared();
        let shared: SharedClock = clock.clone();
        let entry = Registry::new().enter(1, &shared);
        let pulse = &entry.pulse;
        pulse.in_flight.store(1, Ordering::Relaxed);
        pulse.write_blocked.store(true, Ordering::Relaxed);
        pulse.enter_frame(true, &shared);
        for _ in 0..16 {
            clock.advance(Duration::from_secs(4));
            // A byte now and then.
            pulse.moved(&shared);
        }
        assert_eq!(pulse.close_reason(shared.now(), IDLE, false), None);
        assert_eq!(
            pulse.close_reason(shared.now(), IDLE, true),
            Some("slow_frame")
        );
    }

    #[test]
    fn a_connection_that_the_broker_does_not_read_is_not_blamed() {
        let clock = ManualClock::shared();
        let shared: SharedClock = clock.clone();
        let entry = Registry::new().enter(1, &shared);
        let pulse = &entry.pulse;
        pulse.enter_frame(true, &shared);
        let starved = pulse.starve(&shared);
        clock.advance(IDLE * 2);
        assert_eq!(pulse.close_reason(shared.now(), IDLE, true), None);
        drop(starved);
        assert_eq!(pulse.close_reason(shared.now(), IDLE, true), None);
        clock.advance(Duration::from_secs(6));
        assert_eq!(
            pulse.close_reason(shared.now(), IDLE, true),
            Some("stalled_frame"),
            "its time runs again"
        );
    }

    #[test]
    fn a_handshake_has_a_deadline_and_the_oldest_makes_room() {
        let clock = ManualClock::shared();
        let shared: SharedClock = clock.clone();
        let registry = Registry::new();
        let entries: Vec<Entry> = (0..=HALF_OPEN_MAX as u64)
            .map(|id| {
                let entry = registry.enter(id, &shared);
                entry.begin_half_open();
                entry
            })
            .collect();
        let verdict = |at: usize| entries[at].pulse.verdict();
        assert_eq!((verdict(0), verdict(1)), (Some("too_many_half_open"), None));
        assert!(entries[0].pulse.kill.is_cancelled());
        entries[1].end_half_open();
        clock.advance(HANDSHAKE_MAX + Duration::from_millis(1));
        registry.sweep(shared.now(), IDLE, false);
        assert_eq!((verdict(1), verdict(2)), (None, Some("handshake_timeout")));
        drop(entries);
        assert!(registry.half_open.lock().is_empty());
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
