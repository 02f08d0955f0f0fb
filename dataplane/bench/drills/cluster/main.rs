//! `npm run drill:cluster`: the brokers of one cluster are killed, stopped, drained, and given other partitions, and their
//! database fails, under load. Nothing that was acknowledged may be lost, repeated or moved, no commit of a group may go back,
//! no error may reach a client, and a broker that was replaced may acknowledge nothing.
//!
//! - `deck`: what is done, in an order that the seed decides
//! - `disruptions`: how it is done
//! - `probes`: records for a broker that was replaced
//! - `times`: how long partitions waited
//! - `outcome`: whether it all held
//!
//! Brokers, clients, histories and their check: `millrace_bench::cluster`.

mod arguments;
mod deck;
mod disruptions;
mod outcome;
mod probes;
mod times;

use std::{fs, process::ExitCode, sync::Arc, time::Duration};

use fastrand::Rng;
use millrace_bench::{
    cluster::{Brokers, Follower, Groups, History, Load, LoadPlan, Plan},
    drill::print_report,
    machine::pause,
};
use millrace_client::{Admin, Client, admin::NewTopic};
use millrace_testkit::PostgresServer;
use millrace_time::SystemClock;
use tokio::runtime::{Builder, Runtime};

use crate::{
    arguments::{Arguments, USAGE},
    disruptions::Scene,
    outcome::Outcome,
    times::Times,
};

const TOPIC: &str = "drill";
const GROUPS: u32 = 4;
const RECORD_BYTES: usize = 120;
/// For how long a client tries before an error reaches the application.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// Brokers and clients are ready by then.
const READY_WAIT: Duration = Duration::from_secs(60);
/// Small, so that uploads and trims are under way at most disruptions.
const WAL_BYTES: u64 = 128 << 20;
const LINES: &str = "s3.wal.cache.size=33554432\ns3.block.cache.size=33554432\n\
                     s3.wal.upload.interval.ms=2000\noffsets.topic.num.partitions=12\n\
                     auto.create.topics.enable=false\n";

fn main() -> ExitCode {
    millrace_bench::drill::main("cluster", USAGE, Arguments::parse, drill)
}

fn drill(arguments: &Arguments) -> Result<(), String> {
    println!("seed {}", arguments.seed);
    let work = &arguments.files.work;
    if work.exists() {
        return Err(format!(
            "{} exists; remove it, or name another folder with --work",
            work.display()
        ));
    }
    let failed = |reason: String| {
        let text = format!("FAILED: {reason}\nseed {}", arguments.seed);
        // The reason is shown all the same.
        let _ = fs::write(work.join("evidence"), &text);
        let work = work.display();
        format!("{text}; logs, objects and what the brokers said are kept in {work}")
    };
    let outcome = run(arguments).map_err(failed)?;
    print_report(&outcome.json, arguments.files.json.as_deref())?;
    match outcome.faults.is_empty() {
        false => Err(failed(outcome.faults.join("; "))),
        true => fs::remove_dir_all(work).map_err(|error| format!("{}: {error}", work.display())),
    }
}

fn run(arguments: &Arguments) -> Result<Outcome, String> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    // Clients are made by this thread, and work on the runtime's.
    let _entered = runtime.enter();
    let server = (arguments.brokers > 1).then(PostgresServer::durable);
    let database = server.as_ref().map(|one| runtime.block_on(one.database()));
    let clock = SystemClock::shared();
    let plan = Plan {
        program: arguments.files.program.clone(),
        work: arguments.files.work.clone(),
        brokers: arguments.brokers,
        database,
        has_links: true,
        wal_bytes: WAL_BYTES,
        lines: LINES.to_owned(),
    };
    let mut brokers = Brokers::start(&plan, &clock)?;
    brokers.until_active(READY_WAIT)?;
    let client = brokers.client("drill");
    let probes = i32::try_from(4 * arguments.brokers).unwrap_or(1);
    runtime.block_on(create_topics(
        &client,
        &[(TOPIC, arguments.partitions), (probes::TOPIC, probes)],
    ))?;
    let history = Arc::new(History::new(arguments.partitions));
    let clients = Clients::start(&runtime, arguments, &brokers, &history)?;
    let mut scene = Scene {
        brokers,
        server: server.as_ref(),
        history,
        topic: TOPIC,
        clock,
        outage: arguments.outage,
        random: Rng::with_seed(arguments.seed),
        times: Times::of(arguments.partitions),
        acknowledged_after_replacement: 0,
        moves_skipped: 0,
        replaced: 0,
    };
    let disrupted = disrupt(arguments, &mut scene);
    if let Err(reason) = &disrupted {
        eprintln!("{reason}");
    }
    // What was acknowledged until then counts all the same.
    outcome::of(
        &runtime,
        clients,
        &mut scene,
        (TOPIC, arguments.seed),
        disrupted.err(),
    )
}

/// Everything that the deck holds, and then waits until clients have run for long enough.
fn disrupt(arguments: &Arguments, scene: &mut Scene<'_>) -> Result<(), String> {
    scene.until_served(scene.clock.now())?;
    let is_alone = arguments.brokers == 1;
    for disruption in deck::shuffled(&arguments.counts, is_alone, &mut scene.random) {
        scene.run(disruption)?;
    }
    while scene.clock.now() < arguments.length {
        pause(Duration::from_secs(1));
        scene.until_served(scene.clock.now())?;
    }
    Ok(())
}

async fn create_topics(client: &Client, topics: &[(&str, i32)]) -> Result<(), String> {
    for &(name, partitions) in topics {
        let topic = NewTopic::new(name).partitions(partitions);
        let created = Admin::new(client).create_topics(&[topic]).await;
        let created = created.map_err(|error| format!("creating {name}: {error}"))?;
        if let Some(Err(error)) = created.get(name) {
            return Err(format!("creating {name}: {error}"));
        }
    }
    Ok(())
}

/// All clients.
struct Clients {
    load: Load,
    follower: Follower,
    groups: Groups,
}

impl Clients {
    fn start(
        runtime: &Runtime,
        arguments: &Arguments,
        brokers: &Brokers,
        history: &Arc<History>,
    ) -> Result<Self, String> {
        let plan = LoadPlan {
            topic: TOPIC.to_owned(),
            producers: arguments.producers,
            records_per_s: arguments.records_per_s,
            record_bytes: RECORD_BYTES,
            seed: arguments.seed,
            delivery_timeout: DELIVERY_TIMEOUT,
        };
        let client = |name: &str| brokers.client(name);
        Ok(Self {
            load: Load::start(runtime, &plan, client, history)?,
            follower: Follower::start(
                runtime,
                brokers.client("follower"),
                TOPIC,
                arguments.seed,
                history,
            ),
            groups: Groups::start(runtime, GROUPS, TOPIC, client, history),
        })
    }
}
