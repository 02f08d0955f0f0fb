//! The use of many clients, each measured by itself.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;

use super::measure::{Measure, Windows};

/// The most users and clients that have a meter of their own, for each kind of quota. All others share one:
/// clients choose their names, and these must not fill the broker's memory.
pub const METERS_MAX: usize = 10_000;

/// What each client used. Those who have used nothing lately are forgotten.
#[derive(Debug)]
pub struct Meters<K, M> {
    windows: Windows,
    held: Mutex<Held<K, M>>,
}

#[derive(Debug)]
struct Held<K, M> {
    meters: HashMap<K, M>,
    /// All who came when too many were known.
    others: Option<M>,
    /// When the idle ones were forgotten last.
    swept_at: Duration,
}

impl<K: Hash + Eq + Clone, M: Measure> Meters<K, M> {
    /// Nobody is known.
    #[must_use]
    pub fn new(windows: Windows) -> Self {
        let held = Held {
            meters: HashMap::new(),
            others: None,
            swept_at: Duration::ZERO,
        };
        Self {
            windows,
            held: Mutex::new(held),
        }
    }

    /// How use is measured.
    #[must_use]
    pub fn windows(&self) -> Windows {
        self.windows
    }

    /// How many are known by themselves.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.lock().meters.len()
    }

    /// Whether nobody is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Looks at, or adds to, what `key` used; it is known from then on.
    pub fn with<R>(&self, key: &K, now: Duration, act: impl FnOnce(&mut M, Windows) -> R) -> R {
        let mut held = self.held.lock();
        act(held.meter(key, self.windows, now), self.windows)
    }

    /// The same, unless nothing is known of `key`.
    pub fn peek<R>(&self, key: &K, act: impl FnOnce(&mut M, Windows) -> R) -> Option<R> {
        let mut held = self.held.lock();
        let is_full = held.meters.len() >= METERS_MAX;
        let Held { meters, others, .. } = &mut *held;
        let meter = meters
            .get_mut(key)
            .or(others.as_mut().filter(|_| is_full))?;
        Some(act(meter, self.windows))
    }

    /// Looks at all who are known by themselves.
    pub fn each(&self, mut act: impl FnMut(&K, &mut M, Windows)) {
        for (key, meter) in &mut self.held.lock().meters {
            act(key, meter, self.windows);
        }
    }
}

impl<K: Hash + Eq + Clone, M: Measure> Held<K, M> {
    fn meter(&mut self, key: &K, windows: Windows, now: Duration) -> &mut M {
        let is_known = self.meters.contains_key(key);
        if !is_known && now.saturating_sub(self.swept_at) >= windows.length {
            self.swept_at = now;
            self.meters.retain(|_, meter| !meter.is_idle(windows, now));
            self.meters.shrink_to(self.meters.len() * 2);
        }
        if !is_known && self.meters.len() >= METERS_MAX {
            return self.others.get_or_insert_with(|| M::begin(windows, now));
        }
        let meter = self.meters.entry(key.clone());
        meter.or_insert_with(|| M::begin(windows, now))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::measure::Rate, *};

    const WINDOWS: Windows = Windows {
        samples: 2,
        length: Duration::from_secs(1),
    };

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn used(meters: &Meters<usize, Rate>, key: usize, now: Duration) -> f64 {
        let rate = meters.peek(&key, |rate, windows| rate.per_second(windows, now));
        rate.unwrap_or_default()
    }

    fn record(meters: &Meters<usize, Rate>, key: usize, now: Duration) {
        meters.with(&key, now, |rate, windows| {
            rate.record(windows, 10.0, 10.0, now)
        });
    }

    #[test]
    fn who_used_nothing_lately_is_forgotten() {
        let meters = Meters::new(WINDOWS);
        assert!(meters.is_empty());
        (0..500).for_each(|key| record(&meters, key, at(10)));
        record(&meters, 500, at(11));
        assert_eq!(meters.len(), 501);
        record(&meters, 501, at(12));
        assert_eq!(meters.len(), 2);
        assert!(used(&meters, 500, at(12)) > 0.0);
        assert!(used(&meters, 7, at(12)).abs() < 1e-9);
    }

    #[test]
    fn too_many_names_share_one_meter_and_no_memory() {
        let meters = Meters::new(WINDOWS);
        (0..METERS_MAX + 50).for_each(|key| record(&meters, key, at(10)));
        assert_eq!(meters.len(), METERS_MAX);
        assert!(
            (used(&meters, 0, at(10)) - 10.0).abs() < 1e-9,
            "known by itself"
        );
        assert!((used(&meters, METERS_MAX + 7, at(10)) - 500.0).abs() < 1e-9);
        let mut known = 0;
        meters.each(|_, _, _| known += 1);
        assert_eq!(known, METERS_MAX);
        record(&meters, METERS_MAX + 7, at(100));
        assert_eq!(meters.len(), 1);
        assert!((used(&meters, METERS_MAX + 7, at(100)) - 10.0).abs() < 1e-9);
    }
}
