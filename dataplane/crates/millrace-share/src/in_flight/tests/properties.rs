//! Random histories of a share partition, beside a model that keeps one entry per record.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use proptest::prelude::*;

use crate::{
    AcquiredRecords, Acquirer, BatchSpan, Fetched, InFlightRecords, Limits, Settled, StoredBatch,
    Write, acknowledgements, in_flight::State,
};

const LIMITS: Limits = Limits {
    delivery_count: 3,
    record_locks: 12,
};

/// Records of a batch in the log.
const BATCH: u64 = 4;

const MEMBERS: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum Step {
    /// A member acquires so many records; the log has so many batches.
    Acquire(usize, u64, u64),
    /// A member acknowledges what it holds of a range, by types in turn.
    Acknowledge(usize, u64, u64, Vec<i8>),
    /// A member goes.
    Release(usize),
    /// Time passes.
    Pass(u64),
    /// A write begins.
    Begin,
    /// It ends.
    End(bool),
    /// Another leader reads what is stored. A write that was under way may have been stored.
    Restart(bool),
    /// The log starts so much later.
    Trim(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3usize, 1..10u64, 1..4u64).prop_map(|(who, records, batches)| Step::Acquire(who, records, batches)),
        6 => (0..3usize, 0..16u64, 0..8u64, prop::collection::vec(0..4i8, 1..4))
            .prop_map(|(who, at, length, types)| Step::Acknowledge(who, at, length, types)),
        1 => (0..3usize).prop_map(Step::Release),
        2 => (1..20u64).prop_map(Step::Pass),
        4 => Just(Step::Begin),
        4 => prop::bool::weighted(0.8).prop_map(Step::End),
        1 => any::<bool>().prop_map(Step::Restart),
        1 => (1..5u64).prop_map(Step::Trim),
    ]
}

/// What the world knows of a record.
#[derive(Debug, Clone, Default)]
struct Record {
    holder: Option<&'static str>,
    until: u64,
    /// Deliveries since the last restart lost count of some.
    deliveries: i16,
    /// It may be skipped: it was acknowledged or rejected, was delivered too often, or is not in the log.
    may_end: bool,
}

#[derive(Debug)]
struct World {
    records: InFlightRecords,
    model: BTreeMap<u64, Record>,
    stored_start: u64,
    stored: BTreeMap<u64, (Settled, i16)>,
    /// The write under way, and which records it may end.
    writing: Option<Write>,
    log_start: u64,
    now: u64,
    start: u64,
}

impl World {
    fn new() -> Self {
        Self {
            records: InFlightRecords::new(0, LIMITS),
            model: BTreeMap::new(),
            stored_start: 0,
            stored: BTreeMap::new(),
            writing: None,
            log_start: 0,
            now: 0,
            start: 0,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Acquire(who, records, batches) => self.acquire(MEMBERS[who], records, batches),
            Step::Acknowledge(who, at, length, types) => {
                self.acknowledge(MEMBERS[who], at, length, &types);
            }
            Step::Release(who) => {
                let acquired = self.records.acquired();
                self.records.release(MEMBERS[who]);
                let own = |(at, record): &(&u64, &mut Record)| {
                    record.holder == Some(MEMBERS[who]) && acquired.contains(at)
                };
                let released = self.model.iter_mut().filter(own);
                released.for_each(|(_, record)| {
                    record.holder = None;
                    record.deliveries -= 1;
                });
            }
            Step::Pass(seconds) => {
                self.now += seconds;
                let acquired = self.records.acquired();
                self.records.expire(Duration::from_secs(self.now));
                let now = self.now;
                let late = |(at, record): &(&u64, &mut Record)| {
                    record.until <= now && acquired.contains(at)
                };
                let released = self.model.iter_mut().filter(late);
                released.for_each(|(_, record)| record.expire());
            }
            Step::Begin => {
                if let Some((_, write)) = self.records.begin_write() {
                    assert!(self.writing.is_none());
                    self.writing = Some(write);
                }
            }
            Step::End(is_durable) => {
                if let Some(write) = self.writing.take() {
                    if is_durable {
                        self.store(&write);
                    }
                    self.records.end_write(is_durable);
                }
            }
            Step::Restart(is_stored) => self.restart(is_stored),
            Step::Trim(by) => {
                self.log_start += by;
                self.records.advance_log_start(self.log_start);
            }
        }
        self.check();
    }

    fn acquire(&mut self, member: &'static str, records_max: u64, batches: u64) {
        let Some(from) = self.records.next_fetch_offset() else {
            return;
        };
        // The first batch of a read holds its offset, and may begin before it.
        let first = from / BATCH;
        let deliverable = (first..first + batches).map(|number| BatchSpan {
            first: number * BATCH,
            last: number * BATCH + BATCH - 1,
        });
        // Every fifth batch is a marker.
        let deliverable = deliverable.filter(|span| span.first / BATCH % 5 != 4);
        let fetched = Fetched {
            from,
            end: (first + batches) * BATCH,
            deliverable: deliverable.collect(),
        };
        for at in (first * BATCH)..fetched.end {
            if at / BATCH % 5 == 4 {
                self.model.entry(at).or_default().may_end = true;
            }
        }
        let until = self.now + 15;
        let by = Acquirer {
            member: Arc::from(member),
            records_max,
            batch_size: 3,
            locked_until: Duration::from_secs(until),
        };
        let acquired = self.records.acquire(&fetched, &by);
        let count: u64 = acquired
            .iter()
            .map(|range| range.last - range.first + 1)
            .sum();
        assert!(count < records_max + BATCH, "whole batches at most");
        for range in acquired {
            self.acquired(member, range, until);
        }
    }

