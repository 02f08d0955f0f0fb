//! `millrace broker`: configuration, signals, exit codes.

use std::{fs::File, io, io::Read as _, path::Path, process::ExitCode};

use millrace_broker::{
    Broker, BrokerConfig, Closed, FolderError, InvalidProperties, Properties, StartError,
    StopReport, properties::PROPERTIES_BYTES_MAX,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::{command::BrokerOptions, descriptors, logging};

/// The device failed or another broker took over (BSD's `EX_SOFTWARE`).
const EXIT_FAILED: u8 = 70;
/// Another broker has the folder (`EX_TEMPFAIL`).
const EXIT_IN_USE: u8 = 75;
/// The configuration is wrong (`EX_CONFIG`).
const EXIT_CONFIG: u8 = 78;

/// The properties cannot be read.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error("--config {path}: {source}")]
    Io { path: String, source: io::Error },
    #[error(
        "--config {path}: it has more than {PROPERTIES_BYTES_MAX} bytes; is it the right file?"
    )]
    TooLarge { path: String },
    #[error(transparent)]
    Format(#[from] InvalidProperties),
}

pub(crate) fn run(options: &BrokerOptions) -> ExitCode {
    let config = match configure(options) {
        Ok(config) => config,
        Err(errors) => {
            errors
                .iter()
                .for_each(|error| eprintln!("millrace: {error}"));
            return ExitCode::from(EXIT_CONFIG);
        }
    };
    if options.check {
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
        return ExitCode::SUCCESS;
    }
    logging::install(options.log_format);
    descriptors::raise_limit(config.net.connections_max);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("no threads: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(serve(config));
    // Blocking work that hangs in the kernel must not keep the process.
    runtime.shutdown_background();
    code
}

fn configure(options: &BrokerOptions) -> Result<BrokerConfig, Vec<String>> {
    let properties = read(options).map_err(|error| vec![error.to_string()])?;
    BrokerConfig::new(&properties)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn read(options: &BrokerOptions) -> Result<Properties, ReadError> {
    let mut properties = match &options.config {
        Some(path) => Properties::parse(&read_text(path)?)?,
        None => Properties::default(),
    };
    for assignment in &options.overrides {
        properties.set_override(assignment)?;
    }
    Ok(properties)
}

fn read_text(path: &Path) -> Result<String, ReadError> {
    let shown = path.display().to_string();
    let io = |source| ReadError::Io {
        path: shown.clone(),
        source,
    };
    let mut text = String::new();
    let mut bounded = File::open(path).map_err(io)?.take(PROPERTIES_BYTES_MAX + 1);
    bounded.read_to_string(&mut text).map_err(io)?;
    if text.len() as u64 > PROPERTIES_BYTES_MAX {
        return Err(ReadError::TooLarge { path: shown });
    }
    Ok(text)
}

async fn serve(config: BrokerConfig) -> ExitCode {
    let (mut terminate, mut interrupt) = match (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) {
        (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!("signals cannot be heard: {error}");
            return ExitCode::FAILURE;
        }
    };
    let started = tokio::select! {
        started = Broker::start(config) => started,
        _ = terminate.recv() => return ExitCode::SUCCESS,
        _ = interrupt.recv() => return ExitCode::SUCCESS,
    };
    let broker = match started {
        Ok(broker) => broker,
        Err(error) => {
            tracing::error!("the broker did not start: {error}");
            return exit_code(&error);
        }
    };
    tokio::select! {
        reason = broker.failed() => {
            tracing::error!(%reason, "the broker cannot go on; what was acknowledged is safe");
            return ExitCode::from(EXIT_FAILED);
        }
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tokio::select! {
        report = broker.stop() => stop_code(&report),
        _ = async { tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} } } => {
            tracing::warn!("a second signal: stopping at once; the next start will recover");
            ExitCode::SUCCESS
        }
    }
}

/// What is left in the log is as good as uploaded: the next start has it.
fn stop_code(report: &StopReport) -> ExitCode {
    match &report.storage {
        Closed::Uploaded | Closed::InLog { .. } => ExitCode::SUCCESS,
        Closed::Failed(reason) => {
            tracing::error!(%reason, "the storage did not close; what was acknowledged is safe");
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn exit_code(error: &StartError) -> ExitCode {
    match error {
        StartError::Folder(FolderError::InUse { .. }) => ExitCode::from(EXIT_IN_USE),
        StartError::Admin(_) | StartError::Bind(_) => ExitCode::from(EXIT_CONFIG),
        _ => ExitCode::FAILURE,
    }
}
