//! Records over HTTP: `millrace-records` as routes.

use std::{convert::Infallible, time::Duration};

use axum::{
    Json,
    body::{Body, to_bytes},
    extract::{Path, Query, Request, State, rejection::QueryRejection},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use millrace_records::{
    BODY_BYTES_MAX, ErrorBody, ErrorKind, RETRY_AFTER, ReadQuery, Records, RecordsError,
    RecordsStream, StreamFormat, StreamQuery,
};
use serde::Serialize;
use tokio::time::timeout;

use super::AdminState;

/// How long the body of a produce request may take: it holds memory that others wait for.
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// The media type of server-sent events.
const EVENT_STREAM: &str = "text/event-stream";

/// An error as a response.
pub(super) struct Refusal(RecordsError);

impl From<RecordsError> for Refusal {
    fn from(error: RecordsError) -> Self {
        Self(error)
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self(RecordsError::query_unreadable(&rejection.body_text()))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Answer<'a> {
            error: ErrorBody<'a>,
        }
        let status = match self.0.kind {
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound | ErrorKind::Disabled => StatusCode::NOT_FOUND,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorKind::Busy => StatusCode::TOO_MANY_REQUESTS,
            ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let error = ErrorBody::new(&self.0);
        let answer = (status, Json(Answer { error })).into_response();
        match self.0.kind {
            ErrorKind::Busy | ErrorKind::Unavailable => {
                let seconds = RETRY_AFTER.as_secs().to_string();
                ([(header::RETRY_AFTER, seconds)], answer).into_response()
            }
            _ => answer,
        }
    }
}

type Parameters = Result<Query<Vec<(String, String)>>, QueryRejection>;

fn records(state: &AdminState) -> Result<Records, RecordsError> {
    state.broker.records()
}

/// `GET /v1/topics/{topic}/records`
pub(super) async fn read(
    State(state): State<AdminState>,
    Path(topic): Path<String>,
    parameters: Parameters,
) -> Result<Response, Refusal> {
    let query = ReadQuery::parse(parameters?.0)?;
    let page = records(&state)?.read(&topic, &query).await?;
    Ok(Json(page).into_response())
}

/// `POST /v1/topics/{topic}/records`
pub(super) async fn produce(
    State(state): State<AdminState>,
    Path(topic): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let records = records(&state)?;
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse().ok());
    let permit = records.admit_produce(announced).await?;
    let body = timeout(BODY_WITHIN, to_bytes(request.into_body(), BODY_BYTES_MAX));
    let body = match body.await {
        Ok(Ok(body)) => body,
        // Without a length announced, one that is too long ends like this as well.
        Ok(Err(error)) if announced.is_some() => {
            return Err(RecordsError::body_incomplete(&error.to_string()).into());
        }
        Ok(Err(_)) => return Err(RecordsError::body_too_large().into()),
        Err(_) => {
            let reason = format!("it took longer than {BODY_WITHIN:?}");
            return Err(RecordsError::body_incomplete(&reason).into());
        }
    };
    let produced = records.produce(permit, &topic, &body).await?;
    Ok(Json(produced).into_response())
}

/// `GET /v1/topics/{topic}/records/stream`
pub(super) async fn stream(
    State(state): State<AdminState>,
    Path(topic): Path<String>,
    headers: HeaderMap,
    parameters: Parameters,
) -> Result<Response, Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let query = StreamQuery::parse(parameters?.0, text("last-event-id"))?;
    let wants_events = text("accept").is_some_and(|accept| accept.contains(EVENT_STREAM));
    let (format, kind) = if wants_events {
        (StreamFormat::ServerSentEvents, EVENT_STREAM)
    } else {
        (StreamFormat::Ndjson, "application/x-ndjson")
    };
    let stream = records(&state)?.stream(&topic, query, format).await?;
    let head = [
        (header::CONTENT_TYPE.as_str(), kind),
        (header::CACHE_CONTROL.as_str(), "no-store"),
        // Proxies that buffer would hide the reader's pace.
        ("x-accel-buffering", "no"),
    ];
    Ok((head, body(stream)).into_response())
}

/// The connection polls the stream when its socket takes more, and drops it when the reader leaves.
fn body(stream: RecordsStream) -> Body {
    let next = |mut stream: RecordsStream| async {
        let chunk = stream.next().await?;
        Some((Ok::<_, Infallible>(chunk), stream))
    };
    Body::from_stream(futures_util::stream::unfold(stream, next))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millrace_api::ApiService;
    use millrace_model::NodeId;
    use millrace_tasks::Supervisor;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::{Records, RecordsError};
    use crate::{
        admin::{Admin, AdminListener, AdminState, Inspect, QuotasAnswer, Status, Token},
        catch_up::CatchUpAnswer,
        settings::ShownSetting,
        state::Serving,
        telemetry::Telemetry,
    };

    /// A broker that does not serve clients yet.
    struct Starting;

    impl Inspect for Starting {
        fn readiness(&self) -> Result<String, String> {
            Err("starting".to_owned())
        }

        fn status(&self) -> Status {
            unreachable!("nobody asks")
        }

        fn settings(&self) -> Vec<ShownSetting> {
            Vec::new()
        }

        fn show_memory(&self) {}

        fn quotas(&self) -> Option<QuotasAnswer> {
            None
        }

        fn catch_up(&self) -> Option<CatchUpAnswer> {
            None
        }

        fn records(&self) -> Result<Records, RecordsError> {
            Err(RecordsError::starting())
        }

        fn node_id(&self) -> NodeId {
            NodeId::from(0)
        }

        fn api(&self) -> Option<Arc<ApiService>> {
            None
        }

        fn cluster_id(&self) -> Option<&str> {
            None
        }

        fn serving(&self) -> Option<&Serving> {
            None
        }
    }

    #[tokio::test]
    async fn a_broker_that_is_starting_says_when_to_come_back() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let file = home.path().join("token");
        let secret = "x".repeat(32);
        std::fs::write(&file, &secret).expect("writable");
        let token = Token::read(&file).expect("strong");
        let listener = AdminListener::bind("127.0.0.1", 0)
            .await
            .expect("a free port");
        let telemetry = Telemetry::install().expect("free");
        let tasks = Supervisor::new();
        let state = AdminState::new(Arc::new(Starting), telemetry, token, &tasks);
        let admin = Admin::serve(listener, state, &tasks);
        let admin = admin.expect("it listens");
        for request in [
            "GET /v1/topics/t/records",
            "GET /v1/topics/t/records/stream",
            "POST /v1/topics/t/records",
            "GET /v1/users",
            "DELETE /v1/acls?principal=User:a&resource_type=topic&resource_name=t&pattern_type=literal\
             &operation=read&permission=allow&host=*",
            "GET /v1/topics",
            "DELETE /v1/topics/t",
            "GET /v1/groups/g",
        ] {
            let mut stream = TcpStream::connect(admin.address())
                .await
                .expect("it listens");
            let head = format!(
                "{request} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n\
                 Content-Length: 0\r\nConnection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.expect("open");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("text");
            for expected in [
                "HTTP/1.1 503",
                "retry-after: 1",
                r#"{"error":{"code":"BROKER_NOT_AVAILABLE","message":"the broker is starting"#,
            ] {
                assert!(answer.contains(expected), "{request}: {answer}");
            }
        }
        admin.stop();
    }
}
