//! The report for a terminal.

use std::fmt::Write;

use crate::{
    ending::Reason,
    latencies::LatencySummary,
    options::Workload,
    report::{CatchUp, Flow, Report},
};

/// Fewer unsent records than this part of the others were just being handed over.
const UNSENT_SHARE: u64 = 100;
const MIB: f64 = (1 << 20) as f64;

/// The report as text.
pub(crate) fn table(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(report, &mut text);
    text
}

fn write(report: &Report, to: &mut String) -> std::fmt::Result {
    let workload = match report.workload {
        Workload::Produce => "Produce",
        Workload::Consume => "Consume",
        Workload::EndToEnd => "End to end",
        Workload::CatchUp => "Catch-up",
        Workload::Mixed => "Mixed",
    };
    writeln!(
        to,
        "{workload}, {:.1} s{}",
        report.duration_seconds,
        ended(report)
    )?;
    for (name, flow) in [
        ("produced", &report.produced),
        ("consumed", &report.consumed),
    ] {
        if let Some(flow) = flow {
            flow_line(to, name, flow)?;
        }
    }
    let rows: Vec<_> = latencies(report)
        .into_iter()
        .filter_map(|(name, summary)| Some((name, summary?)))
        .collect();
    if !rows.is_empty() {
        latency_table(to, &rows)?;
    }
    if let Some(catch_up) = &report.catch_up {
        catch_up_line(to, catch_up)?;
    }
    if let Some(outcome) = &report.verification {
        writeln!(
            to,
            "\nverified   {} records: {} missing, {} duplicated, {} out of order, {} corrupt",
            grouped(outcome.checked),
            outcome.missing,
            outcome.duplicated,
            outcome.out_of_order,
            outcome.corrupt
        )?;
    }
    client_lines(to, report)
}

fn ended(report: &Report) -> &'static str {
    match report.ended_by {
        Some(Reason::Signal) => ", ended by a signal",
        Some(Reason::MaxBytes) => ", ended by --max-bytes",
        Some(Reason::Failure) => ", ended by a failure",
        _ => "",
    }
}

fn flow_line(to: &mut String, name: &str, flow: &Flow) -> std::fmt::Result {
    writeln!(
        to,
        "{name:<10} {} records, {:.1} MiB: {} records/s, {:.2} MiB/s, {} errors",
        grouped(flow.records),
        flow.bytes as f64 / MIB,
        grouped(flow.records_per_second.round() as u64),
        flow.bytes_per_second / MIB,
        grouped(flow.errors),
    )
}

/// The latencies that there are, by what they count.
pub(super) fn latencies(report: &Report) -> Vec<(&'static str, Option<LatencySummary>)> {
    let produced = report.produced.as_ref().and_then(|flow| flow.latency_ms);
    let end_to_end = report.end_to_end.as_ref().and_then(|part| part.latency_ms);
    let mut rows = vec![("produce", produced), ("end to end", end_to_end)];
    if let Some(catch_up) = &report.catch_up {
        rows.push(("produce, before", catch_up.produce_latency_before_ms));
        rows.push(("produce, during", catch_up.produce_latency_during_ms));
    }
    rows
}

fn latency_table(to: &mut String, rows: &[(&str, LatencySummary)]) -> std::fmt::Result {
    write!(to, "\n{:<17}", "latency, ms")?;
    for name in [
        "min", "mean", "p50", "p75", "p90", "p95", "p99", "p99.9", "max",
    ] {
        write!(to, "{name:>10}")?;
    }
    writeln!(to)?;
    for (name, row) in rows {
        write!(to, "{name:<17}")?;
        for value in [
            row.min, row.mean, row.p50, row.p75, row.p90, row.p95, row.p99, row.p999, row.max,
        ] {
            write!(to, "{value:>10.2}")?;
        }
        writeln!(to)?;
    }
    writeln!(
        to,
        "A latency counts from when the record was due under the rate."
    )
}

fn catch_up_line(to: &mut String, catch_up: &CatchUp) -> std::fmt::Result {
    let outcome = if catch_up.complete {
        "caught up"
    } else {
        "did not catch up"
    };
    writeln!(
        to,
        "\nbacklog    {} records, {:.1} MiB; {outcome} in {:.2} s: {:.2} MiB/s",
        grouped(catch_up.backlog_records),
        catch_up.backlog_bytes as f64 / MIB,
        catch_up.seconds,
        catch_up.bytes_per_second / MIB,
    )
}

fn client_lines(to: &mut String, report: &Report) -> std::fmt::Result {
    let client = &report.client;
    write!(to, "\nclient     {} requests", grouped(client.requests))?;
    if let Some(records) = client.records_per_batch {
        write!(to, ", {records:.1} records per batch")?;
    }
    if let Some(cpu) = client.cpu_seconds {
        write!(to, ", {cpu:.2} CPU s")?;
    }
    if let Some(bytes) = client.peak_memory_bytes {
        write!(to, ", {:.0} MiB of memory at most", bytes as f64 / MIB)?;
    }
    writeln!(to)?;
    let produced = report.produced.as_ref().map_or(0, |flow| flow.records);
    if client.unsent_records * UNSENT_SHARE > produced {
        writeln!(
            to,
            "           {} records were due and not sent: the producers could not keep up",
            grouped(client.unsent_records)
        )?;
    }
    for (error, count) in &client.errors {
        writeln!(to, "error      {} × {error}", grouped(*count))?;
    }
    if let Some(failure) = &report.failure {
        writeln!(to, "failure    {failure}")?;
    }
    Ok(())
}

/// A number with commas.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }
}
