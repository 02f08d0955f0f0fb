//! The drill, phase by phase.

use std::{sync::Arc, time::Duration};

use millrace_bench::{
    broker::{Home, Running, Settings},
    drill::{Faults, Promises, Proxy, Stage, Work, Workers},
    producer::{ClientError, Connection},
    usage::peak_memory_kib,
};
use serde_json::{Value, json};

use crate::{
    arguments::Arguments,
    chaos::{Chaos, World},
    followers::Followers,
    memory::Trend,
    settled,
};

pub(crate) const CLUSTER: &str = "soak";
/// What is kept of each partition.
pub(crate) const RETENTION_BYTES: i64 = 32 << 20;
const PARTITIONS: i32 = 6;
const PRODUCERS: u32 = 4;
const WAL_BYTES: u64 = 512 << 20;

/// The intervals are a 72nd of the defaults, as twenty minutes are of a day: uploads every minute,
/// compaction and retention every five, deletion after ten. Sizes are small in the same way, so that
/// each does in a second what it would do in a minute.
const LINES: &str = "s3.wal.cache.size=48MiB\ns3.wal.upload.threshold=4MiB\n\
                     s3.wal.upload.interval.ms=833\ns3.stream.object.split.size=256KiB\n\
                     s3.block.cache.size=16MiB\ns3.prefetch.max.bytes=4194304\n\
                     s3.compaction.interval.ms=4167\n\
                     s3.stream.object.compaction.max.size.bytes=16777216\n\
                     s3.object.delete.retention.ms=8333\n\
                     log.retention.check.interval.ms=4167\noffsets.topic.num.partitions=2\n";

/// Of the time in which clients work, this share is chaos.
const CHAOS_SHARE: f64 = 0.65;
/// Between two looks at memory.
const SAMPLE: Duration = Duration::from_secs(1);
/// In peace, one call in twenty is refused all the same: S3 is never without.
const PEACE: Faults = Faults {
    slow_down_permille: 50,
    ..Faults::NONE
};
const PATIENCE: Duration = Duration::from_secs(30);

/// The broker's settings for this drill.
pub(crate) fn settings(bucket: String) -> Settings {
    Settings {
        wal_bytes: WAL_BYTES,
        io_depth: 16,
        bucket: Some(bucket),
        lines: format!("cluster.id={CLUSTER}\nlog.retention.bytes={RETENTION_BYTES}\n{LINES}"),
    }
}

