//! Medians and spread, as tables and as JSON.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::Path,
};

use millrace_bench::spread::Spread;
use serde_json::{Map, Value, json};

use crate::{
    arguments::{Options, Section},
    contenders::Kind,
};

/// The figures of one run, by name.
pub(crate) type Fields = Vec<(&'static str, f64)>;
type Key = (Section, Kind);

/// All runs.
#[derive(Debug)]
pub(crate) struct Report {
    rounds: usize,
    partitions: i32,
    runs: BTreeMap<Key, BTreeMap<&'static str, Vec<f64>>>,
    idle_percents: Vec<f64>,
}

impl Report {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            rounds: options.rounds,
            partitions: options.partitions,
            runs: BTreeMap::new(),
            idle_percents: Vec::new(),
        }
    }

    /// Adds a run, and says what it showed.
    pub(crate) fn add(&mut self, key: Key, idle_percent: f64, fields: Fields) {
        self.idle_percents.push(idle_percent);
        let mut line = format!("{}, {}:", key.0.key(), key.1.name());
        let run = self.runs.entry(key).or_default();
        for (name, value) in fields {
            // Writing to a string cannot fail.
            let _ = write!(line, " {name} {value:.2}");
            run.entry(name).or_default().push(value);
        }
        eprintln!("{line}");
    }

    fn spread(&self, key: Key, field: &str) -> Option<Spread> {
        Spread::of(self.runs.get(&key)?.get(field)?.iter().copied())
    }

    fn median(&self, key: Key, field: &str) -> Option<f64> {
        self.spread(key, field).map(|spread| spread.median)
    }

    fn max(&self, key: Key, field: &str) -> Option<f64> {
        self.spread(key, field).map(|spread| spread.max)
    }

    fn sum(&self, key: Key, field: &str) -> Option<f64> {
        Some(self.runs.get(&key)?.get(field)?.iter().sum())
    }

    fn ratio(&self, (one, other): (Key, Key), field: &str) -> Option<f64> {
        Some(self.median(one, field)? / self.median(other, field)?)
    }

    /// The main figures: medians over the rounds, of maxima the greatest, of errors the sum.
    fn figures(&self) -> Value {
        let of = |section, brokers| (section, Kind::Millrace(brokers));
        let kafka = (Section::Failover, Kind::Kafka);
        let failover = |brokers| {
            let key = of(Section::Failover, brokers);
            json!({
                "p50_ms": self.median(key, "p50_ms"),
                "p99_ms": self.median(key, "p99_ms"),
                "max_ms": self.max(key, "max_ms"),
                "errors": self.sum(key, "errors"),
                "p99_ratio_kafka": self.ratio((key, kafka), "p99_ms"),
            })
        };
        let (moves, meta) = (of(Section::Moves, 3), of(Section::Metadata, 3));
        let throughput = |brokers| of(Section::Throughput, brokers);
        json!({
            "failover": failover(3),
            "failover_5": failover(5),
            "moves": {
                "gap_p99_ms": self.median(moves, "gap_p99_ms"),
                "gap_max_ms": self.max(moves, "gap_max_ms"),
                "errors": self.sum(moves, "errors"),
            },
            "kafka": {
                "failover_p99_ms": self.median(kafka, "p99_ms"),
                "failover_errors": self.sum(kafka, "errors"),
            },
            "throughput": {
                "cpu_ratio_2": self.ratio((throughput(2), throughput(1)), "cpu_s_per_gib"),
                "cpu_ratio_3": self.ratio((throughput(3), throughput(1)), "cpu_s_per_gib"),
            },
            "meta": {
                "commits_per_gib": self.median(meta, "commits_per_gib"),
                "rows_per_gib": self.median(meta, "rows_per_gib"),
                "wal_mib_per_gib": self.median(meta, "wal_mib_per_gib"),
                "cpu_s_per_gib": self.median(meta, "cpu_s_per_gib"),
                "p99_ms": self.median(meta, "p99_ms"),
            },
        })
    }

    fn json(&self) -> Value {
        let mut report = self.figures();
        let mut detail: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
        for ((section, kind), run) in &self.runs {
            let spread = |(name, values): (&&str, &Vec<f64>)| {
                let spread = Spread::of(values.iter().copied())?;
                Some(((*name).to_owned(), spread.json()))
            };
            let fields: Map<String, Value> = run.iter().filter_map(spread).collect();
            let of_section = detail.entry(section.key()).or_default();
            of_section.insert(kind.name(), fields.into());
        }
        report["detail"] = json!(detail);
        report["rounds"] = self.rounds.into();
        report["partitions"] = self.partitions.into();
        let idle = Spread::of(self.idle_percents.iter().copied());
        report["idle_percent_before_runs"] = idle.map_or(Value::Null, Spread::json);
        report
    }

    pub(crate) fn write_json(&self, path: &Path) -> Result<(), String> {
        let written = fs::write(path, format!("{:#}\n", self.json()));
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// One table per section, and the main figures.
    pub(crate) fn tables(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_tables(&mut text);
        text
    }

    fn write_tables(&self, to: &mut String) -> std::fmt::Result {
        let sections: BTreeSet<Section> = self.runs.keys().map(|key| key.0).collect();
        for section in sections {
            let runs = self.runs.iter().filter(|(key, _)| key.0 == section);
            let names: BTreeSet<&str> = runs
                .clone()
                .flat_map(|(_, run)| run.keys().copied())
                .collect();
            let heading: Vec<&str> = names.iter().copied().collect();
            writeln!(to, "\n| {} | {} |", section.key(), heading.join(" | "))?;
            writeln!(to, "|---|{}", "---|".repeat(names.len()))?;
            for (key, _) in runs {
                write!(to, "| {} |", key.1.name())?;
                for name in &names {
                    let spread = self.spread(*key, name);
                    write!(to, " {} |", spread.map_or_else(|| "–".to_owned(), cell))?;
                }
                writeln!(to)?;
            }
        }
        writeln!(to, "\n| figure | value |\n|---|---|")?;
        for (section, figures) in self.figures().as_object().into_iter().flatten() {
            for (name, value) in figures.as_object().into_iter().flatten() {
                let shown = value.as_f64();
                let shown = shown.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
                writeln!(to, "| `{section}.{name}` | {shown} |")?;
            }
        }
        Ok(())
    }
}

