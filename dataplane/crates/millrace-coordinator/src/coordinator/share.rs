//! Share groups (KIP-932) as the broker sees them, and the tasks that ask the share coordinator on their behalf. A group has one such
//! task at a time, but for those that delete the states of deleted topics.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::{StreamExt as _, stream};
use millrace_model::{Offset, TopicId, TopicName};
use millrace_tasks::Task;
use tokio::{sync::oneshot, time::timeout};

use super::{Cell, GroupCoordinator, Shard, Turn, Waiting, behind_all};
use crate::{
    GroupError, SharePartition, ShareState, ShareStateError, ShareStates,
    config::{SHARE_STATE_TIMEOUT, SHARE_STATES_ASKED_MAX},
    group::{Outcome, Reply, encoded},
    messages::{ConsumerHeartbeatAnswer, JOIN_EPOCH, ShareGroupDescription, ShareHeartbeat},
    share::{StateRequest, StateResults},
};

/// What became of each partition.
pub type ShareStateResults = BTreeMap<(TopicId, u32), Result<(), ShareStateError>>;

/// A group, and what the share coordinator is to be asked on its behalf.
struct Asking {
    states: Arc<dyn ShareStates>,
    shard: Arc<Shard>,
    cell: Arc<Cell>,
    group_id: String,
    request: StateRequest,
    /// Comes when what the group has written about the request is durable.
    written: Waiting<()>,
}

impl GroupCoordinator {
    /// Hears from a member of a share group, which joins, goes on or leaves; the answer comes when what it tells is durable.
    #[must_use]
    pub fn share_heartbeat(&self, request: ShareHeartbeat) -> Waiting<ConsumerHeartbeatAnswer> {
        let heard = self.try_share_heartbeat(&request);
        heard.unwrap_or_else(|error| Waiting::ready(Err(error)))
    }

    fn try_share_heartbeat(
        &self,
        request: &ShareHeartbeat,
    ) -> Result<Waiting<ConsumerHeartbeatAnswer>, GroupError> {
        let group_id = &request.group_id;
        let shard = self.shard_of_member(group_id)?;
        let cell = if request.member_epoch == JOIN_EPOCH {
            shard.cell_or_new(group_id)?
        } else {
            shard.cell(group_id)?.ok_or(GroupError::GroupIdNotFound)?
        };
        let ground = &self.0.ground;
        let heard = shard.with(&cell, |turn| {
            let room = ground.room(turn.kept.share_growth(request))?;
            let topics = &ground.config.topics;
            let (heard, asked) = turn.kept.share_heartbeat(request, topics, turn.now);
            let asked = asked.map(|asked| (asked, behind_all(turn)));
            // Until the member is counted, which is when the turn ends.
            Ok::<_, GroupError>((Waiting(heard), asked, room))
        })?;
        // A group that was made for a member that is refused must not stay.
        shard.forget_if_nothing(&cell);
        let (heard, asked, _) = heard?;
        if let Some((request, written)) = asked {
            let asking = self.asking((shard, cell), group_id, request, written);
            self.spawn_asking(asking.initialize());
        }
        Ok(heard)
    }

    /// All that is shown of a share group.
    ///
    /// # Errors
    /// The groups are not loaded, or not here, or there is no such share group.
    pub fn describe_share(&self, group_id: &str) -> Result<ShareGroupDescription, GroupError> {
        let cell = self.shard(group_id)?.cell(group_id)?;
        let cell = cell.ok_or(GroupError::GroupIdNotFound)?;
        cell.read(|group| group.describe_share())?
    }

    /// The partitions of which a share group has an initialized state, by topic, with the topic's name.
    ///
    /// # Errors
    /// The groups are not loaded, or not here, or there is no such share group.
    pub fn share_partitions(
        &self,
        group_id: &str,
    ) -> Result<BTreeMap<TopicId, (String, BTreeSet<u32>)>, GroupError> {
        let cell = self.shard(group_id)?.cell(group_id)?;
        let cell = cell.ok_or(GroupError::GroupIdNotFound)?;
        cell.read(|group| group.with_state())?
    }

