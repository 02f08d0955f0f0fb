//! One member of a group.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::{
    GroupError,
    messages::{Joined, Protocol, Synced},
};

/// Where an answer goes that may have to wait.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, GroupError>>;

/// A member as the coordinator knows it between its requests.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) session_timeout: Duration,
    /// In the member's order of preference.
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) assignment: Bytes,
    /// Has never been told its id, so it cannot send heartbeats.
    pub(crate) is_new: bool,
    /// The JoinGroup that waits for the rebalance to end.
    pub(crate) joining: Option<Reply<Joined>>,
    /// The SyncGroup that waits for the leader's assignment.
    pub(crate) syncing: Option<Reply<Synced>>,
    /// When the session ends unless the member is heard from before.
    pub(crate) session_deadline: Duration,
}

impl Member {
    /// Whether the member offers exactly these protocols, with the same metadata.
    pub(crate) fn offers(&self, protocols: &[Protocol]) -> bool {
        self.protocols == protocols
    }

    /// The member's metadata for one protocol; empty where it does not offer it.
    pub(crate) fn metadata(&self, protocol: &str) -> Bytes {
        let offered = self.protocols.iter().find(|p| p.name == protocol);
        offered.map(|p| p.metadata.clone()).unwrap_or_default()
    }

    /// The member's favourite among `candidates`.
    pub(crate) fn vote<'a>(&self, candidates: &[&'a str]) -> Option<&'a str> {
        let favourite = self.protocols.iter().find_map(|p| {
            candidates
                .iter()
                .find(|candidate| **candidate == p.name.as_str())
        });
        favourite.copied()
    }

    /// When the session ends; none while the coordinator itself keeps the member waiting, except
    /// for a new member, whose connection may be gone before it ever knew its id.
    pub(crate) fn expires_at(&self) -> Option<Duration> {
        let kept_waiting = self.joining.is_some() || self.syncing.is_some();
        (self.is_new || !kept_waiting).then_some(self.session_deadline)
    }
}
