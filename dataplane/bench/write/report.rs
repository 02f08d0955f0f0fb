//! Medians, as tables and as JSON.

use std::{fs, io, path::Path};

use millrace_bench::spread::Spread;
use serde_json::{Map, Value, json};

use crate::{arguments::Options, contenders::Contender, figures, loads::Run, sections::SectionKey};

/// All runs.
#[derive(Debug)]
pub(crate) struct Report {
    rounds: usize,
    quick: bool,
    sections: Vec<SectionKey>,
    runs: Vec<Entry>,
}

/// One run, and how idle the machine was before it, in percent.
#[derive(Debug)]
struct Entry {
    section: SectionKey,
    load: &'static str,
    contender: Contender,
    run: Run,
    idle_percent: f64,
}

/// What a run shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    key: &'static str,
    heading: &'static str,
    digits: usize,
    get: fn(&Run) -> Option<f64>,
}

pub(crate) const RATE: Field = Field {
    key: "mib_per_s",
    heading: "MiB/s",
    digits: 0,
    get: |run| Some(run.outcome.mib_per_s),
};
pub(crate) const P99: Field = Field {
    key: "p99_ms",
    heading: "p99 ms",
    digits: 1,
    get: |run| Some(run.outcome.p99_ms),
};
pub(crate) const SERVER_CPU: Field = Field {
    key: "server_cpu_s_per_gib",
    heading: "server CPU s/GiB",
    digits: 2,
    get: |run| Some(run.server_cpu_per_gib),
};
const OFFERED: Field = Field {
    key: "share_of_offered",
    heading: "",
    digits: 2,
    get: |run| run.share_of_offered,
};
/// Who takes less of the offered load does not keep up with it.
const KEPT_UP_MIN: f64 = 0.95;
/// In the order of the table.
const FIELDS: [Field; 11] = [
    RATE,
    Field {
        key: "avg_ms",
        heading: "",
        digits: 1,
        get: |run| Some(run.outcome.avg_ms),
    },
    Field {
        key: "p50_ms",
        heading: "p50 ms",
        digits: 1,
        get: |run| Some(run.outcome.p50_ms),
    },
    P99,
    Field {
        key: "p999_ms",
        heading: "p99.9 ms",
        digits: 1,
        get: |run| Some(run.outcome.p999_ms),
    },
    Field {
        key: "max_ms",
        heading: "",
        digits: 1,
        get: |run| Some(run.outcome.max_ms),
    },
    SERVER_CPU,
    Field {
        key: "client_cpu_s_per_gib",
        heading: "client CPU s/GiB",
        digits: 2,
        get: |run| run.client_cpu_per_gib,
    },
    Field {
        key: "server_peak_mib",
        heading: "server peak MiB",
        digits: 0,
        get: |run| run.server_peak_mib,
    },
    Field {
        key: "flush_calls_per_mib",
        heading: "",
        digits: 2,
        get: |run| run.flushes_per_mib,
    },
    OFFERED,
];

