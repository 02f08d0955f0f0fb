//! `npm run bench:purgatory`: how many requests a second can be put into a purgatory, and what
//! that costs, for Millrace's and others'.
//!
//! Every run is a process of its own: this program again for the contenders in Rust, a JVM for
//! Apache Kafka's. The first argument `run` makes it such a process.

mod arguments;
mod contenders;
mod kafka;
mod report;
mod rounds;
mod runs;
mod workload;

use std::{error::Error, process::ExitCode};

use millrace_bench::command_line::exit_code;

use crate::arguments::Command;

fn main() -> ExitCode {
    exit_code("bench:purgatory", go())
}

fn go() -> Result<(), Box<dyn Error>> {
    match Command::from_env()? {
        Command::Help => println!("{}", arguments::USAGE),
        Command::Run { contender, plan } => runs::run_here(contender, &plan)?,
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
