//! Credentials of users, as they are stored.

use std::fmt;

/// The credential of one user for one mechanism.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramRow {
    /// The user's name.
    pub user: String,
    /// The mechanism's number.
    pub mechanism: i8,
    /// How often the password was hashed.
    pub iterations: u32,
    /// What it was salted with.
    pub salt: Vec<u8>,
    /// What a client's proof is checked against.
    pub stored_key: Vec<u8>,
    /// What the server signs with.
    pub server_key: Vec<u8>,
}

/// Keys are secrets.
impl fmt::Debug for ScramRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramRow")
            .field("user", &self.user)
            .field("mechanism", &self.mechanism)
            .finish_non_exhaustive()
    }
}

/// One change of the credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScramChange {
    /// Sets a credential.
    Put(ScramRow),
    /// Removes the credential of a user for a mechanism, if there is one.
    Remove {
        /// The user's name.
        user: String,
        /// The mechanism's number.
        mechanism: i8,
    },
}
