//! Whether a topic holds what was promised, and nothing else.
//!
//! Each record says who wrote it and its sequence among that producer's records in the partition. So what a partition holds is
//! compared with what was acknowledged, whatever happened to the brokers in between.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::{
    history::{Ack, Recorded},
    reading::Found,
};
use crate::drill::Place;

/// Faults that are described; the others are only counted.
const EXAMPLES_MAX: usize = 20;

/// Records by what is wrong with them; all 0 where nothing is.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Acknowledged, and not there.
    pub lost: u64,
    /// There more than once.
    pub duplicated: u64,
    /// Behind a later one of the same producer.
    pub reordered: u64,
    /// Not at the offset that the acknowledgement named.
    pub misplaced: u64,
    /// There, and never sent, or damaged.
    pub invented: u64,
    /// Offsets between two records, where there is none.
    pub missing_offsets: u64,
    /// The first faults, described.
    pub examples: Vec<String>,
}

impl Verdict {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let counts = [
            self.lost,
            self.duplicated,
            self.reordered,
            self.misplaced,
            self.invented,
            self.missing_offsets,
        ];
        counts.iter().all(|&count| count == 0)
    }

    /// The counts by name, and the examples.
    #[must_use]
    pub fn json(&self) -> Value {
        json!({
            "lost": self.lost,
            "duplicated": self.duplicated,
            "reordered": self.reordered,
            "misplaced": self.misplaced,
            "invented": self.invented,
            "missing_offsets": self.missing_offsets,
            "examples": self.examples,
        })
    }

    fn describe(&mut self, fault: impl FnOnce() -> String) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(fault());
        }
    }
}

/// Compares what each partition holds, in the order of its offsets, with what clients were told. Everything that was sent is
/// settled.
#[must_use]
pub fn check(recorded: &Recorded, found: &BTreeMap<i32, Vec<Found>>) -> Verdict {
    let mut verdict = Verdict::default();
    let mut places: HashMap<Place, i64> = HashMap::new();
    for (&partition, records) in found {
        look_at(partition, records, recorded, &mut places, &mut verdict);
    }
    let mut missing: BTreeMap<(i32, u32), Vec<Ack>> = BTreeMap::new();
    for ack in &recorded.acks {
        let Some(&there) = places.get(&ack.place) else {
            let writer = (ack.place.partition, ack.place.producer);
            missing.entry(writer).or_default().push(*ack);
            continue;
        };
        if let Some(named) = ack.offset.filter(|&named| named != there) {
            verdict.misplaced += 1;
            verdict.describe(|| {
                format!("misplaced: {ack:?} is at {there}, and was acknowledged at {named}")
            });
        }
    }
    for ((partition, producer), acks) in missing {
        verdict.lost += acks.len() as u64;
        verdict.describe(|| describe_lost(partition, producer, &acks, found));
    }
    verdict
}

fn look_at(
    partition: i32,
    records: &[Found],
    recorded: &Recorded,
    places: &mut HashMap<Place, i64>,
    verdict: &mut Verdict,
) {
    let mut next_offset = None;
    let mut highest: HashMap<u32, u64> = HashMap::new();
    for record in records {
        let offset = record.offset;
        if let Some(expected) = next_offset.filter(|&expected| expected != offset) {
            verdict.missing_offsets += offset.abs_diff(expected);
            verdict.describe(|| format!("partition {partition}: {offset} follows {expected} - 1"));
        }
        next_offset = Some(offset + 1);
        let sent = |place: &Place| {
            let sent = recorded.sent.get(&(place.producer, place.partition));
            place.partition == partition && sent.is_some_and(|&sent| place.sequence < sent)
        };
        let Some(place) = record.place.filter(sent) else {
            verdict.invented += 1;
            verdict.describe(|| format!("partition {partition}: {record:?} was never sent"));
            continue;
        };
        if let Some(first) = places.insert(place, offset) {
            // The first one is what an acknowledgement is compared with.
            places.insert(place, first);
            verdict.duplicated += 1;
            verdict.describe(|| format!("duplicated: {place:?} at {first} and {offset}"));
            continue;
        }
        let highest = highest.entry(place.producer).or_insert(place.sequence);
        if place.sequence < *highest {
            verdict.reordered += 1;
            verdict.describe(|| format!("reordered: {place:?} at {offset} is behind {highest}"));
        }
        *highest = (*highest).max(place.sequence);
    }
}

