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

use std::process::ExitCode;

use millrace_bench::{
    broker::{Home, Settings},
    drill::conclude,
};
use serde_json::Value;

use crate::{
    arguments::{Arguments, Drill, USAGE},
    backlog::Endpoint,
};

fn main() -> ExitCode {
    millrace_bench::drill::main(
        "kill",
        USAGE,
        Arguments::parse,
        |arguments| match &arguments.drill {
            Drill::Kill(kills) => drill(arguments, kills.seed, &kills::settings(), |home| {
                kills::run(kills, home)
            }),
            Drill::Backlog(backlog) => {
                let endpoint = Endpoint::reserve()?;
                let settings = endpoint.settings(backlog);
                drill(arguments, backlog.seed, &settings, |home| {
                    backlog::run(backlog, &endpoint, home)
                })
            }
        },
    )
}

/// Runs one drill in a folder of its own, which is kept if it fails.
fn drill(
    arguments: &Arguments,
    seed: u64,
    settings: &Settings,
    run: impl FnOnce(&Home) -> Result<Value, String>,
) -> Result<(), String> {
    println!("seed {seed}");
    let files = &arguments.files;
    let home = Home::create(&files.program, &files.work, settings)?;
    let direct = home.writes_directly()?;
    let ready = if direct || arguments.any_disk {
        Ok(())
    } else {
        Err("the disk does not support O_DIRECT; set --work to a folder on another disk".to_owned())
    };
    let outcome = ready.and_then(|()| run(&home)).map(|mut report| {
        report["direct_io"] = direct.into();
        (report, Vec::new())
    });
    conclude(&home, seed, files.json.as_deref(), outcome)
}
