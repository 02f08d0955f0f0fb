//! Whether a partition holds what was promised, and nothing else.
//!
//! An audit is fed a partition's records in the order in which a consumer gets them, and the
//! promises. It passes only where
//!
//! 1. offsets are contiguous, across batches and restarts;
//! 2. of each producer the records are exactly its first ones, in order, each once: so none is
//!    lost, repeated or reordered, whether it was acknowledged or not;
//! 3. every record that was acknowledged is among them;
//! 4. every acknowledged batch lies at the offset that its acknowledgement named;
//! 5. nothing is there that was not sent.

use std::collections::{BTreeMap, HashMap};

use super::{
    ledger::{Acked, Promises},
    pattern::Place,
};

/// How one partition is read, so far.
#[derive(Debug)]
pub struct Audit {
    partition: i32,
    /// Where the reading began.
    begin: i64,
    /// The offset of the next record.
    next: i64,
    /// Of each producer, the sequence that must come next.
    expected: HashMap<u32, u64>,
    /// Acknowledged batches that are not met yet, by offset, the lowest last.
    pending: Vec<Acked>,
    /// Records that were met before their acknowledgement was heard of, if ever it is.
    unclaimed: BTreeMap<i64, Place>,
    /// What of the promises of this partition was taken over.
    taken: usize,
}

impl Audit {
    /// Of a partition that is read from its beginning.
    pub fn new(partition: i32) -> Self {
        Self::beginning_at(partition, 0)
    }

    /// Of a partition that is read from an offset on: what lies below it is not known.
    pub fn beginning_at(partition: i32, begin: i64) -> Self {
        Self {
            partition,
            begin,
            next: begin,
            expected: HashMap::new(),
            pending: Vec::new(),
            unclaimed: BTreeMap::new(),
            taken: 0,
        }
    }

    /// Nothing of what lies below `offset` is looked at, and what begins there is all there is.
    pub fn skip_to(&mut self, offset: i64) {
        self.next = offset;
    }

    /// The offset to read from.
    pub fn next(&self) -> i64 {
        self.next
    }

    /// Takes over the promises that were made since the last time.
    pub fn promise(&mut self, promises: &Promises) -> Result<(), String> {
        let Some(acked) = promises.acked.get(&self.partition) else {
            return Ok(());
        };
        for &acked in acked.get(self.taken..).unwrap_or_default() {
            let end = acked.base_offset + i64::from(acked.count);
            if end <= self.begin {
                continue;
            }
            if end > self.next {
                self.pending.push(acked);
                continue;
            }
            for (offset, promised) in acked.records().filter(|(at, _)| *at >= self.begin) {
                let found = self.unclaimed.remove(&offset);
                if found != Some(promised) {
                    return Err(self.misplaced(offset, found, promised));
                }
            }
        }
        self.taken = acked.len();
        self.pending.sort_unstable_by(|a, b| b.cmp(a));
        Ok(())
    }

    /// Checks the next record.
    pub fn record(&mut self, offset: i64, place: Option<Place>) -> Result<(), String> {
        let partition = self.partition;
        if offset != self.next {
            return Err(format!(
                "partition {partition}: offset {offset} follows {}",
                self.next - 1
            ));
        }
        let place = place.filter(|place| place.partition == partition);
        let Some(place) = place else {
            return Err(format!(
                "partition {partition}, offset {offset}: the record is not one that was sent"
            ));
        };
        // Of one whose first records lie below the beginning, the first that is met may be any.
        let first = if self.begin == 0 { 0 } else { place.sequence };
        let expected = self.expected.entry(place.producer).or_insert(first);
        if place.sequence != *expected {
            let what = if place.sequence < *expected {
                "repeated or reordered"
            } else {
                "lost or reordered"
            };
            return Err(format!(
                "partition {partition}, offset {offset}: producer {}: record {} where {expected} was \
                 to come: {what}",
                place.producer, place.sequence
            ));
        }
        *expected += 1;
        self.next += 1;
        self.meet(offset, place)
    }

