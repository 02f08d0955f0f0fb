//! The control link: the broker dials a gateway of the control plane and serves its admin HTTP on that connection.
//!
//! So the control plane reaches brokers in networks that let nobody in. The broker dials by TLS and HTTP/1.1, shows
//! its credential, and asks to upgrade to `millrace-link/1`. Then the roles reverse: the gateway is the client of
//! HTTP/2 and the broker its server. The broker trusts the gateway as it trusts a caller with the admin token, so
//! requests on the link need none.
//!
//! What a gateway can use is bounded, whatever it does; Kafka's clients are served without one.

mod dial;
mod pause;
mod state;

use std::{pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http2;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use millrace_model::{Cause, FailureClass, NodeId};
use millrace_tasks::{Supervisor, Task};
use millrace_time::{SharedClock, SharedRandom};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

pub(crate) use self::state::LinkState;
use self::{dial::Dialer, pause::pause};
use crate::config::ControlLinkConfig;

/// Requests at a time: pages, scrapes and streams of records that the control plane has for one broker.
const STREAMS_MAX: u32 = 64;
/// The largest header list of a request: four times what a stream's cursor and its cookies ever need.
const HEADER_LIST_BYTES_MAX: u32 = 64 * 1024;
/// What a gateway may send ahead of the handlers: on one stream, and on all.
const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
const LINK_WINDOW_BYTES: u32 = 1 << 20;
/// What one answer may have ready while the gateway does not take it: with all streams, 8 MiB.
const SEND_BUFFER_BYTES: usize = 128 * 1024;
/// How long the link may be silent before it is probed: load balancers forget connections after minutes.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// How long the probe may take; then the connection is dead.
const PING_MAX: Duration = Duration::from_secs(10);
/// How long requests in flight may take when the broker stops: streams of records have ended by then.
const DRAIN_MAX: Duration = Duration::from_secs(1);
/// A link that lasted so long had worked: the pauses start over. A gateway that admits the broker and hangs up at
/// once is dialled ever less often.
const LASTING: Duration = Duration::from_secs(5);

/// What the link needs of the broker.
pub(crate) struct LinkParts {
    pub(crate) node_id: NodeId,
    /// The admin HTTP, as the gateway may use it.
    pub(crate) router: Router,
    pub(crate) state: Arc<LinkState>,
    pub(crate) clock: SharedClock,
    pub(crate) random: SharedRandom,
}

/// A link that is dialled again whenever it ends.
pub(crate) struct ControlLink {
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl ControlLink {
    /// Dials from now on. A gateway that is away is no failure of the broker.
    pub(crate) fn start(config: ControlLinkConfig, parts: LinkParts, tasks: &Supervisor) -> Self {
        let stop = CancellationToken::new();
        let start_id = u128::from_be_bytes(parts.random.next_bytes16());
        let running = Running {
            dialer: Dialer {
                config,
                node_id: parts.node_id,
                start_id: format!("{start_id:032x}"),
            },
            parts,
            stop: stop.clone(),
        };
        let task = AbortOnDropHandle::new(tasks.spawn(Task::ControlLink, running.run()));
        Self { stop, task }
    }

    /// Tells the gateway that no more requests are taken, and answers those in flight for [`DRAIN_MAX`].
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        // A panic has been reported by the supervisor.
        let _ = self.task.await;
    }
}

impl LinkState {
    /// The state of a link that is not started yet.
    pub(crate) fn of(config: &ControlLinkConfig, clock: SharedClock) -> Arc<Self> {
        Arc::new(Self::new(config.address.clone(), clock))
    }
}

struct Running {
    dialer: Dialer,
    parts: LinkParts,
    stop: CancellationToken,
}

impl Running {
    async fn run(self) {
        let LinkParts {
            state,
            clock,
            random,
            ..
        } = &self.parts;
        let mut failures = 0;
        loop {
            let dialled = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                dialled = self.dialer.dial() => dialled,
            };
            let rejected = match dialled {
                Ok(link) => {
                    state.connected();
                    let connected = clock.now();
                    let Some(error) = self.serve(link).await else {
                        return;
                    };
                    state.disconnected(error);
                    if clock.now().saturating_sub(connected) >= LASTING {
                        failures = 0;
                    }
                    false
                }
                Err(error) => {
                    state.disconnected(error.to_string());
                    error.is_rejected()
                }
            };
            let pause = pause(failures, rejected, &**random);
            failures = failures.saturating_add(1);
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// Serves until the link ends, and says why it did; `None` where the broker stops.
    async fn serve(
        &self,
        link: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Option<String> {
        let router = TowerToHyperService::new(self.parts.router.clone());
        let mut serving = pin!(http2().serve_connection(TokioIo::new(link), router));
        let ended = tokio::select! {
            ended = serving.as_mut() => ended,
            () = self.stop.cancelled() => {
                serving.as_mut().graceful_shutdown();
                // Requests that take longer are cut; their callers are told.
                let _ = timeout(DRAIN_MAX, serving).await;
                return None;
            }
        };
        Some(match ended {
            Ok(()) => "the gateway closed it".to_owned(),
            Err(error) => Cause::of(FailureClass::Transient, error).to_string(),
        })
    }
}

fn http2() -> http2::Builder<TokioExecutor> {
    let mut http2 = http2::Builder::new(TokioExecutor::new());
    http2
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_LIST_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(LINK_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_MAX);
    http2
}
