//! The schemas of client metrics (KIP-714), requests and responses, reduced to lengths.

use super::{Schema, fields::*};

pub(super) static GET_SUBSCRIPTIONS_REQUEST: Schema = plain(&[
    always(UUID), // client instance id
]);

pub(super) static GET_SUBSCRIPTIONS_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
    always(UUID),  // client instance id
    always(INT32), // subscription id
    always(INT8S), // accepted compression types
    always(INT32), // push interval
    always(INT32), // most bytes
    always(BOOL),  // delta temporality
    always(TEXTS), // requested metrics
]);

pub(super) static PUSH_REQUEST: Schema = plain(&[
    always(UUID),  // client instance id
    always(INT32), // subscription id
    always(BOOL),  // terminating
    always(INT8),  // compression type
    always(BLOB),  // metrics
]);

pub(super) static PUSH_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
]);
