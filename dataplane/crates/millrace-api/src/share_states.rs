//! The state of share partitions (KIP-932), at the share coordinator of this broker or of another one.

use std::{fmt, iter, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use millrace_coordinator::{
    BoxFuture, ShareCoordinator, ShareError, SharePartition, ShareState, ShareStateError,
    ShareStates, share_partition_of,
};
use millrace_log::{LogManager, SHARE_GROUP_STATE_TOPIC};
use millrace_model::{NodeId, Offset, TopicId, TopicName};
use millrace_wire::{
    StrBytes,
    error_code::{ErrorCode, NONE},
};
use tokio::time::timeout;
use uuid::Uuid;

use crate::{call::first_error, code, context::Context, topics::Refused, transactions::replaced};

/// How long a request is tried again while its coordinator is not available.
const PATIENCE: Duration = Duration::from_secs(15);

/// The first pause before a request is tried again, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long this broker may take to learn of a topic that another broker has created.
const CATCH_UP_WAIT: Duration = Duration::from_secs(3);

/// What the coordinator of a share partition is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShareRequest {
    /// Create the state, or start it again.
    Initialize {
        /// Its epoch.
        state_epoch: i32,
        /// Where it starts.
        start_offset: Option<Offset>,
    },
    /// Read the state as the leader of this epoch.
    Read(i32),
    /// Add to the state.
    Write(ShareState),
    /// Read the state without its batches.
    ReadSummary,
    /// Delete the state.
    Delete,
}

/// The other brokers of the cluster, as their share coordinators are asked.
pub trait SharePeers: fmt::Debug + Send + Sync {
    /// Asks the coordinator at this broker. Not retried. Gives an empty state where the request reads none, and
    /// `NETWORK_EXCEPTION` where the broker gives no answer.
    fn ask(
        &self,
        coordinator: NodeId,
        partition: SharePartition,
        request: ShareRequest,
    ) -> BoxFuture<'_, Result<ShareState, ErrorCode>>;
}

/// Finds the coordinator of each share partition, and asks it.
#[derive(Debug)]
pub struct ShareStateRouter {
    logs: LogManager,
    coordinator: ShareCoordinator,
    peers: Arc<dyn SharePeers>,
}

/// Who coordinates a share partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coordinator {
    Here,
    At(NodeId),
}

/// Why a request was not answered.
enum Failure {
    /// It may be answered later.
    Passing,
    Final(ShareStateError),
}

impl ShareStateRouter {
    /// Asks the coordinator of this broker, or those of `peers`.
    #[must_use]
    pub fn new(
        logs: LogManager,
        coordinator: ShareCoordinator,
        peers: Arc<dyn SharePeers>,
    ) -> Self {
        Self {
            logs,
            coordinator,
            peers,
        }
    }

    async fn ask(
        &self,
        partition: SharePartition,
        request: ShareRequest,
    ) -> Result<ShareState, ShareStateError> {
        let mut pause = PAUSE_MIN;
        let asking = async {
            loop {
                match self.ask_once(&partition, &request).await {
                    Ok(state) => return Ok(state),
                    Err(Failure::Final(error)) => return Err(error),
                    Err(Failure::Passing) => {
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(PAUSE_MAX);
                    }
                }
            }
        };
        match timeout(PATIENCE, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(ShareStateError::NotAvailable),
        }
    }

    async fn ask_once(
        &self,
        partition: &SharePartition,
        request: &ShareRequest,
    ) -> Result<ShareState, Failure> {
        let key = partition.coordinator_key();
        match self.find(&key).await {
            Some(Coordinator::Here) => {
                let asked = (partition, request.clone());
                let answer = ask_here(&self.logs, &self.coordinator, asked).await;
                answer.map_err(Failure::of_coordinator)
            }
            Some(Coordinator::At(node)) => {
                let asking = self.peers.ask(node, partition.clone(), request.clone());
                let is_replaced = || self.locate(&key) != Some(Coordinator::At(node));
                tokio::select! {
                    answer = asking => answer.map_err(Failure::of_peer),
                    () = replaced(is_replaced) => Err(Failure::Passing),
                }
            }
            None => Err(Failure::Passing),
        }
    }

    /// Finds the coordinator; creates the topic the first time.
    async fn find(&self, key: &str) -> Option<Coordinator> {
        if self.topic().is_none()
            && let Err(error) = self.coordinator.ready().await
        {
            tracing::warn!(%error, "share partitions are not ready");
        }
        self.locate(key)
    }

    fn locate(&self, key: &str) -> Option<Coordinator> {
        let topic = self.topic()?;
        let index = share_partition_of(key, topic.partitions.len());
        match topic.log(index) {
            Some(_) => Some(Coordinator::Here),
            None => Some(Coordinator::At(
                topic.partitions.get(index)?.leader()?.node?,
            )),
        }
    }

