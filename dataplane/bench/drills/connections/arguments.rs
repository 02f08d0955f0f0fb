//! The command line.

use std::time::Duration;

use millrace_bench::{command_line::positive, drill::DrillFiles};

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
    pub(crate) files: DrillFiles,
}

impl Arguments {
    /// `None` if only the usage was asked for.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let (mut idle, mut busy, mut rate_per_s) = (10_000, 1_000, 4);
        let mut measured = Duration::from_secs(20);
        let files = DrillFiles::parse("connections", USAGE, arguments, |option, values| {
            let mut number = || positive(&values.next()?);
            match option {
                "--idle" => idle = number()?,
                "--busy" => busy = number()?,
                "--seconds" => measured = Duration::from_secs(number()? as u64),
                "--rate" => rate_per_s = number()?.min(1_000) as u32,
                "--quick" => {
                    (idle, busy) = (1_000, 200);
                    measured = Duration::from_secs(5);
                }
                _ => return None,
            }
            Some(())
        })?;
        Ok(files.map(|files| Self {
            idle,
            busy,
            measured,
            rate_per_s,
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
