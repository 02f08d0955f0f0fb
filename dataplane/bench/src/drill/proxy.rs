//! A proxy before an S3 server that fails on purpose.
//!
//! Each connection carries one request. The proxy reads it, draws its outcome from a seed, and then
//! carries it out, refuses it, delays it, loses its answer, or never answers. What it forwards it does not
//! change, but for the header that ends the connection, so that signatures stay valid.

mod counts;
mod message;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use millrace_time::{SeededRandom, SharedRandom};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot, watch},
};

pub use self::counts::Counts;
use self::message::{Head, read_head};

/// Bytes of a body that are passed on at once.
const COPY_BYTES: usize = 64 * 1024;

/// A slow body is passed on in pieces of this size, with this pause between them: 16 MiB take 8 s,
/// which is slow, and still within a client's patience.
const SLOW_BYTES: usize = 128 * 1024;
const SLOW_PAUSE: Duration = Duration::from_millis(60);

/// What the proxy does to requests, each as a chance in thousandths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// Answered with 503 and S3's `SlowDown`; nothing has happened.
    pub slow_down_permille: u64,
    /// Carried out; then the connection is cut instead of an answer.
    pub lost_reply_permille: u64,
    /// The bodies trickle, both ways.
    pub slow_body_permille: u64,
    /// No request is carried out: half are never answered, half cut off.
    pub silent: bool,
}

impl Faults {
    /// None at all.
    pub const NONE: Self = Self {
        slow_down_permille: 0,
        lost_reply_permille: 0,
        slow_body_permille: 0,
        silent: false,
    };
    /// Three of ten requests are refused, and some of the rest are lost or slow.
    pub const FREQUENT: Self = Self {
        slow_down_permille: 300,
        lost_reply_permille: 100,
        slow_body_permille: 50,
        silent: false,
    };
    /// An outage.
    pub const SILENCE: Self = Self {
        silent: true,
        ..Self::NONE
    };
}

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    SlowDown,
    LostReply,
    /// Carried out, and held by a trap before it is answered.
    LateReply,
    SlowBody,
    Unanswered,
    CutOff,
}

/// The proxy; it ends when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    random: SharedRandom,
    faults: watch::Sender<Faults>,
    counts: Mutex<Counts>,
    trap: Mutex<Option<Trap>>,
}

/// Waits for a request.
#[derive(Debug)]
struct Trap {
    kinds: &'static [&'static str],
    carried_out: bool,
    caught: mpsc::UnboundedSender<Caught>,
}

/// A request that fell into a trap. It goes on when this is dropped.
#[derive(Debug)]
pub struct Caught {
    /// What it asks for, in S3's terms.
    pub kind: &'static str,
    _held: oneshot::Sender<()>,
}

/// What a trap catches; the trap is taken away when this is dropped.
#[derive(Debug)]
pub struct Catch {
    caught: mpsc::UnboundedReceiver<Caught>,
    shared: Arc<Shared>,
}

impl Catch {
    /// A request that was caught since the last time; nothing where there was none.
    pub fn take(&mut self) -> Option<Caught> {
        self.caught.try_recv().ok()
    }
}

impl Drop for Catch {
    fn drop(&mut self) {
        *self.shared.trap.lock() = None;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Proxy {
    /// A proxy before `server` that shows no faults yet.
    pub async fn start(server: SocketAddr, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            random: SeededRandom::shared(seed),
            faults: watch::Sender::new(Faults::default()),
            counts: Mutex::default(),
            trap: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            accepting,
        })
    }

    /// Where clients find it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, show these faults. Requests that wait for an answer in a silence that ends are
    /// cut off.
    pub fn set(&self, faults: Faults) {
        self.shared.faults.send_replace(faults);
    }

