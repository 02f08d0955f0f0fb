//! How a drill ends: what it prints, writes and keeps.

use std::{fs, path::Path, process::ExitCode};

use serde_json::Value;

use crate::broker::Home;

/// What the program says to the shell; a failure is printed under the drill's `name`.
#[must_use]
pub fn exit_code(name: &str, done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{name}: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the report, and writes it to `json` where that is asked for. The drill's folder goes where
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
    let text = format!("{report:#}\n");
    print!("{text}");
    if let Some(file) = json {
        fs::write(file, &text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    if failures.is_empty() {
        home.remove();
        return Ok(());
    }
    Err(keep(home, seed, &failures.join("; ")))
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
