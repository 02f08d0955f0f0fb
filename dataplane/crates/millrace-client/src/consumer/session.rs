//! Fetch sessions (KIP-227): a broker remembers what a consumer fetches from it, and requests name
//! only what changed.
//!
//! The first request of a session names everything (epoch 0); each later one has the next epoch,
//! the partitions that are new or at another offset, and those to forget. After any failure nobody
//! knows what the broker has seen, so the session starts over.

use std::collections::HashMap;

use millrace_model::TopicId;
use millrace_wire::messages::{
    FetchRequest,
    fetch_request::{FetchPartition, FetchTopic, ForgottenTopic},
};

use super::{
    config::ConsumerConfig,
    flow::{Fetch, FetchPart},
};
use crate::{
    error::ErrorCode,
    topic_partition::{TopicPartition, topic_name},
};

/// The first version with sessions.
const SESSION_FROM: i16 = 7;
/// The first version with leader epochs.
const EPOCH_FROM: i16 = 9;
/// The first version with topic ids.
pub(super) const TOPIC_ID_FROM: i16 = 13;
/// The first request of a session.
const INITIAL: i32 = 0;
/// The last request of a session.
const FINAL: i32 = -1;
/// No session at all.
const NO_SESSION: i32 = 0;

/// What the broker knows of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    topic_id: Option<TopicId>,
    offset: i64,
    leader_epoch: Option<i32>,
    max_bytes: usize,
}

impl Sent {
    fn new(part: &FetchPart) -> Self {
        Self {
            topic_id: part.topic_id,
            offset: part.offset,
            leader_epoch: part.leader_epoch,
            max_bytes: part.max_bytes,
        }
    }
}

/// The session with one broker.
#[derive(Debug, Default)]
pub(super) struct Session {
    id: i32,
    epoch: i32,
    /// Bounded by the assignment.
    sent: HashMap<TopicPartition, Sent>,
}

impl Session {
    /// The request for these partitions.
    pub(super) fn request(
        &mut self,
        version: i16,
        config: &ConsumerConfig,
        fetch: &Fetch,
    ) -> FetchRequest {
        let request = head(config, fetch);
        if version < SESSION_FROM {
            return request.with_topics(topics(version, fetch.parts.iter()));
        }
        let is_full = self.epoch == INITIAL;
        let mut wanted: HashMap<_, _> = fetch
            .parts
            .iter()
            .map(|part| (part.name.clone(), Sent::new(part)))
            .collect();
        let changed = fetch
            .parts
            .iter()
            .filter(|part| is_full || self.sent.get(&part.name) != wanted.get(&part.name));
        let changed = topics(version, changed);
        // A topic that was deleted and created again is another one.
        let forgotten = self.sent.iter().filter(|(name, sent)| {
            let still = wanted.get(*name);
            !is_full && still.is_none_or(|still| still.topic_id != sent.topic_id)
        });
        let forgotten = forget(version, forgotten);
        std::mem::swap(&mut self.sent, &mut wanted);
        request
            .with_session_id(self.id)
            .with_session_epoch(self.epoch)
            .with_topics(changed)
            .with_forgotten_topics_data(forgotten)
    }

    /// The request was answered.
    pub(super) fn answered(&mut self, session_id: i32) {
        if session_id == NO_SESSION {
            // The broker has no room for sessions now.
            *self = Self::default();
        } else {
            self.id = session_id;
            self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        }
    }

    /// The request failed as a whole, or has no answer.
    pub(super) fn failed(&mut self, error: Option<ErrorCode>) {
        if error == Some(ErrorCode::FETCH_SESSION_ID_NOT_FOUND) {
            self.id = NO_SESSION;
        }
        // With its id, the next request also ends the old session.
        self.epoch = INITIAL;
        self.sent.clear();
    }
}

/// The request that ends a session, which the broker would keep until it needs the place.
pub(super) fn end(session_id: i32) -> FetchRequest {
    FetchRequest::default()
        .with_session_id(session_id)
        .with_session_epoch(FINAL)
}

/// A request outside of any session.
pub(super) fn alone(version: i16, config: &ConsumerConfig, fetch: &Fetch) -> FetchRequest {
    head(config, fetch).with_topics(topics(version, fetch.parts.iter()))
}

fn head(config: &ConsumerConfig, fetch: &Fetch) -> FetchRequest {
    FetchRequest::default()
        .with_max_wait_ms(i32::try_from(config.fetch_max_wait.as_millis()).unwrap_or(i32::MAX))
        .with_min_bytes(config.fetch_min_bytes)
        .with_max_bytes(i32::try_from(fetch.max_bytes).unwrap_or(i32::MAX))
        .with_isolation_level(config.isolation_level.code())
}

fn topics<'a>(version: i16, parts: impl Iterator<Item = &'a FetchPart>) -> Vec<FetchTopic> {
    let mut topics: Vec<FetchTopic> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for part in parts {
        let at = *places.entry(&part.name.topic).or_insert_with(|| {
            let topic = FetchTopic::default();
            topics.push(match part.topic_id {
                Some(id) if version >= TOPIC_ID_FROM => topic.with_topic_id(id.0),
                _ => topic.with_topic(topic_name(&part.name.topic)),
            });
            topics.len() - 1
        });
        let partition = FetchPartition::default()
            .with_partition(part.name.partition)
            .with_fetch_offset(part.offset)
            .with_partition_max_bytes(i32::try_from(part.max_bytes).unwrap_or(i32::MAX));
        topics[at].partitions.push(if version >= EPOCH_FROM {
            partition.with_current_leader_epoch(part.leader_epoch.unwrap_or(-1))
        } else {
            partition
        });
    }
    topics
}

fn forget<'a>(
    version: i16,
    forgotten: impl Iterator<Item = (&'a TopicPartition, &'a Sent)>,
) -> Vec<ForgottenTopic> {
    let mut topics: Vec<ForgottenTopic> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (name, sent) in forgotten {
        let at = *places.entry(&name.topic).or_insert_with(|| {
            let topic = ForgottenTopic::default();
            topics.push(match sent.topic_id {
                Some(id) if version >= TOPIC_ID_FROM => topic.with_topic_id(id.0),
                _ => topic.with_topic(topic_name(&name.topic)),
            });
            topics.len() - 1
        });
        topics[at].partitions.push(name.partition);
    }
    topics
}
