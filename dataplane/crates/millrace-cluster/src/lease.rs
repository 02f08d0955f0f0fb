//! The lease of this start. The broker needs no database to serve: it goes on while none answers, and ends only when it
//! learns that it was replaced. What it may acknowledge, the fence of its log decides.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::{FutureExt, future::select_ok};
use millrace_meta::{ClusterError, ClusterStore};
use millrace_model::NodeEpoch;
use millrace_tasks::{Supervisor, Task};
use millrace_time::SharedClock;
use tokio::{sync::Notify, time::timeout};
use tokio_util::task::AbortOnDropHandle;

/// Renewals within the time of a lease.
const RENEWALS_PER_LEASE: u32 = 3;

/// One that fails, or has no answer by the time of the next one, is tried again after this part of that time, so that two may fail
/// before the lease runs out, also where the first one hangs.
const RETRIES_PER_RENEWAL: u32 = 4;

/// A lease that is being renewed, for as long as this is kept.
#[derive(Debug, Clone)]
pub struct Lease {
    shared: Arc<Shared>,
    _renewing: Arc<AbortOnDropHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    lost: OnceLock<String>,
    told: Notify,
}

impl Lease {
    /// Renews the lease of a start that has joined.
    #[must_use]
    pub fn keep(
        store: Arc<dyn ClusterStore>,
        epoch: NodeEpoch,
        ttl: Duration,
        (clock, tasks): (SharedClock, &Supervisor),
    ) -> Self {
        let shared = Arc::<Shared>::default();
        let renewing = renew(
            store,
            epoch,
            ttl / RENEWALS_PER_LEASE,
            clock,
            Arc::clone(&shared),
        );
        Self {
            shared,
            _renewing: Arc::new(AbortOnDropHandle::new(
                tasks.spawn(Task::LeaseRenewal, renewing),
            )),
        }
    }

    /// Resolves with the reason once the start has been replaced.
    pub async fn lost(&self) -> String {
        loop {
            let told = self.shared.told.notified();
            if let Some(reason) = self.shared.lost.get() {
                return reason.clone();
            }
            told.await;
        }
    }
}

/// Renews the lease. If there is no answer after half of `interval`, the connection may hang, so a second attempt runs beside the first.
async fn renew_once(
    store: &dyn ClusterStore,
    epoch: NodeEpoch,
    interval: Duration,
) -> Result<(), ClusterError> {
    let again = async {
        tokio::time::sleep(interval / 2).await;
        store.renew_lease(epoch).await
    };
    let tries = [store.renew_lease(epoch), again.boxed()];
    select_ok(tries).await.map(|((), _)| ())
}

async fn renew(
    store: Arc<dyn ClusterStore>,
    epoch: NodeEpoch,
    interval: Duration,
    clock: SharedClock,
    shared: Arc<Shared>,
) {
    let since_renewed = metrics::gauge!("millrace_lease_age_seconds");
    let mut renewed_at = clock.now();
    loop {
        let mut pause = interval / RETRIES_PER_RENEWAL;
        match timeout(interval, renew_once(&*store, epoch, interval)).await {
            Ok(Ok(())) => {
                renewed_at = clock.now();
                pause = interval;
            }
            Ok(Err(ClusterError::Fenced(fenced))) => {
                let reason = format!(
                    "{fenced}; another broker takes over the log of this one, so restart it"
                );
                tracing::error!(reason, "this broker was replaced");
                let _ = shared.lost.set(reason);
                shared.told.notify_waiters();
                return;
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "the lease was not renewed; trying again");
            }
            Err(_) => tracing::warn!(
                "the metadata database does not answer; clients are served until the write-ahead log is full"
            ),
        }
        let age = clock.now().saturating_sub(renewed_at);
        since_renewed.set(age.as_secs_f64());
        tokio::time::sleep(pause).await;
    }
}
