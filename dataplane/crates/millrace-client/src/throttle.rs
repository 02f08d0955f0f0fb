//! The throttle time of each response.

use millrace_wire::{RequestMessage, messages::*};

/// A request whose response may ask the client to pause: every one that this crate sends.
pub(crate) trait Call: RequestMessage<Response: Throttled> {}

impl<M: RequestMessage<Response: Throttled>> Call for M {}

/// A response that may ask the client to pause.
pub(crate) trait Throttled {
    /// For how many milliseconds; 0 for not at all.
    fn throttle_ms(&self) -> i32;
}

macro_rules! throttled {
    ($($response:ident)*) => {
        $(impl Throttled for $response {
            fn throttle_ms(&self) -> i32 {
                self.throttle_time_ms
            }
        })*
    };
}

throttled! {
    AddPartitionsToTxnResponse AlterConfigsResponse AlterPartitionReassignmentsResponse ApiVersionsResponse ConsumerGroupDescribeResponse
    ConsumerGroupHeartbeatResponse CreatePartitionsResponse CreateTopicsResponse
    DeleteGroupsResponse DeleteRecordsResponse DeleteTopicsResponse DescribeClusterResponse
    DescribeConfigsResponse DescribeGroupsResponse DescribeLogDirsResponse ElectLeadersResponse FetchResponse FindCoordinatorResponse
    HeartbeatResponse IncrementalAlterConfigsResponse InitProducerIdResponse JoinGroupResponse
    LeaveGroupResponse ListGroupsResponse ListOffsetsResponse ListPartitionReassignmentsResponse MetadataResponse
    OffsetCommitResponse OffsetDeleteResponse OffsetFetchResponse OffsetForLeaderEpochResponse
    ProduceResponse SyncGroupResponse
}

/// They have none: a client is not yet known when they are sent, or a broker sends them.
impl Throttled for SaslHandshakeResponse {
    fn throttle_ms(&self) -> i32 {
        0
    }
}

impl Throttled for InitializeShareGroupStateResponse {
    fn throttle_ms(&self) -> i32 {
        0
    }
}

impl Throttled for ReadShareGroupStateResponse {
    fn throttle_ms(&self) -> i32 {
        0
    }
}

impl Throttled for WriteShareGroupStateResponse {
    fn throttle_ms(&self) -> i32 {
        0
    }
}

impl Throttled for DeleteShareGroupStateResponse {
    fn throttle_ms(&self) -> i32 {
        0
    }
}

impl Throttled for ReadShareGroupStateSummaryResponse {
    fn throttle_ms(&self) -> i32 {
        0
    }
}

impl Throttled for WriteTxnMarkersResponse {
    fn throttle_ms(&self) -> i32 {
        0
    }
}

impl Throttled for SaslAuthenticateResponse {
    fn throttle_ms(&self) -> i32 {
        0
    }
}
