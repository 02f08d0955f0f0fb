//! The consumer: from fetches to records, at the pace of those who read.
//!
//! ```text
//! brokers ─► fetcher ─► flow (buffers, budget, demand) ─► next, batches, streams
//!               ▲                    │
//!               └─── who has room ◄──┘
//! ```
//!
//! There is no poll loop: heartbeats, rebalances, fetches and commits run on tasks of the consumer,
//! whether or not the program reads. Reading is demand: when a reader stops asking for records, the
//! consumer stops fetching its partitions, and only those.

// - `config`, `record`, `error`: what users hand in and get back
// - `flow`: what is fetched, buffered and delivered; a state machine without I/O
// - `gate`: what consumers may decompress at one time
// - `fetcher`, `session`: the task that fetches, and KIP-227
// - `offsets`: the first, the last, by time, by epoch
// - `coordinator`, `commits`: committed offsets
// - `assignor`, `membership`, `protocol`: groups
// - `stream`: streams over everything or over one partition

mod assignor;
mod commits;
mod config;
mod coordinator;
mod error;
mod fetcher;
mod flow;
mod gate;
mod membership;
mod offsets;
mod protocol;
mod reader;
mod record;
mod session;
mod stream;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    future::poll_fn,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::stream::{BoxStream, StreamExt};
use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) use self::protocol::assigned as assigned_partitions;
pub use self::{
    assignor::Assignor,
    config::{AutoCommit, ConsumerConfig, GroupProtocol, IsolationLevel, OffsetReset},
    error::ConsumerError,
    flow::ConsumerMetrics,
    gate::DecompressionGate,
    membership::{NoListener, RebalanceListener},
    offsets::OffsetAndTimestamp,
    record::{ConsumerRecord, RecordBatch, RecordHeader, RecordRef},
    stream::{PartitionStream, RecordStream},
};
use self::{
    flow::{PartitionId, Scope, Standing, Taken},
    membership::Membership,
    reader::{Reader, Shared},
};
pub use crate::group_offsets::CommittedOffset;
use crate::{client::Client, topic_partition::TopicPartition};

/// Where to begin reading a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartAt {
    /// At the group's committed offset; without one, or without a group, where
    /// [`ConsumerConfig::auto_offset_reset`] says.
    Committed,
    /// At the first record that the log still has.
    Beginning,
    /// Behind the last record.
    End,
    /// At this offset.
    Offset(i64),
    /// At the first record that is not older than this, in milliseconds since 1970.
    Timestamp(i64),
}

/// Reads records from topics.
///
/// Clones share everything. After the last one and the last stream are dropped, the consumer commits
/// and leaves its group, for as long as the runtime lives; [`Consumer::close`] waits for that.
///
/// ```no_run
/// use millrace_client::{Client, ClientConfig, Consumer, ConsumerConfig};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::new(ClientConfig::new("localhost:9092")?);
/// let consumer = Consumer::new(&client, ConsumerConfig::in_group("billing"));
/// consumer.subscribe(&["orders"])?;
/// loop {
///     let record = consumer.next().await?;
///     println!("{}: {:?}", record.offset, record.value);
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct Consumer {
    handle: Arc<Handle>,
}

/// Ends the consumer's tasks once the last clone is gone.
struct Handle {
    shared: Arc<Shared>,
    membership: Mutex<Mode>,
    /// Ends the fetches, and their sessions.
    closing: CancellationToken,
    fetching: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    ended: CancellationToken,
    _ended: DropGuard,
}

/// How partitions are assigned.
enum Mode {
    /// Not yet decided.
    None,
    Manual,
    Group(Arc<Membership>),
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("config", &self.shared().config)
            .finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.with(flow::Flow::close);
    }
}

