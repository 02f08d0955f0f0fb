//! Membership in a group: join, sync, heartbeats, leave (the classic protocol).
//!
//! ```text
//! join ─► sync ─► stable: heartbeats ─► rebalance: join again
//!                                    └► lost (session expired, fenced): join as a new member
//! ```
//!
//! With an eager assignor a member gives up everything before it joins. With a cooperative one it
//! keeps reading, gives up what the leader took from it, and joins once more, so that others can
//! get that (KIP-429). Before a partition is given up, its delivery stops, the listener is told, and
//! what is processed is committed.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    future::Future,
    sync::Arc,
    time::Duration,
};

use millrace_wire::{
    StrBytes,
    messages::{
        HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, SyncGroupRequest,
        join_group_request::JoinGroupRequestProtocol, leave_group_request::MemberIdentity,
        sync_group_request::SyncGroupRequestAssignment,
    },
};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{
    assignor::{Assignor, topics_of},
    coordinator::{Coordinator, Identity, Over},
    error::ConsumerError,
    flow::Standing,
    protocol,
    reader::Shared,
};
use crate::{
    client::Interest,
    error::{BrokerError, ErrorCode, RequestError},
    topic_partition::TopicPartition,
    transport::BoxFuture,
};

/// The type of the group.
const PROTOCOL_TYPE: &str = "consumer";
/// The first JoinGroup with a rebalance time-out.
const REBALANCE_TIMEOUT_FROM: i16 = 1;
/// The first JoinGroup with static members.
const JOIN_INSTANCE_FROM: i16 = 5;
/// The first SyncGroup and Heartbeat with static members.
const INSTANCE_FROM: i16 = 3;
/// The first SyncGroup that names its protocol.
const SYNC_PROTOCOL_FROM: i16 = 5;
/// The first LeaveGroup for several members.
const LEAVE_MEMBERS_FROM: i16 = 3;
/// How much longer than the rebalance a JoinGroup may take.
const JOIN_MARGIN: Duration = Duration::from_secs(5);
/// How long leaving may take: the broker would find out by itself.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Told of what a member gets and loses. Heartbeats go on meanwhile; the group waits for at most
/// [`rebalance_timeout`](super::ConsumerConfig::rebalance_timeout).
pub trait RebalanceListener: Send + Sync + 'static {
    /// These partitions are now read by this member. Nothing of them is delivered until this
    /// returns: a place to seek.
    fn on_assigned<'a>(&'a self, _partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    /// These partitions are about to be given up. Nothing of them is delivered any more; what is
    /// reported as processed until this returns is committed afterwards.
    fn on_revoked<'a>(&'a self, _partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    /// These partitions are already another member's: nothing can be committed for them.
    fn on_lost<'a>(&'a self, partitions: &'a [TopicPartition]) -> BoxFuture<'a, ()> {
        self.on_revoked(partitions)
    }
}

/// A listener that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoListener;

impl RebalanceListener for NoListener {}

/// One member, as its consumer sees it.
pub(super) struct Membership {
    topics: Mutex<Vec<Arc<str>>>,
    topics_changed: Notify,
    leaving: CancellationToken,
    left: watch::Sender<bool>,
    last_commit: Mutex<Option<Result<(), ConsumerError>>>,
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership")
            .field("topics", &self.topics)
            .finish_non_exhaustive()
    }
}

impl Membership {
    pub(super) fn start(
        shared: Arc<Shared>,
        topics: &[&str],
        listener: Arc<dyn RebalanceListener>,
        ended: CancellationToken,
    ) -> Arc<Self> {
        let membership = Arc::new(Self {
            topics: Mutex::new(topics.iter().map(|topic| (*topic).into()).collect()),
            topics_changed: Notify::new(),
            leaving: ended.child_token(),
            left: watch::Sender::new(false),
            last_commit: Mutex::new(None),
        });
        let task = Task {
            membership: Arc::clone(&membership),
            shared,
            listener,
            owned: Vec::new(),
            last: Vec::new(),
            interests: Vec::new(),
        };
        // Not supervised: it ends with its consumer, and reports what it cannot repair.
        tokio::spawn(task.run());
        membership
    }

    pub(super) fn set_topics(&self, topics: &[&str]) {
        *self.topics.lock() = topics.iter().map(|topic| (*topic).into()).collect();
        self.topics_changed.notify_one();
    }

