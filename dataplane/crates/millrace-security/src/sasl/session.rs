//! One connection: which mechanism, how far, who, and whether it may authenticate again.

use std::time::Duration;

use crate::{
    credentials::{PlainUsers, ScramUsers},
    delegation::{Bearer, DelegationTokens},
    principal::{CONTROL_PLANE_USER, InvalidPrincipal, Principal, RECORDS_USER},
    sasl::{
        AuthenticationError, Mechanism, TOKEN_BYTES_MAX, UnknownMechanism,
        oauth::{self, TokenError, Tokens},
        plain, scram,
    },
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
    /// Who verifies the tokens of OAUTHBEARER, where that is enabled.
    pub tokens: Option<&'a Tokens>,
    /// Delegation tokens, where they are enabled.
    pub delegation: Option<&'a DelegationTokens>,
}

/// A connection's place in SASL. It is told of every SaslHandshake and SaslAuthenticate, in order.
#[derive(Debug, Default)]
pub struct Session {
    state: State,
    /// Who the connection is, once it has authenticated.
    identified: Option<Identified>,
    claim: Claim,
}

/// Who a client said it was in the exchange that is under way or has failed. Nothing of it is proved: it is for
/// the audit log only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// What the client chose.
    pub mechanism: Option<Mechanism>,
    /// The user, as far as the client's message could be read; [`TOKEN_BYTES_MAX`] bytes at most.
    pub user: Option<String>,
    /// The id of a delegation token, instead of a user.
    pub delegation_token: Option<String>,
}

/// Somebody who has authenticated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identified {
    /// Who.
    pub principal: Principal,
    /// How.
    pub mechanism: Mechanism,
    /// How long that holds, where a token says so.
    pub lifetime: Option<Duration>,
    /// The id of the delegation token that it was by, which gives no right to further ones.
    pub delegation_token: Option<String>,
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
    /// The token is refused, and the client was told so; its confirmation may come (RFC 7628, section 3.2.3).
    Refused(TokenError),
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
        self.claim = Claim::default();
        if !matches!(self.state, State::Rest) {
            self.state = State::Failed;
            return Err(HandshakeError::State);
        }
        let chosen: Mechanism = mechanism.parse()?;
        if !users.mechanisms.contains(&chosen) {
            return Err(UnknownMechanism::new(mechanism).into());
        }
        self.state = State::Begun(chosen);
        self.claim.mechanism = Some(chosen);
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
            return Err(AuthenticationError::TooLong);
        }
        match state {
            State::Begun(mechanism) => self.begin(users, mechanism, token),
            State::Challenged(challenged) => {
                let last = challenged.finish(token)?;
                let identified = identify(users, &challenged)?;
                self.end(identified, last)
            }
            State::Refused(error) => Err(AuthenticationError::Token(error)),
            State::Rest | State::Failed => Err(AuthenticationError::State),
        }
    }

    /// Whether the exchange is neither under way nor failed, and somebody has authenticated.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        matches!(self.state, State::Rest) && self.identified.is_some()
    }

    /// Who the client says it is, for the log of a failure.
    #[must_use]
    pub const fn claim(&self) -> &Claim {
        &self.claim
    }

    fn begin(
        &mut self,
        users: Users<'_>,
        mechanism: Mechanism,
        token: &[u8],
    ) -> Result<Reply, AuthenticationError> {
        self.claim = Claim::of(users, mechanism, token);
        let former = self.identified.as_ref();
        if former.is_some_and(|former| former.mechanism != mechanism) {
            return Err(AuthenticationError::MechanismChanged);
        }
        match mechanism {
            Mechanism::Plain => {
                let user = plain::authenticate(users.plain, token)?;
                self.end(Identified::user(mechanism, user, None)?, Vec::new())
            }
            Mechanism::OauthBearer => self.show_token(users, token),
            Mechanism::Scram(hash) => {
                let own_nonce = scram::nonce();
                let known = (users.scram, users.delegation);
                let (challenged, reply) = scram::challenge(hash, known, token, &own_nonce)?;
                self.state = State::Challenged(Box::new(challenged));
                Ok(Reply::Challenge(reply))
            }
        }
    }

    fn show_token(
        &mut self,
        users: Users<'_>,
        message: &[u8],
    ) -> Result<Reply, AuthenticationError> {
        let tokens = users.tokens.ok_or(AuthenticationError::Unsupported)?;
        let (token, user) = oauth::bearer_token(message)?;
        match tokens.accept(token) {
            Ok(accepted) if user.is_some_and(|user| user != accepted.user) => {
                Err(AuthenticationError::Unsupported)
            }
            Ok(oauth::Accepted { user, lifetime }) => {
                let mechanism = Mechanism::OauthBearer;
                let identified = Identified::user(mechanism, &user, Some(lifetime))?;
                self.end(identified, Vec::new())
            }
            Err(error) => {
                self.state = State::Refused(error);
                Ok(Reply::Challenge(oauth::REFUSAL.to_vec()))
            }
        }
    }

    fn end(&mut self, identified: Identified, last: Vec<u8>) -> Result<Reply, AuthenticationError> {
        let former = self.identified.as_ref();
        if former.is_some_and(|former| former.principal != identified.principal) {
            return Err(AuthenticationError::PrincipalChanged);
        }
        self.identified = Some(identified.clone());
        self.claim = Claim::default();
        self.state = State::Rest;
        Ok(Reply::Done(last, identified))
    }
}

