//! Delegation tokens: created, renewed, expired, described, and shown to authenticate.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, CreateDelegationTokenRequest, CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest, DescribeDelegationTokenResponse, ExpireDelegationTokenRequest,
    ListGroupsRequest, RenewDelegationTokenRequest, SaslHandshakeRequest,
    create_delegation_token_request::CreatableRenewers,
    describe_delegation_token_request::DescribeDelegationTokenOwner,
};
use millrace_meta::MetaStore as _;
use millrace_security::{
    Principal,
    acl::AuthorizerConfig,
    delegation::{RENEWERS_MAX, TOKENS_OF_ONE_MAX, TokenConfig},
};
use millrace_time::ManualClock;
use millrace_wire::service::Peer;

use crate::{
    authorization::client,
    scram::{deletion, exchange, security, upsertion},
    sign_in::stranger,
    world::{Settings, World, text},
};

const NONE: i16 = 0;
const INVALID_REQUEST: i16 = 42;
const POLICY_VIOLATION: i16 = 44;
const SASL_AUTHENTICATION_FAILED: i16 = 58;
const AUTH_DISABLED: i16 = 61;
const NOT_FOUND: i16 = 62;
const OWNER_MISMATCH: i16 = 63;
const REQUEST_NOT_ALLOWED: i16 = 64;
const AUTHORIZATION_FAILED: i16 = 65;
const EXPIRED: i16 = 66;
const INVALID_PRINCIPAL_TYPE: i16 = 67;

const EXPIRY_MS: i64 = 10_000;
const MAX_LIFETIME_MS: i64 = 60_000;
/// Every 20 ms; much longer on a busy machine.
const SWEPT_WITHIN: Duration = Duration::from_secs(60);

pub(crate) fn token_config() -> TokenConfig {
    TokenConfig {
        secret_key: "sixteen bytes or more".parse().expect("long enough"),
        max_lifetime: Duration::from_secs(60),
        expiry_time: Duration::from_secs(10),
        check_interval: Duration::from_millis(20),
    }
}

/// A token of this owner (`Type:name`; empty for the client itself).
pub(crate) fn create_token(owner: &str, renewers: &[&str]) -> CreateDelegationTokenRequest {
    let renewer = |principal: &&str| {
        let (kind, name) = principal.split_once(':').expect("Type:name");
        CreatableRenewers::default()
            .with_principal_type(text(kind))
            .with_principal_name(text(name))
    };
    let request = CreateDelegationTokenRequest::default()
        .with_renewers(renewers.iter().map(renewer).collect())
        .with_max_lifetime_ms(-1);
    match owner.split_once(':') {
        Some((kind, name)) => request
            .with_owner_principal_type(Some(text(kind)))
            .with_owner_principal_name(Some(text(name))),
        None => request,
    }
}

/// A world whose tokens expire by a clock of the test's, which stands at a second.
async fn world() -> (World, Arc<ManualClock>) {
    world_with(token_config(), None).await
}

async fn world_with(
    config: TokenConfig,
    authorizer: Option<AuthorizerConfig>,
) -> (World, Arc<ManualClock>) {
    let clock = ManualClock::shared();
    clock.advance(Duration::from_secs(1));
    let settings = Settings {
        security,
        authorizer,
        tokens: Some((config, clock.clone())),
        ..Settings::default()
    };
    (World::with(settings).await, clock)
}

/// A world with ACLs and the super user `admin`.
async fn guarded_world(allow_if_no_rule: bool) -> (World, Arc<ManualClock>) {
    let admin: Principal = "User:admin".parse().expect("a principal");
    let authorizer = AuthorizerConfig {
        super_users: [admin].into(),
        allow_if_no_rule,
    };
    world_with(token_config(), Some(authorizer)).await
}

/// Expired tokens stay until something else removes them.
fn never_swept() -> TokenConfig {
    TokenConfig {
        check_interval: Duration::from_secs(3_600),
        ..token_config()
    }
}

/// The ids of the tokens that are stored.
async fn stored(world: &World) -> Vec<String> {
    let rows = world.meta.delegation_tokens().await.expect("reads");
    rows.into_iter().map(|row| row.id).collect()
}

