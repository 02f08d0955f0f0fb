//! `millrace perf`: a performance test. Exits with 0 only if nothing failed.

use std::process::ExitCode;

use millrace_perf::PerfCommand;
use millrace_time::{SystemClock, SystemRandom};
use tokio::runtime::Builder;

use crate::{EXIT_USAGE, command::LogFormat, logging, runtime};

pub(crate) fn run(workload: PerfCommand) -> ExitCode {
    let runtime = match runtime::build_or_exit(Builder::new_multi_thread()) {
        Ok(runtime) => runtime,
        Err(code) => return code,
    };
    logging::install(LogFormat::Text);
    let run = millrace_perf::perform(workload, SystemClock::shared(), SystemRandom::shared());
    match runtime.block_on(run) {
        Ok(report) if report.is_success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("millrace: {error}");
            if error.is_usage() {
                ExitCode::from(EXIT_USAGE)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
