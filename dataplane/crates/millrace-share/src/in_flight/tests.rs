use std::{sync::Arc, time::Duration};

use crate::{
    AcknowledgeError, AcquiredRecords, Acquirer, BatchSpan, Fetched, InFlightRecords,
    InvalidAcknowledgement, Limits, Settled, StoredBatch, acknowledgements,
};

mod properties;

const LIMITS: Limits = Limits {
    delivery_count: 3,
    record_locks: 100,
};

const ACCEPT: i8 = 1;
const RELEASE: i8 = 2;
const REJECT: i8 = 3;

fn seconds(at: u64) -> Duration {
    Duration::from_secs(at)
}

/// A member that wants up to so many records, and holds them until second 30.
fn member(id: &str, records_max: u64) -> Acquirer {
    Acquirer {
        member: Arc::from(id),
        records_max,
        batch_size: 1_000,
        locked_until: seconds(30),
    }
}

/// A read from the first of some batches on.
fn read(batches: &[(u64, u64)]) -> Fetched {
    let spans = batches.iter().map(|(first, last)| BatchSpan {
        first: *first,
        last: *last,
    });
    Fetched {
        from: batches[0].0,
        end: batches[batches.len() - 1].1 + 1,
        deliverable: spans.collect(),
    }
}

fn acquire(
    records: &mut InFlightRecords,
    by: &Acquirer,
    batches: &[(u64, u64)],
) -> Vec<(u64, u64, i16)> {
    let acquired = records.acquire(&read(batches), by);
    records.check();
    let range = |of: &AcquiredRecords| (of.first, of.last, of.delivery_count);
    acquired.iter().map(range).collect()
}

fn acknowledge(
    records: &mut InFlightRecords,
    member: &str,
    ranges: &[(i64, i64, &[i8])],
) -> Result<Option<u64>, AcknowledgeError> {
    let acknowledgements = acknowledgements(ranges.iter().copied()).expect("well-formed");
    let taken = records.acknowledge(member, &acknowledgements);
    records.check();
    taken
}

/// A stored batch: first and last offset, state and deliveries.
type Stored = (u64, u64, Settled, i16);

/// Writes everything that has changed: the start offset, and batches.
fn write(records: &mut InFlightRecords) -> Option<(u64, Vec<Stored>)> {
    let (_, write) = records.begin_write()?;
    records.end_write(true);
    records.check();
    let batch = |of: &StoredBatch| (of.first, of.last, of.state, of.deliveries);
    Some((write.start, write.batches.iter().map(batch).collect()))
}

#[test]
fn a_batch_is_acquired_by_one_member_and_acknowledged_by_it() {
    let mut records = InFlightRecords::new(0, LIMITS);
    assert_eq!(records.next_fetch_offset(), Some(0));
    assert_eq!(
        acquire(&mut records, &member("a", 10), &[(0, 9)]),
        [(0, 9, 1)]
    );
    assert_eq!(acquire(&mut records, &member("b", 10), &[(0, 9)]), []);
    assert_eq!(records.next_fetch_offset(), Some(10));
    let not_its_own = acknowledge(&mut records, "b", &[(0, 4, &[ACCEPT])]);
    assert_eq!(not_its_own, Err(AcknowledgeError::NotAcquired));
    assert_eq!(
        acknowledge(&mut records, "a", &[(0, 4, &[ACCEPT])]),
        Ok(Some(0))
    );
    assert_eq!(records.start_offset(), 0, "not durable yet");
    let twice = acknowledge(&mut records, "a", &[(4, 5, &[ACCEPT])]);
    assert_eq!(twice, Err(AcknowledgeError::NotAcquired));
    assert_eq!(write(&mut records), Some((5, Vec::new())));
    assert_eq!((records.start_offset(), records.end_offset()), (5, 10));
    // What is done already is acknowledged again, and changes nothing.
    assert_eq!(
        acknowledge(&mut records, "b", &[(0, 4, &[ACCEPT])]),
        Ok(None)
    );
    let beyond = acknowledge(&mut records, "a", &[(5, 10, &[ACCEPT])]);
    assert_eq!(beyond, Err(AcknowledgeError::BeyondEnd));
    assert_eq!(
        acknowledge(&mut records, "a", &[(0, 9, &[ACCEPT])]),
        Ok(Some(1))
    );
    assert_eq!(write(&mut records), Some((10, Vec::new())));
    assert_eq!((records.start_offset(), records.batches()), (10, 0));
    assert_eq!(write(&mut records), None);
}

