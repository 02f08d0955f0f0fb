//! Security settings that another broker has changed: it writes them to the metadata that all share.

use std::{collections::HashSet, sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::FutureExt as _;
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, CreateDelegationTokenResponse, ListGroupsRequest,
    MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use millrace_meta::{
    AclRow, DelegationTokenChange, DelegationTokenRow, MetaStore as _, QuotaChange, QuotaEntityRow,
    QuotaRow, ScramChange, ScramRow, StoreFailure,
};
use millrace_security::credentials::{ScramCredential, ScramHash};
use millrace_time::ManualClock;
use millrace_wire::service::Peer;

use crate::{
    acls::{acl, create_acls, every_acl, trusting_the_world},
    authorization::client,
    delegation_tokens::{create_token, token_config},
    scram::{SALT, SASL_AUTHENTICATION_FAILED, describe, exchange, security, sign_in, upsertion},
    sign_in::stranger,
    world::{Sent, Settings, World, text},
};

const READ: i8 = 3;
const RATE: &str = "producer_byte_rate";
/// As many as one request may create.
const ACLS: usize = 10_000;

async fn world() -> (World, Arc<ManualClock>) {
    let clock = ManualClock::shared();
    let settings = Settings {
        security,
        authorizer: Some(trusting_the_world()),
        tokens: Some((token_config(), clock.clone())),
        ..Settings::default()
    };
    (World::with(settings).await, clock)
}

fn put_user(user: &str, password: &str) -> ScramChange {
    let hash = ScramHash::Sha256;
    let salted = hash.salted_password(password.as_bytes(), SALT, 4_096);
    let made = ScramCredential::from_salted_password(hash, SALT, 4_096, &salted);
    let credential = made.expect("legal");
    ScramChange::Put(ScramRow {
        user: user.to_owned(),
        mechanism: hash.code(),
        iterations: credential.iterations,
        salt: credential.salt,
        stored_key: credential.stored_key,
        server_key: credential.server_key,
    })
}

fn remove_user(user: &str) -> ScramChange {
    ScramChange::Remove {
        user: user.to_owned(),
        mechanism: ScramHash::Sha256.code(),
    }
}

fn acl_row(topic: &str) -> AclRow {
    AclRow {
        resource_type: 2,
        resource_name: topic.to_owned(),
        pattern_type: 3,
        principal: "User:alice".to_owned(),
        host: "*".to_owned(),
        operation: READ,
        permission: 3,
    }
}

fn quota_row(user: &str, value: f64) -> QuotaRow {
    QuotaRow {
        entity: QuotaEntityRow {
            user: Some(user.to_owned()),
            client_id: None,
            ip: None,
        },
        key: RATE.to_owned(),
        value,
    }
}

impl World {
    async fn reload(&self) {
        self.service.reload_security().await.expect("reads");
    }

    /// Another broker changes users.
    async fn store_users(&self, changes: Vec<ScramChange>) {
        let stored = self.meta.change_scram_credentials(changes).await;
        stored.expect("kept");
    }

    async fn store_acls(&self, added: &[&str], removed: &[&str]) {
        let rows = |topics: &[&str]| topics.iter().map(|topic| acl_row(topic)).collect();
        let stored = self.meta.change_acls(rows(added), rows(removed)).await;
        stored.expect("kept");
    }

    async fn store_quota(&self, change: QuotaChange) {
        let stored = self.meta.change_client_quotas(vec![change]).await;
        stored.expect("kept");
    }

    async fn store_token(&self, change: DelegationTokenChange) {
        let stored = self.meta.change_delegation_tokens(vec![change]).await;
        stored.expect("kept");
    }

    async fn token_rows(&self) -> Vec<DelegationTokenRow> {
        self.meta.delegation_tokens().await.expect("reads")
    }

    async fn sign_in_again(&self, number: u64, user: &str, password: &str) -> i16 {
        sign_in(self, &stranger(number, "SCRAM"), user, password).await
    }

    /// The error of a client that shows a token, and its connection.
    async fn show(&self, number: u64, token: &CreateDelegationTokenResponse) -> (i16, Arc<Peer>) {
        let peer = stranger(number, "SCRAM");
        let first = format!("n={},r=a,tokenauth=true", &*token.token_id);
        let password = STANDARD.encode(&token.hmac);
        let shown = exchange(self, &peer, &first, &password).await;
        (shown.error_code, peer)
    }

    /// The topics that ACLs speak of.
    async fn acl_topics(&self) -> Vec<String> {
        let found = self.ask(3, &every_acl()).await.resources.into_iter();
        found.map(|one| one.resource_name.to_string()).collect()
    }
}

#[tokio::test]
async fn users_whom_another_broker_has_changed_sign_in_as_they_are_now_and_stay_connected() {
    let (world, _) = world().await;
    let users = vec![put_user("alice", "one"), put_user("bob", "b")];
    world.store_users(users).await;
    let early = world.sign_in_again(2, "alice", "one").await;
    assert_eq!(early, SASL_AUTHENTICATION_FAILED);
    world.reload().await;
    let bob = stranger(3, "SCRAM");
    assert_eq!(sign_in(&world, &bob, "bob", "b").await, 0);
    assert_eq!(world.sign_in_again(4, "alice", "one").await, 0);

    let changes = vec![put_user("alice", "two"), remove_user("bob")];
    world.store_users(changes).await;
    world.reload().await;
    assert_eq!(world.sign_in_again(5, "alice", "two").await, 0);
    for (number, user, password) in [(6, "alice", "one"), (7, "bob", "b")] {
        let refused = world.sign_in_again(number, user, password).await;
        assert_eq!(refused, SASL_AUTHENTICATION_FAILED, "{user}");
    }
    assert_eq!(
        describe(&world, None).await,
        [("alice".to_owned(), 0, vec![4_096])]
    );
    // As where this broker deletes a user.
    world.ask_as(&bob, 4, &ListGroupsRequest::default()).await;
}

/// The broker that deletes a user removes the tokens that it knows of.
#[tokio::test]
async fn tokens_go_with_a_user_whom_another_broker_has_deleted() {
    let (world, _) = world().await;
    world.store_users(vec![put_user("alice", "one")]).await;
    world.reload().await;
    let (alice, bob) = (client(2, "User:alice"), client(3, "User:bob"));
    let hers = world.ask_as(&alice, 3, &create_token("", &[])).await;
    let his = world.ask_as(&bob, 3, &create_token("", &[])).await;
    world.reload().await;
    assert_eq!(world.token_rows().await.len(), 2);
    world.store_users(vec![remove_user("alice")]).await;
    world.reload().await;
    let left = world.token_rows().await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].id, *his.token_id);
    assert_eq!(world.show(4, &hers).await.0, SASL_AUTHENTICATION_FAILED);
    assert_eq!(world.show(5, &his).await.0, 0);
}

