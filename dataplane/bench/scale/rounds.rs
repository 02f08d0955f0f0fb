//! The order of the measurements.

use millrace_bench::{
    machine::{Patience, wait_until_quiet},
    process::{fresh_folder, raise_descriptors},
};
use tokio::runtime::{Builder, Runtime};

use crate::{
    arguments::Options,
    axis::Axis,
    report::{Report, Rounds},
    step::{Plan, Step},
};

/// Measures all axes, one after the other.
pub(crate) fn measure(options: &Options) -> Result<Report, String> {
    let most = Axis::Connections.steps(options.quick).last();
    raise_descriptors(most.copied().unwrap_or(0))?;
    fresh_folder(&options.work).map_err(|error| error.to_string())?;
    // One thread for all clients: the broker shall have the other processors.
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| format!("starting a runtime: {error}"))?;
    let mut report = Report::new(options);
    for &axis in &options.axes {
        let rounds = grow(axis, options, &runtime, &mut report)?;
        report.add(axis, rounds);
    }
    Ok(report)
}

/// All rounds of an axis. The steps are in ascending order in one round and in descending order in the next.
fn grow(
    axis: Axis,
    options: &Options,
    runtime: &Runtime,
    report: &mut Report,
) -> Result<Vec<Rounds>, String> {
    let plan = if options.quick {
        Plan::QUICK
    } else {
        Plan::FULL
    };
    let mut steps = Vec::new();
    for &units in axis.steps(options.quick) {
        eprintln!("preparing {units} {}", axis.name());
        let places = (options.program.as_path(), options.work.as_path());
        steps.push(Step::prepare((axis, units), places, runtime)?);
    }
    let mut measured: Vec<Rounds> = steps
        .iter()
        .map(|step| Rounds {
            units: step.units,
            figures: Vec::new(),
        })
        .collect();
    for round in 0..options.rounds {
        let mut order: Vec<usize> = (0..steps.len()).collect();
        if !round.is_multiple_of(2) {
            order.reverse();
        }
        for at in order {
            report
                .idle_percent
                .push(wait_until_quiet(Patience::THOROUGH));
            let figures = steps[at].measure(&plan, runtime)?;
            eprintln!(
                "round {}, {} {}: {figures:?}",
                round + 1,
                steps[at].units,
                axis.name()
            );
            measured[at].figures.push(figures);
        }
    }
    steps.iter().for_each(Step::remove);
    Ok(measured)
}
