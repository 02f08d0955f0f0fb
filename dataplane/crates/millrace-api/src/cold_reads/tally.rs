//! How much of something each connection has.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

/// Counts by connection. Connections that have nothing take no memory.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    by_connection: HashMap<u64, usize>,
    all: usize,
}

/// One that is counted, until it is dropped.
#[derive(Debug)]
pub(super) struct Tallied {
    tally: Arc<Tally>,
    connection: u64,
}

impl Tally {
    /// Counts one more of a connection.
    pub(super) fn add(self: &Arc<Self>, connection: u64) -> Tallied {
        let mut counts = self.counts.lock();
        self.counted(&mut counts, connection)
    }

    /// Counts one more of a connection that has none, or has fewer than `max` leaves free: so what
    /// is left is always enough for others, each of many that want all there is gets as much as any
    /// other, and no crowd shuts anybody out.
    pub(super) fn add_within(self: &Arc<Self>, connection: u64, max: usize) -> Option<Tallied> {
        let mut counts = self.counts.lock();
        let has = counts.by_connection.get(&connection).copied().unwrap_or(0);
        let fits = has == 0 || has < max.saturating_sub(counts.all);
        fits.then(|| self.counted(&mut counts, connection))
    }

    /// Whether a connection has any.
    pub(super) fn has_any(&self, connection: u64) -> bool {
        self.counts.lock().by_connection.contains_key(&connection)
    }

    fn counted(self: &Arc<Self>, counts: &mut Counts, connection: u64) -> Tallied {
        counts.all += 1;
        *counts.by_connection.entry(connection).or_default() += 1;
        Tallied {
            tally: Arc::clone(self),
            connection,
        }
    }
}

impl Drop for Tallied {
    fn drop(&mut self) {
        let mut counts = self.tally.counts.lock();
        counts.all -= 1;
        if let Some(count) = counts.by_connection.get_mut(&self.connection) {
            *count -= 1;
            if *count == 0 {
                counts.by_connection.remove(&self.connection);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_shares_and_shuts_nobody_out() {
        let tally = Arc::new(Tally::default());
        let greedy = |connection| {
            let mut has = Vec::new();
            while let Some(one) = tally.add_within(connection, 100) {
                has.push(one);
            }
            has
        };
        let mut all: Vec<Vec<Tallied>> = (0..4).map(greedy).collect();
        let counts: Vec<usize> = all.iter().map(Vec::len).collect();
        assert_eq!(counts, [50, 25, 13, 6]);
        // Once they give some back and ask again, each has the same.
        for _ in 0..100 {
            for (connection, has) in (0..).zip(&mut all) {
                has.pop();
                has.extend(greedy(connection));
            }
        }
        let counts: Vec<usize> = all.iter().map(Vec::len).collect();
        assert!(
            counts.iter().all(|count| (18..=22).contains(count)),
            "{counts:?}"
        );
        let late: Vec<Tallied> = (10..110).filter_map(|n| tally.add_within(n, 100)).collect();
        assert_eq!(late.len(), 100, "the first one of each");
        drop((late, all));
        assert!(!tally.has_any(0));
        assert_eq!(tally.counts.lock().all, 0);
    }
}
