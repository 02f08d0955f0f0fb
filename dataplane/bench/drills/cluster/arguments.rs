//! The command line.

use std::time::Duration;

use millrace_bench::{
    command_line::{from_callers_folder, positive, time},
    drill::DrillFiles,
};

pub(crate) const USAGE: &str = "\
usage: npm run drill:cluster -- [--brokers N] [--kills N] [--double-kills N] [--stops N] [--cuts N]
                                [--drains N] [--outage-seconds N]
                                [--database-restarts N] [--moves N] [--seconds N] [--quick]
                                [--partitions N] [--producers N] [--rate N] [--seed N]
                                [--work DIR] [--bin FILE] [--json FILE]
  --brokers N            brokers of the cluster (3), at most 9; with one the metadata is its own, and
                         it is only killed and drained
  --kills N              kill -9 of one broker, which is started again, sometimes at once (10)
  --double-kills N       kill -9 of two brokers at once; of five and more (0)
  --stops N              SIGSTOP of one broker for ten seconds, then SIGCONT (3)
  --cuts N               one broker does not reach PostgreSQL for ten seconds, and clients reach it (2)
  --drains N             SIGTERM of one broker, which is started again (3)
  --database-restarts N  PostgreSQL is restarted, is down for a while, or hangs for a while (3)
  --outage-seconds N     so long PostgreSQL is down, or hangs (15)
  --moves N              planned moves of a tenth of the partitions (3)
  --seconds N            how long clients run at least (0)
  --quick                three kills, and one of each other disruption
  --partitions N         partitions that are written to (60)
  --producers N          idempotent producers, each writing to all partitions (4)
  --rate N               records per second of all producers together (1200)
  --seed N               reproduces the order of what is done, not the machine's timing
  --work DIR             work folder; the subfolder named by the seed is kept if the drill fails
                         (target/drill-cluster)
  --bin FILE             the broker, also --program (MILLRACE_BROKER_BIN, or the one beside this program)
  --json FILE            also writes the results to this file";

/// Brokers that share one machine, at most.
const BROKERS_MAX: u32 = 9;
/// No count is higher.
const COUNT_MAX: usize = 10_000;

/// What to do.
#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) brokers: u32,
    pub(crate) counts: Counts,
    /// PostgreSQL is away so long.
    pub(crate) outage: Duration,
    /// Clients run at least so long.
    pub(crate) length: Duration,
    pub(crate) partitions: i32,
    pub(crate) producers: u32,
    pub(crate) records_per_s: u64,
    pub(crate) seed: u64,
    pub(crate) files: DrillFiles,
}

/// How often each disruption happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) kills: usize,
    pub(crate) double_kills: usize,
    pub(crate) stops: usize,
    pub(crate) cuts: usize,
    pub(crate) drains: usize,
    pub(crate) database: usize,
    pub(crate) moves: usize,
}

impl Counts {
    const THOROUGH: Self = Self {
        kills: 10,
        double_kills: 0,
        stops: 3,
        cuts: 2,
        drains: 3,
        database: 3,
        moves: 3,
    };
    const QUICK: Self = Self {
        kills: 3,
        double_kills: 0,
        stops: 1,
        cuts: 1,
        drains: 1,
        database: 1,
        moves: 1,
    };
}

impl Arguments {
    /// `None` if only the usage was asked for.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let (mut brokers, mut counts) = (3, Counts::THOROUGH);
        let mut outage = Duration::from_secs(15);
        let (mut length, mut partitions, mut producers) = (Duration::ZERO, 60, 4);
        let mut records_per_s = 1_200;
        let mut seed = millrace_time::SystemRandom::shared().next_u64();
        let mut program = None;
        let files = DrillFiles::parse("cluster", USAGE, arguments, |option, values| {
            let mut value = || values.next();
            let count = |text: String| text.parse().ok().filter(|&count| count <= COUNT_MAX);
            match option {
                "--quick" => counts = Counts::QUICK,
                "--brokers" => brokers = small(&value()?).filter(|&n| n <= BROKERS_MAX)?,
                "--kills" => counts.kills = count(value()?)?,
                "--double-kills" => counts.double_kills = count(value()?)?,
                "--stops" => counts.stops = count(value()?)?,
                "--cuts" => counts.cuts = count(value()?)?,
                "--outage-seconds" => outage = time(&value()?, 1.0)?,
                "--drains" => counts.drains = count(value()?)?,
                "--database-restarts" => counts.database = count(value()?)?,
                "--moves" => counts.moves = count(value()?)?,
                "--seconds" => length = time(&value()?, 1.0)?,
                "--partitions" => partitions = i32::try_from(small(&value()?)?).ok()?,
                "--producers" => producers = small(&value()?)?,
                "--rate" => records_per_s = positive(&value()?)? as u64,
                "--seed" => seed = value()?.parse().ok()?,
                "--bin" => program = Some(from_callers_folder(value()?)),
                _ => return None,
            }
            Some(())
        })?;
        if brokers == 1 {
            (counts.double_kills, counts.stops, counts.cuts) = (0, 0, 0);
            (counts.database, counts.moves) = (0, 0);
        }
        if counts.double_kills > 0 && brokers < 5 {
            return Err(format!(
                "--double-kills needs five brokers or more: two of {brokers} are too many\n{USAGE}"
            ));
        }
        Ok(files.map(|mut files| {
            files.work.push(seed.to_string());
            files.program = program.unwrap_or(files.program);
            Self {
                brokers,
                counts,
                outage,
                length,
                partitions,
                producers,
                records_per_s,
                seed,
                files,
            }
        }))
    }
}

fn small(text: &str) -> Option<u32> {
    let number = positive(text).filter(|&number| number <= COUNT_MAX)?;
    u32::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn parse(line: &str) -> Result<Option<Arguments>, String> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_command_line() {
        let line = "--brokers 5 --double-kills 2 --kills 7 --seconds 90 --seed 9 --bin /b --rate 50 --outage-seconds 60";
        let parsed = parse(line).expect("legal").expect("a drill");
        assert_eq!((parsed.brokers, parsed.seed), (5, 9));
        assert_eq!((parsed.counts.kills, parsed.counts.double_kills), (7, 2));
        assert_eq!(parsed.outage, Duration::from_secs(60));
        assert_eq!(parsed.length, Duration::from_secs(90));
        assert_eq!(parsed.records_per_s, 50);
        assert_eq!(parsed.files.program, Path::new("/b"));
        assert!(parsed.files.work.ends_with("9"));
        let quick = parse("--quick").expect("legal").expect("a drill");
        assert_eq!(quick.counts, Counts::QUICK);
        assert!(parse("--help").expect("legal").is_none());
    }

    #[test]
    fn a_broker_alone_has_no_database_and_no_successor() {
        let alone = parse("--brokers 1").expect("legal").expect("a drill");
        let expected = Counts {
            kills: 10,
            double_kills: 0,
            stops: 0,
            cuts: 0,
            drains: 3,
            database: 0,
            moves: 0,
        };
        assert_eq!(alone.counts, expected);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "--brokers 0",
            "--brokers 10",
            "--double-kills 1",
            "--kills many",
            "--kills 10001",
            "--partitions 0",
            "--rate 0",
            "--seconds",
            "--fast",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