impl Consumer {
    /// A consumer with connections of its own, which reads nothing yet.
    ///
    /// # Panics
    /// It is not called from within a tokio runtime.
    #[must_use]
    pub fn new(client: &Client, config: ConsumerConfig) -> Self {
        let shared = Arc::new(Shared::new(client.clone(), config));
        let (closing, ended) = (CancellationToken::new(), CancellationToken::new());
        // Not supervised: it ends with its consumer, and retries every failure.
        let fetching = tokio::spawn(fetcher::run(
            Arc::clone(&shared),
            closing.clone(),
            ended.clone(),
        ));
        if shared.commits_by_itself() {
            // Not supervised: the same.
            tokio::spawn(commits::commit_regularly(
                Arc::clone(&shared),
                ended.clone(),
            ));
        }
        Self {
            handle: Arc::new(Handle {
                shared,
                membership: Mutex::new(Mode::None),
                closing,
                fetching: tokio::sync::Mutex::new(Some(fetching)),
                _ended: ended.clone().drop_guard(),
                ended,
            }),
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    fn id(&self, partition: &TopicPartition) -> Result<PartitionId, ConsumerError> {
        self.shared()
            .with(|flow| flow.id(partition))
            .ok_or_else(|| ConsumerError::NotAssigned(partition.clone()))
    }

    /// Reads exactly these partitions. Those that were assigned before and are named again go on
    /// where they are; all others start at `start`.
    ///
    /// # Errors
    /// The consumer has subscribed to topics.
    pub fn assign(
        &self,
        partitions: impl IntoIterator<Item = impl Into<TopicPartition>>,
        start: StartAt,
    ) -> Result<(), ConsumerError> {
        let mut mode = self.handle.membership.lock();
        if matches!(*mode, Mode::Group(_)) {
            return Err(ConsumerError::Misuse(
                "assign cannot be used after subscribe: use another consumer",
            ));
        }
        *mode = Mode::Manual;
        self.shared().is_manual.store(true, Ordering::Release);
        let wanted: Vec<TopicPartition> = partitions.into_iter().map(Into::into).collect();
        let kept: HashSet<_> = wanted.iter().collect();
        let shared = self.shared();
        shared.with(|flow| {
            for name in flow.assignment() {
                if !kept.contains(&name) {
                    flow.unassign(&name);
                }
            }
            for name in &wanted {
                if flow.id(name).is_none() {
                    let id = flow.assign(name, standing(start, &shared.config));
                    if let StartAt::Offset(offset) = start {
                        flow.seek(id, offset, None);
                    }
                }
            }
        });
        shared.assignment_changed();
        shared.assigned.send_modify(|count| *count += 1);
        Ok(())
    }

    /// Joins the group and reads these topics' partitions together with its other members.
    ///
    /// # Errors
    /// There is no `group_id`, or partitions were assigned by hand.
    pub fn subscribe(&self, topics: &[&str]) -> Result<(), ConsumerError> {
        self.subscribe_with(topics, NoListener)
    }

    /// As [`Self::subscribe`], and tells `listener` of what is assigned and revoked. A second call
    /// changes the topics and ignores its listener.
    ///
    /// # Errors
    /// As [`Self::subscribe`].
    pub fn subscribe_with(
        &self,
        topics: &[&str],
        listener: impl RebalanceListener,
    ) -> Result<(), ConsumerError> {
        let mut mode = self.handle.membership.lock();
        match &*mode {
            Mode::Manual => Err(ConsumerError::Misuse(
                "subscribe cannot be used after assign: use another consumer",
            )),
            Mode::Group(membership) => {
                membership.set_topics(topics);
                Ok(())
            }
            Mode::None => {
                let shared = Arc::clone(self.shared());
                if shared.coordinator.is_none() {
                    return Err(ConsumerError::Misuse("subscribe needs a group_id"));
                }
                if shared.config.assignors.is_empty() {
                    return Err(ConsumerError::Misuse("subscribe needs an assignor"));
                }
                let membership = Membership::start(
                    shared,
                    topics,
                    Arc::new(listener),
                    self.handle.ended.clone(),
                );
                *mode = Mode::Group(membership);
                Ok(())
            }
        }
    }

    /// The partitions that are read now.
    #[must_use]
    pub fn assignment(&self) -> Vec<TopicPartition> {
        let mut assignment = self.shared().with(|flow| flow.assignment());
        assignment.sort();
        assignment
    }

    /// The next record of any partition, in the order of its partition; waits for one. Partitions
    /// that have a stream of their own are left out.
    ///
    /// Cancel-safe: a call that is dropped takes no record.
    ///
    /// # Errors
    /// Something is wrong with a partition, or the group refuses this member. The next call
    /// continues with what is not affected.
    pub async fn next(&self) -> Result<ConsumerRecord, ConsumerError> {
        match self.taken(false).await? {
            Taken::Record(record) => Ok(record),
            _ => Err(ConsumerError::Closed),
        }
    }

    /// As [`Self::next`], but returns the rest of a whole batch: what its producer sent together.
    ///
    /// Cancel-safe.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn next_batch(&self) -> Result<RecordBatch, ConsumerError> {
        match self.taken(true).await? {
            Taken::Batch(batch) => Ok(batch),
            _ => Err(ConsumerError::Closed),
        }
    }

    async fn taken(&self, whole: bool) -> Result<Taken, ConsumerError> {
        let mut reader = Reader::new(Arc::clone(self.shared()), Scope::All);
        match poll_fn(|context| reader.poll_take(context, whole)).await {
            Taken::Fault(error) => Err(error),
            taken => Ok(taken),
        }
    }

    /// All records as a stream; see [`Self::next`].
    #[must_use]
    pub fn stream(&self) -> RecordStream {
        RecordStream::new(
            self.clone(),
            Reader::new(Arc::clone(self.shared()), Scope::All),
        )
    }

    /// The records of one partition as a stream, which alone gets them. The stream ends when the
    /// partition is revoked. Without anybody who polls it, nothing is fetched for it, and no other
    /// partition waits for it.
    ///
    /// # Errors
    /// The partition is not assigned, or has a stream already.
    pub fn partition_stream(
        &self,
        partition: &TopicPartition,
    ) -> Result<PartitionStream, ConsumerError> {
        let id = self.id(partition)?;
        if !self.shared().with(|flow| flow.set_stream(id, true)) {
            return Err(ConsumerError::HasStream(partition.clone()));
        }
        let reader = Reader::new(Arc::clone(self.shared()), Scope::One(id));
        Ok(PartitionStream::new(
            self.clone(),
            partition.clone(),
            id,
            reader,
        ))
    }

    /// A stream of streams: one for each partition that is assigned, when it is. The partitions are
    /// read side by side, each at its reader's pace. Ends when the consumer is closed.
    #[must_use]
    pub fn partition_streams(&self) -> BoxStream<'static, PartitionStream> {
        let mut assigned = self.shared().assigned.subscribe();
        assigned.mark_changed();
        let next = |(consumer, mut assigned): (Self, watch::Receiver<u64>)| async move {
            loop {
                if let Some(stream) = consumer.unread() {
                    return Some((stream, (consumer, assigned)));
                }
                if consumer.shared().with(|flow| flow.is_closed()) {
                    return None;
                }
                assigned.changed().await.ok()?;
            }
        };
        futures_util::stream::unfold((self.clone(), assigned), next).boxed()
    }

