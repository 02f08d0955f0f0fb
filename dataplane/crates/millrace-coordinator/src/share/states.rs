//! Which share partitions have state at the share coordinator, and what it is asked for.
//!
//! A partition is assigned only once its state is initialized, so that its leader finds it. What is about to be asked is written first:
//! whoever coordinates the group next knows which states may be there.
//!
//! ```text
//! unknown ──asked──▶ initializing ──done──▶ initialized ──offsets deleted──▶ deleting ──done──▶ unknown
//! ```

use std::collections::{BTreeMap, BTreeSet};

use millrace_model::{Offset, TopicId};

use super::ShareGroup;
use crate::{
    GroupError, ShareStateError,
    config::SHARE_STATES_RETRY,
    kept::Now,
    messages::GroupState,
    records::{StoredPartitions, StoredStates},
};

/// What the share coordinator is to be asked, of several partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StateRequest {
    /// To initialize the states with this epoch, each at its offset.
    Initialize(i32, Vec<((TopicId, u32), Option<Offset>)>),
    /// To delete the states.
    Delete(Vec<(TopicId, u32)>),
}

impl StateRequest {
    /// The partitions that it is about.
    pub(crate) fn partitions(&self) -> Vec<(TopicId, u32)> {
        match self {
            Self::Initialize(_, offsets) => offsets.iter().map(|(of, _)| *of).collect(),
            Self::Delete(partitions) => partitions.clone(),
        }
    }
}

/// What came of it, by partition.
pub(crate) type StateResults = BTreeMap<(TopicId, u32), Result<(), ShareStateError>>;

impl ShareGroup {
    /// Whether the share coordinator is being asked something that changes the states.
    pub(crate) const fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Initializes the states of partitions that the members subscribe to and that have none yet; nothing where there is none, or
    /// where it was tried a moment ago.
    pub(crate) fn begin_initialization(&mut self, now: Now) -> Option<StateRequest> {
        let as_of = (self.topics.revision(), self.epoch);
        // Every heartbeat asks, and mostly nothing has changed.
        if self.is_asking || now.at < self.ask_at || self.complete_as_of == Some(as_of) {
            return None;
        }
        let missing = self.uninitialized();
        if missing.is_empty() {
            self.complete_as_of = Some(as_of);
            return None;
        }
        let mut asked = Vec::new();
        for (topic, (name, numbers)) in missing {
            asked.extend(numbers.iter().map(|number| ((topic, *number), None)));
            self.initialize(topic, name, numbers);
        }
        self.store_states();
        self.is_asking = true;
        Some(StateRequest::Initialize(self.epoch, asked))
    }

    fn initialize(&mut self, topic: TopicId, name: String, numbers: BTreeSet<u32>) {
        self.states.deleting.remove(&topic);
        let initializing = self.states.initializing.entry(topic);
        let (_, known) = initializing.or_insert_with(|| (name, BTreeSet::new()));
        known.extend(numbers);
    }

    /// The partitions that the members subscribe to and whose states are not initialized.
    fn uninitialized(&self) -> StoredPartitions {
        let initialized = &self.states.initialized;
        let missing = |name: &String| {
            let (topic, count) = self.topics.find(name)?;
            let known = initialized.get(&topic).map(|(_, numbers)| numbers);
            let is_missing = |number: &u32| known.is_none_or(|known| !known.contains(number));
            let numbers: BTreeSet<u32> = (0..count).filter(is_missing).collect();
            (!numbers.is_empty()).then(|| (topic, (name.clone(), numbers)))
        };
        self.names().into_iter().filter_map(missing).collect()
    }

    /// The share coordinator has initialized states, or some of them: the members may have these partitions. `newest_epoch` is the
    /// greatest epoch of states that it keeps and that are newer than the request.
    pub(crate) fn initialization_finished(
        &mut self,
        results: &StateResults,
        newest_epoch: Option<i32>,
        now: Now,
    ) {
        self.is_asking = false;
        let mut is_changed = false;
        if let Some(newest) = newest_epoch.filter(|newest| *newest >= self.epoch) {
            // A request of a former group of this id came late. The next one is newer.
            self.epoch = newest;
            self.count_epoch();
            self.update_target();
        }
        for (&(topic, number), result) in results {
            match result {
                Ok(()) => is_changed |= self.initialized(topic, number),
                Err(error) => {
                    tracing::warn!(group = self.id, topic = %topic.0, number, %error, "a share partition was not initialized");
                    self.ask_at = now.at + SHARE_STATES_RETRY;
                }
            }
        }
        if is_changed {
            self.store_states();
            self.count_epoch();
            self.update_target();
        }
    }

    /// The state of a partition is initialized. False where nobody wants it any more, as when its topic was deleted meanwhile, or it was before.
    fn initialized(&mut self, topic: TopicId, number: u32) -> bool {
        let Some((name, numbers)) = self.states.initializing.get_mut(&topic) else {
            return false;
        };
        if !numbers.remove(&number) {
            return false;
        }
        let name = name.clone();
        if numbers.is_empty() {
            self.states.initializing.remove(&topic);
        }
        let initialized = self.states.initialized.entry(topic);
        let (_, known) = initialized.or_insert_with(|| (name, BTreeSet::new()));
        known.insert(number)
    }

