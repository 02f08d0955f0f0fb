//! What strangers send to a listener with TLS, and how many of them there may be.

use std::{collections::VecDeque, sync::Arc};

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
};
use tokio::net::TcpListener;

use super::{tls::certificate, *};
use crate::{ClientAuth, Tls, TlsSettings, TlsVersion, config::HALF_OPEN_MAX};

const HALF_OPEN: usize = 10_000;
/// What is kept open by the clients at a time: more than the broker keeps.
const HELD: usize = HALF_OPEN_MAX + 500;
const CASES: u32 = 300;

fn tls() -> (Arc<Tls>, CertificateDer<'static>) {
    let (material, root) = certificate();
    let settings = TlsSettings {
        versions: vec![TlsVersion::Tls12, TlsVersion::Tls13],
        client_auth: ClientAuth::None,
    };
    let tls = Tls::new(&material, settings).expect("a good certificate");
    (Arc::new(tls), root)
}

/// The first message of a handshake.
fn client_hello(root: &CertificateDer<'static>) -> Vec<u8> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("supported")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("in memory");
    hello
}

/// Noise, noise that looks like TLS, and first messages that were changed or cut.
fn first_bytes(hello: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let noise = || proptest::collection::vec(any::<u8>(), 0..200);
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5);
    let length = any::<prop::sample::Index>();
    let record = (20_u8..=24, any::<u8>(), noise()).prop_map(|(kind, minor, body)| {
        let length = u16::try_from(body.len()).expect("short");
        [&[kind, 3, minor % 5][..], &length.to_be_bytes(), &body].concat()
    });
    prop_oneof![
        noise(),
        record,
        (changes, length, any::<bool>(), noise()).prop_map(move |(changes, length, cut, more)| {
            let mut hello = hello.clone();
            for (at, byte) in changes {
                let at = at.index(hello.len());
                hello[at] = byte;
            }
            match cut {
                true => hello.truncate(length.index(hello.len())),
                false => hello.extend(more),
            }
            hello
        }),
    ]
}

/// The handshake runs in this task: a panic in it fails the test.
#[tokio::test]
async fn no_first_bytes_panic_or_shake_hands() {
    let (tls, root) = tls();
    let bytes = first_bytes(client_hello(&root));
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    for _ in 0..CASES {
        let sent = bytes.new_tree(&mut runner).expect("a value").current();
        let mut client = TcpStream::connect(address).await.expect("accepted");
        let (accepted, _) = listener.accept().await.expect("a connection");
        let shaking = tls.accept(accepted);
        let sending = async {
            // The broker may end the connection before it has read everything.
            let _ = client.write_all(&sent).await;
            let _ = client.shutdown().await;
            let _ = client.read_to_end(&mut Vec::new()).await;
        };
        let both = async { tokio::join!(shaking, sending).0 };
        let shaken = timeout(SOON, both).await.expect("it ends soon");
        assert!(shaken.is_err(), "{sent:?}");
    }
}

#[tokio::test]
async fn ten_thousand_half_open_handshakes_bother_nobody() {
    // Both ends are in this process, and the usual soft limit of open files is far too low.
    let files = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: files.maximum,
        ..files
    };
    setrlimit(Resource::Nofile, raised).expect("the soft limit may be raised");
    let (tls, root) = tls();
    let security = ListenerSecurity {
        tls: Some(tls),
        ..ListenerSecurity::default()
    };
    let rig = secure_rig(NetConfig::default(), security).await;
    let hello = client_hello(&root);
    let mut bystander = super::tls::connect(&rig, &root, &rustls::version::TLS13)
        .await
        .expect("a handshake");
    let mut strangers = VecDeque::new();
    for number in 0..HALF_OPEN {
        let mut stranger = rig.connect().await;
        if number % 2 == 0 {
            // It may have lost its place already.
            let _ = stranger.write_all(&hello[..hello.len() / 2]).await;
        }
        strangers.push_back(stranger);
        if strangers.len() > HELD {
            strangers.pop_front();
        }
        if number % 500 == 499 {
            send(&mut bystander, &frame(ECHO, 1)).await;
            assert_eq!(receive(&mut bystander).await, [1]);
            let newcomer = super::tls::connect(&rig, &root, &rustls::version::TLS13).await;
            let mut newcomer = newcomer.expect("a handshake");
            send(&mut newcomer, &frame(ECHO, 2)).await;
            assert_eq!(receive(&mut newcomer).await, [2]);
        }
    }
    until(|| rig.server.metrics().connections <= HALF_OPEN_MAX + 1).await;
    send(&mut bystander, &frame(ECHO, 3)).await;
    assert_eq!(receive(&mut bystander).await, [3]);
}
