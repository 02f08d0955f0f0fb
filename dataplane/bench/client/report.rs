//! Medians, as tables and as JSON.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs, io,
    path::Path,
};

use millrace_bench::spread::Spread;
use serde_json::{Map, Value, json};

use crate::{arguments::Options, figures::figures, rounds::Section};

/// The figures of one run, by name.
pub(crate) type Fields = Vec<(&'static str, f64)>;
/// Section, load and contender.
pub(crate) type Key = (Section, &'static str, &'static str);

/// All runs.
#[derive(Debug)]
pub(crate) struct Report {
    rounds: usize,
    quick: bool,
    runs: BTreeMap<Key, BTreeMap<&'static str, Vec<f64>>>,
    /// Before the run that is added next, and before all.
    pub(crate) idle_percent: f64,
    idle_percents: Vec<f64>,
}

impl Report {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            rounds: options.rounds,
            quick: options.quick,
            runs: BTreeMap::new(),
            idle_percent: 0.0,
            idle_percents: Vec::new(),
        }
    }

    /// Adds a run, and says what it showed.
    pub(crate) fn add(
        &mut self,
        section: Section,
        load: &'static str,
        contender: &'static str,
        fields: Fields,
    ) {
        self.idle_percents.push(self.idle_percent);
        let mut line = format!("{}, {load}, {contender}:", section.key());
        let run = self.runs.entry((section, load, contender)).or_default();
        for (name, value) in fields {
            // Writing to a string cannot fail.
            let _ = write!(line, " {name} {}", rounded(value));
            run.entry(name).or_default().push(value);
        }
        eprintln!("{line}");
    }

    pub(crate) fn median(&self, key: Key, field: &str) -> Option<f64> {
        let values = self.runs.get(&key)?.get(field)?;
        Spread::of(values.iter().copied()).map(|spread| spread.median)
    }

    /// One contender's median over another's.
    pub(crate) fn ratio(
        &self,
        (section, load): (Section, &'static str),
        field: &str,
        one: &'static str,
        other: &'static str,
    ) -> Option<f64> {
        let one = self.median((section, load, one), field)?;
        Some(one / self.median((section, load, other), field)?)
    }

    /// The greatest of all rounds.
    pub(crate) fn max(&self, key: Key, field: &str) -> Option<f64> {
        let values = self.runs.get(&key)?.get(field)?;
        values.iter().copied().reduce(f64::max)
    }

    /// Everything.
    pub(crate) fn json(&self) -> Value {
        let mut report = figures(self);
        let mut detail = Map::new();
        for ((section, load, contender), run) in &self.runs {
            let fields: Map<String, Value> = run
                .iter()
                .filter_map(|(name, values)| {
                    let spread = Spread::of(values.iter().copied())?;
                    Some(((*name).to_owned(), spread.json()))
                })
                .collect();
            detail
                .entry(section.key())
                .or_insert_with(|| json!({}))
                .as_object_mut()
                .map(|loads| loads.entry(*load).or_insert_with(|| json!({})))
                .and_then(Value::as_object_mut)
                .map(|contenders| contenders.insert((*contender).to_owned(), fields.into()));
        }
        report["detail"] = detail.into();
        report["rounds"] = self.rounds.into();
        report["quick"] = self.quick.into();
        let idle = Spread::of(self.idle_percents.iter().copied());
        report["idle_percent_before_runs"] = idle.map_or(Value::Null, Spread::json);
        report
    }

    pub(crate) fn write_json(&self, path: &Path) -> io::Result<()> {
        fs::write(path, format!("{:#}\n", self.json()))
    }

    /// One table per section, and the main figures.
    pub(crate) fn tables(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_tables(&mut text);
        text
    }

    fn write_tables(&self, to: &mut String) -> std::fmt::Result {
        let mut heading = None;
        // Not all contenders have all figures.
        let mut names = BTreeSet::new();
        for ((section, load, contender), run) in &self.runs {
            if heading != Some(*section) {
                heading = Some(*section);
                let ours = self
                    .runs
                    .iter()
                    .filter(|((other, _, _), _)| other == section);
                names = ours.flat_map(|(_, run)| run.keys().copied()).collect();
                let names: Vec<_> = names.iter().copied().collect();
                writeln!(
                    to,
                    "\n| {} | contender | {} |",
                    section.key(),
                    names.join(" | ")
                )?;
                writeln!(to, "|---|---|{}", "---|".repeat(names.len()))?;
            }
            write!(to, "| {load} | {contender} |")?;
            for name in &names {
                let spread = run
                    .get(name)
                    .and_then(|run| Spread::of(run.iter().copied()));
                write!(to, " {} |", spread.map_or_else(|| "–".to_owned(), cell))?;
            }
            writeln!(to)?;
        }
        writeln!(to, "\n| figure | value |\n|---|---|")?;
        for (section, figures) in figures(self).as_object().into_iter().flatten() {
            for (name, value) in figures.as_object().into_iter().flatten() {
                let shown = value.as_f64().map_or_else(|| "–".to_owned(), rounded);
                writeln!(to, "| `{section}.{name}` | {shown} |")?;
            }
        }
        Ok(())
    }
}