    /// Forgets the states of topics that are gone. A topic of the same name that was created since has another id, and keeps its
    /// states.
    pub(crate) fn forget_gone_topics(&mut self) {
        let topics = &self.topics;
        let states = &mut self.states;
        let count = |states: &StoredStates| {
            let partitions = states.initializing.len() + states.initialized.len();
            partitions + states.deleting.len()
        };
        let known = count(states);
        let is_there = |topic: &TopicId| topics.name_of(*topic).is_some();
        states.deleting.retain(|topic, _| is_there(topic));
        states.initializing.retain(|topic, _| is_there(topic));
        states.initialized.retain(|topic, _| is_there(topic));
        if count(states) != known {
            self.complete_as_of = None;
            self.store_states();
        }
    }

    /// Whether offsets may be altered or deleted, or the group: it has no members, and nothing else changes the states.
    fn check_idle(&self) -> Result<(), GroupError> {
        match self.state() {
            _ if self.is_asking => Err(GroupError::CoordinatorNotAvailable),
            GroupState::Empty => Ok(()),
            _ => Err(GroupError::NonEmptyGroup),
        }
    }

    /// Lets partitions start again at other offsets. The epoch is counted, so that the states are another's from then on.
    pub(crate) fn begin_alter(
        &mut self,
        offsets: Vec<((TopicId, u32), Offset)>,
    ) -> Result<StateRequest, GroupError> {
        self.check_idle()?;
        for ((topic, number), _) in &offsets {
            let known = self.states.initialized.get(topic);
            let name = self.topics.name_of(*topic);
            if let Some(name) = name
                && known.is_none_or(|(_, numbers)| !numbers.contains(number))
            {
                let numbers = BTreeSet::from([*number]);
                self.initialize(*topic, name.as_str().to_owned(), numbers);
            }
        }
        self.count_epoch();
        self.update_target();
        self.store_states();
        self.is_asking = true;
        let offsets = offsets.into_iter();
        let offsets = offsets.map(|(partition, offset)| (partition, Some(offset)));
        Ok(StateRequest::Initialize(self.epoch, offsets.collect()))
    }

    /// Deletes the states of topics; none where they have none.
    pub(crate) fn begin_delete_offsets(
        &mut self,
        topics: &BTreeSet<TopicId>,
    ) -> Result<Option<StateRequest>, GroupError> {
        self.check_idle()?;
        let mut names: BTreeMap<TopicId, String> = BTreeMap::new();
        let mut partitions = BTreeSet::new();
        let states = &self.states;
        for known in [&states.initializing, &states.initialized] {
            for (topic, (name, numbers)) in known.iter().filter(|(id, _)| topics.contains(id)) {
                names.insert(*topic, name.clone());
                partitions.extend(numbers.iter().map(|number| (*topic, *number)));
            }
        }
        // Of a deletion that was interrupted, only the topic is known.
        for (topic, name) in states.deleting.iter().filter(|(id, _)| topics.contains(id)) {
            let count = self.topics.find(name).filter(|(id, _)| id == topic);
            let count = count.map_or(0, |(_, count)| count);
            names.insert(*topic, name.clone());
            partitions.extend((0..count).map(|number| (*topic, number)));
        }
        if names.is_empty() {
            return Ok(None);
        }
        let states = &mut self.states;
        states.initializing.retain(|id, _| !names.contains_key(id));
        states.initialized.retain(|id, _| !names.contains_key(id));
        states.deleting.extend(names);
        self.complete_as_of = None;
        self.store_states();
        self.is_asking = true;
        Ok(Some(StateRequest::Delete(partitions.into_iter().collect())))
    }

    /// Deletes the states of all topics; none where there is none.
    pub(crate) fn begin_delete_states(&mut self) -> Result<Option<StateRequest>, GroupError> {
        let states = &self.states;
        let known = states.initializing.keys().chain(states.initialized.keys());
        let all = known.chain(states.deleting.keys()).copied().collect();
        self.begin_delete_offsets(&all)
    }

    /// The share coordinator has deleted states, or some of them.
    pub(crate) fn deletion_finished(&mut self, results: &StateResults) {
        self.is_asking = false;
        let failed = results.iter().filter(|(_, result)| result.is_err());
        let failed: BTreeSet<TopicId> = failed.map(|((topic, _), _)| *topic).collect();
        let asked: BTreeSet<TopicId> = results.keys().map(|(topic, _)| *topic).collect();
        let done: Vec<_> = asked.difference(&failed).collect();
        for topic in &done {
            self.states.deleting.remove(topic);
        }
        if !done.is_empty() {
            self.store_states();
        }
    }

    /// The share coordinator has answered.
    pub(crate) const fn asked(&mut self) {
        self.is_asking = false;
    }

    /// The partitions with initialized state, by topic.
    pub(crate) const fn with_state(&self) -> &StoredPartitions {
        &self.states.initialized
    }
}