    /// Where a share group is in these partitions, without what it has acknowledged beyond that.
    pub async fn share_summaries(
        &self,
        group_id: &str,
        partitions: impl IntoIterator<Item = (TopicId, u32)>,
    ) -> BTreeMap<(TopicId, u32), Result<ShareState, ShareStateError>> {
        let asked = partitions.into_iter().map(|of| {
            let states = Arc::clone(&self.0.share_states);
            let partition = share_partition(group_id, of);
            async move {
                let asked = timeout(SHARE_STATE_TIMEOUT, states.read_summary(partition)).await;
                (of, asked.unwrap_or(Err(ShareStateError::NotAvailable)))
            }
        });
        // The iterator is not kept across the wait.
        let asked: Vec<_> = asked.collect();
        let asked = stream::iter(asked).buffer_unordered(SHARE_STATES_ASKED_MAX);
        asked.collect().await
    }

    /// Lets partitions of a share group without members start again at other offsets.
    #[must_use]
    pub fn alter_share_offsets(
        &self,
        group_id: &str,
        offsets: Vec<((TopicId, u32), Offset)>,
    ) -> Waiting<ShareStateResults> {
        let begun = self.begin(group_id, |turn| turn.kept.begin_alter(offsets).map(Some));
        self.answer_with_results(begun)
    }

    /// Deletes what a share group without members knows of its place in topics. Topics of which it knows nothing are not in the
    /// results.
    #[must_use]
    pub fn delete_share_offsets(
        &self,
        group_id: &str,
        topics: &BTreeSet<TopicId>,
    ) -> Waiting<ShareStateResults> {
        let begun = self.begin(group_id, |turn| turn.kept.begin_delete_offsets(topics));
        self.answer_with_results(begun)
    }

    fn answer_with_results(
        &self,
        begun: Result<Option<Asking>, GroupError>,
    ) -> Waiting<ShareStateResults> {
        let asking = match begun {
            Ok(Some(asking)) => asking,
            Ok(None) => return Waiting::ready(Ok(ShareStateResults::new())),
            Err(error) => return Waiting::ready(Err(error)),
        };
        let (reply, answer) = oneshot::channel();
        self.spawn_asking(async move {
            let results = match asking.request {
                StateRequest::Initialize(..) => asking.initialize().await,
                StateRequest::Delete(_) => asking.delete().await,
            };
            drop(reply.send(results));
        });
        Waiting(answer)
    }

    /// Deletes the states of a share group without members, then the group; none where it has no states.
    pub(super) fn delete_share(&self, group_id: &str) -> Result<Option<Waiting<()>>, GroupError> {
        let begun = self.begin(group_id, |turn| turn.kept.begin_delete_states())?;
        let Some(asking) = begun else {
            return Ok(None);
        };
        let (reply, answer) = oneshot::channel();
        self.spawn_asking(asking.delete_group(reply));
        Ok(Some(Waiting(answer)))
    }

    /// Deletes the states of deleted topics, of all share groups that are served here.
    pub(super) fn share_topics_deleted(&self, topics: &BTreeSet<TopicName>) {
        for shard in self.0.partitions.serving() {
            for cell in shard.cells() {
                let forgotten = shard.with(&cell, |turn| {
                    let asked = turn.kept.share_topics_deleted(topics)?;
                    let group_id = turn.kept.id().to_owned();
                    Some((asked, group_id, behind_all(turn)))
                });
                // What has resigned meanwhile is another broker's.
                if let Ok(Some((request, group_id, written))) = forgotten {
                    let asking = self.asking((shard.clone(), cell), &group_id, request, written);
                    self.spawn_asking(asking.asked());
                }
            }
        }
    }

