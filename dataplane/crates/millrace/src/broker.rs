//! `millrace broker`: configuration, signals, exit codes.

use std::{fmt::Display, process::ExitCode, time::Duration};

use millrace_broker::{
    Broker, BrokerConfig, BrokerFailure, Closed, FolderError, StartError, StopReport, ThisMachine,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    command::BrokerOptions, configuration, configuration::EXIT_CONFIG, descriptors, logging,
};

/// The broker could not start.
const EXIT_NOT_STARTED: u8 = 1;
/// Metadata, log and bucket do not belong together (`EX_DATAERR`): restarting finds the same.
const EXIT_MISMATCH: u8 = 65;
/// The device failed or another broker took over (BSD's `EX_SOFTWARE`).
const EXIT_FAILED: u8 = 70;
/// Another broker has the folder (`EX_TEMPFAIL`).
pub(crate) const EXIT_IN_USE: u8 = 75;
/// A task failed: the first number behind those of BSD.
const EXIT_TASK: u8 = 79;

/// A broker that failed is gone after this long, whatever hangs: within the two seconds that
/// `/readyz` and the supervisor of the process are promised.
const END_WITHIN: Duration = Duration::from_millis(1_700);

/// Why the program ends with another exit code than 0.
struct Ended {
    code: u8,
    reason: String,
}

impl Ended {
    fn new(code: u8, reason: impl Display) -> Self {
        let reason = reason.to_string();
        Self { code, reason }
    }

    /// Prints the last line: see `main`.
    fn report(&self) {
        let reason = self.reason.replace('\n', "; ");
        eprintln!("millrace: exit {}: {reason}", self.code);
    }
}

pub(crate) fn run(options: &BrokerOptions) -> ExitCode {
    match run_to_end(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(ended) => {
            ended.report();
            ExitCode::from(ended.code)
        }
    }
}

fn run_to_end(options: &BrokerOptions) -> Result<(), Ended> {
    let loaded = configuration::load(options.config.as_deref(), &options.overrides);
    let config = loaded.map_err(|errors| {
        errors
            .iter()
            .for_each(|error| eprintln!("millrace: {error}"));
        Ended::new(EXIT_CONFIG, errors.join("; "))
    })?;
    if options.check {
        let mut config = config;
        let fits = config.fit(&ThisMachine::default());
        fits.map_err(|error| Ended::new(EXIT_CONFIG, error))?;
        for setting in &config.settings {
            println!(
                "{}={}",
                setting.key,
                setting.value.as_deref().unwrap_or("(hidden)")
            );
        }
        config
            .unknown
            .iter()
            .for_each(|unknown| eprintln!("millrace: unknown setting {unknown}"));
        return Ok(());
    }
    logging::install(options.log_format);
    descriptors::raise_limit(config.net.connections_max);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Ended::new(EXIT_NOT_STARTED, format!("no threads: {error}")))?;
    let ended = runtime.block_on(serve(config));
    // Blocking work that hangs in the kernel must not keep the process.
    runtime.shutdown_background();
    ended
}

async fn serve(config: BrokerConfig) -> Result<(), Ended> {
    let (mut terminate, mut interrupt) = match (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) {
        (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
        (Err(error), _) | (_, Err(error)) => {
            let reason = format!("signals cannot be heard: {error}");
            return Err(Ended::new(EXIT_NOT_STARTED, reason));
        }
    };
    let started = tokio::select! {
        started = Broker::start(config) => started,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let broker = match started {
        Ok(broker) => broker,
        Err(error) => {
            tracing::error!("the broker did not start: {error}");
            let ended = Ended::new(exit_code(&error), &error);
            if let StartError::Task(_) = error {
                end_in_time(&ended);
            }
            return Err(ended);
        }
    };
    tokio::select! {
        failure = broker.failed() => {
            tracing::error!(%failure, "the broker cannot go on; what was acknowledged is safe");
            let code = match &failure {
                BrokerFailure::Storage(_) => EXIT_FAILED,
                BrokerFailure::Task(_) => EXIT_TASK,
            };
            let ended = Ended::new(code, &failure);
            end_in_time(&ended);
            broker.abandon().await;
            return Err(ended);
        }
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tokio::select! {
        report = broker.stop() => stopped(&report),
        _ = async { tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} } } => {
            tracing::warn!("a second signal: stopping at once; the next start will recover");
            Ok(())
        }
    }
}

/// What is left in the log is as good as uploaded: the next start has it.
fn stopped(report: &StopReport) -> Result<(), Ended> {
    match &report.storage {
        Closed::Uploaded | Closed::InLog { .. } => Ok(()),
        Closed::Halted { streams } => {
            tracing::warn!(
                streams = streams.len(),
                "the write-ahead log keeps what halted streams have"
            );
            Ok(())
        }
        Closed::Failed(reason) => {
            tracing::error!(%reason, "the storage did not close; what was acknowledged is safe");
            let reason = format!("the storage did not close: {reason}");
            Err(Ended::new(EXIT_FAILED, reason))
        }
    }
}

/// Ends the process in time, also where a part that failed keeps the others from ending.
fn end_in_time(ended: &Ended) {
    let Ended { code, reason } = ended;
    let late = Ended::new(*code, reason);
    // Not supervised: it ends the supervised.
    std::thread::spawn(move || {
        std::thread::park_timeout(END_WITHIN);
        late.report();
        std::process::exit(i32::from(late.code));
    });
}

fn exit_code(error: &StartError) -> u8 {
    match error {
        StartError::Task(_) => EXIT_TASK,
        StartError::Storage(error) if error.is_mismatch() => EXIT_MISMATCH,
        StartError::Folder(FolderError::InUse { .. }) => EXIT_IN_USE,
        StartError::Admin(_)
        | StartError::Bind(_)
        | StartError::KeySet(_)
        | StartError::Memory(_) => EXIT_CONFIG,
        _ => EXIT_NOT_STARTED,
    }
}
