//! The admin HTTP: health, metrics, status and configuration, on a port of its own.
//!
//! `/healthz` is open, so that a load balancer may ask it. Everything else wants the bearer token.

use std::{fs, io, net::SocketAddr, path::Path, sync::Arc};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use millrace_tasks::{Supervisor, Task};
use serde::Serialize;
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::{catch_up::CatchUpAnswer, settings::ShownSetting, telemetry::Telemetry};

/// The shortest token that is taken, in bytes: 128 bits in hexadecimal.
const TOKEN_BYTES_MIN: usize = 32;

/// The admin HTTP cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The token's file cannot be read.
    #[error("admin.token.file {path}: {source}; write a token of 32 or more characters into it")]
    Token {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The token is short enough to be guessed.
    #[error(
        "admin.token.file {path}: the token has fewer than {TOKEN_BYTES_MIN} characters; write a longer one, such as the output of `openssl rand -hex 32`"
    )]
    WeakToken {
        /// The file.
        path: String,
    },
    /// The port is taken, or not allowed.
    #[error("admin.listener {address}: {source}; choose another port, or 0 for any free one")]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The secret that callers show.
#[derive(Clone)]
pub(crate) struct Token(Option<Arc<str>>);

impl Token {
    /// No token: what needs one is refused to everybody.
    #[must_use]
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Reads the token from its file.
    ///
    /// # Errors
    /// The file cannot be read, or its token is too short.
    pub(crate) fn read(path: &Path) -> Result<Self, AdminError> {
        let shown = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|source| AdminError::Token {
            path: shown.clone(),
            source,
        })?;
        match text.trim() {
            token if token.len() >= TOKEN_BYTES_MIN => Ok(Self(Some(token.into()))),
            _ => Err(AdminError::WeakToken { path: shown }),
        }
    }

    /// Compares in a time that does not tell how much was right.
    fn admits(&self, shown: &str) -> bool {
        let Some(token) = &self.0 else { return false };
        let (token, shown) = (token.as_bytes(), shown.as_bytes());
        let differing = token
            .iter()
            .zip(shown)
            .fold(0, |bits, (a, b)| bits | (a ^ b));
        token.len() == shown.len() && differing == 0
    }
}

/// What `/v1/status` answers.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Status {
    /// The program's version.
    pub(crate) version: &'static str,
    /// `starting`, `running` or `stopping`.
    pub(crate) phase: &'static str,
    /// Kafka's cluster id.
    pub(crate) cluster_id: String,
    /// `node.id`
    pub(crate) node_id: u32,
    /// Counts the starts of this node.
    pub(crate) node_epoch: u64,
    /// Milliseconds since the start.
    pub(crate) uptime_ms: u64,
    /// What clients are told, as `NAME://host:port`.
    pub(crate) listeners: Vec<String>,
    /// Topics, internal ones included.
    pub(crate) topics: usize,
    /// Partitions of those.
    pub(crate) partitions: usize,
    /// Open client connections.
    pub(crate) connections: usize,
    /// Requests whose responses have not been written.
    pub(crate) requests_in_flight: usize,
    /// The one bound on memory, and which part has how much of it.
    pub(crate) memory: MemoryStatus,
    /// Consumer groups; `null` until clients are served.
    pub(crate) groups: Option<GroupStatus>,
    /// The storage engine; `null` until clients are served.
    pub(crate) storage: Option<StorageStatus>,
    /// Why nothing is uploaded or deleted: the bucket has not been checked since the start. `null` where
    /// it has.
    pub(crate) uploads_wait_for: Option<String>,
    /// Partitions that did not open and are not served, [`LISTED_MAX`] of them at most.
    pub(crate) offline_partitions: Vec<OfflinePartition>,
    /// How many there are.
    pub(crate) offline_partitions_total: usize,
    /// Parts of objects that are not what was written, [`LISTED_MAX`] of them at most.
    pub(crate) corrupt_parts: Vec<CorruptPartStatus>,
    /// How many there are.
    pub(crate) corrupt_parts_total: usize,
}

/// Entries of one list in `/v1/status`: bounds the answer, which a worker asks for every few seconds.
pub(crate) const LISTED_MAX: usize = 100;

/// A partition that is not served, in `/v1/status`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct OfflinePartition {
    /// Its topic.
    pub(crate) topic: String,
    /// Its index.
    pub(crate) partition: u32,
    /// `corrupt`, `gone` or `rejected`.
    pub(crate) class: &'static str,
    /// Why, for the operator.
    pub(crate) reason: String,
}

/// A corrupt part of an object, in `/v1/status`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct CorruptPartStatus {
    /// The object's key in the bucket.
    pub(crate) object: String,
    /// `block`, `index`, `footer` or `truncated`.
    pub(crate) part: &'static str,
    /// The stream that cannot be read because of it, where that is known.
    pub(crate) stream: Option<u64>,
    /// The first offset that cannot be read.
    pub(crate) from_offset: Option<u64>,
    /// One past the last such offset.
    pub(crate) to_offset: Option<u64>,
    /// What the check found.
    pub(crate) reason: String,
}

/// The memory in `/v1/status`. All in bytes.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MemoryStatus {
    /// What the machine, or the control group, has; `null` where that cannot be told.
    pub(crate) machine_bytes: Option<u64>,
    /// What the whole broker may have.
    pub(crate) bound_bytes: u64,
    /// The parts; their bounds sum up to `bound_bytes` at most.
    pub(crate) parts: Vec<MemoryPartStatus>,
}

