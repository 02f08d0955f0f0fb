//! Which batches of a read-committed fetch belong to aborted transactions.
//!
//! The answer lists the aborted transactions by producer and first offset. From that offset on, the
//! producer's transactional batches are skipped, until its abort marker (KIP-98).

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use millrace_record::{BatchHeader, records};

/// The type of a control record that ends an aborted transaction: the second field of its key,
/// after the version.
const ABORT: [u8; 2] = [0, 0];

/// The aborted transactions of one partition's answer. Bounded by the answer.
#[derive(Debug, Default)]
pub(super) struct Aborted {
    /// First offset and producer id of those to come, in order.
    coming: VecDeque<(i64, i64)>,
    /// Producers whose transaction has begun and not ended.
    open: BTreeSet<i64>,
}

impl Aborted {
    pub(super) fn new(mut transactions: Vec<(i64, i64)>) -> Self {
        transactions.sort_unstable();
        Self {
            coming: transactions.into(),
            open: BTreeSet::new(),
        }
    }

    /// Whether a batch is to be delivered. Batches come in the order of the log.
    pub(super) fn admits(&mut self, header: &BatchHeader, batch: &Bytes) -> bool {
        while let Some(&(first, producer)) = self.coming.front()
            && first <= header.last_offset()
        {
            self.coming.pop_front();
            self.open.insert(producer);
        }
        if header.is_control() {
            if is_abort(batch) {
                self.open.remove(&header.producer_id);
            }
            return false;
        }
        !(header.is_transactional() && self.open.contains(&header.producer_id))
    }
}

fn is_abort(batch: &Bytes) -> bool {
    let Ok(mut records) = records(batch) else {
        return false;
    };
    let Some(Ok(marker)) = records.next() else {
        return false;
    };
    marker
        .key
        .is_some_and(|key| key.get(2..4) == Some(&ABORT[..]))
}

#[cfg(test)]
mod tests {
    use millrace_record::{BatchBuilder, Compression, header_of};

    use super::*;

    fn batch(offset: i64, producer: i64, kind: Option<[u8; 4]>) -> Bytes {
        let builder = BatchBuilder::new(Compression::None)
            .base_offset(offset)
            .producer(producer, 0, 0)
            .transactional();
        let (mut builder, key) = match &kind {
            Some(key) => (builder.control(), &key[..]),
            None => (builder, &b"k"[..]),
        };
        builder.push(1, Some(key), Some(b"v"), &[]);
        builder.build().freeze()
    }

    #[test]
    fn batches_between_the_first_offset_and_the_abort_marker_are_skipped() {
        let (abort, commit) = (Some([0, 0, 0, 0]), Some([0, 0, 0, 1]));
        let log = [
            (0, 7, None, true),
            (1, 7, commit, false),
            (2, 7, None, false),
            (3, 8, None, true),
            (4, 7, None, false),
            (5, 8, commit, false),
            (6, 7, abort, false),
            (7, 7, None, true),
            (8, 8, None, false),
        ];
        let mut aborted = Aborted::new(vec![(8, 8), (2, 7)]);
        for (offset, producer, kind, expected) in log {
            let batch = batch(offset, producer, kind);
            let header = header_of(&batch).expect("a batch");
            assert_eq!(aborted.admits(&header, &batch), expected, "{offset}");
        }
    }

    #[test]
    fn batches_outside_of_transactions_are_never_skipped() {
        let mut builder = BatchBuilder::new(Compression::None).producer(7, 0, 0);
        builder.push(1, None, None, &[]);
        let batch = builder.build().freeze();
        let header = header_of(&batch).expect("a batch");
        let mut aborted = Aborted::new(vec![(0, 7)]);
        assert!(aborted.admits(&header, &batch));
    }
}
