use bytes::{BufMut, BytesMut};
use kafka_protocol::{
    messages::{FetchRequest, MetadataRequest, RequestHeader, TopicName, metadata_request},
    protocol::{Encodable, encode_request_header_into_buffer},
};
use proptest::prelude::*;

use super::*;
use crate::api::SUPPORTED;

fn frame(api_key: ApiKey, version: i16, client_id: Option<&str>) -> BytesMut {
    let header = RequestHeader::default()
        .with_request_api_key(api_key as i16)
        .with_request_api_version(version)
        .with_correlation_id(42)
        .with_client_id(client_id.map(|id| StrBytes::from_string(id.to_owned())));
    let mut out = BytesMut::new();
    encode_request_header_into_buffer(&mut out, &header).expect("a header");
    out
}

#[test]
fn the_header_of_every_served_version_is_read() {
    for support in SUPPORTED {
        for version in support.min..=support.max {
            for client_id in [None, Some(""), Some("producer-1")] {
                let mut bytes = frame(support.api_key, version, client_id);
                bytes.put_slice(b"body");
                let request = parse_request(bytes.freeze()).expect("a request");
                assert_eq!(
                    (request.api_key, request.version),
                    (support.api_key, version)
                );
                assert_eq!(request.correlation_id, 42);
                assert_eq!(request.client_id.as_deref(), client_id);
                assert_eq!(
                    &request.body[..],
                    b"body",
                    "{:?} {version}",
                    support.api_key
                );
            }
        }
    }
}

#[test]
fn unknown_keys_and_versions_are_told_apart() {
    let mut unknown = frame(ApiKey::Metadata, 0, None);
    unknown[..2].copy_from_slice(&999i16.to_be_bytes());
    let expected = MalformedRequest::UnknownApi {
        api_key: 999,
        correlation_id: 42,
    };
    assert_eq!(
        parse_request(unknown.freeze()).expect_err("unknown"),
        expected
    );
    // Known to the protocol, not served.
    let mut vote = frame(ApiKey::Metadata, 0, None);
    vote[..2].copy_from_slice(&(ApiKey::Vote as i16).to_be_bytes());
    assert!(matches!(
        parse_request(vote.freeze()),
        Err(MalformedRequest::UnknownApi { .. })
    ));
    for (api_key, version) in [
        (ApiKey::ApiVersions, 99),
        (ApiKey::Produce, 2),
        (ApiKey::Fetch, -1),
    ] {
        let mut bytes = frame(ApiKey::Metadata, 0, None);
        bytes[..2].copy_from_slice(&(api_key as i16).to_be_bytes());
        bytes[2..4].copy_from_slice(&i16::to_be_bytes(version));
        let expected = MalformedRequest::UnsupportedVersion {
            api_key,
            version,
            correlation_id: 42,
        };
        assert_eq!(
            parse_request(bytes.freeze()).expect_err("not served"),
            expected
        );
    }
}

#[test]
fn tagged_fields_of_the_header_are_skipped() {
    let mut bytes = frame(ApiKey::Metadata, 12, Some("c"));
    bytes.truncate(bytes.len() - 1);
    bytes.put_slice(&[2, 0, 2, b'x', b'y', 5, 0]);
    bytes.put_slice(b"body");
    assert_eq!(
        &parse_request(bytes.freeze()).expect("a request").body[..],
        b"body"
    );
    let mut claims = frame(ApiKey::Metadata, 12, None);
    claims.truncate(claims.len() - 1);
    claims.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x0f]);
    let error = parse_request(claims.freeze()).expect_err("a claim");
    assert_eq!(
        error,
        MalformedRequest::Header(MalformedBody::TooManyElements)
    );
}

#[test]
fn the_client_id_does_not_keep_the_frame_shared() {
    let request = parse_request(frame(ApiKey::Metadata, 1, Some("client")).freeze()).expect("one");
    let Request {
        client_id, body, ..
    } = request;
    assert!(body.try_into_mut().is_ok());
    drop(client_id);
}

#[test]
fn a_body_becomes_its_message() {
    let name = TopicName(StrBytes::from_static_str("orders"));
    let topic = metadata_request::MetadataRequestTopic::default().with_name(Some(name));
    let message = MetadataRequest::default().with_topics(Some(vec![topic]));
    let mut bytes = frame(ApiKey::Metadata, 9, Some("c"));
    message.encode(&mut bytes, 9).expect("encodable");
    let request = parse_request(bytes.freeze()).expect("a request");
    assert_eq!(decode::<MetadataRequest>(&request), Ok(message));
    let other = decode::<FetchRequest>(&request).expect_err("another API");
    assert!(matches!(
        other,
        MalformedRequest::Body {
            reason: MalformedBody::OtherApi,
            ..
        }
    ));
}

#[test]
fn text_that_is_not_utf8_is_an_error_of_the_schema() {
    let mut bytes = frame(ApiKey::Metadata, 1, None);
    bytes.put_slice(&[0, 0, 0, 1, 0, 1, 0xff]);
    let request = parse_request(bytes.freeze()).expect("a request");
    let error = decode::<MetadataRequest>(&request).expect_err("not UTF-8");
    let reason = MalformedBody::Schema;
    let expected = MalformedRequest::Body {
        api_key: ApiKey::Metadata,
        version: 1,
        reason,
    };
    assert_eq!(error, expected);
}

proptest! {
    #[test]
    fn arbitrary_frames_never_panic(
        which in 0..SUPPORTED.len(),
        version in -1..20i16,
        rest in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut bytes = BytesMut::new();
        bytes.put_i16(SUPPORTED[which].api_key as i16);
        bytes.put_i16(version);
        bytes.put_slice(&rest);
        let _ = parse_request(rest.into());
        if let Ok(request) = parse_request(bytes.freeze()) {
            let _ = decode::<MetadataRequest>(&request);
            let _ = crate::split_produce(request);
        }
    }
}
