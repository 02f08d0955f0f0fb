use proptest::prelude::*;

use super::*;

fn batch(epoch: i16, first: i32, last: i32) -> Sequenced {
    Sequenced {
        producer_id: 7,
        epoch,
        first,
        last,
        is_transactional: false,
    }
}

fn write(producers: &mut Producers, batch: &Sequenced, base_offset: Offset) {
    assert_eq!(
        producers.check(batch, None),
        Ok(Verdict::Append),
        "{batch:?}"
    );
    let count = batch.last.wrapping_sub(batch.first) as u32 & 0x7fff_ffff;
    let last_offset = base_offset + u64::from(count);
    producers.write(
        batch,
        base_offset,
        Stamped {
            last_offset,
            log_append_time: -1,
            now_ms: 0,
        },
    );
}

fn out_of_order(expected: i32, got: i32, epoch: i16) -> Result<Verdict, AppendError> {
    Err(AppendError::OutOfOrderSequence {
        producer_id: 7,
        epoch,
        expected,
        got,
    })
}

#[test]
fn sequences_go_on_and_gaps_are_refused() {
    let mut producers = Producers::default();
    write(&mut producers, &batch(0, 0, 9), 100);
    write(&mut producers, &batch(0, 10, 10), 110);
    assert_eq!(
        producers.check(&batch(0, 12, 12), None),
        out_of_order(11, 12, 0)
    );
    assert_eq!(
        producers.check(&batch(0, 10, 11), None),
        out_of_order(11, 10, 0)
    );
    write(&mut producers, &batch(0, 11, 20), 111);
}

#[test]
fn the_last_five_batches_are_known_again() {
    let mut producers = Producers::default();
    for n in 0..7 {
        write(&mut producers, &batch(0, n * 10, n * 10 + 9), n as u64 * 10);
    }
    for n in 2..7 {
        let verdict = producers
            .check(&batch(0, n * 10, n * 10 + 9), None)
            .expect("known");
        let Verdict::Duplicate(written) = verdict else {
            panic!("batch {n} is a duplicate")
        };
        assert_eq!(
            (written.base_offset, written.last_offset),
            (n as u64 * 10, n as u64 * 10 + 9)
        );
    }
    assert_eq!(
        producers.check(&batch(0, 10, 19), None),
        out_of_order(70, 10, 0)
    );
}

#[test]
fn an_unknown_producer_begins_anywhere_and_a_new_epoch_at_zero() {
    let mut producers = Producers::default();
    write(&mut producers, &batch(3, 55, 56), 0);
    assert_eq!(
        producers.check(&batch(4, 57, 57), None),
        out_of_order(0, 57, 4)
    );
    write(&mut producers, &batch(4, 0, 0), 2);
    let zombie = AppendError::InvalidProducerEpoch {
        producer_id: 7,
        current: 4,
        batch: 3,
    };
    assert_eq!(producers.check(&batch(3, 57, 57), None), Err(zombie));
    // The batches of the old epoch are no duplicates any more.
    assert_eq!(
        producers.check(&batch(4, 55, 56), None),
        out_of_order(1, 55, 4)
    );
}

#[test]
fn sequences_wrap() {
    let mut producers = Producers::default();
    write(&mut producers, &batch(0, i32::MAX - 1, i32::MAX), 0);
    write(&mut producers, &batch(0, 0, 4), 2);
    let mut producers = Producers::default();
    write(&mut producers, &batch(0, i32::MAX, 2), 0);
    write(&mut producers, &batch(0, 3, 3), 4);
}

#[test]
fn impossible_numbers_are_refused() {
    for sequenced in [batch(-1, 0, 0), batch(0, -1, -1)] {
        let error = AppendError::InvalidSequence { producer_id: 7 };
        assert_eq!(Producers::default().check(&sequenced, None), Err(error));
    }
}

#[test]
fn silent_producers_are_forgotten() {
    let mut producers = Producers::default();
    let total = PRODUCERS_MAX as i64 + 1;
    for id in 0..total {
        let sequenced = Sequenced {
            producer_id: id,
            epoch: 0,
            first: 0,
            last: 0,
            is_transactional: false,
        };
        let stamped = Stamped {
            last_offset: 0,
            log_append_time: -1,
            now_ms: id,
        };
        producers.write(&sequenced, 0, stamped);
    }
    assert_eq!(producers.len(), PRODUCERS_MAX / 10 * 9);
    let kept = producers.since(i64::MIN);
    assert!(
        kept.keys().all(|&id| id > PRODUCERS_MAX as i64 / 10),
        "the newest stay"
    );
    producers.expire(total - 1);
    assert_eq!(producers.len(), 1);
}

