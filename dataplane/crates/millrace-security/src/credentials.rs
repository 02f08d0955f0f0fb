//! What the server keeps of passwords.
//!
//! Of a SCRAM user it keeps salt, iterations, StoredKey and ServerKey (RFC 5802 section 3): neither the
//! password nor what a client needs to sign in can be computed from them. Of a PLAIN user, who stands in
//! the configuration, it keeps a digest under a key that lives as long as the process.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::RwLock;
use ring::{digest, hmac, pbkdf2, rand::SecureRandom as _, rand::SystemRandom};
use subtle::ConstantTimeEq as _;

use crate::principal::{
    ANONYMOUS_USER, CONTROL_PLANE_USER, RECORDS_USER, RESERVED_PREFIX, is_reserved,
};

/// The most SCRAM credentials of one cluster: what their index holds in a few mebibytes.
pub const CREDENTIALS_MAX: usize = 20_000;

/// The longest name of a user, in bytes.
pub const USER_BYTES_MAX: usize = 256;

/// The longest salt, in bytes. Kafka's tools make 26.
pub const SALT_BYTES_MAX: usize = 256;

/// Kafka's bounds of the number of iterations.
pub const ITERATIONS_MIN: u32 = 4_096;
/// See [`ITERATIONS_MIN`].
pub const ITERATIONS_MAX: u32 = 16_384;

/// Bits of the salts that Kafka's tools make: a random number, written in base 36.
const SALT_BITS: usize = 130;

/// The hash function of a SCRAM mechanism. The numbers are Kafka's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScramHash {
    /// SCRAM-SHA-256 (RFC 7677).
    Sha256 = 1,
    /// SCRAM-SHA-512.
    Sha512 = 2,
}

impl ScramHash {
    /// Both.
    pub const EVERY: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// Kafka's number.
    #[must_use]
    pub const fn code(self) -> i8 {
        self as i8
    }

    /// The one with this number.
    #[must_use]
    pub fn from_code(code: i8) -> Option<Self> {
        Self::EVERY.into_iter().find(|hash| hash.code() == code)
    }

    fn hmac_algorithm(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    /// Bytes of a digest.
    #[must_use]
    pub fn digest_bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    pub(crate) fn digest(self, bytes: &[u8]) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, bytes).as_ref().to_vec()
    }

    pub(crate) fn hmac(self, key: &[u8], bytes: &[u8]) -> Vec<u8> {
        let key = hmac::Key::new(self.hmac_algorithm(), key);
        hmac::sign(&key, bytes).as_ref().to_vec()
    }

    /// Hi() of RFC 5802: what a client makes of its password.
    #[must_use]
    pub fn salted_password(self, password: &[u8], salt: &[u8], iterations: u32) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        };
        let iterations = std::num::NonZeroU32::new(iterations).unwrap_or(std::num::NonZeroU32::MIN);
        let mut salted = vec![0; self.digest_bytes()];
        pbkdf2::derive(algorithm, iterations, salt, password, &mut salted);
        salted
    }
}

/// What is kept of a user's password for one mechanism.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredential {
    /// How often the hash function was applied.
    pub iterations: u32,
    /// Random bytes that the password was mixed with.
    pub salt: Vec<u8>,
    /// H(ClientKey): a client's proof is checked against it.
    pub stored_key: Vec<u8>,
    /// Signs what the server says, so that the client knows it, too.
    pub server_key: Vec<u8>,
}

/// Keys are secrets: they do not appear in logs.
impl fmt::Debug for ScramCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramCredential")
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

/// A credential cannot be accepted. The text is for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCredential {
    /// The user's name.
    #[error("a user name has 1 to {USER_BYTES_MAX} bytes")]
    User,
    /// The name of clients that do not authenticate.
    #[error("{ANONYMOUS_USER} is the name of clients that do not authenticate; choose another one")]
    Anonymous,
    /// A name of the broker's own.
    #[error("names that begin with {RESERVED_PREFIX} are reserved; choose another one")]
    Reserved,
    /// Too few or too many.
    #[error("SCRAM iterations are {ITERATIONS_MIN} to {ITERATIONS_MAX}, not {0}")]
    Iterations(i32),
    /// Salt or salted password.
    #[error("the salt has 1 to {SALT_BYTES_MAX} bytes, the salted password as many as its hash")]
    Length,
    /// No room.
    #[error("the cluster has {CREDENTIALS_MAX} SCRAM credentials at most; delete some")]
    TooMany,
}

