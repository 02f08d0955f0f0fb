//! DeleteShareGroupState (KIP-932): the coordinator of a share group has the share coordinator delete the state of share partitions.

use millrace_wire::messages::{
    DeleteShareGroupStateRequest, DeleteShareGroupStateResponse,
    delete_share_group_state_request::PartitionData,
    delete_share_group_state_response::{DeleteStateResult, PartitionResult},
};

use crate::share_states::{Asked, ShareRequest, Told, serve_peers};

serve_peers!(
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult
);

fn asked(partition: PartitionData) -> Asked {
    (partition.partition, Ok(ShareRequest::Delete))
}

fn told(told: Told) -> PartitionResult {
    PartitionResult::default()
        .with_partition(told.partition)
        .with_error_code(told.error_code)
        .with_error_message(told.error_message)
}
