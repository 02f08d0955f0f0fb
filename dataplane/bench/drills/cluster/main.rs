//! `npm run drill:cluster`: brokers of one cluster are killed, stopped and drained, and their database is restarted and taken
//! away, under load. Nothing that was acknowledged may be lost, repeated or moved, no commit of a group may go back, and no
//! error reaches the clients.

mod arguments;
mod brokers;
mod clients;
mod disruptions;
mod history;
mod readback;

use std::{fs, process::ExitCode, time::Duration};

use fastrand::Rng;
use millrace_bench::drill::print_report;
use millrace_client::{Admin, Client, admin::NewTopic};
use millrace_testkit::PostgresServer;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{
    arguments::{Arguments, USAGE},
    brokers::Brokers,
    clients::{Clients, TOPIC},
    disruptions::{Scene, planned},
    readback::audit,
};

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
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let server = PostgresServer::durable();
    let database = runtime.block_on(server.database());
    let mut brokers = Brokers::start(arguments, &database)?;
    let outcome = runtime.block_on(run(arguments, &server, &mut brokers));
    let report = outcome.map_err(|reason| {
        let (seed, work) = (arguments.seed, work.display());
        format!(
            "FAILED: {reason}
seed {seed}; logs, objects and what the brokers said are kept in {work}"
        )
    })?;
    print_report(&report, arguments.files.json.as_deref())?;
    drop(brokers);
    fs::remove_dir_all(work).map_err(|error| format!("{}: {error}", work.display()))
}

async fn run(
    arguments: &Arguments,
    server: &PostgresServer,
    brokers: &mut Brokers,
) -> Result<Value, String> {
    let client = brokers.client();
    create_topic(&client, arguments.partitions).await?;
    let clients = Clients::start(&client, arguments.partitions)?;
    let mut random = Rng::with_seed(arguments.seed);
    let disruptions = planned(arguments, &mut random);
    let mut scene = Scene {
        brokers,
        clients: &clients,
        server,
        random: &mut random,
    };
    scene.all_served().await?;
    let mut done = Vec::with_capacity(disruptions.len());
    for disruption in disruptions {
        done.push(scene.run(disruption).await?);
    }
    let outage = match arguments.outage_seconds {
        0 => Value::Null,
        seconds => scene.outage(Duration::from_secs(seconds)).await?,
    };
    let promises = clients.stop().await;
    let (counters, records) = audit(&client, &promises).await?;
    let report = json!({
        "lost": counters.lost,
        "duplicated": counters.duplicated,
        "reordered": counters.reordered,
        "offsets_back": counters.offsets_back,
        "failed": counters.failed,
        "records": records,
        "disruptions": done,
        "outage": outage,
    });
    match counters.are_zero() {
        true => Ok(report),
        false => Err(format!("{counters:?}")),
    }
}

async fn create_topic(client: &Client, partitions: i32) -> Result<(), String> {
    let topic = NewTopic::new(TOPIC).partitions(partitions);
    let created = Admin::new(client).create_topics(&[topic]).await;
    let created = created.map_err(|error| error.to_string())?;
    match created.get(TOPIC) {
        Some(Ok(_)) => Ok(()),
        other => Err(format!("{TOPIC} was not created: {other:?}")),
    }
}
