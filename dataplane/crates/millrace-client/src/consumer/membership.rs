//! Membership in a group: what both protocols have in common.
//!
//! ```text
//! join ─► stable: heartbeats ─► rebalance: join again
//!                            └► lost (session expired, fenced): join as a new member
//! ```
//!
//! - `classic`: members join and sync; their leader assigns. With an eager assignor a member gives up
//!   everything before it joins. With a cooperative one it keeps reading, gives up what the leader
//!   took from it, and joins once more, so that others can get that (KIP-429).
//! - `consumer`: the coordinator assigns and tells each member in its heartbeats (KIP-848).
//!
//! Before a partition is given up, its delivery stops, the listener is told, and what is processed is
//! committed.

mod classic;
mod consumer;

use std::{collections::HashSet, fmt, future::Future, sync::Arc, time::Duration};

use millrace_wire::StrBytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use self::consumer::Reconciliation;
use super::{
    config::GroupProtocol,
    coordinator::{Coordinator, Identity, Over},
    error::ConsumerError,
    flow::Standing,
    reader::Shared,
};
use crate::{
    client::Interest,
    error::{BrokerError, ErrorCode, RequestError},
    throttle::Call,
    topic_partition::TopicPartition,
    transport::BoxFuture,
};

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
    /// Whether a rebalance is under way, as far as this member knows.
    rebalancing: watch::Sender<bool>,
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
            rebalancing: watch::Sender::new(false),
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
            protocol: Protocol::Undecided,
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
            ErrorCode::ILLEGAL_GENERATION | ErrorCode::FENCED_MEMBER_EPOCH => Self::Lost {
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
    /// Of the topics that the leader assigns, or that this member subscribes to.
    interests: Vec<Interest>,
    protocol: Protocol,
}

/// Who assigns, and how members are told.
enum Protocol {
    /// The coordinator has not been asked yet.
    Undecided,
    Classic,
    Consumer(Reconciliation),
}

