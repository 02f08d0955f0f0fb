//! The command line.

use std::path::{Path, PathBuf};

use millrace_bench::command_line::from_callers_folder;

use crate::sections::SectionKey;

pub(crate) const USAGE: &str = "\
usage: npm run bench:write -- [--quick] [--rounds N] [--only SECTION]… [--load LOAD]…
                              [--profile DIR] [--json FILE] [--work DIR]
  --quick         one round instead of five, less data, and only the sections of the main figures
  --rounds N      number of rounds
  --only SECTION  own_disk, ebs_like_1ms, ebs_like_5ms or small_records; may be repeated
  --load LOAD     only this load of the sections; may be repeated
  --profile DIR   only Millrace, in which stage it spends its CPU time; needs perf; stacks and flame
                  graphs go to this folder
  --json FILE     also writes the results to this file; README.md lists the keys
  --work DIR      where all contenders keep their data, on the disk to be measured
                  (target/bench-write)";

/// Rounds that a median is taken over.
const ROUNDS: usize = 5;

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
    pub(crate) sections: Vec<SectionKey>,
    /// Keys of loads; empty for all.
    pub(crate) loads: Vec<String>,
    /// Where profiles go, if any are asked for.
    pub(crate) profile: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) work: PathBuf,
}

impl Options {
    /// Whether a load was asked for.
    pub(crate) fn wants(&self, load: &str) -> bool {
        self.loads.is_empty() || self.loads.iter().any(|wanted| wanted == load)
    }
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
        let mut loads = Vec::new();
        let (mut json, mut work) = (None, target_folder().join("bench-write"));
        let mut profile = None;
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(USAGE);
            match argument.as_str() {
                "--quick" => quick = true,
                "--rounds" => {
                    let count = value()?.parse().ok().filter(|&count: &usize| count > 0);
                    rounds = Some(count.ok_or(USAGE)?);
                }
                "--only" => only.push(SectionKey::named(&value()?)?),
                "--load" => loads.push(value()?),
                "--profile" => profile = Some(from_callers_folder(value()?)),
                "--json" => json = Some(from_callers_folder(value()?)),
                "--work" => work = from_callers_folder(value()?),
                "--help" => return Ok(Self::Help),
                other => return Err(format!("unknown argument {other}\n{USAGE}")),
            }
        }
        let sections = match (only.is_empty(), quick) {
            (false, _) => only,
            (true, true) => SectionKey::QUICK.into(),
            (true, false) => SectionKey::ALL.into(),
        };
        Ok(Self::Bench(Options {
            quick,
            rounds: rounds.unwrap_or(if quick { 1 } else { ROUNDS }),
            sections,
            loads,
            profile,
            json,
            work,
        }))
    }
}

/// Where Cargo put this program; it is found beside the broker's release build.
fn target_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target")
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
    fn a_quick_run_has_one_round_unless_told_otherwise() {
        let rounds = |line| options(line).expect("legal").rounds;
        assert_eq!((rounds("--quick"), rounds("")), (1, 5));
        assert_eq!(rounds("--quick --rounds 3"), 3);
        assert!(options("--rounds 0").is_err());
        assert!(options("--rounds").is_err());
    }

    #[test]
    fn sections_are_named() {
        let sections = |line| options(line).expect("legal").sections;
        let (own, small) = (SectionKey::OwnDisk, SectionKey::SmallRecords);
        assert_eq!(
            sections("--only own_disk --only small_records"),
            [own, small]
        );
        assert_eq!(sections(""), SectionKey::ALL);
        let some = options("--load light_50").expect("legal");
        assert!(some.wants("light_50") && !some.wants("light_unlimited"));
        assert!(options("").expect("legal").wants("anything"));
        assert!(options("--only floppy").is_err());
        assert!(options("--fast").is_err());
    }
}
