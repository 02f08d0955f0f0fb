//! One member of a consumer group.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::stored::subscription_bytes;
use crate::{
    messages::{Protocol, TopicPartitions},
    records::{ConsumerPart, MemberState, StoredClassic, StoredConsumer, StoredCurrent},
};

/// What a member subscribes to. Members that subscribe to the same share it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Subscription {
    pub(super) names: BTreeSet<String>,
    pub(super) pattern: Option<String>,
}

/// What is known of a member that uses the classic protocol beside its subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Classic {
    pub(super) session_timeout: Duration,
    pub(super) protocols: Vec<Protocol>,
    /// Until when it has to join again, or to send SyncGroup.
    pub(super) due: Option<Due>,
}

/// What a classic member is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Join(Duration),
    Sync(Duration),
}

impl Due {
    pub(super) const fn at(self) -> Duration {
        match self {
            Self::Join(at) | Self::Sync(at) => at,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) instance_id: Option<String>,
    pub(super) rack_id: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) rebalance_timeout_ms: i32,
    pub(super) assignor: Option<String>,
    pub(super) subscription: Arc<Subscription>,
    pub(super) classic: Option<Classic>,
    pub(super) current: StoredCurrent,
    pub(super) target: TopicPartitions,
    /// When the session ends unless the member is heard from before.
    pub(super) session_deadline: Duration,
    /// Until when it has to give up partitions.
    pub(super) revoke_deadline: Option<Duration>,
}

impl Member {
    pub(super) fn new(client_id: String, client_host: String) -> Self {
        Self {
            instance_id: None,
            rack_id: None,
            client_id,
            client_host,
            rebalance_timeout_ms: -1,
            assignor: None,
            subscription: Arc::default(),
            classic: None,
            current: StoredCurrent {
                epoch: 0,
                previous_epoch: 0,
                state: MemberState::Stable,
                assigned: TopicPartitions::new(),
                revoking: TopicPartitions::new(),
            },
            target: TopicPartitions::new(),
            session_deadline: Duration::ZERO,
            revoke_deadline: None,
        }
    }

    /// Whether it has what it is to have as of this epoch.
    pub(super) fn is_reconciled(&self, epoch: i32) -> bool {
        self.current.state == MemberState::Stable && self.current.epoch == epoch
    }

    pub(super) fn rebalance_timeout(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.rebalance_timeout_ms).unwrap_or(0))
    }

    /// What it subscribes to costs for each copy, in bytes.
    pub(super) fn subscription_bytes(&self) -> u64 {
        let Subscription { names, pattern } = &*self.subscription;
        subscription_bytes(names.iter().chain(pattern))
    }

    pub(super) fn set_rebalance_timeout(&mut self, timeout: Duration) {
        self.rebalance_timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    }

    /// The earliest time at which it is removed unless it does something before.
    pub(super) fn deadline(&self) -> Duration {
        let due = self.classic.as_ref().and_then(|classic| classic.due);
        let others = [self.revoke_deadline, due.map(Due::at)];
        let earliest = others.into_iter().flatten().min();
        earliest.map_or(self.session_deadline, |at| at.min(self.session_deadline))
    }

    pub(super) fn stored(&self) -> StoredConsumer {
        let classic = self.classic.as_ref().map(|classic| StoredClassic {
            session_timeout_ms: i32::try_from(classic.session_timeout.as_millis())
                .unwrap_or(i32::MAX),
            protocols: classic.protocols.clone(),
        });
        StoredConsumer {
            instance_id: self.instance_id.clone(),
            rack_id: self.rack_id.clone(),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            names: self.subscription.names.iter().cloned().collect(),
            pattern: self.subscription.pattern.clone(),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            assignor: self.assignor.clone(),
            classic,
        }
    }

    pub(super) fn restored(stored: StoredConsumer) -> Self {
        let mut member = Self::new(stored.client_id, stored.client_host);
        member.instance_id = stored.instance_id;
        member.rack_id = stored.rack_id;
        member.rebalance_timeout_ms = stored.rebalance_timeout_ms;
        member.assignor = stored.assignor;
        member.subscription = Arc::new(Subscription {
            names: stored.names.into_iter().collect(),
            pattern: stored.pattern.filter(|pattern| !pattern.is_empty()),
        });
        member.classic = stored.classic.map(|classic| Classic {
            session_timeout: Duration::from_millis(
                u64::try_from(classic.session_timeout_ms).unwrap_or(0),
            ),
            protocols: classic.protocols,
            due: None,
        });
        member
    }
}

/// The keys of a member's records.
pub(super) fn parts_of(id: &str) -> [ConsumerPart; 3] {
    [
        ConsumerPart::Current(id.to_owned()),
        ConsumerPart::TargetMember(id.to_owned()),
        ConsumerPart::Member(id.to_owned()),
    ]
}
