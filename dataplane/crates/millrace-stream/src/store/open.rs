//! Opening: from what a crash left to a store that takes appends.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64},
    },
};

use millrace_meta::StreamMeta;
use millrace_model::StreamId;
use millrace_wal::Recovered;
use parking_lot::{Mutex, RwLock};
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
};
use tokio_util::task::AbortOnDropHandle;

use super::{StoreInner, StreamParts};
use crate::{
    cache::{Block, Budget, CachedRun, ENTRY_OVERHEAD_BYTES, Placed},
    config::StreamConfig,
    entry,
    error::OpenError,
    failure::Failure,
    measure::Measures,
    reclaim,
    recovery::{Located, RecoveryReport, sort_out},
    state::StreamState,
    upload,
};

/// The most of the cache that one block takes: with four, one is filled while others are uploaded.
const BLOCKS_IN_CACHE_MIN: u64 = 4;

/// The most of the log that one block takes. The log is trimmed block by block, and small records
/// cost it more than their payload, so the payload alone does not bound it.
const BLOCKS_IN_LOG_MIN: u64 = 4;

/// The most bytes of one block, whatever the cache: an object is written with one PUT, whose bound
/// is 5 GiB, and a restart begins again what one upload did not finish.
const BLOCK_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// What recovery hands to the store.
struct Replayed {
    streams: HashMap<StreamId, Arc<StreamState>>,
    blocks: Vec<Block>,
    report: RecoveryReport,
}

/// Builds the store and starts its tasks.
pub(super) async fn open(
    parts: StreamParts,
) -> Result<(Arc<StoreInner>, Vec<AbortOnDropHandle<()>>), OpenError> {
    let (budget, failure) = (
        Budget::new(parts.config.cache_bytes),
        Arc::new(Failure::new()),
    );
    let upload_threshold = parts
        .config
        .upload_threshold_bytes
        .min(parts.config.cache_bytes / BLOCKS_IN_CACHE_MIN)
        .min(BLOCK_BYTES_MAX);
    let recovered_to = parts.recovered.last().map(|record| record.range.end);
    let (located, metas) = identify(&parts).await?;
    let replay = Replay {
        budget: &budget,
        failure: &failure,
        block_bytes: upload_threshold,
    };
    let Replayed {
        streams,
        blocks,
        report,
    } = replay.run(located, &metas, recovered_to)?;
    if let (true, Some(end)) = (blocks.is_empty(), recovered_to) {
        parts.wal.trim(end);
    }
    tracing::info!(?report, "recovered the log");
    let (sealed, queue) = mpsc::unbounded_channel();
    let sequence = blocks.len() as u64;
    let measures = Measures::new();
    measures.recovered(report.kept_bytes);
    for block in blocks {
        // The receiver is in this function.
        let _ = sealed.send(Arc::new(block));
    }
    let inner = Arc::new(StoreInner {
        wal_span_max: parts.wal.stats().capacity / BLOCKS_IN_LOG_MIN,
        upload_threshold,
        wal: parts.wal,
        storage: parts.storage,
        meta: parts.meta,
        block_cache: parts.block_cache,
        clock: parts.clock,
        random: parts.random,
        cluster_id: parts.cluster_id,
        node_epoch: parts.node.1,
        config: parts.config,
        runtime: Handle::current(),
        failure,
        measures,
        streams: RwLock::new(streams),
        budget,
        open_block: Mutex::new(Block::new(sequence)),
        sealed,
        committed: watch::Sender::new(0),
        evictable: Mutex::new(VecDeque::new()),
        log_waiters: AtomicU64::new(0),
        closing: AtomicBool::new(false),
        recovery: report,
    });
    let tasks = vec![
        spawn(upload::run(Arc::clone(&inner), queue)),
        spawn(tick(Arc::clone(&inner))),
        spawn(watch_device(Arc::clone(&inner))),
        spawn(reclaim::run(Arc::clone(&inner))),
    ];
    Ok((inner, tasks))
}

fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(task))
}

/// Seals blocks that are due by age, and samples gauges.
async fn tick(store: Arc<StoreInner>) {
    let StreamConfig {
        upload_interval, ..
    } = store.config;
    let pause = (upload_interval / 4).clamp(TICK_MIN, TICK_MAX);
    loop {
        tokio::time::sleep(pause).await;
        store.seal_if_old();
        store.measures.sample(store.budget.used());
    }
}

