//! A broker's network of a given bandwidth: everything that it sends to, or receives from, its clients
//! and its bucket passes one of two directions.
//!
//! A direction carries one frame after the other. Connections that are sending take turns, a frame each, as in
//! a fair queue: a frame waits for one of each connection that is sending. A connection hands in
//! pieces of many frames, each of which arrives when its last frame has. The next piece is handed in
//! while one is carried, so that a connection that sends alone gets the whole bandwidth. What is not
//! handed in yet waits in the sockets.

use std::{
    collections::VecDeque,
    io,
    net::SocketAddr,
    num::NonZeroU64,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};

use bytes::BytesMut;
use millrace_time::{SharedClock, SystemClock};
use rustix::thread::set_current_timer_slack;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime::{Builder, Runtime},
    sync::{mpsc as queue, oneshot},
};

use crate::{machine::pause, priority::raise_priority};

/// Bytes that a connection hands in at once.
const PIECE_BYTES: usize = 64 * 1024;
/// Pieces of a connection that wait while another one is carried or delivered.
const PIECES_WAITING: usize = 1;
/// Bytes that a connection sends before others have their turn: a frame between machines of one AWS network.
const FRAME_BYTES: usize = 9_001;
/// A sleep may end so late without a loss of bandwidth.
const LATE_MAX: Duration = Duration::from_millis(1);
/// What is due within this time is carried now: sleeping for each frame would cost more than the frame.
const RESOLUTION: Duration = Duration::from_micros(100);

static CLOCK: LazyLock<SharedClock> = LazyLock::new(SystemClock::shared);

/// The link; it ends when this is dropped, with all connections.
#[derive(Debug)]
pub struct ShapedLink {
    clients: SocketAddr,
    bucket: SocketAddr,
    _runtime: Runtime,
}

/// Frames that are to be carried.
#[derive(Debug)]
struct Piece {
    bytes_left: usize,
    arrived: oneshot::Sender<()>,
}

/// Pieces of one connection, in order.
#[derive(Debug)]
struct Sending {
    connection: u64,
    pieces: VecDeque<Piece>,
}

/// Its thread ends when all connections have.
#[derive(Debug, Clone)]
struct Direction {
    pieces: Sender<(u64, Piece)>,
}

impl Direction {
    fn start(name: &str, bytes_per_s: u64) -> io::Result<Self> {
        let (pieces, handed_in) = mpsc::channel();
        let carry = move || {
            raise_priority();
            if let Err(error) = set_current_timer_slack(Some(NonZeroU64::MIN)) {
                eprintln!("the link is late by the system's timer slack: {error}");
            }
            carry_all(&handed_in, bytes_per_s as f64);
        };
        thread::Builder::new().name(name.to_owned()).spawn(carry)?;
        Ok(Self { pieces })
    }

    /// Tells when so many bytes of a connection have been carried.
    fn hand_in(&self, connection: u64, bytes: usize) -> io::Result<oneshot::Receiver<()>> {
        let (arrived, arrival) = oneshot::channel();
        let piece = Piece {
            bytes_left: bytes,
            arrived,
        };
        let handed_in = self.pieces.send((connection, piece));
        handed_in.map_err(io::Error::other)?;
        Ok(arrival)
    }
}

/// Puts a piece behind those of its connection.
fn append(sending: &mut VecDeque<Sending>, (connection, piece): (u64, Piece)) {
    match sending.iter_mut().find(|one| one.connection == connection) {
        Some(one) => one.pieces.push_back(piece),
        None => sending.push_back(Sending {
            connection,
            pieces: VecDeque::from([piece]),
        }),
    }
}

