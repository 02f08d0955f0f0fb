//! WriteShareGroupState (KIP-932): the leader of a partition adds to the state of share partitions.

use millrace_coordinator::{ShareError, ShareState, ShareStateBatch};
use millrace_wire::messages::{
    WriteShareGroupStateRequest, WriteShareGroupStateResponse,
    write_share_group_state_request::{PartitionData, StateBatch},
    write_share_group_state_response::{PartitionResult, WriteStateResult},
};

use crate::share_states::{Asked, ShareRequest, Told, offset_of, serve_peers};

serve_peers!(
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult
);

fn asked(partition: PartitionData) -> Asked {
    (
        partition.partition,
        change(&partition).map(ShareRequest::Write),
    )
}

fn change(partition: &PartitionData) -> Result<ShareState, ShareError> {
    let offset = |wire| offset_of(wire)?.ok_or(ShareError::InvalidRequest);
    let batch = |batch: &StateBatch| {
        Ok(ShareStateBatch {
            first_offset: offset(batch.first_offset)?,
            last_offset: offset(batch.last_offset)?,
            delivery_state: batch.delivery_state,
            delivery_count: batch.delivery_count,
        })
    };
    let batches = partition.state_batches.iter().map(batch);
    Ok(ShareState {
        state_epoch: partition.state_epoch,
        leader_epoch: partition.leader_epoch,
        start_offset: offset_of(partition.start_offset)?,
        batches: batches.collect::<Result<_, ShareError>>()?,
    })
}

fn told(told: Told) -> PartitionResult {
    PartitionResult::default()
        .with_partition(told.partition)
        .with_error_code(told.error_code)
        .with_error_message(told.error_message)
}
