//! Why a run could not be made.

use millrace_client::{BrokerError, ConsumerError, RequestError, producer::InvalidProducerConfig};

/// Why a run could not be made, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerfError {
    /// The flags do not fit together.
    #[error("{0}")]
    Usage(String),
    /// The cluster cannot be reached, or refuses.
    #[error("{what}: {source}")]
    Request {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        source: RequestError,
    },
    /// A consumer could not start.
    #[error("the consumer: {0}")]
    Consumer(#[from] ConsumerError),
    /// The machine refuses a file, a thread or a signal handler.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
}

impl PerfError {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    pub(crate) fn request(what: impl Into<String>) -> impl FnOnce(RequestError) -> Self {
        let what = what.into();
        |source| Self::Request { what, source }
    }

    pub(crate) fn broker(what: impl Into<String>) -> impl FnOnce(BrokerError) -> Self {
        let refused = Self::request(what);
        |error| refused(error.into())
    }

    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |source| Self::System { what, source }
    }

    /// Whether the command line is to blame.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}

impl From<InvalidProducerConfig> for PerfError {
    fn from(error: InvalidProducerConfig) -> Self {
        Self::Usage(error.to_string())
    }
}
