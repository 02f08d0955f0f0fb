//! Encryption and authentication of connections.
//!
//! ```no_run
//! use std::sync::Arc;
//! use millrace_client::{ClientConfig, security::{Scram, ScramMechanism, TlsConnector, TlsSettings}};
//!
//! let roots = std::fs::read("ca.pem")?;
//! let mut config = ClientConfig::new("kafka.example.org:9093")?;
//! config.connector = Arc::new(TlsConnector::new(&TlsSettings::trusting(roots))?);
//! config.authenticate = Some(Arc::new(Scram::new(ScramMechanism::Sha512, "alice", "her password")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod plain;
mod scram;
mod tls;

pub use plain::Plain;
pub use scram::{Scram, ScramMechanism};
pub use tls::{InvalidTls, TlsConnector, TlsIdentity, TlsSettings};
