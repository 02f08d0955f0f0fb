//! One run of one contender, each in a process of its own.

use std::{
    error::Error,
    process::{Command, Stdio},
};

use millrace_bench::usage::peak_memory_kib;
use serde_json::{Value, json};

use crate::{
    contenders::InProcess,
    kafka::Kafka,
    workload::{Measured, Plan},
};

/// Somebody to measure.
#[derive(Debug, Clone)]
pub(crate) enum Contender {
    InProcess(InProcess),
    Kafka(Kafka),
}

/// What the report needs of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// Requests per second that were asked for; infinite where as many as possible.
    pub(crate) target_rate: f64,
    /// Requests per second that were handed over.
    pub(crate) actual_rate: f64,
    /// From the last arrival until all had ended.
    pub(crate) drain_ms: f64,
    pub(crate) cpu_seconds_per_million: f64,
    pub(crate) peak_mib: f64,
}

impl Contender {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::InProcess(contender) => contender.name(),
            Self::Kafka(_) => "kafka",
        }
    }

    /// Runs a plan in a process of its own.
    pub(crate) fn run(&self, plan: &Plan) -> Result<Run, Box<dyn Error>> {
        match self {
            Self::InProcess(contender) => run_again(*contender, plan),
            Self::Kafka(kafka) => kafka.run(plan),
        }
    }
}

/// What a million requests cost, where a plan's requests cost that.
pub(crate) fn per_million(plan: &Plan, cost: f64) -> f64 {
    cost * 1e6 / plan.requests as f64
}

/// The other side of [`run_again`]: runs the plan and prints what it showed.
pub(crate) fn run_here(contender: InProcess, plan: &Plan) -> Result<(), Box<dyn Error>> {
    let measured = contender.run(plan)?;
    check(plan, &measured)?;
    let run = json!({
        // JSON has no infinity; nothing means that.
        "target_rate": Some(measured.target_rate).filter(|rate| rate.is_finite()),
        "actual_rate": measured.actual_rate,
        "drain_ms": measured.drain.as_secs_f64() * 1_000.0,
        "cpu_seconds": measured.cpu.as_secs_f64(),
        "peak_mib": peak_memory_kib("self").unwrap_or_default() as f64 / 1_024.0,
        "completed": measured.completed,
        "expired": measured.expired,
    });
    println!("{run}");
    Ok(())
}

/// A contender that ends requests otherwise than the workload says does not take part.
pub(crate) fn check(plan: &Plan, measured: &Measured) -> Result<(), String> {
    let ended = measured.completed + measured.expired;
    if ended != plan.requests {
        return Err(format!("{ended} of {} requests ended", plan.requests));
    }
    if measured.expired < measured.slower {
        let (expired, slower) = (measured.expired, measured.slower);
        return Err(format!("{expired} requests expired of {slower} that must"));
    }
    Ok(())
}

fn run_again(contender: InProcess, plan: &Plan) -> Result<Run, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args(["run", contender.name(), plan.setting.name])
        .arg(plan.requests.to_string())
        .args([plan.rate.to_string(), plan.seed.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{} failed: {}", contender.name(), output.status).into());
    }
    let run: Value = serde_json::from_slice(&output.stdout)?;
    let number = |key: &str| run[key].as_f64();
    let must = |key: &str| number(key).ok_or_else(|| format!("a run shows no {key}"));
    Ok(Run {
        target_rate: number("target_rate").unwrap_or(f64::INFINITY),
        actual_rate: must("actual_rate")?,
        drain_ms: must("drain_ms")?,
        cpu_seconds_per_million: per_million(plan, must("cpu_seconds")?),
        peak_mib: must("peak_mib")?,
    })
}
