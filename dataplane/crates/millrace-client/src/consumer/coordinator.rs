//! The group's coordinator: who it is, commits, committed offsets.

use std::{collections::HashMap, time::Duration};

use millrace_wire::{
    RequestMessage, StrBytes,
    messages::{
        GroupId, OffsetCommitRequest, OffsetFetchRequest,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::{
            OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
        },
    },
};
use parking_lot::Mutex;

use super::{error::ConsumerError, flow::Lookup, offsets::Found, reader::Shared, session::name_of};
use crate::{
    admin::CommittedOffset,
    client::{Client, Lane, Retry},
    connection::{Connection, Limits},
    error::{BrokerError, ErrorCode, RequestError},
    throttle::Throttled,
    topic_partition::TopicPartition,
};

/// The first version of OffsetFetch that asks for several groups.
const GROUPS_FROM: i16 = 8;
/// The newest OffsetFetch and OffsetCommit without topic ids.
const FETCH_NEWEST: i16 = 9;
/// The first version of OffsetFetch that can wait for open transactions.
const STABLE_FROM: i16 = 7;
/// The first version of OffsetCommit with leader epochs.
const COMMIT_EPOCH_FROM: i16 = 6;
/// The first version of OffsetCommit with static members.
const COMMIT_INSTANCE_FROM: i16 = 7;
/// How long a commit waits for the end of a rebalance: longer than a leader needs to assign, and not
/// as long as a group waits for one that is gone.
const REBALANCE_WAIT_MAX: Duration = Duration::from_secs(5);
/// An epoch that is not known.
const NO_EPOCH: i32 = -1;

/// Who a member is, for the coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) generation: i32,
    pub(super) member_id: String,
}

impl Identity {
    /// Not a member: commits for partitions that were assigned by hand.
    pub(super) fn none() -> Self {
        Self {
            generation: -1,
            member_id: String::new(),
        }
    }
}

/// Requests to the coordinator of one group.
#[derive(Debug)]
pub(super) struct Coordinator {
    pub(super) group: String,
    node: Mutex<Option<i32>>,
    /// Commits must not wait behind a JoinGroup, which waits at the broker.
    commits: Lane,
    membership: Lane,
    identity: Mutex<Identity>,
}

/// Which of the two connections a request goes over.
#[derive(Debug, Clone, Copy)]
pub(super) enum Over {
    Commits,
    Membership,
}

impl Coordinator {
    pub(super) fn new(client: &Client, group: &str) -> Self {
        Self {
            group: group.to_owned(),
            node: Mutex::new(None),
            commits: client.new_lane(Limits::default()),
            membership: client.new_lane(Limits::default()),
            identity: Mutex::new(Identity::none()),
        }
    }

    pub(super) fn close(&self, client: &Client) {
        client.close_lane(self.commits);
        client.close_lane(self.membership);
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity.lock().clone()
    }

    pub(super) fn set_identity(&self, identity: Identity) {
        *self.identity.lock() = identity;
    }

    pub(super) fn group_id(&self) -> GroupId {
        GroupId(StrBytes::from_string(self.group.clone()))
    }

    /// The coordinator has moved, or is gone.
    pub(super) fn forget(&self) {
        *self.node.lock() = None;
    }

    /// Forgets the coordinator where an error says that it is another one.
    pub(super) fn judge(&self, error: &RequestError) {
        let moved = [
            ErrorCode::NOT_COORDINATOR,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ];
        match error {
            RequestError::Broker(error) if !moved.contains(&error.code) => {}
            _ => self.forget(),
        }
    }

    /// One request to the coordinator, found first where it is not known.
    pub(super) async fn call<M>(
        &self,
        client: &Client,
        over: Over,
        newest: i16,
        timeout: Duration,
        make: impl Fn(i16) -> M + Sync,
    ) -> Result<M::Response, RequestError>
    where
        M: RequestMessage,
        M::Response: Throttled,
    {
        let outcome = async {
            let connection = self.connection(client, over).await?;
            let version = connection.version::<M>(newest)?;
            let timeout = timeout.max(client.config().request_timeout);
            connection
                .call_within(version, &make(version), timeout)
                .await
        };
        let outcome = outcome.await;
        if let Err(error) = &outcome {
            self.judge(error);
        }
        outcome
    }

    /// Whether the coordinator offers an API in a version that this client speaks.
    pub(super) async fn offers<M: RequestMessage>(
        &self,
        client: &Client,
        over: Over,
    ) -> Result<bool, RequestError> {
        let connection = self.connection(client, over).await;
        let connection = connection.inspect_err(|error| self.judge(error))?;
        Ok(connection.version::<M>(i16::MAX).is_ok())
    }

