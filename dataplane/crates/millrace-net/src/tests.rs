//! The network layer over real sockets, with a service whose responses the test controls.

mod certificates;
mod limits;
mod listening;
mod mute;
mod strangers;
mod tls;
mod transport;
mod turns;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use millrace_purgatory::Timers;
use millrace_tasks::Supervisor;
use millrace_time::{ManualClock, SharedClock};
use millrace_wire::{
    Response,
    service::{Accepted, BoxFuture, CloseReason, Peer, RefusedCertificate, Service},
};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
    time::timeout,
};

use crate::{ListenerConfig, ListenerLimits, ListenerSecurity, Listeners, NetConfig, Server};

/// Nothing in here takes longer than this unless it hangs.
const SOON: Duration = Duration::from_secs(10);

/// A frame's first byte says what the service does with it, the second names it.
const ECHO: u8 = b'e';
const WAIT: u8 = b'w';
const SILENT: u8 = b's';
const CLOSE: u8 = b'c';
const BIG: u8 = b'b';
const PANIC: u8 = b'p';
/// Answered at once, and nothing more is to be read for [`THROTTLE`].
const THROTTLED: u8 = b't';
/// The same, where stage 2 finds that out.
const THROTTLED_LATE: u8 = b'l';
const THROTTLE: Duration = Duration::from_secs(30);
/// The client has proved who it is.
const SIGN_IN: u8 = b'i';
/// It has not: it is answered, and its connection ends.
const REFUSE: u8 = b'r';
/// Answered with the client's principal.
const WHO: u8 = b'?';
const BIG_BYTES: usize = 4 * 1024 * 1024;

#[derive(Default)]
struct Probe {
    accepted: Mutex<Vec<u8>>,
    gates: Mutex<HashMap<u8, Arc<Notify>>>,
    big_made: AtomicUsize,
    disconnected: AtomicUsize,
    /// Subjects of certificates that stand for nobody, with the reasons.
    refused: Mutex<Vec<(Option<String>, &'static str)>>,
    /// Who was served last.
    peer: Mutex<Option<Arc<Peer>>>,
}

impl Probe {
    fn gate(&self, name: u8) -> Arc<Notify> {
        Arc::clone(self.gates.lock().entry(name).or_default())
    }

    fn release(&self, name: u8) {
        self.gate(name).notify_one();
    }

    async fn accepted(&self, count: usize) -> Vec<u8> {
        until(|| self.accepted.lock().len() >= count).await;
        self.accepted.lock().clone()
    }
}

struct TestService {
    probe: Arc<Probe>,
    clock: SharedClock,
}

fn response(body: &[u8]) -> Response {
    let mut head = BytesMut::new();
    head.put_u32(u32::try_from(body.len()).expect("small"));
    Response::from_segments(vec![head.freeze(), Bytes::copy_from_slice(body)])
}

impl Service for TestService {
    fn accept<'a>(&'a self, peer: &'a Arc<Peer>, frame: BytesMut) -> BoxFuture<'a, Accepted> {
        Box::pin(async move {
            let (op, name) = (frame[0], frame[1]);
            self.probe.accepted.lock().push(name);
            *self.probe.peer.lock() = Some(Arc::clone(peer));
            let probe = Arc::clone(&self.probe);
            match op {
                WAIT => {
                    let gate = probe.gate(name);
                    Accepted::Pending(Box::pin(async move {
                        gate.notified().await;
                        response(&[name])
                    }))
                }
                PANIC => panic!("asked for"),
                THROTTLED => {
                    peer.throttle.until(self.clock.now() + THROTTLE);
                    Accepted::Ready(response(&[name]))
                }
                THROTTLED_LATE => {
                    let gate = probe.gate(name);
                    let (peer, clock) = (Arc::clone(peer), self.clock.clone());
                    Accepted::Pending(Box::pin(async move {
                        gate.notified().await;
                        peer.throttle.until(clock.now() + THROTTLE);
                        response(&[name])
                    }))
                }
                SIGN_IN => {
                    peer.identity.authenticated("User:alice", None);
                    Accepted::Ready(response(&[name]))
                }
                REFUSE => Accepted::Last(
                    Box::pin(async move { response(&[name]) }),
                    CloseReason::AuthenticationFailed("asked for".into()),
                ),
                WHO => Accepted::Ready(response(
                    peer.identity.principal().unwrap_or_default().as_bytes(),
                )),
                SILENT => Accepted::Silent(Box::pin(async {})),
                CLOSE => Accepted::Close(CloseReason::Unacknowledged("asked for".into())),
                BIG => Accepted::Pending(Box::pin(async move {
                    probe.big_made.fetch_add(1, Ordering::SeqCst);
                    response(&vec![name; BIG_BYTES])
                })),
                _ => Accepted::Ready(response(&frame[1..])),
            }
        })
    }

