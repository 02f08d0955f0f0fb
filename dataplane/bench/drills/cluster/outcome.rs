//! Whether everything held: the clients end, every partition is read from its beginning, and both are compared.

use std::time::Duration;

use millrace_bench::cluster::{Failure, Verdict, check, read_all};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{Clients, disruptions::Scene};

/// All brokers are there by then for the reading.
const ACTIVE_WAIT: Duration = Duration::from_secs(60);
/// Failures that are shown.
const EXAMPLES_MAX: usize = 10;

/// What is printed, and what was wrong.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) json: Value,
    /// Empty where everything held.
    pub(crate) faults: Vec<String>,
}

/// Ends the clients and compares. `stopped` is why the disruptions ended early.
pub(crate) fn of(
    runtime: &Runtime,
    clients: Clients,
    scene: &mut Scene<'_>,
    (topic, seed): (&str, u64),
    stopped: Option<String>,
) -> Result<Outcome, String> {
    let mut faults: Vec<String> = stopped.into_iter().collect();
    faults.extend(scene.brokers.until_active(ACTIVE_WAIT).err());
    faults.extend(clients.load.finish(runtime).err());
    let (offsets_back, groups) = clients.groups.finish(runtime)?;
    let recorded = scene.history.snapshot();
    let client = scene.brokers.client("reader");
    let partitions = scene.history.partitions();
    let found = runtime.block_on(read_all(&client, (topic, partitions), seed));
    let found = found.map_err(|error| format!("{}; {error}", faults.join("; ")))?;
    let verdict = check(&recorded, &found);
    let unstable = clients.follower.finish(runtime, &found)?;
    scene.brokers.tend()?;

    let count = |in_time| {
        let failures = recorded.failures.iter();
        failures
            .filter(|failure| failure.in_time == in_time)
            .count()
    };
    let (failed, timed_out) = (count(true), count(false));
    let exits = scene.brokers.exits();
    let unexpected = exits.iter().filter(|exit| !exit.is_expected).count();
    let panics = scene.brokers.panics();
    faults.extend(above_zero(&[
        (failed as u64, "failed"),
        (timed_out as u64, "timed_out"),
        (offsets_back, "offsets_back"),
        (unstable.len() as u64, "read_and_gone"),
        (unexpected as u64, "unexpected_exits"),
        (panics.len() as u64, "panics"),
        (
            scene.acknowledged_after_replacement,
            "acknowledged_after_replacement",
        ),
    ]));
    if !verdict.is_clean() {
        faults.push(described(&verdict));
    }
    let first = |failure: &Failure| format!("at {:?}: {}", failure.at, failure.what);
    let failures: Vec<String> = recorded
        .failures
        .iter()
        .take(EXAMPLES_MAX)
        .map(first)
        .collect();
    let stored: usize = found.values().map(Vec::len).sum();
    let json = json!({
        "seed": seed,
        "acknowledged_records": recorded.acks.len(),
        "stored_records": stored,
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "reordered": verdict.reordered,
        "offsets_back": offsets_back,
        "failed": failed,
        "timed_out": timed_out,
        "acknowledged_after_replacement": scene.acknowledged_after_replacement,
        "moves_skipped": scene.moves_skipped,
        "replaced_while_stopped": scene.replaced,
        "read_and_gone": unstable.len(),
        "unexpected_exits": unexpected,
        "verdict": verdict.json(),
        "unstable": unstable.iter().take(EXAMPLES_MAX).collect::<Vec<_>>(),
        "failures": failures,
        "panics": panics.iter().take(EXAMPLES_MAX).collect::<Vec<_>>(),
        "exits": exits.iter().map(|exit| exit.json()).collect::<Vec<_>>(),
        "groups": groups,
        "disruptions": scene.times.json(),
    });
    Ok(Outcome { json, faults })
}

fn above_zero<'a>(counts: &'a [(u64, &'a str)]) -> impl Iterator<Item = String> + 'a {
    let wrong = counts.iter().filter(|(count, _)| *count > 0);
    wrong.map(|(count, what)| format!("{what}: {count}"))
}

fn described(verdict: &Verdict) -> String {
    let Verdict {
        lost,
        duplicated,
        reordered,
        misplaced,
        invented,
        missing_offsets,
        ..
    } = verdict;
    format!(
        "lost {lost}, duplicated {duplicated}, reordered {reordered}, misplaced {misplaced}, invented \
         {invented}, missing offsets {missing_offsets}"
    )
}
