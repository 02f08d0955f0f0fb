//! The schemas of the APIs of share groups (KIP-932) that the group coordinator serves, request and response, reduced to lengths.

use super::{Kind, Schema, fields::*};

pub(super) static HEARTBEAT_REQUEST: Schema = plain(&[
    always(TEXT),  // group id
    always(TEXT),  // member id
    always(INT32), // member epoch
    always(TEXT),  // rack
    always(TEXTS), // subscribed topics
]);
pub(super) static HEARTBEAT_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
    always(TEXT),  // error message
    always(TEXT),  // member id
    always(INT32), // member epoch
    always(INT32), // heartbeat interval
    always(Kind::NullableStruct(&ASSIGNMENT_BY_ID)),
]);
static ASSIGNMENT_BY_ID: Schema = plain(&[always(list_of!(ASSIGNED_BY_ID))]);
static ASSIGNED_BY_ID: Schema = plain(&[
    always(UUID),   // topic id
    always(INT32S), // partitions
]);

pub(super) static DESCRIBE_REQUEST: Schema = plain(&[
    always(TEXTS), // group ids
    always(BOOL),  // with authorized operations
]);
pub(super) static DESCRIBE_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(GROUP)),
]);
static GROUP: Schema = plain(&[
    always(INT16), // error
    always(TEXT),  // error message
    always(TEXT),  // group id
    always(TEXT),  // state
    always(INT32), // group epoch
    always(INT32), // assignment epoch
    always(TEXT),  // assignor
    always(list_of!(MEMBER)),
    always(INT32), // authorized operations
]);
static MEMBER: Schema = plain(&[
    always(TEXT),  // member id
    always(TEXT),  // rack
    always(INT32), // member epoch
    always(TEXT),  // client id
    always(TEXT),  // client host
    always(TEXTS), // subscribed topics
    always(Kind::Struct(&ASSIGNMENT)),
]);
static ASSIGNMENT: Schema = plain(&[always(list_of!(ASSIGNED))]);
static ASSIGNED: Schema = plain(&[
    always(UUID),   // topic id
    always(TEXT),   // topic
    always(INT32S), // partitions
]);

pub(super) static DESCRIBE_OFFSETS_REQUEST: Schema = plain(&[always(list_of!(ASKED_GROUP))]);
static ASKED_GROUP: Schema = plain(&[
    always(TEXT), // group id
    always(list_of!(ASKED_TOPIC)),
]);
static ASKED_TOPIC: Schema = plain(&[
    always(TEXT),   // topic
    always(INT32S), // partitions
]);
pub(super) static DESCRIBE_OFFSETS_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(OFFSETS_OF_GROUP)),
]);
static OFFSETS_OF_GROUP: Schema = plain(&[
    always(TEXT), // group id
    always(list_of!(OFFSETS_OF_TOPIC)),
    always(INT16), // error
    always(TEXT),  // error message
]);
static OFFSETS_OF_TOPIC: Schema = plain(&[
    always(TEXT), // topic
    always(UUID), // topic id
    always(list_of!(OFFSET)),
]);
static OFFSET: Schema = plain(&[
    always(INT32), // partition
    always(INT64), // start offset
    always(INT32), // leader epoch
    always(INT16), // error
    always(TEXT),  // error message
]);

pub(super) static ALTER_OFFSETS_REQUEST: Schema = plain(&[
    always(TEXT), // group id
    always(list_of!(ALTERED_TOPIC)),
]);
static ALTERED_TOPIC: Schema = plain(&[
    always(TEXT), // topic
    always(list_of!(ALTERED_PARTITION)),
]);
static ALTERED_PARTITION: Schema = plain(&[
    always(INT32), // partition
    always(INT64), // start offset
]);
pub(super) static ALTER_OFFSETS_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
    always(TEXT),  // error message
    always(list_of!(RESULTS_OF_TOPIC)),
]);
static RESULTS_OF_TOPIC: Schema = plain(&[
    always(TEXT), // topic
    always(UUID), // topic id
    always(list_of!(RESULT)),
]);
static RESULT: Schema = plain(&[
    always(INT32), // partition
    always(INT16), // error
    always(TEXT),  // error message
]);

pub(super) static DELETE_OFFSETS_REQUEST: Schema = plain(&[
    always(TEXT), // group id
    always(list_of!(DELETED_TOPIC)),
]);
static DELETED_TOPIC: Schema = plain(&[always(TEXT)]); // topic
pub(super) static DELETE_OFFSETS_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
    always(TEXT),  // error message
    always(list_of!(RESULT_OF_TOPIC)),
]);
static RESULT_OF_TOPIC: Schema = plain(&[
    always(TEXT),  // topic
    always(UUID),  // topic id
    always(INT16), // error
    always(TEXT),  // error message
]);
