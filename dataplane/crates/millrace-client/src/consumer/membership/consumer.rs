//! The consumer protocol (KIP-848): the coordinator assigns. Each heartbeat may bring a new target;
//! the member gives up what is not part of it, takes what is new, and tells so in the next heartbeat.
//!
//! A heartbeat names only what has changed. After one without an answer nobody knows what the
//! coordinator has heard, so the next one names everything.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use millrace_model::TopicId;
use millrace_wire::{
    StrBytes,
    messages::{
        ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
        consumer_group_heartbeat_request::TopicPartitions, consumer_group_heartbeat_response,
    },
};
use parking_lot::Mutex;

use super::{Ended, LEAVE_TIMEOUT, Protocol, Task, ms};
use crate::{
    client::Client,
    consumer::coordinator::{Coordinator, Identity, Over},
    error::RequestError,
    topic_partition::{TopicPartition, topic_name},
};

/// The epoch of a member that joins.
const JOIN: i32 = 0;
/// The epoch of a member that leaves for good,
const LEAVE: i32 = -1;
/// and of a static one, which may come back.
const LEAVE_FOR_A_WHILE: i32 = -2;
/// A rebalance time-out that has not changed.
const UNCHANGED: i32 = -1;
/// Until the coordinator tells its own interval.
const FIRST_INTERVAL: Duration = Duration::from_secs(3);

/// Partitions by topic, in order.
type Partitions = BTreeMap<TopicId, Vec<i32>>;

/// Where a member stands between what it owns and what it should own.
#[derive(Debug, Default)]
pub(super) struct Reconciliation(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    interval: Option<Duration>,
    /// What the coordinator has heard; nothing where that is not known.
    told: Option<Told>,
    /// What the coordinator told last that the member should own, unless that is being taken over.
    target: Option<Partitions>,
    /// The same, with topics among it that the metadata does not know yet.
    unknown: Option<Partitions>,
    /// The ids of the topics whose partitions are owned.
    ids: BTreeMap<Arc<str>, TopicId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    topics: Vec<Arc<str>>,
    owned: Partitions,
}

impl Reconciliation {
    pub(super) fn heartbeat_interval(&self) -> Duration {
        self.0.lock().interval.unwrap_or(FIRST_INTERVAL)
    }

    /// The member is not one any more: what it was told does not count.
    pub(super) fn forget(&self) {
        let mut state = self.0.lock();
        *state = State {
            interval: state.interval,
            ..State::default()
        };
    }
}

/// Whether the group's coordinator offers the protocol.
pub(super) async fn is_offered(
    coordinator: &Coordinator,
    client: &Client,
) -> Result<bool, RequestError> {
    let offered = coordinator
        .offers::<ConsumerGroupHeartbeatRequest>(client, Over::Membership)
        .await?;
    if offered {
        // The id is the client's to choose, and stays the same for as long as the consumer lives.
        let id = u128::from_be_bytes(client.config().random.next_bytes16());
        coordinator.set_identity(Identity {
            member_id: format!("{id:032x}"),
            ..Identity::none()
        });
    }
    Ok(offered)
}

impl Task {
    /// Takes over what the coordinator wants, where it wants something else, and tells it. True
    /// where it wants something else by now.
    pub(super) async fn reconcile(&mut self) -> Result<bool, Ended> {
        let Protocol::Consumer(state) = &self.protocol else {
            return Ok(false);
        };
        let target = {
            let mut state = state.0.lock();
            let unknown = state.unknown.take();
            state.target.take().or(unknown)
        };
        if let Some(target) = target.filter(|target| *target != self.owned_ids()) {
            let assigned = self.named(target).await?;
            self.take_over(assigned).await?;
        }
        match self.heartbeat().await {
            Ok(()) | Err(Ended::Rebalance) => {}
            Err(ended) => return Err(ended),
        }
        Ok(self.has_target())
    }

