//! The certificates of listeners: read at the start, and again when their files change.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use millrace_net::{Tls, TlsError, TlsMaterial};

use crate::config::{BrokerConfig, Keystore};

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
    #[error("ssl.keystore.location: {path} cannot be read: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("{0}; write PEM with the certificate chain and its unencrypted private key")]
    Tls(#[from] TlsError),
}

/// The listeners with TLS.
#[derive(Debug)]
pub(crate) struct Certificates(Vec<Certificate>);

#[derive(Debug)]
struct Certificate {
    listener: String,
    keystore: Keystore,
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
            let material = read(&tls.keystore).map_err(failed)?;
            let made = Tls::new(&material, &tls.versions).map_err(|error| failed(error.into()))?;
            certificates.push(Certificate {
                listener: listener.clone(),
                keystore: tls.keystore.clone(),
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
        let material = match read(&self.keystore) {
            Ok(material) if material == self.material => return,
            Ok(material) => material,
            Err(error) => {
                tracing::warn!(listener, "the certificate stays as it is: {error}");
                return;
            }
        };
        match self.tls.replace(&material) {
            Ok(()) => tracing::info!(listener, "a new certificate is used from now on"),
            // The file may be half written; what follows is looked at again.
            Err(error) => tracing::warn!(listener, "the certificate stays as it is: {error}"),
        }
        self.material = material;
    }
}

fn read(keystore: &Keystore) -> Result<TlsMaterial, CertificateFault> {
    match keystore {
        Keystore::Inline { chain, key } => Ok(TlsMaterial {
            certificate_chain: chain.clone().into_bytes(),
            private_key: key.clone().into_bytes(),
        }),
        Keystore::File(path) => {
            let both = read_file(path).map_err(|source| CertificateFault::Read {
                path: path.clone(),
                source,
            })?;
            Ok(TlsMaterial {
                certificate_chain: both.clone(),
                private_key: both,
            })
        }
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if std::fs::metadata(path)?.len() > PEM_BYTES_MAX {
        return Err(io::Error::other("the file is too large for PEM"));
    }
    std::fs::read(path)
}
