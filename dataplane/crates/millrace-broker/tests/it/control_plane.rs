//! A broker whose only listener asks for a password: the control plane signs in with the admin token, and the
//! broker itself needs no listener to serve records over HTTP.

use std::sync::Arc;

use millrace_broker::Broker;
use millrace_client::{
    Admin, Client, ClientConfig, Producer, ProducerConfig, ProducerRecord,
    admin::NewTopic,
    security::{Scram, ScramMechanism},
    transport::BrokerAddress,
};
use serde_json::json;

use crate::{
    records::call,
    support::{Home, TOKEN, address},
};

const SETTINGS: [&str; 4] = [
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512",
    "admin.sasl.enabled=true",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
];
const CONTROL_PLANE: &str = "__millrace";

fn client(broker: &Broker, mechanism: ScramMechanism, user: &str, password: &str) -> Client {
    let at = address(broker);
    let bootstrap = BrokerAddress::new(&at.ip().to_string(), at.port());
    let mut config = ClientConfig::with_addresses(vec![bootstrap]);
    config.authenticate = Some(Arc::new(Scram::new(mechanism, user, password)));
    Client::new(config)
}

async fn create(client: &Client, topic: &str) -> Result<(), String> {
    let new = [NewTopic::new(topic).partitions(1)];
    let results = Admin::new(client).create_topics(&new).await;
    let results = results.map_err(|error| error.to_string())?;
    let created = &results[topic];
    created.as_ref().map(|_| ()).map_err(ToString::to_string)
}

/// Writes a record; why not, as a text.
async fn write(client: &Client, topic: &str) -> Result<(), String> {
    let producer = Producer::new(client, ProducerConfig::default()).expect("legal");
    let record = ProducerRecord::to(topic).value(b"value");
    let delivery = producer.send(record).await;
    let delivery = delivery.map_err(|error| error.to_string())?;
    delivery
        .await
        .map(|_| ())
        .map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn it_signs_in_with_the_admin_token_and_sees_no_records_of_tenants() {
    let home = Home::new();
    let broker = home.start(&SETTINGS).await;
    let control_plane = client(&broker, ScramMechanism::Sha256, CONTROL_PLANE, TOKEN);
    for topic in ["orders", "__millrace_smoke_1"] {
        create(&control_plane, topic).await.expect("allowed");
    }
    write(&control_plane, "__millrace_smoke_1")
        .await
        .expect("its own topic");
    let refused = write(&control_plane, "orders")
        .await
        .expect_err("a tenant's");
    assert!(refused.contains("TOPIC_AUTHORIZATION_FAILED"), "{refused}");
    let other = client(&broker, ScramMechanism::Sha512, CONTROL_PLANE, TOKEN);
    create(&other, "invoices").await.expect("by each mechanism");
    for (user, password) in [(CONTROL_PLANE, "wrong"), ("__millrace_records", TOKEN)] {
        let stranger = client(&broker, ScramMechanism::Sha256, user, password);
        let refused = create(&stranger, "never").await.expect_err("refused");
        assert!(refused.contains("Authentication failed"), "{refused}");
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_over_http_need_no_listener_without_a_password() {
    let home = Home::new();
    let broker = home.start(&SETTINGS).await;
    let control_plane = client(&broker, ScramMechanism::Sha256, CONTROL_PLANE, TOKEN);
    create(&control_plane, "orders").await.expect("allowed");
    let value = json!({"encoding": "text", "data": "one"});
    let body = json!({"records": [{"value": value}]}).to_string();
    let path = "/v1/topics/orders/records";
    let (status, _, answer) = call(&broker, "POST", path, body.as_bytes()).await;
    assert_eq!(status, 200, "{answer}");
    let (status, _, answer) = call(&broker, "GET", "/v1/topics/orders/records?newest=1", b"").await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["records"][0]["value"]["data"], "one", "{answer}");
    broker.stop().await;
}

#[tokio::test]
async fn records_over_http_can_be_disabled() {
    let home = Home::new();
    let broker = home.start(&["admin.records.enabled=false"]).await;
    for (method, path) in [
        ("GET", "/v1/topics/orders/records"),
        ("GET", "/v1/topics/orders/records/stream"),
        ("POST", "/v1/topics/orders/records"),
    ] {
        let (status, _, answer) = call(&broker, method, path, b"").await;
        assert_eq!(status, 404, "{method} {path}: {answer}");
        assert_eq!(answer["error"]["code"], "RECORDS_DISABLED", "{answer}");
    }
    broker.stop().await;
}

#[tokio::test]
async fn it_does_not_sign_in_unless_that_is_configured() {
    let home = Home::new();
    let [listeners, mechanisms, _, authorizer] = SETTINGS;
    let broker = home.start(&[listeners, mechanisms, authorizer]).await;
    let stranger = client(&broker, ScramMechanism::Sha256, CONTROL_PLANE, TOKEN);
    let refused = create(&stranger, "never").await.expect_err("refused");
    assert!(refused.contains("Authentication failed"), "{refused}");
    broker.stop().await;
}