    fn has_target(&self) -> bool {
        let owned = self.owned_ids();
        let Protocol::Consumer(state) = &self.protocol else {
            return false;
        };
        let target = &state.0.lock().target;
        target.as_ref().is_some_and(|target| *target != owned)
    }

    /// What is owned, by topic ids.
    fn owned_ids(&self) -> Partitions {
        match &self.protocol {
            Protocol::Consumer(state) => owned(&self.owned, &state.0.lock().ids),
            Protocol::Classic | Protocol::Undecided => Partitions::new(),
        }
    }

    /// Whether the metadata knows a topic by now that it did not know before.
    pub(super) fn can_reconcile_more(&self) -> bool {
        let Protocol::Consumer(state) = &self.protocol else {
            return false;
        };
        let state = state.0.lock();
        let Some(unknown) = &state.unknown else {
            return false;
        };
        let names = self.names();
        unknown
            .keys()
            .any(|id| names.contains_key(id) && !state.ids.values().any(|known| known == id))
    }

    /// The topics that this member subscribes to, as far as the metadata knows them.
    fn names(&self) -> BTreeMap<TopicId, Arc<str>> {
        let metadata = self.shared.client.metadata();
        let topics = self.membership.topics.lock();
        let known = topics.iter().filter_map(|name| metadata.topic(name));
        known
            .filter_map(|topic| Some((topic.id?, Arc::clone(&topic.name))))
            .collect()
    }

    /// A target by names; topics that are not known are left for later.
    async fn named(&mut self, target: Partitions) -> Result<Vec<TopicPartition>, Ended> {
        let client = self.shared.client.clone();
        let topics = self.membership.topics.lock().clone();
        self.interests = topics.iter().map(|topic| client.interest(topic)).collect();
        if !target.keys().all(|id| self.names().contains_key(id))
            && let Err(error) = client.refresh_topics(&[]).await
        {
            // The coordinator tells a target once: it waits for the next try.
            if let Protocol::Consumer(state) = &self.protocol {
                state.0.lock().target.get_or_insert(target);
            }
            return Err(error.into());
        }
        let names = self.names();
        let Protocol::Consumer(state) = &self.protocol else {
            return Ok(Vec::new());
        };
        let mut state = state.0.lock();
        let mut assigned = Vec::new();
        let mut is_whole = true;
        // Those of what is given up are needed until it is.
        state
            .ids
            .retain(|topic, _| self.owned.iter().any(|one| one.topic == *topic));
        for (id, partitions) in &target {
            let Some(name) = names.get(id) else {
                is_whole = false;
                continue;
            };
            state.ids.insert(Arc::clone(name), *id);
            let partition = |index: &i32| TopicPartition::of(Arc::clone(name), *index);
            assigned.extend(partitions.iter().map(partition));
        }
        if !is_whole {
            client.request_refresh();
            state.unknown = Some(target);
        }
        Ok(assigned)
    }

    pub(super) async fn consumer_heartbeat(&self, state: &Reconciliation) -> Result<(), Ended> {
        let identity = self.coordinator().identity();
        let (told, before) = {
            let mut state = state.0.lock();
            let told = Told {
                topics: self.membership.topics.lock().clone(),
                owned: owned(&self.owned, &state.ids),
            };
            // Forgotten until the answer is here.
            let before = state.told.take().filter(|_| identity.generation > JOIN);
            (told, before)
        };
        let make = |_version| self.consumer_request(&identity, &told, before.as_ref());
        let response = self.ask(Duration::ZERO, make).await?;
        self.check(response.error_code, response.error_message.as_deref())?;
        self.coordinator().set_identity(Identity {
            generation: response.member_epoch,
            member_id: response
                .member_id
                .as_deref()
                .map_or(identity.member_id, Into::into),
        });
        let mut state = state.0.lock();
        if let Ok(ms @ 1..) = u64::try_from(response.heartbeat_interval_ms) {
            state.interval = Some(Duration::from_millis(ms));
        }
        if let Some(target) = target_of(&response) {
            // Also where the member owns just that: it may be about to take over another one.
            state.target = Some(target);
            state.unknown = None;
        }
        let is_settled = match &state.target {
            Some(target) => *target == told.owned,
            None => true,
        };
        state.told = Some(told);
        if is_settled {
            Ok(())
        } else {
            Err(Ended::Rebalance)
        }
    }

