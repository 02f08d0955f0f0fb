//! The order of the runs, and what counts as keeping up.

use std::{error::Error, time::Duration};

use millrace_bench::machine::{Patience, wait_until_quiet};

use crate::{
    arguments::{Options, TIMEOUT, plan},
    contenders::InProcess,
    kafka::Kafka,
    report::{Report, Series},
    runs::{Contender, Run},
    workload::{SETTINGS, Setting},
};

/// A rate is kept up with where at least this share of it was reached,
const KEPT_UP_MIN: f64 = 0.95;
/// and the last request had ended this long after its deadline: who falls behind with expiring
/// does not keep up.
const DRAIN_MAX: Duration = Duration::from_millis(250);
/// From one rate that is tried to the next.
const STEP: f64 = 0.93;
/// How many are tried below what a contender reaches when nothing holds it back.
const STEPS_MAX: usize = 6;
/// The rate at which all contenders are compared: every one of them keeps up with it.
pub(crate) const EQUAL_RATE: f64 = 200_000.0;
/// Rounds at that rate; a run takes 5 s.
const EQUAL_ROUNDS: usize = 3;

/// Measures all contenders, alternating them.
pub(crate) fn measure(options: &Options) -> Result<Report, Box<dyn Error>> {
    let mut contenders: Vec<_> = InProcess::ALL.map(Contender::InProcess).into();
    if options.kafka {
        contenders.push(Contender::Kafka(Kafka::fetch()?));
    }
    let mut report = Report::new(options, &contenders);
    for contender in &contenders {
        eprintln!("warming up: {}", contender.name());
        contender.run(&plan(SETTINGS[0], options.requests, f64::INFINITY, 0))?;
    }
    for round in 0..options.rounds {
        report
            .idle_percent
            .push(wait_until_quiet(Patience::THOROUGH));
        for setting in SETTINGS {
            for contender in &contenders {
                let run = saturate(contender, setting, options.requests, round)?;
                say(round, contender, setting, &run);
                report.add(Series::Saturation, contender, setting, run);
            }
        }
        contenders.rotate_left(1);
    }
    let (rounds, settings) = if options.quick {
        (1, &SETTINGS[1..])
    } else {
        (EQUAL_ROUNDS, &SETTINGS[..])
    };
    for round in 0..rounds {
        report
            .idle_percent
            .push(wait_until_quiet(Patience::THOROUGH));
        for &setting in settings {
            for contender in &contenders {
                let plan = plan(setting, options.requests, EQUAL_RATE, seed(round));
                let run = contender.run(&plan)?;
                say(round, contender, setting, &run);
                report.add(Series::EqualRate, contender, setting, run);
            }
        }
        contenders.rotate_left(1);
    }
    Ok(report)
}

/// The highest rate at which a contender keeps up: what it reaches when nothing holds it back,
/// or the first rate below that it sustains. Where it sustains none of them, the last.
fn saturate(
    contender: &Contender,
    setting: Setting,
    requests: usize,
    round: usize,
) -> Result<Run, Box<dyn Error>> {
    let run_at = |rate| contender.run(&plan(setting, requests, rate, seed(round)));
    let mut target = run_at(f64::INFINITY)?.actual_rate;
    let mut run = run_at(target)?;
    for _ in 1..STEPS_MAX {
        if keeps_up(&run) {
            break;
        }
        target *= STEP;
        run = run_at(target)?;
    }
    Ok(run)
}

pub(crate) fn keeps_up(run: &Run) -> bool {
    let drain_ms_max = (TIMEOUT + DRAIN_MAX).as_millis() as f64;
    run.actual_rate >= run.target_rate * KEPT_UP_MIN && run.drain_ms <= drain_ms_max
}

/// The same for all contenders of a round.
fn seed(round: usize) -> u64 {
    round as u64 + 1
}

fn say(round: usize, contender: &Contender, setting: Setting, run: &Run) {
    eprintln!(
        "round {}, {}, {} timeouts: {:.0}/s of {:.0}/s, {:.2} CPU s per million, {:.0} MiB, drained in {:.0} ms",
        round + 1,
        contender.name(),
        setting.name,
        run.actual_rate,
        run.target_rate,
        run.cpu_seconds_per_million,
        run.peak_mib,
        run.drain_ms,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_up_with_only_if_requests_also_end_in_time() {
        let run = |actual_rate, drain_ms| Run {
            target_rate: 1_000.0,
            actual_rate,
            drain_ms,
            cpu_seconds_per_million: 1.0,
            peak_mib: 1.0,
        };
        assert!(keeps_up(&run(950.0, 450.0)));
        assert!(!keeps_up(&run(949.0, 200.0)));
        assert!(!keeps_up(&run(1_000.0, 451.0)));
    }
}
