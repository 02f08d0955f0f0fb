//! Listening, accepting, sweeping, draining.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use millrace_budget::Budget;
use millrace_purgatory::Timers;
use millrace_security::{
    Principal,
    certificate::{CertificatePrincipalError, PrincipalMapping, subject},
    quota::LiveQuotas,
};
use millrace_tasks::{Supervisor, Task};
use millrace_time::SharedClock;
use millrace_wire::service::{ANONYMOUS, Identity, Peer, RefusedCertificate, Service};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream, UnixStream, lookup_host},
    sync::Semaphore,
};
use tokio_util::task::TaskTracker;

use crate::{
    admission::{Admission, ListenerGate, Refusal},
    config::{
        ACCEPT_RETRY, LISTEN_BACKLOG, ListenerConfig, ListenerLimits, ListenerSecurity, NetConfig,
        REFUSED_HELD_MAX, REFUSED_HOLD_MAX,
    },
    connection::{self, Shared},
    metrics::Metrics,
    registry::{Entry, Registry},
    tls::TlsTransport,
    warnings::Warnings,
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

/// Bound sockets that do not listen yet. Binding first makes ports known, and a taken port an early
/// error, before the rest of the broker starts. Until [`Listeners::serve`] the kernel rejects connections, so
/// whoever can connect (a client, the health check of a load balancer) has found a broker that serves.
#[derive(Debug)]
pub struct Listeners {
    bound: Vec<Bound>,
}

/// One of them.
#[derive(Debug)]
struct Bound {
    listening: Listening,
    address: SocketAddr,
    socket: TcpSocket,
}

/// What the connections of a listener have in common.
#[derive(Debug)]
struct Listening {
    name: String,
    security: ListenerSecurity,
    limits: ListenerLimits,
}

impl Listeners {
    /// Binds every listener.
    ///
    /// # Errors
    /// The first listener that cannot be bound; those bound before are released.
    pub async fn bind(configs: &[ListenerConfig]) -> Result<Self, BindError> {
        let mut bound = Vec::with_capacity(configs.len());
        for config in configs {
            let (address, socket) = bind_one(config).await?;
            let listening = Listening {
                name: config.name.clone(),
                security: config.security.clone(),
                limits: config.limits,
            };
            bound.push(Bound {
                listening,
                address,
                socket,
            });
        }
        Ok(Self { bound })
    }

    /// Each listener's name and real address.
    #[must_use]
    pub fn addresses(&self) -> Vec<(String, SocketAddr)> {
        self.bound
            .iter()
            .map(|bound| (bound.listening.name.clone(), bound.address))
            .collect()
    }

    /// Listens and accepts from now on. Must be called inside a tokio runtime. The timers run on the same clock.
    /// The quotas say how often an address may connect.
    ///
    /// # Errors
    /// Another process has listened at one of the addresses since they were bound. No listener accepts then.
    pub fn serve(
        self,
        config: NetConfig,
        service: Arc<dyn Service>,
        clock: SharedClock,
        timers: Timers,
        (quotas, tasks): (Arc<LiveQuotas>, &Supervisor),
    ) -> Result<Server, BindError> {
        let listening = self.bound.into_iter().map(Bound::listen);
        let listening = listening.collect::<Result<Vec<_>, _>>()?;
        let limits = config.limits.clone();
        let admission = Admission::new(config.connections_max, limits, quotas);
        let shared = Arc::new(Shared {
            budget: Budget::new(config.broker_bytes_max as u64),
            warnings: Warnings::new(clock.clone()),
            config,
            service,
            clock,
            timers,
            metrics: Metrics::new(),
            tasks: tasks.clone(),
        });
        let server = Server {
            core: Arc::new(Core {
                shared,
                registry: Registry::new(),
                tasks: TaskTracker::new(),
                next_id: AtomicU64::new(1),
                admission,
                held: Arc::new(Semaphore::new(REFUSED_HELD_MAX)),
            }),
        };
        let core = &server.core;
        for (listening, listener) in listening {
            let accepting = accept_loop(Arc::clone(core), listening, listener);
            tasks.spawn(Task::NetAccept, core.tasks.track_future(accepting));
        }
        let sweeping = sweep_loop(Arc::clone(core));
        tasks.spawn(Task::NetSweep, core.tasks.track_future(sweeping));
        Ok(server)
    }
}

impl Bound {
    fn listen(self) -> Result<(Listening, TcpListener), BindError> {
        match self.socket.listen(LISTEN_BACKLOG) {
            Ok(listener) => Ok((self.listening, listener)),
            Err(source) => Err(BindError::Listen {
                name: self.listening.name,
                address: self.address,
                source,
            }),
        }
    }
}

async fn bind_one(config: &ListenerConfig) -> Result<(SocketAddr, TcpSocket), BindError> {
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
    let bind = || {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok((socket.local_addr()?, socket))
    };
    bind().map_err(|source| BindError::Listen {
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
    admission: Arc<Admission>,
    /// Places of connections that are refused and stay open for a moment.
    held: Arc<Semaphore>,
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

    /// A connection of the broker to itself, as this principal and a client of this listener. It does not use the
    /// network, so it needs neither encryption nor a password, and it is exempt from connection limits.
    ///
    /// # Errors
    /// The system has no more sockets.
    pub fn connect(&self, principal: &Principal, listener: &str) -> io::Result<UnixStream> {
        let (client, stream) = UnixStream::pair()?;
        let core = &self.core;
        let id = core.next_id.fetch_add(1, Ordering::Relaxed);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let identity = Identity::known(principal.as_str());
        let peer = Peer::with_identity(id, address, listener.to_owned(), identity);
        let entry = core.registry.enter(id, &core.shared.clock);
        let serving = connection::serve(stream, Arc::new(peer), Arc::clone(&core.shared), entry);
        // Not supervised: a panic costs the connection, is logged and counted.
        core.tasks.spawn(serving);
        Ok(client)
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

async fn accept_loop(core: Arc<Core>, listening: Listening, listener: TcpListener) {
    let limits = &core.shared.config.limits;
    let gate = ListenerGate::new(&listening.name, listening.limits, limits);
    loop {
        let accepting = async {
            if let Some(pause) = core.admission.pause(&gate, core.shared.clock.now()) {
                core.shared.timers.sleep(pause).await;
            }
            listener.accept().await
        };
        let accepted = tokio::select! {
            biased;
            () = core.registry.stop.cancelled() => return,
            accepted = accepting => accepted,
        };
        match accepted {
            Ok((stream, address)) => core.admit(stream, address, &listening, &gate),
            Err(error) => {
                tracing::warn!(
                    listener = listening.name,
                    "accepting a connection failed: {error}"
                );
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

impl Core {
    fn admit(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        listening: &Listening,
        gate: &Arc<ListenerGate>,
    ) {
        let now = self.shared.clock.now();
        let place = match self.admission.admit(gate, address.ip(), now) {
            Ok(place) => place,
            Err(refusal) => return self.refuse(stream, address, gate, refusal),
        };
        if let Err(error) = prepare(&stream) {
            tracing::debug!(client = %address, "setting socket options failed: {error}");
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let security = &listening.security;
        let mut entry = self.registry.enter(id, &self.shared.clock);
        entry.keep(place);
        if security.sasl || security.tls.is_some() {
            entry.begin_half_open();
        }
        let arrived = Arrived {
            id,
            address,
            listener: listening.name.clone(),
            mapping: (!security.sasl).then(|| Arc::clone(&security.mapping)),
        };
        let (shared, tasks) = (Arc::clone(&self.shared), &self.tasks);
        match &security.tls {
            // Not supervised: a panic costs the connection, is logged and counted.
            None => tasks.spawn(connection::serve(
                stream,
                arrived.into_peer(ANONYMOUS),
                shared,
                entry,
            )),
            Some(tls) => {
                let shaking = tls.accept(stream);
                // Not supervised: the same.
                tasks.spawn(serve_tls(shaking, arrived, shared, entry))
            }
        };
    }

    /// Closes a connection that was just accepted.
    fn refuse(&self, stream: TcpStream, client: SocketAddr, gate: &ListenerGate, refusal: Refusal) {
        self.shared.metrics.closed(refusal.code());
        gate.refused(refusal);
        if self.shared.warnings.admit() {
            let setting = refusal.setting();
            tracing::warn!(%client, "connection refused: {setting} is reached");
        }
        let Refusal::AddressTooFast(wait) = refusal else {
            return;
        };
        let Ok(held) = Arc::clone(&self.held).try_acquire_owned() else {
            return;
        };
        let (shared, stop) = (Arc::clone(&self.shared), self.registry.stop.clone());
        // Not supervised: it only waits.
        self.tasks.spawn(async move {
            let _until_closed = (held, stream);
            tokio::select! {
                () = stop.cancelled() => {}
                () = shared.timers.sleep(wait.min(REFUSED_HOLD_MAX)) => {}
            }
        });
    }
}

/// A connection before its handshake.
struct Arrived {
    id: u64,
    address: SocketAddr,
    listener: String,
    /// Whom certificates stand for; nothing where clients authenticate by SASL.
    mapping: Option<Arc<PrincipalMapping>>,
}

impl Arrived {
    /// The client of a listener without SASL is `principal`.
    fn into_peer(self, principal: &str) -> Arc<Peer> {
        let identity = match self.mapping {
            None => Identity::to_authenticate(),
            Some(_) => Identity::known(principal),
        };
        let peer = Peer::with_identity(self.id, self.address, self.listener, identity);
        Arc::new(peer)
    }

    /// Who the client says it is by its certificate.
    fn principal(&self, transport: &TlsTransport) -> Result<Principal, CertificatePrincipalError> {
        let certificate = transport.client_certificate();
        match (&self.mapping, certificate) {
            (Some(mapping), Some(certificate)) => mapping.principal(&certificate),
            _ => Ok(Principal::anonymous()),
        }
    }
}

/// Serves a connection once its TLS handshake is done. The sweep ends a handshake that takes too long.
async fn serve_tls(
    shaking: impl Future<Output = io::Result<TlsTransport>>,
    arrived: Arrived,
    shared: Arc<Shared>,
    entry: Entry,
) {
    let (client, listener) = (arrived.address, &arrived.listener);
    let shaken = tokio::select! {
        biased;
        () = entry.pulse.stop.cancelled() => return,
        () = entry.pulse.kill.cancelled() => {
            let reason = entry.pulse.verdict().unwrap_or("stopping");
            shared.metrics.closed(reason);
            tracing::debug!(%client, listener, reason, "connection closed in its TLS handshake");
            return;
        }
        shaken = shaking => shaken,
    };
    let transport = match shaken {
        Ok(transport) => transport,
        Err(error) => {
            shared.metrics.closed("tls_handshake_failed");
            if shared.warnings.admit() {
                tracing::warn!(
                    %client, listener,
                    "the TLS handshake failed: {error}; does the client use TLS, and do both sides trust each other's certificates?"
                );
            }
            return;
        }
    };
    match arrived.principal(&transport) {
        Ok(principal) => {
            let peer = arrived.into_peer(principal.as_str());
            if !peer.identity.must_authenticate() {
                entry.end_half_open();
            }
            connection::serve(transport, peer, shared, entry).await;
        }
        Err(error) => {
            shared.metrics.closed("authentication_failed");
            let certificate = transport.client_certificate();
            let subject = certificate.and_then(|certificate| subject(&certificate).ok());
            shared.service.certificate_refused(RefusedCertificate {
                address: client,
                listener,
                subject: subject.as_deref(),
                reason: error.reason(),
            });
            if shared.warnings.admit() {
                tracing::warn!(%client, listener, "the client's certificate is not accepted: {error}");
            }
        }
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
