//! Clients that show certificates, to a listener that asks for them.

use std::{io, sync::Arc};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    DistinguishedName, DnType, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber, date_time_ymd,
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{tls::certificate, *};
use crate::{ClientAuth, Tls, TlsError, TlsMaterial, TlsSettings, TlsVersion};

/// An authority that issues clients' certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A client's certificate and its key.
struct Shown(CertificateDer<'static>, PrivateKeyDer<'static>);

const REVOKED: u64 = 7;

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("signed"))
    }

    fn issue(&self, name: &str, change: impl Fn(&mut CertificateParams)) -> Shown {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::OrganizationName, "Millrace");
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let issued = params.signed_by(&key, &self.0).expect("signed");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("PKCS#8");
        Shown(issued.der().clone(), key)
    }

    /// Its certificate, and the list of what it has revoked.
    fn truststore(&self) -> Vec<u8> {
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2020, 1, 2),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(REVOKED),
                revocation_time: date_time_ymd(2020, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.0).expect("signed");
        let list = list.pem().expect("encoded");
        format!("{}{list}", self.0.pem()).into_bytes()
    }
}

struct Certified {
    rig: Rig,
    tls: Arc<Tls>,
    material: TlsMaterial,
    root: CertificateDer<'static>,
}

async fn certified(client_auth: ClientAuth, sasl: bool, truststore: Vec<u8>) -> Certified {
    let (material, root) = certificate();
    let material = TlsMaterial {
        truststore,
        ..material
    };
    let settings = TlsSettings {
        versions: vec![TlsVersion::Tls12, TlsVersion::Tls13],
        client_auth,
    };
    let tls = Arc::new(Tls::new(&material, settings).expect("good certificates"));
    let rules = "RULE:^CN=([^,]*),O=Millrace$/$1/L, RULE:^CN=other.*$/$0/";
    let security = ListenerSecurity {
        tls: Some(Arc::clone(&tls)),
        sasl,
        mapping: Arc::new(rules.parse().expect("legal")),
    };
    let rig = secure_rig(NetConfig::default(), security).await;
    Certified {
        rig,
        tls,
        material,
        root,
    }
}

impl Certified {
    /// The principal that the broker takes the client for; an error where the connection ends.
    async fn who(&self, shown: Option<&Shown>) -> io::Result<String> {
        let mut client = self.connect(shown).await?;
        client.write_all(&frame(WHO, 1)).await?;
        let length = timeout(SOON, client.read_u32()).await.expect("soon")?;
        let mut name = vec![0; usize::try_from(length).expect("small")];
        client.read_exact(&mut name).await?;
        Ok(String::from_utf8(name).expect("a name"))
    }

    async fn connect(&self, shown: Option<&Shown>) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).expect("a root");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("supported")
            .with_root_certificates(roots);
        let config = match shown {
            None => config.with_no_client_auth(),
            Some(Shown(certificate, key)) => config
                .with_client_auth_cert(vec![certificate.clone()], key.clone_key())
                .expect("they belong together"),
        };
        let name = ServerName::try_from("localhost").expect("a name");
        let connector = TlsConnector::from(Arc::new(config));
        let shaking = connector.connect(name, self.rig.connect().await);
        timeout(SOON, shaking).await.expect("soon")
    }
}

#[tokio::test]
async fn a_certificate_says_who_its_client_is() {
    let authority = Authority::new();
    let required = certified(ClientAuth::Required, false, authority.truststore()).await;
    let duke = authority.issue("Duke", |_| {});
    assert_eq!(
        required.who(Some(&duke)).await.expect("served"),
        "User:duke"
    );
    assert!(required.who(None).await.is_err());

    let requested = certified(ClientAuth::Requested, false, authority.truststore()).await;
    assert_eq!(
        requested.who(Some(&duke)).await.expect("served"),
        "User:duke"
    );
    assert_eq!(requested.who(None).await.expect("served"), "User:ANONYMOUS");

    // Where nobody asks, nobody is believed.
    let unasked = certified(ClientAuth::None, false, authority.truststore()).await;
    assert_eq!(
        unasked.who(Some(&duke)).await.expect("served"),
        "User:ANONYMOUS"
    );
}

