//! Random histories of a partition against a model: what stays, what goes, and what consumers see.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use millrace_record::{BatchBuilder, BatchHeader, Compression, Record, TransactionEnd};
use millrace_stream::{EntryFilter, Outcome};
use millrace_testkit::property_cases;
use proptest::prelude::*;

use super::{retention::LastOfProducers, *};
use crate::transactions::Aborted;

const DELETE_RETENTION_MS: i64 = 100;
const SLOT_BYTES: u64 = 24;

/// What became of a record's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Committed,
    Aborted,
    Open,
}

#[derive(Debug, Clone)]
enum Step {
    /// Of a producer, or of none; transactional where it is odd. Keys, and whether each record is a tombstone.
    Write(Option<u8>, Vec<(u8, bool)>),
    /// Ends a producer's transaction, or none.
    End(u8, bool),
    Wait(i64),
    /// Cleans all but the newest batches, with room for so many keys and in groups of so many batches; `fails_at`: the broker dies
    /// before this group is committed.
    Clean {
        newest: usize,
        keys: u64,
        group: usize,
        fails_at: Option<usize>,
    },
    /// Deletes the records up to this part of the log, in percent.
    Trim(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let records = prop::collection::vec((0u8..6, prop::bool::weighted(0.3)), 1..5);
    let step = prop_oneof![
        10 => (prop::option::of(0u8..4), records).prop_map(|(who, records)| Step::Write(who, records)),
        4 => (prop::sample::select(vec![1u8, 3]), any::<bool>()).prop_map(|(who, committed)| Step::End(who, committed)),
        2 => (1i64..150).prop_map(Step::Wait),
        4 => (0usize..6, 1u64..8, 1usize..8, prop::option::weighted(0.2, 0usize..4))
            .prop_map(|(newest, keys, group, fails_at)| Step::Clean { newest, keys, group, fails_at }),
        1 => (0u64..40).prop_map(Step::Trim),
    ];
    prop::collection::vec(step, 1..80)
}

#[derive(Debug, Default)]
struct World {
    entries: Vec<Entry>,
    start: Offset,
    next: Offset,
    first_dirty: Offset,
    /// As far as a cleaning has looked, whether it was completed or not.
    seen: Offset,
    now_ms: i64,
    sequences: HashMap<i64, i32>,
    last: LastOfProducers,
    /// First offsets of open transactions.
    open: BTreeMap<i64, Offset>,
    aborted: Vec<Aborted>,
    /// The same as of the last checkpoint.
    durable_aborted: Vec<Aborted>,
    written: BTreeMap<Offset, (Record, Option<i64>, Verdict)>,
    /// When a cleaning first had a look at a batch.
    first_cleaned: HashMap<Offset, i64>,
}

fn entry_of(batch: Bytes) -> Entry {
    let header = header_of(&batch).expect("a batch");
    Entry {
        base_offset: header.base_offset as u64,
        count: header.last_offset_delta as u32 + 1,
        payload: batch,
    }
}

/// What stays of a group.
fn filtered(retention: &mut Retention<'_>, group: &[Entry]) -> Vec<Entry> {
    let mut stays = Vec::new();
    for (n, entry) in group.iter().enumerate() {
        match retention
            .filter(entry, n + 1 == group.len())
            .expect("sound")
        {
            Outcome::Keep => stays.push(entry.clone()),
            Outcome::Replace(payload) => stays.push(entry_of(payload)),
            Outcome::Drop => {}
        }
    }
    assert_eq!(
        stays.last().map(Entry::end_offset),
        group.last().map(Entry::end_offset),
        "a group ends with an entry"
    );
    retention.check().expect("all last records were met");
    stays
}

impl World {
    fn write(&mut self, who: Option<u8>, keys: &[(u8, bool)]) {
        let codecs = [Compression::None, Compression::Lz4, Compression::Zstd];
        let codec = codecs[(self.next % 3) as usize];
        let mut builder = BatchBuilder::new(codec).base_offset(self.next as i64);
        let transactional = who.is_some_and(|who| who % 2 == 1);
        if let Some(who) = who {
            let sequence = self.sequences.entry(who.into()).or_default();
            builder = builder.producer(who.into(), 0, *sequence);
            *sequence += keys.len() as i32;
        }
        if transactional {
            builder = builder.transactional();
        }
        for (n, (key, is_tombstone)) in keys.iter().enumerate() {
            let value = format!("{} {n}", self.next);
            let value = (!is_tombstone).then_some(value.as_bytes());
            builder.push(self.now_ms, Some(&[*key]), value, &[("h", Some(b"v"))]);
        }
        let batch = builder.build().freeze();
        let verdict = if transactional {
            self.open
                .entry(who.unwrap_or(0).into())
                .or_insert(self.next);
            Verdict::Open
        } else {
            Verdict::Committed
        };
        let mut last = self.next;
        for record in records(&batch).expect("sound") {
            let record = record.expect("sound");
            last = record.offset as u64;
            self.written
                .insert(last, (record, who.map(i64::from), verdict));
        }
        if let Some(who) = who {
            self.last.insert(who.into(), (0, Some(last)));
        }
        self.push(batch);
    }

