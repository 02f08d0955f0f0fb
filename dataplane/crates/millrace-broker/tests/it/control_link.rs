//! The control link: brokers dial a gateway, which calls their admin HTTP on that connection, whatever gateway it is.

mod gateway;
mod hostile;

use http_body_util::Full;
use hyper::{Request, StatusCode};
use millrace_broker::Broker;
use millrace_record::Compression;
use serde_json::Value;

use self::gateway::{Gateway, Link};
use crate::support::{self, Home, TOKEN, batch};

/// A record is written, whatever became of the link.
async fn serves_clients(broker: &Broker) {
    let mut client = support::client(broker).await;
    let produced = client.produce("t", 0, batch(&["v"], Compression::None));
    produced.await.expect("acknowledged");
}

async fn status_at_port(broker: &Broker) -> Value {
    let (code, body) = support::get(broker, "/v1/status", Some(TOKEN)).await;
    assert_eq!(code, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

/// Waits until the link's last error contains a text.
async fn failed_with(broker: &Broker, text: &str) {
    loop {
        let status = status_at_port(broker).await;
        let error = status["control_link"]["last_error"].as_str();
        if error.is_some_and(|error| error.contains(text)) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_without_a_port_serves_its_admin_http_on_the_link() {
    let (home, gateway) = (Home::new(), Gateway::new().await);
    let broker = gateway.start(&home, &["admin.listener=none"]).await;
    assert_eq!(broker.admin_address(), None);
    let dialled = gateway.accept().await;
    for header in [
        "GET /v1/link HTTP/1.1",
        "connection: upgrade",
        "upgrade: millrace-link/1",
        "authorization: bearer mlk_first",
        "millrace-cluster: test",
        "millrace-broker: 0",
        "millrace-broker-start: ",
        concat!("millrace-version: ", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(
            dialled.head.to_lowercase().contains(&header.to_lowercase()),
            "{header}: {}",
            dialled.head
        );
    }
    let mut link = dialled.upgrade().await;
    let (code, status) = link.get("/v1/status").await;
    assert_eq!(code, StatusCode::OK);
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["control_link"]["state"], "connected", "{status}");
    assert_eq!(
        status["control_link"]["address"],
        gateway.address(),
        "{status}"
    );
    assert_eq!(
        link.get("/readyz").await,
        (StatusCode::OK, "ready\n".to_owned())
    );
    let (_, metrics) = link.get("/metrics").await;
    for name in [
        "millrace_control_link_connected",
        "millrace_control_link_connects_total",
    ] {
        assert!(metrics.contains(name), "{name}");
    }
    writes_and_reads_records(&broker, &mut link).await;
    broker.stop().await;
    link.closed().await.expect("closed in order, not cut");
}

async fn writes_and_reads_records(broker: &Broker, link: &mut Link) {
    assert_eq!(support::client(broker).await.create_topic("t", 1).await, 0);
    let path = "/v1/topics/t/records";
    let body = r#"{"records":[{"value":{"encoding":"text","data":"one"}}]}"#;
    let request = Request::post(path).body(Full::from(body)).expect("legal");
    let (code, answer) = link.call(request).await.expect("answered");
    assert_eq!(code, StatusCode::OK, "{answer}");
    let (code, answer) = link.get("/v1/topics/t/records?newest=1").await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    assert!(answer.contains(r#""data":"one""#), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_another_broker_is_refused_on_link_and_port() {
    let (home, gateway) = (Home::new(), Gateway::new().await);
    let broker = gateway.start(&home, &[]).await;
    let mut link = gateway.accept().await.upgrade().await;
    let port = broker.admin_address().expect("a port");
    for (cluster, node, expected) in [
        (Some("test"), Some("0"), 200),
        (None, None, 200),
        (Some("other"), None, 421),
        (None, Some("1"), 421),
        (Some("test"), Some("1"), 421),
    ] {
        let mut request = Request::get("/v1/config");
        let mut head =
            format!("GET /v1/config HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n");
        for (name, value) in [("Millrace-Cluster", cluster), ("Millrace-Broker", node)] {
            let Some(value) = value else { continue };
            request = request.header(name, value);
            head += &format!("{name}: {value}\r\n");
        }
        let answer = link
            .send(request.body(Full::default()).expect("legal"))
            .await;
        let answer = answer.expect("answered");
        assert_eq!(answer.status(), expected, "{cluster:?} {node:?}");
        assert_eq!(answer.headers()["millrace-cluster"], "test");
        assert_eq!(answer.headers()["millrace-broker"], "0");
        let answer = gateway::raw(port, &head).await.to_lowercase();
        assert!(
            answer.starts_with(&format!("http/1.1 {expected}")),
            "{answer}"
        );
        for header in ["millrace-cluster: test\r\n", "millrace-broker: 0\r\n"] {
            assert!(answer.contains(header), "{answer}");
        }
    }
    let (code, _) = support::get(&broker, "/v1/config", None).await;
    assert_eq!(code, 401, "the port asks for the token all the same");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_cut_comes_back() {
    let (home, gateway) = (Home::new(), Gateway::new().await);
    let broker = gateway.start(&home, &["admin.listener=none"]).await;
    let mut starts = Vec::new();
    for _ in 0..10 {
        let dialled = gateway.accept().await;
        starts.push(dialled.header("millrace-broker-start"));
        let mut link = dialled.upgrade().await;
        assert_eq!(link.get("/healthz").await.0, StatusCode::OK);
        link.cut();
    }
    starts.dedup();
    assert_eq!(starts.len(), 1, "one start of the broker: {starts:?}");
    let mut link = gateway.accept().await.upgrade().await;
    let (_, status) = link.get("/v1/status").await;
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert!(status["control_link"]["last_error"].is_string(), "{status}");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_read_again_for_each_attempt() {
    let (home, gateway) = (Home::new(), Gateway::new().await);
    let broker = gateway.start(&home, &[]).await;
    let refused = gateway.accept().await;
    refused
        .answer("HTTP/1.1 401 Unauthorized\r\nContent-Length: 8\r\n\r\nrevoked\n")
        .await;
    failed_with(
        &broker,
        "rejected the credential of control.link.credential.file: 401 Unauthorized revoked",
    )
    .await;
    std::fs::remove_file(home.path().join("link.credential")).expect("there");
    failed_with(&broker, "control.link.credential.file").await;
    std::fs::write(home.path().join("link.credential"), "mlk_second\n").expect("writable");
    loop {
        let dialled = gateway.accept().await;
        if dialled.header("authorization") == "Bearer mlk_second" {
            let mut link = dialled.upgrade().await;
            assert_eq!(link.get("/healthz").await.0, StatusCode::OK);
            break;
        }
        // It had read the former one.
        dialled.answer("HTTP/1.1 401 Unauthorized\r\n\r\n").await;
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_with_another_certificate_gets_no_credential() {
    let (home, gateway, other) = (Home::new(), Gateway::new().await, Gateway::new().await);
    let broker = gateway.start(&home, &[]).await;
    std::fs::write(home.path().join("ca.pem"), &other.root).expect("writable");
    gateway
        .accept()
        .await
        .answer("HTTP/1.1 503 Service Unavailable\r\n\r\n")
        .await;
    gateway.refuses_tls().await;
    failed_with(&broker, "certificate").await;
    std::fs::write(home.path().join("ca.pem"), &gateway.root).expect("writable");
    let mut link = gateway.accept_lenient().await.upgrade().await;
    assert_eq!(link.get("/healthz").await.0, StatusCode::OK);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_served_while_the_gateway_is_away() {
    let home = Home::new();
    let settings = [
        "control.link.address=localhost:1",
        "control.link.credential.file=/nowhere",
        "admin.listener=127.0.0.1:0",
    ];
    let broker = home.start(&settings).await;
    failed_with(
        &broker,
        "control.link.credential.file /nowhere: No such file",
    )
    .await;
    assert_eq!(support::client(&broker).await.create_topic("t", 1).await, 0);
    serves_clients(&broker).await;
    let status = status_at_port(&broker).await;
    assert_eq!(status["control_link"]["state"], "disconnected", "{status}");
    broker.stop().await;
    let home = Home::new();
    let credential = home.path().join("admin.token").display().to_string();
    let credential = format!("control.link.credential.file={credential}");
    let broker = home.start(&[settings[0], &credential, settings[2]]).await;
    failed_with(&broker, "refused").await;
    assert_eq!(support::client(&broker).await.create_topic("t", 1).await, 0);
    serves_clients(&broker).await;
    broker.stop().await;
}
