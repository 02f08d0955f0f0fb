//! How long something took, many times.

use std::time::Duration;

use serde_json::{Value, json};

#[derive(Debug, Default)]
pub(crate) struct Timings(Vec<Duration>);

impl Timings {
    pub(crate) fn add(&mut self, took: Duration) {
        let at = self.0.partition_point(|&other| other <= took);
        self.0.insert(at, took);
    }

    pub(crate) fn median(&self) -> Option<Duration> {
        self.0.get(self.0.len() / 2).copied()
    }

    /// Milliseconds.
    pub(crate) fn report(&self) -> Value {
        let ms = |took: Option<Duration>| took.map(|took| took.as_millis());
        let p99 = self.0.get((self.0.len() * 99) / 100).copied();
        json!({
            "starts": self.0.len(),
            "median": ms(self.median()),
            "p99": ms(p99),
            "max": ms(self.0.last().copied()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_worst_are_told() {
        let mut timings = Timings::default();
        assert_eq!(timings.median(), None);
        for ms in [30, 10, 20] {
            timings.add(Duration::from_millis(ms));
        }
        assert_eq!(timings.median(), Some(Duration::from_millis(20)));
        assert_eq!(timings.report()["max"], 30);
    }
}
