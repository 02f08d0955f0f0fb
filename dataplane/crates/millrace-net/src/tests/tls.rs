//! TLS with a real client, and what the network asks of clients that nobody knows yet.

use std::{io, sync::Arc};

use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
    version::{TLS12, TLS13},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;
use crate::{
    ClientAuth, Tls, TlsError, TlsMaterial, TlsSettings, TlsVersion,
    config::{HANDSHAKE_MAX, UNAUTHENTICATED_BYTES_MAX},
};

/// A certificate for `localhost` that is its own root.
pub(super) fn certificate() -> (TlsMaterial, CertificateDer<'static>) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signed");
    let material = TlsMaterial {
        certificate_chain: certificate.pem().into_bytes(),
        private_key: key.serialize_pem().into_bytes(),
        truststore: Vec::new(),
    };
    (material, certificate.der().clone())
}

async fn tls_rig(sasl: bool) -> (Rig, Arc<Tls>, CertificateDer<'static>) {
    let (material, root) = certificate();
    let settings = TlsSettings {
        versions: vec![TlsVersion::Tls12, TlsVersion::Tls13],
        client_auth: ClientAuth::None,
    };
    let tls = Arc::new(Tls::new(&material, settings).expect("a good certificate"));
    let security = ListenerSecurity {
        tls: Some(Arc::clone(&tls)),
        sasl,
        ..ListenerSecurity::default()
    };
    (secure_rig(NetConfig::default(), security).await, tls, root)
}

pub(super) async fn connect(
    rig: &Rig,
    root: &CertificateDer<'static>,
    version: &'static SupportedProtocolVersion,
) -> io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .expect("supported")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(Arc::new(config));
    let shaking = connector.connect(name, rig.connect().await);
    timeout(SOON, shaking).await.expect("soon")
}

