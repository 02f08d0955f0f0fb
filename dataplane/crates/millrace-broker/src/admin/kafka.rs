//! What the routes have in common that answer by Kafka's APIs: they ask as the control plane, and write errors
//! as records over HTTP have them.

use std::time::Duration;

use axum::{
    Json,
    body::to_bytes,
    extract::{Request, rejection::QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use millrace_api::OwnRequestError;
use millrace_client::ErrorCode as ErrorName;
use millrace_records::RecordsError;
use millrace_wire::{RequestMessage, StrBytes, error_code::ErrorCode};
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;

use super::{AdminState, records::Refusal};

/// The body of a change: some thousand ACLs, and far more than anything else takes.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How long the body may take.
const BODY_WITHIN: Duration = Duration::from_secs(10);

/// Why a request was not carried out.
pub(super) enum Refused {
    /// With Kafka's error.
    Kafka(ErrorCode, String),
    /// The body is larger than [`BODY_BYTES_MAX`].
    TooLarge,
    /// Clients are not served yet.
    Starting,
    /// There is no such path, or it does not take the method.
    NoRoute(StatusCode, String),
}

impl Refused {
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::Kafka(ErrorCode::InvalidRequest, message.into())
    }
}

impl From<QueryRejection> for Refused {
    fn from(rejection: QueryRejection) -> Self {
        Self::invalid(format!(
            "the parameters cannot be read: {}",
            rejection.body_text()
        ))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, code, message) = match self {
            Self::Starting => return Refusal::from(RecordsError::starting()).into_response(),
            Self::TooLarge => {
                let message =
                    format!("the body has more than {BODY_BYTES_MAX} bytes; send several requests");
                (
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "REQUEST_TOO_LARGE".to_owned(),
                    message,
                )
            }
            Self::NoRoute(status, message) => {
                (status, name_of(ErrorCode::UnsupportedVersion), message)
            }
            Self::Kafka(code, message) => (status_of(code), name_of(code), message),
        };
        (status, Json(Problem::new(code, message))).into_response()
    }
}

#[derive(Serialize)]
struct Problem {
    error: ProblemBody,
}

#[derive(Serialize)]
struct ProblemBody {
    /// Kafka's name of the error.
    code: String,
    message: String,
}

impl Problem {
    fn new(code: String, message: String) -> Self {
        Self {
            error: ProblemBody { code, message },
        }
    }
}

/// Kafka's name: `INVALID_CONFIG`.
fn name_of(code: ErrorCode) -> String {
    ErrorName::from_code(code.code()).map_or_else(String::new, |name| name.to_string())
}

fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::InvalidRequest
        | ErrorCode::InvalidConfig
        | ErrorCode::InvalidTopicException
        | ErrorCode::InvalidPartitions
        | ErrorCode::InvalidReplicationFactor
        | ErrorCode::InvalidReplicaAssignment
        | ErrorCode::InvalidGroupId
        | ErrorCode::PolicyViolation
        | ErrorCode::UnacceptableCredential
        | ErrorCode::UnsupportedSaslMechanism
        | ErrorCode::DuplicateResource => StatusCode::BAD_REQUEST,
        ErrorCode::ClusterAuthorizationFailed
        | ErrorCode::TopicAuthorizationFailed
        | ErrorCode::GroupAuthorizationFailed => StatusCode::FORBIDDEN,
        ErrorCode::ResourceNotFound
        | ErrorCode::UnknownTopicOrPartition
        | ErrorCode::UnknownTopicId
        | ErrorCode::GroupIdNotFound => StatusCode::NOT_FOUND,
        // What the request asks for contradicts what is there.
        ErrorCode::TopicAlreadyExists | ErrorCode::NonEmptyGroup | ErrorCode::SecurityDisabled => {
            StatusCode::CONFLICT
        }
        code if code.is_retriable() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Asks one of Kafka's APIs as the control plane.
pub(super) async fn ask<M: RequestMessage>(
    state: &AdminState,
    message: &M,
) -> Result<M::Response, Refused> {
    let service = state.broker.api().ok_or(Refused::Starting)?;
    service.ask(message).await.map_err(|error| match error {
        OwnRequestError::Closed(_) | OwnRequestError::Unencodable(_) => {
            Refused::invalid(error.to_string())
        }
        OwnRequestError::Unserved(_) | OwnRequestError::Silent | OwnRequestError::Malformed(_) => {
            Refused::Kafka(ErrorCode::UnknownServerError, error.to_string())
        }
    })
}

/// Nothing where the code of a response, or of a part of one, says that it succeeded.
pub(super) fn check(code: i16, message: Option<&StrBytes>) -> Result<(), Refused> {
    let Some(code) = ErrorCode::try_from_code(code) else {
        return Ok(());
    };
    let message = message.filter(|text| !text.is_empty());
    let message = message.map_or_else(|| code.to_string(), ToString::to_string);
    Err(Refused::Kafka(code, message))
}

/// Reads the body of a change.
pub(super) async fn body<T: DeserializeOwned>(request: Request) -> Result<T, Refused> {
    let length = request.headers().get(axum::http::header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|bytes| bytes > BODY_BYTES_MAX) {
        return Err(Refused::TooLarge);
    }
    let read = timeout(BODY_WITHIN, to_bytes(request.into_body(), BODY_BYTES_MAX));
    let body = match read.await {
        Ok(Ok(body)) => body,
        // Without a length announced, one that is too long ends like this as well.
        Ok(Err(_)) if length.is_none() => return Err(Refused::TooLarge),
        Ok(Err(error)) => {
            return Err(Refused::invalid(format!(
                "the body could not be read: {error}"
            )));
        }
        Err(_) => {
            let message = format!("the body took longer than {BODY_WITHIN:?}");
            return Err(Refused::invalid(message));
        }
    };
    serde_json::from_slice(&body)
        .map_err(|error| Refused::invalid(format!("the body is not the JSON of a change: {error}")))
}
