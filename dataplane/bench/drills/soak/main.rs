//! `npm run drill:soak`: a day in twenty minutes. Every threshold and interval of the storage engine
//! is small, clients write and read all the time, and the bucket and the broker fail.
//!
//! - `soak`: the drill itself, phase by phase
//! - `chaos`: what fails, and the moments at which the broker is killed
//! - `followers`: consumers at the end of the log, and ones that begin at its start again and again
//! - `memory`: whether the broker's memory grows
//! - `settled`: at the end: what is stored, what retention kept, and whether all of it is there
//!
//! Producers, what they were promised, whether it was kept, and the proxy before the bucket:
//! `millrace_bench::drill`.

mod arguments;
mod chaos;
mod followers;
mod memory;
mod settled;
mod soak;

use std::process::ExitCode;

use millrace_bench::{drill::with_faulty_bucket, s3_server::bucket_uri};

use crate::arguments::{Arguments, USAGE};

fn main() -> ExitCode {
    millrace_bench::drill::main("soak", USAGE, Arguments::parse, |arguments| {
        with_faulty_bucket(
            &arguments.files,
            arguments.load.seed,
            arguments.load.s3_server.as_deref(),
            soak::settings,
            |home, proxy, server| soak::run(arguments, home, proxy, &bucket_uri(server.address())),
        )
    })
}
