//! The schemas of the APIs of transactions, requests and responses, reduced to lengths.

use super::{Schema, fields::*};

static TXN_TOPIC: Schema = plain(&[
    always(TEXT),   // name
    always(INT32S), // partitions
]);

pub(super) static ADD_PARTITIONS_TO_TXN_REQUEST: Schema = plain(&[
    since(4, list_of!(TXN_TO_ADD_TO)),
    until(3, TEXT),  // transactional id
    until(3, INT64), // producer id
    until(3, INT16), // producer epoch
    until(3, list_of!(TXN_TOPIC)),
]);
static TXN_TO_ADD_TO: Schema = plain(&[
    always(TEXT),  // transactional id
    always(INT64), // producer id
    always(INT16), // producer epoch
    always(BOOL),  // verify only
    always(list_of!(TXN_TOPIC)),
]);

pub(super) static ADD_OFFSETS_TO_TXN_REQUEST: Schema = plain(&[
    always(TEXT),  // transactional id
    always(INT64), // producer id
    always(INT16), // producer epoch
    always(TEXT),  // group id
]);

pub(super) static END_TXN_REQUEST: Schema = plain(&[
    always(TEXT),  // transactional id
    always(INT64), // producer id
    always(INT16), // producer epoch
    always(BOOL),  // committed
]);

pub(super) static WRITE_TXN_MARKERS_REQUEST: Schema = plain(&[always(list_of!(TXN_MARKER))]);
static TXN_MARKER: Schema = plain(&[
    always(INT64), // producer id
    always(INT16), // producer epoch
    always(BOOL),  // committed
    always(list_of!(TXN_TOPIC)),
    always(INT32), // coordinator epoch
]);

pub(super) static TXN_OFFSET_COMMIT_REQUEST: Schema = plain(&[
    always(TEXT),    // transactional id
    always(TEXT),    // group id
    always(INT64),   // producer id
    always(INT16),   // producer epoch
    since(3, INT32), // generation
    since(3, TEXT),  // member id
    since(3, TEXT),  // group instance id
    always(list_of!(TXN_OFFSET_COMMIT_TOPIC)),
]);
static TXN_OFFSET_COMMIT_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(TXN_OFFSET_COMMIT_PARTITION)),
]);
static TXN_OFFSET_COMMIT_PARTITION: Schema = plain(&[
    always(INT32),   // partition
    always(INT64),   // offset
    since(2, INT32), // leader epoch
    always(TEXT),    // metadata
]);

pub(super) static DESCRIBE_TRANSACTIONS_REQUEST: Schema = plain(&[always(TEXTS)]); // transactional ids

pub(super) static LIST_TRANSACTIONS_REQUEST: Schema = plain(&[
    always(TEXTS),              // states
    always(Kind::List(&INT64)), // producer ids
    since(1, INT64),            // shortest duration
    since(2, TEXT),             // pattern of transactional ids
]);

pub(super) static ADD_PARTITIONS_TO_TXN_RESPONSE: Schema = plain(&[
    always(INT32),   // throttle time
    since(4, INT16), // error
    since(4, list_of!(TXN_ADDED_TO)),
    until(3, list_of!(TXN_TOPIC_RESULT)),
]);
static TXN_ADDED_TO: Schema = plain(&[
    always(TEXT), // transactional id
    always(list_of!(TXN_TOPIC_RESULT)),
]);
static TXN_TOPIC_RESULT: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(TXN_PARTITION_RESULT)),
]);
static TXN_PARTITION_RESULT: Schema = plain(&[
    always(INT32), // partition
    always(INT16), // error
]);

pub(super) static ADD_OFFSETS_TO_TXN_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
]);

pub(super) static END_TXN_RESPONSE: Schema = plain(&[
    always(INT32),   // throttle time
    always(INT16),   // error
    since(5, INT64), // producer id
    since(5, INT16), // producer epoch
]);

pub(super) static WRITE_TXN_MARKERS_RESPONSE: Schema =
    plain(&[always(list_of!(TXN_MARKER_RESULT))]);
static TXN_MARKER_RESULT: Schema = plain(&[
    always(INT64), // producer id
    always(list_of!(TXN_TOPIC_RESULT)),
]);

pub(super) static TXN_OFFSET_COMMIT_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(TXN_TOPIC_RESULT)),
]);

pub(super) static DESCRIBE_TRANSACTIONS_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(TRANSACTION_STATE)),
]);
static TRANSACTION_STATE: Schema = plain(&[
    always(INT16), // error
    always(TEXT),  // transactional id
    always(TEXT),  // state
    always(INT32), // timeout
    always(INT64), // start time
    always(INT64), // producer id
    always(INT16), // producer epoch
    always(list_of!(TXN_TOPIC)),
]);

pub(super) static LIST_TRANSACTIONS_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
    always(TEXTS), // unknown states
    always(list_of!(LISTED_TRANSACTION)),
]);
static LISTED_TRANSACTION: Schema = plain(&[
    always(TEXT),  // transactional id
    always(INT64), // producer id
    always(TEXT),  // state
]);
