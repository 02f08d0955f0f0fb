//! `npm run bench:catchup`: how fast a thousand partitions are read from the beginning while they
//! are written to, and what the producers notice of it.
//!
//! - `stand`: the S3 server and the broker, with the settings of the profile that is measured
//! - `writers`: producers at a fixed rate, and how long each record took
//! - `readers`: consumers that read everything, and check it
//! - `raw`: a bare client that reads the same objects: the limit
//! - `watch`: what broker, S3 server and clients used meanwhile
//! - `load`: the topics, what is written to them, and what they hold
//! - `profiles`: what is measured, one after the other
//! - `kafka`, `tiered`: the same load on Apache Kafka with tiered storage
//! - `figures`, `report`: what that comes to, and whether it is good enough

mod arguments;
mod figures;
mod kafka;
mod load;
mod profiles;
mod raw;
mod readers;
mod report;
mod stand;
mod tiered;
mod watch;
mod writers;

use std::process::ExitCode;

use millrace_bench::command_line::exit_code;

use crate::arguments::Options;

fn main() -> ExitCode {
    exit_code("bench:catchup", go())
}

fn go() -> Result<(), String> {
    let Some(options) = Options::from_env()? else {
        println!("{}", arguments::USAGE);
        return Ok(());
    };
    let report = profiles::measure(&options)?;
    report.print();
    if let Some(path) = &options.json {
        report
            .write_json(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
