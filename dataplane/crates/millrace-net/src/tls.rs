//! TLS 1.2 and 1.3 by rustls, behind the seam of [`Transport`].
//!
//! The handshake is a future of its own, with a deadline, before the connection begins. From then on
//! both halves of the connection share one state machine behind a lock that is never contended.

use std::{
    fmt,
    io::{self, BufRead as _, IoSlice, Read, Write},
    sync::Arc,
};

use bytes::{
    BytesMut,
    buf::{BufMut, Limit},
};
use parking_lot::{Mutex, RwLock};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem::PemObject},
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
    version,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::transport::Transport;

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl TlsVersion {
    fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::Tls12 => &version::TLS12,
            Self::Tls13 => &version::TLS13,
        }
    }
}

/// Whether clients show certificates: `ssl.client.auth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientAuth {
    /// They are not asked.
    #[default]
    None,
    /// They are asked. One without a certificate may go on, one with a bad certificate may not.
    Requested,
    /// No handshake succeeds without a good certificate.
    Required,
}

/// What the TLS of a listener is made of besides its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSettings {
    /// `ssl.enabled.protocols`
    pub versions: Vec<TlsVersion>,
    /// `ssl.client.auth`
    pub client_auth: ClientAuth,
}

/// A certificate and its key, and which clients to trust, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsMaterial {
    /// The server's certificate, then those that it was issued by.
    pub certificate_chain: Vec<u8>,
    /// The private key of the first one: PKCS#8, PKCS#1 or SEC1, not encrypted.
    pub private_key: Vec<u8>,
    /// The certificates of the authorities that issue clients' certificates, and their certificate revocation
    /// lists, if they have any. Not read where clients are not asked.
    pub truststore: Vec<u8>,
}

/// The key is a secret.
impl fmt::Debug for TlsMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsMaterial").finish_non_exhaustive()
    }
}

/// A certificate cannot be used. The text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No certificate in the text, or one that cannot be read.
    #[error("the certificate chain is not PEM with at least one certificate: {0}")]
    Chain(String),
    /// No key in the text, or one that cannot be read.
    #[error("the private key is not PEM of an unencrypted private key: {0}")]
    Key(String),
    /// No certificate of an authority in the text, or something that cannot be read.
    #[error("the truststore is not PEM with at least one certificate of an authority: {0}")]
    Truststore(String),
    /// They do not belong together, or are of a kind that is not supported.
    #[error("the certificate and its private key cannot be used: {0}")]
    Rejected(rustls::Error),
}

/// The TLS of one listener. Its certificate can be replaced while connections go on.
#[derive(Debug)]
pub struct Tls {
    settings: TlsSettings,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// TLS with this certificate.
    ///
    /// # Errors
    /// The certificate or its key cannot be used.
    pub fn new(material: &TlsMaterial, settings: TlsSettings) -> Result<Self, TlsError> {
        Ok(Self {
            config: RwLock::new(server_config(material, &settings)?),
            settings,
        })
    }

    /// Uses another certificate and truststore from the next handshake on. Connections that are open keep theirs.
    ///
    /// # Errors
    /// One of them cannot be used; the former ones stay.
    pub fn replace(&self, material: &TlsMaterial) -> Result<(), TlsError> {
        *self.config.write() = server_config(material, &self.settings)?;
        Ok(())
    }

    /// Shakes hands with a client.
    pub(crate) fn accept(
        &self,
        stream: TcpStream,
    ) -> impl Future<Output = io::Result<TlsTransport>> + Send + use<> {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config.read()));
        async move {
            let (socket, connection) = acceptor.accept(stream).await?.into_inner();
            Ok(TlsTransport::new(socket, connection))
        }
    }
}

