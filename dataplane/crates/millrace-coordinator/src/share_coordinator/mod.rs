//! The share coordinator (KIP-932): the state of share partitions, kept in `__share_group_state`.
//!
//! One share partition is a pure state machine: the caller passes the time, and it does no I/O. A change goes to the log first and
//! counts once it is durable. Several may be on their way. Requests are judged by what the log will hold once
//! they have arrived, so that no write of a former leader comes behind the read by which a new leader has replaced it.
//!
//! | part | what it is |
//! |---|---|
//! | this file | the state machine |
//! | `batches` | merges state batches |
//! | `record` | Kafka's record formats |
//! | `kept` | a share partition as shards keep it |
//! | `coordinator` | the share coordinator as the rest of the broker sees it |
//! | `messages` | settings, bounds, errors |

mod batches;
mod coordinator;
mod kept;
pub(crate) mod messages;
mod record;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use millrace_model::Offset;
use tokio::sync::oneshot;

pub use self::coordinator::{ShareCoordinator, ShareCoordinatorParts};
use self::{
    batches::merge,
    kept::{Outcome, Settings},
    messages::{SHARE_STATE_BATCHES_MAX, ShareError},
    record::{Kind, Snapshot, Update, encode_key},
};
use crate::{
    kept::{Now, Written},
    share_state::{SharePartition, ShareState},
};

/// An epoch that stands for none: it fences nobody and is fenced by nobody.
const NO_EPOCH: i32 = -1;

/// A change of a share partition.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Replaces all that was known.
    Snapshot(Snapshot),
    /// Adds to it.
    Update(Update),
    /// The share partition is deleted.
    Delete,
    /// Nothing changes; whoever waits for it learns what was written before.
    Nothing,
}

/// Who waits for a change, and what it is told then.
pub(super) enum Reply {
    Nobody,
    Done(oneshot::Sender<Result<(), ShareError>>),
    /// The state as it is then.
    State(oneshot::Sender<Result<ShareState, ShareError>>),
}

impl Reply {
    fn send(self, state: Option<&Snapshot>, result: Result<(), ShareError>) {
        match self {
            Self::Nobody => {}
            Self::Done(reply) => drop(reply.send(result)),
            Self::State(reply) => {
                let state = result.and_then(|()| state.ok_or(ShareError::Uninitialized));
                drop(reply.send(state.map(Snapshot::to_state)));
            }
        }
    }
}

/// Waits for the answer to a change.
pub(super) type Answer<T> = oneshot::Receiver<Result<T, ShareError>>;

