//! What the audit log has of changes.

use std::{fmt, sync::Arc, time::Duration};

use kafka_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteGroupsRequest, DeleteRecordsRequest,
    DeleteTopicsRequest, ExpireDelegationTokenRequest, GroupId, IncrementalAlterConfigsRequest,
    MetadataRequest, RenewDelegationTokenRequest, create_topics_request::CreatableTopic,
    delete_topics_request::DeleteTopicState, metadata_request::MetadataRequestTopic,
};
use millrace_security::delegation::TokenConfig;
use millrace_time::ManualClock;
use millrace_wire::{
    StrBytes,
    service::{Peer, RefusedCertificate, Service as _},
};
use parking_lot::Mutex;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use uuid::Uuid;

use crate::{
    authorization::{alice, client, world},
    calls::topic_name,
    delegation_tokens::{create_token, token_config},
    scram, sign_in,
    versions::{create_partitions, delete_records, incremental_alter_configs},
    world::{Settings, World},
};

const DELEGATION_TOKEN_EXPIRED: i16 = 66;
const GROUP_AUTHORIZATION_FAILED: i16 = 30;

/// The lines of changes on this thread: type of the resource, its name, the result, and the client's token; and
/// those of failed sign-ins. The second list has who made each change, and where.
#[derive(Default, Clone)]
struct Changes(Arc<Mutex<Vec<String>>>, Arc<Mutex<Vec<String>>>);

impl Subscriber for Changes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "millrace::audit"
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        match line.event.as_str() {
            "changed" => {
                self.0.lock().push(line.shown + &line.by);
                self.1.lock().push(line.sign_in);
            }
            "sign_in_failed" => self.0.lock().push(line.sign_in),
            _ => {}
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Line {
    event: String,
    by: String,
    shown: String,
    /// Of a failed sign-in: who was claimed, how, where, from where, and why it failed.
    sign_in: String,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "event" => value.clone_into(&mut self.event),
            "resource_type" => value.clone_into(&mut self.shown),
            "resource" | "result" => self.shown += &format!(" {value}"),
            "delegation_token" => self.by = format!(" by {value}"),
            "principal"
            | "claimed"
            | "claimed_delegation_token"
            | "mechanism"
            | "listener"
            | "reason" => {
                self.sign_in += &format!("{}={value} ", field.name());
            }
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "address" {
            self.sign_in += &format!("address={value:?} ");
        }
    }
}

/// Requests whose errors come before the check of rights, and one that asks for nothing.
async fn refused_without_a_denial(world: &World, peer: &Arc<Peer>, topic: &str) {
    let twice = CreatableTopic::default()
        .with_name(topic_name(topic))
        .with_num_partitions(1)
        .with_replication_factor(1);
    let request = CreateTopicsRequest::default()
        .with_timeout_ms(1_000)
        .with_topics(vec![twice.clone(), twice]);
    world.ask_as(peer, 5, &request).await;
    let twice = create_partitions(topic).topics.remove(0);
    let request = CreatePartitionsRequest::default()
        .with_timeout_ms(1_000)
        .with_topics(vec![twice.clone(), twice]);
    world.ask_as(peer, 3, &request).await;
    let twice = incremental_alter_configs(2, topic).resources.remove(0);
    let request =
        IncrementalAlterConfigsRequest::default().with_resources(vec![twice.clone(), twice]);
    world.ask_as(peer, 1, &request).await;
    let unknown = DeleteTopicState::default().with_topic_id(Uuid::from_u128(7));
    let request = DeleteTopicsRequest::default()
        .with_timeout_ms(1_000)
        .with_topics(vec![unknown]);
    world.ask_as(peer, 6, &request).await;
    let mut nothing = delete_records(topic).topics.remove(0);
    nothing.partitions.clear();
    let request = DeleteRecordsRequest::default()
        .with_timeout_ms(1_000)
        .with_topics(vec![nothing]);
    world.ask_as(peer, 2, &request).await;
}