    fn certificate_refused(&self, refused: RefusedCertificate<'_>) {
        let subject = refused.subject.map(str::to_owned);
        self.probe.refused.lock().push((subject, refused.reason));
    }

    fn disconnected(&self, _peer: &Arc<Peer>) {
        self.probe.disconnected.fetch_add(1, Ordering::SeqCst);
    }
}

struct Rig {
    server: Server,
    probe: Arc<Probe>,
    clock: Arc<ManualClock>,
    timers: Timers,
    address: std::net::SocketAddr,
}

async fn rig(config: NetConfig) -> Rig {
    secure_rig(config, ListenerSecurity::default()).await
}

async fn secure_rig(config: NetConfig, security: ListenerSecurity) -> Rig {
    let listener = ListenerConfig {
        name: "PLAINTEXT".into(),
        host: "127.0.0.1".into(),
        port: 0,
        security,
        limits: ListenerLimits::default(),
    };
    let listeners = Listeners::bind(&[listener]).await.expect("a free port");
    let address = listeners.addresses()[0].1;
    let probe = Arc::new(Probe::default());
    let clock = ManualClock::shared();
    let shared: SharedClock = clock.clone();
    let timers = Timers::new(shared.clone(), Supervisor::new());
    let service = TestService {
        probe: Arc::clone(&probe),
        clock: shared.clone(),
    };
    let serving = listeners.serve(
        config,
        Arc::new(service),
        shared,
        timers.clone(),
        (Arc::default(), &Supervisor::new()),
    );
    let server = serving.expect("nobody else listens there");
    Rig {
        server,
        probe,
        clock,
        timers,
        address,
    }
}

impl Rig {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("accepted")
    }
}

async fn until(condition: impl Fn() -> bool) {
    let poll = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(SOON, poll)
        .await
        .expect("the condition becomes true soon");
}

fn frame(op: u8, name: u8) -> Vec<u8> {
    vec![0, 0, 0, 2, op, name]
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    stream.write_all(bytes).await.expect("open");
}

async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let read = async {
        let length = stream.read_u32().await.expect("a response");
        let mut body = vec![0; usize::try_from(length).expect("small")];
        stream
            .read_exact(&mut body)
            .await
            .expect("a whole response");
        body
    };
    timeout(SOON, read).await.expect("a response soon")
}

async fn is_closed(stream: &mut (impl AsyncRead + Unpin)) -> bool {
    let read = timeout(SOON, stream.read_u8())
        .await
        .expect("an answer soon");
    read.is_err()
}

#[tokio::test]
async fn responses_keep_request_order_while_later_requests_are_ordered() {
    let rig = rig(NetConfig::default()).await;
    let mut client = rig.connect().await;
    let all = [
        frame(WAIT, 1),
        frame(WAIT, 2),
        frame(SILENT, 3),
        frame(ECHO, 4),
    ]
    .concat();
    send(&mut client, &all).await;
    assert_eq!(
        rig.probe.accepted(4).await,
        [1, 2, 3, 4],
        "stage 1 does not wait for stage 2"
    );
    rig.probe.release(2);
    rig.probe.release(1);
    for expected in [1, 2, 4] {
        assert_eq!(receive(&mut client).await, [expected]);
    }
    assert_eq!(rig.server.drain(SOON).await.cut, 0);
}

#[tokio::test]
async fn depth_one_is_the_serial_model() {
    let rig = rig(NetConfig {
        pipeline_depth: 1,
        ..NetConfig::default()
    })
    .await;
    let mut client = rig.connect().await;
    send(&mut client, &[frame(WAIT, 1), frame(WAIT, 2)].concat()).await;
    assert_eq!(rig.probe.accepted(1).await, [1]);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(
        rig.probe.accepted.lock().len(),
        1,
        "the second waits for the first's response"
    );
    rig.probe.release(1);
    assert_eq!(receive(&mut client).await, [1]);
    assert_eq!(rig.probe.accepted(2).await, [1, 2]);
    rig.probe.release(2);
    assert_eq!(receive(&mut client).await, [2]);
}

