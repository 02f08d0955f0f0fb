//! The command line.

use std::{path::PathBuf, time::Duration};

use millrace_bench::command_line::{beside, broker_program, from_callers_folder, mebibytes, time};

pub(crate) const USAGE: &str = "\
usage: npm run drill:soak -- [--minutes N] [--quick] [--rate MIB] [--seed N] [--s3-server FILE]
                             [--work DIR] [--program FILE] [--json FILE]
  --minutes N        how long clients run (20): 65 % of it with chaos, the rest in a calm phase, in
                     which memory must not grow
  --quick            three minutes
  --rate MIB         MiB per second of all producers together (8)
  --seed N           reproduces the batches and the sequence of chaos, not the machine's timing
  --s3-server FILE   a versitygw program; by default one is built with Go
  --work DIR         work folder; kept if the drill fails (target/drill-soak)
  --program FILE     the broker (MILLRACE_BROKER_BIN, or the one beside this program)
  --json FILE        also writes the results to this file";

/// One drill.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) length: Duration,
    /// Bytes per second of all producers together.
    pub(crate) bytes_per_s: u64,
    pub(crate) seed: u64,
    pub(crate) s3_server: Option<PathBuf>,
    pub(crate) work: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) json: Option<PathBuf>,
}

impl Plan {
    /// What was asked for; nothing where only the usage was.
    pub(crate) fn from_env() -> Result<Option<Self>, String> {
        Self::parse(std::env::args().skip(1))
    }

    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut plan = Self {
            length: Duration::from_secs(20 * 60),
            bytes_per_s: 8 << 20,
            seed: millrace_time::SystemRandom::shared().next_u64(),
            s3_server: None,
            work: beside("../drill-soak")?,
            program: broker_program()?,
            json: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(USAGE);
            match argument.as_str() {
                "--quick" => plan.length = Duration::from_secs(3 * 60),
                "--minutes" => plan.length = time(&value()?, 60.0).ok_or(USAGE)?,
                "--rate" => plan.bytes_per_s = mebibytes(&value()?).ok_or(USAGE)?,
                "--seed" => plan.seed = value()?.parse().map_err(|_| USAGE)?,
                "--s3-server" => plan.s3_server = Some(from_callers_folder(value()?)),
                "--work" => plan.work = from_callers_folder(value()?),
                "--program" => plan.program = from_callers_folder(value()?),
                "--json" => plan.json = Some(from_callers_folder(value()?)),
                "--help" => return Ok(None),
                other => return Err(format!("unknown argument {other}\n{USAGE}")),
            }
        }
        Ok(Some(plan))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line() {
        let parse = |text: &str| Plan::parse(text.split_whitespace().map(str::to_owned));
        let plan = parse("--minutes 0.5 --rate 3 --seed 9").expect("legal");
        let plan = plan.expect("a drill");
        assert_eq!(plan.length, Duration::from_secs(30));
        assert_eq!((plan.bytes_per_s, plan.seed), (3 << 20, 9));
        assert!(parse("--help").expect("legal").is_none());
        for wrong in ["--minutes", "--minutes long", "--rate 0", "--fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
