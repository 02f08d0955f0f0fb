//! The schemas of the responses that a client reads, reduced to lengths. Comments give the field
//! names; the source is Kafka's message definitions.

use kafka_protocol::messages::ApiKey;

use super::{
    MessageShape, Schema, Tagged, fields::*, producers, share_fetch, share_groups, share_states,
    telemetry, transactions,
};

mod brokers;
mod groups;

/// The shape of the answer to an API's request; nothing where a client does not ask.
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
        ApiKey::AddPartitionsToTxn => (3, &transactions::ADD_PARTITIONS_TO_TXN_RESPONSE),
        ApiKey::AddOffsetsToTxn => (3, &transactions::ADD_OFFSETS_TO_TXN_RESPONSE),
        ApiKey::EndTxn => (3, &transactions::END_TXN_RESPONSE),
        ApiKey::WriteTxnMarkers => (1, &transactions::WRITE_TXN_MARKERS_RESPONSE),
        ApiKey::TxnOffsetCommit => (3, &transactions::TXN_OFFSET_COMMIT_RESPONSE),
        ApiKey::DescribeAcls => (2, &DESCRIBE_ACLS),
        ApiKey::CreateAcls => (2, &CREATE_ACLS),
        ApiKey::DeleteAcls => (2, &DELETE_ACLS),
        ApiKey::DescribeConfigs => (4, &DESCRIBE_CONFIGS),
        ApiKey::AlterConfigs => (2, &ALTER_CONFIGS),
        ApiKey::SaslAuthenticate => (2, &SASL_AUTHENTICATE),
        ApiKey::CreatePartitions => (2, &NAMED_RESULTS),
        ApiKey::DeleteGroups => (2, &DELETE_GROUPS),
        ApiKey::IncrementalAlterConfigs => (1, &ALTER_CONFIGS),
        ApiKey::OffsetDelete => (NEVER, &OFFSET_DELETE),
        ApiKey::DescribeLogDirs => (2, &DESCRIBE_LOG_DIRS),
        ApiKey::ElectLeaders => (2, &ELECT_LEADERS),
        ApiKey::AlterPartitionReassignments => (0, &ALTER_PARTITION_REASSIGNMENTS),
        ApiKey::ListPartitionReassignments => (0, &LIST_PARTITION_REASSIGNMENTS),
        ApiKey::DescribeClientQuotas => (1, &DESCRIBE_CLIENT_QUOTAS),
        ApiKey::AlterClientQuotas => (1, &ALTER_CLIENT_QUOTAS),
        ApiKey::DescribeUserScramCredentials => (0, &DESCRIBE_USER_SCRAM_CREDENTIALS),
        ApiKey::AlterUserScramCredentials => (0, &ALTER_USER_SCRAM_CREDENTIALS),
        ApiKey::DescribeCluster => (0, &DESCRIBE_CLUSTER),
        ApiKey::DescribeTransactions => (0, &transactions::DESCRIBE_TRANSACTIONS_RESPONSE),
        ApiKey::ListTransactions => (0, &transactions::LIST_TRANSACTIONS_RESPONSE),
        ApiKey::DescribeProducers => (0, &producers::DESCRIBE_PRODUCERS_RESPONSE),
        ApiKey::UpdateFeatures => (0, &brokers::UPDATE_FEATURES),
        ApiKey::DescribeQuorum => (0, &brokers::DESCRIBE_QUORUM),
        ApiKey::DescribeTopicPartitions => (0, &brokers::DESCRIBE_TOPIC_PARTITIONS),
        ApiKey::AlterReplicaLogDirs => (2, &brokers::ALTER_REPLICA_LOG_DIRS),
        ApiKey::ListConfigResources => (0, &LIST_CONFIG_RESOURCES),
        ApiKey::ConsumerGroupHeartbeat => (0, &groups::CONSUMER_GROUP_HEARTBEAT),
        ApiKey::ConsumerGroupDescribe => (0, &groups::CONSUMER_GROUP_DESCRIBE),
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
        ApiKey::GetTelemetrySubscriptions => (0, &telemetry::GET_SUBSCRIPTIONS_RESPONSE),
        ApiKey::PushTelemetry => (0, &telemetry::PUSH_RESPONSE),
        ApiKey::ShareGroupHeartbeat => (0, &share_groups::HEARTBEAT_RESPONSE),
        ApiKey::ShareGroupDescribe => (0, &share_groups::DESCRIBE_RESPONSE),
        ApiKey::DescribeShareGroupOffsets => (0, &share_groups::DESCRIBE_OFFSETS_RESPONSE),
        ApiKey::AlterShareGroupOffsets => (0, &share_groups::ALTER_OFFSETS_RESPONSE),
        ApiKey::DeleteShareGroupOffsets => (0, &share_groups::DELETE_OFFSETS_RESPONSE),
        _ => share_fetch::response_of(api_key).or_else(|| share_states::response_of(api_key))?,
    })
}