impl Claim {
    /// By the first message of an exchange.
    fn of(users: Users<'_>, mechanism: Mechanism, token: &[u8]) -> Self {
        let (user, delegation_token) = match mechanism {
            Mechanism::Plain => (plain::claimed(token).map(str::to_owned), None),
            Mechanism::Scram(_) => match scram::claimed(token) {
                Some((id, true)) => (None, Some(id)),
                named => (named.map(|(user, _)| user), None),
            },
            Mechanism::OauthBearer => {
                let token = oauth::bearer_token(token).ok().map(|(token, _)| token);
                let user = token.and_then(|token| users.tokens?.claimed(token));
                (user, None)
            }
        };
        Self {
            mechanism: Some(mechanism),
            user,
            delegation_token,
        }
    }
}

impl Identified {
    fn user(
        mechanism: Mechanism,
        user: &str,
        lifetime: Option<Duration>,
    ) -> Result<Self, AuthenticationError> {
        let principal = principal_of(mechanism, user)?;
        Ok(Self {
            principal,
            mechanism,
            lifetime,
            delegation_token: None,
        })
    }
}

/// Who somebody is that has proved to know a password or a token's HMAC.
fn identify(
    users: Users<'_>,
    challenged: &scram::Challenged,
) -> Result<Identified, AuthenticationError> {
    let (mechanism, name) = (challenged.mechanism(), &challenged.name);
    if !challenged.is_token {
        return Identified::user(mechanism, name, None);
    }
    // It may have expired since the challenge.
    let bearer = users.delegation.and_then(|tokens| tokens.bearer(name));
    let Bearer { owner, lifetime } = bearer.ok_or(AuthenticationError::Credentials)?;
    // Whoever may create tokens of all users cannot become the broker.
    if owner.is_reserved() {
        return Err(AuthenticationError::Reserved);
    }
    Ok(Identified {
        principal: owner,
        mechanism,
        lifetime: Some(lifetime),
        delegation_token: Some(name.clone()),
    })
}

/// Whom a user who has authenticated stands for.
fn principal_of(mechanism: Mechanism, user: &str) -> Result<Principal, AuthenticationError> {
    // By SCRAM, only the broker's own credentials of these names are accepted.
    if matches!(mechanism, Mechanism::Scram(_)) {
        match user {
            CONTROL_PLANE_USER => return Ok(Principal::control_plane()),
            RECORDS_USER => return Ok(Principal::records()),
            _ => {}
        }
    }
    Principal::user(user).map_err(|error| match error {
        InvalidPrincipal::Anonymous => AuthenticationError::Anonymous,
        InvalidPrincipal::Reserved => AuthenticationError::Reserved,
        InvalidPrincipal::Form(_) | InvalidPrincipal::TooLong(_) => AuthenticationError::Malformed,
    })
}

