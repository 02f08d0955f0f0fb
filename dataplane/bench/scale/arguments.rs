//! The command line.

use std::path::PathBuf;

use millrace_bench::command_line::{beside, broker_program, from_callers_folder, positive};

use crate::axis::Axis;

pub(crate) const USAGE: &str = "\
usage: npm run bench:scale -- [--quick] [--only AXIS]... [--rounds N] [--json FILE] [--work DIR]
                              [--program FILE]
       npm run bench:scale -- --chart FILE --from JSON [--from JSON]...
  --quick         fewer steps and one round; five minutes instead of forty
  --only AXIS     only this axis: partitions, connections, groups or objects; may be given many times
  --rounds N      number of rounds
  --json FILE     also writes the results to this file; README.md lists the keys
  --work DIR      where the brokers keep their data (target/bench-scale)
  --program FILE  the broker (MILLRACE_BROKER_BIN, or the one beside this program)
  --chart FILE    draws the results of earlier runs, or of this one, as SVG
  --from JSON     the results of an earlier run; may be given many times";

/// Rounds that a median is taken over.
const ROUNDS: usize = 3;
const QUICK_ROUNDS: usize = 1;

/// What to do.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) axes: Vec<Axis>,
    pub(crate) rounds: usize,
    pub(crate) json: Option<PathBuf>,
    pub(crate) work: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) chart: Option<PathBuf>,
    /// Results to draw instead of measuring.
    pub(crate) from: Vec<PathBuf>,
}

impl Options {
    /// `None` if only the usage was asked for.
    pub(crate) fn parse(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Option<Self>, String> {
        let mut options = Self {
            quick: false,
            axes: Vec::new(),
            rounds: 0,
            json: None,
            work: beside("../bench-scale")?,
            program: broker_program()?,
            chart: None,
            from: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(USAGE);
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--only" => options.axes.push(Axis::named(&value()?).ok_or(USAGE)?),
                "--rounds" => options.rounds = positive(&value()?).ok_or(USAGE)?,
                "--json" => options.json = Some(from_callers_folder(value()?)),
                "--work" => options.work = from_callers_folder(value()?),
                "--program" => options.program = from_callers_folder(value()?),
                "--chart" => options.chart = Some(from_callers_folder(value()?)),
                "--from" => options.from.push(from_callers_folder(value()?)),
                "--help" => return Ok(None),
                other => return Err(format!("unknown argument {other}\n{USAGE}")),
            }
        }
        if options.axes.is_empty() {
            options.axes = Axis::ALL.to_vec();
        }
        if options.rounds == 0 {
            options.rounds = if options.quick { QUICK_ROUNDS } else { ROUNDS };
        }
        if !options.from.is_empty() && options.chart.is_none() {
            return Err(USAGE.to_owned());
        }
        Ok(Some(options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_understood_or_refused() {
        let parse = |line: &str| Options::parse(line.split_ascii_whitespace().map(str::to_owned));
        let quick = parse("--quick --only groups --json out.json").expect("legal");
        let quick = quick.expect("not help");
        assert_eq!(
            (quick.rounds, quick.axes),
            (QUICK_ROUNDS, vec![Axis::Groups])
        );
        assert!(quick.json.is_some());
        let full = parse("--rounds 2").expect("legal").expect("not help");
        assert_eq!((full.rounds, full.axes.len()), (2, 4));
        assert!(parse("--help").expect("legal").is_none());
        for wrong in [
            "--rounds 0",
            "--only",
            "--only topics",
            "--fast",
            "--from a.json",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