#[test]
fn records_are_acknowledged_one_by_one() {
    let mut records = InFlightRecords::new(0, LIMITS);
    acquire(&mut records, &member("a", 10), &[(0, 5)]);
    let types = [ACCEPT, RELEASE, REJECT, 0, ACCEPT, ACCEPT];
    assert_eq!(
        acknowledge(&mut records, "a", &[(0, 5, &types)]),
        Ok(Some(0))
    );
    let stored = [
        (1, 1, Settled::Available, 1),
        (2, 3, Settled::Archived, 1),
        (4, 5, Settled::Acknowledged, 1),
    ];
    assert_eq!(write(&mut records), Some((1, stored.to_vec())));
    assert_eq!(records.next_fetch_offset(), Some(1));
    assert_eq!(
        acquire(&mut records, &member("b", 10), &[(0, 5)]),
        [(1, 1, 2)]
    );
    acknowledge(&mut records, "b", &[(1, 1, &[ACCEPT])]).expect("acquired");
    assert_eq!(write(&mut records), Some((6, Vec::new())));
}

#[test]
fn a_record_is_delivered_as_often_as_the_limit_says() {
    let mut records = InFlightRecords::new(0, LIMITS);
    for delivery in 1..=3 {
        let acquired = acquire(&mut records, &member("a", 10), &[(0, 1)]);
        assert_eq!(acquired, [(0, 1, delivery)]);
        assert!(!records.expire(seconds(29)));
        assert_eq!(records.next_timeout(), Some(seconds(30)));
        assert!(records.expire(seconds(30)));
        assert!(!records.expire(seconds(30)));
    }
    assert_eq!(
        (records.start_offset(), records.next_fetch_offset()),
        (2, Some(2))
    );
    assert_eq!(write(&mut records), Some((2, Vec::new())));
    // The same for what is released.
    for delivery in 1..=3 {
        let acquired = acquire(&mut records, &member("a", 10), &[(2, 2)]);
        assert_eq!(acquired, [(2, 2, delivery)]);
        acknowledge(&mut records, "a", &[(2, 2, &[RELEASE])]).expect("acquired");
        write(&mut records);
    }
    assert_eq!(records.start_offset(), 3);
}

#[test]
fn a_failed_write_leaves_the_records_with_their_member() {
    let mut records = InFlightRecords::new(0, LIMITS);
    acquire(&mut records, &member("a", 10), &[(0, 9)]);
    acknowledge(&mut records, "a", &[(0, 4, &[ACCEPT])]).expect("acquired");
    let (number, _) = records.begin_write().expect("something to write");
    assert_eq!(number, 0);
    assert_eq!(records.begin_write(), None, "one at a time");
    // What comes meanwhile is part of the next one.
    assert_eq!(
        acknowledge(&mut records, "a", &[(5, 6, &[ACCEPT])]),
        Ok(Some(1))
    );
    records.end_write(false);
    records.check();
    assert_eq!(records.start_offset(), 0);
    assert_eq!(
        write(&mut records),
        Some((0, vec![(5, 6, Settled::Acknowledged, 1)]))
    );
    assert_eq!(
        acknowledge(&mut records, "a", &[(0, 4, &[ACCEPT])]),
        Ok(Some(2))
    );
    assert_eq!(write(&mut records), Some((7, Vec::new())));
    // What was released by a timeout, and could not be written, is written with the next change.
    assert!(records.expire(seconds(30)));
    records.begin_write().expect("something to write");
    records.end_write(false);
    assert_eq!(records.next_fetch_offset(), Some(7));
    assert_eq!(
        write(&mut records),
        Some((7, vec![(7, 9, Settled::Available, 1)]))
    );
}

