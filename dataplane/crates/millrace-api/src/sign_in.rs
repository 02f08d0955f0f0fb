//! Who a connection is: the SASL sessions of all connections, and what may come before one is known.

use std::{collections::HashMap, sync::Arc, time::Duration};

use millrace_security::{
    acl::Authorizer,
    credentials::{PlainUsers, ScramUsers},
    delegation::DelegationTokens,
    sasl::{
        AuthenticationError, Claim, HandshakeError, Identified, Mechanism, Reply, Session,
        UnknownMechanism, Users, oauth::Tokens,
    },
};
use millrace_wire::{
    ApiKey, encode_bare,
    error_code::ErrorCode,
    service::{Accepted, CloseReason, Peer},
};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::authorization::{Authorization, FailedSignIn};

/// The version of SaslHandshake behind which tokens come without a header.
const BARE: i16 = 0;

/// How long a client waits until it learns that it is refused, so that guessing is slow: Kafka's default of
/// `connection.failed.authentication.delay.ms`.
pub(crate) const REFUSAL_DELAY: Duration = Duration::from_millis(100);

/// Who may sign in, and do what.
#[derive(Debug)]
pub struct Security {
    /// The listeners whose clients authenticate by SASL, by their names.
    pub sasl: HashMap<String, SaslListener>,
    /// The users of SCRAM, on all listeners.
    pub scram: Arc<ScramUsers>,
    /// Delegation tokens, where they are enabled, on all listeners with SCRAM.
    pub delegation: Option<Arc<DelegationTokens>>,
    /// Who may do what; nothing lets everybody do everything.
    pub authorizer: Option<Arc<Authorizer>>,
}

/// One listener.
#[derive(Debug)]
pub struct SaslListener {
    /// `sasl.enabled.mechanisms`
    pub mechanisms: Vec<Mechanism>,
    /// The users of PLAIN.
    pub plain: PlainUsers,
    /// Who verifies the tokens of OAUTHBEARER, where that is enabled.
    pub tokens: Option<Arc<Tokens>>,
    /// Only these sign in, by SCRAM: neither the cluster's users nor delegation tokens.
    pub only: Option<Arc<ScramUsers>>,
    /// `connections.max.reauth.ms`: after this long, a client has to authenticate again.
    pub session_max: Option<Duration>,
}

impl Security {
    /// Listeners without authentication.
    #[must_use]
    pub fn open() -> Self {
        Self {
            sasl: HashMap::new(),
            scram: Arc::new(ScramUsers::new([])),
            delegation: None,
            authorizer: None,
        }
    }
}

/// The sessions of connections to listeners with SASL. There are as many as such connections, which the
/// network bounds.
#[derive(Debug)]
pub(crate) struct SignIn {
    security: Security,
    /// Where failures are logged.
    authorization: Arc<Authorization>,
    /// Each has a lock of its own: to verify a password or a token takes long.
    sessions: Mutex<HashMap<u64, Arc<Mutex<Connection>>>>,
}

#[derive(Debug, Default)]
struct Connection {
    session: Session,
    /// Its tokens come without a header.
    bare: bool,
}

/// A token is accepted.
pub(crate) struct SignedIn {
    pub(crate) token: Vec<u8>,
    /// How long the session lasts, if the exchange has ended and it has an end.
    pub(crate) lifetime: Option<Duration>,
}

/// Whether a connection that has to authenticate may ask for this now.
pub(crate) fn admit(peer: &Peer, key: ApiKey, now: Duration) -> Result<(), CloseReason> {
    let identity = &peer.identity;
    match key {
        ApiKey::SaslHandshake | ApiKey::SaslAuthenticate => Ok(()),
        ApiKey::ApiVersions if identity.principal().is_none() => Ok(()),
        _ if identity.principal().is_none() => Err(CloseReason::NotAuthenticated),
        _ if identity.has_expired(now) => Err(CloseReason::SessionExpired),
        _ => Ok(()),
    }
}

impl SignIn {
    pub(crate) fn new(security: Security, authorization: Arc<Authorization>) -> Self {
        Self {
            security,
            authorization,
            sessions: Mutex::default(),
        }
    }

    /// What the connection's listener asks of it, if it asks for SASL at all.
    pub(crate) fn listener(&self, peer: &Peer) -> Option<&SaslListener> {
        self.security.sasl.get(&peer.listener)
    }

    /// The same where a handshake may come: at first, and again where sessions have an end.
    pub(crate) fn expects_handshake(&self, peer: &Peer) -> Option<&SaslListener> {
        let is_new = peer.identity.principal().is_none();
        let listener = self.listener(peer);
        listener.filter(|_| is_new || peer.identity.expires())
    }

    fn connection(&self, peer: &Peer) -> Arc<Mutex<Connection>> {
        Arc::clone(self.sessions.lock().entry(peer.id).or_default())
    }

    fn users<'a>(&'a self, listener: &'a SaslListener) -> Users<'a> {
        Users {
            mechanisms: &listener.mechanisms,
            plain: &listener.plain,
            scram: listener.only.as_deref().unwrap_or(&self.security.scram),
            tokens: listener.tokens.as_deref(),
            delegation: match listener.only {
                Some(_) => None,
                None => self.security.delegation.as_deref(),
            },
        }
    }

