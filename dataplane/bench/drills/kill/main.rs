//! `npm run drill:kill`: the broker is killed with `kill -9` under load, on a real disk.
//!
//! - `kills`: many kills at any moment; not one acknowledged record is lost, moved or repeated
//! - `backlog`: one kill with gigabytes that are not uploaded; how long until it acknowledges again
//!
//! Clients, what they were promised and whether it was kept: `millrace_bench::drill`.

mod arguments;
mod backlog;
mod kills;
mod timings;

use std::{fs, process::ExitCode};

use millrace_bench::{
    broker::{Home, Settings},
    drill::exit_code,
};
use serde_json::Value;

use crate::{
    arguments::{Command, Place, USAGE},
    backlog::Endpoint,
};

fn main() -> ExitCode {
    let done = match Command::from_env() {
        Ok(Command::Help) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Ok(Command::Kill(place, plan)) => {
            println!("seed {}", plan.seed);
            drill(&place, plan.seed, &kills::settings(), |home| {
                kills::run(&plan, home)
            })
        }
        Ok(Command::Backlog(place, plan)) => {
            println!("seed {}", plan.seed);
            Endpoint::reserve().and_then(|endpoint| {
                drill(&place, plan.seed, &endpoint.settings(&plan), |home| {
                    backlog::run(&plan, &endpoint, home)
                })
            })
        }
        Err(error) => Err(error),
    };
    exit_code("drill:kill", done)
}

/// Runs one drill in a folder of its own, which is kept where it fails.
fn drill(
    place: &Place,
    seed: u64,
    settings: &Settings,
    run: impl FnOnce(&Home) -> Result<Value, String>,
) -> Result<(), String> {
    let home = Home::create(&place.program, &place.work, settings)?;
    let direct = home.writes_directly()?;
    let ready = if direct || place.any_disk {
        Ok(())
    } else {
        Err("the disk does not support O_DIRECT; set --work to a folder on another disk".to_owned())
    };
    match ready.and_then(|()| run(&home)) {
        Ok(mut report) => {
            report["direct_io"] = direct.into();
            let text = format!("{report:#}\n");
            print!("{text}");
            if let Some(file) = &place.json {
                fs::write(file, &text).map_err(|error| format!("{}: {error}", file.display()))?;
            }
            home.remove();
            Ok(())
        }
        Err(reason) => {
            let evidence = format!("seed {seed}\n{reason}\n");
            // The reason is shown all the same.
            let _ = fs::write(home.folder().join("evidence"), evidence);
            Err(format!(
                "FAILED: {reason}\nseed {seed}; log, objects and what the broker said are kept in {}",
                home.folder().display()
            ))
        }
    }
}
