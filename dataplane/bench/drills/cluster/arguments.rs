//! The command line.

use millrace_bench::drill::DrillFiles;

pub(crate) const USAGE: &str = "\
usage: npm run drill:cluster -- [--brokers N] [--partitions N] [--kills N] [--double-kills N] [--stops N]
                                [--drains N] [--database-restarts N] [--outage-seconds N] [--quick] [--seed N]
                                [--work DIR] [--program FILE] [--json FILE]
  --brokers N            brokers of the cluster (3)
  --partitions N         partitions that are written to (60)
  --kills N              kill -9 of one broker, which is started again (20)
  --double-kills N       kill -9 of two brokers at once; for five brokers and more (0)
  --stops N              SIGSTOP of one broker until it is replaced, then SIGCONT (5)
  --drains N             SIGTERM of one broker, which is started again (5)
  --database-restarts N  restarts of PostgreSQL (3)
  --outage-seconds N     how long PostgreSQL is down in the end, under load; 0 for no outage (20)
  --quick                three kills, one stop, one drain, one restart of the database, no outage
  --seed N               reproduces the order of what is done, not the machine's timing
  --work DIR             work folder; kept if the drill fails (target/drill-cluster)
  --program FILE         the broker (MILLRACE_BROKER_BIN, or the one beside this program)
  --json FILE            also writes the results to this file";

/// What to do.
#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) brokers: u32,
    pub(crate) partitions: i32,
    pub(crate) kills: usize,
    pub(crate) double_kills: usize,
    pub(crate) stops: usize,
    pub(crate) drains: usize,
    pub(crate) database_restarts: usize,
    pub(crate) outage_seconds: u64,
    pub(crate) seed: u64,
    pub(crate) files: DrillFiles,
}

impl Arguments {
    /// `None` if only the usage was asked for.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut parsed = Self {
            brokers: 3,
            partitions: 60,
            kills: 20,
            double_kills: 0,
            stops: 5,
            drains: 5,
            database_restarts: 3,
            outage_seconds: 20,
            seed: millrace_time::SystemRandom::shared().next_u64(),
            files: DrillFiles {
                work: "".into(),
                program: "".into(),
                json: None,
            },
        };
        let files = DrillFiles::parse("cluster", USAGE, arguments, |option, values| {
            let mut number = || values.next()?.parse::<u64>().ok();
            let mut count = || {
                usize::try_from(number()?)
                    .ok()
                    .filter(|&count| count <= 10_000)
            };
            match option {
                "--quick" => {
                    (parsed.kills, parsed.stops, parsed.drains) = (3, 1, 1);
                    (parsed.database_restarts, parsed.outage_seconds) = (1, 0);
                }
                "--brokers" => parsed.brokers = u32::try_from(count()?).ok()?,
                "--partitions" => parsed.partitions = i32::try_from(count()?).ok()?,
                "--kills" => parsed.kills = count()?,
                "--double-kills" => parsed.double_kills = count()?,
                "--stops" => parsed.stops = count()?,
                "--drains" => parsed.drains = count()?,
                "--database-restarts" => parsed.database_restarts = count()?,
                "--outage-seconds" => parsed.outage_seconds = number()?,
                "--seed" => parsed.seed = number()?,
                _ => return None,
            }
            Some(())
        })?;
        let Some(files) = files else { return Ok(None) };
        if !(2..=9).contains(&parsed.brokers) || parsed.partitions < 1 {
            return Err(format!(
                "a cluster has 2 to 9 brokers, and a partition at least\n{USAGE}"
            ));
        }
        if parsed.double_kills > 0 && parsed.brokers < 5 {
            return Err(format!(
                "two of {} brokers leave no majority of machines for anything; use five\n{USAGE}",
                parsed.brokers
            ));
        }
        Ok(Some(Self { files, ..parsed }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Arguments>, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn what_is_asked_for_is_done() {
        let parsed = parse("--brokers 5 --double-kills 2 --kills 7 --seed 9");
        let parsed = parsed.expect("legal").expect("a drill");
        assert_eq!((parsed.brokers, parsed.double_kills), (5, 2));
        assert_eq!((parsed.kills, parsed.seed), (7, 9));
        let quick = parse("--quick").expect("legal").expect("a drill");
        assert_eq!((quick.kills, quick.outage_seconds), (3, 0));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "--brokers 1",
            "--brokers 10",
            "--double-kills 1",
            "--kills many",
            "--partitions 0",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
