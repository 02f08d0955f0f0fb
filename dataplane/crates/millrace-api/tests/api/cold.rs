//! Fetches of what has left memory, where the bucket or the clients are slow.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use kafka_protocol::messages::FetchRequest;
use metrics_exporter_prometheus::PrometheusBuilder;
use millrace_api::QuotaConfig;
use millrace_limiter::{NetworkConfig, Tier};
use millrace_model::{TopicName, TopicPartition};
use millrace_stream::StreamConfig;
use millrace_testkit::BucketFaults;
use millrace_wire::{
    Response,
    service::{Accepted, Service},
};
use tokio::time::{sleep, timeout};

use crate::{
    calls::{NAMED_FETCH, batch, fetch_request, only_fetched, values},
    quota::windows,
    world::{Sent, Settings, World, answer, frame, peer},
};

/// Far below what a silent bucket takes.
const SOON: Duration = Duration::from_secs(8);

/// Reads of objects that may exist at one time.
const PLACES: u64 = 2_048;

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

/// Sends a fetch that has to read over a connection of its own, and leaves it to itself.
async fn fetch_aside(world: &World, connection: u64, request: &FetchRequest) {
    let sent = world.send_as(&peer(connection), NAMED_FETCH, request).await;
    let Sent::Later(fetch) = sent else {
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
    let uncommitted = millrace_log::Isolation::ReadUncommitted;
    let in_log =
        |offset: &u64| matches!(log.try_read_cached(uncommitted, *offset, 1, true), Ok(None));
    let offset = (0..30)
        .find(in_log)
        .expect("some have been left to the log");
    let offset = i64::try_from(offset).expect("small");

    // As many as may read at one time, and more.
    for connection in 10..210 {
        fetch_aside(&world, connection, &fetch_request("old", &[(0, 0)])).await;
    }
    sleep(Duration::from_millis(100)).await;
    let fetched = timeout(SOON, world.fetch_from("new", 0, offset)).await;
    let records = values(&fetched.expect("an answer"));
    assert_eq!(records.first().map(|(offset, _)| *offset), Some(offset));
}

/// However many read, whoever comes has one read; what has no place beyond that is answered empty.
#[tokio::test]
async fn a_crowd_leaves_everybody_one_read_and_the_others_are_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let shown = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let world = World::new().await;
    world.create("old", 50, &[]).await;
    for partition in 0..50 {
        world.produce("old", partition, batch(&["old"])).await;
    }
    let world = world.chill().await;
    silence(&world);
    let all: Vec<(i32, i64)> = (0..50).map(|partition| (partition, 0)).collect();
    let crowd = 60;
    for connection in 10..10 + crowd {
        fetch_aside(&world, connection, &fetch_request("old", &all)).await;
    }
    let refused = || {
        let text = shown.render();
        let name = r#"millrace_cold_reads_refused_total{source="objects"} "#;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |count| count.parse::<u64>().expect("a count"))
    };
    let of_crowd = refused();
    assert!(of_crowd >= crowd * 50 - PLACES - crowd, "{of_crowd}");
    // What a single one may take leaves room; what they take together is bounded.
    assert!(of_crowd <= crowd * 50 - PLACES + crowd, "{of_crowd}");
    for connection in 1_000..1_100 {
        fetch_aside(&world, connection, &fetch_request("old", &[(0, 0)])).await;
    }
    assert_eq!(refused(), of_crowd, "each has its first one");
    let fetched = timeout(SOON, world.fetch_from("old", 0, 0)).await;
    let fetched = fetched.expect("an answer");
    assert_eq!((fetched.error_code, values(&fetched).len()), (0, 0));
}

/// A runtime that ends drops what is spawned at once; the fetch that began it must not wait for it.
#[tokio::test]
async fn a_read_on_a_runtime_that_has_ended_is_none() {
    let world = Arc::new(with_old(Settings::default(), "old").await);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let ended = builder.worker_threads(1).build().expect("a runtime");
    let handle = ended.handle().clone();
    ended.shutdown_background();
    let (accepted, done) = tokio::sync::oneshot::channel();
    let asked = Arc::clone(&world);
    std::thread::spawn(move || {
        let _entered = handle.enter();
        let frame = frame(NAMED_FETCH, 5, &fetch_request("old", &[(0, 0)]));
        let mut accept = asked.service.accept(&asked.peer, frame);
        let context = &mut Context::from_waker(Waker::noop());
        let polled = accept.as_mut().poll(context);
        let _nobody_waits = accepted.send(matches!(polled, Poll::Ready(Accepted::Pending(_))));
    });
    let accepted = timeout(SOON, done).await.expect("it does not hang");
    assert_eq!(accepted, Ok(true));
    let request = fetch_request("old", &[(0, 0)]).with_max_wait_ms(5_000);
    let read = async {
        loop {
            let fetched = only_fetched(world.ask(NAMED_FETCH, &request).await);
            // The runtime's own thread may drop the read a moment later: who found it under way until
            // then is answered with nothing, and asks again.
            if !values(&fetched).is_empty() {
                return fetched;
            }
        }
    };
    let fetched = timeout(SOON, read).await.expect("it is read again");
    assert_eq!(values(&fetched), [(0, "old".into())]);
}

