//! OAUTHBEARER, from the issuer's endpoint to requests of a client.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use millrace_broker::Broker;
use millrace_client::{
    Admin, BoxFuture, Client, ClientConfig, RequestError,
    admin::NewTopic,
    transport::{Authenticate, BrokerAddress, SaslExchange},
};
use millrace_testkit::TokenIssuer;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

use crate::support::{Home, certificate};

/// New keys are fetched every second.
const ROTATED_WITHIN: Duration = Duration::from_secs(30);

/// An endpoint that answers each request with the present key set.
struct Endpoint {
    url: String,
    keys: Arc<Mutex<String>>,
}

impl Endpoint {
    async fn start(pem: &str, keys: String) -> Self {
        let chain = CertificateDer::pem_slice_iter(pem.as_bytes());
        let chain = chain.collect::<Result<_, _>>().expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(pem.as_bytes()).expect("PEM");
        let config = ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(chain, key).expect("a certificate");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let keys = Arc::new(Mutex::new(keys));
        let shown = Arc::clone(&keys);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, shown) = (acceptor.clone(), Arc::clone(&shown));
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(stream).await?;
                    let mut request = [0; 4_096];
                    let length = stream.read(&mut request).await?;
                    assert!(request[..length].starts_with(b"GET /keys HTTP/1.1\r\n"));
                    let body = shown.lock().clone();
                    let length = body.len();
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                    );
                    stream.write_all(format!("{head}{body}").as_bytes()).await?;
                    stream.shutdown().await
                });
            }
        });
        Self {
            url: format!("https://localhost:{port}/keys"),
            keys,
        }
    }
}

/// A client that shows a token.
#[derive(Debug)]
struct Bearer(String);

impl Authenticate for Bearer {
    fn authenticate<'a>(
        &'a self,
        exchange: &'a mut SaslExchange<'_>,
    ) -> BoxFuture<'a, Result<(), RequestError>> {
        Box::pin(async {
            exchange.handshake("OAUTHBEARER").await?;
            let message = format!("n,,\u{1}auth=Bearer {}\u{1}\u{1}", self.0);
            let answer = exchange.send(Bytes::from(message)).await?;
            if answer.is_empty() {
                return Ok(());
            }
            assert_eq!(&*answer, br#"{"status":"invalid_token"}"#);
            exchange.send(Bytes::from_static(b"\x01")).await.map(drop)
        })
    }
}

/// Creates a topic as a new client; what went wrong, as a text.
async fn create(broker: &Broker, token: String, topic: &str) -> Result<(), String> {
    let mut listeners = broker.addresses().iter();
    let port = listeners
        .find(|(name, _)| name == "SASL_PLAINTEXT")
        .expect("it listens")
        .1
        .port();
    let mut config = ClientConfig::with_addresses(vec![BrokerAddress::new("127.0.0.1", port)]);
    config.authenticate = Some(Arc::new(Bearer(token)));
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

fn claims(audience: &str) -> serde_json::Value {
    #[expect(
        clippy::disallowed_methods,
        reason = "the broker runs on the machine's clock"
    )]
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970");
    json!({ "sub": "alice", "aud": audience, "exp": now.as_secs() + 300 })
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_an_issuer_whose_keys_rotate_are_accepted() {
    // What the broker installs as well.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let home = Home::new();
    let (pem, root) = certificate();
    let (first, second) = (TokenIssuer::new("first"), TokenIssuer::new("second"));
    let endpoint = Endpoint::start(&pem, TokenIssuer::key_set(&[&first])).await;
    let ca = home.path().join("ca.pem");
    std::fs::write(&ca, root).expect("writable");
    let broker = home
        .start(&[
            "listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms=OAUTHBEARER",
            &format!("sasl.oauthbearer.jwks.endpoint.url={}", endpoint.url),
            "sasl.oauthbearer.jwks.endpoint.refresh.ms=1000",
            "sasl.oauthbearer.expected.audience=kafka",
            &format!(
                "oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule \
                 required ssl.truststore.location=\"{}\";",
                ca.display()
            ),
        ])
        .await;
    create(&broker, first.sign(&claims("kafka")), "first")
        .await
        .expect("served");
    let foreign = TokenIssuer::new("first").sign(&claims("kafka"));
    for refused in [
        first.sign(&claims("other")),
        second.sign(&claims("kafka")),
        foreign,
    ] {
        let error = create(&broker, refused, "never")
            .await
            .expect_err("refused");
        assert!(error.contains("invalid_token"), "{error}");
    }
    *endpoint.keys.lock() = TokenIssuer::key_set(&[&second]);
    let rotated = async {
        while create(&broker, second.sign(&claims("kafka")), "second")
            .await
            .is_err()
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(ROTATED_WITHIN, rotated)
        .await
        .expect("the new key is used");
    let former = create(&broker, first.sign(&claims("kafka")), "never").await;
    assert!(former.is_err(), "the former key is gone");
    // An endpoint that has lost its mind changes nothing.
    *endpoint.keys.lock() = "<html>".to_owned();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    create(&broker, second.sign(&claims("kafka")), "third")
        .await
        .expect("served");
    broker.stop().await;
}
