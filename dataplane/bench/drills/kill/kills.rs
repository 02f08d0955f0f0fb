//! The broker is killed under load, again and again, at any moment of its life.

use std::time::Duration;

use millrace_bench::{
    broker::{Home, Running, Settings, Stopped, files_below},
    drill::{Promises, Readback, Work, Workers, check_group, check_with_library},
    machine::pause,
};
use serde_json::{Value, json};

use crate::{arguments::Kills, timings::Timings};

/// Small, so that it goes round many times.
const WAL_BYTES: u64 = 64 << 20;
/// Uploads, commits and trims of the log are under way at most kills: little is uploaded at once
/// and soon, some streams get objects of their own, and the cache pushes back.
const LINES: &str = "s3.wal.cache.size=24MiB\ns3.wal.upload.threshold=2MiB\n\
                     s3.wal.upload.interval.ms=150\ns3.stream.object.split.size=256KiB\n\
                     s3.block.cache.size=16MiB\noffsets.topic.num.partitions=4\n";
/// How long the broker serves between its first acknowledgement and the kill.
const SERVE_MS: std::ops::RangeInclusive<u64> = 50..=800;
/// Of a hundred starts, how many are killed before they are through,
const KILLED_STARTING_PERCENT: u64 = 20;
/// which is within twice the median start, or within this where none is known yet.
const STARTING: Duration = Duration::from_millis(200);

/// Of a hundred kills of a broker that serves, how many come while it stops because it was asked to,
const KILLED_STOPPING_PERCENT: u64 = 15;
/// and how long after that, unless it was through before.
const STOPPING_MS: std::ops::RangeInclusive<u64> = 0..=400;

/// The drill while it runs.
struct Drill<'a> {
    home: &'a Home,
    arguments: &'a Kills,
    workers: Workers,
    random: fastrand::Rng,
    starts: Timings,
    kills: usize,
    kills_starting: usize,
    kills_stopping: usize,
    /// Brokers that were through with stopping before they were killed.
    stops: usize,
    /// Kills up to the last reading.
    kills_audited: usize,
    readback: Readback,
}

/// The broker's settings for this drill.
pub(crate) fn settings() -> Settings {
    Settings {
        wal_bytes: WAL_BYTES,
        io_depth: 16,
        bucket: None,
        lines: LINES.to_owned(),
    }
}

/// Runs the drill in `home`; what it saw, or the reason why it failed.
pub(crate) fn run(arguments: &Kills, home: &Home) -> Result<Value, String> {
    let running = home.start()?;
    let work = Work {
        seed: arguments.seed,
        producers: arguments.producers,
        partitions: arguments.partitions,
        bytes_per_s: arguments.bytes_per_s,
    };
    let workers = if arguments.with_library {
        Workers::begin_with_library(&work, home)?
    } else {
        Workers::begin(&work, home)?
    };
    let clock = workers.stage.clock.clone();
    let began = clock.now();
    let mut drill = Drill {
        home,
        arguments,
        readback: Readback::new(&workers.stage),
        workers,
        random: fastrand::Rng::with_seed(arguments.seed),
        starts: Timings::default(),
        kills: 0,
        kills_starting: 0,
        kills_stopping: 0,
        stops: 0,
        kills_audited: 0,
    };
    let running = drill.kill_often(running)?;
    let promises = drill.finish(running)?;
    drill.report(&promises, clock.now().saturating_sub(began))
}

