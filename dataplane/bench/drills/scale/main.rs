//! `npm run drill:scale`: many topics and groups on one broker.
//!
//! Topics are created through the admin API, one record is written to each topic, and each group commits an
//! offset. Measured are the time to create, resident memory, the time to list all groups, the time from the start of
//! the process after `kill -9` until every partition and every group is served again, and how long a group of many members takes
//! until each has its partitions.

mod arguments;
mod members;

use std::{process::ExitCode, time::Duration};

use millrace_bench::{
    broker::{Home, Settings},
    drill::conclude,
    population::{Population, client, topic},
};
use millrace_client::{Admin, Client, Producer, ProducerConfig, ProducerRecord};
use millrace_time::{SharedClock, SystemClock};
use serde_json::{Value, json};

use crate::arguments::{Arguments, USAGE};

/// A record that takes longer has failed the drill.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(240);

/// The targets of a full run.
const CREATED_WITHIN: Duration = Duration::from_secs(60);
const RESIDENT_MAX: u64 = 1_536 << 20;
const SERVES_WITHIN: Duration = Duration::from_secs(15);
const LISTED_WITHIN: Duration = Duration::from_secs(1);
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    millrace_bench::drill::main("scale", USAGE, Arguments::parse, drill)
}

fn drill(arguments: &Arguments) -> Result<(), String> {
    let partitions = arguments.topics * arguments.partitions;
    let settings = Settings {
        wal_bytes: 1 << 30,
        io_depth: 8,
        bucket: None,
        lines: format!("partitions.max={}\nlog.retention.ms=-1\n", partitions + 100),
    };
    let home = Home::create(&arguments.files.program, &arguments.files.work, &settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("starting a runtime: {error}"))?;
    let outcome = runtime.block_on(measure(arguments, &home));
    conclude(&home, 0, arguments.files.json.as_deref(), outcome)
}

async fn measure(arguments: &Arguments, home: &Home) -> Result<(Value, Vec<String>), String> {
    let clock = SystemClock::shared();
    let running = home.start_and_wait()?;
    let client = client(home.address());
    let admin = Admin::new(&client);
    let population = Population {
        topics: arguments.topics,
        partitions: arguments.partitions,
        groups: arguments.groups,
    };
    let created = timed(&clock, population.create_topics(&admin)).await?;
    let written = timed(&clock, write(&client, arguments)).await?;
    let committed = timed(&clock, population.commit_offsets(&admin)).await?;
    let listed = timed(&clock, population.list_groups(&admin)).await?;
    let resident = running.resident_bytes()?;
    running.kill_9()?;
    let started = clock.now();
    let running = home.start_and_wait()?;
    let accepts = clock.now() - started;
    population.all_served(&admin).await?;
    let serves = clock.now() - started;
    let resident_after = running.resident_bytes()?;
    let settled = settle(home, arguments).await?;
    let report = json!({
        "topics": arguments.topics,
        "partitions": arguments.topics * arguments.partitions,
        "groups": arguments.groups,
        "created_s": created.as_secs_f64(),
        "written_s": written.as_secs_f64(),
        "committed_s": committed.as_secs_f64(),
        "groups_listed_s": listed.as_secs_f64(),
        "resident_mib": resident >> 20,
        "restart_accepts_s": accepts.as_secs_f64(),
        "restart_serves_s": serves.as_secs_f64(),
        "resident_after_restart_mib": resident_after >> 20,
        "members": arguments.members,
        "members_settled_s": settled.as_secs_f64(),
    });
    let mut failures = Vec::new();
    let mut bound = |what: &str, is_met: bool| {
        if arguments.is_full && !is_met {
            failures.push(format!("{what} is past its target"));
        }
    };
    bound("the creation of the topics", created <= CREATED_WITHIN);
    bound("the listing of the groups", listed <= LISTED_WITHIN);
    bound("memory", resident.max(resident_after) <= RESIDENT_MAX);
    bound("the restart", serves <= SERVES_WITHIN);
    bound("the rebalance", settled <= SETTLED_WITHIN);
    Ok((report, failures))
}

/// The members consume the first topics, as many as have a partition for each.
async fn settle(home: &Home, arguments: &Arguments) -> Result<Duration, String> {
    let topics = arguments.members.div_ceil(arguments.partitions);
    let topics = topics.min(arguments.topics);
    let names: Vec<String> = (0..topics).map(topic).collect();
    let partitions = topics * arguments.partitions;
    members::settle(home.address(), arguments.members, &names, partitions).await
}

async fn timed(
    clock: &SharedClock,
    work: impl Future<Output = Result<(), String>>,
) -> Result<Duration, String> {
    let started = clock.now();
    work.await?;
    Ok(clock.now() - started)
}

/// A record for each topic, so that partitions have something to recover.
async fn write(client: &Client, arguments: &Arguments) -> Result<(), String> {
    let mut config = ProducerConfig::default();
    config.delivery_timeout = DELIVERY_TIMEOUT;
    let producer = Producer::new(client, config);
    let producer = producer.map_err(|error| error.to_string())?;
    let mut sent = Vec::with_capacity(arguments.topics);
    for number in 0..arguments.topics {
        let (topic, value) = (topic(number), number.to_string());
        let record = ProducerRecord::to(&topic).value(value.as_bytes());
        let ticket = producer.send(record).await;
        sent.push(ticket.map_err(|error| error.to_string())?);
    }
    for ticket in sent {
        ticket.await.map_err(|error| error.to_string())?;
    }
    Ok(())
}
