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
    let [authzid, user, password] = parts(token).ok_or(AuthenticationError::Malformed)?;
    let text = |part| std::str::from_utf8(part).map_err(|_| AuthenticationError::Malformed);
    let (authzid, user, password) = (text(authzid)?, text(user)?, text(password)?);
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

/// Who a client says it is, whether it can prove it or not. Only a message in the right form has a name: in
/// `alice NUL password` or `alice NUL password NUL`, the password is where the name should be.
pub(super) fn claimed(token: &[u8]) -> Option<&str> {
    let [_, user, password] = parts(token)?;
    let user = std::str::from_utf8(user).ok()?;
    (!password.is_empty()).then_some(user)
}

/// Authorization identity, user and password; none unless there are exactly these three.
fn parts(token: &[u8]) -> Option<[&[u8]; 3]> {
    let mut parts = token.split(|byte| *byte == 0);
    let three = [parts.next()?, parts.next()?, parts.next()?];
    parts.next().is_none().then_some(three)
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

    /// The audit log has it: what may be a password must not be taken for a name.
    #[test]
    fn only_a_message_in_the_right_form_claims_a_name() {
        for (token, name) in [
            (&b"\0alice\0secret"[..], Some("alice")),
            (b"bob\0alice\0secret", Some("alice")),
            (b"\0alice\0\xff", Some("alice")),
            (b"alice\0secret", None),
            (b"alice\0secret\0", None),
            (b"\0alice\0secret\0", None),
            (b"\0al\xffce\0secret", None),
            (b"alice", None),
            (b"", None),
        ] {
            assert_eq!(claimed(token), name, "{token:?}");
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
