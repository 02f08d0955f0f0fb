//! What the broker knows about itself, as the admin HTTP shows it.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use millrace_api::ApiService;
use millrace_cluster::View;
use millrace_coordinator::{GroupCoordinator, config::GROUPS_MAX};
use millrace_log::{LogManager, PARTITION_BYTES, PRODUCER_BYTES};
use millrace_model::{Cause, Classified, NodeEpoch, NodeId, TopicPartition};
use millrace_net::Server;
use millrace_objects::{CorruptPart, ObjectStorage};
use millrace_records::{Records, RecordsError};
use millrace_stream::StreamStore;
use millrace_tasks::Supervisor;
use millrace_time::SharedClock;
use millrace_wal::Wal;

use crate::{
    admin::{
        CorruptPartStatus, GroupStatus, Inspect, LISTED_MAX, MemoryPartStatus, MemoryStatus,
        OfflinePartition, QuotasAnswer, Status, StorageStatus,
    },
    catch_up::{CatchUp, CatchUpAnswer, Elsewhere},
    config::BrokerConfig,
    control_link::LinkState,
    identity::HeldBack,
    memory::{MemoryBudgets, Part},
    settings::{LiveSettings, ShownSetting},
};

/// How far the broker has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Starting = 0,
    Running = 1,
    Stopping = 2,
}

impl Phase {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
        }
    }
}

/// Filled in while the broker starts.
pub(crate) struct State {
    node_id: NodeId,
    settings: Arc<LiveSettings>,
    memory: MemoryBudgets,
    clock: SharedClock,
    started: Duration,
    phase: AtomicU8,
    tasks: Supervisor,
    /// `cluster.id`, which the metadata confirms.
    configured_cluster_id: Option<String>,
    pub(crate) control_link: Option<Arc<LinkState>>,
    pub(crate) identity: OnceLock<Identity>,
    pub(crate) serving: OnceLock<Serving>,
}

/// Known once the metadata is open.
pub(crate) struct Identity {
    pub(crate) cluster_id: String,
    pub(crate) node_epoch: NodeEpoch,
}

/// Known once clients are served.
pub(crate) struct Serving {
    pub(crate) server: Server,
    pub(crate) logs: LogManager,
    pub(crate) groups: GroupCoordinator,
    pub(crate) listeners: Vec<String>,
    pub(crate) wal: Wal,
    pub(crate) store: StreamStore,
    pub(crate) bucket: ObjectStorage,
    pub(crate) held_back: HeldBack,
    /// The other brokers; `None` where this one is alone.
    pub(crate) cluster: Option<View>,
    pub(crate) catch_up: CatchUp,
    pub(crate) service: Arc<ApiService>,
    /// Where partitions begin and end that other brokers lead.
    pub(crate) elsewhere: Elsewhere,
    /// None where `admin.records.enabled` is false.
    pub(crate) records: Option<Records>,
}

impl Serving {
    fn storage(&self) -> StorageStatus {
        let (wal, store) = (self.wal.metrics(), self.store.metrics());
        StorageStatus {
            wal_capacity_bytes: wal.capacity,
            wal_used_bytes: wal.used,
            wal_seconds_left: wal.seconds_left,
            log_cache_used_bytes: store.cache_used_bytes,
            log_cache_capacity_bytes: store.cache_capacity_bytes,
            upload_pending_bytes: store.pending_bytes,
            streams: store.streams,
        }
    }

    fn groups(&self) -> GroupStatus {
        let groups = self.groups.metrics();
        GroupStatus {
            groups: groups.groups,
            groups_max: GROUPS_MAX,
            members: groups.members,
            committed_offsets: groups.offsets,
        }
    }

    /// What a part may have now and what it has, in bytes; the latter is not known of work.
    fn part(&self, part: Part, budget: u64) -> (u64, Option<u64>) {
        match part {
            Part::LogCache => {
                let store = self.store.metrics();
                (store.cache_capacity_bytes, Some(store.cache_used_bytes))
            }
            Part::BlockCache => {
                let cache = self.catch_up.block_cache.metrics();
                (cache.size_bytes, Some(cache.used_bytes))
            }
            Part::Network => (budget, Some(self.server.metrics().bytes_in_flight)),
            Part::Groups => (budget, Some(self.groups.memory_bytes())),
            Part::Producers => {
                let producers = self.logs.metrics().producers;
                (budget, Some(producers * PRODUCER_BYTES))
            }
            Part::Partitions => {
                let partitions = self.logs.metrics().partitions;
                (budget, Some(partitions * PARTITION_BYTES))
            }
            Part::Work => (budget, None),
        }
    }
}

fn shown((id, cause): (TopicPartition, Cause)) -> OfflinePartition {
    OfflinePartition {
        topic: id.topic.to_string(),
        partition: id.partition,
        class: cause.class().as_str(),
        reason: cause.to_string(),
    }
}

fn shown_part(part: &CorruptPart) -> CorruptPartStatus {
    CorruptPartStatus {
        object: part.key.to_string(),
        part: part.kind.as_str(),
        stream: part.range.map(|range| range.stream.get()),
        from_offset: part.range.map(|range| range.start),
        to_offset: part.range.map(|range| range.end),
        reason: part.reason.to_string(),
    }
}

