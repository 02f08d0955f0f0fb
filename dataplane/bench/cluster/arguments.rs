//! The command line.

use std::{path::PathBuf, time::Duration};

use millrace_bench::command_line::{beside, broker_program, from_callers_folder, positive};

pub(crate) const USAGE: &str = "\
usage: npm run bench:cluster -- [--quick] [--rounds N] [--only SECTION] [--partitions N]
                                [--program FILE] [--json FILE] [--work DIR]
  --quick          one round with short loads
  --rounds N       number of rounds (5)
  --only SECTION   failover, moves, throughput or metadata; may be repeated
  --partitions N   partitions in failover and moves (1000)
  --program FILE   the broker (MILLRACE_BROKER_BIN, or the one beside this program)
  --json FILE      also writes the results to this file
  --work DIR       where the brokers keep their data (target/bench-cluster)";

const ROUNDS: usize = 5;
const QUICK_ROUNDS: usize = 1;
/// Enough for partitions that are watched beside others.
const PARTITIONS_MIN: usize = 100;

/// A part of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Section {
    Failover,
    Moves,
    Throughput,
    Metadata,
}

impl Section {
    const ALL: [Self; 4] = [
        Self::Failover,
        Self::Moves,
        Self::Throughput,
        Self::Metadata,
    ];

    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Failover => "failover",
            Self::Moves => "moves",
            Self::Throughput => "throughput",
            Self::Metadata => "metadata",
        }
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) sections: Vec<Section>,
    pub(crate) partitions: i32,
    pub(crate) program: PathBuf,
    pub(crate) json: Option<PathBuf>,
    pub(crate) work: PathBuf,
}

impl Options {
    /// How long a load that is measured runs.
    pub(crate) const fn load_time(&self) -> Duration {
        Duration::from_secs(if self.quick { 10 } else { 40 })
    }

    /// How long it has run before.
    pub(crate) const fn warm_up(&self) -> Duration {
        Duration::from_secs(if self.quick { 5 } else { 15 })
    }
}

/// `None` if only the usage was asked for.
pub(crate) fn parse(
    arguments: impl IntoIterator<Item = String>,
) -> Result<Option<Options>, String> {
    let mut arguments = arguments.into_iter();
    let (mut quick, mut rounds, mut sections) = (false, None, Vec::new());
    let (mut partitions, mut json, mut work) = (1_000, None, None);
    let mut program = broker_program()?;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(USAGE);
        match argument.as_str() {
            "--quick" => quick = true,
            "--rounds" => rounds = Some(positive(&value()?).ok_or(USAGE)?),
            "--only" => {
                let name = value()?;
                let named = Section::ALL.into_iter().find(|one| one.key() == name);
                sections.push(named.ok_or(USAGE)?);
            }
            "--partitions" => {
                let count = positive(&value()?).filter(|&count| count >= PARTITIONS_MIN);
                partitions = count.and_then(|n| i32::try_from(n).ok()).ok_or(USAGE)?;
            }
            "--program" => program = from_callers_folder(value()?),
            "--json" => json = Some(from_callers_folder(value()?)),
            "--work" => work = Some(from_callers_folder(value()?)),
            "--help" => return Ok(None),
            other => return Err(format!("unknown argument {other}\n{USAGE}")),
        }
    }
    if sections.is_empty() {
        sections = Section::ALL.into();
    }
    Ok(Some(Options {
        quick,
        rounds: rounds.unwrap_or(if quick { QUICK_ROUNDS } else { ROUNDS }),
        sections,
        partitions,
        program,
        json,
        work: work.map_or_else(|| beside("../bench-cluster"), Ok)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_understood_or_refused() {
        let parsed = |line: &str| parse(line.split_ascii_whitespace().map(str::to_owned));
        let quick = parsed("--quick --only moves --json out.json").expect("legal");
        let quick = quick.expect("not help");
        assert_eq!((quick.rounds, quick.partitions), (QUICK_ROUNDS, 1_000));
        assert_eq!(quick.sections, [Section::Moves]);
        assert!(quick.json.is_some());
        let all = parsed("").expect("legal").expect("not help");
        assert_eq!((all.rounds, all.sections.len()), (ROUNDS, 4));
        assert!(parsed("--help").expect("legal").is_none());
        for wrong in ["--rounds 0", "--only speed", "--partitions 10", "--fast"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
