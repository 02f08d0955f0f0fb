//! The schemas of the supported requests, reduced to lengths. Comments give the field names; the
//! source is Kafka's message definitions.

use kafka_protocol::messages::ApiKey;

use super::{
    MessageShape, Schema, Tagged, fields::*, producers, share_fetch, share_groups, share_states,
    telemetry, transactions,
};

/// The shape of an API's request; nothing where the API is not served.
pub(super) fn shape_of(api_key: ApiKey) -> Option<MessageShape> {
    let (flexible_from, schema) = match api_key {
        ApiKey::Produce => (9, &PRODUCE),
        ApiKey::Fetch => (12, &FETCH),
        ApiKey::ListOffsets => (6, &LIST_OFFSETS),
        ApiKey::Metadata => (9, &METADATA),
        ApiKey::OffsetCommit => (8, &OFFSET_COMMIT),
        ApiKey::OffsetFetch => (6, &OFFSET_FETCH),
        ApiKey::FindCoordinator => (3, &FIND_COORDINATOR),
        ApiKey::JoinGroup => (6, &JOIN_GROUP),
        ApiKey::Heartbeat => (4, &HEARTBEAT),
        ApiKey::LeaveGroup => (4, &LEAVE_GROUP),
        ApiKey::SyncGroup => (4, &SYNC_GROUP),
        ApiKey::DescribeGroups => (5, &DESCRIBE_GROUPS),
        ApiKey::ListGroups => (3, &LIST_GROUPS),
        ApiKey::SaslHandshake => (NEVER, &SASL_HANDSHAKE),
        ApiKey::ApiVersions => (3, &API_VERSIONS),
        ApiKey::CreateTopics => (5, &CREATE_TOPICS),
        ApiKey::DeleteTopics => (4, &DELETE_TOPICS),
        ApiKey::DeleteRecords => (2, &DELETE_RECORDS),
        ApiKey::InitProducerId => (2, &INIT_PRODUCER_ID),
        ApiKey::OffsetForLeaderEpoch => (4, &OFFSET_FOR_LEADER_EPOCH),
        ApiKey::AddPartitionsToTxn => (3, &transactions::ADD_PARTITIONS_TO_TXN_REQUEST),
        ApiKey::AddOffsetsToTxn => (3, &transactions::ADD_OFFSETS_TO_TXN_REQUEST),
        ApiKey::EndTxn => (3, &transactions::END_TXN_REQUEST),
        ApiKey::WriteTxnMarkers => (1, &transactions::WRITE_TXN_MARKERS_REQUEST),
        ApiKey::TxnOffsetCommit => (3, &transactions::TXN_OFFSET_COMMIT_REQUEST),
        ApiKey::DescribeAcls => (2, &ACL),
        ApiKey::CreateAcls => (2, &ACLS),
        ApiKey::DeleteAcls => (2, &ACLS),
        ApiKey::DescribeConfigs => (4, &DESCRIBE_CONFIGS),
        ApiKey::AlterConfigs => (2, &ALTER_CONFIGS),
        ApiKey::DescribeLogDirs => (2, &DESCRIBE_LOG_DIRS),
        ApiKey::SaslAuthenticate => (2, &SASL_AUTHENTICATE),
        ApiKey::CreatePartitions => (2, &CREATE_PARTITIONS),
        ApiKey::CreateDelegationToken => (2, &CREATE_DELEGATION_TOKEN),
        ApiKey::RenewDelegationToken => (2, &CHANGE_DELEGATION_TOKEN),
        ApiKey::ExpireDelegationToken => (2, &CHANGE_DELEGATION_TOKEN),
        ApiKey::DescribeDelegationToken => (2, &DESCRIBE_DELEGATION_TOKEN),
        ApiKey::DeleteGroups => (2, &DELETE_GROUPS),
        ApiKey::IncrementalAlterConfigs => (1, &INCREMENTAL_ALTER_CONFIGS),
        ApiKey::ElectLeaders => (2, &ELECT_LEADERS),
        ApiKey::AlterPartitionReassignments => (0, &ALTER_PARTITION_REASSIGNMENTS),
        ApiKey::ListPartitionReassignments => (0, &LIST_PARTITION_REASSIGNMENTS),
        ApiKey::OffsetDelete => (NEVER, &OFFSET_DELETE),
        ApiKey::DescribeClientQuotas => (1, &DESCRIBE_CLIENT_QUOTAS),
        ApiKey::AlterClientQuotas => (1, &ALTER_CLIENT_QUOTAS),
        ApiKey::DescribeUserScramCredentials => (0, &DESCRIBE_USER_SCRAM_CREDENTIALS),
        ApiKey::AlterUserScramCredentials => (0, &ALTER_USER_SCRAM_CREDENTIALS),
        ApiKey::DescribeCluster => (0, &DESCRIBE_CLUSTER),
        ApiKey::DescribeTransactions => (0, &transactions::DESCRIBE_TRANSACTIONS_REQUEST),
        ApiKey::ListTransactions => (0, &transactions::LIST_TRANSACTIONS_REQUEST),
        ApiKey::UpdateFeatures => (0, &UPDATE_FEATURES),
        ApiKey::DescribeProducers => (0, &producers::DESCRIBE_PRODUCERS_REQUEST),
        ApiKey::DescribeQuorum => (0, &DESCRIBE_QUORUM),
        ApiKey::DescribeTopicPartitions => (0, &DESCRIBE_TOPIC_PARTITIONS),
        ApiKey::AlterReplicaLogDirs => (2, &ALTER_REPLICA_LOG_DIRS),
        ApiKey::ListConfigResources => (0, &LIST_CONFIG_RESOURCES),
        ApiKey::ConsumerGroupHeartbeat => (0, &CONSUMER_GROUP_HEARTBEAT),
        ApiKey::ConsumerGroupDescribe => (0, &CONSUMER_GROUP_DESCRIBE),
        other => newer(other)?,
    };
    Some(MessageShape {
        flexible_from,
        schema,
    })
}

