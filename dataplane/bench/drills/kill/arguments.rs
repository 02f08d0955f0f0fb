//! The command line.

use std::path::PathBuf;

use millrace_bench::{
    command_line::{from_callers_folder, gibibytes, mebibytes, positive},
    drill::DrillFiles,
};

pub(crate) const USAGE: &str = "\
usage: npm run drill:kill -- [--kills N] [--quick] [--client raw|millrace] [--seed N] [--rate MIB]
                             [--work DIR] [--program FILE] [--json FILE] [--any-disk]
       npm run drill:kill -- --backlog GIB [--s3-server FILE] [--cache MIB] …
  --kills N          number of kills under load (500)
  --quick            10 kills
  --client NAME      who produces: raw sends batches of its own (the default); millrace is the client
                     library, of which a member of a group also reads everything over all kills
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

/// What to do, and where.
#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    pub(crate) drill: Drill,
    /// Whether the disk may be one without `O_DIRECT`.
    pub(crate) any_disk: bool,
    pub(crate) files: DrillFiles,
}

/// What to do.
#[derive(Debug, Clone)]
pub(crate) enum Drill {
    Kill(Kills),
    Backlog(Backlog),
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
    /// Whether the client library produces and consumes.
    pub(crate) with_library: bool,
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

impl Arguments {
    /// `None` if only the usage was asked for.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut kills = Kills {
            kills: 500,
            seed: millrace_time::SystemRandom::shared().next_u64(),
            bytes_per_s: 24 << 20,
            producers: 4,
            partitions: 6,
            audit_every: 50,
            with_library: false,
        };
        let (mut backlog, mut cache_bytes, mut s3_server) = (None, None, None);
        let mut any_disk = false;
        let files = DrillFiles::parse("kill", USAGE, arguments, |option, values| {
            let mut value = || values.next();
            match option {
                "--quick" => kills.kills = 10,
                "--kills" => kills.kills = positive(&value()?)?,
                "--client" => kills.with_library = is_library(&value()?)?,
                "--seed" => kills.seed = value()?.parse().ok()?,
                "--rate" => kills.bytes_per_s = mebibytes(&value()?)?,
                "--backlog" => backlog = Some(gibibytes(&value()?)?),
                "--cache" => cache_bytes = Some(mebibytes(&value()?)?),
                "--s3-server" => s3_server = Some(from_callers_folder(value()?)),
                "--any-disk" => any_disk = true,
                _ => return None,
            }
            Some(())
        })?;
        let seed = kills.seed;
        let drill = match backlog {
            None => Drill::Kill(kills),
            Some(bytes) => Drill::Backlog(Backlog {
                bytes,
                seed,
                cache_bytes,
                s3_server,
            }),
        };
        Ok(files.map(|mut files| {
            files.work.push(seed.to_string());
            Self {
                drill,
                any_disk,
                files,
            }
        }))
    }
}

fn is_library(client: &str) -> Option<bool> {
    match client {
        "raw" => Some(false),
        "millrace" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line() {
        let parse = |text: &str| Arguments::parse(text.split_whitespace().map(str::to_owned));
        let drill = |text| parse(text).expect("legal").expect("a drill").drill;
        let Drill::Kill(kills) = drill("--quick --client millrace --seed 9 --rate 2") else {
            panic!("kills");
        };
        assert!(kills.with_library);
        assert_eq!(
            (kills.kills, kills.seed, kills.bytes_per_s),
            (10, 9, 2 << 20)
        );
        let Drill::Backlog(backlog) = drill("--backlog 4GiB --cache 512") else {
            panic!("a backlog");
        };
        assert_eq!(backlog.bytes, 4 << 30);
        assert_eq!(backlog.cache_bytes, Some(512 << 20));
        for wrong in [
            "--kills",
            "--kills 0",
            "--backlog much",
            "--client java",
            "--fast",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
