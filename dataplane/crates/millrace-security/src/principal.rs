//! The name that rules speak of.

use std::{fmt, str::FromStr, sync::Arc};

/// The longest principal, in bytes of `Type:name`: longer than a distinguished name of a certificate
/// gets, and short enough that the index of a full set of rules stays small.
pub const PRINCIPAL_BYTES_MAX: usize = 512;

/// The name of clients that do not authenticate. Nobody can sign in under it: rules and `super.users` that
/// name it speak of listeners without authentication.
pub const ANONYMOUS_USER: &str = "ANONYMOUS";

/// Names that begin with this are the broker's own: no credential, certificate or token is accepted for one.
pub const RESERVED_PREFIX: &str = "__millrace";

/// Whether a user of this name would be the broker's own.
pub(crate) fn is_reserved(user: &str) -> bool {
    user.starts_with(RESERVED_PREFIX)
}

/// The control plane. It signs in by SCRAM with the secret of the admin HTTP.
pub const CONTROL_PLANE_USER: &str = "__millrace";

/// A broker, where it reads and writes records for a caller of its admin HTTP. Other brokers of its cluster sign in as it, by
/// SCRAM with a secret of the cluster.
pub const RECORDS_USER: &str = "__millrace_records";

/// Who a client is: a type and a name, written `User:alice`. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal(Arc<str>);

/// A text is not a principal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPrincipal {
    /// No type before a colon.
    #[error("{0:?} is not a principal; write Type:name, such as User:alice")]
    Form(String),
    /// Longer than [`PRINCIPAL_BYTES_MAX`].
    #[error("a principal has at most {PRINCIPAL_BYTES_MAX} bytes, and this one has {0}")]
    TooLong(usize),
    /// [`ANONYMOUS_USER`] for a client that authenticates.
    #[error("{ANONYMOUS_USER} is the name of clients that do not authenticate; use another one")]
    Anonymous,
    /// It begins with [`RESERVED_PREFIX`].
    #[error("names that begin with {RESERVED_PREFIX} are reserved; use another one")]
    Reserved,
}

impl Principal {
    /// The principal of a connection that did not authenticate.
    #[must_use]
    pub fn anonymous() -> Self {
        Self(format!("User:{ANONYMOUS_USER}").into())
    }

    /// [`CONTROL_PLANE_USER`]
    #[must_use]
    pub fn control_plane() -> Self {
        Self(format!("User:{CONTROL_PLANE_USER}").into())
    }

    /// [`RECORDS_USER`]
    #[must_use]
    pub fn records() -> Self {
        Self(format!("User:{RECORDS_USER}").into())
    }

    /// The principal of a user who has authenticated.
    ///
    /// # Errors
    /// The name is too long, [`ANONYMOUS_USER`], or begins with [`RESERVED_PREFIX`].
    pub fn user(name: &str) -> Result<Self, InvalidPrincipal> {
        if name == ANONYMOUS_USER {
            return Err(InvalidPrincipal::Anonymous);
        }
        if is_reserved(name) {
            return Err(InvalidPrincipal::Reserved);
        }
        format!("User:{name}").parse()
    }

    /// Whether it is a user whose name begins with [`RESERVED_PREFIX`].
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.0.strip_prefix("User:").is_some_and(is_reserved)
    }

    /// The whole text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Principal {
    type Err = InvalidPrincipal;

    fn from_str(text: &str) -> Result<Self, InvalidPrincipal> {
        if text.len() > PRINCIPAL_BYTES_MAX {
            return Err(InvalidPrincipal::TooLong(text.len()));
        }
        match text.split_once(':') {
            Some((kind, _)) if !kind.is_empty() => Ok(Self(text.into())),
            _ => Err(InvalidPrincipal::Form(text.to_owned())),
        }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_have_a_type_and_a_name() {
        for good in [
            "User:alice",
            "User:*",
            "User:CN=a,OU=b:c",
            "Group:x",
            "User:",
        ] {
            assert_eq!(good.parse::<Principal>().expect("legal").as_str(), good);
        }
        for bad in ["", "alice", ":alice"] {
            assert!(bad.parse::<Principal>().is_err(), "{bad:?}");
        }
        let long = format!("User:{}", "x".repeat(PRINCIPAL_BYTES_MAX));
        assert!(matches!(
            long.parse::<Principal>(),
            Err(InvalidPrincipal::TooLong(_))
        ));
    }

    #[test]
    fn who_authenticates_is_not_anonymous() {
        assert_eq!(
            Principal::user("ANONYMOUS"),
            Err(InvalidPrincipal::Anonymous)
        );
        for reserved in [CONTROL_PLANE_USER, RECORDS_USER, "__millrace_of_tomorrow"] {
            assert_eq!(Principal::user(reserved), Err(InvalidPrincipal::Reserved));
            let named = format!("User:{reserved}").parse::<Principal>();
            assert!(named.expect("legal").is_reserved());
        }
        let other = Principal::user("anonymous").expect("another name");
        assert_ne!(other, Principal::anonymous());
        // Rules and super.users name it.
        let named = "User:ANONYMOUS".parse::<Principal>();
        assert_eq!(named, Ok(Principal::anonymous()));
    }
}
