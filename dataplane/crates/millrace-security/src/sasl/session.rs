//! One connection: which mechanism, how far, who, and whether it may authenticate again.

use crate::{
    credentials::{PlainUsers, ScramUsers},
    principal::Principal,
    sasl::{AuthenticationError, Mechanism, TOKEN_BYTES_MAX, UnknownMechanism, plain, scram},
};

/// Who may sign in, and how.
#[derive(Debug, Clone, Copy)]
pub struct Users<'a> {
    /// `sasl.enabled.mechanisms`
    pub mechanisms: &'a [Mechanism],
    /// The users of PLAIN on this listener.
    pub plain: &'a PlainUsers,
    /// The users of SCRAM.
    pub scram: &'a ScramUsers,
}

/// A connection's place in SASL. It is told of every SaslHandshake and SaslAuthenticate, in order.
#[derive(Debug, Default)]
pub struct Session {
    state: State,
    /// Who the connection is, once it has authenticated.
    identified: Option<Identified>,
}

/// Somebody who has authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identified {
    /// Who.
    pub principal: Principal,
    /// How.
    pub mechanism: Mechanism,
}

#[derive(Debug, Default)]
enum State {
    /// A handshake may come.
    #[default]
    Rest,
    /// The first token may come.
    Begun(Mechanism),
    /// The last token may come.
    Challenged(Box<scram::Challenged>),
    /// An exchange has failed.
    Failed,
}

/// What the client is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The exchange goes on.
    Challenge(Vec<u8>),
    /// It has ended well.
    Done(Vec<u8>, Identified),
}

/// A handshake is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The mechanism is unknown, or not enabled on the listener.
    #[error(transparent)]
    Mechanism(#[from] UnknownMechanism),
    /// An exchange is under way, or has failed.
    #[error("a SASL handshake came where none is expected")]
    State,
}

impl Session {
    /// The client chooses a mechanism. What is not served may be followed by another choice.
    ///
    /// # Errors
    /// See [`HandshakeError`].
    pub fn handshake(
        &mut self,
        users: Users<'_>,
        mechanism: &str,
    ) -> Result<Mechanism, HandshakeError> {
        if !matches!(self.state, State::Rest) {
            self.state = State::Failed;
            return Err(HandshakeError::State);
        }
        let chosen: Mechanism = mechanism.parse()?;
        if !users.mechanisms.contains(&chosen) {
            return Err(UnknownMechanism(mechanism.to_owned()).into());
        }
        self.state = State::Begun(chosen);
        Ok(chosen)
    }

    /// Takes the client's next token.
    ///
    /// # Errors
    /// The exchange has failed: the connection must end. Nothing but errors follows.
    pub fn authenticate(
        &mut self,
        users: Users<'_>,
        token: &[u8],
    ) -> Result<Reply, AuthenticationError> {
        let state = std::mem::replace(&mut self.state, State::Failed);
        if token.len() > TOKEN_BYTES_MAX {
            return Err(AuthenticationError::Malformed);
        }
        match state {
            State::Begun(mechanism) => self.begin(users, mechanism, token),
            State::Challenged(challenged) => {
                let last = challenged.finish(token)?;
                self.end(challenged.mechanism(), &challenged.user, last)
            }
            State::Rest | State::Failed => Err(AuthenticationError::State),
        }
    }

    /// Whether the exchange is neither under way nor failed, and somebody has authenticated.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.state, State::Rest) && self.identified.is_some()
    }

    fn begin(
        &mut self,
        users: Users<'_>,
        mechanism: Mechanism,
        token: &[u8],
    ) -> Result<Reply, AuthenticationError> {
        let former = self.identified.as_ref();
        if former.is_some_and(|former| former.mechanism != mechanism) {
            return Err(AuthenticationError::MechanismChanged);
        }
        match mechanism {
            Mechanism::Plain => {
                let user = plain::authenticate(users.plain, token)?;
                self.end(mechanism, user, Vec::new())
            }
            Mechanism::Scram(hash) => {
                let own_nonce = scram::nonce();
                let (challenged, reply) = scram::challenge(hash, users.scram, token, &own_nonce)?;
                self.state = State::Challenged(Box::new(challenged));
                Ok(Reply::Challenge(reply))
            }
        }
    }

    fn end(
        &mut self,
        mechanism: Mechanism,
        user: &str,
        last: Vec<u8>,
    ) -> Result<Reply, AuthenticationError> {
        let principal = Principal::user(user).map_err(|_| AuthenticationError::Malformed)?;
        let former = self.identified.as_ref();
        if former.is_some_and(|former| former.principal != principal) {
            return Err(AuthenticationError::PrincipalChanged);
        }
        let identified = Identified {
            principal,
            mechanism,
        };
        self.identified = Some(identified.clone());
        self.state = State::Rest;
        Ok(Reply::Done(last, identified))
    }
}

