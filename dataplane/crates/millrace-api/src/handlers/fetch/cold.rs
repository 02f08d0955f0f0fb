//! Reads what has left memory: from the broker's own log where that still has it, else from
//! objects.
//!
//! All partitions of a fetch are read at once, within bounds over all fetches. A fetch that has
//! enough without them does not wait for them long: they go on by themselves and warm the cache for
//! the client's next fetch.
//!
//! The log and the bucket are two [`Lane`]s that share nothing: a bucket that does not answer keeps
//! every turn of its own and none of those who read what has not been uploaded yet.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{StreamExt, stream::FuturesUnordered};
use metrics::Counter;
use millrace_log::{ReadError, ReadResult};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{JoinError, JoinHandle},
    time::{sleep, timeout},
};

use super::{
    answer::{Gathered, Part},
    plan::{Plan, Source},
};
use crate::{code, context::Context};

/// How long a fetch waits for objects at most. Below the 30 s after which clients give up.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// How long it waits once it has enough to answer: long enough for a normal read, so that clients
/// that read old and new data are not answered in crumbs; short enough not to be felt as a stall.
const WAIT_WITH_ENOUGH: Duration = Duration::from_millis(100);

/// How long a read waits for memory. Others give it back when their clients have taken their
/// answers; where those do not, it reads [`BYTES_MIN`] without, so that clients that take nothing
/// slow the others down but never stop them. Its turn bounds how many do so at once, and what they
/// found is charged to the broker's memory as any answer is.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(2);

/// How long a fetch that found no place pauses at most, so that its client does not ask at once.
const REFUSED_PAUSE_MAX: Duration = Duration::from_millis(500);

/// The least that is read of a partition, however many share the answer.
const BYTES_MIN: usize = 64 * 1024;

/// The most that is read of a partition at once, so that one read does not take a lane's memory
/// from all others. Clients ask for 1 MiB by default.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// Reads of a lane that may exist at one time, under way or waiting for their turn. A place costs
/// a few hundred bytes; those beyond would wait for longer than their fetch.
const PLACES: usize = 1_024;

/// Reads of a lane that may be under way at one time.
const TURNS: usize = 64;

/// Memory of a lane: what its reads under way may find, and what they found of answers that have
/// not been written yet. 64 reads of the size that clients ask for.
const MEMORY_KIB: usize = 64 * 1024;

/// Bytes that a permit of a lane's memory stands for.
const KIB: usize = 1024;

/// The bounds over the cold reads of all fetches.
#[derive(Debug)]
pub(crate) struct ColdReads {
    /// Reads from the broker's own log, which take as long as the device does.
    local: Arc<Lane>,
    /// Reads from objects, which take as long as the bucket does.
    objects: Arc<Lane>,
}

/// The bounds of one kind of reads. Everything is first come, first served.
#[derive(Debug)]
struct Lane {
    places: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    /// Reads that found no place.
    refused: Counter,
    /// Reads that waited for memory in vain.
    short: Counter,
}

impl ColdReads {
    pub(crate) fn new() -> Self {
        Self {
            local: Arc::new(Lane::new("log")),
            objects: Arc::new(Lane::new("objects")),
        }
    }

    /// Starts a read that goes on even where nobody waits for it any more; `None` where too many
    /// exist already. The storage bounds how long each takes.
    fn start(&self, source: Source, bytes_max: usize) -> Option<JoinHandle<Outcome>> {
        let bytes_max = bytes_max.min(BYTES_MAX);
        let is_local = source.log.is_local(source.offset);
        let lane = if is_local { &self.local } else { &self.objects };
        let place = lane.place()?;
        let (local, objects) = (Arc::clone(&self.local), Arc::clone(&self.objects));
        Some(tokio::spawn(async move {
            let Source { log, offset } = source;
            let mut _place = place;
            if is_local {
                let entered = local.enter(bytes_max).await?;
                let read = log.read_local(offset, entered.bytes_max, true).await;
                if let Some(read) = read.transpose() {
                    return Some(entered.leave(read));
                }
                // Uploaded meanwhile.
                _place = objects.place()?;
            }
            let entered = objects.enter(bytes_max).await?;
            let read = log.read(offset, entered.bytes_max, true).await;
            Some(entered.leave(read))
        }))
    }
}

/// What a read found; `None` where it had to give up.
type Outcome = Option<Result<Charged, ReadError>>;

/// What was read, and the memory that it is charged with.
#[derive(Debug)]
struct Charged {
    read: ReadResult,
    charge: Option<OwnedSemaphorePermit>,
}

/// A read under way.
struct Entered {
    _turn: OwnedSemaphorePermit,
    charge: Option<OwnedSemaphorePermit>,
    /// What it may find; its first batch may be larger.
    bytes_max: usize,
}

impl Entered {
    fn leave(self, read: Result<ReadResult, ReadError>) -> Result<Charged, ReadError> {
        let charge = self.charge;
        read.map(|read| Charged { read, charge })
    }
}

