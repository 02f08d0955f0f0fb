//! The bucket fails, then is silent, then is back.

use std::time::Duration;

use millrace_bench::{
    broker::{Home, Running, Settings},
    drill::{Faults, Promises, Proxy, Readback, Work, Workers},
    machine::pause,
    producer::error_code::ErrorCode,
    s3_server::{S3Server, bucket_uri},
    usage::peak_memory_kib,
};
use millrace_time::SharedClock;
use serde_json::{Value, json};

use crate::{
    arguments::Arguments,
    objects::{self, CLUSTER},
};

/// Blocks are so large that some objects are written in parts, and some are not, and so small that
/// there are many. What compaction replaces stays for a while, and would be there twice when the
/// objects are verified: it is off, for objects and for topics.
const LINES: &str = "s3.wal.cache.size=192MiB\ns3.wal.upload.threshold=36MiB\n\
                     s3.wal.upload.interval.ms=3000\ns3.compaction.interval.ms=0\n\
                     log.cleaner.enable=false\noffsets.topic.num.partitions=2\n";
/// One, so that a stream has all of a block.
const PARTITIONS: i32 = 1;
const PRODUCERS: u32 = 4;

/// Before the faults and after them nothing fails.
const CALM: Duration = Duration::from_secs(6);

const POLL: Duration = Duration::from_millis(20);
/// Between two looks at the broker's metrics.
const SAMPLE: Duration = Duration::from_millis(500);

/// Bounds how long what is left may take to be uploaded once the bucket is back: 4 MiB/s, and the
/// longest pause between two attempts.
const UPLOAD_BYTES_PER_S_MIN: u64 = 4 << 20;
const UPLOAD_WAIT: Duration = Duration::from_secs(90);

/// A log that pushes back must be this full first, percent.
const FULL_PERCENT_MIN: f64 = 75.0;

/// No acknowledgement may take longer than this while the log has room: uploads are not in its way.
const ACK_PAUSE_MAX: Duration = Duration::from_secs(2);

/// What one phase showed.
#[derive(Debug)]
struct Seen {
    name: &'static str,
    acked_bytes: u64,
    /// The longest time in which nothing was acknowledged.
    ack_pause: Duration,
    wal_percent_max: f64,
    pending_bytes_max: f64,
}

/// The broker's settings for this drill.
pub(crate) fn settings(arguments: &Arguments, bucket: String) -> Settings {
    Settings {
        wal_bytes: arguments.wal_bytes,
        io_depth: 16,
        bucket: Some(bucket),
        lines: format!("cluster.id={CLUSTER}\n{LINES}"),
    }
}

struct Drill<'a> {
    arguments: &'a Arguments,
    home: &'a Home,
    proxy: &'a Proxy,
    workers: Workers,
    running: Running,
    clock: SharedClock,
}