/// The same for APIs of share groups and of client metrics.
fn newer(api_key: ApiKey) -> Option<(i16, &'static Schema)> {
    Some(match api_key {
        ApiKey::GetTelemetrySubscriptions => (0, &telemetry::GET_SUBSCRIPTIONS_REQUEST),
        ApiKey::PushTelemetry => (0, &telemetry::PUSH_REQUEST),
        ApiKey::ShareGroupHeartbeat => (0, &share_groups::HEARTBEAT_REQUEST),
        ApiKey::ShareGroupDescribe => (0, &share_groups::DESCRIBE_REQUEST),
        ApiKey::DescribeShareGroupOffsets => (0, &share_groups::DESCRIBE_OFFSETS_REQUEST),
        ApiKey::AlterShareGroupOffsets => (0, &share_groups::ALTER_OFFSETS_REQUEST),
        ApiKey::DeleteShareGroupOffsets => (0, &share_groups::DELETE_OFFSETS_REQUEST),
        _ => share_fetch::request_of(api_key).or_else(|| share_states::request_of(api_key))?,
    })
}

/// No version of the API has compact lengths.
const NEVER: i16 = i16::MAX;

static PRODUCE: Schema = plain(&[
    always(TEXT),  // transactional id
    always(INT16), // acks
    always(INT32), // timeout
    always(list_of!(PRODUCE_TOPIC)),
]);
static PRODUCE_TOPIC: Schema = plain(&[
    until(12, TEXT), // name
    since(13, UUID), // id
    always(list_of!(PRODUCE_PARTITION)),
]);
static PRODUCE_PARTITION: Schema = plain(&[
    always(INT32), // index
    always(BLOB),  // records
]);

