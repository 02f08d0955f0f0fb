//! Opening: from what a crash left to a store that takes appends.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    sync::{Arc, atomic::AtomicBool},
};

use millrace_budget::Budget;
use millrace_meta::StreamMeta;
use millrace_model::StreamId;
use millrace_tasks::Task;
use parking_lot::RwLock;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{
    StoreInner, StreamParts,
    append::{Appends, BlockSizes, Sizing},
    compact::{self, Compactor},
    evict::{self, Evictor},
    trim::{self, LogTrims},
    upload::{self, Pace, Uploads},
};
use crate::{
    cache::{CachedRun, LocatedEntry, PLACE_BYTES, Places, SealedBlock},
    config::StreamConfig,
    error::OpenError,
    failure::Failure,
    metrics::StoreMetrics,
    recovery::{RecoveryReport, sort_out},
    share::LiveShare,
    state::StreamState,
};

/// What recovery hands to the store.
struct Replayed {
    streams: HashMap<StreamId, Arc<StreamState>>,
    blocks: Vec<SealedBlock>,
    report: RecoveryReport,
}

/// Builds the store and starts its tasks.
pub(super) async fn open(
    mut parts: StreamParts,
) -> Result<(Arc<StoreInner>, Vec<AbortOnDropHandle<()>>), OpenError> {
    let sizing = Sizing::of(&parts.config);
    let (budget, failure) = (Budget::new(sizing.cache_bytes), Arc::new(Failure::new()));
    let sizes = sizing.sizes();
    let (located, recovered_to) = std::mem::take(&mut parts.recovered).into_records()?;
    let metas = identify(&parts, &located).await?;
    let replay = Replay {
        budget: &budget,
        failure: &failure,
        sizes,
    };
    let Replayed {
        streams,
        blocks,
        report,
    } = replay.run(located, &metas, recovered_to)?;
    let unneeded_to = recovered_to.filter(|_| blocks.is_empty()).unwrap_or(0);
    tracing::info!(?report, "recovered the log");
    let (sealed, queue) = mpsc::unbounded_channel();
    let sequence = blocks.len() as u64;
    let metrics = StoreMetrics::new();
    metrics.recovered(report.kept_bytes);
    for block in blocks {
        // The receiver is in this function.
        let _ = sealed.send(Arc::new(block));
    }
    let pace = Pace::new(
        Arc::clone(&parts.clock),
        &parts.config,
        sizes.upload_threshold,
        sequence,
    );
    let inner = Arc::new(StoreInner {
        append: Appends::new(sequence, sizing, parts.wal.metrics().capacity, sealed),
        upload: Uploads::new(&parts.storage, pace, sizing.upload_room()),
        evict: Evictor::default(),
        compact: Compactor::default(),
        log_trims: LogTrims::from(unneeded_to),
        wal: parts.wal,
        background: parts.background,
        meta: parts.meta,
        block_cache: parts.block_cache,
        clock: parts.clock,
        random: parts.random,
        cluster_id: parts.cluster_id,
        node_epoch: parts.node.1,
        config: parts.config,
        tasks: parts.tasks,
        failure,
        metrics,
        streams: RwLock::new(streams),
        budget,
        closing: AtomicBool::new(false),
        share: LiveShare::default(),
        recovery: report,
    });
    let tasks = start_tasks(&inner, queue);
    Ok((inner, tasks))
}

fn start_tasks(
    inner: &Arc<StoreInner>,
    queue: mpsc::UnboundedReceiver<Arc<SealedBlock>>,
) -> Vec<AbortOnDropHandle<()>> {
    let (store, tasks) = (|| Arc::clone(inner), &inner.tasks);
    let handles = vec![
        tasks.spawn(Task::Upload, upload::run(store(), queue)),
        tasks.spawn(Task::UploadPace, upload::watch_pace(store())),
        tasks.spawn(Task::LogCacheEviction, evict::run(store())),
        tasks.spawn(Task::StreamTick, tick(store())),
        tasks.spawn(Task::WalWatch, watch_device(store())),
        tasks.spawn(Task::ObjectDeletion, trim::delete_unused(store())),
        tasks.spawn(Task::LogTrim, trim::trim_log(store())),
        tasks.spawn_background(Task::Compaction, compact::run(store())),
    ];
    handles.into_iter().map(AbortOnDropHandle::new).collect()
}

