//! The schemas of the APIs of the share coordinator (KIP-932), requests and responses, reduced to lengths.

use super::{Schema, fields::*};

pub(super) static INITIALIZE_REQUEST: Schema = plain(&[
    always(TEXT), // group id
    always(list_of!(INITIALIZED_TOPIC)),
]);
static INITIALIZED_TOPIC: Schema = plain(&[
    always(UUID), // topic id
    always(list_of!(INITIALIZED_PARTITION)),
]);
static INITIALIZED_PARTITION: Schema = plain(&[
    always(INT32), // partition
    always(INT32), // state epoch
    always(INT64), // start offset
]);

/// Of both reads.
pub(super) static READ_REQUEST: Schema = plain(&[
    always(TEXT), // group id
    always(list_of!(TOPIC_TO_READ)),
]);
static TOPIC_TO_READ: Schema = plain(&[
    always(UUID), // topic id
    always(list_of!(PARTITION_TO_READ)),
]);
static PARTITION_TO_READ: Schema = plain(&[
    always(INT32), // partition
    always(INT32), // leader epoch
]);

pub(super) static WRITE_REQUEST: Schema = plain(&[
    always(TEXT), // group id
    always(list_of!(WRITTEN_TOPIC)),
]);
static WRITTEN_TOPIC: Schema = plain(&[
    always(UUID), // topic id
    always(list_of!(WRITTEN_PARTITION)),
]);
static WRITTEN_PARTITION: Schema = plain(&[
    always(INT32), // partition
    always(INT32), // state epoch
    always(INT32), // leader epoch
    always(INT64), // start offset
    always(list_of!(STATE_BATCH)),
]);
static STATE_BATCH: Schema = plain(&[
    always(INT64), // first offset
    always(INT64), // last offset
    always(INT8),  // delivery state
    always(INT16), // delivery count
]);

pub(super) static DELETE_REQUEST: Schema = plain(&[
    always(TEXT), // group id
    always(list_of!(DELETED_TOPIC)),
]);
static DELETED_TOPIC: Schema = plain(&[
    always(UUID), // topic id
    always(list_of!(DELETED_PARTITION)),
]);
static DELETED_PARTITION: Schema = plain(&[always(INT32)]); // partition

/// Of all that change something.
pub(super) static CHANGE_RESPONSE: Schema = plain(&[always(list_of!(CHANGED_TOPIC))]);
static CHANGED_TOPIC: Schema = plain(&[
    always(UUID), // topic id
    always(list_of!(CHANGED_PARTITION)),
]);
static CHANGED_PARTITION: Schema = plain(&[
    always(INT32), // partition
    always(INT16), // error
    always(TEXT),  // error message
]);

pub(super) static READ_RESPONSE: Schema = plain(&[always(list_of!(READ_TOPIC))]);
static READ_TOPIC: Schema = plain(&[
    always(UUID), // topic id
    always(list_of!(READ_PARTITION)),
]);
static READ_PARTITION: Schema = plain(&[
    always(INT32), // partition
    always(INT16), // error
    always(TEXT),  // error message
    always(INT32), // state epoch
    always(INT64), // start offset
    always(list_of!(STATE_BATCH)),
]);

pub(super) static READ_SUMMARY_RESPONSE: Schema = plain(&[always(list_of!(SUMMARIZED_TOPIC))]);
static SUMMARIZED_TOPIC: Schema = plain(&[
    always(UUID), // topic id
    always(list_of!(SUMMARIZED_PARTITION)),
]);
static SUMMARIZED_PARTITION: Schema = plain(&[
    always(INT32), // partition
    always(INT16), // error
    always(TEXT),  // error message
    always(INT32), // state epoch
    always(INT32), // leader epoch
    always(INT64), // start offset
]);
