//! The group's coordinator: who it is, commits, committed offsets.

use std::{collections::HashMap, time::Duration};

use millrace_wire::{
    StrBytes,
    messages::{GroupId, OffsetCommitRequest, OffsetFetchRequest},
};
use parking_lot::Mutex;

use super::{error::ConsumerError, flow::Lookup, offsets::Found, reader::Shared};
use crate::{
    client::{Client, Lane, Retry},
    connection::{Connection, Limits},
    error::{BrokerError, ErrorCode, RequestError},
    group_offsets::{self, Committed, CommittedOffset, Member},
    throttle::Call,
    topic_partition::TopicPartition,
};

/// How long a commit waits for the end of a rebalance: longer than a leader needs to assign, and not
/// as long as a group waits for one that is gone.
const REBALANCE_WAIT_MAX: Duration = Duration::from_secs(5);

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
    pub(super) async fn call<M: Call>(
        &self,
        client: &Client,
        over: Over,
        newest: i16,
        timeout: Duration,
        make: impl FnOnce(i16) -> M,
    ) -> Result<M::Response, RequestError> {
        let outcome = async {
            let connection = self.connection(client, over).await?;
            connection.ask(newest, timeout, make).await
        };
        let outcome = outcome.await;
        if let Err(error) = &outcome {
            self.judge(error);
        }
        outcome
    }

    /// Whether the coordinator offers an API in a version that this client speaks.
    pub(super) async fn offers<M: Call>(
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
        let group = self.group_id();
        let make =
            |version| group_offsets::fetch_request(version, &group, Some(names), require_stable);
        let newest = group_offsets::NEWEST;
        let response = self
            .call::<OffsetFetchRequest>(client, Over::Commits, newest, Duration::ZERO, make)
            .await?;
        let found = group_offsets::fetched(&response).map_err(RequestError::from);
        let found = found.inspect_err(|error| self.judge(error))?;
        Ok(found.into_iter().collect())
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
        let identity = self.identity();
        let group = self.group_id();
        let member = Member {
            generation: identity.generation,
            id: &identity.member_id,
            instance,
        };
        let make = |version| group_offsets::commit_request(version, &group, &member, offsets);
        let newest = group_offsets::NEWEST;
        let response = self
            .call::<OffsetCommitRequest>(client, Over::Commits, newest, Duration::ZERO, make)
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
