//! Brokers are killed under load, lose metadata, log or both, and are recovered. A checker knows every
//! acknowledgement: with the log nothing may be missing; without it only what the report names, or what
//! was acknowledged after the last moment that the report knows of. Nothing may be wrong or there
//! twice, and offsets go on where the recovered records end.

mod arguments;
mod cost;
mod loss;
mod runs;

use std::process::ExitCode;

use millrace_bench::drill::exit_code;

use crate::arguments::{Plan, USAGE};

fn main() -> ExitCode {
    let done = match Plan::from_env() {
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Ok(Some(plan)) => {
            println!("seed {}", plan.seed);
            match &plan.cost {
                Some(cost) => cost::run(&plan, cost),
                None => runs::run(&plan),
            }
        }
        Err(error) => Err(error),
    };
    exit_code("drill:recover", done)
}
