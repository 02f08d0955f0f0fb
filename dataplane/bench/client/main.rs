//! `npm run bench:client`: our client library beside Kafka's Java clients and librdkafka.
//!
//! Every contender's run is a process of its own. This program orchestrates them; its first argument
//! `run` makes it one of them.

mod allocations;
mod arguments;
mod figures;
mod flow;
mod keys;
mod partitioner;
mod peers;
mod rate;
mod report;
mod roles;
mod rounds;
mod skew;
mod speed;
mod streams;
mod targets;
mod tools;

use std::{error::Error, process::ExitCode};

use millrace_bench::command_line::exit_code;

use crate::arguments::Command;

fn main() -> ExitCode {
    exit_code("bench:client", go())
}

fn go() -> Result<(), Box<dyn Error>> {
    match Command::from_env()? {
        Command::Help => println!("{}", arguments::USAGE),
        Command::Run(role) => roles::run(&role)?,
        Command::Bench(options) => {
            let report = rounds::measure(&options)?;
            print!("{}", report.tables());
            if let Some(path) = &options.json {
                report.write_json(path)?;
            }
        }
    }
    Ok(())
}