proptest! {
    /// A client that sends again whatever was not answered, in order, up to five in flight: each
    /// of its batches is written once, in order.
    #[test]
    fn resending_never_duplicates(
        sizes in prop::collection::vec(1i32..5, 1..30),
        // How far the client goes back before each batch.
        rewinds in prop::collection::vec(0usize..5, 30),
    ) {
        let mut producers = Producers::default();
        let mut starts = vec![0];
        for size in &sizes {
            starts.push(starts.last().expect("one") + size);
        }
        let mut written: Vec<(i32, Offset)> = Vec::new();
        for (n, _) in sizes.iter().enumerate() {
            for resend in n.saturating_sub(rewinds[n])..=n {
                let sequenced = batch(0, starts[resend], starts[resend + 1] - 1);
                match producers.check(&sequenced, None).expect("in order or known") {
                    Verdict::Duplicate(known) => {
                        prop_assert_eq!(known.base_offset, written[resend].1);
                    }
                    Verdict::Append => {
                        prop_assert_eq!(resend, written.len());
                        let base = starts[resend] as u64;
                        let last_offset = starts[resend + 1] as u64 - 1;
                        let stamped = Stamped { last_offset, log_append_time: -1, now_ms: 0 };
                        producers.write(&sequenced, base, stamped);
                        written.push((starts[resend], base));
                    }
                }
            }
        }
        prop_assert_eq!(written.len(), sizes.len());
    }
}

fn transactional(epoch: i16, first: i32, last: i32) -> Sequenced {
    Sequenced {
        is_transactional: true,
        ..batch(epoch, first, last)
    }
}

fn coordinated(epoch: i16) -> Sequenced {
    transactional(epoch, -1, -1)
}

fn guard(at: Offset) -> VerificationGuard {
    VerificationGuard::new(7, 0, at)
}

fn note(producers: &mut Producers, batch: &Sequenced, base_offset: Offset) -> bool {
    let stamped = Stamped {
        last_offset: base_offset,
        log_append_time: -1,
        now_ms: 0,
    };
    producers.write(batch, base_offset, stamped)
}

fn marker(producer_epoch: i16, coordinator_epoch: i32, version: i16) -> TransactionMarker {
    TransactionMarker {
        producer_id: 7,
        producer_epoch,
        coordinator_epoch,
        committed: false,
        transaction_version: version,
    }
}

fn not_verified() -> Result<Verdict, AppendError> {
    Err(AppendError::NotVerified { producer_id: 7 })
}

/// The race that guards close: the coordinator verifies, the transaction is aborted, and the batch
/// that was verified comes last. It must not open a transaction that nobody ends.
#[test]
fn a_marker_voids_the_guards_from_before() {
    let mut producers = Producers::default();
    let first = transactional(0, 0, 9);
    assert_eq!(producers.check(&first, None), not_verified());
    assert_eq!(
        producers.check(&first, Some(&guard(0))),
        Ok(Verdict::Append)
    );
    producers.end_transaction((7, 0), 1, 5, 0);
    assert_eq!(producers.check(&first, Some(&guard(0))), not_verified());
    assert_eq!(producers.check(&first, Some(&guard(5))), not_verified());
    assert_eq!(
        producers.check(&first, Some(&guard(6))),
        Ok(Verdict::Append)
    );
    let of_another = VerificationGuard::new(8, 0, 6);
    assert_eq!(producers.check(&first, Some(&of_another)), not_verified());
    let of_an_older_epoch = VerificationGuard::new(7, -1, 6);
    assert_eq!(
        producers.check(&first, Some(&of_an_older_epoch)),
        not_verified()
    );
    // Nor does it help that the producer is forgotten.
    producers.expire(1);
    assert_eq!(producers.len(), 0);
    assert_eq!(producers.check(&first, Some(&guard(5))), not_verified());
    assert_eq!(
        producers.check(&first, Some(&guard(6))),
        Ok(Verdict::Append)
    );
}

#[test]
fn an_open_transaction_needs_no_guard_and_takes_nothing_else() {
    let mut producers = Producers::default();
    assert!(note(&mut producers, &transactional(0, 0, 0), 3));
    assert!(producers.is_within_transaction(7, 0) && !producers.is_within_transaction(7, 1));
    let next = transactional(0, 1, 1);
    assert_eq!(producers.check(&next, None), Ok(Verdict::Append));
    assert!(!note(&mut producers, &next, 4));
    let plain = producers.check(&batch(0, 2, 2), None);
    assert_eq!(plain, Err(AppendError::TransactionOpen { producer_id: 7 }));
    // A retry is answered, and a newer epoch has to be verified.
    let retried = producers.check(&transactional(0, 0, 0), None);
    assert!(matches!(retried, Ok(Verdict::Duplicate(_))));
    assert_eq!(
        producers.check(&transactional(1, 0, 0), None),
        not_verified()
    );
    assert_eq!(producers.end_transaction((7, 0), 1, 5, 0), Some(3));
    assert_eq!(producers.end_transaction((7, 0), 1, 6, 0), None);
    assert_eq!(producers.check(&batch(0, 2, 2), None), Ok(Verdict::Append));
}