async fn create(
    world: &World,
    peer: &Arc<Peer>,
    request: &CreateDelegationTokenRequest,
) -> CreateDelegationTokenResponse {
    world.ask_as(peer, 3, request).await
}

/// The error, and when the token expires.
async fn renew(world: &World, peer: &Arc<Peer>, hmac: &[u8], period_ms: i64) -> (i16, i64) {
    let request = RenewDelegationTokenRequest::default()
        .with_hmac(hmac.to_vec().into())
        .with_renew_period_ms(period_ms);
    let renewed = world.ask_as(peer, 2, &request).await;
    (renewed.error_code, renewed.expiry_timestamp_ms)
}

async fn expire(world: &World, peer: &Arc<Peer>, hmac: &[u8], period_ms: i64) -> (i16, i64) {
    let request = ExpireDelegationTokenRequest::default()
        .with_hmac(hmac.to_vec().into())
        .with_expiry_time_period_ms(period_ms);
    let expired = world.ask_as(peer, 2, &request).await;
    (expired.error_code, expired.expiry_timestamp_ms)
}

async fn describe(
    world: &World,
    peer: &Arc<Peer>,
    owners: Option<&[&str]>,
) -> DescribeDelegationTokenResponse {
    let owner = |name: &&str| {
        DescribeDelegationTokenOwner::default()
            .with_principal_type(text("User"))
            .with_principal_name(text(name))
    };
    let owners = owners.map(|owners| owners.iter().map(owner).collect());
    let request = DescribeDelegationTokenRequest::default().with_owners(owners);
    world.ask_as(peer, 3, &request).await
}

#[tokio::test]
async fn a_token_is_created_and_described_and_outlives_a_restart() {
    let (world, _) = world().await;
    let (alice, bob) = (client(2, "User:alice"), client(3, "User:bob"));
    let request = create_token("User:bob", &["User:carol", "User:dave"]);
    let created = create(&world, &alice, &request).await;
    assert_eq!(created.error_code, NONE);
    let principals = [
        &created.principal_type,
        &created.principal_name,
        &created.token_requester_principal_type,
        &created.token_requester_principal_name,
    ];
    assert_eq!(
        principals.map(|part| &**part),
        ["User", "bob", "User", "alice"]
    );
    let times = [
        created.issue_timestamp_ms,
        created.expiry_timestamp_ms,
        created.max_timestamp_ms,
    ];
    assert_eq!(times, [1_000, 1_000 + EXPIRY_MS, 1_000 + MAX_LIFETIME_MS]);
    assert_eq!((created.token_id.len(), created.hmac.len()), (22, 64));

    let world = world.restart().await;
    for viewer in ["alice", "bob", "carol", "dave"] {
        let viewer = client(4, &format!("User:{viewer}"));
        let shown = describe(&world, &viewer, None).await;
        let token = &shown.tokens[0];
        assert_eq!(
            (&token.token_id, &token.hmac),
            (&created.token_id, &created.hmac)
        );
        let principals = [
            &token.principal_type,
            &token.principal_name,
            &token.token_requester_principal_type,
            &token.token_requester_principal_name,
        ];
        assert_eq!(
            principals.map(|part| &**part),
            ["User", "bob", "User", "alice"]
        );
        let shown = [
            token.issue_timestamp,
            token.expiry_timestamp,
            token.max_timestamp,
        ];
        assert_eq!(shown, times);
        let renewers = token.renewers.iter();
        let renewers: Vec<_> = renewers.map(|renewer| &*renewer.principal_name).collect();
        assert_eq!(renewers, ["carol", "dave"]);
    }
    let found = async |owners| describe(&world, &bob, owners).await.tokens.len();
    assert_eq!(found(Some(&["alice"])).await, 1, "its requester");
    assert_eq!(found(Some(&["eve", "carol"])).await, 1, "a renewer");
    assert_eq!(found(Some(&["eve"])).await, 0);
    assert_eq!(found(Some(&[])).await, 0);
}

