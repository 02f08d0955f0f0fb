//! The secret that callers of the admin HTTP show.

use std::{fs, path::Path, sync::Arc};

use super::AdminError;

/// The shortest token that is taken, in bytes: 128 bits in hexadecimal.
pub(super) const TOKEN_BYTES_MIN: usize = 32;

/// The secret that callers show.
#[derive(Clone)]
pub(crate) struct Token(Option<Arc<str>>);

impl Token {
    /// No token: what needs one is refused to everybody.
    #[must_use]
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Reads the token from its file.
    ///
    /// # Errors
    /// The file cannot be read, or its token is too short.
    pub(crate) fn read(path: &Path) -> Result<Self, AdminError> {
        let shown = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|source| AdminError::Token {
            path: shown.clone(),
            source,
        })?;
        match text.trim() {
            token if token.len() >= TOKEN_BYTES_MIN => Ok(Self(Some(token.into()))),
            _ => Err(AdminError::WeakToken { path: shown }),
        }
    }

    /// What callers have to show; nothing where there is none.
    pub(crate) fn secret(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Compares in a time that does not tell how much was right.
    pub(super) fn admits(&self, shown: &str) -> bool {
        let Some(token) = &self.0 else { return false };
        let (token, shown) = (token.as_bytes(), shown.as_bytes());
        let differing = token
            .iter()
            .zip(shown)
            .fold(0, |bits, (a, b)| bits | (a ^ b));
        token.len() == shown.len() && differing == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_admitted() {
        let token = Token(Some("0123456789abcdef0123456789abcdef".into()));
        assert!(token.admits("0123456789abcdef0123456789abcdef"));
        for wrong in [
            "",
            "0123456789abcdef0123456789abcde",
            "0123456789abcdef0123456789abcdef0",
        ] {
            assert!(!token.admits(wrong), "{wrong:?}");
        }
        assert!(!token.admits("0123456789abcdef0123456789abcdeF"));
        assert!(!Token::none().admits(""));
    }

    #[test]
    fn a_weak_or_missing_token_is_refused_with_a_remedy() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let path = home.path().join("token");
        let missing = Token::read(&path)
            .map(|_| ())
            .expect_err("missing")
            .to_string();
        assert!(missing.contains("admin.token.file"), "{missing}");
        fs::write(&path, "short\n").expect("writable");
        let weak = Token::read(&path)
            .map(|_| ())
            .expect_err("weak")
            .to_string();
        assert!(weak.contains("openssl rand"), "{weak}");
        fs::write(&path, format!("{}\n", "x".repeat(32))).expect("writable");
        assert!(Token::read(&path).expect("strong").admits(&"x".repeat(32)));
    }
}