#[tokio::test]
async fn bad_certificates_are_refused() {
    let (authority, foreign) = (Authority::new(), Authority::new());
    let good = authority.issue("Duke", |_| {});
    let bad = [
        ("foreign", foreign.issue("Duke", |_| {})),
        (
            "expired",
            authority.issue("Duke", |params| {
                params.not_after = date_time_ymd(2020, 1, 1)
            }),
        ),
        (
            "not yet valid",
            authority.issue("Duke", |params| {
                params.not_before = date_time_ymd(3020, 1, 1)
            }),
        ),
        (
            "revoked",
            authority.issue("Duke", |params| params.serial_number = Some(REVOKED.into())),
        ),
        (
            "for servers",
            authority.issue("Duke", |params| {
                params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
            }),
        ),
        (
            "not mapped",
            authority.issue("Duke", |params| {
                params.distinguished_name.push(DnType::CountryName, "US");
            }),
        ),
        (
            "too long",
            authority.issue(&format!("other{}", "x".repeat(600)), |_| {}),
        ),
    ];
    for client_auth in [ClientAuth::Required, ClientAuth::Requested] {
        let world = certified(client_auth, false, authority.truststore()).await;
        let mut bystander = world.connect(Some(&good)).await.expect("a handshake");
        for (what, shown) in &bad {
            let answer = world.who(Some(shown)).await;
            assert!(answer.is_err(), "{what}: {answer:?}");
        }
        // Those that are trusted and stand for nobody, in the order in which they came.
        let refused = &world.rig.probe.refused;
        until(|| refused.lock().len() == 2).await;
        let refused = refused.lock().clone();
        assert_eq!(
            refused[0],
            (
                Some("C=US,CN=Duke,O=Millrace".to_owned()),
                "certificate_mapping"
            )
        );
        assert_eq!(refused[1].1, "certificate_name");
        send(&mut bystander, &frame(WHO, 1)).await;
        assert_eq!(receive(&mut bystander).await, b"User:duke");
    }
}

#[tokio::test]
async fn with_sasl_a_certificate_is_needed_and_says_nothing() {
    let authority = Authority::new();
    let world = certified(ClientAuth::Required, true, authority.truststore()).await;
    let duke = authority.issue("Duke", |_| {});
    assert!(world.who(None).await.is_err());
    let mut client = world.connect(Some(&duke)).await.expect("a handshake");
    send(&mut client, &frame(WHO, 1)).await;
    assert_eq!(receive(&mut client).await, b"");
    send(&mut client, &[frame(SIGN_IN, 1), frame(WHO, 2)].concat()).await;
    assert_eq!(receive(&mut client).await, [1]);
    assert_eq!(receive(&mut client).await, b"User:alice");
}

#[tokio::test]
async fn a_new_truststore_is_for_new_connections() {
    let (authority, next) = (Authority::new(), Authority::new());
    let world = certified(ClientAuth::Required, false, authority.truststore()).await;
    let (duke, rosa) = (authority.issue("Duke", |_| {}), next.issue("Rosa", |_| {}));
    let mut old = world.connect(Some(&duke)).await.expect("a handshake");
    for broken in [
        &b""[..],
        b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
    ] {
        let material = TlsMaterial {
            truststore: broken.to_vec(),
            ..world.material.clone()
        };
        let refused = world.tls.replace(&material);
        assert!(
            matches!(refused, Err(TlsError::Truststore(_))),
            "{refused:?}"
        );
    }
    assert!(world.who(Some(&duke)).await.is_ok(), "nothing changed");
    let material = TlsMaterial {
        truststore: next.truststore(),
        ..world.material.clone()
    };
    world.tls.replace(&material).expect("good certificates");
    assert!(world.who(Some(&duke)).await.is_err());
    assert_eq!(world.who(Some(&rosa)).await.expect("served"), "User:rosa");
    send(&mut old, &frame(WHO, 1)).await;
    assert_eq!(receive(&mut old).await, b"User:duke");
}
