use super::*;
use crate::{loads::Outcome, sections::SectionKey};

fn run(mib_per_s: f64, p99_ms: f64, cpu: f64) -> Run {
    Run {
        outcome: Outcome {
            mib_per_s,
            avg_ms: 1.0,
            p50_ms: 1.0,
            p99_ms,
            p999_ms: 9.0,
            max_ms: 10.0,
        },
        server_cpu_per_gib: cpu,
        server_peak_mib: Some(100.0),
        client_cpu_per_gib: None,
        flushes_per_mib: None,
        share_of_offered: Some(cpu),
    }
}

fn report(runs: &[(SectionKey, &'static str, Contender, Run)]) -> Report {
    let mut report = Report {
        rounds: 1,
        quick: true,
        sections: vec![SectionKey::OwnDisk, SectionKey::SmallRecords],
        runs: Vec::new(),
    };
    for &(section, load, contender, run) in runs {
        report.add(section, load, contender, run, 99.0);
    }
    report
}

#[test]
fn ratios_are_of_medians_and_against_the_better_kafka() {
    let (own, unlimited) = (SectionKey::OwnDisk, "kafka_client_unlimited");
    let json = report(&[
        (own, unlimited, Contender::MILLRACE, run(500.0, 1.0, 0.2)),
        (own, unlimited, Contender::MILLRACE, run(400.0, 1.0, 0.5)),
        (own, unlimited, Contender::MILLRACE, run(10.0, 1.0, 0.4)),
        (own, unlimited, Contender::KAFKA_3, run(200.0, 90.0, 2.0)),
        (own, unlimited, Contender::KAFKA_4, run(160.0, 60.0, 1.6)),
        (
            own,
            "kafka_client_50",
            Contender::MILLRACE,
            run(50.0, 0.0, 1.0),
        ),
        (
            own,
            "kafka_client_50",
            Contender::KAFKA_3,
            run(50.0, 90.0, 1.0),
        ),
        (
            own,
            "kafka_client_50",
            Contender::KAFKA_4,
            run(50.0, 50.0, 1.0),
        ),
    ])
    .json();
    let own = &json["own_disk"];
    assert_eq!(own["max_ratio_kafka_client"], 2.0);
    assert_eq!(own["cpu_per_gib_ratio"], 0.25);
    assert_eq!(own["p99_ratio_50MBps"], 0.02, "a shown 0 counts as 1 ms");
    assert_eq!(own["cpu_vs_bare_sink"], Value::Null, "no sink ran");
    let rate = &own["detail"][unlimited]["millrace"]["mib_per_s"];
    assert_eq!(*rate, json!({ "median": 400.0, "min": 10.0, "max": 500.0 }));
}

#[test]
fn small_records_show_the_worse_of_their_two_topics() {
    let small = SectionKey::SmallRecords;
    let runs = |load, ours, theirs| {
        [
            (small, load, Contender::MILLRACE, run(ours, 1.0, 1.0)),
            (small, load, Contender::KAFKA_3, run(theirs, 1.0, 1.0)),
        ]
    };
    let all = [
        runs("1_partition", 80.0, 20.0),
        runs("16_partitions", 90.0, 30.0),
    ]
    .concat();
    let json = report(&all).json();
    let shown = &json["small_records"];
    assert_eq!(shown["ratio_to_kafka_flushed"], 3.0);
    assert_eq!(shown["ratio_to_kafka_flushed_1_partition"], 4.0);
    assert_eq!(shown["ratio_to_kafka_unflushed"], Value::Null);
}

#[test]
fn small_records_are_compared_with_the_faster_kafka() {
    let (small, load) = (SectionKey::SmallRecords, "1_partition");
    let json = report(&[
        (small, load, Contender::MILLRACE, run(80.0, 1.0, 1.0)),
        (small, load, Contender::KAFKA_3, run(20.0, 1.0, 1.0)),
        (small, load, Contender::KAFKA_4, run(40.0, 1.0, 1.0)),
        (
            small,
            load,
            Contender::KAFKA_3_UNFLUSHED,
            run(50.0, 1.0, 1.0),
        ),
        (
            small,
            load,
            Contender::KAFKA_4_UNFLUSHED,
            run(160.0, 1.0, 1.0),
        ),
    ])
    .json();
    let shown = &json["small_records"];
    assert_eq!(shown["ratio_to_kafka_flushed_1_partition"], 2.0);
    assert_eq!(shown["ratio_to_kafka_unflushed_1_partition"], 0.5);
}

#[test]
fn rows_stand_by_load_and_contender() {
    let own = SectionKey::OwnDisk;
    let report = report(&[
        (own, "light_50", Contender::KAFKA_3, run(1.0, 1.0, 1.0)),
        (
            own,
            "light_unlimited",
            Contender::KAFKA_3,
            run(1.0, 1.0, 1.0),
        ),
        (own, "light_50", Contender::MILLRACE, run(1.0, 1.0, 1.0)),
        (own, "light_50", Contender::KAFKA_3, run(1.0, 1.0, 1.0)),
    ]);
    let expected = [
        ("light_50", Contender::MILLRACE),
        ("light_50", Contender::KAFKA_3),
        ("light_unlimited", Contender::KAFKA_3),
    ];
    assert_eq!(report.rows(own), expected);
}

#[test]
fn who_did_not_keep_up_is_named() {
    let own = SectionKey::OwnDisk;
    let report = report(&[
        (own, "light_50", Contender::MILLRACE, run(50.0, 1.0, 0.99)),
        (own, "light_50", Contender::KAFKA_3, run(40.0, 1.0, 0.8)),
    ]);
    let named: Vec<_> = report.behind(own).collect();
    assert_eq!(named, [("light_50", Contender::KAFKA_3, 0.8)]);
}

#[test]
fn without_kafkas_client_a_latency_is_the_light_ones() {
    let own = SectionKey::OwnDisk;
    let mut runs = vec![
        (own, "light_50", Contender::MILLRACE, run(50.0, 0.5, 1.0)),
        (own, "light_50", Contender::KAFKA_3, run(50.0, 5.0, 1.0)),
    ];
    let figure = |runs: &[_]| report(runs).json()["own_disk"]["p99_ratio_50MBps"].clone();
    assert_eq!(figure(&runs), 0.1);
    runs.push((
        own,
        "kafka_client_50",
        Contender::MILLRACE,
        run(50.0, 2.0, 1.0),
    ));
    runs.push((
        own,
        "kafka_client_50",
        Contender::KAFKA_3,
        run(50.0, 80.0, 1.0),
    ));
    assert_eq!(figure(&runs), 0.025);
}
