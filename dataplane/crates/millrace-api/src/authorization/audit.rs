//! The broker's audit log: one line for each denial, each failed sign-in and each administrative change, under a
//! target of its own. Lines name who, from where, what and with which result; they hold no passwords, keys or
//! values.

use std::{borrow::Cow, collections::HashMap, fmt::Write as _, net::SocketAddr, time::Duration};

use metrics::Counter;
use millrace_security::{
    acl::{Operation, ResourceType},
    address_block,
};
use millrace_time::SharedClock;
use millrace_wire::{
    error_code::{ErrorCode, NONE},
    service::Peer,
};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};

use super::decisions::name;
use crate::metrics::error_name;

/// The target of all lines, for filters such as `MILLRACE_LOG=warn,millrace::audit=info`.
const TARGET: &str = "millrace::audit";

/// The most denials of one principal that are logged in a second: a client without rights that tries again
/// and again must not hide the denials of others.
const DENIALS_OF_ONE_MAX: u32 = 5;
/// The most denials of all together in a second: 54 MB of log in an hour of nothing else.
const DENIALS_MAX: u32 = 50;
/// The most changes of one principal that are logged in a second: as many as one request may name.
const CHANGES_OF_ONE_MAX: u32 = 10_000;
/// The most changes of all together in a second, so that no principal alone hides those of others.
const CHANGES_MAX: u32 = 20_000;

/// The most changes of delegation tokens of one principal that are logged in a second. They need no right, so
/// they have a bound of their own.
const TOKEN_CHANGES_OF_ONE_MAX: u32 = 20;
/// The most of all together in a second.
const TOKEN_CHANGES_MAX: u32 = 1_000;

/// The most failed sign-ins from one address that are logged in a second: strangers cause them.
const FAILED_SIGN_INS_OF_ONE_MAX: u32 = 5;
/// The most of all addresses together in a second.
const FAILED_SIGN_INS_MAX: u32 = 50;

/// Names are clients' texts; of longer ones, the beginning, the length and a hash are shown.
const NAME_BYTES_MAX: usize = 256;

/// See the module.
#[derive(Debug)]
pub(crate) struct Audit {
    clock: SharedClock,
    denials: Mutex<Window>,
    changes: Mutex<Window>,
    token_changes: Mutex<Window>,
    failed_sign_ins: Mutex<Window>,
    denials_dropped: Counter,
    changes_dropped: Counter,
    failed_sign_ins_dropped: Counter,
}

/// Somebody did not prove who it is. What it claims to be is not verified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FailedSignIn<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) listener: &'a str,
    /// Who the connection is already, where it authenticates again.
    pub(crate) principal: Option<&'a str>,
    /// A SASL mechanism as the client names it, or `TLS`.
    pub(crate) mechanism: &'a str,
    /// A user, or the subject of a certificate.
    pub(crate) claimed: Option<&'a str>,
    /// The id of a delegation token, instead of a user.
    pub(crate) claimed_delegation_token: Option<&'a str>,
    /// A stable word.
    pub(crate) reason: &'static str,
}

/// What an administrative change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    /// A topic, created or deleted.
    Topic,
    /// The number of a topic's partitions.
    Partitions,
    /// The leader of a partition.
    Leader,
    /// Records before an offset.
    Records,
    /// The configuration of a topic.
    TopicConfigs,
    /// The configuration of the broker or of all brokers.
    BrokerConfigs,
    /// The configuration of a group.
    GroupConfigs,
    /// A subscription to client metrics.
    ClientMetrics,
    /// A consumer group.
    Group,
    /// Committed offsets of a group.
    GroupOffsets,
    /// An access control list.
    Acl,
    /// The quotas of users, clients or addresses.
    ClientQuotas,
    /// A user's SCRAM credential.
    ScramCredential,
    /// A delegation token, by its id; where it is created, with its owner and renewers.
    DelegationToken,
}

/// What is done, to what kind of thing, and to which.
struct Subject<'a> {
    operation: Operation,
    kind: String,
    resource: &'a str,
}

impl Audit {
    pub(super) fn new(clock: SharedClock) -> Self {
        let dropped =
            |event| metrics::counter!("millrace_audit_events_dropped_total", "event" => event);
        Self {
            clock,
            denials: Mutex::new(Window::new(DENIALS_OF_ONE_MAX, DENIALS_MAX)),
            changes: Mutex::new(Window::new(CHANGES_OF_ONE_MAX, CHANGES_MAX)),
            token_changes: Mutex::new(Window::new(TOKEN_CHANGES_OF_ONE_MAX, TOKEN_CHANGES_MAX)),
            failed_sign_ins: Mutex::new(Window::new(
                FAILED_SIGN_INS_OF_ONE_MAX,
                FAILED_SIGN_INS_MAX,
            )),
            denials_dropped: dropped("denied"),
            changes_dropped: dropped("changed"),
            failed_sign_ins_dropped: dropped("sign_in_failed"),
        }
    }