/// One part of the memory.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct MemoryPartStatus {
    /// `log_cache`, `block_cache`, `network`, `groups`, `producers`, `partitions` or `work`.
    pub(crate) name: &'static str,
    /// The setting that bounds it, if one does.
    pub(crate) setting: Option<&'static str>,
    /// What it may have.
    pub(crate) bound_bytes: u64,
    /// What it has; `null` where that is not counted, or clients are not served yet.
    pub(crate) used_bytes: Option<u64>,
}

/// Consumer groups in `/v1/status`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct GroupStatus {
    /// Groups.
    pub(crate) groups: usize,
    /// How many there may be.
    pub(crate) groups_max: usize,
    /// Their members.
    pub(crate) members: usize,
    /// Their committed offsets.
    pub(crate) committed_offsets: usize,
}

/// The storage engine in `/v1/status`. All in bytes but the last.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StorageStatus {
    /// The write-ahead log's ring.
    pub(crate) wal_capacity_bytes: u64,
    /// What of it is needed.
    pub(crate) wal_used_bytes: u64,
    /// How long the rest lasts at the present rate, in seconds; at most a day.
    pub(crate) wal_seconds_left: f64,
    /// Entries in the log cache.
    pub(crate) log_cache_used_bytes: u64,
    /// The log cache's bound.
    pub(crate) log_cache_capacity_bytes: u64,
    /// What is not in objects yet.
    pub(crate) upload_pending_bytes: u64,
    /// Open streams.
    pub(crate) streams: u64,
}

/// What the admin HTTP asks the broker.
pub(crate) trait Inspect: Send + Sync + 'static {
    /// Whether clients are served now, and what waits all the same; or why not.
    fn readiness(&self) -> Result<String, String>;
    /// The answer to `/v1/status`.
    fn status(&self) -> Status;
    /// The answer to `/v1/config`.
    fn settings(&self) -> Vec<ShownSetting>;
    /// Brings the gauges of the memory up to date.
    fn show_memory(&self);
    /// The answer to `/v1/catch-up`; none until clients are served.
    fn catch_up(&self) -> Option<CatchUpAnswer>;
}

#[derive(Clone)]
struct AdminState {
    broker: Arc<dyn Inspect>,
    telemetry: Telemetry,
    token: Token,
}

/// A served admin HTTP.
pub(crate) struct Admin {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Admin {
    /// Starts to serve on a bound listener.
    ///
    /// # Errors
    /// The listener is not usable.
    pub(crate) fn serve(
        listener: TcpListener,
        broker: Arc<dyn Inspect>,
        telemetry: Telemetry,
        token: Token,
        tasks: &Supervisor,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let router = router(AdminState {
            broker,
            telemetry,
            token,
        });
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let serving = axum::serve(listener, router).with_graceful_shutdown(stopped);
        let task = tasks.spawn(Task::AdminHttp, serving.into_future());
        Ok(Self {
            address,
            stop,
            task,
        })
    }

    /// Where it listens.
    #[must_use]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops. Connections that are kept alive are cut.
    pub(crate) fn stop(self) {
        self.stop.cancel();
        self.task.abort();
    }
}

fn router(state: AdminState) -> Router {
    let guarded = Router::new()
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/v1/status", get(status))
        .route("/v1/config", get(config))
        .route("/v1/catch-up", get(catch_up))
        .route_layer(middleware::from_fn_with_state(state.clone(), authorize));
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .merge(guarded)
        .with_state(state)
}

async fn authorize(State(state): State<AdminState>, request: Request, next: Next) -> Response {
    let shown = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    if shown.is_some_and(|token| state.token.admits(token.trim())) {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    let text = "show the token of admin.token.file as Authorization: Bearer …\n";
    (StatusCode::UNAUTHORIZED, challenge, text).into_response()
}

async fn readyz(State(state): State<AdminState>) -> Response {
    match state.broker.readiness() {
        Ok(text) => format!("{text}\n").into_response(),
        Err(reason) => {
            let text = format!("not ready: {reason}\n");
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

async fn metrics(State(state): State<AdminState>) -> impl IntoResponse {
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    state.broker.show_memory();
    (kind, state.telemetry.render())
}

async fn status(State(state): State<AdminState>) -> Json<Status> {
    Json(state.broker.status())
}

async fn catch_up(State(state): State<AdminState>) -> Response {
    match state.broker.catch_up() {
        Some(answer) => Json(answer).into_response(),
        None => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the broker is starting; ask again once /readyz says ready\n",
        )
            .into_response(),
    }
}

#[derive(Serialize)]
struct Config {
    settings: Vec<ShownSetting>,
}

async fn config(State(state): State<AdminState>) -> Json<Config> {
    Json(Config {
        settings: state.broker.settings(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_admitted() {
        let token = Token(Some("0123456789abcdef0123456789abcdef".into()));
        assert!(token.admits("0123456789abcdef0123456789abcdef"));
        for wrong in [
            "",
            "0123456789abcdef0123456789abcde",
            "0123456789abcdef0123456789abcdef0",
        ] {
            assert!(!token.admits(wrong), "{wrong:?}");
        }
        assert!(!token.admits("0123456789abcdef0123456789abcdeF"));
        assert!(!Token::none().admits(""));
    }

    #[test]
    fn a_weak_or_missing_token_is_refused_with_a_remedy() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("token");
        let missing = Token::read(&path)
            .map(|_| ())
            .expect_err("missing")
            .to_string();
        assert!(missing.contains("admin.token.file"), "{missing}");
        fs::write(&path, "short\n").expect("writable");
        let weak = Token::read(&path)
            .map(|_| ())
            .expect_err("weak")
            .to_string();
        assert!(weak.contains("openssl rand"), "{weak}");
        fs::write(&path, format!("{}\n", "x".repeat(32))).expect("writable");
        assert!(Token::read(&path).expect("strong").admits(&"x".repeat(32)));
    }
}
