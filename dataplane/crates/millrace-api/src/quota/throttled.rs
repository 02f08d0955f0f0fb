//! Connections that are not read because of a quota, so that a change of quotas can end their wait.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use millrace_security::quota::QuotaKind;
use millrace_wire::service::Peer;
use parking_lot::Mutex;

use super::Spender;

/// What has ended is forgotten when there are twice as many entries as were left the last time, and not before
/// there are this many. So there are at most twice as many as throttled connections and kinds of quotas.
const SWEPT_MIN: usize = 1_024;

/// See the module. Whoever lets a connection wait does it here, under the lock: a wait by a quota that was changed
/// meanwhile is either seen by [`Self::reconsider`] or not begun.
#[derive(Debug, Default)]
pub(super) struct Throttled {
    waits: Mutex<Waits>,
}

#[derive(Debug, Default)]
struct Waits {
    by_connection: BTreeMap<(u64, QuotaKind), Wait>,
    left_by_sweep: usize,
}

#[derive(Debug)]
struct Wait {
    /// Ends with the connection.
    peer: Weak<Peer>,
    client_id: Box<str>,
    owner: Box<str>,
    until: Duration,
}

impl Wait {
    fn spender(&self) -> Option<Spender> {
        Some(Spender {
            peer: self.peer.upgrade()?,
            client_id: self.client_id.clone(),
            owner: self.owner.clone(),
        })
    }
}

impl Throttled {
    /// Lets a connection wait for as long as `wait` says; until when.
    pub(super) fn add(
        &self,
        (kind, spender): (QuotaKind, &Spender),
        now: Duration,
        wait: impl FnOnce() -> Option<Duration>,
    ) -> Option<Duration> {
        let mut waits = self.waits.lock();
        let until = now.saturating_add(wait()?);
        let Spender {
            peer,
            client_id,
            owner,
        } = spender;
        waits.sweep(now);
        let held = waits.by_connection.get(&(peer.id, kind));
        // A connection may use several client ids. Its wait is that of the one that waits longest.
        if held.is_none_or(|held| held.until <= until) {
            let wait = Wait {
                peer: Arc::downgrade(peer),
                client_id: client_id.clone(),
                owner: owner.clone(),
                until,
            };
            waits.by_connection.insert((peer.id, kind), wait);
        }
        peer.throttle.until(until);
        Some(until)
    }

    /// Shortens waits to what `wait` says of each.
    pub(super) fn reconsider(
        &self,
        now: Duration,
        wait: impl Fn(QuotaKind, &Spender) -> Option<Duration>,
    ) {
        let mut ends: HashMap<u64, (Arc<Peer>, Duration)> = HashMap::new();
        let mut waits = self.waits.lock();
        waits.by_connection.retain(|(id, kind), held| {
            let Some(spender) = held.spender() else {
                return false;
            };
            let left = wait(*kind, &spender).filter(|_| held.until > now);
            let of_all = ends.entry(*id).or_insert((spender.peer, Duration::ZERO));
            let Some(left) = left else {
                return false;
            };
            held.until = held.until.min(now.saturating_add(left));
            of_all.1 = of_all.1.max(held.until);
            true
        });
        for (peer, end) in ends.into_values() {
            peer.throttle.shorten(end);
        }
    }
}

