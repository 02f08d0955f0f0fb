//! Topics of a cluster that several brokers share. The metadata says who leads which partition; this broker serves what
//! it leads, and gives up what it does not lead any more.
//!
//! Four things happen beside each other, each in a task of its own:
//!
//! - *following*: topics and leaders become what the feed of changes says. Never waits for the bucket or the log;
//! - *opening* partitions that this broker leads, as soon as nobody else owns their streams;
//! - *releasing* streams that it has open and does not lead: those of a log that it recovered after others had taken the
//!   lead, and those of partitions whose lead was taken. All of them is in objects before somebody else may open them;
//! - *moving* partitions that are planned to go elsewhere. They are uploaded once while they still take appends and once
//!   more after that, so that clients wait for the little that came in between.

mod moving;
mod releasing;
mod serving;

use std::{
    collections::{BTreeSet, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream};
use millrace_meta::{
    ChangedTopics, ClusterError, ClusterStore, Leader, LedTopic, Move, PartitionStreams, Preferred,
};
use millrace_model::{NodeEpoch, NodeId, StreamId, TopicId, TopicName, TopicPartition};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

pub(super) use self::{moving::move_for_ever, releasing::release_for_ever, serving::open_for_ever};
use super::{Inner, LogManager, retention};
use crate::{
    committed::CommittedLog,
    partition::{PartitionLog, Usage},
    topic::{Arrival, Partition, Topic},
};

/// The pause before work is tried again that another broker has to do its part for.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The pause after a failure of the metadata or of the bucket.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Partitions that are closed at the same time.
const CLOSES_AT_ONCE: usize = 32;

/// How long a change of topics waits until this broker has read it back.
const FOLLOW_WAIT: Duration = Duration::from_secs(10);

/// What ties the logs to the other brokers of the cluster.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The metadata of all brokers.
    pub store: Arc<dyn ClusterStore>,
    /// This broker.
    pub node: NodeId,
    /// Its present start.
    pub epoch: NodeEpoch,
}

/// How far this broker follows the cluster.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) cluster: Shared,
    /// The revision that topics and leaders are at; 0 before the first.
    followed: watch::Sender<u64>,
    /// Somebody waits for the feed.
    hurry: Notify,
    catch_ups: CatchUps,
    /// There may be partitions to open.
    opening: Notify,
    /// There may be streams to release.
    releasing: Notify,
    /// There may be partitions to move.
    moving: Notify,
    given_up: Mutex<GivenUp>,
}

/// Looks at the newest revision: one at a time, each with a number.
#[derive(Debug, Default)]
struct CatchUps {
    turn: tokio::sync::Mutex<()>,
    /// The number of the last one that was begun.
    begun: AtomicU64,
    /// The number of the last one that succeeded.
    done: AtomicU64,
}

/// Partitions whose lead was taken.
#[derive(Debug, Default)]
struct GivenUp {
    /// They are shut, and to be closed.
    logs: Vec<Arc<PartitionLog>>,
    /// Their streams are about to be released, and must not be opened.
    streams: HashSet<StreamId>,
    /// Streams that are about to be handed over, or are: nothing is left to release.
    moving: HashSet<StreamId>,
}

/// A partition that this broker leads.
#[derive(Debug, Clone)]
struct Led {
    topic: Arc<Topic>,
    index: u32,
    streams: PartitionStreams,
    leader: Leader,
}

impl Led {
    fn id(&self) -> TopicPartition {
        TopicPartition {
            topic: self.topic.name.clone(),
            partition: self.index,
        }
    }
}

impl Following {
    pub(super) fn new(cluster: Shared) -> Self {
        Self {
            cluster,
            followed: watch::Sender::new(0),
            hurry: Notify::new(),
            catch_ups: CatchUps::default(),
            opening: Notify::new(),
            releasing: Notify::new(),
            moving: Notify::new(),
            given_up: Mutex::default(),
        }
    }

    fn leads(&self, leader: Option<Leader>) -> bool {
        leader.is_some_and(|leader| leader.node == Some(self.cluster.node))
    }

    /// The planned move that brings a partition here. Waiters get a fresh deadline when the lead arrives.
    fn arrival_of(&self, before: Option<&Partition>, now: Leader) -> Option<Arc<Arrival>> {
        let known = before.filter(|before| before.log.is_none());
        let known = known.and_then(|before| before.arrival.clone());
        if now.moving_to == Some(self.cluster.node) {
            return known.or_else(|| Some(Arc::default()));
        }
        let led_before = before.is_some_and(|before| self.leads(before.leader));
        let known = known.filter(|_| self.leads(Some(now)))?;
        Some(if led_before { known } else { Arc::default() })
    }

