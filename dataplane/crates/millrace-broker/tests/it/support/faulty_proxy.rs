//! A TCP proxy that mistreats connections: cuts them in the middle of requests and answers, goes
//! silent, delays, and lets an old connection's requests arrive behind a new one's.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use millrace_time::{SeededRandom, SharedRandom};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Bytes that are passed on at once: less than most requests, so that a cut is inside of one.
const CHUNK_BYTES: usize = 512;
/// How long a connection that is to be late collects requests before its client loses it.
const LATE_COLLECTS: Duration = Duration::from_millis(30);
/// How long it holds them: the client has connected again and gone on by then.
const LATE_HOLDS: Duration = Duration::from_millis(200);

/// What becomes of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Ends after some bytes of requests, within one.
    CutInRequest,
    /// Ends after some bytes of answers: what they answer is done, and the client does not know.
    CutInAnswer,
    /// Stays open, and after some bytes nothing passes any more, in either direction.
    Silent,
    /// Each chunk is delayed; ends after some bytes of answers.
    Slow,
    /// Ends after some bytes for the client; what it sent last reaches the broker much later,
    /// behind what the client sends again over other connections.
    Late,
    /// Ends before the first byte.
    Refused,
}

const FATES: [Fate; 6] = [
    Fate::CutInRequest,
    Fate::CutInAnswer,
    Fate::Silent,
    Fate::Slow,
    Fate::Late,
    Fate::Refused,
];

/// A proxy that listens, harmless at first; it ends with the test's runtime.
pub struct FaultyProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    target: OnceLock<SocketAddr>,
    random: SharedRandom,
    is_harmless: AtomicBool,
    met: Mutex<BTreeSet<Fate>>,
}

impl FaultyProxy {
    pub async fn listen(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared {
            target: OnceLock::new(),
            random: SeededRandom::shared(seed),
            is_harmless: AtomicBool::new(true),
            met: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let shared = Arc::clone(&accepting);
                tokio::spawn(async move { shared.serve(client).await });
            }
        });
        Self { address, shared }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where connections go.
    pub fn set_target(&self, target: SocketAddr) {
        self.shared.target.set(target).expect("set once");
    }

    /// Whether further connections are spared.
    pub fn set_harmless(&self, is_harmless: bool) {
        self.shared
            .is_harmless
            .store(is_harmless, Ordering::Release);
    }

    /// Fates that no connection has met so far.
    pub fn unmet(&self) -> Vec<Fate> {
        let met = self.shared.met.lock().expect("no panic");
        let unmet = FATES.into_iter().filter(|fate| !met.contains(fate));
        unmet.collect()
    }
}

impl Shared {
    async fn serve(&self, client: TcpStream) {
        let target = *self.target.get().expect("set before clients come");
        let Ok(broker) = TcpStream::connect(target).await else {
            return;
        };
        let is_harmless = self.is_harmless.load(Ordering::Acquire);
        let fate = (!is_harmless).then(|| {
            let at = self.random.below(FATES.len() as u64);
            FATES[usize::try_from(at).expect("few")]
        });
        if let Some(fate) = fate {
            self.met.lock().expect("no panic").insert(fate);
        }
        // Most connections live for some requests.
        let bytes = 500 + usize::try_from(self.random.below(20_000)).expect("small");
        let delay = Duration::from_millis(1 + self.random.below(15));
        mistreat(fate, bytes, delay, client, broker).await;
    }
}

async fn mistreat(
    fate: Option<Fate>,
    bytes: usize,
    delay: Duration,
    mut client: TcpStream,
    mut broker: TcpStream,
) {
    drop(client.set_nodelay(true));
    drop(broker.set_nodelay(true));
    let (from_client, to_client) = client.split();
    let (from_broker, to_broker) = broker.split();
    let no_delay = Duration::ZERO;
    let (requests, answers, delay) = match fate {
        None => (usize::MAX, usize::MAX, no_delay),
        Some(Fate::Refused) => (0, 0, no_delay),
        Some(Fate::Slow) => (usize::MAX, bytes, delay),
        Some(Fate::CutInRequest | Fate::Late) => (bytes, usize::MAX, no_delay),
        Some(Fate::CutInAnswer | Fate::Silent) => (usize::MAX, bytes, no_delay),
    };
    tokio::select! {
        () = pass(from_client, to_broker, requests, delay) => {}
        () = pass(from_broker, to_client, answers, delay) => {}
    }
    match fate {
        // Until the client gives up.
        Some(Fate::Silent) => drop(tokio::io::copy(&mut client, &mut tokio::io::sink()).await),
        Some(Fate::Late) => {
            let mut late = Vec::new();
            let collecting = client.read_to_end(&mut late);
            drop(tokio::time::timeout(LATE_COLLECTS, collecting).await);
            drop(client);
            tokio::time::sleep(LATE_HOLDS).await;
            drop(broker.write_all(&late).await);
            // The broker answers nobody, but it must have had the time to read.
            let answers = broker.read_to_end(&mut late);
            drop(tokio::time::timeout(LATE_HOLDS, answers).await);
        }
        _ => {}
    }
}

/// Passes on what comes, up to a number of bytes.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut bytes: usize,
    delay: Duration,
) {
    let mut chunk = [0; CHUNK_BYTES];
    while bytes > 0 {
        let most = bytes.min(CHUNK_BYTES);
        let Ok(read @ 1..) = from.read(&mut chunk[..most]).await else {
            return;
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if to.write_all(&chunk[..read]).await.is_err() {
            return;
        }
        bytes -= read;
    }
}
