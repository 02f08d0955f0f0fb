//! Listeners with TLS and SASL, from the configuration to requests of a client.

use std::{io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use millrace_broker::Broker;
use millrace_client::{
    Admin, BoxFuture, Client, ClientConfig, RequestError,
    admin::NewTopic,
    transport::{Authenticate, BrokerAddress, Connector, SaslExchange, TcpConnector, Transport},
};
use rustls::{
    ClientConfig as TlsClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
};
use tokio_rustls::TlsConnector;

use crate::support::{Home, certificate};

/// Certificates are looked at every few seconds.
const RELOADED_WITHIN: Duration = Duration::from_secs(30);

const LISTENERS: &str =
    "listeners=PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0";
const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule required \
                     user_alice=\"alice's secret\";";

async fn start(home: &Home, pem: &str) -> Broker {
    let file = home.path().join("server.pem");
    std::fs::write(&file, pem).expect("writable");
    let keystore = format!("ssl.keystore.location={}", file.display());
    let jaas = |listener: &str| format!("listener.name.{listener}.plain.sasl.jaas.config={PLAIN}");
    home.start(&[
        LISTENERS,
        "ssl.keystore.type=PEM",
        &keystore,
        "sasl.enabled.mechanisms=PLAIN",
        &jaas("sasl_ssl"),
        &jaas("sasl_plaintext"),
    ])
    .await
}

fn address(broker: &Broker, listener: &str) -> SocketAddr {
    let mut all = broker.addresses().iter();
    all.find(|(name, _)| name == listener)
        .expect("it listens")
        .1
}

#[derive(Debug)]
struct Password(&'static str);

impl Authenticate for Password {
    fn authenticate<'a>(
        &'a self,
        exchange: &'a mut SaslExchange<'_>,
    ) -> BoxFuture<'a, Result<(), RequestError>> {
        Box::pin(async {
            exchange.handshake("PLAIN").await?;
            let token = Bytes::from(format!("\0alice\0{}", self.0));
            exchange.send(token).await.map(drop)
        })
    }
}

/// TLS to a broker that is called `localhost` whatever its address.
#[derive(Debug)]
struct Tls(CertificateDer<'static>);

impl Connector for Tls {
    fn connect<'a>(
        &'a self,
        address: &'a BrokerAddress,
    ) -> BoxFuture<'a, io::Result<Box<dyn Transport>>> {
        Box::pin(async {
            let mut roots = RootCertStore::empty();
            roots.add(self.0.clone()).expect("a root");
            let config = TlsClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("supported")
                .with_root_certificates(roots)
                .with_no_client_auth();
            let stream = TcpConnector.connect(address).await?;
            let name = ServerName::try_from("localhost").expect("a name");
            let stream = TlsConnector::from(Arc::new(config)).connect(name, stream);
            Ok(Box::new(stream.await?) as Box<dyn Transport>)
        })
    }
}

/// Creates a topic as a new client; what went wrong, as a text.
async fn create(
    at: SocketAddr,
    connector: Arc<dyn Connector>,
    password: &'static str,
    topic: &str,
) -> Result<(), String> {
    let bootstrap = BrokerAddress::new(&at.ip().to_string(), at.port());
    let mut config = ClientConfig::with_addresses(vec![bootstrap]);
    config.connector = connector;
    config.authenticate = Some(Arc::new(Password(password)));
    let client = Client::new(config);
    let admin = Admin::new(&client);
    let new = [NewTopic::new(topic).partitions(1)];
    let creating = admin.create_topics(&new);
    let created = tokio::time::timeout(Duration::from_secs(5), creating).await;
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
    let (tls, plain) = (
        address(&broker, "SASL_SSL"),
        address(&broker, "SASL_PLAINTEXT"),
    );
    let encrypted = || Arc::new(Tls(root.clone()));
    // Metadata has to tell the address of the listener that the client came by: no other would do.
    create(tls, encrypted(), "alice's secret", "by-tls")
        .await
        .expect("served");
    create(plain, Arc::new(TcpConnector), "alice's secret", "by-plain")
        .await
        .expect("served");
    for (at, connector) in [
        (tls, encrypted() as Arc<dyn Connector>),
        (plain, Arc::new(TcpConnector)),
    ] {
        let refused = create(at, connector, "wrong", "never").await;
        assert!(refused.is_err());
    }
    // Plaintext to the port of TLS, and the reverse; the others go on.
    assert!(
        create(tls, Arc::new(TcpConnector), "alice's secret", "never")
            .await
            .is_err()
    );
    assert!(
        create(plain, encrypted(), "alice's secret", "never")
            .await
            .is_err()
    );
    create(tls, encrypted(), "alice's secret", "again")
        .await
        .expect("served");
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
    let trusting: Arc<dyn Connector> = Arc::new(Tls(root));
    let trusted = async {
        for attempt in 0.. {
            let name = format!("attempt-{attempt}");
            let tried = create(at, Arc::clone(&trusting), "alice's secret", &name).await;
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
