//! What a broker answers to Produce.

use bytes::Bytes;
use millrace_wire::{
    Decodable,
    messages::{ProduceResponse, ResponseHeader},
};

use super::{ClientError, PRODUCE_VERSION};

/// The answer to one Produce request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProduceAnswer {
    /// Which request it answers.
    pub correlation_id: i32,
    /// One answer for each partition of the request, in the answer's order.
    pub partitions: Vec<PartitionAnswer>,
}

/// What became of one partition's batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionAnswer {
    /// The partition.
    pub partition: i32,
    /// Kafka's error code; 0 is none.
    pub error_code: i16,
    /// Offset of the batch's first record; -1 with an error.
    pub base_offset: i64,
}

impl ProduceAnswer {
    /// Reads an answer, whose length prefix is already gone.
    ///
    /// # Errors
    /// It does not follow its schema.
    pub fn parse(mut frame: Bytes) -> Result<Self, ClientError> {
        let malformed = |_| ClientError::Malformed("the answer to Produce");
        // Produce answers carry tagged fields in their header from version 9 on.
        let header = ResponseHeader::decode(&mut frame, 0).map_err(malformed)?;
        let message = ProduceResponse::decode(&mut frame, PRODUCE_VERSION).map_err(malformed)?;
        let partitions = message
            .responses
            .iter()
            .flat_map(|topic| &topic.partition_responses)
            .map(|partition| PartitionAnswer {
                partition: partition.index,
                error_code: partition.error_code,
                base_offset: partition.base_offset,
            })
            .collect();
        Ok(Self {
            correlation_id: header.correlation_id,
            partitions,
        })
    }
}