impl Report {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            rounds: options.rounds,
            quick: options.quick,
            sections: options.sections.clone(),
            runs: Vec::new(),
        }
    }

    pub(crate) fn add(
        &mut self,
        section: SectionKey,
        load: &'static str,
        contender: Contender,
        run: Run,
        idle_percent: f64,
    ) {
        self.runs.push(Entry {
            section,
            load,
            contender,
            run,
            idle_percent,
        });
    }

    /// Of one contender's runs; nothing where there were none.
    pub(crate) fn spread(
        &self,
        section: SectionKey,
        load: &str,
        contender: Contender,
        field: Field,
    ) -> Option<Spread> {
        let runs = self.runs.iter().filter(|entry| {
            (entry.section, entry.load, entry.contender) == (section, load, contender)
        });
        Spread::of(runs.filter_map(|entry| (field.get)(&entry.run)))
    }

    pub(crate) fn median(
        &self,
        section: SectionKey,
        load: &str,
        contender: Contender,
        field: Field,
    ) -> Option<f64> {
        self.spread(section, load, contender, field)
            .map(|spread| spread.median)
    }

    /// A table for each section, in Markdown, and the ratios.
    pub(crate) fn print(&self) {
        for &section in &self.sections {
            println!("\n{}; median (min–max)\n", describe(section));
            self.print_section(section);
        }
        println!();
        for &section in &self.sections {
            for (key, ratio) in figures::of_section(self, section) {
                println!("{}.{key}: {}", section.name(), shown(ratio));
            }
        }
        let idle = Spread::of(self.runs.iter().map(|entry| entry.idle_percent));
        if let Some(idle) = idle {
            println!("the machine idled before the runs, in %: {}", idle.cell(0));
        }
    }

    fn print_section(&self, section: SectionKey) {
        let fields = || FIELDS.iter().filter(|field| !field.heading.is_empty());
        let headings: Vec<_> = fields().map(|field| field.heading).collect();
        println!("| load | contender | {} |", headings.join(" | "));
        println!("|---|---{}|", "|---".repeat(headings.len()));
        for (load, contender) in self.rows(section) {
            let cells: Vec<String> = fields()
                .map(|&field| {
                    let spread = self.spread(section, load, contender, field);
                    spread.map_or_else(|| "–".into(), |spread| spread.cell(field.digits))
                })
                .collect();
            println!("| {load} | {} | {} |", contender.key(), cells.join(" | "));
        }
        for (load, contender, share) in self.behind(section) {
            let percent = share * 100.0;
            println!(
                "\n{} did not keep up with {load}: {percent:.0} %",
                contender.key()
            );
        }
    }

    /// Who did not keep up with the load that was offered, and what share of it was taken: the
    /// longer such a load lasts, the longer its latencies get.
    fn behind(&self, section: SectionKey) -> impl Iterator<Item = (&'static str, Contender, f64)> {
        let share = move |(load, contender)| {
            let share = self.median(section, load, contender, OFFERED)?;
            (share < KEPT_UP_MIN).then_some((load, contender, share))
        };
        self.rows(section).into_iter().filter_map(share)
    }

    /// Loads in the order in which they first ran, and for each who ran it, sorted.
    fn rows(&self, section: SectionKey) -> Vec<(&'static str, Contender)> {
        let entries = || self.runs.iter().filter(|entry| entry.section == section);
        let mut loads = Vec::new();
        for entry in entries() {
            if !loads.contains(&entry.load) {
                loads.push(entry.load);
            }
        }
        let of_load = |&load: &&'static str| {
            let mut contenders: Vec<_> = entries()
                .filter(|entry| entry.load == load)
                .map(|entry| entry.contender)
                .collect();
            contenders.sort();
            contenders.dedup();
            contenders
                .into_iter()
                .map(move |contender| (load, contender))
        };
        loads.iter().flat_map(of_load).collect()
    }

    /// # Errors
    /// Where the file cannot be written.
    pub(crate) fn write_json(&self, path: &Path) -> io::Result<()> {
        fs::write(path, format!("{:#}\n", self.json()))
    }

    fn json(&self) -> Value {
        let mut all = Map::new();
        for &section in &self.sections {
            let ratios = figures::of_section(self, section);
            let mut shown: Map<_, _> = ratios
                .into_iter()
                .map(|(key, ratio)| (key.to_owned(), json!(ratio)))
                .collect();
            shown.insert("detail".into(), self.details(section));
            all.insert(section.name().into(), Value::Object(shown));
        }
        all.insert("rounds".into(), json!(self.rounds));
        all.insert("quick".into(), json!(self.quick));
        let idle: Vec<f64> = self.runs.iter().map(|entry| entry.idle_percent).collect();
        all.insert("idle_percent_before_runs".into(), json!(idle));
        Value::Object(all)
    }

    /// By load and contender: every field's spread.
    fn details(&self, section: SectionKey) -> Value {
        let mut loads = Map::new();
        for (load, contender) in self.rows(section) {
            let of_field = |field: Field| {
                let spread = self.spread(section, load, contender, field);
                (field.key.to_owned(), json!(spread.map(Spread::json)))
            };
            let fields: Map<_, _> = FIELDS.into_iter().map(of_field).collect();
            let contenders = loads.entry(load).or_insert_with(|| json!({}));
            contenders[contender.key()] = Value::Object(fields);
        }
        Value::Object(loads)
    }
}

fn shown(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "not measured".into(), |ratio| format!("{ratio:.3}"))
}

/// A section in a few words, the conditions of its disk included.
fn describe(section: SectionKey) -> String {
    match section.disk().shape {
        None => format!("{}: the machine's own disk", section.name()),
        Some(shape) => format!(
            "{}: every durable write takes {} ms or more, at most {} a second and {} MiB/s; for \
             Millrace, the sink and the device by a decorator on the device, for Kafka by a \
             library that makes its flush calls as slow",
            section.name(),
            shape.write_ms,
            shape.iops,
            shape.bandwidth_bytes >> 20,
        ),
    }
}

#[cfg(test)]
mod tests;