/// No version of the API has compact lengths.
const NEVER: i16 = i16::MAX;

static LEADER: Schema = plain(&[
    always(INT32), // leader id
    always(INT32), // leader epoch
]);
static NODE_ENDPOINT: Schema = plain(&[
    always(INT32), // node id
    always(TEXT),  // host
    always(INT32), // port
    always(TEXT),  // rack
]);

static PRODUCE: Schema = Schema {
    fields: &[
        always(list_of!(PRODUCE_TOPIC)),
        always(INT32), // throttle time
    ],
    tagged: &[Tagged {
        tag: 0,
        since: 10,
        kind: list_of!(NODE_ENDPOINT),
    }],
};
static PRODUCE_TOPIC: Schema = plain(&[
    until(12, TEXT), // name
    since(13, UUID), // id
    always(list_of!(PRODUCE_PARTITION)),
]);
static PRODUCE_PARTITION: Schema = Schema {
    fields: &[
        always(INT32),   // index
        always(INT16),   // error
        always(INT64),   // base offset
        always(INT64),   // log append time
        since(5, INT64), // log start offset
        since(8, list_of!(RECORD_ERROR)),
        since(8, TEXT), // error message
    ],
    tagged: &[Tagged {
        tag: 0,
        since: 10,
        kind: Kind::Struct(&LEADER),
    }],
};
static RECORD_ERROR: Schema = plain(&[
    always(INT32), // index in the batch
    always(TEXT),  // error message
]);

static FETCH: Schema = Schema {
    fields: &[
        always(INT32),   // throttle time
        since(7, INT16), // error
        since(7, INT32), // session id
        always(list_of!(FETCH_TOPIC)),
    ],
    tagged: &[Tagged {
        tag: 0,
        since: 16,
        kind: list_of!(NODE_ENDPOINT),
    }],
};
static FETCH_TOPIC: Schema = plain(&[
    until(12, TEXT), // name
    since(13, UUID), // id
    always(list_of!(FETCH_PARTITION)),
]);
static FETCH_PARTITION: Schema = Schema {
    fields: &[
        always(INT32),   // index
        always(INT16),   // error
        always(INT64),   // high watermark
        always(INT64),   // last stable offset
        since(5, INT64), // log start offset
        always(list_of!(ABORTED_TRANSACTION)),
        since(11, INT32), // preferred read replica
        always(BLOB),     // records
    ],
    tagged: &[
        Tagged {
            tag: 0,
            since: 12,
            kind: Kind::Struct(&DIVERGING_EPOCH),
        },
        Tagged {
            tag: 1,
            since: 12,
            kind: Kind::Struct(&LEADER),
        },
        Tagged {
            tag: 2,
            since: 12,
            kind: Kind::Struct(&SNAPSHOT_ID),
        },
    ],
};
static ABORTED_TRANSACTION: Schema = plain(&[
    always(INT64), // producer id
    always(INT64), // first offset
]);
static DIVERGING_EPOCH: Schema = plain(&[
    always(INT32), // epoch
    always(INT64), // end offset
]);
static SNAPSHOT_ID: Schema = plain(&[
    always(INT64), // end offset
    always(INT32), // epoch
]);

static LIST_OFFSETS: Schema = plain(&[
    since(2, INT32), // throttle time
    always(list_of!(LIST_OFFSETS_TOPIC)),
]);
static LIST_OFFSETS_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(LIST_OFFSETS_PARTITION)),
]);
static LIST_OFFSETS_PARTITION: Schema = plain(&[
    always(INT32),   // index
    always(INT16),   // error
    always(INT64),   // timestamp
    always(INT64),   // offset
    since(4, INT32), // leader epoch
]);