#[tokio::test]
async fn both_versions_carry_requests_of_all_sizes() {
    let (rig, _, root) = tls_rig(false).await;
    for version in [&TLS12, &TLS13] {
        let mut client = connect(&rig, &root, version).await.expect("a handshake");
        let mut large = 3_000_000_u32.to_be_bytes().to_vec();
        large.extend(std::iter::repeat_n(ECHO, 3_000_000));
        let requests = [frame(ECHO, 1), large, frame(BIG, 3), frame(ECHO, 4)].concat();
        send(&mut client, &requests).await;
        client.flush().await.expect("open");
        assert_eq!(receive(&mut client).await, [1]);
        assert!(receive(&mut client).await == [ECHO; 2_999_999]);
        assert!(receive(&mut client).await == vec![3; BIG_BYTES]);
        assert_eq!(receive(&mut client).await, [4]);
        client.shutdown().await.expect("open");
    }
    until(|| rig.server.metrics().connections == 0).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_nothing_back_for_good() {
    let (rig, _, root) = tls_rig(false).await;
    let mut client = connect(&rig, &root, &TLS13).await.expect("a handshake");
    let requests: Vec<u8> = (0..4).flat_map(|name| frame(BIG, name)).collect();
    send(&mut client, &requests).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    for name in 0..4 {
        assert!(receive(&mut client).await == vec![name; BIG_BYTES]);
    }
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections() {
    let (rig, tls, root) = tls_rig(false).await;
    let mut old = connect(&rig, &root, &TLS13).await.expect("a handshake");
    let (material, new_root) = certificate();
    let (other, _) = certificate();
    let mismatched = TlsMaterial {
        private_key: other.private_key,
        ..material.clone()
    };
    let refused = tls.replace(&mismatched);
    assert!(matches!(refused, Err(TlsError::Rejected(_))), "{refused:?}");
    let empty = TlsMaterial {
        certificate_chain: Vec::new(),
        ..material.clone()
    };
    assert!(matches!(tls.replace(&empty), Err(TlsError::Chain(_))));
    assert!(
        connect(&rig, &root, &TLS13).await.is_ok(),
        "nothing changed"
    );
    tls.replace(&material).expect("a good certificate");
    assert!(connect(&rig, &root, &TLS13).await.is_err());
    let mut new = connect(&rig, &new_root, &TLS12).await.expect("a handshake");
    for client in [&mut old, &mut new] {
        send(client, &frame(ECHO, 5)).await;
        assert_eq!(receive(client).await, [5]);
    }
}

#[tokio::test]
async fn plaintext_to_a_tls_port_and_the_reverse_are_closed() {
    let (rig, _, root) = tls_rig(false).await;
    let mut bystander = connect(&rig, &root, &TLS13).await.expect("a handshake");
    let mut plain = rig.connect().await;
    send(&mut plain, &frame(ECHO, 1)).await;
    let mut alert = Vec::new();
    let _ = timeout(SOON, plain.read_to_end(&mut alert))
        .await
        .expect("soon");
    assert!(
        alert.len() < 16 && rig.probe.accepted.lock().is_empty(),
        "{alert:?}"
    );
    send(&mut bystander, &frame(ECHO, 2)).await;
    assert_eq!(receive(&mut bystander).await, [2]);

    let unencrypted = super::rig(NetConfig::default()).await;
    assert!(connect(&unencrypted, &root, &TLS13).await.is_err());
}

#[tokio::test]
async fn a_handshake_that_does_not_come_is_given_up() {
    for sasl in [false, true] {
        let (rig, _, root) = tls_rig(sasl).await;
        let mut silent = rig.connect().await;
        // With SASL, a handshake alone is not enough.
        let mut shaken = connect(&rig, &root, &TLS13).await.expect("a handshake");
        let mut served = connect(&rig, &root, &TLS13).await.expect("a handshake");
        send(&mut served, &frame(if sasl { SIGN_IN } else { ECHO }, 1)).await;
        assert_eq!(receive(&mut served).await, [1]);
        rig.clock.advance(HANDSHAKE_MAX + Duration::from_secs(1));
        assert!(is_closed(&mut silent).await);
        if sasl {
            assert!(is_closed(&mut shaken).await);
        }
        send(&mut served, &frame(ECHO, 2)).await;
        assert_eq!(receive(&mut served).await, [2]);
    }
}

#[tokio::test]
async fn a_client_that_has_not_authenticated_sends_small_frames() {
    let security = ListenerSecurity {
        tls: None,
        sasl: true,
        ..ListenerSecurity::default()
    };
    let rig = secure_rig(NetConfig::default(), security).await;
    let large = UNAUTHENTICATED_BYTES_MAX + 1;
    let mut frame_bytes = u32::try_from(large).expect("small").to_be_bytes().to_vec();
    frame_bytes.extend(std::iter::repeat_n(ECHO, large));
    let mut stranger = rig.connect().await;
    send(&mut stranger, &frame_bytes[..100]).await;
    assert!(is_closed(&mut stranger).await);
    let mut known = rig.connect().await;
    // What follows at once is read under the bound of clients that are known.
    send(&mut known, &[frame(SIGN_IN, 1), frame_bytes].concat()).await;
    assert_eq!(receive(&mut known).await, [1]);
    assert!(receive(&mut known).await == vec![ECHO; large - 1]);
}

#[tokio::test]
async fn a_refusal_is_told_before_the_connection_ends() {
    let security = ListenerSecurity {
        tls: None,
        sasl: true,
        ..ListenerSecurity::default()
    };
    let rig = secure_rig(NetConfig::default(), security).await;
    let mut client = rig.connect().await;
    send(&mut client, &[frame(REFUSE, 1), frame(ECHO, 2)].concat()).await;
    assert_eq!(receive(&mut client).await, [1]);
    assert!(is_closed(&mut client).await);
    assert_eq!(*rig.probe.accepted.lock(), [1], "nothing is read after it");
}