    pub(super) fn denied(
        &self,
        peer: &Peer,
        (operation, kind, resource): (Operation, ResourceType, &str),
    ) {
        if !self.denials.lock().admit(principal(peer), self.clock.now()) {
            return self.denials_dropped.increment(1);
        }
        let subject = Subject {
            operation,
            kind: name(kind),
            resource,
        };
        line("denied", peer, &subject, "DENIED");
    }

    pub(super) fn changed(
        &self,
        peer: &Peer,
        (operation, changed, resource): (Operation, Changed, &str),
        error: i16,
    ) {
        if is_denial(error) {
            return;
        }
        if !self.admits(principal(peer), changed) {
            return self.changes_dropped.increment(1);
        }
        let subject = Subject {
            operation,
            kind: name(changed),
            resource,
        };
        line("changed", peer, &subject, &error_name(error));
    }

    pub(super) fn sign_in_failed(&self, failed: &FailedSignIn<'_>) {
        if !self.admits_from(failed.address) {
            return self.failed_sign_ins_dropped.increment(1);
        }
        tracing::info!(
            target: TARGET,
            event = "sign_in_failed",
            principal = failed.principal,
            claimed = failed.claimed.map(shown).as_deref(),
            claimed_delegation_token = failed.claimed_delegation_token.map(shown).as_deref(),
            mechanism = &*shown(failed.mechanism),
            listener = failed.listener,
            address = %failed.address,
            reason = failed.reason,
        );
    }

    /// Whether there is room for one more failed sign-in from this address; takes it.
    fn admits_from(&self, address: SocketAddr) -> bool {
        let from = address_block(address.ip()).to_string();
        self.failed_sign_ins.lock().admit(&from, self.clock.now())
    }

    /// Whether there is room for one more line of a change of this principal; takes it.
    fn admits(&self, principal: &str, changed: Changed) -> bool {
        let window = match changed {
            Changed::DelegationToken => &self.token_changes,
            _ => &self.changes,
        };
        window.lock().admit(principal, self.clock.now())
    }
}

fn line(event: &str, peer: &Peer, subject: &Subject<'_>, result: &str) {
    let token = peer.identity.delegation_token();
    // Texts are written with `=`, not `%`: so line ends within them are escaped.
    tracing::info!(
        target: TARGET,
        event,
        principal = principal(peer),
        delegation_token = token.as_deref(),
        listener = peer.listener.as_str(),
        address = %peer.address,
        operation = name(subject.operation).as_str(),
        resource_type = subject.kind.as_str(),
        resource = &*shown(subject.resource),
        result,
    );
}

fn principal(peer: &Peer) -> &str {
    peer.identity.principal().unwrap_or_default()
}

fn is_denial(error: i16) -> bool {
    let code = ErrorCode::try_from_code(error).filter(|_| error != NONE);
    matches!(
        code,
        Some(
            ErrorCode::TopicAuthorizationFailed
                | ErrorCode::GroupAuthorizationFailed
                | ErrorCode::ClusterAuthorizationFailed
                | ErrorCode::TransactionalIdAuthorizationFailed
        )
    )
}

/// A client's text as lines have it: two different ones never look the same. Control characters are escaped here,
/// because JSON leaves some of them as they are, and so are backslashes, which escapes begin with.
fn shown(text: &str) -> Cow<'_, str> {
    let beginning = &text[..text.floor_char_boundary(NAME_BYTES_MAX)];
    let must_be_escaped = |character: char| character == '\\' || character.is_control();
    let mut line = match beginning.contains(must_be_escaped) {
        false => Cow::Borrowed(beginning),
        true => Cow::Owned(escaped(beginning)),
    };
    if beginning.len() < text.len() {
        let line = line.to_mut();
        let _ = write!(line, "… ({} bytes, SHA-256 ", text.len());
        for byte in digest(&SHA256, text.as_bytes()).as_ref() {
            let _ = write!(line, "{byte:02x}");
        }
        line.push(')');
    }
    line
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() * 2);
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            control if control.is_control() => escaped.extend(control.escape_default()),
            other => escaped.push(other),
        }
    }
    escaped
}

/// How many lines there were in the present second.
#[derive(Debug)]
struct Window {
    of_one_max: u32,
    max: u32,
    began: Option<Duration>,
    lines: u32,
    /// By principal, or by address; at most `max` of them.
    by_source: HashMap<Box<str>, u32>,
}

/// A second.
const WINDOW: Duration = Duration::from_secs(1);

impl Window {
    fn new(of_one_max: u32, max: u32) -> Self {
        Self {
            of_one_max,
            max,
            began: None,
            lines: 0,
            by_source: HashMap::new(),
        }
    }

