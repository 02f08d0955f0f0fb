//! Reads from objects what has left memory.
//!
//! All partitions of a fetch are read at once, within a bound over all fetches. A fetch that has
//! enough without them does not wait for them long: they go on by themselves and warm the cache for
//! the client's next fetch.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use millrace_log::{ReadError, ReadResult};
use tokio::{sync::Semaphore, task::JoinHandle, time::sleep};

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

/// The least that is read of a partition, however many share the answer.
const BYTES_MIN: usize = 64 * 1024;

/// Fills in what was missed in memory.
pub(super) async fn read(context: &Context, plan: &Plan, gathered: &mut Gathered) {
    let missed: Vec<usize> = gathered.missed().collect();
    let left = plan.bytes_max.saturating_sub(gathered.bytes());
    let share = (left / missed.len().max(1)).max(BYTES_MIN);
    let mut reads: FuturesUnordered<_> = missed
        .into_iter()
        .filter_map(|at| plan.partitions.get(at).map(|wanted| (at, wanted)))
        .filter_map(|(at, wanted)| {
            wanted
                .source
                .clone()
                .ok()
                .map(|source| (at, wanted, source))
        })
        .map(|(at, wanted, source)| {
            let reading = start(&context.cold_reads, source, wanted.bytes_max.min(share));
            async move { (at, reading.await) }
        })
        .collect();
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
        take(plan, gathered, at, read.ok());
    }
}

/// Starts a read that goes on even where nobody waits for it any more. The permit bounds how many
/// do; the storage bounds how long each takes.
fn start(
    permits: &Arc<Semaphore>,
    source: Source,
    bytes_max: usize,
) -> JoinHandle<Option<Result<ReadResult, ReadError>>> {
    let permits = Arc::clone(permits);
    tokio::spawn(async move {
        // The semaphore is never closed.
        let _permit = permits.acquire_owned().await.ok()?;
        Some(source.log.read(source.offset, bytes_max, true).await)
    })
}

/// Puts what was read into the answer, as far as there is room; the first records always have it.
fn take(
    plan: &Plan,
    gathered: &mut Gathered,
    at: usize,
    read: Option<Option<Result<ReadResult, ReadError>>>,
) {
    let part = match read.flatten() {
        Some(Ok(mut read)) => {
            let mut room = plan.bytes_max.saturating_sub(gathered.bytes());
            let mut first = gathered.bytes() == 0;
            let fits = read.batches.iter().take_while(|batch| {
                let fits = first || batch.len() <= room;
                first = false;
                room = room.saturating_sub(batch.len());
                fits
            });
            let count = fits.count();
            read.batches.truncate(count);
            Part::Read(read)
        }
        Some(Err(error)) => {
            tracing::debug!(%error, "a fetch could not read");
            Part::Failed(code::of_read(&error))
        }
        // The reading task was lost: the client asks again.
        None => return,
    };
    gathered.fill(at, part);
}