/// An answer as the network holds it until its client has taken it.
async fn held(world: &World) -> Response {
    let request = fetch_request("old", &[(0, 0)]);
    let empty = 200;
    let asked = async {
        let mut is_first = true;
        loop {
            let answer = match world.send(NAMED_FETCH, &request).await {
                Sent::Later(fetch) => fetch.await,
                // The read that an empty answer did not wait for has ended since.
                Sent::Answer(_) if !is_first => continue,
                _ => panic!("it is not in memory"),
            };
            if bytes(&answer) > empty {
                return answer;
            }
            is_first = false;
        }
    };
    timeout(SOON, asked).await.expect("an answer with records")
}

fn bytes(response: &Response) -> usize {
    response.segments().iter().map(|bytes| bytes.len()).sum()
}

/// Clients that take nothing hold no more than the bound; whoever comes after them is answered
/// late and little, but is answered, and as before once they are gone.
#[tokio::test]
async fn answers_that_no_client_takes_hold_bounded_memory() {
    let settings = Settings {
        block_cache_bytes: 512 << 20,
        ..Settings::default()
    };
    let world = World::with(settings).await;
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
        assert!(answers.len() < 200, "there is a bound");
    };
    let late = bytes(&late);
    assert!(late > value.len() && late < 2 * value.len(), "{late}");
    let held_bytes: usize = answers.iter().map(bytes).sum();
    assert!(held_bytes <= 128 << 20, "{held_bytes}");
    assert!(held_bytes >= 120 << 20, "{held_bytes}");
    drop(answers);
    assert_eq!(bytes(&held(&world).await), full);
}

/// What was read for a client that is still busy with its last answer is kept for it, even where
/// others wait for memory: it is paid for.
#[tokio::test]
async fn what_was_read_is_kept_while_its_client_takes_an_answer() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let shown = recorder.handle();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let settings = Settings {
        block_cache_bytes: 512 << 20,
        ..Settings::default()
    };
    let world = World::with(settings).await;
    world.create("old", 2, &[]).await;
    let value = "o".repeat(100_000);
    for partition in [0, 1] {
        for _ in 0..12 {
            world.produce("old", partition, batch(&[&value])).await;
        }
    }
    let world = world.chill().await;
    let full = bytes(&held(&world).await);
    // Both are read, and one fits into an answer.
    let both = fetch_request("old", &[(0, 0), (1, 0)])
        .with_max_bytes(1_500_000)
        .with_max_wait_ms(5_000);
    let slow_client = peer(7);
    let Sent::Later(fetch) = world.send_as(&slow_client, NAMED_FETCH, &both).await else {
        panic!("it is not in memory")
    };
    let its_answer = timeout(SOON, fetch).await.expect("an answer");
    assert!(bytes(&its_answer) < 2 * full);
    let mut answers = Vec::new();
    let began = now();
    while began.elapsed() < Duration::from_secs(4) {
        let answer = held(&world).await;
        if bytes(&answer) == full {
            answers.push(answer);
        }
    }
    let counted = |name: &str| {
        let text = shown.render();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |count| count.trim().parse::<u64>().expect("a count"))
    };
    let short = counted(r#"millrace_cold_reads_short_total{source="objects"}"#);
    assert!(short > 0, "there was no lack of memory");
    assert_eq!(counted("millrace_cold_reads_unclaimed_total"), 0);
    drop(its_answer);
    let before = world.network.egress.metrics().tiers[Tier::CatchUpMiss as usize].bytes;
    let next = fetch_request("old", &[(1, 0)]);
    let sent = world.send_as(&slow_client, NAMED_FETCH, &next).await;
    assert!(matches!(sent, Sent::Answer(_)), "it is at hand");
    let paid = world.network.egress.metrics().tiers[Tier::CatchUpMiss as usize].bytes;
    assert_eq!(paid, before, "and paid for");
}

