//! The seam between the client and the network: addresses, connectors, transports, SASL.

use std::{fmt, future::Future, io, pin::Pin, str::FromStr, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

pub use crate::authenticate::{Authenticate, SaslExchange};

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Host and port of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BrokerAddress {
    host: Arc<str>,
    port: u16,
}

/// Why a text is not the address of a broker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address; write host:port, or [address]:port for IPv6")]
pub struct InvalidAddress(String);

impl BrokerAddress {
    /// A host, by name or by address, and its port.
    #[must_use]
    pub fn new(host: &str, port: u16) -> Self {
        let host = host.into();
        Self { host, port }
    }

    /// The host, without the brackets of an IPv6 address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for BrokerAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        let invalid = || InvalidAddress(text.to_owned());
        let (host, port) = text.trim().rsplit_once(':').ok_or_else(invalid)?;
        let port = port.parse().map_err(|_| invalid())?;
        let unbracketed = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        match unbracketed {
            Some(host) if host.contains(':') => Ok(Self::new(host, port)),
            None if !host.is_empty() && !host.contains([':', '[', ']', '/']) => {
                Ok(Self::new(host, port))
            }
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

/// A connection's bytes, in both directions.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for T {}

/// Opens connections to brokers. TLS is a connector around another one; the address names the host
/// that a certificate must be for. The client bounds how long it waits.
pub trait Connector: fmt::Debug + Send + Sync + 'static {
    /// Opens one connection.
    fn connect<'a>(
        &'a self,
        address: &'a BrokerAddress,
    ) -> BoxFuture<'a, io::Result<Box<dyn Transport>>>;
}

/// Plain TCP without Nagle's algorithm: the client itself writes whole requests.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect<'a>(
        &'a self,
        address: &'a BrokerAddress,
    ) -> BoxFuture<'a, io::Result<Box<dyn Transport>>> {
        Box::pin(async move {
            let stream = TcpStream::connect((address.host(), address.port())).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for text in ["localhost:9092", "10.0.0.1:1", "[::1]:9092", "a-b.c:65535"] {
            let address: BrokerAddress = text.parse().expect("legal");
            assert_eq!(address.to_string(), text);
        }
        assert_eq!(
            "[::1]:7".parse::<BrokerAddress>().expect("legal").host(),
            "::1"
        );
        for text in [
            "",
            "host",
            "host:",
            ":9092",
            "host:65536",
            "::1:9",
            "[h]:1",
            "a/b:1",
        ] {
            assert!(text.parse::<BrokerAddress>().is_err(), "{text}");
        }
    }
}
