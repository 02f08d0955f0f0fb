//! The brokers of the cluster, as clients are told of them.

use std::sync::Arc;

use millrace_log::{Partition, Topic};
use millrace_meta::{Broker, BrokerEndpoint, BrokerState};
use millrace_model::NodeId;
use millrace_wire::{StrBytes, messages::BrokerId, service::Peer};
use tokio::sync::watch;

use crate::context::{Context, text};

/// All brokers that have ever joined the cluster, as this broker knows them.
pub type Members = watch::Receiver<Arc<Vec<Broker>>>;

/// A broker that clients may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: BrokerId,
    pub(crate) host: StrBytes,
    pub(crate) port: i32,
    pub(crate) rack: Option<StrBytes>,
}

/// A node's id as the wire writes it.
pub(crate) fn broker_id(node: NodeId) -> BrokerId {
    BrokerId(i32::try_from(node.get()).unwrap_or(i32::MAX))
}

impl Context {
    /// The brokers that are there, with the addresses of the listener that the peer uses. This one is always among them.
    pub(crate) fn members(&self, peer: &Peer) -> Vec<Member> {
        let own = self.own(peer);
        let Some(members) = &self.config.members else {
            return vec![own];
        };
        let brokers = Arc::clone(&members.borrow());
        let others = brokers.iter().filter(|broker| {
            broker.state == BrokerState::Active && broker.joined.node != self.config.node_id
        });
        let mut all: Vec<Member> = others.map(|broker| other(broker, peer)).collect();
        all.push(own);
        all.sort_unstable_by_key(|member| member.id.0);
        all
    }

    /// Who leads a partition that another broker leads, and since which epoch (KIP-951).
    pub(crate) fn leader_elsewhere(
        &self,
        topic: &Topic,
        index: i32,
        peer: &Peer,
    ) -> Option<(Member, i32)> {
        let partition = topic.partitions.get(usize::try_from(index).ok()?)?;
        let (leader, epoch) = self.leader_of(partition)?;
        if leader == self.broker_id() {
            return None;
        }
        Some((self.member(leader, peer)?, epoch))
    }

    /// The broker with this id, if it is there.
    pub(crate) fn member(&self, id: BrokerId, peer: &Peer) -> Option<Member> {
        let mut members = self.members(peer).into_iter();
        members.find(|member| member.id == id)
    }

    fn own(&self, peer: &Peer) -> Member {
        let (host, port) = self.endpoint(peer);
        Member {
            id: self.broker_id(),
            host,
            port,
            rack: self.config.rack.clone().map(text),
        }
    }

    /// Who leads a partition, and since which epoch; `None` where nobody does who is there.
    pub(crate) fn leader_of(&self, partition: &Partition) -> Option<(BrokerId, i32)> {
        if let Some(log) = partition.log() {
            return Some((self.broker_id(), log.leader_epoch()));
        }
        let leader = partition.leader()?;
        let node = leader.node?;
        let is_there = node == self.config.node_id || self.is_active(node);
        let epoch = i32::try_from(leader.epoch).unwrap_or(i32::MAX);
        is_there.then(|| (broker_id(node), epoch))
    }

    pub(crate) fn is_active(&self, node: NodeId) -> bool {
        let Some(members) = &self.config.members else {
            return false;
        };
        let brokers = members.borrow();
        let mut of_node = brokers.iter().filter(|broker| broker.joined.node == node);
        of_node.any(|broker| broker.state == BrokerState::Active)
    }
}

fn other(broker: &Broker, peer: &Peer) -> Member {
    let joined = &broker.joined;
    let same = |endpoint: &&BrokerEndpoint| endpoint.listener == peer.listener;
    let endpoint = joined.endpoints.iter().find(same);
    let (host, port) = match endpoint.or(joined.endpoints.first()) {
        Some(endpoint) => (text(endpoint.host.clone()), i32::from(endpoint.port)),
        None => (StrBytes::default(), -1),
    };
    Member {
        id: broker_id(joined.node),
        host,
        port,
        rack: joined.rack.clone().map(text),
    }
}
