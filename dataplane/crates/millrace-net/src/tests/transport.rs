//! A connection over a transport that transforms bytes, as encryption does: it starts with a
//! handshake, frames bytes in packets of its own, and buffers some in both directions.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::atomic::AtomicBool,
};

use bytes::buf::Limit;
use millrace_budget::Budget;
use millrace_tasks::Supervisor;
use tokio::net::TcpListener;

use super::*;
use crate::{
    connection::{self, Shared},
    metrics::Metrics,
    registry::Registry,
    transport::Transport,
    warnings::Warnings,
};

/// What the client says first, and the server answers.
const HELLO: [u8; 4] = *b"veil";
/// Every byte of a packet is changed by this.
const VEIL: u8 = 0x5a;
/// Bytes of plaintext in one packet; its length goes before it.
const PACKET_BYTES: usize = 200;

#[derive(Default)]
struct Veil {
    greeted: bool,
    /// What came and is no whole packet yet.
    sealed: Vec<u8>,
    /// What came and has not been taken.
    opened: VecDeque<u8>,
    /// What is to be sent.
    outgoing: Vec<u8>,
}

struct Veiled {
    socket: TcpStream,
    state: Mutex<Veil>,
    /// Something that was sent had to wait for the socket.
    held_back: Arc<AtomicBool>,
}

impl Veil {
    fn open(&mut self) {
        if !self.greeted {
            if self.sealed.len() < HELLO.len() {
                return;
            }
            assert_eq!(self.sealed[..4], HELLO);
            self.sealed.drain(..4);
            self.outgoing.extend(HELLO);
            self.greeted = true;
        }
        while let Some((&length, rest)) = self.sealed.split_first() {
            let length = usize::from(length);
            if rest.len() < length {
                return;
            }
            self.opened
                .extend(rest[..length].iter().map(|byte| byte ^ VEIL));
            self.sealed.drain(..=length);
        }
    }
}

impl Transport for Veiled {
    const HALVES_ARE_APART: bool = false;

    async fn readable(&self) -> io::Result<()> {
        if !self.state.lock().opened.is_empty() {
            return Ok(());
        }
        self.socket.readable().await
    }

    fn try_read(&self, space: &mut Limit<&mut BytesMut>) -> io::Result<usize> {
        let mut packet = [0; 1_000];
        let state = &mut *self.state.lock();
        if state.opened.is_empty() {
            let read = self.socket.try_read(&mut packet)?;
            if read == 0 {
                return Ok(0);
            }
            state.sealed.extend(&packet[..read]);
            state.open();
            // The client waits for the answer to its handshake, whatever it has sent behind it.
            send_outgoing(&self.socket, state)?;
        }
        let count = state.opened.len().min(space.remaining_mut());
        if count == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state
            .opened
            .drain(..count)
            .for_each(|byte| space.put_u8(byte));
        Ok(count)
    }

