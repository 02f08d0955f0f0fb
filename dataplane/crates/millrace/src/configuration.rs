//! The configuration that a command is given: `--config` and `--override`.

use std::{fs::File, io, io::Read as _, path::Path, process::ExitCode};

use millrace_broker::{BrokerConfig, InvalidProperties, PROPERTIES_BYTES_MAX, Properties};

use crate::command::BrokerFile;

/// The configuration is wrong (`EX_CONFIG`).
pub(crate) const EXIT_CONFIG: u8 = 78;

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

/// Reads the configuration.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn load(file: Option<&Path>, overrides: &[String]) -> Result<BrokerConfig, Vec<String>> {
    let properties = read(file, overrides).map_err(|error| vec![error.to_string()])?;
    BrokerConfig::new(&properties)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// The same; what is wrong is printed, and the exit code says so.
pub(crate) fn load_or_exit(broker: &BrokerFile) -> Result<BrokerConfig, ExitCode> {
    load(Some(&broker.config), &broker.overrides).map_err(|errors| {
        errors
            .iter()
            .for_each(|error| eprintln!("millrace: {error}"));
        ExitCode::from(EXIT_CONFIG)
    })
}

fn read(file: Option<&Path>, overrides: &[String]) -> Result<Properties, ReadError> {
    let mut properties = match file {
        Some(path) => Properties::parse(&read_text(path)?)?,
        None => Properties::default(),
    };
    for assignment in overrides {
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