    /// A stream of some partition that has none.
    fn unread(&self) -> Option<PartitionStream> {
        let mut names = self.assignment().into_iter();
        names.find_map(|name| self.partition_stream(&name).ok())
    }

    /// Delivers nothing of these partitions until [`Self::resume`], and fetches nothing for them.
    /// What is fetched already is kept.
    ///
    /// # Errors
    /// One of them is not assigned; the others are paused nevertheless.
    pub fn pause(&self, partitions: &[TopicPartition]) -> Result<(), ConsumerError> {
        self.each(partitions, flow::Flow::pause)
    }

    /// Ends a pause. What was fetched before it is delivered first.
    ///
    /// # Errors
    /// One of them is not assigned; the others are resumed nevertheless.
    pub fn resume(&self, partitions: &[TopicPartition]) -> Result<(), ConsumerError> {
        self.each(partitions, flow::Flow::resume)
    }

    fn each(
        &self,
        partitions: &[TopicPartition],
        act: impl Fn(&mut flow::Flow, PartitionId),
    ) -> Result<(), ConsumerError> {
        let mut missing = None;
        self.shared().with(|flow| {
            for name in partitions {
                match flow.id(name) {
                    Some(id) => act(flow, id),
                    None => missing = Some(name.clone()),
                }
            }
        });
        missing.map_or(Ok(()), |name| Err(ConsumerError::NotAssigned(name)))
    }

