//! The broker among the other brokers of its cluster: joins `millrace-cluster` with this broker's storage and service.

use std::{error::Error, sync::Arc, time::Duration};

use async_trait::async_trait;
use millrace_api::ApiService;
use millrace_cluster::{
    Changed, ChangesOfOthers, Cluster, ClusterParts, FencedLogs, LogUnavailable, Membership,
    Takeover,
};
use millrace_log::LogManager;
use millrace_tasks::Task;
use millrace_wal::{LogFence, WalConfig, device::BlockDevice};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    config::WalUri,
    storage::{Seams, Storage, open_fenced_device, shared_page, wal_config},
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
        logs: Arc::new(LogFiles {
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

/// Logs in files of this machine, by their addresses in the form of `s3.wal.path`.
#[derive(Debug)]
struct LogFiles {
    seams: Seams,
}

fn unavailable(action: &'static str) -> impl Fn(Box<dyn Error + Send + Sync>) -> LogUnavailable {
    move |source| LogUnavailable { action, source }
}

impl LogFiles {
    fn parse(address: &str) -> Result<WalUri, LogUnavailable> {
        let parsed = address.parse::<WalUri>();
        parsed.map_err(|error| unavailable("its address cannot be read")(error.into()))
    }
}

#[async_trait]
impl FencedLogs for LogFiles {
    async fn open(
        &self,
        address: &str,
    ) -> Result<(Arc<dyn BlockDevice>, WalConfig), LogUnavailable> {
        let uri = Self::parse(address)?;
        let device = open_fenced_device(uri.clone(), self.seams.tasks.clone()).await;
        let device =
            device.map_err(|error| unavailable("its device cannot be opened")(error.into()))?;
        Ok((device, wal_config(&uri, &self.seams)))
    }

    fn fence(&self, address: &str, log_id: u64) -> Result<Arc<dyn LogFence>, LogUnavailable> {
        let uri = Self::parse(address)?;
        let fence = shared_page(&uri.path, log_id);
        let fence =
            fence.map_err(|error| unavailable("its fence cannot be opened")(error.into()))?;
        Ok(Arc::new(fence))
    }
}