    /// Waits until this broker knows every change that has been made so far; `false` where it takes too long. Many who wait share
    /// one look at the database.
    pub(super) async fn catch_up(&self) -> bool {
        let CatchUps { turn, begun, done } = &self.catch_ups;
        let before = begun.load(Ordering::Acquire);
        let caught_up = async {
            let _turn = turn.lock().await;
            if done.load(Ordering::Acquire) > before {
                return;
            }
            let number = begun.fetch_add(1, Ordering::AcqRel) + 1;
            let revision = loop {
                match self.cluster.store.cluster_revision().await {
                    Ok(revision) => break revision,
                    Err(error) => {
                        tracing::warn!(%error, "the metadata does not answer");
                        tokio::time::sleep(RETRY_PAUSE).await;
                    }
                }
            };
            self.hurry.notify_one();
            let mut followed = self.followed.subscribe();
            // The sender is in `self`.
            let _ = followed.wait_for(|&followed| followed >= revision).await;
            done.store(number, Ordering::Release);
        };
        timeout(FOLLOW_WAIT, caught_up).await.is_ok()
    }

    fn wake(&self) {
        self.opening.notify_one();
        self.releasing.notify_one();
        self.moving.notify_one();
    }
}

impl LogManager {
    /// Makes topics and leaders what they are at `revision`. Gives the topics that were deleted.
    pub async fn follow(&self, revision: u64, topics: ChangedTopics) -> BTreeSet<TopicName> {
        let inner = &self.inner;
        let mut deleted = BTreeSet::new();
        let Some(following) = &inner.following else {
            return deleted;
        };
        let _one_at_a_time = inner.changing.lock().await;
        let (gone, present) = match topics {
            ChangedTopics::Some { named, present } => (named, present),
            ChangedTopics::All(present) => {
                let known = inner.registry.all();
                (known.iter().map(|topic| topic.id).collect(), present)
            }
        };
        let there: HashSet<TopicId> = present.iter().map(|led| led.topic.id).collect();
        for id in gone.into_iter().filter(|id| !there.contains(id)) {
            deleted.extend(inner.forget_topic(id));
        }
        for led in present {
            deleted.extend(inner.apply(following, led));
        }
        following.followed.send_replace(revision);
        following.wake();
        deleted
    }

    /// The revision of the metadata that this broker knows.
    #[must_use]
    pub fn metadata_revision(&self) -> u64 {
        match &self.inner.following {
            Some(following) => *following.followed.borrow(),
            None => self.inner.meta.revision(),
        }
    }

