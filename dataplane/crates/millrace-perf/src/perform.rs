//! A run from its command line to its report.

use std::{
    fs::File,
    io::{IsTerminal, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use millrace_client::{Client, ClientConfig, metrics::MetricsSnapshot};
use millrace_time::{SharedClock, SharedRandom};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::{
    command_config,
    ending::Reason,
    error::PerfError,
    options::{PerfCommand, Plan, ProgressFormat, Workload},
    phases::Phase,
    producing::Produced,
    report::{CatchUp, ClientUse, EndToEnd, Flow, Report, page, per, seconds, table},
    run::{CaughtUp, Run},
    sampler::{Sample, Sampler, Totals},
    usage,
    verifier::{Sent, Verification},
    workload::{self, Done, Stage},
};

/// While consumers catch up, which may take less than a second, samples are this far apart.
const TICK: Duration = Duration::from_millis(200);
/// Otherwise every so many ticks.
const SAMPLE_TICKS: u32 = 5;
const MIB: f64 = (1 << 20) as f64;
/// Tells the brokers who asks.
const CLIENT_ID: &str = "millrace-perf";

/// Makes a run: shows its progress, prints its report, writes the files that were asked for.
///
/// SIGINT and SIGTERM end it early, with a report of what was done.
///
/// # Errors
/// The run could not be made. A run that was made and failed is a report without success.
pub async fn perform(
    command: PerfCommand,
    clock: SharedClock,
    random: SharedRandom,
) -> Result<Report, PerfError> {
    let plan = command.plan()?;
    let mut output = Output::open(&plan)?;
    let mut config = ClientConfig::new(&plan.run.bootstrap_server)
        .map_err(|error| PerfError::usage(format!("--bootstrap-server: {error}")))?;
    config.client_id = CLIENT_ID.to_owned();
    if let Some(file) = &plan.run.command_config {
        command_config::apply(file, &mut config)?;
    }
    config.clock = Arc::clone(&clock);
    config.random = Arc::clone(&random);
    let signals = Signals::catch()?;
    let client = Client::new(config);
    let stage = Stage::set(client, &plan).await?;
    let started_at = crate::moment::rfc3339(clock.wall_ms());
    let cpu_before = usage::cpu_seconds();
    let run = Run::begin(plan, clock, random);
    let mut sampler = Sampler::new();
    let done = watched(&run, &stage, signals, &mut sampler, &mut output).await?;
    let verification = verify(&run, &stage, &done).await?;
    let cpu_seconds = usage::cpu_seconds().zip(cpu_before);
    let used = ClientUse {
        cpu_seconds: cpu_seconds.map(|(after, before)| after - before),
        ..client_use(&run, &stage, &done, &sampler)
    };
    let report = report(&run, &done, sampler, (started_at, verification, used));
    output.finish(&report)?;
    Ok(report)
}

/// Does the workload, and samples it each second.
async fn watched(
    run: &Arc<Run>,
    stage: &Stage,
    mut signals: Signals,
    sampler: &mut Sampler,
    output: &mut Output,
) -> Result<Done, PerfError> {
    let work = workload::perform(run, stage);
    tokio::pin!(work);
    let deadline = async {
        match run.deadline_us {
            Some(us) => tokio::time::sleep(Duration::from_micros(us)).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(deadline);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let (mut is_late, mut tick) = (false, 0);
    let done = loop {
        tokio::select! {
            done = &mut work => break done?,
            _ = ticks.tick() => {
                let is_full = tick % SAMPLE_TICKS == 0;
                tick += 1;
                let is_catch_up = run.phases.at(run.phases.now_us()) == Phase::CatchUp;
                if (is_full || is_catch_up)
                    && let Some(sample) = sampler.sample(run)
                    && is_full
                {
                    output.progress(&sample);
                }
            }
            () = &mut deadline, if !is_late => {
                is_late = true;
                run.ending.end(Reason::Duration);
            }
            () = signals.any() => run.ending.end(Reason::Signal),
        }
    };
    if let Some(sample) = sampler.finish(run) {
        output.progress(&sample);
    }
    Ok(done)
}

/// Nothing unless it was asked for.
async fn verify(
    run: &Arc<Run>,
    stage: &Stage,
    done: &Done,
) -> Result<Option<Verification>, PerfError> {
    if run.plan.workload == Workload::Produce && run.verifier.is_some() {
        workload::read_back(run, stage).await?;
    }
    let sent: Vec<Sent> = done.produced.iter().map(|one| one.sent.clone()).collect();
    let verifier = run.verifier.as_ref();
    Ok(verifier.map(|verifier| verifier.lock().finish(run.id, &sent)))
}

fn report(
    run: &Run,
    done: &Done,
    sampler: Sampler,
    (started_at, verification, client): (String, Option<Verification>, ClientUse),
) -> Report {
    let measured = [Phase::Backlog, Phase::Test, Phase::CatchUp];
    let begin = run.phases.warmup_ends_us();
    let lasted = |end: u64| seconds(end.saturating_sub(begin));
    let produced = sampler.produced.of(&measured);
    let mut consumed = sampler.consumed.of(&measured);
    let is_mixed = run.plan.workload == Workload::Mixed;
    let end_to_end = (run.plan.produce.is_some() && run.plan.consume.is_some()).then(|| EndToEnd {
        latency_ms: consumed.latencies.summary(),
    });
    if is_mixed {
        consumed.merge(&sampler.replayed.of(&measured));
    }
    let consumed_seconds = match run.plan.workload {
        // Before that, nobody consumed.
        Workload::CatchUp => seconds(done.consumed_us.saturating_sub(done.catch_up_begins_us)),
        _ => lasted(done.consumed_us),
    };
    let parameters = serde_json::to_value(run.plan.parameters());
    let produces = run.plan.produce.is_some();
    let consumes = run.plan.consume.is_some();
    Report {
        version: Report::VERSION,
        workload: run.plan.workload,
        started_at,
        duration_seconds: lasted(done.produced_us.max(done.consumed_us)),
        ended_by: run.ending.reason(),
        failure: run.ending.failure().map(ToOwned::to_owned),
        parameters: parameters.expect("options are always JSON"),
        produced: produces.then(|| Flow::of(&produced, lasted(done.produced_us))),
        consumed: consumes.then(|| Flow::of(&consumed, consumed_seconds)),
        end_to_end,
        catch_up: catch_up(run, done, &sampler.produced, &sampler.consumed),
        verification,
        client,
        samples: sampler.into_samples(),
    }
}

fn catch_up(run: &Run, done: &Done, produced: &Totals, consumed: &Totals) -> Option<CatchUp> {
    if run.plan.workload != Workload::CatchUp {
        return None;
    }
    let before = produced.of(&[Phase::Warmup, Phase::Backlog]);
    let end = run.progress.has_caught_up();
    // Until the last record where they have not caught up.
    let until = end.unwrap_or_else(|| {
        let read = consumed.of(&Phase::ALL);
        CaughtUp {
            at_us: done.consumed_us,
            records: read.records,
            bytes: read.bytes,
        }
    });
    let lasted = seconds(until.at_us.saturating_sub(done.catch_up_begins_us));
    let latency = |phase| produced.of(&[phase]).latencies.summary();
    Some(CatchUp {
        backlog_records: before.records,
        backlog_bytes: before.bytes,
        seconds: lasted,
        records: until.records,
        bytes: until.bytes,
        records_per_second: per(until.records, lasted),
        bytes_per_second: per(until.bytes, lasted),
        complete: end.is_some(),
        produce_latency_before_ms: latency(Phase::Backlog),
        produce_latency_during_ms: latency(Phase::CatchUp),
    })
}

fn client_use(run: &Run, stage: &Stage, done: &Done, sampler: &Sampler) -> ClientUse {
    let metrics = stage.client.metrics();
    let of = |api: &str, part: fn(&millrace_client::metrics::RequestMetrics) -> u64| {
        metrics.requests.get(api).map_or(0, part)
    };
    let (produce_requests, fetch_requests) = (of("Produce", |m| m.sent), of("Fetch", |m| m.sent));
    let sum_produced = |part: fn(&Produced) -> u64| done.produced.iter().map(part).sum();
    let sum_consumed = |part: fn(&millrace_client::consumer::ConsumerMetrics) -> u64| -> u64 {
        done.consumed.iter().map(part).sum()
    };
    let (batches, records): (u64, u64) = if run.plan.produce.is_some() {
        (
            sum_produced(|one| one.metrics.batches),
            sum_produced(|one| one.metrics.records),
        )
    } else {
        (
            sum_consumed(|one| one.delivered_batches),
            sampler.consumed.of(&Phase::ALL).records,
        )
    };
    let mut errors = run.produced.errors();
    errors.extend(run.consumed.errors());
    ClientUse {
        requests: produce_requests + fetch_requests,
        produce_requests,
        fetch_requests,
        batches,
        records_per_batch: (batches > 0).then(|| records as f64 / batches as f64),
        retried_batches: sum_produced(|one| one.metrics.retried_batches),
        sent_bytes: total(&metrics, |one| one.sent_bytes),
        received_bytes: total(&metrics, |one| one.received_bytes),
        fetched_bytes: sum_consumed(|one| one.fetched_bytes),
        discarded_bytes: sum_consumed(|one| one.discarded_bytes),
        unsent_records: sum_produced(|one| one.unsent),
        cpu_seconds: None,
        peak_memory_bytes: usage::peak_memory_bytes(),
        errors,
    }
}

fn total(
    metrics: &MetricsSnapshot,
    part: fn(&millrace_client::metrics::RequestMetrics) -> u64,
) -> u64 {
    let both = ["Produce", "Fetch"].into_iter();
    both.filter_map(|api| metrics.requests.get(api))
        .map(part)
        .sum()
}

/// Requests to end early.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn catch() -> Result<Self, PerfError> {
        let catch = |kind| signal(kind).map_err(PerfError::system("signals"));
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
        })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Where a run's progress and its report go. The files are opened first, so that no run is made whose
/// report cannot be written.
struct Output {
    format: ProgressFormat,
    /// Whether a line can be written over.
    is_terminal: bool,
    json: Option<(PathBuf, File)>,
    page: Option<(PathBuf, File)>,
}

impl Output {
    fn open(plan: &Plan) -> Result<Self, PerfError> {
        let open = |path: &Option<PathBuf>| match path {
            None => Ok(None),
            Some(path) => match File::create(path) {
                Ok(file) => Ok(Some((path.clone(), file))),
                Err(error) => Err(PerfError::system(path.display().to_string())(error)),
            },
        };
        Ok(Self {
            format: plan.run.progress,
            is_terminal: std::io::stderr().is_terminal(),
            json: open(&plan.run.json)?,
            page: open(&plan.run.report)?,
        })
    }

    fn progress(&self, sample: &Sample) {
        // A reader that has gone must not end the run.
        let _ = match self.format {
            ProgressFormat::None => Ok(()),
            ProgressFormat::Json => match serde_json::to_string(sample) {
                Ok(line) => writeln!(std::io::stdout(), "{line}"),
                Err(_) => Ok(()),
            },
            ProgressFormat::Text => {
                let (start, end) = if self.is_terminal {
                    ("\r\x1b[K", "")
                } else {
                    ("", "\n")
                };
                write!(std::io::stderr(), "{start}{}{end}", line(sample))
            }
        };
    }

    fn finish(&mut self, report: &Report) -> Result<(), PerfError> {
        let shown = serde_json::to_value(report).expect("a report is always JSON");
        if self.format == ProgressFormat::Text && self.is_terminal {
            let _ = writeln!(std::io::stderr());
        }
        let _ = if self.format == ProgressFormat::Json {
            let mut line = json!({ "kind": "report" });
            merge(&mut line, &shown);
            writeln!(std::io::stdout(), "{line}")
        } else {
            write!(std::io::stdout(), "{}", table(report))
        };
        if let Some((path, file)) = &mut self.json {
            let written = writeln!(file, "{shown:#}");
            written.map_err(PerfError::system(path.display().to_string()))?;
        }
        if let Some((path, file)) = &mut self.page {
            let written = file.write_all(page(report).as_bytes());
            written.map_err(PerfError::system(path.display().to_string()))?;
        }
        Ok(())
    }
}

fn merge(to: &mut Value, from: &Value) {
    if let (Some(to), Some(from)) = (to.as_object_mut(), from.as_object()) {
        to.extend(from.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

/// `12.0 s test: produced 1,000/s, 0.98 MiB/s, p50 2.10 ms, p99 4.00 ms; consumed …`
fn line(sample: &Sample) -> String {
    let phase = match sample.phase {
        Phase::Warmup => "warm-up",
        Phase::Backlog => "backlog",
        Phase::Test => "test",
        Phase::CatchUp => "catch-up",
    };
    let mut text = format!("{:.1} s {phase}", sample.elapsed_seconds);
    for (name, flow) in [
        ("produced", &sample.produced),
        ("consumed", &sample.consumed),
    ] {
        let Some(flow) = flow else { continue };
        text += &format!(
            " | {name} {:.0}/s, {:.2} MiB/s",
            flow.records_per_second,
            flow.bytes_per_second / MIB
        );
        if let Some(latency) = &flow.latency_ms {
            text += &format!(", p50 {:.2} ms, p99 {:.2} ms", latency.p50, latency.p99);
        }
        if let Some(lag) = flow.lag_records {
            text += &format!(", lag {lag}");
        }
        if flow.errors > 0 {
            text += &format!(", {} errors", flow.errors);
        }
    }
    text
}
