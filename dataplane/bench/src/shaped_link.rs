//! A broker's network of a given bandwidth: everything that it sends to, or receives from, its clients
//! and its bucket passes one of two directions.
//!
//! A direction carries pieces one after the other, in the order in which they come, each for as long as
//! its bytes take. A connection has one piece in it at a time, so connections share it evenly, as in a
//! fair queue: what a connection sends waits for one piece of each connection that is sending. What is
//! not carried yet waits in the sockets.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use millrace_time::{SharedClock, SystemClock};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime::{Builder, Runtime},
    time::sleep,
};

use crate::priority::raise_priority;

/// Bytes that a connection sends before others have their turn.
const PIECE_BYTES: usize = 64 * 1024;
/// Timers are no finer: what is due within this time is not waited for.
const TICK: Duration = Duration::from_millis(1);

static CLOCK: LazyLock<SharedClock> = LazyLock::new(SystemClock::shared);

/// The link; it ends when this is dropped, with all connections.
#[derive(Debug)]
pub struct ShapedLink {
    clients: SocketAddr,
    bucket: SocketAddr,
    _runtime: Runtime,
}

#[derive(Debug)]
struct Direction {
    bytes_per_s: f64,
    /// When everything that was given to it is carried.
    free_at: Mutex<Duration>,
}

impl Direction {
    fn new(bytes_per_s: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes_per_s: bytes_per_s as f64,
            free_at: Mutex::new(CLOCK.now()),
        })
    }

    async fn carry(&self, bytes: usize) {
        let now = CLOCK.now();
        let done = {
            let mut free_at = self.free_at.lock();
            let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_s);
            *free_at = (*free_at).max(now) + takes;
            *free_at
        };
        let wait = done.saturating_sub(now);
        if wait >= TICK {
            sleep(wait).await;
        }
    }
}

impl ShapedLink {
    /// A link of so many bytes per second in each direction, for the broker at `broker` whose bucket
    /// is at `bucket`.
    ///
    /// # Errors
    /// No threads or ports are left.
    pub fn start(bytes_per_s: u64, broker: SocketAddr, bucket: SocketAddr) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("link")
            // A network needs no processor.
            .on_thread_start(raise_priority)
            .enable_all()
            .build()?;
        let (into, out) = (Direction::new(bytes_per_s), Direction::new(bytes_per_s));
        let of_clients = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let of_broker = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let link = Self {
            clients: of_clients.local_addr()?,
            bucket: of_broker.local_addr()?,
            _runtime: runtime,
        };
        let requests = (Arc::clone(&into), Arc::clone(&out));
        link._runtime.spawn(accept(of_clients, broker, requests));
        link._runtime.spawn(accept(of_broker, bucket, (out, into)));
        Ok(link)
    }

    /// Where clients find the broker.
    #[must_use]
    pub fn for_clients(&self) -> SocketAddr {
        self.clients
    }

    /// Where the broker finds its bucket.
    #[must_use]
    pub fn for_broker(&self) -> SocketAddr {
        self.bucket
    }
}

async fn accept(
    listener: TcpListener,
    to: SocketAddr,
    (there, back): (Arc<Direction>, Arc<Direction>),
) {
    // It fails where no descriptors are left: then the benchmark fails, because nobody answers.
    while let Ok((near, _)) = listener.accept().await {
        let (there, back) = (Arc::clone(&there), Arc::clone(&back));
        tokio::spawn(async move {
            if let Ok(far) = TcpStream::connect(to).await {
                let _ = (near.set_nodelay(true), far.set_nodelay(true));
                let (near_read, near_write) = near.into_split();
                let (far_read, far_write) = far.into_split();
                // Whoever hangs up ends its direction only.
                let _ = tokio::join!(
                    copy(near_read, far_write, &there),
                    copy(far_read, near_write, &back)
                );
            }
        });
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: &Direction,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = from.read(&mut piece).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        direction.carry(read).await;
        to.write_all(&piece[..read]).await?;
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        thread,
    };

    use super::*;

    #[test]
    fn bytes_arrive_as_they_were_and_take_their_time() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = server.local_addr().expect("bound");
        let echo = thread::spawn(move || {
            let (mut stream, _) = server.accept().expect("a client");
            let mut all = Vec::new();
            stream.read_to_end(&mut all).expect("read");
            stream.write_all(&all).expect("written");
        });
        let link = ShapedLink::start(2_000_000, address, address).expect("starts");
        let mut client = TcpStream::connect(link.for_clients()).expect("connects");
        let sent: Vec<u8> = (0..400_000_u32).map(|n| n as u8).collect();
        let started = CLOCK.now();
        client.write_all(&sent).expect("written");
        client.shutdown(std::net::Shutdown::Write).expect("shut");
        let mut received = Vec::new();
        client.read_to_end(&mut received).expect("read");
        echo.join().expect("no panic");
        assert!(received == sent, "the same bytes");
        // 0.2 s in each direction, the second after the first.
        assert!(CLOCK.now() - started >= Duration::from_millis(390));
    }
}
