//! The name that rules speak of.

use std::{fmt, str::FromStr, sync::Arc};

/// The longest principal, in bytes of `Type:name`: longer than a distinguished name of a certificate
/// gets, and short enough that the index of a full set of rules stays small.
pub const PRINCIPAL_BYTES_MAX: usize = 512;

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
}

impl Principal {
    /// The principal of a connection that did not authenticate.
    #[must_use]
    pub fn anonymous() -> Self {
        Self("User:ANONYMOUS".into())
    }

    /// The principal of a user.
    ///
    /// # Errors
    /// The name is too long.
    pub fn user(name: &str) -> Result<Self, InvalidPrincipal> {
        format!("User:{name}").parse()
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
}
