//! Listeners whose clients authenticate: what passes before, and when a session ends.

use std::{
    collections::HashMap,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiVersionsRequest, ListGroupsRequest, MetadataRequest, SaslAuthenticateRequest,
    SaslAuthenticateResponse, SaslHandshakeRequest,
};
use millrace_api::{SaslListener, Security};
use millrace_security::{credentials::PlainUsers, sasl::Mechanism};
use millrace_wire::service::{CloseReason, Identity, Peer, Service};
use tokio::time::timeout;

use crate::{
    client_quotas::entry,
    world::{Sent, Settings, World, answer, frame, text},
};

const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
const ILLEGAL_SASL_STATE: i16 = 34;
const SASL_AUTHENTICATION_FAILED: i16 = 58;

const SESSION: Duration = Duration::from_millis(300);

fn listener(session_max: Option<Duration>) -> SaslListener {
    let user = |name: &str| (name.to_owned(), "secret".to_owned());
    SaslListener {
        only: None,
        mechanisms: vec![Mechanism::Plain],
        plain: PlainUsers::new([user("alice"), user("bob")]),
        tokens: None,
        session_max,
    }
}

fn security() -> Security {
    let sasl = HashMap::from([
        ("SASL".to_owned(), listener(None)),
        ("SHORT".to_owned(), listener(Some(SESSION))),
    ]);
    Security {
        sasl,
        ..Security::open()
    }
}

pub(crate) async fn world() -> World {
    World::with(Settings {
        security,
        ..Settings::default()
    })
    .await
}

pub(crate) fn stranger(number: u64, listener: &str) -> Arc<Peer> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 50_000));
    let identity = Identity::to_authenticate();
    Arc::new(Peer::with_identity(
        number,
        address,
        listener.into(),
        identity,
    ))
}

async fn handshake(world: &World, peer: &Arc<Peer>, mechanism: &str) -> i16 {
    let request = SaslHandshakeRequest::default().with_mechanism(text(mechanism));
    let response = world.ask_as(peer, 1, &request).await;
    if response.error_code != ILLEGAL_SASL_STATE {
        assert_eq!(response.mechanisms, [text("PLAIN")]);
    }
    response.error_code
}

fn token(token: &'static [u8]) -> SaslAuthenticateRequest {
    SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from_static(token))
}

/// Tries to sign in from a new connection, which is refused.
pub(crate) async fn fails(world: &World, mechanism: &str, message: &'static [u8]) {
    let peer = stranger(90, "SASL");
    if handshake(world, &peer, mechanism).await == 0 {
        let response = world.ask_as(&peer, 2, &token(message)).await;
        assert_eq!(response.error_code, SASL_AUTHENTICATION_FAILED);
    }
    world.service.disconnected(&peer);
}

async fn sign_in(world: &World, peer: &Arc<Peer>) -> SaslAuthenticateResponse {
    assert_eq!(handshake(world, peer, "PLAIN").await, 0);
    let response = world.ask_as(peer, 2, &token(b"\0alice\0secret")).await;
    assert_eq!(response.error_code, 0, "{:?}", response.error_message);
    response
}

async fn lists_groups(world: &World, peer: &Arc<Peer>) -> Result<(), CloseReason> {
    match world.send_as(peer, 4, &ListGroupsRequest::default()).await {
        Sent::Closed(reason) => Err(reason),
        sent => {
            answer::<ListGroupsRequest>(4, sent).await;
            Ok(())
        }
    }
}

#[tokio::test]
async fn nothing_but_signing_in_passes_before() {
    let world = world().await;
    let peer = stranger(2, "SASL");
    let versions = ApiVersionsRequest::default()
        .with_client_software_name(text("test"))
        .with_client_software_version(text("1"));
    assert_eq!(world.ask_as(&peer, 4, &versions).await.error_code, 0);
    let early = Err(CloseReason::NotAuthenticated);
    assert_eq!(lists_groups(&world, &peer).await, early);
    let metadata = MetadataRequest::default();
    let sent = world.send_as(&peer, 12, &metadata).await;
    assert!(matches!(sent, Sent::Closed(CloseReason::NotAuthenticated)));
    assert_eq!(handshake(&world, &peer, "PLAIN").await, 0);
    assert_eq!(
        lists_groups(&world, &peer).await,
        early,
        "half way is not enough"
    );

    let peer = stranger(3, "SASL");
    let response = sign_in(&world, &peer).await;
    assert_eq!(response.session_lifetime_ms, 0);
    assert_eq!(peer.identity.principal(), Some("User:alice"));
    assert_eq!(lists_groups(&world, &peer).await, Ok(()));
    assert_eq!(
        handshake(&world, &peer, "PLAIN").await,
        ILLEGAL_SASL_STATE,
        "sessions have no end here"
    );
}

/// Strangers could spend the request quota of a client id that is not theirs.
#[tokio::test]
async fn signing_in_costs_no_request_quota() {
    let world = world().await;
    let tiny = [entry(
        &[("client-id", None)],
        &[("request_percentage", Some(1e-9))],
    )];
    assert_eq!(world.alter_quotas(tiny.into()).await[0].0, 0);
    let peer = stranger(2, "SASL");
    let versions = ApiVersionsRequest::default()
        .with_client_software_name(text("test"))
        .with_client_software_version(text("1"));
    world.ask_as(&peer, 4, &versions).await;
    sign_in(&world, &peer).await;
    assert_eq!(peer.throttle.left(Duration::ZERO), None);
    world.ask_as(&peer, 4, &versions).await;
    assert!(peer.throttle.left(Duration::ZERO).is_some());
}