fn carry_all(handed_in: &Receiver<(u64, Piece)>, bytes_per_s: f64) {
    let mut sending = VecDeque::new();
    // When everything so far is carried.
    let mut free_at = CLOCK.now();
    loop {
        if sending.is_empty() {
            let Ok(piece) = handed_in.recv() else {
                return;
            };
            append(&mut sending, piece);
            free_at = free_at.max(CLOCK.now());
        }
        for piece in handed_in.try_iter() {
            append(&mut sending, piece);
        }
        let Some(mut turn) = sending.pop_front() else {
            continue;
        };
        let Some(piece) = turn.pieces.front_mut() else {
            continue;
        };
        let frame = piece.bytes_left.min(FRAME_BYTES);
        let now = CLOCK.now();
        // Time in which this thread had no processor is not made up for.
        free_at = free_at.max(now.saturating_sub(LATE_MAX));
        free_at += Duration::from_secs_f64(frame as f64 / bytes_per_s);
        let wait = free_at.saturating_sub(now);
        if wait >= RESOLUTION {
            pause(wait);
        }
        piece.bytes_left -= frame;
        if piece.bytes_left == 0
            && let Some(carried) = turn.pieces.pop_front()
        {
            // A connection that has ended waits for nothing.
            let _ = carried.arrived.send(());
        }
        if !turn.pieces.is_empty() {
            sending.push_back(turn);
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
        let into = Direction::start("link-in", bytes_per_s)?;
        let out = Direction::start("link-out", bytes_per_s)?;
        let of_clients = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let of_broker = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let link = Self {
            clients: of_clients.local_addr()?,
            bucket: of_broker.local_addr()?,
            _runtime: runtime,
        };
        let requests = (into.clone(), out.clone());
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

async fn accept(listener: TcpListener, to: SocketAddr, (there, back): (Direction, Direction)) {
    // It fails where no descriptors are left: then the benchmark fails, because nobody answers.
    while let Ok((near, _)) = listener.accept().await {
        let (there, back) = (there.clone(), back.clone());
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
    static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
    let connection = CONNECTIONS.fetch_add(1, Ordering::Relaxed);
    let (handed_in, mut carried) = queue::channel::<(BytesMut, _)>(PIECES_WAITING);
    let reading = async move {
        while let Ok(place) = handed_in.reserve().await {
            let mut piece = BytesMut::with_capacity(PIECE_BYTES);
            if from.read_buf(&mut piece).await? == 0 {
                break;
            }
            let arrival = direction.hand_in(connection, piece.len())?;
            place.send((piece, arrival));
        }
        Ok(())
    };
    let writing = async move {
        while let Some((piece, arrival)) = carried.recv().await {
            arrival.await.map_err(io::Error::other)?;
            to.write_all(&piece).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(reading, writing).map(|((), ())| ())
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

    #[test]
    fn two_pieces_do_not_give_a_connection_two_turns() {
        let piece = || Piece {
            bytes_left: 1,
            arrived: oneshot::channel().0,
        };
        let mut sending = VecDeque::new();
        for connection in [1, 1, 2] {
            append(&mut sending, (connection, piece()));
        }
        let pieces: Vec<_> = sending.iter().map(|one| one.pieces.len()).collect();
        assert_eq!(pieces, [2, 1]);
    }

    #[test]
    fn a_message_waits_for_a_frame_of_each_other_sender() {
        const BYTES_PER_S: f64 = 100_000.0;
        let (pieces, handed_in) = mpsc::channel();
        let direction = Direction { pieces };
        let hand_in = |connection, bytes| direction.hand_in(connection, bytes).expect("open");
        let mut bulk = hand_in(1, 50_000);
        let rest = hand_in(1, 50_000);
        let message = hand_in(2, 100);
        drop(direction);
        let started = CLOCK.now();
        let carrying = thread::spawn(move || carry_all(&handed_in, BYTES_PER_S));
        message.blocking_recv().expect("carried");
        assert!(bulk.try_recv().is_err(), "it has eleven more frames");
        // One frame takes 90 ms, all of them a second.
        assert!(CLOCK.now() - started >= Duration::from_millis(89));
        bulk.blocking_recv().expect("carried");
        rest.blocking_recv().expect("carried");
        assert!(CLOCK.now() - started >= Duration::from_millis(990));
        carrying.join().expect("no panic");
    }
}
