//! Requests that name topics by id in versions that the codec does not know. They are rewritten as the version before, in
//! which a name stands at the same place: the text of the id is put there.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;
use uuid::{Uuid, fmt::Hyphenated};

use crate::shape::{ID_BYTES, MalformedBody, check_ids};

/// Bytes of an id's text, with its length before it.
const TEXT_BYTES: usize = 1 + Hyphenated::LENGTH;

/// The version that a request is rewritten as; nothing where the codec reads it as it is.
pub(crate) const fn rewritten_version(api_key: ApiKey, version: i16) -> Option<i16> {
    match (api_key, version) {
        (ApiKey::OffsetCommit | ApiKey::OffsetFetch, 10) => Some(9),
        _ => None,
    }
}

/// Checks the body of a request that has ids in the place of names, and puts their texts there.
///
/// # Errors
/// As [`crate::shape::check`].
pub(crate) fn rewrite(api_key: ApiKey, version: i16, body: &Bytes) -> Result<Bytes, MalformedBody> {
    let places = check_ids(api_key, version, body)?;
    let mut rewritten = BytesMut::with_capacity(body.len() + places.len() * TEXT_BYTES);
    let mut rest = &body[..];
    let mut at = 0;
    for place in places {
        let cut = rest.split_at_checked(place - at);
        let (before, behind) = cut.ok_or(MalformedBody::Truncated)?;
        let id = behind.split_first_chunk::<ID_BYTES>();
        let (id, behind) = id.ok_or(MalformedBody::Truncated)?;
        rewritten.put_slice(before);
        put_text(&mut rewritten, Uuid::from_bytes(*id));
        (rest, at) = (behind, place + ID_BYTES);
    }
    rewritten.put_slice(rest);
    Ok(rewritten.freeze())
}

/// A compact string of this id.
fn put_text(out: &mut BytesMut, id: Uuid) {
    let mut text = [0; Hyphenated::LENGTH];
    let text = id.hyphenated().encode_lower(&mut text);
    // One more than the length, which fits into a byte.
    out.put_u8(u8::try_from(TEXT_BYTES).unwrap_or_default());
    out.put_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use kafka_protocol::{
        messages::{
            GroupId, OffsetCommitRequest, TopicName,
            offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        },
        protocol::{Encodable, StrBytes},
    };

    use super::*;
    use crate::{Request, decode};

    const IDS: [Uuid; 2] = [Uuid::from_u128(1), Uuid::from_u128(u128::MAX)];

    /// A commit whose topics have these names.
    fn commit(names: [String; 2]) -> OffsetCommitRequest {
        let topic = |name| {
            let partition = OffsetCommitRequestPartition::default().with_committed_offset(7);
            OffsetCommitRequestTopic::default()
                .with_name(TopicName(StrBytes::from_string(name)))
                .with_partitions(vec![partition])
        };
        OffsetCommitRequest::default()
            .with_group_id(GroupId(StrBytes::from_static_str("g")))
            .with_topics(names.map(topic).to_vec())
    }

    /// The same as version 10 writes it.
    fn body() -> Bytes {
        // A name of 16 bytes differs from an id by its length alone.
        let mut out = BytesMut::new();
        let names = ["a".repeat(ID_BYTES), "b".repeat(ID_BYTES)];
        commit(names.clone())
            .encode(&mut out, 9)
            .expect("encodable");
        let mut bytes = out.to_vec();
        for (name, id) in names.iter().zip(IDS) {
            let found = bytes.windows(ID_BYTES).position(|at| at == name.as_bytes());
            let at = found.expect("a name");
            bytes.splice(at - 1..at + ID_BYTES, id.into_bytes());
        }
        bytes.into()
    }

    fn request(body: Bytes) -> Request {
        Request {
            api_key: ApiKey::OffsetCommit,
            version: 10,
            correlation_id: 1,
            client_id: None,
            frame_bytes: body.len(),
            body,
        }
    }

    #[test]
    fn ids_stand_in_the_place_of_names() {
        let decoded: OffsetCommitRequest = decode(&request(body())).expect("legal");
        assert_eq!(decoded, commit(IDS.map(|id| id.to_string())));
    }

    #[test]
    fn a_cut_body_is_refused() {
        let body = body();
        for end in 0..body.len() {
            let cut = request(body.slice(..end));
            assert!(decode::<OffsetCommitRequest>(&cut).is_err(), "{end}");
        }
    }
}
