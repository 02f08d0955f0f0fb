//! The certificates and truststores of listeners: read at the start, and again when their files change.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use millrace_net::{Tls, TlsError, TlsMaterial};

use crate::config::{BrokerConfig, Keystore, TlsConfig, Truststore};

/// How often files are looked at. Certificates are renewed days before they expire.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The largest file that is read, in bytes: a hundred times a long chain.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// A listener's certificate cannot be used. The text is for the operator.
#[derive(Debug, thiserror::Error)]
#[error("listener {listener}: {source}")]
pub struct CertificateError {
    listener: String,
    source: CertificateFault,
}

#[derive(Debug, thiserror::Error)]
enum CertificateFault {
    #[error("{key}: {path} cannot be read: {source}")]
    Read {
        key: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "{0}; write PEM with certificates, and beside the listener's own its unencrypted private key"
    )]
    Tls(#[from] TlsError),
}

/// The listeners with TLS.
#[derive(Debug)]
pub(crate) struct Certificates(Vec<Certificate>);

#[derive(Debug)]
struct Certificate {
    listener: String,
    config: TlsConfig,
    /// What was read last, good or bad.
    material: TlsMaterial,
    tls: Arc<Tls>,
}

impl Certificates {
    /// Reads all of them.
    pub(crate) fn read(config: &BrokerConfig) -> Result<Self, CertificateError> {
        let mut certificates = Vec::new();
        for (listener, protection) in &config.protections {
            let Some(tls) = &protection.tls else { continue };
            let failed = |source| CertificateError {
                listener: listener.clone(),
                source,
            };
            let material = read(tls).map_err(failed)?;
            let made = Tls::new(&material, tls.settings.clone());
            let made = made.map_err(|error| failed(error.into()))?;
            certificates.push(Certificate {
                listener: listener.clone(),
                config: tls.clone(),
                material,
                tls: Arc::new(made),
            });
        }
        Ok(Self(certificates))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The certificate of a listener.
    pub(crate) fn of(&self, listener: &str) -> Option<Arc<Tls>> {
        let mut all = self.0.iter();
        let found = all.find(|certificate| certificate.listener == listener);
        found.map(|certificate| Arc::clone(&certificate.tls))
    }

    /// Follows the files for good.
    pub(crate) async fn follow(mut self) {
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            self.0.iter_mut().for_each(Certificate::reload);
        }
    }
}

impl Certificate {
    fn reload(&mut self) {
        let listener = &self.listener;
        let material = match read(&self.config) {
            Ok(material) if material == self.material => return,
            Ok(material) => material,
            Err(error) => {
                tracing::warn!(listener, "the certificate stays as it is: {error}");
                return;
            }
        };
        match self.tls.replace(&material) {
            Ok(()) => tracing::info!(
                listener,
                "a new certificate or truststore is used from now on"
            ),
            // The file may be half written; what follows is looked at again.
            Err(error) => tracing::warn!(listener, "the certificate stays as it is: {error}"),
        }
        self.material = material;
    }
}

fn read(config: &TlsConfig) -> Result<TlsMaterial, CertificateFault> {
    let truststore = match &config.truststore {
        None => Vec::new(),
        Some(Truststore::Inline(text)) => text.clone().into_bytes(),
        Some(Truststore::File(path)) => read_file("ssl.truststore.location", path)?,
    };
    let (certificate_chain, private_key) = match &config.keystore {
        Keystore::Inline { chain, key } => (chain.clone().into_bytes(), key.clone().into_bytes()),
        Keystore::File(path) => {
            let both = read_file("ssl.keystore.location", path)?;
            (both.clone(), both)
        }
    };
    Ok(TlsMaterial {
        certificate_chain,
        private_key,
        truststore,
    })
}

fn read_file(key: &'static str, path: &Path) -> Result<Vec<u8>, CertificateFault> {
    let read = || {
        if std::fs::metadata(path)?.len() > PEM_BYTES_MAX {
            return Err(io::Error::other("the file is too large for PEM"));
        }
        std::fs::read(path)
    };
    read().map_err(|source| CertificateFault::Read {
        key,
        path: path.to_owned(),
        source,
    })
}
