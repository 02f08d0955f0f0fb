//! SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): the password itself never travels, and the
//! broker proves that it knows it, too. A delegation token (KIP-48) takes the place of user and password.

use std::{fmt, num::NonZeroU32};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use ring::{
    digest, hmac, pbkdf2,
    rand::{SecureRandom, SystemRandom},
};

use crate::{
    error::RequestError,
    transport::{Authenticate, BoxFuture, SaslExchange},
};

/// The fewest iterations that a broker may ask for: the standard's minimum. Fewer would help somebody
/// who pretends to be the broker to guess the password.
const ITERATIONS_MIN: u32 = 4_096;
/// The most, sixty times Kafka's maximum: about a second of one core.
const ITERATIONS_MAX: u32 = 1_000_000;
/// Random bytes of the client's nonce.
const NONCE_BYTES: usize = 24;
/// `n,,`: no channel binding, no other identity.
const GS2_HEADER: &str = "n,,";

/// Tells the broker that the name is a delegation token's id.
const TOKEN_EXTENSION: &str = ",tokenauth=true";

/// The hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScramMechanism {
    /// `SCRAM-SHA-256`
    Sha256,
    /// `SCRAM-SHA-512`
    Sha512,
}

impl ScramMechanism {
    /// As brokers know it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }
}

/// SASL SCRAM.
#[derive(Clone)]
pub struct Scram {
    mechanism: ScramMechanism,
    /// The user, or the id of the delegation token.
    user: String,
    password: String,
    is_token: bool,
}

/// The password is a secret.
impl fmt::Debug for Scram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scram")
            .field("mechanism", &self.mechanism)
            .field("user", &self.user)
            .field("is_token", &self.is_token)
            .finish_non_exhaustive()
    }
}

/// The broker does not keep to the protocol, or does not know the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum ScramFailure {
    #[error("the broker's SCRAM message is malformed")]
    Malformed,
    #[error("the broker's SCRAM nonce does not begin with ours")]
    Nonce,
    #[error(
        "the broker asks for {0} SCRAM iterations; {ITERATIONS_MIN} to {ITERATIONS_MAX} are accepted"
    )]
    Iterations(u32),
    #[error("the broker does not prove that it knows the password")]
    Broker,
}

/// The client's last message, and what the broker must answer.
#[derive(Debug)]
struct Proof {
    message: String,
    server_key: hmac::Key,
    /// What both sides' proofs cover.
    covered: String,
}

impl Scram {
    /// As this user.
    #[must_use]
    pub fn new(mechanism: ScramMechanism, user: &str, password: &str) -> Self {
        Self {
            mechanism,
            user: user.to_owned(),
            password: password.to_owned(),
            is_token: false,
        }
    }

    /// As the owner of a delegation token (KIP-48): by the token's id and its HMAC in base64, as
    /// `kafka-delegation-tokens.sh` prints them. The session ends with the token.
    #[must_use]
    pub fn delegation_token(mechanism: ScramMechanism, id: &str, hmac: &str) -> Self {
        Self {
            is_token: true,
            ..Self::new(mechanism, id, hmac)
        }
    }

    /// The client's first message without its header.
    fn first(&self, nonce: &str) -> String {
        let user = self.user.replace('=', "=3D").replace(',', "=2C");
        let extension = if self.is_token { TOKEN_EXTENSION } else { "" };
        format!("n={user},r={nonce}{extension}")
    }

    fn prove(&self, first: &str, nonce: &str, server: &[u8]) -> Result<Proof, ScramFailure> {
        let malformed = ScramFailure::Malformed;
        let server = std::str::from_utf8(server).map_err(|_| malformed)?;
        let mut parts = server.split(',');
        let mut part = |prefix| {
            let part = parts.next().and_then(|part| part.strip_prefix(prefix));
            part.ok_or(malformed)
        };
        let (both_nonces, salt, iterations) = (part("r=")?, part("s=")?, part("i=")?);
        if both_nonces.len() <= nonce.len() || !both_nonces.starts_with(nonce) {
            return Err(ScramFailure::Nonce);
        }
        let salt = STANDARD.decode(salt).map_err(|_| malformed)?;
        let iterations: u32 = iterations.parse().map_err(|_| malformed)?;
        let rounds = NonZeroU32::new(iterations)
            .filter(|rounds| (ITERATIONS_MIN..=ITERATIONS_MAX).contains(&rounds.get()))
            .ok_or(ScramFailure::Iterations(iterations))?;
        let without_proof = format!("c={},r={both_nonces}", STANDARD.encode(GS2_HEADER));
        let covered = format!("{first},{server},{without_proof}");
        let algorithm = self.mechanism.hmac();
        let sign = |key: &[u8], message: &[u8]| {
            hmac::sign(&hmac::Key::new(algorithm, key), message)
                .as_ref()
                .to_vec()
        };
        let mut salted = vec![0; algorithm.digest_algorithm().output_len()];
        let password = self.password.as_bytes();
        pbkdf2::derive(
            self.mechanism.pbkdf2(),
            rounds,
            &salt,
            password,
            &mut salted,
        );
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest::digest(algorithm.digest_algorithm(), &client_key);
        let signature = sign(stored_key.as_ref(), covered.as_bytes());
        let proof: Vec<u8> = client_key
            .iter()
            .zip(&signature)
            .map(|(a, b)| a ^ b)
            .collect();
        let server_key = sign(&salted, b"Server Key");
        Ok(Proof {
            message: format!("{without_proof},p={}", STANDARD.encode(proof)),
            server_key: hmac::Key::new(algorithm, &server_key),
            covered,
        })
    }
}