static METADATA: Schema = plain(&[
    since(3, INT32), // throttle time
    always(list_of!(METADATA_BROKER)),
    since(2, TEXT),  // cluster id
    since(1, INT32), // controller id
    always(list_of!(METADATA_TOPIC)),
    between(8, 10, INT32), // authorized operations
    since(13, INT16),      // error
]);
static METADATA_BROKER: Schema = plain(&[
    always(INT32),  // node id
    always(TEXT),   // host
    always(INT32),  // port
    since(1, TEXT), // rack
]);
static METADATA_TOPIC: Schema = plain(&[
    always(INT16),   // error
    always(TEXT),    // name
    since(10, UUID), // id
    since(1, BOOL),  // internal
    always(list_of!(METADATA_PARTITION)),
    since(8, INT32), // authorized operations
]);
static METADATA_PARTITION: Schema = plain(&[
    always(INT16),    // error
    always(INT32),    // index
    always(INT32),    // leader id
    since(7, INT32),  // leader epoch
    always(INT32S),   // replicas
    always(INT32S),   // in-sync replicas
    since(5, INT32S), // offline replicas
]);

static OFFSET_COMMIT: Schema = plain(&[
    since(3, INT32), // throttle time
    always(list_of!(OFFSET_COMMIT_TOPIC)),
]);
static OFFSET_COMMIT_TOPIC: Schema = plain(&[
    until(9, TEXT),  // name
    since(10, UUID), // id
    always(list_of!(PARTITION_ERROR)),
]);
static PARTITION_ERROR: Schema = plain(&[
    always(INT32), // index
    always(INT16), // error
]);

static OFFSET_FETCH: Schema = plain(&[
    since(3, INT32), // throttle time
    until(7, list_of!(OFFSET_FETCH_TOPIC)),
    between(2, 7, INT16), // error
    since(8, list_of!(OFFSET_FETCH_GROUP)),
]);
static OFFSET_FETCH_GROUP: Schema = plain(&[
    always(TEXT), // group id
    always(list_of!(OFFSET_FETCH_TOPIC)),
    always(INT16), // error
]);
static OFFSET_FETCH_TOPIC: Schema = plain(&[
    until(9, TEXT),  // name
    since(10, UUID), // id
    always(list_of!(OFFSET_FETCH_PARTITION)),
]);
static OFFSET_FETCH_PARTITION: Schema = plain(&[
    always(INT32),   // index
    always(INT64),   // offset
    since(5, INT32), // leader epoch
    always(TEXT),    // metadata
    always(INT16),   // error
]);

static FIND_COORDINATOR: Schema = plain(&[
    since(1, INT32),     // throttle time
    until(3, INT16),     // error
    between(1, 3, TEXT), // error message
    until(3, INT32),     // node id
    until(3, TEXT),      // host
    until(3, INT32),     // port
    since(4, list_of!(COORDINATOR)),
]);
static COORDINATOR: Schema = plain(&[
    always(TEXT),  // key
    always(INT32), // node id
    always(TEXT),  // host
    always(INT32), // port
    always(INT16), // error
    always(TEXT),  // error message
]);

static JOIN_GROUP: Schema = plain(&[
    since(2, INT32), // throttle time
    always(INT16),   // error
    always(INT32),   // generation
    since(7, TEXT),  // protocol type
    always(TEXT),    // protocol
    always(TEXT),    // leader
    since(9, BOOL),  // skip assignment
    always(TEXT),    // member id
    always(list_of!(JOIN_GROUP_MEMBER)),
]);
static JOIN_GROUP_MEMBER: Schema = plain(&[
    always(TEXT),   // member id
    since(5, TEXT), // group instance id
    always(BLOB),   // metadata
]);

static HEARTBEAT: Schema = plain(&[
    since(1, INT32), // throttle time
    always(INT16),   // error
]);

