use millrace_record::{Batch, BatchBuilder, Compression, split};

use super::*;

/// A batch of so many records at an offset, of a producer's transaction if there is one.
fn data(at: u64, count: usize, transaction_of: Option<i64>) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    if let Some(producer) = transaction_of {
        builder = builder.producer(producer, 0, 0).transactional();
    }
    for _ in 0..count {
        builder.push(1, None, Some(b"x"), &[]);
    }
    at_offset(builder.build(), at)
}

fn marker(at: u64, producer: i64, committed: bool) -> Bytes {
    let end = TransactionEnd {
        committed,
        coordinator_epoch: 0,
    };
    at_offset(end.batch((producer, 0), 1), at)
}

fn at_offset(bytes: bytes::BytesMut, at: u64) -> Bytes {
    let mut batch: Batch = split(bytes).expect("one batch").remove(0);
    batch.restamp(at, 0, None);
    batch.freeze()
}

fn spans(fetched: &Fetched) -> Vec<(u64, u64)> {
    let spans = fetched.deliverable.iter();
    spans.map(|span| (span.first, span.last)).collect()
}

#[test]
fn markers_are_left_out() {
    let batches = [
        data(3, 2, None),
        data(5, 1, Some(1)),
        marker(6, 1, false),
        data(7, 1, None),
    ];
    let fetched = deliverable(4, &batches, &[]).expect("sound");
    assert_eq!((fetched.from, fetched.end), (4, 8));
    assert_eq!(spans(&fetched), [(3, 4), (5, 5), (7, 7)]);
    let nothing = deliverable(4, &[], &[]).expect("sound");
    assert_eq!((nothing.from, nothing.end, spans(&nothing)), (4, 4, vec![]));
    assert!(deliverable(0, &[Bytes::from_static(b"x")], &[]).is_err());
}

#[test]
fn records_of_aborted_transactions_are_left_out() {
    let batches = [
        data(10, 1, Some(1)),
        data(11, 1, Some(2)),
        data(12, 1, None),
        marker(13, 1, false),
        data(14, 1, Some(1)),
        marker(15, 2, true),
        marker(16, 1, true),
        data(17, 1, Some(2)),
        marker(18, 2, false),
    ];
    let aborted = |producer_id, first_offset| AbortedRecords {
        producer_id,
        first_offset,
    };
    // The first one has begun before the read.
    let fetched = deliverable(10, &batches, &[aborted(1, 4), aborted(2, 17)]).expect("sound");
    assert_eq!(spans(&fetched), [(11, 11), (12, 12), (14, 14)]);
    assert_eq!(fetched.end, 19);
}
