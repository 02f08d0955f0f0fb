//! The report as one HTML page: charts inside, nothing loaded from elsewhere, light and dark.

use std::fmt::Write;

use serde_json::{Number, Value};

use super::{
    Flow, Recent, Report,
    chart::{Scale, Series, chart},
    table::{grouped, latencies},
};
use crate::{
    options::Workload,
    phases::Phase,
    sampler::{FlowSample, Sample},
};

const STYLE: &str = include_str!("page.css");
const MIB: f64 = (1 << 20) as f64;

/// One direction of a sample.
type Part = fn(&Sample) -> Option<&FlowSample>;

/// The page; it holds the report's JSON as well.
pub(crate) fn page(report: &Report) -> String {
    let mut html = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(report, &mut html);
    html
}

fn write_page(report: &Report, html: &mut String) -> std::fmt::Result {
    let workload = match report.workload {
        Workload::Produce => "produce",
        Workload::Consume => "consume",
        Workload::EndToEnd => "end-to-end",
        Workload::CatchUp => "catch-up",
        Workload::Mixed => "mixed",
    };
    write!(
        html,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>millrace perf {workload}</title><style>{STYLE}</style></head><body>\
         <h1>millrace perf {workload}</h1><p>{}, {:.1} s measured</p>",
        report.started_at, report.duration_seconds
    )?;
    if let Some(failure) = &report.failure {
        write!(
            html,
            "<p class=\"failure\">Failed: {}</p>",
            escaped(failure)
        )?;
    }
    summary(html, report)?;
    charts(html, report)?;
    write!(html, "<h2>Parameters</h2>")?;
    pairs(html, &report.parameters)?;
    write!(html, "<h2>Client</h2>")?;
    let client = serde_json::to_value(&report.client).unwrap_or_default();
    pairs(html, &client)?;
    let json = serde_json::to_string(report).unwrap_or_default();
    write!(
        html,
        "<script type=\"application/json\" id=\"report\">{}</script></body></html>",
        // Nothing in a string may end the element.
        json.replace('<', "\\u003c")
    )
}

fn summary(html: &mut String, report: &Report) -> std::fmt::Result {
    write!(
        html,
        "<div class=\"scroll\"><table><tr><th></th><th>records</th><th>MiB</th><th>records/s</th>\
         <th>MiB/s</th><th>errors</th></tr>"
    )?;
    for (name, flow) in [
        ("produced", &report.produced),
        ("consumed", &report.consumed),
    ] {
        if let Some(flow) = flow {
            flow_row(html, name, flow)?;
        }
    }
    write!(html, "</table></div>")?;
    let rows: Vec<_> = latencies(report)
        .into_iter()
        .filter_map(|(name, summary)| Some((name, summary?)))
        .collect();
    if !rows.is_empty() {
        write!(
            html,
            "<h2>Latency, ms</h2><div class=\"scroll\"><table><tr><th></th>"
        )?;
        for name in [
            "min", "mean", "p50", "p75", "p90", "p95", "p99", "p99.9", "max",
        ] {
            write!(html, "<th>{name}</th>")?;
        }
        write!(html, "</tr>")?;
        for (name, row) in rows {
            write!(html, "<tr><td>{name}</td>")?;
            for value in [
                row.min, row.mean, row.p50, row.p75, row.p90, row.p95, row.p99, row.p999, row.max,
            ] {
                write!(html, "<td>{value:.2}</td>")?;
            }
            write!(html, "</tr>")?;
        }
        write!(
            html,
            "</table></div><p>A latency counts from when the record was due under the rate.</p>"
        )?;
    }
    for (title, part) in [
        ("Catch-up", serde_json::to_value(&report.catch_up)),
        ("Verification", serde_json::to_value(report.verification)),
    ] {
        if let Ok(part @ Value::Object(_)) = part {
            write!(html, "<h2>{title}</h2>")?;
            pairs(html, &part)?;
        }
    }
    Ok(())
}

fn flow_row(html: &mut String, name: &str, flow: &Flow) -> std::fmt::Result {
    write!(
        html,
        "<tr><td>{name}</td><td>{}</td><td>{:.1}</td><td>{}</td><td>{:.2}</td><td>{}</td></tr>",
        grouped(flow.records),
        flow.bytes as f64 / MIB,
        grouped(flow.records_per_second.round() as u64),
        flow.bytes_per_second / MIB,
        grouped(flow.errors)
    )
}