fn server_config(
    material: &TlsMaterial,
    settings: &TlsSettings,
) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(&material.certificate_chain)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError::Chain(error.to_string()))?;
    if chain.is_empty() {
        return Err(TlsError::Chain("it has none".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(&material.private_key)
        .map_err(|error| TlsError::Key(error.to_string()))?;
    let provider = Arc::new(ring::default_provider());
    let verifier = client_verifier(&material.truststore, settings.client_auth, &provider)?;
    let versions = settings.versions.iter();
    let versions: Vec<_> = versions.map(|version| version.supported()).collect();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(TlsError::Rejected)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(TlsError::Rejected)?;
    if settings.client_auth != ClientAuth::None {
        // A session that is resumed would not be verified again, though its certificate may have expired.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}

/// Who verifies clients' certificates.
fn client_verifier(
    truststore: &[u8],
    client_auth: ClientAuth,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    if client_auth == ClientAuth::None {
        return Ok(WebPkiClientVerifier::no_client_auth());
    }
    let refused = |error: &dyn fmt::Display| TlsError::Truststore(error.to_string());
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(truststore) {
        let root = root.map_err(|error| refused(&error))?;
        roots.add(root).map_err(|error| refused(&error))?;
    }
    let revoked = CertificateRevocationListDer::pem_slice_iter(truststore)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refused(&error))?;
    // An authority without a list is one that has revoked nothing.
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .with_crls(revoked)
            .allow_unknown_revocation_status();
    let builder = match client_auth {
        ClientAuth::Requested => builder.allow_unauthenticated(),
        ClientAuth::None | ClientAuth::Required => builder,
    };
    builder.build().map_err(|error| refused(&error))
}

/// An encrypted connection behind its handshake.
pub(crate) struct TlsTransport {
    socket: TcpStream,
    state: Mutex<State>,
}

struct State {
    connection: ServerConnection,
    /// Bytes that are decrypted and not taken yet.
    plaintext_bytes: usize,
}

/// The socket as the state machine wants it: what is not ready now is `WouldBlock`.
struct Ready<'a>(&'a TcpStream);

impl Read for Ready<'_> {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(space)
    }
}

impl Write for Ready<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, segments: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(segments)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsTransport {
    fn new(socket: TcpStream, mut connection: ServerConnection) -> Self {
        // Requests may have come in one piece with the end of the handshake.
        let plaintext_bytes = connection
            .process_new_packets()
            .map_or(0, |state| state.plaintext_bytes_to_read());
        let state = State {
            connection,
            plaintext_bytes,
        };
        Self {
            socket,
            state: Mutex::new(state),
        }
    }

    /// The client's own certificate (DER), if it showed one. TLS has verified it.
    pub(crate) fn client_certificate(&self) -> Option<Vec<u8>> {
        let state = self.state.lock();
        let chain = state.connection.peer_certificates()?;
        chain.first().map(|certificate| certificate.to_vec())
    }
}

impl State {
    /// Hands encrypted bytes to the socket.
    fn flush(&mut self, socket: &TcpStream) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut Ready(socket))?;
        }
        Ok(())
    }

    /// Takes encrypted bytes from the socket; 0 where the client has ended its side of it.
    fn receive(&mut self, socket: &TcpStream) -> io::Result<usize> {
        let received = self.connection.read_tls(&mut Ready(socket))?;
        let processed = self.connection.process_new_packets();
        // A new key of ours, or an alert that tells the client what is wrong. Where the socket is full,
        // the next write takes it along.
        let flushed = self.flush(socket);
        let state = processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.plaintext_bytes = state.plaintext_bytes_to_read();
        match flushed {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(received),
        }
    }

    /// Moves decrypted bytes; 0 at the end of the client's messages.
    fn take(&mut self, space: &mut Limit<&mut BytesMut>) -> io::Result<usize> {
        let mut reader = self.connection.reader();
        let chunk = reader.fill_buf()?;
        let taken = chunk.len().min(space.remaining_mut());
        space.put_slice(chunk.get(..taken).unwrap_or(chunk));
        reader.consume(taken);
        self.plaintext_bytes = self.plaintext_bytes.saturating_sub(taken);
        Ok(taken)
    }
}

impl Transport for TlsTransport {
    /// The session is behind one lock, and a thread of low priority may hold it for long.
    const HALVES_ARE_APART: bool = false;

    async fn readable(&self) -> io::Result<()> {
        if self.state.lock().plaintext_bytes > 0 {
            return Ok(());
        }
        self.socket.readable().await
    }

    fn try_read(&self, space: &mut Limit<&mut BytesMut>) -> io::Result<usize> {
        let mut state = self.state.lock();
        loop {
            match state.take(space) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The client is gone without a word of good-bye, as many do; a frame that is cut off is
                // noticed by whoever reads frames.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                taken => return taken,
            }
            state.receive(&self.socket)?;
        }
    }

    async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    fn try_write(&self, segments: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.state.lock();
        state.flush(&self.socket)?;
        let taken = state.connection.writer().write_vectored(segments)?;
        match state.flush(&self.socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            // What is held back leaves with the next write, or is flushed.
            _ => Ok(taken),
        }
    }

    fn try_flush(&self) -> io::Result<()> {
        self.state.lock().flush(&self.socket)
    }
}

/// Tells the client that nothing more comes, so that it need not take a cut for an end.
impl Drop for TlsTransport {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.connection.send_close_notify();
        // Best effort: the connection ends either way.
        let _ = state.flush(&self.socket);
    }
}
