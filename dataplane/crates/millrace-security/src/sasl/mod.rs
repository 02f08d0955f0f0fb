//! The server's side of SASL. No I/O: tokens in, tokens out.
//!
//! | part | what it is |
//! |---|---|
//! | `plain` | PLAIN (RFC 4616) |
//! | `scram` | SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) |
//! | `oauth` | OAUTHBEARER (RFC 7628): tokens that somebody else has signed |
//! | `session` | a connection: handshake, exchange, and authentication again (KIP-43, KIP-368) |

pub mod oauth;
mod plain;
mod scram;
mod session;

use std::{fmt, str::FromStr};

pub use session::{Claim, HandshakeError, Identified, Reply, Session, Users};

use crate::{credentials::ScramHash, principal::InvalidPrincipal};

/// The longest token of a client, in bytes; longer ones are refused before they are decoded. A SCRAM message has
/// a few hundred, a JWT with its signature one or two thousand. Kafka's bound,
/// `sasl.server.max.receive.size`, is 512 KiB.
pub const TOKEN_BYTES_MAX: usize = 8 * 1_024;

/// A mechanism that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// User and password as they are. Only sensible with TLS.
    Plain,
    /// A proof that the password is known.
    Scram(ScramHash),
    /// A token.
    OauthBearer,
}

impl Mechanism {
    /// All of them.
    pub const EVERY: [Self; 4] = [
        Self::Plain,
        Self::Scram(ScramHash::Sha256),
        Self::Scram(ScramHash::Sha512),
        Self::OauthBearer,
    ];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(ScramHash::Sha256) => "SCRAM-SHA-256",
            Self::Scram(ScramHash::Sha512) => "SCRAM-SHA-512",
            Self::OauthBearer => "OAUTHBEARER",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The longest name that a mechanism may have, in characters (RFC 4422, section 3.1). More of an unknown one is
/// not repeated.
const MECHANISM_CHARS_MAX: usize = 20;

/// No mechanism has this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a SASL mechanism that is served; PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER are"
)]
pub struct UnknownMechanism(pub String);

impl UnknownMechanism {
    fn new(name: &str) -> Self {
        Self(name.chars().take(MECHANISM_CHARS_MAX).collect())
    }
}

impl FromStr for Mechanism {
    type Err = UnknownMechanism;

    fn from_str(text: &str) -> Result<Self, UnknownMechanism> {
        Self::EVERY
            .into_iter()
            .find(|mechanism| mechanism.name() == text)
            .ok_or_else(|| UnknownMechanism::new(text))
    }
}

/// An exchange has failed, and the connection must end. The client is told no more than this text says:
/// whether it was the user or the password stays unsaid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthenticationError {
    /// The token does not follow the mechanism's grammar.
    #[error("Authentication failed: the client's SASL message is malformed")]
    Malformed,
    /// The token is longer than any mechanism needs.
    #[error(
        "Authentication failed: the client's SASL message has more than {TOKEN_BYTES_MAX} bytes"
    )]
    TooLong,
    /// Channel binding, an authorization id of somebody else, extensions that must be understood.
    #[error(
        "Authentication failed: the client asks for what this mechanism's server does not offer"
    )]
    Unsupported,
    /// Wrong user or password.
    #[error("Authentication failed: Invalid username or password")]
    Credentials,
    /// The token of OAUTHBEARER is not accepted. Why is for the operator only.
    #[error("Authentication failed: {{\"status\":\"invalid_token\"}}")]
    Token(oauth::TokenError),
    /// The user has the name of clients that do not authenticate.
    #[error("Authentication failed: {}", InvalidPrincipal::Anonymous)]
    Anonymous,
    /// The user has a name of the broker's own.
    #[error("Authentication failed: {}", InvalidPrincipal::Reserved)]
    Reserved,
    /// No exchange is under way, or it has ended.
    #[error("Authentication failed: a SASL token came where none is expected")]
    State,
    /// The connection authenticated again as somebody else.
    #[error("Cannot change principals during re-authentication")]
    PrincipalChanged,
    /// The connection authenticated again by another mechanism.
    #[error("Cannot change SASL mechanisms during re-authentication")]
    MechanismChanged,
}

impl AuthenticationError {
    /// The stable word for the audit log. It says more than the client is told.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "malformed_message",
            Self::TooLong => "message_too_long",
            Self::Unsupported => "unsupported_feature",
            Self::Credentials => "wrong_credentials",
            Self::Token(error) => error.reason(),
            Self::Anonymous => "anonymous_name",
            Self::Reserved => "reserved_name",
            Self::State => "out_of_order",
            Self::PrincipalChanged => "principal_changed",
            Self::MechanismChanged => "mechanism_changed",
        }
    }
}
