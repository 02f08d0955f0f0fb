//! The command line.

use std::{path::PathBuf, time::Duration};

use crate::{
    contenders::InProcess,
    workload::{Plan, SETTINGS, Setting},
};

pub(crate) const USAGE: &str = "\
usage: npm run bench:purgatory -- [--quick] [--without-kafka] [--rounds N] [--requests N]
                                  [--json FILE]
  --quick          one round instead of five, and an equal rate with many timeouts only
  --without-kafka  skips Apache Kafka, which needs a JDK 17 with Maven
  --rounds N       number of rounds
  --requests N     requests in each run (1000000)
  --json FILE      also writes the results to this file; README.md lists the keys";

/// Rounds that a median is taken over.
const ROUNDS: usize = 5;
/// Of the article.
const REQUESTS: usize = 1_000_000;
pub(crate) const TIMEOUT: Duration = Duration::from_millis(200);

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Bench(Options),
    /// One run of one contender, in this process.
    Run {
        contender: InProcess,
        plan: Plan,
    },
}

/// How to measure.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) requests: usize,
    pub(crate) kafka: bool,
    pub(crate) json: Option<PathBuf>,
}

impl Command {
    pub(crate) fn from_env() -> Result<Self, String> {
        let mut arguments = std::env::args().skip(1).peekable();
        if arguments.next_if(|first| first == "run").is_some() {
            return Self::run(&arguments.collect::<Vec<_>>());
        }
        let mut options = Options {
            quick: false,
            rounds: ROUNDS,
            requests: REQUESTS,
            kafka: true,
            json: None,
        };
        while let Some(argument) = arguments.next() {
            let mut count = || {
                let count = arguments.next().and_then(|count| count.parse().ok());
                count.filter(|&count| count > 0).ok_or(USAGE)
            };
            match argument.as_str() {
                "--quick" => {
                    options.quick = true;
                    options.rounds = 1;
                }
                "--without-kafka" => options.kafka = false,
                "--rounds" => options.rounds = count()?,
                "--requests" => options.requests = count()?,
                "--json" => {
                    options.json = Some(from_callers_folder(arguments.next().ok_or(USAGE)?))
                }
                "--help" => return Ok(Self::Help),
                other => return Err(format!("unknown argument {other}\n{USAGE}")),
            }
        }
        Ok(Self::Bench(options))
    }

    /// `run CONTENDER SETTING REQUESTS RATE SEED`
    fn run(arguments: &[String]) -> Result<Self, String> {
        let [contender, setting, requests, rate, seed] = arguments else {
            return Err("run CONTENDER SETTING REQUESTS RATE SEED".into());
        };
        let contender = InProcess::ALL
            .into_iter()
            .find(|known| known.name() == contender)
            .ok_or("no such contender")?;
        let requests = requests.parse().map_err(|_| "requests is no number")?;
        let rate = rate.parse().map_err(|_| "the rate is no number")?;
        let seed = seed.parse().map_err(|_| "the seed is no number")?;
        let plan = plan(setting_named(setting)?, requests, rate, seed);
        Ok(Self::Run { contender, plan })
    }
}

/// The article's plan at a rate.
pub(crate) fn plan(setting: Setting, requests: usize, rate: f64, seed: u64) -> Plan {
    Plan {
        setting,
        requests,
        rate,
        timeout: TIMEOUT,
        seed,
    }
}

fn setting_named(name: &str) -> Result<Setting, String> {
    SETTINGS
        .into_iter()
        .find(|setting| setting.name == name)
        .ok_or_else(|| "no such setting".into())
}

/// npm runs this program in another folder than it was called in, and says which that was.
fn from_callers_folder(path: String) -> PathBuf {
    std::env::var_os("INIT_CWD")
        .map_or_else(PathBuf::new, PathBuf::from)
        .join(path)
}