impl scram::Challenged {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Scram(self.hash())
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use millrace_testkit::TokenIssuer;
    use millrace_time::ManualClock;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{
        credentials::ScramHash,
        delegation::tests::{config, token},
        sasl::oauth::TokenRules,
    };

    struct World {
        plain: PlainUsers,
        scram: ScramUsers,
        tokens: Tokens,
        issuer: TokenIssuer,
    }

    impl World {
        fn new() -> Self {
            let user = |name: &str| (name.to_owned(), "secret".to_owned());
            let rules = TokenRules {
                audiences: Vec::new(),
                issuer: None,
                scope_claim: "scope".to_owned(),
                sub_claim: "sub".to_owned(),
                clock_skew: Duration::ZERO,
            };
            let tokens = Tokens::new(rules, ManualClock::shared());
            let issuer = TokenIssuer::new("key");
            let keys = TokenIssuer::key_set(&[&issuer]);
            tokens.set_keys(keys.as_bytes()).expect("a key set");
            Self {
                plain: PlainUsers::new([
                    user("alice"),
                    user("bob"),
                    user("ANONYMOUS"),
                    user("__millrace"),
                ]),
                scram: ScramUsers::new([]),
                tokens,
                issuer,
            }
        }

        fn users(&self) -> Users<'_> {
            Users {
                mechanisms: &[
                    Mechanism::Plain,
                    Mechanism::Scram(ScramHash::Sha256),
                    Mechanism::OauthBearer,
                ],
                plain: &self.plain,
                scram: &self.scram,
                tokens: Some(&self.tokens),
                delegation: None,
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
        let long = session.handshake(world.users(), &"x".repeat(30_000));
        assert_eq!(long, Err(UnknownMechanism("x".repeat(20)).into()));
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
        assert_eq!(long, Err(AuthenticationError::TooLong));
    }

    /// A good one, which would be accepted, is not even decoded.
    #[test]
    fn bearer_tokens_have_the_same_bound() {
        let world = World::new();
        let show = |padding: usize| {
            let claims = json!({"sub": "alice", "exp": 60, "padding": "x".repeat(padding)});
            let token = world.issuer.sign(&claims);
            let message = format!("n,,\u{1}auth=Bearer {token}\u{1}\u{1}");
            let mut session = Session::default();
            let begun = session.handshake(world.users(), "OAUTHBEARER");
            begun.expect("enabled");
            let reply = session.authenticate(world.users(), message.as_bytes());
            (message.len(), reply.map(drop), session.claim().user.clone())
        };
        let (bytes, reply, _) = show(5_000);
        assert!(bytes <= TOKEN_BYTES_MAX && reply.is_ok(), "{reply:?}");
        let (bytes, reply, claimed) = show(6_200);
        assert!(bytes > TOKEN_BYTES_MAX);
        assert_eq!(
            (reply, claimed),
            (Err(AuthenticationError::TooLong), None),
            "nothing of it was read"
        );
    }