/// Such lines let a client without rights hide the changes of others.
#[tokio::test]
async fn a_client_without_rights_has_no_changes_in_the_log() {
    let changes = Changes::default();
    let _recording = tracing::subscriber::set_default(changes.clone());
    let (world, alice) = (world().await, alice());
    changes.0.lock().clear();
    refused_without_a_denial(&world, &alice, "t").await;
    assert_eq!(*changes.0.lock(), Vec::<String>::new());

    refused_without_a_denial(&world, &world.peer, "t").await;
    let expected = [
        "TOPIC_CONFIGS t INVALID_REQUEST",
        "TOPIC_CONFIGS t INVALID_REQUEST",
        "RECORDS t NONE",
    ];
    assert_eq!(*changes.0.lock(), expected);
}

#[tokio::test]
async fn changes_of_tokens_have_lines_with_their_ids() {
    let changes = Changes::default();
    let _recording = tracing::subscriber::set_default(changes.clone());
    let (world, alice) = (world().await, alice());
    changes.0.lock().clear();
    let request = create_token("", &["User:bob", "User:carol"]);
    let created = world.ask_as(&alice, 3, &request).await;
    let renewal = RenewDelegationTokenRequest::default()
        .with_hmac(created.hmac.clone())
        .with_renew_period_ms(-1);
    let expiry = ExpireDelegationTokenRequest::default()
        .with_hmac(created.hmac.clone())
        .with_expiry_time_period_ms(-1);
    // A denial, which is no change.
    world.ask_as(&client(9, "User:eve"), 2, &renewal).await;
    world.ask_as(&alice, 2, &renewal).await;
    world.ask_as(&alice, 2, &expiry).await;
    // Unknown by now.
    world.ask_as(&alice, 2, &expiry).await;
    let id = &*created.token_id;
    let creation =
        format!("DELEGATION_TOKEN {id} of User:alice; renewers (2): User:bob, User:carol NONE");
    let line = format!("DELEGATION_TOKEN {id} NONE");
    assert_eq!(*changes.0.lock(), [creation, line.clone(), line]);
}

/// Whoever has a token's HMAC could fill the log so, and hide changes.
#[tokio::test]
async fn to_renew_an_expired_token_is_no_change() {
    let changes = Changes::default();
    let _recording = tracing::subscriber::set_default(changes.clone());
    let clock = ManualClock::shared();
    let tokens = TokenConfig {
        check_interval: Duration::from_secs(3_600),
        ..token_config()
    };
    let world = World::with(Settings {
        tokens: Some((tokens, clock.clone())),
        ..Settings::default()
    })
    .await;
    let alice = alice();
    let eve = client(9, "User:eve");
    let ask_too_late = async || {
        let created = world.ask_as(&alice, 3, &create_token("", &[])).await;
        clock.advance(Duration::from_secs(11));
        changes.0.lock().clear();
        let renewal = RenewDelegationTokenRequest::default().with_hmac(created.hmac.clone());
        let expiry = ExpireDelegationTokenRequest::default().with_hmac(created.hmac);
        [
            world.ask_as(&alice, 2, &renewal).await.error_code,
            world.ask_as(&eve, 2, &renewal).await.error_code,
            world.ask_as(&alice, 2, &expiry).await.error_code,
        ]
    };
    let mut answers = ask_too_late().await;
    if answers != [DELEGATION_TOKEN_EXPIRED; 3] {
        // The sweep at the start came late and removed the token. The next one is an hour later.
        answers = ask_too_late().await;
    }
    assert_eq!(answers, [DELEGATION_TOKEN_EXPIRED; 3]);
    assert_eq!(*changes.0.lock(), Vec::<String>::new());
}

#[tokio::test]
async fn lines_name_the_token_that_a_client_signed_in_by() {
    let changes = Changes::default();
    let _recording = tracing::subscriber::set_default(changes.clone());
    let world = world().await;
    changes.0.lock().clear();
    world.peer.identity.set_delegation_token(Some("id"));
    world.create("u", 1, &[]).await;
    assert_eq!(*changes.0.lock(), ["TOPIC u NONE by id"]);
}

