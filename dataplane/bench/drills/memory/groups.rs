//! Groups whose members subscribe to more than the broker has room for.

use std::{collections::BTreeMap, io, net::SocketAddr};

use bytes::Bytes;
use millrace_wire::{
    StrBytes,
    error_code::ErrorCode,
    messages::{GroupId, JoinGroupRequest, join_group_request::JoinGroupRequestProtocol},
};

use crate::wire::Wire;

/// The last version in which a member joins without being told its id first.
const JOIN_VERSION: i16 = 3;
/// What a member subscribes with: six hundred topics with names of a hundred bytes.
const SUBSCRIPTION_BYTES: usize = 64 << 10;
/// Joins that are sent before their answers are read.
const AT_ONCE: usize = 32;
const SESSION_MS: i32 = 30 * 60 * 1_000;

/// Lets the members of so many groups join; how many were answered with which error code.
pub(crate) fn join(address: SocketAddr, count: usize) -> io::Result<BTreeMap<i16, usize>> {
    let mut wire = Wire::connect(address)?;
    let mut answers = BTreeMap::new();
    for first in (0..count).step_by(AT_ONCE) {
        let requests: Vec<_> = (first..count.min(first + AT_ONCE)).map(request).collect();
        for answer in wire.call_all(JOIN_VERSION, &requests)? {
            *answers.entry(answer.error_code).or_default() += 1;
        }
    }
    Ok(answers)
}

/// Whether a code says that there is no room, and nothing else.
pub(crate) fn says_no_room(code: i16) -> bool {
    let codes = [ErrorCode::GroupMaxSizeReached, ErrorCode::PolicyViolation];
    codes.iter().any(|known| known.code() == code)
}

fn request(number: usize) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(StrBytes::from_static_str("range"))
        .with_metadata(Bytes::from(vec![7; SUBSCRIPTION_BYTES]));
    JoinGroupRequest::default()
        .with_group_id(GroupId(StrBytes::from_string(format!("large-{number}"))))
        .with_session_timeout_ms(SESSION_MS)
        .with_rebalance_timeout_ms(SESSION_MS)
        .with_protocol_type(StrBytes::from_static_str("consumer"))
        .with_protocols(vec![protocol])
}