/// Runs the drill in `home`; what it saw, or the reason why it failed.
pub(crate) fn run(
    arguments: &Arguments,
    home: &Home,
    proxy: &Proxy,
    server: &S3Server,
) -> Result<Value, String> {
    let running = home.start()?;
    let work = Work {
        seed: arguments.load.seed,
        producers: PRODUCERS,
        partitions: PARTITIONS,
        bytes_per_s: arguments.load.bytes_per_s,
    };
    let workers = Workers::begin(&work, home)?;
    let mut drill = Drill {
        arguments,
        home,
        proxy,
        clock: workers.stage.clock.clone(),
        workers,
        running,
    };
    let phases = [
        drill.phase("calm", CALM, Faults::NONE)?,
        drill.phase("faulty", arguments.faulty, Faults::FREQUENT)?,
        drill.phase("silent", arguments.silent, Faults::SILENCE)?,
        drill.phase("back", CALM, Faults::NONE)?,
    ];
    drill.check_phases(&phases)?;
    drill.check_faults()?;
    let promises = drill.workers.finish(&mut drill.running)?;
    drill.check_refusals(&promises)?;
    let uploaded_in = drill.until_uploaded(&promises)?;
    let counters = drill.counters()?;
    let memory = peak_memory_kib(&drill.running.pid().to_string());
    let direct = bucket_uri(server.address());
    let found = objects::verify(&arguments.files.program, &direct)?;
    drill.read_back(&promises)?;
    let abandoned = objects::abandoned_parts(&home.folder().join("bucket"));
    Ok(json!({
        "seed": arguments.load.seed,
        "wal_bytes": arguments.wal_bytes,
        "phases": phases.iter().map(Seen::to_json).collect::<Vec<_>>(),
        "acked_records": promises.records,
        "acked_bytes": promises.bytes,
        "refusals_by_code": refusals(&promises),
        "uploaded_seconds_after_the_last_ack": uploaded_in.as_secs_f64(),
        "broker": counters,
        "peak_memory_mib": memory.map(|kib| kib >> 10),
        "requests": proxy.counts().to_json(),
        "objects": found["objects"],
        "object_bytes": found["size_bytes"],
        "verified_payload_bytes": found["payload_bytes"],
        "unsound": found["unsound"],
        "gaps": found["gaps"],
        "overlaps": found["overlaps"],
        "abandoned_part_files": abandoned.0,
        "abandoned_part_bytes": abandoned.1,
        // The drill ends with the first of any of these.
        "lost": 0,
        "reordered": 0,
        "duplicated": 0,
    }))
}

