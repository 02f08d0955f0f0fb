//! Log lines on standard error, filtered by `MILLRACE_LOG` (as in `info,millrace_net=debug`).

use tracing_subscriber::{EnvFilter, fmt};

use crate::command::LogFormat;

/// Names the filter; `info` where it is not set.
const FILTER_VARIABLE: &str = "MILLRACE_LOG";

pub(crate) fn install(format: LogFormat) {
    let filter =
        EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
}