#[tokio::test]
async fn tokens_that_another_broker_has_changed_are_as_they_are_now() {
    let (world, clock) = world().await;
    let alice = client(2, "User:alice");
    let kept = world.ask_as(&alice, 3, &create_token("", &[])).await;
    let removed = world.ask_as(&alice, 3, &create_token("", &[])).await;
    let (signed_in, bearer) = world.show(3, &removed).await;
    assert_eq!(signed_in, 0);

    let mut rows = world.token_rows().await.into_iter();
    let renewed = rows.find(|row| row.id == *kept.token_id).expect("stored");
    let expires_ms = renewed.expires_ms + 20_000;
    let new = DelegationTokenRow {
        id: "from-elsewhere".to_owned(),
        expires_ms,
        ..renewed.clone()
    };
    let renewed = DelegationTokenRow {
        expires_ms,
        ..renewed
    };
    for change in [
        DelegationTokenChange::Put(renewed),
        DelegationTokenChange::Put(new),
        DelegationTokenChange::Remove(removed.token_id.to_string()),
    ] {
        world.store_token(change).await;
    }
    world.reload().await;
    assert_eq!(world.show(4, &removed).await.0, SASL_AUTHENTICATION_FAILED);
    // As where this broker removes a token.
    let request = ListGroupsRequest::default();
    world.ask_as(&bearer, 4, &request).await;
    clock.advance(Duration::from_secs(15));
    assert_eq!(world.show(5, &kept).await.0, 0);
    let request = kafka_protocol::messages::DescribeDelegationTokenRequest::default();
    let shown = world.ask_as(&alice, 3, &request.with_owners(None)).await;
    let ids: HashSet<String> = shown
        .tokens
        .iter()
        .map(|token| token.token_id.to_string())
        .collect();
    let expected = [kept.token_id.to_string(), "from-elsewhere".to_owned()];
    assert_eq!(ids, HashSet::from(expected));
}

#[tokio::test]
async fn an_exchange_that_has_begun_goes_on_over_a_reload() {
    let (world, _) = world().await;
    let alice = client(2, "User:alice");
    let token = world.ask_as(&alice, 3, &create_token("", &[])).await;
    let salt = async |number| {
        let peer = stranger(number, "SCRAM");
        let handshake = SaslHandshakeRequest::default().with_mechanism(text("SCRAM-SHA-256"));
        assert_eq!(world.ask_as(&peer, 1, &handshake).await.error_code, 0);
        let first = format!("n,,n={},r=a,tokenauth=true", &*token.token_id);
        let request = SaslAuthenticateRequest::default().with_auth_bytes(first.into());
        let answer = world.ask_as(&peer, 2, &request).await;
        let answer = String::from_utf8(answer.auth_bytes.to_vec()).expect("text");
        let salt = answer.split(',').find(|part| part.starts_with("s="));
        salt.expect("a salt").to_owned()
    };
    let before = salt(3).await;
    world.reload().await;
    assert_eq!(salt(4).await, before);
}