    /// Compares the record with the acknowledged batch that lies here.
    fn meet(&mut self, offset: i64, place: Place) -> Result<(), String> {
        let here = self.pending.last().copied();
        let Some(acked) = here.filter(|acked| acked.base_offset <= offset) else {
            self.unclaimed.insert(offset, place);
            return Ok(());
        };
        let mut records = acked.records();
        match records.find(|&(at, _)| at == offset) {
            Some((_, promised)) if promised == place => {}
            Some((_, promised)) => return Err(self.misplaced(offset, Some(place), promised)),
            // Two acknowledgements name offsets that overlap.
            None => return Err(self.misplaced(offset, Some(place), acked.first)),
        }
        if records.next().is_none() {
            self.pending.pop();
        }
        Ok(())
    }

    fn misplaced(&self, offset: i64, found: Option<Place>, promised: Place) -> String {
        format!(
            "partition {}, offset {offset}: {found:?} lies where {promised:?} was acknowledged",
            self.partition
        )
    }

    /// Checks that nothing is missing, once everything up to the partition's end was read. `end`
    /// was asked for after `promises` was taken.
    pub fn at_end(&self, promises: &Promises) -> Result<(), String> {
        let partition = self.partition;
        if let Some(acked) = self.pending.last() {
            return Err(format!(
                "partition {partition}: {acked:?} was acknowledged, but the partition ends at {}",
                self.next
            ));
        }
        let of_partition = |counts: &HashMap<(u32, i32), u64>| {
            let mut found: Vec<(u32, u64)> = counts
                .iter()
                .filter(|((_, other), _)| *other == partition)
                .map(|(&(producer, _), &count)| (producer, count))
                .collect();
            found.sort_unstable();
            found
        };
        let found = |producer| self.expected.get(&producer).copied().unwrap_or(0);
        for (producer, durable) in of_partition(&promises.durable) {
            // All that it wrote may lie below the beginning.
            let is_below = self.begin > 0 && !self.expected.contains_key(&producer);
            if found(producer) < durable && !is_below {
                return Err(format!(
                    "partition {partition}: producer {producer} was told that {durable} records are \
                     durable, {} are there",
                    found(producer)
                ));
            }
        }
        Ok(())
    }

