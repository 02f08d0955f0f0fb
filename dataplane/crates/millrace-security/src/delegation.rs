//! Delegation tokens (KIP-48, KIP-373): a client that has authenticated gets a token, and whoever shows the token
//! authenticates by SCRAM as the token's owner, until it expires.
//!
//! The token's id is its user name, its HMAC in base64 its password. The HMAC is HMAC-SHA-512 of the id under
//! `delegation.token.secret.key`, so it need not be stored.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    hash::BuildHasher,
    str::FromStr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use millrace_time::SharedClock;
use parking_lot::RwLock;
use ring::hmac;
use subtle::ConstantTimeEq as _;

use crate::{
    Principal,
    credentials::{ITERATIONS_MIN, ScramCredential, ScramHash, new_salt, random_bytes},
};

/// The most tokens of one cluster: with their renewers, 60 MiB at most.
pub const TOKENS_MAX: usize = 10_000;

/// The most tokens that one principal may have requested, so that no user takes all the room.
pub const TOKENS_OF_ONE_MAX: usize = 1_000;

/// The most renewers of one token.
pub const RENEWERS_MAX: usize = 10;

/// The shortest secret key, in bytes: whoever has a token can try keys until one gives the token's HMAC.
pub const SECRET_KEY_BYTES_MIN: usize = 16;

/// Bytes of a token's HMAC.
const HMAC_BYTES: usize = 64;

/// `delegation.token.secret.key`
#[derive(Clone)]
pub struct SecretKey(hmac::Key);

/// It is a secret.
impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

/// The secret key is too short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the key has fewer than {SECRET_KEY_BYTES_MIN} bytes")]
pub struct ShortSecretKey;

impl FromStr for SecretKey {
    type Err = ShortSecretKey;

    fn from_str(text: &str) -> Result<Self, ShortSecretKey> {
        match text.len() {
            SECRET_KEY_BYTES_MIN.. => Ok(Self(hmac::Key::new(hmac::HMAC_SHA512, text.as_bytes()))),
            _ => Err(ShortSecretKey),
        }
    }
}

/// How tokens are made and how long they last.
#[derive(Debug, Clone)]
pub struct TokenConfig {
    /// `delegation.token.secret.key`
    pub secret_key: SecretKey,
    /// `delegation.token.max.lifetime.ms`: how long a token lasts however often it is renewed.
    pub max_lifetime: Duration,
    /// `delegation.token.expiry.time.ms`: how long it lasts until it has to be renewed.
    pub expiry_time: Duration,
    /// `delegation.token.expiry.check.interval.ms`: how often expired tokens are removed.
    pub check_interval: Duration,
}

/// What a token is, without its secret. Times are milliseconds since 1970-01-01 UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationToken {
    /// Its id.
    pub id: String,
    /// Who a client that shows the token is.
    pub owner: Principal,
    /// Who asked for it.
    pub requester: Principal,
    /// Who may renew it, beside its owner.
    pub renewers: Vec<Principal>,
    /// When it was created.
    pub issued_ms: i64,
    /// When it expires for good.
    pub max_ms: i64,
    /// When it expires unless it is renewed.
    pub expires_ms: i64,
}

impl DelegationToken {
    /// Whether this principal may renew the token, or let it expire.
    #[must_use]
    pub fn may_be_renewed_by(&self, principal: &Principal) -> bool {
        *principal == self.owner || self.renewers.contains(principal)
    }

    /// Whether the token is this principal's in some way, so that it may look at it.
    #[must_use]
    pub fn concerns(&self, principal: &Principal) -> bool {
        self.may_be_renewed_by(principal) || *principal == self.requester
    }

    /// Whether it is one of these principals' in the same way. The time does not depend on how many they are.
    #[must_use]
    pub fn concerns_one_of<S: BuildHasher>(&self, principals: &HashSet<Principal, S>) -> bool {
        let renewers = self.renewers.iter();
        let mut all = renewers.chain([&self.owner, &self.requester]);
        all.any(|principal| principals.contains(principal))
    }