impl Lane {
    fn new(source: &'static str) -> Self {
        Self {
            places: Arc::new(Semaphore::new(PLACES)),
            turns: Arc::new(Semaphore::new(TURNS)),
            memory: Arc::new(Semaphore::new(MEMORY_KIB)),
            refused: metrics::counter!("millrace_cold_reads_refused_total", "source" => source),
            short: metrics::counter!("millrace_cold_reads_short_total", "source" => source),
        }
    }

    fn place(&self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok();
        if place.is_none() {
            self.refused.increment(1);
        }
        place
    }

    /// Waits for a turn, and for memory for `bytes_max`. Whoever has waited for a turn for longer
    /// than a fetch does goes away: nobody is there for what it would find.
    async fn enter(&self, bytes_max: usize) -> Option<Entered> {
        let turn = timeout(WAIT_MAX, Arc::clone(&self.turns).acquire_owned()).await;
        // The semaphores are never closed.
        let turn = turn.ok()?.ok()?;
        let memory = Arc::clone(&self.memory).acquire_many_owned(kib(bytes_max));
        let (charge, bytes_max) = match timeout(MEMORY_WAIT_MAX, memory).await {
            Ok(charge) => (Some(charge.ok()?), bytes_max),
            Err(_) => {
                self.short.increment(1);
                (None, bytes_max.min(BYTES_MIN))
            }
        };
        Some(Entered {
            _turn: turn,
            charge,
            bytes_max,
        })
    }
}

impl Charged {
    /// What was read, in which one batch holds the charge: until the answer is written or dropped.
    fn into_read(self) -> ReadResult {
        let Self { mut read, charge } = self;
        let Some(mut charge) = charge else {
            return read;
        };
        let bytes: usize = read.batches.iter().map(Bytes::len).sum();
        let excess = charge.num_permits().saturating_sub(kib(bytes) as usize);
        drop(charge.split(excess));
        // The largest: small ones are copied into the answer, and their charge would end there.
        if let Some(batch) = read.batches.iter_mut().max_by_key(|batch| batch.len()) {
            let bytes = std::mem::take(batch);
            *batch = Bytes::from_owner(ChargedBatch {
                bytes,
                _charge: charge,
            });
        }
        read
    }
}

/// A batch that gives memory back when nobody holds it any more.
struct ChargedBatch {
    bytes: Bytes,
    _charge: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for ChargedBatch {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX)
}

/// Fills in what was missed in memory.
pub(super) async fn read(context: &Context, plan: &Plan, gathered: &mut Gathered) {
    let missed: Vec<usize> = gathered.missed().collect();
    let left = plan.bytes_max.saturating_sub(gathered.bytes());
    let share = (left / missed.len().max(1)).max(BYTES_MIN);
    let reads = FuturesUnordered::new();
    let mut refused = false;
    for at in missed {
        let Some(wanted) = plan.partitions.get(at) else {
            continue;
        };
        let Ok(source) = wanted.source.clone() else {
            continue;
        };
        let bytes_max = wanted.bytes_max.min(share);
        match context.cold_reads.start(source, bytes_max) {
            Some(reading) => reads.push(async move { (at, reading.await) }),
            None => refused = true,
        }
    }
    gather(plan, gathered, reads).await;
    if refused && gathered.bytes() == 0 {
        sleep(plan.wait.min(REFUSED_PAUSE_MAX)).await;
    }
}

/// Takes what the reads find, until there is enough or the time is up.
async fn gather(
    plan: &Plan,
    gathered: &mut Gathered,
    mut reads: FuturesUnordered<impl Future<Output = (usize, Result<Outcome, JoinError>)>>,
) {
    let at_the_latest = sleep(WAIT_MAX);
    tokio::pin!(at_the_latest);
    let mut had_enough = false;
    loop {
        let enough = gathered.bytes() > 0 && gathered.bytes() >= plan.bytes_min;
        if enough && !had_enough {
            had_enough = true;
            at_the_latest.set(sleep(WAIT_WITH_ENOUGH));
        }
        let read = tokio::select! {
            biased;
            read = reads.next() => read,
            () = &mut at_the_latest => return,
        };
        let Some((at, read)) = read else { return };
        // Where the task was lost or had to give up, the client asks again.
        if let Ok(Some(read)) = read {
            take(plan, gathered, at, read);
        }
    }
}

/// Puts what was read into the answer, as far as there is room; the first records always have it.
fn take(plan: &Plan, gathered: &mut Gathered, at: usize, read: Result<Charged, ReadError>) {
    let part = match read {
        Ok(mut charged) => {
            let mut room = plan.bytes_max.saturating_sub(gathered.bytes());
            let mut first = gathered.bytes() == 0;
            let fits = charged.read.batches.iter().take_while(|batch| {
                let fits = first || batch.len() <= room;
                first = false;
                room = room.saturating_sub(batch.len());
                fits
            });
            let count = fits.count();
            charged.read.batches.truncate(count);
            Part::Read(charged.into_read())
        }
        Err(error) => {
            tracing::debug!(%error, "a fetch could not read");
            Part::Failed(code::of_read(&error))
        }
    };
    gathered.fill(at, part);
}