/// One line for all that one producer lost in a partition: which, when, and what is at its place.
fn describe_lost(
    partition: i32,
    producer: u32,
    acks: &[Ack],
    found: &BTreeMap<i32, Vec<Found>>,
) -> String {
    let records = found.get(&partition).map_or(&[][..], Vec::as_slice);
    let first = acks.iter().min_by_key(|ack| ack.place.sequence);
    let last = acks.iter().max_by_key(|ack| ack.place.sequence);
    let instead = first
        .and_then(|ack| ack.offset)
        .and_then(|offset| records.iter().find(|record| record.offset == offset));
    let end = records.last().map_or(0, |record| record.offset + 1);
    format!(
        "lost: partition {partition}, producer {producer}: {} records, from {first:?} to {last:?}; at the first's offset is \
         {instead:?}, and the partition ends at {end}",
        acks.len()
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PARTITION: i32 = 3;

    fn place(producer: u32, sequence: u64) -> Place {
        Place {
            producer,
            partition: PARTITION,
            sequence,
        }
    }

    /// In the order of the offsets: producer and sequence.
    fn found(records: &[(u32, u64)]) -> BTreeMap<i32, Vec<Found>> {
        let at = |(offset, &(producer, sequence)): (usize, &(u32, u64))| Found {
            offset: offset as i64,
            place: Some(place(producer, sequence)),
        };
        BTreeMap::from([(PARTITION, records.iter().enumerate().map(at).collect())])
    }

    /// Two producers; the record that comes last was sent and failed.
    fn recorded() -> Recorded {
        let ack = |(offset, &(producer, sequence)): (i64, &(u32, u64))| Ack {
            place: place(producer, sequence),
            offset: Some(offset),
            sent_at: Duration::ZERO,
            acked_at: Duration::ZERO,
        };
        Recorded {
            sent: HashMap::from([((0, PARTITION), 4), ((1, PARTITION), 2)]),
            acks: (0..).zip(&STORED).map(ack).collect(),
            failures: Vec::new(),
        }
    }

    const STORED: [(u32, u64); 5] = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)];

    /// Lost, duplicated, reordered, misplaced, invented, missing offsets.
    fn counts(found: &BTreeMap<i32, Vec<Found>>) -> [u64; 6] {
        let verdict = check(&recorded(), found);
        let counts = [
            verdict.lost,
            verdict.duplicated,
            verdict.reordered,
            verdict.misplaced,
            verdict.invented,
            verdict.missing_offsets,
        ];
        assert_eq!(verdict.is_clean(), counts == [0; 6]);
        assert_eq!(verdict.is_clean(), verdict.examples.is_empty());
        counts
    }

    #[test]
    fn what_was_promised_passes_and_a_failed_record_may_be_there() {
        assert_eq!(counts(&found(&STORED)), [0; 6]);
        let with_failed = [&STORED[..], &[(0, 3)]].concat();
        assert_eq!(counts(&found(&with_failed)), [0; 6]);
    }

    #[test]
    fn a_lost_record_is_found() {
        assert_eq!(counts(&found(&STORED[..4])), [1, 0, 0, 0, 0, 0]);
        // Those behind it moved up.
        let lost = [(0, 0), (0, 1), (1, 1), (0, 2)];
        assert_eq!(counts(&found(&lost)), [1, 0, 0, 3, 0, 0]);
        assert_eq!(counts(&BTreeMap::new()), [5, 0, 0, 0, 0, 0]);
        let told = check(&recorded(), &BTreeMap::new()).examples;
        assert_eq!(told.len(), 2, "one for each producer: {told:?}");
    }

    #[test]
    fn a_duplicated_record_is_found() {
        let twice = [&STORED[..], &[(0, 2)]].concat();
        assert_eq!(counts(&found(&twice)), [0, 1, 0, 0, 0, 0]);
        let far_behind = [&STORED[..], &[(1, 0)]].concat();
        assert_eq!(counts(&found(&far_behind)), [0, 1, 0, 0, 0, 0]);
    }

    #[test]
    fn a_reordered_record_is_found() {
        let swapped = [(0, 1), (1, 0), (0, 0), (1, 1), (0, 2)];
        assert_eq!(counts(&found(&swapped)), [0, 0, 1, 2, 0, 0]);
    }

    #[test]
    fn a_record_that_nobody_sent_and_a_gap_are_found() {
        let never_sent = [&STORED[..], &[(1, 2)]].concat();
        assert_eq!(counts(&found(&never_sent)), [0, 0, 0, 0, 1, 0]);
        let mut damaged = found(&STORED);
        if let Some(records) = damaged.get_mut(&PARTITION) {
            records[4].place = None;
        }
        assert_eq!(counts(&damaged), [1, 0, 0, 0, 1, 0]);
        let mut gap = found(&STORED);
        if let Some(records) = gap.get_mut(&PARTITION) {
            records[4].offset = 7;
        }
        assert_eq!(counts(&gap), [0, 0, 0, 1, 0, 3]);
    }
}
