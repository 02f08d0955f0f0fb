//! The seam between the network and the handlers of requests.

use std::{
    fmt,
    future::poll_fn,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, Waker},
    time::Duration,
};

use bytes::BytesMut;
use parking_lot::{Mutex, RwLock};

use crate::{request::MalformedRequest, response::EncodeError, response::Response};

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Who a client is that need not say who it is, as access rules name it.
pub const ANONYMOUS: &str = "User:ANONYMOUS";

/// The other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// Number of the connection, never reused while the broker runs.
    pub id: u64,
    /// Where it comes from.
    pub address: SocketAddr,
    /// Name of the listener that it came to, which decides the address that Metadata tells it.
    pub listener: String,
    /// Until when it is not to be read from.
    pub throttle: Throttle,
    /// Who it is.
    pub identity: Identity,
    /// What it runs, once it has told that.
    pub software: OnceLock<ClientSoftware>,
}

/// The library that a client uses, as it says itself (KIP-511).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSoftware {
    /// Its name.
    pub name: Box<str>,
    /// Its version.
    pub version: Box<str>,
}

impl Peer {
    /// A connection that nothing slows down, and that need not say who it is.
    #[must_use]
    pub fn new(id: u64, address: SocketAddr, listener: String) -> Self {
        Self::with_identity(id, address, listener, Identity::known(ANONYMOUS))
    }

    /// The same with another identity.
    #[must_use]
    pub fn with_identity(
        id: u64,
        address: SocketAddr,
        listener: String,
        identity: Identity,
    ) -> Self {
        Self {
            id,
            address,
            listener,
            throttle: Throttle::default(),
            identity,
            software: OnceLock::new(),
        }
    }

    /// Its address as access rules name it.
    #[must_use]
    pub fn host(&self) -> String {
        self.address.ip().to_canonical().to_string()
    }
}

/// Who is at the other end: known from the start, or once it has authenticated. The service decides,
/// the network obeys: it reads only small frames of a client that nobody knows yet, and not for long.
///
/// Times are those of the clock that both share.
#[derive(Debug)]
pub struct Identity {
    must_authenticate: bool,
    principal: OnceLock<Box<str>>,
    /// When the session ends, in microseconds; 0 where it has no end.
    expires_us: AtomicU64,
    /// The id of the delegation token that it showed instead of a password (KIP-48).
    delegation_token: RwLock<Option<Arc<str>>>,
}

impl Identity {
    /// Who it is is known from the start.
    #[must_use]
    pub fn known(principal: &str) -> Self {
        Self {
            must_authenticate: false,
            principal: OnceLock::from(Box::from(principal)),
            expires_us: AtomicU64::new(0),
            delegation_token: RwLock::new(None),
        }
    }

    /// It has to authenticate before anything else.
    #[must_use]
    pub fn to_authenticate() -> Self {
        Self {
            must_authenticate: true,
            principal: OnceLock::new(),
            expires_us: AtomicU64::new(0),
            delegation_token: RwLock::new(None),
        }
    }

    /// Whether the service has to look at what the connection may do now.
    #[must_use]
    pub fn must_authenticate(&self) -> bool {
        self.must_authenticate
    }

    /// Who it is, as access rules name it; nothing before it has authenticated.
    #[must_use]
    pub fn principal(&self) -> Option<&str> {
        self.principal.get().map(AsRef::as_ref)
    }

    /// It has authenticated, for the first time or again as the same principal; the session ends at
    /// `expires`, if ever.
    pub fn authenticated(&self, principal: &str, expires: Option<Duration>) {
        let kept = self.principal.get_or_init(|| principal.into());
        debug_assert_eq!(&**kept, principal, "a connection keeps its principal");
        let expires_us = expires.map_or(0, |at| micros(at).max(1));
        self.expires_us.store(expires_us, Ordering::Release);
    }

    /// Whether the session has an end.
    #[must_use]
    pub fn expires(&self) -> bool {
        self.expires_us.load(Ordering::Acquire) != 0
    }

