//! What the audit log has of changes.

use std::{fmt, sync::Arc};

use kafka_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    ExpireDelegationTokenRequest, IncrementalAlterConfigsRequest, RenewDelegationTokenRequest,
    create_topics_request::CreatableTopic, delete_topics_request::DeleteTopicState,
};
use millrace_wire::service::Peer;
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
    delegation_tokens::create_token,
    versions::{create_partitions, delete_records, incremental_alter_configs},
    world::World,
};

/// The lines of changes on this thread: type of the resource, its name, and the result.
#[derive(Default, Clone)]
struct Changes(Arc<Mutex<Vec<String>>>);

impl Subscriber for Changes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "millrace::audit"
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        if line.event == "changed" {
            self.0.lock().push(line.shown);
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
    shown: String,
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "event" => value.clone_into(&mut self.event),
            "resource_type" => value.clone_into(&mut self.shown),
            "resource" | "result" => self.shown += &format!(" {value}"),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
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
    let created = world.ask_as(&alice, 3, &create_token("", &[])).await;
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
    let line = format!("DELEGATION_TOKEN {} NONE", &*created.token_id);
    assert_eq!(*changes.0.lock(), [line.as_str(); 3]);
}