static FETCH: Schema = Schema {
    fields: &[
        until(14, INT32), // replica id
        always(INT32),    // max wait
        always(INT32),    // min bytes
        always(INT32),    // max bytes
        always(INT8),     // isolation level
        since(7, INT32),  // session id
        since(7, INT32),  // session epoch
        always(list_of!(FETCH_TOPIC)),
        since(7, list_of!(FORGOTTEN_TOPIC)),
        since(11, TEXT), // rack id
    ],
    tagged: &[
        Tagged {
            tag: 0,
            since: 12,
            kind: TEXT,
        }, // cluster id
        Tagged {
            tag: 1,
            since: 15,
            kind: Kind::Struct(&REPLICA_STATE),
        },
    ],
};
static REPLICA_STATE: Schema = plain(&[
    always(INT32), // replica id
    always(INT64), // replica epoch
]);
static FETCH_TOPIC: Schema = plain(&[
    until(12, TEXT), // name
    since(13, UUID), // id
    always(list_of!(FETCH_PARTITION)),
]);
static FETCH_PARTITION: Schema = Schema {
    fields: &[
        always(INT32),    // partition
        since(9, INT32),  // current leader epoch
        always(INT64),    // fetch offset
        since(12, INT32), // last fetched epoch
        since(5, INT64),  // log start offset
        always(INT32),    // max bytes
    ],
    tagged: &[
        Tagged {
            tag: 0,
            since: 17,
            kind: UUID,
        }, // replica directory id
        Tagged {
            tag: 1,
            since: 18,
            kind: INT64,
        }, // high watermark
    ],
};
static FORGOTTEN_TOPIC: Schema = plain(&[
    until(12, TEXT), // name
    since(13, UUID), // id
    always(INT32S),  // partitions
]);

static LIST_OFFSETS: Schema = plain(&[
    always(INT32),  // replica id
    since(2, INT8), // isolation level
    always(list_of!(LIST_OFFSETS_TOPIC)),
    since(10, INT32), // timeout
]);
static LIST_OFFSETS_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(LIST_OFFSETS_PARTITION)),
]);
static LIST_OFFSETS_PARTITION: Schema = plain(&[
    always(INT32),   // partition
    since(4, INT32), // current leader epoch
    always(INT64),   // timestamp
]);

static METADATA: Schema = plain(&[
    always(list_of!(METADATA_TOPIC)),
    since(4, BOOL),       // allow auto topic creation
    between(8, 10, BOOL), // include cluster authorized operations
    since(8, BOOL),       // include topic authorized operations
]);
static METADATA_TOPIC: Schema = plain(&[
    since(10, UUID), // id
    always(TEXT),    // name
]);

static OFFSET_COMMIT: Schema = plain(&[
    always(TEXT),    // group id
    always(INT32),   // generation
    always(TEXT),    // member id
    since(7, TEXT),  // group instance id
    until(4, INT64), // retention time
    always(list_of!(OFFSET_COMMIT_TOPIC)),
]);
static OFFSET_COMMIT_TOPIC: Schema = plain(&[
    until(9, TEXT),  // name
    since(10, UUID), // id
    always(list_of!(OFFSET_COMMIT_PARTITION)),
]);
static OFFSET_COMMIT_PARTITION: Schema = plain(&[
    always(INT32),   // partition
    always(INT64),   // offset
    since(6, INT32), // leader epoch
    always(TEXT),    // metadata
]);

static OFFSET_FETCH: Schema = plain(&[
    until(7, TEXT), // group id
    until(7, list_of!(OFFSET_FETCH_TOPIC)),
    since(8, list_of!(OFFSET_FETCH_GROUP)),
    since(7, BOOL), // require stable
]);
static OFFSET_FETCH_GROUP: Schema = plain(&[
    always(TEXT),    // group id
    since(9, TEXT),  // member id
    since(9, INT32), // member epoch
    always(list_of!(OFFSET_FETCH_TOPIC)),
]);
static OFFSET_FETCH_TOPIC: Schema = plain(&[
    until(9, TEXT),  // name
    since(10, UUID), // id
    always(INT32S),  // partitions
]);

static FIND_COORDINATOR: Schema = plain(&[
    until(3, TEXT),  // key
    since(1, INT8),  // key type
    since(4, TEXTS), // keys
]);

static JOIN_GROUP: Schema = plain(&[
    always(TEXT),    // group id
    always(INT32),   // session timeout
    since(1, INT32), // rebalance timeout
    always(TEXT),    // member id
    since(5, TEXT),  // group instance id
    always(TEXT),    // protocol type
    always(list_of!(JOIN_GROUP_PROTOCOL)),
    since(8, TEXT), // reason
]);
static JOIN_GROUP_PROTOCOL: Schema = plain(&[
    always(TEXT), // name
    always(BLOB), // metadata
]);

