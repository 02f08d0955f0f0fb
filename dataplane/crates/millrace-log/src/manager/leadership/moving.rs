//! Moving partitions that are planned to go elsewhere.

use std::{collections::HashSet, convert::Infallible, sync::Arc, time::Duration};

use millrace_meta::{Leader, Move};
use millrace_model::{NodeId, TopicPartition};
use millrace_stream::FlushError;
use tokio::time::timeout;

use super::{FAILURE_PAUSE, Following, Led, Shared, close_all};
use crate::{manager::Inner, partition::PartitionLog, topic::Topic};

/// Partitions that move together: they share two uploads, and the last of them waits for all.
const MOVES_AT_ONCE: usize = 32;

/// How long partitions that take no appends any more wait for their upload before they stay where they are.
const MOVE_WAIT: Duration = Duration::from_secs(10);

impl Inner {
    /// Partitions that are planned to go elsewhere and can, as many as move together.
    fn due_moves(&self, following: &Following) -> Vec<(Led, Arc<PartitionLog>, NodeId)> {
        let node = following.cluster.node;
        let led = self.led_partitions(following).into_iter();
        let due = led.filter_map(|(led, log)| {
            let to = led.leader.moving_to.filter(|&to| to != node)?;
            // What follows a damaged record is in this broker's log alone.
            let log = log.filter(|log| log.halted().is_none())?;
            Some((led, log, to))
        });
        due.take(MOVES_AT_ONCE).collect()
    }

    /// Moves some partitions that are to go elsewhere; whether there were any.
    async fn move_some(&self, following: &Following) -> Result<bool, FlushError> {
        let due = self.due_moves(following);
        if due.is_empty() {
            return Ok(false);
        }
        // Most of it is uploaded while it still takes appends.
        self.store.flush().await?;
        let streams = due.iter().map(|(led, ..)| led.streams);
        following.given_up.lock().moving = streams.flat_map(|of| [of.data, of.meta]).collect();
        close_all(due.iter().map(|(_, log, _)| Arc::clone(log))).await;
        let is_uploaded = match timeout(MOVE_WAIT, self.store.flush()).await {
            Ok(Ok(())) => true,
            failed => {
                let error = failed.map(|flushed| flushed.err());
                tracing::warn!(?error, wait = ?MOVE_WAIT, "partitions stay where they are: they could not be uploaded in time");
                false
            }
        };
        let mut gone = HashSet::new();
        if is_uploaded {
            // A damaged record is found when it is to be uploaded: what follows it is in this broker's log alone.
            let whole = || due.iter().filter(|(_, log, _)| log.halted().is_none());
            let moves = whole().map(|(led, _, to)| Move {
                partition: led.id(),
                to: *to,
            });
            let streams = whole().flat_map(|(led, ..)| [led.streams.data, led.streams.meta]);
            let streams: Vec<_> = streams.collect();
            gone = hand_over(following, &moves.collect::<Vec<_>>()).await;
            // Also what stays here is opened from the metadata again: while the answer was lost, another broker may have had it.
            self.store.discard_streams(&streams);
        }
        let is_in_vain = gone.is_empty();
        let moved = due.into_iter().map(|(led, _, to)| {
            let to = gone.contains(&led.id()).then_some(to);
            (led, to)
        });
        self.moved(following, moved.collect()).await;
        if is_in_vain {
            // Their targets may not lead now, or the bucket did not answer.
            tokio::time::sleep(FAILURE_PAUSE).await;
        }
        Ok(true)
    }

    /// What was moved is not served here any more; what was not is opened again.
    async fn moved(&self, following: &Following, moved: Vec<(Led, Option<NodeId>)>) {
        let _one_at_a_time = self.changing.lock().await;
        for (led, to) in moved {
            let Some(topic) = self.registry.by_id(led.topic.id) else {
                continue;
            };
            let mut topic = Topic::clone(&topic);
            let Some(partition) = topic.partitions.get_mut(led.index as usize) else {
                continue;
            };
            if partition.leader.map(|now| now.epoch) != Some(led.leader.epoch) {
                continue;
            }
            partition.log = None;
            if to.is_some() {
                partition.leader = Some(Leader {
                    node: to,
                    epoch: led.leader.epoch + 1,
                    moving_to: None,
                    ..led.leader
                });
            }
            self.registry.insert(topic);
        }
        following.given_up.lock().moving.clear();
        following.hurry.notify_one();
        following.wake();
    }
}

/// Gives the partitions to other brokers. Gives those that are not this broker's any more.
///
/// After a failure it is not known whose they are: the transaction may have been committed, and another broker may acknowledge
/// records of them. So they stay shut until an answer says so.
async fn hand_over(following: &Following, moves: &[Move]) -> HashSet<TopicPartition> {
    let Shared { store, epoch, .. } = &following.cluster;
    let gone: HashSet<_> = loop {
        match store.hand_over(moves, *epoch).await {
            Ok(gone) => break gone.into_iter().collect(),
            Err(error) => {
                tracing::warn!(%error, partitions = moves.len(), "whether partitions have moved is not known; asking again");
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
        }
    };
    for Move { partition, to } in moves {
        if gone.contains(partition) {
            tracing::info!(%partition, %to, "moved");
        }
    }
    gone
}

pub(in crate::manager) async fn move_for_ever(inner: Arc<Inner>) -> Infallible {
    let Some(following) = &inner.following else {
        return std::future::pending().await;
    };
    loop {
        match inner.move_some(following).await {
            Ok(true) => {}
            Ok(false) => following.moving.notified().await,
            Err(error) => {
                tracing::warn!(%error, "partitions were not moved; trying again");
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
        }
    }
}