    pub(crate) fn handshake(
        &self,
        peer: &Peer,
        listener: &SaslListener,
        mechanism: &str,
        version: i16,
    ) -> Result<(), (ErrorCode, HandshakeError)> {
        let connection = self.connection(peer);
        let mut connection = connection.lock();
        connection.bare = version == BARE && peer.identity.principal().is_none();
        match connection
            .session
            .handshake(self.users(listener), mechanism)
        {
            Ok(_) => Ok(()),
            Err(error) => {
                let (code, mechanism, reason) = match &error {
                    HandshakeError::Mechanism(UnknownMechanism(name)) => (
                        ErrorCode::UnsupportedSaslMechanism,
                        name.as_str(),
                        "mechanism_not_enabled",
                    ),
                    HandshakeError::State => (ErrorCode::IllegalSaslState, "none", "out_of_order"),
                };
                count(peer, "none", "refused");
                self.log_failure(peer, mechanism, &Claim::default(), reason);
                Err((code, error))
            }
        }
    }

    pub(crate) fn authenticate(
        &self,
        peer: &Peer,
        listener: &SaslListener,
        token: &[u8],
        now: Duration,
    ) -> Result<SignedIn, AuthenticationError> {
        let connection = self.connection(peer);
        let (replied, claim) = {
            let session = &mut connection.lock().session;
            let replied = session.authenticate(self.users(listener), token);
            let claim = replied.is_err().then(|| session.claim().clone());
            (replied, claim)
        };
        match replied {
            Ok(Reply::Challenge(token)) => Ok(SignedIn {
                token,
                lifetime: None,
            }),
            Ok(Reply::Done(token, identified)) => {
                let Identified {
                    principal,
                    mechanism,
                    lifetime,
                    delegation_token,
                } = identified;
                let lifetimes = listener.session_max.into_iter().chain(lifetime);
                let lifetime = lifetimes.min();
                let expires = lifetime.map(|lifetime| now.saturating_add(lifetime));
                // Before the principal is known, so that no request passes between.
                let identity = &peer.identity;
                identity.set_delegation_token(delegation_token.as_deref());
                identity.authenticated(principal.as_str(), expires);
                count(peer, mechanism.name(), "accepted");
                tracing::debug!(connection = peer.id, %principal, %mechanism, "authenticated");
                Ok(SignedIn { token, lifetime })
            }
            Err(error) => {
                count(peer, "any", "refused");
                let claim = claim.unwrap_or_default();
                let mechanism = claim.mechanism.map_or("none", Mechanism::name);
                self.log_failure(peer, mechanism, &claim, error.reason());
                Err(error)
            }
        }
    }

    fn log_failure(&self, peer: &Peer, mechanism: &str, claim: &Claim, reason: &'static str) {
        self.authorization.sign_in_failed(&FailedSignIn {
            address: peer.address,
            listener: &peer.listener,
            principal: peer.identity.principal(),
            mechanism,
            claimed: claim.user.as_deref(),
            claimed_delegation_token: claim.delegation_token.as_deref(),
            reason,
        });
    }

    /// Whether the connection's next frame is a token without a header (KIP-43).
    pub(crate) fn expects_bare(&self, peer: &Peer) -> bool {
        let known = || self.sessions.lock().get(&peer.id).cloned();
        peer.identity.principal().is_none()
            && known().is_some_and(|connection| connection.lock().bare)
    }

    /// Takes a token without a header. Such a client learns of a failure by losing its connection, as late as
    /// others do.
    pub(crate) async fn bare_token(&self, peer: &Peer, token: &[u8], now: Duration) -> Accepted {
        let Some(listener) = self.listener(peer) else {
            return Accepted::Close(CloseReason::NotAuthenticated);
        };
        match self.authenticate(peer, listener, token, now) {
            Ok(SignedIn { token, .. }) => match encode_bare(&token) {
                Ok(response) => Accepted::Ready(response),
                Err(error) => Accepted::Close(CloseReason::Unencodable(error)),
            },
            Err(error) => {
                sleep(REFUSAL_DELAY).await;
                Accepted::Close(CloseReason::AuthenticationFailed(error.to_string()))
            }
        }
    }

    pub(crate) fn disconnected(&self, peer: &Peer) {
        self.sessions.lock().remove(&peer.id);
    }
}

/// Counts how an authentication ended. Rare enough to look the handle up; listeners and mechanisms are few.
fn count(peer: &Peer, mechanism: &'static str, result: &'static str) {
    let listener = peer.listener.clone();
    metrics::counter!(
        "millrace_authentications_total",
        "listener" => listener, "mechanism" => mechanism, "result" => result
    )
    .increment(1);
}

#[cfg(test)]
mod tests {
    use millrace_time::SystemClock;
    use millrace_wire::service::Identity;

    use super::*;

    /// One slow client, or a token whose verification takes long, held up all others.
    #[test]
    fn connections_do_not_wait_for_each_others_authentication() {
        let listener = SaslListener {
            only: None,
            mechanisms: vec![Mechanism::Plain],
            plain: PlainUsers::new([("alice".to_owned(), "secret".to_owned())]),
            tokens: None,
            session_max: None,
        };
        let authorization = Arc::new(Authorization::new(None, SystemClock::shared()));
        let sign_in = SignIn::new(Security::open(), authorization);
        let peer = |id| {
            let identity = Identity::to_authenticate();
            let address = ([127, 0, 0, 1], 50_000).into();
            Peer::with_identity(id, address, "SASL".to_owned(), identity)
        };
        let (slow, quick) = (peer(1), peer(2));
        let slow = sign_in.connection(&slow);
        let _verifies = slow.lock();
        let chosen = sign_in.handshake(&quick, &listener, "PLAIN", 1);
        assert!(chosen.is_ok());
        let signed_in = sign_in.authenticate(&quick, &listener, b"\0alice\0secret", Duration::ZERO);
        assert!(signed_in.is_ok());
        assert_eq!(quick.identity.principal(), Some("User:alice"));
    }
}