fn cell(spread: Spread) -> String {
    spread.cell(if spread.max >= 100.0 { 0 } else { 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_medians_maxima_and_sums() {
        let options = crate::arguments::parse(Vec::new());
        let options = options.expect("legal").expect("not help");
        let mut report = Report::new(&options);
        for (kind, values) in [
            (Kind::Millrace(3), [3_000.0, 5_000.0]),
            (Kind::Kafka, [8_000.0, 8_000.0]),
        ] {
            for value in values {
                let fields = vec![("p99_ms", value), ("max_ms", value), ("errors", 1.0)];
                report.add((Section::Failover, kind), 99.0, fields);
            }
        }
        let json = report.json();
        assert_eq!(json["failover"]["p99_ms"], 4_000.0);
        assert_eq!(json["failover"]["max_ms"], 5_000.0);
        assert_eq!(json["failover"]["errors"], 2.0);
        assert_eq!(json["failover"]["p99_ratio_kafka"], 0.5);
        assert_eq!(json["kafka"]["failover_p99_ms"], 8_000.0);
        assert_eq!(json["moves"]["gap_max_ms"], Value::Null);
        assert_eq!(
            json["detail"]["failover"]["millrace_3"]["p99_ms"]["max"],
            5_000.0
        );
        assert!(report.tables().contains("| `failover.p99_ms` | 4000.00 |"));
    }
}
