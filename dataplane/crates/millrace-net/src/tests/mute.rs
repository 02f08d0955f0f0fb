//! When a connection is not read, why, and when it is read again.

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::*;

/// A rig whose metrics the test reads. The handles are made when the server starts.
async fn measured(config: NetConfig) -> (Rig, PrometheusHandle) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let shown = recorder.handle();
    let recording = metrics::set_default_local_recorder(&recorder);
    let rig = rig(config).await;
    drop(recording);
    (rig, shown)
}

/// How often connections were muted for a reason, and how many are now.
fn muted(shown: &PrometheusHandle, reason: &str) -> (u64, u64) {
    let text = shown.render();
    let value = |name: &str| {
        let start = format!("{name}{{reason=\"{reason}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.map_or(0, |value| value.parse().expect("a count"))
    };
    (
        value("millrace_network_muted_total"),
        value("millrace_network_muted_connections"),
    )
}

/// Long enough for a request that may be accepted to be accepted.
pub(super) async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

impl Rig {
    fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.timers.fire_due();
    }
}

#[tokio::test]
async fn a_throttled_connection_is_answered_at_once_and_read_again_when_its_time_is_over() {
    let (rig, shown) = measured(NetConfig::default()).await;
    let mut client = rig.connect().await;
    send(&mut client, &[frame(THROTTLED, 1), frame(ECHO, 2)].concat()).await;
    assert_eq!(receive(&mut client).await, [1]);
    let mut other = rig.connect().await;
    send(&mut other, &frame(ECHO, 3)).await;
    assert_eq!(receive(&mut other).await, [3], "others are not slowed down");
    settle().await;
    assert_eq!(*rig.probe.accepted.lock(), [1, 3]);
    assert_eq!(muted(&shown, "quota_throttle"), (1, 1));
    rig.pass(THROTTLE - Duration::from_millis(1));
    settle().await;
    assert_eq!(
        *rig.probe.accepted.lock(),
        [1, 3],
        "a millisecond too early"
    );
    rig.pass(Duration::from_millis(1));
    assert_eq!(receive(&mut client).await, [2]);
    assert_eq!(muted(&shown, "quota_throttle"), (1, 0));
}

/// It was read again only when the time was over that the former quota asked for.
#[tokio::test]
async fn a_throttled_connection_is_read_again_when_its_throttle_is_shortened() {
    let (rig, shown) = measured(NetConfig::default()).await;
    let mut client = rig.connect().await;
    send(&mut client, &[frame(THROTTLED, 1), frame(ECHO, 2)].concat()).await;
    assert_eq!(receive(&mut client).await, [1]);
    until(|| muted(&shown, "quota_throttle") == (1, 1)).await;
    let peer = rig.probe.peer.lock().clone().expect("served");
    peer.throttle.shorten(Duration::ZERO);
    assert_eq!(receive(&mut client).await, [2]);
    assert_eq!(muted(&shown, "quota_throttle"), (1, 0));
}

#[tokio::test]
async fn a_throttle_of_stage_2_holds_back_the_request_that_was_already_waited_for() {
    let (rig, shown) = measured(NetConfig::default()).await;
    let mut client = rig.connect().await;
    send(&mut client, &frame(THROTTLED_LATE, 1)).await;
    rig.probe.accepted(1).await;
    settle().await;
    rig.probe.release(1);
    assert_eq!(receive(&mut client).await, [1]);
    assert_eq!(
        muted(&shown, "quota_throttle"),
        (0, 0),
        "nothing is held back before something comes"
    );
    send(&mut client, &frame(ECHO, 2)).await;
    settle().await;
    assert_eq!(*rig.probe.accepted.lock(), [1]);
    assert_eq!(muted(&shown, "quota_throttle"), (1, 1));
    rig.pass(THROTTLE);
    assert_eq!(receive(&mut client).await, [2]);
}

#[tokio::test]
async fn reading_goes_on_only_when_all_reasons_have_ended() {
    for throttle_ends_first in [true, false] {
        let depth = NetConfig {
            pipeline_depth: 2,
            ..NetConfig::default()
        };
        let (rig, shown) = measured(depth).await;
        let mut client = rig.connect().await;
        let requests = [frame(WAIT, 1), frame(THROTTLED, 2), frame(ECHO, 3)].concat();
        send(&mut client, &requests).await;
        rig.probe.accepted(2).await;
        settle().await;
        assert_eq!(muted(&shown, "in_flight"), (1, 1));
        assert_eq!(muted(&shown, "quota_throttle"), (1, 1));
        if throttle_ends_first {
            rig.pass(THROTTLE);
            settle().await;
            assert_eq!(muted(&shown, "quota_throttle"), (1, 0));
            assert_eq!(muted(&shown, "in_flight"), (1, 1));
        } else {
            rig.probe.release(1);
            assert_eq!(receive(&mut client).await, [1]);
            assert_eq!(receive(&mut client).await, [2]);
            settle().await;
            assert_eq!(muted(&shown, "quota_throttle"), (1, 1));
            assert_eq!(muted(&shown, "in_flight"), (1, 0));
        }
        assert_eq!(*rig.probe.accepted.lock(), [1, 2], "one reason is left");
        if throttle_ends_first {
            rig.probe.release(1);
            assert_eq!(receive(&mut client).await, [1]);
            assert_eq!(receive(&mut client).await, [2]);
        } else {
            rig.pass(THROTTLE);
        }
        assert_eq!(receive(&mut client).await, [3]);
        for reason in ["in_flight", "quota_throttle"] {
            assert_eq!(muted(&shown, reason), (1, 0));
        }
    }
}

