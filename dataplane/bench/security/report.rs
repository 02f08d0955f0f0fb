//! Medians with extremes, and what TLS and rules cost each broker.

use std::{collections::BTreeMap, fmt::Write, fs, io, path::Path};

use millrace_bench::spread::Spread;
use serde_json::{Map, Value, json};

use crate::{
    brokers::{Software, Variant},
    loads::Figures,
};

type Key = (Software, Variant);

/// A figure: its name, its digits in a table, and where it stands.
struct Column {
    key: &'static str,
    digits: usize,
    value: fn(&Figures) -> f64,
}

#[rustfmt::skip]
const COLUMNS: [Column; 5] = [
    Column { key: "produced_mib_per_s", digits: 0, value: |run| run.produced_mib_per_s },
    Column { key: "produce_cpu_s_per_gib", digits: 2, value: |run| run.produce_cpu_s_per_gib },
    Column { key: "consumed_mib_per_s", digits: 0, value: |run| run.consumed_mib_per_s },
    Column { key: "fetched_mib_per_s", digits: 0, value: |run| run.fetched_mib_per_s },
    Column { key: "consume_cpu_s_per_gib", digits: 2, value: |run| run.consume_cpu_s_per_gib },
];

/// All runs.
#[derive(Debug)]
pub(crate) struct Report {
    rounds: usize,
    bytes: u64,
    runs: BTreeMap<Key, Vec<Figures>>,
    idle_percents: Vec<f64>,
}

impl Report {
    pub(crate) fn new(rounds: usize, bytes: u64) -> Self {
        Self {
            rounds,
            bytes,
            runs: BTreeMap::new(),
            idle_percents: Vec::new(),
        }
    }

    /// Adds a run, and says what it showed. `idle_percent` is the machine's before it.
    pub(crate) fn add(&mut self, key: Key, idle_percent: f64, figures: Figures) {
        eprintln!("{}, {}: {figures:?}", key.0.key(), key.1.key());
        self.idle_percents.push(idle_percent);
        self.runs.entry(key).or_default().push(figures);
    }

    fn spread(&self, key: Key, column: &Column) -> Option<Spread> {
        Spread::of(self.runs.get(&key)?.iter().map(column.value))
    }

    /// A variant's median over that of the plain one.
    fn cost(&self, (software, variant): Key, column: &Column) -> Option<f64> {
        let median = |variant| Some(self.spread((software, variant), column)?.median);
        Some(median(variant)? / median(Variant::Plain)?)
    }

    pub(crate) fn tables(&self) -> String {
        let names: Vec<_> = COLUMNS.iter().map(|column| column.key).collect();
        let head = format!(
            "| broker | clients | {} |\n|---|---|{}\n",
            names.join(" | "),
            "---|".repeat(names.len())
        );
        let mut text = format!(
            "{} rounds of {} MiB; median (least–greatest)\n\n{head}",
            self.rounds,
            self.bytes >> 20
        );
        self.rows(&mut text, |key, column| {
            let spread = self.spread(key, column);
            spread.map_or_else(|| "–".to_owned(), |spread| spread.cell(column.digits))
        });
        let _ = write!(text, "\nOver the same broker's plain clients\n\n{head}");
        self.rows(&mut text, |key, column| {
            let cost = self.cost(key, column);
            cost.map_or_else(|| "–".to_owned(), |cost| format!("{cost:.2}"))
        });
        text
    }

    fn rows(&self, text: &mut String, cell: impl Fn(Key, &Column) -> String) {
        for &(software, variant) in self.runs.keys() {
            let cells: Vec<_> = COLUMNS
                .iter()
                .map(|column| cell((software, variant), column))
                .collect();
            let (software, variant) = (software.key(), variant.key());
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {software} | {variant} | {} |", cells.join(" | "));
        }
    }

    /// Writes `{rounds, bytes, idle_percent, brokers: {broker: {variant: {figure: spread}}}}`.
    pub(crate) fn write_json(&self, path: &Path) -> io::Result<()> {
        let mut brokers = Map::new();
        for &key in self.runs.keys() {
            let figures: Map<String, Value> = COLUMNS
                .iter()
                .filter_map(|column| {
                    let spread = self.spread(key, column)?;
                    Some((column.key.to_owned(), spread.json()))
                })
                .collect();
            brokers
                .entry(key.0.key())
                .or_insert_with(|| json!({}))
                .as_object_mut()
                .map(|variants| variants.insert(key.1.key().to_owned(), figures.into()));
        }
        let report = json!({
            "rounds": self.rounds,
            "bytes": self.bytes,
            "idle_percent": Spread::of(self.idle_percents.iter().copied()).map(Spread::json),
            "brokers": brokers,
        });
        fs::write(path, format!("{report:#}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_ratios_of_medians() {
        let run = |cpu| Figures {
            produced_mib_per_s: 100.0,
            consumed_mib_per_s: 200.0,
            fetched_mib_per_s: 300.0,
            produce_cpu_s_per_gib: cpu,
            consume_cpu_s_per_gib: 1.0,
        };
        let mut report = Report::new(2, 1 << 30);
        report.add((Software::Kafka, Variant::Plain), 99.0, run(2.0));
        report.add((Software::Kafka, Variant::Tls), 99.0, run(4.0));
        report.add((Software::Kafka, Variant::Tls), 99.0, run(6.0));
        let cost = report.cost((Software::Kafka, Variant::Tls), &COLUMNS[1]);
        assert_eq!(cost, Some(2.5));
        let tables = report.tables();
        assert!(tables.contains("| kafka | tls | 100 | 5.00 (4.00–6.00) | 200 | 300 | 1.00 |"));
        assert!(tables.contains("| kafka | tls | 1.00 | 2.50 | 1.00 | 1.00 | 1.00 |"));
    }
}
