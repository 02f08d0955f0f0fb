//! `npm run bench:scale`: how cost grows with partitions, connections, groups and objects.
//!
//! A release broker has so many of one of them and the base number of the others. It is loaded in the same way at every step,
//! idles, is killed with `kill -9` and starts again.
//!
//! - `axis`: what grows, and its steps
//! - `step`: a broker of one step: how it is prepared and measured
//! - `load`, `members`, `objects`: producers; members of groups; objects in the metadata
//! - `rounds`: the order of the measurements
//! - `figures`, `growth`, `report`: what is measured, how it grows, and what is worse than linear
//! - `chart`: the results as SVG

mod arguments;
mod axis;
mod chart;
mod figures;
mod growth;
mod load;
mod members;
mod objects;
mod report;
mod rounds;
mod step;

use std::{fs, path::Path, process::ExitCode};

use millrace_bench::command_line::exit_code;
use serde_json::Value;

use crate::arguments::{Options, USAGE};

fn main() -> ExitCode {
    exit_code("bench:scale", go())
}

fn go() -> Result<(), String> {
    let Some(options) = Options::parse(std::env::args().skip(1))? else {
        println!("{USAGE}");
        return Ok(());
    };
    let results = match &options.from[..] {
        [] => vec![measure(&options)?],
        earlier => earlier
            .iter()
            .map(|path| read(path))
            .collect::<Result<_, _>>()?,
    };
    options.chart.as_ref().map_or(Ok(()), |path| {
        let drawn = chart::draw(&results, path);
        drawn.map_err(|error| format!("{}: {error}", path.display()))
    })
}

fn measure(options: &Options) -> Result<Value, String> {
    let report = rounds::measure(options)?;
    report.print();
    let results = report.json();
    if let Some(path) = &options.json {
        write(path, &results)?;
    }
    Ok(results)
}

fn read(path: &Path) -> Result<Value, String> {
    let failed = |error: &dyn std::error::Error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

fn write(path: &Path, results: &Value) -> Result<(), String> {
    let written = fs::write(path, format!("{results:#}\n"));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
