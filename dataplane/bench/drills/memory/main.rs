//! `npm run drill:memory`: whether the broker's one bound on memory holds against clients that try.
//!
//! In this order, on one broker with a small bound: requests of 100 MiB that carry one small batch;
//! members of a hundred thousand groups with large subscriptions; more partitions than there may be.
//! An ordinary client produces, fetches and commits all the while.
//!
//! - `wire`: requests as bytes
//! - `frames`, `groups`: those who ask for too much
//! - `probe`: the ordinary client

mod arguments;
mod frames;
mod groups;
mod probe;
mod wire;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use millrace_bench::{
    broker::{Home, Running, Settings},
    drill::print_report,
    producer::Connection,
    usage::peak_memory_kib,
};
use millrace_time::{SharedClock, SystemClock};
use millrace_wire::{
    StrBytes,
    error_code::ErrorCode,
    messages::{
        CreateTopicsRequest, FindCoordinatorRequest, TopicName,
        create_topics_request::CreatableTopic,
    },
};
use serde_json::{Value, json};

use crate::{
    arguments::{Arguments, USAGE},
    probe::Seen,
    wire::Wire,
};

/// What the broker may have. The greedy clients ask for a hundred times as much.
const MEMORY_BYTES: u64 = 1_536 << 20;
/// What groups may have of it: a thousandth of what they ask for.
const GROUP_BYTES: u64 = 96 << 20;
/// The ordinary client's requests take no longer.
const ROUND_MAX: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);
/// The last version that is not flexible.
const CREATE_VERSION: i16 = 4;
/// Partitions of each topic that is asked for.
const TOPIC_PARTITIONS: i32 = 100;
const ORDINARY: &str = "ordinary";
const GREEDY: &str = "greedy";

fn main() -> ExitCode {
    millrace_bench::drill::main("memory", USAGE, Arguments::parse, drill)
}

fn drill(arguments: &Arguments) -> Result<(), String> {
    let partitions_max = arguments.partitions / 2;
    let settings = Settings {
        wal_bytes: 1 << 30,
        io_depth: 8,
        bucket: None,
        lines: format!(
            "memory.max.bytes={MEMORY_BYTES}\ngroup.memory.max.bytes={GROUP_BYTES}\n\
             partitions.max={partitions_max}\ns3.wal.cache.size=128MiB\n\
             s3.block.cache.size=64MiB\nqueued.max.request.bytes=268435456\n\
             log.retention.ms=-1\n"
        ),
    };
    let home = Home::create(&arguments.files.program, &arguments.files.work, &settings)?;
    let running = home.start_and_wait()?;
    let clock = SystemClock::shared();
    let mut setup = Connection::connect(home.address(), "memory", PATIENCE)
        .map_err(|error| error.to_string())?;
    for topic in [ORDINARY, GREEDY] {
        let created = setup.create_topic(topic, 1, PATIENCE);
        created.map_err(|error| format!("{topic}: {error}"))?;
    }
    // Groups are served from the first request for their coordinator on.
    let find = FindCoordinatorRequest::default()
        .with_coordinator_keys(vec![StrBytes::from_static_str(ORDINARY)]);
    let found = setup.call(&find).map_err(|error| error.to_string())?;
    if found.coordinators.iter().any(|found| found.error_code != 0) {
        return Err(format!("no coordinator: {found:?}"));
    }
    let stop = AtomicBool::new(false);
    let (phases, seen) = thread::scope(|scope| {
        let probe = scope.spawn(|| probe::run(home.address(), ORDINARY, &clock, &stop));
        let phases = measure(arguments, &home, &running, &clock);
        stop.store(true, Ordering::Relaxed);
        let seen = probe
            .join()
            .map_err(|_| "the ordinary client panicked".to_owned());
        (phases, seen)
    });
    let seen = seen?.map_err(|error| format!("the ordinary client: {error}"))?;
    let status = home.get("/v1/status")?;
    let status: Value = serde_json::from_str(&status).map_err(|error| error.to_string())?;
    let (report, failures) = report(&phases?, &seen, &status);
    print_report(&report, arguments.files.json.as_deref())?;
    if !failures.is_empty() {
        return Err(failures.join("; "));
    }
    drop(running);
    home.remove();
    Ok(())
}

/// What one phase showed.
struct Phase {
    name: &'static str,
    seconds: f64,
    /// The largest resident set so far, bytes.
    peak: u64,
    /// How many requests were answered with which error code.
    answers: BTreeMap<i16, usize>,
}

