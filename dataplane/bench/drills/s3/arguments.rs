//! The command line.

use std::{path::PathBuf, time::Duration};

use millrace_bench::command_line::{beside, broker_program, from_callers_folder, mebibytes, time};

pub(crate) const USAGE: &str = "\
usage: npm run drill:s3 -- [--minutes N] [--outage-seconds N] [--quick] [--wal MIB] [--rate MIB]
                           [--seed N] [--s3-server FILE] [--work DIR] [--program FILE] [--json FILE]
  --minutes N         how long 30 % of all calls are answered with 503 (5); 0.5 is allowed
  --outage-seconds N  how long no call is answered after that (60)
  --quick             half a minute and ten seconds
  --wal MIB           size of the write-ahead log (3072); if the outage fills it, the broker must
                      apply back-pressure, and clients must only receive retriable errors
  --rate MIB          MiB per second of all producers together (16)
  --seed N            reproduces the batches and faults, not the machine's timing
  --s3-server FILE    a versitygw program; by default one is built with Go
  --work DIR          work folder; kept if the drill fails (target/drill-s3)
  --program FILE      the broker (MILLRACE_BROKER_BIN, or the one beside this program)
  --json FILE         also writes the results to this file";

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Run(Plan),
}

/// One drill.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) faulty: Duration,
    pub(crate) silent: Duration,
    pub(crate) wal_bytes: u64,
    /// Bytes per second of all producers together.
    pub(crate) bytes_per_s: u64,
    pub(crate) seed: u64,
    pub(crate) s3_server: Option<PathBuf>,
    pub(crate) work: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) json: Option<PathBuf>,
}

impl Plan {
    /// Whether what is produced while nothing is uploaded fits the log with room to spare. Where it
    /// does not, the broker must push back.
    pub(crate) fn log_suffices(&self) -> bool {
        let silent = self.bytes_per_s * (self.silent.as_secs() + 15);
        silent < self.wal_bytes / 2
    }
}

impl Command {
    pub(crate) fn from_env() -> Result<Self, String> {
        Self::parse(std::env::args().skip(1))
    }

    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut plan = Plan {
            faulty: Duration::from_secs(300),
            silent: Duration::from_secs(60),
            wal_bytes: 3 << 30,
            bytes_per_s: 16 << 20,
            seed: millrace_time::SystemRandom::shared().next_u64(),
            s3_server: None,
            work: beside("../drill-s3")?,
            program: broker_program()?,
            json: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(USAGE);
            match argument.as_str() {
                "--quick" => {
                    plan.faulty = Duration::from_secs(30);
                    plan.silent = Duration::from_secs(10);
                }
                "--minutes" => plan.faulty = time(&value()?, 60.0).ok_or(USAGE)?,
                "--outage-seconds" => plan.silent = time(&value()?, 1.0).ok_or(USAGE)?,
                "--wal" => plan.wal_bytes = mebibytes(&value()?).ok_or(USAGE)?,
                "--rate" => plan.bytes_per_s = mebibytes(&value()?).ok_or(USAGE)?,
                "--seed" => plan.seed = value()?.parse().map_err(|_| USAGE)?,
                "--s3-server" => plan.s3_server = Some(from_callers_folder(value()?)),
                "--work" => plan.work = from_callers_folder(value()?),
                "--program" => plan.program = from_callers_folder(value()?),
                "--json" => plan.json = Some(from_callers_folder(value()?)),
                "--help" => return Ok(Self::Help),
                other => return Err(format!("unknown argument {other}\n{USAGE}")),
            }
        }
        Ok(Self::Run(plan))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Plan {
        let words = line.split_whitespace().map(str::to_owned);
        match Command::parse(words) {
            Ok(Command::Run(plan)) => plan,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn times_and_sizes() {
        let plan = parse("--minutes 0.5 --outage-seconds 7 --wal 256 --rate 3 --seed 9");
        assert_eq!(plan.faulty, Duration::from_secs(30));
        assert_eq!(plan.silent, Duration::from_secs(7));
        assert_eq!((plan.wal_bytes, plan.bytes_per_s), (256 << 20, 3 << 20));
        assert_eq!(plan.seed, 9);
        assert_eq!(parse("--quick").silent, Duration::from_secs(10));
        for wrong in ["--wal 0", "--minutes -1", "--rate", "--what"] {
            let words = wrong.split_whitespace().map(str::to_owned);
            assert!(Command::parse(words).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_log_suffices_where_the_silence_fills_less_than_half() {
        assert!(parse("").log_suffices());
        assert!(!parse("--wal 256").log_suffices());
    }
}
