//! SCRAM (RFC 5802) with SHA-256 (RFC 7677) or SHA-512.
//!
//! ```text
//! client-first:  n,,n=user,r=client-nonce          "y" where the client thinks we lack channel binding
//! server-first:  r=client-nonce server-nonce,s=salt,i=iterations
//! client-final:  c=base64(n,,),r=nonces,p=proof
//! server-final:  v=signature
//! ```
//!
//! With the extension `tokenauth=true` in the first message, the user is the id of a delegation token, and the
//! password its HMAC in base64 (KIP-48).
//!
//! A user who does not exist is led through the same messages and computations, and fails at the proof.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use subtle::ConstantTimeEq as _;

use crate::{
    credentials::{Claimed, ScramCredential, ScramHash, ScramUsers, USER_BYTES_MAX, random_bytes},
    delegation::DelegationTokens,
    sasl::AuthenticationError,
};

/// The longest nonce of a client, in bytes.
const NONCE_BYTES_MAX: usize = 256;

/// Random bytes of ours in a nonce: as strong as the weakest hash.
const OWN_NONCE_BYTES: usize = 24;

/// One exchange behind its first message.
#[derive(Debug)]
pub(super) struct Challenged {
    hash: ScramHash,
    /// The user, or the id of the token.
    pub(super) name: String,
    pub(super) is_token: bool,
    credential: Arc<ScramCredential>,
    /// `n,,` or `y,,` with what it names, as it came.
    gs2_header: String,
    client_first_bare: String,
    server_first: String,
    nonce: String,
}

/// A nonce for one exchange.
pub(super) fn nonce() -> String {
    // The alphabet of base64 has no comma, so the nonce needs no escapes.
    STANDARD.encode(random_bytes::<OWN_NONCE_BYTES>())
}

/// Who a client says it is, whether it can prove it or not: the name, and whether it is the id of a token.
pub(super) fn claimed(token: &[u8]) -> Option<(String, bool)> {
    let first = ClientFirst::parse(token).ok()?;
    Some((first.user, first.is_token))
}

/// Takes a client's first message; the exchange, and the challenge for the client.
pub(super) fn challenge(
    hash: ScramHash,
    (users, tokens): (&ScramUsers, Option<&DelegationTokens>),
    token: &[u8],
    own_nonce: &str,
) -> Result<(Challenged, Vec<u8>), AuthenticationError> {
    let first = ClientFirst::parse(token)?;
    let credential = match first.is_token {
        false => users.get_or_fake(hash, &first.user),
        true => {
            let tokens = tokens.ok_or(AuthenticationError::Unsupported)?;
            let known = tokens.credential(hash, &first.user);
            // Never a user's: a password is no token.
            known.unwrap_or_else(|| Arc::new(users.fake(hash, (&first.user, Claimed::Token))))
        }
    };
    let nonce = format!("{}{own_nonce}", first.nonce);
    let salt = STANDARD.encode(&credential.salt);
    let server_first = format!("r={nonce},s={salt},i={}", credential.iterations);
    let reply = server_first.clone().into_bytes();
    let challenged = Challenged {
        hash,
        name: first.user,
        is_token: first.is_token,
        credential,
        gs2_header: first.gs2_header.to_owned(),
        client_first_bare: first.bare.to_owned(),
        server_first,
        nonce,
    };
    Ok((challenged, reply))
}

impl Challenged {
    pub(super) const fn hash(&self) -> ScramHash {
        self.hash
    }

