//! The seam between the network and the handlers of requests.

use std::{
    fmt,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::BytesMut;

use crate::{request::MalformedRequest, response::EncodeError, response::Response};

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

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
}

impl Peer {
    /// A connection that nothing slows down.
    #[must_use]
    pub fn new(id: u64, address: SocketAddr, listener: String) -> Self {
        Self {
            id,
            address,
            listener,
            throttle: Throttle::default(),
        }
    }
}

/// How the service slows a client down that moves more than its quota (KIP-219): what it has sent
/// is answered at once, and nothing more is read from its connection for a while. The service says
/// until when, the network obeys.
///
/// Times are those of the clock that both share. A time that has passed slows nobody down.
#[derive(Debug, Default)]
pub struct Throttle {
    until_us: AtomicU64,
}

impl Throttle {
    /// Lets nothing be read before `time`; an earlier end than the present one changes nothing.
    pub fn until(&self, time: Duration) {
        let until_us = u64::try_from(time.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX);
        self.until_us.fetch_max(until_us, Ordering::AcqRel);
    }

    /// How long it still lasts at `now`; nothing where it is over.
    #[must_use]
    pub fn left(&self, now: Duration) -> Option<Duration> {
        let until = Duration::from_micros(self.until_us.load(Ordering::Acquire));
        until.checked_sub(now).filter(|left| !left.is_zero())
    }
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
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(response) => f.debug_tuple("Ready").field(response).finish(),
            Self::Pending(_) => f.write_str("Pending"),
            Self::Silent(_) => f.write_str("Silent"),
            Self::Close(reason) => f.debug_tuple("Close").field(reason).finish(),
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
    /// The broker stops.
    #[error("the broker is stopping")]
    Stopping,
}

/// Handles requests. Knows nothing of sockets.
pub trait Service: Send + Sync + 'static {
    /// Takes one frame, without its length prefix. The network awaits this before it hands over
    /// the same connection's next frame, so that what must be in order is done here.
    fn accept<'a>(&'a self, peer: &'a Arc<Peer>, frame: BytesMut) -> BoxFuture<'a, Accepted>;

    /// Called once, after the connection's last `accept`.
    fn disconnected(&self, _peer: &Arc<Peer>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
