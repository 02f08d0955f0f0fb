//! The keys that tokens are signed with: a JSON Web Key Set (RFC 7517).

use std::collections::HashMap;

use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse},
};
use serde::Deserialize;

/// Keys of one set: ten times what an issuer has while it changes them.
pub const KEYS_MAX: usize = 100;

/// A text is no key set. The text is for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKeySet {
    /// Not the JSON of a key set.
    #[error("it is not a JSON Web Key Set: {0}")]
    Form(String),
    /// Nothing that tokens can be verified with.
    #[error(
        "it has no RSA, P-256, P-384 or Ed25519 key with a key id for signatures; tokens are found by the id of their key"
    )]
    Empty,
    /// Too many.
    #[error("it has {0} keys, and at most {KEYS_MAX} are read")]
    TooMany(usize),
}

/// The keys, by their ids.
#[derive(Debug, Default)]
pub(super) struct Keys(HashMap<String, SigningKey>);

#[derive(Debug)]
pub(super) struct SigningKey {
    pub(super) key: DecodingKey,
    /// What it may have signed by.
    pub(super) algorithms: Vec<Algorithm>,
}

#[derive(Deserialize)]
struct KeySet {
    /// One key that cannot be read must not cost the others.
    keys: Vec<serde_json::Value>,
}

impl Keys {
    pub(super) fn parse(json: &[u8]) -> Result<Self, InvalidKeySet> {
        let set: KeySet =
            serde_json::from_slice(json).map_err(|error| InvalidKeySet::Form(error.to_string()))?;
        if set.keys.len() > KEYS_MAX {
            return Err(InvalidKeySet::TooMany(set.keys.len()));
        }
        let keys: HashMap<_, _> = set.keys.into_iter().filter_map(signing_key).collect();
        match keys.is_empty() {
            true => Err(InvalidKeySet::Empty),
            false => Ok(Self(keys)),
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<&SigningKey> {
        self.0.get(id)
    }
}

fn signing_key(json: serde_json::Value) -> Option<(String, SigningKey)> {
    let jwk: Jwk = serde_json::from_value(json).ok()?;
    let id = jwk.common.key_id.clone()?;
    if !matches!(
        jwk.common.public_key_use,
        None | Some(PublicKeyUse::Signature)
    ) {
        return None;
    }
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    // Only public keys: who can verify by a shared secret can also sign.
    let mut algorithms = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => vec![RS256, RS384, RS512, PS256, PS384, PS512],
        AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
            EllipticCurve::P256 => vec![ES256],
            EllipticCurve::P384 => vec![ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            vec![EdDSA]
        }
        _ => return None,
    };
    if let Some(only) = jwk.common.key_algorithm {
        algorithms.retain(|one| names(*one) == Some(only));
    }
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    (!algorithms.is_empty()).then_some((id, SigningKey { key, algorithms }))
}

/// An algorithm as keys name it.
fn names(algorithm: Algorithm) -> Option<KeyAlgorithm> {
    Some(match algorithm {
        Algorithm::RS256 => KeyAlgorithm::RS256,
        Algorithm::RS384 => KeyAlgorithm::RS384,
        Algorithm::RS512 => KeyAlgorithm::RS512,
        Algorithm::PS256 => KeyAlgorithm::PS256,
        Algorithm::PS384 => KeyAlgorithm::PS384,
        Algorithm::PS512 => KeyAlgorithm::PS512,
        Algorithm::ES256 => KeyAlgorithm::ES256,
        Algorithm::ES384 => KeyAlgorithm::ES384,
        Algorithm::EdDSA => KeyAlgorithm::EdDSA,
        _ => return None,
    })
}
