//! The limits of one kind of cold reads.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use metrics::Counter;
use millrace_budget::Budget;
use millrace_log::ReadResult;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{
    source::ColdReadError,
    tally::{Tallied, Tally},
};

/// How long a read waits for memory while none at all comes back. Others give it back when their
/// clients have taken their answers; where those do not, it reads [`BYTES_MIN`] without, so that
/// clients that take nothing slow the others down but never stop them. Its turn, kept until what was
/// found is taken, bounds how many do so at once; from then on it is charged to the broker's memory as
/// any answer is.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(2);

/// The least that is read of a partition, however little memory there is.
pub(crate) const BYTES_MIN: usize = 64 * 1024;

/// Reads of a lane that may exist at one time, waiting, under way, or waiting to be taken, besides the
/// first one of each connection. A place costs a few hundred bytes; of a connection that is alone, a
/// thousand partitions that are all behind have one each.
pub(super) const PLACES: usize = 2_048;

/// How much a lane may do at one time.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaneBounds {
    /// Reads that may be under way.
    pub(super) turns: usize,
    /// Memory for what reads under way may find, and for what they found as long as it is not
    /// written to its client.
    pub(super) memory_bytes: usize,
}

/// The bounds of one kind of reads. Places are shared between connections; within them everything is
/// first come, first served.
#[derive(Debug)]
pub(super) struct Lane {
    places: Arc<Tally>,
    turns: Arc<Semaphore>,
    memory: Budget,
    /// How often memory has come back.
    returned: Arc<AtomicU64>,
    /// Reads that found no place.
    refused: Counter,
    /// Reads that waited for memory in vain.
    short: Counter,
}

/// A read under way.
#[derive(Debug)]
pub(super) struct Entered {
    turn: OwnedSemaphorePermit,
    charge: Option<Charge>,
    /// What it may find; its first batch may be larger.
    pub(super) bytes_max: usize,
}

/// What a read found, and what it still holds.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) read: Result<ReadResult, ColdReadError>,
    charge: Option<Charge>,
    /// Kept where there was no memory to charge, until it is taken.
    turn: Option<OwnedSemaphorePermit>,
}

impl Lane {
    pub(super) fn new(source: &'static str, bounds: LaneBounds) -> Self {
        Self {
            places: Arc::default(),
            turns: Arc::new(Semaphore::new(bounds.turns)),
            memory: Budget::new(bounds.memory_bytes as u64),
            returned: Arc::default(),
            refused: metrics::counter!("millrace_cold_reads_refused_total", "source" => source),
            short: metrics::counter!("millrace_cold_reads_short_total", "source" => source),
        }
    }

    /// A place for one more read of a connection. One that has none is never refused: nobody would
    /// tell it when there is one again.
    pub(super) fn place(&self, connection: u64) -> Option<Tallied> {
        let place = self.places.add_within(connection, PLACES);
        if place.is_none() {
            self.refused.increment(1);
        }
        place
    }

    /// Waits for a turn. The storage gives up on what takes too long, and the network always lets some
    /// of what waits go on, so that turns come back.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        // Nobody closes it.
        Arc::clone(&self.turns).acquire_owned().await.ok()
    }

    /// Waits for memory for `bytes_max`; `make_room` is called where that is short.
    pub(super) async fn enter(
        &self,
        turn: OwnedSemaphorePermit,
        bytes_max: usize,
        make_room: impl Fn(),
    ) -> Entered {
        if self.memory.unused() < bytes_max as u64 {
            make_room();
        }
        let charge = self.charge(bytes_max).await;
        if charge.is_none() {
            self.short.increment(1);
        }
        let bytes_max = match charge {
            Some(_) => bytes_max,
            None => bytes_max.min(BYTES_MIN),
        };
        Entered {
            turn,
            charge,
            bytes_max,
        }
    }

    /// Waits for memory as long as any comes back.
    async fn charge(&self, bytes: usize) -> Option<Charge> {
        let mut memory = pin!(self.memory.take(bytes as u64));
        let mut returned = self.returned.load(Ordering::Relaxed);
        loop {
            if let Ok(memory) = timeout(MEMORY_WAIT_MAX, memory.as_mut()).await {
                return Some(Charge {
                    memory,
                    returned: Arc::clone(&self.returned),
                });
            }
            let now = self.returned.load(Ordering::Relaxed);
            if now == returned {
                return None;
            }
            returned = now;
        }
    }
}

