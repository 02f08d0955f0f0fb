//! The command line.

use millrace_bench::{command_line::positive, drill::DrillFiles};

pub(crate) const USAGE: &str = "\
usage: npm run drill:scale -- [--topics N] [--partitions N] [--groups N] [--members N]
                              [--quick] [--work DIR] [--program FILE] [--json FILE]
  --topics N         topics (5000)
  --partitions N     partitions of each topic (4)
  --groups N         groups that commit an offset (10000)
  --members N        members of one more group, of KIP-848 (1000)
  --quick            200 topics, 500 groups, 100 members; no targets apply
  --work DIR         work folder; kept if the drill fails (target/drill-scale)
  --program FILE     the broker (MILLRACE_BROKER_BIN, or the one beside this program)
  --json FILE        also writes the results to this file";

#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) topics: usize,
    pub(crate) partitions: usize,
    pub(crate) groups: usize,
    pub(crate) members: usize,
    /// Whether the targets apply.
    pub(crate) is_full: bool,
    pub(crate) files: DrillFiles,
}

impl Arguments {
    /// `None` if only the usage was asked for.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let (mut topics, mut partitions, mut groups) = (5_000, 4, 10_000);
        let (mut members, mut is_full) = (1_000, true);
        let files = DrillFiles::parse("scale", USAGE, arguments, |option, values| {
            let mut number = || positive(&values.next()?);
            match option {
                "--topics" => topics = number()?,
                "--partitions" => partitions = number()?,
                "--groups" => groups = number()?,
                "--members" => members = number()?,
                "--quick" => (topics, groups, members, is_full) = (200, 500, 100, false),
                _ => return None,
            }
            Some(())
        })?;
        Ok(files.map(|files| Self {
            topics,
            partitions,
            groups,
            members,
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
        let Ok(Some(quick)) = parse("--quick --topics 9") else {
            panic!("legal")
        };
        assert_eq!((quick.topics, quick.groups, quick.is_full), (9, 500, false));
        for wrong in [
            "--topics",
            "--groups 0",
            "--members 0",
            "--partitions many",
            "--fast",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