static HEARTBEAT: Schema = plain(&[
    always(TEXT),   // group id
    always(INT32),  // generation
    always(TEXT),   // member id
    since(3, TEXT), // group instance id
]);

static LEAVE_GROUP: Schema = plain(&[
    always(TEXT),   // group id
    until(2, TEXT), // member id
    since(3, list_of!(LEAVING_MEMBER)),
]);
static LEAVING_MEMBER: Schema = plain(&[
    always(TEXT),   // member id
    always(TEXT),   // group instance id
    since(5, TEXT), // reason
]);

static SYNC_GROUP: Schema = plain(&[
    always(TEXT),   // group id
    always(INT32),  // generation
    always(TEXT),   // member id
    since(3, TEXT), // group instance id
    since(5, TEXT), // protocol type
    since(5, TEXT), // protocol name
    always(list_of!(SYNC_GROUP_ASSIGNMENT)),
]);
static SYNC_GROUP_ASSIGNMENT: Schema = plain(&[
    always(TEXT), // member id
    always(BLOB), // assignment
]);

static DESCRIBE_GROUPS: Schema = plain(&[
    always(TEXTS),  // groups
    since(3, BOOL), // include authorized operations
]);

static LIST_GROUPS: Schema = plain(&[
    since(4, TEXTS), // states
    since(5, TEXTS), // types
]);

static SASL_HANDSHAKE: Schema = plain(&[always(TEXT)]); // mechanism

static API_VERSIONS: Schema = plain(&[
    since(3, TEXT), // client software name
    since(3, TEXT), // client software version
]);

static CREATE_TOPICS: Schema = plain(&[
    always(list_of!(CREATABLE_TOPIC)),
    always(INT32), // timeout
    always(BOOL),  // validate only
]);
static CREATABLE_TOPIC: Schema = plain(&[
    always(TEXT),  // name
    always(INT32), // partitions
    always(INT16), // replication factor
    always(list_of!(REPLICA_ASSIGNMENT)),
    always(list_of!(TOPIC_CONFIG)),
]);
static REPLICA_ASSIGNMENT: Schema = plain(&[
    always(INT32),  // partition
    always(INT32S), // brokers
]);
static TOPIC_CONFIG: Schema = plain(&[
    always(TEXT), // name
    always(TEXT), // value
]);

static DELETE_TOPICS: Schema = plain(&[
    since(6, list_of!(DELETABLE_TOPIC)),
    until(5, TEXTS), // names
    always(INT32),   // timeout
]);
static DELETABLE_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(UUID), // id
]);

static DELETE_RECORDS: Schema = plain(&[
    always(list_of!(DELETE_RECORDS_TOPIC)),
    always(INT32), // timeout
]);
static DELETE_RECORDS_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(DELETE_RECORDS_PARTITION)),
]);
static DELETE_RECORDS_PARTITION: Schema = plain(&[
    always(INT32), // partition
    always(INT64), // offset
]);

static INIT_PRODUCER_ID: Schema = plain(&[
    always(TEXT),    // transactional id
    always(INT32),   // transaction timeout
    since(3, INT64), // producer id
    since(3, INT16), // producer epoch
]);

static OFFSET_FOR_LEADER_EPOCH: Schema = plain(&[
    since(3, INT32), // replica id
    always(list_of!(EPOCH_TOPIC)),
]);
static EPOCH_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(EPOCH_PARTITION)),
]);
static EPOCH_PARTITION: Schema = plain(&[
    always(INT32), // partition
    always(INT32), // current leader epoch
    always(INT32), // leader epoch
]);

/// A filter, which is the body of DescribeAcls and an element of DeleteAcls, or an ACL of CreateAcls.
static ACL: Schema = plain(&[
    always(INT8), // resource type
    always(TEXT), // resource name
    always(INT8), // pattern type
    always(TEXT), // principal
    always(TEXT), // host
    always(INT8), // operation
    always(INT8), // permission type
]);
static ACLS: Schema = plain(&[always(list_of!(ACL))]);

