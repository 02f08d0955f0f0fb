//! Share sessions: which partitions of this broker a member of a share group fetches.
//!
//! A member has at most one session at a broker, which counts its requests. It belongs to the connection that opened it, and is
//! closed with it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use millrace_model::TopicId;

/// The longest id of a member, bytes. Kafka's bound.
pub const MEMBER_ID_BYTES_MAX: usize = 36;

/// The partitions of all sessions together: four members for each partition that a group shares here.
pub const SESSION_PARTITIONS_MAX: usize = 16_384;

/// What a partition of a session takes in memory, bytes: its place in a tree, and a share of its session.
pub const SESSION_PARTITION_BYTES: usize = 128;

/// The epoch of a request that opens a session.
pub(crate) const INITIAL_EPOCH: i32 = 0;

/// Whose session it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionKey {
    /// The share group.
    pub group: String,
    /// The member.
    pub member: String,
}

/// A share session between two requests.
#[derive(Debug)]
struct Session {
    /// That of the next request.
    epoch: i32,
    /// The connection that opened it.
    connection: u64,
    partitions: BTreeSet<(TopicId, i32)>,
}

/// Why a request does not belong to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The member has no session here.
    #[error("the share session is not known")]
    NotFound,
    /// A request is missing, or came twice.
    #[error("the epoch of the share session is another one")]
    InvalidEpoch,
    /// There are as many sessions as may be, or as many partitions in them.
    #[error("there are too many share sessions")]
    LimitReached,
}

/// The share sessions of a broker.
#[derive(Debug)]
pub struct Sessions {
    sessions_max: usize,
    by_key: HashMap<SessionKey, Session>,
    by_connection: BTreeSet<(u64, SessionKey)>,
    /// How many sessions a group has.
    of_group: BTreeMap<String, usize>,
    /// The partitions of all sessions.
    partitions: usize,
}

impl Session {
    /// What the member fetches.
    fn partitions(&self) -> Vec<(TopicId, i32)> {
        self.partitions.iter().copied().collect()
    }

    const fn check_epoch(&self, epoch: i32) -> Result<(), SessionError> {
        match self.epoch == epoch {
            true => Ok(()),
            false => Err(SessionError::InvalidEpoch),
        }
    }
}

impl Sessions {
    /// No sessions, and at most so many from now on.
    #[must_use]
    pub fn new(sessions_max: usize) -> Self {
        Self {
            sessions_max,
            by_key: HashMap::new(),
            by_connection: BTreeSet::new(),
            of_group: BTreeMap::new(),
            partitions: 0,
        }
    }

    /// The sessions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The partitions of all sessions.
    #[must_use]
    pub const fn partitions(&self) -> usize {
        self.partitions
    }

    /// Whether a group has a session here.
    #[must_use]
    pub fn has_group(&self, group: &str) -> bool {
        self.of_group.contains_key(group)
    }

    /// Checks that a member has a session.
    ///
    /// # Errors
    /// [`SessionError::NotFound`].
    pub fn check(&self, key: &SessionKey) -> Result<(), SessionError> {
        let known = self.by_key.contains_key(key);
        known.then_some(()).ok_or(SessionError::NotFound)
    }

    /// Opens a session, in the place of the one that the member has. Gives what the member fetches.
    ///
    /// # Errors
    /// [`SessionError::LimitReached`]. The member's former session is closed nevertheless.
    pub fn open(
        &mut self,
        key: SessionKey,
        connection: u64,
        partitions: impl IntoIterator<Item = (TopicId, i32)>,
    ) -> Result<Vec<(TopicId, i32)>, SessionError> {
        self.close(&key);
        let partitions: BTreeSet<_> = partitions.into_iter().collect();
        let all = self.partitions + partitions.len();
        if self.by_key.len() >= self.sessions_max || all > SESSION_PARTITIONS_MAX {
            return Err(SessionError::LimitReached);
        }
        self.partitions = all;
        *self.of_group.entry(key.group.clone()).or_default() += 1;
        self.by_connection.insert((connection, key.clone()));
        let session = Session {
            epoch: next_epoch(INITIAL_EPOCH),
            connection,
            partitions,
        };
        let partitions = session.partitions();
        self.by_key.insert(key, session);
        Ok(partitions)
    }

    /// Takes the next request of a session, which changes what the member fetches. Gives that.
    ///
    /// # Errors
    /// [`SessionError`]. A session that would get too large stays as it is.
    pub fn fetch(
        &mut self,
        key: &SessionKey,
        epoch: i32,
        added: impl IntoIterator<Item = (TopicId, i32)>,
        forgotten: impl IntoIterator<Item = (TopicId, i32)>,
    ) -> Result<Vec<(TopicId, i32)>, SessionError> {
        let session = self.by_key.get_mut(key).ok_or(SessionError::NotFound)?;
        session.check_epoch(epoch)?;
        let mut partitions = session.partitions.clone();
        partitions.extend(added);
        for partition in forgotten {
            partitions.remove(&partition);
        }
        let all = self.partitions - session.partitions.len() + partitions.len();
        if all > SESSION_PARTITIONS_MAX && partitions.len() > session.partitions.len() {
            return Err(SessionError::LimitReached);
        }
        self.partitions = all;
        session.epoch = next_epoch(epoch);
        session.partitions = partitions;
        Ok(session.partitions())
    }

    /// Takes the next request of a session, which only acknowledges.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn acknowledge(&mut self, key: &SessionKey, epoch: i32) -> Result<(), SessionError> {
        if epoch == INITIAL_EPOCH {
            return Err(SessionError::InvalidEpoch);
        }
        let session = self.by_key.get_mut(key).ok_or(SessionError::NotFound)?;
        session.check_epoch(epoch)?;
        session.epoch = next_epoch(epoch);
        Ok(())
    }

    /// Closes a session. Returns whether there was one.
    pub fn close(&mut self, key: &SessionKey) -> bool {
        let Some(session) = self.by_key.remove(key) else {
            return false;
        };
        self.partitions -= session.partitions.len();
        self.by_connection
            .remove(&(session.connection, key.clone()));
        if let Some(count) = self.of_group.get_mut(&key.group) {
            *count -= 1;
            if *count == 0 {
                self.of_group.remove(&key.group);
            }
        }
        true
    }

    /// The sessions that a connection has opened.
    #[must_use]
    pub fn of_connection(&self, connection: u64) -> Vec<SessionKey> {
        let first = SessionKey {
            group: String::new(),
            member: String::new(),
        };
        let own = { self.by_connection.range((connection, first)..) }
            .take_while(|(of, _)| *of == connection);
        own.map(|(_, key)| key.clone()).collect()
    }
}

/// Epochs go round, without those of requests that open and close sessions.
const fn next_epoch(epoch: i32) -> i32 {
    match epoch.checked_add(1) {
        Some(next) => next,
        None => INITIAL_EPOCH + 1,
    }
}

#[cfg(test)]
mod tests;
