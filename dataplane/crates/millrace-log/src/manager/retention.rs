//! The tasks that delete what no retention keeps, and tell how large the topics are.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use millrace_model::TopicName;

use super::{Inner, Topic, registry::Registry};
use crate::{error::TrimError, partition::PartitionLog};

/// Kafka's own delay before its first check; a broker that is restarted often must get to it.
const FIRST_CHECK: Duration = Duration::from_secs(30);

/// Partitions that are trimmed at the same time. Each is a small transaction of the metadata, whose
/// writers take turns: a commit of an upload waits for so many at most.
const TRIMS_AT_ONCE: usize = 4;

/// How long one trim may take before the next partition gets its turn. What has started continues, and
/// the next check sees what became of it.
const TRIM_WAIT: Duration = Duration::from_secs(30);

/// How often the topics are measured: below the usual interval of a scrape.
const MEASURE_INTERVAL: Duration = Duration::from_secs(10);

/// Checks at once after a start, then at the interval, counted from one check's end to the next.
pub(super) async fn retain_for_ever(inner: Arc<Inner>) -> Infallible {
    let interval = inner.defaults.retention_check_interval;
    tokio::time::sleep(interval.min(FIRST_CHECK)).await;
    loop {
        inner.apply_retention().await;
        inner.expire_producers().await;
        tokio::time::sleep(interval).await;
    }
}

/// Measures the topics' sizes from time to time, and counts the partitions that are not served: one pass
/// over all partitions takes about a millisecond for 10,000 of them.
pub(super) async fn measure_for_ever(inner: Arc<Inner>) -> Infallible {
    loop {
        let (mut offline, mut unopened) = (0, 0);
        for topic in inner.registry.all() {
            offline += topic.logs().filter(|log| log.offline().is_some()).count();
            unopened += inner.unopened(&topic);
            let bytes: u64 = topic.logs().map(|log| log.size_bytes()).sum();
            tell_size_of_known(&inner.registry, &topic, bytes, tell_size);
            // Others may want the processor.
            tokio::task::yield_now().await;
        }
        metrics::gauge!("millrace_offline_partitions").set(offline as f64);
        metrics::gauge!("millrace_unopened_partitions").set(unopened as f64);
        tokio::time::sleep(MEASURE_INTERVAL).await;
    }
}

/// A deleted topic has no bytes.
pub(super) fn forget_size(topic: &TopicName) {
    tell_size(topic, 0);
}

/// Tells the size of a topic that may have been deleted since it was looked up: then it is forgotten
/// again, so that the last word is that of the deletion, whichever of both is faster.
fn tell_size_of_known(
    registry: &Registry,
    topic: &Topic,
    bytes: u64,
    tell: impl Fn(&TopicName, u64),
) {
    tell(&topic.name, bytes);
    if registry.by_name(&topic.name).is_none() {
        tell(&topic.name, 0);
    }
}

fn tell_size(topic: &TopicName, bytes: u64) {
    let topic = topic.to_string();
    metrics::gauge!("millrace_log_size_bytes", "topic" => topic).set(bytes as f64);
}

impl Inner {
    /// Forgets the producers that have been silent for long, of all partitions: where nothing else
    /// is written, no checkpoint does.
    async fn expire_producers(&self) {
        for topic in self.registry.all() {
            topic.logs().for_each(|log| log.expire_producers());
            // Others may want the processor.
            tokio::task::yield_now().await;
        }
    }

    /// Deletes what no retention keeps, of all partitions. What cannot be deleted is told, and tried
    /// again by the next check.
    pub(super) async fn apply_retention(&self) {
        let mut partitions = Vec::new();
        for topic in self.registry.all() {
            partitions.extend(topic.logs().cloned());
        }
        let tell = |log: Arc<PartitionLog>, error: TrimError| {
            tracing::warn!(partition = %log.id(), %error, "retention deleted nothing");
        };
        in_turns(partitions, retain, tell).await;
    }
}

/// Works on all items, some at a time, and on none for longer than [`TRIM_WAIT`]: an item that hangs
/// or fails takes no turn from the others for longer than that.
async fn in_turns<T: Clone, F>(items: Vec<T>, work: impl Fn(T) -> F, tell: impl Fn(T, TrimError))
where
    F: Future<Output = Result<(), TrimError>>,
{
    stream::iter(items)
        .for_each_concurrent(TRIMS_AT_ONCE, |item| {
            let work = tokio::time::timeout(TRIM_WAIT, work(item.clone()));
            let tell = &tell;
            async move {
                let hung = |_| Err(TrimError::TimedOut(TRIM_WAIT));
                if let Err(error) = work.await.unwrap_or_else(hung) {
                    tell(item, error);
                }
            }
        })
        .await;
}

async fn retain(log: Arc<PartitionLog>) -> Result<(), TrimError> {
    let Some((new_start, reason)) = log.retention_due() else {
        return Ok(());
    };
    match log.trim_because(new_start, reason).await {
        Ok(start) => {
            tracing::debug!(partition = %log.id(), start, ?reason, "retention moved the log start");
            Ok(())
        }
        // Deleted, or the broker stops: neither needs retention.
        Err(TrimError::Closed) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::BTreeMap};

    use millrace_model::TopicId;

    use super::*;
    use crate::{LogDefaults, TopicConfig};

    #[test]
    fn a_topic_that_was_deleted_while_it_was_measured_has_no_bytes() {
        let registry = Registry::default();
        let name = TopicName::new("t").expect("legal");
        let config = TopicConfig::resolve(&LogDefaults::default(), &BTreeMap::new());
        let topic = registry.insert(Topic {
            id: TopicId(uuid::Uuid::from_u128(1)),
            name: name.clone(),
            overrides: BTreeMap::new(),
            config: Arc::new(config.expect("legal")),
            partitions: Vec::new(),
        });
        let gauge = RefCell::new(0);
        let tell = |_: &TopicName, bytes| *gauge.borrow_mut() = bytes;
        tell_size_of_known(&registry, &topic, 7, tell);
        assert_eq!(*gauge.borrow(), 7);
        registry.remove(&name);
        tell(&name, 0);
        tell_size_of_known(&registry, &topic, 7, tell);
        assert_eq!(*gauge.borrow(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_hang_or_fail_hold_up_nobody_for_long() {
        let (done, told) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let work = async |item: u32| {
            match item {
                ..3 => std::future::pending().await,
                3..6 => return Err(TrimError::TimedOut(TRIM_WAIT)),
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
            done.borrow_mut().push(item);
            Ok(())
        };
        let tell = |item, error| told.borrow_mut().push((item, error));
        let all = in_turns((0..1_000).collect(), work, tell);
        // One turn of the four was free all the time, and the three came back together.
        let soon = TRIM_WAIT + Duration::from_millis(10);
        tokio::time::timeout(soon, all).await.expect("in time");
        assert!(done.borrow().iter().copied().eq(6..1_000));
        let told: Vec<u32> = told.borrow().iter().map(|(item, _)| *item).collect();
        assert_eq!(told, [3, 4, 5, 0, 1, 2]);
    }
}