    /// Checks that what was read was sent; `promises` was taken after the reading.
    pub fn nothing_invented(&self, promises: &Promises) -> Result<(), String> {
        for (&producer, &there) in &self.expected {
            let sent = promises.sent.get(&(producer, self.partition)).copied();
            if there > sent.unwrap_or(0) {
                return Err(format!(
                    "partition {}: {there} records of producer {producer}, who sent {sent:?}",
                    self.partition
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(producer: u32, sequence: u64) -> Place {
        Place {
            producer,
            partition: 2,
            sequence,
        }
    }

    /// Two producers, three batches, all acknowledged.
    fn promises() -> Promises {
        let mut promises = Promises::default();
        for (first, count, offset) in [
            (place(0, 0), 3, 0),
            (place(0, 3), 1, 5),
            (place(1, 0), 2, 3),
        ] {
            promises.send(first, count);
            promises.acknowledge(first, count, 10, Some(offset), 0);
        }
        promises
    }

    const STORED: [(u32, u64); 6] = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (0, 3)];

    fn audit(stored: &[(i64, Place)], promises: &Promises) -> Result<(), String> {
        let mut audit = Audit::new(2);
        audit.promise(promises)?;
        for &(offset, place) in stored {
            audit.record(offset, Some(place))?;
        }
        audit.at_end(promises)?;
        audit.nothing_invented(promises)
    }

    fn stored(records: &[(u32, u64)]) -> Vec<(i64, Place)> {
        let at = |(offset, &(producer, sequence)): (usize, &(u32, u64))| {
            (offset as i64, place(producer, sequence))
        };
        records.iter().enumerate().map(at).collect()
    }

    #[test]
    fn what_was_promised_passes() {
        assert_eq!(audit(&stored(&STORED), &promises()), Ok(()));
        // One more that was sent and not acknowledged.
        let mut promises = promises();
        promises.send(place(1, 2), 1);
        let mut records = STORED.to_vec();
        records.push((1, 2));
        assert_eq!(audit(&stored(&records), &promises), Ok(()));
    }

    #[test]
    fn every_way_to_break_a_promise_is_seen() {
        let fails = |records: &[(u32, u64)], words: &str| {
            let error = audit(&stored(records), &promises()).expect_err(words);
            assert!(error.contains(words), "{error}");
        };
        fails(&STORED[..5], "was acknowledged, but the partition ends");
        fails(&[], "was acknowledged, but the partition ends");
        fails(&[(0, 0), (0, 0)], "repeated");
        fails(&[(0, 0), (0, 2)], "lost or reordered");
        // In each producer's order, but not where it was acknowledged.
        let moved = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)];
        fails(&moved, "lies where");
        let mut more = STORED.to_vec();
        more.push((1, 2));
        fails(&more, "who sent");
        let mut gap = stored(&STORED);
        gap[3].0 = 4;
        assert!(
            audit(&gap, &promises())
                .expect_err("a gap")
                .contains("follows")
        );
        let mut audit = Audit::new(2);
        assert!(audit.record(0, None).is_err());
        let elsewhere = Place {
            partition: 1,
            ..place(0, 0)
        };
        assert!(audit.record(0, Some(elsewhere)).is_err());
    }

    #[test]
    fn a_reading_that_begins_later_knows_nothing_of_what_is_below() {
        // The second batch's last record is the first that is left.
        let all = stored(&STORED);
        let from = |begin: i64, stored: &[(i64, Place)]| {
            let mut audit = Audit::beginning_at(2, begin);
            audit.promise(&promises())?;
            for &(offset, place) in stored {
                audit.record(offset, Some(place))?;
            }
            audit.promise(&promises())?;
            audit.at_end(&promises())
        };
        for begin in 0..6 {
            assert_eq!(from(begin as i64, &all[begin..]), Ok(()), "{begin}");
        }
        assert!(from(2, &all[3..]).expect_err("a gap").contains("follows"));
        let lost = from(4, &all[4..5]).expect_err("the last is missing");
        assert!(lost.contains("was acknowledged"), "{lost}");
        let mut moved = all[4..].to_vec();
        moved[0].1 = place(1, 7);
        assert!(from(4, &moved).expect_err("another").contains("lies where"));
    }

    #[test]
    fn an_acknowledgement_that_comes_after_the_reading_binds_too() {
        let late = |count, offset| {
            let mut promises = Promises::default();
            let mut audit = Audit::new(2);
            for (offset, place) in stored(&[(0, 0), (0, 1), (1, 0)]) {
                audit.record(offset, Some(place)).expect("in order");
            }
            promises.acknowledge(place(0, 0), count, 10, Some(offset), 0);
            audit.promise(&promises)
        };
        assert_eq!(late(2, 0), Ok(()));
        assert!(late(3, 0).expect_err("not 3").contains("lies where"));
        assert!(late(2, 1).expect_err("not at 1").contains("lies where"));
    }

    #[test]
    fn an_acknowledgement_without_an_offset_binds_too() {
        let mut promises = Promises::default();
        promises.send(place(0, 0), 2);
        promises.acknowledge(place(0, 0), 2, 10, None, 0);
        assert_eq!(audit(&stored(&[(0, 0), (0, 1)]), &promises), Ok(()));
        let error = audit(&stored(&[(0, 0)]), &promises).expect_err("lost");
        assert!(
            error.contains("2 records are durable, 1 are there"),
            "{error}"
        );
    }
}