    /// Commits what is processed, leaves the group, and waits for that.
    pub(super) async fn leave(&self) -> Result<(), ConsumerError> {
        self.leaving.cancel();
        let mut left = self.left.subscribe();
        // The task tells in any case: it waits for nothing that is not bounded.
        drop(left.wait_for(|left| *left).await);
        self.last_commit.lock().take().unwrap_or(Ok(()))
    }
}

/// Why a member is no longer stable.
enum Ended {
    /// The group rebalances; this member joins again.
    Rebalance,
    /// This member's partitions are no longer its own.
    Lost { forget_member: bool },
    /// Nothing helps.
    Fatal(BrokerError),
    /// Something that may pass.
    Failed(RequestError),
}

impl From<RequestError> for Ended {
    fn from(error: RequestError) -> Self {
        let error = match error {
            RequestError::Broker(error) => error,
            error if error.is_retriable() => return Self::Failed(error),
            error => {
                return Self::Fatal(BrokerError {
                    code: ErrorCode::UNSUPPORTED_VERSION,
                    message: Some(error.to_string()),
                });
            }
        };
        match error.code {
            ErrorCode::REBALANCE_IN_PROGRESS => Self::Rebalance,
            ErrorCode::UNKNOWN_MEMBER_ID => Self::Lost {
                forget_member: true,
            },
            ErrorCode::ILLEGAL_GENERATION => Self::Lost {
                forget_member: false,
            },
            code if code.is_retriable() => Self::Failed(error.into()),
            _ => Self::Fatal(error),
        }
    }
}

struct Task {
    membership: Arc<Membership>,
    shared: Arc<Shared>,
    listener: Arc<dyn RebalanceListener>,
    owned: Vec<TopicPartition>,
    /// What was assigned last, which an eager member gives up before it joins.
    last: Vec<TopicPartition>,
    /// Of the topics that the leader assigns.
    interests: Vec<Interest>,
}

impl Task {
    async fn run(mut self) {
        let leaving = self.membership.leaving.clone();
        tokio::select! {
            () = leaving.cancelled() => {}
            error = self.stay() => {
                self.lose().await;
                self.shared.with(|flow| flow.fail(ConsumerError::Group(error)));
                self.membership.left.send_replace(true);
                return;
            }
        }
        let given_up = std::mem::take(&mut self.owned);
        self.listener.on_revoked(&given_up).await;
        let committed = self.shared.commit_last(&given_up).await;
        self.leave_group().await;
        *self.membership.last_commit.lock() = Some(committed);
        self.membership.left.send_replace(true);
    }

    /// Joins, heartbeats, joins again; until nothing helps.
    async fn stay(&mut self) -> BrokerError {
        let client = self.shared.client.clone();
        let mut failures = 0;
        loop {
            let joined = self.join().await;
            let ended = match joined {
                Ok(true) => continue,
                Ok(false) => {
                    failures = 0;
                    self.heartbeats().await
                }
                Err(ended) => ended,
            };
            match ended {
                Ended::Rebalance => {}
                Ended::Lost { forget_member } => {
                    self.lose().await;
                    self.reset(forget_member);
                }
                Ended::Fatal(error) => return error,
                Ended::Failed(error) => {
                    failures += 1;
                    tracing::debug!(%error, "the group's coordinator does not answer as it should");
                    let random = &*client.config().random;
                    tokio::time::sleep(client.retry_backoff().after(failures, random)).await;
                }
            }
        }
    }

    fn coordinator(&self) -> &Coordinator {
        let coordinator = self.shared.coordinator.as_ref();
        coordinator.expect("subscribe checks that there is a group")
    }

    fn reset(&self, forget_member: bool) {
        let mut identity = self.coordinator().identity();
        identity.generation = Identity::none().generation;
        if forget_member {
            identity.member_id = String::new();
        }
        self.coordinator().set_identity(identity);
    }

    fn instance(&self) -> Option<StrBytes> {
        let instance = self.shared.config.group_instance_id.as_ref();
        instance.map(|id| StrBytes::from_string(id.clone()))
    }

    fn is_cooperative(&self) -> bool {
        let mut assignors = self.shared.config.assignors.iter();
        assignors.all(|assignor| assignor.is_cooperative())
    }

