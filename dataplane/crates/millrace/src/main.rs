//! The millrace binary.
//!
//! Exit codes: 0 stopped as asked; 1 the broker could not start; 2 the command line is wrong;
//! 70 the log's device failed or another broker took over; 75 the data folder is in use;
//! 78 the configuration is wrong.

mod broker;
mod command;
mod descriptors;
mod inspect;
mod logging;

use std::process::ExitCode;

use clap::Parser;

use crate::command::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Command::Broker(options) => broker::run(&options),
        Command::Inspect(target) => inspect::run(&target),
    }
}
