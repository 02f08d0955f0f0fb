//! What clients were told, and whether it holds.

use std::collections::BTreeMap;

/// What went wrong; all 0 if nothing did.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Acknowledged and not there.
    pub(crate) lost: u64,
    /// There more than once.
    pub(crate) duplicated: u64,
    /// Behind a later one of the same producer.
    pub(crate) reordered: u64,
    /// Commits of groups that went back.
    pub(crate) offsets_back: u64,
    /// Errors that reached the application.
    pub(crate) failed: u64,
}

impl Counters {
    /// Whether nothing went wrong.
    pub(crate) fn are_zero(self) -> bool {
        self == Self::default()
    }
}

/// Compares the numbers that a partition holds, in the order of its offsets, with those that were acknowledged. A producer
/// sends ascending numbers.
pub(crate) fn check(acknowledged: &[u64], found: &[u64], counters: &mut Counters) {
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    let mut highest = None;
    for &number in found {
        let seen = times.entry(number).or_default();
        *seen += 1;
        if *seen > 1 {
            counters.duplicated += 1;
        } else if highest.is_some_and(|highest| number < highest) {
            counters.reordered += 1;
        }
        highest = highest.max(Some(number));
    }
    let lost = acknowledged
        .iter()
        .filter(|number| !times.contains_key(number));
    counters.lost += lost.count() as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(acknowledged: &[u64], found: &[u64]) -> Counters {
        let mut counters = Counters::default();
        check(acknowledged, found, &mut counters);
        counters
    }

    #[test]
    fn what_was_not_acknowledged_may_be_there_or_not() {
        assert!(checked(&[0, 1, 3], &[0, 1, 2, 3, 4]).are_zero());
        assert!(checked(&[0, 1, 3], &[0, 1, 3]).are_zero());
        assert!(checked(&[], &[]).are_zero());
    }

    #[test]
    fn each_fault_is_found() {
        let lost = checked(&[0, 1, 2], &[0, 2]);
        assert_eq!((lost.lost, lost.duplicated, lost.reordered), (1, 0, 0));
        let twice = checked(&[0, 1], &[0, 1, 1]);
        assert_eq!((twice.lost, twice.duplicated, twice.reordered), (0, 1, 0));
        let swapped = checked(&[0, 1], &[1, 0]);
        assert_eq!(
            (swapped.lost, swapped.duplicated, swapped.reordered),
            (0, 0, 1)
        );
    }
}