impl Proof {
    fn check(&self, server_final: &[u8]) -> Result<(), ScramFailure> {
        let malformed = ScramFailure::Malformed;
        let text = std::str::from_utf8(server_final).map_err(|_| malformed)?;
        let signature = text
            .split(',')
            .next()
            .and_then(|part| part.strip_prefix("v="));
        let signature = STANDARD.decode(signature.ok_or(malformed)?);
        let signature = signature.map_err(|_| malformed)?;
        hmac::verify(&self.server_key, self.covered.as_bytes(), &signature)
            .map_err(|_| ScramFailure::Broker)
    }
}

fn nonce() -> String {
    let mut random = [0; NONCE_BYTES];
    SystemRandom::new()
        .fill(&mut random)
        .expect("the system gives randomness");
    STANDARD.encode(random)
}

impl Authenticate for Scram {
    fn authenticate<'a>(
        &'a self,
        exchange: &'a mut SaslExchange<'_>,
    ) -> BoxFuture<'a, Result<(), RequestError>> {
        Box::pin(async {
            exchange.handshake(self.mechanism.name()).await?;
            let nonce = nonce();
            let first = self.first(&nonce);
            let server = exchange
                .send(Bytes::from(format!("{GS2_HEADER}{first}")))
                .await?;
            let proof = self.prove(&first, &nonce, &server);
            let proof = proof.map_err(|error| exchange.refused(&error.to_string()))?;
            let server = exchange.send(Bytes::from(proof.message.clone())).await?;
            let checked = proof.check(&server);
            checked.map_err(|error| exchange.refused(&error.to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 7677, section 3.
    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const SERVER_FIRST: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    const SERVER_FINAL: &str = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

    fn proof(server_first: &str) -> Result<Proof, ScramFailure> {
        let scram = Scram::new(ScramMechanism::Sha256, "user", "pencil");
        let first = scram.first(NONCE);
        assert_eq!(first, "n=user,r=rOprNGfwEbeRWgbNEkqO");
        scram.prove(&first, NONCE, server_first.as_bytes())
    }

    #[test]
    fn the_example_of_the_standard() {
        let proof = proof(SERVER_FIRST).expect("good");
        assert_eq!(
            proof.message,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(proof.check(SERVER_FINAL.as_bytes()), Ok(()));
        let other = SERVER_FINAL.replace("6rri", "7rri");
        assert_eq!(proof.check(other.as_bytes()), Err(ScramFailure::Broker));
        assert_eq!(proof.check(b"v="), Err(ScramFailure::Broker));
        assert_eq!(proof.check(b"e=no"), Err(ScramFailure::Malformed));
    }

    #[test]
    fn a_broker_that_weakens_the_exchange_is_refused() {
        let changed = |from, to| proof(&SERVER_FIRST.replace(from, to)).map(drop);
        assert_eq!(
            changed("i=4096", "i=4095"),
            Err(ScramFailure::Iterations(4_095))
        );
        assert_eq!(
            changed("i=4096", "i=1000001"),
            Err(ScramFailure::Iterations(1_000_001))
        );
        assert_eq!(changed("r=rO", "r=RO"), Err(ScramFailure::Nonce));
        assert_eq!(
            changed("%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", ""),
            Err(ScramFailure::Nonce)
        );
        assert_eq!(changed("s=W2", "s=!"), Err(ScramFailure::Malformed));
    }

    #[test]
    fn separators_in_names_are_escaped_and_passwords_are_not_shown() {
        let scram = Scram::new(ScramMechanism::Sha512, "a=b,c", "hunter2");
        assert_eq!(scram.first("x"), "n=a=3Db=2Cc,r=x");
        assert!(!format!("{scram:?}").contains("hunter2"));
    }

    #[test]
    fn a_delegation_token_says_that_it_is_one() {
        let token = Scram::delegation_token(ScramMechanism::Sha256, "id", "aG1hYw==");
        assert_eq!(token.first("x"), "n=id,r=x,tokenauth=true");
        assert!(!format!("{token:?}").contains("aG1hYw=="));
    }

    proptest! {
        #[test]
        fn arbitrary_answers_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
            text in "(r=rOprNGfwEbeRWgbNEkqO[a-z]{0,3}|[a-z=,]{0,8}),s=[A-Za-z=]{0,8},i=[0-9]{0,3}",
        ) {
            prop_assert!(Scram::new(ScramMechanism::Sha256, "u", "p").prove("", NONCE, &bytes).is_err());
            prop_assert!(proof(&text).is_err());
            let proof = Proof {
                message: String::new(),
                server_key: hmac::Key::new(hmac::HMAC_SHA256, b"key"),
                covered: String::new(),
            };
            prop_assert!(proof.check(&bytes).is_err());
        }
    }
}
