//! The command line.

use std::{path::PathBuf, time::Duration};

use millrace_bench::command_line::{
    beside, broker_program, from_callers_folder, mebibytes, positive, time,
};

use crate::profiles::ProfileKey;

pub(crate) const USAGE: &str = "\
usage: npm run bench:catchup -- [--quick] [--rounds N] [--only PROFILE]… [--json FILE] …
  --quick                        less data and fewer rounds, about nine minutes
  --rounds N                     rounds of Kafka and of the profiles that compare producers (5;
                                 quick: 2)
  --only PROFILE                 main, no_prefetch, quarter_cache, quarter_cache_lru, side_by_side,
                                 side_by_side_lru, tenth, no_limiter, pinned, network_bound,
                                 network_bound_no_limiter or kafka_tiered_local_folder (needs a
                                 JDK 17 with Maven); may be repeated.
                                 tenth and network_bound* need --only main before them
  --json FILE                    also writes the results to this file; README.md lists the keys
  --profile DIR                  in which stage the broker spends its CPU time in the main profile; needs
                                 perf; stacks and flame graphs go to this folder
The load, with the names of automq-perf-test.sh where it has them:
  --topics N                     (50)
  --partitions-per-topic N       (20)
  --producers-per-topic N        (2)
  --groups-per-topic N           (1)
  --consumers-per-group N        (4)
  --record-size BYTES            (65536); each record is a batch and a request
  --send-rate N                  records per second in total, before and during the catch-up (320)
  --backlog-duration S           how long the backlog is written (300; quick: 20)
  --backlog-send-rate N          records per second of the backlog (the send rate; quick: 2560)
  --warmup-duration S            unmeasured time after each start of the broker (5; quick: 3)
  --before-duration S            how long producers are measured alone before each catch-up (20;
                                 quick: 5)
  --max-partition-fetch-bytes N  (1048576)
  --fetch-max-wait-ms N          (1000)
The broker and its peers:
  --block-cache MIB              s3.block.cache.size unless the profile sets it (2048)
  --link MIB                     the baselines, MiB per second, unless the profile sets them (the
                                 bare client's rate in its first round)
  --raw-parallel N               concurrent range GETs of the bare client (64)
  --raw-get-bytes N              bytes of each (1048576)
  --broker-config KEY=VALUE      an additional broker setting; may be repeated
  --s3-server FILE               a versitygw program; by default one is built with Go
  --program FILE                 the broker (MILLRACE_BROKER_BIN, or the one beside this program)
  --work DIR                     work folder (target/bench-catchup)
  --bucket DIR                   the S3 server's folder is a new one there, for example on another
                                 disk than the log (the work folder)";

/// How to measure.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) profiles: Vec<ProfileKey>,
    pub(crate) load: Load,
    pub(crate) block_cache_bytes: u64,
    /// Bytes per second.
    pub(crate) link: Option<u64>,
    pub(crate) raw_parallel: usize,
    pub(crate) raw_get_bytes: u64,
    /// Lines of the broker's configuration.
    pub(crate) broker_lines: String,
    pub(crate) s3_server: Option<PathBuf>,
    pub(crate) program: PathBuf,
    pub(crate) work: PathBuf,
    /// Where the S3 server's folder is, unless it is in the work folder.
    pub(crate) bucket: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    /// Where profiles of the CPU go, if any are asked for.
    pub(crate) cpu_profile: Option<PathBuf>,
}

/// What is written and read.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) topics: usize,
    pub(crate) partitions_per_topic: usize,
    pub(crate) producers_per_topic: usize,
    pub(crate) groups_per_topic: usize,
    pub(crate) consumers_per_group: usize,
    pub(crate) record_bytes: usize,
    /// Records per second in all.
    pub(crate) send_rate: usize,
    pub(crate) backlog_send_rate: usize,
    pub(crate) backlog_duration: Duration,
    pub(crate) warm_up: Duration,
    pub(crate) before: Duration,
    pub(crate) partition_fetch_bytes: i32,
    pub(crate) fetch_wait: Duration,
}

