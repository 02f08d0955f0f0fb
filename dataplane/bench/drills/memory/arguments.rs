//! The command line.

use millrace_bench::{command_line::positive, drill::DrillFiles};

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
    pub(crate) files: DrillFiles,
}

impl Arguments {
    /// `None` if only the usage was asked for.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let (mut frames, mut groups, mut partitions) = (1_000, 100_000, 20_000);
        let files = DrillFiles::parse("memory", USAGE, arguments, |option, values| {
            let mut number = || positive(&values.next()?);
            match option {
                "--frames" => frames = number()?,
                "--groups" => groups = number()?,
                "--partitions" => partitions = number()?,
                "--quick" => (frames, groups, partitions) = (60, 20_000, 4_000),
                _ => return None,
            }
            Some(())
        })?;
        Ok(files.map(|files| Self {
            frames,
            groups,
            partitions,
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