    #[test]
    fn a_failure_knows_who_was_claimed() {
        let world = World::new();
        let claim = |mechanism: &str, messages: &[&[u8]]| {
            let mut session = Session::default();
            session
                .handshake(world.users(), mechanism)
                .expect("enabled");
            for message in messages {
                let _ = session.authenticate(world.users(), message);
            }
            session.claim().clone()
        };
        let by = |mechanism, user: &str| Claim {
            mechanism: Some(mechanism),
            user: Some(user.to_owned()),
            delegation_token: None,
        };
        let plain = claim("PLAIN", &[b"\0mallory\0wrong"]);
        assert_eq!(plain, by(Mechanism::Plain, "mallory"));
        let scram = Mechanism::Scram(ScramHash::Sha256);
        let first: &[u8] = b"n,,n=mallory,r=abc";
        let last: &[u8] = b"c=biws,r=abc,p=AAAA";
        assert_eq!(claim("SCRAM-SHA-256", &[first, last]), by(scram, "mallory"));
        let token = claim("SCRAM-SHA-256", &[b"n,,n=id,r=abc,tokenauth=true"]);
        assert_eq!(token.delegation_token.as_deref(), Some("id"));
        let foreign = TokenIssuer::new("key").sign(&json!({"sub": "mallory", "exp": 60}));
        let message = format!("n,,\u{1}auth=Bearer {foreign}\u{1}\u{1}");
        let bearer = claim("OAUTHBEARER", &[message.as_bytes(), b"\x01"]);
        assert_eq!(bearer, by(Mechanism::OauthBearer, "mallory"));
        for garbage in [&b""[..], b"\xff\xff", b"n,,"] {
            for mechanism in ["SCRAM-SHA-256", "OAUTHBEARER"] {
                assert_eq!(claim(mechanism, &[garbage]).user, None);
            }
        }
        // It is of no use once somebody has proved who it is.
        assert_eq!(*signed_in(&world).claim(), Claim::default());
    }

    fn bearer(world: &World, user: &str) -> Vec<u8> {
        let token = world.issuer.sign(&json!({"sub": user, "exp": 60}));
        format!("n,,\u{1}auth=Bearer {token}\u{1}\u{1}").into_bytes()
    }

    #[test]
    fn a_token_signs_its_user_in_for_as_long_as_it_lasts() {
        let world = World::new();
        let mut session = Session::default();
        for _ in 0..2 {
            session
                .handshake(world.users(), "OAUTHBEARER")
                .expect("enabled");
            let reply = session.authenticate(world.users(), &bearer(&world, "alice"));
            let Ok(Reply::Done(token, identified)) = reply else {
                panic!("{reply:?}");
            };
            assert!(token.is_empty());
            assert_eq!(identified.principal.as_str(), "User:alice");
            assert_eq!(identified.lifetime, Some(Duration::from_secs(60)));
        }
        session
            .handshake(world.users(), "OAUTHBEARER")
            .expect("again");
        let other = session.authenticate(world.users(), &bearer(&world, "bob"));
        assert_eq!(other, Err(AuthenticationError::PrincipalChanged));

        let mut session = Session::default();
        session
            .handshake(world.users(), "OAUTHBEARER")
            .expect("enabled");
        let named = String::from_utf8(bearer(&world, "alice")).expect("text");
        let named = named.replace("n,,", "n,a=bob,");
        let other = session.authenticate(world.users(), named.as_bytes());
        assert_eq!(other, Err(AuthenticationError::Unsupported));
    }

    /// A SCRAM exchange with a token, up to the client's last message; that message.
    fn show(session: &mut Session, users: Users<'_>, id: &str, password: &str) -> Vec<u8> {
        let hash = ScramHash::Sha256;
        session.handshake(users, hash_name(hash)).expect("enabled");
        let bare = format!("n={id},r=abc,tokenauth=true");
        let first = session.authenticate(users, format!("n,,{bare}").as_bytes());
        let Ok(Reply::Challenge(server_first)) = first else {
            panic!("{first:?}");
        };
        scram::tests::client_final(hash, password, &bare, "n,,", &server_first)
    }

    fn hash_name(hash: ScramHash) -> &'static str {
        Mechanism::Scram(hash).name()
    }

