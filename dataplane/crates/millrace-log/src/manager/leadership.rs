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

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    convert::Infallible,
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
use millrace_stream::FlushError;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use super::{Inner, LogManager, OPENS_AT_ONCE, STREAMS_PER_TRANSACTION, retention};
use crate::{
    committed::CommittedLog,
    config::TopicConfig,
    error::OpenError,
    partition::{PartitionLog, Patience, Usage},
    topic::{Arrival, Partition, Topic},
};

/// The pause before work is tried again that another broker has to do its part for.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// The same after many tries in vain.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(2);

/// The pause after a failure of the metadata or of the bucket.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// How long a change of topics waits until this broker has read it back.
const FOLLOW_WAIT: Duration = Duration::from_secs(10);

/// Partitions that move together: they share two uploads, and the last of them waits for all.
const MOVES_AT_ONCE: usize = 32;

/// How long partitions that take no appends any more wait for their upload before they stay where they are.
const MOVE_WAIT: Duration = Duration::from_secs(10);

/// Partitions that are closed at the same time.
const CLOSES_AT_ONCE: usize = 32;

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

    /// The planned move that brings a partition here. Those who wait for it have their time from its lead's arrival on.
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

    /// Waits until this broker knows what others have changed so far, up to `patience`. One that is alone knows it.
    pub async fn catch_up(&self, patience: Duration) {
        if let Some(following) = &self.inner.following {
            // Whoever asked goes on with what is known.
            let _ = timeout(patience, following.catch_up()).await;
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
        let config = match TopicConfig::resolve(&self.defaults, &topic.configs) {
            Ok(config) => Arc::new(config),
            Err(error) => {
                tracing::error!(topic = %topic.name, %error, "the topic's configuration is not valid; its former one stays in force");
                let former = known.as_ref().map(|known| Arc::clone(&known.config));
                former.unwrap_or_else(|| Arc::new(TopicConfig::of_defaults(&self.defaults)))
            }
        };
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

    /// How many partitions of the topic this broker leads and has not open: it opens them, or waits for their former leader's log.
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
            // What follows a damaged record is in this broker's log alone, so a halted stream is kept.
            let is_halted = |id: StreamId| {
                let stream = self.store.opened(id);
                stream.is_some_and(|stream| stream.halted().is_some())
            };
            let is_left = |id: &StreamId| {
                !led.contains(id) && !given_up.moving.contains(id) && !is_halted(*id)
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
        let mut streams: Vec<StreamId> = streams.difference(&led).copied().collect();
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

    fn led_streams(&self, following: &Following) -> HashSet<StreamId> {
        let led = self.led_partitions(following);
        led.iter()
            .flat_map(|(led, _)| [led.streams.data, led.streams.meta])
            .collect()
    }

    /// Moves some partitions that are to go elsewhere; whether there were any.
    async fn move_some(&self, following: &Following) -> Result<bool, FlushError> {
        let node = following.cluster.node;
        let due = self.led_partitions(following).into_iter();
        let due = due.filter_map(|(led, log)| {
            let to = led.leader.moving_to.filter(|&to| to != node)?;
            // What follows a damaged record is in this broker's log alone.
            let log = log.filter(|log| log.halted().is_none())?;
            Some((led, log, to))
        });
        let due: Vec<_> = due.take(MOVES_AT_ONCE).collect();
        if due.is_empty() {
            return Ok(false);
        }
        // Most of it is uploaded while it still takes appends.
        self.store.flush().await?;
        let streams = due.iter().map(|(led, ..)| led.streams);
        following.given_up.lock().moving = streams.flat_map(|of| [of.data, of.meta]).collect();
        close_all(due.iter().map(|(_, log, _)| Arc::clone(log))).await;
        let moves: Vec<Move> = due
            .iter()
            .map(|(led, _, to)| Move {
                partition: led.id(),
                to: *to,
            })
            .collect();
        let is_uploaded = match timeout(MOVE_WAIT, self.store.flush()).await {
            Ok(Ok(())) => true,
            failed => {
                let error = failed.map(|flushed| flushed.err());
                tracing::warn!(?error, wait = ?MOVE_WAIT, "partitions stay where they are: they could not be uploaded in time");
                false
            }
        };
        let gone = match is_uploaded {
            true => hand_over(following, &moves).await,
            false => HashSet::new(),
        };
        if is_uploaded {
            // Also what stays here is opened from the metadata again: while the answer was lost, another broker may have had it.
            let streams = due.iter().map(|(led, ..)| led.streams);
            let streams: Vec<_> = streams.flat_map(|of| [of.data, of.meta]).collect();
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

/// Why streams were not released. They will be.
#[derive(Debug, thiserror::Error)]
enum ReleaseError {
    #[error(transparent)]
    Flush(#[from] FlushError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
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

pub(super) async fn open_for_ever(inner: Arc<Inner>) -> Infallible {
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

pub(super) async fn release_for_ever(inner: Arc<Inner>) -> Infallible {
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

pub(super) async fn move_for_ever(inner: Arc<Inner>) -> Infallible {
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
