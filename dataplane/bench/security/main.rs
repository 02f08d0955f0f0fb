//! `npm run bench:security`: what TLS and access control lists cost a broker, beside Apache Kafka.
//!
//! Kafka's own performance tools are the clients of both. Every run has a broker of its own; the order
//! of the runs turns from round to round.

mod brokers;
mod loads;
mod report;

use std::{error::Error, path::PathBuf, process::ExitCode};

use millrace_bench::{
    command_line::{beside, exit_code, from_callers_folder, positive},
    machine::{Patience, wait_until_quiet},
    process::fresh_folder,
};

use crate::{
    brokers::{Broker, Software, Variant},
    loads::Load,
    report::Report,
};

const USAGE: &str = "\
usage: npm run bench:security -- [--quick] [--rounds N] [--json FILE] [--work DIR]
  --quick      two rounds of 512 MiB instead of five of 2 GiB
  --rounds N   number of rounds
  --json FILE  also writes the results to this file
  --work DIR   where the brokers keep their data (target/bench-security)";

const ROUNDS: usize = 5;
const QUICK_ROUNDS: usize = 2;
const BYTES: u64 = 2 << 30;
const QUICK_BYTES: u64 = 512 << 20;

#[derive(Debug)]
struct Options {
    quick: bool,
    rounds: usize,
    json: Option<PathBuf>,
    work: PathBuf,
}

fn main() -> ExitCode {
    exit_code("bench:security", go())
}

fn go() -> Result<(), Box<dyn Error>> {
    let Some(options) = parse(std::env::args().skip(1))? else {
        println!("{USAGE}");
        return Ok(());
    };
    let report = measure(&options)?;
    print!("{}", report.tables());
    if let Some(path) = &options.json {
        report.write_json(path)?;
    }
    Ok(())
}

fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Option<Options>, String> {
    let mut arguments = arguments.into_iter();
    let (mut quick, mut rounds, mut json, mut work) = (false, None, None, None);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(USAGE);
        match argument.as_str() {
            "--quick" => quick = true,
            "--rounds" => rounds = Some(positive(&value()?).ok_or(USAGE)?),
            "--json" => json = Some(from_callers_folder(value()?)),
            "--work" => work = Some(from_callers_folder(value()?)),
            "--help" => return Ok(None),
            other => return Err(format!("unknown argument {other}\n{USAGE}")),
        }
    }
    Ok(Some(Options {
        quick,
        rounds: rounds.unwrap_or(if quick { QUICK_ROUNDS } else { ROUNDS }),
        json,
        work: work.map_or_else(|| beside("../bench-security"), Ok)?,
    }))
}

fn measure(options: &Options) -> Result<Report, Box<dyn Error>> {
    let load = Load {
        bytes: if options.quick { QUICK_BYTES } else { BYTES },
    };
    let mut runs: Vec<_> = Variant::ALL
        .into_iter()
        .flat_map(|variant| Software::ALL.map(|software| (software, variant)))
        .collect();
    let mut report = Report::new(options.rounds, load.bytes);
    for _ in 0..options.rounds {
        for &(software, variant) in &runs {
            fresh_folder(&options.work)?;
            let broker = Broker::start(software, variant, &options.work)?;
            broker.prepare()?;
            let idle = wait_until_quiet(Patience::THOROUGH);
            let figures = load.run(&broker)?;
            report.add((software, variant), idle, figures);
        }
        runs.rotate_left(1);
    }
    fresh_folder(&options.work)?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_understood_or_refused() {
        let parsed = |line: &str| parse(line.split_ascii_whitespace().map(str::to_owned));
        let quick = parsed("--quick --json out.json").expect("legal");
        let quick = quick.expect("not help");
        assert_eq!((quick.quick, quick.rounds), (true, QUICK_ROUNDS));
        assert!(quick.json.is_some());
        assert!(parsed("--help").expect("legal").is_none());
        for wrong in ["--rounds 0", "--rounds", "--fast"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
