//! The use of many clients, each measured by itself.
//!
//! Clients choose their client ids, so these must neither fill the broker's memory nor, by filling it, take the
//! meters of others away. Kafka forgets a sensor that was not used for an hour and has no other bound. Here an idle
//! meter is forgotten as soon as it knows no more than a new one would, and each owner (the user, where client ids
//! are told apart) has so many meters at most. What an owner uses under further keys is measured by one more
//! meter of that owner alone.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;

use super::measure::{Measure, Windows};

/// The most meters for each kind of quota, and the most owners: some ten mebibytes.
pub const METERS_MAX: usize = 10_000;

/// The most meters of one owner: more than the applications of one user, and a tenth of all.
pub const METERS_OF_ONE_MAX: usize = 1_000;

/// What each client used. Those who have used nothing lately are forgotten.
#[derive(Debug)]
pub struct Meters<K, O, M> {
    windows: Windows,
    held: Mutex<Held<K, O, M>>,
}

#[derive(Debug)]
struct Held<K, O, M> {
    meters: HashMap<K, Owned<O, M>>,
    /// [`METERS_MAX`] of them at most.
    owners: HashMap<O, Owner<M>>,
    /// All who came when there were too many owners.
    others: Option<M>,
    /// When the idle ones were forgotten last.
    swept_at: Duration,
}

#[derive(Debug)]
struct Owned<O, M> {
    meter: M,
    owner: O,
}

#[derive(Debug)]
struct Owner<M> {
    /// How many it has by their keys.
    meters: usize,
    /// What it uses under further keys.
    rest: Option<M>,
}

/// Where the use of a key that is not known is measured.
enum Place {
    /// By a meter of its own.
    Own,
    /// By the one for the rest of its owner.
    OfOwner,
    /// By the one for everybody else.
    OfAll,
}