impl Drill<'_> {
    fn kill_often(&mut self, mut running: Running) -> Result<Running, String> {
        let started = self.workers.stage.clock.now();
        self.workers.first_ack(&mut running, started)?;
        while self.kills < self.arguments.kills {
            pause(Duration::from_millis(self.random.u64(SERVE_MS)));
            let mut started;
            (running, started) = if self.random.u64(0..100) < KILLED_STOPPING_PERCENT {
                self.stop_or_kill(running)?
            } else {
                self.kill(running)?
            };
            while self.kills < self.arguments.kills
                && self.random.u64(0..100) < KILLED_STARTING_PERCENT
            {
                let median = self.starts.median().unwrap_or(STARTING);
                let within = u64::try_from(2 * median.as_micros()).unwrap_or(u64::MAX);
                pause(Duration::from_micros(self.random.u64(0..=within)));
                self.kills_starting += 1;
                (running, started) = self.kill(running)?;
            }
            let took = self.workers.first_ack(&mut running, started)?;
            self.starts.add(took);
            if self.kills - self.kills_audited >= self.arguments.audit_every {
                self.audit()?;
            }
        }
        Ok(running)
    }

    /// `kill -9`, and the next start.
    fn kill(&mut self, running: Running) -> Result<(Running, Duration), String> {
        running.kill_9()?;
        self.kills += 1;
        self.workers.restart(self.home)
    }

    /// SIGTERM, soon followed by `kill -9`, and the next start.
    fn stop_or_kill(&mut self, running: Running) -> Result<(Running, Duration), String> {
        let patience = Duration::from_millis(self.random.u64(STOPPING_MS));
        match running.stop_or_kill(patience)? {
            Stopped::InPeace => self.stops += 1,
            Stopped::Killed => {
                self.kills += 1;
                self.kills_stopping += 1;
            }
        }
        self.workers.restart(self.home)
    }

    /// Reads back what is new, while the clients go on.
    fn audit(&mut self) -> Result<(), String> {
        self.kills_audited = self.kills;
        let ledger = &self.workers.stage.ledger;
        let promises = ledger.snapshot();
        self.readback.check(&promises)?;
        self.readback.nothing_invented(&ledger.snapshot())?;
        println!(
            "{} kills: {} batches of {} records ({} MiB) were acknowledged and found",
            self.kills,
            promises.batches,
            promises.records,
            promises.bytes >> 20
        );
        Ok(())
    }

    /// Lets everything be acknowledged, kills once more, and reads everything from the beginning.
    fn finish(&mut self, mut running: Running) -> Result<Promises, String> {
        let promises = self.workers.finish(&mut running)?;
        self.readback.check(&promises)?;
        let (running, _) = self.kill(running)?;
        let mut all = Readback::new(&self.workers.stage);
        all.check_complete(&promises)?;
        check_group(&self.workers.stage)?;
        if self.arguments.with_library {
            check_with_library(&self.workers.stage, &promises)?;
        }
        running.kill_9()?;
        self.kills += 1;
        Ok(promises)
    }

    fn report(&self, promises: &Promises, elapsed: Duration) -> Result<Value, String> {
        let wal = self.home.inspect_wal()?;
        let next = wal["next"].as_u64().ok_or("the log has no position")?;
        let (objects, object_bytes) = files_below(&self.home.folder().join("objects"));
        let refusals: serde_json::Map<String, Value> = promises
            .refusals
            .iter()
            .map(|(code, count)| (code.to_string(), json!(count)))
            .collect();
        Ok(json!({
            "seed": self.arguments.seed,
            "client": if self.arguments.with_library { "millrace" } else { "raw" },
            "kills": self.kills,
            "kills_while_starting": self.kills_starting,
            "kills_while_stopping": self.kills_stopping,
            "stops_in_peace": self.stops,
            "seconds": elapsed.as_secs(),
            "acked_batches": promises.batches,
            "acked_records": promises.records,
            "acked_bytes": promises.bytes,
            "acked_when_sent_again": promises.resent,
            "acked_as_duplicate_without_offset": promises.duplicates,
            "acked_behind_a_refused_one": promises.overtaken,
            "refusals_by_code": refusals,
            "group_commits": promises.group_commits,
            "objects": objects,
            "object_bytes": object_bytes,
            "wal_laps": (next as f64 / WAL_BYTES as f64 * 10.0).round() / 10.0,
            "restart_to_first_ack_ms": self.starts.report(),
            // The drill ends with the first of any of these.
            "lost": 0,
            "reordered": 0,
            "duplicated": 0,
        }))
    }
}
