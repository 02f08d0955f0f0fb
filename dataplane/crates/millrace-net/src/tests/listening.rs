//! When the kernel accepts connections for the broker.

use std::{io::ErrorKind, net::SocketAddr};

use super::*;
use crate::BindError;

async fn bind(port: u16) -> Result<Listeners, BindError> {
    let listener = ListenerConfig {
        name: "PLAINTEXT".into(),
        host: "127.0.0.1".into(),
        port,
        security: ListenerSecurity::default(),
        limits: ListenerLimits::default(),
    };
    Listeners::bind(&[listener]).await
}

fn serve(listeners: Listeners) -> Result<Server, BindError> {
    let clock: SharedClock = ManualClock::shared();
    let service = TestService {
        probe: Arc::default(),
        clock: clock.clone(),
    };
    let tasks = Supervisor::new();
    let timers = Timers::new(clock.clone(), tasks.clone());
    let config = NetConfig::default();
    listeners.serve(
        config,
        Arc::new(service),
        clock,
        timers,
        (Arc::default(), &tasks),
    )
}

fn address(listeners: &Listeners) -> SocketAddr {
    listeners.addresses()[0].1
}

#[tokio::test]
async fn connections_are_rejected_until_the_broker_serves() {
    let listeners = bind(0).await.expect("a free port");
    let address = address(&listeners);
    let early = TcpStream::connect(address).await.expect_err("not yet");
    assert_eq!(early.kind(), ErrorKind::ConnectionRefused);
    let _server = serve(listeners).expect("nobody else listens there");
    TcpStream::connect(address).await.expect("accepted");
}

#[tokio::test]
async fn a_port_where_somebody_listens_cannot_be_bound() {
    let first = bind(0).await.expect("a free port");
    let address = address(&first);
    let _server = serve(first).expect("nobody else listens there");
    let taken = bind(address.port()).await.expect_err("taken");
    assert!(taken.to_string().contains(&address.to_string()), "{taken}");
}

#[tokio::test]
async fn of_two_that_bound_a_port_the_second_cannot_serve() {
    let first = bind(0).await.expect("a free port");
    let second = bind(address(&first).port())
        .await
        .expect("nobody listens yet");
    let _server = serve(first).expect("nobody listens yet");
    let refused = serve(second).err().expect("taken meanwhile");
    assert!(matches!(refused, BindError::Listen { .. }), "{refused}");
}