    /// The partitions that are paused.
    #[must_use]
    pub fn paused(&self) -> Vec<TopicPartition> {
        let is_paused = |flow: &flow::Flow, name: &TopicPartition| {
            flow.id(name).is_some_and(|id| flow.is_paused(id))
        };
        self.shared().with(|flow| {
            let mut names = flow.assignment();
            names.retain(|name| is_paused(flow, name));
            names
        })
    }

    /// Continues the partition at another offset. Its buffered records are dropped.
    ///
    /// # Errors
    /// The partition is not assigned.
    pub fn seek(&self, partition: &TopicPartition, to: StartAt) -> Result<(), ConsumerError> {
        let id = self.id(partition)?;
        let shared = self.shared();
        shared.with(|flow| match to {
            StartAt::Offset(offset) => flow.seek(id, offset, None),
            to => flow.seek_to(id, standing(to, &shared.config)),
        });
        Ok(())
    }

    /// The offset of the next record to deliver; waits until it is known.
    ///
    /// # Errors
    /// The partition is not assigned, or there is no such offset within the client's
    /// `request_timeout`.
    pub async fn position(&self, partition: &TopicPartition) -> Result<i64, ConsumerError> {
        let shared = self.shared();
        let known = async {
            loop {
                let changed = shared.positions.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                let id = self.id(partition)?;
                if let Some(position) = shared.with(|flow| flow.position(id)) {
                    return Ok(position);
                }
                if shared.with(|flow| flow.is_stuck(id)) {
                    return Err(ConsumerError::NoOffset {
                        partition: partition.clone(),
                        offset: None,
                    });
                }
                changed.await;
            }
        };
        let timeout = shared.client.config().request_timeout;
        tokio::time::timeout(timeout, known)
            .await
            .unwrap_or_else(|_| {
                Err(ConsumerError::Request(crate::RequestError::TimedOut {
                    what: format!("the position of {partition}"),
                    after: timeout,
                }))
            })
    }

    /// How many offsets lie between the position and the end of the partition that this consumer
    /// can read, as of the last fetch; `None` until that is known.
    #[must_use]
    pub fn lag(&self, partition: &TopicPartition) -> Option<i64> {
        let shared = self.shared();
        shared.with(|flow| flow.lag(flow.id(partition)?))
    }