impl Waits {
    fn sweep(&mut self, now: Duration) {
        if self.by_connection.len() < SWEPT_MIN.max(self.left_by_sweep * 2) {
            return;
        }
        let lasts = |wait: &Wait| wait.until > now && wait.peer.strong_count() > 0;
        self.by_connection.retain(|_, wait| lasts(wait));
        self.left_by_sweep = self.by_connection.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn spender(id: u64) -> Spender {
        let address = ([127, 0, 0, 1], 1).into();
        Spender {
            peer: Arc::new(Peer::new(id, address, "L".to_owned())),
            client_id: "c".into(),
            owner: "o".into(),
        }
    }

    fn seconds(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    #[test]
    fn each_kind_of_quota_holds_a_connection_back_by_itself() {
        let throttled = Throttled::default();
        let (one, other) = (spender(1), spender(2));
        let left = |spender: &Spender| spender.peer.throttle.left(NOW);
        for (kind, wait) in [
            (QuotaKind::ProducerByteRate, 50),
            (QuotaKind::RequestPercentage, 5),
        ] {
            throttled.add((kind, &one), NOW, || seconds(wait));
        }
        throttled.add((QuotaKind::ProducerByteRate, &other), NOW, || seconds(50));
        assert_eq!((left(&one), left(&other)), (seconds(50), seconds(50)));
        // More than before changes nothing.
        throttled.reconsider(NOW, |_, _| seconds(60));
        assert_eq!((left(&one), left(&other)), (seconds(50), seconds(50)));
        throttled.reconsider(NOW, |kind, spender| match (kind, spender.peer.id) {
            (QuotaKind::ProducerByteRate, 1) => None,
            (QuotaKind::ProducerByteRate, _) => seconds(20),
            _ => seconds(60),
        });
        assert_eq!((left(&one), left(&other)), (seconds(5), seconds(20)));
        throttled.reconsider(NOW, |_, _| None);
        assert_eq!((left(&one), left(&other)), (None, None));
        assert!(throttled.waits.lock().by_connection.is_empty());
    }

    /// The wait kept the first client id of its connection: to raise the quota of another did not end it.
    #[test]
    fn a_wait_is_that_of_the_client_id_that_waits_longest() {
        let throttled = Throttled::default();
        let kind = QuotaKind::ProducerByteRate;
        let first = spender(1);
        let with = |client_id: &str| Spender {
            peer: Arc::clone(&first.peer),
            client_id: client_id.into(),
            owner: client_id.into(),
        };
        let left = || first.peer.throttle.left(NOW);
        throttled.add((kind, &first), NOW, || seconds(10));
        throttled.add((kind, &with("longest")), NOW, || seconds(50));
        throttled.add((kind, &with("brief")), NOW, || seconds(5));
        throttled.reconsider(NOW, |_, spender| {
            let is_longest = (&*spender.client_id, &*spender.owner) == ("longest", "longest");
            (!is_longest).then_some(Duration::from_secs(50))
        });
        assert_eq!(left(), None);
        // Also where both wait equally long: the later one spends now.
        throttled.add((kind, &first), NOW, || seconds(10));
        throttled.add((kind, &with("later")), NOW, || seconds(10));
        throttled.reconsider(NOW, |_, spender| match &*spender.client_id {
            "later" => seconds(2),
            _ => seconds(10),
        });
        assert_eq!(left(), seconds(2));
    }

    #[test]
    fn a_quota_that_was_raised_meanwhile_lets_nobody_wait() {
        let (throttled, one) = (Throttled::default(), spender(1));
        let added = throttled.add((QuotaKind::ProducerByteRate, &one), NOW, || None);
        assert_eq!((added, one.peer.throttle.left(NOW)), (None, None));
    }

    #[test]
    fn what_has_ended_is_forgotten() {
        let throttled = Throttled::default();
        let kind = QuotaKind::ProducerByteRate;
        let kept = spender(0);
        throttled.add((kind, &kept), NOW, || seconds(1_000_000));
        let brief: Vec<Spender> = (1..10_000).map(spender).collect();
        for (spender, after) in brief.iter().zip(0..) {
            let now = NOW + Duration::from_secs(after);
            throttled.add((kind, spender), now, || seconds(1));
        }
        // Connections that are closed, whatever they still had to wait.
        for id in 10_000..20_000 {
            let late = NOW + Duration::from_secs(20_000);
            throttled.add((kind, &spender(id)), late, || seconds(1_000_000));
        }
        assert!(throttled.waits.lock().by_connection.len() <= SWEPT_MIN);
        throttled.reconsider(NOW, |_, _| None);
        assert_eq!(kept.peer.throttle.left(NOW), None);
    }
}
