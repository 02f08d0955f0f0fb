//! What became of the requests.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Requests by kind and fate.
#[derive(Debug, Clone, Default)]
pub struct Counts(BTreeMap<(&'static str, &'static str), u64>);

impl Counts {
    pub(super) fn request(&mut self, kind: &'static str, fate: &'static str) {
        *self.0.entry((kind, fate)).or_default() += 1;
    }

    /// Requests that met this fate.
    pub fn of(&self, fate: &str) -> u64 {
        let met = self.0.iter().filter(|((_, of), _)| *of == fate);
        met.map(|(_, count)| count).sum()
    }

    /// Requests of this kind, whatever became of them.
    pub fn requests(&self, kind: &str) -> u64 {
        let asked = self.0.iter().filter(|((of, _), _)| *of == kind);
        asked.map(|(_, count)| count).sum()
    }

    /// By kind, then by fate.
    pub fn to_json(&self) -> Value {
        let mut kinds: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
        for ((kind, fate), count) in &self.0 {
            kinds.entry(kind).or_default().insert(fate, *count);
        }
        json!(kinds)
    }
}