static DESCRIBE_CONFIGS: Schema = plain(&[
    always(list_of!(CONFIG_RESOURCE)),
    always(BOOL),   // include synonyms
    since(3, BOOL), // include documentation
]);
static CONFIG_RESOURCE: Schema = plain(&[
    always(INT8),  // type
    always(TEXT),  // name
    always(TEXTS), // keys
]);

static ALTER_CONFIGS: Schema = plain(&[
    always(list_of!(ALTERED_RESOURCE)),
    always(BOOL), // validate only
]);
static ALTERED_RESOURCE: Schema = plain(&[
    always(INT8), // type
    always(TEXT), // name
    always(list_of!(ALTERED_CONFIG)),
]);
static ALTERED_CONFIG: Schema = plain(&[
    always(TEXT), // name
    always(TEXT), // value
]);

static INCREMENTAL_ALTER_CONFIGS: Schema = plain(&[
    always(list_of!(INCREMENTALLY_ALTERED_RESOURCE)),
    always(BOOL), // validate only
]);
static INCREMENTALLY_ALTERED_RESOURCE: Schema = plain(&[
    always(INT8), // type
    always(TEXT), // name
    always(list_of!(INCREMENTALLY_ALTERED_CONFIG)),
]);
static INCREMENTALLY_ALTERED_CONFIG: Schema = plain(&[
    always(TEXT), // name
    always(INT8), // operation
    always(TEXT), // value
]);

static DESCRIBE_LOG_DIRS: Schema = plain(&[always(list_of!(LOG_DIR_TOPIC))]);
static LOG_DIR_TOPIC: Schema = plain(&[
    always(TEXT),   // name
    always(INT32S), // partitions
]);

static SASL_AUTHENTICATE: Schema = plain(&[always(BLOB)]); // token

static CREATE_PARTITIONS: Schema = plain(&[
    always(list_of!(TOPIC_PARTITIONS)),
    always(INT32), // timeout
    always(BOOL),  // validate only
]);
static TOPIC_PARTITIONS: Schema = plain(&[
    always(TEXT),  // name
    always(INT32), // count
    always(list_of!(PARTITION_ASSIGNMENT)),
]);
static PARTITION_ASSIGNMENT: Schema = plain(&[always(INT32S)]);

static DELETE_GROUPS: Schema = plain(&[always(TEXTS)]);

static CONSUMER_GROUP_HEARTBEAT: Schema = plain(&[
    always(TEXT),   // group id
    always(TEXT),   // member id
    always(INT32),  // member epoch
    always(TEXT),   // group instance id
    always(TEXT),   // rack
    always(INT32),  // rebalance timeout
    always(TEXTS),  // subscribed topics
    since(1, TEXT), // subscribed expression
    always(TEXT),   // assignor
    always(list_of!(OWNED_PARTITIONS)),
]);
static OWNED_PARTITIONS: Schema = plain(&[
    always(UUID),   // topic id
    always(INT32S), // partitions
]);

static CONSUMER_GROUP_DESCRIBE: Schema = plain(&[
    always(TEXTS), // group ids
    always(BOOL),  // with authorized operations
]);

static OFFSET_DELETE: Schema = plain(&[
    always(TEXT), // group id
    always(list_of!(PARTITIONS_OF_TOPIC)),
]);

static ELECT_LEADERS: Schema = plain(&[
    since(1, INT8), // election type
    always(list_of!(PARTITIONS_OF_TOPIC)),
    always(INT32), // timeout
]);
static PARTITIONS_OF_TOPIC: Schema = plain(&[
    always(TEXT),   // name
    always(INT32S), // partitions
]);

static ALTER_PARTITION_REASSIGNMENTS: Schema = plain(&[
    always(INT32),  // timeout
    since(1, BOOL), // allow change of the replication factor
    always(list_of!(REASSIGNED_TOPIC)),
]);
static REASSIGNED_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(REASSIGNED_PARTITION)),
]);
static REASSIGNED_PARTITION: Schema = plain(&[
    always(INT32),  // index
    always(INT32S), // replicas
]);

static LIST_PARTITION_REASSIGNMENTS: Schema = plain(&[
    always(INT32), // timeout
    always(list_of!(PARTITIONS_OF_TOPIC)),
]);