#[test]
fn whole_batches_are_acquired_and_grouped() {
    let mut records = InFlightRecords::new(0, LIMITS);
    let by = Acquirer {
        batch_size: 5,
        ..member("a", 12)
    };
    let log = [(0, 2), (3, 5), (6, 8), (9, 11), (12, 14), (15, 17)];
    let acquired = acquire(&mut records, &by, &log[..5]);
    assert_eq!(
        acquired,
        [(0, 5, 1), (6, 11, 1)],
        "no batch once there are 12"
    );
    assert_eq!(records.batches(), 1, "one batch in memory");
    assert_eq!(
        acquire(&mut records, &member("b", 1), &log[4..]),
        [(12, 14, 1)]
    );
}

#[test]
fn no_more_records_are_in_flight_than_may_be() {
    let mut records = InFlightRecords::new(0, LIMITS);
    acquire(&mut records, &member("a", 1_000), &[(0, 89)]);
    // A batch is not divided for the limit.
    assert_eq!(
        acquire(&mut records, &member("a", 1_000), &[(90, 149), (150, 159)]),
        [(90, 149, 1)]
    );
    assert_eq!(records.next_fetch_offset(), None);
    assert_eq!(
        acquire(&mut records, &member("b", 1_000), &[(150, 159)]),
        []
    );
    acknowledge(&mut records, "a", &[(10, 19, &[RELEASE])]).expect("acquired");
    write(&mut records);
    assert_eq!(
        records.next_fetch_offset(),
        Some(10),
        "what is available is acquired nevertheless"
    );
    assert_eq!(
        acquire(&mut records, &member("b", 1_000), &[(10, 19)]),
        [(10, 19, 2)]
    );
    // One that is much larger is divided.
    let mut records = InFlightRecords::new(0, LIMITS);
    assert_eq!(
        acquire(&mut records, &member("a", 1), &[(0, 999)]),
        [(0, 99, 1)]
    );
    assert_eq!(records.next_fetch_offset(), None);
    acknowledge(&mut records, "a", &[(0, 99, &[ACCEPT])]).expect("acquired");
    write(&mut records);
    assert_eq!(
        acquire(&mut records, &member("a", 1), &[(0, 999)]),
        [(100, 199, 1)]
    );
}

#[test]
fn offsets_without_records_are_archived() {
    let mut records = InFlightRecords::new(0, LIMITS);
    // Compacted away: below, between, and behind the batches, where a marker was.
    let mut fetched = read(&[(5, 7), (10, 11)]);
    (fetched.from, fetched.end) = (0, 14);
    let acquired = records.acquire(&fetched, &member("a", 100));
    records.check();
    assert_eq!(acquired.len(), 2);
    assert_eq!((records.start_offset(), records.end_offset()), (5, 14));
    let between = acknowledge(&mut records, "a", &[(5, 11, &[ACCEPT])]);
    assert_eq!(between, Err(AcknowledgeError::NotAcquired));
    acknowledge(
        &mut records,
        "a",
        &[(5, 7, &[ACCEPT]), (10, 11, &[RELEASE])],
    )
    .expect("acquired");
    let stored = vec![
        (10, 11, Settled::Available, 1),
        (12, 13, Settled::Archived, 0),
    ];
    assert_eq!(write(&mut records), Some((10, stored)));
    // Compacted away after they were released.
    let mut fetched = read(&[(20, 20)]);
    fetched.from = 10;
    assert_eq!(records.acquire(&fetched, &member("a", 1)).len(), 1);
    records.check();
    assert_eq!(records.start_offset(), 20);
}

#[test]
fn the_log_start_moves_over_records() {
    let mut records = InFlightRecords::new(0, LIMITS);
    acquire(&mut records, &member("a", 100), &[(0, 9)]);
    acknowledge(&mut records, "a", &[(8, 9, &[ACCEPT])]).expect("acquired");
    records.begin_write().expect("something to write");
    records.advance_log_start(5);
    records.check();
    assert_eq!(records.start_offset(), 5);
    records.advance_log_start(3);
    assert_eq!(records.start_offset(), 5, "never back");
    assert_eq!(
        acknowledge(&mut records, "a", &[(0, 6, &[ACCEPT])]),
        Ok(Some(1))
    );
    records.advance_log_start(20);
    records.check();
    records.end_write(true);
    assert_eq!((records.start_offset(), records.end_offset()), (20, 20));
    assert_eq!(
        acknowledge(&mut records, "a", &[(7, 7, &[ACCEPT])]),
        Ok(None)
    );
    assert_eq!(write(&mut records), Some((20, Vec::new())));
    assert_eq!(
        acquire(&mut records, &member("a", 100), &[(15, 25)]),
        [(20, 25, 1)]
    );
}

