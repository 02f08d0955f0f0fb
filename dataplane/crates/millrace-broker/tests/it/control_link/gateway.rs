//! A gateway as brokers dial it, one connection at a time.

use std::{io, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, StatusCode, body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use millrace_broker::Broker;
use rcgen::{CertificateParams, KeyPair};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::support::Home;

pub(super) const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: millrace-link/1\r\n\r\n";

pub(super) struct Gateway {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    /// Its certificate as a root, PEM.
    pub(super) root: String,
}

impl Gateway {
    pub(super) async fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("signed");
        let _ = rustls::crypto::ring::default_provider().install_default();
        let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .expect("a pair");
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.expect("a free port"),
            acceptor: TlsAcceptor::from(Arc::new(config)),
            root: certificate.pem(),
        }
    }

    pub(super) fn address(&self) -> String {
        let port = self.listener.local_addr().expect("bound").port();
        format!("localhost:{port}")
    }

    /// A broker that dials this gateway with the credential `mlk_first`.
    pub(super) async fn start(&self, home: &Home, extra: &[&str]) -> Broker {
        let file = |name: &str| home.path().join(name).display().to_string();
        std::fs::write(file("ca.pem"), &self.root).expect("writable");
        std::fs::write(file("link.credential"), "mlk_first\n").expect("writable");
        let link = [
            format!("control.link.address={}", self.address()),
            format!("control.link.credential.file={}", file("link.credential")),
            format!("control.link.ca.file={}", file("ca.pem")),
        ];
        let settings = link.iter().map(String::as_str).chain(extra.iter().copied());
        home.start(&settings.collect::<Vec<_>>()).await
    }

    async fn try_accept(&self) -> io::Result<Dialled> {
        let (stream, _) = self.listener.accept().await.expect("listening");
        let mut tls = self.acceptor.accept(stream).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(tls.read_u8().await?);
        }
        let head = String::from_utf8(head).expect("text");
        Ok(Dialled { head, tls })
    }

    /// The next dial.
    pub(super) async fn accept(&self) -> Dialled {
        self.try_accept()
            .await
            .expect("a broker that trusts this gateway")
    }

    /// The next dial of a broker that trusts this gateway.
    pub(super) async fn accept_lenient(&self) -> Dialled {
        loop {
            if let Ok(dialled) = self.try_accept().await {
                return dialled;
            }
        }
    }

    /// The next dial ends before the broker has shown anything.
    pub(super) async fn refuses_tls(&self) {
        assert!(
            self.try_accept().await.is_err(),
            "the broker must not trust it"
        );
    }
}

/// A broker that waits for an answer.
pub(super) struct Dialled {
    pub(super) head: String,
    pub(super) tls: TlsStream<TcpStream>,
}

impl Dialled {
    /// The value of a header of the request.
    pub(super) fn header(&self, name: &str) -> String {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = headers.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.expect("sent").1.to_owned()
    }

    /// Answers and hangs up.
    pub(super) async fn answer(mut self, text: &str) {
        let _ = self.tls.write_all(text.as_bytes()).await;
        let _ = self.tls.shutdown().await;
    }

    /// Answers as a gateway does, and leaves it to the test what comes then.
    pub(super) async fn switch(mut self) -> TlsStream<TcpStream> {
        self.tls.write_all(SWITCH.as_bytes()).await.expect("open");
        self.tls.flush().await.expect("open");
        self.tls
    }

    /// The roles reverse.
    pub(super) async fn upgrade(self) -> Link {
        let tls = TokioIo::new(self.switch().await);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), tls)
            .await
            .expect("a server of HTTP/2");
        let connection = tokio::spawn(connection);
        Link { sender, connection }
    }
}

/// A link, as the gateway uses it.
pub(super) struct Link {
    sender: http2::SendRequest<Full<Bytes>>,
    connection: JoinHandle<hyper::Result<()>>,
}

impl Link {
    pub(super) async fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        let uri = format!("https://broker{}", request.uri());
        *request.uri_mut() = uri.parse().expect("legal");
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }

    pub(super) async fn call(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<(StatusCode, String)> {
        let response = self.send(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8(body.into()).expect("text")))
    }

    pub(super) async fn get(&mut self, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Full::default()).expect("legal");
        self.call(request).await.expect("answered")
    }

    /// The connection is gone without a word.
    pub(super) fn cut(self) {
        self.connection.abort();
    }

    /// Waits for the broker to close the connection.
    pub(super) async fn closed(self) -> hyper::Result<()> {
        self.connection.await.expect("no panic")
    }
}

/// What a port answers to a request without a body.
pub(super) async fn raw(port: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(port).await.expect("it listens");
    let request = format!("{head}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    answer
}