#[tokio::test]
async fn a_refusal_says_no_more_than_it_must_and_ends_the_connection() {
    let world = world().await;
    let mut texts = Vec::new();
    for (number, wrong) in [&b"\0alice\0wrong"[..], b"\0mallory\0secret"]
        .iter()
        .enumerate()
    {
        let peer = stranger(number as u64 + 10, "SASL");
        assert_eq!(handshake(&world, &peer, "PLAIN").await, 0);
        let sent = world.send_as(&peer, 2, &token(wrong)).await;
        assert!(matches!(
            sent,
            Sent::Last(_, CloseReason::AuthenticationFailed(_))
        ));
        let response = answer::<SaslAuthenticateRequest>(2, sent).await;
        assert_eq!(response.error_code, SASL_AUTHENTICATION_FAILED);
        texts.push(response.error_message);
        // Frames that were on their way get nowhere.
        let late = world.ask_as(&peer, 2, &token(b"\0alice\0secret")).await;
        assert_eq!(late.error_code, SASL_AUTHENTICATION_FAILED);
        assert_eq!(peer.identity.principal(), None);
    }
    assert_eq!(texts[0], texts[1]);

    let peer = stranger(20, "SASL");
    let other = handshake(&world, &peer, "SCRAM-SHA-256").await;
    assert_eq!(other, UNSUPPORTED_SASL_MECHANISM);
    // A switch in the middle.
    let peer = stranger(21, "SASL");
    assert_eq!(handshake(&world, &peer, "PLAIN").await, 0);
    assert_eq!(handshake(&world, &peer, "PLAIN").await, ILLEGAL_SASL_STATE);
}

#[tokio::test]
async fn a_session_ends_unless_the_same_user_signs_in_again() {
    let world = world().await;
    let peer = stranger(2, "SHORT");
    let response = sign_in(&world, &peer).await;
    assert_eq!(response.session_lifetime_ms, 300);
    assert_eq!(lists_groups(&world, &peer).await, Ok(()));
    tokio::time::sleep(SESSION).await;
    let expired = Err(CloseReason::SessionExpired);
    assert_eq!(lists_groups(&world, &peer).await, expired);
    sign_in(&world, &peer).await;
    assert_eq!(lists_groups(&world, &peer).await, Ok(()));

    assert_eq!(handshake(&world, &peer, "PLAIN").await, 0);
    let other = world.ask_as(&peer, 2, &token(b"\0bob\0secret")).await;
    assert_eq!(other.error_code, SASL_AUTHENTICATION_FAILED);
    assert_eq!(peer.identity.principal(), Some("User:alice"));
}

/// KIP-43: after version 0 of the handshake, tokens have no header.
#[tokio::test]
async fn tokens_without_a_header() {
    let world = world().await;
    let begin = async |number| {
        let peer = stranger(number, "SASL");
        let request = SaslHandshakeRequest::default().with_mechanism(text("PLAIN"));
        assert_eq!(world.ask_as(&peer, 0, &request).await.error_code, 0);
        peer
    };
    let peer = begin(2).await;
    let sent = world
        .send_frame_as(&peer, BytesMut::from(&b"\0alice\0secret"[..]))
        .await;
    let Sent::Answer(bytes) = sent else {
        panic!("an empty frame answers the last token");
    };
    assert_eq!(bytes, Bytes::from_static(&[0; 4]));
    assert_eq!(lists_groups(&world, &peer).await, Ok(()));
    let peer = begin(3).await;
    let wrong = BytesMut::from(&b"\0alice\0wrong"[..]);
    let mut sent = pin!(world.send_frame_as(&peer, wrong));
    // Kafka's delay of a refusal is 100 ms.
    let early = timeout(Duration::from_millis(50), &mut sent).await;
    assert!(early.is_err(), "guessing is slow here, too");
    let sent = sent.await;
    let reason = CloseReason::AuthenticationFailed(String::new());
    assert!(
        matches!(&sent, Sent::Closed(closed) if std::mem::discriminant(closed) == std::mem::discriminant(&reason))
    );
}

#[tokio::test]
async fn a_listener_without_sasl_says_so() {
    let world = world().await;
    let peer = Arc::clone(&world.peer);
    let request = SaslHandshakeRequest::default().with_mechanism(text("PLAIN"));
    let response = world.ask_as(&peer, 1, &request).await;
    assert_eq!(response.error_code, ILLEGAL_SASL_STATE);
    let response = world.ask_as(&peer, 2, &token(b"x")).await;
    assert_eq!(response.error_code, ILLEGAL_SASL_STATE);
    assert_eq!(lists_groups(&world, &peer).await, Ok(()));
}

/// Frames of any content, before and after each step of signing in.
#[tokio::test]
async fn arbitrary_frames_never_get_in() {
    let world = world().await;
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for number in 0..2_000 {
        let peer = stranger(1_000 + number, "SASL");
        if number % 2 == 0 {
            handshake(&world, &peer, "PLAIN").await;
        }
        let mut bytes = frame(2, 1, &token(b"\0alice\0secre?"));
        for _ in 0..1 + next() % 4 {
            let at = usize::try_from(next()).unwrap_or(0) % bytes.len();
            bytes[at] = next().to_be_bytes()[0];
        }
        bytes.truncate(usize::try_from(next()).unwrap_or(0) % (bytes.len() + 1));
        // Answers with a refusal come late; nobody waits for them here.
        drop(world.service.accept(&peer, bytes).await);
        assert_eq!(peer.identity.principal(), None);
        world.service.disconnected(&peer);
    }
}
