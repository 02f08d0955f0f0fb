//! How the state of share partitions is reached at the other brokers of the cluster: by the broker's own client, through the
//! listener that brokers have for each other.

use std::sync::OnceLock;

use millrace_api::{SharePeers, ShareRequest};
use millrace_client::{
    Admin, BoxFuture, Client, RequestError,
    admin::{
        SharePartition as WirePartition, ShareState as WireState, ShareStateBatch as WireBatch,
    },
};
use millrace_coordinator::{SharePartition, ShareState, ShareStateBatch};
use millrace_model::{NodeId, Offset};
use millrace_wire::error_code::ErrorCode;

/// The share coordinators of the other brokers. They can be asked once this broker serves, because only then it has a client.
#[derive(Debug, Default)]
pub(crate) struct OtherShareCoordinators(OnceLock<Client>);

impl OtherShareCoordinators {
    /// Asks with this client from now on.
    pub(crate) fn ask_with(&self, client: Client) {
        // Called once, by the start.
        drop(self.0.set(client));
    }
}

impl SharePeers for OtherShareCoordinators {
    fn ask(
        &self,
        coordinator: NodeId,
        partition: SharePartition,
        request: ShareRequest,
    ) -> BoxFuture<'_, Result<ShareState, ErrorCode>> {
        Box::pin(async move {
            let admin = self.0.get().map(Admin::new);
            let admin = admin.ok_or(ErrorCode::CoordinatorNotAvailable)?;
            let node = i32::try_from(coordinator.get()).unwrap_or(i32::MAX);
            match ask(&admin, node, &partition, request).await {
                Ok(read) => state_of(read).ok_or_else(|| {
                    tracing::warn!(
                        node,
                        ?partition,
                        "malformed share partition state from another broker"
                    );
                    ErrorCode::UnknownServerError
                }),
                Err(error) => {
                    tracing::debug!(%error, node, ?partition, "request to the share coordinator failed");
                    Err(code_of(&error))
                }
            }
        })
    }
}

async fn ask(
    admin: &Admin,
    node: i32,
    partition: &SharePartition,
    request: ShareRequest,
) -> Result<WireState, RequestError> {
    let of = WirePartition {
        group_id: &partition.group_id,
        topic_id: partition.topic_id,
        partition: partition.partition,
    };
    let done = match request {
        ShareRequest::Initialize {
            state_epoch,
            start_offset,
        } => {
            let state = (state_epoch, to_wire(start_offset));
            admin.initialize_share_state(node, of, state).await
        }
        ShareRequest::Read(leader_epoch) => {
            return admin.read_share_state(node, of, leader_epoch).await;
        }
        ShareRequest::Write(change) => {
            let change = WireState {
                state_epoch: change.state_epoch,
                leader_epoch: change.leader_epoch,
                start_offset: to_wire(change.start_offset),
                batches: change.batches.iter().map(batch_to_wire).collect(),
            };
            admin.write_share_state(node, of, &change).await
        }
        ShareRequest::ReadSummary => {
            return admin.read_share_state_summary(node, of).await;
        }
        ShareRequest::Delete => admin.delete_share_state(node, of).await,
    };
    done.map(|()| WireState::default())
}

fn code_of(error: &RequestError) -> ErrorCode {
    let known = |code: millrace_client::ErrorCode| {
        ErrorCode::try_from_code(code.code()).unwrap_or(ErrorCode::UnknownServerError)
    };
    error.code().map_or(ErrorCode::NetworkException, known)
}

/// The state of an answer; `None` if it is malformed.
fn state_of(read: WireState) -> Option<ShareState> {
    let batch = |batch: WireBatch| {
        Some(ShareStateBatch {
            first_offset: Offset::try_from(batch.first_offset).ok()?,
            last_offset: Offset::try_from(batch.last_offset).ok()?,
            delivery_state: batch.delivery_state,
            delivery_count: batch.delivery_count,
        })
    };
    let state = ShareState {
        state_epoch: read.state_epoch,
        leader_epoch: read.leader_epoch,
        start_offset: Offset::try_from(read.start_offset).ok(),
        batches: read.batches.into_iter().map(batch).collect::<Option<_>>()?,
    };
    state.check().is_ok().then_some(state)
}

fn batch_to_wire(batch: &ShareStateBatch) -> WireBatch {
    WireBatch {
        first_offset: to_wire(Some(batch.first_offset)),
        last_offset: to_wire(Some(batch.last_offset)),
        delivery_state: batch.delivery_state,
        delivery_count: batch.delivery_count,
    }
}

/// −1 stands for no offset.
fn to_wire(offset: Option<Offset>) -> i64 {
    offset
        .and_then(|offset| i64::try_from(offset).ok())
        .unwrap_or(-1)
}