    /// Says by which delegation token the authentication was, if by one.
    pub fn set_delegation_token(&self, id: Option<&str>) {
        *self.delegation_token.write() = id.map(Into::into);
    }

    /// The id of the delegation token by which it authenticated. Such a client gets no further tokens.
    #[must_use]
    pub fn delegation_token(&self) -> Option<Arc<str>> {
        self.delegation_token.read().clone()
    }

    /// Whether the session has ended at `now`.
    #[must_use]
    pub fn has_expired(&self, now: Duration) -> bool {
        let expires_us = self.expires_us.load(Ordering::Acquire);
        expires_us != 0 && expires_us <= micros(now)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// How the service slows a client down that moves more than its quota (KIP-219): what it has sent
/// is answered at once, and nothing more is read from its connection for a while. The service says
/// until when, the network obeys.
///
/// Times are those of the clock that both share. A time that has passed slows nobody down.
#[derive(Debug, Default)]
pub struct Throttle {
    until_us: AtomicU64,
    /// Who waits for the end.
    waiting: Mutex<Option<Waker>>,
}

impl Throttle {
    /// Lets nothing be read before `time`; an earlier end than the present one changes nothing.
    pub fn until(&self, time: Duration) {
        self.until_us.fetch_max(end_us(time), Ordering::AcqRel);
    }

    /// Lets the client be read at `time` at the latest, because its quota was raised.
    pub fn shorten(&self, time: Duration) {
        let time = end_us(time);
        let before = self.until_us.fetch_min(time, Ordering::AcqRel);
        if time < before
            && let Some(waiting) = self.waiting.lock().take()
        {
            waiting.wake();
        }
    }

    /// When it ends, or has ended.
    #[must_use]
    pub fn end(&self) -> Duration {
        Duration::from_micros(self.until_us.load(Ordering::Acquire))
    }

    /// How long it still lasts at `now`; nothing where it is over.
    #[must_use]
    pub fn left(&self, now: Duration) -> Option<Duration> {
        let left = self.end().checked_sub(now);
        left.filter(|left| !left.is_zero())
    }

    /// Resolves when the end is earlier than `end`. One task at a time may wait for it.
    pub async fn ends_before(&self, end: Duration) {
        poll_fn(|context| {
            *self.waiting.lock() = Some(context.waker().clone());
            match self.end() < end {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

fn end_us(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// What becomes of a request, decided in the order in which a connection's requests came.
pub enum Accepted {
    /// Answered already.
    Ready(Response),
    /// Ordered; answered once the future is done. Requests behind it may be accepted meanwhile,
    /// their answers wait for this one.
    Pending(BoxFuture<'static, Response>),
    /// Ordered, and the client wants no answer (Produce with acks=0).
    Silent(BoxFuture<'static, ()>),
    /// The connection must end, after the answers before this one.
    Close(CloseReason),
    /// The same, after this answer as well.
    Last(BoxFuture<'static, Response>, CloseReason),
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(response) => f.debug_tuple("Ready").field(response).finish(),
            Self::Pending(_) => f.write_str("Pending"),
            Self::Silent(_) => f.write_str("Silent"),
            Self::Close(reason) => f.debug_tuple("Close").field(reason).finish(),
            Self::Last(_, reason) => f.debug_tuple("Last").field(reason).finish(),
        }
    }
}

/// Why the service ends a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The frame is no request that can be served.
    #[error(transparent)]
    Malformed(#[from] MalformedRequest),
    /// The answer could not be written; a defect of ours.
    #[error(transparent)]
    Unencodable(#[from] EncodeError),
    /// A request that wants no answer failed; closing is the only way to tell the client.
    #[error("a request without acknowledgement failed: {0}")]
    Unacknowledged(String),
    /// The client did not prove who it is. The text says why, without secrets.
    #[error("{0}")]
    AuthenticationFailed(String),
    /// The client asks for something before it has authenticated.
    #[error("a request came before authentication")]
    NotAuthenticated,
    /// The client has not authenticated again in time (KIP-368).
    #[error("the session has expired, and the client did not authenticate again")]
    SessionExpired,
    /// The broker stops.
    #[error("the broker is stopping")]
    Stopping,
}

/// A client whose certificate is trusted, but stands for nobody.
#[derive(Debug, Clone, Copy)]
pub struct RefusedCertificate<'a> {
    /// Where it comes from.
    pub address: SocketAddr,
    /// Name of the listener that it came to.
    pub listener: &'a str,
    /// The certificate's subject, where it can be read.
    pub subject: Option<&'a str>,
    /// A stable word.
    pub reason: &'static str,
}

/// Handles requests. Knows nothing of sockets.
pub trait Service: Send + Sync + 'static {
    /// Takes one frame, without its length prefix. The network awaits this before it hands over
    /// the same connection's next frame, so that what must be in order is done here.
    fn accept<'a>(&'a self, peer: &'a Arc<Peer>, frame: BytesMut) -> BoxFuture<'a, Accepted>;

    /// Called when a connection ends before its first request, because of its certificate.
    fn certificate_refused(&self, _refused: RefusedCertificate<'_>) {}

    /// Called once, after the connection's last `accept`.
    fn disconnected(&self, _peer: &Arc<Peer>) {}
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Wake},
    };

    use super::*;

    #[test]
    fn a_session_ends_unless_it_is_renewed() {
        let at = Duration::from_secs;
        let identity = Identity::to_authenticate();
        assert_eq!(identity.principal(), None);
        assert!(!identity.expires());
        identity.authenticated("User:alice", Some(at(5)));
        assert_eq!(identity.principal(), Some("User:alice"));
        assert!(identity.expires() && !identity.has_expired(at(4)));
        assert!(identity.has_expired(at(5)));
        identity.authenticated("User:alice", Some(at(9)));
        assert!(!identity.has_expired(at(5)));
        identity.authenticated("User:alice", None);
        assert!(!identity.has_expired(Duration::MAX));
        let known = Identity::known(ANONYMOUS);
        assert!(!known.must_authenticate() && !known.has_expired(Duration::MAX));
    }

    #[test]
    fn hosts_are_those_of_access_rules() {
        for (address, host) in [
            ("10.0.0.1:1", "10.0.0.1"),
            ("[::ffff:10.0.0.1]:1", "10.0.0.1"),
            ("[::1]:1", "::1"),
        ] {
            let peer = Peer::new(1, address.parse().expect("an address"), "L".into());
            assert_eq!(peer.host(), host);
        }
    }

    #[test]
    fn a_throttle_lasts_until_the_latest_time_that_was_asked_for() {
        let throttle = Throttle::default();
        assert_eq!(throttle.left(Duration::ZERO), None);
        throttle.until(Duration::from_secs(5));
        throttle.until(Duration::from_secs(3));
        let at = |seconds| throttle.left(Duration::from_secs(seconds));
        assert_eq!(at(1), Some(Duration::from_secs(4)));
        assert_eq!(at(5), None);
        assert_eq!(at(6), None);
    }

    #[test]
    fn a_throttle_is_shortened_and_whoever_waits_learns_of_it() {
        let at = Duration::from_secs;
        let throttle = Throttle::default();
        throttle.until(at(50));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut waiting = pin!(throttle.ends_before(throttle.end()));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        throttle.shorten(at(60));
        assert_eq!(
            (throttle.end(), woken.0.load(Ordering::Relaxed)),
            (at(50), 0)
        );
        throttle.shorten(at(9));
        assert_eq!(
            (throttle.end(), woken.0.load(Ordering::Relaxed)),
            (at(9), 1)
        );
        assert!(waiting.poll(&mut context).is_ready());
        // What changed before somebody waited is not missed.
        let mut late = pin!(throttle.ends_before(at(50)));
        assert!(late.as_mut().poll(&mut context).is_ready());
    }

    #[derive(Default)]
    struct Woken(AtomicU64);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}
