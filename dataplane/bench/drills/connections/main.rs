//! `npm run drill:connections`: what connections cost, and whether each gets its share.
//!
//! In this order, on one broker: ten thousand idle connections; clients that stop in the middle of
//! a frame or never read their answers, which together ask for more than the broker's memory for
//! requests and responses; a thousand modest producers beside a greedy one, while all of the former
//! are still connected.
//!
//! - `broker`: the process
//! - `crowd`: idle, half-way and unreading clients
//! - `busy`: the producers
//! - `results`: what is reported, and what fails the drill

mod arguments;
mod broker;
mod busy;
mod crowd;
mod results;

use std::{
    net::TcpStream,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use millrace_bench::{
    drill::print_report,
    machine::pause,
    process::raise_descriptors,
    producer::{BatchTemplate, Connection, Stamp},
};
use millrace_time::{SharedClock, SystemClock};
use rustix::fs::statvfs;

use crate::{
    arguments::{Arguments, USAGE},
    broker::{Broker, CACHE_BYTES},
    busy::Load,
    results::Measured,
};

/// Clients that stop half-way hold a megabyte each, clients that do not read sixteen: together more
/// than the broker's memory for requests and responses.
const HALVES: usize = 200;
const SLOW_READERS: usize = 40;
/// How long the crowd is watched.
const CROWD_WATCHED: Duration = Duration::from_secs(12);
/// How long the producers run before they are measured.
const WARM_UP: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(60);
const TOPIC: &str = "busy";
const PARTITIONS: i32 = 16;
/// What the clients that do not read ask for.
const UNREAD: &str = "unread";
const SEED_BATCH_BYTES: usize = 1 << 20;
/// What the greedy producer may write in a second, all of which becomes objects.
const GREEDY_BYTES_PER_S_MAX: u64 = 500 << 20;

fn main() -> ExitCode {
    millrace_bench::drill::main("connections", USAGE, Arguments::parse, drill)
}

fn drill(arguments: &Arguments) -> Result<(), String> {
    raise_descriptors(arguments.idle + arguments.busy + HALVES + SLOW_READERS)?;
    let mut broker = Broker::start(&arguments.files)?;
    check_space(arguments)?;
    let measured = measure(arguments, &mut broker)?;
    let (report, failures) = measured.report();
    print_report(&report, arguments.files.json.as_deref())?;
    if failures.is_empty() {
        broker.remove();
        return Ok(());
    }
    Err(failures.join("; "))
}

fn measure(arguments: &Arguments, broker: &mut Broker) -> Result<Measured, String> {
    let clock = SystemClock::shared();
    settle(broker)?;
    // Before anything else, so that they cannot be put where something else was.
    let before = broker.resident_bytes()?;
    println!("{} idle connections", arguments.idle);
    let mut idle = crowd::idle(broker.address, arguments.idle)
        .map_err(|error| format!("an idle connection: {error}"))?;
    settle(broker)?;
    let with_idle = broker.resident_bytes()?;

    let unread_from = seed(broker)?;
    settle(broker)?;
    let before_crowd = broker.resident_bytes()?;
    println!("{HALVES} clients stop half-way, {SLOW_READERS} do not read");
    let failed = |error| format!("the crowd: {error}");
    let _halves = crowd::halves(broker.address, HALVES).map_err(failed)?;
    let slow = crowd::slow_readers(broker.address, SLOW_READERS, UNREAD, unread_from);
    let _slow = slow.map_err(failed)?;
    let crowd = watch(broker, &mut idle, &clock)?;

    println!("{} producers and a greedy one", arguments.busy);
    settle(broker)?;
    let before_busy = broker.resident_bytes()?;
    let load = Load {
        address: broker.address,
        topic: TOPIC,
        partitions: PARTITIONS,
        rate_per_s: arguments.rate_per_s,
        warm_up: WARM_UP,
        measured: arguments.measured,
    };
    let ((producers, greedy_bytes), busy_peak) = produce(&load, broker, &clock, arguments.busy)?;
    // The idle ones were there all the time.
    crowd::ask_again(&mut idle[0]).map_err(|error| format!("an idle connection: {error}"))?;
    Ok(Measured {
        idle: arguments.idle,
        before,
        with_idle,
        before_crowd,
        crowd: HALVES + SLOW_READERS,
        crowd_peak: crowd.peak,
        crowd_in_flight_peak: crowd.in_flight_peak,
        cut_halves: cut(broker, "_frame")?,
        cut_slow_readers: cut(broker, "slow_reader")?,
        probe_max: crowd.probe_max,
        before_busy,
        busy_peak,
        seconds: arguments.measured.as_secs_f64(),
        producers,
        greedy_bytes,
    })
}

fn cut(broker: &Broker, reason: &str) -> Result<f64, String> {
    broker.metric("millrace_connections_closed_total", reason)
}

/// Writes twice what the log cache holds, so that its memory does not grow any more. Returns an
/// offset from which the log cache has a quarter of what it holds: what is read from objects is
/// bounded before it comes to a client that does not read.
fn seed(broker: &Broker) -> Result<i64, String> {
    let failed = |error| format!("the data to be read: {error}");
    let connected = Connection::connect(broker.address, "drill", PATIENCE);
    let mut connection = connected.map_err(failed)?;
    for (topic, partitions) in [(UNREAD, 1), (TOPIC, PARTITIONS)] {
        connection
            .create_topic(topic, partitions, PATIENCE)
            .map_err(failed)?;
    }
    let template = BatchTemplate::random(60_000, SEED_BATCH_BYTES, 7);
    let count = template.records_max();
    let stamp = Stamp {
        timestamp_ms: 1_700_000_000_000,
        producer: None,
        base_sequence: -1,
    };
    let batch = [&template.header(count, &stamp)[..], template.records(count)].concat();
    let batches = 2 * CACHE_BYTES / SEED_BATCH_BYTES;
    let cached = batches - CACHE_BYTES / 4 / SEED_BATCH_BYTES;
    let mut unread_from = 0;
    for number in 0..batches {
        connection
            .send_produce(UNREAD, &[(0, &batch)])
            .map_err(failed)?;
        let answer = connection.await_produce().map_err(failed)?;
        match &answer.partitions[..] {
            [partition] if partition.error_code == 0 => {
                if number <= cached {
                    unread_from = partition.base_offset;
                }
            }
            refused => return Err(format!("the data to be read was refused: {refused:?}")),
        }
    }
    Ok(unread_from)
}

struct Crowd {
    peak: u64,
    in_flight_peak: f64,
    probe_max: Duration,
}

/// Watches the broker while the crowd is there, and asks it something all the time.
fn watch(
    broker: &mut Broker,
    idle: &mut [TcpStream],
    clock: &SharedClock,
) -> Result<Crowd, String> {
    let mut crowd = Crowd {
        peak: broker.resident_bytes()?,
        in_flight_peak: 0.0,
        probe_max: Duration::ZERO,
    };
    let probes = idle.len();
    let began = clock.now();
    for at in 0.. {
        let asked = clock.now();
        if asked - began > CROWD_WATCHED {
            break;
        }
        let probe = &mut idle[at % probes];
        crowd::ask_again(probe).map_err(|error| format!("a client beside the crowd: {error}"))?;
        crowd.probe_max = crowd.probe_max.max(clock.now() - asked);
        crowd.peak = crowd.peak.max(broker.resident_bytes()?);
        let in_flight = broker.metric("millrace_network_in_flight_bytes", "")?;
        crowd.in_flight_peak = crowd.in_flight_peak.max(in_flight);
        pause(Duration::from_millis(50));
    }
    broker.check()?;
    Ok(crowd)
}

type Produced = (Vec<busy::Progress>, u64);

/// Runs the producers, and looks at the broker's memory meanwhile.
fn produce(
    load: &Load,
    broker: &mut Broker,
    clock: &SharedClock,
    count: usize,
) -> Result<(Produced, u64), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("no threads: {error}"))?;
    let peak = Arc::new(AtomicU64::new(broker.resident_bytes()?));
    let produced = runtime.block_on(async {
        let watching = async {
            loop {
                tokio::time::sleep(Duration::from_millis(250)).await;
                if let Err(error) = broker.check() {
                    return error;
                }
                match broker.resident_bytes() {
                    Ok(bytes) => peak.fetch_max(bytes, Ordering::Relaxed),
                    Err(error) => return error,
                };
            }
        };
        tokio::select! {
            produced = busy::produce(load, clock, count) => produced,
            gone = watching => Err(gone),
        }
    })?;
    Ok((produced, peak.load(Ordering::Relaxed)))
}

/// Lets uploads end and memory be given back.
fn settle(broker: &mut Broker) -> Result<(), String> {
    pause(Duration::from_secs(2));
    broker.check()
}

/// Whether the disk holds what the greedy producer may write.
fn check_space(arguments: &Arguments) -> Result<(), String> {
    let seconds = (arguments.measured + WARM_UP).as_secs();
    let wanted = seconds * GREEDY_BYTES_PER_S_MAX;
    let found = statvfs(&arguments.files.work);
    let found = found.map_err(|error| format!("{}: {error}", arguments.files.work.display()))?;
    let free = found.f_bavail * found.f_frsize;
    if free >= wanted {
        return Ok(());
    }
    Err(format!(
        "{} has {} MiB left, and a producer without bound may write {} in {seconds} s; name \
         another folder with --work, or fewer --seconds",
        arguments.files.work.display(),
        free >> 20,
        wanted >> 20,
    ))
}