    /// One rebalance. True where another one must follow.
    async fn join(&mut self) -> Result<bool, Ended> {
        if !self.is_cooperative() {
            self.revoke(self.owned.clone()).await?;
        }
        let joined = self.join_group().await?;
        let identity = Identity {
            generation: joined.generation_id,
            member_id: joined.member_id.to_string(),
        };
        self.coordinator().set_identity(identity);
        let assignments = if joined.leader == joined.member_id && !joined.skip_assignment {
            self.assign_all(&joined).await?
        } else {
            Vec::new()
        };
        let assigned = self.sync_group(&joined, assignments).await?;
        self.take_over(assigned).await
    }

    async fn join_group(&self) -> Result<JoinGroupResponse, Ended> {
        loop {
            let identity = self.coordinator().identity();
            let config = &self.shared.config;
            let topics = self.membership.topics.lock().clone();
            let ms = |duration: Duration| i32::try_from(duration.as_millis()).unwrap_or(i32::MAX);
            let protocol = |assignor: &Assignor| {
                let generation = identity.generation;
                let (owned, last) = (&self.owned, &self.last);
                let metadata = protocol::subscription(*assignor, &topics, owned, last, generation);
                JoinGroupRequestProtocol::default()
                    .with_name(StrBytes::from_static_str(assignor.name()))
                    .with_metadata(metadata)
            };
            let make = |version| {
                let request = JoinGroupRequest::default()
                    .with_group_id(self.coordinator().group_id())
                    .with_session_timeout_ms(ms(config.session_timeout))
                    .with_member_id(StrBytes::from_string(identity.member_id.clone()))
                    .with_protocol_type(StrBytes::from_static_str(PROTOCOL_TYPE))
                    .with_protocols(config.assignors.iter().map(protocol).collect());
                let request = if version >= REBALANCE_TIMEOUT_FROM {
                    request.with_rebalance_timeout_ms(ms(config.rebalance_timeout))
                } else {
                    request
                };
                if version >= JOIN_INSTANCE_FROM {
                    request.with_group_instance_id(self.instance())
                } else {
                    request
                }
            };
            let timeout = config.rebalance_timeout + JOIN_MARGIN;
            let response = self
                .coordinator()
                .call::<JoinGroupRequest>(
                    &self.shared.client,
                    Over::Membership,
                    i16::MAX,
                    timeout,
                    make,
                )
                .await?;
            if ErrorCode::from_code(response.error_code) == Some(ErrorCode::MEMBER_ID_REQUIRED) {
                self.coordinator().set_identity(Identity {
                    generation: identity.generation,
                    member_id: response.member_id.to_string(),
                });
                continue;
            }
            self.check(response.error_code)?;
            return Ok(response);
        }
    }

    fn check(&self, code: i16) -> Result<(), Ended> {
        let checked = BrokerError::check(code, None).map_err(RequestError::from);
        checked.map_err(|error| {
            self.coordinator().judge(&error);
            error.into()
        })
    }