    #[test]
    fn a_delegation_token_signs_its_owner_in_until_it_expires() {
        let (world, clock) = (World::new(), ManualClock::shared());
        let tokens = DelegationTokens::new(config(), clock.clone(), [token("id", 10_000)]);
        let password = STANDARD.encode(tokens.issue(token("id", 0)).hmac());
        let users = Users {
            delegation: Some(&tokens),
            ..world.users()
        };
        clock.advance(Duration::from_secs(4));
        let mut session = Session::default();
        let last = show(&mut session, users, "id", &password);
        let reply = session.authenticate(users, &last);
        let Ok(Reply::Done(_, identified)) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(identified.principal.as_str(), "User:owner");
        assert_eq!(identified.lifetime, Some(Duration::from_secs(6)));
        assert_eq!(identified.delegation_token.as_deref(), Some("id"));

        let refused = |id: &str, password: &str| {
            let mut session = Session::default();
            let last = show(&mut session, users, id, password);
            session.authenticate(users, &last)
        };
        let credentials = Err(AuthenticationError::Credentials);
        assert_eq!(refused("id", "wrong"), credentials);
        assert_eq!(refused("other", &password), credentials);
        // It expires between the two messages.
        let mut session = Session::default();
        let last = show(&mut session, users, "id", &password);
        clock.advance(Duration::from_secs(7));
        assert_eq!(session.authenticate(users, &last), credentials);
        assert_eq!(refused("id", &password), credentials);
    }

    /// The first message of a mechanism is refused for this reason.
    fn assert_refused(
        world: &World,
        mechanism: &str,
        message: &[u8],
        reason: &AuthenticationError,
    ) {
        let mut session = Session::default();
        session
            .handshake(world.users(), mechanism)
            .expect("enabled");
        let refused = session.authenticate(world.users(), message);
        assert_eq!(refused.as_ref().err(), Some(reason), "{mechanism}");
    }

    /// The rights of these names are fixed, so nobody else may have one, whatever an identity provider, a file or a
    /// token says.
    #[test]
    fn nobody_signs_in_under_a_reserved_name() {
        let world = World::new();
        let reserved = AuthenticationError::Reserved;
        assert_refused(&world, "PLAIN", b"\0__millrace\0secret", &reserved);
        let message = bearer(&world, "__millrace_records");
        assert_refused(&world, "OAUTHBEARER", &message, &reserved);
        let mut of_broker = token("id", 10_000);
        of_broker.owner = Principal::control_plane();
        let tokens = DelegationTokens::new(config(), ManualClock::shared(), [of_broker]);
        let password = STANDARD.encode(tokens.issue(token("id", 0)).hmac());
        let users = Users {
            delegation: Some(&tokens),
            ..world.users()
        };
        let mut session = Session::default();
        let last = show(&mut session, users, "id", &password);
        let refused = session.authenticate(users, &last);
        assert_eq!(refused, Err(reserved));
    }

    /// Where `super.users` names `User:ANONYMOUS`, a user of this name could do everything.
    #[test]
    fn nobody_signs_in_as_anonymous() {
        let world = World::new();
        let anonymous = AuthenticationError::Anonymous;
        assert_refused(&world, "PLAIN", b"\0ANONYMOUS\0secret", &anonymous);
        let message = bearer(&world, "ANONYMOUS");
        assert_refused(&world, "OAUTHBEARER", &message, &anonymous);
    }

    #[test]
    fn a_refused_token_is_answered_before_the_exchange_fails() {
        let world = World::new();
        let foreign = World::new();
        for confirmation in [&b"\x01"[..], b"", b"n,,\x01auth=Bearer x\x01\x01"] {
            let mut session = Session::default();
            session
                .handshake(world.users(), "OAUTHBEARER")
                .expect("enabled");
            let refused = session.authenticate(world.users(), &bearer(&foreign, "alice"));
            let told = br#"{"status":"invalid_token"}"#.to_vec();
            assert_eq!(refused, Ok(Reply::Challenge(told)));
            assert!(!session.is_settled());
            let failed = session.authenticate(world.users(), confirmation);
            let error = AuthenticationError::Token(TokenError::Signature);
            assert_eq!(failed, Err(error));
            let late = session.authenticate(world.users(), &bearer(&world, "alice"));
            assert_eq!(late, Err(AuthenticationError::State));
        }
    }

