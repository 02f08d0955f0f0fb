//! ReadShareGroupState (KIP-932): the leader of a partition reads the state of share partitions, which fences former leaders.

use millrace_coordinator::ShareStateBatch;
use millrace_wire::messages::{
    ReadShareGroupStateRequest, ReadShareGroupStateResponse,
    read_share_group_state_request::PartitionData,
    read_share_group_state_response::{PartitionResult, ReadStateResult, StateBatch},
};

use crate::share_states::{Asked, ShareRequest, Told, optional_wire_offset, serve_peers};

serve_peers!(
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult
);

fn asked(partition: PartitionData) -> Asked {
    let request = ShareRequest::Read(partition.leader_epoch);
    (partition.partition, Ok(request))
}

fn told(told: Told) -> PartitionResult {
    let batch = |batch: &ShareStateBatch| {
        StateBatch::default()
            .with_first_offset(optional_wire_offset(Some(batch.first_offset)))
            .with_last_offset(optional_wire_offset(Some(batch.last_offset)))
            .with_delivery_state(batch.delivery_state)
            .with_delivery_count(batch.delivery_count)
    };
    PartitionResult::default()
        .with_partition(told.partition)
        .with_error_code(told.error_code)
        .with_error_message(told.error_message)
        .with_state_epoch(told.state.state_epoch)
        .with_start_offset(optional_wire_offset(told.state.start_offset))
        .with_state_batches(told.state.batches.iter().map(batch).collect())
}