    /// Lets a group decide what the share coordinator is to be asked.
    fn begin(
        &self,
        group_id: &str,
        begin: impl FnOnce(&mut Turn<'_>) -> Result<Option<StateRequest>, GroupError>,
    ) -> Result<Option<Asking>, GroupError> {
        let shard = self.shard(group_id)?;
        let cell = shard.cell(group_id)?.ok_or(GroupError::GroupIdNotFound)?;
        let begun = shard.with(&cell, |turn| {
            let asked = begin(turn)?;
            Ok::<_, GroupError>(asked.map(|asked| (asked, behind_all(turn))))
        })??;
        let asking = |(request, written)| self.asking((shard, cell), group_id, request, written);
        Ok(begun.map(asking))
    }

    fn asking(
        &self,
        (shard, cell): (Arc<Shard>, Arc<Cell>),
        group_id: &str,
        request: StateRequest,
        written: Waiting<()>,
    ) -> Asking {
        Asking {
            states: Arc::clone(&self.0.share_states),
            shard,
            cell,
            group_id: group_id.to_owned(),
            request,
            written,
        }
    }

    /// Runs beside the request, which may go away: what has begun is finished.
    fn spawn_asking<T>(&self, asking: impl Future<Output = T> + Send + 'static) {
        let task = async move {
            asking.await;
        };
        drop(self.0.tasks.spawn(Task::ShareStates, task));
    }
}

impl Asking {
    /// Asks, once what the group has written about it is durable.
    async fn asked(self) -> StateResults {
        match self.written.await {
            Ok(()) => ask(&self.states, &self.group_id, self.request).await,
            Err(_) => {
                let partitions = self.request.partitions().into_iter();
                let refused = partitions.map(|of| (of, Err(ShareStateError::NotAvailable)));
                refused.collect()
            }
        }
    }

    async fn initialize(self) -> Result<ShareStateResults, GroupError> {
        let (shard, cell) = (Arc::clone(&self.shard), Arc::clone(&self.cell));
        let results = self.asked().await;
        let written = shard.with(&cell, |turn| {
            turn.kept.initialization_finished(&results, turn.now);
            behind_all(turn)
        })?;
        written.await.map(|()| results)
    }

    async fn delete(self) -> Result<ShareStateResults, GroupError> {
        let (shard, cell) = (Arc::clone(&self.shard), Arc::clone(&self.cell));
        let results = self.asked().await;
        let written = shard.with(&cell, |turn| {
            turn.kept.deletion_finished(&results);
            behind_all(turn)
        })?;
        written.await.map(|()| results)
    }

    /// Deletes the group after its states, unless a member has joined meanwhile.
    async fn delete_group(self, reply: Reply<()>) {
        let (shard, cell) = (Arc::clone(&self.shard), Arc::clone(&self.cell));
        let results = self.asked().await;
        let mut reply = Some(reply);
        let deleted = shard.with(&cell, |turn| {
            let is_done = results.values().all(Result::is_ok);
            let tombstones = turn.kept.end_delete_states(is_done, turn.now);
            let tombstones = tombstones.inspect_err(|_| turn.kept.deletion_finished(&results))?;
            turn.write(encoded(&tombstones), Outcome::Delete(reply.take()));
            Ok(())
        });
        if let (Err(error), Some(reply)) = (deleted.and_then(|deleted| deleted), reply) {
            drop(reply.send(Err(error)));
        }
    }
}

/// Asks the share coordinators of all partitions, of some at a time.
async fn ask(states: &Arc<dyn ShareStates>, group_id: &str, request: StateRequest) -> StateResults {
    let epoch = match &request {
        StateRequest::Initialize(epoch, _) => Some(*epoch),
        StateRequest::Delete(_) => None,
    };
    let offsets: Vec<_> = match request {
        StateRequest::Initialize(_, offsets) => offsets,
        StateRequest::Delete(all) => all.into_iter().map(|of| (of, None)).collect(),
    };
    let asked = offsets.into_iter().map(|(of, offset)| {
        let partition = share_partition(group_id, of);
        let states = Arc::clone(states);
        async move { (of, ask_one(&*states, partition, epoch, offset).await) }
    });
    let asked = stream::iter(asked).buffer_unordered(SHARE_STATES_ASKED_MAX);
    asked.collect().await
}

fn share_partition(group_id: &str, (topic_id, partition): (TopicId, u32)) -> SharePartition {
    SharePartition {
        group_id: group_id.to_owned(),
        topic_id,
        partition: i32::try_from(partition).unwrap_or(i32::MAX),
    }
}

/// Asks to initialize a state with this epoch, or, without one, to delete it.
async fn ask_one(
    states: &dyn ShareStates,
    partition: SharePartition,
    epoch: Option<i32>,
    offset: Option<Offset>,
) -> Result<(), ShareStateError> {
    let asked = match epoch {
        Some(epoch) => states.initialize(partition, epoch, offset),
        None => states.delete(partition),
    };
    match timeout(SHARE_STATE_TIMEOUT, asked).await {
        Err(_) => Err(ShareStateError::NotAvailable),
        Ok(Err(ShareStateError::Unknown)) if epoch.is_none() => Ok(()),
        Ok(result) => result,
    }
}