impl Load {
    pub(crate) fn partitions(&self) -> usize {
        self.topics * self.partitions_per_topic
    }

    /// A tenth of the article's rate, for a machine of an eighth of its processors that carries the
    /// S3 server and the clients as well.
    fn full() -> Self {
        Self {
            topics: 50,
            partitions_per_topic: 20,
            producers_per_topic: 2,
            groups_per_topic: 1,
            consumers_per_group: 4,
            record_bytes: 64 << 10,
            send_rate: 320,
            backlog_send_rate: 320,
            backlog_duration: Duration::from_secs(300),
            warm_up: Duration::from_secs(5),
            before: Duration::from_secs(20),
            partition_fetch_bytes: 1 << 20,
            fetch_wait: Duration::from_secs(1),
        }
    }

    fn quick() -> Self {
        Self {
            backlog_send_rate: 2_560,
            backlog_duration: Duration::from_secs(20),
            warm_up: Duration::from_secs(3),
            before: Duration::from_secs(5),
            ..Self::full()
        }
    }
}

impl Options {
    /// What was asked for; nothing where only the usage was.
    pub(crate) fn from_env() -> Result<Option<Self>, String> {
        Self::parse(std::env::args().skip(1).collect())
    }

    fn of(quick: bool) -> Result<Self, String> {
        Ok(Self {
            quick,
            rounds: if quick { 2 } else { 5 },
            profiles: Vec::new(),
            load: if quick { Load::quick() } else { Load::full() },
            block_cache_bytes: 2 << 30,
            link: None,
            raw_parallel: 64,
            raw_get_bytes: 1 << 20,
            broker_lines: String::new(),
            s3_server: None,
            program: broker_program()?,
            work: beside("../bench-catchup")?,
            bucket: None,
            json: None,
            cpu_profile: None,
        })
    }