#[tokio::test]
async fn acls_that_another_broker_has_changed_count() {
    let (world, _) = world().await;
    for topic in ["t", "u"] {
        world.create(topic, 1, &[]).await;
    }
    let alice = client(2, "User:alice");
    let visible = async || {
        let request = MetadataRequest::default().with_topics(None);
        let topics = world.ask_as(&alice, 9, &request).await.topics;
        let names = topics.into_iter().map(|topic| topic.name);
        names
            .map(|name| name.expect("named").to_string())
            .collect::<Vec<_>>()
    };
    world.store_acls(&["t"], &[]).await;
    assert!(visible().await.is_empty());
    world.reload().await;
    assert_eq!(visible().await, ["t"]);
    world.store_acls(&["u"], &["t"]).await;
    world.reload().await;
    assert_eq!(visible().await, ["u"]);
    assert_eq!(world.acl_topics().await, ["u"]);
}

#[tokio::test]
async fn quotas_that_another_broker_has_changed_hold_and_use_stays() {
    let (world, _) = world().await;
    world.create("t", 1, &[]).await;
    let put = |value| QuotaChange::Put(quota_row("ANONYMOUS", value));
    world.store_quota(put(1_000.0)).await;
    assert_eq!(world.throttle_of_produce(50_000).await, 0);
    world.reload().await;
    let told = world.throttle_of_produce(50_000).await;
    assert!((35_000..=41_000).contains(&told), "{told}");

    // Nothing has changed: it still has to wait for what it has used.
    world.reload().await;
    let uses = world.service.quota_uses();
    assert_eq!(uses.total, 1);
    assert!(uses.uses[0].rate > uses.uses[0].limit, "{uses:?}");
    let left = world.peer.throttle.left(Duration::ZERO);
    assert!(left.is_some(), "not read meanwhile");

    world.store_quota(put(100_000_000.0)).await;
    world.reload().await;
    let left = world.peer.throttle.left(Duration::ZERO);
    assert_eq!(left, None, "the quota lets it go on");
    let remove = QuotaChange::Remove {
        entity: quota_row("ANONYMOUS", 1.0).entity,
        key: RATE.to_owned(),
    };
    world.store_quota(remove).await;
    world.reload().await;
    assert!(world.quotas(&[], false).await.is_empty());
}

#[tokio::test]
async fn a_kind_that_cannot_be_read_stays_and_the_others_are_reloaded() {
    let (world, _) = world().await;
    let alice = client(2, "User:alice");
    let token = world.ask_as(&alice, 3, &create_token("", &[])).await;
    let row = world.token_rows().await.remove(0);
    let invalid = DelegationTokenRow {
        id: "invalid".to_owned(),
        owner: "nobody".to_owned(),
        ..row.clone()
    };
    let remove = |row: &DelegationTokenRow| DelegationTokenChange::Remove(row.id.clone());
    world.store_token(remove(&row)).await;
    let put = DelegationTokenChange::Put(invalid.clone());
    world.store_token(put).await;
    world.store_acls(&["t"], &[]).await;
    world.store_users(vec![put_user("alice", "one")]).await;
    let quota = QuotaChange::Put(quota_row("a", 5.0));
    world.store_quota(quota).await;
    let reloaded = world.service.reload_security().await;
    assert!(
        matches!(reloaded, Err(StoreFailure::Corrupt(_))),
        "{reloaded:?}"
    );
    assert_eq!(world.show(3, &token).await.0, 0);
    assert_eq!(world.acl_topics().await, ["t"]);
    assert_eq!(world.sign_in_again(4, "alice", "one").await, 0);
    let quotas = world.quotas(&[], false).await;
    assert_eq!(quotas, ["user=a producer_byte_rate:5"]);

    world.store_token(remove(&invalid)).await;
    world.reload().await;
    assert_eq!(world.show(5, &token).await.0, SASL_AUTHENTICATION_FAILED);
}

/// One that read what was stored before a change, and was applied after it, would undo it in memory.
#[tokio::test]
async fn a_reload_waits_for_the_changes_that_this_broker_has_begun() {
    let (world, _) = world().await;
    // They take long to store, and a reload that did not wait would be done before.
    let acls = (0..ACLS).map(|nth| acl("User:alice", READ, &format!("t{nth}")));
    let created = world.send(3, &create_acls(acls.collect())).await;
    let user = AlterUserScramCredentialsRequest::default()
        .with_upsertions(vec![upsertion("alice", "secret")]);
    let altered = world.send(0, &user).await;
    world.reload().await;
    for sent in [created, altered] {
        let Sent::Later(response) = sent else {
            panic!("a change takes time");
        };
        assert!(response.now_or_never().is_some(), "made before the reload");
    }
    assert_eq!(world.acl_topics().await.len(), ACLS);
    assert_eq!(describe(&world, None).await.len(), 1);
}

/// Where there is neither an authorizer nor a secret key, there is nothing to reload of these kinds.
#[tokio::test]
async fn what_is_disabled_is_not_reloaded() {
    let settings = Settings {
        security,
        ..Settings::default()
    };
    let world = World::with(settings).await;
    world.store_acls(&["t"], &[]).await;
    world.store_users(vec![put_user("alice", "one")]).await;
    world.reload().await;
    assert_eq!(world.sign_in_again(2, "alice", "one").await, 0);
}