    /// Takes a client's final message; the server's.
    pub(super) fn finish(&self, token: &[u8]) -> Result<Vec<u8>, AuthenticationError> {
        let malformed = AuthenticationError::Malformed;
        let text = std::str::from_utf8(token).map_err(|_| malformed)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(malformed)?;
        let rest = without_proof.strip_prefix("c=").ok_or(malformed)?;
        let (binding, rest) = rest.split_once(',').ok_or(malformed)?;
        // Extensions may follow the nonce; none is known, and they may be ignored.
        let nonce = rest
            .split(',')
            .next()
            .and_then(|part| part.strip_prefix("r="));
        // Kafka asks only that it ends with the nonce that the server sent, and librdkafka before 2.2 relies on
        // that: it puts its own nonce before it once more. The proof covers whatever was sent.
        let is_fresh = nonce.is_some_and(|nonce| nonce.ends_with(&self.nonce));
        if binding != STANDARD.encode(&self.gs2_header) || !is_fresh {
            return Err(malformed);
        }
        let proof = STANDARD.decode(proof).map_err(|_| malformed)?;
        if proof.len() != self.hash.digest_bytes() {
            return Err(malformed);
        }
        let message = format!(
            "{},{},{without_proof}",
            self.client_first_bare, self.server_first
        );
        let ScramCredential {
            stored_key,
            server_key,
            ..
        } = &*self.credential;
        let signature = self.hash.hmac(stored_key, message.as_bytes());
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        if !bool::from(self.hash.digest(&client_key).ct_eq(stored_key)) {
            return Err(AuthenticationError::Credentials);
        }
        let own = self.hash.hmac(server_key, message.as_bytes());
        Ok(format!("v={}", STANDARD.encode(own)).into_bytes())
    }
}

/// A client's first message.
#[derive(Debug)]
struct ClientFirst<'a> {
    gs2_header: &'a str,
    bare: &'a str,
    user: String,
    nonce: &'a str,
    is_token: bool,
}

impl<'a> ClientFirst<'a> {
    fn parse(token: &'a [u8]) -> Result<Self, AuthenticationError> {
        let malformed = AuthenticationError::Malformed;
        let text = std::str::from_utf8(token).map_err(|_| malformed)?;
        let (flag, rest) = text.split_once(',').ok_or(malformed)?;
        match flag {
            "n" | "y" => {}
            _ if flag.starts_with("p=") => return Err(AuthenticationError::Unsupported),
            _ => return Err(malformed),
        }
        let (authzid, bare) = rest.split_once(',').ok_or(malformed)?;
        let gs2_header = &text[..text.len() - bare.len()];
        let mut parts = bare.split(',');
        let user = match parts.next().and_then(|part| part.split_once('=')) {
            Some(("n", user)) => unescape(user)?,
            // An extension that must be understood.
            Some(("m", _)) => return Err(AuthenticationError::Unsupported),
            _ => return Err(malformed),
        };
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        let nonce = nonce.ok_or(malformed)?;
        let is_printable = nonce.bytes().all(|byte| byte.is_ascii_graphic());
        if nonce.is_empty() || nonce.len() > NONCE_BYTES_MAX || !is_printable {
            return Err(malformed);
        }
        // Other extensions are ignored.
        let mut extensions = parts.filter_map(|extension| extension.split_once('='));
        let is_token = extensions
            .any(|(name, value)| name == "tokenauth" && value.eq_ignore_ascii_case("true"));
        let authzid = match authzid {
            "" => None,
            text => Some(unescape(text.strip_prefix("a=").ok_or(malformed)?)?),
        };
        if authzid.is_some_and(|id| id != user) {
            return Err(AuthenticationError::Unsupported);
        }
        Ok(Self {
            gs2_header,
            bare,
            user,
            nonce,
            is_token,
        })
    }
}