    /// The first offsets of partitions, whether assigned or not.
    ///
    /// # Errors
    /// A broker refuses, or does not answer within the client's `request_timeout`.
    pub async fn beginning_offsets(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<HashMap<TopicPartition, i64>, ConsumerError> {
        self.offsets_of(partitions, offsets::EARLIEST).await
    }

    /// The offsets behind the last records that this consumer can read.
    ///
    /// # Errors
    /// As [`Self::beginning_offsets`].
    pub async fn end_offsets(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<HashMap<TopicPartition, i64>, ConsumerError> {
        self.offsets_of(partitions, offsets::LATEST).await
    }

    async fn offsets_of(
        &self,
        partitions: &[TopicPartition],
        time: i64,
    ) -> Result<HashMap<TopicPartition, i64>, ConsumerError> {
        let asked: Vec<_> = partitions.iter().map(|name| (name.clone(), time)).collect();
        let found = self.offsets_for_times(&asked).await?;
        let some = |(name, found): (_, Option<OffsetAndTimestamp>)| Some((name, found?.offset));
        Ok(found.into_iter().filter_map(some).collect())
    }

    /// The first records that are not older than these times, in milliseconds since 1970; `None` for
    /// a partition without such a record.
    ///
    /// # Errors
    /// As [`Self::beginning_offsets`].
    pub async fn offsets_for_times(
        &self,
        times: &[(TopicPartition, i64)],
    ) -> Result<HashMap<TopicPartition, Option<OffsetAndTimestamp>>, ConsumerError> {
        let shared = self.shared();
        let timeout = shared.client.config().request_timeout;
        let isolation = shared.config.isolation_level;
        let found = offsets::offsets_at(&shared.client, isolation, times, timeout).await?;
        Ok(found)
    }

    /// Reports a record as processed, in any order; see [`AutoCommit::WhenProcessed`].
    pub fn processed(&self, record: &ConsumerRecord) {
        let name = record.topic_partition();
        self.processed_to(&name, record.offset.saturating_add(1));
    }

    /// Reports all of a batch as processed.
    pub fn processed_batch(&self, partition: &TopicPartition, next_offset: i64) {
        self.processed_to(partition, next_offset);
    }

    fn processed_to(&self, partition: &TopicPartition, next: i64) {
        self.shared().with(|flow| {
            if let Some(id) = flow.id(partition) {
                flow.processed(id, next);
            }
        });
    }

    /// Commits what was delivered so far; with [`AutoCommit::WhenProcessed`] what was processed. A
    /// commit that a rebalance refuses is repeated, as long as the consumer keeps its partitions.
    ///
    /// # Errors
    /// The commit was not accepted, or not answered within the client's `request_timeout`.
    pub async fn commit(&self) -> Result<(), ConsumerError> {
        self.shared().commit_asked(self.timeout()).await
    }

    /// Commits these offsets: those of the next records to process.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn commit_offsets(
        &self,
        offsets: &HashMap<TopicPartition, CommittedOffset>,
    ) -> Result<(), ConsumerError> {
        self.shared().commit_offsets(offsets, self.timeout()).await
    }

    /// What the group has committed for these partitions; those without a commit are left out.
    ///
    /// # Errors
    /// There is no group, or its coordinator refuses or does not answer.
    pub async fn committed(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<HashMap<TopicPartition, CommittedOffset>, ConsumerError> {
        let shared = self.shared();
        let coordinator = shared.coordinator()?;
        let found = coordinator
            .fetch(&shared.client, false, partitions, self.timeout())
            .await?;
        Ok(found)
    }

    fn timeout(&self) -> Duration {
        self.shared().client.config().request_timeout
    }

    /// Whether a reader waits for [`ConsumerConfig::decompression_gate`] now.
    #[must_use]
    pub fn is_waiting_for_gate(&self) -> bool {
        self.shared().is_gated()
    }

    /// What it has fetched and delivered so far.
    #[must_use]
    pub fn metrics(&self) -> ConsumerMetrics {
        self.shared().with(|flow| flow.metrics())
    }

    /// Commits what is processed, leaves the group, ends the fetch sessions and all readers. Ending the
    /// sessions takes at most a second.
    ///
    /// # Errors
    /// The last commit failed; the consumer is closed nevertheless.
    pub async fn close(&self) -> Result<(), ConsumerError> {
        let shared = self.shared();
        let membership = match &*self.handle.membership.lock() {
            Mode::Group(membership) => Some(Arc::clone(membership)),
            Mode::None | Mode::Manual => None,
        };
        shared.with(flow::Flow::close);
        shared.assigned.send_modify(|count| *count += 1);
        self.handle.closing.cancel();
        let committed = async {
            match membership {
                Some(membership) => membership.leave().await,
                None => shared.commit_last(&self.assignment()).await,
            }
        };
        let fetched = async {
            if let Some(fetching) = self.handle.fetching.lock().await.take() {
                // It fails only where it has panicked, and then has nothing to end.
                let _ended = fetching.await;
            }
        };
        let (committed, ()) = tokio::join!(committed, fetched);
        self.handle.ended.cancel();
        committed
    }
}

fn standing(start: StartAt, config: &ConsumerConfig) -> Standing {
    match start {
        StartAt::Committed if config.group_id.is_some() => Standing::Committed,
        StartAt::Committed if config.auto_offset_reset == OffsetReset::None => Standing::Committed,
        StartAt::Committed => Standing::Reset(config.auto_offset_reset, None),
        StartAt::Beginning => Standing::Reset(OffsetReset::Earliest, None),
        StartAt::End | StartAt::Offset(_) => Standing::Reset(OffsetReset::Latest, None),
        StartAt::Timestamp(timestamp) => Standing::At(timestamp),
    }
}