/// What it asks for over the admin HTTP passes authorization, and has lines, as what any client asks for.
#[tokio::test]
async fn requests_of_the_control_plane_name_it() {
    let changes = Changes::default();
    let _recording = tracing::subscriber::set_default(changes.clone());
    let world = world().await;
    changes.0.lock().clear();
    changes.1.lock().clear();
    let request = incremental_alter_configs(2, "t");
    let answer = world.service.ask(&request).await.expect("served");
    assert_eq!(answer.responses[0].error_code, 0);
    assert_eq!(*changes.0.lock(), ["TOPIC_CONFIGS t NONE"]);
    let by = "principal=User:__millrace listener=admin.listener address=127.0.0.1:0 ";
    assert_eq!(*changes.1.lock(), [by]);
    // It does not delete groups of tenants, and this is no way around that.
    let groups = vec![GroupId(StrBytes::from_static_str("g"))];
    let request = DeleteGroupsRequest::default().with_groups_names(groups);
    let answer = world.service.ask(&request).await.expect("served");
    assert_eq!(answer.results[0].error_code, GROUP_AUTHORIZATION_FAILED);
}

/// Only CreateTopics had a line.
#[tokio::test]
async fn topics_that_are_created_because_a_client_asks_for_them_have_lines() {
    let changes = Changes::default();
    let _recording = tracing::subscriber::set_default(changes.clone());
    let world = world().await;
    changes.0.lock().clear();
    let asked = |name: &str| MetadataRequestTopic::default().with_name(Some(topic_name(name)));
    let request = MetadataRequest::default()
        .with_topics(Some(vec![asked("new"), asked("t"), asked("not legal")]))
        .with_allow_auto_topic_creation(true);
    // Nothing is created for a client without rights, or once more.
    world.ask_as(&alice(), 12, &request).await;
    world.ask(12, &request).await;
    world.ask(12, &request).await;
    assert_eq!(*changes.0.lock(), ["TOPIC new NONE"]);
}

#[tokio::test]
async fn failed_sign_ins_have_lines() {
    let changes = Changes::default();
    let _recording = tracing::subscriber::set_default(changes.clone());
    let world = sign_in::world().await;
    sign_in::fails(&world, "PLAIN", b"\0alice\0wrong").await;
    sign_in::fails(&world, "PLAIN", b"\0evil\nline\0wrong").await;
    sign_in::fails(&world, "PLAIN", b"garbage").await;
    // A client that forgets the first part: its password is where the name should be.
    sign_in::fails(&world, "PLAIN", b"alice\0secret").await;
    sign_in::fails(&world, "SCRAM-SHA-256", b"").await;
    let line = |claimed: &str, mechanism: &str, reason: &str| {
        format!(
            "{claimed}mechanism={mechanism} listener=SASL address=127.0.0.1:50000 reason={reason} "
        )
    };
    let expected = [
        line("claimed=alice ", "PLAIN", "wrong_credentials"),
        line("claimed=evil\\nline ", "PLAIN", "wrong_credentials"),
        line("", "PLAIN", "malformed_message"),
        line("", "PLAIN", "malformed_message"),
        line("", "SCRAM-SHA-256", "mechanism_not_enabled"),
    ];
    assert_eq!(*changes.0.lock(), expected);
    world.service.certificate_refused(RefusedCertificate {
        address: ([10, 0, 0, 1], 7).into(),
        listener: "SSL",
        subject: Some("CN=Duke"),
        reason: "certificate_mapping",
    });
    let last = changes.0.lock().pop();
    let expected = "claimed=CN=Duke mechanism=TLS listener=SSL address=10.0.0.1:7 \
                    reason=certificate_mapping ";
    assert_eq!(last.as_deref(), Some(expected));
}

/// `delegation_token` is that of a client that has authenticated; this one is only claimed.
#[tokio::test]
async fn a_failed_sign_in_by_a_token_has_a_line_with_the_claimed_id() {
    let changes = Changes::default();
    let _recording = tracing::subscriber::set_default(changes.clone());
    let world = World::with(Settings {
        security: scram::security,
        tokens: Some((token_config(), ManualClock::shared())),
        ..Settings::default()
    })
    .await;
    let stranger = sign_in::stranger(3, "SCRAM");
    let first = "n=some-id,r=abcdef,tokenauth=true";
    let refused = scram::exchange(&world, &stranger, first, "wrong").await;
    assert_ne!(refused.error_code, 0);
    let expected = "claimed_delegation_token=some-id mechanism=SCRAM-SHA-256 listener=SCRAM \
                    address=127.0.0.1:50000 reason=wrong_credentials ";
    assert_eq!(*changes.0.lock(), [expected]);
}
