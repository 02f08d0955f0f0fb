use std::time::Duration;

use millrace_record::Compression;
use millrace_time::{ManualClock, SeededRandom};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

struct World {
    clock: Arc<ManualClock>,
    metrics: ClientMetrics,
}

impl World {
    fn new(subscriptions: &[&[(&str, &str)]]) -> Self {
        let clock = ManualClock::shared();
        let world = Self {
            metrics: ClientMetrics::new(clock.clone(), SeededRandom::shared(1), 1_000),
            clock,
        };
        world.subscribe(subscriptions);
        world
    }

    fn subscribe(&self, subscriptions: &[&[(&str, &str)]]) {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let configs = subscriptions
            .iter()
            .map(|one| one.iter().map(owned).collect());
        let configs: Vec<BTreeMap<String, String>> = configs.collect();
        let names: Vec<String> = (0..configs.len()).map(|nth| nth.to_string()).collect();
        let all = names.iter().map(String::as_str).zip(&configs);
        self.metrics.subscribe(all);
    }

    fn get(&self, id: Uuid) -> Result<Requested, ErrorCode> {
        self.metrics.requested(id, &client("app"))
    }

    fn push(&self, id: Uuid, subscription_id: i32, metrics: &[u8]) -> Result<(), ErrorCode> {
        self.push_with(push(id, subscription_id, metrics))
    }

    fn push_with(&self, push: Push<'_>) -> Result<(), ErrorCode> {
        self.metrics.push(&push, &client("app"))
    }

    fn shown(&self) -> MeasuredClients {
        self.metrics.shown(&ClientMetricsFilter {
            limit: 10,
            ..ClientMetricsFilter::default()
        })
    }
}

fn client(id: &str) -> Attributes {
    Attributes {
        client_id: id.to_owned(),
        software_name: Some("apache-kafka-java".to_owned()),
        software_version: Some("4.1.1".to_owned()),
        address: "10.0.0.1".to_owned(),
        port: "50000".to_owned(),
    }
}

fn push(id: Uuid, subscription_id: i32, metrics: &[u8]) -> Push<'_> {
    Push {
        id,
        subscription_id,
        is_terminating: false,
        compression: 0,
        metrics,
    }
}

fn message() -> Vec<u8> {
    otlp::tests::message("gauge", 0.5)
}

#[test]
fn a_client_is_asked_for_the_metrics_of_all_matching_subscriptions() {
    let world = World::new(&[
        &[("metrics", "b.,a."), ("interval.ms", "60000")],
        &[
            ("metrics", "b.,c."),
            ("match", "client_software_version=4\\..*"),
        ],
        &[("metrics", "*"), ("match", "client_id=other")],
    ]);
    let requested = world.get(Uuid::nil()).expect("served");
    assert!(requested.id.as_u128() > 1);
    assert_eq!(requested.metrics, ["a.", "b.", "c."]);
    assert_eq!(requested.interval_ms, 60_000);
    assert_eq!(requested.compressions, [4, 3, 1, 2]);
    assert_eq!(requested.bytes_max, 1_000);
    let other = world.metrics.requested(Uuid::nil(), &client("other"));
    let other = other.expect("served");
    assert_eq!(other.metrics, ["*"]);
    assert_ne!(other.subscription_id, requested.subscription_id);
}

#[test]
fn a_client_without_a_subscription_asks_again_later() {
    let world = World::new(&[]);
    let requested = world.get(Uuid::nil()).expect("served");
    assert!(requested.metrics.is_empty());
    assert_eq!(requested.interval_ms, 300_000);
    let early = world.get(requested.id).map(drop);
    assert_eq!(early, Err(ErrorCode::ThrottlingQuotaExceeded));
    world.clock.advance(300 * SECOND);
    let again = world.get(requested.id).expect("in time");
    assert_eq!(again.subscription_id, requested.subscription_id);
}

#[test]
fn what_was_pushed_last_is_shown() {
    let world = World::new(&[&[("metrics", "*"), ("interval.ms", "1000")]]);
    let Requested {
        id,
        subscription_id,
        ..
    } = world.get(Uuid::nil()).expect("served");
    assert_eq!(world.shown().total, 0, "nothing was pushed");
    assert_eq!(world.push(id, subscription_id, &message()), Ok(()));
    let shown = world.shown();
    assert_eq!((shown.total, shown.is_truncated), (1, false));
    let one = &shown.clients[0];
    assert_eq!(one.client_id, "app");
    assert_eq!(one.client_instance_id, instances::id_text(id));
    assert_eq!(one.software_name.as_deref(), Some("apache-kafka-java"));
    let names: Vec<&str> = one
        .metrics
        .iter()
        .map(|metric| metric.name.as_str())
        .collect();
    assert_eq!(names, ["gauge", "histogram", "sum"]);
    world.clock.advance(SECOND);
    let newer = otlp::tests::message("newer", 1.0);
    assert_eq!(world.push(id, subscription_id, &newer), Ok(()));
    world.clock.advance(SECOND);
    assert_eq!(world.push(id, subscription_id, &[]), Ok(()), "nothing new");
    let shown = world.metrics.shown(&ClientMetricsFilter {
        client_id: Some("app".to_owned()),
        metric: Some("new".to_owned()),
        limit: 10,
        ..ClientMetricsFilter::default()
    });
    let values: Vec<_> = shown.clients[0].metrics.iter().map(|m| m.value).collect();
    assert_eq!(values, [ClientMetricValue::Gauge(1.0)]);
    let none = world.metrics.shown(&ClientMetricsFilter {
        client_id: Some("other".to_owned()),
        limit: 10,
        ..ClientMetricsFilter::default()
    });
    assert_eq!(none.total, 0);
    world.clock.advance(60 * SECOND);
    assert_eq!(world.shown().total, 0, "forgotten");
}