static DESCRIBE_CLIENT_QUOTAS: Schema = plain(&[
    always(list_of!(QUOTA_FILTER)),
    always(BOOL), // strict
]);
static QUOTA_FILTER: Schema = plain(&[
    always(TEXT), // entity type
    always(INT8), // match type
    always(TEXT), // match
]);

static ALTER_CLIENT_QUOTAS: Schema = plain(&[
    always(list_of!(QUOTA_ENTRY)),
    always(BOOL), // validate only
]);
static QUOTA_ENTRY: Schema = plain(&[always(list_of!(QUOTA_ENTITY)), always(list_of!(QUOTA_OP))]);
static QUOTA_ENTITY: Schema = plain(&[
    always(TEXT), // entity type
    always(TEXT), // entity name
]);
static QUOTA_OP: Schema = plain(&[
    always(TEXT),  // key
    always(INT64), // value, a float of 64 bits
    always(BOOL),  // remove
]);

static DESCRIBE_USER_SCRAM_CREDENTIALS: Schema = plain(&[always(list_of!(USER_NAME))]);
static USER_NAME: Schema = plain(&[always(TEXT)]); // name

static ALTER_USER_SCRAM_CREDENTIALS: Schema = plain(&[
    always(list_of!(SCRAM_DELETION)),
    always(list_of!(SCRAM_UPSERTION)),
]);
static SCRAM_DELETION: Schema = plain(&[
    always(TEXT), // name
    always(INT8), // mechanism
]);
static SCRAM_UPSERTION: Schema = plain(&[
    always(TEXT),  // name
    always(INT8),  // mechanism
    always(INT32), // iterations
    always(BLOB),  // salt
    always(BLOB),  // salted password
]);

static CREATE_DELEGATION_TOKEN: Schema = plain(&[
    since(3, TEXT), // owner's principal type
    since(3, TEXT), // owner's principal name
    always(list_of!(PRINCIPAL)),
    always(INT64), // maximum lifetime
]);
static CHANGE_DELEGATION_TOKEN: Schema = plain(&[
    always(BLOB),  // HMAC
    always(INT64), // period
]);
static DESCRIBE_DELEGATION_TOKEN: Schema = plain(&[always(list_of!(PRINCIPAL))]);
static PRINCIPAL: Schema = plain(&[
    always(TEXT), // type
    always(TEXT), // name
]);

static LIST_CONFIG_RESOURCES: Schema = plain(&[
    since(1, INT8S), // types
]);

static DESCRIBE_CLUSTER: Schema = plain(&[
    always(BOOL),   // include cluster authorized operations
    since(1, INT8), // endpoint type
    since(2, BOOL), // include fenced brokers
]);

static UPDATE_FEATURES: Schema = plain(&[
    always(INT32), // timeout
    always(list_of!(FEATURE_UPDATE)),
    since(1, BOOL), // validate only
]);
static FEATURE_UPDATE: Schema = plain(&[
    always(TEXT),   // feature
    always(INT16),  // level
    until(0, BOOL), // allow downgrade
    since(1, INT8), // upgrade type
]);

static DESCRIBE_QUORUM: Schema = plain(&[always(list_of!(QUORUM_TOPIC))]);
static QUORUM_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(QUORUM_PARTITION)),
]);
static QUORUM_PARTITION: Schema = plain(&[always(INT32)]); // index

static DESCRIBE_TOPIC_PARTITIONS: Schema = plain(&[
    always(list_of!(TOPIC_REQUEST)),
    always(INT32), // limit of partitions
    always(Kind::NullableStruct(&PARTITION_CURSOR)),
]);
static TOPIC_REQUEST: Schema = plain(&[always(TEXT)]); // name
static PARTITION_CURSOR: Schema = plain(&[
    always(TEXT),  // topic
    always(INT32), // partition
]);

static ALTER_REPLICA_LOG_DIRS: Schema = plain(&[always(list_of!(ALTERED_LOG_DIR))]);
static ALTERED_LOG_DIR: Schema = plain(&[
    always(TEXT), // path
    always(list_of!(PARTITIONS_OF_TOPIC)),
]);
