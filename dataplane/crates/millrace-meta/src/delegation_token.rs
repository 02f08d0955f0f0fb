//! Delegation tokens (KIP-48), as they are stored.

/// One token. Principals are written `Type:name`, times are milliseconds since 1970-01-01 UTC. The HMAC, which
/// is the token's secret, is not stored: it follows from the id and the configured secret key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationTokenRow {
    /// The token's id.
    pub id: String,
    /// Who a client that shows the token is.
    pub owner: String,
    /// Who asked for it.
    pub requester: String,
    /// Who may renew it, beside its owner.
    pub renewers: Vec<String>,
    /// When it was created.
    pub issued_ms: i64,
    /// When it expires for good.
    pub max_ms: i64,
    /// When it expires unless it is renewed.
    pub expires_ms: i64,
}

/// One change of the tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DelegationTokenChange {
    /// Adds a token, or replaces the one with this id.
    Put(DelegationTokenRow),
    /// Removes the token with this id, if there is one.
    Remove(String),
}
