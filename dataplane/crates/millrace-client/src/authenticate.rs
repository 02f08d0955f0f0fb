//! The seam for SASL: what happens on a connection before it is used.

use std::fmt;

use bytes::Bytes;
use millrace_wire::{
    StrBytes,
    messages::{SaslAuthenticateRequest, SaslHandshakeRequest},
};

use crate::{
    connection::Connection,
    error::{BrokerError, RequestError},
    transport::BoxFuture,
};

/// The last version of SaslAuthenticate that says how long the session lasts is also the last one.
const NEWEST: i16 = i16::MAX;

/// Proves to a broker who the client is, once for each connection.
pub trait Authenticate: fmt::Debug + Send + Sync + 'static {
    /// Carries out one mechanism: [`SaslExchange::handshake`] with its name, then
    /// [`SaslExchange::send`] until both sides are content.
    fn authenticate<'a>(
        &'a self,
        exchange: &'a mut SaslExchange<'_>,
    ) -> BoxFuture<'a, Result<(), RequestError>>;
}

/// The conversation of one authentication.
#[derive(Debug)]
pub struct SaslExchange<'a> {
    connection: &'a Connection,
}

impl<'a> SaslExchange<'a> {
    pub(crate) fn new(connection: &'a Connection) -> Self {
        Self { connection }
    }

    /// The host that the connection leads to, which some mechanisms name.
    #[must_use]
    pub fn host(&self) -> &str {
        self.connection.address().host()
    }

    /// Chooses the mechanism, for example `SCRAM-SHA-512`.
    ///
    /// # Errors
    /// The broker does not offer the mechanism, or the connection failed.
    pub async fn handshake(&mut self, mechanism: &str) -> Result<(), RequestError> {
        let request = SaslHandshakeRequest::default()
            .with_mechanism(StrBytes::from_string(mechanism.to_owned()));
        let version = self.connection.version::<SaslHandshakeRequest>(NEWEST)?;
        let response = self.connection.call(version, &request).await?;
        BrokerError::check(response.error_code, None).map_err(|error| {
            let offered: Vec<_> = response.mechanisms.iter().map(|name| &**name).collect();
            self.refused(&format!("{error}; it offers {}", offered.join(", ")))
        })
    }

    /// Sends the mechanism's next message; the broker's answer to it.
    ///
    /// # Errors
    /// The broker refuses the client, or the connection failed.
    pub async fn send(&mut self, message: Bytes) -> Result<Bytes, RequestError> {
        let request = SaslAuthenticateRequest::default().with_auth_bytes(message);
        let version = self.connection.version::<SaslAuthenticateRequest>(NEWEST)?;
        let response = self.connection.call(version, &request).await?;
        BrokerError::check(response.error_code, response.error_message.as_deref())
            .map_err(|error| self.refused(&error.to_string()))?;
        Ok(response.auth_bytes)
    }

    pub(crate) fn refused(&self, reason: &str) -> RequestError {
        RequestError::Authentication {
            address: self.connection.address().clone(),
            reason: reason.to_owned(),
        }
    }
}