    /// What a client may do, in any order.
    #[derive(Debug, Clone)]
    enum Step {
        Handshake(&'static str),
        /// PLAIN, as this user, with the right password.
        Plain(&'static str),
        /// OAUTHBEARER, as this user, with a good token.
        Bearer(&'static str),
        /// A good message whose byte at this place is another, or that ends there.
        Changed(bool, usize, Option<u8>),
        Noise(Vec<u8>),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let users = || prop_oneof![Just("alice"), Just("bob")];
        let step = prop_oneof![
            4 => prop_oneof![Just("PLAIN"), Just("SCRAM-SHA-256"), Just("OAUTHBEARER"), Just("GSSAPI")]
                .prop_map(Step::Handshake),
            2 => users().prop_map(Step::Plain),
            2 => users().prop_map(Step::Bearer),
            2 => (any::<bool>(), any::<usize>(), proptest::option::of(any::<u8>()))
                .prop_map(|(plain, at, byte)| Step::Changed(plain, at, byte)),
            1 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(Step::Noise),
            1 => Just(Step::Noise(b"n,,n=alice,r=abc".to_vec())),
            1 => Just(Step::Noise(b"c=biws,r=abc,p=AAAA".to_vec())),
        ];
        proptest::collection::vec(step, 1..12)
    }

    fn changed(mut message: Vec<u8>, at: usize, byte: Option<u8>) -> Vec<u8> {
        // What stands before the user's name is the identity that the client asks for.
        let at = at % message.len();
        match byte {
            Some(byte) => message[at] = byte,
            None => message.truncate(at),
        }
        message
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// Only a right message at its place authenticates, as the user that it names; nothing comes after a
        /// failure; a connection keeps its user and its mechanism.
        #[test]
        fn nothing_else_authenticates(steps in steps()) {
            let world = World::new();
            let mut session = Session::default();
            let (mut chosen, mut failed) = (None, false);
            let mut former: Option<(String, &str)> = None;
            for step in steps {
                let (message, right) = match step {
                    Step::Handshake(name) => {
                        match session.handshake(world.users(), name) {
                            Ok(_) => {
                                prop_assert!(!failed && chosen.is_none() && name != "GSSAPI");
                                chosen = Some(name);
                            }
                            Err(HandshakeError::State) => {
                                prop_assert!(failed || chosen.is_some());
                                failed = true;
                            }
                            Err(HandshakeError::Mechanism(_)) => prop_assert_eq!(name, "GSSAPI"),
                        }
                        continue;
                    }
                    Step::Plain(user) => {
                        (format!("\0{user}\0secret").into_bytes(), Some(("PLAIN", user)))
                    }
                    Step::Bearer(user) => (bearer(&world, user), Some(("OAUTHBEARER", user))),
                    Step::Changed(true, at, byte) => {
                        let right = b"\0alice\0secret".to_vec();
                        let message = changed(right.clone(), at, byte);
                        let is_right = message == right;
                        (message, is_right.then_some(("PLAIN", "alice")))
                    }
                    Step::Changed(false, at, byte) => {
                        let right = bearer(&world, "alice");
                        // The scheme's case means nothing, nor do some bits of a signature's last digit.
                        let message = changed(right.clone(), 20 + at % (right.len() - 23), byte);
                        let is_right = message == right;
                        (message, is_right.then_some(("OAUTHBEARER", "alice")))
                    }
                    Step::Noise(bytes) => (bytes, None),
                };
                match session.authenticate(world.users(), &message) {
                    Ok(Reply::Done(_, identified)) => {
                        let (mechanism, user) = right.expect("a right message");
                        prop_assert!(!failed && chosen.take() == Some(mechanism));
                        let name = format!("User:{user}");
                        prop_assert_eq!(identified.principal.as_str(), &name);
                        let same = former.is_none_or(|former| former == (name.clone(), mechanism));
                        prop_assert!(same);
                        former = Some((name, mechanism));
                    }
                    Ok(Reply::Challenge(_)) => prop_assert!(!failed && chosen.is_some()),
                    Err(_) => failed = true,
                }
                prop_assert_eq!(session.is_settled(), !failed && chosen.is_none() && former.is_some());
            }
        }
    }
}