impl Task {
    async fn run(mut self) {
        let membership = Arc::clone(&self.membership);
        let wait = self.shared.config.revocation_wait;
        // In the middle of a rebalance nothing can be committed: it may end, but not for long.
        let may_leave = async {
            membership.leaving.cancelled().await;
            let mut rebalancing = membership.rebalancing.subscribe();
            let settled = rebalancing.wait_for(|rebalancing| !*rebalancing);
            drop(tokio::time::timeout(wait, settled).await);
        };
        tokio::select! {
            () = may_leave => {}
            error = self.stay() => {
                self.lose().await;
                self.shared.with(|flow| flow.fail(ConsumerError::Group(error)));
                self.membership.left.send_replace(true);
                return;
            }
        }
        self.learn_epoch().await;
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
            self.membership.rebalancing.send_replace(true);
            let joined = self.join_or_reconcile().await;
            self.membership.rebalancing.send_replace(false);
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

    /// One rebalance. True where another one must follow.
    async fn join_or_reconcile(&mut self) -> Result<bool, Ended> {
        if matches!(self.protocol, Protocol::Undecided) {
            self.protocol = self.choose_protocol().await?;
        }
        if let Protocol::Consumer(_) = self.protocol {
            match self.reconcile().await {
                // A broker may name the API and have it switched off.
                Err(Ended::Fatal(error))
                    if error.code == ErrorCode::UNSUPPORTED_VERSION && !self.is_member() =>
                {
                    self.protocol = self.fall_back();
                }
                outcome => return outcome,
            }
        }
        self.join().await
    }

    async fn choose_protocol(&self) -> Result<Protocol, Ended> {
        if self.shared.config.group_protocol == GroupProtocol::Classic {
            return Ok(Protocol::Classic);
        }
        let offered = consumer::is_offered(self.coordinator(), &self.shared.client).await?;
        Ok(if offered {
            Protocol::Consumer(Reconciliation::default())
        } else {
            self.fall_back()
        })
    }

    fn fall_back(&self) -> Protocol {
        tracing::info!(
            group = %self.coordinator().group,
            "the coordinator does not offer the consumer protocol: using the classic one"
        );
        self.coordinator().set_identity(Identity::none());
        Protocol::Classic
    }

    fn is_member(&self) -> bool {
        self.coordinator().identity().generation > Identity::none().generation
    }

    fn coordinator(&self) -> &Coordinator {
        let coordinator = self.shared.coordinator.as_ref();
        coordinator.expect("subscribe checks that there is a group")
    }

    /// One request to the coordinator, over the connection for membership.
    async fn ask<M: Call>(
        &self,
        timeout: Duration,
        make: impl FnOnce(i16) -> M,
    ) -> Result<M::Response, RequestError> {
        let client = &self.shared.client;
        self.coordinator()
            .call(client, Over::Membership, i16::MAX, timeout, make)
            .await
    }

    fn reset(&self, forget_member: bool) {
        let mut identity = self.coordinator().identity();
        identity.generation = Identity::none().generation;
        // With the consumer protocol the id is this member's own.
        match &self.protocol {
            Protocol::Consumer(state) => state.forget(),
            Protocol::Classic | Protocol::Undecided if forget_member => {
                identity.member_id = String::new();
            }
            Protocol::Classic | Protocol::Undecided => {}
        }
        self.coordinator().set_identity(identity);
    }

    fn instance(&self) -> Option<StrBytes> {
        let instance = self.shared.config.group_instance_id.as_ref();
        instance.map(|id| StrBytes::from_string(id.clone()))
    }

    fn check(&self, code: i16, message: Option<&str>) -> Result<(), Ended> {
        let checked = BrokerError::check(code, message).map_err(RequestError::from);
        checked.map_err(|error| {
            self.coordinator().judge(&error);
            error.into()
        })
    }

    /// Gives up what is not assigned any more, takes what is new. True where something was given
    /// up that others wait for.
    async fn take_over(&mut self, assigned: Vec<TopicPartition>) -> Result<bool, Ended> {
        let revoked = without(&self.owned, &assigned);
        let gave_up = !revoked.is_empty();
        if gave_up {
            self.revoke(revoked).await?;
        }
        let added = without(&assigned, &self.owned);
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

    /// Gives up partitions that are still this member's, and stay so in its heartbeats until all that
    /// was processed of them is committed.
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
        self.owned = without(&self.owned, partitions);
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
                if self.can_reconcile_more() {
                    return;
                }
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
                        () = tokio::time::sleep(self.heartbeat_interval()) => {}
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
                () = tokio::time::sleep(self.heartbeat_interval()) => {}
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

    fn heartbeat_interval(&self) -> Duration {
        match &self.protocol {
            Protocol::Consumer(state) => state.heartbeat_interval(),
            Protocol::Classic | Protocol::Undecided => self.shared.config.heartbeat_interval,
        }
    }

    async fn heartbeat(&self) -> Result<(), Ended> {
        match &self.protocol {
            Protocol::Consumer(state) => self.consumer_heartbeat(state).await,
            Protocol::Classic | Protocol::Undecided => self.classic_heartbeat().await,
        }
    }

    async fn leave_group(&self) {
        let identity = self.coordinator().identity();
        if identity.member_id.is_empty() {
            return;
        }
        let leave = async {
            match &self.protocol {
                Protocol::Consumer(_) => self.consumer_leave(identity).await,
                Protocol::Classic | Protocol::Undecided => self.classic_leave(identity).await,
            }
        };
        let left = tokio::time::timeout(LEAVE_TIMEOUT, leave).await;
        if !matches!(left, Ok(Ok(()))) {
            tracing::debug!(group = %self.coordinator().group, "the coordinator was not told");
        }
    }
}

/// Those of the first that are not in the second, in their order.
fn without(all: &[TopicPartition], some: &[TopicPartition]) -> Vec<TopicPartition> {
    let some: HashSet<_> = some.iter().collect();
    all.iter()
        .filter(|one| !some.contains(one))
        .cloned()
        .collect()
}

fn ms(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