    /// Whether it has expired.
    #[must_use]
    pub const fn is_expired(&self, now_ms: i64) -> bool {
        // It never expires later than at `max_ms`.
        self.expires_ms < now_ms
    }
}

/// A token cannot be added. The text is for the operator's log; Kafka's response has no place for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// Of the cluster.
    #[error("the cluster has {TOKENS_MAX} delegation tokens at most; expire some")]
    Cluster,
    /// Of one requester.
    #[error("a principal may request {TOKENS_OF_ONE_MAX} delegation tokens at most; expire some")]
    Requester,
}

/// A token with its secret.
#[derive(Clone)]
pub struct IssuedToken {
    /// What the token is.
    pub token: Arc<DelegationToken>,
    hmac: [u8; HMAC_BYTES],
    /// A SCRAM credential for each mechanism, made when the token is first shown.
    credentials: Arc<[OnceLock<Arc<ScramCredential>>; ScramHash::EVERY.len()]>,
}

/// The HMAC is a secret.
impl fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.token.fmt(f)
    }
}

impl IssuedToken {
    /// The token's secret.
    #[must_use]
    pub const fn hmac(&self) -> &[u8] {
        &self.hmac
    }

    /// What the client's proof is checked against.
    fn credential(&self, hash: ScramHash) -> Arc<ScramCredential> {
        let place = ScramHash::EVERY.iter().position(|one| *one == hash);
        let made = &self.credentials[place.expect("each hash is one of them")];
        let credential = made.get_or_init(|| {
            let salt = new_salt();
            let password = STANDARD.encode(self.hmac);
            let salted = hash.salted_password(password.as_bytes(), &salt, ITERATIONS_MIN);
            let iterations = i32::try_from(ITERATIONS_MIN).expect("a few thousand");
            let made = ScramCredential::from_salted_password(hash, &salt, iterations, &salted);
            Arc::new(made.expect("it keeps the bounds"))
        });
        Arc::clone(credential)
    }
}

/// Somebody has shown a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub(crate) owner: Principal,
    pub(crate) lifetime: Duration,
}

/// The tokens of the cluster, as they are stored.
#[derive(Debug)]
pub struct DelegationTokens {
    config: TokenConfig,
    clock: SharedClock,
    tokens: RwLock<BTreeMap<Box<str>, IssuedToken>>,
}

impl DelegationTokens {
    /// With the tokens that are stored.
    #[must_use]
    pub fn new(
        config: TokenConfig,
        clock: SharedClock,
        stored: impl IntoIterator<Item = DelegationToken>,
    ) -> Self {
        let tokens = Self {
            config,
            clock,
            tokens: RwLock::default(),
        };
        for token in stored {
            tokens.put(token);
        }
        tokens
    }

    /// How long tokens last.
    #[must_use]
    pub const fn config(&self) -> &TokenConfig {
        &self.config
    }