/// A name as it is: `=2C` stands for a comma, `=3D` for an equals sign, and neither stands for itself.
fn unescape(text: &str) -> Result<String, AuthenticationError> {
    let mut parts = text.split('=');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (character, rest) = match part.get(..2) {
            Some("2C") => (',', part.get(2..)),
            Some("3D") => ('=', part.get(2..)),
            _ => return Err(AuthenticationError::Malformed),
        };
        name.push(character);
        name.push_str(rest.unwrap_or_default());
    }
    match name.len() {
        1..=USER_BYTES_MAX if !name.contains('\0') => Ok(name),
        _ => Err(AuthenticationError::Malformed),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::LazyLock;

    use millrace_time::ManualClock;
    use proptest::prelude::*;

    use super::*;
    use crate::delegation::tests as delegation;

    fn user_of(hash: ScramHash, user: &str, password: &str, salt: &[u8]) -> ScramUsers {
        let salted = hash.salted_password(password.as_bytes(), salt, 4_096);
        let made = ScramCredential::from_salted_password(hash, salt, 4_096, &salted);
        ScramUsers::new([(hash, user.to_owned(), made.expect("legal"))])
    }

    /// What a client that knows a password answers to a challenge.
    pub(in crate::sasl) fn client_final(
        hash: ScramHash,
        password: &str,
        bare: &str,
        gs2_header: &str,
        server_first: &[u8],
    ) -> Vec<u8> {
        let server_first = std::str::from_utf8(server_first).expect("text");
        let field = |name: &str| {
            let mut parts = server_first.split(',');
            let found = parts.find_map(|part| part.strip_prefix(name));
            found.expect("a field").to_owned()
        };
        let salt = STANDARD.decode(field("s=")).expect("base64");
        let iterations = field("i=").parse().expect("a number");
        let salted = hash.salted_password(password.as_bytes(), &salt, iterations);
        prove(hash, &salted, bare, gs2_header, server_first.as_bytes())
    }

    fn prove(
        hash: ScramHash,
        salted: &[u8],
        bare: &str,
        gs2_header: &str,
        server_first: &[u8],
    ) -> Vec<u8> {
        let server_first = std::str::from_utf8(server_first).expect("text");
        let nonce = server_first.split(',').next().expect("a nonce");
        let binding = STANDARD.encode(gs2_header);
        let without_proof = format!("c={binding},{nonce}");
        with_proof(
            hash,
            salted,
            &format!("{bare},{server_first}"),
            &without_proof,
        )
    }

    /// A final message with the proof that belongs to it and to the two messages before.
    fn with_proof(
        hash: ScramHash,
        salted: &[u8],
        first_messages: &str,
        without_proof: &str,
    ) -> Vec<u8> {
        let client_key = hash.hmac(salted, b"Client Key");
        let message = format!("{first_messages},{without_proof}");
        let signature = hash.hmac(&hash.digest(&client_key), message.as_bytes());
        let proof: Vec<u8> = client_key
            .iter()
            .zip(&signature)
            .map(|(a, b)| a ^ b)
            .collect();
        format!("{without_proof},p={}", STANDARD.encode(proof)).into_bytes()
    }

    /// RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let users = user_of(ScramHash::Sha256, "user", "pencil", &salt);
        let (challenged, server_first) = challenge(
            ScramHash::Sha256,
            (&users, None),
            b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        )
        .expect("legal");
        assert_eq!(
            server_first,
            b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let server_final = challenged.finish(
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        );
        assert_eq!(
            server_final.expect("the right proof"),
            b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    #[test]
    fn both_hashes_escapes_and_wrong_passwords() {
        for hash in ScramHash::EVERY {
            let users = user_of(hash, "a,b=c", "pässword", b"0123456789");
            let bare = "n=a=2Cb=3Dc,r=abc";
            let first = format!("y,a=a=2Cb=3Dc,{bare}");
            let begin =
                || challenge(hash, (&users, None), first.as_bytes(), &nonce()).expect("legal");
            let answer = |password| {
                let (challenged, server_first) = begin();
                let header = "y,a=a=2Cb=3Dc,";
                let last = client_final(hash, password, bare, header, &server_first);
                challenged.finish(&last)
            };
            assert!(answer("pässword").is_ok());
            assert_eq!(answer("password"), Err(AuthenticationError::Credentials));
            // A final message of another exchange has another nonce.
            let (_, other) = begin();
            let replayed = client_final(hash, "pässword", bare, "y,a=a=2Cb=3Dc,", &other);
            assert_eq!(
                begin().0.finish(&replayed),
                Err(AuthenticationError::Malformed)
            );
        }
    }

    /// librdkafka 2.0 sends its nonce twice, and Kafka lets it.
    #[test]
    fn a_replayed_or_cut_exchange_is_refused() {
        let hash = ScramHash::Sha256;
        let users = user_of(hash, "a", "secret", b"salt");
        let salted = hash.salted_password(b"secret", b"salt", 4_096);
        let begin =
            |own_nonce| challenge(hash, (&users, None), b"n,,n=a,r=b", own_nonce).expect("legal");
        let (challenged, server_first) = begin("x");
        let last = prove(hash, &salted, "n=a,r=b", "n,,", &server_first);
        assert!(challenged.finish(&last).is_ok());
        // Whoever has listened has the proof of an exchange, not of the next.
        let (challenged, _) = begin("y");
        assert!(challenged.finish(&last).is_err());
        let (challenged, _) = begin("x");
        for length in 0..last.len() {
            assert!(challenged.finish(&last[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_nonce_may_stand_behind_another_that_the_proof_covers() {
        let hash = ScramHash::Sha256;
        let users = user_of(hash, "alice", "secret", b"salt");
        let (challenged, server_first) =
            challenge(hash, (&users, None), b"n,,n=alice,r=abc", "def").expect("legal");
        let bare = "n=alice,r=abc";
        let good = client_final(hash, "secret", bare, "n,,", &server_first);
        let twice = String::from_utf8(good).expect("text");
        let twice = twice.replace("r=abcdef", "r=abcabcdef");
        let unproved = challenged.finish(twice.as_bytes());
        assert_eq!(unproved, Err(AuthenticationError::Credentials));
        let salted = hash.salted_password(b"secret", b"salt", 4_096);
        let server_first = String::from_utf8(server_first).expect("text");
        let first_messages = format!("{bare},{server_first}");
        let last = with_proof(hash, &salted, &first_messages, "c=biws,r=abcabcdef");
        assert!(challenged.finish(&last).is_ok());
    }

    #[test]
    fn a_stranger_is_refused_at_the_proof_like_a_wrong_password() {
        let hash = ScramHash::Sha512;
        let users = user_of(hash, "alice", "secret", b"0123456789");
        let (challenged, server_first) =
            challenge(hash, (&users, None), b"n,,n=mallory,r=abc", "def").expect("legal");
        let last = client_final(hash, "secret", "n=mallory,r=abc", "n,,", &server_first);
        assert_eq!(
            challenged.finish(&last),
            Err(AuthenticationError::Credentials)
        );
    }

    /// Otherwise, two equal salts would tell that a name is no user's, or the salt's form that it is a token's.
    #[test]
    fn salts_do_not_tell_which_users_and_tokens_exist() {
        let hash = ScramHash::Sha256;
        let users = user_of(hash, "alice", "secret", b"0123456789");
        let stored = (0..64).map(|nth| delegation::token(&format!("token-{nth}"), 10));
        let tokens = DelegationTokens::new(delegation::config(), ManualClock::shared(), stored);
        let salt = |bare: &str| {
            let known = (&users, Some(&tokens));
            let first = format!("n,,{bare}");
            let (_, reply) = challenge(hash, known, first.as_bytes(), "x").expect("legal");
            let reply = String::from_utf8(reply).expect("text");
            let salt = reply.split(',').find_map(|part| part.strip_prefix("s="));
            STANDARD.decode(salt.expect("a salt")).expect("base64")
        };
        for name in ["alice", "mallory", "token-1"] {
            let (user, token) = (
                format!("n={name},r=a"),
                format!("n={name},r=a,tokenauth=true"),
            );
            assert_ne!(salt(&user), salt(&token), "{name}");
            assert_eq!(salt(&token), salt(&token), "{name}");
        }
        for nth in 0..64 {
            // The second half are strangers.
            let salt = salt(&format!("n=token-{},r=a,tokenauth=true", nth * 2));
            let is_digit = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
            assert!(salt.iter().all(is_digit), "{nth}: {salt:?}");
            assert!((20..=26).contains(&salt.len()), "{nth}: {salt:?}");
        }
    }

    /// A user may have the same name as a token, and know only her own password.
    #[test]
    fn a_password_is_no_token_and_a_token_no_password() {
        let hash = ScramHash::Sha512;
        let users = user_of(hash, "id", "secret", b"0123456789");
        let tokens = [delegation::token("id", 10)];
        let tokens = DelegationTokens::new(delegation::config(), ManualClock::shared(), tokens);
        let issued = tokens.issue(delegation::token("id", 10));
        let hmac = STANDARD.encode(issued.hmac());
        let answer = |bare: &str, password: &str| {
            let known = (&users, Some(&tokens));
            let first = format!("n,,{bare}");
            let begun = challenge(hash, known, first.as_bytes(), "x");
            let (challenged, server_first) = begun.expect("legal");
            let last = client_final(hash, password, bare, "n,,", &server_first);
            challenged.finish(&last).map(|_| challenged.is_token)
        };
        let (user, token) = ("n=id,r=abc", "n=id,r=abc,tokenauth=TRUE");
        assert_eq!(answer(user, "secret"), Ok(false));
        assert_eq!(answer(token, &hmac), Ok(true));
        let refused = Err(AuthenticationError::Credentials);
        assert_eq!(answer(user, &hmac), refused);
        assert_eq!(answer(token, "secret"), refused);
        // Twice the same: the credential is made once, and kept.
        assert_eq!(answer(token, &hmac), Ok(true));
    }

    #[test]
    fn first_messages_that_are_refused() {
        let users = ScramUsers::new([]);
        let begin = |text: &str| {
            let begun = challenge(ScramHash::Sha256, (&users, None), text.as_bytes(), "x");
            begun.map(drop)
        };
        assert_eq!(begin("n,,n=a,r=b,ext=1"), Ok(()));
        for malformed in [
            "",
            "n",
            "n,,",
            "n,,n=a",
            "n,,n=,r=b",
            "n,,n=a,r=",
            "n,,r=b,n=a",
            "x,,n=a,r=b",
            "n,b,n=a,r=b",
            "n,,n=a=2D,r=b",
            "n,,n=a=2c,r=b",
            "n,,n=a=,r=b",
            "n,,n=a,r=b c",
            "n,,n=a\0,r=b",
        ] {
            assert_eq!(
                begin(malformed),
                Err(AuthenticationError::Malformed),
                "{malformed:?}"
            );
        }
        for unsupported in [
            "p=tls-unique,,n=a,r=b",
            "n,a=b,n=a,r=b",
            "n,,m=x,n=a,r=b",
            "n,,n=a,r=b,tokenauth=true",
        ] {
            let unsupported_error = Err(AuthenticationError::Unsupported);
            assert_eq!(begin(unsupported), unsupported_error, "{unsupported:?}");
        }
        let long = format!("n,,n=a,r={}", "b".repeat(NONCE_BYTES_MAX + 1));
        assert_eq!(begin(&long), Err(AuthenticationError::Malformed));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn arbitrary_bytes_never_panic(token in proptest::collection::vec(any::<u8>(), 0..200)) {
            let users = ScramUsers::new([]);
            let _ = challenge(ScramHash::Sha256, (&users, None), &token, "x");
            let (challenged, _) =
                challenge(ScramHash::Sha256, (&users, None), b"n,,n=a,r=b", "x").expect("legal");
            prop_assert!(challenged.finish(&token).is_err());
        }

        #[test]
        fn a_changed_final_message_is_refused(at in 0_usize..200, flip in 1_u8..=255) {
            let hash = ScramHash::Sha256;
            // Hashing the password once is enough.
            static USERS: LazyLock<ScramUsers> =
                LazyLock::new(|| user_of(ScramHash::Sha256, "a", "secret", b"salt"));
            static SALTED: LazyLock<Vec<u8>> =
                LazyLock::new(|| ScramHash::Sha256.salted_password(b"secret", b"salt", 4_096));
            let (challenged, server_first) =
                challenge(hash, (&USERS, None), b"n,,n=a,r=b", "x").expect("legal");
            let mut last = prove(hash, &SALTED, "n=a,r=b", "n,,", &server_first);
            let at = at % last.len();
            last[at] ^= flip;
            prop_assert!(challenged.finish(&last).is_err());
        }

        #[test]
        fn grammar_like_text_never_panics(token in "[nyp=],?(a=)?[a=2C3D]{0,6},(m=x,)?n=[=2C3Dab\u{e9}]{0,8},r=[!-~]{0,8}(,[a-z=]{0,5})?") {
            let users = ScramUsers::new([]);
            let _ = challenge(ScramHash::Sha512, (&users, None), token.as_bytes(), "x");
        }
    }
}
