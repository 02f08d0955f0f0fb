//! The consumers that were sent to their zone.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use millrace_model::{Offset, TopicId};
use parking_lot::Mutex;

/// How long a connection that did not go where it was sent, or came back at once, is served here.
const IGNORED_FOR: Duration = Duration::from_secs(300);

/// Partitions of connections that are remembered, about 100 bytes each. Beyond, consumers stay with their leaders.
const SENT_MAX: usize = 100_000;

/// The same of one connection.
const SENT_PER_CONNECTION_MAX: usize = 10_000;

/// Which consumers were sent elsewhere, and whether they went. Clients whose metadata does not name the broker that they are
/// sent to ask the leader again, and must be served here then.
#[derive(Debug, Default)]
pub(crate) struct Redirects {
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    sent: BTreeMap<Key, Sent>,
    /// How many of them each connection has.
    counts: HashMap<u64, usize>,
}

/// The connection, topic and partition.
type Key = (u64, TopicId, i32);

#[derive(Debug)]
struct Sent {
    /// Where the consumer stood.
    offset: Offset,
    at: Duration,
    /// It was there again at the same offset.
    is_ignored: bool,
}

impl Redirects {
    /// Sends a consumer at `offset` elsewhere, if it may be sent now.
    pub(crate) fn try_redirect(&self, key: Key, offset: Offset, now: Duration) -> bool {
        let mut all = self.all.lock();
        let All { sent, counts } = &mut *all;
        let is_full = sent.len() >= SENT_MAX;
        let count = counts.get(&key.0).copied().unwrap_or(0);
        if let Some(sent) = sent.get_mut(&key) {
            let is_recent = now.saturating_sub(sent.at) < IGNORED_FOR;
            if is_recent && (sent.is_ignored || sent.offset == offset) {
                if !sent.is_ignored {
                    sent.is_ignored = true;
                    sent.at = now;
                }
                return false;
            }
        } else if is_full || count >= SENT_PER_CONNECTION_MAX {
            return false;
        } else {
            counts.insert(key.0, count + 1);
        }
        let redirect = Sent {
            offset,
            at: now,
            is_ignored: false,
        };
        sent.insert(key, redirect);
        true
    }

    /// Forgets a connection that has ended.
    pub(crate) fn disconnected(&self, connection: u64) {
        let first = |connection| (connection, TopicId(uuid::Uuid::nil()), i32::MIN);
        let its_own = first(connection)..first(connection.saturating_add(1));
        let mut all = self.all.lock();
        if all.counts.remove(&connection).is_none() {
            return;
        }
        let keys: Vec<Key> = all.sent.range(its_own).map(|(key, _)| *key).collect();
        for key in keys {
            all.sent.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: TopicId = TopicId(uuid::Uuid::from_u128(12));

    #[test]
    fn a_consumer_that_does_not_go_is_served_where_it_is() {
        let redirects = Redirects::default();
        let (key, other) = ((1, TOPIC, 0), (2, TOPIC, 0));
        let at = Duration::from_secs;
        assert!(redirects.try_redirect(key, 10, at(0)));
        assert!(redirects.try_redirect(other, 10, at(0)));
        // It is there again, at the same offset and then at later ones.
        for offset in [10, 11, 12] {
            assert!(!redirects.try_redirect(key, offset, at(1)));
        }
        assert!(redirects.try_redirect(key, 13, at(302)), "tried again");
        redirects.disconnected(1);
        assert!(redirects.try_redirect(key, 13, at(303)), "another client");
        assert!(!redirects.try_redirect(other, 10, at(303 - 4)));
    }

    #[test]
    fn a_consumer_that_comes_back_further_on_may_be_sent_again() {
        let redirects = Redirects::default();
        let key = (1, TOPIC, 0);
        for offset in 0..5 {
            assert!(redirects.try_redirect(key, offset, Duration::from_secs(offset)));
        }
    }

    #[test]
    fn one_connection_leaves_room_for_others() {
        let redirects = Redirects::default();
        let at = Duration::ZERO;
        let most = i32::try_from(SENT_PER_CONNECTION_MAX).expect("few");
        for partition in 0..most {
            assert!(redirects.try_redirect((1, TOPIC, partition), 0, at));
        }
        assert!(!redirects.try_redirect((1, TOPIC, most), 0, at));
        assert!(redirects.try_redirect((2, TOPIC, most), 0, at));
        redirects.disconnected(1);
        assert!(redirects.try_redirect((1, TOPIC, most), 0, at));
    }
}
