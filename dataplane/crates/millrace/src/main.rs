//! The millrace binary.
//!
//! | exit code | `millrace broker` ended because | what helps |
//! |---|---|---|
//! | 0 | it was asked to stop | – |
//! | 1 | it could not start, for another reason than those below | a restart, if the cause has passed |
//! | 64 | the command line is wrong | correct it |
//! | 65 | metadata, log and bucket do not belong together | `millrace recover` or `millrace adopt`; a restart finds the same |
//! | 70 | the log's device failed, or another broker took over | a restart recovers what was acknowledged |
//! | 75 | the data folder is in use | stop the other broker |
//! | 78 | the configuration is wrong | correct it |
//! | 79 | a task failed, which is a defect | a restart recovers what was acknowledged; report it |
//!
//! With every code but 0 the last line on standard error is `millrace: exit CODE: REASON`, which
//! supervisors may show. Restarting helps nobody after 64, 65 and 78.

mod adopt;
mod broker;
mod command;
mod configuration;
mod descriptors;
mod inspect;
mod logging;
mod perf;
mod recover;
mod runtime;

use std::process::ExitCode;

use clap::Parser;

use crate::command::{Cli, Command};

/// The command line is wrong (`EX_USAGE`).
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&error),
    };
    match cli.command {
        Command::Broker(options) => broker::run(&options),
        Command::Adopt(options) => adopt::run(&options),
        Command::Recover(options) => recover::run(&options),
        Command::Inspect(target) => inspect::run(&target),
        Command::Perf(workload) => perf::run(workload),
    }
}

/// Also `--help` and `--version` come as errors; those are none.
fn refuse(error: &clap::Error) -> ExitCode {
    // There is nobody to tell where standard error is closed.
    let _ = error.print();
    if error.exit_code() == 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "millrace: exit {EXIT_USAGE}: the command line is wrong: {}",
        error.kind()
    );
    ExitCode::from(EXIT_USAGE)
}