    fn topic(&self) -> Option<Arc<millrace_log::Topic>> {
        let name = TopicName::new(SHARE_GROUP_STATE_TOPIC).expect("Kafka's own name is legal");
        self.logs.topic(&name)
    }
}

impl Failure {
    fn of_coordinator(error: ShareError) -> Self {
        Self::Final(match error {
            ShareError::CoordinatorLoading
            | ShareError::CoordinatorNotAvailable
            | ShareError::NotCoordinator => return Self::Passing,
            ShareError::NoRoom => ShareStateError::NotAvailable,
            ShareError::InvalidRequest | ShareError::TooManyBatches => ShareStateError::Invalid,
            ShareError::UnknownPartition | ShareError::Uninitialized => ShareStateError::Unknown,
            ShareError::FencedLeaderEpoch => ShareStateError::Fenced,
            ShareError::FencedStateEpoch => ShareStateError::FencedStateEpoch,
        })
    }

    fn of_peer(code: ErrorCode) -> Self {
        Self::Final(match code {
            ErrorCode::FencedLeaderEpoch => ShareStateError::Fenced,
            ErrorCode::FencedStateEpoch => ShareStateError::FencedStateEpoch,
            // What is sent is well-formed, so the share partition is not initialized.
            ErrorCode::InvalidRequest | ErrorCode::UnknownTopicOrPartition => {
                ShareStateError::Unknown
            }
            ErrorCode::MessageTooLarge => ShareStateError::Invalid,
            ErrorCode::PolicyViolation | ErrorCode::ClusterAuthorizationFailed => {
                ShareStateError::NotAvailable
            }
            _ => return Self::Passing,
        })
    }
}

/// A partition of a request of another broker: its index, and what its coordinator is asked.
pub(crate) type Asked = (i32, Result<ShareRequest, ShareError>);

/// The same, answered.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) partition: i32,
    pub(crate) error_code: i16,
    pub(crate) error_message: Option<StrBytes>,
    /// An empty one where the request reads none.
    pub(crate) state: ShareState,
}

/// Partitions of one request that are asked for at one time.
const ASKED_AT_ONCE: usize = 64;

/// Asks the coordinator of this broker for another one, by topic. Gives the first error as well.
pub(crate) async fn ask_for_peer(
    context: &Context,
    (allowed, group_id): (Result<(), ErrorCode>, &str),
    topics: Vec<(Uuid, Vec<Asked>)>,
) -> (Vec<(Uuid, Vec<Told>)>, i16) {
    let mut answered = Vec::with_capacity(topics.len());
    let mut error = NONE;
    for (topic_id, asked) in topics {
        let told = asked.into_iter().map(|(partition, request)| {
            let partition = SharePartition {
                group_id: group_id.to_owned(),
                topic_id: TopicId(topic_id),
                partition,
            };
            tell(context, allowed, partition, request)
        });
        let told: Vec<Told> = stream::iter(told).buffered(ASKED_AT_ONCE).collect().await;
        error = first_error(iter::once(error).chain(told.iter().map(|told| told.error_code)));
        answered.push((topic_id, told));
    }
    (answered, error)
}

/// Defines the handler of an API that asks the share coordinator of this broker for another one. The messages of these APIs have
/// the same fields and types of their own: `asked` and `told` of the caller translate a partition of them.
macro_rules! serve_peers {
    ($request:ident, $response:ident, $result:ident) => {
        pub(crate) async fn handle(
            context: &std::sync::Arc<crate::context::Context>,
            call: crate::call::Call,
        ) -> crate::call::Outcome {
            let request: $request = millrace_wire::decode(&call.request)?;
            let reply = call.reply();
            let cluster_action = millrace_security::acl::Operation::ClusterAction;
            let allowed = context.rights(&call).cluster(cluster_action);
            let context = std::sync::Arc::clone(context);
            crate::call::Taken::later(async move {
                let topics = request.topics.into_iter();
                let topics = topics.map(|topic| {
                    let asked = topic.partitions.into_iter().map(asked);
                    (topic.topic_id, asked.collect())
                });
                let asker = (allowed, request.group_id.as_str());
                let asked = crate::share_states::ask_for_peer(&context, asker, topics.collect());
                let (topics, error) = asked.await;
                let results = topics.into_iter().map(|(topic_id, partitions)| {
                    $result::default()
                        .with_topic_id(topic_id)
                        .with_partitions(partitions.into_iter().map(told).collect())
                });
                let response = $response::default().with_results(results.collect());
                reply.with(&response, error)
            })
        }
    };
}
pub(crate) use serve_peers;

