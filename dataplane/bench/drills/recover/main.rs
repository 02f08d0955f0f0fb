//! Brokers are killed under load, lose metadata, log or both, and are recovered. A checker knows every
//! acknowledgement: with the log nothing may be missing; without it only what the report names, or what
//! was acknowledged after the last moment that the report knows of. Nothing may be wrong or there
//! twice, and offsets go on where the recovered records end.

mod arguments;
mod cost;
mod loss;
mod runs;

use std::process::ExitCode;

use crate::arguments::{Arguments, USAGE};

fn main() -> ExitCode {
    millrace_bench::drill::main("recover", USAGE, Arguments::parse, |arguments| {
        println!("seed {}", arguments.seed);
        match &arguments.cost {
            Some(cost) => cost::run(arguments, cost),
            None => runs::run(arguments),
        }
    })
}
