//! `npm run bench:write`: how fast one producer can write, durably, and what that costs, beside
//! Apache Kafka, a bare sink and the device alone.
//!
//! Every contender and every load is a process of its own. This program orchestrates them; its
//! first argument `run` makes it one of them.

mod arguments;
mod contenders;
mod disk;
mod figures;
mod kafka;
mod kafka_client;
mod loads;
mod millrace;
mod report;
mod roles;
mod rounds;
mod sections;
mod server;
mod topics;

use std::{error::Error, process::ExitCode};

use millrace_bench::command_line::exit_code;

use crate::arguments::Command;

fn main() -> ExitCode {
    exit_code("bench:write", go())
}

fn go() -> Result<(), Box<dyn Error>> {
    match Command::from_env()? {
        Command::Help => println!("{}", arguments::USAGE),
        Command::Run(role) => roles::run(&role)?,
        Command::Bench(options) => {
            let report = rounds::measure(&options)?;
            report.print();
            if let Some(path) = &options.json {
                report.write_json(path)?;
            }
        }
    }
    Ok(())
}