impl Drill<'_> {
    /// Lets the clients work for a while with these faults.
    fn phase(
        &mut self,
        name: &'static str,
        length: Duration,
        faults: Faults,
    ) -> Result<Seen, String> {
        println!("{name}: {} s", length.as_secs());
        self.proxy.set(faults);
        let began = self.clock.now();
        let acked = |drill: &Self| drill.workers.stage.ledger.change(|promises| promises.bytes);
        let before = acked(self);
        let mut seen = Seen {
            name,
            acked_bytes: 0,
            ack_pause: Duration::ZERO,
            wal_percent_max: 0.0,
            pending_bytes_max: 0.0,
        };
        let (mut last, mut moved, mut sampled) = (before, began, began);
        loop {
            let now = self.clock.now();
            let bytes = acked(self);
            if bytes > last {
                (last, moved) = (bytes, now);
            }
            seen.ack_pause = seen.ack_pause.max(now.saturating_sub(moved));
            if now.saturating_sub(sampled) >= SAMPLE {
                sampled = now;
                self.sample(&mut seen)?;
            }
            if now.saturating_sub(began) >= length {
                break;
            }
            self.workers.check(&mut self.running)?;
            pause(POLL);
        }
        seen.acked_bytes = last - before;
        println!("  {}", seen.to_json());
        Ok(seen)
    }

    fn sample(&self, seen: &mut Seen) -> Result<(), String> {
        let used = self.home.metric("millrace_wal_used_bytes")?;
        let percent = used * 100.0 / self.arguments.wal_bytes as f64;
        seen.wal_percent_max = seen.wal_percent_max.max(percent);
        let pending = self.home.metric("millrace_upload_pending_bytes")?;
        seen.pending_bytes_max = seen.pending_bytes_max.max(pending);
        Ok(())
    }

    /// Acknowledgements went on while the log had room, and stopped for no other reason.
    fn check_phases(&self, phases: &[Seen]) -> Result<(), String> {
        for seen in phases {
            let Seen {
                name,
                ack_pause,
                wal_percent_max,
                ..
            } = seen;
            let full = *wal_percent_max >= FULL_PERCENT_MIN;
            if *ack_pause > ACK_PAUSE_MAX && !full {
                return Err(format!(
                    "{name}: nothing was acknowledged for {ack_pause:?}, and the log was \
                     {wal_percent_max:.0} % full at most"
                ));
            }
        }
        let filled = phases
            .iter()
            .any(|seen| seen.wal_percent_max >= FULL_PERCENT_MIN);
        match (filled, self.arguments.log_suffices()) {
            (true, true) => Err("the log filled up although it is large enough".to_owned()),
            (false, false) => Err("the log did not fill, so the drill proved nothing".to_owned()),
            _ => Ok(()),
        }
    }

    /// Every fault was shown, to objects that are written whole and to those in parts.
    fn check_faults(&self) -> Result<(), String> {
        let counts = self.proxy.counts();
        let outcomes = ["passed", "slow_down", "lost_reply", "slow_body"];
        let silent = (self.arguments.silent > Duration::ZERO).then_some("unanswered");
        let shown = outcomes
            .into_iter()
            .chain(silent)
            .map(|outcome| (outcome, counts.of(outcome)));
        let kinds = ["put", "put_part", "complete"].map(|kind| (kind, counts.requests(kind)));
        match shown.chain(kinds).find(|(_, count)| *count == 0) {
            None => Ok(()),
            Some((what, _)) => Err(format!("no request was {what}: run the drill for longer")),
        }
    }

    /// Nobody was refused, or, where the log was full, only told to try again.
    fn check_refusals(&self, promises: &Promises) -> Result<(), String> {
        let try_again = ErrorCode::RequestTimedOut.code();
        let follows = ErrorCode::OutOfOrderSequenceNumber.code();
        let allowed =
            |code: i16| !self.arguments.log_suffices() && (code == try_again || code == follows);
        let wrong = promises.refusals.iter().find(|(code, _)| !allowed(**code));
        match wrong {
            None => Ok(()),
            Some((code, count)) => Err(format!(
                "{count} batches were answered with error code {code}"
            )),
        }
    }

    /// Waits until nothing is in the log alone; how long that took.
    fn until_uploaded(&mut self, promises: &Promises) -> Result<Duration, String> {
        let began = self.clock.now();
        let bound = UPLOAD_WAIT + Duration::from_secs(promises.bytes / UPLOAD_BYTES_PER_S_MIN);
        loop {
            let waited = self.clock.now().saturating_sub(began);
            let pending = self.home.metric("millrace_upload_pending_bytes")?;
            let uploaded = self.home.metric("millrace_upload_bytes_total")?;
            if pending == 0.0 && uploaded >= promises.bytes as f64 {
                return Ok(waited);
            }
            if waited > bound {
                return Err(format!(
                    "{pending} bytes are not uploaded {waited:?} after the bucket was back"
                ));
            }
            if let Some(ended) = self.running.ended() {
                return Err(ended);
            }
            pause(SAMPLE);
        }
    }

    fn counters(&self) -> Result<Value, String> {
        let names = [
            "millrace_upload_objects_total",
            "millrace_upload_bytes_total",
            "millrace_upload_retries_total",
            "millrace_upload_forced_total",
            "millrace_object_hedges_total",
            "millrace_stream_wal_waits_total",
        ];
        let mut counters = serde_json::Map::new();
        for name in names {
            counters.insert(name.to_owned(), json!(self.home.metric(name)?));
        }
        Ok(Value::Object(counters))
    }

    /// Starts the broker again with an empty log, and reads everything as a consumer does: it can
    /// only come from objects.
    fn read_back(self, promises: &Promises) -> Result<(), String> {
        println!("reading {} MiB back from objects", promises.bytes >> 20);
        self.running.kill_9()?;
        self.home.remove_log()?;
        let (running, _) = self.workers.restart(self.home)?;
        Readback::new(&self.workers.stage).check_complete(promises)?;
        running.kill_9()
    }
}

impl Seen {
    fn to_json(&self) -> Value {
        json!({
            "phase": self.name,
            "acked_bytes": self.acked_bytes,
            "longest_ack_pause_ms": self.ack_pause.as_millis(),
            "wal_percent_max": self.wal_percent_max.round(),
            "pending_bytes_max": self.pending_bytes_max,
        })
    }
}

fn refusals(promises: &Promises) -> Value {
    let refusals = promises.refusals.iter();
    let refusals = refusals.map(|(code, count)| (code.to_string(), json!(count)));
    Value::Object(refusals.collect())
}
