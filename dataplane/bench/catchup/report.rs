//! Tables, ratios, and the JSON.

use std::{collections::BTreeMap, fs, io, path::Path};

use millrace_bench::spread::Spread;
use serde_json::{Map, Value, json};

use crate::{arguments::Options, figures, profiles::ProfileKey};

/// Figures of one run, by key.
pub(crate) type Fields = BTreeMap<&'static str, f64>;

/// Whose figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// The bare client.
    Raw,
    /// The bare client with clients of its own.
    Relay,
    /// The consumers, and what served them.
    CatchUp,
    /// The producers, alone.
    Before,
    /// The producers beside the consumers.
    During,
}

impl What {
    const ALL: [Self; 5] = [
        Self::Raw,
        Self::Relay,
        Self::CatchUp,
        Self::Before,
        Self::During,
    ];

    const fn key(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Relay => "relay",
            Self::CatchUp => "catch_up",
            Self::Before => "producer_before",
            Self::During => "producer_during",
        }
    }

    /// Columns of its table: key, heading, digits.
    const fn columns(self) -> &'static [(&'static str, &'static str, usize)] {
        match self {
            Self::Raw | Self::Relay => &[
                ("mib_per_s", "MiB/s", 0),
                ("s3_cpu_s_per_gib", "S3 CPU s/GiB", 2),
                ("readers_cpu_s_per_gib", "client CPU s/GiB", 2),
            ],
            Self::CatchUp => &[
                ("mib_per_s", "MiB/s", 0),
                ("fetched_per_delivered", "fetched/delivered", 3),
                ("gets_per_mib", "GETs/MiB", 2),
                ("get_kib", "KiB/GET", 0),
                ("gets_parallel", "GETs under way", 1),
                ("cache_peak_mib", "cache peak MiB", 1),
                ("cache_budget_mib", "of MiB", 0),
                ("cache_mib_per_partition", "MiB/partition", 2),
                ("broker_cpu_s_per_gib", "broker CPU s/GiB", 2),
                ("s3_cpu_s_per_gib", "S3 CPU s/GiB", 2),
                ("readers_cpu_s_per_gib", "client CPU s/GiB", 2),
                ("broker_peak_mib", "broker peak MiB", 0),
            ],
            Self::Before | Self::During => &[
                ("avg_ms", "avg ms", 2),
                ("p50_ms", "p50 ms", 2),
                ("p99_ms", "p99 ms", 2),
                ("p999_ms", "p99.9 ms", 1),
                ("max_ms", "max ms", 1),
            ],
        }
    }
}

/// All runs.
#[derive(Debug)]
pub(crate) struct Report {
    options: Value,
    idle_percent: f64,
    runs: Vec<(ProfileKey, What, Fields)>,
}

impl Report {
    pub(crate) fn new(options: &Options, idle_percent: f64) -> Self {
        let load = &options.load;
        let options = json!({
            "quick": options.quick,
            "rounds": options.rounds,
            "topics": load.topics,
            "partitions_per_topic": load.partitions_per_topic,
            "producers_per_topic": load.producers_per_topic,
            "groups_per_topic": load.groups_per_topic,
            "consumers_per_group": load.consumers_per_group,
            "record_size": load.record_bytes,
            "send_rate": load.send_rate,
            "backlog_send_rate": load.backlog_send_rate,
            "backlog_duration_s": load.backlog_duration.as_secs(),
            "before_duration_s": load.before.as_secs(),
            "max_partition_fetch_bytes": load.partition_fetch_bytes,
            "fetch_max_wait_ms": load.fetch_wait.as_millis(),
            "raw_parallel": options.raw_parallel,
            "raw_get_bytes": options.raw_get_bytes,
            "broker_config": options.broker_lines.lines().collect::<Vec<_>>(),
        });
        Self {
            options,
            idle_percent,
            runs: Vec::new(),
        }
    }