    fn acquired(&mut self, member: &'static str, range: AcquiredRecords, until: u64) {
        for at in range.first..=range.last {
            assert!(at >= self.start, "done already: {at}");
            let record = self.model.entry(at).or_default();
            assert_eq!(record.holder, None, "{at} is held twice");
            record.holder = Some(member);
            record.until = until;
            record.deliveries += 1;
            assert_eq!(record.deliveries, range.delivery_count, "{at}");
            assert!(record.deliveries <= LIMITS.delivery_count);
        }
    }

    fn acknowledge(&mut self, member: &'static str, at: u64, length: u64, types: &[i8]) {
        let first = self.start.saturating_sub(2) + at;
        let last = first + length;
        let types: Vec<i8> = match types {
            [one] => vec![*one],
            some => (0..=length)
                .map(|at| some[at as usize % some.len()])
                .collect(),
        };
        let (from, to) = (first as i64, last as i64);
        let parsed = acknowledgements([(from, to, types.as_slice())]).expect("well-formed");
        let taken = self.records.acknowledge(member, &parsed);
        let start = self.start;
        let mut offsets = (first..=last).filter(|at| *at >= start);
        let holds = offsets.all(|at| {
            let record = self.model.get(&at);
            record.is_some_and(|record| record.holder == Some(member))
        });
        if taken.is_err() {
            return;
        }
        assert!(holds, "acknowledged by somebody else");
        for (number, at) in (first..=last).enumerate().filter(|(_, at)| *at >= start) {
            let record = self.model.get_mut(&at).expect("held");
            let outcome = types[number % types.len()];
            record.may_end |= outcome != 2;
            record.may_end |= record.deliveries >= LIMITS.delivery_count;
        }
    }

    fn store(&mut self, write: &Write) {
        assert!(
            write.start >= self.stored_start,
            "the start offset only grows"
        );
        self.stored_start = write.start;
        for batch in &write.batches {
            for at in batch.first..=batch.last {
                self.stored.insert(at, (batch.state, batch.deliveries));
            }
        }
        self.stored = self.stored.split_off(&write.start);
    }

    fn restart(&mut self, is_stored: bool) {
        if let Some(write) = self.writing.take().filter(|_| is_stored) {
            self.store(&write);
        }
        let batches = self
            .stored
            .iter()
            .map(|(at, (state, deliveries))| StoredBatch {
                first: *at,
                last: *at,
                state: *state,
                deliveries: *deliveries,
            });
        let batches: Vec<_> = batches.collect();
        let loaded = InFlightRecords::load(self.stored_start, &batches, LIMITS);
        self.records = loaded.expect("in order");
        self.records.advance_log_start(self.log_start);
        self.start = 0;
        for (at, record) in &mut self.model {
            record.holder = None;
            // What was not written is not known any more.
            record.deliveries = self.stored.get(at).map_or(0, |(_, deliveries)| *deliveries);
        }
    }

    fn check(&mut self) {
        self.records.check();
        let (start, end) = (self.records.start_offset(), self.records.end_offset());
        assert!(start >= self.start, "the start offset only grows");
        self.start = start;
        assert!(start <= end);
        for at in self.stored_start.min(start)..start {
            let may_end = self.model.get(&at).is_some_and(|record| record.may_end);
            assert!(may_end || at < self.log_start, "{at} is lost");
        }
        for (at, (state, _)) in &self.stored {
            let may_end = self.model.get(at).is_some_and(|record| record.may_end);
            assert!(
                *state == Settled::Available || may_end,
                "{at} would be lost"
            );
        }
        let held = self.records.held();
        for (at, member) in &held {
            let record = self.model.get(at).expect("acquired once");
            assert_eq!(record.holder, Some(known(member)), "{at}");
        }
        for (at, record) in self.model.range_mut(start..) {
            if !held.contains_key(at) {
                record.holder = None;
            }
        }
    }
}

fn known(member: &str) -> &'static str {
    let member = MEMBERS.into_iter().find(|of| *of == member);
    member.expect("a member")
}

impl Record {
    fn expire(&mut self) {
        self.may_end |= self.deliveries >= LIMITS.delivery_count;
        self.holder = None;
    }
}

impl InFlightRecords {
    /// What members hold and have not acknowledged.
    fn acquired(&self) -> BTreeSet<u64> {
        let acquired = self.batches.iter();
        let acquired = acquired.filter(|(_, batch)| matches!(batch.state, State::Acquired(_)));
        acquired
            .flat_map(|(first, batch)| *first..=batch.last)
            .collect()
    }

    /// Who holds which record, or has acknowledged it while that is not durable.
    fn held(&self) -> BTreeMap<u64, &str> {
        let held = self.batches.iter().flat_map(|(first, batch)| {
            let member = batch.state.member().into_iter();
            member.flat_map(|member| (*first..=batch.last).map(move |at| (at, member)))
        });
        held.collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_record_is_lost_or_held_twice(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
    }

    /// Whatever happened before: once members acknowledge everything, and writes succeed, nothing is left.
    #[test]
    fn everything_is_delivered_in_the_end(steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.step(Step::End(true));
        world.step(Step::Pass(100));
        let until = world.records.end_offset() + 2 * BATCH;
        for _ in 0..60 {
            world.step(Step::Acquire(0, 9, 3));
            for (at, _) in world.records.held().into_iter().map(|(at, who)| (at, who.to_owned())).collect::<Vec<_>>() {
                world.acknowledge("a", (at + 2).saturating_sub(world.start.max(2)), 0, &[1]);
            }
            world.step(Step::Begin);
            world.step(Step::End(true));
        }
        prop_assert!(world.records.start_offset() >= until);
        prop_assert!(world.stored_start >= until);
    }
}
