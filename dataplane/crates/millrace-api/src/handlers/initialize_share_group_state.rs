//! InitializeShareGroupState (KIP-932): the coordinator of a share group has the share coordinator create the state of share
//! partitions, or start it again.

use millrace_wire::messages::{
    InitializeShareGroupStateRequest, InitializeShareGroupStateResponse,
    initialize_share_group_state_request::PartitionData,
    initialize_share_group_state_response::{InitializeStateResult, PartitionResult},
};

use crate::share_states::{Asked, ShareRequest, Told, offset_of, serve_peers};

serve_peers!(
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult
);

fn asked(partition: PartitionData) -> Asked {
    let start_offset = offset_of(partition.start_offset);
    let request = start_offset.map(|start_offset| ShareRequest::Initialize {
        state_epoch: partition.state_epoch,
        start_offset,
    });
    (partition.partition, request)
}

fn told(told: Told) -> PartitionResult {
    PartitionResult::default()
        .with_partition(told.partition)
        .with_error_code(told.error_code)
        .with_error_message(told.error_message)
}