    /// The time that tokens expire by.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.clock.wall_ms()
    }

    /// An id that no token has, as Kafka's `Uuid` writes it.
    #[must_use]
    pub fn new_id(&self) -> String {
        loop {
            let id = URL_SAFE_NO_PAD.encode(random_bytes::<16>());
            // Kafka avoids a leading dash, which command lines take for an option.
            if !id.starts_with('-') && !self.tokens.read().contains_key(id.as_str()) {
                return id;
            }
        }
    }

    /// A token with its secret.
    #[must_use]
    pub fn issue(&self, token: DelegationToken) -> IssuedToken {
        let signed = hmac::sign(&self.config.secret_key.0, token.id.as_bytes());
        let mut hmac = [0; HMAC_BYTES];
        hmac.copy_from_slice(signed.as_ref());
        IssuedToken {
            token: Arc::new(token),
            hmac,
            credentials: Arc::default(),
        }
    }

    /// Adds a token or replaces the one with this id. It is to be stored before.
    pub fn put(&self, token: DelegationToken) {
        let mut tokens = self.tokens.write();
        match tokens.get_mut(token.id.as_str()) {
            Some(former) => former.token = Arc::new(token),
            None => {
                tokens.insert(token.id.as_str().into(), self.issue(token));
            }
        }
    }

    /// Removes a token. It is to be removed from the store before.
    pub fn remove(&self, id: &str) {
        self.tokens.write().remove(id);
    }

    /// Replaces all tokens at one moment by those that are stored. A token that stays keeps its SCRAM
    /// credentials, so that exchanges that have begun go on.
    pub fn replace(&self, stored: impl IntoIterator<Item = DelegationToken>) {
        let issued = |token: DelegationToken| {
            let former = self.tokens.read().get(token.id.as_str()).cloned();
            let id = token.id.as_str().into();
            let issued = match former {
                Some(former) => IssuedToken {
                    token: Arc::new(token),
                    ..former
                },
                None => self.issue(token),
            };
            (id, issued)
        };
        let stored = stored.into_iter().map(issued).collect();
        // The old ones are dropped outside of the lock that sign-ins take.
        let _old = std::mem::replace(&mut *self.tokens.write(), stored);
    }

    /// The token with this HMAC. Every token's is compared whole, so that the time tells nothing.
    #[must_use]
    pub fn find(&self, hmac: &[u8]) -> Option<Arc<DelegationToken>> {
        let mut found = None;
        for issued in self.tokens.read().values() {
            if bool::from(issued.hmac.as_slice().ct_eq(hmac)) {
                found = Some(Arc::clone(&issued.token));
            }
        }
        found
    }

    /// The tokens that a filter lets pass, in the order of their ids.
    pub fn list(&self, passes: impl Fn(&DelegationToken) -> bool) -> Vec<IssuedToken> {
        let tokens: Vec<IssuedToken> = self.tokens.read().values().cloned().collect();
        let passing = tokens.into_iter();
        passing.filter(|issued| passes(&issued.token)).collect()
    }

    /// Whether this principal may have one more token.
    ///
    /// # Errors
    /// The cluster has [`TOKENS_MAX`] tokens, or the principal has requested [`TOKENS_OF_ONE_MAX`].
    pub fn has_room(&self, requester: &Principal) -> Result<(), NoRoom> {
        let tokens = self.tokens.read();
        if tokens.len() >= TOKENS_MAX {
            return Err(NoRoom::Cluster);
        }
        let all = tokens.values();
        let own = all.filter(|issued| issued.token.requester == *requester);
        match own.count() {
            TOKENS_OF_ONE_MAX.. => Err(NoRoom::Requester),
            _ => Ok(()),
        }
    }

    /// The ids of the tokens that these principals own.
    #[must_use]
    pub fn owned_by<S: BuildHasher>(&self, owners: &HashSet<Principal, S>) -> Vec<String> {
        let tokens = self.tokens.read();
        let owned = tokens
            .values()
            .filter(|one| owners.contains(&one.token.owner));
        owned.map(|issued| issued.token.id.clone()).collect()
    }

    /// The ids of the tokens that have expired.
    #[must_use]
    pub fn expired(&self) -> Vec<String> {
        let now_ms = self.now_ms();
        let tokens = self.tokens.read();
        let expired = tokens.values().filter(|one| one.token.is_expired(now_ms));
        expired.map(|issued| issued.token.id.clone()).collect()
    }

    /// What the proof of a client that shows this token is checked against; nothing where there is no such
    /// token, or it has expired.
    pub(crate) fn credential(&self, hash: ScramHash, id: &str) -> Option<Arc<ScramCredential>> {
        let issued = self.tokens.read().get(id).cloned()?;
        let valid = !issued.token.is_expired(self.now_ms());
        valid.then(|| issued.credential(hash))
    }

    /// Who somebody is that has proved to have this token, and for how long.
    pub(crate) fn bearer(&self, id: &str) -> Option<Bearer> {
        let token = Arc::clone(&self.tokens.read().get(id)?.token);
        let left = token.expires_ms.saturating_sub(self.now_ms());
        let left = u64::try_from(left).ok().filter(|left| *left > 0)?;
        Some(Bearer {
            owner: token.owner.clone(),
            lifetime: Duration::from_millis(left),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        hash::{DefaultHasher, RandomState},
        sync::atomic::{AtomicUsize, Ordering},
    };

    use millrace_time::ManualClock;

    use super::*;

    pub(crate) fn principal(name: &str) -> Principal {
        name.parse().expect("a principal")
    }

    pub(crate) fn config() -> TokenConfig {
        TokenConfig {
            secret_key: "sixteen bytes or more".parse().expect("long enough"),
            max_lifetime: Duration::from_secs(60),
            expiry_time: Duration::from_secs(10),
            check_interval: Duration::from_secs(1),
        }
    }

    pub(crate) fn token(id: &str, expires_ms: i64) -> DelegationToken {
        DelegationToken {
            id: id.to_owned(),
            owner: principal("User:owner"),
            requester: principal("User:requester"),
            renewers: vec![principal("User:renewer")],
            issued_ms: 0,
            max_ms: 60_000,
            expires_ms,
        }
    }

    /// As `Mac.getInstance("HmacSHA512")` of Java makes it, and `openssl dgst -sha512 -hmac`.
    #[test]
    fn the_hmac_is_kafkas() {
        let tokens = DelegationTokens::new(config(), ManualClock::shared(), []);
        let issued = tokens.issue(token("MkU3OEVBNTcwNTJENDM2Qg", 1));
        let expected = "RPXIUXtkucN2i19xc7KRIHk6jX3q3VsHNagSIORZV1liW8O+rjsfkCqtHc+KhgvFP63lYiMWrCIhawnTyt26Fw==";
        assert_eq!(STANDARD.encode(issued.hmac()), expected);
    }

    #[test]
    fn secrets_are_not_shown() {
        let tokens = DelegationTokens::new(config(), ManualClock::shared(), [token("a", 1)]);
        let issued = tokens.issue(token("a", 1));
        assert_eq!(format!("{issued:?}"), format!("{:?}", token("a", 1)));
        assert_eq!(format!("{:?}", tokens.config().secret_key), "SecretKey");
        let shown = format!("{tokens:?}");
        assert!(shown.contains("SecretKey"), "{shown}");
        // As a derived implementation would write the bytes.
        let hmac = format!("{:?}", issued.hmac());
        assert!(!shown.contains(&hmac[1..20]), "{shown}");
    }

    /// A request names hundreds of thousands of owners; each was compared with each token.
    #[test]
    fn a_token_is_looked_up_in_many_principals_at_once() {
        #[derive(Default, Clone)]
        struct Counted(Arc<AtomicUsize>, RandomState);
        impl BuildHasher for Counted {
            type Hasher = DefaultHasher;
            fn build_hasher(&self) -> DefaultHasher {
                self.0.fetch_add(1, Ordering::Relaxed);
                self.1.build_hasher()
            }
        }
        let (token, hashes) = (token("a", 1), Counted::default());
        let mut many = HashSet::with_hasher(hashes.clone());
        many.extend((0..10_000).map(|nth| principal(&format!("User:{nth}"))));
        let built = hashes.0.swap(0, Ordering::Relaxed);
        assert!(built >= 10_000, "the hasher counts");
        assert!(!token.concerns_one_of(&many));
        let looked_up = hashes.0.load(Ordering::Relaxed);
        assert!(looked_up <= 2 + RENEWERS_MAX, "{looked_up} hashes");
        for name in ["User:owner", "User:requester", "User:renewer"] {
            let mut with = many.clone();
            with.insert(principal(name));
            assert!(token.concerns_one_of(&with), "{name}");
        }
    }

    #[test]
    fn tokens_are_found_by_their_whole_hmac() {
        let tokens = DelegationTokens::new(config(), ManualClock::shared(), []);
        for id in ["a", "b", "c"] {
            tokens.put(token(id, 10));
        }
        let hmac = tokens.issue(token("b", 10)).hmac;
        assert_eq!(
            tokens.find(&hmac).map(|token| token.id.clone()),
            Some("b".to_owned())
        );
        let mut other = hmac;
        other[HMAC_BYTES - 1] ^= 1;
        for wrong in [&other[..], &hmac[..HMAC_BYTES - 1], b""] {
            assert_eq!(tokens.find(wrong), None);
        }
        tokens.put(token("b", 20));
        assert_eq!(tokens.find(&hmac).map(|token| token.expires_ms), Some(20));
        tokens.remove("b");
        assert_eq!(tokens.find(&hmac), None);
        assert_eq!(tokens.list(|token| token.id != "a").len(), 1);
    }

    #[test]
    fn tokens_are_replaced_as_a_whole_and_keep_their_credentials() {
        let stored = [token("a", 10_000), token("b", 10_000)];
        let tokens = DelegationTokens::new(config(), ManualClock::shared(), stored);
        let credential = |id| tokens.credential(ScramHash::Sha256, id);
        let before = credential("b").expect("valid");
        tokens.replace([token("b", 20_000), token("c", 10_000)]);
        assert!(credential("a").is_none());
        assert!(credential("c").is_some());
        assert!(Arc::ptr_eq(&before, &credential("b").expect("valid")));
        let listed = tokens.list(|_| true);
        let listed = listed
            .iter()
            .map(|one| (&*one.token.id, one.token.expires_ms));
        assert_eq!(listed.collect::<Vec<_>>(), [("b", 20_000), ("c", 10_000)]);
        let hmac = tokens.issue(token("c", 10_000)).hmac;
        assert!(tokens.find(&hmac).is_some());
    }

    #[test]
    fn who_may_renew_and_look_at_a_token() {
        let token = token("a", 10);
        for (name, renews, looks) in [
            ("User:owner", true, true),
            ("User:renewer", true, true),
            ("User:requester", false, true),
            ("User:other", false, false),
        ] {
            let principal = principal(name);
            assert_eq!(token.may_be_renewed_by(&principal), renews, "{name}");
            assert_eq!(token.concerns(&principal), looks, "{name}");
        }
    }

    #[test]
    fn a_token_is_of_no_use_once_it_has_expired() {
        let clock = ManualClock::shared();
        let tokens =
            DelegationTokens::new(config(), clock.clone(), [token("a", 10), token("b", 30)]);
        assert!(tokens.expired().is_empty());
        let bearer = tokens.bearer("a").expect("valid");
        assert_eq!(bearer.owner, principal("User:owner"));
        assert_eq!(bearer.lifetime, Duration::from_millis(10));
        clock.advance(Duration::from_millis(11));
        assert_eq!(tokens.expired(), ["a"]);
        assert_eq!(tokens.bearer("a"), None);
        assert!(tokens.credential(ScramHash::Sha512, "a").is_none());
        assert!(tokens.credential(ScramHash::Sha512, "b").is_some());
    }

    #[test]
    fn tokens_have_bounds() {
        let many = |range: std::ops::Range<usize>, requester: &str| {
            let requester = principal(requester);
            range.map(move |nth| DelegationToken {
                requester: requester.clone(),
                ..token(&nth.to_string(), 1)
            })
        };
        let clock = ManualClock::shared();
        let tokens = DelegationTokens::new(config(), clock, many(0..TOKENS_OF_ONE_MAX, "User:a"));
        assert_eq!(
            tokens.has_room(&principal("User:a")),
            Err(NoRoom::Requester)
        );
        assert_eq!(tokens.has_room(&principal("User:b")), Ok(()));
        many(TOKENS_OF_ONE_MAX..TOKENS_MAX, "User:c").for_each(|token| tokens.put(token));
        assert_eq!(tokens.has_room(&principal("User:b")), Err(NoRoom::Cluster));
    }

    #[test]
    fn short_keys_are_refused_and_ids_look_like_kafkas() {
        assert_eq!(
            "15 bytes, short".parse::<SecretKey>().map(drop),
            Err(ShortSecretKey)
        );
        let tokens = DelegationTokens::new(config(), ManualClock::shared(), []);
        for _ in 0..1_000 {
            let id = tokens.new_id();
            assert!(id.len() == 22 && !id.starts_with('-'), "{id}");
        }
    }
}
