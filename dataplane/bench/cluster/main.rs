//! `npm run bench:cluster`: several brokers of one cluster, beside Apache Kafka with three brokers and three replicas.
//!
//! - `failover`: a broker is killed under load; how long until each partition acknowledges again
//! - `moves`: everything that a broker leads moves to the others under load; how long each partition pauses
//! - `throughput`: what a byte costs with one, two and three brokers
//! - `metadata`: what the shared metadata costs per byte
//! - `contenders`: the clusters
//! - `report`: medians, as tables and as JSON
//!
//! Brokers, clients and histories: `millrace_bench::cluster`, as in `npm run drill:cluster`.

mod arguments;
mod contenders;
mod failover;
mod metadata;
mod moves;
mod report;
mod throughput;

use std::process::ExitCode;

use millrace_bench::{
    command_line::exit_code,
    machine::{Patience, wait_until_quiet},
    process::fresh_folder,
};
use tokio::runtime::{Builder, Runtime};

use crate::{
    arguments::{Options, Section, USAGE},
    contenders::{Contender, Kind},
    report::{Fields, Report},
};

fn main() -> ExitCode {
    exit_code("bench:cluster", go())
}

fn go() -> Result<(), String> {
    let Some(options) = arguments::parse(std::env::args().skip(1))? else {
        println!("{USAGE}");
        return Ok(());
    };
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    // Clients are made by this thread, and work on the runtime's.
    let _entered = runtime.enter();
    let report = measure(&options, &runtime)?;
    print!("{}", report.tables());
    let json = options.json.as_deref();
    json.map_or(Ok(()), |path| report.write_json(path))
}

/// The rounds: in each, the contenders alternate, and the order turns from round to round.
fn measure(options: &Options, runtime: &Runtime) -> Result<Report, String> {
    let mut report = Report::new(options);
    for &section in &options.sections {
        let mut kinds = kinds(section);
        for round in 0..options.rounds {
            for &kind in &kinds {
                fresh_folder(&options.work).map_err(|error| error.to_string())?;
                let idle = wait_until_quiet(Patience::THOROUGH);
                let mut contender = Contender::start(kind, options, runtime)?;
                let fields = run(section, options, runtime, (&mut contender, round));
                let fields = fields
                    .map_err(|error| format!("{}, {}: {error}", section.key(), kind.name()))?;
                drop(contender);
                report.add((section, kind), idle, fields);
            }
            kinds.rotate_left(1);
        }
    }
    fresh_folder(&options.work).map_err(|error| error.to_string())?;
    Ok(report)
}

fn kinds(section: Section) -> Vec<Kind> {
    match section {
        Section::Failover => vec![Kind::Millrace(3), Kind::Kafka, Kind::Millrace(5)],
        Section::Moves | Section::Metadata => vec![Kind::Millrace(3)],
        Section::Throughput => vec![Kind::Millrace(1), Kind::Millrace(2), Kind::Millrace(3)],
    }
}

fn run(
    section: Section,
    options: &Options,
    runtime: &Runtime,
    (contender, round): (&mut Contender, usize),
) -> Result<Fields, String> {
    match section {
        Section::Failover => failover::run(options, runtime, (contender, round)),
        Section::Moves => moves::run(options, runtime, contender),
        Section::Throughput => throughput::run(options, runtime, contender),
        Section::Metadata => metadata::run(options, runtime, contender),
    }
}
