//! What the control plane manages over the admin HTTP: settings, users, access control lists and quotas, at a
//! broker whose only listener asks for a password.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use millrace_broker::Broker;
use millrace_client::{
    Admin, Client, ClientConfig,
    security::{Scram, ScramMechanism},
    transport::BrokerAddress,
};
use millrace_security::credentials::ScramHash;
use serde_json::{Value, json};

use crate::{
    records::call,
    support::{Home, address},
};

const SETTINGS: [&str; 3] = [
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
];
const SALT: &[u8] = b"0123456789abcdef";
const ITERATIONS: u16 = 4_096;

async fn ask(broker: &Broker, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let (status, _, answer) = call(broker, method, path, body.as_bytes()).await;
    (status, answer)
}

async fn get(broker: &Broker, path: &str) -> Value {
    let (status, answer) = ask(broker, "GET", path, &Value::Null).await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

async fn change(broker: &Broker, method: &str, path: &str, body: &Value) {
    let answer = ask(broker, method, path, body).await;
    assert_eq!(answer, (204, Value::Null), "{path}: {body}");
}

/// Status, code and text of a request that is refused.
async fn refused(broker: &Broker, method: &str, path: &str, body: &Value) -> (u16, String, String) {
    let (status, answer) = ask(broker, method, path, body).await;
    let part = |name: &str| {
        answer["error"][name]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    (status, part("code"), part("message"))
}

async fn setting(broker: &Broker, key: &str) -> Value {
    let shown = get(broker, "/v1/config").await;
    let settings = shown["settings"].as_array().expect("a list");
    let found = settings.iter().find(|setting| setting["key"] == key);
    found.expect("known").clone()
}

fn credential(mechanism: &str, hash: ScramHash, password: &str) -> Value {
    let salted = hash.salted_password(password.as_bytes(), SALT, ITERATIONS.into());
    json!({
        "mechanism": mechanism, "iterations": ITERATIONS,
        "salt": STANDARD.encode(SALT), "salted_password": STANDARD.encode(salted),
    })
}

/// Lists topics as this user; why not, as a text.
async fn signs_in(
    broker: &Broker,
    mechanism: ScramMechanism,
    password: &str,
) -> Result<Vec<String>, String> {
    let at = address(broker);
    let bootstrap = BrokerAddress::new(&at.ip().to_string(), at.port());
    let mut config = ClientConfig::with_addresses(vec![bootstrap]);
    config.authenticate = Some(Arc::new(Scram::new(mechanism, "alice", password)));
    let admin = Admin::new(&Client::new(config));
    let topics = admin
        .list_topics()
        .await
        .map_err(|error| error.to_string())?;
    Ok(topics
        .into_iter()
        .map(|topic| topic.name.to_string())
        .collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_change_all_or_none_and_last() {
    const PREFETCH: &str = "s3.prefetch.max.bytes";
    const CACHE: &str = "s3.block.cache.size";
    let home = Home::new();
    let broker = home.start(&SETTINGS).await;
    let wanted = json!({"set": {PREFETCH: "1048576", CACHE: "25165824"}});
    let mut asked = wanted.clone();
    asked["validate_only"] = true.into();
    change(&broker, "PATCH", "/v1/config", &asked).await;
    assert_eq!(setting(&broker, PREFETCH).await["is_default"], true);
    change(&broker, "PATCH", "/v1/config", &wanted).await;
    broker.stop().await;

    let broker = home.start(&SETTINGS).await;
    assert_eq!(setting(&broker, PREFETCH).await["value"], "1048576");
    let bad = json!({"set": {CACHE: "4096"}, "unset": [PREFETCH]});
    let (status, code, message) = refused(&broker, "PATCH", "/v1/config", &bad).await;
    assert_eq!((status, code.as_str()), (400, "INVALID_CONFIG"));
    assert!(
        message.starts_with("s3.block.cache.size: 4096 is below the least of 16777216: "),
        "{message}"
    );
    assert_eq!(
        setting(&broker, PREFETCH).await["value"],
        "1048576",
        "all or none"
    );
    change(
        &broker,
        "PATCH",
        "/v1/config",
        &json!({"unset": [PREFETCH]}),
    )
    .await;
    assert_eq!(setting(&broker, PREFETCH).await["is_default"], true);
    assert_eq!(setting(&broker, CACHE).await["value"], "25165824");
    for (bad, expected) in [
        (json!({}), "at least one setting"),
        (
            json!({"set": {PREFETCH: "1"}, "unset": [PREFETCH]}),
            "duplicate",
        ),
        (json!({"set": {PREFETCH: 1}}), "not the JSON of a change"),
        (json!({"sets": {}}), "unknown field `sets`"),
        (json!({"set": {"num.partitions": "3"}}), "server.properties"),
    ] {
        let (status, _, message) = refused(&broker, "PATCH", "/v1/config", &bad).await;
        assert!(
            status == 400 && message.contains(expected),
            "{status} {message}"
        );
    }
    let large = json!({"set": {PREFETCH: "1".repeat(1 << 20)}});
    let (status, code, _) = refused(&broker, "PATCH", "/v1/config", &large).await;
    assert_eq!((status, code.as_str()), (413, "REQUEST_TOO_LARGE"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_sign_in_with_what_was_put_until_it_is_removed() {
    let home = Home::new();
    let broker = home.start(&SETTINGS).await;
    assert_eq!(get(&broker, "/v1/users").await, json!({"users": []}));
    let both = json!({"put": [
        credential("SCRAM-SHA-256", ScramHash::Sha256, "one"),
        credential("SCRAM-SHA-512", ScramHash::Sha512, "two"),
    ]});
    change(&broker, "PATCH", "/v1/users/alice", &both).await;
    let alice = json!({"name": "alice", "credentials": [
        {"mechanism": "SCRAM-SHA-256", "iterations": ITERATIONS},
        {"mechanism": "SCRAM-SHA-512", "iterations": ITERATIONS},
    ]});
    assert_eq!(get(&broker, "/v1/users/alice").await, alice);
    assert_eq!(get(&broker, "/v1/users").await, json!({"users": [alice]}));
    let (sha256, sha512) = (ScramMechanism::Sha256, ScramMechanism::Sha512);
    assert_eq!(signs_in(&broker, sha256, "one").await, Ok(vec![]));
    assert_eq!(signs_in(&broker, sha512, "two").await, Ok(vec![]));

    let removal = json!({"remove": ["SCRAM-SHA-256"]});
    change(&broker, "PATCH", "/v1/users/alice", &removal).await;
    assert!(signs_in(&broker, sha256, "one").await.is_err());
    assert_eq!(signs_in(&broker, sha512, "two").await, Ok(vec![]));
    // One of the two is not there: neither is removed.
    let both = json!({"remove": ["SCRAM-SHA-512", "SCRAM-SHA-256"]});
    let (status, code, _) = refused(&broker, "PATCH", "/v1/users/alice", &both).await;
    assert_eq!((status, code.as_str()), (404, "RESOURCE_NOT_FOUND"));
    assert_eq!(signs_in(&broker, sha512, "two").await, Ok(vec![]));
    let removal = json!({"remove": ["SCRAM-SHA-512"]});
    change(&broker, "PATCH", "/v1/users/alice", &removal).await;
    let (status, code, _) = refused(&broker, "GET", "/v1/users/alice", &Value::Null).await;
    assert_eq!((status, code.as_str()), (404, "RESOURCE_NOT_FOUND"));

    let mut weak = credential("SCRAM-SHA-256", ScramHash::Sha256, "x");
    weak["iterations"] = 1.into();
    let mut no_base64 = credential("SCRAM-SHA-256", ScramHash::Sha256, "x");
    no_base64["salted_password"] = "secret!".into();
    for (user, put, expected) in [
        ("bob", weak, "UNACCEPTABLE_CREDENTIAL"),
        ("bob", no_base64, "INVALID_REQUEST"),
        ("bob", json!({"mechanism": "PLAIN"}), "INVALID_REQUEST"),
        (
            "__millrace",
            credential("SCRAM-SHA-256", ScramHash::Sha256, "x"),
            "UNACCEPTABLE_CREDENTIAL",
        ),
    ] {
        let path = format!("/v1/users/{user}");
        let (status, code, message) =
            refused(&broker, "PATCH", &path, &json!({"put": [put]})).await;
        assert_eq!((status, code.as_str()), (400, expected), "{message}");
        assert!(!message.contains("secret!"), "{message}");
    }
    broker.stop().await;
}

fn acl(name: &str, operation: &str) -> Value {
    json!({
        "principal": "User:alice", "resource_type": "topic", "resource_name": name,
        "pattern_type": "literal", "operation": operation, "permission": "allow", "host": "*",
    })
}

/// The ACL as a query.
fn query(acl: &Value) -> String {
    let fields = acl.as_object().expect("an object").iter();
    let field =
        |(name, value): (&String, &Value)| format!("{name}={}", value.as_str().expect("a text"));
    fields.map(field).collect::<Vec<_>>().join("&")
}

#[tokio::test(flavor = "multi_thread")]
async fn acls_are_created_found_and_deleted() {
    let home = Home::new();
    let broker = home.start(&SETTINGS).await;
    let (orders, payments) = (acl("orders", "read"), acl("payments", "describe_configs"));
    let illegal = acl("", "read");
    let several = json!({"acls": [orders, illegal, payments]});
    let (status, code, message) = refused(&broker, "POST", "/v1/acls", &several).await;
    assert_eq!((status, code.as_str()), (400, "INVALID_REQUEST"));
    assert!(message.starts_with("acls[1]: "), "{message}");
    assert_eq!(
        get(&broker, "/v1/acls").await,
        json!({"acls": []}),
        "all or none"
    );
    let both = json!({"acls": [orders, payments]});
    change(&broker, "POST", "/v1/acls", &both).await;
    change(&broker, "POST", "/v1/acls", &both).await;
    assert_eq!(get(&broker, "/v1/acls").await, both);
    let found = get(&broker, "/v1/acls?operation=read").await;
    assert_eq!(found, json!({"acls": [orders]}));
    let found = get(
        &broker,
        "/v1/acls?resource_name=payments&pattern_type=match",
    )
    .await;
    assert_eq!(found, json!({"acls": [payments]}));
    for path in [
        "/v1/acls?operation=fly",
        "/v1/acls?colour=red",
        "/v1/acls?resource_type=any",
    ] {
        let (status, code, _) = refused(&broker, "GET", path, &Value::Null).await;
        assert_eq!((status, code.as_str()), (400, "INVALID_REQUEST"), "{path}");
    }

    // A filter that names less would delete more than was meant.
    let path = "/v1/acls?resource_type=topic&resource_name=orders";
    let (status, code, _) = refused(&broker, "DELETE", path, &Value::Null).await;
    assert_eq!((status, code.as_str()), (400, "INVALID_REQUEST"));
    let path = format!("/v1/acls?{}", query(&orders));
    for deleted in [true, false] {
        let answer = ask(&broker, "DELETE", &path, &Value::Null).await;
        assert_eq!(answer, (200, json!({"deleted": deleted})));
    }
    assert_eq!(get(&broker, "/v1/acls").await, json!({"acls": [payments]}));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_authorizer_acls_are_refused() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let body = json!({"acls": [acl("orders", "read")]});
    for (method, body) in [("GET", Value::Null), ("POST", body)] {
        let (status, code, _) = refused(&broker, method, "/v1/acls", &body).await;
        assert_eq!((status, code.as_str()), (409, "SECURITY_DISABLED"));
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_are_set_and_removed() {
    let home = Home::new();
    let broker = home.start(&SETTINGS).await;
    let path = "/v1/client-quotas";
    let alice = json!([{"type": "user", "name": "alice"}]);
    let everyone = json!([{"type": "client-id", "name": null}]);
    let limits = json!({"producer_byte_rate": 1_024.0, "request_percentage": 12.5});
    let asked = json!({"entity": alice, "limits": limits});
    let mut checked = asked.clone();
    checked["validate_only"] = true.into();
    change(&broker, "PATCH", path, &checked).await;
    assert_eq!(get(&broker, path).await, json!({"quotas": []}));
    change(&broker, "PATCH", path, &asked).await;
    let default = json!({"entity": everyone, "limits": {"consumer_byte_rate": 99.0}});
    change(&broker, "PATCH", path, &default).await;
    let removal = json!({"entity": alice, "limits": {"request_percentage": null}});
    change(&broker, "PATCH", path, &removal).await;
    let mut shown = get(&broker, path).await;
    let quotas = shown["quotas"].as_array_mut().expect("a list");
    quotas.sort_by_key(ToString::to_string);
    let kept = json!({"entity": alice, "limits": {"producer_byte_rate": 1_024.0}});
    assert_eq!(*quotas, [kept, default]);
    for bad in [
        json!({"entity": alice, "limits": {}}),
        json!({"entity": [], "limits": {"producer_byte_rate": 1}}),
        json!({"entity": alice, "limits": {"producer_byte_rate": -1}}),
        json!({"entity": alice, "limits": {"wishes": 3}}),
        json!({"entity": [{"type": "user", "name": "__millrace"}], "limits": {"producer_byte_rate": 1}}),
    ] {
        let (status, code, _) = refused(&broker, "PATCH", path, &bad).await;
        assert_eq!((status, code.as_str()), (400, "INVALID_REQUEST"), "{bad}");
    }
    broker.stop().await;
}
