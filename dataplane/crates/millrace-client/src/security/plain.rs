//! PLAIN (RFC 4616): user and password as they are. Only sensible with TLS.

use std::fmt;

use bytes::Bytes;

use crate::{
    error::RequestError,
    transport::{Authenticate, BoxFuture, SaslExchange},
};

/// SASL PLAIN.
#[derive(Clone)]
pub struct Plain {
    token: Bytes,
}

impl Plain {
    /// As this user.
    #[must_use]
    pub fn new(user: &str, password: &str) -> Self {
        Self {
            token: Bytes::from(format!("\0{user}\0{password}")),
        }
    }
}

/// The password is a secret.
impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plain").finish_non_exhaustive()
    }
}

impl Authenticate for Plain {
    fn authenticate<'a>(
        &'a self,
        exchange: &'a mut SaslExchange<'_>,
    ) -> BoxFuture<'a, Result<(), RequestError>> {
        Box::pin(async {
            exchange.handshake("PLAIN").await?;
            exchange.send(self.token.clone()).await.map(drop)
        })
    }
}
