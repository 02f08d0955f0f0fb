//! The command line.

use std::time::Duration;

use millrace_bench::{
    command_line::{mebibytes, positive},
    drill::DrillFiles,
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
pub(crate) struct Arguments {
    pub(crate) runs: usize,
    pub(crate) seed: u64,
    /// Bytes per second of all producers together.
    pub(crate) bytes_per_s: u64,
    /// Whether the disk may be one without `O_DIRECT`.
    pub(crate) any_disk: bool,
    pub(crate) cost: Option<Cost>,
    pub(crate) files: DrillFiles,
}

/// How the cost is measured.
#[derive(Debug, Clone)]
pub(crate) struct Cost {
    pub(crate) measured: Duration,
    pub(crate) threshold_bytes: u64,
}

impl Arguments {
    /// `None` if only the usage was asked for.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let (mut runs, mut bytes_per_s, mut any_disk) = (50, 16 << 20, false);
        let mut seed = millrace_time::SystemRandom::shared().next_u64();
        let (mut seconds, mut threshold_bytes) = (None, 64 << 20);
        let files = DrillFiles::parse("recover", USAGE, arguments, |option, values| {
            let mut value = || values.next();
            match option {
                "--quick" => runs = 3,
                "--runs" => runs = positive(&value()?)?,
                "--seed" => seed = value()?.parse().ok()?,
                "--rate" => bytes_per_s = mebibytes(&value()?)?,
                "--cost" => seconds = Some(positive(&value()?)?),
                "--threshold" => threshold_bytes = mebibytes(&value()?)?,
                "--any-disk" => any_disk = true,
                _ => return None,
            }
            Some(())
        })?;
        let cost = seconds.map(|seconds| Cost {
            measured: Duration::from_secs(seconds as u64),
            threshold_bytes,
        });
        Ok(files.map(|mut files| {
            files.work.push(seed.to_string());
            Self {
                runs,
                seed,
                bytes_per_s,
                any_disk,
                cost,
                files,
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line() {
        let parse = |text: &str| Arguments::parse(text.split_whitespace().map(str::to_owned));
        let parsed = parse("--runs 7 --seed 9 --rate 2")
            .expect("legal")
            .expect("a drill");
        assert_eq!(
            (parsed.runs, parsed.seed, parsed.bytes_per_s),
            (7, 9, 2 << 20)
        );
        assert_eq!(parse("--quick").expect("legal").expect("a drill").runs, 3);
        assert!(parse("--help").expect("legal").is_none());
        for wrong in ["--runs", "--runs 0", "--fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
