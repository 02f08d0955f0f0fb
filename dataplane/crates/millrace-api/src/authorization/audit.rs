//! The broker's audit log: one line for each denial and each administrative change, under a target of its
//! own. Lines name who, from where, what and with which result; they hold no passwords, keys or values.

use std::{collections::HashMap, time::Duration};

use metrics::Counter;
use millrace_security::acl::{Operation, ResourceType};
use millrace_time::SharedClock;
use millrace_wire::{
    error_code::{ErrorCode, NONE},
    service::Peer,
};
use parking_lot::Mutex;

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

/// Names are clients' texts; longer ones are cut.
const NAME_BYTES_MAX: usize = 256;

/// See the module.
#[derive(Debug)]
pub(crate) struct Audit {
    clock: SharedClock,
    denials: Mutex<Window>,
    changes: Mutex<Window>,
    token_changes: Mutex<Window>,
    denials_dropped: Counter,
    changes_dropped: Counter,
}

/// What an administrative change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    /// A topic, created or deleted.
    Topic,
    /// The number of a topic's partitions.
    Partitions,
    /// Records before an offset.
    Records,
    /// The configuration of a topic.
    TopicConfigs,
    /// The configuration of the broker or of all brokers.
    BrokerConfigs,
    /// A consumer group.
    Group,
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
            denials_dropped: dropped("denied"),
            changes_dropped: dropped("changed"),
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
        resource = cut(subject.resource),
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

fn cut(text: &str) -> &str {
    match text.len() {
        ..=NAME_BYTES_MAX => text,
        _ => &text[..text.floor_char_boundary(NAME_BYTES_MAX)],
    }
}

/// How many lines there were in the present second.
#[derive(Debug)]
struct Window {
    of_one_max: u32,
    max: u32,
    began: Option<Duration>,
    lines: u32,
    /// At most `max` of them.
    by_principal: HashMap<Box<str>, u32>,
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
            by_principal: HashMap::new(),
        }
    }

    /// Whether there is room for one more line of this principal; takes it.
    fn admit(&mut self, principal: &str, now: Duration) -> bool {
        let is_over = self
            .began
            .is_none_or(|began| now.saturating_sub(began) >= WINDOW);
        if is_over {
            self.began = Some(now);
            self.lines = 0;
            self.by_principal.clear();
        }
        if self.lines >= self.max {
            return false;
        }
        match self.by_principal.get_mut(principal) {
            Some(lines) if *lines >= self.of_one_max => return false,
            Some(lines) => *lines += 1,
            None => {
                self.by_principal.insert(principal.into(), 1);
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
    fn long_names_are_cut_between_characters() {
        let name = "ä".repeat(NAME_BYTES_MAX);
        assert_eq!(cut(&name).len(), NAME_BYTES_MAX);
        assert_eq!(cut(&format!("x{name}")).len(), NAME_BYTES_MAX - 1);
        assert_eq!(cut("orders"), "orders");
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
