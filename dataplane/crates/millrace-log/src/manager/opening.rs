//! From a topic that the metadata has to one that clients use.
//!
//! Records of a partition that the backup of the metadata does not know would be lost with the
//! metadata. So a new partition takes none before its topic is in the bucket. Everybody waits for that
//! together: the lock that orders changes is not held meanwhile.
//!
//! A partition whose state is in objects does not open while the bucket does not answer; it is tried again.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use millrace_meta as meta;
use millrace_tasks::Task;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use super::{Inner, OPENS_AT_ONCE, Topic};
use crate::{error::OpenError, partition::Patience};

/// How long a request waits for the backup of the metadata: below the 30 seconds that clients wait
/// for an answer.
const BACKUP_WAIT: Duration = Duration::from_secs(10);

/// The pause before topics, or partitions, that did not open are tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A topic in the metadata, new or grown, whose partitions open once the backup has them. They do
/// so whether anybody waits for it or not.
#[derive(Debug)]
pub(super) struct Opening {
    inner: Arc<Inner>,
    recorded: meta::Topic,
    /// The metadata's revision that has it.
    revision: u64,
}

impl Opening {
    /// Resolves once the topic is served; `None` where the bucket does not answer in time.
    pub(super) async fn served(self) -> Result<Option<Arc<Topic>>, OpenError> {
        let Self {
            inner,
            recorded,
            revision,
        } = self;
        if let Some(following) = &inner.following {
            following.catch_up().await;
            return Ok(inner.registry.by_id(recorded.id));
        }
        inner.meta.hurry_backup();
        let backed_up = inner.meta.backed_up_to(revision);
        if timeout(BACKUP_WAIT, backed_up).await.is_err() {
            let topic = &recorded.name;
            tracing::warn!(%topic, "the bucket does not answer; the topic is served once it does");
            return Ok(None);
        }
        // A task of its own holds the lock on changes: whoever waits for this may be a connection, which
        // does nothing while its client does not read.
        let (reply, opened) = oneshot::channel();
        let tasks = inner.tasks.clone();
        tasks.spawn(Task::TopicOpening, async move {
            let _one_at_a_time = inner.changing.lock().await;
            // Whoever waited may be gone.
            drop(reply.send(inner.open_backed_up(&recorded).await));
        });
        // Without a reply the broker stops.
        opened.await.unwrap_or(Ok(None))
    }
}

impl Inner {
    /// Has a topic opened as soon as the backup has it. Called with the lock on changes held.
    pub(super) fn open_later(self: &Arc<Self>, recorded: meta::Topic) -> Opening {
        if self.following.is_none() {
            self.registry.record(recorded.clone());
            self.recorded.notify_one();
        }
        Opening {
            inner: Arc::clone(self),
            recorded,
            revision: self.meta.revision(),
        }
    }

    /// Opens what the backup has of a topic, unless that is done, or the topic deleted.
    async fn open_backed_up(&self, topic: &meta::Topic) -> Result<Option<Arc<Topic>>, OpenError> {
        let known = self.registry.by_id(topic.id);
        if known
            .as_ref()
            .is_some_and(|known| known.partitions.len() >= topic.partitions.len())
        {
            return Ok(known);
        }
        if !self.registry.is_recorded(topic.id) {
            return Ok(None);
        }
        let opened = self.open_topic(topic.clone(), &Patience::of_start()).await;
        opened.map(Some)
    }

    /// Opens what is recorded and backed up; whether that succeeded.
    async fn open_recorded(&self, due: &[meta::Topic]) -> bool {
        let mut all = true;
        for recorded in due {
            let _one_at_a_time = self.changing.lock().await;
            if let Err(error) = self.open_backed_up(recorded).await {
                tracing::warn!(topic = %recorded.name, %error, "a topic did not open; retrying");
                all = false;
            }
        }
        all
    }
}

/// Opens topics that nobody waits for any more.
pub(super) async fn open_for_ever(inner: Arc<Inner>) -> Infallible {
    loop {
        let due = inner.registry.recorded();
        if due.is_empty() {
            inner.recorded.notified().await;
            continue;
        }
        inner.meta.backed_up().await;
        if !inner.open_recorded(&due).await {
            sleep(RETRY_PAUSE).await;
        }
    }
}

/// Opens partitions that are offline because the bucket did not answer.
pub(super) async fn reopen_for_ever(inner: Arc<Inner>) -> Infallible {
    let mut pass = 0_usize;
    loop {
        sleep(RETRY_PAUSE).await;
        let topics = inner.registry.all();
        let logs = topics.iter().flat_map(|topic| topic.logs());
        let mut waiting: Vec<_> = logs.filter(|log| log.may_reopen()).collect();
        take_turns(&mut waiting, pass);
        let patience = Patience::of_retry();
        stream::iter(waiting)
            .for_each_concurrent(OPENS_AT_ONCE, |log| log.reopen(&patience))
            .await;
        pass = pass.wrapping_add(1);
    }
}

/// Has each pass begin behind those that the pass before began with. The first that wait in vain end the
/// patience of their pass: if they were always the same, the others would never be tried.
fn take_turns<T>(waiting: &mut [T], pass: usize) {
    if !waiting.is_empty() {
        let first = pass.wrapping_mul(OPENS_AT_ONCE) % waiting.len();
        waiting.rotate_left(first);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The first 64 partitions that did not open kept all others from being tried.
    #[test]
    fn every_partition_is_soon_among_the_first_that_are_tried() {
        for count in [1, 63, 64, 65, 100, 1_000] {
            let mut first = BTreeSet::new();
            for pass in 0..=count / OPENS_AT_ONCE {
                let mut waiting: Vec<usize> = (0..count).collect();
                take_turns(&mut waiting, pass);
                first.extend(waiting.into_iter().take(OPENS_AT_ONCE));
            }
            assert_eq!(first.len(), count);
        }
        take_turns::<u8>(&mut [], 7);
    }
}
