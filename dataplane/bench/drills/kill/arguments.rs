//! The command line.

use std::path::PathBuf;

use millrace_bench::command_line::{
    beside, broker_program, from_callers_folder, gibibytes, mebibytes, positive,
};

pub(crate) const USAGE: &str = "\
usage: npm run drill:kill -- [--kills N] [--quick] [--seed N] [--rate MIB] [--work DIR]
                             [--program FILE] [--json FILE] [--any-disk]
       npm run drill:kill -- --backlog GIB [--s3-server FILE] [--cache MIB] …
  --kills N          number of kills under load (500)
  --quick            10 kills
  --backlog GIB      measures instead the time to the first acknowledgement after a kill with this
                     much not uploaded, and checks that all of it is uploaded once the bucket is back
  --s3-server FILE   the versitygw program that serves as the bucket then; by default one is built
                     with Go
  --cache MIB        the broker's log cache in that drill (its default)
  --seed N           reproduces the batches and pauses, not the machine's timing
  --rate MIB         MiB per second of all producers together (24)
  --work DIR         work folder; the subfolder named by the seed is kept if the drill fails
                     (target/drill-kill)
  --program FILE     the broker (MILLRACE_BROKER_BIN, or the one beside this program)
  --any-disk         also runs on a disk without O_DIRECT
  --json FILE        also writes the results to this file";

/// What to do.
#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Kill(Place, Kills),
    Backlog(Place, Backlog),
}

/// Where it is done, and with what.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) work: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) json: Option<PathBuf>,
    /// Whether a disk will do that takes no `O_DIRECT`.
    pub(crate) any_disk: bool,
}

/// How the broker is killed.
#[derive(Debug, Clone)]
pub(crate) struct Kills {
    pub(crate) kills: usize,
    pub(crate) seed: u64,
    /// Bytes per second of all producers together.
    pub(crate) bytes_per_s: u64,
    pub(crate) producers: u32,
    pub(crate) partitions: i32,
    /// Everything new is read back after so many kills.
    pub(crate) audit_every: usize,
}

/// How much is not uploaded when the broker is killed.
#[derive(Debug, Clone)]
pub(crate) struct Backlog {
    pub(crate) bytes: u64,
    pub(crate) seed: u64,
    /// The log cache, bytes; `None` is the broker's default.
    pub(crate) cache_bytes: Option<u64>,
    pub(crate) s3_server: Option<PathBuf>,
}

impl Command {
    pub(crate) fn from_env() -> Result<Self, String> {
        Self::parse(std::env::args().skip(1))
    }

    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut place = Place {
            work: beside("../drill-kill")?,
            program: broker_program()?,
            json: None,
            any_disk: false,
        };
        let mut kills = Kills {
            kills: 500,
            seed: millrace_time::SystemRandom::shared().next_u64(),
            bytes_per_s: 24 << 20,
            producers: 4,
            partitions: 6,
            audit_every: 50,
        };
        let (mut backlog, mut cache_bytes, mut s3_server) = (None, None, None);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(USAGE);
            match argument.as_str() {
                "--quick" => kills.kills = 10,
                "--kills" => kills.kills = positive(&value()?).ok_or(USAGE)?,
                "--seed" => kills.seed = value()?.parse().map_err(|_| USAGE)?,
                "--rate" => kills.bytes_per_s = mebibytes(&value()?).ok_or(USAGE)?,
                "--backlog" => backlog = Some(gibibytes(&value()?).ok_or(USAGE)?),
                "--cache" => cache_bytes = Some(mebibytes(&value()?).ok_or(USAGE)?),
                "--s3-server" => s3_server = Some(from_callers_folder(value()?)),
                "--work" => place.work = from_callers_folder(value()?),
                "--program" => place.program = from_callers_folder(value()?),
                "--any-disk" => place.any_disk = true,
                "--json" => place.json = Some(from_callers_folder(value()?)),
                "--help" => return Ok(Self::Help),
                other => return Err(format!("unknown argument {other}\n{USAGE}")),
            }
        }
        let seed = kills.seed;
        place.work.push(seed.to_string());
        Ok(match backlog {
            None => Self::Kill(place, kills),
            Some(bytes) => Self::Backlog(
                place,
                Backlog {
                    bytes,
                    seed,
                    cache_bytes,
                    s3_server,
                },
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line() {
        let parse = |text: &str| Command::parse(text.split_whitespace().map(str::to_owned));
        let Ok(Command::Kill(_, kills)) = parse("--quick --seed 9 --rate 2") else {
            panic!("kills");
        };
        assert_eq!(
            (kills.kills, kills.seed, kills.bytes_per_s),
            (10, 9, 2 << 20)
        );
        let Ok(Command::Backlog(_, backlog)) = parse("--backlog 4GiB --cache 512") else {
            panic!("a backlog");
        };
        assert_eq!(backlog.bytes, 4 << 30);
        assert_eq!(backlog.cache_bytes, Some(512 << 20));
        for wrong in ["--kills", "--kills 0", "--backlog much", "--fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