    fn push(&mut self, batch: Bytes) {
        let entry = entry_of(batch);
        self.next = entry.end_offset();
        self.entries.push(entry);
    }

    fn end(&mut self, who: u8, committed: bool) {
        let id = i64::from(who);
        let end = TransactionEnd {
            committed,
            coordinator_epoch: 0,
        };
        let mut batch = millrace_record::split(end.batch((id, 0), self.now_ms)).expect("sound");
        let mut batch = batch.remove(0);
        batch.restamp(self.next, 0, None);
        if let Some(first) = self.open.remove(&id) {
            let verdict = if committed {
                Verdict::Committed
            } else {
                Verdict::Aborted
            };
            for (_, producer, of) in self.written.range_mut(first..).map(|(_, written)| written) {
                if *producer == Some(id) {
                    *of = verdict;
                }
            }
            if !committed {
                self.aborted.push(Aborted {
                    producer_id: id,
                    first,
                    last: self.next,
                    later_from: 0,
                });
            }
        }
        self.push(batch.freeze());
    }

    fn stable(&self) -> Offset {
        self.open.values().copied().min().unwrap_or(self.next)
    }

    fn aborted_between(&self, from: Offset, end: Offset) -> Vec<Aborted> {
        let overlaps = |aborted: &&Aborted| aborted.last >= from && aborted.first < end;
        self.aborted.iter().filter(overlaps).copied().collect()
    }

    fn mapped(&self, (first, end): (Offset, Offset), keys: u64) -> KeyMap {
        let mut map = KeyMap::new(keys * SLOT_BYTES, end - first, [3; 16]);
        let mut passing = Passing::new(self.aborted_between(first, end));
        let within = |entry: &&Entry| entry.end_offset() > first && entry.base_offset < end;
        for entry in self.entries.iter().filter(within) {
            let added = add_batch(&mut map, &mut passing, entry, first);
            if added.expect("sound").is_break() {
                break;
            }
        }
        if !map.is_full() {
            map.reach(end);
        }
        map
    }

    fn clean(&mut self, (newest, keys, group): (usize, u64, usize), fails_at: Option<usize>) {
        self.durable_aborted = self.aborted.clone();
        let first = self.first_dirty.max(self.start);
        let behind = self.entries.len().checked_sub(newest + 1);
        let end = behind.map_or(0, |at| self.entries[at].end_offset());
        let end = end.min(self.stable());
        if end <= first {
            return;
        }
        let map = self.mapped((first, end), keys);
        assert!(map.end() > first, "it comes on");
        self.seen = self.seen.max(map.end());
        let (mut retention, mut cleaned) = (
            Retention::new(&map, self.aborted_between(self.start, map.end())),
            Vec::new(),
        );
        // The last object may go beyond what is cleaned.
        let covered = self
            .entries
            .partition_point(|entry| entry.base_offset < map.end());
        let covered = covered.next_multiple_of(group).min(self.entries.len());
        let rest = self.entries.split_off(covered);
        let groups: Vec<Vec<Entry>> = self.entries.chunks(group).map(<[Entry]>::to_vec).collect();
        let ends: Vec<Offset> = groups
            .iter()
            .map(|group| group.last().expect("not empty").end_offset())
            .collect();
        let counts = map.last_records_below(&ends);
        let mut gone = Vec::new();
        let mut failed = false;
        for (at, (group, count)) in groups.into_iter().zip(counts).enumerate() {
            failed |= fails_at == Some(at);
            if failed {
                cleaned.extend(group);
                continue;
            }
            retention.begin_group(count, (self.now_ms, DELETE_RETENTION_MS), self.last.clone());
            for entry in group.iter().filter(|entry| entry.base_offset < map.end()) {
                let first = self.first_cleaned.entry(entry.base_offset);
                first.or_insert(self.now_ms);
            }
            cleaned.extend(filtered(&mut retention, &group));
            gone.extend(retention.take_emptied());
        }
        cleaned.extend(rest);
        self.entries = cleaned;
        if failed {
            // A new life of the broker.
            self.aborted = self.durable_aborted.clone();
            return;
        }
        self.aborted.retain(|aborted| !gone.contains(aborted));
        self.first_dirty = map.end();
    }

