//! Gateways that do what no gateway should. None of them harms Kafka's clients, and the broker dials again after
//! each.

use http_body_util::Full;
use hyper::{Request, StatusCode};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

use super::{
    failed_with,
    gateway::{Gateway, SWITCH},
    serves_clients,
};
use crate::support::{self, Home};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_HEADERS: u8 = 4;
const END_STREAM: u8 = 1;
const REFUSED_STREAM: u32 = 7;
const STREAMS: u32 = 1_000;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// HPACK: the method, `https`, and the path as a literal.
fn request(method: u8, path: &str) -> Vec<u8> {
    let mut block = vec![method, 0x87, 0x04, u8::try_from(path.len()).expect("short")];
    block.extend(path.as_bytes());
    block
}
const GET: u8 = 0x82;
const POST: u8 = 0x83;

/// Type and payload of the next frame; none where the broker closed the connection.
async fn next_frame(tls: &mut TlsStream<TcpStream>) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    tls.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).expect("short")];
    tls.read_exact(&mut payload).await.ok()?;
    Some((head[3], payload))
}

/// A broker with a topic, which waits for its gateway.
async fn broker(home: &Home, gateway: &Gateway) -> millrace_broker::Broker {
    let broker = gateway.start(home, &[]).await;
    assert_eq!(support::client(&broker).await.create_topic("t", 1).await, 0);
    broker
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_no_link() {
    let (home, gateway) = (Home::new(), Gateway::new().await);
    let broker = broker(&home, &gateway).await;
    let huge = format!(
        "HTTP/1.1 101 Switching Protocols\r\nX: {}\r\n\r\n",
        "x".repeat(1 << 20)
    );
    let garbage = format!("{SWITCH}GET / HTTP/1.1\r\nHost: broker\r\n\r\n");
    for (answer, error) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi\n",
            "refused the link: 200 OK hi",
        ),
        (
            "HTTP/1.1 302 Found\r\nLocation: https://example.org/\r\n\r\n",
            "302 Found",
        ),
        (
            "HTTP/1.1 503 Service Unavailable\r\n\r\ndraining\n",
            "503 Service Unavailable draining",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            "101 Switching",
        ),
        ("SSH-2.0-OpenSSH\r\n", "invalid HTTP version"),
        (&huge, "too large"),
        (&garbage, "it sends something else"),
        (SWITCH, "does not speak HTTP/2"),
        ("", "connection closed"),
    ] {
        gateway.accept().await.answer(answer).await;
        failed_with(&broker, error).await;
        serves_clients(&broker).await;
    }
    let mut link = gateway.accept().await.upgrade().await;
    assert_eq!(link.get("/healthz").await.0, StatusCode::OK);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_streams_and_huge_headers() {
    let (home, gateway) = (Home::new(), Gateway::new().await);
    let broker = broker(&home, &gateway).await;
    let mut tls = gateway.accept().await.switch().await;
    let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    // Bodies that never come keep the streams open.
    let block = request(POST, "/v1/topics/t/records");
    for stream in 0..STREAMS {
        bytes.extend(frame(HEADERS, END_HEADERS, 2 * stream + 1, &block));
    }
    // The broker may close the connection before it has read all.
    let _ = tls.write_all(&bytes).await;
    let _ = tls.flush().await;
    loop {
        match next_frame(&mut tls).await {
            Some((RST_STREAM, code)) if code == REFUSED_STREAM.to_be_bytes() => break,
            Some((GOAWAY, _)) | None => break,
            Some((DATA | HEADERS | RST_STREAM | SETTINGS | _, _)) => {}
        }
    }
    serves_clients(&broker).await;
    drop(tls);
    let mut link = gateway.accept().await.upgrade().await;
    let huge = Request::get("/healthz").header("x", "x".repeat(256 << 10));
    let huge = link.call(huge.body(Full::default()).expect("legal")).await;
    let is_refused = huge.as_ref().is_err()
        || huge
            .as_ref()
            .is_ok_and(|(code, _)| *code == StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert!(is_refused, "{huge:?}");
    link.cut();
    let mut link = gateway.accept().await.upgrade().await;
    assert_eq!(link.get("/healthz").await.0, StatusCode::OK);
    serves_clients(&broker).await;
    broker.stop().await;
}

/// Each takes as long as the broker's patience, so they wait side by side.
#[tokio::test(flavor = "multi_thread")]
async fn gateways_that_fall_silent() {
    tokio::join!(never_answers(), never_speaks_http2(), stops_reading());
}

async fn never_answers() {
    let (home, gateway) = (Home::new(), Gateway::new().await);
    let broker = broker(&home, &gateway).await;
    let silent = gateway.accept().await;
    failed_with(&broker, "has not completed the handshake").await;
    serves_clients(&broker).await;
    let mut link = gateway.accept().await.upgrade().await;
    assert_eq!(link.get("/healthz").await.0, StatusCode::OK);
    drop(silent);
    broker.stop().await;
}

async fn never_speaks_http2() {
    let (home, gateway) = (Home::new(), Gateway::new().await);
    let broker = broker(&home, &gateway).await;
    let silent = gateway.accept().await.switch().await;
    failed_with(&broker, "has not completed the handshake").await;
    serves_clients(&broker).await;
    let mut link = gateway.accept().await.upgrade().await;
    assert_eq!(link.get("/healthz").await.0, StatusCode::OK);
    drop(silent);
    broker.stop().await;
}

async fn stops_reading() {
    let (home, gateway) = (Home::new(), Gateway::new().await);
    let broker = broker(&home, &gateway).await;
    let mut tls = gateway.accept().await.switch().await;
    let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    let block = request(GET, "/metrics");
    for stream in 0..16 {
        bytes.extend(frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            2 * stream + 1,
            &block,
        ));
    }
    tls.write_all(&bytes).await.expect("open");
    tls.flush().await.expect("open");
    failed_with(&broker, "timed out").await;
    serves_clients(&broker).await;
    let mut link = gateway.accept().await.upgrade().await;
    assert_eq!(link.get("/healthz").await.0, StatusCode::OK);
    drop(tls);
    broker.stop().await;
}