#[tokio::test]
async fn every_reason_is_counted_for_itself() {
    let config = NetConfig {
        pipeline_depth: 3,
        connection_bytes_max: 2_000,
        broker_bytes_max: 4_000,
        ..NetConfig::default()
    };
    let (rig, shown) = measured(config).await;
    let large = |op: u8, name: u8, bytes: u32| {
        let mut frame = bytes.to_be_bytes().to_vec();
        frame.extend([op, name]);
        frame.resize(4 + usize::try_from(bytes).expect("small"), 0);
        frame
    };
    let mut full = rig.connect().await;
    send(&mut full, &[large(WAIT, 1, 2_500), frame(ECHO, 2)].concat()).await;
    rig.probe.accepted(1).await;
    let mut starved = rig.connect().await;
    send(&mut starved, &large(ECHO, 3, 1_900)).await;
    settle().await;
    assert_eq!(muted(&shown, "connection_bytes"), (1, 1));
    assert_eq!(muted(&shown, "broker_memory"), (1, 1));
    assert_eq!(muted(&shown, "in_flight"), (0, 0));
    assert_eq!(muted(&shown, "quota_throttle"), (0, 0));
    rig.probe.release(1);
    assert_eq!(receive(&mut full).await, [1]);
    assert_eq!(receive(&mut full).await, [2]);
    assert_eq!(receive(&mut starved).await.len(), 1_899);
    // The second time was the other one, whose answer was more than its share of so little memory.
    assert_eq!(muted(&shown, "connection_bytes"), (2, 0));
    assert_eq!(muted(&shown, "broker_memory"), (1, 0));
}

#[tokio::test]
async fn a_muted_client_that_is_cut_is_no_longer_counted() {
    let (rig, shown) = measured(NetConfig::default()).await;
    let mut client = rig.connect().await;
    send(&mut client, &[frame(THROTTLED, 1), frame(ECHO, 2)].concat()).await;
    assert_eq!(receive(&mut client).await, [1]);
    settle().await;
    assert_eq!(muted(&shown, "quota_throttle"), (1, 1));
    assert_eq!(
        rig.server.drain(SOON).await.cut,
        0,
        "a throttle stops no drain"
    );
    assert!(is_closed(&mut client).await);
    assert_eq!(muted(&shown, "quota_throttle"), (1, 0));
    assert_eq!(*rig.probe.accepted.lock(), [1]);
}

#[tokio::test]
async fn half_a_frame_does_not_keep_the_memory_that_others_wait_for() {
    let rig = rig(NetConfig {
        broker_bytes_max: 4 * 1024 * 1024,
        ..NetConfig::default()
    })
    .await;
    let mut halves = Vec::new();
    for _ in 0..2 {
        let mut half = rig.connect().await;
        // Both together are granted all of the memory.
        send(
            &mut half,
            &[&(4_u32 << 20).to_be_bytes()[..], &[ECHO; 1_000]].concat(),
        )
        .await;
        halves.push(half);
    }
    until(|| rig.server.metrics().bytes_in_flight == 4 * 1024 * 1024).await;
    let mut other = rig.connect().await;
    send(&mut other, &frame(ECHO, 7)).await;
    settle().await;
    assert_eq!(*rig.probe.accepted.lock(), [0_u8; 0]);
    rig.clock.advance(Duration::from_secs(6));
    assert_eq!(receive(&mut other).await, [7]);
    for half in &mut halves {
        assert!(is_closed(half).await);
    }
    until(|| rig.server.metrics().bytes_in_flight == 0).await;
}

#[tokio::test]
async fn clients_that_do_not_read_leave_memory_to_the_others() {
    let broker_bytes_max = 64 * 1024 * 1024;
    let rig = rig(NetConfig {
        broker_bytes_max,
        ..NetConfig::default()
    })
    .await;
    let mut large = 250_000_u32.to_be_bytes().to_vec();
    large.resize(250_004, ECHO);
    let mut slow = Vec::new();
    for _ in 0..40 {
        let mut client = rig.connect().await;
        let burst = large.repeat(40);
        slow.push(tokio::spawn(async move {
            // Never ends: nobody reads the answers.
            let _ = client.write_all(&burst).await;
            client
        }));
    }
    let held = || rig.server.metrics().bytes_in_flight;
    until(|| held() > broker_bytes_max as u64 / 2).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(held() < broker_bytes_max as u64, "{} bytes", held());
    let mut other = rig.connect().await;
    for _ in 0..5 {
        send(&mut other, &large).await;
        assert_eq!(receive(&mut other).await.len(), 249_999);
    }
    slow.iter().for_each(tokio::task::JoinHandle::abort);
}
