//! Whether a token is good (RFC 7519), by the rules of `sasl.oauthbearer.*` (KIP-768).

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Validation, decode, decode_header};
use millrace_time::SharedClock;
use parking_lot::RwLock;
use serde_json::{Map, Value};

use super::{
    keys::{InvalidKeySet, Keys},
    verify,
};
use crate::credentials::USER_BYTES_MAX;

/// The shortest session: a token may have expired and still be accepted, within the clocks' difference.
const LIFETIME_MIN: Duration = Duration::from_secs(1);

/// What a token must say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRules {
    /// `sasl.oauthbearer.expected.audience`: one of them; any where there is none.
    pub audiences: Vec<String>,
    /// `sasl.oauthbearer.expected.issuer`: any where there is none.
    pub issuer: Option<String>,
    /// `sasl.oauthbearer.scope.claim.name`
    pub scope_claim: String,
    /// `sasl.oauthbearer.sub.claim.name`: the claim that names the user.
    pub sub_claim: String,
    /// `sasl.oauthbearer.clock.skew.seconds`: how far clocks may differ.
    pub clock_skew: Duration,
}

/// Why a token is not accepted. For the operator; the client is not told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a signed JWT, or one whose algorithm is `none` or unknown.
    #[error("it is no JWT that is signed by a known algorithm")]
    Malformed,
    /// It does not name its key.
    #[error("its header has no key id")]
    NoKeyId,
    /// No such key, or keys have not been fetched.
    #[error("its key is not in the key set")]
    UnknownKey,
    /// The key is for other algorithms.
    #[error("its algorithm is not that of its key")]
    Algorithm,
    /// Somebody else has signed it, or it was changed.
    #[error("its signature is wrong")]
    Signature,
    /// No time of expiry, or one that has passed.
    #[error("it has expired, or does not say when it does")]
    Expired,
    /// It is for later.
    #[error("it is not valid yet")]
    NotYetValid,
    /// It is for somebody else.
    #[error("its audience is another")]
    Audience,
    /// It is from somebody else.
    #[error("its issuer is another")]
    Issuer,
    /// The claim of the user's name, or of the scope, is missing or of another type.
    #[error("it has no usable name or scope")]
    Claim,
}

impl TokenError {
    /// The stable word for the audit log.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Malformed => "token_malformed",
            Self::NoKeyId => "token_without_key_id",
            Self::UnknownKey => "token_key_unknown",
            Self::Algorithm => "token_algorithm",
            Self::Signature => "token_signature",
            Self::Expired => "token_expired",
            Self::NotYetValid => "token_not_yet_valid",
            Self::Audience => "token_audience",
            Self::Issuer => "token_issuer",
            Self::Claim => "token_claims",
        }
    }
}

/// A good token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::sasl) struct Accepted {
    pub(in crate::sasl) user: String,
    /// How long it lasts.
    pub(in crate::sasl) lifetime: Duration,
}

/// Verifies the tokens of a listener.
#[derive(Debug)]
pub struct Tokens {
    rules: TokenRules,
    clock: SharedClock,
    keys: RwLock<Arc<Keys>>,
    /// A token named a key that is not known.
    misses_key: AtomicBool,
}

impl Tokens {
    /// Without keys yet: no token is accepted.
    #[must_use]
    pub fn new(rules: TokenRules, clock: SharedClock) -> Self {
        verify::install();
        Self {
            rules,
            clock,
            keys: RwLock::default(),
            misses_key: AtomicBool::new(false),
        }
    }

    /// Uses these keys (JSON) from now on. The ids whose keys are left out, because several of them verify the
    /// same algorithm (RFC 7517, section 4.5): the operator has to be told.
    ///
    /// # Errors
    /// The text is no key set; the former keys stay.
    pub fn set_keys(&self, json: &[u8]) -> Result<Vec<String>, InvalidKeySet> {
        let (keys, ambiguous) = Keys::parse(json)?;
        *self.keys.write() = Arc::new(keys);
        Ok(ambiguous)
    }

