//! The schemas of DescribeProducers, request and response, reduced to lengths.

use super::{Schema, fields::*};

pub(super) static DESCRIBE_PRODUCERS_REQUEST: Schema = plain(&[always(list_of!(TOPIC))]);
static TOPIC: Schema = plain(&[
    always(TEXT),   // name
    always(INT32S), // partitions
]);

pub(super) static DESCRIBE_PRODUCERS_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(list_of!(PRODUCERS_OF_TOPIC)),
]);
static PRODUCERS_OF_TOPIC: Schema = plain(&[
    always(TEXT), // name
    always(list_of!(PRODUCERS_OF_PARTITION)),
]);
static PRODUCERS_OF_PARTITION: Schema = plain(&[
    always(INT32), // partition
    always(INT16), // error
    always(TEXT),  // error message
    always(list_of!(PRODUCER_STATE)),
]);
static PRODUCER_STATE: Schema = plain(&[
    always(INT64), // producer id
    always(INT32), // producer epoch
    always(INT32), // last sequence
    always(INT64), // last timestamp
    always(INT32), // coordinator epoch
    always(INT64), // first offset of the open transaction
]);