static LEAVE_GROUP: Schema = plain(&[
    since(1, INT32), // throttle time
    always(INT16),   // error
    since(3, list_of!(LEAVE_GROUP_MEMBER)),
]);
static LEAVE_GROUP_MEMBER: Schema = plain(&[
    always(TEXT),  // member id
    always(TEXT),  // group instance id
    always(INT16), // error
]);

static SYNC_GROUP: Schema = plain(&[
    since(1, INT32), // throttle time
    always(INT16),   // error
    since(5, TEXT),  // protocol type
    since(5, TEXT),  // protocol
    always(BLOB),    // assignment
]);

static DESCRIBE_GROUPS: Schema = plain(&[
    since(1, INT32), // throttle time
    always(list_of!(DESCRIBED_GROUP)),
]);
static DESCRIBED_GROUP: Schema = plain(&[
    always(INT16),  // error
    since(6, TEXT), // error message
    always(TEXT),   // group id
    always(TEXT),   // state
    always(TEXT),   // protocol type
    always(TEXT),   // protocol
    always(list_of!(DESCRIBED_MEMBER)),
    since(3, INT32), // authorized operations
]);
static DESCRIBED_MEMBER: Schema = plain(&[
    always(TEXT),   // member id
    since(4, TEXT), // group instance id
    always(TEXT),   // client id
    always(TEXT),   // client host
    always(BLOB),   // metadata
    always(BLOB),   // assignment
]);

static LIST_GROUPS: Schema = plain(&[
    since(1, INT32), // throttle time
    always(INT16),   // error
    always(list_of!(LISTED_GROUP)),
]);
static LISTED_GROUP: Schema = plain(&[
    always(TEXT),   // group id
    always(TEXT),   // protocol type
    since(4, TEXT), // state
    since(5, TEXT), // type
]);

static SASL_HANDSHAKE: Schema = plain(&[
    always(INT16), // error
    always(TEXTS), // mechanisms
]);

static SASL_AUTHENTICATE: Schema = plain(&[
    always(INT16),   // error
    always(TEXT),    // error message
    always(BLOB),    // message of the mechanism
    since(1, INT64), // session lifetime
]);

static API_VERSIONS: Schema = Schema {
    fields: &[
        always(INT16), // error
        always(list_of!(API_VERSION)),
        since(1, INT32), // throttle time
    ],
    tagged: &[
        Tagged {
            tag: 0,
            since: 3,
            kind: list_of!(FEATURE),
        },
        Tagged {
            tag: 1,
            since: 3,
            kind: INT64,
        },
        Tagged {
            tag: 2,
            since: 3,
            kind: list_of!(FEATURE),
        },
        Tagged {
            tag: 3,
            since: 3,
            kind: BOOL,
        },
    ],
};
static API_VERSION: Schema = plain(&[
    always(INT16), // API key
    always(INT16), // oldest version
    always(INT16), // newest version
]);
static FEATURE: Schema = plain(&[
    always(TEXT),  // name
    always(INT16), // one bound of its versions
    always(INT16), // the other one
]);

static CREATE_TOPICS: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(CREATED_TOPIC)),
]);
static CREATED_TOPIC: Schema = Schema {
    fields: &[
        always(TEXT),    // name
        since(7, UUID),  // id
        always(INT16),   // error
        always(TEXT),    // error message
        since(5, INT32), // partitions
        since(5, INT16), // replication factor
        since(5, list_of!(CREATED_CONFIG)),
    ],
    tagged: &[Tagged {
        tag: 0,
        since: 5,
        kind: INT16,
    }],
};
static CREATED_CONFIG: Schema = plain(&[
    always(TEXT), // name
    always(TEXT), // value
    always(BOOL), // read only
    always(INT8), // source
    always(BOOL), // sensitive
]);

static DELETE_TOPICS: Schema = plain(&[
    since(1, INT32), // throttle time
    always(list_of!(DELETED_TOPIC)),
]);
static DELETED_TOPIC: Schema = plain(&[
    always(TEXT),   // name
    since(6, UUID), // id
    always(INT16),  // error
    since(5, TEXT), // error message
]);

static DELETE_RECORDS: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(DELETE_RECORDS_TOPIC)),
]);
static DELETE_RECORDS_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(DELETE_RECORDS_PARTITION)),
]);
static DELETE_RECORDS_PARTITION: Schema = plain(&[
    always(INT32), // index
    always(INT64), // low watermark
    always(INT16), // error
]);

