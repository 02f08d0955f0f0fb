//! The schemas of ShareFetch and ShareAcknowledge, requests and responses, reduced to lengths.

use kafka_protocol::messages::ApiKey;

use super::{Schema, fields::*};

/// The first flexible version of a request, and its schema.
pub(super) fn request_of(api_key: ApiKey) -> Option<(i16, &'static Schema)> {
    match api_key {
        ApiKey::ShareFetch => Some((0, &SHARE_FETCH_REQUEST)),
        ApiKey::ShareAcknowledge => Some((0, &SHARE_ACKNOWLEDGE_REQUEST)),
        _ => None,
    }
}

/// The same of its response.
pub(super) fn response_of(api_key: ApiKey) -> Option<(i16, &'static Schema)> {
    match api_key {
        ApiKey::ShareFetch => Some((0, &SHARE_FETCH_RESPONSE)),
        ApiKey::ShareAcknowledge => Some((0, &SHARE_ACKNOWLEDGE_RESPONSE)),
        _ => None,
    }
}

static SHARE_FETCH_REQUEST: Schema = plain(&[
    always(TEXT),  // group id
    always(TEXT),  // member id
    always(INT32), // share session epoch
    always(INT32), // max wait
    always(INT32), // min bytes
    always(INT32), // max bytes
    always(INT32), // max records
    always(INT32), // batch size
    always(list_of!(FETCH_TOPIC)),
    always(list_of!(FORGOTTEN_TOPIC)),
]);
static FETCH_TOPIC: Schema = plain(&[
    always(UUID), // topic id
    always(list_of!(ACKNOWLEDGED_PARTITION)),
]);
static FORGOTTEN_TOPIC: Schema = plain(&[
    always(UUID),   // topic id
    always(INT32S), // partitions
]);

static SHARE_ACKNOWLEDGE_REQUEST: Schema = plain(&[
    always(TEXT),  // group id
    always(TEXT),  // member id
    always(INT32), // share session epoch
    always(list_of!(FETCH_TOPIC)),
]);
static ACKNOWLEDGED_PARTITION: Schema = plain(&[
    always(INT32), // partition
    always(list_of!(ACKNOWLEDGEMENT_BATCH)),
]);
static ACKNOWLEDGEMENT_BATCH: Schema = plain(&[
    always(INT64), // first offset
    always(INT64), // last offset
    always(INT8S), // acknowledge types
]);

static SHARE_FETCH_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
    always(TEXT),  // error message
    always(INT32), // acquisition lock timeout
    always(list_of!(FETCHED_TOPIC)),
    always(list_of!(NODE_ENDPOINT)),
]);
static FETCHED_TOPIC: Schema = plain(&[
    always(UUID), // topic id
    always(list_of!(FETCHED_PARTITION)),
]);
static FETCHED_PARTITION: Schema = plain(&[
    always(INT32), // partition
    always(INT16), // error
    always(TEXT),  // error message
    always(INT16), // acknowledge error
    always(TEXT),  // acknowledge error message
    always(Kind::Struct(&LEADER)),
    always(BLOB), // records
    always(list_of!(ACQUIRED_RECORDS)),
]);
static ACQUIRED_RECORDS: Schema = plain(&[
    always(INT64), // first offset
    always(INT64), // last offset
    always(INT16), // delivery count
]);
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

static SHARE_ACKNOWLEDGE_RESPONSE: Schema = plain(&[
    always(INT32), // throttle time
    always(INT16), // error
    always(TEXT),  // error message
    always(list_of!(ACKNOWLEDGED_TOPIC)),
    always(list_of!(NODE_ENDPOINT)),
]);
static ACKNOWLEDGED_TOPIC: Schema = plain(&[
    always(UUID), // topic id
    always(list_of!(ACKNOWLEDGED)),
]);
static ACKNOWLEDGED: Schema = plain(&[
    always(INT32), // partition
    always(INT16), // error
    always(TEXT),  // error message
    always(Kind::Struct(&LEADER)),
]);
