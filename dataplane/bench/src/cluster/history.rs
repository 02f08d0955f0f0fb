//! What the clients of a cluster were told: which records are stored, and which are not.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;

use crate::drill::Place;

/// Failures that are shown when they happen; all are kept.
const SHOWN_MAX: usize = 20;

/// An acknowledged record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Which record.
    pub place: Place,
    /// The offset that the acknowledgement named; none where the broker knew only that it is stored.
    pub offset: Option<i64>,
    /// When the application handed it over.
    pub sent_at: Duration,
    /// When it was acknowledged.
    pub acked_at: Duration,
}

/// An error that reached the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which client, and what it was told.
    pub what: String,
    /// When.
    pub at: Duration,
    /// Whether the client tried for as long as its settings say.
    pub in_time: bool,
}

/// Everything up to one moment.
#[derive(Debug, Default, Clone)]
pub struct Recorded {
    /// Records that each producer has handed over for each partition: their sequences are those below.
    pub sent: HashMap<(u32, i32), u64>,
    /// In the order in which the acknowledgements came.
    pub acks: Vec<Ack>,
    /// In their order.
    pub failures: Vec<Failure>,
}

/// The history while it grows.
#[derive(Debug)]
pub struct History {
    recorded: Mutex<Recorded>,
    /// By partition: when the newest record that is acknowledged was handed over, in microseconds.
    newest: Vec<AtomicU64>,
}

impl History {
    /// Of a topic with so many partitions.
    #[must_use]
    pub fn new(partitions: i32) -> Self {
        Self {
            recorded: Mutex::default(),
            newest: (0..partitions).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> i32 {
        i32::try_from(self.newest.len()).unwrap_or(i32::MAX)
    }

    /// A record is handed over.
    pub fn send(&self, place: Place) {
        let mut recorded = self.recorded.lock();
        let sent = recorded.sent.entry((place.producer, place.partition));
        let sent = sent.or_default();
        *sent = (*sent).max(place.sequence + 1);
    }

    /// A record is acknowledged.
    pub fn acknowledge(&self, ack: Ack) {
        self.recorded.lock().acks.push(ack);
        let newest = usize::try_from(ack.place.partition).ok();
        if let Some(newest) = newest.and_then(|at| self.newest.get(at)) {
            newest.fetch_max(micros(ack.sent_at), Ordering::AcqRel);
        }
    }

    /// An error reached the application.
    pub fn fail(&self, failure: Failure) {
        let mut recorded = self.recorded.lock();
        if recorded.failures.len() < SHOWN_MAX {
            eprintln!("at {:.3} s: {}", failure.at.as_secs_f64(), failure.what);
        }
        recorded.failures.push(failure);
    }

    /// The partitions that have acknowledged nothing that was handed over since `moment`.
    pub fn unserved_since(&self, moment: Duration) -> Vec<i32> {
        let since = micros(moment);
        (0..)
            .zip(&self.newest)
            .filter(|(_, newest)| newest.load(Ordering::Acquire) < since)
            .map(|(partition, _)| partition)
            .collect()
    }

    /// Acknowledgements so far.
    pub fn acked(&self) -> usize {
        self.recorded.lock().acks.len()
    }

    /// Everything so far.
    pub fn snapshot(&self) -> Recorded {
        self.recorded.lock().clone()
    }

    /// The acknowledgements that came after the first `known` ones.
    pub fn acks_after(&self, known: usize) -> Vec<Ack> {
        let recorded = self.recorded.lock();
        recorded.acks.get(known..).unwrap_or_default().to_vec()
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_served_once_a_record_handed_over_later_is_acknowledged() {
        let history = History::new(2);
        let ack = |partition, sent_ms, acked_ms| Ack {
            place: Place {
                producer: 0,
                partition,
                sequence: 0,
            },
            offset: None,
            sent_at: Duration::from_millis(sent_ms),
            acked_at: Duration::from_millis(acked_ms),
        };
        history.acknowledge(ack(0, 5, 20));
        history.acknowledge(ack(1, 10, 11));
        let since = Duration::from_millis(10);
        assert_eq!(history.unserved_since(since), [0]);
        history.acknowledge(ack(0, 12, 30));
        assert!(history.unserved_since(since).is_empty());
        assert_eq!((history.acked(), history.acks_after(2).len()), (3, 1));
    }
}