/// A read that is done while its client's quota is used up is left to the client's next fetch.
#[tokio::test]
async fn what_was_read_survives_that_its_client_must_not_fetch() {
    let settings = Settings {
        quotas: QuotaConfig {
            fetch_bytes_per_s: Some(10_000),
            ..windows()
        },
        ..Settings::default()
    };
    let value = "o".repeat(8_000);
    let world = with_old(settings, &value).await;
    world.create("new", 1, &[]).await;
    for _ in 0..3 {
        world.produce("new", 0, batch(&[&value])).await;
    }
    slow(&world, Duration::from_millis(300));
    let waiting = fetch_request("old", &[(0, 0)]).with_max_wait_ms(10_000);
    let Sent::Later(waiting) = world.send(NAMED_FETCH, &waiting).await else {
        panic!("it is not in memory")
    };
    let waiting = tokio::spawn(answer::<FetchRequest>(NAMED_FETCH, Sent::Later(waiting)));
    sleep(Duration::from_millis(20)).await;
    for offset in 0..2 {
        let request = fetch_request("new", &[(0, offset)]);
        let sent = world.send_as(&peer(2), NAMED_FETCH, &request).await;
        let fetched = only_fetched(answer::<FetchRequest>(NAMED_FETCH, sent).await);
        assert_eq!(values(&fetched).len(), 1);
    }
    let throttled = waiting.await.expect("no panic");
    assert_eq!((throttled.error_code, throttled.responses.len()), (0, 0));
    let told_ms = u64::try_from(throttled.throttle_time_ms).expect("positive");
    sleep(Duration::from_millis(told_ms + 20)).await;
    let paid = || world.network.egress.metrics().tiers[Tier::CatchUpMiss as usize].bytes;
    let read = paid();
    assert!((8_000..9_000).contains(&read), "{read}");
    let fetched = world.fetch_from("old", 0, 0).await;
    assert_eq!(values(&fetched).len(), 1);
    assert_eq!(paid(), read, "it was not read again");
}

/// A read belongs to its connection: later fetches wait for the same one, and take what it found.
#[tokio::test]
async fn a_slow_read_starts_once_however_often_its_client_asks() {
    let world = with_old(Settings::default(), "old").await;
    slow(&world, Duration::from_secs(2));
    let began = now();
    let mut fetches = 0;
    let records = loop {
        let fetched = world.fetch_from("old", 0, 0).await;
        fetches += 1;
        let records = values(&fetched);
        if !records.is_empty() {
            break records;
        }
        assert!(began.elapsed() < Duration::from_secs(15), "it never comes");
    };
    assert_eq!(records, [(0, "old".into())]);
    // A client that does not want to wait is not answered with nothing again and again.
    let seconds = began.elapsed().as_secs_f64();
    assert!(
        f64::from(fetches) <= seconds / 0.5 + 2.0,
        "{fetches} in {seconds} s"
    );
    let gets = world.bucket.counts().gets;
    assert!(
        gets <= 3,
        "the end of the object, its index and a block: {gets}"
    );
}

/// What was read for a connection is forgotten with it.
#[tokio::test]
async fn reads_end_with_their_connection() {
    let world = with_old(Settings::default(), "old").await;
    silence(&world);
    for connection in 10..10 + PLACES {
        fetch_aside(&world, connection, &fetch_request("old", &[(0, 0)])).await;
    }
    for connection in 10..10 + PLACES {
        world.service.disconnected(&peer(connection));
    }
    world.bucket.set(BucketFaults::default());
    let fetched = async {
        loop {
            let fetched = world.fetch_from("old", 0, 0).await;
            if !values(&fetched).is_empty() {
                return;
            }
        }
    };
    timeout(SOON, fetched)
        .await
        .expect("there is a place again");
}

fn slow(world: &World, delay: Duration) {
    world.bucket.set(BucketFaults {
        delay,
        ..BucketFaults::default()
    });
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test that measures the machine"
)]
fn now() -> Instant {
    Instant::now()
}

