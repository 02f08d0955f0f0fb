//! Fetches of what has left memory, where the bucket or the clients are slow.

use std::time::Duration;

use kafka_protocol::messages::FetchRequest;
use metrics_exporter_prometheus::PrometheusBuilder;
use millrace_model::{TopicName, TopicPartition};
use millrace_stream::StreamConfig;
use millrace_testkit::BucketFaults;
use millrace_wire::Response;
use tokio::time::{sleep, timeout};

use crate::{
    calls::{NAMED_FETCH, batch, fetch_request, values},
    world::{Sent, Settings, World},
};

/// Far below the 20 s that a fetch waits for objects.
const SOON: Duration = Duration::from_secs(8);

/// A world in which the one batch of the topic "old" is only in objects.
async fn with_old(settings: Settings, value: &str) -> World {
    let world = World::with(settings).await;
    world.create("old", 1, &[]).await;
    world.produce("old", 0, batch(&[value])).await;
    world.chill().await
}

/// From now on the bucket takes longer than anybody waits.
fn silence(world: &World) {
    world.bucket.set(BucketFaults {
        delay: Duration::from_secs(300),
        ..BucketFaults::default()
    });
}

/// Sends a fetch that has to read, and leaves it to itself.
async fn fetch_aside(world: &World, request: &FetchRequest) {
    let Sent::Later(fetch) = world.send(NAMED_FETCH, request).await else {
        panic!("it is not in memory")
    };
    tokio::spawn(fetch);
}

#[tokio::test]
async fn a_silent_bucket_does_not_hold_up_those_who_read_what_the_log_has() {
    let settings = Settings {
        streams: StreamConfig {
            cache_bytes: 1 << 20,
            ..StreamConfig::default()
        },
        ..Settings::default()
    };
    let world = with_old(settings, "old").await;
    world.create("new", 1, &[]).await;
    silence(&world);
    let value = "n".repeat(100_000);
    for _ in 0..30 {
        let produced = world.produce("new", 0, batch(&[&value])).await;
        assert_eq!(produced.error_code, 0);
    }
    let new = TopicPartition {
        topic: TopicName::new("new").expect("legal"),
        partition: 0,
    };
    let log = world.logs.partition(&new).expect("is there");
    // The oldest are on their way to the bucket, the newest are in memory.
    let in_log = |offset: &u64| matches!(log.try_read_cached(*offset, 1, true), Ok(None));
    let offset = (0..30)
        .find(in_log)
        .expect("some have been left to the log");
    let offset = i64::try_from(offset).expect("small");

    // As many as may read at one time, and more.
    for _ in 0..100 {
        fetch_aside(&world, &fetch_request("old", &[(0, 0)])).await;
    }
    sleep(Duration::from_millis(100)).await;
    let fetched = timeout(SOON, world.fetch_from("new", 0, offset)).await;
    let records = values(&fetched.expect("an answer"));
    assert_eq!(records.first().map(|(offset, _)| *offset), Some(offset));
}

#[tokio::test]
async fn reads_that_find_no_place_are_answered_empty_and_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let shown = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let world = with_old(Settings::default(), "old").await;
    silence(&world);
    let many = fetch_request("old", &[(0, 0); 1_030]);
    fetch_aside(&world, &many).await;
    sleep(Duration::from_millis(100)).await;
    let fetched = timeout(SOON, world.fetch_from("old", 0, 0)).await;
    let fetched = fetched.expect("an answer");
    assert_eq!((fetched.error_code, values(&fetched).len()), (0, 0));
    let line = r#"millrace_cold_reads_refused_total{source="objects"} 7"#;
    let text = shown.render();
    assert!(text.lines().any(|shown| shown == line), "{text}");
}

/// An answer as the network holds it until its client has taken it.
async fn held(world: &World) -> Response {
    let request = fetch_request("old", &[(0, 0)]);
    let Sent::Later(fetch) = world.send(NAMED_FETCH, &request).await else {
        panic!("it is not in memory")
    };
    timeout(SOON, fetch).await.expect("an answer")
}

fn bytes(response: &Response) -> usize {
    response.segments().iter().map(|bytes| bytes.len()).sum()
}

/// Clients that take nothing hold no more than the bound; whoever comes after them is answered
/// late and little, but is answered, and as before once they are gone.
#[tokio::test]
async fn answers_that_no_client_takes_hold_bounded_memory() {
    let world = World::new().await;
    world.create("old", 1, &[]).await;
    let value = "o".repeat(100_000);
    for _ in 0..12 {
        world.produce("old", 0, batch(&[&value])).await;
    }
    let world = world.chill().await;
    let full = bytes(&held(&world).await);
    assert!(full > 10 * value.len(), "{full}");
    let mut answers = Vec::new();
    let late = loop {
        let answer = held(&world).await;
        if bytes(&answer) < full {
            break answer;
        }
        answers.push(answer);
        assert!(answers.len() < 100, "there is a bound");
    };
    let late = bytes(&late);
    assert!(late > value.len() && late < 2 * value.len(), "{late}");
    let held_bytes: usize = answers.iter().map(bytes).sum();
    assert!(held_bytes <= 64 << 20, "{held_bytes}");
    assert!(held_bytes >= 60 << 20, "{held_bytes}");
    drop(answers);
    assert_eq!(bytes(&held(&world).await), full);
}
