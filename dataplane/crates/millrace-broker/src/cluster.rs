//! The broker among the other brokers of its cluster: joins `millrace-cluster` with this broker's storage and service.

use std::{error::Error, sync::Arc, time::Duration};

use async_trait::async_trait;
use millrace_api::ApiService;
use millrace_cluster::{
    Changed, ChangesOfOthers, Cluster, ClusterParts, FencedLog, FencedLogs, LogUnavailable,
    Membership, Takeover,
};
use millrace_log::LogManager;
use millrace_tasks::Task;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    config::{WalFence, WalUri},
    log_device::{give_back, open_adopted, wal_config},
    storage::{Seams, Storage},
};

/// The pause after a failure.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// Takes part in the cluster that `membership` is one of.
pub(crate) async fn start(
    membership: Membership,
    logs: &LogManager,
    storage: &Storage,
    (seams, balance_interval): (&Seams, Duration),
) -> Cluster {
    let takeover = Takeover {
        store: Arc::clone(&membership.store),
        cluster_id: storage.cluster_id.clone(),
        storage: storage.bucket.clone(),
        block_cache: storage.block_cache.clone(),
        logs: Arc::new(LogsOfOthers {
            seams: seams.clone(),
        }),
        clock: seams.clock.clone(),
        random: seams.random.clone(),
        tasks: seams.tasks.clone(),
    };
    Cluster::start(ClusterParts {
        membership,
        logs: logs.clone(),
        store: storage.store.clone(),
        takeover,
        balance_interval,
        tasks: seams.tasks.clone(),
    })
    .await
}

/// Has the service take over what other brokers change, for as long as the handle is kept.
pub(crate) fn tell(
    cluster: &Cluster,
    service: &Arc<ApiService>,
    seams: &Seams,
) -> AbortOnDropHandle<()> {
    let telling = tell_for_ever(cluster.changes_of_others(), Arc::clone(service));
    AbortOnDropHandle::new(seams.tasks.spawn(Task::MetadataFeed, telling))
}

async fn tell_for_ever(changes: Arc<ChangesOfOthers>, service: Arc<ApiService>) {
    loop {
        let Changed { deleted, security } = changes.next().await;
        if !deleted.is_empty() {
            service.topics_deleted_elsewhere(&deleted).await;
        }
        if security && let Err(error) = service.reload_security().await {
            tracing::warn!(%error, "credentials, quotas and access control lists cannot be read; trying again");
            tokio::time::sleep(FAILURE_PAUSE).await;
            changes.note_security();
        }
    }
}

/// Logs of other brokers that this machine can reach, by their addresses in the form of `s3.wal.path`.
#[derive(Debug)]
pub(crate) struct LogsOfOthers {
    pub(crate) seams: Seams,
}

fn unavailable(action: &'static str, source: impl Error + Send + Sync + 'static) -> LogUnavailable {
    LogUnavailable {
        action,
        source: Box::new(source),
    }
}

#[async_trait]
impl FencedLogs for LogsOfOthers {
    async fn open(&self, address: &str) -> Result<FencedLog, LogUnavailable> {
        let parsed = address.parse::<WalUri>();
        let uri = parsed.map_err(|error| unavailable("its address cannot be read", error))?;
        let adopted = open_adopted(&uri, &self.seams).await;
        let adopted = adopted.map_err(|error| unavailable("its device cannot be opened", error))?;
        let seams = self.seams.clone();
        Ok(FencedLog {
            device: Arc::clone(&adopted.device),
            config: wal_config(&uri, &self.seams),
            fence: Box::new(move |log_id| {
                let fence = adopted.fence(log_id, &seams);
                fence.map_err(|error| unavailable("its fence cannot be opened", error))
            }),
        })
    }

    fn is_zonal(&self, address: &str) -> bool {
        let fence = address.parse::<WalUri>().ok().and_then(|uri| uri.fence);
        fence.is_some_and(WalFence::is_zonal)
    }

    async fn give_back(&self, address: &str) {
        if let Ok(uri) = address.parse::<WalUri>() {
            give_back(&uri, &self.seams).await;
        }
    }
}
