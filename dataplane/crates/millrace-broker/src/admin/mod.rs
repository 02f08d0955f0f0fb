//! The admin HTTP: health, metrics, status, records, and what the control plane manages, on a port of its own, on the
//! control link, or on both.
//!
//! On the port, `/healthz` is open, so that a load balancer may ask it. Everything else wants the bearer token.
//! On the control link nothing does: the broker dialled the gateway and verified its certificate.

mod acls;
mod client_metrics;
mod client_quotas;
mod cluster;
mod connection;
mod groups;
mod identity;
mod kafka;
mod log_compaction;
mod quotas;
mod records;
mod settings;
mod status;
mod token;
mod topics;
mod users;

use std::{io, net::SocketAddr, sync::Arc};

use axum::{
    Extension, Json, Router,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use millrace_api::ApiService;
use millrace_model::NodeId;
use millrace_records::{Records, RecordsError};
use millrace_tasks::{Supervisor, Task};
use serde::Serialize;
use tokio::{sync::Semaphore, task::JoinHandle};
use tokio_util::sync::CancellationToken;

pub(crate) use self::{
    connection::{AdminListener, Connection},
    identity::{BROKER, CLUSTER},
    quotas::QuotasAnswer,
    status::{
        ControlLinkStatus, CorruptPartStatus, GroupStatus, LISTED_MAX, MemoryPartStatus,
        MemoryStatus, OfflinePartition, Status, StorageStatus,
    },
    token::Token,
};
use self::{kafka::Refused, token::TOKEN_BYTES_MIN};
use crate::{
    catch_up::CatchUpAnswer, settings::ShownSetting, state::Serving, telemetry::Telemetry,
};

/// Answers about everything that are computed at once.
const COMPUTATIONS_MAX: usize = 2;

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
    /// The answer to `/v1/quotas`; none until clients are served.
    fn quotas(&self) -> Option<QuotasAnswer>;
    /// The records of the cluster's topics.
    ///
    /// # Errors
    /// Clients are not served yet, or `admin.records.enabled` is false.
    fn records(&self) -> Result<Records, RecordsError>;
    /// This broker.
    fn node_id(&self) -> NodeId;
    /// Kafka's APIs; none until clients are served.
    fn api(&self) -> Option<Arc<ApiService>>;
    /// Kafka's cluster id; none where the configuration has none and the metadata is not open yet.
    fn cluster_id(&self) -> Option<&str>;
    /// What clients are served from; none until they are.
    fn serving(&self) -> Option<&Serving>;
}

/// What serves the admin HTTP, whoever asks.
#[derive(Clone)]
pub(crate) struct AdminState {
    broker: Arc<dyn Inspect>,
    telemetry: Telemetry,
    token: Token,
    tasks: Supervisor,
    /// Turns of [`computed`].
    computations: Arc<Semaphore>,
}

impl AdminState {
    pub(crate) fn new(
        broker: Arc<dyn Inspect>,
        telemetry: Telemetry,
        token: Token,
        tasks: &Supervisor,
    ) -> Self {
        Self {
            broker,
            telemetry,
            token,
            tasks: tasks.clone(),
            computations: Arc::new(Semaphore::new(COMPUTATIONS_MAX)),
        }
    }

    /// The routes for callers at the other end of the control link.
    pub(crate) fn for_link(self) -> Router {
        router(self).layer(Extension(OnLink))
    }
}

/// Marks requests that came over the control link. Nothing that a caller sends can set it.
#[derive(Clone, Copy)]
struct OnLink;

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
        listener: AdminListener,
        state: AdminState,
        tasks: &Supervisor,
    ) -> io::Result<Self> {
        let address = listener.address()?;
        let router = router(state);
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
        .route("/metrics", get(metrics))
        .route("/v1/status", get(status))
        .route("/v1/config", get(settings::read).patch(settings::change))
        .route("/v1/users", get(users::list))
        .route("/v1/users/{user}", get(users::read).patch(users::change))
        .route(
            "/v1/acls",
            get(acls::list).post(acls::create).delete(acls::delete),
        )
        .route(
            "/v1/client-quotas",
            get(client_quotas::list).patch(client_quotas::change),
        )
        .route("/v1/catch-up", get(catch_up))
        .route("/v1/quotas", get(quotas))
        .route("/v1/client-metrics", get(client_metrics::list))
        .route("/v1/topics", get(topics::list).post(topics::create))
        .route(
            "/v1/topics/{topic}",
            get(topics::describe)
                .patch(topics::change)
                .delete(topics::delete),
        )
        .route("/v1/cluster", get(cluster::read))
        .route("/v1/cluster/drain", post(cluster::drain))
        .route("/v1/groups", get(groups::list))
        .route("/v1/groups/{group}", get(groups::describe))
        .route(
            "/v1/topics/{topic}/records",
            get(records::read).post(records::produce),
        )
        .route("/v1/topics/{topic}/records/stream", get(records::stream))
        .method_not_allowed_fallback(wrong_method)
        .route_layer(middleware::from_fn_with_state(state.clone(), authorize));
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .merge(guarded)
        .fallback(no_route)
        .layer(middleware::from_fn_with_state(
            state.clone(),
            identity::check,
        ))
        .with_state(state)
}