    /// Takes note of a run, and shows it.
    pub(crate) fn add(&mut self, profile: ProfileKey, what: What, fields: Fields) {
        // What was divided by nothing was not measured.
        let fields: Fields = fields
            .into_iter()
            .filter(|(_, value)| value.is_finite())
            .collect();
        let shown = |(key, heading, digits): &(&str, &str, usize)| {
            let value = fields.get(key)?;
            Some(format!("{heading} {value:.digits$}"))
        };
        let line: Vec<String> = what.columns().iter().filter_map(shown).collect();
        if !line.is_empty() {
            println!("  {}: {}", what.key(), line.join(", "));
        }
        self.runs.push((profile, what, fields));
    }

    /// Of one figure, over the rounds; nothing where it was not measured.
    pub(crate) fn spread(&self, profile: ProfileKey, what: What, key: &str) -> Option<Spread> {
        let runs = self.runs.iter();
        let runs = runs.filter(|(of, whose, _)| (*of, *whose) == (profile, what));
        Spread::of(runs.filter_map(|(_, _, fields)| fields.get(key).copied()))
    }

    pub(crate) fn median(&self, profile: ProfileKey, what: What, key: &str) -> Option<f64> {
        self.spread(profile, what, key).map(|spread| spread.median)
    }

    /// Tables in Markdown, and what the figures come to.
    pub(crate) fn print(&self) {
        for what in What::ALL {
            self.print_table(what);
        }
        println!("\n| figure | value | bound | |\n|---|---|---|---|");
        for figure in figures::of(self) {
            println!("{}", figure.row());
        }
        println!(
            "\nthe machine idled before the run, in %: {:.0}",
            self.idle_percent
        );
    }

    fn print_table(&self, what: What) {
        let columns = what.columns();
        let rows = self.profiles(what);
        if rows.is_empty() {
            return;
        }
        println!("\n{}; median (min–max)\n", what.key());
        let headings: Vec<_> = columns.iter().map(|(_, heading, _)| *heading).collect();
        println!("| profile | {} |", headings.join(" | "));
        println!("|---{}|", "|---".repeat(headings.len()));
        for profile in rows {
            let cell = |(key, _, digits): &(&str, &str, usize)| {
                let spread = self.spread(profile, what, key);
                spread.map_or_else(|| "–".to_owned(), |spread| spread.cell(*digits))
            };
            let cells: Vec<String> = columns.iter().map(cell).collect();
            println!("| {} | {} |", profile.name(), cells.join(" | "));
        }
    }

    /// Profiles that have such figures, in the order in which they ran.
    fn profiles(&self, what: What) -> Vec<ProfileKey> {
        let mut profiles = Vec::new();
        for (profile, whose, fields) in &self.runs {
            if *whose == what && !fields.is_empty() && !profiles.contains(profile) {
                profiles.push(*profile);
            }
        }
        profiles
    }

    /// # Errors
    /// Where the file cannot be written.
    pub(crate) fn write_json(&self, path: &Path) -> io::Result<()> {
        fs::write(path, format!("{:#}\n", self.json()))
    }

    fn json(&self) -> Value {
        let mut all = figures::json(self);
        let mut detail = Map::new();
        for what in What::ALL {
            for profile in self.profiles(what) {
                let profiles = detail
                    .entry(profile.name())
                    .or_insert_with(|| Value::Object(Map::new()));
                profiles[what.key()] = self.details(profile, what);
            }
        }
        all.insert("detail".into(), Value::Object(detail));
        all.insert("load".into(), self.options.clone());
        all.insert("idle_percent_before".into(), json!(self.idle_percent));
        Value::Object(all)
    }

    fn details(&self, profile: ProfileKey, what: What) -> Value {
        let runs = self.runs.iter();
        let runs = runs.filter(|(of, whose, _)| (*of, *whose) == (profile, what));
        let keys: Vec<&str> = runs
            .flat_map(|(_, _, fields)| fields.keys().copied())
            .collect();
        let of_key = |key: &str| {
            let spread = self.spread(profile, what, key);
            (key.to_owned(), json!(spread.map(Spread::json)))
        };
        Value::Object(keys.into_iter().map(of_key).collect())
    }

    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self {
            options: Value::Null,
            idle_percent: 100.0,
            runs: Vec::new(),
        }
    }
}