    /// As the leader: distributes the partitions over the members.
    async fn assign_all(
        &mut self,
        joined: &JoinGroupResponse,
    ) -> Result<Vec<SyncGroupRequestAssignment>, Ended> {
        let chosen = joined.protocol_name.as_deref().unwrap_or_default();
        let assignors = &self.shared.config.assignors;
        let assignor = assignors.iter().find(|one| one.name() == chosen);
        let Some(&assignor) = assignor else {
            return Err(Ended::Fatal(ErrorCode::UNSUPPORTED_ASSIGNOR.into()));
        };
        let members: Vec<_> = joined
            .members
            .iter()
            .filter_map(|one| {
                let instance = one.group_instance_id.as_deref();
                protocol::member(assignor, &one.member_id, instance, one.metadata.clone())
            })
            .collect();
        let topics = topics_of(&members);
        let client = &self.shared.client;
        self.interests = topics.iter().map(|topic| client.interest(topic)).collect();
        let metadata = client.refresh_topics(&[]).await?;
        let mut partitions = BTreeMap::new();
        for topic in topics {
            if let Some(known) = metadata.topic(&topic) {
                let count = i32::try_from(known.partitions.len()).unwrap_or(i32::MAX);
                partitions.insert(topic, count);
            }
        }
        let assignment = assignor.assign(&partitions, &members);
        let message = |(member, partitions): (&String, &Vec<TopicPartition>)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(StrBytes::from_string(member.clone()))
                .with_assignment(protocol::assignment(partitions))
        };
        Ok(assignment.iter().map(message).collect())
    }

    async fn sync_group(
        &self,
        joined: &JoinGroupResponse,
        assignments: Vec<SyncGroupRequestAssignment>,
    ) -> Result<Vec<TopicPartition>, Ended> {
        let make = |version| {
            let request = SyncGroupRequest::default()
                .with_group_id(self.coordinator().group_id())
                .with_generation_id(joined.generation_id)
                .with_member_id(joined.member_id.clone())
                .with_assignments(assignments.clone());
            let request = if version >= INSTANCE_FROM {
                request.with_group_instance_id(self.instance())
            } else {
                request
            };
            if version >= SYNC_PROTOCOL_FROM {
                request
                    .with_protocol_type(Some(StrBytes::from_static_str(PROTOCOL_TYPE)))
                    .with_protocol_name(joined.protocol_name.clone())
            } else {
                request
            }
        };
        let timeout = self.shared.config.rebalance_timeout + JOIN_MARGIN;
        let response = self
            .coordinator()
            .call::<SyncGroupRequest>(
                &self.shared.client,
                Over::Membership,
                i16::MAX,
                timeout,
                make,
            )
            .await?;
        self.check(response.error_code)?;
        protocol::assigned(response.assignment).ok_or_else(|| {
            Ended::Fatal(BrokerError {
                code: ErrorCode::UNKNOWN_SERVER_ERROR,
                message: Some("the leader's assignment is malformed".to_owned()),
            })
        })
    }

    /// Gives up what is not assigned any more, takes what is new. True where something was given
    /// up that others wait for.
    async fn take_over(&mut self, assigned: Vec<TopicPartition>) -> Result<bool, Ended> {
        let (kept, revoked): (Vec<_>, _) = std::mem::take(&mut self.owned)
            .into_iter()
            .partition(|name| assigned.contains(name));
        self.owned = kept;
        let gave_up = !revoked.is_empty();
        if gave_up {
            self.revoke(revoked).await?;
        }
        let is_new = |name: &&TopicPartition| !self.owned.contains(name);
        let added: Vec<_> = assigned.iter().filter(is_new).cloned().collect();
        self.last.clone_from(&assigned);
        self.owned = assigned;
        self.shared.with(|flow| {
            for name in &added {
                flow.assign(name, Standing::Committed);
                flow.set_leaving(name, true);
            }
        });
        self.shared.assignment_changed();
        let listener = Arc::clone(&self.listener);
        self.while_heartbeating(listener.on_assigned(&added))
            .await?;
        self.shared.with(|flow| {
            for name in &added {
                flow.set_leaving(name, false);
            }
        });
        self.shared.assigned.send_modify(|count| *count += 1);
        Ok(gave_up && self.is_cooperative())
    }

    /// Gives up partitions that are still this member's.
    async fn revoke(&mut self, partitions: Vec<TopicPartition>) -> Result<(), Ended> {
        if partitions.is_empty() {
            return Ok(());
        }
        self.shared.with(|flow| {
            for name in &partitions {
                flow.set_leaving(name, true);
            }
        });
        let shared = Arc::clone(&self.shared);
        let listener = Arc::clone(&self.listener);
        let outcome = self
            .while_heartbeating(async {
                listener.on_revoked(&partitions).await;
                if let Err(error) = shared.commit_last(&partitions).await {
                    tracing::warn!(%error, "what was processed last could not be committed");
                }
            })
            .await;
        self.give_up(&partitions);
        outcome
    }

    fn give_up(&mut self, partitions: &[TopicPartition]) {
        self.shared.with(|flow| {
            for name in partitions {
                flow.unassign(name);
            }
        });
        self.owned.retain(|name| !partitions.contains(name));
        self.shared.assignment_changed();
    }

    /// All partitions are already others'.
    async fn lose(&mut self) {
        let lost = std::mem::take(&mut self.owned);
        if lost.is_empty() {
            return;
        }
        self.give_up(&lost);
        self.listener.on_lost(&lost).await;
    }

    /// Sends heartbeats until the member is no longer stable.
    async fn heartbeats(&mut self) -> Ended {
        let mut metadata = self.shared.client.watch_metadata();
        let counts = self.partition_counts();
        let membership = Arc::clone(&self.membership);
        let changed = async {
            loop {
                tokio::select! {
                    () = membership.topics_changed.notified() => return,
                    changed = metadata.changed() => {
                        // Only a leader watches topics that it does not read itself.
                        if changed.is_err() || self.partition_counts() != counts {
                            return;
                        }
                    }
                }
            }
        };
        match self.beat_while(changed).await {
            Ok(()) => Ended::Rebalance,
            Err(ended) => ended,
        }
    }

    /// How many partitions each topic of the leader's assignment has.
    fn partition_counts(&self) -> HashMap<Arc<str>, usize> {
        if self.interests.is_empty() {
            return HashMap::new();
        }
        let metadata = self.shared.client.metadata();
        let topics = self.membership.topics.lock();
        let count = |topic: &Arc<str>| {
            let known = metadata.topic(topic)?;
            Some((Arc::clone(topic), known.partitions.len()))
        };
        topics.iter().filter_map(count).collect()
    }

    /// Runs something that may take long, and stays a member meanwhile. A rebalance that starts
    /// meanwhile is found by the next heartbeat.
    async fn while_heartbeating<T>(&self, work: impl Future<Output = T>) -> Result<T, Ended> {
        tokio::pin!(work);
        loop {
            match self.beat_while(&mut work).await {
                Ok(done) => return Ok(done),
                Err(Ended::Rebalance | Ended::Failed(_)) => {
                    tokio::select! {
                        done = &mut work => return Ok(done),
                        () = tokio::time::sleep(self.shared.config.heartbeat_interval) => {}
                    }
                }
                Err(ended) => return Err(ended),
            }
        }
    }

    /// Sends heartbeats until `work` is done, or a heartbeat tells something.
    async fn beat_while<T>(&self, work: impl Future<Output = T>) -> Result<T, Ended> {
        tokio::pin!(work);
        let config = &self.shared.config;
        let mut heard_at = self.shared.now();
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                () = tokio::time::sleep(config.heartbeat_interval) => {}
            }
            if self.coordinator().identity().generation < 0 {
                continue;
            }
            let beat = tokio::select! {
                done = &mut work => return Ok(done),
                beat = self.heartbeat() => beat,
            };
            match beat {
                Ok(()) => heard_at = self.shared.now(),
                Err(Ended::Failed(error)) => {
                    tracing::debug!(%error, "a heartbeat failed");
                    if self.shared.now().saturating_sub(heard_at) >= config.session_timeout {
                        // The coordinator has given the partitions to others by now.
                        return Err(Ended::Lost {
                            forget_member: false,
                        });
                    }
                }
                Err(ended) => return Err(ended),
            }
        }
    }

    async fn heartbeat(&self) -> Result<(), Ended> {
        let identity = self.coordinator().identity();
        let make = |version| {
            let request = HeartbeatRequest::default()
                .with_group_id(self.coordinator().group_id())
                .with_generation_id(identity.generation)
                .with_member_id(StrBytes::from_string(identity.member_id.clone()));
            if version >= INSTANCE_FROM {
                request.with_group_instance_id(self.instance())
            } else {
                request
            }
        };
        let response = self
            .coordinator()
            .call::<HeartbeatRequest>(
                &self.shared.client,
                Over::Membership,
                i16::MAX,
                Duration::ZERO,
                make,
            )
            .await?;
        self.check(response.error_code)
    }

    /// Tells the coordinator, so that others get the partitions at once. A static member does not:
    /// it may come back.
    async fn leave_group(&self) {
        let identity = self.coordinator().identity();
        let is_static = self.shared.config.group_instance_id.is_some();
        if identity.member_id.is_empty() || is_static {
            return;
        }
        let make = |version| {
            let request = LeaveGroupRequest::default().with_group_id(self.coordinator().group_id());
            let member_id = StrBytes::from_string(identity.member_id.clone());
            if version >= LEAVE_MEMBERS_FROM {
                let member = MemberIdentity::default().with_member_id(member_id);
                request.with_members(vec![member])
            } else {
                request.with_member_id(member_id)
            }
        };
        let leave = self.coordinator().call::<LeaveGroupRequest>(
            &self.shared.client,
            Over::Membership,
            i16::MAX,
            Duration::ZERO,
            make,
        );
        let left = tokio::time::timeout(LEAVE_TIMEOUT, leave).await;
        if !matches!(left, Ok(Ok(_))) {
            tracing::debug!(group = %self.coordinator().group, "the coordinator was not told");
        }
    }
}
