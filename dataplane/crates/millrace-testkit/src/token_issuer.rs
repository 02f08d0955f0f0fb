//! An issuer of tokens for OAUTHBEARER: a key, and what it signs.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};

/// Signs by ES256.
#[derive(Debug)]
pub struct TokenIssuer {
    key_id: String,
    key: EcdsaKeyPair,
}

impl TokenIssuer {
    /// With a new key that has this id.
    #[must_use]
    pub fn new(key_id: &str) -> Self {
        let made = rcgen::KeyPair::generate().expect("a key").serialize_der();
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &made, &random);
        Self {
            key_id: key_id.to_owned(),
            key: key.expect("a key of this curve"),
        }
    }

    /// Its public key (RFC 7517).
    #[must_use]
    pub fn jwk(&self) -> Value {
        let point = self.key.public_key().as_ref();
        let encode = |from: usize, to: usize| URL_SAFE_NO_PAD.encode(&point[from..to]);
        json!({
            "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": self.key_id,
            "x": encode(1, 33), "y": encode(33, 65),
        })
    }

    /// A key set with the keys of these issuers.
    #[must_use]
    pub fn key_set(issuers: &[&Self]) -> String {
        let keys: Vec<Value> = issuers.iter().map(|issuer| issuer.jwk()).collect();
        json!({ "keys": keys }).to_string()
    }

    /// A token with these claims.
    #[must_use]
    pub fn sign(&self, claims: &Value) -> String {
        self.sign_as(&json!({ "alg": "ES256", "kid": self.key_id }), claims)
    }

    /// The same with another header.
    #[must_use]
    pub fn sign_as(&self, header: &Value, claims: &Value) -> String {
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = self.key.sign(&SystemRandom::new(), message.as_bytes());
        let signature = signature.expect("randomness");
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}
