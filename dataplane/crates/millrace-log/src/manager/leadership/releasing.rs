//! Releasing streams that this broker has open and does not lead.

use std::{collections::HashSet, convert::Infallible, sync::Arc};

use millrace_meta::ClusterError;
use millrace_model::StreamId;
use millrace_stream::FlushError;

use super::{FAILURE_PAUSE, Following, RETRY_PAUSE, Shared, close_all};
use crate::{
    manager::{Inner, STREAMS_PER_TRANSACTION},
    partition::PartitionLog,
};

impl Inner {
    /// Releases what is open here and led elsewhere; whether that was all.
    async fn release_others(&self, following: &Following) -> Result<bool, ReleaseError> {
        if *following.followed.borrow() == 0 {
            // Nobody knows yet what this broker leads.
            return Ok(true);
        }
        let logs = std::mem::take(&mut following.given_up.lock().logs);
        let streams = {
            let mut given_up = following.given_up.lock();
            let led = self.led_streams(following);
            let open = self.store.open_ids();
            let is_left = |id: &StreamId| {
                !led.contains(id) && !given_up.moving.contains(id) && !self.is_halted(*id)
            };
            given_up.streams = open.into_iter().filter(is_left).collect();
            given_up.streams.clone()
        };
        if streams.is_empty() {
            return Ok(logs.is_empty());
        }
        let released = self.release(following, &streams, &logs).await;
        following.given_up.lock().streams.clear();
        following.opening.notify_one();
        released.map(|()| true)
    }

    /// What follows a damaged record is in this broker's log alone, so a halted stream is kept.
    fn is_halted(&self, id: StreamId) -> bool {
        let stream = self.store.opened(id);
        stream.is_some_and(|stream| stream.halted().is_some())
    }

    async fn release(
        &self,
        following: &Following,
        streams: &HashSet<StreamId>,
        logs: &[Arc<PartitionLog>],
    ) -> Result<(), ReleaseError> {
        close_all(logs.iter().cloned()).await;
        self.store.flush().await?;
        // Whoever leads them again goes on with them.
        let led = self.led_streams(following);
        let left = streams.difference(&led).copied();
        // A damaged record is found when it is to be uploaded.
        let mut streams: Vec<StreamId> = left.filter(|&id| !self.is_halted(id)).collect();
        streams.sort_unstable();
        let Shared { store, epoch, .. } = &following.cluster;
        for chunk in streams.chunks(STREAMS_PER_TRANSACTION) {
            store.release_streams(chunk, *epoch).await?;
            self.store.discard_streams(chunk);
        }
        tracing::info!(
            streams = streams.len(),
            "released the streams of partitions that other brokers lead"
        );
        Ok(())
    }
}

/// Why streams were not released. They will be.
#[derive(Debug, thiserror::Error)]
enum ReleaseError {
    #[error(transparent)]
    Flush(#[from] FlushError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

pub(in crate::manager) async fn release_for_ever(inner: Arc<Inner>) -> Infallible {
    let Some(following) = &inner.following else {
        return std::future::pending().await;
    };
    loop {
        match inner.release_others(following).await {
            Ok(true) => following.releasing.notified().await,
            Ok(false) => tokio::time::sleep(RETRY_PAUSE).await,
            Err(error) => {
                tracing::warn!(%error, "streams were not released; trying again");
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
        }
    }
}
