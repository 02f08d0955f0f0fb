//! How a drill ends: what it prints, writes and keeps.

use std::{fs, path::Path};

use serde_json::Value;

use crate::broker::Home;

/// Prints the report, and writes it to `json` if that is given. The drill's folder is removed if
/// it has no failures; else it is kept, with the reasons and the seed in its file `evidence`.
///
/// # Errors
/// Why the drill failed and what is kept where, or that `json` could not be written.
pub fn conclude(
    home: &Home,
    seed: u64,
    json: Option<&Path>,
    outcome: Result<(Value, Vec<String>), String>,
) -> Result<(), String> {
    let (report, failures) = outcome.map_err(|reason| keep(home, seed, &reason))?;
    print_report(&report, json)?;
    if failures.is_empty() {
        home.remove();
        return Ok(());
    }
    Err(keep(home, seed, &failures.join("; ")))
}

/// Prints the report, and writes it to `json` if that is given.
///
/// # Errors
/// `json` could not be written.
pub fn print_report(report: &Value, json: Option<&Path>) -> Result<(), String> {
    let text = format!("{report:#}\n");
    print!("{text}");
    json.map_or(Ok(()), |file| {
        fs::write(file, &text).map_err(|error| format!("{}: {error}", file.display()))
    })
}

fn keep(home: &Home, seed: u64, reason: &str) -> String {
    let folder = home.folder();
    // The reason is shown all the same.
    let _ = fs::write(folder.join("evidence"), format!("seed {seed}\n{reason}\n"));
    format!(
        "FAILED: {reason}\nseed {seed}; log, objects and what the broker said are kept in {}",
        folder.display()
    )
}
