//! Who a client is that shows a certificate.
//!
//! | part | what it is |
//! |---|---|
//! | `subject` | the certificate's distinguished name as text (RFC 2253) |
//! | `mapping` | `ssl.principal.mapping.rules`: the distinguished name to the principal's name |
//!
//! Whether the certificate may be trusted is decided before, by TLS.

mod mapping;
mod subject;

pub use mapping::{InvalidMappingRules, PrincipalMapping};
pub use subject::{SubjectError, subject};

use crate::principal::{InvalidPrincipal, Principal};

/// A trusted certificate leads to no principal. The connection must end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificatePrincipalError {
    /// The certificate has no readable subject.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// No rule holds for it.
    #[error("no rule of ssl.principal.mapping.rules matches the subject {0:?}")]
    NoRule(String),
    /// The name is too long, or that of clients that do not authenticate.
    #[error(transparent)]
    Principal(#[from] InvalidPrincipal),
}

impl CertificatePrincipalError {
    /// The stable word for the audit log.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Subject(_) => "certificate_subject",
            Self::NoRule(_) => "certificate_mapping",
            Self::Principal(InvalidPrincipal::Anonymous) => "anonymous_name",
            Self::Principal(InvalidPrincipal::Reserved) => "reserved_name",
            Self::Principal(_) => "certificate_name",
        }
    }
}

impl PrincipalMapping {
    /// The principal of a client with this certificate (DER).
    ///
    /// # Errors
    /// See [`CertificatePrincipalError`].
    pub fn principal(&self, certificate: &[u8]) -> Result<Principal, CertificatePrincipalError> {
        let subject = subject(certificate)?;
        match self.map(&subject) {
            Some(name) => Ok(Principal::user(&name)?),
            None => Err(CertificatePrincipalError::NoRule(subject)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    /// Where `super.users` names `User:ANONYMOUS`, such a client could do everything.
    #[test]
    fn no_certificate_stands_for_anonymous() {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        let name = "ANONYMOUS";
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed");
        let mapping: PrincipalMapping = "RULE:CN=(.*)/$1/".parse().expect("legal");
        let refused = mapping.principal(certificate.der());
        let anonymous = InvalidPrincipal::Anonymous.into();
        assert_eq!(refused, Err(anonymous));
    }
}