/// Names and values of an object, except for nested ones.
fn pairs(html: &mut String, object: &Value) -> std::fmt::Result {
    write!(html, "<table class=\"pairs\">")?;
    for (name, value) in object.as_object().into_iter().flatten() {
        let shown = match value {
            Value::Null | Value::Object(_) | Value::Array(_) => continue,
            Value::String(text) => escaped(text),
            Value::Number(number) => shown_number(number),
            Value::Bool(value) => value.to_string(),
        };
        write!(
            html,
            "<tr><td>{}</td><td>{shown}</td></tr>",
            name.replace('_', " ")
        )?;
    }
    write!(html, "</table>")
}

fn charts(html: &mut String, report: &Report) -> std::fmt::Result {
    let marks = phase_marks(&report.samples);
    write!(
        html,
        "<h2>Over time</h2>{}",
        throughput_chart(report, &marks)
    )?;
    for (title, part) in [
        ("Latency from due to acknowledged", PRODUCED),
        ("Latency from due to delivered", CONSUMED),
    ] {
        if let Some(latency) = latency_chart(title, part, &report.samples, &marks) {
            write!(html, "{latency}")?;
        }
    }
    let points = points(&report.samples, CONSUMED, |flow| {
        flow.lag_records.map(|lag| lag as f64)
    });
    if points.iter().any(|(_, lag)| lag.is_some()) {
        let title = if report.workload == Workload::CatchUp {
            "Catch-up"
        } else {
            "Lag"
        };
        let unit = "records not yet consumed";
        let name = "records behind";
        let lag = chart(
            title,
            unit,
            Scale::Linear,
            &[Series { name, points }],
            &marks,
        );
        write!(html, "{lag}")?;
    }
    Ok(())
}

const PRODUCED: Part = |sample| sample.produced.as_ref();
const CONSUMED: Part = |sample| sample.consumed.as_ref();

/// A value over time.
fn points(
    samples: &[Sample],
    part: Part,
    value: impl Fn(&FlowSample) -> Option<f64>,
) -> Vec<(f64, Option<f64>)> {
    let point = |sample: &Sample| (sample.elapsed_seconds, part(sample).and_then(&value));
    samples.iter().map(point).collect()
}

fn throughput_chart(report: &Report, marks: &[(f64, &str)]) -> String {
    let mut rates = Vec::new();
    for (name, part, flow) in [
        ("produced", PRODUCED, &report.produced),
        ("consumed", CONSUMED, &report.consumed),
    ] {
        if flow.is_some() {
            let rate = |flow: &FlowSample| Some(flow.bytes_per_second / MIB);
            let points = points(&report.samples, part, rate);
            rates.push(Series { name, points });
        }
    }
    chart("Throughput", "MiB/s", Scale::Linear, &rates, marks)
}

/// Nothing where there are no latencies.
fn latency_chart(
    title: &str,
    part: Part,
    samples: &[Sample],
    marks: &[(f64, &str)],
) -> Option<String> {
    let series = |name, value: fn(&Recent) -> f64| Series {
        name,
        points: points(samples, part, |flow| flow.latency_ms.as_ref().map(value)),
    };
    let all = [
        series("p50", |recent| recent.p50),
        series("p95", |recent| recent.p95),
        series("p99", |recent| recent.p99),
        series("max", |recent| recent.max),
    ];
    let has_values = all[0].points.iter().any(|(_, value)| value.is_some());
    has_values.then(|| chart(title, "ms, logarithmic", Scale::Logarithmic, &all, marks))
}

/// When each phase but the first begins.
fn phase_marks(samples: &[Sample]) -> Vec<(f64, &'static str)> {
    let changes = samples
        .windows(2)
        .filter(|pair| pair[0].phase != pair[1].phase);
    changes
        .map(|pair| {
            let name = match pair[1].phase {
                Phase::Warmup => "warm-up",
                Phase::Backlog => "backlog",
                Phase::Test => "measured",
                Phase::CatchUp => "catch-up",
            };
            (pair[0].elapsed_seconds, name)
        })
        .collect()
}

/// Whole numbers with commas, others with two digits.
fn shown_number(number: &Number) -> String {
    match (number.as_u64(), number.as_f64()) {
        (Some(whole), _) => grouped(whole),
        (None, Some(value)) if value >= 1e4 => grouped(value.round() as u64),
        (None, Some(value)) => format!("{value:.2}"),
        (None, None) => number.to_string(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (json, shown) in [
            ("41094144", "41,094,144"),
            ("99173892.7", "99,173,893"),
            ("0.43", "0.43"),
            ("-1.0", "-1.00"),
        ] {
            let number = serde_json::from_str(json).expect("a number");
            assert_eq!(shown_number(&number), shown);
        }
    }

    #[test]
    fn foreign_text_is_escaped() {
        assert_eq!(escaped("<b>\"&"), "&lt;b&gt;&quot;&amp;");
    }
}
