//! The command line.

use std::{path::PathBuf, time::Duration};

use millrace_bench::command_line::{
    beside, broker_program, from_callers_folder, mebibytes, positive,
};

pub(crate) const USAGE: &str = "\
usage: npm run drill:recover -- [--runs N] [--quick] [--seed N] [--rate MIB] [--work DIR]
                                [--program FILE] [--json FILE] [--any-disk]
       npm run drill:recover -- --cost SECONDS [--rate MIB] [--threshold MIB]
  --runs N           how many brokers are killed, wiped and recovered (50)
  --quick            3 runs: metadata wiped, log wiped, both wiped
  --seed N           makes the same batches and pauses again; the machine's own timing differs
  --rate MIB         MiB per second that the producers write together (16)
  --work DIR         where the brokers work, in a folder named by the seed; that of a run that fails
                     is kept (target/drill-recover)
  --program FILE     the broker (MILLRACE_BROKER_BIN, or the one beside this program)
  --cost SECONDS     instead: requests and bytes per hour of the backup, idle and under load
  --threshold MIB    s3.wal.upload.threshold in that measurement (64)
  --any-disk         goes on where the disk takes no O_DIRECT
  --json FILE        writes the results there as well";

/// What to do.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) runs: usize,
    pub(crate) seed: u64,
    /// Bytes per second of all producers together.
    pub(crate) bytes_per_s: u64,
    pub(crate) work: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) json: Option<PathBuf>,
    /// Whether a disk will do that takes no `O_DIRECT`.
    pub(crate) any_disk: bool,
    pub(crate) cost: Option<Cost>,
}

/// How the cost is measured.
#[derive(Debug, Clone)]
pub(crate) struct Cost {
    pub(crate) measured: Duration,
    pub(crate) threshold_bytes: u64,
}

impl Plan {
    /// `None` where help is asked for.
    pub(crate) fn from_env() -> Result<Option<Self>, String> {
        Self::parse(std::env::args().skip(1))
    }

    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut plan = Self {
            runs: 50,
            seed: millrace_time::SystemRandom::shared().next_u64(),
            bytes_per_s: 16 << 20,
            work: beside("../drill-recover")?,
            program: broker_program()?,
            json: None,
            any_disk: false,
            cost: None,
        };
        let (mut seconds, mut threshold_bytes) = (None, 64 << 20);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(USAGE);
            match argument.as_str() {
                "--quick" => plan.runs = 3,
                "--runs" => plan.runs = positive(&value()?).ok_or(USAGE)?,
                "--seed" => plan.seed = value()?.parse().map_err(|_| USAGE)?,
                "--rate" => plan.bytes_per_s = mebibytes(&value()?).ok_or(USAGE)?,
                "--work" => plan.work = from_callers_folder(value()?),
                "--program" => plan.program = from_callers_folder(value()?),
                "--cost" => seconds = Some(positive(&value()?).ok_or(USAGE)?),
                "--threshold" => threshold_bytes = mebibytes(&value()?).ok_or(USAGE)?,
                "--any-disk" => plan.any_disk = true,
                "--json" => plan.json = Some(from_callers_folder(value()?)),
                "--help" => return Ok(None),
                other => return Err(format!("unknown argument {other}\n{USAGE}")),
            }
        }
        plan.cost = seconds.map(|seconds| Cost {
            measured: Duration::from_secs(seconds as u64),
            threshold_bytes,
        });
        plan.work.push(plan.seed.to_string());
        Ok(Some(plan))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line() {
        let parse = |text: &str| Plan::parse(text.split_whitespace().map(str::to_owned));
        let plan = parse("--runs 7 --seed 9 --rate 2")
            .expect("legal")
            .expect("a plan");
        assert_eq!((plan.runs, plan.seed, plan.bytes_per_s), (7, 9, 2 << 20));
        assert_eq!(parse("--quick").expect("legal").expect("a plan").runs, 3);
        assert!(parse("--help").expect("legal").is_none());
        for wrong in ["--runs", "--runs 0", "--fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
