//! `npm run bench:write`: how fast one producer can write, durably, and what that costs, beside
//! Apache Kafka, a bare sink and the device alone.
//!
//! Every contender and every load is a process of its own. This program orchestrates them; its
//! first argument `run` makes it one of them.

mod roles;

use std::{error::Error, process::ExitCode};

fn main() -> ExitCode {
    match go() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench:write: {error}");
            ExitCode::FAILURE
        }
    }
}

fn go() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, role)) if first == "run" => roles::run(role),
        _ => Err("nothing to orchestrate yet".into()),
    }
}