static INIT_PRODUCER_ID: Schema = plain(&[
    always(INT32),   // throttle time
    always(INT16),   // error
    always(INT64),   // producer id
    always(INT16),   // producer epoch
    since(6, INT64), // producer id of the ongoing transaction
    since(6, INT16), // its epoch
]);

static OFFSET_FOR_LEADER_EPOCH: Schema = plain(&[
    since(2, INT32), // throttle time
    always(list_of!(LEADER_EPOCH_TOPIC)),
]);
static LEADER_EPOCH_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(LEADER_EPOCH_PARTITION)),
]);
static LEADER_EPOCH_PARTITION: Schema = plain(&[
    always(INT16), // error
    always(INT32), // index
    always(INT32), // leader epoch
    always(INT64), // end offset
]);

static DESCRIBE_CONFIGS: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(DESCRIBED_RESOURCE)),
]);
static DESCRIBED_RESOURCE: Schema = plain(&[
    always(INT16), // error
    always(TEXT),  // error message
    always(INT8),  // resource type
    always(TEXT),  // resource name
    always(list_of!(DESCRIBED_CONFIG)),
]);
static DESCRIBED_CONFIG: Schema = plain(&[
    always(TEXT), // name
    always(TEXT), // value
    always(BOOL), // read only
    always(INT8), // source
    always(BOOL), // sensitive
    always(list_of!(CONFIG_SYNONYM)),
    since(3, INT8), // type
    since(3, TEXT), // documentation
]);
static CONFIG_SYNONYM: Schema = plain(&[
    always(TEXT), // name
    always(TEXT), // value
    always(INT8), // source
]);

static ALTER_CONFIGS: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(ALTERED_RESOURCE)),
]);
static ALTERED_RESOURCE: Schema = plain(&[
    always(INT16), // error
    always(TEXT),  // error message
    always(INT8),  // resource type
    always(TEXT),  // resource name
]);

static NAMED_RESULTS: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(NAMED_RESULT)),
]);
static NAMED_RESULT: Schema = plain(&[
    always(TEXT),  // name
    always(INT16), // error
    always(TEXT),  // error message
]);

static DELETE_GROUPS: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(DELETED_GROUP)),
]);
static DELETED_GROUP: Schema = plain(&[
    always(TEXT),  // group id
    always(INT16), // error
]);

static OFFSET_DELETE: Schema = plain(&[
    always(INT16), // error
    always(INT32), // throttle time
    always(list_of!(OFFSET_DELETE_TOPIC)),
]);
static OFFSET_DELETE_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(PARTITION_ERROR)),
]);

static LIST_CONFIG_RESOURCES: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
    always(list_of!(CONFIG_RESOURCE)),
]);

static CONFIG_RESOURCE: Schema = plain(&[
    always(TEXT),   // name
    since(1, INT8), // type
]);

static DESCRIBE_CLUSTER: Schema = plain(&[
    always(INT32),  // throttle time
    always(INT16),  // error
    always(TEXT),   // error message
    since(1, INT8), // endpoint type
    always(TEXT),   // cluster id
    always(INT32),  // controller id
    always(list_of!(CLUSTER_BROKER)),
    always(INT32), // authorized operations
]);
static CLUSTER_BROKER: Schema = plain(&[
    always(INT32),  // node id
    always(TEXT),   // host
    always(INT32),  // port
    always(TEXT),   // rack
    since(2, BOOL), // fenced
]);

