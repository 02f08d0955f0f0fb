//! The keys that tokens are signed with: a JSON Web Key Set (RFC 7517).
//!
//! Keys of one set should have different ids; keys of different types may share one as equivalent alternatives
//! (section 4.5). So an id may lead to several keys, as long as no two of them verify the same algorithm. Where
//! two do, nobody can tell which is meant, and none of the id's keys is used. One public key that is listed more than
//! once under an id, with different certificates, uses or algorithms, is one key.

use std::collections::{HashMap, HashSet};

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
    /// All usable keys share their ids with others.
    #[error(
        "its only keys for signatures have the same key id for the same algorithm, {0:?}; give each key an id of its own"
    )]
    Ambiguous(String),
    /// Too many.
    #[error("it has {0} keys, and at most {KEYS_MAX} are read")]
    TooMany(usize),
}

/// What is shown of a key's id, in characters. Ids have no bound but that of their set.
const SHOWN_ID_CHARS_MAX: usize = 64;

/// The keys, by their ids.
#[derive(Debug, Default)]
pub(super) struct Keys(HashMap<String, Vec<SigningKey>>);

#[derive(Debug)]
pub(super) struct SigningKey {
    pub(super) key: DecodingKey,
    /// Type and numbers of the public key, which tell whether two are the same.
    material: AlgorithmParameters,
    /// What it may have signed by.
    pub(super) algorithms: HashSet<Algorithm>,
}

#[derive(Deserialize)]
struct KeySet {
    /// One key that cannot be read must not cost the others.
    keys: Vec<serde_json::Value>,
}

impl Keys {
    /// The keys, and the ids that are left out because they are ambiguous.
    pub(super) fn parse(json: &[u8]) -> Result<(Self, Vec<String>), InvalidKeySet> {
        let set: KeySet =
            serde_json::from_slice(json).map_err(|error| InvalidKeySet::Form(error.to_string()))?;
        if set.keys.len() > KEYS_MAX {
            return Err(InvalidKeySet::TooMany(set.keys.len()));
        }
        let mut keys: HashMap<String, Vec<SigningKey>> = HashMap::new();
        for (id, key) in set.keys.iter().filter_map(signing_key) {
            let of_id = keys.entry(id).or_default();
            match of_id.iter_mut().find(|held| held.material == key.material) {
                Some(held) => held.algorithms.extend(key.algorithms),
                None => of_id.push(key),
            }
        }
        let ambiguous = keys.extract_if(|_, keys| is_ambiguous(keys));
        let shown = ambiguous.map(|(id, _)| id.chars().take(SHOWN_ID_CHARS_MAX).collect());
        let mut ambiguous: Vec<String> = shown.collect();
        ambiguous.sort();
        match (keys.is_empty(), ambiguous.first()) {
            (true, None) => Err(InvalidKeySet::Empty),
            (true, Some(id)) => Err(InvalidKeySet::Ambiguous(id.clone())),
            (false, _) => Ok((Self(keys), ambiguous)),
        }
    }

    /// The keys of this id; empty if there is none.
    pub(super) fn get(&self, id: &str) -> &[SigningKey] {
        self.0.get(id).map_or(&[], Vec::as_slice)
    }
}

/// Whether two keys verify the same algorithm.
fn is_ambiguous(keys: &[SigningKey]) -> bool {
    let mut algorithms = HashSet::new();
    let mut of_all = keys.iter().flat_map(|key| &key.algorithms);
    !of_all.all(|algorithm| algorithms.insert(*algorithm))
}

fn signing_key(json: &serde_json::Value) -> Option<(String, SigningKey)> {
    let jwk = Jwk::deserialize(json).ok()?;
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
    let key = SigningKey {
        key,
        material: jwk.algorithm,
        algorithms: algorithms.into_iter().collect(),
    };
    (!key.algorithms.is_empty()).then_some((id, key))
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