impl ScramCredential {
    /// Of a password, with a new salt.
    fn of_password(hash: ScramHash, password: &str) -> Self {
        let salt = new_salt();
        let salted = hash.salted_password(password.as_bytes(), &salt, ITERATIONS_MIN);
        Self {
            iterations: ITERATIONS_MIN,
            stored_key: hash.digest(&hash.hmac(&salted, b"Client Key")),
            server_key: hash.hmac(&salted, b"Server Key"),
            salt,
        }
    }

    /// What a client that knows the password sends to the server to set it (KIP-554): the password,
    /// salted and hashed.
    ///
    /// # Errors
    /// A bound is not kept.
    pub fn from_salted_password(
        hash: ScramHash,
        salt: &[u8],
        iterations: i32,
        salted_password: &[u8],
    ) -> Result<Self, InvalidCredential> {
        let invalid = InvalidCredential::Iterations(iterations);
        let iterations = u32::try_from(iterations).map_err(|_| invalid)?;
        if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
            return Err(invalid);
        }
        let has_salt = (1..=SALT_BYTES_MAX).contains(&salt.len());
        if !has_salt || salted_password.len() != hash.digest_bytes() {
            return Err(InvalidCredential::Length);
        }
        Ok(Self {
            iterations,
            salt: salt.to_vec(),
            stored_key: hash.digest(&hash.hmac(salted_password, b"Client Key")),
            server_key: hash.hmac(salted_password, b"Server Key"),
        })
    }
}

/// Whether a name can be a new user's.
///
/// # Errors
/// See [`check_user`]; or it is [`ANONYMOUS_USER`], or reserved.
pub fn check_new_user(name: &str) -> Result<(), InvalidCredential> {
    match name {
        ANONYMOUS_USER => Err(InvalidCredential::Anonymous),
        _ if is_reserved(name) => Err(InvalidCredential::Reserved),
        _ => check_user(name),
    }
}

/// Whether a name can be a user's.
///
/// # Errors
/// It is empty or too long.
pub fn check_user(name: &str) -> Result<(), InvalidCredential> {
    match name.len() {
        1..=USER_BYTES_MAX => Ok(()),
        _ => Err(InvalidCredential::User),
    }
}

/// Random bytes that nobody can predict.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the operating system has randomness");
    bytes
}

/// A new salt like those of Kafka's tools.
pub(crate) fn new_salt() -> Vec<u8> {
    salt_like_kafka(&random_bytes::<32>())
}

/// The salt that Kafka's tools would make of these random bytes: a number of [`SALT_BITS`], in base 36.
fn salt_like_kafka(random: &[u8]) -> Vec<u8> {
    const BASE: u32 = 36;
    let mut number: Vec<u8> = random[..SALT_BITS.div_ceil(8)].to_vec();
    number[0] &= (1 << (SALT_BITS % 8)) - 1;
    let mut digits = Vec::new();
    while digits.is_empty() || number.iter().any(|byte| *byte != 0) {
        let mut remainder = 0;
        for byte in &mut number {
            let dividend = (remainder << 8) | u32::from(*byte);
            *byte = u8::try_from(dividend / BASE).expect("the remainder is less than the base");
            remainder = dividend % BASE;
        }
        let digit = char::from_digit(remainder, BASE).expect("less than the base");
        digits.push(digit as u8);
    }
    digits.reverse();
    digits
}

/// What a client says that its name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// A user's.
    User,
    /// A delegation token's id.
    Token,
}

/// A mechanism and a user.
type CredentialKey = (ScramHash, Box<str>);

/// The SCRAM credentials of all users, as they are stored, and of the broker's own principals, which are not stored.
#[derive(Debug)]
pub struct ScramUsers {
    credentials: RwLock<HashMap<CredentialKey, Arc<ScramCredential>>>,
    /// Of [`CONTROL_PLANE_USER`] and [`RECORDS_USER`], where these can sign in.
    own: HashMap<CredentialKey, Arc<ScramCredential>>,
    /// Makes salts for users who do not exist, the same each time.
    fake_key: hmac::Key,
}