impl scram::Challenged {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Scram(self.hash())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::ScramHash;

    struct World {
        plain: PlainUsers,
        scram: ScramUsers,
    }

    impl World {
        fn new() -> Self {
            let user = |name: &str| (name.to_owned(), "secret".to_owned());
            Self {
                plain: PlainUsers::new([user("alice"), user("bob")]),
                scram: ScramUsers::new([]),
            }
        }

        fn users(&self) -> Users<'_> {
            Users {
                mechanisms: &[Mechanism::Plain, Mechanism::Scram(ScramHash::Sha256)],
                plain: &self.plain,
                scram: &self.scram,
            }
        }
    }

    fn signed_in(world: &World) -> Session {
        let mut session = Session::default();
        session.handshake(world.users(), "PLAIN").expect("enabled");
        assert!(!session.is_settled());
        let reply = session.authenticate(world.users(), b"\0alice\0secret");
        let Ok(Reply::Done(token, identified)) = reply else {
            panic!("{reply:?}");
        };
        assert!(token.is_empty());
        assert_eq!(identified.principal.as_str(), "User:alice");
        assert!(session.is_settled());
        session
    }

    #[test]
    fn the_same_user_may_authenticate_again() {
        let world = World::new();
        let mut session = signed_in(&world);
        session.handshake(world.users(), "PLAIN").expect("again");
        let again = session.authenticate(world.users(), b"\0alice\0secret");
        assert!(matches!(again, Ok(Reply::Done(..))), "{again:?}");
    }

    #[test]
    fn nobody_else_may_and_by_no_other_mechanism() {
        let world = World::new();
        let mut session = signed_in(&world);
        session.handshake(world.users(), "PLAIN").expect("again");
        let other = session.authenticate(world.users(), b"\0bob\0secret");
        assert_eq!(other, Err(AuthenticationError::PrincipalChanged));
        assert!(!session.is_settled(), "nothing goes on after a failure");

        let mut session = signed_in(&world);
        session
            .handshake(world.users(), "SCRAM-SHA-256")
            .expect("enabled");
        let switched = session.authenticate(world.users(), b"n,,n=alice,r=abc");
        assert_eq!(switched, Err(AuthenticationError::MechanismChanged));
    }

    #[test]
    fn steps_out_of_order_are_refused() {
        let world = World::new();
        let mut session = Session::default();
        let early = session.authenticate(world.users(), b"\0alice\0secret");
        assert_eq!(early, Err(AuthenticationError::State));
        assert_eq!(
            session.handshake(world.users(), "PLAIN"),
            Err(HandshakeError::State),
            "a failure is final"
        );

        let mut session = Session::default();
        session.handshake(world.users(), "PLAIN").expect("enabled");
        // A switch in the middle of the exchange.
        let switch = session.handshake(world.users(), "SCRAM-SHA-256");
        assert_eq!(switch, Err(HandshakeError::State));
        let late = session.authenticate(world.users(), b"\0alice\0secret");
        assert_eq!(late, Err(AuthenticationError::State));
    }

    #[test]
    fn another_mechanism_may_be_chosen_after_one_that_is_not_served() {
        let world = World::new();
        let mut session = Session::default();
        for other in ["GSSAPI", "SCRAM-SHA-512", "plain", ""] {
            let refused = session.handshake(world.users(), other);
            assert!(
                matches!(refused, Err(HandshakeError::Mechanism(_))),
                "{other}"
            );
        }
        assert_eq!(
            session.handshake(world.users(), "PLAIN"),
            Ok(Mechanism::Plain)
        );
    }

    #[test]
    fn tokens_have_a_bound() {
        let world = World::new();
        let mut session = Session::default();
        session
            .handshake(world.users(), "SCRAM-SHA-256")
            .expect("enabled");
        let token = vec![b'n'; TOKEN_BYTES_MAX + 1];
        let long = session.authenticate(world.users(), &token);
        assert_eq!(long, Err(AuthenticationError::Malformed));
    }
}
