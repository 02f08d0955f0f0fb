//! Which handler serves which API.

use millrace_wire::ApiKey;

use crate::{call::Handler, handlers};

/// A line of the table.
macro_rules! serve {
    ($key:ident, $module:ident) => {
        (ApiKey::$key, |context, call| {
            Box::pin(handlers::$module::handle(context, call))
        })
    };
}

/// Every API that is served, by API key.
const TABLE: &[(ApiKey, Handler)] = &[
    serve!(Produce, produce),
    serve!(Fetch, fetch),
    serve!(ListOffsets, list_offsets),
    serve!(Metadata, metadata),
    serve!(OffsetCommit, offset_commit),
    serve!(OffsetFetch, offset_fetch),
    serve!(FindCoordinator, find_coordinator),
    serve!(JoinGroup, join_group),
    serve!(Heartbeat, heartbeat),
    serve!(LeaveGroup, leave_group),
    serve!(SyncGroup, sync_group),
    serve!(DescribeGroups, describe_groups),
    serve!(ListGroups, list_groups),
    serve!(SaslHandshake, sasl_handshake),
    serve!(ApiVersions, api_versions),
    serve!(CreateTopics, create_topics),
    serve!(DeleteTopics, delete_topics),
    serve!(DeleteRecords, delete_records),
    serve!(InitProducerId, init_producer_id),
    serve!(OffsetForLeaderEpoch, offset_for_leader_epoch),
    serve!(AddPartitionsToTxn, add_partitions_to_txn),
    serve!(AddOffsetsToTxn, add_offsets_to_txn),
    serve!(EndTxn, end_txn),
    serve!(WriteTxnMarkers, write_txn_markers),
    serve!(TxnOffsetCommit, txn_offset_commit),
    serve!(DescribeAcls, describe_acls),
    serve!(CreateAcls, create_acls),
    serve!(DeleteAcls, delete_acls),
    serve!(DescribeConfigs, describe_configs),
    serve!(AlterConfigs, alter_configs),
    serve!(AlterReplicaLogDirs, alter_replica_log_dirs),
    serve!(DescribeLogDirs, describe_log_dirs),
    serve!(SaslAuthenticate, sasl_authenticate),
    serve!(CreatePartitions, create_partitions),
    serve!(CreateDelegationToken, create_delegation_token),
    serve!(RenewDelegationToken, renew_delegation_token),
    serve!(ExpireDelegationToken, expire_delegation_token),
    serve!(DescribeDelegationToken, describe_delegation_token),
    serve!(DeleteGroups, delete_groups),
    serve!(ElectLeaders, elect_leaders),
    serve!(IncrementalAlterConfigs, incremental_alter_configs),
    serve!(AlterPartitionReassignments, alter_partition_reassignments),
    serve!(ListPartitionReassignments, list_partition_reassignments),
    serve!(OffsetDelete, offset_delete),
    serve!(DescribeClientQuotas, describe_client_quotas),
    serve!(AlterClientQuotas, alter_client_quotas),
    serve!(
        DescribeUserScramCredentials,
        describe_user_scram_credentials
    ),
    serve!(AlterUserScramCredentials, alter_user_scram_credentials),
    serve!(DescribeQuorum, describe_quorum),
    serve!(UpdateFeatures, update_features),
    serve!(DescribeCluster, describe_cluster),
    serve!(DescribeProducers, describe_producers),
    serve!(DescribeTransactions, describe_transactions),
    serve!(ListTransactions, list_transactions),
    serve!(ConsumerGroupHeartbeat, consumer_group_heartbeat),
    serve!(ConsumerGroupDescribe, consumer_group_describe),
    serve!(GetTelemetrySubscriptions, get_telemetry_subscriptions),
    serve!(PushTelemetry, push_telemetry),
    serve!(ListConfigResources, list_config_resources),
    serve!(DescribeTopicPartitions, describe_topic_partitions),
    serve!(InitializeShareGroupState, initialize_share_group_state),
    serve!(ReadShareGroupState, read_share_group_state),
    serve!(WriteShareGroupState, write_share_group_state),
    serve!(DeleteShareGroupState, delete_share_group_state),
    serve!(ReadShareGroupStateSummary, read_share_group_state_summary),
    serve!(ShareGroupHeartbeat, share_group_heartbeat),
    serve!(ShareGroupDescribe, share_group_describe),
    serve!(DescribeShareGroupOffsets, describe_share_group_offsets),
    serve!(AlterShareGroupOffsets, alter_share_group_offsets),
    serve!(DeleteShareGroupOffsets, delete_share_group_offsets),
];

/// The handler of an API.
pub(crate) fn handler(key: ApiKey) -> Option<Handler> {
    TABLE
        .iter()
        .find(|(api, _)| *api == key)
        .map(|(_, handler)| *handler)
}

#[cfg(test)]
mod tests {
    use millrace_wire::SUPPORTED;

    use super::*;

    #[test]
    fn what_is_advertised_is_served() {
        assert_eq!(TABLE.len(), SUPPORTED.len());
        for support in SUPPORTED {
            assert!(handler(support.api_key).is_some(), "{:?}", support.api_key);
        }
    }
}