    async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    fn try_write(&self, segments: &[IoSlice<'_>]) -> io::Result<usize> {
        let state = &mut *self.state.lock();
        if !state.outgoing.is_empty() {
            send_outgoing(&self.socket, state)?;
        }
        let first = segments.iter().find(|segment| !segment.is_empty());
        let plain = first.map_or(&[][..], |segment| {
            &segment[..segment.len().min(PACKET_BYTES)]
        });
        state
            .outgoing
            .push(u8::try_from(plain.len()).expect("a packet is small"));
        state.outgoing.extend(plain.iter().map(|byte| byte ^ VEIL));
        Ok(plain.len())
    }

    fn try_flush(&self) -> io::Result<()> {
        let sent = send_outgoing(&self.socket, &mut self.state.lock());
        if sent.is_err() {
            self.held_back.store(true, Ordering::SeqCst);
        }
        sent
    }
}

fn send_outgoing(socket: &TcpStream, state: &mut Veil) -> io::Result<()> {
    while !state.outgoing.is_empty() {
        let sent = socket.try_write(&state.outgoing)?;
        state.outgoing.drain(..sent);
    }
    Ok(())
}

/// Serves one veiled connection and returns the client's end of its socket.
async fn veiled_client(probe: &Arc<Probe>, held_back: &Arc<AtomicBool>) -> TcpStream {
    let clock: SharedClock = ManualClock::shared();
    let shared = Arc::new(Shared {
        config: NetConfig::default(),
        service: Arc::new(TestService {
            probe: Arc::clone(probe),
            clock: clock.clone(),
        }),
        budget: Budget::new(1 << 30),
        timers: Timers::new(clock.clone(), Supervisor::new()),
        clock: clock.clone(),
        metrics: Metrics::new(),
        warnings: Warnings::new(clock.clone()),
        tasks: Supervisor::new(),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let client = TcpStream::connect(listener.local_addr().expect("bound")).await;
    let (socket, address) = listener.accept().await.expect("accepted");
    let entry = Registry::new().enter(1, &clock);
    let peer = Arc::new(Peer::new(1, address, "VEILED".into()));
    let transport = Veiled {
        socket,
        state: Mutex::default(),
        held_back: Arc::clone(held_back),
    };
    tokio::spawn(connection::serve(transport, peer, shared, entry));
    client.expect("accepted")
}

fn veiled(plain: &[u8]) -> Vec<u8> {
    let packet = |plain: &[u8]| {
        let length = u8::try_from(plain.len()).expect("a packet is small");
        let veiled = plain.iter().map(|byte| byte ^ VEIL);
        std::iter::once(length).chain(veiled).collect::<Vec<u8>>()
    };
    plain.chunks(PACKET_BYTES).flat_map(packet).collect()
}

async fn receive_hello(client: &mut TcpStream) -> [u8; 4] {
    let mut hello = [0; 4];
    let read = timeout(SOON, client.read_exact(&mut hello)).await;
    read.expect("soon").expect("an answer");
    hello
}

/// The plaintext of the next response, its length prefix taken off.
async fn receive_veiled(client: &mut TcpStream, plain: &mut VecDeque<u8>) -> Vec<u8> {
    let mut wanted = 4;
    loop {
        if plain.len() >= wanted {
            let prefix: Vec<u8> = plain.iter().take(4).copied().collect();
            let length = u32::from_be_bytes(prefix.try_into().expect("four bytes"));
            wanted = 4 + usize::try_from(length).expect("small");
            if plain.len() >= wanted {
                return plain.drain(..wanted).skip(4).collect();
            }
        }
        let length = timeout(SOON, client.read_u8()).await.expect("soon");
        let mut packet = vec![0; usize::from(length.expect("a packet"))];
        client.read_exact(&mut packet).await.expect("all of it");
        plain.extend(packet.iter().map(|byte| byte ^ VEIL));
    }
}

#[tokio::test]
async fn a_connection_works_the_same_over_a_transport_that_transforms_bytes() {
    let (probe, held_back) = (Arc::new(Probe::default()), Arc::default());
    let mut client = veiled_client(&probe, &held_back).await;
    // The handshake comes in two pieces, the second together with what follows.
    send(&mut client, &HELLO[..3]).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut large = 5_000_u32.to_be_bytes().to_vec();
    large.extend(std::iter::repeat_n(ECHO, 5_000));
    let requests = [frame(WAIT, 1), frame(ECHO, 2), large, frame(BIG, 4)].concat();
    send(&mut client, &[&HELLO[3..], &veiled(&requests)].concat()).await;
    assert_eq!(receive_hello(&mut client).await, HELLO);
    assert_eq!(probe.accepted(4).await, [1, 2, ECHO, 4]);
    probe.release(1);
    let mut plain = VecDeque::new();
    assert_eq!(receive_veiled(&mut client, &mut plain).await, [1]);
    assert_eq!(receive_veiled(&mut client, &mut plain).await, [2]);
    assert_eq!(receive_veiled(&mut client, &mut plain).await, [ECHO; 4_999]);
    let big = receive_veiled(&mut client, &mut plain).await;
    assert!(big == vec![4; BIG_BYTES], "{} bytes", big.len());
    assert!(plain.is_empty());
    client.shutdown().await.expect("open");
    until(|| probe.disconnected.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn the_last_bytes_leave_although_the_transport_held_them_back() {
    let (probe, held_back) = (Arc::new(Probe::default()), Arc::default());
    let mut client = veiled_client(&probe, &held_back).await;
    let requests: Vec<u8> = (0..4).flat_map(|name| frame(BIG, name)).collect();
    send(&mut client, &[&HELLO[..], &veiled(&requests)].concat()).await;
    assert_eq!(receive_hello(&mut client).await, HELLO);
    // Reads nothing until the socket is full.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut plain = VecDeque::new();
    for name in 0..4 {
        let big = receive_veiled(&mut client, &mut plain).await;
        assert!(big == vec![name; BIG_BYTES]);
    }
    send(&mut client, &veiled(&frame(ECHO, 9))).await;
    assert_eq!(receive_veiled(&mut client, &mut plain).await, [9]);
}
