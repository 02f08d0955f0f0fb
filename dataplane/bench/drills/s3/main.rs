//! `npm run drill:s3`: the bucket fails on purpose, for minutes, and then is silent, while clients
//! produce.
//!
//! - `outage`: the drill itself, phase by phase
//! - `objects`: whether every object is sound, and all of them together hold everything
//!
//! Clients, what they were promised, whether it was kept, and the proxy that shows the faults:
//! `millrace_bench::drill`.

mod arguments;
mod objects;
mod outage;

use std::process::ExitCode;

use millrace_bench::drill::with_faulty_bucket;

use crate::arguments::{Arguments, USAGE};

fn main() -> ExitCode {
    millrace_bench::drill::main("s3", USAGE, Arguments::parse, |arguments| {
        with_faulty_bucket(
            &arguments.files,
            arguments.load.seed,
            arguments.load.s3_server.as_deref(),
            |bucket| outage::settings(arguments, bucket),
            |home, proxy, server| {
                let report = outage::run(arguments, home, proxy, server)?;
                Ok((report, Vec::new()))
            },
        )
    })
}
