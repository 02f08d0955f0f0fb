//! PLAIN (RFC 4616): `[authzid] NUL authcid NUL password`.

use crate::{
    credentials::{PlainUsers, USER_BYTES_MAX},
    sasl::AuthenticationError,
};

/// Checks a client's only token; the user's name.
pub(super) fn authenticate<'a>(
    users: &PlainUsers,
    token: &'a [u8],
) -> Result<&'a str, AuthenticationError> {
    let text = std::str::from_utf8(token).map_err(|_| AuthenticationError::Malformed)?;
    let mut parts = text.split('\0');
    let (Some(authzid), Some(user), Some(password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(AuthenticationError::Malformed);
    };
    if user.is_empty() || user.len() > USER_BYTES_MAX || password.is_empty() {
        return Err(AuthenticationError::Malformed);
    }
    if !users.verify(user, password) {
        return Err(AuthenticationError::Credentials);
    }
    // Told only to somebody who knows the password.
    if !authzid.is_empty() && authzid != user {
        return Err(AuthenticationError::Unsupported);
    }
    Ok(user)
}

/// Who a client says it is, whether it can prove it or not.
pub(super) fn claimed(token: &[u8]) -> Option<String> {
    let user = token.split(|byte| *byte == 0).nth(1)?;
    Some(String::from_utf8_lossy(user).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn users() -> PlainUsers {
        PlainUsers::new([("alice".to_owned(), "secret".to_owned())])
    }

    #[test]
    fn one_token_decides() {
        let users = users();
        let answer = |token: &[u8]| authenticate(&users, token).map(str::to_owned);
        assert_eq!(answer(b"\0alice\0secret"), Ok("alice".to_owned()));
        assert_eq!(answer(b"alice\0alice\0secret"), Ok("alice".to_owned()));
        let wrong = [
            (&b"bob\0alice\0secret"[..], AuthenticationError::Unsupported),
            (b"bob\0alice\0wrong", AuthenticationError::Credentials),
            (b"\0alice\0wrong", AuthenticationError::Credentials),
            (b"\0bob\0secret", AuthenticationError::Credentials),
            (b"\0alice", AuthenticationError::Malformed),
            (b"\0alice\0secret\0", AuthenticationError::Malformed),
            (b"\0\0secret", AuthenticationError::Malformed),
            (b"\0alice\0", AuthenticationError::Malformed),
            (b"\0al\xffce\0secret", AuthenticationError::Malformed),
            (b"", AuthenticationError::Malformed),
        ];
        for (token, error) in wrong {
            assert_eq!(answer(token), Err(error), "{token:?}");
        }
    }

    proptest! {
        #[test]
        fn no_other_token_gets_in(token in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assume!(!token.ends_with(b"\0alice\0secret"));
            prop_assert!(authenticate(&users(), &token).is_err());
        }
    }
}
