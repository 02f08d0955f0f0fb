//! Signatures by ring. The JWT library's own providers would bring a second cryptographic library.

use std::sync::Once;

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind, EncodingKey,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{Error, ErrorKind},
    signature::{self, Verifier},
};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

static BY_RING: CryptoProvider = CryptoProvider {
    signer_factory,
    verifier_factory,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Tells the library, once for the process.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Nobody else installs one.
        let _ = BY_RING.install_default();
    });
}

struct ByRing {
    algorithm: Algorithm,
    with: With,
}

enum With {
    Rsa {
        parameters: &'static RsaParameters,
        key: RsaPublicKeyComponents<Vec<u8>>,
    },
    Other(UnparsedPublicKey<Vec<u8>>),
}

fn signer_factory(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::InvalidAlgorithm.into())
}

fn verifier_factory(
    algorithm: &Algorithm,
    key: &DecodingKey,
) -> Result<Box<dyn JwtVerifier>, Error> {
    let invalid = || Error::from(ErrorKind::InvalidAlgorithm);
    let with = match key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, e } => With::Rsa {
            parameters: rsa(*algorithm).ok_or_else(invalid)?,
            key: RsaPublicKeyComponents {
                n: n.clone(),
                e: e.clone(),
            },
        },
        DecodingKeyKind::SecretOrDer(bytes) => {
            let by: &'static dyn VerificationAlgorithm = match algorithm {
                Algorithm::ES256 => &ECDSA_P256_SHA256_FIXED,
                Algorithm::ES384 => &ECDSA_P384_SHA384_FIXED,
                Algorithm::EdDSA => &ED25519,
                _ => return Err(invalid()),
            };
            With::Other(UnparsedPublicKey::new(by, bytes.clone()))
        }
    };
    Ok(Box::new(ByRing {
        algorithm: *algorithm,
        with,
    }))
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

impl Verifier<Vec<u8>> for ByRing {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match &self.with {
            With::Rsa { parameters, key } => key.verify(parameters, message, signature),
            With::Other(key) => key.verify(message, signature),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for ByRing {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
