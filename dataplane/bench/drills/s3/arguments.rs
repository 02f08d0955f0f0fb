//! The command line.

use std::time::Duration;

use millrace_bench::{
    command_line::{mebibytes, time},
    drill::{DrillFiles, LoadOptions},
};

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
#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) faulty: Duration,
    pub(crate) silent: Duration,
    pub(crate) wal_bytes: u64,
    pub(crate) load: LoadOptions,
    pub(crate) files: DrillFiles,
}

impl Arguments {
    /// Whether what is produced while nothing is uploaded fits the log with room to spare. Where it
    /// does not, the broker must push back.
    pub(crate) fn log_suffices(&self) -> bool {
        let silent = self.load.bytes_per_s * (self.silent.as_secs() + 15);
        silent < self.wal_bytes / 2
    }

    /// `None` if only the usage was asked for.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let (mut faulty, mut silent) = (Duration::from_secs(300), Duration::from_secs(60));
        let mut wal_bytes = 3 << 30;
        let mut load = LoadOptions::new(16 << 20);
        let files = DrillFiles::parse("s3", USAGE, arguments, |option, values| {
            let mut value = || values.next();
            match option {
                "--quick" => {
                    faulty = Duration::from_secs(30);
                    silent = Duration::from_secs(10);
                }
                "--minutes" => faulty = time(&value()?, 60.0)?,
                "--outage-seconds" => silent = time(&value()?, 1.0)?,
                "--wal" => wal_bytes = mebibytes(&value()?)?,
                other => return load.take(other, values),
            }
            Some(())
        })?;
        Ok(files.map(|files| Self {
            faulty,
            silent,
            wal_bytes,
            load,
            files,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Arguments>, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    fn parse(line: &str) -> Arguments {
        parsed(line).expect("legal").expect("a drill")
    }

    #[test]
    fn times_and_sizes() {
        let arguments = parse("--minutes 0.5 --outage-seconds 7 --wal 256 --rate 3 --seed 9");
        assert_eq!(arguments.faulty, Duration::from_secs(30));
        assert_eq!(arguments.silent, Duration::from_secs(7));
        assert_eq!(
            (arguments.wal_bytes, arguments.load.bytes_per_s),
            (256 << 20, 3 << 20)
        );
        assert_eq!(arguments.load.seed, 9);
        assert_eq!(parse("--quick").silent, Duration::from_secs(10));
        for wrong in ["--wal 0", "--minutes -1", "--rate", "--what"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_log_suffices_where_the_silence_fills_less_than_half() {
        assert!(parse("").log_suffices());
        assert!(!parse("--wal 256").log_suffices());
    }
}
