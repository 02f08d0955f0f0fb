//! The command line.

use std::{path::PathBuf, time::Duration};

use millrace_bench::command_line::{beside, broker_program, from_callers_folder, positive};

pub(crate) const USAGE: &str = "\
usage: npm run drill:connections -- [--idle N] [--busy N] [--seconds N] [--rate N] [--quick]
                                    [--work DIR] [--program FILE] [--json FILE]
  --idle N           connections that request the API versions once and then stay idle (10000)
  --busy N           producers, 1 to 16 KiB per request, acks=all (1000)
  --seconds N        how long the producers are measured (20)
  --rate N           requests per second of each (4)
  --quick            1000 idle, 200 busy, 5 seconds
  --work DIR         work folder; kept if the drill fails (target/drill-connections)
  --program FILE     the broker (MILLRACE_BROKER_BIN, or the one beside this program)
  --json FILE        also writes the results to this file";

#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) idle: usize,
    pub(crate) busy: usize,
    pub(crate) measured: Duration,
    pub(crate) rate_per_s: u32,
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
            idle: 10_000,
            busy: 1_000,
            measured: Duration::from_secs(20),
            rate_per_s: 4,
            work: beside("../drill-connections")?,
            program: broker_program()?,
            json: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(USAGE);
            match argument.as_str() {
                "--idle" => parsed.idle = positive(&value()?).ok_or(USAGE)?,
                "--busy" => parsed.busy = positive(&value()?).ok_or(USAGE)?,
                "--seconds" => {
                    parsed.measured = Duration::from_secs(positive(&value()?).ok_or(USAGE)? as u64)
                }
                "--rate" => parsed.rate_per_s = positive(&value()?).ok_or(USAGE)?.min(1_000) as u32,
                "--quick" => {
                    (parsed.idle, parsed.busy) = (1_000, 200);
                    parsed.measured = Duration::from_secs(5);
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
        let Ok(Some(quick)) = parse("--quick --rate 9") else {
            panic!("legal")
        };
        assert_eq!((quick.idle, quick.busy, quick.rate_per_s), (1_000, 200, 9));
        assert!(matches!(parse("--help"), Ok(None)));
        for wrong in ["--idle", "--idle 0", "--busy many", "--fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
