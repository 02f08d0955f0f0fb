//! Listening, accepting, sweeping, draining.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use millrace_budget::Budget;
use millrace_purgatory::Timers;
use millrace_tasks::{Supervisor, Task};
use millrace_time::SharedClock;
use millrace_wire::service::{Peer, Service};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use tokio_util::task::TaskTracker;

use crate::{
    config::{ACCEPT_RETRY, LISTEN_BACKLOG, ListenerConfig, NetConfig},
    connection::{self, Shared},
    metrics::Metrics,
    registry::Registry,
};

/// How often connections are looked at for stillness.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// A client that vanished without a word is found by the kernel after about this long.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(120);

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The host's name leads to no address.
    #[error("listener {name}: the host {host:?} cannot be resolved: {source}")]
    Resolve {
        /// The listener.
        name: String,
        /// Its host.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The port is taken, or not allowed.
    #[error("listener {name}: cannot listen on {address}: {source}")]
    Listen {
        /// The listener.
        name: String,
        /// Where it should listen.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Bound sockets that do not accept yet. Binding first makes ports known, and a taken port an early
/// error, before the rest of the broker starts.
#[derive(Debug)]
pub struct Listeners {
    bound: Vec<(String, SocketAddr, TcpListener)>,
}

impl Listeners {
    /// Binds every listener.
    ///
    /// # Errors
    /// The first listener that cannot be bound; those bound before are released.
    pub async fn bind(configs: &[ListenerConfig]) -> Result<Self, BindError> {
        let mut bound = Vec::with_capacity(configs.len());
        for config in configs {
            let (address, listener) = bind_one(config).await?;
            bound.push((config.name.clone(), address, listener));
        }
        Ok(Self { bound })
    }

    /// Each listener's name and real address.
    #[must_use]
    pub fn addresses(&self) -> Vec<(String, SocketAddr)> {
        self.bound
            .iter()
            .map(|(name, address, _)| (name.clone(), *address))
            .collect()
    }

    /// Starts accepting. Must be called inside a tokio runtime. The timers run on the same clock.
    #[must_use]
    pub fn serve(
        self,
        config: NetConfig,
        service: Arc<dyn Service>,
        clock: SharedClock,
        timers: Timers,
        tasks: &Supervisor,
    ) -> Server {
        let shared = Arc::new(Shared {
            budget: Budget::new(config.broker_bytes_max as u64),
            config,
            service,
            clock,
            timers,
            metrics: Metrics::new(),
        });
        let server = Server {
            core: Arc::new(Core {
                shared,
                registry: Registry::new(),
                tasks: TaskTracker::new(),
                next_id: AtomicU64::new(1),
            }),
        };
        let core = &server.core;
        for (name, _, listener) in self.bound {
            let accepting = accept_loop(Arc::clone(core), name, listener);
            tasks.spawn(Task::NetAccept, core.tasks.track_future(accepting));
        }
        let sweeping = sweep_loop(Arc::clone(core));
        tasks.spawn(Task::NetSweep, core.tasks.track_future(sweeping));
        server
    }
}

async fn bind_one(config: &ListenerConfig) -> Result<(SocketAddr, TcpListener), BindError> {
    let resolve = |source| BindError::Resolve {
        name: config.name.clone(),
        host: config.host.clone(),
        source,
    };
    let host = if config.host.is_empty() {
        "0.0.0.0"
    } else {
        &config.host
    };
    let address = lookup_host((host, config.port))
        .await
        .map_err(resolve)?
        .next()
        .ok_or_else(|| resolve(io::ErrorKind::AddrNotAvailable.into()))?;
    let listen = || {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(LISTEN_BACKLOG)?;
        Ok((listener.local_addr()?, listener))
    };
    listen().map_err(|source| BindError::Listen {
        name: config.name.clone(),
        address,
        source,
    })
}

/// A network layer that accepts and serves connections.
#[derive(Clone)]
pub struct Server {
    core: Arc<Core>,
}

struct Core {
    shared: Arc<Shared>,
    registry: Arc<Registry>,
    tasks: TaskTracker,
    next_id: AtomicU64,
}

/// What is going on now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetMetrics {
    /// Open connections.
    pub connections: usize,
    /// Requests whose responses have not been written.
    pub requests_in_flight: usize,
    /// Bytes of those requests and of unsent responses.
    pub bytes_in_flight: u64,
}

/// How a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainReport {
    /// Connections that still had requests in flight at the deadline and were cut.
    pub cut: usize,
}

impl Server {
    /// What is going on now.
    #[must_use]
    pub fn metrics(&self) -> NetMetrics {
        NetMetrics {
            connections: self.core.registry.len(),
            requests_in_flight: self.core.registry.in_flight(),
            bytes_in_flight: self.core.shared.budget.used(),
        }
    }

    /// Accepts and reads nothing more from now on. What is in flight goes on.
    pub fn stop_reading(&self) {
        self.core.registry.stop.cancel();
        self.core.tasks.close();
    }

    /// Stops reading, lets what is in flight finish and be answered, and closes every connection;
    /// after `within` the rest is cut.
    pub async fn drain(&self, within: Duration) -> DrainReport {
        self.stop_reading();
        if tokio::time::timeout(within, self.core.tasks.wait())
            .await
            .is_ok()
        {
            return DrainReport { cut: 0 };
        }
        let cut = self.core.registry.len();
        self.core.registry.kill.cancel();
        self.core.tasks.wait().await;
        DrainReport { cut }
    }
}

async fn accept_loop(core: Arc<Core>, listener_name: String, listener: TcpListener) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = core.registry.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => core.admit(stream, address, &listener_name),
            Err(error) => {
                tracing::warn!(
                    listener = listener_name,
                    "accepting a connection failed: {error}"
                );
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

impl Core {
    fn admit(&self, stream: TcpStream, address: SocketAddr, listener: &str) {
        let connections = self.registry.len();
        if connections >= self.shared.config.connections_max {
            self.shared.metrics.closed("too_many_connections");
            tracing::warn!(client = %address, connections, "connection refused: max.connections reached");
            return;
        }
        if let Err(error) = prepare(&stream) {
            tracing::debug!(client = %address, "setting socket options failed: {error}");
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let peer = Arc::new(Peer::new(id, address, listener.to_owned()));
        let entry = self.registry.enter(id, &self.shared.clock);
        // Not supervised: a panic costs the connection, is logged and counted.
        self.tasks.spawn(connection::serve(
            stream,
            peer,
            Arc::clone(&self.shared),
            entry,
        ));
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    SockRef::from(stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE_AFTER))
}

async fn sweep_loop(core: Arc<Core>) {
    loop {
        tokio::select! {
            biased;
            () = core.registry.stop.cancelled() => return,
            () = tokio::time::sleep(SWEEP_INTERVAL) => {}
        }
        let (now, idle_max) = (core.shared.clock.now(), core.shared.config.idle_max);
        core.registry
            .sweep(now, idle_max, core.shared.budget.has_waiters());
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        core.shared
            .metrics
            .bytes_in_flight
            .set(core.shared.budget.used() as f64);
    }
}
