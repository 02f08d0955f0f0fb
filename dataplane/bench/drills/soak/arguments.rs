//! The command line.

use std::time::Duration;

use millrace_bench::{
    command_line::time,
    drill::{DrillFiles, LoadOptions},
};

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

/// What to do.
#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) length: Duration,
    pub(crate) load: LoadOptions,
    pub(crate) files: DrillFiles,
}

impl Arguments {
    /// `None` if only the usage was asked for.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut length = Duration::from_secs(20 * 60);
        let mut load = LoadOptions::new(8 << 20);
        let files = DrillFiles::parse("soak", USAGE, arguments, |option, values| {
            let mut value = || values.next();
            match option {
                "--quick" => length = Duration::from_secs(3 * 60),
                "--minutes" => length = time(&value()?, 60.0)?,
                other => return load.take(other, values),
            }
            Some(())
        })?;
        Ok(files.map(|files| Self {
            length,
            load,
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
        let parsed = parse("--minutes 0.5 --rate 3 --seed 9").expect("legal");
        let parsed = parsed.expect("a drill");
        assert_eq!(parsed.length, Duration::from_secs(30));
        assert_eq!((parsed.load.bytes_per_s, parsed.load.seed), (3 << 20, 9));
        assert!(parse("--help").expect("legal").is_none());
        for wrong in ["--minutes", "--minutes long", "--rate 0", "--fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