/// What an entry that only the log has will cost the cache while it is uploaded.
fn cost_of(located: &LocatedEntry) -> u64 {
    u64::from(located.entry.payload_bytes) + PLACE_BYTES
}

/// Seals blocks that are due by age, and samples gauges.
async fn tick(store: Arc<StoreInner>) -> Infallible {
    let StreamConfig {
        upload_interval, ..
    } = store.config;
    let pause = (upload_interval / 4).clamp(TICK_MIN, TICK_MAX);
    loop {
        tokio::time::sleep(pause).await;
        store.seal_if_old();
        store.metrics.sample(store.budget.used());
        store.wal.sample();
    }
}

/// Bounds of the pause between two looks at the open block's age.
const TICK_MIN: std::time::Duration = std::time::Duration::from_millis(10);
const TICK_MAX: std::time::Duration = std::time::Duration::from_secs(1);

async fn watch_device(store: Arc<StoreInner>) {
    let reason = store.wal.failed().await;
    store.failure.declare(reason);
}

/// Opens the streams that the log has records of and that are still this node's. Of streams that no longer exist,
/// or that were given up since, the log has nothing that is not in objects. The metadata is told also where there are none: what the
/// log has nothing of is given up.
async fn identify(
    parts: &StreamParts,
    located: &[LocatedEntry],
) -> Result<HashMap<StreamId, StreamMeta>, OpenError> {
    let ids: HashSet<StreamId> = located.iter().map(|located| located.stream).collect();
    let mut ids: Vec<StreamId> = ids.into_iter().collect();
    ids.sort_unstable();
    let opened = parts.meta.reopen_streams(&ids, parts.node.1).await;
    Ok(opened?.into_iter().map(|meta| (meta.id, meta)).collect())
}

struct Replay<'a> {
    budget: &'a Budget,
    failure: &'a Arc<Failure>,
    sizes: BlockSizes,
}

impl Replay<'_> {
    /// Opens the streams, and puts what the log owes them into blocks that wait for their upload.
    /// The payloads stay in the log.
    fn run(
        &self,
        located: Vec<LocatedEntry>,
        metas: &HashMap<StreamId, StreamMeta>,
        recovered_to: Option<u64>,
    ) -> Result<Replayed, OpenError> {
        let committed = metas.values().map(|meta| (meta.id, meta.end)).collect();
        let (kept, report) = sort_out(located, &committed)?;
        let mut runs: HashMap<StreamId, CachedRun> = HashMap::new();
        for LocatedEntry { stream, entry, .. } in &kept {
            runs.entry(*stream).or_default().push(entry.clone());
        }
        let blocks = self.blocks(kept, recovered_to);
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

    /// Whether a block of `bytes` payload that costs `cost` takes one more entry.
    fn admits(&self, (bytes, cost): (u64, u64), next: &LocatedEntry) -> bool {
        bytes < self.sizes.upload_threshold && cost + cost_of(next) <= self.sizes.cost_max
    }

    /// Cuts what is kept into blocks of the usual size.
    fn blocks(&self, kept: Vec<LocatedEntry>, recovered_to: Option<u64>) -> Vec<SealedBlock> {
        let mut blocks = Vec::new();
        let (mut entries, mut bytes, mut cost) = (Vec::new(), 0, 0);
        let mut kept = kept.into_iter().peekable();
        while let Some(located) = kept.next() {
            bytes += u64::from(located.entry.payload_bytes);
            cost += cost_of(&located);
            let mut wal_end = located.entry.wal.end;
            entries.push(located);
            match kept.peek() {
                Some(next) if self.admits((bytes, cost), next) => continue,
                Some(_) => {}
                // What stands behind the last record that is kept is owed to nobody.
                None => wal_end = wal_end.max(recovered_to.unwrap_or(0)),
            }
            let charge = self.budget.take_anyway(cost - bytes);
            let places = Places {
                entries: std::mem::take(&mut entries),
                charge: Some(charge),
            };
            blocks.push(SealedBlock::on_device(blocks.len() as u64, places, wal_end));
            (bytes, cost) = (0, 0);
        }
        blocks
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
