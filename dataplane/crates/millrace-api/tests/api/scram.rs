//! Users in the cluster: created, changed and removed by a client, and signing in by SCRAM.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest, ListGroupsRequest,
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    alter_user_scram_credentials_request::{ScramCredentialDeletion, ScramCredentialUpsertion},
    describe_user_scram_credentials_request::UserName,
};
use millrace_api::{SaslListener, Security};
use millrace_security::{
    credentials::{PlainUsers, ScramHash},
    sasl::Mechanism,
};
use millrace_wire::service::Peer;
use ring::{digest, hmac};

use crate::{
    sign_in::stranger,
    world::{Settings, World, text},
};

pub(crate) const SALT: &[u8] = b"0123456789";

const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
pub(crate) const SASL_AUTHENTICATION_FAILED: i16 = 58;
const RESOURCE_NOT_FOUND: i16 = 91;
const DUPLICATE_RESOURCE: i16 = 92;
const UNACCEPTABLE_CREDENTIAL: i16 = 93;

pub(crate) fn security() -> Security {
    let listener = SaslListener {
        only: None,
        mechanisms: vec![Mechanism::Scram(ScramHash::Sha256)],
        plain: PlainUsers::new([]),
        tokens: None,
        session_max: None,
    };
    Security {
        sasl: HashMap::from([("SCRAM".to_owned(), listener)]),
        ..Security::open()
    }
}

async fn world() -> World {
    World::with(Settings {
        security,
        ..Settings::default()
    })
    .await
}

pub(crate) fn upsertion(user: &str, password: &str) -> ScramCredentialUpsertion {
    let salted = ScramHash::Sha256.salted_password(password.as_bytes(), SALT, 4_096);
    ScramCredentialUpsertion::default()
        .with_name(text(user))
        .with_mechanism(1)
        .with_iterations(4_096)
        .with_salt(Bytes::from_static(SALT))
        .with_salted_password(Bytes::from(salted))
}

pub(crate) fn deletion(user: &str) -> ScramCredentialDeletion {
    ScramCredentialDeletion::default()
        .with_name(text(user))
        .with_mechanism(1)
}

/// The error of each user.
async fn alter(
    world: &World,
    deletions: Vec<ScramCredentialDeletion>,
    upsertions: Vec<ScramCredentialUpsertion>,
) -> Vec<(String, i16)> {
    let request = AlterUserScramCredentialsRequest::default()
        .with_deletions(deletions)
        .with_upsertions(upsertions);
    let results = world.ask(0, &request).await.results.into_iter();
    results
        .map(|result| (result.user.to_string(), result.error_code))
        .collect()
}

/// User, error, and the number of iterations.
pub(crate) async fn describe(
    world: &World,
    users: Option<&[&str]>,
) -> Vec<(String, i16, Vec<i32>)> {
    let named = |name: &&str| UserName::default().with_name(text(name));
    let users = users.map(|users| users.iter().map(named).collect());
    let request = DescribeUserScramCredentialsRequest::default().with_users(users);
    let results = world.ask(0, &request).await.results.into_iter();
    let shown = results.map(|result| {
        let has_text = result.error_message.as_deref() != Some("");
        assert_eq!(has_text, result.error_code != 0);
        let infos = result.credential_infos.iter();
        let iterations = infos.map(|info| info.iterations).collect();
        (result.user.to_string(), result.error_code, iterations)
    });
    shown.collect()
}

fn sign(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, bytes).as_ref().to_vec()
}

pub(crate) async fn sign_in(world: &World, peer: &Arc<Peer>, user: &str, password: &str) -> i16 {
    let first = format!("n={user},r=abcdef");
    exchange(world, peer, &first, password).await.error_code
}