impl State {
    pub(crate) fn new(
        config: &BrokerConfig,
        settings: Arc<LiveSettings>,
        memory: MemoryBudgets,
        clock: SharedClock,
        tasks: Supervisor,
    ) -> Self {
        let started = clock.now();
        let link = config.control_link.as_ref();
        Self {
            node_id: config.node_id,
            configured_cluster_id: config.cluster_id.clone(),
            control_link: link.map(|link| LinkState::of(link, clock.clone())),
            settings,
            memory,
            clock,
            started,
            phase: AtomicU8::new(Phase::Starting as u8),
            tasks,
            identity: OnceLock::new(),
            serving: OnceLock::new(),
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Ends what the admin HTTP reads and streams of records.
    pub(crate) fn stop_records(&self) {
        if let Ok(records) = self.records() {
            records.stop();
        }
    }

    fn memory(&self) -> MemoryStatus {
        let serving = self.serving.get();
        let part = |part: Part| {
            let budget = self.memory.bytes(part);
            let (bound_bytes, used_bytes) =
                serving.map_or((budget, None), |serving| serving.part(part, budget));
            MemoryPartStatus {
                name: part.name(),
                setting: part.setting(),
                bound_bytes,
                used_bytes,
            }
        };
        MemoryStatus {
            machine_bytes: Some(self.memory.machine_bytes).filter(|&bytes| bytes < u64::MAX),
            bound_bytes: self.memory.bound_bytes,
            parts: Part::ALL.map(part).into(),
        }
    }

    fn held_back(&self) -> Option<String> {
        self.serving.get()?.held_back.reason()
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Running,
            _ => Phase::Stopping,
        }
    }
}

impl Inspect for State {
    fn readiness(&self) -> Result<String, String> {
        if let Some(failure) = self.tasks.failure() {
            return Err(failure.to_string());
        }
        let store = self.serving.get().map(|serving| &serving.store);
        if let Some(reason) = store.and_then(StreamStore::failure) {
            return Err(format!("the storage failed: {reason}"));
        }
        match self.phase() {
            Phase::Running => Ok(match self.held_back() {
                None => "ready".to_owned(),
                Some(reason) => format!("ready; uploads and deletions wait: {reason}"),
            }),
            phase => Err(format!("the broker is {}", phase.as_str())),
        }
    }

    fn status(&self) -> Status {
        let uptime = self.clock.now().saturating_sub(self.started);
        let identity = self.identity.get();
        let serving = self.serving.get();
        let net = serving.map(|serving| serving.server.metrics());
        let topics = serving
            .map(|serving| serving.logs.topics())
            .unwrap_or_default();
        let offline = serving.map(|serving| serving.logs.offline_partitions());
        let offline = offline.unwrap_or_default();
        let corrupt = serving.map(|serving| serving.bucket.corrupt().parts());
        let corrupt = corrupt.unwrap_or_default();
        Status {
            version: env!("CARGO_PKG_VERSION"),
            phase: self.phase().as_str(),
            cluster_id: identity
                .map(|known| known.cluster_id.clone())
                .unwrap_or_default(),
            node_id: self.node_id.get(),
            node_epoch: identity.map_or(0, |known| known.node_epoch.get()),
            uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
            listeners: serving
                .map(|serving| serving.listeners.clone())
                .unwrap_or_default(),
            topics: topics.len(),
            partitions: topics.iter().map(|topic| topic.partitions.len()).sum(),
            connections: net.map_or(0, |net| net.connections),
            requests_in_flight: net.map_or(0, |net| net.requests_in_flight),
            memory: self.memory(),
            control_link: self.control_link.as_ref().map(|link| link.status()),
            groups: serving.map(Serving::groups),
            storage: serving.map(Serving::storage),
            log_compaction: serving.map(|serving| serving.logs.compaction().into()),
            uploads_wait_for: self.held_back(),
            offline_partitions_total: offline.len(),
            offline_partitions: offline.into_iter().take(LISTED_MAX).map(shown).collect(),
            corrupt_parts_total: corrupt.len(),
            corrupt_parts: corrupt.iter().take(LISTED_MAX).map(shown_part).collect(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    fn show_memory(&self) {
        let MemoryStatus {
            bound_bytes, parts, ..
        } = self.memory();
        metrics::gauge!("millrace_memory_bound_bytes").set(bound_bytes as f64);
        for part in parts {
            let name = part.name;
            let bound = metrics::gauge!("millrace_memory_part_bound_bytes", "part" => name);
            bound.set(part.bound_bytes as f64);
            if let Some(used) = part.used_bytes {
                metrics::gauge!("millrace_memory_part_used_bytes", "part" => name).set(used as f64);
            }
        }
    }

    fn catch_up(&self) -> Option<CatchUpAnswer> {
        self.serving.get().map(|serving| serving.catch_up.answer())
    }

    fn quotas(&self) -> Option<QuotasAnswer> {
        let serving = self.serving.get()?;
        Some(QuotasAnswer::new(serving.service.quota_uses()))
    }

    fn records(&self) -> Result<Records, RecordsError> {
        let serving = self.serving.get().ok_or_else(RecordsError::starting)?;
        serving.records.clone().ok_or_else(RecordsError::disabled)
    }

    fn settings(&self) -> Vec<ShownSetting> {
        self.settings.shown()
    }

    fn node_id(&self) -> NodeId {
        self.node_id
    }

    fn api(&self) -> Option<Arc<ApiService>> {
        Some(Arc::clone(&self.serving.get()?.service))
    }

    fn cluster_id(&self) -> Option<&str> {
        let known = self.identity.get().map(|identity| &*identity.cluster_id);
        known.or(self.configured_cluster_id.as_deref())
    }

    fn serving(&self) -> Option<&Serving> {
        self.serving.get()
    }
}
