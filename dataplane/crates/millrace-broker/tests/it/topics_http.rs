//! Topics over the admin HTTP: listed, described, created, changed and deleted without a Kafka client.

use millrace_broker::Broker;
use serde_json::{Value, json};

use crate::{records, support::Home};

/// A broker that every client has to sign in to and that checks ACLs: the admin HTTP needs neither.
const GUARDED: [&str; 3] = [
    "listeners=SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms=SCRAM-SHA-256",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
];

async fn call(broker: &Broker, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let (status, _, answer) = records::call(broker, method, path, body.as_bytes()).await;
    (status, answer)
}

async fn get(broker: &Broker, path: &str) -> Value {
    let (status, answer) = call(broker, "GET", path, &Value::Null).await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}

async fn create(broker: &Broker, body: Value) -> Value {
    let (status, answer) = call(broker, "POST", "/v1/topics", &body).await;
    assert_eq!(status, 201, "{body}: {answer}");
    answer
}

/// Status and Kafka's name of a request that is refused.
async fn refused(broker: &Broker, method: &str, path: &str, body: &Value) -> (u16, String) {
    let (status, answer) = call(broker, method, path, body).await;
    let message = answer["error"]["message"].as_str();
    assert!(message.is_some_and(|text| !text.is_empty()), "{answer}");
    let code = answer["error"]["code"].as_str().expect("a code");
    (status, code.to_owned())
}