/// Bounds of the pause between two looks at the open block's age.
const TICK_MIN: std::time::Duration = std::time::Duration::from_millis(10);
const TICK_MAX: std::time::Duration = std::time::Duration::from_secs(1);

async fn watch_device(store: Arc<StoreInner>) {
    let reason = store.wal.failed().await;
    store.failure.declare(&reason.to_string());
}

/// Decodes the log's records and opens the streams that they belong to. Streams that no longer
/// exist are not in the answer.
async fn identify(
    parts: &StreamParts,
) -> Result<(Vec<Located>, HashMap<StreamId, StreamMeta>), OpenError> {
    let locate = |record: &Recovered| {
        let wal = record.range.start..record.range.end;
        let logged = entry::decode(record.payload.clone()).map_err(|source| OpenError::Record {
            position: wal.start,
            source,
        })?;
        Ok::<_, OpenError>(Located { wal, logged })
    };
    let located: Vec<Located> = parts
        .recovered
        .iter()
        .map(locate)
        .collect::<Result<_, _>>()?;
    let ids: HashSet<StreamId> = located
        .iter()
        .map(|located| located.logged.stream)
        .collect();
    let ids: Vec<StreamId> = ids.into_iter().collect();
    let metas = if ids.is_empty() {
        Vec::new()
    } else {
        let opened = parts.meta.open_streams(&ids, parts.node.1).await;
        opened.map_err(|error| OpenError::Meta(error.to_string()))?
    };
    Ok((
        located,
        metas.into_iter().map(|meta| (meta.id, meta)).collect(),
    ))
}

struct Replay<'a> {
    budget: &'a Budget,
    failure: &'a Arc<Failure>,
    block_bytes: u64,
}

impl Replay<'_> {
    /// Puts what the log owes into blocks, as if it had just been appended, and opens its streams.
    fn run(
        &self,
        located: Vec<Located>,
        metas: &HashMap<StreamId, StreamMeta>,
        recovered_to: Option<u64>,
    ) -> Result<Replayed, OpenError> {
        let committed = metas.values().map(|meta| (meta.id, meta.end)).collect();
        let (kept, report) = sort_out(located, &committed)?;
        let mut runs: HashMap<StreamId, CachedRun> = HashMap::new();
        let mut blocks: Vec<Block> = Vec::new();
        for Located { wal, logged } in kept {
            runs.entry(logged.stream)
                .or_default()
                .push(logged.entry.clone());
            if blocks
                .last()
                .is_none_or(|block| block.bytes >= self.block_bytes)
            {
                blocks.push(Block::new(blocks.len() as u64));
            }
            let Some(block) = blocks.last_mut() else {
                continue;
            };
            let bytes = logged.entry.payload.len() as u64 + ENTRY_OVERHEAD_BYTES;
            let charge = self.budget.charge_anyway(bytes);
            let entry::LoggedEntry {
                stream,
                epoch,
                entry,
            } = logged;
            let placed = Placed {
                stream,
                epoch,
                entry,
                wal,
                charge,
            };
            block.push(placed, std::time::Duration::ZERO);
        }
        if let (Some(last), Some(end)) = (blocks.last_mut(), recovered_to) {
            // What stands behind the last record that is kept is owed to nobody.
            last.wal_end = end;
        }
        let streams = metas.values().map(|meta| {
            let run = runs.remove(&meta.id).unwrap_or_default();
            (meta.id, Arc::new(self.stream(meta, run)))
        });
        Ok(Replayed {
            streams: streams.collect(),
            blocks,
            report,
        })
    }

    fn stream(&self, meta: &StreamMeta, mut run: CachedRun) -> StreamState {
        let mut end = run.end_offset().unwrap_or(meta.end);
        if end < meta.start {
            // Trimmed beyond everything that is left: the stream goes on from its start.
            end = meta.start;
            run.clear();
        }
        let ids = (meta.id, meta.epoch);
        StreamState::new(ids, meta.start, end, run, Arc::clone(self.failure))
    }
}