    fn trim(&mut self, percent: u64) {
        let start = self.start + (self.stable() - self.start) * percent / 100;
        self.start = self.start.max(start);
        self.entries.retain(|entry| entry.end_offset() > start);
        self.aborted.retain(|aborted| aborted.last >= start);
        self.seen = self.seen.max(start);
    }

    /// The offset of the last record of each key among those that count and are below `end`.
    fn last_by_key(&self, end: Offset) -> HashMap<Bytes, Offset> {
        let counts = self.written.range(self.start..end.max(self.start));
        let counts = counts.filter(|(_, (_, _, verdict))| *verdict == Verdict::Committed);
        counts
            .map(|(&offset, (record, ..))| (record.key.clone().expect("keyed"), offset))
            .collect()
    }

    fn present(&self) -> BTreeMap<Offset, (BatchHeader, Record)> {
        let mut present = BTreeMap::new();
        let mut reached = 0;
        for entry in &self.entries {
            let header = header_of(&entry.payload).expect("a batch");
            assert!(entry.base_offset >= reached && header.base_offset as u64 == entry.base_offset);
            reached = entry.end_offset();
            assert_eq!(header.next_offset() as u64, reached);
            for record in records(&entry.payload).expect("sound") {
                let record = record.expect("sound");
                if !header.is_control() {
                    present.insert(record.offset as u64, (header, record));
                }
            }
        }
        present
    }

    fn check(&self) {
        let present = self.present();
        for (offset, (header, record)) in &present {
            let (written, producer, _) = &self.written[offset];
            assert_eq!(record, written);
            assert_eq!(producer.unwrap_or(-1), header.producer_id);
        }
        let (clean, seen) = (
            self.last_by_key(self.first_dirty),
            self.last_by_key(self.seen),
        );
        for (&offset, (record, _, verdict)) in self.written.range(self.start..) {
            let key = record.key.as_ref().expect("keyed");
            let here = present.contains_key(&offset);
            if offset >= self.seen {
                assert!(here, "{offset} was not cleaned");
            } else if *verdict == Verdict::Committed && seen.get(key) == Some(&offset) {
                let base = self
                    .entries
                    .iter()
                    .find(|entry| entry.base_offset <= offset && offset < entry.end_offset());
                let since = base.and_then(|entry| self.first_cleaned.get(&entry.base_offset));
                let may_go = record.value.is_none()
                    && since.is_none_or(|since| self.now_ms >= since + DELETE_RETENTION_MS);
                assert!(here || may_go, "{offset} is the last record of its key");
            }
            if offset < self.first_dirty
                && (*verdict == Verdict::Aborted || clean.get(key) != Some(&offset))
            {
                assert!(!here, "{offset} was replaced or aborted");
            }
        }
        self.check_producers();
        for from in self.entries.iter().map(|entry| entry.base_offset) {
            self.check_consumer(from, &present);
        }
    }

    /// A rebuild from the log finds the last sequences and the open transactions.
    fn check_producers(&self) {
        let (mut last, mut open) = (HashMap::new(), HashSet::new());
        for entry in &self.entries {
            let header = header_of(&entry.payload).expect("a batch");
            if !header.has_producer_id() {
                continue;
            }
            if !header.is_control() {
                last.insert(header.producer_id, header.last_offset() as u64);
                if header.is_transactional() {
                    open.insert(header.producer_id);
                }
            } else if TransactionEnd::of(&entry.payload).expect("sound").is_some() {
                open.remove(&header.producer_id);
            }
        }
        for (id, (_, offset)) in &self.last {
            if offset.is_some_and(|offset| offset >= self.start) {
                assert_eq!(last.get(id), offset.as_ref(), "producer {id}");
            }
        }
        assert_eq!(open, self.open.keys().copied().collect());
    }

