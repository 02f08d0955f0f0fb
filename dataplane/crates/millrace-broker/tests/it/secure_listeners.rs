//! Listeners with TLS and SASL, from the configuration to requests of a client.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_broker::Broker;
use millrace_client::{
    Admin, Client, ClientConfig,
    admin::NewTopic,
    security::{Plain, Scram, ScramMechanism, TlsConnector, TlsIdentity, TlsSettings},
    transport::{Authenticate, BrokerAddress, Connector, TcpConnector},
};
use millrace_security::credentials::ScramHash;
use millrace_wire::{
    StrBytes,
    messages::{
        AlterUserScramCredentialsRequest,
        alter_user_scram_credentials_request::ScramCredentialUpsertion,
    },
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::support::{Home, certificate, client};

/// Certificates are looked at every few seconds.
const RELOADED_WITHIN: Duration = Duration::from_secs(30);

const LISTENERS: &str = "listeners=PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0,\
    SASL_PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0";
const ADVERTISED: &str = "advertised.listeners=PLAINTEXT://localhost:0,SASL_SSL://localhost:0,\
    SASL_PLAINTEXT://localhost:0,SSL://localhost:0";
const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required \
                     user_alice=\"alice's secret\";";

async fn start(home: &Home, pem: &str) -> Broker {
    start_with(home, pem, &[]).await
}

async fn start_with(home: &Home, pem: &str, others: &[&str]) -> Broker {
    let file = home.path().join("server.pem");
    std::fs::write(&file, pem).expect("writable");
    let keystore = format!("ssl.keystore.location={}", file.display());
    let jaas = |listener: &str| format!("listener.name.{listener}.plain.sasl.jaas.config={PLAIN}");
    let (over_tls, over_plaintext) = (jaas("sasl_ssl"), jaas("sasl_plaintext"));
    let mut settings = vec![
        LISTENERS,
        ADVERTISED,
        "ssl.keystore.type=PEM",
        &keystore,
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        &over_tls,
        &over_plaintext,
    ];
    settings.extend(others);
    home.start(&settings).await
}

fn address(broker: &Broker, listener: &str) -> SocketAddr {
    let mut all = broker.addresses().iter();
    all.find(|(name, _)| name == listener)
        .expect("it listens")
        .1
}

/// TLS that trusts this authority, to a broker that is called `localhost` whatever its address.
fn tls(root: &str) -> Arc<dyn Connector> {
    let settings = TlsSettings::trusting(root.as_bytes().to_vec());
    Arc::new(TlsConnector::new(&settings).expect("a root"))
}

fn user(password: &str) -> Option<Arc<dyn Authenticate>> {
    Some(Arc::new(Plain::new("alice", password)))
}

fn alice() -> Option<Arc<dyn Authenticate>> {
    user("alice's secret")
}

/// The topic of clients that are to be refused.
const REFUSED: &str = "never";

/// Creates a topic as a new client; what went wrong, as a text.
async fn create(
    at: SocketAddr,
    connector: Arc<dyn Connector>,
    authenticate: Option<Arc<dyn Authenticate>>,
    topic: &str,
) -> Result<(), String> {
    create_within(Duration::from_secs(5), at, connector, authenticate, topic).await
}

/// Whether a new client creates no topic within half a second. It tries again until then, so the test looks for the topic
/// at its end.
async fn refused(
    at: SocketAddr,
    connector: Arc<dyn Connector>,
    authenticate: Option<Arc<dyn Authenticate>>,
) -> bool {
    let within = Duration::from_millis(500);
    let created = create_within(within, at, connector, authenticate, REFUSED).await;
    created.is_err()
}

/// No client that was refused has created its topic.
async fn expect_no_refused_topic(
    at: SocketAddr,
    connector: Arc<dyn Connector>,
    authenticate: Option<Arc<dyn Authenticate>>,
) {
    let client = new_client(at, connector, authenticate);
    let listed = Admin::new(&client).list_topics().await.expect("served");
    assert!(!listed.is_empty());
    assert!(
        listed.iter().all(|topic| *topic.name != *REFUSED),
        "{listed:?}"
    );
}

fn new_client(
    at: SocketAddr,
    connector: Arc<dyn Connector>,
    authenticate: Option<Arc<dyn Authenticate>>,
) -> Client {
    let bootstrap = BrokerAddress::new("localhost", at.port());
    let mut config = ClientConfig::with_addresses(vec![bootstrap]);
    config.connector = connector;
    config.authenticate = authenticate;
    Client::new(config)
}

async fn create_within(
    within: Duration,
    at: SocketAddr,
    connector: Arc<dyn Connector>,
    authenticate: Option<Arc<dyn Authenticate>>,
    topic: &str,
) -> Result<(), String> {
    let client = new_client(at, connector, authenticate);
    let admin = Admin::new(&client);
    let new = [NewTopic::new(topic).partitions(1)];
    let creating = admin.create_topics(&new);
    let created = tokio::time::timeout(within, creating).await;
    let created = created.map_err(|_| "no answer in time".to_owned())?;
    let results = created.map_err(|error| error.to_string())?;
    assert!(results[topic].is_ok(), "{results:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_served_once_they_have_authenticated() {
    let home = Home::new();
    let (pem, root) = certificate();
    let broker = start(&home, &pem).await;
    let (encrypting, plain) = (
        address(&broker, "SASL_SSL"),
        address(&broker, "SASL_PLAINTEXT"),
    );
    let encrypted = || tls(&root);
    // Metadata has to tell the address of the listener that the client came by: no other would do.
    create(encrypting, encrypted(), alice(), "by-tls")
        .await
        .expect("served");
    create(plain, Arc::new(TcpConnector), alice(), "by-plain")
        .await
        .expect("served");
    for (at, connector) in [(encrypting, encrypted()), (plain, Arc::new(TcpConnector))] {
        assert!(refused(at, connector, user("wrong")).await);
    }
    // Plaintext to the port of TLS, and the reverse; the others go on.
    assert!(refused(encrypting, Arc::new(TcpConnector), alice()).await);
    assert!(refused(plain, encrypted(), alice()).await);
    create(encrypting, encrypted(), alice(), "again")
        .await
        .expect("served");
    expect_no_refused_topic(encrypting, encrypted(), alice()).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_used_without_a_restart() {
    let home = Home::new();
    let (pem, _) = certificate();
    let broker = start(&home, &pem).await;
    let at = address(&broker, "SASL_SSL");
    let (renewed, root) = certificate();
    let file = home.path().join("server.pem");
    replace(&file, "half a certificate");
    replace(&file, &renewed);
    let trusting: Arc<dyn Connector> = tls(&root);
    let trusted = async {
        for attempt in 0.. {
            let name = format!("attempt-{attempt}");
            let tried = create(at, Arc::clone(&trusting), alice(), &name).await;
            if tried.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let waited = tokio::time::timeout(RELOADED_WITHIN, trusted).await;
    waited.expect("the new certificate is used");
    broker.stop().await;
}

fn replace(file: &Path, text: &str) {
    std::fs::write(file, text).expect("writable");
}

/// An authority, and a client's certificate of it with its key.
fn client_certificate() -> (String, TlsIdentity) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(params, key).expect("signed");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "carol");
    let key = KeyPair::generate().expect("a key");
    let certificate = params.signed_by(&key, &authority).expect("signed");
    let identity = TlsIdentity {
        certificate_chain: certificate.pem().into_bytes(),
        private_key: key.serialize_pem().into_bytes(),
    };
    (authority.pem(), identity)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_with_a_certificate_need_no_password() {
    let home = Home::new();
    let (pem, root) = certificate();
    let (authority, identity) = client_certificate();
    let trusted = home.path().join("clients.pem");
    std::fs::write(&trusted, authority).expect("writable");
    let truststore = format!("ssl.truststore.location={}", trusted.display());
    let broker = start_with(&home, &pem, &["ssl.client.auth=required", &truststore]).await;
    let at = address(&broker, "SSL");
    let shown = |identity: &TlsIdentity| {
        let mut settings = TlsSettings::trusting(root.clone().into_bytes());
        settings.identity = Some(identity.clone());
        Arc::new(TlsConnector::new(&settings).expect("good certificates"))
    };
    create(at, shown(&identity), None, "by-certificate")
        .await
        .expect("served");
    assert!(refused(at, tls(&root), None).await);
    let (_, foreign) = client_certificate();
    assert!(refused(at, shown(&foreign), None).await);
    // Clients with a password need no certificate (KIP-684).
    create(
        address(&broker, "SASL_SSL"),
        tls(&root),
        alice(),
        "by-password",
    )
    .await
    .expect("served");
    expect_no_refused_topic(at, shown(&identity), None).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_host_is_for_whoever_allows_it() {
    let home = Home::new();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["broker.invalid".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("signed");
    let pem = format!("{}{}", certificate.pem(), key.serialize_pem());
    let broker = start(&home, &pem).await;
    let at = address(&broker, "SASL_SSL");
    let mut settings = TlsSettings::trusting(certificate.pem().into_bytes());
    let connector = |settings: &TlsSettings| Arc::new(TlsConnector::new(settings).expect("a root"));
    assert!(refused(at, connector(&settings), alice()).await);
    settings.verify_host_name = false;
    create(at, connector(&settings), alice(), "any-host")
        .await
        .expect("served");
    expect_no_refused_topic(at, connector(&settings), alice()).await;
    // It still has to be an authority's that the client trusts.
    settings.roots = self::certificate().1.into_bytes();
    assert!(refused(at, connector(&settings), alice()).await);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_signs_in_by_scram() {
    let home = Home::new();
    let (pem, root) = certificate();
    let broker = start(&home, &pem).await;
    let salt = b"0123456789";
    let new_user = |hash: ScramHash| {
        let salted = hash.salted_password(b"her, = password", salt, 4_096);
        ScramCredentialUpsertion::default()
            .with_name(StrBytes::from_static_str("al=ice,"))
            .with_mechanism(hash.code())
            .with_iterations(4_096)
            .with_salt(Bytes::from_static(salt))
            .with_salted_password(salted.into())
    };
    let upsertions = vec![new_user(ScramHash::Sha256), new_user(ScramHash::Sha512)];
    let request = AlterUserScramCredentialsRequest::default().with_upsertions(upsertions);
    let altered = client(&broker).await.call(0, &request).await;
    assert!(
        altered.results.iter().all(|result| result.error_code == 0),
        "{altered:?}"
    );
    let at = address(&broker, "SASL_SSL");
    for mechanism in [ScramMechanism::Sha256, ScramMechanism::Sha512] {
        let scram = |user: &str, password: &str| -> Option<Arc<dyn Authenticate>> {
            Some(Arc::new(Scram::new(mechanism, user, password)))
        };
        let name = mechanism.name();
        create(at, tls(&root), scram("al=ice,", "her, = password"), name)
            .await
            .expect("served");
        for (user, password) in [("al=ice,", "wrong"), ("bob", "her, = password")] {
            let refused = create(at, tls(&root), scram(user, password), REFUSED).await;
            let refused = refused.expect_err("refused");
            assert!(refused.contains("Authentication failed"), "{refused}");
        }
    }
    broker.stop().await;
}