impl Entered {
    /// The read is done: its turn is the next one's, unless that is all that bounds it.
    pub(super) fn leave(self, read: Result<ReadResult, ColdReadError>) -> Found {
        let Self { turn, charge, .. } = self;
        let turn = charge.is_none().then_some(turn);
        Found { read, charge, turn }
    }
}

impl Found {
    /// Bytes of records.
    pub(super) fn bytes(&self) -> usize {
        let batches = self.read.iter().flat_map(|read| &read.batches);
        batches.map(Bytes::len).sum()
    }

    /// Whether others wait for what it holds until it is taken, besides memory.
    pub(super) const fn holds_turn(&self) -> bool {
        self.turn.is_some()
    }

    /// The batches that fit into `bytes_max`, one at least; one of them holds the charge, and counts
    /// as an answer of its connection, until the answer is written or dropped.
    pub(super) fn into_read(
        self,
        bytes_max: usize,
        answer: Tallied,
    ) -> Result<ReadResult, ColdReadError> {
        let Self { read, charge, .. } = self;
        let mut read = read?;
        cut(&mut read.batches, bytes_max);
        let mut charge = charge;
        if let Some(charge) = &mut charge {
            charge.set(read.batches.iter().map(Bytes::len).sum());
        }
        // The largest: small ones are copied into the answer, and their charge would end there.
        if let Some(batch) = read.batches.iter_mut().max_by_key(|batch| batch.len()) {
            let bytes = std::mem::take(batch);
            *batch = Bytes::from_owner(TakenBatch {
                bytes,
                _charge: charge,
                _answer: answer,
            });
        }
        Ok(read)
    }
}

fn cut(batches: &mut Vec<Bytes>, bytes_max: usize) {
    let mut room = bytes_max;
    let mut first = true;
    let fits = batches.iter().take_while(|batch| {
        let fits = first || batch.len() <= room;
        first = false;
        room = room.saturating_sub(batch.len());
        fits
    });
    let count = fits.count();
    batches.truncate(count);
}

/// Memory of a lane.
#[derive(Debug)]
struct Charge {
    memory: millrace_budget::Charge,
    returned: Arc<AtomicU64>,
}

impl Charge {
    /// Charges what was found: mostly less than was allowed, more where the first batch is larger.
    fn set(&mut self, bytes: usize) {
        self.memory.set(bytes as u64);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.returned.fetch_add(1, Ordering::Relaxed);
    }
}

/// A batch that gives memory back when nobody holds it any more.
struct TakenBatch {
    bytes: Bytes,
    _charge: Option<Charge>,
    _answer: Tallied,
}

impl AsRef<[u8]> for TakenBatch {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Result<ReadResult, ColdReadError> {
        Ok(ReadResult {
            batches: Vec::new(),
            aborted_transactions: None,
            high_watermark: 0,
            last_stable_offset: 0,
            log_start: 0,
        })
    }

    /// Where there is no memory to charge, the turn is all that bounds what was found.
    #[tokio::test]
    async fn a_read_without_memory_keeps_its_turn_until_it_is_taken() {
        let bounds = LaneBounds {
            turns: 2,
            memory_bytes: BYTES_MIN,
        };
        let lane = Lane::new("test", bounds);
        let mut found = Vec::new();
        for _ in 0..2 {
            let turn = lane.turn().await.expect("open");
            let entered = lane.enter(turn, BYTES_MIN, || {}).await;
            found.push(entered.leave(nothing()));
        }
        let holds: Vec<bool> = found.iter().map(Found::holds_turn).collect();
        assert_eq!(holds, [false, true]);
        let _second = lane.turn().await;
        let third = timeout(Duration::from_millis(20), lane.turn());
        third.await.expect_err("two turns");
        let answers = Arc::new(Tally::default());
        let taken = found.pop().map(|short| short.into_read(1, answers.add(1)));
        assert!(taken.is_some_and(|read| read.is_ok()));
        assert!(lane.turn().await.is_some());
    }
}