#[tokio::test]
async fn owners_and_renewers_change_when_a_token_expires() {
    let (world, clock) = world().await;
    let alice = client(2, "User:alice");
    let (bob, carol) = (client(3, "User:bob"), client(4, "User:carol"));
    let request = create_token("User:bob", &["User:carol"]).with_max_lifetime_ms(15_000);
    let hmac = create(&world, &alice, &request).await.hmac;
    assert_eq!(renew(&world, &bob, &hmac, 2_000).await, (NONE, 3_000));
    assert_eq!(renew(&world, &carol, &hmac, -1).await, (NONE, 11_000));
    assert_eq!(renew(&world, &carol, &hmac, i64::MAX).await, (NONE, 11_000));
    // Who has requested it may look at it, and no more.
    for other in [&alice, &client(5, "User:eve")] {
        assert_eq!(renew(&world, other, &hmac, -1).await, (OWNER_MISMATCH, 0));
        assert_eq!(expire(&world, other, &hmac, -1).await, (OWNER_MISMATCH, 0));
    }
    assert_eq!(renew(&world, &bob, b"other", -1).await, (NOT_FOUND, 0));
    assert_eq!(expire(&world, &bob, b"", -1).await, (NOT_FOUND, 0));
    clock.advance(Duration::from_secs(8));
    assert_eq!(
        renew(&world, &bob, &hmac, -1).await,
        (NONE, 16_000),
        "the maximum"
    );
    assert_eq!(expire(&world, &carol, &hmac, 500).await, (NONE, 9_500));
    assert_eq!(expire(&world, &carol, &hmac, -1).await, (NONE, 9_000));
    assert_eq!(renew(&world, &bob, &hmac, -1).await, (NOT_FOUND, 0));
    assert!(stored(&world).await.is_empty());
}

#[tokio::test]
async fn who_may_alter_the_cluster_revokes_everybodys_tokens() {
    let (world, _) = guarded_world(false).await;
    let (alice, admin) = (client(2, "User:alice"), client(3, "User:admin"));
    let mallory = client(4, "User:mallory");
    let issued = create(&world, &alice, &create_token("", &[])).await;
    let refused = expire(&world, &mallory, &issued.hmac, -1).await;
    assert_eq!(refused, (OWNER_MISMATCH, 0));

    let shown = describe(&world, &admin, Some(&["alice"])).await.tokens;
    assert_eq!(shown[0].token_id, issued.token_id);
    let refused = renew(&world, &admin, &shown[0].hmac, -1).await;
    assert_eq!(refused, (OWNER_MISMATCH, 0), "it only revokes");
    assert_eq!(expire(&world, &admin, &shown[0].hmac, -1).await.0, NONE);
    assert!(stored(&world).await.is_empty());
}

/// Otherwise everybody could become a super user.
#[tokio::test]
async fn nobody_gets_tokens_of_others_because_no_acl_speaks_of_them() {
    let (world, _) = guarded_world(true).await;
    let (admin, mallory) = (client(2, "User:admin"), client(3, "User:mallory"));
    let issued = create(&world, &admin, &create_token("", &[])).await;
    assert_eq!(issued.error_code, NONE);
    let refused = create(&world, &mallory, &create_token("User:admin", &[])).await;
    assert_eq!(refused.error_code, AUTHORIZATION_FAILED);
    assert!(describe(&world, &mallory, None).await.tokens.is_empty());
}

#[tokio::test]
async fn the_tokens_of_a_user_go_with_the_last_credential() {
    let (world, _) = world().await;
    let change = async |deletions, upsertions| {
        let request = AlterUserScramCredentialsRequest::default()
            .with_deletions(deletions)
            .with_upsertions(upsertions);
        let results = world.ask(0, &request).await.results;
        assert_eq!(results[0].error_code, NONE, "{results:?}");
    };
    let with_sha_512 = upsertion("alice", "secret").with_mechanism(2);
    let with_sha_512 = with_sha_512.with_salted_password(vec![7; 64].into());
    change(vec![], vec![upsertion("alice", "secret"), with_sha_512]).await;
    let (alice, bob) = (client(2, "User:alice"), client(3, "User:bob"));
    let hers = create(&world, &alice, &create_token("", &[])).await;
    let his = create(&world, &bob, &create_token("", &["User:alice"])).await;
    change(vec![deletion("alice")], vec![]).await;
    assert_eq!(stored(&world).await.len(), 2, "she has another credential");
    change(vec![deletion("alice").with_mechanism(2)], vec![]).await;
    assert_eq!(stored(&world).await, [his.token_id.to_string()]);
    let first = format!("n={},r=a,tokenauth=true", &*hers.token_id);
    let password = STANDARD.encode(&hers.hmac);
    let refused = exchange(&world, &stranger(4, "SCRAM"), &first, &password).await;
    assert_eq!(refused.error_code, SASL_AUTHENTICATION_FAILED);
}