fn measure(
    arguments: &Arguments,
    home: &Home,
    running: &Running,
    clock: &SharedClock,
) -> Result<Vec<Phase>, String> {
    let address = home.address();
    let phase = |name, answers: Result<BTreeMap<i16, usize>, String>, began: Duration| {
        let answers = answers.map_err(|error| format!("{name}: {error}"))?;
        let peak = peak_memory_kib(&running.pid().to_string());
        let peak = peak.ok_or_else(|| format!("{name}: the broker has ended"))?;
        let seconds = (clock.now() - began).as_secs_f64();
        println!(
            "{name}: {seconds:.0} s, peak {} MiB, {answers:?}",
            peak >> 10
        );
        Ok::<_, String>(Phase {
            name,
            seconds,
            peak: peak << 10,
            answers,
        })
    };
    let told = |error: std::io::Error| error.to_string();
    let mut phases = Vec::new();
    let began = clock.now();
    let sent = frames::send(address, GREEDY, arguments.frames).map_err(told);
    phases.push(phase(
        "frames",
        sent.map(|sent| BTreeMap::from([(0, sent)])),
        began,
    )?);
    let began = clock.now();
    let joined = groups::join(address, arguments.groups).map_err(told);
    phases.push(phase("groups", joined, began)?);
    let began = clock.now();
    let created = partitions(address, arguments.partitions).map_err(told);
    phases.push(phase("partitions", created, began)?);
    Ok(phases)
}

/// Asks for topics with so many partitions together.
fn partitions(address: SocketAddr, count: usize) -> std::io::Result<BTreeMap<i16, usize>> {
    let mut wire = Wire::connect(address)?;
    let mut answers = BTreeMap::new();
    for number in 0..count.div_ceil(TOPIC_PARTITIONS as usize) {
        let topic = CreatableTopic::default()
            .with_name(TopicName(StrBytes::from_string(format!("many-{number}"))))
            .with_num_partitions(TOPIC_PARTITIONS)
            .with_replication_factor(1);
        let request = CreateTopicsRequest::default()
            .with_topics(vec![topic])
            .with_timeout_ms(30_000);
        let answer = wire.call(CREATE_VERSION, request)?;
        for topic in answer.topics {
            *answers.entry(topic.error_code).or_default() += 1;
        }
    }
    Ok(answers)
}

/// The results, and what is not good enough.
fn report(phases: &[Phase], seen: &Seen, status: &Value) -> (Value, Vec<String>) {
    let parts = status["memory"]["parts"].as_array().cloned();
    let parts = parts.unwrap_or_default();
    let mut failures: Vec<String> = phases.iter().flat_map(Phase::failures).collect();
    if parts.is_empty() {
        failures.push("the status names no parts".to_owned());
    }
    for part in &parts {
        let (used, bound) = (part["used_bytes"].as_u64(), part["bound_bytes"].as_u64());
        if used.unwrap_or(0) > bound.unwrap_or(0) {
            failures.push(format!("a part is above its bound: {part}"));
        }
    }
    if seen.rounds == 0 || seen.longest >= ROUND_MAX {
        failures.push(format!("the ordinary client: {seen:?}"));
    }
    let report = json!({
        "memory_bound_mib": MEMORY_BYTES >> 20,
        "phases": phases.iter().map(Phase::json).collect::<Vec<_>>(),
        "ordinary_rounds": seen.rounds,
        "ordinary_longest_ms": seen.longest.as_millis() as u64,
        "memory": status["memory"],
        "groups": status["groups"],
    });
    (report, failures)
}

impl Phase {
    fn failures(&self) -> Vec<String> {
        let Self {
            name,
            peak,
            answers,
            ..
        } = self;
        let is_legal = |code: i16| match *name {
            "groups" => code == 0 || groups::says_no_room(code),
            "partitions" => code == 0 || code == ErrorCode::PolicyViolation.code(),
            _ => code == 0,
        };
        // Those who ask for too much are refused, and not all of them.
        let has_both = answers.contains_key(&0) && (answers.len() > 1) == (*name != "frames");
        let mut failures = Vec::new();
        if *peak > MEMORY_BYTES {
            failures.push(format!(
                "{name}: {peak} bytes are resident, {MEMORY_BYTES} may be"
            ));
        }
        if !has_both || !answers.keys().all(|code| is_legal(*code)) {
            failures.push(format!("{name}: answered with {answers:?}"));
        }
        failures
    }

    fn json(&self) -> Value {
        json!({
            "phase": self.name,
            "seconds": self.seconds,
            "peak_mib": self.peak >> 20,
            "answers_by_code": self.answers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &'static str, peak: u64, codes: &[i16]) -> Phase {
        Phase {
            name,
            seconds: 1.0,
            peak,
            answers: codes.iter().map(|code| (*code, 1)).collect(),
        }
    }

    #[test]
    fn what_fails_the_drill() {
        let status =
            |used: u64| json!({"memory": {"parts": [{"used_bytes": used, "bound_bytes": 5}]}});
        let seen = Seen {
            rounds: 1,
            longest: Duration::from_secs(1),
        };
        let good = [
            phase("frames", 1, &[0]),
            phase("groups", 1, &[0, 81]),
            phase("partitions", 1, &[0, 44]),
        ];
        assert_eq!(report(&good, &seen, &status(5)).1, Vec::<String>::new());
        assert_eq!(report(&good, &seen, &status(6)).1.len(), 1);
        assert_eq!(report(&good, &Seen::default(), &status(5)).1.len(), 1);
        let bad = [
            phase("frames", MEMORY_BYTES + 1, &[0]),
            phase("groups", 1, &[0]),
            phase("partitions", 1, &[0, 44, -1]),
        ];
        assert_eq!(report(&bad, &seen, &status(5)).1.len(), 3);
    }
}
