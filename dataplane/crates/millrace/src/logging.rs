//! Log lines on standard error, filtered by `MILLRACE_LOG` (as in `info,millrace_net=debug`).

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, filter::Targets, fmt, layer::SubscriberExt, util::SubscriberInitExt,
};

use crate::command::LogFormat;

/// Names the filter; `info` where it is not set.
const FILTER_VARIABLE: &str = "MILLRACE_LOG";

/// Installs the process's log. A filter that cannot be parsed is reported and replaced by `info`.
pub(crate) fn install(format: LogFormat) {
    let (filter, invalid) = match std::env::var(FILTER_VARIABLE).map(|text| text.parse::<Targets>())
    {
        Ok(Ok(filter)) => (filter, None),
        Ok(Err(error)) => (Targets::new().with_default(LevelFilter::INFO), Some(error)),
        Err(_) => (Targets::new().with_default(LevelFilter::INFO), None),
    };
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .init();
    std::panic::set_hook(Box::new(|panic| {
        // With its place: what a supervisor or a connection says of it has the message only.
        tracing::error!("{panic}");
    }));
    if let Some(error) = invalid {
        tracing::warn!(%error, "{FILTER_VARIABLE} is not a filter such as `info,millrace_net=debug`; using `info`");
    }
}