    fn parse(arguments: Vec<String>) -> Result<Option<Self>, String> {
        let quick = arguments.iter().any(|argument| argument == "--quick");
        let mut options = Self::of(quick)?;
        let mut send_rate = None;
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => continue,
                "--help" => return Ok(None),
                _ => {}
            }
            let value = arguments.next();
            let value = value.ok_or_else(|| format!("{argument} needs a value\n{USAGE}"))?;
            if argument == "--send-rate" {
                send_rate = positive(&value);
            }
            let known = options.load.set(&argument, &value) || options.set(&argument, &value)?;
            if !known {
                return Err(format!("{argument} cannot be {value:?}\n{USAGE}"));
            }
        }
        if let (Some(rate), false) = (send_rate, quick) {
            options.load.backlog_send_rate = rate;
        }
        if options.profiles.is_empty() {
            options.profiles = ProfileKey::ALL.into();
        }
        let mut before_main = options
            .profiles
            .iter()
            .take_while(|&&profile| profile != ProfileKey::Main);
        if let Some(profile) = before_main.find(|profile| profile.needs_main()) {
            return Err(format!("{} needs --only main before it", profile.name()));
        }
        Ok(Some(options))
    }

    /// Whether there is such a flag with such a value.
    fn set(&mut self, flag: &str, value: &str) -> Result<bool, String> {
        let path = || from_callers_folder(value);
        match flag {
            "--rounds" => return Ok(set(&mut self.rounds, positive(value))),
            "--block-cache" => return Ok(set(&mut self.block_cache_bytes, mebibytes(value))),
            "--link" => return Ok(set(&mut self.link, mebibytes(value).map(Some))),
            "--raw-parallel" => return Ok(set(&mut self.raw_parallel, positive(value))),
            "--raw-get-bytes" => {
                let bytes = positive(value).map(|bytes| bytes as u64);
                return Ok(set(&mut self.raw_get_bytes, bytes));
            }
            "--only" => self.profiles.push(ProfileKey::named(value)?),
            "--broker-config" => self.broker_lines.push_str(&format!("{value}\n")),
            "--s3-server" => self.s3_server = Some(path()),
            "--program" => self.program = path(),
            "--work" => self.work = path(),
            "--bucket" => self.bucket = Some(path()),
            "--json" => self.json = Some(path()),
            "--profile" => self.cpu_profile = Some(path()),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Load {
    /// Whether there is such a flag with such a value.
    fn set(&mut self, flag: &str, value: &str) -> bool {
        let count = positive(value);
        let seconds = time(value, 1.0);
        match flag {
            "--topics" => set(&mut self.topics, count),
            "--partitions-per-topic" => set(&mut self.partitions_per_topic, count),
            "--producers-per-topic" => set(&mut self.producers_per_topic, count),
            "--groups-per-topic" => set(&mut self.groups_per_topic, count),
            "--consumers-per-group" => set(&mut self.consumers_per_group, count),
            "--record-size" => set(&mut self.record_bytes, count),
            "--send-rate" => set(&mut self.send_rate, count),
            "--backlog-send-rate" => set(&mut self.backlog_send_rate, count),
            "--backlog-duration" => set(&mut self.backlog_duration, seconds),
            "--warmup-duration" => set(&mut self.warm_up, seconds),
            "--before-duration" => set(&mut self.before, seconds),
            "--fetch-max-wait-ms" => set(&mut self.fetch_wait, time(value, 1e-3)),
            "--max-partition-fetch-bytes" => {
                let bytes = count.and_then(|bytes| i32::try_from(bytes).ok());
                set(&mut self.partition_fetch_bytes, bytes)
            }
            _ => false,
        }
    }
}

fn set<T>(place: &mut T, value: Option<T>) -> bool {
    value.map(|value| *place = value).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<Options, String> {
        let words = line.split_whitespace().map(str::to_owned).collect();
        Ok(Options::parse(words)?.expect("not only the usage"))
    }

    #[test]
    fn a_quick_run_is_the_same_load_on_less_data_wherever_it_is_said() {
        let (full, quick) = (options("").expect("legal"), options("--rounds 3 --quick"));
        let quick = quick.expect("legal");
        assert_eq!((full.rounds, quick.rounds), (5, 3));
        assert_eq!(full.load.partitions(), 1_000);
        assert_eq!(quick.load.send_rate, full.load.send_rate);
        let bytes = |load: &Load| load.backlog_send_rate as u64 * load.backlog_duration.as_secs();
        assert!(bytes(&quick.load) < bytes(&full.load));
        assert_eq!(quick.profiles, ProfileKey::ALL);
    }

    #[test]
    fn the_backlog_is_written_at_the_send_rate_unless_told_otherwise() {
        let rates = |line| {
            let load = options(line).expect("legal").load;
            (load.send_rate, load.backlog_send_rate)
        };
        assert_eq!(rates("--send-rate 100"), (100, 100));
        assert_eq!(rates("--send-rate 100 --quick"), (100, 2_560));
    }

    #[test]
    fn values_are_read_and_what_is_wrong_is_refused() {
        let line = "--topics 2 --fetch-max-wait-ms 250 --block-cache 16 --link 100 --only main --only tenth \
                    --broker-config a=b --broker-config c=d";
        let options_read = options(line).expect("legal");
        assert_eq!(options_read.load.topics, 2);
        assert_eq!(options_read.load.fetch_wait, Duration::from_millis(250));
        assert_eq!(options_read.block_cache_bytes, 16 << 20);
        assert_eq!(options_read.link, Some(100 << 20));
        assert_eq!(options_read.broker_lines, "a=b\nc=d\n");
        for wrong in [
            "--topics 0",
            "--rounds",
            "--only nothing",
            "--fast 1",
            "--link x",
            "--only network_bound",
            "--only tenth --only main",
        ] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
    }
}
