//! OAUTHBEARER (RFC 7628, KIP-255): the client shows a token that somebody else has signed.
//!
//! | part | what it is |
//! |---|---|
//! | `message` | the client's first message |
//! | `keys` | the keys that tokens are signed with (RFC 7517), as they were fetched last |
//! | `verify` | signatures by ring, for the JWT library |
//! | `token` | whether a token is good: signature, time, audience, issuer, name |

mod keys;
mod message;
mod token;
mod verify;

pub use keys::{InvalidKeySet, KEYS_MAX};
pub use token::{TokenError, TokenRules, Tokens};

pub(super) use message::bearer_token;
pub(super) use token::Accepted;

/// What a client is told about a token that is not accepted (RFC 7628, section 3.2.2).
pub(super) const REFUSAL: &[u8] = br#"{"status":"invalid_token"}"#;

#[cfg(test)]
pub(crate) mod tests;
