//! Opening the partitions that this broker leads, and serving them.

use std::{collections::HashMap, convert::Infallible, sync::Arc, time::Duration};

use futures_util::{StreamExt, stream};
use millrace_meta::{Leader, PartitionStreams};
use millrace_model::TopicId;
use tokio::time::timeout;

use super::{FAILURE_PAUSE, Following, Led, RETRY_PAUSE};
use crate::{
    error::OpenError,
    manager::{Inner, OPENS_AT_ONCE, STREAMS_PER_TRANSACTION},
    partition::{PartitionLog, Patience},
    topic::Topic,
};

/// The longest pause, after many tries in vain.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(2);

impl Inner {
    /// Opens what this broker leads and has not open yet; whether that was all.
    async fn open_led(&self, following: &Following) -> bool {
        let led = self.led_partitions(following);
        let unopened = led.into_iter().filter(|(_, log)| log.is_none());
        let blocked = {
            let given_up = following.given_up.lock();
            &given_up.streams | &given_up.moving
        };
        let is_blocked =
            |led: &Led| blocked.contains(&led.streams.data) || blocked.contains(&led.streams.meta);
        let (wait, wanted): (Vec<Led>, Vec<Led>) =
            unopened.map(|(led, _)| led).partition(is_blocked);
        let mut all = wait.is_empty();
        let patience = Patience::of_start();
        for chunk in wanted.chunks(STREAMS_PER_TRANSACTION / 2) {
            match self.open_chunk(chunk, &patience).await {
                Ok(opened) => {
                    all &= opened.len() == chunk.len();
                    self.serve(following, opened).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "partitions did not open; trying again");
                    tokio::time::sleep(FAILURE_PAUSE).await;
                    return false;
                }
            }
        }
        all
    }

    /// Opens those whose streams are free.
    async fn open_chunk(
        &self,
        chunk: &[Led],
        patience: &Patience,
    ) -> Result<Vec<(Led, Arc<PartitionLog>)>, OpenError> {
        let streams = chunk.iter().map(|led| led.streams);
        let streams: Vec<_> = streams.flat_map(|of| [of.data, of.meta]).collect();
        self.store.open_free(&streams).await?;
        let is_free = |led: &&Led| {
            let PartitionStreams { data, meta, .. } = led.streams;
            self.store.opened(data).is_some() && self.store.opened(meta).is_some()
        };
        let free: Vec<Led> = chunk.iter().filter(is_free).cloned().collect();
        let opening = stream::iter(free).map(|led| async {
            let topic = (&led.topic.name, led.topic.id);
            let epoch = i32::try_from(led.leader.epoch).unwrap_or(i32::MAX);
            let config = Arc::clone(&led.topic.config);
            let log = self
                .open_partition(topic, led.streams, (config, Some(epoch)), patience)
                .await;
            log.map(|log| (led, log))
        });
        let opened: Vec<_> = opening.buffered(OPENS_AT_ONCE).collect().await;
        opened.into_iter().collect()
    }

    /// Serves partitions that were opened, unless their lead was taken meanwhile.
    async fn serve(&self, following: &Following, opened: Vec<(Led, Arc<PartitionLog>)>) {
        if opened.is_empty() {
            return;
        }
        tracing::info!(
            partitions = opened.len(),
            "serving partitions that this broker leads"
        );
        let _one_at_a_time = self.changing.lock().await;
        let mut of_topics: HashMap<TopicId, Vec<(Led, Arc<PartitionLog>)>> = HashMap::new();
        for (led, log) in opened {
            let of_topic = of_topics.entry(led.topic.id).or_default();
            of_topic.push((led, log));
        }
        for (id, opened) in of_topics {
            let mut topic = self.registry.by_id(id).map(|topic| Topic::clone(&topic));
            for (led, log) in opened {
                let index = led.index as usize;
                let partitions = topic.as_mut().map(|topic| &mut topic.partitions);
                let partition = partitions.and_then(|all| all.get_mut(index));
                let still_led = partition.filter(|partition| {
                    let same =
                        |now: Leader| (now.node, now.epoch) == (led.leader.node, led.leader.epoch);
                    partition.leader.is_some_and(same) && partition.log.is_none()
                });
                match still_led {
                    Some(partition) => partition.log = Some(log),
                    None => {
                        log.shut();
                        following.given_up.lock().logs.push(log);
                    }
                }
            }
            if let Some(topic) = topic {
                topic
                    .logs()
                    .for_each(|log| log.set_config(Arc::clone(&topic.config)));
                self.registry.insert(topic);
            }
        }
        following.wake();
    }
}

pub(in crate::manager) async fn open_for_ever(inner: Arc<Inner>) -> Infallible {
    let Some(following) = &inner.following else {
        return std::future::pending().await;
    };
    let mut pause = RETRY_PAUSE;
    loop {
        if inner.open_led(following).await {
            pause = RETRY_PAUSE;
            following.opening.notified().await;
        } else {
            // Another broker has to let go of them first, which the feed does not tell. That takes seconds, unless its log is damaged.
            let told = timeout(pause, following.opening.notified()).await;
            pause = match told {
                Ok(()) => RETRY_PAUSE,
                Err(_) => (pause + pause / 16).min(RETRY_PAUSE_MAX),
            };
        }
    }
}