/// A thousand partitions that are all behind are read side by side, as far as an answer can carry.
#[tokio::test]
async fn partitions_that_are_behind_are_read_at_the_same_time() {
    let settings = Settings {
        streams: StreamConfig {
            stream_object_split_bytes: 64 << 10,
            ..StreamConfig::default()
        },
        ..Settings::default()
    };
    let world = World::with(settings).await;
    world.create("old", 60, &[]).await;
    let value = "o".repeat(70_000);
    for partition in 0..60 {
        world.produce("old", partition, batch(&[&value])).await;
    }
    let world = world.chill().await;
    let before = world.bucket.counts().gets;
    let round = Duration::from_secs(2);
    slow(&world, round);
    let all: Vec<(i32, i64)> = (0..60).map(|partition| (partition, 0)).collect();
    fetch_aside(&world, 10, &fetch_request("old", &all)).await;
    // Another connection reads beside them.
    fetch_aside(&world, 11, &fetch_request("old", &all[50..])).await;
    sleep(round * 3 / 2).await;
    // Those of the first round: of 1 MiB each, 50 fit into the first answer of 50 MiB.
    let gets = world.bucket.counts().gets - before;
    assert!((60..=61).contains(&gets), "{gets}");
}

/// What a consumer of a topic of two partitions has seen, one of which is far behind.
#[derive(Default)]
struct Consumed {
    /// When each record of the partition that is not behind arrived.
    hot: Vec<Instant>,
    /// Records of the other one.
    cold: i64,
    fetches: u32,
}

/// Fetches both partitions of "t" as a client does, until all has come.
async fn consume(world: &World, hot: usize, cold: i64) -> Consumed {
    let mut consumed = Consumed::default();
    let began = now();
    while consumed.hot.len() < hot || consumed.cold < cold {
        assert!(began.elapsed() < Duration::from_secs(60), "it does not end");
        let hot_offset = i64::try_from(consumed.hot.len()).expect("small");
        let partitions = [(0, consumed.cold), (1, hot_offset)];
        let request = fetch_request("t", &partitions).with_max_wait_ms(500);
        let response = world.ask(NAMED_FETCH, &request).await;
        let arrived = now();
        consumed.fetches += 1;
        let [cold, hot] = &response.responses[0].partitions[..] else {
            panic!("two partitions")
        };
        for (offset, _) in values(cold) {
            assert_eq!(offset, consumed.cold);
            consumed.cold += 1;
        }
        consumed.hot.extend(values(hot).iter().map(|_| arrived));
    }
    consumed
}

/// A world in which partition 0 of "t" has three records in objects, of which a fetch takes one.
async fn with_two(settings: Settings) -> World {
    let world = World::with(settings).await;
    world.create("t", 2, &[]).await;
    let value = "c".repeat(600_000);
    for _ in 0..3 {
        world.produce("t", 0, batch(&[&value])).await;
    }
    world.chill().await
}

/// Produces `records` of partition 1 of "t", and tells when each was acknowledged.
async fn produce_hot(world: &World, records: usize) -> Vec<Instant> {
    let mut acknowledged = Vec::with_capacity(records);
    for _ in 0..records {
        let produced = world.produce("t", 1, batch(&["hot"])).await;
        assert_eq!(produced.error_code, 0);
        acknowledged.push(now());
        sleep(Duration::from_millis(20)).await;
    }
    acknowledged
}

/// How long after its acknowledgement each record arrived, the fastest first.
fn delays(acknowledged: &[Instant], arrived: &[Instant]) -> Vec<Duration> {
    let both = acknowledged.iter().zip(arrived);
    let delay = |(acknowledged, arrived): (&Instant, &Instant)| {
        arrived.saturating_duration_since(*acknowledged)
    };
    let mut delays: Vec<Duration> = both.map(delay).collect();
    delays.sort_unstable();
    delays
}