async fn tell(
    context: &Context,
    allowed: Result<(), ErrorCode>,
    partition: SharePartition,
    request: Result<ShareRequest, ShareError>,
) -> Told {
    let refused = |error| Refused::new(code::of_share(error), error.to_string());
    let answer = match (allowed, request) {
        (Err(code), _) => Err(Refused::from(code)),
        (Ok(()), Err(error)) => Err(refused(error)),
        (Ok(()), Ok(request)) => {
            let asked = (&partition, request);
            let answer = ask_here(&context.logs, &context.share_coordinator, asked).await;
            answer.map_err(refused)
        }
    };
    let (error_code, error_message) = Refused::worded_parts(&answer);
    Told {
        partition: partition.partition,
        error_code,
        error_message,
        state: answer.unwrap_or_default(),
    }
}

/// An offset as the wire tells it: −1 stands for none.
pub(crate) fn offset_of(wire: i64) -> Result<Option<Offset>, ShareError> {
    match wire {
        NO_OFFSET => Ok(None),
        offset => match Offset::try_from(offset) {
            Ok(offset) => Ok(Some(offset)),
            Err(_) => Err(ShareError::InvalidRequest),
        },
    }
}

/// The same for the wire.
pub(crate) fn optional_wire_offset(offset: Option<Offset>) -> i64 {
    let offset = offset.and_then(|offset| i64::try_from(offset).ok());
    offset.unwrap_or(NO_OFFSET)
}

const NO_OFFSET: i64 = -1;

/// Asks the coordinator of this broker.
pub(crate) async fn ask_here(
    logs: &LogManager,
    coordinator: &ShareCoordinator,
    (partition, request): (&SharePartition, ShareRequest),
) -> Result<ShareState, ShareError> {
    match ask_as_known(coordinator, partition, request.clone()).await {
        // Another broker may have created the topic a moment ago.
        Err(ShareError::UnknownPartition) if logs.catch_up(CATCH_UP_WAIT).await => {
            ask_as_known(coordinator, partition, request).await
        }
        answer => answer,
    }
}

async fn ask_as_known(
    coordinator: &ShareCoordinator,
    partition: &SharePartition,
    request: ShareRequest,
) -> Result<ShareState, ShareError> {
    let done = match request {
        ShareRequest::Initialize {
            state_epoch,
            start_offset,
        } => {
            let initializing = coordinator.initialize(partition, state_epoch, start_offset);
            initializing.await
        }
        ShareRequest::Read(leader_epoch) => return coordinator.read(partition, leader_epoch).await,
        ShareRequest::Write(change) => coordinator.write(partition, change).await,
        ShareRequest::ReadSummary => return coordinator.read_summary(partition),
        ShareRequest::Delete => coordinator.delete(partition).await,
    };
    done.map(|()| ShareState::default())
}

impl ShareStates for ShareStateRouter {
    fn initialize(
        &self,
        partition: SharePartition,
        state_epoch: i32,
        start_offset: Option<Offset>,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        let request = ShareRequest::Initialize {
            state_epoch,
            start_offset,
        };
        Box::pin(async move { self.ask(partition, request).await.map(drop) })
    }

    fn read(
        &self,
        partition: SharePartition,
        leader_epoch: i32,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        Box::pin(async move {
            let state = self
                .ask(partition, ShareRequest::Read(leader_epoch))
                .await?;
            // The wire does not tell it.
            Ok(ShareState {
                leader_epoch: leader_epoch.max(state.leader_epoch),
                ..state
            })
        })
    }

    fn write(
        &self,
        partition: SharePartition,
        change: ShareState,
    ) -> BoxFuture<'_, Result<(), ShareStateError>> {
        Box::pin(async move {
            change.check().map_err(|_| ShareStateError::Invalid)?;
            let request = ShareRequest::Write(change);
            self.ask(partition, request).await.map(drop)
        })
    }

    fn read_summary(
        &self,
        partition: SharePartition,
    ) -> BoxFuture<'_, Result<ShareState, ShareStateError>> {
        Box::pin(self.ask(partition, ShareRequest::ReadSummary))
    }

    fn delete(&self, partition: SharePartition) -> BoxFuture<'_, Result<(), ShareStateError>> {
        Box::pin(async move {
            match self.ask(partition, ShareRequest::Delete).await {
                // It went with its topic.
                Ok(_) | Err(ShareStateError::Unknown) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

/// No other brokers: this one leads everything.
#[derive(Debug)]
pub struct NoSharePeers;

impl SharePeers for NoSharePeers {
    fn ask(
        &self,
        _coordinator: NodeId,
        _partition: SharePartition,
        _request: ShareRequest,
    ) -> BoxFuture<'_, Result<ShareState, ErrorCode>> {
        Box::pin(std::future::ready(Err(ErrorCode::NotCoordinator)))
    }
}