#[test]
fn pushes_are_as_frequent_as_the_interval_says() {
    let world = World::new(&[&[("metrics", "*"), ("interval.ms", "1000")]]);
    let Requested {
        id,
        subscription_id,
        ..
    } = world.get(Uuid::nil()).expect("served");
    assert_eq!(
        world.push(id, subscription_id, &message()),
        Ok(()),
        "at once"
    );
    let early = world.push(id, subscription_id, &message());
    assert_eq!(early, Err(ErrorCode::ThrottlingQuotaExceeded));
    world.clock.advance(SECOND);
    assert_eq!(world.push(id, subscription_id, &message()), Ok(()));
    let last = Push {
        is_terminating: true,
        ..push(id, subscription_id, &[])
    };
    assert_eq!(world.push_with(last), Ok(()), "the last may come early");
    world.clock.advance(SECOND);
    let after = world.push(id, subscription_id, &message());
    assert_eq!(after, Err(ErrorCode::InvalidRequest));
    assert!(world.shown().clients[0].is_terminating);
}

#[test]
fn a_change_of_the_subscriptions_asks_the_client_to_ask_again() {
    let world = World::new(&[&[("metrics", "a.")]]);
    let Requested {
        id,
        subscription_id,
        ..
    } = world.get(Uuid::nil()).expect("served");
    world.subscribe(&[&[("metrics", "a.")]]);
    assert_eq!(
        world.push(id, subscription_id, &message()),
        Ok(()),
        "the same"
    );
    world.subscribe(&[&[("metrics", "b.")]]);
    let outdated = world.push(id, subscription_id, &message());
    assert_eq!(outdated, Err(ErrorCode::UnknownSubscriptionId));
    world.clock.advance(SECOND);
    let requested = world.get(id).expect("at once");
    assert_eq!(requested.metrics, ["b."]);
    assert_ne!(requested.subscription_id, subscription_id);
    world.clock.advance(150 * SECOND);
    assert_eq!(
        world.push(id, requested.subscription_id, &message()),
        Ok(()),
        "the first push comes after half of the interval at the earliest"
    );
    let early = world.push(id, requested.subscription_id, &message());
    assert_eq!(early, Err(ErrorCode::ThrottlingQuotaExceeded));
}

#[test]
fn what_cannot_be_read_has_kafkas_codes() {
    let interval = &[("metrics", "*"), ("interval.ms", "100")];
    let world = World::new(&[interval]);
    let Requested {
        id,
        subscription_id,
        ..
    } = world.get(Uuid::nil()).expect("served");
    let bomb = vec![0; 100_000];
    let zstd = |bytes: &[u8]| {
        let compressed = Compression::Zstd.compress_onto(bytes, Vec::new(), None);
        compressed.expect("compressed")
    };
    let (bomb, good) = (zstd(&bomb), zstd(&message()));
    assert!(bomb.len() < 1_000);
    for (compression, metrics, expected) in [
        (
            9,
            &message()[..],
            Err(ErrorCode::UnsupportedCompressionType),
        ),
        (-1, &message(), Err(ErrorCode::UnsupportedCompressionType)),
        (0, &[0; 1_001], Err(ErrorCode::TelemetryTooLarge)),
        (4, &bomb, Err(ErrorCode::TelemetryTooLarge)),
        (4, &message(), Err(ErrorCode::InvalidRecord)),
        (0, b"no message", Err(ErrorCode::InvalidRecord)),
        (4, &good, Ok(())),
    ] {
        world.clock.advance(SECOND);
        let pushed = world.push_with(Push {
            compression,
            ..push(id, subscription_id, metrics)
        });
        assert_eq!(pushed, expected, "{compression}");
    }
    for reserved in [Uuid::nil(), Uuid::from_u128(1)] {
        let refused = world.push(reserved, subscription_id, &message());
        assert_eq!(refused, Err(ErrorCode::InvalidRequest));
    }
}

#[test]
fn clients_and_values_have_bounds() {
    let world = World::new(&[&[("metrics", "*"), ("interval.ms", "100")]]);
    let first = world.get(Uuid::nil()).expect("served");
    for nth in 0..20_000 {
        world.clock.advance(Duration::from_micros(1));
        world
            .get(Uuid::from_u128(nth + 2))
            .map(drop)
            .expect("served");
    }
    assert_eq!(world.metrics.instances.lock().len(), 16_384);
    let forgotten = !world.metrics.instances.lock().contains(first.id);
    assert!(forgotten, "the one that was silent for longest");

    let mut instances = world.metrics.instances.lock();
    let mut left_out = 0;
    for nth in 10_000..10_020 {
        let mut values = Values::default();
        for series in 0..1_000 {
            let name = otlp::SeriesName {
                metric: "x".repeat(2_000) + &series.to_string(),
                labels: Vec::new(),
            };
            values.by_name.insert(name, ClientMetricValue::Gauge(0.0));
        }
        left_out += instances.end_push(Uuid::from_u128(nth), Ok(values), 0);
        assert!(instances.series_bytes() <= instances::SERIES_BYTES_MAX);
    }
    assert!(left_out > 10_000, "of 20,000 in 42 MB");
    instances.expire(Duration::from_secs(1_000));
    assert_eq!((instances.len(), instances.series_bytes()), (0, 0));
}