/// The whole exchange of a client (RFC 5802) that begins with this message; the last response.
pub(crate) async fn exchange(
    world: &World,
    peer: &Arc<Peer>,
    bare: &str,
    password: &str,
) -> SaslAuthenticateResponse {
    let handshake = SaslHandshakeRequest::default().with_mechanism(text("SCRAM-SHA-256"));
    assert_eq!(world.ask_as(peer, 1, &handshake).await.error_code, 0);
    let send = async |token: String| {
        let request = SaslAuthenticateRequest::default().with_auth_bytes(token.into());
        world.ask_as(peer, 2, &request).await
    };
    let first = send(format!("n,,{bare}")).await;
    assert_eq!(first.error_code, 0);
    let server_first = String::from_utf8(first.auth_bytes.to_vec()).expect("text");
    let field = |name: &str| {
        let mut parts = server_first.split(',');
        parts
            .find_map(|part| part.strip_prefix(name))
            .expect("a field")
            .to_owned()
    };
    let salt = STANDARD.decode(field("s=")).expect("base64");
    let iterations = field("i=").parse().expect("a number");
    let salted = ScramHash::Sha256.salted_password(password.as_bytes(), &salt, iterations);
    let client_key = sign(&salted, b"Client Key");
    let without_proof = format!("c=biws,r={}", field("r="));
    let message = format!("{bare},{server_first},{without_proof}");
    let stored_key = digest::digest(&digest::SHA256, &client_key);
    let signature = sign(stored_key.as_ref(), message.as_bytes());
    let proof: Vec<u8> = client_key
        .iter()
        .zip(&signature)
        .map(|(a, b)| a ^ b)
        .collect();
    let last = send(format!("{without_proof},p={}", STANDARD.encode(proof))).await;
    if last.error_code == 0 {
        let own = sign(&sign(&salted, b"Server Key"), message.as_bytes());
        let expected = format!("v={}", STANDARD.encode(own));
        assert_eq!(
            last.auth_bytes,
            expected.as_bytes(),
            "the server knows the password, too"
        );
    }
    last
}

#[tokio::test]
async fn a_user_is_created_signs_in_and_outlives_a_restart() {
    let world = world().await;
    let ok = |user: &str| (user.to_owned(), 0);
    let created = alter(
        &world,
        vec![],
        vec![upsertion("alice", "one"), upsertion("bob", "b")],
    );
    assert_eq!(created.await, [ok("alice"), ok("bob")]);
    let peer = stranger(2, "SCRAM");
    assert_eq!(sign_in(&world, &peer, "alice", "one").await, 0);
    assert_eq!(peer.identity.principal(), Some("User:alice"));
    world.ask_as(&peer, 4, &ListGroupsRequest::default()).await;

    assert_eq!(
        alter(&world, vec![], vec![upsertion("alice", "two")]).await,
        [ok("alice")]
    );
    assert_eq!(
        alter(&world, vec![deletion("bob")], vec![]).await,
        [ok("bob")]
    );
    let world = world.restart().await;
    let outcome = async |number, user, password| {
        sign_in(&world, &stranger(number, "SCRAM"), user, password).await
    };
    assert_eq!(outcome(3, "alice", "two").await, 0);
    assert_eq!(outcome(4, "alice", "one").await, SASL_AUTHENTICATION_FAILED);
    assert_eq!(outcome(5, "bob", "b").await, SASL_AUTHENTICATION_FAILED);
    assert_eq!(outcome(6, "mallory", "m").await, SASL_AUTHENTICATION_FAILED);
    assert_eq!(
        describe(&world, None).await,
        [("alice".to_owned(), 0, vec![4_096])]
    );
}

#[tokio::test]
async fn each_user_is_changed_as_a_whole_or_refused() {
    let world = world().await;
    alter(&world, vec![], vec![upsertion("alice", "one")]).await;
    let results = alter(
        &world,
        vec![deletion("nobody"), deletion("alice"), deletion("both")],
        vec![
            upsertion("alice", "two"),
            upsertion("both", "x"),
            upsertion("few", "x").with_iterations(4_095),
            upsertion("other", "x").with_mechanism(3),
            upsertion("", "x"),
            upsertion("ANONYMOUS", "x"),
            upsertion("good", "x"),
        ],
    )
    .await;
    let expected = [
        ("", UNACCEPTABLE_CREDENTIAL),
        ("ANONYMOUS", UNACCEPTABLE_CREDENTIAL),
        ("alice", DUPLICATE_RESOURCE),
        // The first error stays.
        ("both", RESOURCE_NOT_FOUND),
        ("few", UNACCEPTABLE_CREDENTIAL),
        ("good", 0),
        ("nobody", RESOURCE_NOT_FOUND),
        ("other", UNSUPPORTED_SASL_MECHANISM),
    ];
    assert_eq!(
        results,
        expected.map(|(user, code)| (user.to_owned(), code))
    );
    let shown = describe(&world, Some(&["alice", "none", "good", "good"])).await;
    let expected = [
        ("alice", 0, vec![4_096]),
        ("good", DUPLICATE_RESOURCE, vec![]),
        ("none", RESOURCE_NOT_FOUND, vec![]),
    ];
    assert_eq!(
        shown,
        expected.map(|(user, code, iterations)| (user.to_owned(), code, iterations))
    );
    let peer = stranger(2, "SCRAM");
    assert_eq!(
        sign_in(&world, &peer, "alice", "one").await,
        0,
        "nothing changed"
    );
}