    /// What a consumer of committed records sees from `from` on, as Kafka's own filters.
    fn check_consumer(&self, from: Offset, present: &BTreeMap<Offset, (BatchHeader, Record)>) {
        let stable = self.stable();
        let mut to_come = self.aborted_between(from, stable);
        to_come.sort_unstable_by_key(|aborted| std::cmp::Reverse(aborted.first));
        let (mut aborted, mut seen) = (HashSet::new(), Vec::new());
        for entry in self
            .entries
            .iter()
            .filter(|entry| entry.base_offset >= from)
        {
            if entry.base_offset >= stable {
                break;
            }
            let header = header_of(&entry.payload).expect("a batch");
            while to_come
                .last()
                .is_some_and(|next| next.first < entry.end_offset())
            {
                aborted.extend(to_come.pop().map(|next| next.producer_id));
            }
            if header.is_control() {
                let end = TransactionEnd::of(&entry.payload).expect("sound");
                if end.is_some_and(|end| !end.committed) {
                    aborted.remove(&header.producer_id);
                }
                continue;
            }
            if header.is_transactional() && aborted.contains(&header.producer_id) {
                continue;
            }
            seen.extend(
                records(&entry.payload)
                    .expect("sound")
                    .map(|record| record.expect("sound").offset as u64),
            );
        }
        let committed = present
            .range(from..stable.max(from))
            .filter(|(offset, _)| self.written[offset].2 == Verdict::Committed);
        let expected: Vec<Offset> = committed.map(|(&offset, _)| offset).collect();
        assert_eq!(seen, expected, "from {from}");
    }
}

proptest! {
    #![proptest_config(property_cases(400))]

    #[test]
    fn the_last_record_of_every_key_stays(steps in steps()) {
        let mut world = World { now_ms: 1_000, ..World::default() };
        for step in steps {
            match step {
                Step::Write(who, keys) => world.write(who, &keys),
                Step::End(who, committed) => world.end(who, committed),
                Step::Wait(ms) => world.now_ms += ms,
                Step::Clean { newest, keys, group, fails_at } => {
                    world.clean((newest, keys, group), fails_at);
                    world.check();
                }
                Step::Trim(percent) => world.trim(percent),
            }
        }
        world.check();
    }
}

/// A world that has one batch of a tombstone and one that replaces nothing.
fn with_tombstone() -> World {
    let mut world = World {
        now_ms: 1_000,
        ..World::default()
    };
    world.write(None, &[(1, false)]);
    world.write(None, &[(1, true), (2, false)]);
    world
}

#[test]
fn tombstones_stay_for_the_delete_retention() {
    let mut world = with_tombstone();
    let everything = |world: &mut World| {
        // Something dirty, so that there is something to clean.
        world.write(None, &[(9, false)]);
        world.clean((0, 100, 10), None);
        world.check();
        world.present().keys().copied().collect::<Vec<_>>()
    };
    assert_eq!(everything(&mut world), [1, 2, 3]);
    let header = header_of(&world.entries[0].payload).expect("a batch");
    assert_eq!(header.delete_horizon_ms(), Some(1_100));
    world.now_ms = 1_099;
    assert_eq!(everything(&mut world), [1, 2, 4]);
    world.now_ms = 1_100;
    assert_eq!(everything(&mut world), [2, 5]);
}

#[test]
fn a_marker_goes_long_after_the_data_of_its_transaction() {
    let mut world = World {
        now_ms: 1_000,
        ..World::default()
    };
    world.write(Some(1), &[(1, false), (2, false)]);
    world.end(1, false);
    // So that the producer's last batch is another one.
    world.write(Some(1), &[(5, false)]);
    world.end(1, true);
    let mut markers = |now_ms| {
        world.now_ms = now_ms;
        world.write(None, &[(9, false)]);
        world.clean((0, 100, 100), None);
        world.check();
        let headers = world
            .entries
            .iter()
            .map(|entry| header_of(&entry.payload).expect("a batch"));
        (
            headers.filter(BatchHeader::is_control).count(),
            world.aborted.len(),
        )
    };
    assert_eq!(markers(1_000), (2, 1), "the data goes");
    assert_eq!(markers(1_000), (2, 1), "the marker gets its horizon");
    assert_eq!(markers(1_099), (2, 1));
    assert_eq!(
        markers(1_100),
        (2, 0),
        "consumers need not know of the transaction any more"
    );
    assert_eq!(markers(1_100), (1, 0), "the other marker has data");
}

#[test]
fn records_that_are_not_met_keep_a_group_from_being_replaced() {
    let mut map = KeyMap::new(1_000, 10, [0; 16]);
    assert!(map.put(b"a", 5));
    let mut retention = Retention::new(&map, Vec::new());
    retention.begin_group(1, (0, 0), HashMap::new());
    assert_eq!(
        retention.check().expect_err("not met").class(),
        FailureClass::Corrupt
    );
}