/// What a request came to.
pub(super) enum Step<T> {
    /// Answered at once.
    Done(T),
    /// Answered when it is durable.
    Written(Answer<T>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct KeptPartition {
    id: String,
    partition: SharePartition,
    settings: Arc<Settings>,
    /// What the log holds; `None` before the share partition is initialized.
    durable: Option<Snapshot>,
    /// What the log will hold once all changes on their way are in it. Counts while there are any.
    latest: Option<Snapshot>,
    /// How many changes are on their way.
    pending: usize,
    /// One of them could not be written: `latest` has more than the log will hold.
    is_uncertain: bool,
    /// Updates since the last snapshot in the log.
    updates: u32,
    /// The share partition is no longer here, and takes nothing on.
    is_dead: bool,
    writes: Vec<(Written, Outcome)>,
}

impl KeptPartition {
    /// Creates the state, or starts it again at another offset. The leader epoch stays, so that no former leader writes to the
    /// new state.
    pub(super) fn initialize(
        &mut self,
        state_epoch: i32,
        start_offset: Option<Offset>,
        now: Now,
    ) -> Result<Step<()>, ShareError> {
        self.check_alive()?;
        if state_epoch < 0 || !start_offset.is_none_or(is_legal) {
            return Err(ShareError::InvalidRequest);
        }
        let known = self.latest();
        let snapshot = match known {
            Some(known) if state_epoch < known.state_epoch => {
                return Err(ShareError::FencedStateEpoch);
            }
            // The answer to the same request was lost.
            Some(known) if state_epoch == known.state_epoch => return Ok(self.barrier(Reply::Done)),
            known => Snapshot {
                snapshot_epoch: known.map_or(0, |known| known.snapshot_epoch.wrapping_add(1)),
                state_epoch,
                leader_epoch: known.map_or(0, |known| known.leader_epoch),
                start_offset,
                created_ms: now.ms,
                written_ms: now.ms,
                batches: Vec::new(),
            },
        };
        Ok(self.change(Change::Snapshot(snapshot), Reply::Done))
    }

    /// Reads the state as the leader of an epoch, which fences all older ones.
    pub(super) fn read(
        &mut self,
        leader_epoch: i32,
        now: Now,
    ) -> Result<Step<ShareState>, ShareError> {
        let known = self.initialized()?;
        if leader_epoch < known.leader_epoch {
            return Err(ShareError::FencedLeaderEpoch);
        }
        if leader_epoch > known.leader_epoch {
            let update = Update {
                snapshot_epoch: known.snapshot_epoch,
                leader_epoch,
                start_offset: None,
                batches: Vec::new(),
            };
            let change = self.update_or_snapshot(update, now)?;
            return Ok(self.change(change, Reply::State));
        }
        match &self.durable {
            Some(durable) if self.pending == 0 => Ok(Step::Done(durable.to_state())),
            // The leader must see what it, or a former leader, has written before.
            _ => Ok(self.barrier(Reply::State)),
        }
    }

    /// Adds to the state.
    pub(super) fn write(&mut self, state: ShareState, now: Now) -> Result<Step<()>, ShareError> {
        state.check()?;
        let known = self.initialized()?;
        if state.leader_epoch != NO_EPOCH && state.leader_epoch < known.leader_epoch {
            return Err(ShareError::FencedLeaderEpoch);
        }
        if state.state_epoch != NO_EPOCH && state.state_epoch < known.state_epoch {
            return Err(ShareError::FencedStateEpoch);
        }
        let update = Update {
            snapshot_epoch: known.snapshot_epoch,
            leader_epoch: state.leader_epoch,
            // A write that was overtaken must not move it back.
            start_offset: state.start_offset.max(known.start_offset),
            batches: merge(&state.batches, &[], state.start_offset),
        };
        let change = self.update_or_snapshot(update, now)?;
        Ok(self.change(change, Reply::Done))
    }

    /// The state without its batches, as it is in the log.
    pub(super) fn summary(&self) -> Option<ShareState> {
        let durable = self.durable.as_ref().filter(|_| !self.is_dead)?;
        Some(ShareState {
            state_epoch: durable.state_epoch,
            leader_epoch: durable.leader_epoch,
            start_offset: durable.start_offset,
            batches: Vec::new(),
        })
    }

    /// Deletes the state.
    pub(super) fn delete(&mut self) -> Step<()> {
        match self.is_dead || (self.latest().is_none() && self.pending == 0) {
            true => Step::Done(()),
            false => self.change(Change::Delete, Reply::Done),
        }
    }

    /// Deletes the state if the topic is gone.
    pub(super) fn delete_if_orphaned(&mut self) {
        let topics = &self.settings.topics;
        let is_gone = topics.name_of(self.partition.topic_id).is_none();
        if is_gone && !self.is_dead && self.latest().is_some() {
            self.push(Change::Delete, Reply::Nobody);
        }
    }

    /// What the log will hold.
    fn latest(&self) -> Option<&Snapshot> {
        match self.pending {
            0 => self.durable.as_ref(),
            _ => self.latest.as_ref(),
        }
    }

    fn initialized(&self) -> Result<&Snapshot, ShareError> {
        let latest = self.latest().filter(|_| !self.is_dead);
        latest.ok_or(ShareError::Uninitialized)
    }

    fn check_alive(&self) -> Result<(), ShareError> {
        match self.is_dead {
            // The next request finds a new one.
            true => Err(ShareError::CoordinatorNotAvailable),
            false => Ok(()),
        }
    }

    /// The update, or, after so many of them, a snapshot that has it.
    fn update_or_snapshot(&self, update: Update, now: Now) -> Result<Change, ShareError> {
        let mut next = self.initialized()?.clone();
        next.apply(&update);
        if next.batches.len() > SHARE_STATE_BATCHES_MAX {
            return Err(ShareError::TooManyBatches);
        }
        // A snapshot must not have a change that was answered as failed.
        let is_due = self.updates >= self.settings.config.updates_per_snapshot;
        Ok(match is_due && !self.is_uncertain {
            true => Change::Snapshot(Snapshot {
                snapshot_epoch: next.snapshot_epoch.wrapping_add(1),
                written_ms: now.ms,
                ..next
            }),
            false => Change::Update(update),
        })
    }

    /// Waits for what is on its way.
    fn barrier<T>(
        &mut self,
        reply: impl FnOnce(oneshot::Sender<Result<T, ShareError>>) -> Reply,
    ) -> Step<T> {
        self.change(Change::Nothing, reply)
    }

    fn change<T>(
        &mut self,
        change: Change,
        reply: impl FnOnce(oneshot::Sender<Result<T, ShareError>>) -> Reply,
    ) -> Step<T> {
        let (sender, waiting) = oneshot::channel();
        self.push(change, reply(sender));
        Step::Written(waiting)
    }

    fn push(&mut self, change: Change, reply: Reply) {
        if self.pending == 0 {
            self.latest.clone_from(&self.durable);
        }
        self.pending += 1;
        apply(&mut self.latest, &change);
        let key = |kind| encode_key(kind, &self.partition);
        let record = match &change {
            Change::Snapshot(snapshot) => {
                self.updates = 0;
                Some((key(Kind::Snapshot), Some(snapshot.encode())))
            }
            Change::Update(update) => {
                self.updates = self.updates.saturating_add(1);
                Some((key(Kind::Update), Some(update.encode())))
            }
            Change::Delete => Some((key(Kind::Snapshot), None)),
            Change::Nothing => None,
        };
        let written = Written::Records(record.into_iter().collect());
        self.writes.push((written, Outcome { change, reply }));
    }

    /// A change is durable, or is not.
    fn settle(&mut self, change: &Change, result: Result<(), ShareError>) {
        self.pending = self.pending.saturating_sub(1);
        self.is_uncertain |= result.is_err();
        match (result, self.pending) {
            (Ok(()), 0) if !self.is_uncertain => self.durable = self.latest.take(),
            (Ok(()), _) => apply(&mut self.durable, change),
            (Err(_), _) => {}
        }
        if self.pending == 0 {
            self.latest = None;
            self.is_uncertain = false;
        }
    }

    fn is_nothing(&self) -> bool {
        self.durable.is_none() && self.pending == 0
    }
}

impl Snapshot {
    /// What an update without a snapshot before it adds to.
    fn before(update: &Update, written_ms: i64) -> Self {
        Self {
            snapshot_epoch: update.snapshot_epoch,
            state_epoch: 0,
            leader_epoch: 0,
            start_offset: None,
            created_ms: written_ms,
            written_ms,
            batches: Vec::new(),
        }
    }

    /// Takes an update in.
    fn apply(&mut self, update: &Update) {
        self.leader_epoch = self.leader_epoch.max(update.leader_epoch);
        self.start_offset = update.start_offset.max(self.start_offset);
        self.batches = merge(&self.batches, &update.batches, self.start_offset);
    }

    fn to_state(&self) -> ShareState {
        ShareState {
            state_epoch: self.state_epoch,
            leader_epoch: self.leader_epoch,
            start_offset: self.start_offset,
            batches: self.batches.clone(),
        }
    }
}

fn apply(state: &mut Option<Snapshot>, change: &Change) {
    match (change, state.as_mut()) {
        (Change::Snapshot(snapshot), _) => *state = Some(snapshot.clone()),
        (Change::Update(update), Some(state)) => state.apply(update),
        (Change::Delete, _) => *state = None,
        (Change::Update(_), None) | (Change::Nothing, _) => {}
    }
}

/// Kafka's numbers for states that are stored: available, acknowledged, archived.
const STORED_STATES: [i8; 3] = [0, 2, 4];

impl ShareState {
    /// Checks that it can be written.
    ///
    /// # Errors
    /// It has too many batches, or malformed ones.
    pub fn check(&self) -> Result<(), ShareError> {
        if self.batches.len() > SHARE_STATE_BATCHES_MAX {
            return Err(ShareError::TooManyBatches);
        }
        let are_epochs = self.leader_epoch >= NO_EPOCH && self.state_epoch >= NO_EPOCH;
        let are_batches = self.batches.iter().all(|batch| {
            batch.first_offset <= batch.last_offset
                && is_legal(batch.last_offset)
                && STORED_STATES.contains(&batch.delivery_state)
                && batch.delivery_count >= 0
        });
        match are_epochs && are_batches && self.start_offset.is_none_or(is_legal) {
            true => Ok(()),
            false => Err(ShareError::InvalidRequest),
        }
    }
}

/// Whether the log can have an offset.
fn is_legal(offset: Offset) -> bool {
    i64::try_from(offset).is_ok_and(|offset| offset < i64::MAX)
}