    async fn connection(&self, client: &Client, over: Over) -> Result<Connection, RequestError> {
        let known = *self.node.lock();
        let node = match known {
            Some(node) => node,
            None => {
                let node = client.find_coordinator(&self.group).await?;
                *self.node.lock() = Some(node);
                node
            }
        };
        let lane = match over {
            Over::Commits => self.commits,
            Over::Membership => self.membership,
        };
        client.connection(node, lane).await
    }

    /// What is committed for these partitions, once.
    async fn fetch_once(
        &self,
        client: &Client,
        require_stable: bool,
        names: &[TopicPartition],
    ) -> Result<HashMap<TopicPartition, Committed>, RequestError> {
        let topics = by_topic(names.iter().map(|name| (name, name.partition)));
        let make = |version| {
            let request = OffsetFetchRequest::default();
            let request = if version >= STABLE_FROM {
                request.with_require_stable(require_stable)
            } else {
                request
            };
            if version >= GROUPS_FROM {
                let topic = |(name, partitions): &(TopicPartition, Vec<i32>)| {
                    OffsetFetchRequestTopics::default()
                        .with_name(name_of(name))
                        .with_partition_indexes(partitions.clone())
                };
                let group = OffsetFetchRequestGroup::default()
                    .with_group_id(self.group_id())
                    .with_topics(Some(topics.iter().map(topic).collect()));
                return request.with_groups(vec![group]);
            }
            let topic = |(name, partitions): &(TopicPartition, Vec<i32>)| {
                OffsetFetchRequestTopic::default()
                    .with_name(name_of(name))
                    .with_partition_indexes(partitions.clone())
            };
            request
                .with_group_id(self.group_id())
                .with_topics(Some(topics.iter().map(topic).collect()))
        };
        let response = self
            .call::<OffsetFetchRequest>(client, Over::Commits, FETCH_NEWEST, Duration::ZERO, make)
            .await?;
        let mut found = HashMap::new();
        let checked = |code| {
            BrokerError::check(code, None)
                .map_err(RequestError::from)
                .inspect_err(|error| self.judge(error))
        };
        checked(response.error_code)?;
        for topic in response.topics {
            for one in topic.partitions {
                let name = TopicPartition::new(topic.name.as_str(), one.partition_index);
                let text = one.metadata.as_deref();
                let outcome = committed(
                    one.error_code,
                    one.committed_offset,
                    one.committed_leader_epoch,
                    text,
                );
                found.insert(name, outcome);
            }
        }
        for group in response.groups {
            checked(group.error_code)?;
            for topic in group.topics {
                for one in topic.partitions {
                    let name = TopicPartition::new(topic.name.as_str(), one.partition_index);
                    let text = one.metadata.as_deref();
                    let epoch = one.committed_leader_epoch;
                    let outcome = committed(one.error_code, one.committed_offset, epoch, text);
                    found.insert(name, outcome);
                }
            }
        }
        Ok(found)
    }

    /// What is committed for these partitions; retried within `timeout`.
    pub(super) async fn fetch(
        &self,
        client: &Client,
        require_stable: bool,
        names: &[TopicPartition],
        timeout: Duration,
    ) -> Result<HashMap<TopicPartition, CommittedOffset>, RequestError> {
        let mut retry = Retry::new(client, timeout);
        loop {
            let error = match self.fetch_once(client, require_stable, names).await {
                Err(error) => error,
                Ok(found) => {
                    let failed = found.values().find_map(|one| one.as_ref().err().copied());
                    match failed {
                        Some(code) => BrokerError::from(code).into(),
                        None => {
                            let some = |(name, one): (_, Committed)| Some((name, one.ok()??));
                            return Ok(found.into_iter().filter_map(some).collect());
                        }
                    }
                }
            };
            retry.after(error).await?;
        }
    }

    /// Commits; retried within `timeout`.
    pub(super) async fn commit(
        &self,
        client: &Client,
        instance: Option<&str>,
        offsets: &HashMap<TopicPartition, CommittedOffset>,
        timeout: Duration,
    ) -> Result<(), ConsumerError> {
        let mut retry = Retry::new(client, timeout);
        let mut rebalance = Retry::new(client, timeout.min(REBALANCE_WAIT_MAX));
        let generation = self.identity().generation;
        loop {
            let error = match self.commit_once(client, instance, offsets).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let lost = [
                ErrorCode::ILLEGAL_GENERATION,
                ErrorCode::UNKNOWN_MEMBER_ID,
                ErrorCode::REBALANCE_IN_PROGRESS,
                ErrorCode::FENCED_MEMBER_EPOCH,
            ];
            match error {
                // Members have joined and the leader has not assigned yet. Afterwards the commit is
                // taken, unless this member belongs to another generation by then.
                RequestError::Broker(error)
                    if error.code == ErrorCode::REBALANCE_IN_PROGRESS
                        && self.identity().generation == generation =>
                {
                    let waited = rebalance.again(error.clone().into()).await;
                    waited.map_err(|_| ConsumerError::Rebalanced(error))?;
                }
                // The next heartbeat, or the one whose answer is on its way, brings the newest epoch.
                RequestError::Broker(error) if error.code == ErrorCode::STALE_MEMBER_EPOCH => {
                    retry.again(error.into()).await?;
                }
                RequestError::Broker(error) if lost.contains(&error.code) => {
                    return Err(ConsumerError::Rebalanced(error));
                }
                RequestError::Broker(error) if error.code == ErrorCode::FENCED_INSTANCE_ID => {
                    return Err(ConsumerError::Group(error));
                }
                error => retry.after(error).await?,
            }
        }
    }