#[test]
fn a_member_that_goes_leaves_its_records_to_others() {
    let mut records = InFlightRecords::new(0, LIMITS);
    acquire(&mut records, &member("a", 1), &[(0, 4), (5, 9)]);
    acquire(&mut records, &member("b", 1), &[(5, 9)]);
    acknowledge(&mut records, "a", &[(0, 1, &[ACCEPT])]).expect("acquired");
    assert!(records.release("a") && !records.release("a"));
    records.check();
    assert_eq!(records.next_fetch_offset(), Some(2));
    assert_eq!(
        write(&mut records),
        Some((2, vec![(2, 4, Settled::Available, 0)]))
    );
    assert!(!records.is_settled(), "b holds some");
    assert!(records.release("b"));
    write(&mut records);
    assert!(records.is_settled());
}

#[test]
fn a_stored_state_is_read_again() {
    let batch = |first, last, state, deliveries| StoredBatch {
        first,
        last,
        state,
        deliveries,
    };
    let stored = [
        batch(5, 7, Settled::Acknowledged, 1),
        batch(12, 13, Settled::Archived, 3),
        batch(14, 15, Settled::Available, 3),
        batch(16, 16, Settled::Available, 1),
    ];
    let mut records = InFlightRecords::load(6, &stored, LIMITS).expect("in order");
    records.check();
    assert_eq!((records.start_offset(), records.end_offset()), (8, 17));
    // Those between were acquired, and never acknowledged.
    assert_eq!(records.next_fetch_offset(), Some(8));
    assert_eq!(
        acquire(&mut records, &member("a", 100), &[(0, 20)]),
        [(8, 11, 1), (16, 16, 2), (17, 20, 1)]
    );
    // The limit became lower: those that were delivered so often are not delivered again.
    assert_eq!(
        write(&mut records),
        Some((8, vec![(14, 15, Settled::Archived, 3)]))
    );
    for malformed in [
        vec![batch(5, 4, Settled::Archived, 1)],
        vec![
            batch(5, 6, Settled::Archived, 1),
            batch(6, 7, Settled::Archived, 1),
        ],
    ] {
        assert!(InFlightRecords::load(0, &malformed, LIMITS).is_err());
    }
}

#[test]
fn the_first_offset_is_stored_at_once() {
    let mut records = InFlightRecords::begin_at(0, LIMITS);
    assert_eq!(write(&mut records), Some((0, Vec::new())));
    assert_eq!(write(&mut records), None);
}

#[test]
fn acknowledgements_must_be_well_formed() {
    let refused = |ranges: &[(i64, i64, &[i8])]| acknowledgements(ranges.iter().copied()).err();
    assert_eq!(refused(&[(0, 2, &[1]), (3, 4, &[1, 2])]), None);
    assert_eq!(
        refused(&[(2, 1, &[1])]),
        Some(InvalidAcknowledgement::Range)
    );
    assert_eq!(
        refused(&[(-1, 1, &[1])]),
        Some(InvalidAcknowledgement::Range)
    );
    assert_eq!(
        refused(&[(0, 2, &[1]), (2, 3, &[1])]),
        Some(InvalidAcknowledgement::Order)
    );
    assert_eq!(refused(&[(0, 2, &[])]), Some(InvalidAcknowledgement::Types));
    assert_eq!(
        refused(&[(0, 2, &[1, 1])]),
        Some(InvalidAcknowledgement::Types)
    );
    assert_eq!(
        refused(&[(0, i64::MAX, &[1, 1])]),
        Some(InvalidAcknowledgement::Types)
    );
    assert_eq!(
        refused(&[(0, 0, &[4])]),
        Some(InvalidAcknowledgement::UnknownType(4))
    );
    assert_eq!(
        refused(&[(0, 0, &[-1])]),
        Some(InvalidAcknowledgement::UnknownType(-1))
    );
}
