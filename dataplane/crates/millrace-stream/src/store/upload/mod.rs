//! From a sealed block to committed objects.
//!
//! Each block is uploaded by a task of its own, several at a time; commits are strictly in the order
//! of the blocks, because a stream's end in the metadata moves without gaps and the log is trimmed
//! from the front. Transient failures of the bucket or the metadata are retried for as long as they
//! last, with growing pauses; the log keeps what was acknowledged. A damaged record of the log halts its
//! stream ([`super::halt`]). Any other failure ends uploads, and with them the store: another node took
//! over, the metadata is corrupt, or the bucket refuses the objects.

mod grouping;
mod pace;

use std::{
    future::Future,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{Stream as FutureStream, StreamExt, TryStreamExt, stream};
use millrace_budget::{Budget, Charge};
use millrace_meta::{CommitError, ReserveError, StreamObject, StreamSetObject, Upload};
use millrace_model::{Classified, FailureClass, ObjectId, StreamId};
use millrace_objects::{
    Built, InvalidEntry, ObjectBuilder, ObjectKey, ObjectStorage, ObjectWrite, PutError,
    StreamEntry,
};
use tokio::{
    sync::{mpsc::UnboundedReceiver, watch},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

pub(super) use self::pace::{Pace, watch as watch_pace};
use self::{
    grouping::{Grouping, group},
    pace::Pressure,
};
use super::{
    ReadBackError, StoreInner,
    read_back::{DamagedRun, Loaded},
};
use crate::{
    cache::{Block, SealedBlock},
    error::FlushError,
};

/// Objects of one block that are written at the same time.
const PUTS_IN_FLIGHT_PER_BLOCK: usize = 8;

/// How fast blocks are uploaded, how much memory that takes, and how far they are committed.
pub(super) struct Uploads {
    storage: ObjectStorage,
    pub(super) pace: Pace,
    /// What blocks that are being uploaded cost together: at most half of the cache, so that the
    /// other half takes appends whatever the bucket does. A block whose one entry costs more goes
    /// alone.
    room: Budget,
    /// Sequence that the next block to be committed has.
    committed: watch::Sender<u64>,
}

impl Uploads {
    /// Uploads to `storage` at the given pace; the blocks under way may cost `room_bytes` together.
    pub(super) fn new(storage: &ObjectStorage, pace: Pace, room_bytes: u64) -> Self {
        Self {
            storage: storage.paced(pace.pacer()),
            pace,
            room: Budget::new(room_bytes),
            committed: watch::Sender::new(0),
        }
    }

    /// Blocks have `block_bytes` from now on, and those under way may cost `room_bytes` together.
    pub(super) fn resize(&self, block_bytes: u64, room_bytes: u64) {
        self.pace.set_block_bytes(block_bytes);
        self.room.set_capacity(room_bytes);
    }

    /// The sequence of the block that is committed next.
    pub(super) fn next_to_commit(&self) -> u64 {
        *self.committed.borrow()
    }

    /// Waits for the next commit, but not longer than `within`.
    pub(super) async fn commit_within(&self, within: Duration) {
        let mut committed = self.committed.subscribe();
        // Either way the caller looks again.
        let _ = timeout(within, committed.changed()).await;
    }

    /// Waits for its turn to take memory for an upload. Called in the order of the blocks, because
    /// only the oldest can be committed.
    async fn reserve_room(&self, sealed: &SealedBlock) -> Charge {
        let cost = sealed.cost.min(self.room.capacity());
        self.room.take(cost).await
    }
}

impl StoreInner {
    /// What the pace of uploads depends on.
    fn pressure(&self) -> Pressure {
        let (wal, pending) = (self.wal.metrics(), self.metrics.pending_bytes());
        let percent = |part: u64, whole: u64| part.saturating_mul(100) / whole.max(1);
        Pressure {
            closing: self.closing.load(Ordering::Acquire),
            waiting: self.budget.wanted() > 0 || self.log_is_wanted(),
            recovering: self.upload.pace.recovers(self.upload.next_to_commit()),
            log_percent: percent(wal.used, wal.capacity),
            cache_percent: percent(pending, self.budget.capacity()),
        }
    }

    /// Uploads everything that has been appended so far and waits until it is committed.
    pub(super) async fn flush(&self) -> Result<(), FlushError> {
        let goal = self.seal_for_flush();
        let _flushing = self.upload.pace.flushing();
        let mut committed = self.upload.committed.subscribe();
        tokio::select! {
            biased;
            reached = committed.wait_for(|&next| next >= goal) => {
                reached.map(|_| ()).map_err(|_| FlushError::Closed)
            }
            reason = self.failure.wait() => Err(FlushError::Failed(reason)),
        }
    }

    /// Takes a committed block over: it can be read from objects now, so the log and, where it is
    /// short, the memory need not keep it.
    fn committed(&self, sealed: &SealedBlock, block: Arc<Block>) {
        self.metrics.committed(sealed.bytes);
        {
            let streams = self.streams.read();
            for (id, run) in &block.streams {
                let state = streams.get(id);
                // Of one that is halted, less than that may be there.
                if let Some(state) = state.filter(|state| state.halted().is_none()) {
                    state.committed(run.end());
                }
            }
        }
        self.may_evict(block);
        self.log_trims.want(sealed.wal_end);
        self.upload.committed.send_replace(sealed.sequence + 1);
        self.upload.pace.committed();
        self.shrink_if_due();
        self.evict_to_high_mark();
        self.make_room();
    }
}

/// Why uploads ended. It cannot be repaired by trying again.
#[derive(Debug, thiserror::Error)]
enum Fatal {
    #[error(transparent)]
    Reserve(#[from] ReserveError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error(transparent)]
    Put(#[from] PutError),
    #[error("the log cache is out of order: {0}")]
    Build(#[from] InvalidEntry),
    #[error("the log cannot be read back: {0}")]
    ReadBack(#[from] ReadBackError),
    #[error("an upload task failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

impl Classified for Fatal {
    fn class(&self) -> FailureClass {
        match self {
            Self::Reserve(error) => error.class(),
            Self::Commit(error) => error.class(),
            Self::Put(error) => error.class(),
            Self::ReadBack(error) => error.class(),
            Self::Build(_) | Self::Task(_) => FailureClass::Rejected,
        }
    }
}

/// A block whose objects are in the bucket.
struct Uploaded {
    sealed: Arc<SealedBlock>,
    block: Arc<Block>,
    /// The streams that this block halts.
    damaged: Vec<DamagedRun>,
    /// `None` where nothing of the block is wanted any more.
    upload: Option<Upload>,
}

/// Uploads and commits the blocks that come out of `queue`, until the store stops.
pub(super) async fn run(store: Arc<StoreInner>, queue: UnboundedReceiver<Arc<SealedBlock>>) {
    let spawn = |(room, sealed)| {
        // In the order of the blocks.
        let upload = store
            .tasks
            .spawn_awaited(upload(Arc::clone(&store), sealed));
        let upload = AbortOnDropHandle::new(upload);
        async move { (room, upload.await) }
    };
    let admitted = blocks(Arc::clone(&store), queue).map(spawn);
    let mut uploads = std::pin::pin!(admitted.buffered(store.config.uploads_in_flight.max(1)));
    // The room is kept until the block may be evicted.
    while let Some((_room, joined)) = uploads.next().await {
        let uploaded = joined.map_err(Fatal::from).and_then(|result| result);
        let committed = match uploaded {
            Ok(uploaded) => commit(&store, uploaded).await,
            Err(fatal) => Err(fatal),
        };
        if let Err(fatal) = committed {
            store.failure.declare(fatal);
            return;
        }
    }
}

/// Blocks in their order, each once there is room to upload it.
fn blocks(
    store: Arc<StoreInner>,
    queue: UnboundedReceiver<Arc<SealedBlock>>,
) -> impl FutureStream<Item = (Charge, Arc<SealedBlock>)> {
    stream::unfold((store, queue), async |(store, mut queue)| {
        let sealed = queue.recv().await?;
        let room = store.upload.reserve_room(&sealed).await;
        Some(((room, sealed), (store, queue)))
    })
}

/// Writes a block's objects once every entry of it is durable in the log.
async fn upload(store: Arc<StoreInner>, sealed: Arc<SealedBlock>) -> Result<Uploaded, Fatal> {
    sealed.durability.settled().await;
    let Loaded { block, damaged } = store.load(&sealed).await?;
    let started = store.clock.now();
    let split = store.config.stream_object_split_bytes;
    let Grouping { set, singles } = group(&block, split, |stream| store.is_wanted(stream));
    let mut objects: Vec<Vec<StreamId>> = singles.into_iter().map(|stream| vec![stream]).collect();
    let single_count = objects.len();
    objects.extend((!set.is_empty()).then_some(set));
    if objects.is_empty() {
        return Ok(Uploaded {
            sealed,
            block,
            damaged,
            upload: None,
        });
    }
    let written: Vec<(ObjectId, Built)> = stream::iter(objects)
        .map(|streams| write_object(&store, &block, streams))
        .buffered(PUTS_IN_FLIGHT_PER_BLOCK)
        .try_collect()
        .await?;
    let mut written = written.into_iter();
    let stream_objects = written
        .by_ref()
        .take(single_count)
        .filter_map(|(id, built)| {
            // An object of one stream has exactly one range.
            let range = built.ranges.first().copied()?;
            Some(StreamObject {
                id,
                size: built.size,
                range,
            })
        });
    let stream_objects = stream_objects.collect();
    let stream_set = written.next().map(|(id, built)| StreamSetObject {
        id,
        size: built.size,
        ranges: built.ranges,
    });
    let elapsed = store.clock.now().saturating_sub(started);
    store.metrics.upload_seconds.record(elapsed.as_secs_f64());
    let upload = Upload {
        node_epoch: store.node_epoch,
        stream_set,
        stream_objects,
    };
    Ok(Uploaded {
        sealed,
        block,
        damaged,
        upload: Some(upload),
    })
}

/// Builds one object and writes it, however long it takes.
async fn write_object(
    store: &Arc<StoreInner>,
    block: &Arc<Block>,
    streams: Vec<StreamId>,
) -> Result<(ObjectId, Built), Fatal> {
    let (source, block_bytes) = (Arc::clone(block), store.config.object_block_bytes);
    // Checksums over megabytes: not on a thread that serves requests.
    let building = move || build(&source, &streams, block_bytes);
    let built = store.tasks.compute(building).await??;
    let mut id = reserve_object(store).await?;
    let mut write = start_write(store, id, &built);
    let mut retry = Retry::new(store);
    while let Err(error) = write.run().await {
        if let PutError::Conflict { .. } = error {
            tracing::error!(%error, "an object id was used twice; taking another one");
            id = reserve_object(store).await?;
            write = start_write(store, id, &built);
        } else if error.class().is_transient() {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "upload failed; retrying");
        } else {
            write.abort().await;
            return Err(error.into());
        }
        store.metrics.upload_retries.increment(1);
        retry.pause().await;
    }
    store.metrics.uploaded(built.size);
    // The chunks are not needed any more, and they would hold memory until the commit.
    Ok((
        id,
        Built {
            chunks: Vec::new(),
            ..built
        },
    ))
}

fn start_write(store: &StoreInner, id: ObjectId, built: &Built) -> ObjectWrite {
    let key = ObjectKey::of(&store.cluster_id, id);
    store.upload.storage.write(&key, built.chunks.clone())
}

fn build(block: &Block, streams: &[StreamId], block_bytes: usize) -> Result<Built, InvalidEntry> {
    let mut builder = ObjectBuilder::new(block_bytes);
    for (stream, run) in streams
        .iter()
        .filter_map(|id| Some((*id, block.streams.get(id)?)))
    {
        assert_eq!(
            run.entries.len(),
            run.payload_sums.len(),
            "both are pushed together"
        );
        for (entry, &payload_sum) in run.entries.iter().zip(&run.payload_sums) {
            let entry = StreamEntry {
                stream,
                epoch: run.epoch,
                base_offset: entry.base_offset,
                count: entry.count,
                payload: entry.payload.clone(),
            };
            builder.add_summed(entry, payload_sum)?;
        }
    }
    Ok(builder.finish())
}

async fn reserve_object(store: &StoreInner) -> Result<ObjectId, Fatal> {
    let reserve = || store.meta.reserve_objects(store.node_epoch, 1);
    Ok(until_stored(store, reserve).await?)
}

/// Commits one block and hands it over to the cache.
async fn commit(store: &StoreInner, uploaded: Uploaded) -> Result<(), Fatal> {
    let Uploaded {
        sealed,
        block,
        damaged,
        upload,
    } = uploaded;
    // Before the log may be trimmed up to the end of this block.
    damaged.into_iter().for_each(|run| store.halt(run));
    if let Some(upload) = upload.and_then(|upload| store.without_halted(upload)) {
        let commit = || store.meta.commit_upload(upload.clone());
        until_stored(store, commit).await?;
    }
    store.committed(&sealed, block);
    Ok(())
}

/// Asks the metadata again as long as the failure may pass.
async fn until_stored<T, E, F>(store: &StoreInner, mut ask: impl FnMut() -> F) -> Result<T, E>
where
    E: Classified + 'static,
    F: Future<Output = Result<T, E>>,
{
    let mut retry = Retry::new(store);
    loop {
        match ask().await {
            Err(error) if error.class().is_transient() => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "metadata failed; retrying"
                );
                store.metrics.commit_retries.increment(1);
                retry.pause().await;
            }
            settled => return settled,
        }
    }
}

/// Growing pauses with jitter.
struct Retry<'a> {
    store: &'a StoreInner,
    pause: Duration,
}

impl<'a> Retry<'a> {
    fn new(store: &'a StoreInner) -> Self {
        Self {
            store,
            pause: store.config.retry_pause_min,
        }
    }

    async fn pause(&mut self) {
        let half_us = u64::try_from(self.pause.as_micros() / 2).unwrap_or(u64::MAX);
        let jitter = Duration::from_micros(self.store.random.below(half_us.max(1)));
        tokio::time::sleep(self.pause / 2 + jitter).await;
        self.pause = (self.pause * 2).min(self.store.config.retry_pause_max);
    }
}