impl ScramUsers {
    /// With the credentials that are stored.
    #[must_use]
    pub fn new(stored: impl IntoIterator<Item = (ScramHash, String, ScramCredential)>) -> Self {
        Self {
            credentials: RwLock::new(by_key(stored)),
            own: HashMap::new(),
            fake_key: hmac::Key::new(hmac::HMAC_SHA256, &random_bytes::<32>()),
        }
    }

    /// The control plane can sign in with this password. Its credentials are neither listed nor changed.
    #[must_use]
    pub fn with_control_plane(self, password: &str) -> Self {
        self.with_own(CONTROL_PLANE_USER, password)
    }

    /// The other brokers of the cluster can sign in with this password. Their credentials are neither listed nor changed.
    #[must_use]
    pub fn with_brokers(self, password: &str) -> Self {
        self.with_own(RECORDS_USER, password)
    }

    fn with_own(mut self, user: &str, password: &str) -> Self {
        let credential = |hash| {
            let credential = ScramCredential::of_password(hash, password);
            ((hash, user.into()), Arc::new(credential))
        };
        self.own
            .extend(ScramHash::EVERY.into_iter().map(credential));
        self
    }

    /// A user's credential as it is stored.
    #[must_use]
    pub fn get(&self, hash: ScramHash, user: &str) -> Option<Arc<ScramCredential>> {
        self.credentials.read().get(&(hash, user.into())).cloned()
    }

    /// A user's credential, or one that nobody has the password of. Both take the same path, and a
    /// stranger's salt and iterations look like those that Kafka's tools set by default. Two things still
    /// tell a user from a stranger: salts that a restart does not change, and another number of
    /// iterations.
    pub(crate) fn get_or_fake(&self, hash: ScramHash, user: &str) -> Arc<ScramCredential> {
        // Made for everybody, so that it takes as long for a user as for a stranger.
        let fake = self.fake(hash, (user, Claimed::User));
        // Older versions may have stored a user of a reserved name.
        let known = match is_reserved(user) {
            true => self.own.get(&(hash, user.into())).cloned(),
            false => self.get(hash, user),
        };
        known.unwrap_or_else(|| Arc::new(fake))
    }

    /// A credential that nobody has the password of.
    pub(crate) fn fake(
        &self,
        hash: ScramHash,
        (name, claimed): (&str, Claimed),
    ) -> ScramCredential {
        let mut context = hmac::Context::with_key(&self.fake_key);
        // A user has another salt for each mechanism.
        context.update(&hash.code().to_be_bytes());
        // A name that is both has two salts, so one that is neither must have two, too.
        context.update(&[claimed as u8]);
        context.update(name.as_bytes());
        let seed = context.sign();
        ScramCredential {
            iterations: ITERATIONS_MIN,
            salt: salt_like_kafka(seed.as_ref()),
            // As long as the hash, and known to nobody.
            stored_key: hash.hmac(seed.as_ref(), b"stored"),
            server_key: hash.hmac(seed.as_ref(), b"server"),
        }
    }

    /// The credentials of one user, or of all, in the order of their names, without secrets: hash and
    /// iterations.
    #[must_use]
    pub fn describe(&self, user: Option<&str>) -> Vec<(String, Vec<(ScramHash, u32)>)> {
        let mut users: std::collections::BTreeMap<String, Vec<(ScramHash, u32)>> =
            std::collections::BTreeMap::new();
        for ((hash, name), credential) in &*self.credentials.read() {
            if user.is_none_or(|user| user == &**name) {
                let of_user = users.entry(name.to_string()).or_default();
                of_user.push((*hash, credential.iterations));
                of_user.sort_unstable();
            }
        }
        users.into_iter().collect()
    }

    /// Whether so many new credentials have room.
    ///
    /// # Errors
    /// They do not.
    pub fn has_room(&self, new: usize) -> Result<(), InvalidCredential> {
        match self.credentials.read().len() + new {
            0..=CREDENTIALS_MAX => Ok(()),
            _ => Err(InvalidCredential::TooMany),
        }
    }

