//! How many connections there are, and how fast they come.

use std::time::Duration;

use super::{ECHO, frame, is_closed, mute::settle, receive, rig, send, until};
use crate::{ConnectionLimits, NetConfig};

#[tokio::test]
async fn an_address_with_too_many_connections_gets_no_more_until_one_is_closed() {
    let limits = ConnectionLimits {
        per_address_max: 1,
        ..ConnectionLimits::default()
    };
    let rig = rig(NetConfig {
        limits,
        ..NetConfig::default()
    })
    .await;
    let mut first = rig.connect().await;
    send(&mut first, &frame(ECHO, 1)).await;
    assert_eq!(receive(&mut first).await, [1]);
    let mut second = rig.connect().await;
    assert!(is_closed(&mut second).await);
    send(&mut first, &frame(ECHO, 2)).await;
    assert_eq!(receive(&mut first).await, [2], "the first one goes on");
    drop(first);
    until(|| rig.server.metrics().connections == 0).await;
    let mut third = rig.connect().await;
    send(&mut third, &frame(ECHO, 3)).await;
    assert_eq!(receive(&mut third).await, [3]);
}

#[tokio::test]
async fn a_listener_pauses_where_connections_come_too_fast() {
    let limits = ConnectionLimits {
        creation_rate_max: Some(0.1),
        ..ConnectionLimits::default()
    };
    let rig = rig(NetConfig {
        limits,
        ..NetConfig::default()
    })
    .await;
    // The second one makes twice the rate: no more for ten seconds.
    let mut clients = Vec::new();
    for name in 0..3 {
        let mut client = rig.connect().await;
        send(&mut client, &frame(ECHO, name)).await;
        clients.push(client);
    }
    assert_eq!(rig.probe.accepted(2).await.len(), 2);
    settle().await;
    assert_eq!(rig.probe.accepted.lock().len(), 2);
    rig.clock.advance(Duration::from_secs(20));
    assert_eq!(rig.probe.accepted(3).await.len(), 3);
}