#[tokio::test]
async fn at_most_the_depth_is_in_flight_on_one_connection() {
    let rig = rig(NetConfig {
        pipeline_depth: 8,
        ..NetConfig::default()
    })
    .await;
    let mut client = rig.connect().await;
    let burst: Vec<u8> = (0..20).flat_map(|name| frame(WAIT, name)).collect();
    send(&mut client, &burst).await;
    rig.probe.accepted(8).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(rig.probe.accepted.lock().len(), 8);
    assert_eq!(rig.server.metrics().requests_in_flight, 8);
    let mut other = rig.connect().await;
    send(&mut other, &frame(ECHO, 99)).await;
    assert_eq!(
        receive(&mut other).await,
        [99],
        "another connection is not disturbed"
    );
    for name in 0..20 {
        rig.probe.release(name);
        assert_eq!(receive(&mut client).await, [name]);
    }
}

#[tokio::test]
async fn illegal_frames_close_their_connection_and_no_other() {
    let rig = rig(NetConfig::default()).await;
    let mut bystander = rig.connect().await;
    let prefixes = [
        (-5_i32).to_be_bytes(),
        200_000_000_i32.to_be_bytes(),
        *b"GET ",
    ];
    for prefix in prefixes {
        let mut client = rig.connect().await;
        send(&mut client, &prefix).await;
        assert!(is_closed(&mut client).await);
        send(&mut bystander, &frame(ECHO, 7)).await;
        assert_eq!(receive(&mut bystander).await, [7]);
    }
    let mut truncated = rig.connect().await;
    send(&mut truncated, &[0, 0, 0, 9, 1]).await;
    truncated.shutdown().await.expect("open");
    assert!(is_closed(&mut truncated).await);
    until(|| rig.server.metrics().connections == 1).await;
    assert_eq!(rig.server.metrics().bytes_in_flight, 0);
}

#[tokio::test]
async fn a_close_comes_after_the_responses_before_it() {
    let rig = rig(NetConfig::default()).await;
    let mut client = rig.connect().await;
    let all = [frame(WAIT, 1), frame(CLOSE, 2), frame(ECHO, 3)].concat();
    send(&mut client, &all).await;
    rig.probe.accepted(2).await;
    rig.probe.release(1);
    assert_eq!(receive(&mut client).await, [1]);
    assert!(is_closed(&mut client).await);
    assert_eq!(
        *rig.probe.accepted.lock(),
        [1, 2],
        "nothing is read after it"
    );
}

#[tokio::test]
async fn a_client_that_does_not_read_costs_bounded_memory() {
    let limit = 6 * 1024 * 1024;
    let rig = rig(NetConfig {
        connection_bytes_max: limit,
        ..NetConfig::default()
    })
    .await;
    let mut slow = rig.connect().await;
    let burst: Vec<u8> = (0..60).flat_map(|name| frame(BIG, name)).collect();
    send(&mut slow, &burst).await;
    until(|| rig.probe.big_made.load(Ordering::SeqCst) > 0).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let made = rig.probe.big_made.load(Ordering::SeqCst);
    assert!(
        made <= 8,
        "{made} of 60 responses were made for a client that reads none"
    );
    assert!(rig.server.metrics().bytes_in_flight <= (limit + 2 * BIG_BYTES) as u64);
    let mut other = rig.connect().await;
    send(&mut other, &frame(ECHO, 1)).await;
    assert_eq!(receive(&mut other).await, [1]);
    for name in 0..60 {
        assert_eq!(receive(&mut slow).await, vec![name; BIG_BYTES]);
    }
    until(|| rig.server.metrics().bytes_in_flight == 0).await;
}

#[tokio::test]
async fn the_brokers_memory_is_shared_fairly_and_given_back() {
    let rig = rig(NetConfig {
        broker_bytes_max: 1_000,
        ..NetConfig::default()
    })
    .await;
    let mut first = rig.connect().await;
    let mut large = 900_u32.to_be_bytes().to_vec();
    large.extend(std::iter::once(WAIT).chain(std::iter::repeat_n(1, 899)));
    send(&mut first, &large).await;
    rig.probe.accepted(1).await;
    let mut second = rig.connect().await;
    large[4..].fill(ECHO);
    send(&mut second, &large).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(
        rig.probe.accepted.lock().len(),
        1,
        "the second waits for memory"
    );
    rig.probe.release(1);
    assert_eq!(receive(&mut first).await, [1]);
    assert_eq!(receive(&mut second).await.len(), 899);
    until(|| rig.server.metrics().bytes_in_flight == 0).await;
}