    /// Resolves when somebody waits for the next look at the feed of changes.
    pub async fn hurried(&self) {
        match &self.inner.following {
            Some(following) => following.hurry.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Changes whenever a topic was created, changed or deleted, or a partition opened or given up.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.registry.changes()
    }

    /// Who leads each partition of the cluster, as far as this broker knows.
    #[must_use]
    pub fn leaders(&self) -> Vec<(TopicPartition, Leader)> {
        let topics = self.inner.registry.all();
        let mut leaders = Vec::new();
        for topic in &topics {
            for (partition, of) in (0_u32..).zip(&topic.partitions) {
                let topic = topic.name.clone();
                let id = TopicPartition { topic, partition };
                leaders.extend(of.leader.map(|leader| (id, leader)));
            }
        }
        leaders
    }

    /// What clients do with each partition that is open here.
    #[must_use]
    pub fn usage(&self) -> Vec<(TopicPartition, Usage)> {
        let topics = self.inner.registry.all();
        let logs = topics.iter().flat_map(|topic| &topic.partitions);
        let logs = logs.filter_map(|partition| partition.log.as_ref());
        logs.map(|log| (log.id().clone(), log.usage())).collect()
    }

    /// Has partitions moved to other brokers, all or none, and waits until this broker knows that they are to move. Their
    /// leaders move them, one batch after the other.
    ///
    /// # Errors
    /// See [`ClusterError`]; also where the broker is alone.
    pub async fn plan_moves(
        &self,
        moves: &[Move],
        preferred: Preferred,
    ) -> Result<(), ClusterError> {
        let Some(following) = &self.inner.following else {
            return match moves.first() {
                Some(planned) => Err(ClusterError::NodeNot(
                    planned.to,
                    "a broker of this cluster",
                )),
                None => Ok(()),
            };
        };
        following.cluster.store.plan_moves(moves, preferred).await?;
        following.catch_up().await;
        Ok(())
    }

    /// Waits until this broker knows what others have changed so far, up to `patience`; `false` where it takes longer. One that is
    /// alone knows it.
    pub async fn catch_up(&self, patience: Duration) -> bool {
        match &self.inner.following {
            Some(following) => timeout(patience, following.catch_up()).await == Ok(true),
            None => true,
        }
    }

    /// Has partitions stay at their leaders that were to move, and gives those that had not moved yet.
    ///
    /// # Errors
    /// See [`ClusterError`].
    pub async fn cancel_moves(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<TopicPartition>, ClusterError> {
        let Some(following) = &self.inner.following else {
            return Ok(Vec::new());
        };
        let cancelled = following.cluster.store.cancel_moves(partitions).await?;
        following.catch_up().await;
        Ok(cancelled)
    }

    /// Whether every partition that this broker leads is open.
    #[must_use]
    pub fn is_all_open(&self) -> bool {
        let Some(following) = &self.inner.following else {
            return true;
        };
        let led = self.inner.led_partitions(following);
        led.iter().all(|(_, log)| log.is_some())
    }
}

impl Inner {
    /// The topic is as the metadata has it. What this broker does not lead any more is shut at once. Gives the topic of this
    /// name that was deleted before, where there was one.
    fn apply(&self, following: &Following, led: LedTopic) -> Option<TopicName> {
        let LedTopic { topic, leaders } = led;
        let other = self.registry.by_name(&topic.name);
        let other = other.filter(|other| other.id != topic.id);
        let deleted = other.and_then(|other| self.forget_topic(other.id));
        let known = self.registry.by_id(topic.id);
        let config = Arc::new(self.stored_config(&topic.name, &topic.configs));
        let mut lost = Vec::new();
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (index, (streams, leader)) in topic.partitions.into_iter().zip(leaders).enumerate() {
            let before = known.as_ref().and_then(|known| known.partitions.get(index));
            let stays = following.leads(Some(leader))
                && before
                    .and_then(|before| before.leader)
                    .is_some_and(|before| before.epoch == leader.epoch);
            let log = before.and_then(|before| before.log.clone());
            let log = if stays {
                log.inspect(|log| log.set_config(Arc::clone(&config)))
            } else {
                lost.extend(log);
                None
            };
            let arrival = following.arrival_of(before, leader);
            let id = TopicPartition {
                topic: topic.name.clone(),
                partition: streams.index,
            };
            let committed = before.and_then(|before| before.committed.clone());
            let committed = committed
                .filter(|committed| committed.data() == streams.data)
                .unwrap_or_else(|| self.committed_log(following, id, streams.data));
            partitions.push(Partition {
                streams,
                leader: Some(leader),
                log,
                committed: Some(committed),
                arrival,
            });
        }
        self.registry.insert(Topic {
            id: topic.id,
            name: topic.name,
            overrides: topic.configs,
            config,
            partitions,
        });
        lost.iter().for_each(|log| log.shut());
        following.given_up.lock().logs.extend(lost);
        deleted
    }

    fn committed_log(
        &self,
        following: &Following,
        id: TopicPartition,
        data: StreamId,
    ) -> Arc<CommittedLog> {
        let cluster = Arc::clone(&following.cluster.store);
        let (data, clock) = (self.store.committed(data), Arc::clone(&self.clock));
        Arc::new(CommittedLog::new((id, data), cluster, clock))
    }

    fn forget_topic(&self, id: TopicId) -> Option<TopicName> {
        let topic = self.registry.by_id(id)?;
        self.registry.remove(&topic.name);
        topic.logs().for_each(|log| log.shut());
        let streams = topic.partitions.iter().map(|partition| partition.streams);
        let streams: Vec<_> = streams.flat_map(|of| [of.data, of.meta]).collect();
        self.store.discard_streams(&streams);
        retention::forget_size(&topic.name);
        Some(topic.name.clone())
    }

    /// How many partitions of the topic this broker leads and has not opened yet: it opens them, or waits for their former leader's log.
    pub(super) fn unopened(&self, topic: &Topic) -> usize {
        let Some(following) = &self.following else {
            return 0;
        };
        let partitions = topic.partitions.iter();
        let led = partitions.filter(|partition| following.leads(partition.leader));
        led.filter(|partition| partition.log.is_none()).count()
    }

    fn led_partitions(&self, following: &Following) -> Vec<(Led, Option<Arc<PartitionLog>>)> {
        let mut led = Vec::new();
        for topic in self.registry.all() {
            for (index, partition) in (0_u32..).zip(&topic.partitions) {
                let Some(leader) = partition
                    .leader
                    .filter(|&leader| following.leads(Some(leader)))
                else {
                    continue;
                };
                let of = Led {
                    topic: Arc::clone(&topic),
                    index,
                    streams: partition.streams,
                    leader,
                };
                led.push((of, partition.log.clone()));
            }
        }
        led
    }

    fn led_streams(&self, following: &Following) -> HashSet<StreamId> {
        let led = self.led_partitions(following);
        led.iter()
            .flat_map(|(led, _)| [led.streams.data, led.streams.meta])
            .collect()
    }
}

/// Closes partitions. What has no checkpoint is replayed by whoever opens it.
async fn close_all(logs: impl Iterator<Item = Arc<PartitionLog>>) {
    stream::iter(logs)
        .for_each_concurrent(CLOSES_AT_ONCE, |log| async move {
            if let Err(error) = log.close().await {
                tracing::warn!(partition = %log.id(), %error, "no last checkpoint");
            }
        })
        .await;
}