    /// From now on, hold every request of one of these kinds: before the server hears of it, or
    /// when it is carried out and before it is answered. There is one trap at a time.
    #[must_use]
    pub fn trap(&self, kinds: &'static [&'static str], carried_out: bool) -> Catch {
        let (sender, caught) = mpsc::unbounded_channel();
        *self.shared.trap.lock() = Some(Trap {
            kinds,
            carried_out,
            caught: sender,
        });
        Catch {
            caught,
            shared: Arc::clone(&self.shared),
        }
    }

    /// What has happened so far.
    pub fn counts(&self) -> Counts {
        self.shared.counts.lock().clone()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    // A client that hangs up is its own affair.
                    let _ = serve(client, &shared).await;
                });
            }
            Err(error) => {
                eprintln!("the proxy cannot accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    client.set_nodelay(true)?;
    let Some((head, body)) = read_head(&mut client).await? else {
        return Ok(());
    };
    let held = shared.hold(head.kind(), false);
    if let Some(held) = held {
        // Fails when it is let go.
        let _ = held.await;
    }
    let outcome = shared.draw_outcome();
    shared.counts.lock().request(head.kind(), outcome.name());
    match outcome {
        Outcome::CutOff => Ok(()),
        Outcome::Unanswered => {
            // The body is taken, as a server does that dies with the request in its hands.
            let mut silence = shared.faults.subscribe();
            tokio::select! {
                drained = drain(&mut client, &head, &body) => drained?,
                _ = silence.wait_for(|faults| !faults.silent) => return Ok(()),
            }
            let _ended = silence.wait_for(|faults| !faults.silent).await;
            Ok(())
        }
        Outcome::SlowDown => {
            drain(&mut client, &head, &body).await?;
            client
                .write_all(&message::slow_down(head.is_head()))
                .await?;
            client.shutdown().await
        }
        Outcome::Passed | Outcome::LostReply | Outcome::LateReply | Outcome::SlowBody => {
            let outcome = if shared.holds_answers(head.kind()) {
                Outcome::LateReply
            } else {
                outcome
            };
            forward(client, shared, head, body, outcome).await
        }
    }
}

impl Shared {
    /// Tells whoever set the trap of this request, where it is one that is held now; what ends when
    /// it is let go.
    fn hold(&self, kind: &'static str, carried_out: bool) -> Option<oneshot::Receiver<()>> {
        let trap = self.trap.lock();
        let trap = trap.as_ref()?;
        if trap.carried_out != carried_out || !trap.kinds.contains(&kind) {
            return None;
        }
        let (held, let_go) = oneshot::channel();
        let caught = Caught { kind, _held: held };
        trap.caught.send(caught).ok().map(|()| let_go)
    }

    fn holds_answers(&self, kind: &'static str) -> bool {
        let trap = self.trap.lock();
        let trap = trap.as_ref();
        trap.is_some_and(|trap| trap.carried_out && trap.kinds.contains(&kind))
    }

    fn draw_outcome(&self) -> Outcome {
        let Faults {
            slow_down_permille,
            lost_reply_permille,
            slow_body_permille,
            silent,
        } = *self.faults.borrow();
        if silent {
            let held = self.random.below(2) == 0;
            return if held {
                Outcome::Unanswered
            } else {
                Outcome::CutOff
            };
        }
        let draw = self.random.below(1_000);
        let slow_down = slow_down_permille;
        let lost_reply = slow_down + lost_reply_permille;
        let slow_body = lost_reply + slow_body_permille;
        match draw {
            draw if draw < slow_down => Outcome::SlowDown,
            draw if draw < lost_reply => Outcome::LostReply,
            draw if draw < slow_body => Outcome::SlowBody,
            _ => Outcome::Passed,
        }
    }
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::SlowDown => "slow_down",
            Self::LostReply => "lost_reply",
            Self::LateReply => "late_reply",
            Self::SlowBody => "slow_body",
            Self::Unanswered => "unanswered",
            Self::CutOff => "cut_off",
        }
    }
}

/// Reads what is left of a request.
async fn drain(client: &mut TcpStream, head: &Head, body: &[u8]) -> io::Result<()> {
    let mut left = head.content_length().saturating_sub(body.len() as u64);
    let mut buffer = vec![0; COPY_BYTES];
    while left > 0 {
        let read = client.read(&mut buffer).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left = left.saturating_sub(read as u64);
    }
    Ok(())
}

/// Carries a request out.
async fn forward(
    mut client: TcpStream,
    shared: &Shared,
    head: Head,
    body: Vec<u8>,
    outcome: Outcome,
) -> io::Result<()> {
    let slow = outcome == Outcome::SlowBody;
    let mut server = TcpStream::connect(shared.server).await?;
    server.set_nodelay(true)?;
    server.write_all(&head.closing()).await?;
    server.write_all(&body).await?;
    let left = head.content_length().saturating_sub(body.len() as u64);
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    // The server may answer before it has read the body, and then hang up.
    let upload = copy(&mut from_client, &mut to_server, Some(left), slow);
    let mut answer = Vec::new();
    let download = async {
        if outcome == Outcome::LostReply {
            from_server.read_to_end(&mut answer).await.map(|_| ())
        } else if outcome == Outcome::LateReply {
            from_server.read_to_end(&mut answer).await?;
            if let Some(held) = shared.hold(head.kind(), true) {
                let _ = held.await;
            }
            to_client.write_all(&answer).await
        } else {
            copy(&mut from_server, &mut to_client, None, slow).await
        }
    };
    let (_uploaded, downloaded) = tokio::join!(upload, download);
    downloaded
}

/// Passes on `left` bytes, or all there are.
async fn copy(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    mut left: Option<u64>,
    slow: bool,
) -> io::Result<()> {
    let mut buffer = vec![0; if slow { SLOW_BYTES } else { COPY_BYTES }];
    while left != Some(0) {
        let room = left.map_or(buffer.len(), |left| {
            buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX))
        });
        let read = from.read(&mut buffer[..room]).await?;
        if read == 0 {
            break;
        }
        to.write_all(&buffer[..read]).await?;
        left = left.map(|left| left - read as u64);
        if slow {
            tokio::time::sleep(SLOW_PAUSE).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