static DESCRIBE_ACLS: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
    always(TEXT),  // error message
    always(list_of!(ACL_RESOURCE)),
]);
static ACL_RESOURCE: Schema = plain(&[
    always(INT8),   // resource type
    always(TEXT),   // resource name
    since(1, INT8), // pattern type
    always(list_of!(ACL)),
]);
static ACL: Schema = plain(&[
    always(TEXT), // principal
    always(TEXT), // host
    always(INT8), // operation
    always(INT8), // permission
]);
static CREATE_ACLS: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(ERROR)),
]);
static ERROR: Schema = plain(&[
    always(INT16), // error
    always(TEXT),  // error message
]);
static DELETE_ACLS: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(ACL_FILTER_RESULT)),
]);
static ACL_FILTER_RESULT: Schema = plain(&[
    always(INT16), // error
    always(TEXT),  // error message
    always(list_of!(DELETED_ACL)),
]);
static DELETED_ACL: Schema = plain(&[
    always(INT16),  // error
    always(TEXT),   // error message
    always(INT8),   // resource type
    always(TEXT),   // resource name
    since(1, INT8), // pattern type
    always(TEXT),   // principal
    always(TEXT),   // host
    always(INT8),   // operation
    always(INT8),   // permission
]);

static DESCRIBE_LOG_DIRS: Schema = plain(&[
    always(INT32),   // throttle time
    since(3, INT16), // error
    always(list_of!(LOG_DIR)),
]);
static LOG_DIR: Schema = plain(&[
    always(INT16), // error
    always(TEXT),  // path
    always(list_of!(LOG_DIR_TOPIC)),
    since(4, INT64), // total bytes
    since(4, INT64), // usable bytes
]);
static LOG_DIR_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(LOG_DIR_PARTITION)),
]);
static LOG_DIR_PARTITION: Schema = plain(&[
    always(INT32), // index
    always(INT64), // size
    always(INT64), // offset lag
    always(BOOL),  // is a future replica
]);

static ELECT_LEADERS: Schema = plain(&[
    always(INT32),   // throttle time
    since(1, INT16), // error
    always(list_of!(RESULTS_OF_TOPIC)),
]);
static RESULTS_OF_TOPIC: Schema = plain(&[
    always(TEXT), // topic
    always(list_of!(RESULT_OF_PARTITION)),
]);
static RESULT_OF_PARTITION: Schema = plain(&[
    always(INT32), // partition
    always(INT16), // error
    always(TEXT),  // error message
]);

static ALTER_PARTITION_REASSIGNMENTS: Schema = plain(&[
    always(INT32),  // throttle time
    since(1, BOOL), // allow change of the replication factor
    always(INT16),  // error
    always(TEXT),   // error message
    always(list_of!(RESULTS_OF_TOPIC)),
]);

static LIST_PARTITION_REASSIGNMENTS: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
    always(TEXT),  // error message
    always(list_of!(MOVING_TOPIC)),
]);
static MOVING_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(MOVING_PARTITION)),
]);
static MOVING_PARTITION: Schema = plain(&[
    always(INT32),  // index
    always(INT32S), // replicas
    always(INT32S), // adding replicas
    always(INT32S), // removing replicas
]);

static DESCRIBE_CLIENT_QUOTAS: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
    always(TEXT),  // error message
    always(list_of!(QUOTA)),
]);
static QUOTA: Schema = plain(&[
    always(list_of!(QUOTA_ENTITY)),
    always(list_of!(QUOTA_VALUE)),
]);
static QUOTA_ENTITY: Schema = plain(&[
    always(TEXT), // type
    always(TEXT), // name
]);
static QUOTA_VALUE: Schema = plain(&[
    always(TEXT),  // key
    always(INT64), // value, a float
]);
static ALTER_CLIENT_QUOTAS: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(ALTERED_QUOTA)),
]);
static ALTERED_QUOTA: Schema = plain(&[
    always(INT16), // error
    always(TEXT),  // error message
    always(list_of!(QUOTA_ENTITY)),
]);

static DESCRIBE_USER_SCRAM_CREDENTIALS: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
    always(TEXT),  // error message
    always(list_of!(USER_CREDENTIALS)),
]);
static USER_CREDENTIALS: Schema = plain(&[
    always(TEXT),  // user
    always(INT16), // error
    always(TEXT),  // error message
    always(list_of!(CREDENTIAL_INFO)),
]);
static CREDENTIAL_INFO: Schema = plain(&[
    always(INT8),  // mechanism
    always(INT32), // iterations
]);
static ALTER_USER_SCRAM_CREDENTIALS: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(USER_RESULT)),
]);
static USER_RESULT: Schema = plain(&[
    always(TEXT),  // user
    always(INT16), // error
    always(TEXT),  // error message
]);
