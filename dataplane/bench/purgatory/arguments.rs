//! The command line.

use std::{path::PathBuf, time::Duration};

use crate::{
    contenders::InProcess,
    workload::{Plan, SETTINGS, Setting},
};

pub(crate) const USAGE: &str = "\
usage: npm run bench:purgatory -- [--quick] [--without-kafka] [--rounds N] [--json FILE]
  --quick          two rounds instead of five, and one at an equal rate
  --without-kafka  leaves Apache Kafka out, which needs a JDK 17 with Maven
  --rounds N       another number of rounds
  --json FILE      writes the results there as well; README.md lists the keys";

/// Of the article.
pub(crate) const REQUESTS: usize = 1_000_000;
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
            rounds: 5,
            kafka: true,
            json: None,
        };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => {
                    options.quick = true;
                    options.rounds = 2;
                }
                "--without-kafka" => options.kafka = false,
                "--rounds" => {
                    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok());
                    options.rounds = rounds.filter(|&rounds| rounds > 0).ok_or(USAGE)?;
                }
                "--json" => options.json = Some(arguments.next().ok_or(USAGE)?.into()),
                "--help" => return Ok(Self::Help),
                other => return Err(format!("unknown argument {other}\n{USAGE}")),
            }
        }
        Ok(Self::Bench(options))
    }

    /// `run CONTENDER SETTING RATE SEED`
    fn run(arguments: &[String]) -> Result<Self, String> {
        let [contender, setting, rate, seed] = arguments else {
            return Err("run CONTENDER SETTING RATE SEED".into());
        };
        let contender = InProcess::ALL
            .into_iter()
            .find(|known| known.name() == contender)
            .ok_or("no such contender")?;
        let rate = rate.parse().map_err(|_| "the rate is no number")?;
        let seed = seed.parse().map_err(|_| "the seed is no number")?;
        let plan = plan(setting_named(setting)?, rate, seed);
        Ok(Self::Run { contender, plan })
    }
}

/// The article's plan at a rate.
pub(crate) fn plan(setting: Setting, rate: f64, seed: u64) -> Plan {
    Plan {
        setting,
        requests: REQUESTS,
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