/// The machine may be busy with other tests now and then; a fetch that was held up by a slow bucket
/// would be so each time, for seconds.
fn assert_not_held_up(delays: &[Duration]) {
    let at = |percent: usize| delays[(delays.len() * percent).div_ceil(100) - 1];
    println!(
        "after the acks: p50 {:?}, p90 {:?}, p99 {:?}",
        at(50),
        at(90),
        at(99)
    );
    assert!(at(50) < Duration::from_millis(20), "p50 {:?}", at(50));
    assert!(at(99) < Duration::from_millis(400), "p99 {:?}", at(99));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fetch_of_hot_and_cold_partitions_is_not_held_up_by_the_cold_ones() {
    let world = with_two(Settings::default()).await;
    let before = world.bucket.counts().gets;
    slow(&world, Duration::from_secs(2));
    let (acknowledged, consumed) = tokio::join!(produce_hot(&world, 300), consume(&world, 300, 3));
    assert_not_held_up(&delays(&acknowledged, &consumed.hot));
    // Whatever was read has been taken: each record is one block, besides the object's index.
    let gets = world.bucket.counts().gets - before;
    assert!(gets <= 3 + 2, "{gets}");
    // A client is answered when there is something, or when it has waited.
    assert!(consumed.fetches <= 300 + 3 + 40, "{}", consumed.fetches);
}

/// Where the network is short, what is behind gets what the others leave, and is paid for when it is
/// sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_network_slows_what_is_behind_and_nothing_else() {
    let settings = Settings {
        network: NetworkConfig {
            egress_bytes_per_s: Some(400_000),
            ..NetworkConfig::default()
        },
        ..Settings::default()
    };
    let world = with_two(settings).await;
    let began = now();
    let (acknowledged, consumed) = tokio::join!(produce_hot(&world, 100), consume(&world, 100, 3));
    let took = began.elapsed();
    assert_not_held_up(&delays(&acknowledged, &consumed.hot));
    // 1.8 MB, of which a tenth of a second's worth was saved up.
    assert!(took >= Duration::from_secs(4), "{took:?}");
    assert!(took <= Duration::from_secs(9), "{took:?}");
    let egress = world.network.egress.metrics().tiers;
    let bytes = |tier: Tier| egress[tier as usize].bytes;
    assert!(
        (1_800_000..1_801_000).contains(&bytes(Tier::CatchUpMiss)),
        "{egress:?}"
    );
    assert!(
        (6_000..12_000).contains(&bytes(Tier::TailRead)),
        "{egress:?}"
    );
    let produced = world.network.ingress.metrics().tiers[Tier::WalUpload as usize].bytes;
    assert!((8_000..20_000).contains(&produced), "{produced}");
}

/// However much more urgent traffic there is, who is behind gets somewhere.
#[tokio::test]
async fn who_is_behind_goes_on_while_producers_take_all_of_the_network() {
    const RATE: u64 = 400_000;
    let settings = Settings {
        network: NetworkConfig {
            egress_bytes_per_s: Some(RATE),
            ..NetworkConfig::default()
        },
        ..Settings::default()
    };
    // At a twentieth of the rate a second and a half, of which a tenth of a second is saved up.
    let value = "o".repeat(30_000);
    let world = with_old(settings, &value).await;
    let egress = world.network.egress.clone();
    egress.charge(Tier::WalUpload, 2 * RATE);
    let producers = tokio::spawn(async move {
        loop {
            egress.charge(Tier::WalUpload, RATE / 10);
            sleep(Duration::from_millis(50)).await;
        }
    });
    let began = now();
    let fetched = async {
        loop {
            let fetched = world.fetch_from("old", 0, 0).await;
            if !values(&fetched).is_empty() {
                return;
            }
        }
    };
    timeout(SOON, fetched).await.expect("it does not starve");
    let took = began.elapsed();
    assert!(
        took >= Duration::from_secs(1),
        "its share is small: {took:?}"
    );
    producers.abort();
}

/// What waits for the network and is not asked for any more gives up what it holds.
#[tokio::test]
async fn a_read_that_nobody_wants_any_more_waits_for_no_network() {
    let settings = Settings {
        network: NetworkConfig {
            egress_bytes_per_s: Some(1_000),
            ..NetworkConfig::default()
        },
        ..Settings::default()
    };
    let world = with_old(settings, &"o".repeat(100_000)).await;
    fetch_aside(&world, 10, &fetch_request("old", &[(0, 0)])).await;
    let until = async |waiting| {
        while world.network.egress.waiting() != waiting {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, until(1)).await.expect("it was read");
    timeout(SOON, until(0)).await.expect("its client is gone");
}

#[tokio::test]
async fn what_memory_has_and_what_is_read_count_together_for_the_clients_least() {
    let world = with_two(Settings::default()).await;
    slow(&world, Duration::from_millis(300));
    world.produce("t", 1, batch(&["hot"])).await;
    let request = fetch_request("t", &[(0, 0), (1, 0)])
        .with_max_wait_ms(10_000)
        .with_min_bytes(600_100);
    let began = now();
    let response = world.ask(NAMED_FETCH, &request).await;
    let took = began.elapsed();
    let partitions = &response.responses[0].partitions;
    assert_eq!(
        partitions
            .iter()
            .map(|p| values(p).len())
            .collect::<Vec<_>>(),
        [1, 1]
    );
    assert!(took >= Duration::from_millis(300), "{took:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}
