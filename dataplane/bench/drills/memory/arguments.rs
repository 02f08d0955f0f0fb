//! The command line.

use std::path::PathBuf;

use millrace_bench::command_line::{beside, broker_program, from_callers_folder, positive};

pub(crate) const USAGE: &str = "\
usage: npm run drill:memory -- [--frames N] [--groups N] [--partitions N] [--quick]
                               [--work DIR] [--program FILE] [--json FILE]
  --frames N         Produce requests of 100 MiB with one small batch each (1000)
  --groups N         groups, each with one member and a subscription of 64 KiB (100000)
  --partitions N     partitions to ask for, twice as many as allowed (20000)
  --quick            60 frames, 20000 groups, 4000 partitions
  --work DIR         work folder; kept if the drill fails (target/drill-memory)
  --program FILE     the broker (MILLRACE_BROKER_BIN, or the one beside this program)
  --json FILE        also writes the results to this file";

#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) frames: usize,
    pub(crate) groups: usize,
    pub(crate) partitions: usize,
    pub(crate) work: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) json: Option<PathBuf>,
}

impl Arguments {
    /// What was asked for; nothing where only the usage was.
    pub(crate) fn from_env() -> Result<Option<Self>, String> {
        Self::parse(std::env::args().skip(1))
    }

    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut parsed = Self {
            frames: 1_000,
            groups: 100_000,
            partitions: 20_000,
            work: beside("../drill-memory")?,
            program: broker_program()?,
            json: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(USAGE);
            match argument.as_str() {
                "--frames" => parsed.frames = positive(&value()?).ok_or(USAGE)?,
                "--groups" => parsed.groups = positive(&value()?).ok_or(USAGE)?,
                "--partitions" => parsed.partitions = positive(&value()?).ok_or(USAGE)?,
                "--quick" => {
                    (parsed.frames, parsed.groups, parsed.partitions) = (60, 20_000, 4_000);
                }
                "--work" => parsed.work = from_callers_folder(value()?),
                "--program" => parsed.program = from_callers_folder(value()?),
                "--json" => parsed.json = Some(from_callers_folder(value()?)),
                "--help" => return Ok(None),
                other => return Err(format!("unknown argument {other}\n{USAGE}")),
            }
        }
        Ok(Some(parsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line() {
        let parse = |text: &str| Arguments::parse(text.split_whitespace().map(str::to_owned));
        let Ok(Some(quick)) = parse("--quick --groups 9") else {
            panic!("legal")
        };
        assert_eq!((quick.frames, quick.groups), (60, 9));
        assert!(matches!(parse("--help"), Ok(None)));
        for wrong in ["--frames", "--groups 0", "--partitions many", "--fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