    /// Whether a token named an unknown key since this was asked last: its issuer may have a new one.
    #[must_use]
    pub fn take_missed_key(&self) -> bool {
        self.misses_key.swap(false, Ordering::Relaxed)
    }

    pub(in crate::sasl) fn accept(&self, token: &str) -> Result<Accepted, TokenError> {
        let header = decode_header(token).map_err(|_| TokenError::Malformed)?;
        let id = header.kid.ok_or(TokenError::NoKeyId)?;
        let keys = Arc::clone(&self.keys.read());
        let keys = keys.get(&id);
        if keys.is_empty() {
            self.misses_key.store(true, Ordering::Relaxed);
            return Err(TokenError::UnknownKey);
        }
        let mut fitting = keys
            .iter()
            .filter(|key| key.algorithms.contains(&header.alg));
        let key = fitting.next().ok_or(TokenError::Algorithm)?;
        // The library verifies the signature. Claims are looked at here, by our clock.
        let mut validation = Validation::new(header.alg);
        validation.required_spec_claims.clear();
        (validation.validate_exp, validation.validate_nbf) = (false, false);
        validation.validate_aud = false;
        let decoded = decode::<Map<String, Value>>(token, &key.key, &validation);
        let claims = decoded.map_err(|_| TokenError::Signature)?.claims;
        self.check(&claims)
    }

    /// Whom a token names, whoever made it. For the audit log of refusals only.
    pub(in crate::sasl) fn claimed(&self, token: &str) -> Option<String> {
        let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        let claims: Map<String, Value> = serde_json::from_slice(&claims).ok()?;
        let user = claims.get(&self.rules.sub_claim)?.as_str()?;
        Some(user.to_owned())
    }

    fn check(&self, claims: &Map<String, Value>) -> Result<Accepted, TokenError> {
        let rules = &self.rules;
        #[expect(
            clippy::cast_precision_loss,
            reason = "milliseconds since 1970 are exact"
        )]
        let now = self.clock.wall_ms() as f64 / 1_000.0;
        let skew = rules.clock_skew.as_secs_f64();
        let expires = claims.get("exp").and_then(Value::as_f64);
        let expires = expires.ok_or(TokenError::Expired)?;
        if now >= expires + skew {
            return Err(TokenError::Expired);
        }
        if let Some(begins) = claims.get("nbf") {
            let begins = begins.as_f64().ok_or(TokenError::NotYetValid)?;
            if now < begins - skew {
                return Err(TokenError::NotYetValid);
            }
        }
        let is_ours = |audience: &Value| {
            let text = audience.as_str();
            text.is_some_and(|text| rules.audiences.iter().any(|ours| ours == text))
        };
        let is_for_us = match claims.get("aud") {
            _ if rules.audiences.is_empty() => true,
            Some(Value::Array(audiences)) => audiences.iter().any(is_ours),
            Some(audience) => is_ours(audience),
            None => false,
        };
        if !is_for_us {
            return Err(TokenError::Audience);
        }
        let issuer = claims.get("iss").and_then(Value::as_str);
        if rules.issuer.is_some() && rules.issuer.as_deref() != issuer {
            return Err(TokenError::Issuer);
        }
        let has_scope = match claims.get(&rules.scope_claim) {
            None | Some(Value::String(_)) => true,
            Some(Value::Array(scopes)) => scopes.iter().all(Value::is_string),
            Some(_) => false,
        };
        let user = claims.get(&rules.sub_claim).and_then(Value::as_str);
        let user = user.filter(|user| {
            let is_shown = !user.trim().is_empty() && !user.contains(char::is_control);
            has_scope && is_shown && user.len() <= USER_BYTES_MAX
        });
        let lifetime = Duration::try_from_secs_f64(expires - now).unwrap_or(LIFETIME_MIN);
        Ok(Accepted {
            user: user.ok_or(TokenError::Claim)?.to_owned(),
            lifetime: lifetime.max(LIFETIME_MIN),
        })
    }
}