#[tokio::test]
async fn idle_and_stalled_connections_are_closed_and_waiting_ones_are_not() {
    let rig = rig(NetConfig::default()).await;
    let mut idle = rig.connect().await;
    let mut stalled = rig.connect().await;
    send(&mut stalled, &[0, 0, 1, 0, 1, 2, 3]).await;
    let mut waiting = rig.connect().await;
    send(&mut waiting, &frame(WAIT, 1)).await;
    rig.probe.accepted(1).await;
    until(|| rig.server.metrics().bytes_in_flight > 256).await;
    rig.clock.advance(Duration::from_secs(61));
    assert!(is_closed(&mut stalled).await);
    until(|| rig.server.metrics().connections == 2).await;
    rig.clock.advance(Duration::from_secs(600));
    assert!(is_closed(&mut idle).await);
    rig.probe.release(1);
    assert_eq!(
        receive(&mut waiting).await,
        [1],
        "a long poll is not idleness"
    );
}

#[tokio::test]
async fn a_drain_answers_what_is_in_flight_and_then_closes() {
    let rig = rig(NetConfig::default()).await;
    let mut client = rig.connect().await;
    send(&mut client, &frame(WAIT, 1)).await;
    rig.probe.accepted(1).await;
    let server = rig.server.clone();
    let drain = tokio::spawn(async move { server.drain(SOON).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    send(&mut client, &frame(ECHO, 2)).await;
    rig.probe.release(1);
    assert_eq!(receive(&mut client).await, [1]);
    assert!(is_closed(&mut client).await);
    assert_eq!(drain.await.expect("no panic").cut, 0);
    assert_eq!(
        *rig.probe.accepted.lock(),
        [1],
        "nothing is read once the drain has started"
    );
    assert!(TcpStream::connect(rig.address).await.is_err());
}

#[tokio::test]
async fn a_drain_is_bounded() {
    let rig = rig(NetConfig::default()).await;
    let mut client = rig.connect().await;
    send(&mut client, &frame(WAIT, 1)).await;
    rig.probe.accepted(1).await;
    assert_eq!(rig.server.drain(Duration::from_millis(50)).await.cut, 1);
    assert!(is_closed(&mut client).await);
    assert_eq!(rig.server.metrics().connections, 0);
}

#[tokio::test]
async fn requests_of_a_client_that_left_run_to_their_end() {
    let rig = rig(NetConfig::default()).await;
    let mut client = rig.connect().await;
    send(&mut client, &frame(WAIT, 1)).await;
    rig.probe.accepted(1).await;
    drop(client);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(rig.server.metrics().requests_in_flight, 1);
    rig.probe.release(1);
    until(|| rig.server.metrics().connections == 0).await;
    assert_eq!(rig.probe.disconnected.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn one_connection_too_many_is_refused() {
    let rig = rig(NetConfig {
        connections_max: 1,
        ..NetConfig::default()
    })
    .await;
    let mut first = rig.connect().await;
    send(&mut first, &frame(ECHO, 1)).await;
    assert_eq!(receive(&mut first).await, [1]);
    let mut second = rig.connect().await;
    assert!(is_closed(&mut second).await);
    send(&mut first, &frame(ECHO, 2)).await;
    assert_eq!(receive(&mut first).await, [2]);
}

#[tokio::test]
async fn a_panicking_handler_costs_its_own_connection_only() {
    let rig = rig(NetConfig::default()).await;
    let mut bystander = rig.connect().await;
    let mut client = rig.connect().await;
    send(&mut client, &frame(PANIC, 1)).await;
    assert!(is_closed(&mut client).await);
    send(&mut bystander, &frame(ECHO, 2)).await;
    assert_eq!(receive(&mut bystander).await, [2]);
    until(|| rig.server.metrics().connections == 1).await;
    assert_eq!(rig.probe.disconnected.load(Ordering::SeqCst), 1);
    assert_eq!(rig.server.metrics().bytes_in_flight, 0);
}