    /// Sets or, with nothing, removes a credential. It is to be stored before.
    pub fn set(&self, hash: ScramHash, user: &str, credential: Option<ScramCredential>) {
        let key = (hash, user.into());
        let mut credentials = self.credentials.write();
        match credential {
            Some(credential) => credentials.insert(key, Arc::new(credential)),
            None => credentials.remove(&key),
        };
    }

    /// Replaces all credentials at one moment by those that are stored.
    pub fn replace(&self, stored: impl IntoIterator<Item = (ScramHash, String, ScramCredential)>) {
        let stored = by_key(stored);
        // The old ones are dropped outside of the lock that sign-ins take.
        let _old = std::mem::replace(&mut *self.credentials.write(), stored);
    }
}

fn by_key(
    stored: impl IntoIterator<Item = (ScramHash, String, ScramCredential)>,
) -> HashMap<CredentialKey, Arc<ScramCredential>> {
    let entry = |(hash, user, credential): (_, String, _)| {
        ((hash, user.into_boxed_str()), Arc::new(credential))
    };
    stored.into_iter().map(entry).collect()
}

/// The users of PLAIN, as the configuration lists them.
#[derive(Clone)]
pub struct PlainUsers {
    key: hmac::Key,
    digests: HashMap<String, hmac::Tag>,
}

/// Passwords are secrets.
impl fmt::Debug for PlainUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PlainUsers")
            .field(&self.digests.len())
            .finish()
    }
}