#[tokio::test]
async fn the_brokers_own_principals_have_no_tokens() {
    let (world, _) = world().await;
    for principal in ["User:__millrace", "User:__millrace_records"] {
        let own = client(2, principal);
        let refused = create(&world, &own, &create_token("", &[])).await;
        assert_eq!(refused.error_code, REQUEST_NOT_ALLOWED, "{principal}");
        let alice = client(3, "User:alice");
        let refused = create(&world, &alice, &create_token(principal, &[])).await;
        assert_eq!(refused.error_code, INVALID_REQUEST, "{principal}");
        let refused = create(&world, &alice, &create_token("", &[principal])).await;
        assert_eq!(refused.error_code, INVALID_REQUEST, "{principal}");
    }
    assert!(stored(&world).await.is_empty());
}

#[tokio::test]
async fn an_expired_token_is_refused_and_then_removed() {
    let (world, clock) = world().await;
    let alice = client(2, "User:alice");
    let issued = create(&world, &alice, &create_token("", &[])).await;
    clock.advance(Duration::from_secs(11));
    // The sweep may come first.
    let (code, _) = renew(&world, &alice, &issued.hmac, -1).await;
    assert!([EXPIRED, NOT_FOUND].contains(&code), "{code}");
    let swept = async {
        // Stored first, and then used.
        while !stored(&world).await.is_empty()
            || !describe(&world, &alice, None).await.tokens.is_empty()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let swept = tokio::time::timeout(SWEPT_WITHIN, swept).await;
    swept.expect("the expired token is removed");
    assert_eq!(
        renew(&world, &alice, &issued.hmac, -1).await,
        (NOT_FOUND, 0)
    );
}

#[tokio::test]
async fn only_clients_that_have_authenticated_without_a_token_get_tokens() {
    let (world, _) = world().await;
    let alice = client(2, "User:alice");
    let issued = create(&world, &alice, &create_token("", &[])).await;
    let bearer = stranger(3, "SCRAM");
    let password = STANDARD.encode(&issued.hmac);
    let first = format!("n={},r=abcdef,tokenauth=true", &*issued.token_id);
    let signed_in = exchange(&world, &bearer, &first, &password).await;
    assert_eq!(signed_in.error_code, NONE, "{:?}", signed_in.error_message);
    assert_eq!(signed_in.session_lifetime_ms, EXPIRY_MS);
    assert_eq!(bearer.identity.principal(), Some("User:alice"));
    let shown = bearer.identity.delegation_token();
    assert_eq!(shown.as_deref(), Some(&*issued.token_id));
    world
        .ask_as(&bearer, 4, &ListGroupsRequest::default())
        .await;

    for peer in [&bearer, &world.peer] {
        let refused = create(&world, peer, &create_token("", &[])).await;
        let told = (
            refused.error_code,
            refused.max_timestamp_ms,
            refused.hmac.len(),
        );
        assert_eq!(told, (REQUEST_NOT_ALLOWED, -1, 0));
        let refused = (REQUEST_NOT_ALLOWED, -1);
        assert_eq!(renew(&world, peer, &issued.hmac, -1).await, refused);
        assert_eq!(expire(&world, peer, &issued.hmac, -1).await, refused);
        let described = describe(&world, peer, None).await;
        assert_eq!(
            (described.error_code, described.tokens.len()),
            (REQUEST_NOT_ALLOWED, 0)
        );
    }
    // The session has an end, so that the client may authenticate again.
    let again = exchange(&world, &bearer, &first, &password).await;
    assert_eq!(again.error_code, NONE);
    assert_eq!(expire(&world, &alice, &issued.hmac, -1).await.0, NONE);
    let late = exchange(&world, &stranger(4, "SCRAM"), &first, &password).await;
    assert_eq!(late.error_code, SASL_AUTHENTICATION_FAILED);
}

/// A user may have the same name as somebody's token; her password is not the token's.
#[tokio::test]
async fn tokens_and_users_do_not_mix() {
    let (world, _) = world().await;
    let alice = client(2, "User:alice");
    let issued = create(&world, &alice, &create_token("", &[])).await;
    let request = AlterUserScramCredentialsRequest::default()
        .with_upsertions(vec![upsertion(&issued.token_id, "secret")]);
    assert_eq!(world.ask(0, &request).await.results[0].error_code, NONE);
    let hmac = STANDARD.encode(&issued.hmac);
    let id = &*issued.token_id;
    let (user, token) = (format!("n={id},r=a"), format!("n={id},r=a,tokenauth=true"));
    let outcome = async |number, first: &str, password: &str| {
        let peer = stranger(number, "SCRAM");
        exchange(&world, &peer, first, password).await.error_code
    };
    assert_eq!(outcome(3, &user, "secret").await, NONE);
    assert_eq!(outcome(4, &token, &hmac).await, NONE);
    assert_eq!(outcome(5, &user, &hmac).await, SASL_AUTHENTICATION_FAILED);
    assert_eq!(
        outcome(6, &token, "secret").await,
        SASL_AUTHENTICATION_FAILED
    );
}

#[tokio::test]
async fn what_cannot_be_a_token_is_refused() {
    let (world, clock) = world_with(never_swept(), None).await;
    let alice = client(2, "User:alice");
    let many = vec!["User:a"; RENEWERS_MAX + 1];
    let long = format!("User:{}", "x".repeat(600));
    for (owner, renewers, expected) in [
        ("Group:admins", &[][..], INVALID_PRINCIPAL_TYPE),
        ("User:ANONYMOUS", &[], INVALID_PRINCIPAL_TYPE),
        ("", &["Group:admins"], INVALID_PRINCIPAL_TYPE),
        ("", &many, INVALID_REQUEST),
        ("", &[long.as_str()], INVALID_REQUEST),
        (&long, &[], INVALID_REQUEST),
    ] {
        let refused = create(&world, &alice, &create_token(owner, renewers)).await;
        let told = (
            refused.error_code,
            refused.max_timestamp_ms,
            refused.hmac.len(),
        );
        assert_eq!(told, (expected, -1, 0), "{owner} {renewers:?}");
    }
    for _ in 0..TOKENS_OF_ONE_MAX {
        let created = create(&world, &alice, &create_token("", &[])).await;
        assert_eq!(created.error_code, NONE);
    }
    let full = create(&world, &alice, &create_token("User:bob", &[])).await;
    assert_eq!(full.error_code, POLICY_VIOLATION);
    let bob = client(3, "User:bob");
    let issued = create(&world, &bob, &create_token("", &[])).await;
    assert_eq!(issued.error_code, NONE);
    // Expired tokens make room.
    clock.advance(Duration::from_secs(11));
    let issued = create(&world, &alice, &create_token("", &[])).await;
    assert_eq!(issued.error_code, NONE);
    assert_eq!(stored(&world).await, [issued.token_id.to_string()]);
}

#[tokio::test]
async fn without_a_secret_key_tokens_are_disabled() {
    let world = World::with(Settings {
        security,
        ..Settings::default()
    })
    .await;
    let alice = client(2, "User:alice");
    let created = create(&world, &alice, &create_token("", &[])).await;
    assert_eq!(created.error_code, AUTH_DISABLED);
    assert_eq!(renew(&world, &alice, b"x", -1).await, (AUTH_DISABLED, 0));
    assert_eq!(expire(&world, &alice, b"x", -1).await, (AUTH_DISABLED, 0));
    assert_eq!(
        describe(&world, &alice, None).await.error_code,
        AUTH_DISABLED
    );
    // Before that is said, the client must be one that may ask.
    let anonymous = create(&world, &world.peer, &create_token("", &[])).await;
    assert_eq!(anonymous.error_code, REQUEST_NOT_ALLOWED);
    let peer = stranger(3, "SCRAM");
    let handshake = SaslHandshakeRequest::default().with_mechanism(text("SCRAM-SHA-256"));
    world.ask_as(&peer, 1, &handshake).await;
    let first = kafka_protocol::messages::SaslAuthenticateRequest::default()
        .with_auth_bytes("n,,n=id,r=a,tokenauth=true".into());
    let refused = world.ask_as(&peer, 2, &first).await;
    assert_eq!(refused.error_code, SASL_AUTHENTICATION_FAILED);
}