async fn authorize(State(state): State<AdminState>, request: Request, next: Next) -> Response {
    if admits(&state, &request) {
        return next.run(request).await;
    }
    unauthorized()
}

fn admits(state: &AdminState, request: &Request) -> bool {
    let on_link = request.extensions().get::<OnLink>().is_some();
    on_link || shows_token(state, request.headers())
}

/// Without the token, paths that do not exist look like those that do.
async fn no_route(State(state): State<AdminState>, request: Request) -> Response {
    if !admits(&state, &request) {
        return unauthorized();
    }
    let message = format!("there is no {}", request.uri().path());
    Refused::NoRoute(StatusCode::NOT_FOUND, message).into_response()
}

async fn wrong_method(method: Method, uri: Uri) -> Refused {
    let message = format!("{} does not take {method}", uri.path());
    Refused::NoRoute(StatusCode::METHOD_NOT_ALLOWED, message)
}

fn shows_token(state: &AdminState, headers: &HeaderMap) -> bool {
    headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .is_some_and(|token| state.token.admits(token.trim()))
}

fn unauthorized() -> Response {
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    let text = "show the token of admin.token.file as Authorization: Bearer …\n";
    (StatusCode::UNAUTHORIZED, challenge, text).into_response()
}

/// A load balancer's health check shows no token: it gets the status code alone. The reason is for those who do.
async fn readyz(
    State(state): State<AdminState>,
    on_link: Option<Extension<OnLink>>,
    headers: HeaderMap,
) -> Response {
    let (code, text) = match state.broker.readiness() {
        Ok(text) => (StatusCode::OK, format!("{text}\n")),
        Err(reason) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {reason}\n"),
        ),
    };
    if on_link.is_some() {
        return (code, text).into_response();
    }
    if !headers.contains_key(header::AUTHORIZATION) {
        return code.into_response();
    }
    if !shows_token(&state, &headers) {
        return unauthorized();
    }
    (code, text).into_response()
}

async fn metrics(State(state): State<AdminState>) -> Response {
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    let answer = move |state: &AdminState| {
        state.broker.show_memory();
        (kind, state.telemetry.render()).into_response()
    };
    computed(state, answer).await
}

async fn status(State(state): State<AdminState>) -> Response {
    computed(state, |state| Json(state.broker.status()).into_response()).await
}

async fn catch_up(State(state): State<AdminState>) -> Response {
    computed(state, |state| once_served(state.broker.catch_up())).await
}

async fn quotas(State(state): State<AdminState>) -> Response {
    computed(state, |state| once_served(state.broker.quotas())).await
}

/// An answer about every partition, group, client or metric, from a thread that serves no requests: no append waits
/// behind it. At most [`COMPUTATIONS_MAX`] at once, also where the callers did not wait for theirs.
async fn computed(
    state: AdminState,
    answer: impl FnOnce(&AdminState) -> Response + Send + 'static,
) -> Response {
    let stopping = || (StatusCode::SERVICE_UNAVAILABLE, "the broker is stopping\n").into_response();
    let Ok(turn) = Arc::clone(&state.computations).acquire_owned().await else {
        return stopping();
    };
    let tasks = state.tasks.clone();
    let answered = tasks.compute(move || {
        let _turn = turn;
        answer(&state)
    });
    match answered.await {
        Ok(answer) => answer,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => stopping(),
    }
}

fn once_served(answer: Option<impl Serialize>) -> Response {
    match answer {
        Some(answer) => Json(answer).into_response(),
        None => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the broker is starting; ask again once /readyz says ready\n",
        )
            .into_response(),
    }
}
