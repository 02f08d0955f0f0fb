//! What can go wrong, with a code for programs and a text for people.

use std::borrow::Cow;

use millrace_client::{
    BrokerError, ConsumerError, ErrorCode, RequestError,
    producer::{DeliveryError, SendError},
};

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Change the request.
    Invalid,
    /// Name something that exists.
    NotFound,
    /// Ask the operator to enable it.
    Disabled,
    /// Send less.
    TooLarge,
    /// Come back later: too much is going on.
    Busy,
    /// Come back later: the broker cannot answer now.
    Unavailable,
    /// Tell the operator.
    Failed,
}

/// Why a request has no answer. The text is for the caller and says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RecordsError {
    /// What the caller can do.
    pub kind: ErrorKind,
    /// Kafka's name of the error where it has one.
    pub code: Cow<'static, str>,
    /// The text.
    pub message: String,
}

impl RecordsError {
    fn new(kind: ErrorKind, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: code.into(),
            message: message.into(),
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, "INVALID_REQUEST", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        let code = "UNKNOWN_TOPIC_OR_PARTITION";
        Self::new(ErrorKind::NotFound, code, message)
    }

    pub(crate) fn out_of_range(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, "OFFSET_OUT_OF_RANGE", message)
    }

    /// The body of a request is larger than [`crate::BODY_BYTES_MAX`].
    #[must_use]
    pub fn body_too_large() -> Self {
        let max = crate::limits::BODY_BYTES_MAX;
        let message = format!("the body has more than {max} bytes; send the records in parts");
        Self::new(ErrorKind::TooLarge, "REQUEST_TOO_LARGE", message)
    }

    /// The parameters are not encoded as a URL's are.
    #[must_use]
    pub fn query_unreadable(reason: &str) -> Self {
        Self::invalid(format!("the parameters cannot be read: {reason}"))
    }

    /// The body of a request did not arrive.
    #[must_use]
    pub fn body_incomplete(reason: &str) -> Self {
        Self::invalid(format!("the body could not be read: {reason}"))
    }

    /// The broker does not serve clients yet.
    #[must_use]
    pub fn starting() -> Self {
        let message = "the broker is starting; ask again once /readyz says ready";
        Self::new(ErrorKind::Unavailable, "BROKER_NOT_AVAILABLE", message)
    }

    /// The broker is configured not to serve records over HTTP.
    #[must_use]
    pub fn disabled() -> Self {
        let message = "this broker does not serve records over HTTP; use a Kafka client, or set \
                       admin.records.enabled=true and restart the broker";
        Self::new(ErrorKind::Disabled, "RECORDS_DISABLED", message)
    }

    /// An earlier attempt has stored a record, and its answer was lost.
    pub(crate) fn offset_unknown() -> Self {
        let message = "the record is stored, but its offset is not known: the answer to the attempt \
                       that stored it was lost; do not send it again";
        Self::new(ErrorKind::Failed, "DUPLICATE_SEQUENCE_NUMBER", message)
    }

    pub(crate) fn stopping() -> Self {
        let message = "the broker is stopping; continue at another one, or once it is back";
        Self::new(ErrorKind::Unavailable, "BROKER_NOT_AVAILABLE", message)
    }

    pub(crate) fn busy(what: &str, max: usize) -> Self {
        let message = format!("{max} {what} are running, which is the maximum; try again later");
        Self::new(ErrorKind::Busy, "TOO_MANY_REQUESTS", message)
    }

    pub(crate) fn no_memory() -> Self {
        let message = "other requests use all of the memory for records over HTTP; try again later, \
                       or with a lower max_bytes";
        Self::new(ErrorKind::Busy, "TOO_MANY_REQUESTS", message)
    }

    pub(crate) fn no_memory_for_batch() -> Self {
        let message = "the next batch decompresses to more than 1 MiB, and other requests use the \
                       memory for such batches; try again later, or with a higher max_wait_ms";
        Self::new(ErrorKind::Busy, "TOO_MANY_REQUESTS", message)
    }

    fn broker(error: &BrokerError, message: String) -> Self {
        let code = error.code;
        let kind = if code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
            ErrorKind::NotFound
        } else if [
            ErrorCode::INVALID_TOPIC,
            ErrorCode::OFFSET_OUT_OF_RANGE,
            ErrorCode::INVALID_RECORD,
            ErrorCode::POLICY_VIOLATION,
        ]
        .contains(&code)
        {
            ErrorKind::Invalid
        } else if code == ErrorCode::MESSAGE_TOO_LARGE {
            ErrorKind::TooLarge
        } else if code.is_retriable() {
            ErrorKind::Unavailable
        } else {
            ErrorKind::Failed
        };
        Self {
            kind,
            code: code.to_string().into(),
            message,
        }
    }

    fn request(error: &RequestError, message: String) -> Self {
        match error {
            RequestError::Broker(error) => Self::broker(error, message),
            RequestError::TimedOut { .. } => {
                Self::new(ErrorKind::Unavailable, "REQUEST_TIMED_OUT", message)
            }
            _ if error.is_retriable() => {
                Self::new(ErrorKind::Unavailable, "NETWORK_EXCEPTION", message)
            }
            _ => Self::new(ErrorKind::Failed, "UNKNOWN_SERVER_ERROR", message),
        }
    }
}

impl From<RequestError> for RecordsError {
    fn from(error: RequestError) -> Self {
        Self::request(&error, error.to_string())
    }
}

impl From<ConsumerError> for RecordsError {
    fn from(error: ConsumerError) -> Self {
        let message = error.to_string();
        match &error {
            ConsumerError::Request(error) => Self::request(error, message),
            ConsumerError::Partition { error, .. } => Self::broker(error, message),
            ConsumerError::NoOffset { .. } | ConsumerError::Truncated { .. } => {
                Self::out_of_range(message)
            }
            ConsumerError::Corrupt { .. } => {
                Self::new(ErrorKind::Failed, "CORRUPT_MESSAGE", message)
            }
            _ => Self::new(ErrorKind::Failed, "UNKNOWN_SERVER_ERROR", message),
        }
    }
}

impl From<SendError> for RecordsError {
    fn from(error: SendError) -> Self {
        let message = error.to_string();
        match &error {
            SendError::Metadata(error) => Self::request(error, message),
            SendError::InvalidPartition { .. } => Self::not_found(message),
            SendError::TooLarge { .. } => {
                Self::new(ErrorKind::TooLarge, "MESSAGE_TOO_LARGE", message)
            }
            SendError::NoMemory(_) => Self::new(ErrorKind::Busy, "REQUEST_TIMED_OUT", message),
            _ => Self::new(ErrorKind::Failed, "UNKNOWN_SERVER_ERROR", message),
        }
    }
}

impl From<DeliveryError> for RecordsError {
    fn from(error: DeliveryError) -> Self {
        let message = error.to_string();
        match &error {
            DeliveryError::Broker(error) | DeliveryError::InvalidRecord(error) => {
                Self::broker(error, message)
            }
            DeliveryError::TimedOut { .. } => {
                Self::new(ErrorKind::Unavailable, "REQUEST_TIMED_OUT", message)
            }
            DeliveryError::Request(error) => Self::request(error, message),
            _ => Self::new(ErrorKind::Failed, "UNKNOWN_SERVER_ERROR", message),
        }
    }
}
