//! `npm run bench:meta`: what lookups and commits cost in metadata on PostgreSQL with many objects.
//!
//! The server is the one that the project installs, with its usual durability, on this machine's disk. Several brokers, each with
//! streams of its own, upload at once while offsets are looked up.

mod load;

use std::{env, process::ExitCode};

use millrace_bench::{
    command_line::{exit_code, positive},
    latencies::Latencies,
};
use millrace_testkit::PostgresServer;

use crate::load::{Figures, Plan};

const USAGE: &str = "bench:meta [--objects N] [--brokers N]

  --objects N  objects in the metadata before anything is measured (1000000)
  --brokers N  brokers that upload at once (3)";

fn main() -> ExitCode {
    exit_code("bench:meta", go())
}

fn go() -> Result<(), String> {
    let mut plan = Plan::default();
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let value = arguments.next();
            let value = value.as_deref().and_then(positive);
            value.ok_or_else(|| format!("{argument} needs a whole number above 0\n\n{USAGE}"))
        };
        match argument.as_str() {
            "--objects" => plan.objects = number()?,
            "--brokers" => plan.brokers = number()?,
            "--help" => {
                println!("{USAGE}");
                return Ok(());
            }
            _ => return Err(format!("unknown argument {argument}\n\n{USAGE}")),
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let server = PostgresServer::durable();
    let figures = runtime.block_on(load::run(&server, &plan));
    print(&plan, &figures?);
    Ok(())
}

fn print(plan: &Plan, figures: &Figures) {
    println!(
        "{} objects, filled in {:.0} s; then {} brokers at once, each commit {} ranges of a stream set and {} stream objects",
        plan.objects,
        figures.filled_in.as_secs_f64(),
        plan.brokers,
        load::SET_RANGES,
        load::STREAM_OBJECTS,
    );
    for (what, latencies) in [
        ("lookup, nothing else runs", &figures.lookups_alone),
        ("lookup beside commits", &figures.lookups),
        ("commit", &figures.commits),
        ("ids of an upload", &figures.reservations),
    ] {
        row(what, latencies);
    }
}

fn row(what: &str, latencies: &Latencies) {
    let Some(summary) = latencies.summary() else {
        return;
    };
    println!(
        "{what:>26}: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        summary.p50, summary.p99, summary.max
    );
}
