//! The schemas of responses about consumer groups of the new protocol.

use crate::shape::{Kind, Schema, fields::*};

pub(super) static CONSUMER_GROUP_HEARTBEAT: Schema = plain(&[
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

pub(super) static CONSUMER_GROUP_DESCRIBE: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(CONSUMER_GROUP)),
]);
static CONSUMER_GROUP: Schema = plain(&[
    always(INT16), // error
    always(TEXT),  // error message
    always(TEXT),  // group id
    always(TEXT),  // state
    always(INT32), // group epoch
    always(INT32), // assignment epoch
    always(TEXT),  // assignor
    always(list_of!(CONSUMER_GROUP_MEMBER)),
    always(INT32), // authorized operations
]);
static CONSUMER_GROUP_MEMBER: Schema = plain(&[
    always(TEXT),  // member id
    always(TEXT),  // group instance id
    always(TEXT),  // rack
    always(INT32), // member epoch
    always(TEXT),  // client id
    always(TEXT),  // client host
    always(TEXTS), // subscribed topics
    always(TEXT),  // subscribed expression
    always(Kind::Struct(&ASSIGNMENT)),
    always(Kind::Struct(&ASSIGNMENT)), // target
    since(1, INT8),                    // member type
]);
static ASSIGNMENT: Schema = plain(&[always(list_of!(ASSIGNED))]);
static ASSIGNED: Schema = plain(&[
    always(UUID),   // topic id
    always(TEXT),   // topic
    always(INT32S), // partitions
]);
