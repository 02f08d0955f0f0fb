//! The runtime of the commands that end by themselves.

use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};

/// Builds the runtime, or prints why that failed.
///
/// # Errors
/// The exit code.
pub(crate) fn build_or_exit(mut builder: Builder) -> Result<Runtime, ExitCode> {
    builder.enable_all().build().map_err(|error| {
        eprintln!("millrace: {error}");
        ExitCode::FAILURE
    })
}
