//! TLS 1.2 and 1.3 by rustls, around plain TCP or another connector.

use std::{fmt, io, sync::Arc};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};

use crate::transport::{BoxFuture, BrokerAddress, Connector, TcpConnector, Transport};

/// What TLS needs to know.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TlsSettings {
    /// The certificates of the authorities that issue brokers' certificates, as PEM.
    pub roots: Vec<u8>,
    /// The client's own certificate, if brokers ask for one.
    pub identity: Option<TlsIdentity>,
    /// Whether the certificate must be for the broker's host. Without, whoever has any certificate of these
    /// authorities can pretend to be the broker.
    pub verify_host_name: bool,
}

impl TlsSettings {
    /// TLS that trusts these authorities (PEM).
    #[must_use]
    pub fn trusting(roots: Vec<u8>) -> Self {
        Self {
            roots,
            identity: None,
            verify_host_name: true,
        }
    }
}

/// A client's certificate and its private key, as PEM.
#[derive(Clone)]
pub struct TlsIdentity {
    /// The certificate, then those that it was issued by.
    pub certificate_chain: Vec<u8>,
    /// The private key of the first one: PKCS#8, PKCS#1 or SEC1, not encrypted.
    pub private_key: Vec<u8>,
}

/// The key is a secret.
impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsIdentity").finish_non_exhaustive()
    }
}

/// Certificates cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTls {
    /// The authorities'.
    #[error("the truststore is not PEM with at least one certificate of an authority: {0}")]
    Roots(String),
    /// The client's own, or its key.
    #[error("the client's own certificate and private key cannot be used: {0}")]
    Identity(String),
}

/// Opens connections with TLS.
#[derive(Debug, Clone)]
pub struct TlsConnector {
    inner: Arc<dyn Connector>,
    config: Arc<ClientConfig>,
}

impl TlsConnector {
    /// TLS over TCP.
    ///
    /// # Errors
    /// The certificates cannot be used.
    pub fn new(settings: &TlsSettings) -> Result<Self, InvalidTls> {
        Self::around(Arc::new(TcpConnector), settings)
    }

    /// TLS over the connections of `inner`.
    ///
    /// # Errors
    /// The certificates cannot be used.
    pub fn around(inner: Arc<dyn Connector>, settings: &TlsSettings) -> Result<Self, InvalidTls> {
        let config = Arc::new(client_config(settings)?);
        Ok(Self { inner, config })
    }
}

impl Connector for TlsConnector {
    fn connect<'a>(
        &'a self,
        address: &'a BrokerAddress,
    ) -> BoxFuture<'a, io::Result<Box<dyn Transport>>> {
        Box::pin(async move {
            let name = ServerName::try_from(address.host().to_owned());
            let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            let stream = self.inner.connect(address).await?;
            let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.config));
            let stream = connector.connect(name, stream).await?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }
}

fn client_config(settings: &TlsSettings) -> Result<ClientConfig, InvalidTls> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    let refused = |error: &dyn fmt::Display| InvalidTls::Roots(error.to_string());
    for root in CertificateDer::pem_slice_iter(&settings.roots) {
        let root = root.map_err(|error| refused(&error))?;
        roots.add(root).map_err(|error| refused(&error))?;
    }
    if roots.is_empty() {
        return Err(refused(&"it has none"));
    }
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring has the cipher suites of every version");
    let builder = match settings.verify_host_name {
        true => builder.with_root_certificates(roots),
        false => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyHost { roots, provider })),
    };
    let Some(identity) = &settings.identity else {
        return Ok(builder.with_no_client_auth());
    };
    let refused = |error: &dyn fmt::Display| InvalidTls::Identity(error.to_string());
    let chain = CertificateDer::pem_slice_iter(&identity.certificate_chain)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| refused(&error))?;
    let key = PrivateKeyDer::from_pem_slice(&identity.private_key);
    let key = key.map_err(|error| refused(&error))?;
    let config = builder.with_client_auth_cert(chain, key);
    config.map_err(|error| refused(&error))
}

/// Trusts certificates of the authorities for whatever host.
#[derive(Debug)]
struct AnyHost {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