impl<K: Hash + Eq + Clone, O: Hash + Eq + Clone, M: Measure> Meters<K, O, M> {
    /// Nobody is known.
    #[must_use]
    pub fn new(windows: Windows) -> Self {
        let held = Held {
            meters: HashMap::new(),
            owners: HashMap::new(),
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

    /// Looks at, or adds to, what `key` used; it is known from then on. A new meter counts as one of `owner`.
    pub fn with<R>(
        &self,
        (key, owner): (&K, &O),
        now: Duration,
        act: impl FnOnce(&mut M, Windows) -> R,
    ) -> R {
        let mut held = self.held.lock();
        act(held.meter((key, owner), self.windows, now), self.windows)
    }

    /// The same, unless nothing is known of `key`.
    pub fn peek<R>(
        &self,
        (key, owner): (&K, &O),
        act: impl FnOnce(&mut M, Windows) -> R,
    ) -> Option<R> {
        let mut held = self.held.lock();
        let place = held.place(owner);
        let Held {
            meters,
            owners,
            others,
            ..
        } = &mut *held;
        let meter = match (meters.get_mut(key), place) {
            (Some(owned), _) => &mut owned.meter,
            (None, Place::Own) => return None,
            (None, Place::OfOwner) => owners.get_mut(owner)?.rest.as_mut()?,
            (None, Place::OfAll) => others.as_mut()?,
        };
        Some(act(meter, self.windows))
    }

    /// Looks at all who are known by themselves.
    pub fn each(&self, mut act: impl FnMut(&K, &mut M, Windows)) {
        for (key, owned) in &mut self.held.lock().meters {
            act(key, &mut owned.meter, self.windows);
        }
    }
}

impl<K: Hash + Eq + Clone, O: Hash + Eq + Clone, M: Measure> Held<K, O, M> {
    fn meter(&mut self, (key, owner): (&K, &O), windows: Windows, now: Duration) -> &mut M {
        let is_known = self.meters.contains_key(key);
        if !is_known && now.saturating_sub(self.swept_at) >= windows.length {
            self.swept_at = now;
            self.sweep(windows, now);
        }
        let begin = || M::begin(windows, now);
        let place = self.place(owner);
        if !is_known && matches!(place, Place::OfAll) {
            return self.others.get_or_insert_with(begin);
        }
        if !is_known {
            let owner = self.owners.entry(owner.clone()).or_insert(Owner {
                meters: 0,
                rest: None,
            });
            match place {
                Place::OfOwner => return owner.rest.get_or_insert_with(begin),
                Place::Own | Place::OfAll => owner.meters += 1,
            }
        }
        let owned = self.meters.entry(key.clone()).or_insert_with(|| Owned {
            meter: begin(),
            owner: owner.clone(),
        });
        &mut owned.meter
    }

    fn place(&self, owner: &O) -> Place {
        let is_full = self.meters.len() >= METERS_MAX;
        match self.owners.get(owner) {
            None if self.owners.len() >= METERS_MAX => Place::OfAll,
            Some(known) if known.meters >= METERS_OF_ONE_MAX => Place::OfOwner,
            _ if is_full => Place::OfOwner,
            _ => Place::Own,
        }
    }

    /// Forgets the idle ones.
    fn sweep(&mut self, windows: Windows, now: Duration) {
        let Self {
            meters,
            owners,
            others,
            ..
        } = self;
        meters.retain(|_, owned| {
            let is_idle = owned.meter.is_idle(windows, now);
            if is_idle && let Some(owner) = owners.get_mut(&owned.owner) {
                owner.meters = owner.meters.saturating_sub(1);
            }
            !is_idle
        });
        owners.retain(|_, owner| {
            owner.rest.take_if(|rest| rest.is_idle(windows, now));
            owner.meters > 0 || owner.rest.is_some()
        });
        others.take_if(|others| others.is_idle(windows, now));
        meters.shrink_to(meters.len() * 2);
        owners.shrink_to(owners.len() * 2);
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

    type Of = Meters<usize, &'static str, Rate>;

    fn used(meters: &Of, owner: &'static str, key: usize, now: Duration) -> f64 {
        let rate = meters.peek((&key, &owner), |rate, windows| {
            rate.per_second(windows, now)
        });
        rate.unwrap_or_default()
    }

    fn record(meters: &Of, owner: &'static str, key: usize, now: Duration) {
        meters.with((&key, &owner), now, |rate, windows| {
            rate.record(windows, 10.0, 10.0, now)
        });
    }

    fn is(actual: f64, expected: f64) -> bool {
        (actual - expected).abs() < 1e-9
    }

    #[test]
    fn who_used_nothing_lately_is_forgotten() {
        let meters = Meters::new(WINDOWS);
        assert!(meters.is_empty());
        (0..500).for_each(|key| record(&meters, "a", key, at(10)));
        record(&meters, "a", 500, at(11));
        assert_eq!(meters.len(), 501);
        record(&meters, "a", 501, at(12));
        assert_eq!(meters.len(), 2);
        assert!(used(&meters, "a", 500, at(12)) > 0.0);
        assert!(is(used(&meters, "a", 7, at(12)), 0.0));
    }

    /// All clients shared the meter of those for whom there was no room, so that one user with many client ids
    /// throttled all others.
    #[test]
    fn one_user_with_many_client_ids_shares_its_rest_with_nobody() {
        let meters = Meters::new(WINDOWS);
        let surplus = METERS_MAX + 50;
        (0..surplus).for_each(|key| record(&meters, "mallory", key, at(10)));
        assert_eq!(meters.len(), METERS_OF_ONE_MAX);
        assert!(is(used(&meters, "mallory", 0, at(10)), 10.0), "by itself");
        let rest = 10.0 * f64::from(u32::try_from(surplus - METERS_OF_ONE_MAX).expect("few"));
        assert!(is(used(&meters, "mallory", surplus - 1, at(10)), rest));

        assert!(is(used(&meters, "alice", surplus, at(10)), 0.0));
        record(&meters, "alice", surplus, at(10));
        assert!(is(used(&meters, "alice", surplus, at(10)), 10.0));
        assert_eq!(meters.len(), METERS_OF_ONE_MAX + 1);
        let mut known = 0;
        meters.each(|_, _, _| known += 1);
        assert_eq!(known, METERS_OF_ONE_MAX + 1);

        record(&meters, "mallory", surplus + 1, at(100));
        assert_eq!(meters.len(), 1, "and nothing is kept for long");
        assert!(is(used(&meters, "mallory", surplus + 1, at(100)), 10.0));
        assert_eq!(meters.held.lock().owners.len(), 1);
    }

    #[test]
    fn where_many_users_have_many_client_ids_each_keeps_a_meter_of_its_own() {
        let meters = Meters::new(WINDOWS);
        let users = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
        for (user, number) in users.into_iter().zip(0..) {
            let first = number * METERS_OF_ONE_MAX;
            (first..first + METERS_OF_ONE_MAX).for_each(|key| record(&meters, user, key, at(10)));
        }
        assert_eq!(meters.len(), METERS_MAX);
        for (user, key) in [("alice", METERS_MAX), ("bob", METERS_MAX + 1)] {
            record(&meters, user, key, at(10));
            assert!(is(used(&meters, user, key, at(10)), 10.0), "{user}");
        }
        assert_eq!(meters.len(), METERS_MAX, "and memory has a bound");
    }

    #[test]
    fn the_number_of_owners_has_a_bound() {
        let meters: Meters<usize, usize, Rate> = Meters::new(WINDOWS);
        let record = |owner: usize| {
            meters.with((&owner, &owner), at(10), |rate, windows| {
                rate.record(windows, 10.0, 10.0, at(10));
                rate.per_second(windows, at(10))
            })
        };
        assert!((0..METERS_MAX).all(|owner| is(record(owner), 10.0)));
        assert!(is(record(METERS_MAX), 10.0) && is(record(METERS_MAX + 1), 20.0));
        assert_eq!(meters.held.lock().owners.len(), METERS_MAX);
    }
}
