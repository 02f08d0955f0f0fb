//! The client library signs in by a delegation token.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use millrace_broker::Broker;
use millrace_client::{
    Admin, Client, ClientConfig,
    admin::NewTopic,
    security::{Scram, ScramMechanism},
    transport::BrokerAddress,
};
use millrace_testkit::KafkaClient;
use millrace_wire::{
    StrBytes,
    messages::{
        CreateDelegationTokenRequest, CreateDelegationTokenResponse, SaslAuthenticateRequest,
        SaslHandshakeRequest,
    },
};

use crate::support::{Home, address};

const SETTINGS: [&str; 4] = [
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config=\
     org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"secret\";",
    "delegation.token.secret.key=0123456789abcdef",
];

/// A token of alice, who signs in by her password.
async fn token(broker: &Broker) -> CreateDelegationTokenResponse {
    let mut alice = KafkaClient::connect(address(broker)).await;
    let mechanism = StrBytes::from_static_str("PLAIN");
    let handshake = SaslHandshakeRequest::default().with_mechanism(mechanism);
    assert_eq!(alice.call(1, &handshake).await.error_code, 0);
    let password = Bytes::from_static(b"\0alice\0secret");
    let password = SaslAuthenticateRequest::default().with_auth_bytes(password);
    assert_eq!(alice.call(2, &password).await.error_code, 0);
    let request = CreateDelegationTokenRequest::default().with_max_lifetime_ms(-1);
    let created = alice.call(3, &request).await;
    assert_eq!(created.error_code, 0);
    created
}

/// Creates a topic; why not, as a text.
async fn create(broker: &Broker, by: Scram, topic: &str) -> Result<(), String> {
    let at = address(broker);
    let bootstrap = BrokerAddress::new(&at.ip().to_string(), at.port());
    let mut config = ClientConfig::with_addresses(vec![bootstrap]);
    config.authenticate = Some(Arc::new(by));
    let new = [NewTopic::new(topic).partitions(1)];
    let created = Admin::new(&Client::new(config)).create_topics(&new).await;
    let created = created.map_err(|error| error.to_string())?;
    let created = created[topic].as_ref();
    created.map(|_| ()).map_err(ToString::to_string)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_signs_in_by_a_tokens_id_and_hmac() {
    let home = Home::new();
    let broker = home.start(&SETTINGS).await;
    let token = token(&broker).await;
    let (id, hmac) = (&*token.token_id, STANDARD.encode(&token.hmac));
    for (mechanism, topic) in [
        (ScramMechanism::Sha256, "by-256"),
        (ScramMechanism::Sha512, "by-512"),
    ] {
        let by_token = Scram::delegation_token(mechanism, id, &hmac);
        create(&broker, by_token, topic).await.expect("allowed");
    }
    let mechanism = ScramMechanism::Sha256;
    for refused in [
        Scram::delegation_token(mechanism, id, &STANDARD.encode("another")),
        Scram::delegation_token(mechanism, "another", &hmac),
        // A token is no user.
        Scram::new(mechanism, id, &hmac),
    ] {
        let refused = create(&broker, refused, "never").await;
        let refused = refused.expect_err("not that token");
        assert!(refused.contains("Authentication failed"), "{refused}");
    }
    broker.stop().await;
}