    /// Whether there is room for one more line of this principal or address; takes it.
    fn admit(&mut self, source: &str, now: Duration) -> bool {
        let is_over = self
            .began
            .is_none_or(|began| now.saturating_sub(began) >= WINDOW);
        if is_over {
            self.began = Some(now);
            self.lines = 0;
            self.by_source.clear();
        }
        if self.lines >= self.max {
            return false;
        }
        match self.by_source.get_mut(source) {
            Some(lines) if *lines >= self.of_one_max => return false,
            Some(lines) => *lines += 1,
            None => {
                self.by_source.insert(source.into(), 1);
            }
        }
        self.lines += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use millrace_time::ManualClock;

    use super::*;

    /// Every user may renew its own token as often as it likes.
    #[test]
    fn changes_of_tokens_do_not_hide_other_changes() {
        let audit = Audit::new(ManualClock::shared());
        let logged = (0..1_000).filter(|_| audit.admits("User:a", Changed::DelegationToken));
        assert_eq!(logged.count(), TOKEN_CHANGES_OF_ONE_MAX as usize);
        assert!(audit.admits("User:b", Changed::DelegationToken));
        assert!(audit.admits("User:a", Changed::Acl));
    }

    #[test]
    fn one_principal_does_not_hide_the_others_and_all_have_a_bound() {
        let mut window = Window::new(2, 5);
        let at = Duration::from_millis;
        let mut admitted = |name: &str, ms| window.admit(name, at(ms));
        assert!(admitted("a", 0) && admitted("a", 1) && !admitted("a", 2));
        assert!(admitted("b", 3) && admitted("c", 4) && admitted("d", 5));
        assert!(!admitted("e", 999), "five in one second");
        assert!(admitted("a", 1_000), "the next second");
    }

    #[test]
    fn one_address_does_not_hide_the_failed_sign_ins_of_others_nor_other_events() {
        let clock = ManualClock::shared();
        let audit = Audit::new(clock.clone());
        let from = |address: &str| {
            let address = format!("{address}:9").parse().expect("an address");
            (0..1_000).filter(|_| audit.admits_from(address)).count()
        };
        let of_one = FAILED_SIGN_INS_OF_ONE_MAX as usize;
        assert_eq!(from("10.0.0.1"), of_one);
        assert_eq!(from("10.0.0.2"), of_one);
        // A host has many addresses.
        assert_eq!((from("[2001:db8::1]"), from("[2001:db8::2]")), (of_one, 0));
        let rest = (3..250).map(|host| from(&format!("10.0.0.{host}")));
        let all = 3 * of_one + rest.sum::<usize>();
        assert_eq!(all, FAILED_SIGN_INS_MAX as usize);
        assert!(audit.admits("User:a", Changed::Acl));
        assert!(audit.denials.lock().admit("User:a", audit.clock.now()));
        clock.advance(WINDOW);
        assert_eq!(from("10.0.0.1"), of_one, "the next second");
    }

    /// Names that differ behind the bound had the same line.
    #[test]
    fn long_names_are_cut_and_stay_distinguishable() {
        let name = "ä".repeat(NAME_BYTES_MAX);
        let (one, other) = (format!("{name}1"), format!("{name}2"));
        let cut = "ä".repeat(NAME_BYTES_MAX / 2) + "… (513 bytes, SHA-256 ";
        assert!(shown(&one).starts_with(&cut) && shown(&other).starts_with(&cut));
        assert_ne!(shown(&one), shown(&other));
        let longest = "x".repeat(NAME_BYTES_MAX);
        assert_eq!(shown(&longest), longest);
        assert_eq!(
            shown(&"a".repeat(257)),
            // printf 'a%.0s' $(seq 257) | sha256sum
            "a".repeat(256)
                + "… (257 bytes, SHA-256 e8d95cc2b4bc198c54b40bd214df958afb65f5e73d2c2eafe0593cf5c635c1f0)"
        );
    }

    #[test]
    fn control_characters_and_backslashes_are_escaped() {
        assert_eq!(shown("orders / ä"), "orders / ä");
        assert_eq!(shown("orders \\ ä"), "orders \\\\ ä");
        assert_eq!(shown("a\n\u{9b}\u{7f}ä"), "a\\n\\u{9b}\\u{7f}ä");
        assert_ne!(shown("a\n\u{7f}"), shown("a\\n\u{7f}"));
        assert_ne!(shown("a\n"), shown("a\\n"));
    }

    #[test]
    fn denials_are_told_by_their_codes() {
        for code in [29, 30, 31, 53] {
            assert!(is_denial(code), "{code}");
        }
        for code in [NONE, 3, 36] {
            assert!(!is_denial(code), "{code}");
        }
    }
}