#[test]
fn a_marker_with_a_new_epoch_restarts_the_sequences() {
    let mut producers = Producers::default();
    note(&mut producers, &transactional(0, 0, 4), 0);
    assert_eq!(producers.end_transaction((7, 1), 1, 5, 0), Some(0));
    assert_eq!(
        producers.check(&batch(1, 5, 5), None),
        out_of_order(0, 5, 1)
    );
    assert_eq!(producers.check(&batch(1, 0, 0), None), Ok(Verdict::Append));
    let zombie = producers.check(&transactional(0, 5, 5), Some(&guard(6)));
    let expected = AppendError::InvalidProducerEpoch {
        producer_id: 7,
        current: 1,
        batch: 0,
    };
    assert_eq!(zombie, Err(expected));
}

#[test]
fn markers_that_are_late_are_refused() {
    let mut producers = Producers::default();
    assert_eq!(producers.check_marker(&marker(3, 0, 2)), Ok(()), "unknown");
    note(&mut producers, &transactional(3, 0, 0), 0);
    let fenced = |batch| {
        let (producer_id, current) = (7, 3);
        Err(AppendError::InvalidProducerEpoch {
            producer_id,
            current,
            batch,
        })
    };
    assert_eq!(producers.check_marker(&marker(2, 0, 0)), fenced(2));
    assert_eq!(producers.check_marker(&marker(3, 0, 1)), Ok(()));
    assert_eq!(producers.check_marker(&marker(3, 0, 2)), fenced(3));
    assert_eq!(producers.check_marker(&marker(4, 0, 2)), Ok(()));
    producers.end_transaction((7, 3), 9, 1, 0);
    // The same marker again, as after a lost answer.
    assert_eq!(producers.check_marker(&marker(3, 9, 2)), Ok(()));
    assert_eq!(producers.check_marker(&marker(2, 9, 2)), fenced(2));
    let replaced = AppendError::CoordinatorFenced {
        producer_id: 7,
        current: 9,
        marker: 8,
    };
    assert_eq!(producers.check_marker(&marker(4, 8, 2)), Err(replaced));
}

#[test]
fn batches_of_coordinators_leave_no_sequences() {
    let mut producers = Producers::default();
    assert_eq!(producers.check_coordinated(&coordinated(2)), Ok(()));
    assert!(note(&mut producers, &coordinated(2), 0));
    assert!(!note(&mut producers, &coordinated(2), 1));
    let status = producers.statuses()[0];
    assert_eq!((status.epoch, status.last_sequence), (2, -1));
    assert_eq!(status.transaction_start, Some(0));
    let zombie = producers.check_coordinated(&coordinated(1));
    assert!(matches!(
        zombie,
        Err(AppendError::InvalidProducerEpoch { .. })
    ));
}

#[test]
fn whose_epoch_rises_with_each_transaction_starts_at_zero() {
    let producers = Producers::default();
    let second = transactional(0, 5, 9);
    assert_eq!(
        producers.check(&second, Some(&guard(0))),
        Ok(Verdict::Append)
    );
    let guard = guard(0).with_epoch_bump();
    assert_eq!(
        producers.check(&second, Some(&guard)),
        out_of_order(0, 5, 0)
    );
    let first = transactional(0, 0, 4);
    assert_eq!(producers.check(&first, Some(&guard)), Ok(Verdict::Append));
}

/// Its records would be stable at once, and a marker for it would change nothing.
#[test]
fn who_has_a_transaction_open_is_never_forgotten() {
    let mut producers = Producers::default();
    for id in 0..=PRODUCERS_MAX as i64 {
        let one = Sequenced {
            producer_id: id,
            is_transactional: id < 4_000,
            ..batch(0, 0, 0)
        };
        note(&mut producers, &one, id as u64);
    }
    assert_eq!(producers.len(), PRODUCERS_MAX / 10 * 9);
    assert_eq!(producers.open_transactions().count(), 4_000);
    producers.expire(i64::MAX);
    assert_eq!(producers.len(), 4_000);
    assert_eq!(producers.since(i64::MAX).len(), 4_000);
}
