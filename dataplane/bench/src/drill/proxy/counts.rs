//! What became of the requests.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Requests by kind and outcome.
#[derive(Debug, Clone, Default)]
pub struct Counts(BTreeMap<(&'static str, &'static str), u64>);

impl Counts {
    pub(super) fn request(&mut self, kind: &'static str, outcome: &'static str) {
        *self.0.entry((kind, outcome)).or_default() += 1;
    }

    /// Requests with this outcome.
    pub fn of(&self, outcome: &str) -> u64 {
        let found = self.0.iter().filter(|((_, of), _)| *of == outcome);
        found.map(|(_, count)| count).sum()
    }

    /// Requests of this kind, whatever became of them.
    pub fn requests(&self, kind: &str) -> u64 {
        let asked = self.0.iter().filter(|((of, _), _)| *of == kind);
        asked.map(|(_, count)| count).sum()
    }

    /// By kind, then by outcome.
    pub fn to_json(&self) -> Value {
        let mut kinds: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
        for ((kind, outcome), count) in &self.0 {
            kinds.entry(kind).or_default().insert(outcome, *count);
        }
        json!(kinds)
    }
}