/// Runs the drill in `home`; what it saw, and what was not good enough. `Err` where somebody broke
/// their word, which ends it. `direct` is the bucket's address past the proxy.
pub(crate) fn run(
    arguments: &Arguments,
    home: &Home,
    proxy: &Proxy,
    direct: &str,
) -> Result<(Value, Vec<String>), String> {
    let running = home.start_and_wait()?;
    let work = Work {
        seed: arguments.load.seed,
        producers: PRODUCERS,
        partitions: PARTITIONS,
        bytes_per_s: arguments.load.bytes_per_s,
    };
    let workers = Workers::begin(&work, home)?;
    let followers = Followers::begin(&workers.stage);
    let clock = workers.stage.clock.clone();
    let mut chaos = Chaos::new(home, proxy, clock, arguments.load.seed);
    let world = World {
        running,
        workers,
        followers,
    };
    let chaotic = arguments.length.mul_f64(CHAOS_SHARE);
    println!("chaos: {} s", chaotic.as_secs());
    let mut world = chaos.reign(world, chaotic)?;
    let peaceful = arguments.length - chaotic;
    println!("calm: {} s", peaceful.as_secs());
    proxy.set(PEACE);
    let trend = live_in_peace(&chaos, &mut world, peaceful)?;
    proxy.set(Faults::default());
    let peak = peak_memory_kib(&world.running.pid().to_string());
    let counters = counters(home)?;
    let (promises, seen, stage, running) = finish(world)?;

    println!("settling");
    settled::until_uploaded(home)?;
    let retained = settled::until_retained(home, &stage)?;
    let swept = settled::until_clean(&arguments.files.program, home, direct)?;
    running.stop_or_kill(PATIENCE)?;
    let audit = settled::audit(&arguments.files.program, home, direct)?;
    let (objects, object_bytes) = settled::stored(home);
    settled::check_files(&audit, objects)?;
    home.remove_log()?;
    let running = home.start_and_wait()?;
    println!("reading back");
    let start = starts(&stage)?;
    let records = settled::read_back(&stage, &promises)?;
    running.kill_9()?;

    let (chaos_report, mut failures) = chaos.report();
    let (memory, grown) = trend.report();
    failures.extend(grown);
    failures.extend(stuck(&start));
    let report = json!({
        "seed": arguments.load.seed,
        "minutes": arguments.length.as_secs_f64() / 60.0,
        "chaos": chaos_report,
        "memory": memory,
        "peak_memory_mib": peak.map(|kib| kib >> 10),
        "acked_records": promises.records,
        "acked_bytes": promises.bytes,
        "acked_when_sent_again": promises.resent,
        "consumers": seen,
        "retained_bytes": retained,
        "log_start_offsets": start,
        "audit_while_it_ran": swept,
        "audit": audit,
        "objects": objects,
        "object_bytes": object_bytes,
        "records_read_back": records,
        "broker": counters,
        "requests": proxy.counts().to_json(),
        // The drill ends with the first of any of these.
        "lost": 0,
        "reordered": 0,
        "duplicated": 0,
        "gaps_seen_by_consumers": 0,
    });
    Ok((report, failures))
}

/// Looks at the broker's memory while nothing is killed.
fn live_in_peace(chaos: &Chaos<'_>, world: &mut World, length: Duration) -> Result<Trend, String> {
    let began = chaos.clock.now();
    let mut trend = Trend::default();
    loop {
        let passed = chaos.clock.now() - began;
        if passed >= length {
            return Ok(trend);
        }
        trend.add(passed, world.running.resident_bytes()?);
        chaos.watch(world, SAMPLE)?;
    }
}

type Finished = (Promises, Value, Arc<Stage>, Running);

/// Lets the producers have everything acknowledged, and the consumers come to the end.
fn finish(world: World) -> Result<Finished, String> {
    let World {
        mut running,
        mut workers,
        followers,
    } = world;
    let promises = workers.finish(&mut running)?;
    let seen = followers.finish(&promises)?;
    Ok((promises, seen, workers.stage, running))
}

/// Where each partition begins.
fn starts(stage: &Stage) -> Result<Vec<i64>, String> {
    let failed = |error: ClientError| error.to_string();
    let mut connection = Connection::connect(stage.broker, "soak", PATIENCE).map_err(failed)?;
    let partitions = 0..stage.partitions;
    let starts = partitions.map(|partition| connection.start_offset(&stage.topic, partition));
    starts.collect::<Result<_, _>>().map_err(failed)
}

/// Retention must have deleted something everywhere, or nothing was shown about it.
fn stuck(starts: &[i64]) -> Option<String> {
    let stuck = starts.contains(&0);
    stuck.then(|| format!("retention deleted nothing of some partition: {starts:?}"))
}

/// What the last broker did in the calm phase.
fn counters(home: &Home) -> Result<Value, String> {
    let names = [
        "millrace_upload_objects_total",
        "millrace_compaction_groups_total",
        "millrace_compaction_input_objects_total",
        "millrace_compaction_output_objects_total",
        "millrace_object_deletions_total",
        "millrace_object_deletion_failures_total",
        "millrace_log_start_moves_total",
        "millrace_log_deleted_bytes_total",
        "millrace_upload_retries_total",
    ];
    let metrics = home.metrics()?;
    let counters = names.map(|name| (name.to_owned(), json!(metrics.sum(name, ""))));
    Ok(Value::Object(counters.into_iter().collect()))
}
