//! What an idle connection costs. A test binary of its own, because it measures its process.
#![cfg(target_os = "linux")]

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use millrace_net::{ListenerConfig, ListenerLimits, ListenerSecurity, Listeners, NetConfig};
use millrace_purgatory::Timers;
use millrace_tasks::Supervisor;
use millrace_time::SystemClock;
use millrace_wire::{
    Response,
    service::{Accepted, BoxFuture, Peer, Service},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Both ends of all connections fit into the usual 1,024 file descriptors; what one connection
/// costs does not depend on their number.
const CONNECTIONS: usize = 400;
const IDLE_BYTES_MAX: usize = 20 * 1024;

struct Echo;

impl Service for Echo {
    fn accept<'a>(&'a self, _peer: &'a Arc<Peer>, frame: BytesMut) -> BoxFuture<'a, Accepted> {
        let length = u32::try_from(frame.len()).expect("small").to_be_bytes();
        let segments = vec![Bytes::copy_from_slice(&length), frame.freeze()];
        let response = Response::from_segments(segments);
        Box::pin(async { Accepted::Pending(Box::pin(async { response })) })
    }
}

#[tokio::test]
async fn an_idle_connection_costs_less_than_20_kib() {
    let listener = ListenerConfig {
        name: "PLAINTEXT".into(),
        host: "127.0.0.1".into(),
        port: 0,
        security: ListenerSecurity::default(),
        limits: ListenerLimits::default(),
    };
    let listeners = Listeners::bind(&[listener]).await.expect("a free port");
    let address = listeners.addresses()[0].1;
    let clock = SystemClock::shared();
    let timers = Timers::new(clock.clone(), Supervisor::new());
    let serving = listeners.serve(
        NetConfig::default(),
        Arc::new(Echo),
        clock,
        timers,
        (Arc::default(), &Supervisor::new()),
    );
    let server = serving.expect("nobody else listens there");
    let mut clients = Vec::with_capacity(CONNECTIONS);
    let before = resident_bytes();
    for _ in 0..CONNECTIONS {
        let mut client = TcpStream::connect(address).await.expect("accepted");
        let request = [&10_000_u32.to_be_bytes()[..], &[7; 10_000]].concat();
        client.write_all(&request).await.expect("open");
        let mut response = vec![0; 10_004];
        client
            .read_exact(&mut response)
            .await
            .expect("each connection has been at work");
        assert_eq!(response, request);
        clients.push(client);
    }
    let each = resident_bytes().saturating_sub(before) / CONNECTIONS;
    println!("{each} bytes per idle connection, both ends");
    assert_eq!(server.metrics().connections, CONNECTIONS);
    assert!(each < IDLE_BYTES_MAX, "{each} bytes per idle connection");
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("the second field is a count of pages") * 4_096
}