    fn consumer_request(
        &self,
        identity: &Identity,
        told: &Told,
        before: Option<&Told>,
    ) -> ConsumerGroupHeartbeatRequest {
        let config = &self.shared.config;
        let text = |text: &String| StrBytes::from_string(text.clone());
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(self.coordinator().group_id())
            .with_member_id(text(&identity.member_id))
            .with_member_epoch(identity.generation.max(JOIN))
            .with_instance_id(self.instance())
            .with_rebalance_timeout_ms(UNCHANGED);
        let request = if before.is_none() {
            request
                .with_rebalance_timeout_ms(ms(config.rebalance_timeout))
                .with_server_assignor(config.group_remote_assignor.as_ref().map(text))
        } else {
            request
        };
        let request = if before.is_none_or(|before| before.topics != told.topics) {
            let names = told.topics.iter().map(|name| topic_name(name));
            request.with_subscribed_topic_names(Some(names.collect()))
        } else {
            request
        };
        if before.is_some_and(|before| before.owned == told.owned) {
            return request;
        }
        let topic = |(id, partitions): (&TopicId, &Vec<i32>)| {
            TopicPartitions::default()
                .with_topic_id(id.0)
                .with_partitions(partitions.clone())
        };
        request.with_topic_partitions(Some(told.owned.iter().map(topic).collect()))
    }

    /// Sends a heartbeat where the answer to the last one is not known: it may have brought another
    /// epoch, and with an old one nothing can be committed.
    pub(super) async fn learn_epoch(&self) {
        let Protocol::Consumer(state) = &self.protocol else {
            return;
        };
        let is_member = self.coordinator().identity().generation > JOIN;
        if is_member && state.0.lock().told.is_none() {
            let heartbeat = self.consumer_heartbeat(state);
            drop(tokio::time::timeout(LEAVE_TIMEOUT, heartbeat).await);
        }
    }

    /// Tells the coordinator, so that others get the partitions at once.
    pub(super) async fn consumer_leave(&self, identity: Identity) -> Result<(), RequestError> {
        let is_static = self.shared.config.group_instance_id.is_some();
        let epoch = if is_static { LEAVE_FOR_A_WHILE } else { LEAVE };
        let make = |_version| {
            ConsumerGroupHeartbeatRequest::default()
                .with_group_id(self.coordinator().group_id())
                .with_member_id(StrBytes::from_string(identity.member_id.clone()))
                .with_member_epoch(epoch)
                .with_instance_id(self.instance())
                .with_rebalance_timeout_ms(UNCHANGED)
        };
        self.ask(Duration::ZERO, make).await.map(drop)
    }
}

fn owned(owned: &[TopicPartition], ids: &BTreeMap<Arc<str>, TopicId>) -> Partitions {
    let mut partitions = Partitions::new();
    for name in owned {
        if let Some(id) = ids.get(&name.topic) {
            partitions.entry(*id).or_default().push(name.partition);
        }
    }
    sorted(partitions)
}

fn target_of(response: &ConsumerGroupHeartbeatResponse) -> Option<Partitions> {
    let assignment = response.assignment.as_ref()?;
    let topic = |topic: &consumer_group_heartbeat_response::TopicPartitions| {
        (TopicId(topic.topic_id), topic.partitions.clone())
    };
    let topics = assignment.topic_partitions.iter().map(topic);
    // A topic without partitions is none.
    Some(sorted(topics.filter(|(_, all)| !all.is_empty()).collect()))
}

fn sorted(mut partitions: Partitions) -> Partitions {
    partitions.values_mut().for_each(|all| all.sort_unstable());
    partitions
}
