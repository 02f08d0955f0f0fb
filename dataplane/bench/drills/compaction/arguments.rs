//! The command line.

use std::path::PathBuf;

use millrace_bench::{
    command_line::{from_callers_folder, positive},
    drill::DrillFiles,
};

pub(crate) const USAGE: &str = "\
usage: npm run drill:compaction -- [--gib N] [--live-percent N] [--rate N] [--seconds N]
                                   [--baseline-mib N] [--bucket DIR] [--quick] [--work DIR] [--program FILE] [--json FILE]
  --gib N            GiB of records that are compacted (10)
  --live-percent N   keys, as a percentage of the records (1)
  --rate N           records per second of the producer whose latency is measured (1000)
  --seconds N        how long it is measured before the compaction (60)
  --baseline-mib N   the network's baseline bandwidth, MiB/s, by which compaction is throttled (none)
  --bucket DIR       the folder that is the bucket; on another device than the log, the two do not compete for one
                     (beside the log)
  --quick            1 GiB, 10 s; the target does not apply
  --work DIR         work folder; kept if the drill fails (target/drill-compaction)
  --program FILE     the broker (MILLRACE_BROKER_BIN, or the one beside this program)
  --json FILE        also writes the results to this file";

#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) gib: usize,
    pub(crate) live_percent: usize,
    pub(crate) rate: usize,
    pub(crate) seconds: usize,
    pub(crate) baseline_mib: Option<usize>,
    pub(crate) bucket: Option<PathBuf>,
    /// Whether the target for the latency applies.
    pub(crate) is_full: bool,
    pub(crate) files: DrillFiles,
}

impl Arguments {
    /// `None` if only the usage was asked for.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let (mut gib, mut live_percent, mut rate, mut seconds) = (10, 1, 1_000, 60);
        let (mut baseline_mib, mut bucket, mut is_full) = (None, None, true);
        let files = DrillFiles::parse("compaction", USAGE, arguments, |option, values| {
            let mut number = || positive(&values.next()?);
            match option {
                "--gib" => gib = number()?,
                "--live-percent" => live_percent = number().filter(|&percent| percent <= 100)?,
                "--rate" => rate = number().filter(|&rate| rate <= 1_000_000)?,
                "--seconds" => seconds = number()?,
                "--baseline-mib" => baseline_mib = Some(number()?),
                "--bucket" => bucket = Some(from_callers_folder(values.next()?)),
                "--quick" => (gib, seconds, is_full) = (1, 10, false),
                _ => return None,
            }
            Some(())
        })?;
        Ok(files.map(|files| Self {
            gib,
            live_percent,
            rate,
            seconds,
            baseline_mib,
            bucket,
            is_full,
            files,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line() {
        let parse = |text: &str| Arguments::parse(text.split_whitespace().map(str::to_owned));
        let Ok(Some(quick)) = parse("--quick --gib 2") else {
            panic!("legal")
        };
        assert_eq!((quick.gib, quick.seconds, quick.is_full), (2, 10, false));
        for wrong in ["--gib", "--gib 0", "--live-percent 101", "--rate fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