fn names(page: &Value) -> Vec<&str> {
    let topics = page["topics"].as_array().expect("a list").iter();
    topics
        .map(|topic| topic["name"].as_str().expect("a name"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_created_and_described_without_a_kafka_client() {
    let home = Home::new();
    let broker = home.start(&GUARDED).await;
    let configs = json!({"retention.ms": "60000"});
    let created = create(
        &broker,
        json!({"name": "orders", "partitions": 3, "configs": configs}),
    )
    .await;
    assert_eq!(created["partition_count"], 3, "{created}");
    assert_eq!(created["replication_factor"], 1, "{created}");
    let topic = get(&broker, "/v1/topics/orders?include=configs,partitions").await;
    assert_eq!(topic["topic_id"], created["topic_id"], "{topic}");
    assert_eq!(topic["offline_partition_count"], 0, "{topic}");
    let partition = &topic["partitions"][2];
    assert_eq!(partition["partition"], 2, "{topic}");
    assert_eq!(partition["leader"], 0, "{topic}");
    assert_eq!(partition["offline"], Value::Null, "{topic}");
    assert_eq!(partition["end_offset"], "0", "{topic}");
    let own = json!({
        "value": "60000", "source": "DYNAMIC_TOPIC_CONFIG", "read_only": false, "sensitive": false
    });
    assert_eq!(topic["configs"]["retention.ms"], own, "{topic}");
    assert_eq!(
        topic["configs"]["cleanup.policy"]["source"], "DEFAULT_CONFIG",
        "{topic}"
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_changed_and_deleted_without_a_kafka_client() {
    let home = Home::new();
    let broker = home.start(&GUARDED).await;
    let configs = json!({"retention.ms": "60000"});
    create(
        &broker,
        json!({"name": "orders", "partitions": 3, "configs": configs}),
    )
    .await;
    let change = json!({
        "set": {"cleanup.policy": "compact"}, "unset": ["retention.ms"], "partitions": 5
    });
    let (status, answer) = call(&broker, "PATCH", "/v1/topics/orders", &change).await;
    assert_eq!((status, answer), (204, Value::Null));
    let topic = get(&broker, "/v1/topics/orders?include=configs").await;
    assert_eq!(topic["partition_count"], 5, "{topic}");
    assert_eq!(topic["partitions"], Value::Null, "{topic}");
    assert_eq!(
        topic["configs"]["cleanup.policy"]["value"], "compact",
        "{topic}"
    );
    assert_eq!(
        topic["configs"]["retention.ms"]["source"], "DEFAULT_CONFIG",
        "{topic}"
    );

    let (status, _) = call(&broker, "DELETE", "/v1/topics/orders", &Value::Null).await;
    assert_eq!(status, 204);
    for method in ["GET", "DELETE"] {
        let unknown = refused(&broker, method, "/v1/topics/orders", &Value::Null).await;
        assert_eq!(
            unknown,
            (404, "UNKNOWN_TOPIC_OR_PARTITION".to_owned()),
            "{method}"
        );
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_only_checked_is_not_changed() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    let body = json!({"name": "orders", "partitions": 2, "validate_only": true});
    let (status, checked) = call(&broker, "POST", "/v1/topics", &body).await;
    assert_eq!(
        (status, &checked["topic_id"]),
        (200, &Value::Null),
        "{checked}"
    );
    assert_eq!(names(&get(&broker, "/v1/topics").await), [""; 0]);

    create(&broker, json!({"name": "orders", "partitions": 2})).await;
    let change = json!({"set": {"retention.ms": "1"}, "partitions": 4, "validate_only": true});
    let (status, _) = call(&broker, "PATCH", "/v1/topics/orders", &change).await;
    assert_eq!(status, 204);
    // The settings are valid and the partitions are not: nothing changes.
    let change = json!({"set": {"retention.ms": "1"}, "partitions": 1});
    let fewer = refused(&broker, "PATCH", "/v1/topics/orders", &change).await;
    assert_eq!(fewer, (400, "INVALID_PARTITIONS".to_owned()));
    let topic = get(&broker, "/v1/topics/orders?include=configs").await;
    assert_eq!(topic["partition_count"], 2, "{topic}");
    assert_eq!(
        topic["configs"]["retention.ms"]["source"], "DEFAULT_CONFIG",
        "{topic}"
    );
    broker.stop().await;
}

/// Requests that are refused: method, path, body, status and code.
const REFUSALS: [(&str, &str, &str, u16, &str); 12] = [
    (
        "POST",
        "/v1/topics",
        r#"{"name":"orders"}"#,
        409,
        "TOPIC_ALREADY_EXISTS",
    ),
    (
        "POST",
        "/v1/topics",
        r#"{"name":"a/b"}"#,
        400,
        "INVALID_TOPIC_EXCEPTION",
    ),
    (
        "POST",
        "/v1/topics",
        r#"{"name":"b","partitions":0}"#,
        400,
        "INVALID_PARTITIONS",
    ),
    (
        "POST",
        "/v1/topics",
        r#"{"name":"b","configs":{"x":"y"}}"#,
        400,
        "INVALID_CONFIG",
    ),
    (
        "POST",
        "/v1/topics",
        r#"{"nam":"b"}"#,
        400,
        "INVALID_REQUEST",
    ),
    (
        "PATCH",
        "/v1/topics/orders",
        r#"{"set":{"retention.ms":"soon"}}"#,
        400,
        "INVALID_CONFIG",
    ),
    ("PATCH", "/v1/topics/orders", "{}", 400, "INVALID_REQUEST"),
    (
        "PATCH",
        "/v1/topics/b",
        r#"{"set":{"retention.ms":"1"}}"#,
        404,
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    (
        "PATCH",
        "/v1/topics/b",
        r#"{"partitions":2}"#,
        404,
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    (
        "GET",
        "/v1/topics?include=all",
        "null",
        400,
        "INVALID_REQUEST",
    ),
    ("GET", "/v1/topics?limit=0", "null", 400, "INVALID_REQUEST"),
    ("GET", "/v1/topics?page=2", "null", 400, "INVALID_REQUEST"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_has_kafkas_name_and_a_fitting_status() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    create(&broker, json!({"name": "orders", "partitions": 2})).await;
    for (method, path, body, status, code) in REFUSALS {
        let body = serde_json::from_str(body).expect("JSON");
        let refused = refused(&broker, method, path, &body).await;
        assert_eq!(refused, (status, code.to_owned()), "{method} {path} {body}");
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_comes_in_pages_and_without_internal_topics() {
    let home = Home::new();
    let broker = home.start(&[]).await;
    for name in ["c", "a", "b", "__millrace_smoke_1"] {
        create(&broker, json!({"name": name, "partitions": 1})).await;
    }
    let first = get(&broker, "/v1/topics?limit=2").await;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["next"], "b");
    let second = get(&broker, "/v1/topics?limit=2&after=b&include=configs").await;
    assert_eq!(names(&second), ["c"]);
    assert_eq!(second["next"], Value::Null);
    assert_eq!(
        second["topics"][0]["configs"]["cleanup.policy"]["value"],
        "delete"
    );
    // What the control plane writes to such a topic, it may write over HTTP as well.
    let body = json!({"records": [{"value": null}]});
    let path = "/v1/topics/__millrace_smoke_1/records";
    let (status, answer) = call(&broker, "POST", path, &body).await;
    assert_eq!(
        (status, &answer["results"][0]["offset"]),
        (200, &json!("0"))
    );
    let all = get(&broker, "/v1/topics?internal=true").await;
    assert!(names(&all).contains(&"__millrace_smoke_1"), "{all}");
    broker.stop().await;
}
