//! ReadShareGroupStateSummary (KIP-932): the state of share partitions without its batches, for whoever describes a share
//! group.

use millrace_wire::messages::{
    ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse,
    read_share_group_state_summary_request::PartitionData,
    read_share_group_state_summary_response::{PartitionResult, ReadStateSummaryResult},
};

use crate::share_states::{Asked, ShareRequest, Told, optional_wire_offset, serve_peers};

serve_peers!(
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult
);

/// The leader epoch that the request names fences nobody.
fn asked(partition: PartitionData) -> Asked {
    (partition.partition, Ok(ShareRequest::ReadSummary))
}

fn told(told: Told) -> PartitionResult {
    PartitionResult::default()
        .with_partition(told.partition)
        .with_error_code(told.error_code)
        .with_error_message(told.error_message)
        .with_state_epoch(told.state.state_epoch)
        .with_leader_epoch(told.state.leader_epoch)
        .with_start_offset(optional_wire_offset(told.state.start_offset))
}