fn cell(spread: Spread) -> String {
    let Spread { median, min, max } = spread;
    if min == max {
        rounded(median)
    } else {
        format!("{} ({}–{})", rounded(median), rounded(min), rounded(max))
    }
}

/// Three digits or so.
fn rounded(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{flow, partitioner::AT_16_SLOW_DISK, speed};

    fn report() -> Report {
        Report::new(&Options {
            quick: true,
            rounds: 2,
            sections: Vec::new(),
            load: None,
            json: None,
            work: "nowhere".into(),
        })
    }

    #[test]
    fn figures_are_ratios_of_medians() {
        let mut report = report();
        for (contender, values) in [("sticky", [1.0, 3.0]), ("round_robin", [8.0, 12.0])] {
            for value in values {
                let fields = vec![("p99_ms", value)];
                report.add(Section::Partitioner, AT_16_SLOW_DISK, contender, fields);
            }
        }
        let json = report.json();
        assert_eq!(json["sticky"]["p99_ratio_16_partitions"], 5.0);
        assert_eq!(json["sticky"]["p99_ratio_linger_1000"], Value::Null);
        assert_eq!(
            json["detail"]["partitioner"][AT_16_SLOW_DISK]["sticky"]["p99_ms"]["max"],
            3.0
        );
        assert!(
            report
                .tables()
                .contains("| `sticky.p99_ratio_16_partitions` | 5.00 |")
        );
    }

    #[test]
    fn the_worse_record_size_counts() {
        let mut report = report();
        for (load, ours) in speed::MAIN.into_iter().zip([1.0, 3.0]) {
            for (contender, cpu) in [("ours", ours), ("librdkafka", 2.0)] {
                let fields = vec![("client_cpu_s_per_gib", cpu), ("mib_per_s", cpu)];
                report.add(Section::Produce, load, contender, fields.clone());
                report.add(Section::Produce, load, "java_4", fields);
            }
        }
        let plain = &report.json()["plain"];
        assert_eq!(plain["produce_cpu_ratio_librdkafka"], 1.5);
        assert_eq!(plain["consume_cpu_ratio_librdkafka"], Value::Null);
        assert_eq!(plain["produce_allocations_per_record"], Value::Null);
    }

    #[test]
    fn a_second_fetch_of_any_round_shows() {
        let mut report = report();
        for refetched in [0.0, 5.0, 0.0] {
            let fields = vec![("refetched_bytes", refetched)];
            report.add(Section::Flow, flow::LOAD, "ours", fields);
        }
        assert_eq!(report.json()["flow"]["refetched_bytes_ours"], 5.0);
    }
}