impl PlainUsers {
    /// Users with their passwords.
    #[must_use]
    pub fn new(users: impl IntoIterator<Item = (String, String)>) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &random_bytes::<32>());
        let digest =
            |(user, password): (String, String)| (user, hmac::sign(&key, password.as_bytes()));
        let digests = users.into_iter().map(digest).collect();
        Self { key, digests }
    }

    /// Whether this is the user's password. A user who does not exist takes as long.
    pub(crate) fn verify(&self, user: &str, password: &str) -> bool {
        let given = hmac::sign(&self.key, password.as_bytes());
        let nobody = hmac::sign(&self.key, user.as_bytes());
        let known = self.digests.get(user);
        let expected = known.unwrap_or(&nobody);
        let equal = bool::from(expected.as_ref().ct_eq(given.as_ref()));
        equal & known.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_credentials() {
        let make = |salt: &[u8], iterations, salted: &[u8]| {
            ScramCredential::from_salted_password(ScramHash::Sha256, salt, iterations, salted)
        };
        assert!(make(b"salt", 4_096, &[0; 32]).is_ok());
        assert!(make(b"salt", 16_384, &[0; 32]).is_ok());
        for bad in [-1, 0, 4_095, 16_385] {
            let error = make(b"salt", bad, &[0; 32]);
            assert_eq!(error, Err(InvalidCredential::Iterations(bad)));
        }
        assert_eq!(make(b"", 4_096, &[0; 32]), Err(InvalidCredential::Length));
        assert_eq!(make(b"s", 4_096, &[0; 31]), Err(InvalidCredential::Length));
        assert_eq!(check_user(""), Err(InvalidCredential::User));
        assert_eq!(check_user(&"x".repeat(257)), Err(InvalidCredential::User));
    }

    #[test]
    fn plain_passwords_are_compared_whole() {
        let users = PlainUsers::new([("alice".to_owned(), "secret".to_owned())]);
        assert!(users.verify("alice", "secret"));
        for (user, password) in [
            ("alice", "secre"),
            ("alice", "secret "),
            ("alice", ""),
            ("bob", "secret"),
            // The digest that a stranger is compared with must not let it in.
            ("bob", "bob"),
            ("", ""),
        ] {
            assert!(!users.verify(user, password), "{user} {password}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let users = PlainUsers::new([("alice".to_owned(), "hunter2".to_owned())]);
        assert!(!format!("{users:?}").contains("hunter2"));
        let salted = [7; 32];
        let made =
            ScramCredential::from_salted_password(ScramHash::Sha256, b"salt", 4_096, &salted);
        let shown = format!("{:?}", made.expect("legal"));
        assert!(!shown.contains("key"), "{shown}");
    }

    #[test]
    fn users_are_replaced_as_a_whole_and_strangers_keep_their_salts() {
        let credential = |salt: &[u8]| {
            let made =
                ScramCredential::from_salted_password(ScramHash::Sha256, salt, 4_096, &[7; 32]);
            made.expect("legal")
        };
        let stored =
            |user: &str, salt: &[u8]| (ScramHash::Sha256, user.to_owned(), credential(salt));
        let users = ScramUsers::new([stored("alice", b"a"), stored("bob", b"b")]);
        let users = users.with_control_plane("the token");
        let salt = |user| users.get_or_fake(ScramHash::Sha256, user).salt.clone();
        let (mallory, control_plane) = (salt("mallory"), salt(CONTROL_PLANE_USER));
        users.replace([stored("bob", b"other"), stored("carol", b"c")]);
        let names = users.describe(None).into_iter().map(|(user, _)| user);
        assert_eq!(names.collect::<Vec<_>>(), ["bob", "carol"]);
        assert_eq!(salt("bob"), b"other");
        assert_eq!(salt("mallory"), mallory);
        assert_eq!(salt(CONTROL_PLANE_USER), control_plane);
    }

    #[test]
    fn a_stranger_has_a_salt_like_those_of_kafkas_tools() {
        // As BigInteger.toString(36) writes them.
        assert_eq!(salt_like_kafka(&[0; 32]), b"0");
        let mut number = [0; 32];
        number[16] = 35;
        assert_eq!(salt_like_kafka(&number), b"z");
        number[15..17].copy_from_slice(&36_u16.pow(2).to_be_bytes());
        assert_eq!(salt_like_kafka(&number), b"100");
        let users = ScramUsers::new([]);
        let salts = (0..1_000).map(|nth| {
            let user = users.get_or_fake(ScramHash::Sha256, &format!("user-{nth}"));
            user.salt.clone()
        });
        let mut by_length = HashMap::<usize, usize>::new();
        for salt in salts {
            let is_digit = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
            assert!(salt.iter().all(is_digit), "{salt:?}");
            *by_length.entry(salt.len()).or_default() += 1;
        }
        // 40 % of all numbers of 130 bits need 26 digits, 98 % of the others 25.
        assert!((330..=480).contains(&by_length[&26]), "{by_length:?}");
        assert!(by_length[&25] > 480, "{by_length:?}");
    }

    #[test]
    fn the_control_plane_is_neither_listed_nor_changed() {
        let (password, other) = (&b"the token"[..], &b"a password"[..]);
        let credential = |password: &[u8]| {
            let salted = ScramHash::Sha256.salted_password(password, b"salt", ITERATIONS_MIN);
            let made =
                ScramCredential::from_salted_password(ScramHash::Sha256, b"salt", 4_096, &salted);
            made.expect("legal")
        };
        // As an older version may have stored it.
        let stored = (
            ScramHash::Sha256,
            CONTROL_PLANE_USER.to_owned(),
            credential(other),
        );
        let text = std::str::from_utf8(password).expect("text");
        let users = ScramUsers::new([]).with_control_plane(text);
        assert!(users.describe(None).is_empty());
        let known = users.get_or_fake(ScramHash::Sha256, CONTROL_PLANE_USER);
        let salted = ScramHash::Sha256.salted_password(password, &known.salt, known.iterations);
        let key = ScramHash::Sha256.hmac(&salted, b"Client Key");
        assert_eq!(known.stored_key, ScramHash::Sha256.digest(&key));
        let former = ScramUsers::new([stored]);
        let fake = former.get_or_fake(ScramHash::Sha256, CONTROL_PLANE_USER);
        assert_ne!(fake.stored_key, credential(other).stored_key);
        let refused = check_new_user(CONTROL_PLANE_USER);
        assert_eq!(refused, Err(InvalidCredential::Reserved));
    }

    #[test]
    fn a_stranger_has_the_same_salt_each_time_and_another_than_others() {
        let users = ScramUsers::new([]);
        let salt = |name| users.get_or_fake(ScramHash::Sha256, name).salt.clone();
        assert_eq!(salt("mallory"), salt("mallory"));
        assert_ne!(salt("mallory"), salt("mallet"));
        let other = users.get_or_fake(ScramHash::Sha512, "mallory");
        assert_ne!(salt("mallory"), other.salt);
        assert!(users.get(ScramHash::Sha256, "mallory").is_none());
    }
}
