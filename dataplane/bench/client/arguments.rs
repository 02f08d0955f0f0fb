//! The command line.

use std::path::PathBuf;

use millrace_bench::command_line::{beside, from_callers_folder};

use crate::rounds::Section;

pub(crate) const USAGE: &str = "\
usage: npm run bench:client -- [--quick] [--rounds N] [--only SECTION]… [--load TEXT] [--json FILE] [--work DIR]
  --quick         two rounds instead of five, shorter runs, and only the loads of the main figures
  --rounds N      number of rounds
  --only SECTION  keys, partitioner, skew, flow, streams, tools or speed; may be repeated
  --load TEXT     of the partitioners' loads only those whose names contain this
  --json FILE     also writes the results to this file; README.md lists the keys
  --work DIR      where the broker keeps its data (target/bench-client)";

/// Rounds that a median is taken over.
const ROUNDS: usize = 5;
const QUICK_ROUNDS: usize = 2;

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Bench(Options),
    /// One role, in this process.
    Run(Vec<String>),
}

/// How to measure.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) sections: Vec<Section>,
    pub(crate) load: Option<String>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) work: PathBuf,
}

impl Command {
    pub(crate) fn from_env() -> Result<Self, String> {
        let mut arguments: Vec<String> = std::env::args().skip(1).collect();
        if arguments.first().is_some_and(|first| first == "run") {
            arguments.remove(0);
            return Ok(Self::Run(arguments));
        }
        Self::parse(arguments)
    }

    fn parse(arguments: Vec<String>) -> Result<Self, String> {
        let mut arguments = arguments.into_iter();
        let (mut quick, mut rounds, mut only) = (false, None, Vec::new());
        let (mut load, mut json, mut work) = (None, None, None);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(USAGE);
            match argument.as_str() {
                "--quick" => quick = true,
                "--rounds" => {
                    let count = value()?.parse().ok().filter(|&count: &usize| count > 0);
                    rounds = Some(count.ok_or(USAGE)?);
                }
                "--only" => only.push(Section::named(&value()?)?),
                "--load" => load = Some(value()?),
                "--json" => json = Some(from_callers_folder(value()?)),
                "--work" => work = Some(from_callers_folder(value()?)),
                "--help" => return Ok(Self::Help),
                other => return Err(format!("unknown argument {other}\n{USAGE}")),
            }
        }
        let work = work.map_or_else(|| beside("../bench-client"), Ok)?;
        Ok(Self::Bench(Options {
            quick,
            rounds: rounds.unwrap_or(if quick { QUICK_ROUNDS } else { ROUNDS }),
            sections: if only.is_empty() {
                Section::ALL.into()
            } else {
                only
            },
            load,
            json,
            work,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<Options, String> {
        let arguments = line.split_ascii_whitespace().map(str::to_owned).collect();
        match Command::parse(arguments)? {
            Command::Bench(options) => Ok(options),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn sections_and_rounds_are_chosen() {
        let all = options("").expect("legal");
        assert_eq!((all.rounds, all.sections.len()), (ROUNDS, 7));
        let some = options("--quick --only flow --rounds 4").expect("legal");
        assert_eq!((some.rounds, some.sections), (4, vec![Section::Flow]));
        assert_eq!(options("--quick").expect("legal").rounds, QUICK_ROUNDS);
        for wrong in ["--only network", "--rounds 0", "--rounds", "--fast"] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
    }
}
