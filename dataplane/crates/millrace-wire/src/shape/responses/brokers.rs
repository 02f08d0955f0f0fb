//! The schemas of responses about brokers, and about what they run and keep.

use crate::shape::{Schema, fields::*};

pub(super) static UPDATE_FEATURES: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
    always(TEXT),  // error message
    until(1, list_of!(UPDATED_FEATURE)),
]);
static UPDATED_FEATURE: Schema = plain(&[
    always(TEXT),  // feature
    always(INT16), // error
    always(TEXT),  // error message
]);

pub(super) static DESCRIBE_QUORUM: Schema = plain(&[
    always(INT16),  // error
    since(2, TEXT), // error message
    always(list_of!(QUORUM_TOPIC)),
    since(2, list_of!(QUORUM_NODE)),
]);
static QUORUM_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(QUORUM_PARTITION)),
]);
static QUORUM_PARTITION: Schema = plain(&[
    always(INT32),  // index
    always(INT16),  // error
    since(2, TEXT), // error message
    always(INT32),  // leader id
    always(INT32),  // leader epoch
    always(INT64),  // high watermark
    always(list_of!(QUORUM_REPLICA)),
    always(list_of!(QUORUM_REPLICA)), // observers
]);
static QUORUM_REPLICA: Schema = plain(&[
    always(INT32),   // id
    since(2, UUID),  // directory id
    always(INT64),   // log end offset
    since(1, INT64), // last fetch
    since(1, INT64), // last caught up
]);
static QUORUM_NODE: Schema = plain(&[
    always(INT32), // id
    always(list_of!(QUORUM_LISTENER)),
]);
static QUORUM_LISTENER: Schema = plain(&[
    always(TEXT),  // name
    always(TEXT),  // host
    always(INT16), // port
]);

pub(super) static DESCRIBE_TOPIC_PARTITIONS: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(TOPIC_WITH_PARTITIONS)),
    always(Kind::NullableStruct(&PARTITION_CURSOR)),
]);
static TOPIC_WITH_PARTITIONS: Schema = plain(&[
    always(INT16), // error
    always(TEXT),  // name
    always(UUID),  // id
    always(BOOL),  // is internal
    always(list_of!(DESCRIBED_PARTITION)),
    always(INT32), // authorized operations
]);
static DESCRIBED_PARTITION: Schema = plain(&[
    always(INT16),  // error
    always(INT32),  // index
    always(INT32),  // leader id
    always(INT32),  // leader epoch
    always(INT32S), // replicas
    always(INT32S), // in-sync replicas
    always(INT32S), // eligible leaders
    always(INT32S), // last known eligible leaders
    always(INT32S), // offline replicas
]);
static PARTITION_CURSOR: Schema = plain(&[
    always(TEXT),  // topic
    always(INT32), // partition
]);

pub(super) static ALTER_REPLICA_LOG_DIRS: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(LOG_DIRS_OF_TOPIC)),
]);
static LOG_DIRS_OF_TOPIC: Schema = plain(&[
    always(TEXT), // topic
    always(list_of!(ALTERED_PARTITION)),
]);
static ALTERED_PARTITION: Schema = plain(&[
    always(INT32), // index
    always(INT16), // error
]);