    async fn commit_once(
        &self,
        client: &Client,
        instance: Option<&str>,
        offsets: &HashMap<TopicPartition, CommittedOffset>,
    ) -> Result<(), RequestError> {
        let topics = by_topic(
            offsets
                .iter()
                .map(|(name, offset)| (name, (name.partition, offset))),
        );
        let identity = self.identity();
        let text = |text: &String| StrBytes::from_string(text.clone());
        let make = |version| {
            let partition = |(index, offset): &(i32, &CommittedOffset)| {
                let partition = OffsetCommitRequestPartition::default()
                    .with_partition_index(*index)
                    .with_committed_offset(offset.offset)
                    .with_committed_metadata(Some(text(&offset.metadata)));
                if version >= COMMIT_EPOCH_FROM {
                    partition.with_committed_leader_epoch(offset.leader_epoch.unwrap_or(NO_EPOCH))
                } else {
                    partition
                }
            };
            let topic = |(name, parts): &(TopicPartition, Vec<(i32, &CommittedOffset)>)| {
                OffsetCommitRequestTopic::default()
                    .with_name(name_of(name))
                    .with_partitions(parts.iter().map(partition).collect())
            };
            let request = OffsetCommitRequest::default()
                .with_group_id(self.group_id())
                .with_generation_id_or_member_epoch(identity.generation)
                .with_member_id(StrBytes::from_string(identity.member_id.clone()))
                .with_topics(topics.iter().map(topic).collect());
            match instance {
                Some(instance) if version >= COMMIT_INSTANCE_FROM => {
                    request.with_group_instance_id(Some(StrBytes::from_string(instance.to_owned())))
                }
                _ => request,
            }
        };
        let response = self
            .call::<OffsetCommitRequest>(client, Over::Commits, FETCH_NEWEST, Duration::ZERO, make)
            .await?;
        let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        for partition in partitions {
            BrokerError::check(partition.error_code, None)
                .map_err(RequestError::from)
                .inspect_err(|error| self.judge(error))?;
        }
        Ok(())
    }
}

type Committed = Result<Option<CommittedOffset>, ErrorCode>;

fn committed(code: i16, offset: i64, epoch: i32, metadata: Option<&str>) -> Committed {
    if let Some(code) = ErrorCode::from_code(code) {
        return Err(code);
    }
    Ok((offset >= 0).then(|| CommittedOffset {
        offset,
        leader_epoch: (epoch >= 0).then_some(epoch),
        metadata: metadata.unwrap_or_default().to_owned(),
    }))
}

/// Groups by topic; the key names the topic.
fn by_topic<'a, T>(
    parts: impl Iterator<Item = (&'a TopicPartition, T)>,
) -> Vec<(TopicPartition, Vec<T>)> {
    let mut topics: Vec<(TopicPartition, Vec<T>)> = Vec::new();
    for (name, part) in parts {
        match topics
            .iter_mut()
            .find(|(known, _)| known.topic == name.topic)
        {
            Some((_, parts)) => parts.push(part),
            None => topics.push((name.clone(), vec![part])),
        }
    }
    topics
}

/// The committed offsets of partitions that are about to be read.
pub(super) async fn committed_for(
    shared: &Shared,
    lookups: &[Lookup],
) -> Result<Vec<Found>, RequestError> {
    let Some(coordinator) = &shared.coordinator else {
        return Ok(lookups.iter().map(|_| Ok(None)).collect());
    };
    let names: Vec<_> = lookups.iter().map(|lookup| lookup.name.clone()).collect();
    let found = coordinator.fetch_once(&shared.client, true, &names).await?;
    let found = |name| match found.get(name) {
        None => Err(ErrorCode::UNKNOWN_SERVER_ERROR),
        Some(outcome) => outcome.clone().map(|offset| {
            let offset = offset?;
            Some((offset.offset, offset.leader_epoch))
        }),
    };
    Ok(names.iter().map(found).collect())
}
