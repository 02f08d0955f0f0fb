//! The tasks that delete what no retention keeps, and tell how large the topics are.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use millrace_model::TopicName;

use super::{Inner, Topic};
use crate::{error::TrimError, partition::PartitionLog};

/// Kafka's own delay before its first check; a broker that is restarted often must get to it.
const FIRST_CHECK: Duration = Duration::from_secs(30);

/// Partitions that are trimmed at the same time. Each is a small transaction of the metadata, whose
/// writers take turns: a commit of an upload waits for so many at most.
const TRIMS_AT_ONCE: usize = 4;

/// How long one trim may take before the next partition gets its turn. What was begun goes on, and
/// the next check sees what became of it.
const TRIM_WAIT: Duration = Duration::from_secs(30);

/// How often the sizes of the topics are measured: below the usual interval of a scrape.
const MEASURE_INTERVAL: Duration = Duration::from_secs(10);

/// Checks at once after a start, then at the interval, counted from one check's end to the next.
pub(super) async fn retain_for_ever(inner: Arc<Inner>) {
    let interval = inner.defaults.retention_check_interval;
    tokio::time::sleep(interval.min(FIRST_CHECK)).await;
    loop {
        inner.apply_retention().await;
        tokio::time::sleep(interval).await;
    }
}

/// Measures the topics' sizes from time to time: one pass over all partitions takes about a
/// millisecond for 10,000 of them.
pub(super) async fn measure_for_ever(inner: Arc<Inner>) {
    loop {
        for topic in inner.registry.all() {
            let bytes: u64 = topic.partitions.iter().map(|log| log.size_bytes()).sum();
            tell_size(&topic.name, bytes);
            // Others may want the processor.
            tokio::task::yield_now().await;
        }
        tokio::time::sleep(MEASURE_INTERVAL).await;
    }
}

/// A deleted topic has no bytes.
pub(super) fn forget_size(topic: &TopicName) {
    tell_size(topic, 0);
}

fn tell_size(topic: &TopicName, bytes: u64) {
    let topic = topic.to_string();
    metrics::gauge!("millrace_log_size_bytes", "topic" => topic).set(bytes as f64);
}

impl Inner {
    /// Deletes what no retention keeps, of all partitions. What cannot be deleted is told, and tried
    /// again by the next check.
    pub(super) async fn apply_retention(&self) {
        let topics = self.registry.all();
        let partitions = topics
            .iter()
            .flat_map(|topic: &Arc<Topic>| &topic.partitions);
        stream::iter(partitions)
            .for_each_concurrent(TRIMS_AT_ONCE, |log| async {
                if let Err(error) = retain(log).await {
                    tracing::warn!(partition = %log.id(), %error, "retention deleted nothing");
                }
            })
            .await;
    }
}

async fn retain(log: &PartitionLog) -> Result<(), TrimError> {
    let Some((new_start, reason)) = log.retention_due() else {
        return Ok(());
    };
    let trimming = log.trim_because(new_start, reason);
    match tokio::time::timeout(TRIM_WAIT, trimming).await {
        Ok(Ok(start)) => {
            tracing::debug!(partition = %log.id(), start, ?reason, "retention moved the log start");
            Ok(())
        }
        // Deleted, or the broker stops: neither needs retention.
        Ok(Err(TrimError::Closed)) => Ok(()),
        Ok(Err(error)) => Err(error),
        Err(_) => {
            let waited = format!("no answer within {} s", TRIM_WAIT.as_secs());
            Err(TrimError::Storage(waited))
        }
    }
}
