//! Medians, as a table and as JSON.

use std::{fs, io, path::Path};

use millrace_bench::spread::Spread;
use serde_json::{Map, Value, json};

use crate::{
    arguments::{Options, TIMEOUT},
    rounds::{EQUAL_RATE, keeps_up},
    runs::{Contender, Run},
    workload::{SETTINGS, Setting},
};

/// The article's own saturation rate with many timeouts, in requests per second.
const ARTICLE_RPS_HIGH: f64 = 105_000.0;

/// What a run was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Series {
    Saturation,
    EqualRate,
}

/// All runs.
#[derive(Debug)]
pub(crate) struct Report {
    rounds: usize,
    requests: usize,
    names: Vec<&'static str>,
    /// How idle the machine was before each round, in percent.
    pub(crate) idle_percent: Vec<f64>,
    runs: Vec<(Series, &'static str, Setting, Run)>,
}

impl Report {
    pub(crate) fn new(options: &Options, contenders: &[Contender]) -> Self {
        Self {
            rounds: options.rounds,
            requests: options.requests,
            names: contenders.iter().map(Contender::name).collect(),
            idle_percent: Vec::new(),
            runs: Vec::new(),
        }
    }

    pub(crate) fn add(
        &mut self,
        series: Series,
        contender: &Contender,
        setting: Setting,
        run: Run,
    ) {
        self.runs.push((series, contender.name(), setting, run));
    }

    /// One line per contender and setting, in Markdown.
    pub(crate) fn print(&self) {
        println!(
            "\n{} requests of 100 bytes, timeout {} ms; median (min–max)\n",
            self.requests,
            TIMEOUT.as_millis()
        );
        println!(
            "| timeouts | contender | requests/s at saturation | CPU s per million | peak MiB \
             | CPU s per million at {:.0}/s | peak MiB |",
            EQUAL_RATE
        );
        println!("|---|---|---|---|---|---|---|");
        for setting in SETTINGS {
            for name in &self.names {
                let saturation = |of| self.cell(Series::Saturation, name, setting, of);
                let equal = |of| self.cell(Series::EqualRate, name, setting, of);
                println!(
                    "| {} | {name} | {} | {} | {} | {} | {} |",
                    setting.name,
                    saturation(Field::Rate),
                    saturation(Field::Cpu),
                    saturation(Field::Memory),
                    equal(Field::Cpu),
                    equal(Field::Memory),
                );
            }
        }
        println!();
        for (key, ratio) in self.ratios() {
            println!("{key}: {ratio:.2}");
        }
        let least_idle = self.idle_percent.iter().copied().fold(100.0, f64::min);
        println!("the machine idled {least_idle:.0} % before the busiest round");
    }

    /// # Errors
    /// Where the file cannot be written.
    pub(crate) fn write_json(&self, path: &Path) -> io::Result<()> {
        fs::write(path, format!("{:#}\n", self.json()))
    }

    fn json(&self) -> Value {
        let mut all = Map::new();
        for setting in SETTINGS {
            for name in &self.names {
                let key = format!("{name}_rps_{}", setting.name);
                all.insert(key, json!(self.median_rate(name, setting)));
            }
        }
        all.extend(self.ratios().map(|(key, ratio)| (key, json!(ratio))));
        all.insert("requests".into(), json!(self.requests));
        all.insert("timeout_ms".into(), json!(TIMEOUT.as_millis() as u64));
        all.insert("rounds".into(), json!(self.rounds));
        all.insert(
            "idle_percent_before_rounds".into(),
            json!(self.idle_percent),
        );
        all.insert("saturation".into(), self.details(Series::Saturation));
        all.insert("equal_rate".into(), self.details(Series::EqualRate));
        all.insert("equal_rate_rps".into(), json!(EQUAL_RATE));
        Value::Object(all)
    }

    /// By contender and setting: every field's spread, and in how many runs it kept up.
    fn details(&self, series: Series) -> Value {
        let of_setting = |name: &str, setting: Setting| {
            let spread = |of| self.spread(series, name, setting, of).map(Spread::json);
            let kept_up = self.runs(series, name, setting).filter(|run| keeps_up(run));
            json!({
                "rps": spread(Field::Rate),
                "cpu_seconds_per_million": spread(Field::Cpu),
                "peak_mib": spread(Field::Memory),
                "drain_ms": spread(Field::Drain),
                "runs_kept_up": kept_up.count(),
            })
        };
        let of_contender = |name: &&'static str| {
            let settings = SETTINGS.map(|setting| (setting.name.into(), of_setting(name, setting)));
            (
                (*name).into(),
                Value::Object(settings.into_iter().collect()),
            )
        };
        Value::Object(self.names.iter().map(of_contender).collect())
    }

    /// Millrace against the article, and against Kafka in this run.
    fn ratios(&self) -> impl Iterator<Item = (String, f64)> {
        let rate = |name: &str, setting: Setting| self.median_rate(name, setting);
        let article = SETTINGS
            .into_iter()
            .find(|setting| setting.name == "high")
            .and_then(|high| rate("millrace", high))
            .map(|ours| ("ratio_article_high".into(), ours / ARTICLE_RPS_HIGH));
        let kafka = SETTINGS.map(|setting| {
            let (ours, theirs) = (rate("millrace", setting)?, rate("kafka", setting)?);
            Some((format!("ratio_kafka_{}", setting.name), ours / theirs))
        });
        article.into_iter().chain(kafka.into_iter().flatten())
    }

    fn runs(&self, series: Series, name: &str, setting: Setting) -> impl Iterator<Item = &Run> {
        self.runs
            .iter()
            .filter(move |(of, who, how, _)| (*of, *who, *how) == (series, name, setting))
            .map(|(_, _, _, run)| run)
    }

    fn spread(&self, series: Series, name: &str, setting: Setting, of: Field) -> Option<Spread> {
        Spread::of(self.runs(series, name, setting).map(|run| of.get(run)))
    }

    fn median_rate(&self, name: &str, setting: Setting) -> Option<f64> {
        self.spread(Series::Saturation, name, setting, Field::Rate)
            .map(|spread| spread.median)
    }

    fn cell(&self, series: Series, name: &str, setting: Setting, of: Field) -> String {
        let digits = of.digits();
        self.spread(series, name, setting, of)
            .map_or_else(|| "–".into(), |spread| spread.cell(digits))
    }
}

/// A column.
#[derive(Debug, Clone, Copy)]
enum Field {
    Rate,
    Cpu,
    Memory,
    Drain,
}

impl Field {
    fn get(self, run: &Run) -> f64 {
        match self {
            Self::Rate => run.actual_rate,
            Self::Cpu => run.cpu_seconds_per_million,
            Self::Memory => run.peak_mib,
            Self::Drain => run.drain_ms,
        }
    }

    fn digits(self) -> usize {
        match self {
            Self::Cpu => 2,
            Self::Rate | Self::Memory | Self::Drain => 0,
        }
    }
}
