//! The main figures: ratios of medians. README.md says what they mean.

use serde_json::{Map, Value, json};

use crate::{
    flow, keys,
    partitioner::{AT_10_000, AT_16, AT_16_KAFKA, AT_16_SLOW_DISK, LINGER_1000},
    report::Report,
    rounds::Section,
    skew, speed, streams, tools,
};

/// All of them; `null` where what they need did not run.
pub(crate) fn figures(report: &Report) -> Value {
    let placed = (Section::Keys, keys::LOAD, "ours");
    json!({
        "sticky": sticky(report),
        "uniform_sticky": uniform_sticky(report),
        "keys": { "placed_as_java": report.median(placed, "keys_placed_as_java") },
        "flow": flow(report),
        "streams": streams(report),
        "tools": { "deviation_percent_max": tools::deviation_percent(report) },
        "plain": plain(report),
    })
}

/// p99 of round robin over sticky's, ours.
fn sticky(report: &Report) -> Value {
    let sticky = |load| {
        let at = (Section::Partitioner, load);
        report.ratio(at, "p99_ms", "round_robin", "sticky")
    };
    let mut figures = Map::new();
    for (name, load) in [
        ("p99_ratio_16_partitions", AT_16_SLOW_DISK),
        ("p99_ratio_16_partitions_own_disk", AT_16),
        ("p99_ratio_16_partitions_kafka", AT_16_KAFKA),
        ("p99_ratio_linger_1000", LINGER_1000),
    ] {
        figures.insert(name.to_owned(), json!(sticky(load)));
    }
    for (partitions, load) in AT_10_000 {
        let name = format!("p99_ratio_10000_per_s_{partitions}_partitions");
        figures.insert(name, json!(sticky(load)));
    }
    figures.into()
}

fn uniform_sticky(report: &Report) -> Value {
    let delayed = (Section::Skew, skew::ONE_DELAYED);
    let equal = (Section::Skew, skew::EQUAL, "uniform_sticky");
    json!({
        "p99_ratio_one_broker_delayed": report.ratio(delayed, "p99_ms", "sticky", "uniform_sticky"),
        "spread_percent_max": report.max(equal, "spread_percent"),
    })
}

fn flow(report: &Report) -> Value {
    let records =
        |contender| report.median((Section::Flow, flow::LOAD, contender), "records_per_60_s");
    let ours = (Section::Flow, flow::LOAD, "ours");
    json!({
        "records_ours": records("ours"),
        "records_java_2_3": records("java_2.3.1"),
        "records_java_4": records("java_4"),
        "records_librdkafka": records("librdkafka"),
        "refetched_bytes_ours": report.max(ours, "refetched_bytes"),
    })
}

fn streams(report: &Report) -> Value {
    let ours = (Section::Streams, streams::LOAD, "ours");
    json!({
        "fetched_per_delivered_byte_ours": report.max(ours, "fetched_per_delivered_byte"),
        "buffered_mib_max_ours": report.max(ours, "buffered_mib_max"),
        "buffered_mib_bound_ours": report.max(ours, "buffered_mib_bound"),
    })
}

/// Of the main record sizes the worse one counts.
fn plain(report: &Report) -> Value {
    let worse = |section, field: &str, other, worse: fn(f64, f64) -> f64| {
        let ratios = speed::MAIN.map(|load| report.ratio((section, load), field, "ours", other));
        let ratios: Option<Vec<f64>> = ratios.into_iter().collect();
        ratios?.into_iter().reduce(worse)
    };
    let cpu = |section| worse(section, "client_cpu_s_per_gib", "librdkafka", f64::max);
    let rate = |section| worse(section, "mib_per_s", "java_4", f64::min);
    let allocations = |section| {
        let ours = (section, speed::MAIN[0], "ours");
        report.median(ours, "allocations_per_record")
    };
    json!({
        "produce_cpu_ratio_librdkafka": cpu(Section::Produce),
        "consume_cpu_ratio_librdkafka": cpu(Section::Consume),
        "produce_mb_ratio_java": rate(Section::Produce),
        "consume_mb_ratio_java": rate(Section::Consume),
        "produce_allocations_per_record": allocations(Section::Produce),
        "consume_allocations_per_record": allocations(Section::Consume),
    })
}
