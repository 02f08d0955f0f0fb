//! What brokers ask each other about share partitions (KIP-932).

use millrace_model::TopicId;
use millrace_wire::messages::{
    DeleteShareGroupStateRequest, InitializeShareGroupStateRequest, ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest, WriteShareGroupStateRequest,
    delete_share_group_state_request, initialize_share_group_state_request,
    read_share_group_state_request, read_share_group_state_summary_request,
    write_share_group_state_request,
};

use super::{Admin, text};
use crate::error::{BrokerError, ErrorCode, RequestError};

/// A partition of a topic, as one share group consumes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharePartition<'a> {
    /// The share group.
    pub group_id: &'a str,
    /// The topic.
    pub topic_id: TopicId,
    /// The partition's index.
    pub partition: i32,
}

/// Records in a row that have the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareStateBatch {
    /// Offset of the first one.
    pub first_offset: i64,
    /// Offset of the last one.
    pub last_offset: i64,
    /// 0 available, 2 acknowledged, 4 archived.
    pub delivery_state: i8,
    /// How often they were delivered.
    pub delivery_count: i16,
}

/// The state of a share partition, or a change of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShareState {
    /// Grows each time the share partition is initialized.
    pub state_epoch: i32,
    /// The leader epoch of the last writer. A read does not tell it.
    pub leader_epoch: i32,
    /// Everything below is done. −1 where it is not known, or is not changed.
    pub start_offset: i64,
    /// What is not available and never delivered.
    pub batches: Vec<ShareStateBatch>,
}

/// The answer to a request about one partition.
macro_rules! only_result {
    ($response:expr) => {{
        let topic = $response.results.into_iter().next();
        let partition = topic.and_then(|topic| topic.partitions.into_iter().next());
        let partition = partition.ok_or_else(not_answered)?;
        BrokerError::check(partition.error_code, partition.error_message.as_deref())?;
        partition
    }};
}

/// Each asks one node, as the coordinator of the share partition, and is not retried. They need the right `ClusterAction`.
impl Admin {
    /// Creates the state of a share partition, or starts it again.
    ///
    /// # Errors
    /// The node did not answer, or refused.
    pub async fn initialize_share_state(
        &self,
        node: i32,
        of: SharePartition<'_>,
        (state_epoch, start_offset): (i32, i64),
    ) -> Result<(), RequestError> {
        use initialize_share_group_state_request::{InitializeStateData, PartitionData};
        let partition = PartitionData::default()
            .with_partition(of.partition)
            .with_state_epoch(state_epoch)
            .with_start_offset(start_offset);
        let topic = InitializeStateData::default()
            .with_topic_id(of.topic_id.0)
            .with_partitions(vec![partition]);
        let request = InitializeShareGroupStateRequest::default()
            .with_group_id(text(of.group_id))
            .with_topics(vec![topic]);
        only_result!(self.ask_peer(node, |_| request).await?);
        Ok(())
    }

    /// Reads the state of a share partition as the leader of this epoch.
    ///
    /// # Errors
    /// The node did not answer, or refused.
    pub async fn read_share_state(
        &self,
        node: i32,
        of: SharePartition<'_>,
        leader_epoch: i32,
    ) -> Result<ShareState, RequestError> {
        use read_share_group_state_request::{PartitionData, ReadStateData};
        let partition = PartitionData::default()
            .with_partition(of.partition)
            .with_leader_epoch(leader_epoch);
        let topic = ReadStateData::default()
            .with_topic_id(of.topic_id.0)
            .with_partitions(vec![partition]);
        let request = ReadShareGroupStateRequest::default()
            .with_group_id(text(of.group_id))
            .with_topics(vec![topic]);
        let read = only_result!(self.ask_peer(node, |_| request).await?);
        let batches = read.state_batches.iter().map(|batch| ShareStateBatch {
            first_offset: batch.first_offset,
            last_offset: batch.last_offset,
            delivery_state: batch.delivery_state,
            delivery_count: batch.delivery_count,
        });
        Ok(ShareState {
            state_epoch: read.state_epoch,
            leader_epoch,
            start_offset: read.start_offset,
            batches: batches.collect(),
        })
    }

    /// Adds to the state of a share partition.
    ///
    /// # Errors
    /// The node did not answer, or refused.
    pub async fn write_share_state(
        &self,
        node: i32,
        of: SharePartition<'_>,
        change: &ShareState,
    ) -> Result<(), RequestError> {
        use write_share_group_state_request::{PartitionData, StateBatch, WriteStateData};
        let batches = change.batches.iter().map(|batch| {
            StateBatch::default()
                .with_first_offset(batch.first_offset)
                .with_last_offset(batch.last_offset)
                .with_delivery_state(batch.delivery_state)
                .with_delivery_count(batch.delivery_count)
        });
        let partition = PartitionData::default()
            .with_partition(of.partition)
            .with_state_epoch(change.state_epoch)
            .with_leader_epoch(change.leader_epoch)
            .with_start_offset(change.start_offset)
            .with_state_batches(batches.collect());
        let topic = WriteStateData::default()
            .with_topic_id(of.topic_id.0)
            .with_partitions(vec![partition]);
        let request = WriteShareGroupStateRequest::default()
            .with_group_id(text(of.group_id))
            .with_topics(vec![topic]);
        only_result!(self.ask_peer(node, |_| request).await?);
        Ok(())
    }

    /// Reads the state of a share partition without its batches.
    ///
    /// # Errors
    /// The node did not answer, or refused.
    pub async fn read_share_state_summary(
        &self,
        node: i32,
        of: SharePartition<'_>,
    ) -> Result<ShareState, RequestError> {
        use read_share_group_state_summary_request::{PartitionData, ReadStateSummaryData};
        let partition = PartitionData::default()
            .with_partition(of.partition)
            .with_leader_epoch(-1);
        let topic = ReadStateSummaryData::default()
            .with_topic_id(of.topic_id.0)
            .with_partitions(vec![partition]);
        let request = ReadShareGroupStateSummaryRequest::default()
            .with_group_id(text(of.group_id))
            .with_topics(vec![topic]);
        let read = only_result!(self.ask_peer(node, |_| request).await?);
        Ok(ShareState {
            state_epoch: read.state_epoch,
            leader_epoch: read.leader_epoch,
            start_offset: read.start_offset,
            batches: Vec::new(),
        })
    }

    /// Deletes the state of a share partition.
    ///
    /// # Errors
    /// The node did not answer, or refused.
    pub async fn delete_share_state(
        &self,
        node: i32,
        of: SharePartition<'_>,
    ) -> Result<(), RequestError> {
        use delete_share_group_state_request::{DeleteStateData, PartitionData};
        let partition = PartitionData::default().with_partition(of.partition);
        let topic = DeleteStateData::default()
            .with_topic_id(of.topic_id.0)
            .with_partitions(vec![partition]);
        let request = DeleteShareGroupStateRequest::default()
            .with_group_id(text(of.group_id))
            .with_topics(vec![topic]);
        only_result!(self.ask_peer(node, |_| request).await?);
        Ok(())
    }
}

/// The answer is not about the partition.
fn not_answered() -> BrokerError {
    ErrorCode::UNKNOWN_SERVER_ERROR.into()
}
