//! How long objects have been retired, by the monotonic clock.
//!
//! An object may be deleted once no reader can still hold a range of it, which depends on elapsed
//! time, not on the time of day. So the time is measured on the monotonic clock, from when this
//! process saw the object retired; objects retired by an earlier process count from the opening of the
//! file. So a jump of the wall clock neither deletes early nor delays deletion.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use millrace_model::ObjectId;

/// The retired objects and since when each of them is.
#[derive(Debug, Default)]
pub(crate) struct Retired {
    since: HashMap<ObjectId, Duration>,
    order: BTreeSet<(Duration, ObjectId)>,
}

impl Retired {
    /// Notes objects that are retired from `now` on, or were before.
    pub(crate) fn extend(&mut self, objects: impl IntoIterator<Item = ObjectId>, now: Duration) {
        for object in objects {
            let since = *self.since.entry(object).or_insert(now);
            self.order.insert((since, object));
        }
    }

    /// Goes on from what was known before the database was read again.
    pub(crate) fn keep_times_of(&mut self, former: &Self) {
        for (object, since) in &mut self.since {
            if let Some(&earlier) = former.since.get(object) {
                self.order.remove(&(*since, *object));
                *since = earlier;
                self.order.insert((earlier, *object));
            }
        }
    }

    /// Up to `limit` objects that are retired since `before` or longer, the longest first.
    pub(crate) fn since_before(&self, before: Duration, limit: usize) -> Vec<ObjectId> {
        let due = self.order.iter().take_while(|(since, _)| *since <= before);
        due.map(|&(_, object)| object).take(limit).collect()
    }

    /// Forgets objects that are gone.
    pub(crate) fn forget(&mut self, objects: &[ObjectId]) {
        for object in objects {
            if let Some(since) = self.since.remove(object) {
                self.order.remove(&(since, *object));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn second(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn the_first_time_counts_even_after_the_database_was_read_again() {
        let mut retired = Retired::default();
        retired.extend([ObjectId(1), ObjectId(2)], second(10));
        retired.extend([ObjectId(2), ObjectId(3)], second(20));
        assert_eq!(retired.since_before(second(9), 9), []);
        assert_eq!(
            retired.since_before(second(10), 9),
            [ObjectId(1), ObjectId(2)]
        );
        assert_eq!(retired.since_before(second(10), 1), [ObjectId(1)]);

        let mut again = Retired::default();
        again.extend([ObjectId(2), ObjectId(3), ObjectId(4)], second(30));
        again.keep_times_of(&retired);
        assert_eq!(
            again.since_before(second(20), 9),
            [ObjectId(2), ObjectId(3)]
        );
        again.forget(&[ObjectId(2), ObjectId(7)]);
        assert_eq!(
            again.since_before(second(30), 9),
            [ObjectId(3), ObjectId(4)]
        );
    }
}
