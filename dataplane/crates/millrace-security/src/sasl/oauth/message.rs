//! The client's first message (RFC 7628, section 3.1): `n,[a=authzid],^A` and key-value pairs that each
//! end with `^A`, then another `^A`. The pair `auth` has the token. Kafka's extensions are further pairs;
//! nothing here uses them.

use crate::sasl::AuthenticationError;

/// Separates the parts.
const SEPARATOR: char = '\u{1}';

/// The token, and the user that the client wants to be, if it says so.
pub(in crate::sasl) fn bearer_token(
    message: &[u8],
) -> Result<(&str, Option<&str>), AuthenticationError> {
    let malformed = AuthenticationError::Malformed;
    let text = std::str::from_utf8(message).map_err(|_| malformed)?;
    let (header, pairs) = text.split_once(SEPARATOR).ok_or(malformed)?;
    let user = match header.strip_prefix("n,").ok_or(malformed)? {
        "," => None,
        named => {
            let named = named.strip_suffix(',').ok_or(malformed)?;
            Some(named.strip_prefix("a=").ok_or(malformed)?)
        }
    };
    if user.is_some_and(|user| user.is_empty() || user.contains(',')) {
        return Err(malformed);
    }
    let pairs = pairs.strip_suffix("\u{1}\u{1}").ok_or(malformed)?;
    let mut token = None;
    for pair in pairs.split(SEPARATOR) {
        let (key, value) = pair.split_once('=').ok_or(malformed)?;
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Err(malformed);
        }
        if key == "auth" && token.replace(value).is_some() {
            return Err(malformed);
        }
    }
    let (scheme, token) = token
        .and_then(|value| value.split_once(' '))
        .ok_or(malformed)?;
    let token = token.trim_start_matches(' ');
    match scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() {
        true => Ok((token, user)),
        false => Err(malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_message_has_a_token() {
        let good = [
            ("n,,\u{1}auth=Bearer a.b.c\u{1}\u{1}", None),
            ("n,a=alice,\u{1}auth=bearer  a.b.c\u{1}\u{1}", Some("alice")),
            (
                "n,,\u{1}host=h=x\u{1}auth=Bearer a.b.c\u{1}ext=1\u{1}\u{1}",
                None,
            ),
        ];
        for (message, user) in good {
            assert_eq!(
                bearer_token(message.as_bytes()),
                Ok(("a.b.c", user)),
                "{message:?}"
            );
        }
        for bad in [
            "",
            "n,,",
            "\u{1}",
            "n,,\u{1}\u{1}",
            "n,,\u{1}auth=Bearer a\u{1}",
            "n,,\u{1}auth=Bearer \u{1}\u{1}",
            "n,,\u{1}auth=Basic a\u{1}\u{1}",
            "n,,\u{1}auth=Bearer\u{1}\u{1}",
            "n,,\u{1}host=h\u{1}\u{1}",
            "n,,\u{1}auth=Bearer a\u{1}auth=Bearer b\u{1}\u{1}",
            "n,,\u{1}a1=x\u{1}auth=Bearer a\u{1}\u{1}",
            "n,a=,\u{1}auth=Bearer a\u{1}\u{1}",
            "n,alice,\u{1}auth=Bearer a\u{1}\u{1}",
            "y,,\u{1}auth=Bearer a\u{1}\u{1}",
            "p=x,,\u{1}auth=Bearer a\u{1}\u{1}",
        ] {
            let refused = bearer_token(bad.as_bytes());
            assert_eq!(refused, Err(AuthenticationError::Malformed), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_messages_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
            text in "[ny,a=]{0,6}\u{1}(auth=Bearer ?|[a-z=]{0,4}){0,3}\u{1}?\u{1}?",
        ) {
            let _ = bearer_token(&bytes);
            let _ = bearer_token(text.as_bytes());
        }
    }
}
